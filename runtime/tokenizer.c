/* Tokenizers: the list of open ones, encoding and decoding. */
#include "runtime/tokenizer.h"
#include "runtime/fork_lock.h"
#include "runtime/gguf.h"
#include "runtime/internal.h"
#include "runtime/tokenizer_parts.h"
#include "support/arena.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/utf8.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
  MAX_OPEN = 1000,
  MAX_TEXT_BYTES = 16 << 20,
};

/* ---- texts and vocabularies ---- */

Text text_copy(Arena *arena, const char *text, size_t len) {
  char *copy = arena_alloc(arena, len + 1);
  if (len)
    memcpy(copy, text, len);
  return (Text){copy, len};
}

bool text_equal(Text a, Text b) {
  return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

bool text_starts(Text a, Text start) {
  return a.len >= start.len && memcmp(a.text, start.text, start.len) == 0;
}

Text buffer_text(Arena *arena, const Buffer *b) {
  return b->arena == arena && b->text ? (Text){b->text, b->len}
                                      : text_copy(arena, b->text, b->len);
}

/* FNV-1a */
static size_t hash(const char *text, size_t len) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return (size_t)(h ^ h >> 29);
}

void vocabulary_init(Arena *arena, Vocabulary *v, size_t count) {
  *v = (Vocabulary){.count = count, .slot_count = 16};
  while (v->slot_count < 2 * count)
    v->slot_count *= 2;
  v->tokens = NEW_ARRAY(arena, Token, count + 1);
  v->slots = NEW_ARRAY(arena, uint32_t, v->slot_count);
}

static size_t find_slot(const Vocabulary *v, Text text) {
  size_t slot = hash(text.text, text.len) & (v->slot_count - 1);
  while (v->slots[slot] &&
         !text_equal(v->tokens[v->slots[slot] - 1].text, text))
    slot = (slot + 1) & (v->slot_count - 1);
  return slot;
}

/* The first token with a text keeps it. */
void vocabulary_put(Vocabulary *v, size_t id, Text text) {
  if (v->tokens[id].text.text)
    return;
  size_t slot = find_slot(v, text);
  v->tokens[id].text = text;
  if (!v->slots[slot])
    v->slots[slot] = (uint32_t)id + 1;
  if (text.len > v->longest)
    v->longest = text.len;
}

int64_t vocabulary_find(const Vocabulary *v, const char *text, size_t len) {
  uint32_t slot = v->slots[find_slot(v, (Text){text, len})];
  return slot ? (int64_t)slot - 1 : NO_TOKEN;
}

/* ---- reading ---- */

bool step_set_regex(Step *s, const char *pattern, size_t len, Fault *fault) {
  /* In PCRE2, but not in the original, U+180E is a space. */
  static const char spaces[] =
      "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}"
      "-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
      "\\x{3000}";
  Buffer b = {0};
  bool in_class = false;
  for (size_t i = 0; i < len; i++) {
    char c = pattern[i], next = i + 1 < len ? pattern[i + 1] : 0;
    if (c == '\\' && (next == 's' || (next == 'S' && !in_class))) {
      buffer_printf(&b,
                    in_class      ? "%s"
                    : next == 's' ? "[%s]"
                                  : "[^%s]",
                    spaces);
      i++;
      continue;
    }
    in_class = c == '[' ? true : c == ']' ? false : in_class;
    buffer_putc(&b, c);
    if (c == '\\' && next)
      buffer_putc(&b, pattern[++i]);
  }
  s->regex = regex_compile(b.text ? b.text : "", b.len, fault);
  buffer_free(&b);
  return s->regex != NULL;
}

static void free_regexes(Steps *steps) {
  for (uint32_t i = 0; i < steps->len; i++)
    regex_free(steps->at[i].regex);
}

static void tokenizer_free(Tokenizer *t) {
  free_regexes(&t->normalizers);
  free_regexes(&t->splitters);
  free_regexes(&t->decoders);
  arena_free(t->arena);
}

static void find_bytes(Tokenizer *t) {
  for (unsigned i = 0; i < 256; i++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", i);
    t->model.bytes[i] = vocabulary_find(&t->vocabulary, name, strlen(name));
  }
}

bool tokenizer_finish(Tokenizer *t, Fault *fault) {
  Work w = {.tokenizer = t, .arena = t->arena, .fault = fault};
  find_bytes(t);
  for (size_t i = 0; i < t->vocabulary.count; i++) {
    const Token *token = &t->vocabulary.tokens[i];
    Text text = token->text;
    if (!(token->flags & TOKEN_ADDED) || !text.len)
      continue;
    if (token->flags & TOKEN_NORMALIZED && !normalize_text(&w, text, &text))
      return false;
    if (!text.len)
      continue;
    VEC_PUSH(t->arena, t->added, ((Added){text, (int64_t)i}));
    t->starts_added[(unsigned char)*text.text] = true;
  }
  return true;
}

static bool read_json_file(Tokenizer *t, InputFile *in, Fault *fault) {
  if (!input_open(in, in->path, fault))
    return false;
  return input_check_header_size(in, in->size, fault) &&
         tokenizer_read_json(t, in->path, (const char *)in->bytes, in->size,
                             fault);
}

static bool read_tokenizer(Tokenizer *t, InputFile *in, Gguf **file,
                           Fault *fault) {
  const char *dot = strrchr(in->path, '.');
  if (!unicode_load(fault))
    return false;
  if (!dot || strcasecmp(dot, ".gguf") != 0)
    return read_json_file(t, in, fault) && tokenizer_finish(t, fault);
  *file = gguf_open(in->path, fault);
  return *file && tokenizer_read_gguf(t, in->path, *file, fault) &&
         tokenizer_finish(t, fault);
}

/* Returns NULL with a fault. */
static Tokenizer *load(const char *path, Fault *fault) {
  Arena *arena = arena_new();
  Trap trap;
  InputFile in = {.path = path};
  Gguf *file = NULL;
  Tokenizer *volatile t = NULL;
  volatile bool ok = false;
  if (TRAP_SET(trap) == FAIL_NONE) {
    t = NEW_ARRAY(arena, Tokenizer, 1);
    t->arena = arena;
    ok = read_tokenizer(t, &in, &file, fault);
    trap_end(&trap);
  }
  input_close(&in);
  if (file)
    gguf_close(file);
  if (ok)
    return t;
  if (t)
    tokenizer_free(t);
  else
    arena_free(arena);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  return NULL;
}

/* ---- the list ---- */

DEFINE_FORK_LOCK() /* also guards the searches of regular expressions */

static struct OpenTokenizer {
  Tokenizer *tokenizer;
  struct stat file;
} open_tokenizers[MAX_OPEN];
static int64_t open_count;

static int64_t find_open(const struct stat *is) {
  for (int64_t i = 0; i < open_count; i++) {
    const struct stat *was = &open_tokenizers[i].file;
    if (open_tokenizers[i].tokenizer && was->st_dev == is->st_dev &&
        was->st_ino == is->st_ino && was->st_size == is->st_size &&
        was->st_mtim.tv_sec == is->st_mtim.tv_sec &&
        was->st_mtim.tv_nsec == is->st_mtim.tv_nsec)
      return i;
  }
  return -1;
}

int64_t tokenizer_open(const char *path, Fault *fault) {
  struct stat is;
  bool there = stat(path, &is) == 0;
  lock();
  int64_t id = there ? find_open(&is) : -1;
  unlock();
  if (id >= 0)
    return id;
  Tokenizer *t = load(path, fault);
  if (!t)
    return -1;
  lock();
  id = open_count < MAX_OPEN ? open_count++ : -1;
  if (id >= 0)
    open_tokenizers[id] = (struct OpenTokenizer){t, is};
  unlock();
  if (id < 0) {
    tokenizer_free(t);
    fault_set(fault, "more than %d tokenizers are open", MAX_OPEN);
  }
  return id;
}

void tokenizer_close(int64_t id) {
  lock();
  Tokenizer *t =
      id >= 0 && id < open_count ? open_tokenizers[id].tokenizer : NULL;
  if (t) {
    open_tokenizers[id].tokenizer = NULL;
    open_count -= id + 1 == open_count;
  }
  unlock();
  if (t)
    tokenizer_free(t);
}

static const Tokenizer *tokenizer_of(int64_t id, Fault *fault) {
  lock();
  const Tokenizer *t =
      id >= 0 && id < open_count ? open_tokenizers[id].tokenizer : NULL;
  unlock();
  if (!t)
    fault_set(fault, "there is no tokenizer %lld", (long long)id);
  return t;
}

/* ---- added tokens ---- */

static bool is_word_char(uint32_t c) {
  return c == '_' || unicode_is_number(c) || c >= 0x80
             ? !unicode_is_space(c) && !unicode_is_punctuation(c)
             : (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool stands_alone(Text t, size_t from, size_t to) {
  const char *before = t.text + from, *after = t.text + to;
  while (before > t.text && ((unsigned char)*--before & 0xc0) == 0x80)
    ;
  return (!from || !is_word_char(unicode_next(&before))) &&
         (to == t.len || !is_word_char(unicode_next(&after)));
}

/* The longest added token at a position, or NULL. */
static const Added *added_at(const Work *w, Text text, size_t at,
                             bool normalized) {
  const Tokenizer *t = w->tokenizer;
  const Added *best = NULL;
  Text rest = {text.text + at, text.len - at};
  if (!t->starts_added[(unsigned char)*rest.text])
    return NULL;
  for (uint32_t i = 0; i < t->added.len; i++) {
    const Added *a = &t->added.at[i];
    uint32_t flags = t->vocabulary.tokens[a->token].flags;
    if (!(flags & TOKEN_NORMALIZED) == normalized ||
        (w->is_plain && flags & TOKEN_SPECIAL) || !text_starts(rest, a->text) ||
        (best && best->text.len >= a->text.len))
      continue;
    best = a;
  }
  return best;
}

static size_t skip_left(Text t, size_t at, size_t least) {
  while (at > least) {
    size_t last = at - 1;
    while (last > least && ((unsigned char)t.text[last] & 0xc0) == 0x80)
      last--;
    const char *next = t.text + last;
    if (!unicode_is_space(unicode_next(&next)))
      break;
    at = last;
  }
  return at;
}

static size_t skip_right(Text t, size_t at) {
  while (at < t.len) {
    const char *next = t.text + at;
    if (!unicode_is_space(unicode_next(&next)))
      break;
    at = (size_t)(next - t.text);
  }
  return at;
}

/* Cuts added tokens out of a text. */
static void cut_added(Work *w, Text t, bool normalized, bool is_first,
                      Pieces *to) {
  size_t done = 0, at = 0;
  while (at < t.len) {
    const Added *a = added_at(w, t, at, normalized);
    size_t from = at, end = a ? at + a->text.len : at + 1;
    uint32_t flags = a ? w->tokenizer->vocabulary.tokens[a->token].flags : 0;
    at = end;
    if (!a || (flags & TOKEN_SINGLE_WORD && !stands_alone(t, from, end)))
      continue;
    if (flags & TOKEN_STRIPS_LEFT)
      from = skip_left(t, from, done);
    if (flags & TOKEN_STRIPS_RIGHT)
      at = end = skip_right(t, end);
    add_piece(w, to, (Text){t.text + done, from - done}, NO_TOKEN,
              is_first && done == 0);
    add_piece(w, to, (Text){t.text + from, end - from}, a->token,
              is_first && from == 0);
    done = end;
  }
  add_piece(w, to, (Text){t.text + done, t.len - done}, NO_TOKEN,
            is_first && done == 0);
}

/* ---- encoding ---- */

static bool is_utf8(const char *text, size_t len) {
  size_t at = 0;
  while (at < len) {
    at += utf8_valid_prefix(text + at, len - at);
    if (at < len && text[at++])
      return false;
  }
  return true;
}

static bool encode_text(Work *w, Text text) {
  Pieces raw = {0}, pieces = {0};
  cut_added(w, text, false, true, &raw);
  for (uint32_t i = 0; i < raw.len; i++) {
    Text normal;
    if (raw.at[i].token != NO_TOKEN) {
      VEC_PUSH(w->arena, pieces, raw.at[i]);
      continue;
    }
    if (!normalize_text(w, raw.at[i].text, &normal))
      return false;
    cut_added(w, normal, true, raw.at[i].is_first, &pieces);
  }
  if (!split_pieces(w, &pieces))
    return false;
  for (uint32_t i = 0; i < pieces.len; i++)
    if (pieces.at[i].token != NO_TOKEN)
      VEC_PUSH(w->arena, w->ids, pieces.at[i].token);
    else
      model_encode(w, pieces.at[i].text);
  return true;
}

/* Runs `work` with a tokenizer and an arena of its own; frees the arena even if
 * it raises. */
static bool run_work(const Tokenizer *t, bool work(Work *w, void *context),
                     void *context, Fault *fault) {
  Arena *arena = arena_new();
  Trap trap;
  volatile bool ok = false;
  lock();
  if (TRAP_SET(trap) == FAIL_NONE) {
    Work w = {.tokenizer = t, .arena = arena, .fault = fault};
    ok = work(&w, context);
    trap_end(&trap);
  }
  unlock();
  arena_free(arena);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  return ok;
}

typedef struct EncodeWork {
  Text text;
  bool add_special, is_plain;
  TokenIds *out;
} EncodeWork;

static bool encode(Work *w, void *context) {
  const EncodeWork *e = context;
  TokenIds *out = e->out;
  const Tokenizer *t = w->tokenizer;
  w->is_plain = e->is_plain;
  for (uint32_t i = 0; e->add_special && i < t->before.len; i++)
    VEC_PUSH(w->arena, w->ids, t->before.at[i]);
  if (!encode_text(w, e->text))
    return false;
  for (uint32_t i = 0; e->add_special && i < t->after.len; i++)
    VEC_PUSH(w->arena, w->ids, t->after.at[i]);
  out->count = w->ids.len;
  out->at = mem_alloc((out->count + 1) * sizeof *out->at);
  if (out->count)
    memcpy(out->at, w->ids.at, out->count * sizeof *out->at);
  return true;
}

static bool run_encode(int64_t id, EncodeWork *e, Fault *fault) {
  const Tokenizer *t = tokenizer_of(id, fault);
  size_t len = e->text.len;
  *e->out = (TokenIds){0};
  if (!t)
    return false;
  if (!is_utf8(e->text.text, len) || len > MAX_TEXT_BYTES) {
    fault_set(fault, len > MAX_TEXT_BYTES ? "the text is longer than 16 MiB"
                                          : "the text is not UTF-8");
    return false;
  }
  return run_work(t, encode, e, fault);
}

bool tokenizer_encode(int64_t id, const char *text, size_t len,
                      bool add_special, TokenIds *out, Fault *fault) {
  EncodeWork e = {{text, len}, .add_special = add_special, .out = out};
  return run_encode(id, &e, fault);
}

bool tokenizer_encode_plain(int64_t id, const char *text, size_t len,
                            TokenIds *out, Fault *fault) {
  EncodeWork e = {{text, len}, .is_plain = true, .out = out};
  return run_encode(id, &e, fault);
}

/* ---- decoding ---- */

/* The token of a number, or NULL with a fault. */
static const Token *token_of(const Tokenizer *t, int64_t id, Fault *fault) {
  if (id >= 0 && (size_t)id < t->vocabulary.count &&
      t->vocabulary.tokens[id].text.text)
    return &t->vocabulary.tokens[id];
  fault_set(fault, "the tokenizer has no token %lld", (long long)id);
  fault_set_help(fault, "its tokens are 0 to %zu", t->vocabulary.count - 1);
  return NULL;
}

typedef struct DecodeWork {
  const int64_t *ids;
  size_t count;
  bool skip_special;
  Buffer *out;
} DecodeWork;

static bool decode(Work *w, void *context) {
  const DecodeWork *d = context;
  Text *texts = NEW_ARRAY(w->arena, Text, d->count + 1);
  Buffer b = {.arena = w->arena};
  size_t kept = 0;
  for (size_t i = 0; i < d->count; i++) {
    const Token *token = token_of(w->tokenizer, d->ids[i], w->fault);
    if (!token)
      return false;
    if (!d->skip_special || !(token->flags & TOKEN_SPECIAL))
      texts[kept++] = token->text;
  }
  if (!decode_tokens(w, texts, kept, &b))
    return false;
  if (b.len)
    buffer_add(d->out, b.text, b.len);
  return true;
}

bool tokenizer_decode(int64_t id, const int64_t *ids, size_t count,
                      bool skip_special, Buffer *out, Fault *fault) {
  const Tokenizer *t = tokenizer_of(id, fault);
  if (!t)
    return false;
  DecodeWork d = {ids, count, skip_special, out};
  return run_work(t, decode, &d, fault);
}

bool tokenizer_token(int64_t id, int64_t token, Buffer *out, Fault *fault) {
  const Tokenizer *t = tokenizer_of(id, fault);
  const Token *found = t ? token_of(t, token, fault) : NULL;
  if (found)
    buffer_add(out, found->text.text, found->text.len);
  return found != NULL;
}

bool tokenizer_find(int64_t id, const char *text, size_t len, int64_t *token,
                    Fault *fault) {
  const Tokenizer *t = tokenizer_of(id, fault);
  if (t)
    *token = vocabulary_find(&t->vocabulary, text, len);
  return t != NULL;
}

bool tokenizer_size(int64_t id, int64_t *size, Fault *fault) {
  const Tokenizer *t = tokenizer_of(id, fault);
  if (t)
    *size = (int64_t)t->vocabulary.count;
  return t != NULL;
}
