/* Traces a function of a program. */
#include "aot/trace.h"
#include "machine/limits/planner.h"
#include "session/state.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"
#include "support/trap.h"

#include <string.h>

/* Top-level values are computed only if they are needed. */
static void define_pending_lazily(Session *s) {
  for (uint32_t i = 0; i < s->pending.len; i++)
    if (s->pending.at[i].core)
      eval_define_lazy(s->eval, s->pending.at[i].core);
  s->pending.len = 0;
}

/* ---- arguments ---- */

typedef struct Tracer {
  Session *session;
  Trace *trace;
  Graph *graph;
  VEC(TraceArg) args;
  VEC(TraceSize) sizes, strides;
  bool is_row_strided; /* argument rows may have strides */
  VEC(TraceResult) results;
  Map known_vars; /* keys are DimVar */
  /* The values of leaves: */
  Node *const *leaves; /* trace_apply: tensors; NULL: creates NODE_ARGs */
  uint32_t next_leaf;
  int64_t (*size)(void *, const DimVar *);
  void *arg;
  VEC(Node *) arg_nodes;
} Tracer;

/* The value of a size.  A size that overflows is INT64_MAX. */
static int64_t size_value(Tracer *t, Dim *d) {
  if (t->graph->extent_table)
    return extent_of_dim(t->graph, d);
  uint32_t count;
  int64_t out;
  const DimOp *ops = dim_postfix(&t->session->dims, d, &count);
  return dim_postfix_evaluate(ops, count, t->size, t->arg, &out) ? out
                                                                 : INT64_MAX;
}

static const int64_t *shape_values(Tracer *t, const EntryType *p) {
  int64_t *shape = NEW_ARRAY(t->session->arena, int64_t, p->rank + 1);
  for (uint32_t k = 0; k < p->rank; k++)
    shape[k] = p->broadcast_mask >> k & 1 ? 1 : size_value(t, p->dims[k]);
  return shape;
}

/* Strides are size variables, except for axes of extent 1 (stride 0) and for
 * the last axis (stride 1). */
static const int64_t *make_strides(Tracer *t, const EntryType *p, TraceArg *arg,
                                   int number) {
  if (!t->is_row_strided || p->rank < 2)
    return NULL;
  int64_t *strides = NEW_ARRAY(t->session->arena, int64_t, p->rank);
  for (uint32_t k = 0; k < p->rank; k++) {
    strides[k] = k + 1 == p->rank;
    if (k + 1 == p->rank || arg->shape[k] == 1)
      continue;
    DimVar *var =
        dim_new_var(&t->session->dims, DV_SKOLEM, NULL, t->graph->span);
    var->is_integer = true;
    var->printed_name =
        arena_printf(t->session->arena, "%s.stride%u", arg->name, k);
    extent_table_set_hint(t->graph->extent_table, var, EXTENT_HINT_DEFAULT);
    strides[k] = extent_of_dim(t->graph, dim_of_var(&t->session->dims, var));
    VEC_PUSH(t->session->arena, t->strides,
             ((TraceSize){.var = var,
                          .name = var->printed_name,
                          .arg = number,
                          .axis = (int)k,
                          .coef = 1,
                          .is_stride = true}));
  }
  return strides;
}

static EvalArg tensor_arg(Tracer *t, const EntryType *p, const char *path) {
  uint32_t number = t->next_leaf++;
  bool is_size = p->singleton && !p->rank;
  if (t->leaves && is_size)
    return (EvalArg){.kind = EVAL_ARG_SIZE,
                     .size = size_value(t, p->singleton)};
  if (t->leaves)
    return (EvalArg){.kind = EVAL_ARG_TENSOR, .node = t->leaves[number]};
  TraceArg arg = {.name = path,
                  .dtype = p->dtype,
                  .rank = p->rank,
                  .broadcast_mask = p->broadcast_mask,
                  .shape = shape_values(t, p),
                  .is_size = is_size};
  if (is_size)
    arg.size = size_value(t, p->singleton);
  arg.strides = make_strides(t, p, &arg, (int)number);
  VEC_PUSH(t->session->arena, t->args, arg);
  if (is_size)
    return (EvalArg){.kind = EVAL_ARG_SIZE, .size = arg.size};
  if (!p->rank && dtype_is_int(p->dtype))
    extent_table_add_arg(t->graph->extent_table, number, path);
  Node *n = node_arg(t->graph, number, p->dtype, p->rank, arg.shape,
                     p->broadcast_mask);
  n->strides = arg.strides;
  VEC_PUSH(t->session->arena, t->arg_nodes, n);
  return (EvalArg){.kind = EVAL_ARG_TENSOR, .node = n};
}

static EvalArg entry_type_arg(Tracer *t, const EntryType *p, const char *path) {
  Arena *arena = t->session->arena;
  switch (p->kind) {
  case ENTRY_TENSOR:
    return tensor_arg(t, p, path);
  case ENTRY_SHAPE:
    return (EvalArg){.kind = EVAL_ARG_SHAPE,
                     .count = p->rank,
                     .shape = shape_values(t, p),
                     .broadcast_mask = p->broadcast_mask};
  case ENTRY_TUPLE:
  case ENTRY_RECORD: {
    EvalArg *parts = NEW_ARRAY(arena, EvalArg, p->count + 1);
    for (uint32_t k = 0; k < p->count; k++)
      parts[k] = entry_type_arg(
          t, &p->parts[k],
          p->labels ? arena_printf(arena, "%s.%s", path, p->labels[k]->text)
                    : arena_printf(arena, "%s.%u", path, k));
    return (EvalArg){.kind = p->kind == ENTRY_RECORD ? EVAL_ARG_RECORD
                                                     : EVAL_ARG_TUPLE,
                     .parts = parts,
                     .labels = p->labels,
                     .count = p->count};
  }
  case ENTRY_ABSENT:
    return (EvalArg){.kind = EVAL_ARG_ABSENT};
  case ENTRY_NONE:
    break;
  }
  return (EvalArg){.kind = EVAL_ARG_UNIT};
}

/* Implicit arguments, then the explicit ones. */
static EvalArg *all_args(Tracer *t, const EntryPoint *e) {
  EvalArg *args = NEW_ARRAY(t->session->arena, EvalArg,
                            e->implicit_count + e->param_count + 1);
  for (uint32_t k = 0; k < e->implicit_count; k++)
    args[k] =
        (EvalArg){.kind = EVAL_ARG_SIZE,
                  .size = size_value(t, dim_of_var(&t->session->dims,
                                                   e->implicits[k].dim_var))};
  for (uint32_t k = 0; k < e->param_count; k++)
    args[e->implicit_count + k] = entry_type_arg(t, &e->params[k], e->names[k]);
  return args;
}

static ValueHandle *apply_entry(Tracer *t, const EntryPoint *e,
                                const EvalArg *args) {
  return eval_apply(t->session->eval, e->var,
                    e->implicit_count + e->param_count, args,
                    &t->session->diags);
}

/* ---- size inference ---- */

/* unknown variables of a size */
typedef struct UnknownVars {
  Tracer *t;
  DimVar *var;
  uint32_t count;
} UnknownVars;

static void count_unknown_var(void *arg, DimVar *v) {
  UnknownVars *u = arg;
  if (map_get(&u->t->known_vars, v) || u->var == v)
    return;
  u->var = v;
  u->count++;
}

static void add_size(Tracer *t, TraceSize size) {
  size.name = dim_var_name(&t->session->dims, size.var);
  map_put(&t->known_vars, size.var, size.var);
  VEC_PUSH(t->session->arena, t->sizes, size);
}

/* Infers a variable if d, an extent of an argument, is linear in only one
 * unknown variable. */
static bool infer_from_size(Tracer *t, Dim *d, int arg, int axis,
                            bool only_plain_vars) {
  DimCtx *cx = &t->session->dims;
  UnknownVars u = {.t = t};
  dim_each_var(d, count_unknown_var, NULL, &u);
  if (u.count != 1 || (only_plain_vars && dim_as_var(d) != u.var))
    return false;
  Dim *coef, *offset;
  if (!dim_split_linear(cx, d, u.var, &coef, &offset))
    return false;
  add_size(t, (TraceSize){.var = u.var,
                          .arg = arg,
                          .axis = axis,
                          .coef = extent_of_dim(t->graph, coef),
                          .offset = extent_of_dim(t->graph, offset)});
  return true;
}

static bool infer_from_arg(Tracer *t, uint32_t k, bool only_plain_vars) {
  const TraceArg *a = &t->args.at[k];
  bool more = false;
  if (a->is_size)
    return infer_from_size(t, extent_dim(t->graph, a->size), (int)k,
                           TRACE_SCALAR_VALUE, only_plain_vars);
  for (uint32_t axis = 0; axis < a->rank; axis++)
    if (!(a->broadcast_mask >> axis & 1))
      more |= infer_from_size(t, extent_dim(t->graph, a->shape[axis]), (int)k,
                              (int)axis, only_plain_vars);
  return more;
}

static void add_inaccessible(void *arg, DimVar *v) {
  Tracer *t = arg;
  if (!map_get(&t->known_vars, v))
    add_size(t, (TraceSize){.var = v, .arg = TRACE_INACCESSIBLE, .coef = 1});
}

static void infer_sizes(Tracer *t, const EntryPoint *e) {
  bool more = true;
  for (uint32_t only_plain_vars = 1; more || only_plain_vars;
       only_plain_vars = 0) {
    more = false;
    for (uint32_t k = 0; k < t->args.len; k++)
      more |= infer_from_arg(t, k, only_plain_vars);
  }
  for (uint32_t k = 0; k < t->args.len; k++) {
    const TraceArg *a = &t->args.at[k];
    for (uint32_t axis = 0; axis < a->rank; axis++)
      dim_each_var(extent_dim(t->graph, a->shape[axis]), add_inaccessible, NULL,
                   t);
  }
  for (uint32_t k = 0; k < e->implicit_count; k++)
    add_inaccessible(t, e->implicits[k].dim_var);
}

/* Adds integer arguments that sizes depend on. */
static void add_arg_sizes(Tracer *t) {
  for (uint32_t k = 0; k < t->args.len; k++) {
    DimVar *var = extent_table_arg_var(t->graph->extent_table, k);
    if (var)
      add_size(t, (TraceSize){.var = var,
                              .arg = (int)k,
                              .axis = TRACE_SCALAR_VALUE,
                              .coef = 1});
  }
}

/* ---- tracing ---- */

/* Requires that sizes are not negative.  Extents of axes cannot be negative,
 * but numbers of the caller and computed sizes can. */
static void require_nonneg_sizes(Tracer *t) {
  for (uint32_t k = 0; k < t->sizes.len; k++) {
    const TraceSize *s = &t->sizes.at[k];
    bool axis = s->axis != TRACE_SCALAR_VALUE && s->arg != TRACE_INACCESSIBLE &&
                s->offset == 0 && extent_is_static(t->graph, s->coef) &&
                s->coef > 0;
    ExtentConstraint f = {
        EXTENT_LE, 0,
        extent_of_dim(t->graph, dim_of_var(&t->session->dims, s->var))};
    if (!axis && !s->var->is_integer)
      extent_table_add_check(t->graph, f,
                             arena_printf(t->session->arena,
                                          "%s requires 0 <= %s", t->trace->name,
                                          s->name));
  }
}

static ExtentRelation relation_of(CheckKind kind) {
  return kind == CHECK_EQ   ? EXTENT_EQ
         : kind == CHECK_LE ? EXTENT_LE
                            : EXTENT_NE;
}

static ExtentConstraint constraint_of(Tracer *t, CheckKind kind, Dim *left,
                                      Dim *right) {
  return (ExtentConstraint){relation_of(kind), extent_of_dim(t->graph, left),
                            extent_of_dim(t->graph, right)};
}

/* Adds the preconditions of the function's type as requirements. */
static void require_preconditions(Tracer *t, const EntryPoint *e) {
  for (uint32_t i = 0; i < e->precondition_count; i++) {
    const EntryPrecondition *g = &e->preconditions[i];
    ExtentConstraint *premises =
        NEW_ARRAY(t->session->arena, ExtentConstraint, g->condition_count + 1);
    for (uint32_t k = 0; k < g->condition_count; k++)
      premises[k] =
          constraint_of(t, g->conditions[k].kind, g->conditions[k].left,
                        g->conditions[k].right);
    extent_add_requirement(
        t->graph, constraint_of(t, g->kind, g->left, g->right), premises,
        g->condition_count,
        arena_printf(t->session->arena, "%s requires %s", e->name, g->text),
        "");
  }
}

static void add_result(void *arg, const char *path, Node *node) {
  Tracer *t = arg;
  VEC_PUSH(t->session->arena, t->results,
           ((TraceResult){path, node_retain(node)}));
}

static void release_args(Tracer *t) {
  for (uint32_t k = 0; k < t->arg_nodes.len; k++)
    node_release(t->arg_nodes.at[k]);
  t->arg_nodes.len = 0;
}

static void collect_roots(Arena *arena, Trace *t) {
  VEC(Node *) roots = {0};
  for (uint32_t k = 0; k < t->requirement_count; k++)
    if (t->requirements[k].guard)
      VEC_PUSH(arena, roots, t->requirements[k].guard);
  for (uint32_t k = 0; k < t->result_count; k++)
    VEC_PUSH(arena, roots, t->results[k].node);
  t->roots = roots.at;
  t->root_count = roots.len;
  graph_renumber(roots.len, roots.at);
}

/* Diagnostics from lazily evaluated calls have no position: use that of the
 * entry. */
static void set_default_spans(Session *s, Span span) {
  for (uint32_t i = 0; i < s->diags.all.len; i++)
    if (!s->diags.all.at[i]->span.file)
      s->diags.all.at[i]->span = span;
}

static bool run_trace(Tracer *t) {
  Session *s = t->session;
  Trace *out = t->trace;
  t->graph->span = out->entry.span;
  const EvalArg *args = all_args(t, &out->entry);
  out->args = t->args.at;
  out->arg_count = t->args.len;
  infer_sizes(t, &out->entry);
  require_nonneg_sizes(t);
  require_preconditions(t, &out->entry);
  out->result_handle = apply_entry(t, &out->entry, args);
  set_default_spans(s, out->span);
  release_args(t);
  if (!out->result_handle)
    return false;
  add_arg_sizes(t);
  bool ok = eval_each_leaf(s->eval, out->result_handle, add_result, t);
  if (!ok)
    session_error(s, 611, out->span,
                  "%s cannot be compiled: its result must be tensors, or "
                  "records and tuples of tensors",
                  out->name)
        ->note = arena_printf(s->arena, "%s : %s", out->name, out->type);
  for (uint32_t k = 0; k < t->strides.len; k++)
    VEC_PUSH(s->arena, t->sizes, t->strides.at[k]);
  out->sizes = t->sizes.at;
  out->size_count = t->sizes.len;
  out->results = t->results.at;
  out->result_count = t->results.len;
  out->requirements = extent_table_requirements(t->graph->extent_table,
                                                &out->requirement_count);
  collect_roots(s->arena, out);
  return ok;
}

typedef struct TraceRequest {
  const char *entry;
  Trace *out;
  bool is_row_strided;
} TraceRequest;

static SessionStatus trace_protected(Session *s, void *arg) {
  const TraceRequest *asked = arg;
  Trace *out = asked->out;
  bool found = entry_spec_resolve(s, asked->entry, &out->entry);
  define_pending_lazily(s);
  if (!found)
    return SESSION_ERROR;
  out->name = out->entry.name;
  out->type = out->entry.type;
  out->doc = out->entry.doc;
  out->span = out->entry.span;
  Tracer t = {.session = s,
              .trace = out,
              .graph = eval_graph(s->eval),
              .is_row_strided = asked->is_row_strided};
  map_init(&t.known_vars, s->arena);
  ExtentTable *sizes = extent_table_new(&s->dims, assumptions_new(&s->dims));
  out->graph.extent_table = sizes;
  out->graph.schedules = t.graph->schedules;
  eval_set_aot_tracing(s->eval, sizes);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release_args(&t);
    eval_set_aot_tracing(s->eval, NULL);
    trap_raise(trap.kind);
  }
  bool ok = run_trace(&t);
  trap_end(&trap);
  eval_set_aot_tracing(s->eval, NULL);
  return ok ? SESSION_OK : SESSION_ERROR;
}

static SessionStatus trace_request(Session *s, const char *entry,
                                   bool is_row_strided, Trace *out) {
  *out = (Trace){0};
  TraceRequest asked = {entry, out, is_row_strided};
  SessionStatus status = session_protected_call(s, trace_protected, &asked);
  if (status != SESSION_OK)
    trace_free(s, out);
  return status;
}

SessionStatus trace_function(Session *s, const char *entry, Trace *out) {
  return trace_request(s, entry, false, out);
}

SessionStatus trace_function_row_strided(Session *s, const char *entry,
                                         Trace *out) {
  return trace_request(s, entry, true, out);
}

/* ---- entry names ---- */

typedef struct EntryCollector {
  Session *s;
  EntryNames *names;
} EntryCollector;

static void collect_entry(void *arg, Binding *b) {
  EntryCollector *e = arg;
  EntryNames *names = e->names;
  EntryPoint entry;
  Diags ignored;
  diags_init(&ignored, e->s->arena);
  if (binding_symbol_kind(e->s->checker, b) != SYMBOL_KIND_FUNCTION)
    return;
  const char *name = binding_name(b)->text;
  if (checker_entry(e->s->checker, b, b, name, &ignored, &entry) &&
      entry.is_pure_tensor_function)
    VEC_PUSH(names->arena, names->names, name);
  else
    VEC_PUSH(names->arena, names->omitted,
             arena_printf(names->arena, "%s : %s", name,
                          binding_type(e->s->checker, b)));
}

static SessionStatus collect_entries(Session *s, void *arg) {
  module_each(s->main_module, collect_entry, arg);
  return SESSION_OK;
}

EntryNames trace_entry_names(Session *s, uint32_t count,
                             const char *const *asked) {
  EntryNames names = {.arena = s->arena};
  EntryCollector e = {s, &names};
  for (uint32_t k = 0; k < count; k++)
    VEC_PUSH(names.arena, names.names, asked[k]);
  if (!count)
    session_protected_call(s, collect_entries, &e);
  return names;
}

void trace_free(Session *s, Trace *t) {
  for (uint32_t k = 0; k < t->result_count; k++)
    node_release(t->results[k].node);
  value_handle_free(s->eval, t->result_handle);
  extent_table_free(t->graph.extent_table);
  *t = (Trace){0};
}

ValueHandle *trace_apply(Session *s, const EntryPoint *entry,
                         Node *const *leaves,
                         int64_t (*size)(void *, const DimVar *), void *arg) {
  Tracer t = {.session = s,
              .graph = eval_graph(s->eval),
              .leaves = leaves,
              .size = size,
              .arg = arg};
  return apply_entry(&t, entry, all_args(&t, entry));
}

/* ---- printing ---- */

static void print_constraint(const Graph *g, Buffer *out, ExtentConstraint f) {
  static const char *const signs[] = {
      [EXTENT_EQ] = " == ", [EXTENT_LE] = " <= ", [EXTENT_NE] = " != "};
  extent_print(g, out, f.x);
  buffer_puts(out, signs[f.relation]);
  extent_print(g, out, f.y);
}

static void print_size(const Trace *t, Buffer *out, const TraceSize *s) {
  buffer_printf(out, "size %s", s->name);
  if (s->arg == TRACE_INACCESSIBLE) {
    buffer_puts(out, ": an argument of its own\n");
    return;
  }
  buffer_puts(out, s->offset ? " = (" : " = ");
  buffer_puts(out, t->args[s->arg].name);
  if (s->axis != TRACE_SCALAR_VALUE)
    buffer_printf(out, ".%d", s->axis);
  if (s->offset) {
    buffer_puts(out, " - (");
    extent_print(&t->graph, out, s->offset);
    buffer_puts(out, "))");
  }
  if (s->coef != 1) {
    buffer_puts(out, "/(");
    extent_print(&t->graph, out, s->coef);
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
    if (a->broadcast_mask >> i & 1)
      buffer_putc(out, '*');
    else
      extent_print(&t->graph, out, a->shape[i]);
  }
  buffer_puts(out, a->rank ? "]" : "");
  if (a->is_size) {
    buffer_puts(out, " is ");
    extent_print(&t->graph, out, a->size);
  }
  buffer_putc(out, '\n');
}

static void print_requirement(const Trace *t, Buffer *out,
                              const Requirement *r) {
  buffer_puts(out, "require ");
  print_constraint(&t->graph, out, r->constraint);
  for (uint32_t k = 0; k < r->premise_count; k++) {
    buffer_puts(out, k ? " && " : " if ");
    print_constraint(&t->graph, out, r->premises[k]);
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
  for (uint32_t k = 0; k < t->requirement_count; k++)
    print_requirement(t, out, &t->requirements[k]);
  graph_print(&t->graph, out, t->root_count, t->roots);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    buffer_printf(out, "result%s%s %%%u\n", *r->name ? " " : "", r->name,
                  r->node->id);
  }
}
