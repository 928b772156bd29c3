/* Generalisation and instantiation, and the hidden arguments that running
 * code needs because of them. */
#include "typecheck/internal.h"

/* ---- instantiation ---- */

/* Marks a data size that a scheme has just given and no application has
 * opened yet. */
static char unopened;

static Type *fresh_ty(Copy *copy, TyVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Type *t = map_get(&copy->map, v);
  if (!t)
    map_put(&copy->map, v, t = ty_meta(copy->c));
  return t;
}

static ElemVar *fresh_elem(Copy *copy, ElemVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  ElemVar *e = map_get(&copy->map, v);
  if (!e) {
    e = elem_meta(copy->c, v->classes);
    e->prefer = v->prefer;
    map_put(&copy->map, v, e);
  }
  return e;
}

static Dim *fresh_dim(Copy *copy, DimVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Dim *d = map_get(&copy->map, v);
  if (!d) {
    Checker *c = copy->c;
    if (v->kind == DV_DATA) {
      d = data_dim(c, v->name, v->origin);
      dim_as_var(d)->home = &unopened;
    } else {
      d = v->value ? meta_term(c, v->origin) : meta_dim(c, NULL, v->origin);
      dim_as_var(d)->inner = v->inner;
    }
    map_put(&copy->map, v, d);
  }
  return d;
}

static Shape *fresh_shape(Copy *copy, ShapeVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Shape *s = map_get(&copy->map, v);
  if (!s)
    map_put(&copy->map, v,
            s = shape_of_var(copy->c, shape_var(copy->c, v->fixed)));
  return s;
}

static Effect *fresh_effect(Copy *copy, Effect *e) {
  if (e->level != LEVEL_GENERIC)
    return NULL;
  Effect *r = map_get(&copy->map, e);
  if (!r)
    map_put(&copy->map, e, r = effect_var(copy->c));
  return r;
}

static bool is_unopened(Constraint *k, Checker *c) {
  (void)c;
  DimVar *v = k->left ? dim_as_var(k->left) : NULL;
  return v && v->kind == DV_DATA && v->home == &unopened;
}

/* What a scheme demands, of the copies of its variables. */
static void demand_given(Copy *copy, Scheme *s, Origin *o) {
  Checker *c = copy->c;
  for (uint32_t i = 0; i < s->given_count; i++) {
    Constraint *k = constraint_copy(copy, s->given[i]);
    k->origin = o;
    o->scheme = s;
    if (is_unopened(k, c)) { /* filter's ?m <= n: known, not demanded */
      fact_known(c, dim_sub(c->dims, k->right, k->left),
                 k->kind == CN_DIM_EQ);
      continue;
    }
    Fact *saved = c->facts;
    if (k->facts) { /* an implication: its conditions come first */
      k->implied = true;
      k->scope = saved;
      Fact *f = k->facts;
      for (; f; f = f->outer) {
        Fact *g = NEW(c->arena, Fact);
        *g = *f;
        g->outer = c->facts;
        c->facts = g;
      }
    }
    if (k->kind == CN_SHAPE_EQ) {
      if (!unify_shape(c, k->a, k->b, o))
        report_shapes(c, k->a, k->b, o, NULL);
    } else if (!k->facts || !facts_contradict(c)) {
      demand(c, *k);
    }
    c->facts = saved;
  }
}

static Inst *inst_new(Checker *c, Scheme *s, Map map) {
  Inst *inst = NEW(c->arena, Inst);
  inst->scheme = s;
  inst->map = map;
  VEC_PUSH(c->arena, c->insts, inst);
  return inst;
}

Inst *scheme_at(Checker *c, Scheme *s, Map map, Origin *o) {
  Copy copy = {.c = c, .ty = fresh_ty, .elem = fresh_elem, .dim = fresh_dim,
               .shape = fresh_shape, .effect = fresh_effect, .map = map};
  demand_given(&copy, s, o);
  return inst_new(c, s, map);
}

Type *scheme_instantiate(Checker *c, Scheme *s, Origin *o, Inst **inst) {
  if (inst)
    *inst = NULL;
  if (!s->poly)
    return s->type;
  Copy copy = {.c = c, .ty = fresh_ty, .elem = fresh_elem, .dim = fresh_dim,
               .shape = fresh_shape, .effect = fresh_effect};
  map_init(&copy.map, c->arena);
  Type *t = ty_copy(&copy, s->type);
  demand_given(&copy, s, o);
  if (inst)
    *inst = inst_new(c, s, copy.map);
  return t;
}

Scheme *scheme_mono(Checker *c, Type *t) {
  Scheme *s = NEW(c->arena, Scheme);
  s->type = t;
  return s;
}

/* ---- generalisation ---- */

typedef struct General {
  Checker *c;
  bool any;     /* something was quantified */
  bool data;    /* a data size of this level */
  bool index;
  bool local;   /* mentions a variable above the level */
} General;

static void general_ty(void *arg, TyVar *v) {
  General *g = arg;
  if (v->level > g->c->level && v->level != LEVEL_GENERIC) {
    v->level = LEVEL_GENERIC;
    v->rigid = true;
  }
  g->any |= v->level == LEVEL_GENERIC;
}

static void general_elem(void *arg, ElemVar *v) {
  General *g = arg;
  if (v->level > g->c->level && v->level != LEVEL_GENERIC) {
    v->level = LEVEL_GENERIC;
    v->rigid = true;
  }
  g->any |= v->level == LEVEL_GENERIC;
}

static void general_dim(void *arg, DimVar *v) {
  General *g = arg;
  if (v->top)
    return;
  if (v->level > g->c->level && v->level != LEVEL_GENERIC) {
    if (v->kind == DV_INDEX) {
      g->index = true;
      return;
    }
    v->level = LEVEL_GENERIC;
    if (v->kind == DV_META)
      v->kind = DV_RIGID;
  }
  g->any |= v->level == LEVEL_GENERIC;
}

static void general_shape(void *arg, ShapeVar *v) {
  General *g = arg;
  if (v->level > g->c->level && v->level != LEVEL_GENERIC) {
    v->level = LEVEL_GENERIC;
    v->rigid = true;
  }
  g->any |= v->level == LEVEL_GENERIC;
}

static void general_effect(void *arg, Effect *e) {
  General *g = arg;
  if (e->level > g->c->level)
    e->level = LEVEL_GENERIC;
  g->any |= e->level == LEVEL_GENERIC;
}

static void look_dim(void *arg, DimVar *v) {
  General *g = arg;
  if (v->top)
    return;
  bool above = v->level > g->c->level;
  g->local |= above;
  g->index |= v->kind == DV_INDEX;
  g->data |= v->kind == DV_DATA && above;
}

static void look_shape(void *arg, ShapeVar *v) {
  General *g = arg;
  g->local |= v->level > g->c->level;
}

/* Replaces its for-indices by their worst case; false if it cannot, or if
 * that asks for what no sizes satisfy although the condition may hold. */
static bool without_indices(Checker *c, Constraint *k) {
  Constraint worst;
  bool exact;
  if (!index_worst(c, k, &worst, &exact))
    return false;
  facts_load(c, worst.facts);
  if (!exact && dim_ge0(c->solver, dim_resolve(c->dims, worst.right), true) ==
                    REFUTED)
    return false;
  *k = worst;
  return true;
}

static bool stated_before(Checker *c, Constraint *k, Constraint **others,
                          uint32_t self) {
  for (uint32_t i = 0; i < self; i++)
    if (others[i] && others[i]->kind == k->kind && !others[i]->facts &&
        dim_equal(dim_resolve(c->dims, others[i]->left),
                  dim_resolve(c->dims, k->left)) &&
        dim_equal(dim_resolve(c->dims, others[i]->right),
                  dim_resolve(c->dims, k->right)))
      return true;
  return false;
}

/* right - left where they are sizes, else NULL. */
static Dim *gap_of(Checker *c, const Constraint *k) {
  return k->left ? dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left))
                 : NULL;
}

/* By the others, gaps[i] being gap_of(others[i]). */
static bool implied(Checker *c, Constraint *k, Constraint **others,
                    Dim *const *gaps, uint32_t count, uint32_t self) {
  int64_t one;
  if ((k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE) || k->assumed)
    return false;
  if (k->kind == CN_DIM_LE && dim_is_int(k->left, &one) && one == 1 &&
      dim_as_var(dim_resolve(c->dims, k->right)))
    return stated_before(c, k, others, self); /* of divisors the solver takes
                                                 it for granted */
  facts_load(c, k->facts);
  Dim *divisor = dim_add(c->dims, gaps[self], dim_int(c->dims, 1));
  for (uint32_t i = 0; i < count; i++) {
    Constraint *o = others[i];
    if (i == self || !o || o->facts ||
        (gaps[i] && dim_divides_by(gaps[i], divisor)))
      continue; /* what it divides takes 1 <= divisor for granted */
    if (o->kind == CN_DIM_EQ)
      dim_facts_add_eq(c->solver, gaps[i]);
    else if (o->kind == CN_DIM_LE)
      dim_facts_add_ge(c->solver, gaps[i]);
  }
  Dim *d = gaps[self];
  return (k->kind == CN_DIM_EQ ? dim_eq0(c->solver, d, false)
                               : loaded_ge0(c, d, false)) == PROVED;
}

static void look_constraint(Checker *c, Constraint *k, General *g) {
  *g = (General){.c = c};
  Visit look = {.dim = look_dim, .shape = look_shape, .arg = g, .c = c};
  constraint_visit(&look, k);
}

static ShapeVar *join_var(Checker *c, Constraint *k) {
  if (!k || k->kind != CN_JOIN)
    return NULL;
  Shape *s = shape_norm(c, k->a);
  return s->len == 1 && s->at[0].tag == IT_SPLICE ? s->at[0].var : NULL;
}

typedef struct Shows {
  ShapeVar *var;
  bool found;
} Shows;

static void shows_shape(void *arg, ShapeVar *v) {
  Shows *s = arg;
  s->found |= s->var == v;
}

static bool shape_var_shows(Checker *c, ShapeVar *v, Constraint **all,
                            uint32_t count, uint32_t self, uint32_t n_types,
                            Type *const *types) {
  Shows s = {v, false};
  Visit look = {.shape = shows_shape, .arg = &s, .c = c};
  for (uint32_t i = 0; i < n_types; i++)
    ty_visit(&look, types[i]);
  for (uint32_t i = 0; i < count; i++)
    if (i != self && all[i])
      constraint_visit(&look, all[i]);
  return s.found;
}

/* join(join(s, t), u) is join(s, t, u): an argument that another join defines
 * is replaced by that one's arguments. */
static void flatten_joins(Checker *c, Constraint **all, uint32_t count,
                          uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    ShapeVar *v = join_var(c, all[i]);
    bool used = false;
    for (uint32_t j = 0; v && j < count; j++) {
      Constraint *k = all[j];
      if (j == i || !k || k->kind != CN_JOIN)
        continue;
      for (uint32_t a = 0; a < k->join_count; a++) {
        Shape *s = shape_norm(c, k->joined[a]);
        if (s->len != 1 || s->at[0].tag != IT_SPLICE || s->at[0].var != v)
          continue;
        uint32_t n = k->join_count - 1 + all[i]->join_count;
        Shape **args = NEW_ARRAY(c->arena, Shape *, n);
        uint32_t m = 0;
        for (uint32_t b = 0; b < k->join_count; b++) {
          if (b != a) {
            args[m++] = k->joined[b];
            continue;
          }
          for (uint32_t d = 0; d < all[i]->join_count; d++)
            args[m++] = all[i]->joined[d];
        }
        k->joined = args;
        k->join_count = n;
        used = true;
        break;
      }
    }
    if (used && !shape_var_shows(c, v, all, count, i, n_types, types))
      all[i] = NULL; /* the larger join implies it */
  }
}

static void join_unique(Checker *c, Constraint *k) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->join_count; i++) {
    bool seen = false;
    for (uint32_t j = 0; j < n && !seen; j++)
      seen = shape_same(c, k->joined[i], k->joined[j]);
    if (!seen)
      k->joined[n++] = k->joined[i];
  }
  k->join_count = n;
}

static bool joins_all(Checker *c, const Constraint *k, const Constraint *of) {
  for (uint32_t i = 0; i < of->join_count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < k->join_count && !found; j++)
      found = shape_same(c, k->joined[j], of->joined[i]);
    if (!found)
      return false;
  }
  return true;
}

/* What joins and is not looked at says no more than another that joins as much
 * and holds without its conditions. */
static void drop_joins(Checker *c, Constraint **all, uint32_t count,
                       uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    ShapeVar *v = join_var(c, all[i]);
    for (uint32_t j = 0; v && j < count; j++) {
      Constraint *k = all[j];
      if (j == i || !k || k->kind != CN_JOIN ||
          (k->facts && k->facts != all[i]->facts) ||
          !joins_all(c, k, all[i]) ||
          shape_var_shows(c, v, all, count, i, n_types, types))
        continue;
      all[i] = NULL;
      v = NULL;
    }
  }
}

/* keep(w, t) where w is mentioned nowhere else can always be met. */
static void drop_keeps(Checker *c, Constraint **all, uint32_t count,
                       uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    Constraint *k = all[i];
    if (!k || k->kind != CN_KEEP)
      continue;
    Shape *s = shape_norm(c, k->a);
    if (s->len == 1 && s->at[0].tag == IT_SPLICE &&
        !shape_var_shows(c, s->at[0].var, all, count, i, n_types, types))
      all[i] = NULL;
  }
}

static void look_local(void *arg, DimVar *v) {
  General *g = arg;
  g->local |= v->level > g->c->level;
}

/* As its callers will read it: k <= n rather than 0 <= n - k; and under the
 * conditions of its branch alone. */
static void tidy_constraint(Checker *c, Constraint *k) {
  if (k->kind == CN_DIM_LE) {
    Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
    dim_split_signs(c->dims, dim_simplify_ge(c->dims, d), &k->right,
                    &k->left);
  }
  Fact *kept = NULL;
  for (Fact *f = k->facts; f; f = f->outer) {
    General g = {.c = c};
    dim_each_var(dim_resolve(c->dims, f->dim), look_local, NULL, &g);
    if (f->index || f->known || !g.local)
      continue;
    Fact *copy = NEW(c->arena, Fact);
    *copy = *f;
    copy->outer = kept;
    kept = copy;
  }
  k->facts = kept;
}

/* Takes from pending what mentions a variable above the level. */
static Constraint **take_constraints(Checker *c, uint32_t mark,
                                     uint32_t *count, uint32_t n_types,
                                     Type *const *types) {
  VEC(Constraint *) taken = {0};
  uint32_t kept = mark;
  for (uint32_t i = mark; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (k->done)
      continue;
    General g;
    look_constraint(c, k, &g);
    if (g.index && without_indices(c, k))
      look_constraint(c, k, &g);
    k->pending = !g.local;
    if (!g.local) {
      c->pending.at[kept++] = k;
    } else if (g.data || g.index) {
      k->done = true;
      VEC_PUSH(c->arena, c->stuck, k);
    } else {
      VEC_PUSH(c->arena, taken, k);
    }
  }
  c->pending.len = kept;
  flatten_joins(c, taken.at, taken.len, n_types, types);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i] && taken.at[i]->kind == CN_JOIN)
      join_unique(c, taken.at[i]);
  drop_joins(c, taken.at, taken.len, n_types, types);
  drop_keeps(c, taken.at, taken.len, n_types, types);
  uint32_t n = 0;
  Dim **gaps = NEW_ARRAY(c->arena, Dim *, taken.len);
  for (uint32_t i = 0; i < taken.len; i++)
    gaps[i] = taken.at[i] ? gap_of(c, taken.at[i]) : NULL;
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i] && implied(c, taken.at[i], taken.at, gaps, taken.len, i)) {
      taken.at[i] = NULL;
      c->stats.proved++;
    }
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i])
      taken.at[n++] = taken.at[i];
  for (uint32_t i = 0; i < n; i++)
    tidy_constraint(c, taken.at[i]);
  *count = n;
  return taken.at;
}

/* An axis of which only the number is known becomes a size. */
static void settle_axis(void *arg, ShapeVar *v) {
  Checker *c = arg;
  if (v->fixed != 1 || v->rigid || v->bound || v->level <= c->level)
    return;
  Dim *d = meta_dim(c, NULL, (Span){0});
  dim_as_var(d)->level = v->level;
  shape_bind(c, v, shape_dims(c, 1, &d));
}

static void data_dim_generic(void *arg, DimVar *v) {
  if (v->kind == DV_DATA && v->level == LEVEL_GENERIC)
    *(bool *)arg = true;
}

/* What is known of a size that each call brings into being goes with it. */
static void take_data_facts(Checker *c, Constraint ***given,
                            uint32_t *count) {
  for (uint32_t i = 0; i < c->data_facts.len; i++) {
    Fact *f = c->data_facts.at[i];
    Dim *d = dim_resolve(c->dims, f->dim), *pos, *neg;
    bool generic = false;
    dim_each_var(d, data_dim_generic, NULL, &generic);
    dim_split_signs(c->dims, d, &pos, &neg);
    DimVar *v = dim_as_var(neg);
    if (!generic || f->eq || !v || v->kind != DV_DATA ||
        v->level != LEVEL_GENERIC)
      continue;
    Constraint *k = NEW(c->arena, Constraint);
    *k = (Constraint){.kind = CN_DIM_LE, .left = neg, .right = pos};
    Constraint **more = NEW_ARRAY(c->arena, Constraint *, *count + 1);
    for (uint32_t j = 0; j < *count; j++)
      more[j] = (*given)[j];
    more[(*count)++] = k;
    *given = more;
  }
}

void scheme_generalise(Checker *c, uint32_t n, Type *const *types,
                       Scheme **out, uint32_t mark) {
  c->progress = true;
  solve_pending(c);
  Visit single = {.shape = settle_axis, .arg = c, .c = c};
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&single, types[i]);
  solve_pending(c);
  solve_holes(c, mark);
  General g = {.c = c};
  Visit quantify = {general_ty, general_elem, general_dim, general_shape,
                    general_effect, &g, c};
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&quantify, types[i]);
  uint32_t count;
  Constraint **given = take_constraints(c, mark, &count, n, types);
  take_data_facts(c, &given, &count);
  for (uint32_t i = 0; i < count; i++) {
    constraint_visit(&quantify, given[i]);
    for (Fact *f = given[i]->facts; f; f = f->outer)
      dim_visit(&quantify, f->dim);
  }
  for (uint32_t i = 0; i < n; i++) {
    Scheme *s = out[i] ? out[i] : NEW(c->arena, Scheme);
    s->type = types[i];
    s->given = given;
    s->given_count = count;
    s->poly = g.any || count;
    out[i] = s;
  }
}

/* ---- hidden arguments ---- */

/* What stays undetermined becomes f32, or int where integers were written. */
static void elem_default(Checker *c, ElemVar *e) {
  Dtype t = DT_BOOL;
  if ((e->classes & CLASS_FLOAT) && e->prefer != 1)
    t = DT_F32;
  else if (e->classes & 1u << DT_I64)
    t = DT_I64;
  else if (e->classes & CLASS_FLOAT)
    t = DT_F32;
  unify_elem(c, e, elem_fixed(c, t));
}

typedef struct Need {
  Checker *c;
  Scheme *scheme;
  Map seen;  /* already listed, or bound by an inner TLAM */
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

static void need_core(Need *n, Core *core, Visit *v);

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

static void need_core(Need *n, Core *core, Visit *v) {
  if (!core)
    return;
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
    for (uint32_t i = 0; i < core->param_count; i++) {
      need_core(n, core->ranges[i].expr, v);
      if (core->ranges[i].dim)
        dim_visit(v, core->ranges[i].dim);
    }
  for (uint32_t i = 0; i < core->param_count; i++)
    need_core(n, core->params[i].preset, v);
  for (uint32_t i = 0; i < core->slice_count; i++) {
    need_core(n, core->slices[i].from, v);
    need_core(n, core->slices[i].to, v);
  }
  for (uint32_t i = 0; i < core->rule_count; i++) {
    need_pat(n, core->rules[i].pat);
    need_core(n, core->rules[i].body, v);
  }
  for (uint32_t i = 0; i < core->item_count; i++)
    need_core(n, core->items[i], v);
  if (core->inst && core->kind == CORE_VAR)
    need_inst(n, core->inst, v);
  Shape *logic = shape_of_logic(n->c, core);
  if (logic && !shape_known_rank(logic))
    shape_visit(v, logic);
}

void hidden_collect(Checker *c, Scheme *s, Core *body) {
  Need n = {.c = c, .scheme = s};
  map_init(&n.seen, c->arena);
  for (uint32_t i = 0; i < s->hidden.len; i++)
    map_put(&n.seen, hidden_var(&s->hidden.at[i]), &n);
  Visit v = {.elem = need_elem, .dim = need_dim, .shape = need_shape,
             .arg = &n, .c = c};
  need_core(&n, body, &v);
}

/* ---- hidden arguments at occurrences, once everything is solved ---- */

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
    void *to = map_get(&inst->map, hidden_var(&h));
    switch (h.kind) {
    case HID_ELEM: h.elem = elem_ref(c, to ? to : h.elem.var); break;
    case HID_DIM:
      h.dim = dim_resolve(c->dims, to ? to : dim_of_var(c->dims, h.dim_var));
      break;
    case HID_SHAPE:
      h.shape = shape_ref(c, to ? to : shape_of_var(c, h.shape_var));
      break;
    }
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
  *(bool *)arg |= v->kind == DV_META && !v->bound;
}

/* The _ of a shape, unless only the running program can solve it. */
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

void core_finish(Checker *c, Core *core) {
  if (!core)
    return;
  if (core->kind == CORE_SHAPE)
    finish_holes(c, core);
  Type *nothing = type_of_nothing(c, core);
  if (nothing)
    core->nothing = core_of_nothing(c, nothing, core->span);
  if (core->kind == CORE_PRIM && core->prim == PRIM_LOAD && core->inst)
    finish_load(c, core);
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
    for (uint32_t i = 0; i < core->param_count; i++) {
      core_finish(c, core->ranges[i].expr);
      if (core->ranges[i].dim)
        core->ranges[i].dim = dim_resolve(c->dims, core->ranges[i].dim);
    }
  for (uint32_t i = 0; i < core->param_count; i++)
    core_finish(c, core->params[i].preset);
  for (uint32_t i = 0; i < core->slice_count; i++) {
    core_finish(c, core->slices[i].from);
    core_finish(c, core->slices[i].to);
  }
  for (uint32_t i = 0; i < core->rule_count; i++) {
    finish_pat(c, core->rules[i].pat);
    core_finish(c, core->rules[i].body);
  }
  for (uint32_t i = 0; i < core->item_count; i++)
    core_finish(c, core->items[i]);
}

/* ---- sizes that an application brings into being ---- */

typedef struct Opening {
  Checker *c;
  VEC(DimVar *) vars;
} Opening;

static void find_unopened(void *arg, DimVar *v) {
  Opening *o = arg;
  if (v->kind != DV_DATA || v->home != &unopened)
    return;
  for (uint32_t i = 0; i < o->vars.len; i++)
    if (o->vars.at[i] == v)
      return;
  VEC_PUSH(o->c->arena, o->vars, v);
}

static void any_unopened(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_DATA && v->home == &unopened;
}

static Dim *opened_dim(Copy *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

/* `?` axes get names here, too. */
static Shape *name_tops(Checker *c, Shape *s0, Span span, bool *any) {
  Shape *s = shape_norm(c, s0);
  bool some = false;
  for (uint32_t i = 0; i < s->len; i++)
    some |= s->at[i].tag == IT_DIM && dim_has_top(s->at[i].dim);
  if (!some)
    return s;
  s = shape_slice(c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM && dim_has_top(s->at[i].dim)) {
      s->at[i].dim = data_dim(c, NULL, span);
      dim_as_var(s->at[i].dim)->forgotten = true;
      *any = true;
    }
  return s;
}

typedef struct Path {
  struct CoreStep steps[8];
  uint32_t len;
} Path;

static void bind_sizes(Checker *c, Core *open, Type *t, Path *path, Map *fresh);

static void add_bind(Checker *c, Core *open, DimVar *v, Path *path, bool value,
                     int axis) {
  CoreBind b = {.var = v, .step_count = path->len, .value = value,
                .axis = axis};
  b.steps = NEW_ARRAY(c->arena, struct CoreStep, path->len);
  for (uint32_t i = 0; i < path->len; i++)
    b.steps[i] = path->steps[i];
  CoreBind *all = NEW_ARRAY(c->arena, CoreBind, open->bind_count + 1);
  for (uint32_t i = 0; i < open->bind_count; i++)
    all[i] = open->binds[i];
  all[open->bind_count++] = b;
  open->binds = all;
}

static void bind_shape(Checker *c, Core *open, const Shape *s0, Path *path,
                       Map *fresh, bool value) {
  Shape *s = shape_norm(c, s0);
  for (uint32_t i = 0; i < s->len; i++) {
    DimVar *v = s->at[i].tag == IT_DIM ? dim_as_var(s->at[i].dim) : NULL;
    if (!v || v->kind != DV_DATA || !map_get(fresh, v))
      continue;
    bool left = true, right = true;
    for (uint32_t k = 0; k < s->len; k++)
      if (s->at[k].tag == IT_SPLICE && s->at[k].var->fixed != 1) {
        left &= k > i;
        right &= k < i;
      }
    if (!left && !right)
      continue;
    add_bind(c, open, v, path, value,
             left ? (int)i : (int)i - (int)s->len);
    map_delete(fresh, v);
  }
}

static void bind_sizes(Checker *c, Core *open, Type *t, Path *path,
                       Map *fresh) {
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    bind_shape(c, open, t->shape, path, fresh, false);
    DimVar *v = t->term ? dim_as_var(dim_resolve(c->dims, t->term)) : NULL;
    if (v && v->kind == DV_DATA && map_get(fresh, v)) {
      add_bind(c, open, v, path, true, 0);
      map_delete(fresh, v);
    }
  } else if (t->tag == TY_SHAPE) {
    bind_shape(c, open, t->shape, path, fresh, true);
  } else if ((t->tag == TY_TUPLE || t->tag == TY_RECORD) && path->len < 8) {
    for (uint32_t i = 0; i < t->count; i++) {
      path->steps[path->len++] = (struct CoreStep){
          t->tag == TY_RECORD ? t->labels[i] : NULL, i};
      bind_sizes(c, open, t->args[i], path, fresh);
      path->len--;
    }
  }
}

/* Sizes that a branch alone has named, since `mark`, are unknown outside it:
 * the others do not know them, and are not to be like them. */
typedef struct Leaving {
  Copy copy;
  uint32_t mark;
  bool forgotten;
} Leaving;

static Dim *left_behind(Copy *copy, DimVar *v) {
  const Leaving *l = (const Leaving *)(const void *)copy;
  if (v->kind != DV_DATA || v->id < l->mark || v->level == LEVEL_GENERIC ||
      (l->forgotten && !v->forgotten))
    return NULL;
  Dim *d = meta_dim(copy->c, v->name, v->origin);
  dim_as_var(d)->top = true;
  return d;
}

Type *ty_leave(Checker *c, Type *t, uint32_t mark, bool forgotten) {
  if (mark == c->dims->next_id)
    return t;
  t = ty_norm(c, t);
  if (t->tag == TY_FUN || t->tag == TY_VAR)
    return t;
  Leaving l = {{.c = c, .dim = left_behind}, mark, forgotten};
  map_init(&l.copy.map, c->arena);
  return ty_copy(&l.copy, t);
}

/* Wraps core so that the sizes in `fresh` are read off its value. */
void open_sizes(Checker *c, Type *t, Core **core, Map *fresh) {
  Core *open = core_items(c, CORE_OPEN, (*core)->span, 1, *core);
  Path path = {.len = 0};
  bind_sizes(c, open, t, &path, fresh);
  if (open->bind_count)
    *core = open;
}

static Type *open_tops(Checker *c, Type *t, Span span, Map *fresh) {
  t = ty_norm(c, t);
  bool any = false;
  if (t->tag == TY_TENSOR) {
    Shape *s = name_tops(c, t->shape, span, &any);
    if (!any)
      return t;
    for (uint32_t i = 0; i < s->len; i++) {
      DimVar *v = s->at[i].tag == IT_DIM ? dim_as_var(s->at[i].dim) : NULL;
      if (v && v->kind == DV_DATA)
        map_put(fresh, v, v);
    }
    return ty_tensor(c, t->elem, s, t->term);
  }
  if (t->tag != TY_TUPLE && t->tag != TY_RECORD)
    return t;
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    r->args[i] = open_tops(c, t->args[i], span, fresh);
  return r;
}

/* A result whose sizes nobody has named yet: names them, and has them read
 * off the value when the program runs. */
Type *ty_open_data(Checker *c, Type *fun, Type *result, Core **core) {
  (void)fun;
  result = ty_norm(c, result);
  if (result->tag == TY_FUN || result->tag == TY_VAR)
    return result;
  Opening o = {.c = c};
  Visit look = {.dim = find_unopened, .arg = &o, .c = c};
  ty_visit(&look, result);
  Copy copy = {.c = c, .dim = opened_dim};
  Map fresh;
  map_init(&copy.map, c->arena);
  map_init(&fresh, c->arena);
  Fact *facts = c->facts;
  for (uint32_t i = 0; i < o.vars.len; i++) {
    Dim *d = data_dim(c, o.vars.at[i]->name, (*core)->span);
    map_put(&copy.map, o.vars.at[i], d);
    map_put(&fresh, dim_as_var(d), d);
  }
  if (o.vars.len) {
    result = ty_copy(&copy, result);
    for (Fact *f = facts; f; f = f->outer) {
      bool any = false;
      dim_each_var(dim_resolve(c->dims, f->dim), any_unopened, NULL, &any);
      if (!any)
        continue;
      Dim *d = dim_copy(&copy, f->dim);
      if (!dim_equal(d, dim_resolve(c->dims, f->dim))) {
        fact_known(c, d, f->eq);
        VEC_PUSH(c->arena, c->data_facts, c->facts);
      }
    }
  }
  result = open_tops(c, result, (*core)->span, &fresh);
  if (fresh.len)
    open_sizes(c, result, core, &fresh);
  return result;
}
