/* The file tokenizer.json (github.com/huggingface/tokenizers). */
#include "runtime/json.h"
#include "runtime/tokenizer_parts.h"
#include "support/compiler.h"
#include "support/trap.h"

#include <stdarg.h>
#include <string.h>

enum {
  /* Numbers of tokens may have gaps, but not many. */
  MAX_GAP_FACTOR = 16,
  FREE_GAP = 4096,
  MAX_STEPS = 64,
  MAX_NESTING = 8,
  NUMBER_CHARS = 100, /* max_input_chars_per_word if absent */
};

typedef struct Reader {
  Tokenizer *t;
  const char *path;
  Fault *fault;
} Reader;

static bool bad(Reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
static bool bad(Reader *r, const char *format, ...) {
  char why[sizeof r->fault->message];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  fault_set(r->fault, "cannot read the tokenizer of \"%.200s\": %.250s",
            r->path, why);
  return false;
}

/* ---- values ---- */

static const json_t *member(const json_t *object, const char *name) {
  return object && json_is_object(object)
             ? jansson.json_object_get(object, name)
             : NULL;
}

static Text text_of(const json_t *v) {
  return v && json_is_string(v) ? (Text){jansson.json_string_value(v),
                                         jansson.json_string_length(v)}
                                : (Text){NULL, 0};
}

/* A copy, or "". */
static Text member_text(Reader *r, const json_t *object, const char *name) {
  Text t = text_of(member(object, name));
  return text_copy(r->t->arena, t.text, t.len);
}

static bool member_is(const json_t *object, const char *name,
                      const char *text) {
  Text t = text_of(member(object, name));
  return t.text && strcmp(t.text, text) == 0;
}

static bool flag(const json_t *object, const char *name, bool missing) {
  const json_t *v = member(object, name);
  return v && json_is_boolean(v) ? json_is_true(v) : missing;
}

static int64_t integer(const json_t *v, int64_t missing) {
  return v && json_is_integer(v) ? jansson.json_integer_value(v) : missing;
}

static size_t count_of(const json_t *v) {
  if (v && json_is_array(v))
    return jansson.json_array_size(v);
  return v && json_is_object(v) ? jansson.json_object_size(v) : 0;
}

static const json_t *item(const json_t *array, size_t i) {
  return array && json_is_array(array) ? jansson.json_array_get(array, i)
                                       : NULL;
}

/* ---- the vocabulary ---- */

/* The largest number of a token; -1 if one is invalid. */
static int64_t largest_number(const json_t *vocab, const json_t *added) {
  int64_t largest = (int64_t)count_of(vocab) - 1;
  if (json_is_object(vocab))
    for (void *at = jansson.json_object_iter((json_t *)(uintptr_t)vocab); at;
         at = jansson.json_object_iter_next((json_t *)(uintptr_t)vocab, at)) {
      int64_t id = integer(jansson.json_object_iter_value(at), -1);
      if (id < 0)
        return -1;
      largest = id > largest ? id : largest;
    }
  for (size_t i = 0; i < count_of(added); i++) {
    int64_t id = integer(member(item(added, i), "id"), -1);
    if (id < 0)
      return -1;
    largest = id > largest ? id : largest;
  }
  return largest;
}

static void put(Reader *r, int64_t id, Text t) {
  vocabulary_put(&r->t->vocabulary, (size_t)id,
                 text_copy(r->t->arena, t.text, t.len));
}

static void put_object(Reader *r, const json_t *vocab) {
  json_t *object = (json_t *)(uintptr_t)vocab;
  for (void *at = jansson.json_object_iter(object); at;
       at = jansson.json_object_iter_next(object, at)) {
    const char *text = jansson.json_object_iter_key(at);
    put(r, integer(jansson.json_object_iter_value(at), 0),
        (Text){text, strlen(text)});
  }
}

/* The tokens of a unigram model: a list of [text, score]. */
static bool put_scored(Reader *r, const json_t *vocab) {
  Model *m = &r->t->model;
  for (size_t i = 0; i < count_of(vocab); i++) {
    const json_t *pair = item(vocab, i), *score = item(pair, 1);
    Text text = text_of(item(pair, 0));
    if (!text.text || !score || !json_is_number(score))
      return bad(r, "token %zu has no text and score", i);
    double x = jansson.json_number_value(score);
    put(r, (int64_t)i, text);
    r->t->vocabulary.tokens[i].score = (float)x;
    m->lowest_score = i && m->lowest_score < x ? m->lowest_score : x;
  }
  return true;
}

static void put_added(Reader *r, const json_t *token) {
  static const struct {
    const char *name;
    uint32_t flag;
  } flags[] = {{"special", TOKEN_SPECIAL},
               {"normalized", TOKEN_NORMALIZED},
               {"single_word", TOKEN_SINGLE_WORD},
               {"lstrip", TOKEN_STRIPS_LEFT},
               {"rstrip", TOKEN_STRIPS_RIGHT}};
  size_t id = (size_t)integer(member(token, "id"), 0);
  put(r, (int64_t)id, member_text(r, token, "content"));
  Token *to = &r->t->vocabulary.tokens[id];
  to->flags = TOKEN_ADDED;
  for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
    if (flag(token, flags[k].name, false))
      to->flags |= flags[k].flag;
}

static bool read_vocabulary(Reader *r, const json_t *model,
                            const json_t *added) {
  const json_t *vocab = member(model, "vocab");
  bool scored = r->t->model.kind == MODEL_UNIGRAM;
  if (!vocab || !(scored ? json_is_array(vocab) : json_is_object(vocab)))
    return bad(r, "it has no vocabulary");
  size_t count = count_of(vocab) + count_of(added);
  int64_t largest = largest_number(vocab, added);
  if (largest < 0 || largest > (int64_t)(MAX_GAP_FACTOR * count + FREE_GAP))
    return bad(r, "a token has an invalid number");
  vocabulary_init(r->t->arena, &r->t->vocabulary, (size_t)largest + 1);
  if (scored ? !put_scored(r, vocab) : (put_object(r, vocab), false))
    return false;
  for (size_t i = 0; i < count_of(added); i++)
    put_added(r, item(added, i));
  return true;
}

static int64_t token_named(Reader *r, Text t) {
  return t.text ? vocabulary_find(&r->t->vocabulary, t.text, t.len) : NO_TOKEN;
}

/* ---- models ---- */

/* "left right" or ["left", "right"]. */
static bool read_merge(Reader *r, const json_t *v, uint32_t rank) {
  Text left = text_of(item(v, 0)), right = text_of(item(v, 1));
  Text both = text_of(v);
  const char *space =
      both.text ? strchr(both.text + (both.len > 0), ' ') : NULL;
  if (space) {
    left = (Text){both.text, (size_t)(space - both.text)};
    right = (Text){space + 1, both.len - left.len - 1};
  }
  Buffer b = {.arena = r->t->arena};
  size_t prefix = r->t->model.prefix.len;
  if (!left.text || !right.text || right.len < prefix)
    return bad(r, "merge %u is damaged", rank);
  buffer_add(&b, left.text, left.len);
  buffer_add(&b, right.text + prefix, right.len - prefix);
  int64_t x = token_named(r, left), y = token_named(r, right);
  int64_t token = b.len ? token_named(r, (Text){b.text, b.len}) : NO_TOKEN;
  if (x == NO_TOKEN || y == NO_TOKEN || token == NO_TOKEN)
    return bad(r, "merge %u names no token", rank);
  model_put_merge(&r->t->model,
                  (Merge){(uint32_t)x, (uint32_t)y, rank, (uint32_t)token});
  return true;
}

static bool read_merges(Reader *r, const json_t *merges) {
  if (!merges || !json_is_array(merges))
    return bad(r, "it has no merges");
  model_init_merges(r->t->arena, &r->t->model, count_of(merges));
  for (size_t i = 0; i < count_of(merges); i++)
    if (!read_merge(r, item(merges, i), (uint32_t)i))
      return false;
  return true;
}

static bool read_model(Reader *r, const json_t *root) {
  static const char *const names[] = {[MODEL_WORDPIECE] = "WordPiece",
                                      [MODEL_BPE] = "BPE",
                                      [MODEL_UNIGRAM] = "Unigram"};
  const json_t *json = member(root, "model");
  Model *m = &r->t->model;
  size_t kind = 0, kinds = sizeof names / sizeof *names;
  while (kind < kinds && !member_is(json, "type", names[kind]))
    kind++;
  if (kind == kinds && member(json, "merges"))
    kind = MODEL_BPE; /* old files have no type */
  if (kind == kinds)
    return bad(r, "its model \"%.40s\" is not WordPiece, BPE or Unigram",
               member_text(r, json, "type").text);
  m->kind = (ModelKind)kind;
  m->prefix = member_text(r, json, "continuing_subword_prefix");
  m->suffix = member_text(r, json, "end_of_word_suffix");
  int64_t chars =
      integer(member(json, "max_input_chars_per_word"), NUMBER_CHARS);
  m->max_word_chars = chars < 0 ? 0 : (size_t)chars;
  m->fuse_unknown = flag(json, "fuse_unk", false);
  m->byte_fallback = flag(json, "byte_fallback", false);
  m->ignore_merges = flag(json, "ignore_merges", false);
  if (!read_vocabulary(r, json, member(root, "added_tokens")))
    return false;
  m->unknown = token_named(r, text_of(member(json, "unk_token")));
  if (m->kind == MODEL_UNIGRAM) {
    int64_t unknown = integer(member(json, "unk_id"), NO_TOKEN);
    bool there = unknown >= 0 && unknown < (int64_t)r->t->vocabulary.count;
    m->unknown = there ? unknown : NO_TOKEN;
  }
  return m->kind != MODEL_BPE || read_merges(r, member(json, "merges"));
}

/* ---- steps ---- */

static bool set_pattern(Reader *r, Step *s, const json_t *json) {
  Text regex = text_of(member(json, "Regex"));
  s->pattern = member_text(r, json, "String");
  if (regex.text)
    return step_set_regex(s, regex.text, regex.len, r->fault);
  return s->pattern.len || bad(r, "a pattern is damaged");
}

static bool set_mode(Reader *r, Step *s, const json_t *json) {
  static const char *const names[] = {
      [SPLIT_ISOLATED] = "Isolated",
      [SPLIT_REMOVED] = "Removed",
      [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
      [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
      [SPLIT_CONTIGUOUS] = "Contiguous"};
  Text name = text_of(member(json, "behavior"));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!name.text || strcmp(name.text, names[i]) == 0) {
      s->mode = (SplitMode)i;
      return true;
    }
  return bad(r, "its behavior \"%.40s\" is not supported", name.text);
}

static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

static bool set_bert(Reader *r, Step *s, const json_t *json) {
  (void)r;
  s->clean = flag(json, "clean_text", true);
  s->chinese = flag(json, "handle_chinese_chars", true);
  s->lowercase = flag(json, "lowercase", true);
  s->strip_accents = flag(json, "strip_accents", s->lowercase);
  return true;
}

static bool set_trim(Reader *r, Step *s, const json_t *json) {
  (void)r;
  s->left = flag(json, "strip_left", true);
  s->right = flag(json, "strip_right", true);
  return true;
}

static bool set_prepend(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "prepend");
  return true;
}

static bool set_replace(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "content");
  return set_pattern(r, s, member(json, "pattern"));
}

static bool set_split(Reader *r, Step *s, const json_t *json) {
  s->is_inverted = flag(json, "invert", false);
  return set_mode(r, s, json) && set_pattern(r, s, member(json, "pattern"));
}

static bool set_bytes(Reader *r, Step *s, const json_t *json) {
  s->prepend =
      flag(json, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
  s->use_regex = flag(json, "use_regex", true);
  return !s->use_regex ||
         step_set_regex(s, gpt2_pattern, sizeof gpt2_pattern - 1, r->fault);
}

static bool set_digits(Reader *r, Step *s, const json_t *json) {
  (void)r;
  s->mode = flag(json, "individual_digits", false) ? SPLIT_ISOLATED
                                                   : SPLIT_CONTIGUOUS;
  return true;
}

static bool set_spaces(Reader *r, Step *s, const json_t *json) {
  (void)r, (void)json;
  s->mode = SPLIT_REMOVED;
  return true;
}

static bool set_words(Reader *r, Step *s, const json_t *json) {
/* Alphabetic characters, marks, digits, connectors and joiners: \w of Rust. */
#define WORD                                                      \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}"           \
  "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
  "\\x{1f170}-\\x{1f189}"
  static const char words[] = "[" WORD "]+|[^" WORD "\\s]+";
  (void)json;
  s->mode = SPLIT_REMOVED;
  s->is_inverted = true;
  return step_set_regex(s, words, sizeof words - 1, r->fault);
}

static bool set_metaspace(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "replacement");
  s->use_regex = flag(json, "split", true);
  s->prepend = member_is(json, "prepend_scheme", "never")   ? PREPEND_NEVER
               : member_is(json, "prepend_scheme", "first") ? PREPEND_FIRST
               : flag(json, "add_prefix_space", true)       ? PREPEND_ALWAYS
                                                            : PREPEND_NEVER;
  return s->content.len || bad(r, "a replacement is missing");
}

static bool set_joined(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "prefix");
  s->cleanup = flag(json, "cleanup", true);
  return true;
}

static bool set_suffix(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "suffix");
  return s->content.len || bad(r, "a suffix is missing");
}

static bool set_ends(Reader *r, Step *s, const json_t *json) {
  s->content = member_text(r, json, "content");
  s->start = (uint32_t)integer(member(json, "start"), 0);
  s->stop = (uint32_t)integer(member(json, "stop"), 0);
  return true;
}

typedef enum StepRole { ROLE_NORMALIZER, ROLE_SPLITTER, ROLE_DECODER } StepRole;

typedef struct StepName {
  const char *name;
  StepRole role;
  StepType type;
  NormalForm form;
  bool (*set)(Reader *r, Step *s, const json_t *json); /* or NULL */
} StepName;

static const StepName step_names[] = {
    {"BertNormalizer", ROLE_NORMALIZER, STEP_BERT, FORM_NFC, set_bert},
    {"NFC", ROLE_NORMALIZER, STEP_NORMAL_FORM, FORM_NFC, NULL},
    {"NFD", ROLE_NORMALIZER, STEP_NORMAL_FORM, FORM_NFD, NULL},
    {"NFKC", ROLE_NORMALIZER, STEP_NORMAL_FORM, FORM_NFKC, NULL},
    {"NFKD", ROLE_NORMALIZER, STEP_NORMAL_FORM, FORM_NFKD, NULL},
    {"Lowercase", ROLE_NORMALIZER, STEP_LOWERCASE, FORM_NFC, NULL},
    {"StripAccents", ROLE_NORMALIZER, STEP_STRIP_ACCENTS, FORM_NFC, NULL},
    {"Strip", ROLE_NORMALIZER, STEP_TRIM, FORM_NFC, set_trim},
    {"Prepend", ROLE_NORMALIZER, STEP_PREPEND, FORM_NFC, set_prepend},
    {"Replace", ROLE_NORMALIZER, STEP_REPLACE, FORM_NFC, set_replace},
    {"BertPreTokenizer", ROLE_SPLITTER, STEP_SPLIT_BERT, FORM_NFC, NULL},
    {"ByteLevel", ROLE_SPLITTER, STEP_SPLIT_BYTES, FORM_NFC, set_bytes},
    {"Split", ROLE_SPLITTER, STEP_SPLIT_REGEX, FORM_NFC, set_split},
    {"Digits", ROLE_SPLITTER, STEP_SPLIT_DIGITS, FORM_NFC, set_digits},
    {"WhitespaceSplit", ROLE_SPLITTER, STEP_SPLIT_SPACES, FORM_NFC, set_spaces},
    {"Whitespace", ROLE_SPLITTER, STEP_SPLIT_REGEX, FORM_NFC, set_words},
    {"Punctuation", ROLE_SPLITTER, STEP_SPLIT_PUNCTUATION, FORM_NFC, set_mode},
    {"Metaspace", ROLE_SPLITTER, STEP_METASPACE, FORM_NFC, set_metaspace},
    {"WordPiece", ROLE_DECODER, STEP_JOIN_WORDPIECE, FORM_NFC, set_joined},
    {"ByteLevel", ROLE_DECODER, STEP_JOIN_BYTES, FORM_NFC, NULL},
    {"BPEDecoder", ROLE_DECODER, STEP_JOIN_SUFFIX, FORM_NFC, set_suffix},
    {"ByteFallback", ROLE_DECODER, STEP_BYTE_FALLBACK, FORM_NFC, NULL},
    {"Fuse", ROLE_DECODER, STEP_FUSE, FORM_NFC, NULL},
    {"Strip", ROLE_DECODER, STEP_STRIP_ENDS, FORM_NFC, set_ends},
    {"Replace", ROLE_DECODER, STEP_REPLACE, FORM_NFC, set_replace},
    {"Metaspace", ROLE_DECODER, STEP_METASPACE, FORM_NFC, set_metaspace},
};

static bool read_step(Reader *r, const json_t *json, StepRole role,
                      Steps *steps) {
  for (size_t i = 0; i < sizeof step_names / sizeof *step_names; i++) {
    const StepName *row = &step_names[i];
    if (row->role != role || !member_is(json, "type", row->name))
      continue;
    if (steps->len == MAX_STEPS)
      return bad(r, "it has more than %d steps", MAX_STEPS);
    /* The list owns the regular expression from the start. */
    VEC_PUSH(r->t->arena, *steps,
             ((Step){.type = row->type, .form = row->form}));
    return !row->set || row->set(r, &steps->at[steps->len - 1], json);
  }
  return bad(r, "its step \"%.40s\" is not supported",
             member_text(r, json, "type").text);
}

/* A step, or a Sequence of steps in the member `list`. */
static bool read_steps(Reader *r, const json_t *json, StepRole role,
                       Steps *steps, int nesting) {
  static const char *const lists[] = {[ROLE_NORMALIZER] = "normalizers",
                                      [ROLE_SPLITTER] = "pretokenizers",
                                      [ROLE_DECODER] = "decoders"};
  if (!json || json_is_null(json))
    return true;
  if (!member_is(json, "type", "Sequence"))
    return read_step(r, json, role, steps);
  const json_t *list = member(json, lists[role]);
  if (nesting == MAX_NESTING)
    return bad(r, "its steps are nested too deeply");
  for (size_t i = 0; i < count_of(list); i++)
    if (!read_steps(r, item(list, i), role, steps, nesting + 1))
      return false;
  return true;
}

/* ---- the template ---- */

static bool put_template_token(Reader *r, const json_t *part,
                               const json_t *tokens, bool is_after) {
  Text name = text_of(member(part, "id"));
  const json_t *ids =
      name.text ? member(member(tokens, name.text), "ids") : NULL;
  for (size_t i = 0; i < count_of(ids); i++) {
    int64_t id = integer(item(ids, i), -1);
    if (id < 0 || id >= (int64_t)r->t->vocabulary.count)
      return bad(r, "its template names no token");
    if (is_after)
      VEC_PUSH(r->t->arena, r->t->after, id);
    else
      VEC_PUSH(r->t->arena, r->t->before, id);
  }
  return ids || bad(r, "its template names no token");
}

static bool read_template(Reader *r, const json_t *json) {
  const json_t *parts = member(json, "single");
  bool is_after = false;
  for (size_t i = 0; i < count_of(parts); i++) {
    const json_t *part = item(parts, i), *token = member(part, "SpecialToken");
    if (member(part, "Sequence"))
      is_after = true;
    else if (!put_template_token(r, token, member(json, "special_tokens"),
                                 is_after))
      return false;
  }
  return true;
}

/* ["[SEP]", 102] and ["[CLS]", 101] */
static bool read_pair(Reader *r, const json_t *json) {
  int64_t begin = integer(item(member(json, "cls"), 1), -1);
  int64_t end = integer(item(member(json, "sep"), 1), -1);
  int64_t count = (int64_t)r->t->vocabulary.count;
  if (begin < 0 || end < 0 || begin >= count || end >= count)
    return bad(r, "its template names no token");
  VEC_PUSH(r->t->arena, r->t->before, begin);
  VEC_PUSH(r->t->arena, r->t->after, end);
  return true;
}

static bool read_post_processor(Reader *r, const json_t *json, int nesting) {
  if (!json || json_is_null(json) || member_is(json, "type", "ByteLevel"))
    return true;
  if (member_is(json, "type", "TemplateProcessing"))
    return read_template(r, json);
  if (member_is(json, "type", "BertProcessing") ||
      member_is(json, "type", "RobertaProcessing"))
    return read_pair(r, json);
  if (!member_is(json, "type", "Sequence") || nesting == MAX_NESTING)
    return bad(r, "its step \"%.40s\" is not supported",
               member_text(r, json, "type").text);
  const json_t *list = member(json, "processors");
  for (size_t i = 0; i < count_of(list); i++)
    if (!read_post_processor(r, item(list, i), nesting + 1))
      return false;
  return true;
}

static bool read_root(Reader *r, const json_t *root) {
  Tokenizer *t = r->t;
  const json_t *decoder = member(root, "decoder");
  t->has_decoder = decoder && !json_is_null(decoder);
  return read_model(r, root) &&
         read_steps(r, member(root, "normalizer"), ROLE_NORMALIZER,
                    &t->normalizers, 0) &&
         read_steps(r, member(root, "pre_tokenizer"), ROLE_SPLITTER,
                    &t->splitters, 0) &&
         read_steps(r, decoder, ROLE_DECODER, &t->decoders, 0) &&
         read_post_processor(r, member(root, "post_processor"), 0);
}

bool tokenizer_read_json(Tokenizer *t, const char *path, const char *text,
                         size_t len, Fault *fault) {
  Reader r = {t, path, fault};
  json_error_t error;
  if (!json_load_library(fault))
    return false;
  json_t *root = jansson.json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return bad(&r, "line %d: %s", error.line, error.text);
  Trap trap;
  volatile bool ok = false;
  if (TRAP_SET(trap) == FAIL_NONE) {
    ok = read_root(&r, root);
    trap_end(&trap);
  }
  json_decref_library(root);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  return ok;
}
