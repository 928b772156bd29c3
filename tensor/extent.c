/* Symbolic extents: handles of size polynomials, assumptions about them, and
 * requirements.  See extent.h. */
#include "tensor/extent.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/trap.h"
#include "support/vec.h"
#include "tensor/internal.h"

#include <math.h>
#include <string.h>

typedef enum ExtentOp {
  EXTENT_OP_ADD,
  EXTENT_OP_SUB,
  EXTENT_OP_MUL,
  EXTENT_OP_DIV,
  EXTENT_OP_MOD,
  EXTENT_OP_MIN,
  EXTENT_OP_MAX,
} ExtentOp;

typedef struct MemoizedOp { /* a cached operation */
  int64_t x, y, result;
  ExtentOp op;
  bool used;
} MemoizedOp;

typedef struct MemoizedDecision { /* a cached decision */
  ExtentConstraint constraint;
  uint64_t epoch; /* value of ExtentTable.epoch at the decision */
  Verdict verdict;
  bool used;
} MemoizedDecision;

/* A scalar argument from which sizes may be computed. */
typedef struct ScalarArg {
  uint32_t arg;
  const char *name;
  DimVar *var; /* NULL: no size depends on it */
} ScalarArg;

typedef struct ExtentHint {
  const DimVar *var;
  int64_t value;
} ExtentHint;

typedef struct ExtentAlias {
  const DimVar *var;
  int64_t extent;
} ExtentAlias;

struct ExtentTable {
  Arena *arena;
  DimCtx *dims;
  Assumptions *assumptions;
  uint64_t epoch;       /* changes whenever the assumptions change */
  VEC(Dim *) by_handle; /* indexed by handle */
  VEC(Requirement) requirements;
  VEC(ScalarArg) scalar_args;
  VEC(ExtentHint) hints; /* hints other than the default */
  VEC(ExtentAlias) aliases;
  MemoizedOp op_cache[EXTENT_OP_CACHE_ENTRIES];
  MemoizedDecision decision_cache[EXTENT_DECISION_CACHE_ENTRIES];
};

ExtentTable *extent_table_new(DimCtx *dims, Assumptions *assumptions) {
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  ExtentTable *s = NEW(arena, ExtentTable);
  s->arena = arena;
  s->dims = dims;
  s->assumptions = assumptions;
  trap_end(&trap);
  return s;
}

void extent_table_free(ExtentTable *s) {
  if (!s)
    return;
  for (uint32_t k = 0; k < s->requirements.len; k++)
    node_release(s->requirements.at[k].guard);
  arena_free(s->arena);
}

const Requirement *extent_table_requirements(const ExtentTable *s,
                                             uint32_t *count) {
  *count = s->requirements.len;
  return s->requirements.at;
}

/* ---- handles ---- */

int64_t extent_of_dim(Graph *g, Dim *d) {
  ExtentTable *s = g->extent_table;
  int64_t x;
  d = dim_resolve(s->dims, d);
  if (dim_is_int(d, &x) && x < FIRST_EXTENT_HANDLE)
    return x;
  for (uint32_t k = 0; k < s->by_handle.len; k++)
    if (dim_equal(s->by_handle.at[k], d))
      return FIRST_EXTENT_HANDLE + k;
  VEC_PUSH(s->arena, s->by_handle, d);
  return FIRST_EXTENT_HANDLE + s->by_handle.len - 1;
}

Dim *extent_dim(const Graph *g, int64_t x) {
  const ExtentTable *s = g->extent_table;
  return extent_is_static(g, x) ? dim_int(s->dims, x)
                                : s->by_handle.at[x - FIRST_EXTENT_HANDLE];
}

/* ---- arithmetic ---- */

static Dim *apply_dim_op(DimCtx *cx, ExtentOp op, Dim *x, Dim *y) {
  switch (op) {
  case EXTENT_OP_ADD:
    return dim_add(cx, x, y);
  case EXTENT_OP_SUB:
    return dim_sub(cx, x, y);
  case EXTENT_OP_MUL:
    return dim_mul(cx, x, y);
  case EXTENT_OP_DIV:
    return dim_div(cx, x, y);
  case EXTENT_OP_MOD:
    return dim_mod(cx, x, y);
  case EXTENT_OP_MIN:
    return dim_min(cx, x, y);
  case EXTENT_OP_MAX:
    return dim_max(cx, x, y);
  }
  return x;
}

static uint32_t cache_slot(int64_t x, int64_t y, uint32_t op, uint32_t count) {
  uint64_t h = ((uint64_t)x * 31 + (uint64_t)y) * 8 + op;
  h *= 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 40) & (count - 1);
}

static int64_t memoized_op(Graph *g, ExtentOp op, int64_t x, int64_t y) {
  ExtentTable *s = g->extent_table;
  MemoizedOp *slot =
      &s->op_cache[cache_slot(x, y, op, EXTENT_OP_CACHE_ENTRIES)];
  if (slot->used && slot->op == op && slot->x == x && slot->y == y)
    return slot->result;
  Dim *d = apply_dim_op(s->dims, op, extent_dim(g, x), extent_dim(g, y));
  *slot = (MemoizedOp){x, y, extent_of_dim(g, d), op, true};
  return slot->result;
}

static bool both_static(const Graph *g, int64_t x, int64_t y) {
  return extent_is_static(g, x) && extent_is_static(g, y);
}

/* An arithmetic result must not be a handle by chance. */
static bool is_not_handle(const Graph *g, int64_t x) {
  return !g->extent_table || x < FIRST_EXTENT_HANDLE;
}

bool extent_add(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_static(g, x, y))
    return !__builtin_add_overflow(x, y, out) && is_not_handle(g, *out);
  *out = memoized_op(g, EXTENT_OP_ADD, x, y);
  return true;
}

bool extent_sub(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_static(g, x, y))
    return !__builtin_sub_overflow(x, y, out) && is_not_handle(g, *out);
  *out = memoized_op(g, EXTENT_OP_SUB, x, y);
  return true;
}

bool extent_mul(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_static(g, x, y))
    return !__builtin_mul_overflow(x, y, out) && is_not_handle(g, *out);
  *out = memoized_op(g, EXTENT_OP_MUL, x, y);
  return true;
}

bool extent_floor_div(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (extent_is_static(g, y) && (y == 0 || (y < 0 && !extent_is_static(g, x))))
    return false;
  *out = both_static(g, x, y) ? int_floor_div(x, y)
                              : memoized_op(g, EXTENT_OP_DIV, x, y);
  return true;
}

bool extent_floor_mod(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (extent_is_static(g, y) && (y == 0 || (y < 0 && !extent_is_static(g, x))))
    return false;
  *out = both_static(g, x, y) ? int_floor_mod(x, y)
                              : memoized_op(g, EXTENT_OP_MOD, x, y);
  return true;
}

int64_t extent_min(Graph *g, int64_t x, int64_t y) {
  return both_static(g, x, y) ? (x < y ? x : y)
                              : memoized_op(g, EXTENT_OP_MIN, x, y);
}

int64_t extent_max(Graph *g, int64_t x, int64_t y) {
  return both_static(g, x, y) ? (x > y ? x : y)
                              : memoized_op(g, EXTENT_OP_MAX, x, y);
}

bool extent_product(Graph *g, uint32_t count, const int64_t *x, int64_t *out) {
  *out = 1;
  bool fits_i64 = true;
  for (uint32_t k = 0; k < count; k++) {
    if (x[k] == 0) {
      *out = 0;
      return true;
    }
    fits_i64 = fits_i64 && extent_mul(g, *out, x[k], out);
  }
  return fits_i64;
}

bool extent_ceil_div(Graph *g, int64_t x, int64_t y, int64_t *out) {
  int64_t less;
  return extent_sub(g, y, 1, &less) && extent_add(g, x, less, out) &&
         extent_floor_div(g, *out, y, out);
}

int64_t extent_sub_saturating(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return extent_sub(g, x, y, &out) ? out : INT64_MAX;
}

/* ---- assumptions and decisions ---- */

static Verdict negate_verdict(Verdict v) {
  return v == ENTAILED       ? CONTRADICTED
         : v == CONTRADICTED ? ENTAILED
                             : UNDECIDED;
}

static Verdict prove(const ExtentTable *s, ExtentRelation relation, Dim *x,
                     Dim *y) {
  Dim *d = dim_sub(s->dims, y, x);
  int64_t n;
  if (dim_is_int(d, &n))
    return (relation == EXTENT_LE ? n >= 0
                                  : (n == 0) == (relation == EXTENT_EQ))
               ? ENTAILED
               : CONTRADICTED;
  assumptions_renew_effort(s->assumptions);
  if (relation == EXTENT_LE)
    return dim_check_ge0(s->assumptions, d, false);
  Verdict same = dim_check_eq0(s->assumptions, d, false);
  return relation == EXTENT_EQ ? same : negate_verdict(same);
}

Verdict extent_decide(const Graph *g, ExtentRelation relation, int64_t x,
                      int64_t y) {
  bool holds =
      relation == EXTENT_LE ? x <= y : (x == y) == (relation == EXTENT_EQ);
  if (both_static(g, x, y))
    return holds ? ENTAILED : CONTRADICTED;
  if (x == y)
    return relation == EXTENT_NE ? CONTRADICTED : ENTAILED;
  ExtentTable *s = g->extent_table;
  MemoizedDecision *slot = &s->decision_cache[cache_slot(
      x, y, relation, EXTENT_DECISION_CACHE_ENTRIES)];
  if (!slot->used || slot->epoch != s->epoch ||
      slot->constraint.relation != relation || slot->constraint.x != x ||
      slot->constraint.y != y) {
    Verdict v = prove(s, relation, extent_dim(g, x), extent_dim(g, y));
    *slot = (MemoizedDecision){{relation, x, y}, s->epoch, v, true};
  }
  return slot->verdict;
}

bool extent_proved_less(const Graph *g, int64_t x, int64_t y) {
  int64_t next;
  if (both_static(g, x, y))
    return x < y;
  return extent_add((Graph *)(uintptr_t)g, x, 1, &next) &&
         extent_proved(g, EXTENT_LE, next, y);
}

uint32_t extent_table_mark(Graph *g) {
  return assumptions_mark(g->extent_table->assumptions);
}

void extent_table_assume(Graph *g, ExtentConstraint f) {
  ExtentTable *s = g->extent_table;
  Dim *d = dim_sub(s->dims, extent_dim(g, f.y), extent_dim(g, f.x));
  s->epoch++;
  if (f.relation == EXTENT_EQ)
    assumptions_add_eq(s->assumptions, d);
  if (f.relation == EXTENT_LE)
    assumptions_add_ge(s->assumptions, d);
  if (f.relation == EXTENT_NE && extent_proved(g, EXTENT_LE, f.x, f.y))
    assumptions_add_ge(s->assumptions,
                       dim_sub(s->dims, d, dim_int(s->dims, 1)));
  else if (f.relation == EXTENT_NE && extent_proved(g, EXTENT_LE, f.y, f.x))
    assumptions_add_ge(s->assumptions, dim_sub(s->dims, dim_neg(s->dims, d),
                                               dim_int(s->dims, 1)));
}

void extent_table_rollback(Graph *g, uint32_t mark) {
  g->extent_table->epoch++;
  assumptions_backtrack(g->extent_table->assumptions, mark);
}

/* ---- requirements ---- */

static bool has_requirement(const ExtentTable *s, const Requirement *r) {
  for (uint32_t k = 0; k < s->requirements.len; k++) {
    const Requirement *x = &s->requirements.at[k];
    if (x->guard == r->guard && !x->premise_count &&
        x->constraint.relation == r->constraint.relation &&
        x->constraint.x == r->constraint.x &&
        x->constraint.y == r->constraint.y)
      return true;
  }
  return false;
}

bool extent_table_require(ExtentTable *s, Requirement r) {
  if (!r.premise_count && has_requirement(s, &r))
    return false;
  r.message = arena_strndup(s->arena, r.message, strlen(r.message));
  r.help = arena_strndup(s->arena, r.help, strlen(r.help));
  if (r.premise_count) {
    ExtentConstraint *premises =
        NEW_ARRAY(s->arena, ExtentConstraint, r.premise_count);
    memcpy(premises, r.premises, r.premise_count * sizeof *premises);
    r.premises = premises;
  }
  VEC_PUSH(s->arena, s->requirements, r);
  return true;
}

/* ---- scalar arguments ---- */

void extent_table_add_arg(ExtentTable *s, uint32_t arg, const char *name) {
  VEC_PUSH(s->arena, s->scalar_args, ((ScalarArg){arg, name, NULL}));
}

static ScalarArg *find_scalar_arg(const ExtentTable *s, uint32_t arg) {
  for (uint32_t k = 0; k < s->scalar_args.len; k++)
    if (s->scalar_args.at[k].arg == arg)
      return &s->scalar_args.at[k];
  return NULL;
}

DimVar *extent_table_arg_var(const ExtentTable *s, uint32_t arg) {
  const ScalarArg *a = find_scalar_arg(s, arg);
  return a ? a->var : NULL;
}

bool extent_of_arg(Graph *g, uint32_t arg, Span span, int64_t *out) {
  ExtentTable *s = g->extent_table;
  ScalarArg *a = find_scalar_arg(s, arg);
  if (!a)
    return false;
  if (!a->var) {
    a->var = dim_new_var(s->dims, DV_SKOLEM, NULL, span);
    a->var->is_integer = true;
    a->var->printed_name = a->name;
  }
  *out = extent_of_dim(g, dim_of_var(s->dims, a->var));
  return true;
}

/* ---- printing ---- */

void extent_print(const Graph *g, Buffer *out, int64_t x) {
  if (extent_is_static(g, x))
    buffer_printf(out, "%lld", (long long)x);
  else
    dim_print(g->extent_table->dims, out, extent_dim(g, x));
}

ExtentText extent_text(const Graph *g, int64_t x) {
  ExtentText t;
  if (extent_is_static(g, x)) {
    snprintf(t.text, sizeof t.text, "%lld", (long long)x);
    return t;
  }
  Buffer out = {.arena = g->extent_table->arena};
  extent_print(g, &out, x);
  snprintf(t.text, sizeof t.text, "%.*s", (int)out.len, out.text);
  return t;
}

/* ---- C expressions and evaluation ---- */

enum { MAX_STACK = 256 };

static const char *emit_op(Arena *arena, DimOpKind kind, const char *x,
                           const char *y) {
  switch (kind) {
  case DOP_ADD:
    return arena_printf(arena, "(%s + %s)", x, y);
  case DOP_SUB:
    return arena_printf(arena, "(%s - %s)", x, y);
  case DOP_MUL:
    return arena_printf(arena, "%s * %s", x, y);
  case DOP_DIV:
    return arena_printf(arena, "size_div(%s, %s)", x, y);
  case DOP_MIN:
    return arena_printf(arena, "size_min(%s, %s)", x, y);
  case DOP_MAX:
    return arena_printf(arena, "size_max(%s, %s)", x, y);
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
    break;
  }
  return NULL;
}

/* A bound on all intermediate values: subtraction is replaced by addition, and
 * division does not reduce the value. */
static const char *magnitude_op(Arena *arena, DimOpKind kind, const char *x,
                                const char *y) {
  if (kind == DOP_DIV)
    return x;
  return arena_printf(arena, kind == DOP_MUL ? "%s * %s" : "(%s + %s)", x, y);
}

static const char *emit_leaf(Arena *arena, const DimOp *op, bool magnitude,
                             const char *(*name)(void *, const DimVar *),
                             void *arg) {
  if (op->kind == DOP_VAR)
    return magnitude ? arena_printf(arena, "size_abs(%s)", name(arg, op->var))
                     : name(arg, op->var);
  if (magnitude)
    return arena_printf(arena, "%.1f", fabs((double)op->num));
  return arena_printf(arena, op->num < 0 ? "(%lld)" : "%lld",
                      (long long)op->num);
}

static bool emit(const Graph *g, Buffer *out, int64_t x, bool magnitude,
                 const char *(*name)(void *, const DimVar *), void *arg) {
  Arena *arena = g->extent_table->arena;
  uint32_t count, height = 0;
  const DimOp *ops =
      dim_postfix(g->extent_table->dims, extent_dim(g, x), &count);
  const char *stack[MAX_STACK];
  for (uint32_t k = 0; ops && k < count; k++) {
    if (height == MAX_STACK || ops[k].kind == DOP_PROD)
      return false;
    if (ops[k].kind == DOP_INT || ops[k].kind == DOP_VAR) {
      stack[height++] = emit_leaf(arena, &ops[k], magnitude, name, arg);
    } else {
      height--;
      stack[height - 1] = (magnitude ? magnitude_op : emit_op)(
          arena, ops[k].kind, stack[height - 1], stack[height]);
    }
  }
  if (height == 1)
    buffer_puts(out, stack[0]);
  return height == 1;
}

bool extent_emit_c(const Graph *g, Buffer *out, int64_t x,
                   const char *(*name)(void *, const DimVar *), void *arg) {
  if (!extent_is_static(g, x))
    return emit(g, out, x, false, name, arg);
  buffer_printf(out, "%lld", (long long)x);
  return true;
}

bool extent_emit_magnitude(const Graph *g, Buffer *out, int64_t x,
                           const char *(*name)(void *, const DimVar *),
                           void *arg) {
  return emit(g, out, x, true, name, arg);
}

static bool evaluate_op(DimOpKind kind, int64_t x, int64_t y, int64_t *out) {
  switch (kind) {
  case DOP_ADD:
    return !__builtin_add_overflow(x, y, out);
  case DOP_SUB:
    return !__builtin_sub_overflow(x, y, out);
  case DOP_MUL:
    return !__builtin_mul_overflow(x, y, out);
  case DOP_DIV:
    *out = y ? int_floor_div(x, y) : 0;
    return y != 0;
  case DOP_MIN:
    *out = x < y ? x : y;
    return true;
  case DOP_MAX:
    *out = x > y ? x : y;
    return true;
  case DOP_INT:
  case DOP_VAR:
  case DOP_PROD:
    break;
  }
  return false;
}

bool dim_postfix_evaluate(const DimOp *ops, uint32_t count,
                          int64_t (*value)(void *, const DimVar *), void *arg,
                          int64_t *out) {
  uint32_t height = 0;
  int64_t stack[MAX_STACK];
  for (uint32_t k = 0; ops && k < count; k++) {
    if (height == MAX_STACK || ops[k].kind == DOP_PROD)
      return false;
    if (ops[k].kind == DOP_INT) {
      stack[height++] = ops[k].num;
    } else if (ops[k].kind == DOP_VAR) {
      stack[height++] = value(arg, ops[k].var);
    } else {
      height--;
      if (!evaluate_op(ops[k].kind, stack[height - 1], stack[height],
                       &stack[height - 1]))
        return false;
    }
  }
  if (height == 1)
    *out = stack[0];
  return height == 1;
}

bool extent_evaluate(const Graph *g, int64_t x,
                     int64_t (*value)(void *, const DimVar *), void *arg,
                     int64_t *out) {
  *out = x;
  if (extent_is_static(g, x))
    return true;
  uint32_t count;
  const DimOp *ops =
      dim_postfix(g->extent_table->dims, extent_dim(g, x), &count);
  return dim_postfix_evaluate(ops, count, value, arg, out);
}

/* ---- hints ---- */

static int64_t hinted_value(void *arg, const DimVar *v) {
  const ExtentTable *s = arg;
  for (uint32_t k = 0; k < s->hints.len; k++)
    if (s->hints.at[k].var == v)
      return s->hints.at[k].value;
  return v->is_integer ? 2 : EXTENT_HINT_DEFAULT;
}

void extent_table_set_hint(ExtentTable *s, const DimVar *var, int64_t value) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < s->hints.len; k++)
    if (s->hints.at[k].var != var)
      s->hints.at[kept++] = s->hints.at[k];
  s->hints.len = kept;
  if (value)
    VEC_PUSH(s->arena, s->hints, ((ExtentHint){var, value}));
}

void extent_each_var(const Graph *g, int64_t x, void (*f)(void *, DimVar *),
                     void *arg) {
  if (!extent_is_static(g, x))
    dim_each_var(extent_dim(g, x), f, NULL, arg);
}

int64_t extent_hint(const Graph *g, int64_t x) {
  int64_t out;
  if (extent_is_static(g, x))
    return x;
  if (!extent_evaluate(g, x, hinted_value, g->extent_table, &out))
    return EXTENT_HINT_DEFAULT;
  return out < 1 ? 1 : out;
}

int64_t extent_new_alias(Graph *g, int64_t x) {
  ExtentTable *s = g->extent_table;
  if (extent_is_static(g, x))
    return x;
  DimVar *var = dim_new_var(s->dims, DV_SKOLEM, NULL, g->span);
  VEC_PUSH(s->arena, s->aliases, ((ExtentAlias){var, x}));
  extent_table_set_hint(s, var, extent_hint(g, x));
  return extent_of_dim(g, dim_of_var(s->dims, var));
}

uint32_t extent_table_alias_count(const ExtentTable *s) {
  return s->aliases.len;
}

const DimVar *extent_table_alias_at(const ExtentTable *s, uint32_t k,
                                    int64_t *extent) {
  *extent = s->aliases.at[k].extent;
  return s->aliases.at[k].var;
}

double extent_hint_product(const Graph *g, uint32_t count, const int64_t *x) {
  double product = 1;
  for (uint32_t k = 0; k < count; k++)
    product *= (double)extent_hint(g, x[k]);
  return product;
}

double node_element_hint(const Graph *g, const Node *n) {
  return extent_hint_product(g, n->free_count + n->rank, n->extents);
}
