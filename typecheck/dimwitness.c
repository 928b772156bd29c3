/* Small sizes that satisfy the facts and break a claim, for error messages.
 *
 * Variables that an equation defines are computed, the others run through a
 * list of telling values, small ones first; every fact is evaluated exactly,
 * so that a witness is never wrong.  There may be one that is not found. */
#include "dimsolver.h"

#include <stdlib.h>

enum {
  MAX_LEAVES = 16,
  MAX_CHOICES = 96,
  MAX_STACK = 128,
  BUDGET_ORDERLY = 14000, /* tuples tried in order, then at random */
  BUDGET_RANDOM = 6000,
};

typedef struct Program { /* postfix; a variable's num is its slot */
  DimOp *ops;
  uint32_t count;
} Program;

typedef struct Slot {
  Atom *atom;
  bool defined;
  uint32_t choice_count;
  int64_t choices[MAX_CHOICES];
  int64_t value;
} Slot;

typedef struct Search {
  DimCtx *cx;
  Query query;
  Slot slots[MAX_LEAVES];
  uint32_t slot_count, shown; /* the first `shown` are the claim's own */
  uint32_t free[MAX_LEAVES], free_count;
  bool too_many, eq;
  Program goal;
  Program *polys, *defs;
  uint32_t *def_slots;
} Search;

/* ---- evaluation ---- */

static void slot_add(void *arg, Atom *atom) {
  Search *search = arg;
  for (uint32_t i = 0; i < search->slot_count; i++)
    if (search->slots[i].atom == atom)
      return;
  if (search->slot_count == MAX_LEAVES) {
    search->too_many = true;
    return;
  }
  search->slots[search->slot_count++] = (Slot){.atom = atom};
}

static void slots_of(Search *search, const Dim *d) {
  dim_each_leaf(d, dim_epoch(search->cx), slot_add, search);
}

static uint32_t slot_find(const Search *search, const DimVar *var,
                          const ShapeVar *shape) {
  for (uint32_t i = 0; i < search->slot_count; i++)
    if (search->slots[i].atom->var == var &&
        search->slots[i].atom->shape == shape)
      return i;
  return 0; /* not reached: every leaf has a slot */
}

static bool compile(Search *search, const Dim *d, Program *program) {
  program->ops = dim_postfix(search->cx, d, &program->count);
  if (!program->ops)
    return false;
  for (uint32_t i = 0; i < program->count; i++) {
    DimOp *op = &program->ops[i];
    if (op->kind == DOP_VAR || op->kind == DOP_PROD)
      op->num = slot_find(search, op->var, op->shape);
  }
  return true;
}

static bool apply(DimOpKind kind, int64_t a, int64_t b, int64_t *out) {
  switch (kind) {
  case DOP_ADD:
    return !__builtin_add_overflow(a, b, out);
  case DOP_SUB:
    return !__builtin_sub_overflow(a, b, out);
  case DOP_MUL:
    return !__builtin_mul_overflow(a, b, out);
  case DOP_DIV:
    if (b < 1)
      return false;
    *out = a / b - (a % b < 0);
    return true;
  case DOP_MIN:
    *out = a < b ? a : b;
    return true;
  default:
    *out = a > b ? a : b;
    return true;
  }
}

/* False when it overflows, or divides by less than 1. */
static bool evaluate(const Search *search, const Program *program,
                     int64_t *value) {
  int64_t stack[MAX_STACK];
  uint32_t n = 0;
  for (uint32_t i = 0; i < program->count; i++) {
    const DimOp *op = &program->ops[i];
    if (op->kind == DOP_INT || op->kind == DOP_VAR || op->kind == DOP_PROD) {
      if (n == MAX_STACK)
        return false;
      stack[n++] =
          op->kind == DOP_INT ? op->num : search->slots[op->num].value;
      continue;
    }
    n--;
    if (!apply(op->kind, stack[n - 1], stack[n], &stack[n - 1]))
      return false;
  }
  *value = stack[0];
  return true;
}

/* Whether the free slots' values satisfy the facts and break the claim. */
static bool breaks(Search *search) {
  const Query *query = &search->query;
  int64_t value;
  for (uint32_t i = query->def_count; i-- > 0;) {
    if (!evaluate(search, &search->defs[i], &value) ||
        (value < 0 && !query->defs[i].var->value))
      return false;
    search->slots[search->def_slots[i]].value = value;
  }
  if (!evaluate(search, &search->goal, &value) ||
      (search->eq ? value == 0 : value >= 0))
    return false;
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (!evaluate(search, &search->polys[i], &value) || value < 0 ||
        (query->polys[i].eq && value))
      return false;
  return true;
}

/* ---- choices ---- */

static void choice_add(Slot *slot, int64_t value) {
  const DimVar *var = slot->atom->var;
  if (value < 0 && (!var || !var->value))
    return;
  for (uint32_t i = 0; i < slot->choice_count; i++)
    if (slot->choices[i] == value)
      return;
  if (slot->choice_count < MAX_CHOICES)
    slot->choices[slot->choice_count++] = value;
}

/* The constants of d, at any depth of divisions and minima. */
static void constants_of(Slot *slot, const Dim *d) {
  for (uint32_t i = 0; i < d->count; i++) {
    int64_t c = d->at[i].coef.small;
    if (!d->at[i].coef.limbs && c > -1000000000 && c < 1000000000) {
      choice_add(slot, c < 0 ? -c : c);
      choice_add(slot, (c < 0 ? -c : c) + 1);
      choice_add(slot, (c < 0 ? -c : c) - 1);
    }
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      const Atom *atom = d->at[i].mono->at[j].atom;
      for (uint32_t k = 0; k < atom->arg_count; k++)
        constants_of(slot, atom->args[k]);
    }
  }
}

static void choices(Search *search, Slot *slot) {
  static const int16_t telling[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,
                                    10, 11, 12, 13, 14, 15, 16, 17, 20,
                                    24, 28, 31, 32, 33, 50, 64, 100};
  const DimVar *var = slot->atom->var;
  if (var && (var->kind == DV_INDEX || var->value))
    choice_add(slot, 0);
  for (uint32_t i = 0; i < ARRAY_LEN(telling); i++) {
    choice_add(slot, telling[i]);
    if (telling[i] < 10)
      choice_add(slot, -telling[i]);
  }
  constants_of(slot, search->query.goal);
  for (uint32_t i = 0; i < search->query.poly_count; i++)
    constants_of(slot, search->query.polys[i].d);
  choice_add(slot, 127);
  choice_add(slot, 128);
  choice_add(slot, 1000);
  choice_add(slot, 0); /* sizes of 0 are rarely what is wrong */
}

/* ---- the search ---- */

static uint32_t choice_at(Search *search, uint32_t i, uint32_t index) {
  Slot *slot = &search->slots[search->free[i]];
  if (index >= slot->choice_count)
    index = slot->choice_count - 1;
  slot->value = slot->choices[index];
  return index;
}

/* All tuples whose largest index is `level`; *budget counts down. */
static bool search_level(Search *search, uint32_t level, uint32_t *budget) {
  uint32_t index[MAX_LEAVES] = {0};
  for (; *budget; --*budget) {
    bool reached = !level;
    for (uint32_t i = 0; i < search->free_count; i++) {
      choice_at(search, i, index[i]);
      reached |= index[i] == level;
    }
    if (reached && breaks(search))
      return true;
    uint32_t i = 0;
    while (i < search->free_count && index[i] == level)
      index[i++] = 0;
    if (i == search->free_count)
      return false;
    index[i]++;
  }
  return false;
}

static bool search_random(Search *search) {
  uint64_t state = 0x2545F4914F6CDD1Du; /* the same each time */
  for (uint32_t n = 0; n < BUDGET_RANDOM; n++) {
    for (uint32_t i = 0; i < search->free_count; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const Slot *slot = &search->slots[search->free[i]];
      choice_at(search, i, (uint32_t)(state >> 33) % slot->choice_count);
    }
    if (breaks(search))
      return true;
  }
  return false;
}

static bool search_run(Search *search) {
  uint32_t budget = BUDGET_ORDERLY, most = 1;
  for (uint32_t i = 0; i < search->free_count; i++) {
    const Slot *slot = &search->slots[search->free[i]];
    if (slot->choice_count > most)
      most = slot->choice_count;
  }
  for (uint32_t level = 0; level < most && budget; level++)
    if (search_level(search, level, &budget))
      return true;
  return search->free_count && search_random(search);
}

/* ---- setting up and showing ---- */

static bool search_compile(Search *search, const Dim *d) {
  DimCtx *cx = search->cx;
  Query *query = &search->query;
  search->polys = NEW_ARRAY(cx->arena, Program, query->poly_count + 1);
  search->defs = NEW_ARRAY(cx->arena, Program, query->def_count + 1);
  search->def_slots = NEW_ARRAY(cx->arena, uint32_t, query->def_count + 1);
  slots_of(search, d);
  search->shown = search->slot_count;
  for (uint32_t i = 0; i < query->poly_count; i++)
    slots_of(search, query->polys[i].d);
  for (uint32_t i = 0; i < query->def_count; i++) {
    slots_of(search, query->defs[i].value);
    slots_of(search, dim_of_var(cx, query->defs[i].var));
  }
  if (search->too_many || !compile(search, d, &search->goal))
    return false;
  for (uint32_t i = 0; i < query->poly_count; i++)
    if (!compile(search, query->polys[i].d, &search->polys[i]))
      return false;
  for (uint32_t i = 0; i < query->def_count; i++) {
    uint32_t slot = slot_find(search, query->defs[i].var, NULL);
    search->def_slots[i] = slot;
    search->slots[slot].defined = true;
    if (!compile(search, query->defs[i].value, &search->defs[i]))
      return false;
  }
  return true;
}

static int slot_order(const void *a, const void *b) {
  uint64_t x = ((const Slot *)a)->atom->key, y = ((const Slot *)b)->atom->key;
  return (x > y) - (x < y);
}

/* The claim's own, and others that are 0, of which nobody would think. */
static void show(Search *search, Buffer *out) {
  for (uint32_t i = search->shown; i < search->slot_count; i++)
    if (!search->slots[i].value) {
      Slot other = search->slots[i];
      search->slots[i] = search->slots[search->shown];
      search->slots[search->shown++] = other;
    }
  qsort(search->slots, search->shown, sizeof *search->slots, slot_order);
  for (uint32_t i = 0; i < search->shown; i++) {
    buffer_puts(out, i ? ", " : "");
    dim_print(search->cx, out, search->slots[i].atom->dim);
    buffer_printf(out, " = %lld", (long long)search->slots[i].value);
  }
}

typedef struct Zeros {
  Search *search;
  DimFacts *facts;
  Buffer *out;
} Zeros;

static void show_zero(void *arg, Atom *atom) {
  Zeros *z = arg;
  Search *search = z->search;
  uint32_t seen = search->slot_count;
  slot_add(search, atom);
  if (search->slot_count == seen)
    return; /* shown, or one too many */
  Dim *none = dim_neg(search->cx, atom->dim);
  if (dim_ge0(z->facts, none, false) != PROVED)
    return;
  buffer_puts(z->out, ", ");
  dim_print(search->cx, z->out, atom->dim);
  buffer_puts(z->out, " = 0");
}

/* Nor of sizes that share no fact with the claim, and have to be 0. */
static void show_zeros(Search *search, DimFacts *facts, Buffer *out) {
  Zeros z = {search, facts, out};
  dim_facts_each_leaf(facts, show_zero, &z);
}

bool dim_witness(DimFacts *facts, Dim *d, bool eq, Buffer *out) {
  DimCtx *cx = dim_facts_cx(facts);
  Search *search = NEW(cx->arena, Search);
  search->cx = cx;
  search->eq = eq;
  d = dim_resolve(cx, d);
  ScratchMark mark = scratch_mark(dim_facts_scratch(facts));
  query_init(&search->query, facts, d, UINT32_MAX);
  bool found = !search->query.contradiction && !search->query.partial &&
               search->query.poly_count < SOLVER_RELATED &&
               search_compile(search, d) && search->shown;
  for (uint32_t i = 0; found && i < search->slot_count; i++)
    if (!search->slots[i].defined) {
      choices(search, &search->slots[i]);
      search->free[search->free_count++] = i;
    }
  found = found && search_run(search);
  scratch_release(dim_facts_scratch(facts), mark);
  if (found) {
    show(search, out);
    show_zeros(search, facts, out);
  }
  return found;
}
