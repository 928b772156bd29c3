/* The tokenizer in the metadata of a .gguf file. */
#include "runtime/gguf.h"
#include "runtime/tokenizer_parts.h"

#include <string.h>

/* Types of tokens in the format. */
enum { GGUF_TOKEN_CONTROL = 3, GGUF_TOKEN_USER = 4 };

/* How text is split, by the name in tokenizer.ggml.pre. */
static const struct {
  const char *name;
  bool digits; /* each digit is a piece */
  const char *pattern;
} splits[] = {
#define GPT2                                                           \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" \
  "\\s+(?!\\S)|\\s+"
#define LLAMA3(digits)                                                 \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    {"gpt-2", false, GPT2},
    {"smollm", true, GPT2},
    {"llama-bpe", false, LLAMA3("\\p{N}{1,3}")},
    {"qwen2", false, LLAMA3("\\p{N}")},
};

typedef struct Reader {
  Tokenizer *t;
  const Gguf *file;
  const char *path;
  Fault *fault;
} Reader;

static bool bad(Reader *r, const char *what) {
  fault_set(r->fault, "cannot read the tokenizer of \"%.200s\": %s", r->path,
            what);
  return false;
}

static const GgufValue *value(Reader *r, const char *name, GgufType type,
                              bool is_array) {
  const GgufValue *v = gguf_find(r->file, name);
  return v && v->type == type && v->is_array == is_array ? v : NULL;
}

static GgufText text_value(Reader *r, const char *name) {
  const GgufValue *v = value(r, name, GGUF_STRING, false);
  const uint8_t *at = v ? v->at : NULL;
  return v ? gguf_next_text(&at) : (GgufText){"", 0};
}

/* A number of a token or a flag; `missing` if there is none. */
static int64_t int_value(Reader *r, const char *name, GgufType type,
                         int64_t missing) {
  const GgufValue *v = value(r, name, type, false);
  const uint8_t *at = v ? v->at : NULL;
  return v ? gguf_next_number(&at, type).i : missing;
}

static bool is_text(GgufText t, const char *text) {
  return t.len == strlen(text) && memcmp(t.text, text, t.len) == 0;
}

static int64_t token_value(Reader *r, const char *name) {
  int64_t id = int_value(r, name, GGUF_U32, NO_TOKEN);
  return id < (int64_t)r->t->vocabulary.count ? id : NO_TOKEN;
}

static bool read_tokens(Reader *r) {
  const GgufValue *texts = value(r, "tokenizer.ggml.tokens", GGUF_STRING, true);
  const GgufValue *types =
      value(r, "tokenizer.ggml.token_type", GGUF_I32, true);
  if (!texts || !texts->count || texts->count > UINT32_MAX / 2)
    return bad(r, "it has no tokens");
  if (types && types->count != texts->count)
    return bad(r, "it has not one type for each token");
  Vocabulary *v = &r->t->vocabulary;
  const uint8_t *at = texts->at, *type_at = types ? types->at : NULL;
  vocabulary_init(r->t->arena, v, texts->count);
  for (size_t i = 0; i < texts->count; i++) {
    GgufText text = gguf_next_text(&at);
    int64_t type = types ? gguf_next_number(&type_at, GGUF_I32).i : 0;
    vocabulary_put(v, i, text_copy(r->t->arena, text.text, text.len));
    if (type == GGUF_TOKEN_CONTROL)
      v->tokens[i].flags = TOKEN_ADDED | TOKEN_SPECIAL;
    if (type == GGUF_TOKEN_USER)
      v->tokens[i].flags = TOKEN_ADDED;
  }
  return true;
}

/* "left right": two tokens, which make a third one. */
static bool read_merge(Reader *r, GgufText text, uint32_t rank) {
  const Vocabulary *v = &r->t->vocabulary;
  const char *space =
      text.len > 1 ? memchr(text.text + 1, ' ', text.len - 1) : NULL;
  if (!space)
    return bad(r, "a merge is damaged");
  size_t left_len = (size_t)(space - text.text);
  Text right = {space + 1, text.len - left_len - 1};
  Buffer both = {.arena = r->t->arena};
  buffer_add(&both, text.text, left_len);
  buffer_add(&both, right.text, right.len);
  int64_t left = vocabulary_find(v, text.text, left_len);
  int64_t next = vocabulary_find(v, right.text, right.len);
  int64_t token = vocabulary_find(v, both.text, both.len);
  if (left == NO_TOKEN || next == NO_TOKEN || token == NO_TOKEN)
    return bad(r, "a merge names no token");
  model_put_merge(&r->t->model, (Merge){(uint32_t)left, (uint32_t)next, rank,
                                        (uint32_t)token});
  return true;
}

static bool read_merges(Reader *r) {
  const GgufValue *merges =
      value(r, "tokenizer.ggml.merges", GGUF_STRING, true);
  if (!merges || merges->count > UINT32_MAX / 2)
    return bad(r, "it has no merges");
  const uint8_t *at = merges->at;
  model_init_merges(r->t->arena, &r->t->model, merges->count);
  for (uint32_t i = 0; i < merges->count; i++)
    if (!read_merge(r, gguf_next_text(&at), i))
      return false;
  return true;
}

static void add_step(Steps *steps, Arena *arena, Step step) {
  VEC_PUSH(arena, *steps, step);
}

static bool read_bpe(Reader *r) {
  Tokenizer *t = r->t;
  GgufText name = text_value(r, "tokenizer.ggml.pre");
  size_t k = 0;
  while (k < sizeof splits / sizeof *splits && !is_text(name, splits[k].name))
    k++;
  if (k == sizeof splits / sizeof *splits)
    return bad(r, "Axon does not know how it splits text");
  t->model.kind = MODEL_BPE;
  t->model.ignore_merges = is_text(name, "llama-bpe");
  if (splits[k].digits)
    add_step(&t->splitters, t->arena,
             (Step){.type = STEP_SPLIT_DIGITS, .mode = SPLIT_ISOLATED});
  Step bytes = {.type = STEP_SPLIT_BYTES, .use_regex = true};
  if (!step_set_regex(&bytes, splits[k].pattern, strlen(splits[k].pattern),
                      r->fault))
    return false;
  add_step(&t->splitters, t->arena, bytes);
  add_step(&t->decoders, t->arena, (Step){.type = STEP_JOIN_BYTES});
  return read_merges(r);
}

/* The tokens that begin a word have U+2581 in front; the others get "##". */
static bool read_wordpiece(Reader *r) {
  static const Text mark = {"\xe2\x96\x81", 3};
  Tokenizer *t = r->t;
  Vocabulary old = t->vocabulary;
  vocabulary_init(t->arena, &t->vocabulary, old.count);
  for (size_t i = 0; i < old.count; i++) {
    Text text = old.tokens[i].text;
    Buffer b = {.arena = t->arena};
    if (text_starts(text, mark))
      text = (Text){text.text + mark.len, text.len - mark.len};
    else if (!(old.tokens[i].flags & TOKEN_ADDED))
      buffer_puts(&b, "##");
    buffer_add(&b, text.text, text.len);
    vocabulary_put(&t->vocabulary, i, buffer_text(t->arena, &b));
    t->vocabulary.tokens[i].flags = old.tokens[i].flags;
  }
  t->model.kind = MODEL_WORDPIECE;
  t->model.prefix = (Text){"##", 2};
  t->model.max_word_chars = 100;
  add_step(&t->normalizers, t->arena,
           (Step){.type = STEP_BERT,
                  .clean = true,
                  .chinese = true,
                  .strip_accents = true,
                  .lowercase = true});
  add_step(&t->splitters, t->arena, (Step){.type = STEP_SPLIT_BERT});
  add_step(&t->decoders, t->arena,
           (Step){.type = STEP_JOIN_WORDPIECE,
                  .content = {"##", 2},
                  .cleanup = true});
  return true;
}

static bool read_unigram(Reader *r) {
  static const Text mark = {"\xe2\x96\x81", 3};
  Tokenizer *t = r->t;
  const GgufValue *scores = value(r, "tokenizer.ggml.scores", GGUF_F32, true);
  if (!scores || scores->count != t->vocabulary.count)
    return bad(r, "it has not one score for each token");
  if (gguf_find(r->file, "tokenizer.ggml.precompiled_charsmap"))
    return bad(r, "its normalization by a table is not supported");
  const uint8_t *at = scores->at;
  t->model.kind = MODEL_UNIGRAM;
  for (size_t i = 0; i < scores->count; i++) {
    double score = gguf_next_number(&at, GGUF_F32).f;
    t->vocabulary.tokens[i].score = (float)score;
    if (score < t->model.lowest_score)
      t->model.lowest_score = score;
  }
  Step step = {.type = STEP_METASPACE,
               .content = mark,
               .prepend = int_value(r, "tokenizer.ggml.add_space_prefix",
                                    GGUF_BOOL, true)
                              ? PREPEND_ALWAYS
                              : PREPEND_NEVER};
  add_step(&t->splitters, t->arena, step);
  add_step(&t->decoders, t->arena, step);
  return true;
}

static void read_template(Reader *r, bool is_on) {
  Tokenizer *t = r->t;
  int64_t begin = token_value(r, "tokenizer.ggml.bos_token_id");
  int64_t end = token_value(r, is_on ? "tokenizer.ggml.seperator_token_id"
                                     : "tokenizer.ggml.eos_token_id");
  if (begin != NO_TOKEN &&
      int_value(r, "tokenizer.ggml.add_bos_token", GGUF_BOOL, is_on))
    VEC_PUSH(t->arena, t->before, begin);
  if (end != NO_TOKEN &&
      int_value(r, "tokenizer.ggml.add_eos_token", GGUF_BOOL, is_on))
    VEC_PUSH(t->arena, t->after, end);
}

bool tokenizer_read_gguf(Tokenizer *t, const char *path, const Gguf *file,
                         Fault *fault) {
  Reader r = {t, file, path, fault};
  GgufText model = text_value(&r, "tokenizer.ggml.model");
  if (!model.len)
    return bad(&r, "the file has none");
  if (!read_tokens(&r))
    return false;
  bool is_bert = is_text(model, "bert");
  t->has_decoder = true;
  t->model.unknown = token_value(&r, "tokenizer.ggml.unknown_token_id");
  read_template(&r, is_bert);
  if (is_bert)
    return read_wordpiece(&r);
  if (is_text(model, "gpt2")) {
    t->model.unknown = NO_TOKEN;
    return read_bpe(&r);
  }
  return is_text(model, "t5") ? read_unigram(&r)
                              : bad(&r, "its model is not supported");
}
