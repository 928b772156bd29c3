/* Verdicts of earlier queries.  Main entry point: memo_entry.
 *
 * A program asks the same question about many calls of a function, each time
 * with other variables.  So the key of a query numbers its atoms in order of
 * appearance.  Queries with one key differ only in the names of variables:
 * a proof or a model of one is a proof or a model of the other. */
#include "solver.h"
#include "support/arena.h"

#include <string.h>

enum {
  MAX_KEY_WORDS = 1 << 13,  /* a query with a longer key has no entry */
  MAX_MEMO_WORDS = 1 << 20, /* of all keys */
  LONG_TERM = 1 << 16,      /* marks a term of several words */
  EXPONENT_BITS = 13,
  FIRST_MEMO_SLOTS = 64, /* a power of two */
};

struct QueryMemo {
  DimCtx *cx;
  uint32_t *key; /* of the current query */
  uint32_t key_length;
  uint64_t epoch; /* stamped into numbered atoms */
  uint32_t atom_count;
  bool has_symbolic_divisor, is_exact;
  MemoEntry **slots; /* hash table with open addressing */
  uint32_t cap, len, word_count;
};

_Static_assert((int)DIM_MAX_EXPONENT < 1 << EXPONENT_BITS &&
                   (int)MAX_KEY_WORDS <= 1 << (32 - EXPONENT_BITS),
               "an atom and its exponent fit in a word");

static struct QueryMemo *memo_of(DimCtx *cx) {
  if (!cx->query_memo) {
    cx->query_memo = NEW(cx->arena, struct QueryMemo);
    cx->query_memo->cx = cx;
    cx->query_memo->key = NEW_ARRAY(cx->arena, uint32_t, MAX_KEY_WORDS);
    cx->query_memo->cap = FIRST_MEMO_SLOTS;
    cx->query_memo->slots = NEW_ARRAY(cx->arena, MemoEntry *, FIRST_MEMO_SLOTS);
  }
  return cx->query_memo;
}

/* ---- keys ---- */

static inline void add_word(struct QueryMemo *memo, uint32_t word) {
  if (memo->key_length < MAX_KEY_WORDS)
    memo->key[memo->key_length++] = word;
  else
    memo->is_exact = false;
}

static void add_polynomial(struct QueryMemo *memo, const Dim *d);

/* Writes the coefficient with the number of powers: most fit in one word. */
static uint32_t *put_coefficient(uint32_t *at, const Term *term) {
  int64_t coef = term->coef.small;
  uint32_t count = term->mono->power_count;
  if (coef == (int8_t)coef && count < LONG_TERM) {
    *at++ = (uint32_t)(uint8_t)coef << 24 | count;
    return at;
  }
  *at++ = LONG_TERM;
  *at++ = count;
  *at++ = (uint32_t)coef;
  *at++ = (uint32_t)((uint64_t)coef >> 32);
  return at;
}

/* Everything about an atom that a proof or a search may depend on. */
static uint32_t atom_properties(const Atom *atom) {
  uint32_t bits = atom->kind | (uint32_t)dim_atom_nonneg(atom) << 3 |
                  (uint32_t)atom->unguarded << 4 | atom->arg_count << 8;
  if (atom->var)
    bits |= (uint32_t)(atom->var->kind == DV_INDEX) << 5 |
            (uint32_t)(atom->var->kind == DV_EXISTENTIAL) << 6;
  return bits;
}

/* Returns true for an atom that the key has not mentioned yet. */
static inline bool number_atom(struct QueryMemo *memo, Atom *atom) {
  if (atom->visit_epoch == memo->epoch)
    return false;
  atom->memo_index = memo->atom_count++;
  atom->visit_epoch = memo->epoch;
  return true;
}

enum { MAX_TERM_WORDS = 6 }; /* of a variable with a coefficient */

/* The same words as for other polynomials, with one test for all of them. */
static void add_sum_of_vars(struct QueryMemo *memo, const Dim *d) {
  uint64_t need = 1 + (uint64_t)MAX_TERM_WORDS * d->term_count;
  if (memo->key_length + need > MAX_KEY_WORDS) {
    memo->is_exact = false;
    return;
  }
  uint32_t *at = &memo->key[memo->key_length];
  *at++ = d->term_count;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Term *term = &d->terms[i];
    memo->is_exact = memo->is_exact && !term->coef.limbs;
    at = put_coefficient(at, term);
    if (!term->mono->power_count)
      continue;
    Atom *atom = term->mono->powers[0].atom;
    bool is_new = number_atom(memo, atom);
    *at++ = atom->memo_index << EXPONENT_BITS | 1;
    if (is_new)
      *at++ = atom_properties(atom);
  }
  memo->key_length = (uint32_t)(at - memo->key);
}

/* Adds the atom with its exponent. */
static void add_power(struct QueryMemo *memo, Power power) {
  Atom *atom = power.atom;
  bool is_new = number_atom(memo, atom);
  add_word(memo, atom->memo_index << EXPONENT_BITS | power.exp);
  if (!is_new)
    return;
  add_word(memo, atom_properties(atom));
  for (uint32_t i = 0; i < atom->arg_count; i++)
    add_polynomial(memo, atom->args[i]);
  memo->has_symbolic_divisor |=
      atom->kind == ATOM_DIV && !dim_is_const(atom->args[1]);
}

static void add_polynomial(struct QueryMemo *memo, const Dim *d) {
  if (d->is_sum_of_vars) {
    add_sum_of_vars(memo, d);
    return;
  }
  add_word(memo, d->term_count);
  for (uint32_t i = 0; i < d->term_count && memo->is_exact; i++) {
    const Term *term = &d->terms[i];
    memo->is_exact = !term->coef.limbs;
    uint32_t words[MAX_TERM_WORDS];
    uint32_t count = (uint32_t)(put_coefficient(words, term) - words);
    for (uint32_t j = 0; j < count; j++)
      add_word(memo, words[j]);
    for (uint32_t j = 0; j < term->mono->power_count; j++)
      add_power(memo, term->mono->powers[j]);
  }
}

void memo_key_begin(DimCtx *cx, uint32_t flags) {
  struct QueryMemo *memo = memo_of(cx);
  memo->key_length = memo->atom_count = 0;
  memo->epoch = dim_next_visit_epoch(cx);
  memo->has_symbolic_divisor = false;
  memo->is_exact = true;
  add_word(memo, flags);
}

void memo_key_add(DimCtx *cx, const Dim *d, uint32_t flags) {
  struct QueryMemo *memo = cx->query_memo;
  add_word(memo, flags);
  if (memo->is_exact)
    add_polynomial(memo, d);
}

bool memo_key_divides(const DimCtx *cx) {
  return cx->query_memo->has_symbolic_divisor;
}

/* ---- entries ---- */

struct MemoEntry {
  uint32_t hash, count;
  Verdict verdict;
  bool known;
  uint32_t words[];
};

static uint32_t key_hash(const struct QueryMemo *memo) {
  uint64_t h = memo->key_length;
  uint32_t i = 0;
  for (; i + 1 < memo->key_length; i += 2)
    h = (h ^ memo->key[i] ^ (uint64_t)memo->key[i + 1] << 32) *
        0x9E3779B97F4A7C15u,
    h ^= h >> 29;
  if (i < memo->key_length)
    h = (h ^ memo->key[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
  return (uint32_t)h;
}

static bool is_current_key(const struct QueryMemo *memo, const MemoEntry *entry,
                           uint32_t hash) {
  return entry->hash == hash && entry->count == memo->key_length &&
         !memcmp(entry->words, memo->key, sizeof *entry->words * entry->count);
}

static void memo_grow(struct QueryMemo *memo) {
  MemoEntry **old = memo->slots;
  uint32_t cap = memo->cap;
  memo->cap *= 2;
  memo->slots = NEW_ARRAY(memo->cx->arena, MemoEntry *, memo->cap);
  for (uint32_t i = 0; i < cap; i++) {
    uint32_t at = old[i] ? old[i]->hash : 0;
    while (old[i] && memo->slots[at & (memo->cap - 1)])
      at++;
    if (old[i])
      memo->slots[at & (memo->cap - 1)] = old[i];
  }
}

MemoEntry *memo_entry(DimCtx *cx) {
  struct QueryMemo *memo = cx->query_memo;
  if (!memo->is_exact)
    return NULL;
  uint32_t hash = key_hash(memo), at = hash & (memo->cap - 1);
  for (; memo->slots[at]; at = (at + 1) & (memo->cap - 1))
    if (is_current_key(memo, memo->slots[at], hash))
      return memo->slots[at];
  if (memo->word_count + memo->key_length > MAX_MEMO_WORDS)
    return NULL;
  size_t size = sizeof *memo->key * memo->key_length;
  MemoEntry *entry = arena_alloc(cx->arena, sizeof *entry + size);
  entry->hash = hash;
  entry->count = memo->key_length;
  memcpy(entry->words, memo->key, size);
  memo->slots[at] = entry;
  memo->word_count += memo->key_length;
  if (++memo->len * 2 > memo->cap)
    memo_grow(memo);
  return entry;
}

bool memo_recall(const MemoEntry *entry, Verdict *verdict) {
  if (!entry || !entry->known)
    return false;
  *verdict = entry->verdict;
  return true;
}

void memo_store(MemoEntry *entry, Verdict verdict) {
  if (!entry)
    return;
  entry->known = true;
  entry->verdict = verdict;
}
