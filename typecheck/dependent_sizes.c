/* Sizes and shapes that depend on existential sizes.
 *
 * The last axis of `filter p x` is known only together with the rank of x: the
 * equation [?j, ...s] == [...t, m] has a solution in every call, but callers do
 * not know ?j, and so cannot pass m and t.  Such variables are called
 * dependent.  Running code reads them off the values in whose types they occur:
 * arguments and results of operations.  Main entry points: dependent_mark and
 * dependent_read. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"

/* The name of a function that is handed on, perhaps with its defaults, if it is
   polymorphic; otherwise NULL. */
static Core *handed_on(Core *core) {
  if (core->kind == CORE_APP) {
    for (uint32_t i = 1; i < core->item_count; i++)
      if (core->items[i]->kind != CORE_ABSENT)
        return NULL;
    core = core->items[0];
  }
  return core->kind == CORE_VAR && core->checker_data ? core : NULL;
}

void dependent_note_value(Checker *c, Core *core, Type *t) {
  const Type *root = ty_root(t);
  bool is_value = root->tag == TY_TENSOR || root->tag == TY_TUPLE ||
                  root->tag == TY_RECORD || root->tag == TY_VAR;
  if (is_value || (root->tag == TY_FUN && handed_on(core)))
    VEC_PUSH(c->arena, c->sizes.read_sites, ((ReadSite){core, t}));
}

/* ---- which variables are dependent ---- */

typedef struct DependentSearch {
  Checker *c;
  Map known;      /* set of the variables in the types of parameters */
  bool dependent; /* an existential or dependent variable occurred */
  bool is_known;  /* a known variable occurred */
  bool more;      /* something was added */
} DependentSearch;

static bool is_inner(const DependentSearch *s, uint32_t level) {
  return level > s->c->inference.level;
}

/* Callers know the existential sizes of outer values, such as a file. */
static void classify_dim(void *arg, DimVar *v) {
  DependentSearch *s = arg;
  bool of_call = v->kind == DV_EXISTENTIAL && is_inner(s, v->level);
  s->dependent |= of_call || v->dependent;
}

static void classify_shape(void *arg, ShapeVar *v) {
  DependentSearch *s = arg;
  s->dependent |= v->dependent;
}

static void add_known(DependentSearch *s, void *v) {
  map_put(&s->known, v, v);
}

static void add_known_dim(void *arg, DimVar *v) {
  add_known(arg, v);
}

static void add_known_shape(void *arg, ShapeVar *v) {
  add_known(arg, v);
}

static void add_dependent_dim(void *arg, DimVar *v) {
  DependentSearch *s = arg;
  if (v->dependent || v->kind != DV_META || v->unknown ||
      !is_inner(s, v->level) || map_get(&s->known, v))
    return;
  v->dependent = s->more = true;
}

static void add_dependent_shape(void *arg, ShapeVar *v) {
  DependentSearch *s = arg;
  if (v->dependent || !is_inner(s, v->level) || map_get(&s->known, v))
    return;
  v->dependent = s->more = true;
}

static TypeVisitor visitor_of(DependentSearch *s, void (*dim)(void *, DimVar *),
                              void (*shape)(void *, ShapeVar *)) {
  return (TypeVisitor){.dim = dim, .shape = shape, .arg = s, .c = s->c};
}

/* Callers determine what occurs in the types of parameters. */
static void add_known_params(DependentSearch *s, Type *t) {
  TypeVisitor known = visitor_of(s, add_known_dim, add_known_shape);
  t = ty_norm(s->c, t);
  if (t->tag == TY_FUN) {
    ty_visit(&known, t->fun.param);
    add_known_params(s, t->fun.result);
  }
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    add_known_params(s, t->args[i]);
}

static void note_known_dim(void *arg, DimVar *v) {
  DependentSearch *s = arg;
  s->is_known |= map_get(&s->known, v) != NULL;
}

static void note_known_shape(void *arg, ShapeVar *v) {
  DependentSearch *s = arg;
  s->is_known |= map_get(&s->known, v) != NULL;
}

/* Marks what no equation links to the type: callers cannot know it, for example
   the rank of a file. */
static void mark_unlinked(DependentSearch *s, uint32_t mark, uint32_t n,
                          Type *const *types) {
  Checker *c = s->c;
  TypeVisitor known = visitor_of(s, add_known_dim, add_known_shape);
  TypeVisitor note = visitor_of(s, note_known_dim, note_known_shape);
  TypeVisitor add = visitor_of(s, add_dependent_dim, add_dependent_shape);
  map_init(&s->known, c->arena);
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&known, types[i]);
  bool *linked = NEW_ARRAY(c->arena, bool, c->solver.pending.len);
  for (s->more = true; s->more;) {
    s->more = false;
    for (uint32_t i = mark; i < c->solver.pending.len; i++) {
      Constraint *k = c->solver.pending.at[i];
      s->is_known = false;
      if (linked[i] || k->solved || k->kind == CN_DIM_LE ||
          k->kind == CN_DIM_NE)
        continue;
      constraint_visit(&note, k);
      if (!s->is_known)
        continue;
      linked[i] = s->more = true;
      constraint_visit(&known, k);
    }
  }
  for (uint32_t i = mark; i < c->solver.pending.len; i++)
    if (!linked[i] && !c->solver.pending.at[i]->solved)
      constraint_visit(&add, c->solver.pending.at[i]);
}

static bool mentions_dependent(DependentSearch *s, Constraint *k) {
  TypeVisitor v = visitor_of(s, classify_dim, classify_shape);
  s->dependent = false;
  constraint_visit(&v, k);
  return s->dependent;
}

void dependent_mark(Checker *c, uint32_t mark, uint32_t n, Type *const *types) {
  DependentSearch s = {.c = c};
  map_init(&s.known, c->arena);
  bool any = false;
  for (uint32_t i = mark; i < c->solver.pending.len && !any; i++) {
    Constraint *k = c->solver.pending.at[i];
    any = !k->solved && !constraint_is_size(k) && mentions_dependent(&s, k);
  }
  if (c->solver.pending.len > mark)
    mark_unlinked(&s, mark, n, types);
  if (!any)
    return;
  map_init(&s.known, c->arena);
  for (uint32_t i = 0; i < n; i++)
    add_known_params(&s, types[i]);
  TypeVisitor add = visitor_of(&s, add_dependent_dim, add_dependent_shape);
  for (s.more = true; s.more;) {
    s.more = false;
    for (uint32_t i = mark; i < c->solver.pending.len; i++) {
      Constraint *k = c->solver.pending.at[i];
      if (!k->solved && !constraint_is_size(k) && mentions_dependent(&s, k))
        constraint_visit(&add, k);
    }
  }
}

bool constraint_is_dependent(Checker *c, Constraint *k) {
  DependentSearch s = {.c = c};
  map_init(&s.known, c->arena);
  return mentions_dependent(&s, k);
}

/* ---- which ones differ from call to call ---- */

typedef struct VaryingSearch {
  uint32_t mark;
  Map *out;
  bool found, more;
} VaryingSearch;

static void find_varying_dim(void *arg, DimVar *v) {
  VaryingSearch *s = arg;
  s->found |= dim_var_is_packed(v) ||
              (v->kind == DV_EXISTENTIAL && v->id >= s->mark &&
               v->level != LEVEL_GENERIC) ||
              map_get(s->out, v);
}

static void find_varying_shape(void *arg, ShapeVar *v) {
  VaryingSearch *s = arg;
  s->found |= map_get(s->out, v) != NULL;
}

static void add_varying_dim(void *arg, DimVar *v) {
  VaryingSearch *s = arg;
  bool inner = s->mark == PACKED_ONLY || v->id >= s->mark;
  if (v->kind != DV_META || v->unknown || !inner || map_get(s->out, v))
    return;
  map_put(s->out, v, v);
  s->more = s->mark != PACKED_ONLY;
}

static void add_varying_shape(void *arg, ShapeVar *v) {
  VaryingSearch *s = arg;
  if (v->first_newer_size < s->mark || map_get(s->out, v))
    return;
  map_put(s->out, v, v);
  s->more = true;
}

void dependent_varying(Checker *c, uint32_t mark, Map *out) {
  VaryingSearch s = {.mark = mark, .out = out, .more = true};
  TypeVisitor find = {
      .dim = find_varying_dim, .shape = find_varying_shape, .arg = &s, .c = c};
  TypeVisitor add = find;
  add.dim = add_varying_dim;
  add.shape = mark == PACKED_ONLY ? NULL : add_varying_shape;
  while (s.more) {
    s.more = false;
    for (uint32_t i = 0; i < c->solver.pending.len; i++) {
      Constraint *k = c->solver.pending.at[i];
      if (k->solved || constraint_is_size(k))
        continue;
      s.found = false;
      constraint_visit(&find, k);
      if (s.found)
        constraint_visit(&add, k);
    }
  }
}

/* ---- where running code reads them ---- */

typedef struct ReadPaths {
  Checker *c;
  const Map *needed; /* set of variables */
  struct SizePathStep steps[8];
  uint32_t step_count;
  Map here; /* set of the variables that this site has read */
  VEC(SizePath) paths;
} ReadPaths;

static SizePath *add_path(ReadPaths *r, SizePath path) {
  path.step_count = r->step_count;
  path.steps = NEW_ARRAY(r->c->arena, struct SizePathStep, r->step_count);
  for (uint32_t i = 0; i < r->step_count; i++)
    path.steps[i] = r->steps[i];
  VEC_PUSH(r->c->arena, r->paths, path);
  return &r->paths.at[r->paths.len - 1];
}

typedef struct Unread {
  const ReadPaths *of;
  DimVar *var;    /* a needed variable that this site has not read */
  uint32_t count; /* number of unread variables */
} Unread;

static void note_unread(void *arg, DimVar *v) {
  Unread *u = arg;
  if (!v->dependent || map_get(&u->of->here, v))
    return;
  u->count++;
  u->var = v;
}

static void note_unread_shape(void *arg, ShapeVar *v) {
  Unread *u = arg;
  if (v->dependent && !map_get(&u->of->here, v))
    u->count += 2; /* a product determines no size */
}

/* Reads the variable of an axis m, m + 1, 2*n - m: the only one in it that is
   not known. */
static void read_axis(ReadPaths *r, Dim *d, SizePath path) {
  Checker *c = r->c;
  Unread u = {.of = r};
  d = dim_resolve(c->dims, d);
  dim_each_var(d, note_unread, note_unread_shape, &u);
  if (u.count != 1 || !map_get(r->needed, u.var))
    return;
  path.var = u.var;
  if (dim_as_var(d) != u.var) {
    Dim *slope, *rest, *axis = existential_dim(c, NULL, (Span){0});
    int64_t k;
    if (!dim_split_linear(c->dims, d, u.var, &slope, &rest) ||
        !dim_is_int(slope, &k) || !k)
      return;
    path.var = dim_as_var(axis);
    add_path(r, path);
    rest = dim_sub(c->dims, axis, rest);
    path.var = u.var;
    path.value =
        k < 0 ? dim_div(c->dims, dim_sub(c->dims, dim_int(c->dims, 0), rest),
                        dim_int(c->dims, -k))
              : dim_div(c->dims, rest, dim_int(c->dims, k));
  }
  add_path(r, path);
  map_put(&r->here, u.var, u.var);
  u.var->is_read = true;
}

static void read_shape(ReadPaths *r, const Shape *s0) {
  Shape *s = shape_norm(r->c, s0);
  uint32_t first = s->len, last = 0;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_SPLICE && s->axes[i].var->fixed_rank != 1) {
      first = i < first ? i : first;
      last = i;
    }
  for (uint32_t i = 0; i < s->len; i++) {
    const ShapeAxis *it = &s->axes[i];
    int from_end = (int)i - (int)s->len;
    if (it->tag == SHAPE_DIM && (i < first || i > last))
      read_axis(r, it->dim, (SizePath){.axis = i < first ? (int)i : from_end});
    else if (it->tag == SHAPE_SPLICE && first == last && i == first &&
             map_get(r->needed, it->var) && !map_get(&r->here, it->var)) {
      add_path(r, (SizePath){.shape_var = it->var,
                             .axis = (int)i,
                             .axes_after = s->len - 1 - i});
      map_put(&r->here, it->var, it->var);
      it->var->is_read = true;
    }
  }
}

static void read_type(ReadPaths *r, Type *t, bool is_result) {
  t = ty_norm(r->c, t);
  if (t->tag == TY_TENSOR) {
    read_shape(r, t->tensor.shape);
    if (t->tensor.singleton && is_result)
      read_axis(r, t->tensor.singleton, (SizePath){.is_value = true});
  }
  if ((t->tag != TY_TUPLE && t->tag != TY_RECORD) || r->step_count == 8)
    return;
  for (uint32_t i = 0; i < t->count; i++) {
    r->steps[r->step_count++] = (struct SizePathStep){
        t->tag == TY_RECORD ? t->record.labels[i] : NULL, i};
    read_type(r, t->args[i], is_result);
    r->step_count--;
  }
}

/* A call of a function of the program: the integers in its result are computed
   without the sizes in its type. */
static bool is_call(const Core *core) {
  while (core->kind == CORE_APP)
    core = core->items[0];
  return core->kind == CORE_VAR || core->kind == CORE_TAPP;
}

/* An expression may have two types: its own, and that of the parameter that it
   is passed to. */
static void note_earlier_paths(ReadPaths *r, const Core *core) {
  for (uint32_t i = 0; core->kind == CORE_UNPACK && i < core->size_path_count;
       i++) {
    const SizePath *p = &core->size_paths[i];
    void *v = p->var ? (void *)p->var : p->shape_var;
    map_put(&r->here, v, v);
  }
}

static void read_at(Checker *c, const ReadSite *site, const Map *needed);

/* A function that is handed on gets a lambda around it, which reads the
   variables off its arguments. */
static void read_at_calls(Checker *c, Core *core, Type *t, const Map *needed) {
  Core *name = handed_on(core);
  SchemeInstance *instance = name ? name->checker_data : NULL;
  if (!instance || !instance->scheme->implicits.len)
    return;
  Core *callee = core_new(c, core->kind, core->span);
  *callee = *core;
  Core *app = core_items(c, CORE_APP, core->span, 1, callee);
  Core *fn = core_items(c, CORE_LAM, core->span, 1, app);
  VEC(CoreParam) params = {0};
  VEC(Core *) items = {0};
  bool any = false;
  VEC_PUSH(c->arena, items, callee);
  t = ty_norm(c, t);
  for (uint32_t i = 1; i < core->item_count && t->tag == TY_FUN; i++)
    t = ty_norm(c, t->fun.result); /* defaults */
  for (; t->tag == TY_FUN; t = ty_norm(c, t->fun.result)) {
    CoreParam p = {.var = var_new(c, NULL, core->span, false)};
    Core *arg = core_var(c, p.var, core->span);
    ReadSite site = {arg, t->fun.param};
    read_at(c, &site, needed);
    any |= arg->kind == CORE_UNPACK;
    VEC_PUSH(c->arena, params, p);
    VEC_PUSH(c->arena, items, arg);
  }
  if (!any)
    return;
  app->items = items.at;
  app->item_count = items.len;
  fn->params = params.at;
  fn->param_count = params.len;
  if (name == core)
    instance->core = callee;
  *core = *fn;
}

/* The expression keeps its address, since others refer to it. */
static void read_at(Checker *c, const ReadSite *site, const Map *needed) {
  if (ty_norm(c, site->type)->tag == TY_FUN) {
    read_at_calls(c, site->core, site->type, needed);
    return;
  }
  ReadPaths r = {.c = c, .needed = needed};
  map_init(&r.here, c->arena);
  note_earlier_paths(&r, site->core);
  read_type(&r, site->type,
            site->core->kind == CORE_APP && is_call(site->core));
  if (!r.paths.len)
    return;
  Core *value = core_new(c, site->core->kind, site->core->span);
  *value = *site->core;
  SchemeInstance *instance =
      value->kind == CORE_VAR ? value->checker_data : NULL;
  if (instance)
    instance->core = value;
  Core *unpack = core_items(c, CORE_UNPACK, value->span, 1, value);
  unpack->size_paths = r.paths.at;
  unpack->size_path_count = r.paths.len;
  *site->core = *unpack;
}

/* A name has its sizes from its value on: code before this use may need them,
   for example the range of a loop around it. */
static void read_at_value(Checker *c, const ReadSite *site, const Map *needed) {
  const Core *name = site->core;
  if (name->kind != CORE_VAR || name->checker_data || !name->var->value)
    return;
  ReadSite value = {name->var->value, site->type};
  read_at(c, &value, needed);
}

/* ---- equations that only running code can check ---- */

static void note_not_passed(void *arg, DimVar *v) {
  *(bool *)arg |= v->dependent || v->kind != DV_SKOLEM;
}

static void note_shape_not_passed(void *arg, ShapeVar *v) {
  *(bool *)arg |= v->dependent || !v->skolem;
}

/* Callers pass the size. */
static bool is_passed(Dim *d) {
  bool other = false;
  dim_each_var(d, note_not_passed, note_shape_not_passed, &other);
  return !other;
}

typedef struct SideCheck {
  Checker *c;
  const Constraint *equation;
  ReadPaths read;
  Core *check;
} SideCheck;

/* The axis of the value must have the size that callers pass. */
static void check_axis_size(SideCheck *s, Dim *size, int axis) {
  Checker *c = s->c;
  Dim *actual = existential_dim(c, NULL, (Span){0});
  Constraint k = {.kind = CN_DIM_EQ,
                  .left = size,
                  .right = actual,
                  .origin = s->equation->origin};
  CoreCheck check = {.kind = CHECK_EQ,
                     .left = size,
                     .right = actual,
                     .diag = runtime_check_diagnostic(c, &k)};
  if (!check.diag)
    return;
  add_path(&s->read, (SizePath){.var = dim_as_var(actual), .axis = axis});
  s->check->checks[s->check->check_count++] = check;
}

/* The expression keeps its address, since others refer to it. */
static void check_side_at(Checker *c, const Constraint *equation,
                          const Shape *side, Core *site) {
  SideCheck s = {.c = c, .equation = equation, .read = {.c = c}};
  uint32_t first = 0, last = side->len;
  s.check = core_new(c, CORE_CHECK, site->span);
  s.check->checks = NEW_ARRAY(c->arena, CoreCheck, side->len);
  s.check->items = NEW(c->arena, Core *);
  s.check->item_count = 1;
  while (first < side->len && side->axes[first].tag == SHAPE_DIM)
    first++;
  while (last > first && side->axes[last - 1].tag == SHAPE_DIM)
    last--;
  for (uint32_t i = 0; i < side->len; i++)
    if ((i < first || i >= last) && is_passed(side->axes[i].dim))
      check_axis_size(&s, side->axes[i].dim,
                      i < first ? (int)i : (int)i - (int)side->len);
  if (!s.check->check_count)
    return;
  Core *value = core_new(c, site->kind, site->span);
  *value = *site;
  SchemeInstance *instance =
      value->kind == CORE_VAR ? value->checker_data : NULL;
  if (instance)
    instance->core = value;
  Core *unpack = core_items(c, CORE_UNPACK, value->span, 1, value);
  unpack->size_paths = s.read.paths.at;
  unpack->size_path_count = s.read.paths.len;
  *site = *runtime_check_after_value(c, unpack, s.check);
}

static void check_side(Checker *c, const Constraint *equation,
                       const Shape *side) {
  side = shape_norm(c, side);
  uint32_t count = c->sizes.read_sites.len;
  for (uint32_t i = 0; i < count; i++) {
    const ReadSite *site = &c->sizes.read_sites.at[i];
    Type *t = ty_norm(c, site->type);
    if (t->tag == TY_TENSOR && shape_same(shape_norm(c, t->tensor.shape), side))
      check_side_at(c, equation, side, site->core);
  }
}

/* An equation with conditions is checked where its branch uses the value. */
void dependent_check(Checker *c, const Scheme *s) {
  for (uint32_t i = 0; i < s->given_count; i++) {
    const Constraint *k = s->given[i];
    if (k->kind != CN_SHAPE_EQ || !k->is_dependent)
      continue;
    check_side(c, k, k->a);
    check_side(c, k, k->b);
  }
}

void dependent_need(Checker *c, void *var) {
  VEC_PUSH(c->arena, c->sizes.needed, var);
}

void dependent_read(Checker *c) {
  if (!c->sizes.needed.len)
    return;
  Map needed;
  map_init(&needed, c->arena);
  for (uint32_t i = 0; i < c->sizes.needed.len; i++)
    map_put(&needed, c->sizes.needed.at[i], c);
  c->sizes.needed.len = 0;
  for (uint32_t i = 0; i < c->sizes.read_sites.len; i++) {
    const ReadSite *site = &c->sizes.read_sites.at[i];
    read_at_value(c, site, &needed);
    read_at(c, site, &needed);
  }
}
