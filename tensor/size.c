/* Sizes that are not numbers: handles, what is known of them, requirements. */
#include "tensor/size.h"
#include "tensor/internal.h"

#include <math.h>
#include <string.h>

typedef enum SizeOp {
  DO_ADD,
  DO_SUB,
  DO_MUL,
  DO_DIV,
  DO_MOD,
  DO_MIN,
  DO_MAX,
} SizeOp;

typedef struct Done { /* an operation that was done before */
  int64_t x, y, result;
  SizeOp op;
  bool used;
} Done;

typedef struct Tested { /* a test that was answered, */
  SizeFact fact;
  uint64_t facts; /* when this was sizes->turn */
  Verdict verdict;
  bool used;
} Tested;

enum { DONE_COUNT = 1024, TESTED_COUNT = 1024 }; /* powers of two */

typedef struct ArgSize { /* a scalar argument that sizes are made of */
  uint32_t arg;
  const char *name;
  DimVar *var; /* NULL: none is */
} ArgSize;

typedef struct Guess {
  const DimVar *var;
  int64_t value;
} Guess;

typedef struct AliasSize {
  const DimVar *var;
  int64_t is;
} AliasSize;

struct Sizes {
  Arena *arena;
  DimCtx *dims;
  DimFacts *facts;
  uint64_t turn; /* another one wherever other facts hold */
  VEC(Dim *) at; /* by handle */
  VEC(Requirement) required;
  VEC(ArgSize) args;
  VEC(Guess) guesses; /* where they are not the middling ones */
  VEC(AliasSize) named;
  Done done[DONE_COUNT];
  Tested tested[TESTED_COUNT];
};

Sizes *sizes_new(DimCtx *dims, DimFacts *facts) {
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  Sizes *s = NEW(arena, Sizes);
  s->arena = arena;
  s->dims = dims;
  s->facts = facts;
  trap_end(&trap);
  return s;
}

void sizes_free(Sizes *s) {
  if (!s)
    return;
  for (uint32_t k = 0; k < s->required.len; k++)
    node_release(s->required.at[k].guard);
  arena_free(s->arena);
}

const Requirement *sizes_required(const Sizes *s, uint32_t *count) {
  *count = s->required.len;
  return s->required.at;
}

/* ---- handles ---- */

int64_t size_of_dim(Graph *g, Dim *d) {
  Sizes *s = g->sizes;
  int64_t x;
  d = dim_resolve(s->dims, d);
  if (dim_is_int(d, &x) && x < SIZE_FIRST)
    return x;
  for (uint32_t k = 0; k < s->at.len; k++)
    if (dim_equal(s->at.at[k], d))
      return SIZE_FIRST + k;
  VEC_PUSH(s->arena, s->at, d);
  return SIZE_FIRST + s->at.len - 1;
}

Dim *size_dim(const Graph *g, int64_t x) {
  const Sizes *s = g->sizes;
  return size_is_number(g, x) ? dim_int(s->dims, x) : s->at.at[x - SIZE_FIRST];
}

/* ---- arithmetic ---- */

static Dim *dim_done(DimCtx *cx, SizeOp op, Dim *x, Dim *y) {
  switch (op) {
  case DO_ADD:
    return dim_add(cx, x, y);
  case DO_SUB:
    return dim_sub(cx, x, y);
  case DO_MUL:
    return dim_mul(cx, x, y);
  case DO_DIV:
    return dim_div(cx, x, y);
  case DO_MOD:
    return dim_mod(cx, x, y);
  case DO_MIN:
    return dim_min(cx, x, y);
  case DO_MAX:
    return dim_max(cx, x, y);
  }
  return x;
}

static uint32_t slot_of(int64_t x, int64_t y, uint32_t op, uint32_t count) {
  uint64_t h = ((uint64_t)x * 31 + (uint64_t)y) * 8 + op;
  h *= 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 40) & (count - 1);
}

static int64_t done(Graph *g, SizeOp op, int64_t x, int64_t y) {
  Sizes *s = g->sizes;
  Done *slot = &s->done[slot_of(x, y, op, DONE_COUNT)];
  if (slot->used && slot->op == op && slot->x == x && slot->y == y)
    return slot->result;
  Dim *d = dim_done(s->dims, op, size_dim(g, x), size_dim(g, y));
  *slot = (Done){x, y, size_of_dim(g, d), op, true};
  return slot->result;
}

static bool both_numbers(const Graph *g, int64_t x, int64_t y) {
  return size_is_number(g, x) && size_is_number(g, y);
}

/* What is no handle by chance. */
static bool fits(const Graph *g, int64_t x) {
  return !g->sizes || x < SIZE_FIRST;
}

bool size_add(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_numbers(g, x, y))
    return !__builtin_add_overflow(x, y, out) && fits(g, *out);
  *out = done(g, DO_ADD, x, y);
  return true;
}

bool size_sub(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_numbers(g, x, y))
    return !__builtin_sub_overflow(x, y, out) && fits(g, *out);
  *out = done(g, DO_SUB, x, y);
  return true;
}

bool size_mul(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (both_numbers(g, x, y))
    return !__builtin_mul_overflow(x, y, out) && fits(g, *out);
  *out = done(g, DO_MUL, x, y);
  return true;
}

bool size_div(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (size_is_number(g, y) && (y == 0 || (y < 0 && !size_is_number(g, x))))
    return false;
  *out = both_numbers(g, x, y) ? int_div(x, y) : done(g, DO_DIV, x, y);
  return true;
}

bool size_mod(Graph *g, int64_t x, int64_t y, int64_t *out) {
  if (size_is_number(g, y) && (y == 0 || (y < 0 && !size_is_number(g, x))))
    return false;
  *out = both_numbers(g, x, y) ? int_mod(x, y) : done(g, DO_MOD, x, y);
  return true;
}

int64_t size_min(Graph *g, int64_t x, int64_t y) {
  return both_numbers(g, x, y) ? (x < y ? x : y) : done(g, DO_MIN, x, y);
}

int64_t size_max(Graph *g, int64_t x, int64_t y) {
  return both_numbers(g, x, y) ? (x > y ? x : y) : done(g, DO_MAX, x, y);
}

bool size_product(Graph *g, uint32_t count, const int64_t *x, int64_t *out) {
  *out = 1;
  bool good = true;
  for (uint32_t k = 0; k < count; k++) {
    if (x[k] == 0) {
      *out = 0;
      return true;
    }
    good = good && size_mul(g, *out, x[k], out);
  }
  return good;
}

bool size_div_up(Graph *g, int64_t x, int64_t y, int64_t *out) {
  int64_t less;
  return size_sub(g, y, 1, &less) && size_add(g, x, less, out) &&
         size_div(g, *out, y, out);
}

int64_t size_less(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return size_sub(g, x, y, &out) ? out : INT64_MAX;
}

/* ---- what is known ---- */

static Verdict not_known(Verdict v) {
  return v == PROVED ? REFUTED : v == REFUTED ? PROVED : OPEN;
}

static Verdict proof(const Sizes *s, SizeTest test, Dim *x, Dim *y) {
  Dim *d = dim_sub(s->dims, y, x);
  int64_t n;
  if (dim_is_int(d, &n))
    return (test == SIZE_LE ? n >= 0 : (n == 0) == (test == SIZE_EQ)) ? PROVED
                                                                      : REFUTED;
  dim_facts_renew(s->facts);
  if (test == SIZE_LE)
    return dim_ge0(s->facts, d, false);
  Verdict same = dim_eq0(s->facts, d, false);
  return test == SIZE_EQ ? same : not_known(same);
}

Verdict size_test(const Graph *g, SizeTest test, int64_t x, int64_t y) {
  bool holds = test == SIZE_LE ? x <= y : (x == y) == (test == SIZE_EQ);
  if (both_numbers(g, x, y))
    return holds ? PROVED : REFUTED;
  if (x == y)
    return test == SIZE_NE ? REFUTED : PROVED;
  Sizes *s = g->sizes;
  Tested *slot = &s->tested[slot_of(x, y, test, TESTED_COUNT)];
  if (!slot->used || slot->facts != s->turn || slot->fact.test != test ||
      slot->fact.x != x || slot->fact.y != y) {
    Verdict v = proof(s, test, size_dim(g, x), size_dim(g, y));
    *slot = (Tested){{test, x, y}, s->turn, v, true};
  }
  return slot->verdict;
}

bool size_below(const Graph *g, int64_t x, int64_t y) {
  int64_t next;
  if (both_numbers(g, x, y))
    return x < y;
  return size_add((Graph *)(uintptr_t)g, x, 1, &next) &&
         size_holds(g, SIZE_LE, next, y);
}

uint32_t sizes_mark(Graph *g) {
  return dim_facts_mark(g->sizes->facts);
}

void sizes_assume(Graph *g, SizeFact f) {
  Sizes *s = g->sizes;
  Dim *d = dim_sub(s->dims, size_dim(g, f.y), size_dim(g, f.x));
  s->turn++;
  if (f.test == SIZE_EQ)
    dim_facts_add_eq(s->facts, d);
  if (f.test == SIZE_LE)
    dim_facts_add_ge(s->facts, d);
  if (f.test == SIZE_NE && size_holds(g, SIZE_LE, f.x, f.y))
    dim_facts_add_ge(s->facts, dim_sub(s->dims, d, dim_int(s->dims, 1)));
  else if (f.test == SIZE_NE && size_holds(g, SIZE_LE, f.y, f.x))
    dim_facts_add_ge(
        s->facts, dim_sub(s->dims, dim_neg(s->dims, d), dim_int(s->dims, 1)));
}

void sizes_reset(Graph *g, uint32_t mark) {
  g->sizes->turn++;
  dim_facts_reset(g->sizes->facts, mark);
}

/* ---- requirements ---- */

static bool is_required(const Sizes *s, SizeFact f, const Node *guard) {
  for (uint32_t k = 0; k < s->required.len; k++) {
    const Requirement *r = &s->required.at[k];
    if (r->guard == guard && !r->when_count && r->fact.test == f.test &&
        r->fact.x == f.x && r->fact.y == f.y)
      return true;
  }
  return false;
}

/* The condition under which code now runs, without indices. */
static Node *guard_now(Graph *g) {
  Form form = {0};
  Node *guard = g->guard ? guard_for(g, &form, false) : NULL;
  if (!guard || !guard->loops)
    return guard;
  node_release(guard); /* nobody can tell before the loop turns */
  return NULL;
}

static void add_requirement(Graph *g, Requirement r) {
  Sizes *s = g->sizes;
  r.guard = guard_now(g);
  if (!r.when_count && is_required(s, r.fact, r.guard)) {
    node_release(r.guard);
    return;
  }
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(r.guard);
    trap_raise(trap.kind);
  }
  r.message = arena_text(s->arena, r.message, strlen(r.message));
  r.help = arena_text(s->arena, r.help, strlen(r.help));
  if (r.when_count) {
    SizeFact *when = NEW_ARRAY(s->arena, SizeFact, r.when_count);
    memcpy(when, r.when, r.when_count * sizeof *when);
    r.when = when;
  }
  r.span = g->span;
  VEC_PUSH(s->arena, s->required, r);
  trap_end(&trap);
  if (!r.guard && !r.when_count)
    sizes_assume(g, r.fact);
}

Verdict size_require(Graph *g, SizeFact f, const SizeFact *when,
                     uint32_t when_count, const char *message,
                     const char *help) {
  Verdict v = size_test(g, f.test, f.x, f.y);
  if (v == OPEN || (v == REFUTED && when_count && g->sizes))
    add_requirement(g, (Requirement){.fact = f,
                                     .when = when,
                                     .when_count = when_count,
                                     .message = message,
                                     .help = help});
  return v == REFUTED && when_count ? OPEN : v;
}

void sizes_test(Graph *g, SizeFact f, const char *message) {
  add_requirement(g, (Requirement){.fact = f, .message = message, .help = ""});
}

bool size_demand(Graph *g, SizeTest test, int64_t x, int64_t y, Fault *fault) {
  SizeFact f = {test, x, y};
  if (size_require(g, f, NULL, 0, fault->message, fault->help) == REFUTED)
    return false;
  *fault = (Fault){0};
  return true;
}

/* ---- sizes in the graph ---- */

void sizes_call_arg(Sizes *s, uint32_t arg, const char *name) {
  VEC_PUSH(s->arena, s->args, ((ArgSize){arg, name, NULL}));
}

static ArgSize *arg_of(const Sizes *s, uint32_t arg) {
  for (uint32_t k = 0; k < s->args.len; k++)
    if (s->args.at[k].arg == arg)
      return &s->args.at[k];
  return NULL;
}

DimVar *sizes_arg_var(const Sizes *s, uint32_t arg) {
  const ArgSize *a = arg_of(s, arg);
  return a ? a->var : NULL;
}

/* The value of an integer that the caller gives. */
static bool arg_size(Graph *g, const Node *n, int64_t *out) {
  Sizes *s = g->sizes;
  ArgSize *a = arg_of(s, n->arg);
  if (!a || n->rank || !dtype_is_int(n->dtype))
    return false;
  if (!a->var) {
    a->var = dim_new_var(s->dims, DV_RIGID, NULL, n->span);
    a->var->value = true;
    a->var->text = a->name;
  }
  *out = size_of_dim(g, dim_of_var(s->dims, a->var));
  return true;
}

static bool op_size(Graph *g, PrimId op, const int64_t *x, int64_t *out) {
  int64_t zero = 0;
  switch ((int)op) {
  case PRIM_ADD:
    return size_add(g, x[0], x[1], out);
  case PRIM_SUB:
    return size_sub(g, x[0], x[1], out);
  case PRIM_MUL:
    return size_mul(g, x[0], x[1], out);
  case PRIM_NEG:
    return size_sub(g, zero, x[0], out);
  case PRIM_MINIMUM:
    *out = size_min(g, x[0], x[1]);
    return true;
  case PRIM_MAXIMUM:
    *out = size_max(g, x[0], x[1]);
    return true;
  case PRIM_DIV:
    return size_holds(g, SIZE_LE, 1, x[1]) && size_div(g, x[0], x[1], out);
  case PRIM_MOD:
    return size_holds(g, SIZE_LE, 1, x[1]) && size_mod(g, x[0], x[1], out);
  }
  return false;
}

enum { DEEPEST = 32, OPERANDS = 3 };

static bool is_scalar(const Node *n) {
  return n->rank == 0 && n->free_count == 0;
}

static bool to_size(Graph *g, const Node *n, uint32_t depth, int64_t *out);

static bool cell_size(Graph *g, const Node *n, uint32_t k, uint32_t depth,
                      int64_t *out) {
  const Cell *c = &n->cells[k];
  int64_t x[OPERANDS];
  if (depth > DEEPEST)
    return false;
  switch (c->kind) {
  case CELL_CONST:
    *out = c->value.i;
    return dtype_is_int(c->dtype) && *out < SIZE_FIRST;
  case CELL_SIZE:
    *out = c->size;
    return true;
  case CELL_READ:
    return is_scalar(c->node) && to_size(g, c->node, depth + 1, out);
  case CELL_CONVERT:
    return c->dtype == DT_I64 && dtype_is_int(n->cells[c->args[0]].dtype) &&
           cell_size(g, n, c->args[0], depth + 1, out);
  case CELL_OP:
    if (c->dtype != DT_I64 || c->arg_count > OPERANDS)
      return false;
    for (uint32_t j = 0; j < c->arg_count; j++)
      if (!cell_size(g, n, c->args[j], depth + 1, &x[j]))
        return false;
    return op_size(g, c->op, x, out);
  case CELL_AXIS:
  case CELL_SELECT:
  case CELL_RANDOM:
    break;
  }
  return false;
}

static bool to_size(Graph *g, const Node *n, uint32_t depth, int64_t *out) {
  Scalar known;
  if (node_known(n, &known)) {
    *out = known.i;
    return dtype_is_int(known.dtype) && *out < SIZE_FIRST;
  }
  if (n->kind == NODE_ARG)
    return arg_size(g, n, out);
  return n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
         cell_size(g, n, n->cell_count - 1, depth, out);
}

bool node_to_size(Graph *g, const Node *n, int64_t *out) {
  return g->sizes && is_scalar(n) && to_size(g, n, 0, out);
}

bool node_to_fact(Graph *g, const Node *n, SizeFact *out) {
  if (!g->sizes || !is_scalar(n) || n->kind != NODE_COMP ||
      n->reduce != PRIM_NONE)
    return false;
  const Cell *c = &n->cells[n->cell_count - 1];
  if (c->kind == CELL_READ && is_scalar(c->node))
    return node_to_fact(g, c->node, out);
  int64_t x, y, more;
  if (c->kind != CELL_OP || c->arg_count != 2 ||
      !cell_size(g, n, c->args[0], 0, &x) ||
      !cell_size(g, n, c->args[1], 0, &y))
    return false;
  switch ((int)c->op) {
  case PRIM_EQ:
    *out = (SizeFact){SIZE_EQ, x, y};
    return true;
  case PRIM_NE:
    *out = (SizeFact){SIZE_NE, x, y};
    return true;
  case PRIM_LE:
    *out = (SizeFact){SIZE_LE, x, y};
    return true;
  case PRIM_GE:
    *out = (SizeFact){SIZE_LE, y, x};
    return true;
  case PRIM_LT:
    *out = (SizeFact){SIZE_LE, size_add(g, x, 1, &more) ? more : x, y};
    return true;
  case PRIM_GT:
    *out = (SizeFact){SIZE_LE, size_add(g, y, 1, &more) ? more : y, x};
    return true;
  }
  return false;
}

Node *node_size_scalar(Graph *g, int64_t x) {
  Form form = {.dtype = DT_I64};
  Body b;
  body_init(&b, g, &form);
  body_int(&b, x);
  return body_node(&b, g, NULL);
}

/* ---- texts ---- */

void size_put(const Graph *g, Buffer *out, int64_t x) {
  if (size_is_number(g, x))
    buffer_printf(out, "%lld", (long long)x);
  else
    dim_print(g->sizes->dims, out, size_dim(g, x));
}

SizeText size_text(const Graph *g, int64_t x) {
  SizeText t;
  if (size_is_number(g, x)) {
    snprintf(t.text, sizeof t.text, "%lld", (long long)x);
    return t;
  }
  Buffer out = {.arena = g->sizes->arena};
  size_put(g, &out, x);
  snprintf(t.text, sizeof t.text, "%.*s", (int)out.len, out.text);
  return t;
}

/* ---- as C, and as numbers ---- */

enum { STACK_MOST = 256 };

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

/* No value on the way is larger: what is subtracted adds, and to divide makes
 * nothing smaller. */
static const char *reach_op(Arena *arena, DimOpKind kind, const char *x,
                            const char *y) {
  if (kind == DOP_DIV)
    return x;
  return arena_printf(arena, kind == DOP_MUL ? "%s * %s" : "(%s + %s)", x, y);
}

static const char *emit_leaf(Arena *arena, const DimOp *op, bool reach,
                             const char *(*name)(void *, const DimVar *),
                             void *arg) {
  if (op->kind == DOP_VAR)
    return reach ? arena_printf(arena, "size_abs(%s)", name(arg, op->var))
                 : name(arg, op->var);
  if (reach)
    return arena_printf(arena, "%.1f", fabs((double)op->num));
  return arena_printf(arena, op->num < 0 ? "(%lld)" : "%lld",
                      (long long)op->num);
}

static bool emit(const Graph *g, Buffer *out, int64_t x, bool reach,
                 const char *(*name)(void *, const DimVar *), void *arg) {
  Arena *arena = g->sizes->arena;
  uint32_t count, height = 0;
  const DimOp *ops = dim_postfix(g->sizes->dims, size_dim(g, x), &count);
  const char *stack[STACK_MOST];
  for (uint32_t k = 0; ops && k < count; k++) {
    if (height == STACK_MOST || ops[k].kind == DOP_PROD)
      return false;
    if (ops[k].kind == DOP_INT || ops[k].kind == DOP_VAR) {
      stack[height++] = emit_leaf(arena, &ops[k], reach, name, arg);
    } else {
      height--;
      stack[height - 1] =
          (reach ? reach_op : emit_op)(arena, ops[k].kind, stack[height - 1],
                                       stack[height]);
    }
  }
  if (height == 1)
    buffer_puts(out, stack[0]);
  return height == 1;
}

bool size_emit(const Graph *g, Buffer *out, int64_t x,
               const char *(*name)(void *, const DimVar *), void *arg) {
  if (!size_is_number(g, x))
    return emit(g, out, x, false, name, arg);
  buffer_printf(out, "%lld", (long long)x);
  return true;
}

bool size_emit_reach(const Graph *g, Buffer *out, int64_t x,
                     const char *(*name)(void *, const DimVar *), void *arg) {
  return emit(g, out, x, true, name, arg);
}

static bool value_op(DimOpKind kind, int64_t x, int64_t y, int64_t *out) {
  switch (kind) {
  case DOP_ADD:
    return !__builtin_add_overflow(x, y, out);
  case DOP_SUB:
    return !__builtin_sub_overflow(x, y, out);
  case DOP_MUL:
    return !__builtin_mul_overflow(x, y, out);
  case DOP_DIV:
    *out = y ? int_div(x, y) : 0;
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

bool dim_ops_value(const DimOp *ops, uint32_t count,
                   int64_t (*value)(void *, const DimVar *), void *arg,
                   int64_t *out) {
  uint32_t height = 0;
  int64_t stack[STACK_MOST];
  for (uint32_t k = 0; ops && k < count; k++) {
    if (height == STACK_MOST || ops[k].kind == DOP_PROD)
      return false;
    if (ops[k].kind == DOP_INT) {
      stack[height++] = ops[k].num;
    } else if (ops[k].kind == DOP_VAR) {
      stack[height++] = value(arg, ops[k].var);
    } else {
      height--;
      if (!value_op(ops[k].kind, stack[height - 1], stack[height],
                    &stack[height - 1]))
        return false;
    }
  }
  if (height == 1)
    *out = stack[0];
  return height == 1;
}

bool size_at_values(const Graph *g, int64_t x,
                    int64_t (*value)(void *, const DimVar *), void *arg,
                    int64_t *out) {
  *out = x;
  if (size_is_number(g, x))
    return true;
  uint32_t count;
  const DimOp *ops = dim_postfix(g->sizes->dims, size_dim(g, x), &count);
  return dim_ops_value(ops, count, value, arg, out);
}

/* ---- what sizes may be like ---- */

static int64_t middling(void *arg, const DimVar *v) {
  const Sizes *s = arg;
  for (uint32_t k = 0; k < s->guesses.len; k++)
    if (s->guesses.at[k].var == v)
      return s->guesses.at[k].value;
  return v->value ? 2 : SIZE_MIDDLING;
}

void sizes_guess(Sizes *s, const DimVar *var, int64_t value) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < s->guesses.len; k++)
    if (s->guesses.at[k].var != var)
      s->guesses.at[kept++] = s->guesses.at[k];
  s->guesses.len = kept;
  if (value)
    VEC_PUSH(s->arena, s->guesses, ((Guess){var, value}));
}

void size_each_var(const Graph *g, int64_t x, void (*f)(void *, DimVar *),
                   void *arg) {
  if (!size_is_number(g, x))
    dim_each_var(size_dim(g, x), f, NULL, arg);
}

int64_t size_guess(const Graph *g, int64_t x) {
  int64_t out;
  if (size_is_number(g, x))
    return x;
  if (!size_at_values(g, x, middling, g->sizes, &out))
    return SIZE_MIDDLING;
  return out < 1 ? 1 : out;
}

int64_t size_alias(Graph *g, int64_t x) {
  Sizes *s = g->sizes;
  if (size_is_number(g, x))
    return x;
  DimVar *var = dim_new_var(s->dims, DV_RIGID, NULL, g->span);
  VEC_PUSH(s->arena, s->named, ((AliasSize){var, x}));
  sizes_guess(s, var, size_guess(g, x));
  return size_of_dim(g, dim_of_var(s->dims, var));
}

uint32_t sizes_alias_count(const Sizes *s) {
  return s->named.len;
}

const DimVar *sizes_alias(const Sizes *s, uint32_t k, int64_t *is) {
  *is = s->named.at[k].is;
  return s->named.at[k].var;
}

double size_guess_product(const Graph *g, uint32_t count, const int64_t *x) {
  double product = 1;
  for (uint32_t k = 0; k < count; k++)
    product *= (double)size_guess(g, x[k]);
  return product;
}

double node_guess(const Graph *g, const Node *n) {
  return size_guess_product(g, n->free_count + n->rank, n->extents);
}
