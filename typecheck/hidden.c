/* Hidden arguments: which element types, sizes and shapes running code needs
 * to be told by its callers, and what each use passes for them, once all is
 * solved. */
#include "typecheck/internal.h"

static void call(void (*f)(void *, Core *), void *arg, Core *core) {
  if (core)
    f(arg, core);
}

/* Calls f with each expression directly in core. */
static void each_part(Core *core, void (*f)(void *, Core *), void *arg) {
  for (uint32_t i = 0; i < core->param_count; i++)
    call(f, arg, core->kind == CORE_FOR ? core->ranges[i].expr
                                        : core->params[i].preset);
  for (uint32_t i = 0; i < core->slice_count; i++) {
    call(f, arg, core->slices[i].from);
    call(f, arg, core->slices[i].to);
  }
  for (uint32_t i = 0; i < core->rule_count; i++)
    call(f, arg, core->rules[i].body);
  for (uint32_t i = 0; i < core->item_count; i++)
    call(f, arg, core->items[i]);
}

/* ---- what a definition needs ---- */

Dtype elem_choice(const ElemVar *e) {
  if ((e->classes & CLASS_FLOAT) && e->prefer != 1)
    return DT_F32;
  if (e->classes & 1u << DT_I64)
    return DT_I64;
  return e->classes & CLASS_FLOAT ? DT_F32 : DT_BOOL;
}

static void elem_default(Checker *c, ElemVar *e) {
  unify_elem(c, e, elem_fixed(c, elem_choice(e)));
}

typedef struct Need {
  Checker *c;
  Scheme *scheme;
  Map seen; /* already listed, or bound by an inner TLAM */
  Visit visit;
} Need;

static bool need_new(Need *n, const void *var) {
  if (map_get(&n->seen, var))
    return false;
  map_put(&n->seen, var, n);
  return true;
}

static void need_elem(void *arg, ElemVar *e) {
  Need *n = arg;
  e = elem_root(e);
  if (e->dtype == DT_NONE && e->level == LEVEL_GENERIC && need_new(n, e)) {
    Hidden h = {.kind = HID_ELEM, .elem = {DT_NONE, e}};
    VEC_PUSH(n->c->arena, n->scheme->hidden, h);
  } else if (e->dtype == DT_NONE && !e->rigid && e->level > n->c->level) {
    elem_default(n->c, e); /* undetermined, and in no type */
  }
}

static void need_dim(void *arg, DimVar *v) {
  Need *n = arg;
  if (v->kind == DV_RIGID && v->level == LEVEL_GENERIC && need_new(n, v)) {
    Hidden h = {.kind = HID_DIM, .dim_var = v};
    VEC_PUSH(n->c->arena, n->scheme->hidden, h);
  }
}

static void need_shape(void *arg, ShapeVar *v) {
  Need *n = arg;
  if (v->level == LEVEL_GENERIC && need_new(n, v)) {
    Hidden h = {.kind = HID_SHAPE, .shape_var = v};
    VEC_PUSH(n->c->arena, n->scheme->hidden, h);
  }
}

static void *hidden_var(const Hidden *h) {
  switch (h->kind) {
  case HID_ELEM: return h->elem.var;
  case HID_DIM: return h->dim_var;
  case HID_SHAPE: return h->shape_var;
  }
  return NULL;
}

static void need_inst(Need *n, Inst *inst, Visit *v) {
  for (uint32_t i = 0; i < inst->scheme->hidden.len; i++) {
    Hidden *h = &inst->scheme->hidden.at[i];
    void *to = map_get(&inst->map, hidden_var(h));
    if (!to)
      continue;
    switch (h->kind) {
    case HID_ELEM: need_elem(n, to); break;
    case HID_DIM: dim_visit(v, to); break;
    case HID_SHAPE: shape_visit(v, to); break;
    }
  }
}

static void need_pat(Need *n, CorePat *p) {
  if (p->elem.var)
    need_elem(n, p->elem.var);
  for (uint32_t i = 0; i < p->arg_count; i++)
    need_pat(n, p->args[i]);
}

/* The shape of the right side of && and ||; else NULL. */
static Shape *shape_of_logic(Checker *c, const Core *core) {
  if (core->kind != CORE_APP || !core->inst ||
      (core->items[0]->prim != PRIM_AND && core->items[0]->prim != PRIM_OR))
    return NULL;
  Type *t = ty_norm(c, core->inst);
  return t && t->tag == TY_TENSOR ? shape_norm(c, t->shape) : NULL;
}

bool prim_maps(PrimId id) {
  return id == PRIM_MAP1 || id == PRIM_MAP2 || id == PRIM_MAP3 ||
         id == PRIM_SCAN;
}

/* What a loop over nothing makes; NULL where core is none. */
static Type *type_of_nothing(Checker *c, const Core *core) {
  if (!core->inst || (core->kind != CORE_FOR && core->kind != CORE_APP) ||
      (core->kind == CORE_APP && !prim_maps(core->items[0]->prim)))
    return NULL;
  Type *t = ty_norm(c, core->inst);
  if (core->kind == CORE_APP && core->items[0]->prim == PRIM_SCAN)
    return t->tag == TY_TUPLE && t->count == 2 ? ty_norm(c, t->args[1]) : NULL;
  return t;
}

static void need_core(void *arg, Core *core) {
  Need *n = arg;
  Visit *v = &n->visit;
  Type *nothing = type_of_nothing(n->c, core);
  if (nothing)
    ty_visit(v, nothing);
  if (core->kind == CORE_TLAM)
    for (uint32_t i = 0; i < core->hidden_count; i++)
      map_put(&n->seen, hidden_var(&core->hidden[i]), n);
  if (core->elem.var)
    need_elem(n, core->elem.var);
  if (core->dim)
    dim_visit(v, core->dim);
  for (uint32_t i = 0; i < core->check_count; i++) {
    dim_visit(v, core->checks[i].left);
    dim_visit(v, core->checks[i].right);
    for (uint32_t j = 0; j < core->checks[i].cond_count; j++) {
      dim_visit(v, core->checks[i].conds[j].left);
      dim_visit(v, core->checks[i].conds[j].right);
    }
  }
  if (core->kind == CORE_FOR)
    for (uint32_t i = 0; i < core->param_count; i++)
      if (core->ranges[i].dim)
        dim_visit(v, core->ranges[i].dim);
  for (uint32_t i = 0; i < core->rule_count; i++)
    need_pat(n, core->rules[i].pat);
  each_part(core, need_core, n);
  if (core->inst && core->kind == CORE_VAR)
    need_inst(n, core->inst, v);
  if (core->inst && core->kind == CORE_SHAPEVAL)
    shape_visit(v, core->inst);
  Shape *logic = shape_of_logic(n->c, core);
  if (logic && !shape_known_rank(logic))
    shape_visit(v, logic);
}

void hidden_collect(Checker *c, Scheme *s, Core *body) {
  Need n = {.c = c, .scheme = s};
  map_init(&n.seen, c->arena);
  for (uint32_t i = 0; i < s->hidden.len; i++)
    map_put(&n.seen, hidden_var(&s->hidden.at[i]), &n);
  n.visit = (Visit){.elem = need_elem, .dim = need_dim, .shape = need_shape,
                    .arg = &n, .c = c};
  call(need_core, &n, body);
}

/* ---- what a use passes, once everything is solved ---- */

static ElemRef elem_ref(Checker *c, ElemVar *e) {
  e = elem_root(e);
  if (e->dtype == DT_NONE && !e->rigid) {
    elem_default(c, e);
    e = elem_root(e);
  }
  return (ElemRef){e->dtype, e->dtype == DT_NONE ? e : NULL};
}

static ShapeRef shape_ref(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  ShapeRef r = {NEW_ARRAY(c->arena, ShapeItem, s->len), 0};
  for (uint32_t i = 0; i < s->len; i++) {
    ShapeIt *it = &s->at[i];
    if (it->tag == IT_SPLICE && !it->var->rigid)
      continue; /* never determined: no axes */
    r.at[r.len++] = (ShapeItem){
        .kind = it->tag == IT_DIM    ? SI_DIM
                : it->tag == IT_STAR ? SI_STAR
                                     : SI_SPLICE,
        .dim = it->dim,
        .var = it->var};
  }
  return r;
}

static bool is_determined(Checker *c, const Shape *s0) {
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_SPLICE && !s->at[i].var->rigid)
      return false;
  return true;
}

static void find_nowhere(void *arg, DimVar *v) {
  *(bool *)arg |= dim_is_nowhere(v);
}

/* What is passed for a size or shape, where no value shows it. */
static void not_shown(Checker *c, const char *param, const Core *use) {
  error_at(c, 302, use->span,
           "%s needs to know `%s`, the same for all items, whose sizes may "
           "differ",
           use->var && use->var->name ? use->var->name->text
                                      : "this function", param)
      ->help = "make one tensor of them first, with stack";
}

static void is_shown(Checker *c, Dim *d, const char *param, const Core *use) {
  bool nowhere = false;
  dim_each_var(d, find_nowhere, NULL, &nowhere);
  if (nowhere)
    not_shown(c, param, use);
}

typedef struct Tangle {
  Checker *c;
  bool found;
} Tangle;

static void find_entangled(void *arg, DimVar *v) {
  Tangle *t = arg;
  t->found |= map_get(&t->c->entangled, v) != NULL;
}

/* Whether something says what it is, is known when all is read. */
static void note_unfound(Checker *c, Dim *d, const Core *use) {
  Tangle t = {c, false};
  dim_each_var(d, find_entangled, NULL, &t);
  if (!t.found)
    return;
  Unfound u = {.dim = d, .of = use->var ? use->var->name : NULL,
               .use = use->span, .module = c->module};
  VEC_PUSH(c->arena, c->unfound, u);
}

/* Whether running code finds it where its caller does not know it. */
static bool found_later(const Scheme *s, const Hidden *h) {
  return size_is_shown(s, hidden_var(h)) ||
         (h->kind == HID_DIM && h->dim_var->hole);
}

static void inst_passes(Checker *c, const Scheme *s, Hidden *h, void *to,
                        const Core *use) {
  bool found = found_later(s, h);
  switch (h->kind) {
  case HID_ELEM:
    h->elem = elem_ref(c, to ? to : h->elem.var);
    return;
  case HID_DIM:
    h->dim = dim_resolve(c->dims, to ? to : dim_of_var(c->dims, h->dim_var));
    is_shown(c, h->dim, dim_var_name(c->dims, h->dim_var), use);
    if (!found)
      note_unfound(c, h->dim, use);
    return;
  case HID_SHAPE:
    h->unknown = !is_determined(c, to ? to : shape_of_var(c, h->shape_var));
    h->shape = shape_ref(c, to ? to : shape_of_var(c, h->shape_var));
    for (uint32_t i = 0; i < h->shape.len; i++)
      if (h->shape.at[i].dim && dim_has_top(h->shape.at[i].dim))
        not_shown(c, c->dims->shape_name(c->dims->owner, h->shape_var), use);
    for (uint32_t i = 0; i < h->shape.len && !found; i++)
      if (h->shape.at[i].dim)
        note_unfound(c, h->shape.at[i].dim, use);
    return;
  }
}

static void inst_finish(Checker *c, Inst *inst) {
  Scheme *s = inst->scheme;
  Core *core = inst->core;
  if (!core || !s->hidden.len || core->kind != CORE_VAR)
    return;
  Core *var = core_new(c, CORE_VAR, core->span);
  *var = *core;
  var->inst = NULL;
  core->kind = CORE_TAPP;
  core->items = NEW_ARRAY(c->arena, Core *, 1);
  core->items[0] = var;
  core->item_count = 1;
  core->hidden = NEW_ARRAY(c->arena, Hidden, s->hidden.len);
  core->hidden_count = s->hidden.len;
  for (uint32_t i = 0; i < s->hidden.len; i++) {
    Hidden h = s->hidden.at[i];
    inst_passes(c, s, &h, map_get(&inst->map, hidden_var(&h)), var);
    core->hidden[i] = h;
  }
}

void insts_finish(Checker *c) {
  for (uint32_t i = 0; i < c->insts.len; i++)
    inst_finish(c, c->insts.at[i]);
  c->insts.len = 0;
}

static void finish_pat(Checker *c, CorePat *p) {
  if (p->elem.var)
    p->elem = elem_ref(c, p->elem.var);
  for (uint32_t i = 0; i < p->arg_count; i++)
    finish_pat(c, p->args[i]);
}

/* What a load must find: sizes that it decides itself are left open. */
static void finish_load(Checker *c, Core *core) {
  Shape *s = shape_norm(c, core->inst);
  core->inst = NULL;
  core->flag = shape_known_rank(s);
  if (!core->flag)
    return;
  core->shape = shape_ref(c, s);
  for (uint32_t i = 0; i < core->shape.len; i++) {
    ShapeItem *it = &core->shape.at[i];
    DimVar *v = it->dim ? dim_as_var(it->dim) : NULL;
    bool own = v && v->kind == DV_META;
    for (uint32_t k = 0; v && k < c->found.len; k++)
      own |= c->found.at[k] == v;
    if (own || (it->dim && dim_has_top(it->dim)))
      it->dim = NULL;
  }
}

static void literal_fits(Checker *c, const char *num, Dtype t, Span span) {
  if (t == DT_NONE || !dtype_is_int(t))
    return;
  int bits = dtype_info[t].bytes * 8 - (dtype_info[t].class == 'i');
  int64_t n, most = bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
  int64_t least = dtype_info[t].class == 'i' ? -most - 1 : 0;
  if (dim_is_int(dim_text(c->dims, num), &n) && n >= least && n <= most)
    return;
  error_at(c, 361, span, "%s does not fit in %s", num, dtype_info[t].name)
      ->help = arena_printf(c->arena, "it holds %lld to %lld",
                            (long long)least, (long long)most);
}

static void find_unsolved(void *arg, DimVar *v) {
  *(bool *)arg |= (v->kind == DV_META && !v->bound) || v->kind == DV_DATA;
}

/* The _ of a shape, unless only the running program can solve it, or has yet
 * to find the sizes that it needs. */
static void finish_holes(Checker *c, Core *core) {
  for (uint32_t i = 0; i < core->item_count; i++) {
    bool unsolved = false;
    if (core->items[i]->kind == CORE_DIM)
      dim_each_var(dim_resolve(c->dims, core->items[i]->dim), find_unsolved,
                   NULL, &unsolved);
    if (unsolved)
      core->items[i] = NULL;
  }
}

/* Zeros of the type; NULL where it is no tensor, nor made of tensors. */
static Core *core_of_nothing(Checker *c, Type *t, Span span) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    Core *prim = core_new(c, CORE_PRIM, span);
    prim->prim = PRIM_ZEROS;
    prim->arity = 1;
    prim->elem = elem_ref(c, t->elem);
    Core *shape = core_new(c, CORE_SHAPEVAL, span);
    shape->shape = shape_ref(c, t->shape);
    shape->flag = true;
    return core_items(c, CORE_APP, span, 2, prim, shape);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return NULL;
  Core *all = core_new(c, t->tag == TY_TUPLE ? CORE_TUPLE : CORE_RECORD, span);
  all->items = NEW_ARRAY(c->arena, Core *, t->count);
  all->labels = t->labels;
  for (uint32_t i = 0; i < t->count; i++)
    if (!(all->items[all->item_count++] =
              core_of_nothing(c, t->args[i], span)))
      return NULL;
  return all;
}

static void find_data(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_DATA;
}

static bool passes_data(const Core *use) {
  bool found = false;
  for (uint32_t i = 0; i < use->hidden_count; i++) {
    const Hidden *h = &use->hidden[i];
    if (h->kind == HID_DIM)
      dim_each_var(h->dim, find_data, NULL, &found);
    for (uint32_t k = 0; h->kind == HID_SHAPE && k < h->shape.len; k++)
      if (h->shape.at[k].dim)
        dim_each_var(h->shape.at[k].dim, find_data, NULL, &found);
  }
  return found;
}

static void add_args(Checker *c, const Core *app, Core *to) {
  if (app->items[0]->kind == CORE_APP)
    add_args(c, app->items[0], to);
  for (uint32_t i = 1; i < app->item_count; i++)
    to->items[to->item_count++] = app->items[i];
}

/* A size that is handed over may be read off an argument: those are run before
 * it is. */
static void args_first(Checker *c, Core *core) {
  uint32_t count = 1;
  const Core *head = core;
  for (; head->kind == CORE_APP; head = head->items[0])
    count += head->item_count - 1;
  if (head->kind != CORE_TAPP || !passes_data(head))
    return;
  Core *app = core_new(c, CORE_APP, core->span), *whole = app;
  app->items = NEW_ARRAY(c->arena, Core *, count);
  app->items[app->item_count++] = core_new(c, CORE_TAPP, head->span);
  *app->items[0] = *head;
  add_args(c, core, app);
  for (uint32_t i = app->item_count; --i > 0;) {
    Core *value = app->items[i];
    if (value->kind == CORE_VAR || value->kind == CORE_ABSENT ||
        value->kind == CORE_AXIS_ALL || value->kind == CORE_LAM)
      continue;
    Var *v = var_new(c, NULL, value->span, false);
    app->items[i] = core_var(c, v, value->span);
    whole = core_let(c, v, value, whole);
  }
  *core = *whole;
}

static void finish_part(void *c, Core *core);

void core_finish(Checker *c, Core *core) {
  if (!core)
    return;
  if (core->kind == CORE_APP)
    args_first(c, core);
  if (core->kind == CORE_SHAPE)
    finish_holes(c, core);
  Type *nothing = type_of_nothing(c, core);
  if (nothing)
    core->nothing = core_of_nothing(c, nothing, core->span);
  if (core->kind == CORE_PRIM && core->prim == PRIM_LOAD && core->inst)
    finish_load(c, core);
  if (core->kind == CORE_SHAPEVAL && core->inst) {
    core->shape = shape_ref(c, core->inst);
    core->inst = NULL;
  }
  if (core->elem.var)
    core->elem = elem_ref(c, core->elem.var);
  Shape *logic = shape_of_logic(c, core);
  if (logic) {
    core->shape = shape_ref(c, logic);
    core->flag = shape_known_rank(logic) && logic->len;
    if (shape_known_rank(logic))
      core->shape.len = 0;
  }
  if (core->kind == CORE_NUM)
    literal_fits(c, core->num, core->elem.dtype, core->span);
  if (core->dim)
    core->dim = dim_resolve(c->dims, core->dim);
  if (core->kind == CORE_FOR)
    for (uint32_t i = 0; i < core->param_count; i++)
      if (core->ranges[i].dim)
        core->ranges[i].dim = dim_resolve(c->dims, core->ranges[i].dim);
  for (uint32_t i = 0; i < core->rule_count; i++)
    finish_pat(c, core->rules[i].pat);
  each_part(core, finish_part, c);
}

static void finish_part(void *c, Core *core) {
  core_finish(c, core);
}
