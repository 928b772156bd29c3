/* Implicit arguments: the element types, sizes and shapes that running code
   needs from its callers, and what each use passes for them.  Main entry
   points: implicit_collect, instances_finish, core_finish. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

static void call_if_present(void (*f)(void *, Core *), void *arg, Core *core) {
  if (core)
    f(arg, core);
}

/* Calls f for each direct child expression of core. */
static void each_child(Core *core, void (*f)(void *, Core *), void *arg) {
  for (uint32_t i = 0; i < core->param_count; i++)
    call_if_present(f, arg,
                    core->kind == CORE_FOR ? core->ranges[i].expr
                                           : core->params[i].default_value);
  for (uint32_t i = 0; i < core->slice_count; i++) {
    call_if_present(f, arg, core->slices[i].from);
    call_if_present(f, arg, core->slices[i].to);
    call_if_present(f, arg, core->slices[i].step);
  }
  for (uint32_t i = 0; i < core->rule_count; i++)
    call_if_present(f, arg, core->rules[i].body);
  for (uint32_t i = 0; i < core->item_count; i++)
    call_if_present(f, arg, core->items[i]);
}

/* ---- what a definition needs ---- */

typedef struct ImplicitCollector {
  Checker *c;
  Scheme *scheme;
  bool is_first_pass; /* before dependent variables are read off values */
  Map seen;           /* already listed, or bound by an inner CORE_TLAM */
  TypeVisitor visit;
} ImplicitCollector;

static bool mark_needed(ImplicitCollector *n, const void *var) {
  if (map_get(&n->seen, var))
    return false;
  map_put(&n->seen, var, n);
  return true;
}

static void collect_elem(void *arg, ElemVar *e) {
  ImplicitCollector *n = arg;
  e = elem_root(e);
  if (e->dtype == DT_NONE && e->level == LEVEL_GENERIC && mark_needed(n, e)) {
    ImplicitArg h = {.kind = IMPLICIT_ELEM, .elem = {DT_NONE, e}};
    VEC_PUSH(n->c->arena, n->scheme->implicits, h);
  } else if (e->dtype == DT_NONE && !e->skolem &&
             e->level > n->c->inference.level) {
    elem_apply_default(n->c, e); /* undetermined, and not in the type */
  }
}

/* True for a dependent variable, unless no value has it. */
static bool is_read_off_values(ImplicitCollector *n, bool is_dependent,
                               bool is_read, void *var) {
  if (is_dependent && !is_read && n->is_first_pass)
    dependent_need(n->c, var);
  return is_dependent && (is_read || n->is_first_pass);
}

static void collect_dim(void *arg, DimVar *v) {
  ImplicitCollector *n = arg;
  if (is_read_off_values(n, v->dependent, v->is_read, v))
    return;
  if (v->kind == DV_SKOLEM && v->level == LEVEL_GENERIC && mark_needed(n, v)) {
    ImplicitArg h = {.kind = IMPLICIT_DIM, .dim_var = v};
    VEC_PUSH(n->c->arena, n->scheme->implicits, h);
  }
}

/* The broadcast that gives a shape which no type has, or NULL.  Uses compute
   the shape from those that it broadcasts. */
static const Constraint *join_of(const ShapeVar *v) {
  return v->skolem ? NULL : v->join;
}

static void collect_shape(void *arg, ShapeVar *v) {
  ImplicitCollector *n = arg;
  const Constraint *join = join_of(v);
  if (join && mark_needed(n, v))
    for (uint32_t i = 0; i < join->broadcast_arg_count; i++)
      shape_visit(&n->visit, join->broadcast_args[i]);
  if (is_read_off_values(n, v->dependent, v->is_read, v))
    return;
  if (v->level == LEVEL_GENERIC && mark_needed(n, v)) {
    ImplicitArg h = {.kind = IMPLICIT_SHAPE, .shape_var = v};
    VEC_PUSH(n->c->arena, n->scheme->implicits, h);
  }
}

static void collect_instance(ImplicitCollector *n, SchemeInstance *instance,
                             TypeVisitor *v) {
  for (uint32_t i = 0; i < instance->scheme->implicits.len; i++) {
    ImplicitArg *h = &instance->scheme->implicits.at[i];
    void *to = map_get(&instance->substitution, implicit_var(h));
    if (!to)
      continue;
    switch (h->kind) {
    case IMPLICIT_ELEM:
      collect_elem(n, to);
      break;
    case IMPLICIT_DIM:
      dim_visit(v, to);
      break;
    case IMPLICIT_SHAPE:
      shape_visit(v, to);
      break;
    }
  }
}

static void collect_pattern(ImplicitCollector *n, CorePat *p) {
  if (p->elem.var)
    collect_elem(n, p->elem.var);
  for (uint32_t i = 0; i < p->arg_count; i++)
    collect_pattern(n, p->args[i]);
}

/* The shape of the right side of && and ||; otherwise NULL. */
static Shape *logic_op_shape(Checker *c, const Core *core) {
  if (core->kind != CORE_APP || !core->checker_data ||
      (core->items[0]->prim != PRIM_AND && core->items[0]->prim != PRIM_OR))
    return NULL;
  Type *t = ty_norm(c, core->checker_data);
  return t && t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
}

bool prim_is_map_like(PrimId id) {
  return id == PRIM_MAP1 || id == PRIM_MAP2 || id == PRIM_MAP3 ||
         id == PRIM_SCAN;
}

/* The type of a loop's result without iterations; NULL if core is not a
   loop. */
static Type *empty_result_type(Checker *c, const Core *core) {
  if (!core->checker_data ||
      (core->kind != CORE_FOR && core->kind != CORE_APP) ||
      (core->kind == CORE_APP && !prim_is_map_like(core->items[0]->prim)))
    return NULL;
  Type *t = ty_norm(c, core->checker_data);
  if (core->kind == CORE_APP && core->items[0]->prim == PRIM_SCAN)
    return t->tag == TY_TUPLE && t->count == 2 ? ty_norm(c, t->args[1]) : NULL;
  return t;
}

static void collect_core(void *arg, Core *core) {
  ImplicitCollector *n = arg;
  TypeVisitor *v = &n->visit;
  Type *empty_type = empty_result_type(n->c, core);
  if (empty_type)
    ty_visit(v, empty_type);
  if (core->kind == CORE_TLAM)
    for (uint32_t i = 0; i < core->implicit_count; i++)
      map_put(&n->seen, implicit_var(&core->implicits[i]), n);
  if (core->elem.var)
    collect_elem(n, core->elem.var);
  if (core->dim)
    dim_visit(v, core->dim);
  for (uint32_t i = 0; i < core->check_count; i++) {
    dim_visit(v, core->checks[i].left);
    dim_visit(v, core->checks[i].right);
    for (uint32_t j = 0; j < core->checks[i].condition_count; j++) {
      dim_visit(v, core->checks[i].conditions[j].left);
      dim_visit(v, core->checks[i].conditions[j].right);
    }
  }
  if (core->kind == CORE_FOR)
    for (uint32_t i = 0; i < core->param_count; i++)
      if (core->ranges[i].dim)
        dim_visit(v, core->ranges[i].dim);
  for (uint32_t i = 0; i < core->rule_count; i++)
    collect_pattern(n, core->rules[i].pat);
  for (uint32_t i = 0; i < core->size_path_count; i++)
    if (core->size_paths[i].value)
      dim_visit(v, core->size_paths[i].value);
  each_child(core, collect_core, n);
  if (core->checker_data && core->kind == CORE_VAR)
    collect_instance(n, core->checker_data, v);
  if (core->checker_data && core->kind == CORE_SHAPE_VALUE)
    shape_visit(v, core->checker_data);
  Shape *logic = logic_op_shape(n->c, core);
  if (logic && !shape_has_known_rank(logic))
    shape_visit(v, logic);
}

void implicit_collect(Checker *c, Scheme *s, Core *body) {
  ImplicitCollector n = {.c = c, .scheme = s, .is_first_pass = true};
  map_init(&n.seen, c->arena);
  for (uint32_t i = 0; i < s->implicits.len; i++)
    map_put(&n.seen, implicit_var(&s->implicits.at[i]), &n);
  n.visit = (TypeVisitor){.elem = collect_elem,
                          .dim = collect_dim,
                          .shape = collect_shape,
                          .arg = &n,
                          .c = c};
  call_if_present(collect_core, &n, body);
  if (!c->sizes.needed.len)
    return;
  dependent_read(c);
  n.is_first_pass = false;
  call_if_present(collect_core, &n, body);
}

/* ---- arguments of a use, once everything is solved ---- */

static CoreShape shape_ref(Checker *c, const Shape *s0);

static CoreAxis join_ref(Checker *c, const Constraint *join) {
  uint32_t count = join->broadcast_arg_count;
  CoreShape *args = NEW_ARRAY(c->arena, CoreShape, count);
  for (uint32_t i = 0; i < count; i++)
    args[i] = shape_ref(c, join->broadcast_args[i]);
  return (CoreAxis){.kind = CORE_AXIS_BROADCAST,
                    .broadcast_args = args,
                    .broadcast_arg_count = count};
}

static CoreShape shape_ref(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  CoreShape r = {NEW_ARRAY(c->arena, CoreAxis, s->len), 0};
  for (uint32_t i = 0; i < s->len; i++) {
    ShapeAxis *it = &s->axes[i];
    if (it->tag == SHAPE_SPLICE && join_of(it->var))
      r.axes[r.len++] = join_ref(c, join_of(it->var));
    else if (it->tag != SHAPE_SPLICE || it->var->skolem)
      r.axes[r.len++] =
          (CoreAxis){.kind = it->tag == SHAPE_DIM    ? CORE_AXIS_DIM
                             : it->tag == SHAPE_STAR ? CORE_AXIS_STAR
                                                     : CORE_AXIS_SPLICE,
                     .dim = it->dim,
                     .var = it->var};
    /* Others are never determined: they have no axes. */
  }
  return r;
}

static bool is_determined(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  bool all = true;
  for (uint32_t i = 0; i < s->len && all; i++) {
    const ShapeAxis *it = &s->axes[i];
    const Constraint *join = it->tag == SHAPE_SPLICE ? join_of(it->var) : NULL;
    all = it->tag != SHAPE_SPLICE || it->var->skolem || join;
    for (uint32_t k = 0; join && k < join->broadcast_arg_count && all; k++)
      all = is_determined(c, join->broadcast_args[k]);
  }
  return all;
}

static void note_inaccessible(void *arg, DimVar *v) {
  *(bool *)arg |= dim_var_is_inaccessible(v);
}

/* Reports a size or shape that is passed but cannot be read from any value. */
static void error_inaccessible_size(Checker *c, const char *param,
                                    const Core *use) {
  error_at(c, 302, use->span,
           "%s requires one `%s` for all items, but their sizes may differ",
           use->var && use->var->name ? use->var->name->text : "this function",
           param)
      ->help = "first combine them into one tensor with stack";
}

static void check_accessible(Checker *c, Dim *d, const DimVar *param,
                             const Core *use) {
  bool inaccessible = false;
  dim_each_var(d, note_inaccessible, NULL, &inaccessible);
  if (inaccessible)
    error_inaccessible_size(c, dim_var_name(c->dims, param), use);
}

typedef struct UnprovedEquationSearch {
  Checker *c;
  bool found;
} UnprovedEquationSearch;

static void note_in_unproved_equation(void *arg, DimVar *v) {
  UnprovedEquationSearch *t = arg;
  t->found |= map_get(&t->c->solver.in_unproved_equations, v) != NULL;
}

/* Records a size to be checked later: only at the end of the text it is known
   whether something determines it. */
static void note_undetermined(Checker *c, Dim *d, const DimVar *param,
                              bool required, const Core *use) {
  UnprovedEquationSearch t = {c, false};
  dim_each_var(d, note_in_unproved_equation, NULL, &t);
  if (!t.found && !required)
    return;
  UndeterminedSize u = {.dim = d,
                        .name = param ? dim_var_name(c->dims, param) : NULL,
                        .required = !t.found,
                        .used_name = use->var ? use->var->name : NULL,
                        .use_span = use->span,
                        .is_checked = use->kind == CORE_CHECK,
                        .module = c->names.module};
  VEC_PUSH(c->arena, c->sizes.undetermined, u);
}

/* True if running code reads the size itself when its caller does not know
   it. */
static bool is_read_at_run_time(const Scheme *s, const ImplicitArg *h) {
  return implicit_has_path(s, implicit_var(h)) ||
         (h->kind == IMPLICIT_DIM && h->dim_var->reshape_hole);
}

typedef struct CallSize { /* an existential size of a call */
  Checker *c;
  const SchemeInstance *call;
  Dim *dim; /* mentions it */
  DimVar *var;
  Dim *value;
} CallSize;

static void note_call_size(void *arg, DimVar *generic) {
  CallSize *s = arg;
  Dim *to = generic->kind == DV_EXISTENTIAL
                ? map_get(&s->call->substitution, generic)
                : NULL;
  DimVar *v = to ? dim_as_var(to) : NULL;
  if (v && dim_mentions(s->c->dims, s->dim, v))
    s->var = v;
}

/* Sets s->var if s->dim mentions such a size. */
static void find_call_size(CallSize *s) {
  const Scheme *scheme = s->call->scheme;
  TypeVisitor visit = {.dim = note_call_size, .arg = s, .c = s->c};
  s->var = NULL;
  for (uint32_t i = 0; i < scheme->given_count; i++)
    if (scheme->given[i]->is_dependent)
      constraint_visit(&visit, scheme->given[i]);
}

static Dim *call_size_value(void *arg, DimVar *v) {
  const CallSize *s = arg;
  return v == s->var ? s->value : NULL;
}

/* d == 0 gives the value of s->var. */
static bool solve_call_size(CallSize *s, Dim *d) {
  DimCtx *cx = s->c->dims;
  Dim *slope, *rest;
  int64_t k;
  if (!dim_mentions(cx, d, s->var) ||
      !dim_split_linear(cx, d, s->var, &slope, &rest) ||
      !dim_is_int(slope, &k) || (k != 1 && k != -1))
    return false;
  CallSize other = {.c = s->c, .call = s->call, .dim = rest};
  find_call_size(&other);
  s->value = k == 1 ? dim_neg(cx, rest) : rest;
  return !other.var;
}

/* Callers do not know the existential sizes of a call.  They pass what an
   equation gives instead; the callee checks it. */
static Dim *without_call_sizes(Checker *c, const SchemeInstance *call, Dim *d) {
  CallSize s = {.c = c, .call = call, .dim = d};
  if (dim_var_kinds(c, d).existential)
    find_call_size(&s);
  for (uint32_t i = 0; s.var && i < c->solver.residual.len; i++) {
    const Constraint *k = c->solver.residual.at[i];
    if (k->kind == CN_DIM_EQ && !assumption_has_condition(k->assumptions) &&
        solve_call_size(
            &s, dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right))))
      return dim_subst(c->dims, d, call_size_value, NULL, &s);
  }
  return d;
}

static void resolve_implicit(Checker *c, const Scheme *s, ImplicitArg *h,
                             void *to, const Core *use) {
  bool found = is_read_at_run_time(s, h);
  switch (h->kind) {
  case IMPLICIT_ELEM: {
    const ElemVar *generic = h->elem.var;
    if (to)
      h->elem.var = to;
    global_elem_finish(
        c, (ElemSite){.at = &h->elem, .generic = generic, .use = use});
    return;
  }
  case IMPLICIT_DIM:
    h->dim = dim_resolve(c->dims, to ? to : dim_of_var(c->dims, h->dim_var));
    check_accessible(c, h->dim, h->dim_var, use);
    if (!found)
      note_undetermined(c, h->dim, h->dim_var, h->required, use);
    return;
  case IMPLICIT_SHAPE:
    h->unknown = !is_determined(c, to ? to : shape_of_var(c, h->shape_var));
    h->shape = shape_ref(c, to ? to : shape_of_var(c, h->shape_var));
    for (uint32_t i = 0; i < h->shape.len; i++)
      if (h->shape.axes[i].dim && dim_has_unknown(h->shape.axes[i].dim))
        error_inaccessible_size(
            c, c->dims->shape_name(c->dims->owner, h->shape_var), use);
    for (uint32_t i = 0; i < h->shape.len && !found; i++)
      if (h->shape.axes[i].dim)
        note_undetermined(c, h->shape.axes[i].dim, NULL, false, use);
    return;
  }
}

static void instance_finish(Checker *c, SchemeInstance *instance) {
  Scheme *s = instance->scheme;
  Core *core = instance->core;
  if (!core || !s->implicits.len || core->kind != CORE_VAR)
    return;
  Core *var = core_new(c, CORE_VAR, core->span);
  *var = *core;
  var->checker_data = NULL;
  core->kind = CORE_TAPP;
  core->items = NEW_ARRAY(c->arena, Core *, 1);
  core->items[0] = var;
  core->item_count = 1;
  core->implicits = NEW_ARRAY(c->arena, ImplicitArg, s->implicits.len);
  core->implicit_count = s->implicits.len;
  for (uint32_t i = 0; i < s->implicits.len; i++) {
    ImplicitArg h = s->implicits.at[i];
    void *to = map_get(&instance->substitution, implicit_var(&h));
    if (to && h.kind == IMPLICIT_DIM)
      to = without_call_sizes(c, instance, dim_resolve(c->dims, to));
    core->implicits[i] = h;
    resolve_implicit(c, s, &core->implicits[i], to, var);
  }
}

void instances_finish(Checker *c) {
  for (uint32_t i = 0; i < c->inference.instances.len; i++)
    instance_finish(c, c->inference.instances.at[i]);
  c->inference.instances.len = 0;
}

/* num: the number that has this element type, or NULL. */
static void finish_elem(Checker *c, ElemRef *at, const char *num, bool is_float,
                        Span span) {
  if (at->var)
    global_elem_finish(
        c,
        (ElemSite){.at = at, .num = num, .is_float = is_float, .span = span});
  else if (num)
    literal_check(c, num, is_float, at->dtype, span);
}

static void finish_pat(Checker *c, CorePat *p) {
  finish_elem(c, &p->elem, p->kind == CP_NUM ? p->num : NULL, p->is_float,
              p->span);
  for (uint32_t i = 0; i < p->arg_count; i++)
    finish_pat(c, p->args[i]);
}

/* Sets the shape that a loaded file must have.  Existential sizes of the load
   itself are left open. */
static void finish_load(Checker *c, Core *core) {
  Shape *s = shape_norm(c, core->checker_data);
  core->checker_data = NULL;
  core->flag = shape_has_known_rank(s);
  if (!core->flag)
    return;
  core->shape = shape_ref(c, s);
  for (uint32_t i = 0; i < core->shape.len; i++) {
    CoreAxis *it = &core->shape.axes[i];
    DimVar *v = it->dim ? dim_as_var(it->dim) : NULL;
    bool own = v && v->kind == DV_META;
    for (uint32_t k = 0; v && k < c->sizes.discovered.len; k++)
      own |= c->sizes.discovered.at[k] == v;
    if (own || (it->dim && dim_has_unknown(it->dim)))
      it->dim = NULL;
  }
}

static void find_unsolved_name(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_META && !v->solution && !v->unknown && !v->reshape_hole)
    *out = v;
}

/* Notes a size in the code itself that nothing has determined so far. */
static void note_own_size(Checker *c, Dim *d, const Core *core) {
  DimVar *v = NULL;
  dim_each_var(d, find_unsolved_name, NULL, &v);
  if (v)
    note_undetermined(c, d, v->name ? v : NULL, true, core);
}

static void find_unsolved(void *arg, DimVar *v) {
  *(bool *)arg |=
      (v->kind == DV_META && !v->solution) || v->kind == DV_EXISTENTIAL;
}

/* Solves the _ of a shape, unless only the running program can, or the needed
   sizes are not unpacked yet. */
static void finish_holes(Checker *c, Core *core) {
  for (uint32_t i = 0; i < core->item_count; i++) {
    bool unsolved = false;
    if (core->items[i]->kind == CORE_DIM && core->items[i]->flag)
      dim_each_var(dim_resolve(c->dims, core->items[i]->dim), find_unsolved,
                   NULL, &unsolved);
    if (unsolved)
      core->items[i] = NULL;
  }
}

/* Zeros of the type; NULL unless it consists of tensors. */
static Core *empty_result_core(Checker *c, Type *t, Span span) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    Core *prim = core_new(c, CORE_PRIM, span);
    prim->prim = PRIM_ZEROS;
    prim->arity = 1;
    prim->elem.var = t->tensor.elem;
    finish_elem(c, &prim->elem, NULL, false, span);
    Core *shape = core_new(c, CORE_SHAPE_VALUE, span);
    shape->shape = shape_ref(c, t->tensor.shape);
    shape->flag = true;
    return core_items(c, CORE_APP, span, 2, prim, shape);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return NULL;
  Core *all = core_new(c, t->tag == TY_TUPLE ? CORE_TUPLE : CORE_RECORD, span);
  all->items = NEW_ARRAY(c->arena, Core *, t->count);
  if (t->tag == TY_RECORD)
    all->labels = t->record.labels;
  for (uint32_t i = 0; i < t->count; i++)
    if (!(all->items[all->item_count++] =
              empty_result_core(c, t->args[i], span)))
      return NULL;
  return all;
}

static void note_existential(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_EXISTENTIAL || v->dependent;
}

static bool passes_existential(const Core *use) {
  bool found = false;
  for (uint32_t i = 0; i < use->implicit_count; i++) {
    const ImplicitArg *h = &use->implicits[i];
    if (h->kind == IMPLICIT_DIM)
      dim_each_var(h->dim, note_existential, NULL, &found);
    for (uint32_t k = 0; h->kind == IMPLICIT_SHAPE && k < h->shape.len; k++)
      if (h->shape.axes[k].dim)
        dim_each_var(h->shape.axes[k].dim, note_existential, NULL, &found);
      else if (h->shape.axes[k].kind == CORE_AXIS_SPLICE)
        found |= h->shape.axes[k].var->dependent;
  }
  return found;
}

static void add_args(Checker *c, const Core *app, Core *to) {
  if (app->items[0]->kind == CORE_APP)
    add_args(c, app->items[0], to);
  for (uint32_t i = 1; i < app->item_count; i++)
    to->items[to->item_count++] = app->items[i];
}

/* Evaluates arguments first, since an implicit size may be read off an
   argument. */
static void evaluate_args_first(Checker *c, Core *core) {
  uint32_t count = 1;
  const Core *head = core;
  for (; head->kind == CORE_APP; head = head->items[0])
    count += head->item_count - 1;
  if (head->kind != CORE_TAPP || !passes_existential(head))
    return;
  Core *app = core_new(c, CORE_APP, core->span), *whole = app;
  app->items = NEW_ARRAY(c->arena, Core *, count);
  app->items[app->item_count++] = core_new(c, CORE_TAPP, head->span);
  *app->items[0] = *head;
  add_args(c, core, app);
  for (uint32_t i = app->item_count; --i > 0;) {
    Core *value = app->items[i];
    if (value->kind == CORE_VAR || value->kind == CORE_ABSENT ||
        value->kind == CORE_ALL_AXES || value->kind == CORE_LAM)
      continue;
    Var *v = var_new(c, NULL, value->span, false);
    app->items[i] = core_var(c, v, value->span);
    whole = core_let(c, v, value, whole);
  }
  *core = *whole;
}

static void finish_child(void *c, Core *core);

static void note_checked_sizes(Checker *c, const Core *core) {
  for (uint32_t i = 0; i < core->check_count; i++) {
    const CoreCheck *check = &core->checks[i];
    if (!check_needs_sizes(check))
      continue;
    note_own_size(c, dim_resolve(c->dims, check->left), core);
    note_own_size(c, dim_resolve(c->dims, check->right), core);
  }
}

void core_finish(Checker *c, Core *core) {
  if (!core)
    return;
  if (core->kind == CORE_APP)
    evaluate_args_first(c, core);
  if (core->kind == CORE_SHAPE)
    finish_holes(c, core);
  Type *empty_type = empty_result_type(c, core);
  if (empty_type)
    core->empty_result = empty_result_core(c, empty_type, core->span);
  if (core->kind == CORE_PRIM && core->prim == PRIM_LOAD && core->checker_data)
    finish_load(c, core);
  if (core->kind == CORE_SHAPE_VALUE && core->checker_data) {
    core->shape = shape_ref(c, core->checker_data);
    core->checker_data = NULL;
    for (uint32_t i = 0; i < core->shape.len && !core->flag; i++)
      if (core->shape.axes[i].dim)
        note_own_size(c, core->shape.axes[i].dim, core);
  }
  finish_elem(c, &core->elem, core->kind == CORE_NUM ? core->num : NULL,
              core->is_float, core->span);
  Shape *logic = logic_op_shape(c, core);
  if (logic) {
    core->shape = shape_ref(c, logic);
    core->flag = shape_has_known_rank(logic) && logic->len;
    if (shape_has_known_rank(logic))
      core->shape.len = 0;
  }
  if (core->dim)
    core->dim = dim_resolve(c->dims, core->dim);
  if (core->kind == CORE_DIM && !core->flag)
    note_own_size(c, core->dim, core);
  note_checked_sizes(c, core);
  if (core->kind == CORE_FOR)
    for (uint32_t i = 0; i < core->param_count; i++)
      if (core->ranges[i].dim)
        core->ranges[i].dim = dim_resolve(c->dims, core->ranges[i].dim);
  for (uint32_t i = 0; i < core->rule_count; i++)
    finish_pat(c, core->rules[i].pat);
  each_child(core, finish_child, c);
}

static void finish_child(void *c, Core *core) {
  core_finish(c, core);
}
