/* A function of a program as a graph with symbolic sizes. */
#include "session/trace.h"
#include "session/internal.h"

#include <string.h>

/* Nothing at top level is run but what is needed. */
static void define_waiting(Session *s) {
  for (uint32_t i = 0; i < s->waiting.len; i++)
    if (s->waiting.at[i].core)
      eval_define_lazy(s->eval, s->waiting.at[i].core);
  s->waiting.len = 0;
}

/* ---- its arguments ---- */

typedef struct Tracing {
  Session *s;
  Trace *t;
  Graph *g;
  VEC(TraceArg) args;
  VEC(TraceSize) sizes, strides;
  bool rows; /* of arguments may lie apart */
  VEC(TraceResult) results;
  Map seen; /* DimVar */
  /* what is done with a leaf: */
  Node *const *leaves; /* trace_apply: its data; or NULL: a NODE_ARG */
  uint32_t next;
  int64_t (*size)(void *, const DimVar *);
  void *arg;
  VEC(Node *) nodes;
} Tracing;

/* The size that it is at this call; one that is too large is none. */
static int64_t size_at(Tracing *t, Dim *d) {
  if (t->g->sizes)
    return size_of_dim(t->g, d);
  uint32_t count;
  int64_t out;
  const DimOp *ops = dim_postfix(&t->s->dims, d, &count);
  return dim_ops_value(ops, count, t->size, t->arg, &out) ? out : INT64_MAX;
}

static const int64_t *shape_at(Tracing *t, const EntryPart *p) {
  int64_t *shape = NEW_ARRAY(t->s->arena, int64_t, p->rank + 1);
  for (uint32_t k = 0; k < p->rank; k++)
    shape[k] = p->stars >> k & 1 ? 1 : size_at(t, p->dims[k]);
  return shape;
}

/* An axis of one element has none, and the last one's is 1. */
static const int64_t *strides_of(Tracing *t, const EntryPart *p, TraceArg *arg,
                                 int number) {
  if (!t->rows || p->rank < 2)
    return NULL;
  int64_t *strides = NEW_ARRAY(t->s->arena, int64_t, p->rank);
  for (uint32_t k = 0; k < p->rank; k++) {
    strides[k] = k + 1 == p->rank;
    if (k + 1 == p->rank || arg->shape[k] == 1)
      continue;
    DimVar *var = dim_new_var(&t->s->dims, DV_RIGID, NULL, t->g->span);
    var->value = true;
    var->text = arena_printf(t->s->arena, "%s.stride%u", arg->name, k);
    sizes_guess(t->g->sizes, var, SIZE_MIDDLING);
    strides[k] = size_of_dim(t->g, dim_of_var(&t->s->dims, var));
    VEC_PUSH(t->s->arena, t->strides,
             ((TraceSize){.var = var, .name = var->text, .arg = number,
                          .axis = (int)k, .slope = 1, .stride = true}));
  }
  return strides;
}

static EvalArg tensor_given(Tracing *t, const EntryPart *p, const char *path) {
  uint32_t number = t->next++;
  bool is_size = p->term && !p->rank;
  if (t->leaves && is_size)
    return (EvalArg){.kind = GIVEN_SIZE, .size = size_at(t, p->term)};
  if (t->leaves)
    return (EvalArg){.kind = GIVEN_TENSOR, .node = t->leaves[number]};
  TraceArg arg = {.name = path, .dtype = p->dtype, .rank = p->rank,
                  .stars = p->stars, .shape = shape_at(t, p),
                  .is_size = is_size};
  if (is_size)
    arg.size = size_at(t, p->term);
  arg.strides = strides_of(t, p, &arg, (int)number);
  VEC_PUSH(t->s->arena, t->args, arg);
  if (is_size)
    return (EvalArg){.kind = GIVEN_SIZE, .size = arg.size};
  if (!p->rank && dtype_is_int(p->dtype))
    sizes_call_arg(t->g->sizes, number, path);
  Node *n = node_arg(t->g, number, p->dtype, p->rank, arg.shape, p->stars);
  n->strides = arg.strides;
  VEC_PUSH(t->s->arena, t->nodes, n);
  return (EvalArg){.kind = GIVEN_TENSOR, .node = n};
}

static EvalArg part_given(Tracing *t, const EntryPart *p, const char *path) {
  Arena *arena = t->s->arena;
  switch (p->kind) {
  case ENTRY_TENSOR:
    return tensor_given(t, p, path);
  case ENTRY_SHAPE:
    return (EvalArg){.kind = GIVEN_SHAPE, .count = p->rank,
                   .shape = shape_at(t, p), .stars = p->stars};
  case ENTRY_TUPLE:
  case ENTRY_RECORD: {
    EvalArg *parts = NEW_ARRAY(arena, EvalArg, p->count + 1);
    for (uint32_t k = 0; k < p->count; k++)
      parts[k] = part_given(
          t, &p->parts[k],
          p->labels ? arena_printf(arena, "%s.%s", path, p->labels[k]->text)
                    : arena_printf(arena, "%s.%u", path, k));
    return (EvalArg){.kind =
                         p->kind == ENTRY_RECORD ? GIVEN_RECORD : GIVEN_TUPLE,
                     .parts = parts,
                     .labels = p->labels,
                     .count = p->count};
  }
  case ENTRY_ABSENT:
    return (EvalArg){.kind = GIVEN_ABSENT};
  case ENTRY_NONE:
    break;
  }
  return (EvalArg){.kind = GIVEN_UNIT};
}

/* Its hidden arguments and the others. */
static EvalArg *given_all(Tracing *t, const EntryPoint *e) {
  EvalArg *given = NEW_ARRAY(t->s->arena, EvalArg,
                           e->hidden_count + e->param_count + 1);
  for (uint32_t k = 0; k < e->hidden_count; k++)
    given[k] = (EvalArg){
        .kind = GIVEN_SIZE,
        .size = size_at(t, dim_of_var(&t->s->dims, e->hidden[k].dim_var))};
  for (uint32_t k = 0; k < e->param_count; k++)
    given[e->hidden_count + k] = part_given(t, &e->params[k], e->names[k]);
  return given;
}

static ValueHandle *call(Tracing *t, const EntryPoint *e, const EvalArg *given) {
  return eval_apply(t->s->eval, e->var, e->hidden_count + e->param_count, given,
                   &t->s->diags);
}

/* ---- where sizes show ---- */

typedef struct Unknown { /* variables in a size that nothing shows yet */
  Tracing *t;
  DimVar *var;
  uint32_t count;
} Unknown;

static void count_unknown(void *arg, DimVar *v) {
  Unknown *u = arg;
  if (map_get(&u->t->seen, v) || u->var == v)
    return;
  u->var = v;
  u->count++;
}

static void add_size(Tracing *t, TraceSize size) {
  size.name = dim_var_name(&t->s->dims, size.var);
  map_put(&t->seen, size.var, size.var);
  VEC_PUSH(t->s->arena, t->sizes, size);
}

/* Does d, which stands there, say what a variable is? */
static bool shows(Tracing *t, Dim *d, int arg, int axis, bool exact) {
  DimCtx *cx = &t->s->dims;
  Unknown u = {.t = t};
  dim_each_var(d, count_unknown, NULL, &u);
  if (u.count != 1 || (exact && dim_as_var(d) != u.var))
    return false;
  Dim *slope, *rest;
  if (!dim_linear(cx, d, u.var, &slope, &rest))
    return false;
  add_size(t, (TraceSize){.var = u.var, .arg = arg, .axis = axis,
                          .slope = size_of_dim(t->g, slope),
                          .rest = size_of_dim(t->g, rest)});
  return true;
}

static bool arg_shows(Tracing *t, uint32_t k, bool exact) {
  const TraceArg *a = &t->args.at[k];
  bool more = false;
  if (a->is_size)
    return shows(t, size_dim(t->g, a->size), (int)k, TRACE_VALUE, exact);
  for (uint32_t axis = 0; axis < a->rank; axis++)
    if (!(a->stars >> axis & 1))
      more |=
          shows(t, size_dim(t->g, a->shape[axis]), (int)k, (int)axis, exact);
  return more;
}

static void add_nowhere(void *arg, DimVar *v) {
  Tracing *t = arg;
  if (!map_get(&t->seen, v))
    add_size(t, (TraceSize){.var = v, .arg = TRACE_NOWHERE, .slope = 1});
}

static void find_sizes(Tracing *t, const EntryPoint *e) {
  bool more = true;
  for (uint32_t exact = 1; more || exact; exact = 0) {
    more = false;
    for (uint32_t k = 0; k < t->args.len; k++)
      more |= arg_shows(t, k, exact);
  }
  for (uint32_t k = 0; k < t->args.len; k++) {
    const TraceArg *a = &t->args.at[k];
    for (uint32_t axis = 0; axis < a->rank; axis++)
      dim_each_var(size_dim(t->g, a->shape[axis]), add_nowhere, NULL, t);
  }
  for (uint32_t k = 0; k < e->hidden_count; k++)
    add_nowhere(t, e->hidden[k].dim_var);
}

/* Integers that sizes turned out to be made of. */
static void add_arg_sizes(Tracing *t) {
  for (uint32_t k = 0; k < t->args.len; k++) {
    DimVar *var = sizes_arg_var(t->g->sizes, k);
    if (var)
      add_size(t, (TraceSize){.var = var, .arg = (int)k, .axis = TRACE_VALUE,
                              .slope = 1});
  }
}

/* ---- tracing ---- */

/* That a size is none below 0 is seen to where an axis shows it, not where it
 * is a number of the caller's, or computed. */
static void require_sizes(Tracing *t) {
  for (uint32_t k = 0; k < t->sizes.len; k++) {
    const TraceSize *s = &t->sizes.at[k];
    bool axis = s->axis != TRACE_VALUE && s->arg != TRACE_NOWHERE &&
                s->rest == 0 && size_is_number(t->g, s->slope) && s->slope > 0;
    SizeFact f = {SIZE_LE, 0,
                  size_of_dim(t->g, dim_of_var(&t->s->dims, s->var))};
    if (!axis && !s->var->value)
      sizes_test(t->g, f,
                 arena_printf(t->s->arena, "%s wants 0 <= %s", t->t->name,
                              s->name));
  }
}

static SizeTest test_of(CheckKind kind) {
  return kind == CHECK_EQ ? SIZE_EQ : kind == CHECK_LE ? SIZE_LE : SIZE_NE;
}

static SizeFact fact_of(Tracing *t, CheckKind kind, Dim *left, Dim *right) {
  return (SizeFact){test_of(kind), size_of_dim(t->g, left),
                    size_of_dim(t->g, right)};
}

/* What the function's type asks of its callers. */
static void require_givens(Tracing *t, const EntryPoint *e) {
  for (uint32_t i = 0; i < e->given_count; i++) {
    const EntryGiven *g = &e->givens[i];
    SizeFact *when = NEW_ARRAY(t->s->arena, SizeFact, g->cond_count + 1);
    for (uint32_t k = 0; k < g->cond_count; k++)
      when[k] =
          fact_of(t, g->conds[k].kind, g->conds[k].left, g->conds[k].right);
    size_require(t->g, fact_of(t, g->kind, g->left, g->right), when,
                 g->cond_count,
                 arena_printf(t->s->arena, "%s wants %s", e->name, g->text),
                 "");
  }
}

static void add_result(void *arg, const char *path, Node *node) {
  Tracing *t = arg;
  VEC_PUSH(t->s->arena, t->results, ((TraceResult){path, node_retain(node)}));
}

static void let_go_args(Tracing *t) {
  for (uint32_t k = 0; k < t->nodes.len; k++)
    node_release(t->nodes.at[k]);
  t->nodes.len = 0;
}

static void collect_roots(Arena *arena, Trace *t) {
  VEC(Node *) roots = {0};
  for (uint32_t k = 0; k < t->required_count; k++)
    if (t->required[k].guard)
      VEC_PUSH(arena, roots, t->required[k].guard);
  for (uint32_t k = 0; k < t->result_count; k++)
    VEC_PUSH(arena, roots, t->results[k].node);
  t->roots = roots.at;
  t->root_count = roots.len;
  graph_number(roots.len, roots.at);
}

/* What has no place of its own was met in a call that nothing waited for. */
static void place_diags(Session *s, Span span) {
  for (uint32_t i = 0; i < s->diags.all.len; i++)
    if (!s->diags.all.at[i]->span.file)
      s->diags.all.at[i]->span = span;
}

static bool run(Tracing *t) {
  Session *s = t->s;
  Trace *out = t->t;
  t->g->span = out->entry.span;
  const EvalArg *given = given_all(t, &out->entry);
  out->args = t->args.at;
  out->arg_count = t->args.len;
  find_sizes(t, &out->entry);
  require_sizes(t);
  require_givens(t, &out->entry);
  out->held = call(t, &out->entry, given);
  place_diags(s, out->span);
  let_go_args(t);
  if (!out->held)
    return false;
  add_arg_sizes(t);
  bool good = eval_leaves(s->eval, out->held, add_result, t);
  if (!good)
    session_error(s, 611, out->span, "%s cannot be compiled: its result is "
                  "more than tensors, and records and tuples of them",
                  out->name)->note =
        arena_printf(s->arena, "%s : %s", out->name, out->type);
  for (uint32_t k = 0; k < t->strides.len; k++)
    VEC_PUSH(s->arena, t->sizes, t->strides.at[k]);
  out->sizes = t->sizes.at;
  out->size_count = t->sizes.len;
  out->results = t->results.at;
  out->result_count = t->results.len;
  out->required = sizes_required(t->g->sizes, &out->required_count);
  collect_roots(s->arena, out);
  return good;
}

typedef struct Asked {
  const char *entry;
  Trace *out;
  bool rows;
} Asked;

static SessionStatus trace(Session *s, void *arg) {
  const Asked *asked = arg;
  Trace *out = asked->out;
  bool found = session_asked(s, asked->entry, &out->entry);
  define_waiting(s);
  if (!found)
    return SESSION_ERROR;
  out->name = out->entry.name;
  out->type = out->entry.type;
  out->doc = out->entry.doc;
  out->span = out->entry.span;
  Tracing t = {.s = s, .t = out, .g = eval_graph(s->eval), .rows = asked->rows};
  map_init(&t.seen, s->arena);
  Sizes *sizes = sizes_new(&s->dims, dim_facts_new(&s->dims));
  out->graph.sizes = sizes;
  eval_trace(s->eval, sizes);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    let_go_args(&t);
    eval_trace(s->eval, NULL);
    trap_raise(trap.kind);
  }
  bool good = run(&t);
  trap_end(&trap);
  eval_trace(s->eval, NULL);
  return good ? SESSION_OK : SESSION_ERROR;
}

static SessionStatus trace_as(Session *s, const char *entry, bool rows,
                              Trace *out) {
  *out = (Trace){0};
  Asked asked = {entry, out, rows};
  SessionStatus status = session_guard(s, trace, &asked);
  if (status != SESSION_OK)
    trace_free(s, out);
  return status;
}

SessionStatus session_trace(Session *s, const char *entry, Trace *out) {
  return trace_as(s, entry, false, out);
}

SessionStatus session_trace_rows(Session *s, const char *entry, Trace *out) {
  return trace_as(s, entry, true, out);
}

/* ---- all that there are ---- */

typedef struct Entries {
  Session *s;
  EntryNames *names;
} Entries;

static void offer(void *arg, Binding *b) {
  Entries *e = arg;
  EntryNames *names = e->names;
  EntryPoint entry;
  Diags quiet;
  diags_init(&quiet, e->s->arena);
  if (binding_sort(e->s->checker, b) != SORT_FUNCTION)
    return;
  const char *name = binding_name(b)->text;
  if (checker_entry(e->s->checker, b, b, name, &quiet, &entry) &&
      entry.computes)
    VEC_PUSH(names->arena, names->at, name);
  else
    VEC_PUSH(names->arena, names->left,
             arena_printf(names->arena, "%s : %s", name,
                          binding_type(e->s->checker, b)));
}

static SessionStatus each_entry(Session *s, void *arg) {
  module_each(s->module, offer, arg);
  return SESSION_OK;
}

EntryNames session_entries(Session *s, uint32_t count,
                           const char *const *asked) {
  EntryNames names = {.arena = s->arena};
  Entries e = {s, &names};
  for (uint32_t k = 0; k < count; k++)
    VEC_PUSH(names.arena, names.at, asked[k]);
  if (!count)
    session_guard(s, each_entry, &e);
  return names;
}

void trace_free(Session *s, Trace *t) {
  for (uint32_t k = 0; k < t->result_count; k++)
    node_release(t->results[k].node);
  held_free(s->eval, t->held);
  sizes_free(t->graph.sizes);
  *t = (Trace){0};
}

ValueHandle *trace_apply(Session *s, const EntryPoint *entry, Node *const *leaves,
                   int64_t (*size)(void *, const DimVar *), void *arg) {
  Tracing t = {.s = s, .g = eval_graph(s->eval), .leaves = leaves,
               .size = size, .arg = arg};
  return call(&t, entry, given_all(&t, entry));
}

/* ---- as text ---- */

static void print_fact(const Graph *g, Buffer *out, SizeFact f) {
  static const char *const signs[] = {
      [SIZE_EQ] = " == ", [SIZE_LE] = " <= ", [SIZE_NE] = " != "};
  size_put(g, out, f.x);
  buffer_puts(out, signs[f.test]);
  size_put(g, out, f.y);
}

static void print_size(const Trace *t, Buffer *out, const TraceSize *s) {
  buffer_printf(out, "size %s", s->name);
  if (s->arg == TRACE_NOWHERE) {
    buffer_puts(out, ": an argument of its own\n");
    return;
  }
  buffer_puts(out, s->rest ? " = (" : " = ");
  buffer_puts(out, t->args[s->arg].name);
  if (s->axis != TRACE_VALUE)
    buffer_printf(out, ".%d", s->axis);
  if (s->rest) {
    buffer_puts(out, " - (");
    size_put(&t->graph, out, s->rest);
    buffer_puts(out, "))");
  }
  if (s->slope != 1) {
    buffer_puts(out, "/(");
    size_put(&t->graph, out, s->slope);
    buffer_putc(out, ')');
  }
  buffer_putc(out, '\n');
}

static void print_arg(const Trace *t, Buffer *out, uint32_t k) {
  const TraceArg *a = &t->args[k];
  buffer_printf(out, "argument %u %s : %s", k, a->name,
                dtype_info[a->dtype].name);
  for (uint32_t i = 0; i < a->rank; i++) {
    buffer_puts(out, i ? ", " : "[");
    if (a->stars >> i & 1)
      buffer_putc(out, '*');
    else
      size_put(&t->graph, out, a->shape[i]);
  }
  buffer_puts(out, a->rank ? "]" : "");
  if (a->is_size) {
    buffer_puts(out, " is ");
    size_put(&t->graph, out, a->size);
  }
  buffer_putc(out, '\n');
}

static void print_required(const Trace *t, Buffer *out, const Requirement *r) {
  buffer_puts(out, "require ");
  print_fact(&t->graph, out, r->fact);
  for (uint32_t k = 0; k < r->when_count; k++) {
    buffer_puts(out, k ? " && " : " if ");
    print_fact(&t->graph, out, r->when[k]);
  }
  if (r->guard)
    buffer_printf(out, " where %%%u", r->guard->id);
  buffer_printf(out, ": %s\n", r->message);
}

void trace_print(const Trace *t, Buffer *out) {
  buffer_printf(out, "%s : %s\n", t->name, t->type);
  for (uint32_t k = 0; k < t->arg_count; k++)
    print_arg(t, out, k);
  for (uint32_t k = 0; k < t->size_count; k++)
    print_size(t, out, &t->sizes[k]);
  for (uint32_t k = 0; k < t->required_count; k++)
    print_required(t, out, &t->required[k]);
  graph_print(&t->graph, out, t->root_count, t->roots);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    buffer_printf(out, "result%s%s %%%u\n", *r->name ? " " : "", r->name,
                  r->node->id);
  }
}
