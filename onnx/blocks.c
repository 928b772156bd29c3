/* Finds repeated blocks.  Statements that differ in names only have the same
 * symbol.  Repeated substrings of symbols come from a sorted list of suffixes
 * (Manber and Myers 1993); each is checked for equal use of names. */
#define _GNU_SOURCE
#include "onnx/blocks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_STATEMENTS = 6000, /* more are written as they are */
  MAX_FUNCTIONS = 32,
  MIN_LENGTH = 4,  /* statements of a block */
  MAX_OUTPUTS = 3, /* a block with more results is none that people see */
  MAX_VALUES = 6,  /* parameters that are no weights */
  FAR = 24,        /* statements: further than the uses in one block */
};

/* ---- tokens ---- */

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '\'';
}

/* The length of a list of numbers with points, or 0. */
static size_t list_length(const char *at) {
  size_t len = strspn(at + 1, "0123456789.,+-e infa ");
  bool is_list = *at == '[' && at[1 + len] == ']' && len > 0;
  return is_list && memchr(at, '.', len) ? len + 2 : 0;
}

/* The element type of a list; DT_NONE if the program has this list of several
 * types. */
static Dtype list_dtype(const Blocks *b, const char *at, size_t len) {
  const Importer *im = b->im;
  uintptr_t dtype =
      (uintptr_t)map_get(&im->lists, intern(im->interner, at, len));
  return dtype == DT_COUNT ? DT_NONE : (Dtype)dtype;
}

static size_t string_length(const char *at) {
  const char *end = strchr(at + 1, '"');
  return end ? (size_t)(end - at) + 1 : strlen(at);
}

static void add_token(Blocks *b, Tokens *out, TokenKind kind, const char *at,
                      size_t len, const Def *def) {
  Token t = {
      .kind = kind, .text = arena_strndup(b->im->arena, at, len), .def = def};
  VEC_PUSH(b->im->arena, *out, t);
}

static void add_list(Blocks *b, Tokens *out, const char *at, size_t len) {
  Dtype dtype = list_dtype(b, at, len);
  add_token(b, out, dtype ? TOKEN_LIST : TOKEN_TEXT, at, len, NULL);
  out->at[out->len - 1].dtype = dtype;
}

/* A word is a name if what it stands for is written before the statement. */
static void add_word(Blocks *b, Tokens *out, const char *at, size_t len,
                     char before, uint32_t statement) {
  Sym *sym = intern(b->im->interner, at, len);
  const Def *def = map_get(&b->defs, sym);
  const char *next = at + len + strspn(at + len, " ");
  bool is_label = before == '.' || before == '~' ||
                  (next[0] == '=' && next[1] != '=' && next[1] != '>');
  if (def && def->kind == DEF_STATEMENT && def->index >= statement)
    def = NULL;
  if (!is_label && map_get(&b->is_size, sym))
    add_token(b, out, TOKEN_SIZE, at, len, NULL);
  else if (is_label || !def)
    add_token(b, out, TOKEN_TEXT, at, len, NULL);
  else
    add_token(b, out, TOKEN_NAME, at, len, def);
}

static Tokens split(Blocks *b, const char *at, uint32_t statement) {
  Tokens out = {0};
  char before = 0;
  while (*at) {
    size_t len = 0;
    bool may_be_list = !is_word(before) && before != '.' && before != ')';
    if (may_be_list && (len = list_length(at)) > 0) {
      add_list(b, &out, at, len);
    } else if (*at == '"') {
      len = string_length(at);
      add_token(b, &out, TOKEN_TEXT, at, len, NULL);
    } else if (is_word(*at)) {
      while (is_word(at[len]))
        len++;
      if (isdigit((unsigned char)*at))
        add_token(b, &out, TOKEN_TEXT, at, len, NULL);
      else
        add_word(b, &out, at, len, before, statement);
    } else {
      len = 1;
      add_token(b, &out, TOKEN_TEXT, at, len, NULL);
    }
    at += len;
    before = at[-1];
  }
  return out;
}

/* ---- names ---- */

static void define_name(Blocks *b, const char *name, size_t len, DefKind kind,
                        uint32_t index) {
  Sym *sym = intern(b->im->interner, name, len);
  Def *def = MAKE(b->im->arena, Def);
  *def = (Def){kind, index, sym->text};
  map_put(&b->defs, sym, def);
}

/* The names of a pattern such as (a, b). */
static void define_names(Blocks *b, const char *pattern, DefKind kind,
                         uint32_t index) {
  for (const char *at = pattern; *at;) {
    size_t len = 0;
    while (is_word(at[len]))
      len++;
    if (len)
      define_name(b, at, len, kind, index);
    at += len + !len;
  }
}

static void define_all(Blocks *b) {
  Importer *im = b->im;
  map_init(&b->defs, im->arena);
  map_init(&b->is_size, im->arena);
  for (uint32_t i = 0; i < im->size_names.len; i++) {
    Sym *sym = intern_string(im->interner, im->size_names.at[i]);
    map_put(&b->is_size, sym, sym);
  }
  for (uint32_t i = 0; i < im->loads.len; i++)
    if (im->loads.at[i].name)
      define_names(b, im->loads.at[i].name, DEF_WEIGHT, i);
  for (uint32_t i = 0; i < im->parameters.len; i++)
    define_names(b, im->parameters.at[i]->text, DEF_PARAMETER, i);
  for (uint32_t i = 0; i < im->statements.len; i++)
    if (im->statements.at[i].name)
      define_names(b, im->statements.at[i].name, DEF_STATEMENT, i);
}

static bool def_type(const Importer *im, const Def *def, Dtype *dtype,
                     Shape *shape) {
  const Value *v =
      def->kind == DEF_STATEMENT   ? im->statements.at[def->index].value
      : def->kind == DEF_PARAMETER ? im->parameters.at[def->index]
                                   : im->loads.at[def->index].value;
  if (!v)
    return false;
  *dtype = v->dtype;
  *shape = v->shape;
  return true;
}

static int64_t list_count(const char *list) {
  int64_t count = 1;
  for (const char *at = list; *at; at++)
    count += *at == ',';
  return count;
}

bool token_type(Importer *im, const Token *t, Dtype *dtype, Shape *shape) {
  if (t->kind == TOKEN_NAME)
    return def_type(im, t->def, dtype, shape);
  *dtype = t->dtype;
  *shape = (Shape){.rank = 1, .dims = {num(im, list_count(t->text))}};
  return true;
}

bool parameter_type(Importer *im, const Block *block, const Parameter *p,
                    Dtype *dtype, Shape *shape) {
  if (!token_type(im, p->in_run[0], dtype, shape))
    return false;
  for (uint32_t r = 1; r < block->count; r++) {
    Dtype other;
    Shape s;
    if (!token_type(im, p->in_run[r], &other, &s) || other != *dtype ||
        !shapes_equal(shape, &s))
      return false;
  }
  return true;
}

/* ---- symbols ---- */

/* A pattern, a function or a `let` has names of its own: no part of a block. */
static bool is_plain_statement(const Statement *s) {
  return s->name && is_word(s->name[0]) && !strstr(s->text, "fn ") &&
         !strstr(s->text, "let ");
}

static void find_symbols(Blocks *b) {
  Importer *im = b->im;
  Map numbers;
  map_init(&numbers, im->arena);
  for (uint32_t i = 0; i < im->statements.len; i++) {
    const Statement *s = &im->statements.at[i];
    Buffer key = {.arena = im->arena};
    b->tokens[i] = split(b, s->text ? s->text : "", i);
    for (uint32_t k = 0; k < b->tokens[i].len; k++) {
      const Token *t = &b->tokens[i].at[k];
      bool varies = t->kind == TOKEN_NAME || t->kind == TOKEN_LIST;
      buffer_puts(&key, varies ? "\1" : t->text);
    }
    b->symbols[i] = i + 1;
    if (!is_plain_statement(s) || !key.len)
      continue;
    Sym *sym = intern(im->interner, key.text, key.len);
    uintptr_t number = (uintptr_t)map_get(&numbers, sym);
    if (!number)
      map_put(&numbers, sym, (void *)(uintptr_t)(i + 1));
    else
      b->symbols[i] = (uint32_t)number;
  }
}

/* ---- the check of a candidate ---- */

static bool is_inside(const Def *def, uint32_t start, uint32_t length) {
  return def && def->kind == DEF_STATEMENT && def->index >= start &&
         def->index < start + length;
}

static bool same_token(const Token *x, const Token *y) {
  return x->kind == y->kind && strcmp(x->text, y->text) == 0;
}

/* Numbers of the same kind, so that one function takes both. */
static bool same_kind(Importer *im, const Token *x, const Token *y) {
  Dtype dx, dy;
  Shape sx, sy;
  bool has_x = token_type(im, x, &dx, &sx);
  bool has_y = token_type(im, y, &dy, &sy);
  return has_x == has_y &&
         (!has_x || (dx == dy && sx.rank == sy.rank && sx.stars == sy.stars));
}

/* True if both runs use their own statements alike, and outer ones of the same
 * kinds. */
static bool runs_agree(const Blocks *b, uint32_t x, uint32_t y,
                       uint32_t length) {
  for (uint32_t i = 0; i < length; i++)
    for (uint32_t k = 0; k < b->tokens[x + i].len; k++) {
      const Token *s = &b->tokens[x + i].at[k], *t = &b->tokens[y + i].at[k];
      bool inside = is_inside(s->def, x, length);
      if (inside != is_inside(t->def, y, length) ||
          (inside && s->def->index - x != t->def->index - y) ||
          (!inside && s->kind != TOKEN_TEXT && s->kind != TOKEN_SIZE &&
           !same_kind(b->im, s, t)))
        return false;
    }
  return true;
}

static bool same_parameter(const Block *block, const Parameter *p,
                           const Parameter *q) {
  for (uint32_t r = 0; r < block->count; r++)
    if (!same_token(p->in_run[r], q->in_run[r]))
      return false;
  return true;
}

static bool parameter_at(const Blocks *b, const Block *block, uint32_t offset,
                         uint32_t token, Parameter *out) {
  const Token *t = &b->tokens[block->starts[0] + offset].at[token];
  if ((t->kind != TOKEN_NAME && t->kind != TOKEN_LIST) ||
      is_inside(t->def, block->starts[0], block->length))
    return false;
  out->in_run = MAKE_ARRAY(b->im->arena, const Token *, block->count);
  for (uint32_t r = 0; r < block->count; r++)
    out->in_run[r] = &b->tokens[block->starts[r] + offset].at[token];
  return true;
}

const Parameter *block_parameter(const Block *block, uint32_t offset,
                                 uint32_t token, const Blocks *b) {
  Parameter p = {0};
  if (!parameter_at(b, block, offset, token, &p))
    return NULL;
  for (uint32_t i = 0; i < block->parameters.len; i++)
    if (same_parameter(block, &block->parameters.at[i], &p))
      return &block->parameters.at[i];
  return NULL;
}

static void classify(const Block *block, Parameter *p) {
  bool is_same = true, is_field = true;
  for (uint32_t r = 0; r < block->count; r++) {
    const Token *t = p->in_run[r];
    is_same = is_same && same_token(t, p->in_run[0]);
    is_field =
        is_field && (t->kind == TOKEN_LIST || t->def->kind == DEF_WEIGHT);
  }
  p->is_field = is_field;
  p->is_shared = is_same && is_field;
}

static void find_parameters(const Blocks *b, Block *block) {
  for (uint32_t i = 0; i < block->length; i++)
    for (uint32_t k = 0; k < b->tokens[block->starts[0] + i].len; k++) {
      Parameter p = {0};
      if (block_parameter(block, i, k, b) || !parameter_at(b, block, i, k, &p))
        continue;
      classify(block, &p);
      VEC_PUSH(b->im->arena, block->parameters, p);
    }
}

static void find_outputs(const Blocks *b, Block *block) {
  bool *used = MAKE_ARRAY(b->im->arena, bool, block->length);
  block->outputs = MAKE_ARRAY(b->im->arena, uint32_t, block->length);
  for (uint32_t r = 0; r < block->count; r++) {
    uint32_t start = block->starts[r];
    for (uint32_t i = 0; i < block->length; i++)
      used[i] = used[i] || b->is_result[start + i];
    for (uint32_t i = start + block->length; i < b->im->statements.len; i++)
      for (uint32_t k = 0; k < b->tokens[i].len; k++) {
        const Def *def = b->tokens[i].at[k].def;
        if (is_inside(def, start, block->length))
          used[def->index - start] = true;
      }
  }
  for (uint32_t i = 0; i < block->length; i++)
    if (used[i])
      block->outputs[block->output_count++] = i;
}

/* True if a parameter of one shape has this size as an axis. */
static bool binds_size(const Blocks *b, const Block *block, const char *size) {
  for (uint32_t i = 0; i < block->parameters.len; i++) {
    const Parameter *p = &block->parameters.at[i];
    Dtype dtype;
    Shape s;
    if (p->is_field || !parameter_type(b->im, block, p, &dtype, &s))
      continue;
    for (uint32_t k = 0; k < s.rank; k++)
      if (strcmp(extent_source(b->im, s.dims[k]), size) == 0)
        return true;
  }
  return false;
}

static bool binds_sizes(const Blocks *b, const Block *block) {
  for (uint32_t i = 0; i < block->length; i++)
    for (uint32_t k = 0; k < b->tokens[block->starts[0] + i].len; k++) {
      const Token *t = &b->tokens[block->starts[0] + i].at[k];
      if (t->kind == TOKEN_SIZE && !binds_size(b, block, t->text))
        return false;
    }
  return true;
}

/* Keeps the runs that agree with the first one.  Returns false if no function
 * is worth it. */
static bool check_block(const Blocks *b, Block *block) {
  uint32_t count = 1, values = 0;
  for (uint32_t r = 1; r < block->count; r++)
    if (runs_agree(b, block->starts[0], block->starts[r], block->length))
      block->starts[count++] = block->starts[r];
  block->count = count;
  if (count < 2)
    return false;
  find_parameters(b, block);
  find_outputs(b, block);
  for (uint32_t i = 0; i < block->parameters.len; i++)
    values += !block->parameters.at[i].is_field;
  if (!block->output_count || block->output_count > MAX_OUTPUTS ||
      values > MAX_VALUES || !binds_sizes(b, block))
    return false;
  block->score = (int64_t)(count - 1) * block->length -
                 (int64_t)(values + block->output_count) * count;
  return block->score > 0;
}

/* ---- repeated substrings ---- */

typedef struct Suffixes {
  const uint32_t *symbols;
  uint32_t count;
  uint32_t *sorted; /* starts of suffixes, in order */
  uint32_t *common; /* symbols that suffix k and the one before share */
} Suffixes;

static uint32_t common_length(const Suffixes *s, uint32_t x, uint32_t y) {
  uint32_t len = 0;
  while (x + len < s->count && y + len < s->count &&
         s->symbols[x + len] == s->symbols[y + len])
    len++;
  return len;
}

static int by_suffix(const void *a, const void *b, void *context) {
  const Suffixes *s = context;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  uint32_t len = common_length(s, x, y);
  if (x + len == s->count || y + len == s->count)
    return x > y ? -1 : x < y;
  return s->symbols[x + len] < s->symbols[y + len] ? -1 : 1;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void sort_suffixes(Importer *im, Suffixes *s) {
  s->sorted = MAKE_ARRAY(im->arena, uint32_t, s->count);
  s->common = MAKE_ARRAY(im->arena, uint32_t, s->count + 1);
  for (uint32_t i = 0; i < s->count; i++)
    s->sorted[i] = i;
  qsort_r(s->sorted, s->count, sizeof *s->sorted, by_suffix, s);
  for (uint32_t k = 1; k < s->count; k++)
    s->common[k] = common_length(s, s->sorted[k - 1], s->sorted[k]);
}

/* Tries the substring of this length at some of these ascending places. */
static void try_length(Blocks *b, const uint32_t *places, uint32_t count,
                       uint32_t length, Block *best) {
  Block block = {.length = length};
  if (length < MIN_LENGTH || (int64_t)(count - 1) * length <= best->score)
    return;
  block.starts = MAKE_ARRAY(b->im->arena, uint32_t, count);
  for (uint32_t i = 0; i < count; i++)
    if (!block.count || places[i] >= block.starts[block.count - 1] + length)
      block.starts[block.count++] = places[i];
  if (block.count > 1 && (int64_t)(block.count - 1) * length > best->score &&
      check_block(b, &block) && block.score > best->score)
    *best = block;
}

/* Suffixes around k that share as much as it does with the one before. */
static void try_suffix(Blocks *b, const Suffixes *s, uint32_t k, Block *best) {
  uint32_t length = s->common[k], first = k - 1, end = k + 1;
  if (length < MIN_LENGTH)
    return;
  while (first > 0 && s->common[first] >= length)
    first--;
  while (end < s->count && s->common[end] >= length)
    end++;
  uint32_t count = end - first, gap = length;
  if ((int64_t)(count - 1) * length <= best->score)
    return;
  uint32_t *places = MAKE_ARRAY(b->im->arena, uint32_t, count);
  memcpy(places, s->sorted + first, sizeof *places * count);
  qsort(places, count, sizeof *places, by_number);
  for (uint32_t i = 1; i < count; i++)
    if (places[i] - places[i - 1] < gap)
      gap = places[i] - places[i - 1];
  try_length(b, places, count, length, best);
  if (gap < length)
    try_length(b, places, count, gap, best);
}

bool find_block(Blocks *b, Block *best) {
  Suffixes s = {.symbols = b->symbols, .count = b->im->statements.len};
  *best = (Block){0};
  sort_suffixes(b->im, &s);
  for (uint32_t k = 1; k < s.count; k++)
    try_suffix(b, &s, k, best);
  return best->score > 0;
}

/* ---- order ---- */

/* Exporters compute what several blocks use, such as a mask, in the first one.
 * It moves to the values that it is computed from. */

typedef struct Uses {
  uint32_t *first, *last; /* statements that read it */
  bool *moves;
} Uses;

static Uses find_uses(const Blocks *b, uint32_t count) {
  Arena *arena = b->im->arena;
  Uses u = {.first = MAKE_ARRAY(arena, uint32_t, count + 1),
            .last = MAKE_ARRAY(arena, uint32_t, count + 1),
            .moves = MAKE_ARRAY(arena, bool, count + 1)};
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < b->tokens[i].len; k++) {
      const Def *def = b->tokens[i].at[k].def;
      if (!def || def->kind != DEF_STATEMENT)
        continue;
      uint32_t read = def->index;
      u.first[read] = u.last[read] ? u.first[read] : i;
      u.last[read] = i;
    }
  return u;
}

/* Marks statements that distant ones read, and those that only marked ones
 * read. */
static void mark_moves(const Blocks *b, Uses *u, uint32_t count) {
  for (uint32_t i = count; i-- > 0;) {
    bool is_wide = u->last[i] > u->first[i] + FAR;
    bool feeds =
        u->last[i] && u->first[i] == u->last[i] && u->moves[u->last[i]];
    u->moves[i] =
        (is_wide || feeds) && is_plain_statement(&b->im->statements.at[i]);
  }
}

static int by_place(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Puts moved statements behind the last one that they read, which may itself
 * have moved.  A place is 1 + the number of a statement that stays. */
static void move_statements(Blocks *b, uint32_t count) {
  Importer *im = b->im;
  Statements all = {0};
  Uses u = find_uses(b, count);
  uint64_t *places = MAKE_ARRAY(im->arena, uint64_t, count + 1);
  uint64_t *order = MAKE_ARRAY(im->arena, uint64_t, count + 1);
  mark_moves(b, &u, count);
  for (uint32_t i = 0; i < count; i++) {
    places[i] = u.moves[i] ? 0 : (uint64_t)i + 1;
    for (uint32_t k = 0; k < b->tokens[i].len; k++) {
      const Def *def = b->tokens[i].at[k].def;
      if (def && def->kind == DEF_STATEMENT && places[def->index] > places[i])
        places[i] = places[def->index];
    }
    order[i] = places[i] << 32 | i;
  }
  qsort(order, count, sizeof *order, by_place);
  for (uint32_t i = 0; i < count; i++)
    VEC_PUSH(im->arena, all, im->statements.at[(uint32_t)order[i]]);
  im->statements = all;
}

/* ---- entry ---- */

static void mark_results(Blocks *b, const char *result) {
  Tokens tokens = split(b, result, UINT32_MAX);
  for (uint32_t k = 0; k < tokens.len; k++)
    if (tokens.at[k].def && tokens.at[k].def->kind == DEF_STATEMENT)
      b->is_result[tokens.at[k].def->index] = true;
}

static void read_statements(Blocks *b, Importer *im, const char *result) {
  uint32_t count = im->statements.len;
  *b = (Blocks){.im = im};
  b->tokens = MAKE_ARRAY(im->arena, Tokens, count + 1);
  b->symbols = MAKE_ARRAY(im->arena, uint32_t, count + 1);
  b->is_result = MAKE_ARRAY(im->arena, bool, count + 1);
  define_all(b);
  find_symbols(b);
  mark_results(b, result);
}

void make_blocks(Importer *im, const char *result) {
  Statements before = im->statements;
  Blocks b;
  Block block;
  if (before.len > MAX_STATEMENTS)
    return;
  read_statements(&b, im, result);
  move_statements(&b, before.len);
  for (int i = 0; i < MAX_FUNCTIONS; i++) {
    read_statements(&b, im, result);
    if (!find_block(&b, &block))
      break;
    write_block(&b, &block);
  }
  if (!im->functions.len)
    im->statements = before;
}
