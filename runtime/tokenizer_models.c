/* Models of tokenizers: the tokens of one piece of text. */
#include "runtime/tokenizer_parts.h"
#include "support/arena.h"

#include <string.h>

enum { NONE = -1 };

static void add(Work *w, int64_t token) {
  if (token != NO_TOKEN)
    VEC_PUSH(w->arena, w->ids, token);
}

static size_t char_len(const char *at) {
  const char *next = at;
  unicode_next(&next);
  return (size_t)(next - at);
}

/* ---- WordPiece: the longest start that is a token, again and again ---- */

static size_t count_chars(Text t) {
  size_t count = 0;
  for (size_t i = 0; i < t.len; i++)
    count += ((unsigned char)t.text[i] & 0xc0) != 0x80;
  return count;
}

/* The longest token that begins at `at`; its end, or `at`. */
static size_t longest_token(Work *w, Text word, size_t at, Buffer *room,
                            int64_t *token) {
  const Tokenizer *t = w->tokenizer;
  size_t prefix = at ? t->model.prefix.len : 0, end = word.len;
  if (end - at > t->vocabulary.longest)
    end = at + t->vocabulary.longest;
  room->len = 0;
  buffer_add(room, t->model.prefix.text, prefix);
  buffer_add(room, word.text + at, end - at);
  for (; end > at; end--) {
    *token = vocabulary_find(&t->vocabulary, room->text, prefix + end - at);
    if (*token != NO_TOKEN)
      return end;
  }
  return at;
}

static void encode_wordpiece(Work *w, Text word) {
  const Model *m = &w->tokenizer->model;
  uint32_t mark = w->ids.len;
  Buffer room = {.arena = w->arena};
  size_t at = 0;
  bool known = count_chars(word) <= m->max_word_chars;
  while (known && at < word.len) {
    int64_t token = NO_TOKEN;
    size_t end = longest_token(w, word, at, &room, &token);
    known = end > at;
    at = end;
    if (known)
      add(w, token);
  }
  if (known)
    return;
  w->ids.len = mark;
  add(w, m->unknown);
}

/* ---- byte pair encoding ---- */

typedef struct Symbol {
  int64_t token;
  int64_t before, after; /* neighbours, or NONE */
} Symbol;

/* A merge that may be possible: of the symbol `at` and the next one. */
typedef struct Candidate {
  uint32_t rank;
  uint32_t token; /* the result */
  int64_t at;
  int64_t left, right; /* tokens then */
} Candidate;

typedef struct Bpe {
  Work *w;
  VEC(Symbol) symbols;
  VEC(Candidate) heap; /* smallest rank first, then the leftmost */
} Bpe;

static size_t merge_slot(const Model *m, uint32_t left, uint32_t right) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
  size_t slot = (size_t)(h >> 20) & (m->merge_slots - 1);
  while (m->merges[slot].token != UINT32_MAX &&
         (m->merges[slot].left != left || m->merges[slot].right != right))
    slot = (slot + 1) & (m->merge_slots - 1);
  return slot;
}

void model_init_merges(Arena *arena, Model *m, size_t count) {
  m->merge_slots = 16;
  while (m->merge_slots < 2 * count)
    m->merge_slots *= 2;
  m->merges = NEW_ARRAY(arena, Merge, m->merge_slots);
  for (size_t i = 0; i < m->merge_slots; i++)
    m->merges[i].token = UINT32_MAX;
}

void model_put_merge(Model *m, Merge merge) {
  m->merges[merge_slot(m, merge.left, merge.right)] = merge;
}

static bool is_before(const Candidate *a, const Candidate *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(Bpe *b, Candidate c) {
  VEC_PUSH(b->w->arena, b->heap, c);
  uint32_t i = b->heap.len - 1;
  for (; i && is_before(&c, &b->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
    b->heap.at[i] = b->heap.at[(i - 1) / 2];
  b->heap.at[i] = c;
}

static Candidate pop(Bpe *b) {
  Candidate top = b->heap.at[0], last = b->heap.at[--b->heap.len];
  uint32_t i = 0, child;
  while ((child = 2 * i + 1) < b->heap.len) {
    if (child + 1 < b->heap.len &&
        is_before(&b->heap.at[child + 1], &b->heap.at[child]))
      child++;
    if (!is_before(&b->heap.at[child], &last))
      break;
    b->heap.at[i] = b->heap.at[child];
    i = child;
  }
  if (b->heap.len)
    b->heap.at[i] = last;
  return top;
}

static void push_pair(Bpe *b, int64_t at) {
  const Model *m = &b->w->tokenizer->model;
  const Symbol *left = &b->symbols.at[at];
  if (left->after == NONE)
    return;
  int64_t right = b->symbols.at[left->after].token;
  const Merge *merge =
      &m->merges[merge_slot(m, (uint32_t)left->token, (uint32_t)right)];
  if (merge->token != UINT32_MAX)
    push(b, (Candidate){merge->rank, merge->token, at, left->token, right});
}

static void push_symbol(Bpe *b, int64_t token) {
  int64_t i = b->symbols.len;
  VEC_PUSH(b->w->arena, b->symbols, ((Symbol){token, i - 1, NONE}));
  if (i)
    b->symbols.at[i - 1].after = i;
}

/* Adds the tokens of the bytes of a character, if the model has all. */
static bool push_bytes(Bpe *b, Text c) {
  const Model *m = &b->w->tokenizer->model;
  for (size_t i = 0; i < c.len; i++)
    if (m->bytes[(unsigned char)c.text[i]] == NO_TOKEN)
      return false;
  for (size_t i = 0; i < c.len; i++)
    push_symbol(b, m->bytes[(unsigned char)c.text[i]]);
  return true;
}

/* Adds the symbol of one character of a word. */
static void push_char(Bpe *b, Text word, size_t at, size_t len,
                      bool *is_unknown) {
  const Tokenizer *t = b->w->tokenizer;
  const Model *m = &t->model;
  Buffer text = {.arena = b->w->arena};
  if (at)
    buffer_add(&text, m->prefix.text, m->prefix.len);
  buffer_add(&text, word.text + at, len);
  if (at + len == word.len)
    buffer_add(&text, m->suffix.text, m->suffix.len);
  int64_t token = vocabulary_find(&t->vocabulary, text.text, text.len);
  bool was_unknown = *is_unknown;
  *is_unknown = false;
  if (token != NO_TOKEN) {
    push_symbol(b, token);
  } else if (!m->byte_fallback || !push_bytes(b, (Text){word.text + at, len})) {
    *is_unknown = true;
    if (m->unknown != NO_TOKEN && !(was_unknown && m->fuse_unknown))
      push_symbol(b, m->unknown);
  }
}

static void merge_all(Bpe *b) {
  for (uint32_t i = 0; i < b->symbols.len; i++)
    push_pair(b, i);
  while (b->heap.len) {
    Candidate c = pop(b);
    Symbol *left = &b->symbols.at[c.at];
    if (left->token != c.left || left->after == NONE ||
        b->symbols.at[left->after].token != c.right)
      continue; /* one of them was merged meanwhile */
    Symbol *right = &b->symbols.at[left->after];
    left->token = c.token;
    left->after = right->after;
    right->token = NO_TOKEN;
    if (right->after != NONE)
      b->symbols.at[right->after].before = c.at;
    push_pair(b, c.at);
    if (left->before != NONE)
      push_pair(b, left->before);
  }
}

static void encode_bpe(Work *w, Text word) {
  const Tokenizer *t = w->tokenizer;
  Bpe b = {.w = w};
  bool is_unknown = false;
  int64_t whole = t->model.ignore_merges
                      ? vocabulary_find(&t->vocabulary, word.text, word.len)
                      : NO_TOKEN;
  if (whole != NO_TOKEN) {
    add(w, whole);
    return;
  }
  for (size_t at = 0, len; at < word.len; at += len) {
    len = char_len(word.text + at);
    push_char(&b, word, at, len, &is_unknown);
  }
  merge_all(&b);
  for (int64_t i = b.symbols.len ? 0 : NONE; i != NONE;
       i = b.symbols.at[i].after)
    add(w, b.symbols.at[i].token);
}

/* ---- unigram: the most probable tokens (Kudo 2018), by Viterbi ---- */

/* The best way to the end of a byte. */
typedef struct Way {
  double score;
  size_t start; /* of its last token */
  int64_t token;
  bool is_reached;
} Way;

/* HuggingFace's and SentencePiece's constant. */
static const double unknown_penalty = 10;

static void reach(Way *to, double score, size_t start, int64_t token) {
  if (to->is_reached && score <= to->score)
    return;
  *to = (Way){score, start, token, true};
}

static void extend(Work *w, Text text, Way *ways, size_t at) {
  const Tokenizer *t = w->tokenizer;
  size_t first = char_len(text.text + at), end = at;
  bool has_char = false;
  while (end < text.len) {
    end += char_len(text.text + end);
    if (end - at > t->vocabulary.longest)
      break;
    int64_t token = vocabulary_find(&t->vocabulary, text.text + at, end - at);
    if (token == NO_TOKEN || t->vocabulary.tokens[token].flags & TOKEN_ADDED)
      continue;
    reach(&ways[end],
          ways[at].score + (double)t->vocabulary.tokens[token].score, at,
          token);
    has_char |= end - at == first;
  }
  if (!has_char)
    reach(&ways[at + first],
          ways[at].score + t->model.lowest_score - unknown_penalty, at,
          t->model.unknown);
}

/* Adds an unknown part: as bytes, or as one token. */
static void add_unknown(Work *w, Text part) {
  const Model *m = &w->tokenizer->model;
  bool has_bytes = m->byte_fallback;
  for (size_t i = 0; i < part.len && has_bytes; i++)
    has_bytes = m->bytes[(unsigned char)part.text[i]] != NO_TOKEN;
  for (size_t i = 0; i < part.len && has_bytes; i++)
    add(w, m->bytes[(unsigned char)part.text[i]]);
  if (!has_bytes)
    add(w, m->unknown);
}

static void encode_unigram(Work *w, Text text) {
  Way *ways = NEW_ARRAY(w->arena, Way, text.len + 1);
  size_t *starts = NEW_ARRAY(w->arena, size_t, text.len + 1), count = 0;
  int64_t unknown = w->tokenizer->model.unknown;
  ways[0].is_reached = true;
  for (size_t at = 0; at < text.len; at += char_len(text.text + at))
    extend(w, text, ways, at);
  for (size_t end = text.len; end; end = ways[end].start)
    starts[count++] = end;
  size_t at = 0, from = 0; /* an unknown part begins at `from` */
  for (size_t i = count; i-- > 0; at = starts[i]) {
    if (ways[starts[i]].token == unknown)
      continue;
    if (from < at)
      add_unknown(w, (Text){text.text + from, at - from});
    add(w, ways[starts[i]].token);
    from = starts[i];
  }
  if (from < text.len)
    add_unknown(w, (Text){text.text + from, text.len - from});
}

void model_encode(Work *w, Text piece) {
  switch (w->tokenizer->model.kind) {
  case MODEL_WORDPIECE:
    encode_wordpiece(w, piece);
    break;
  case MODEL_BPE:
    encode_bpe(w, piece);
    break;
  case MODEL_UNIGRAM:
    encode_unigram(w, piece);
    break;
  }
}
