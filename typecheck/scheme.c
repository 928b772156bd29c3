/* Instantiation and generalisation of schemes. */
#include "typecheck/internal.h"

/* ---- instantiation ---- */

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
      dim_leave_unopened(dim_as_var(d));
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

static bool is_unopened(const Constraint *k) {
  DimVar *v = k->left ? dim_as_var(k->left) : NULL;
  return v && dim_is_unopened(v);
}

/* One that a body of the user's has brought about remembers where. */
static Origin *origin_of_given(Copy *copy, const Origin *at, Origin *inner,
                               Map *put_in) {
  Checker *c = copy->c;
  const Source *source =
      inner && inner->span.file ? sources_get(c->sources, inner->span.file)
                                : NULL;
  Origin *o = NEW(c->arena, Origin);
  *o = *at;
  if (!source || source->library)
    return o;
  o->inner = inner;
  o->put_in = put_in;
  return o;
}

/* What a scheme demands, of the copies of its variables. */
static void demand_given(Copy *copy, Scheme *s, Origin *at) {
  Checker *c = copy->c;
  Map *put_in = s->given_count ? NEW(c->arena, Map) : NULL;
  at->scheme = s;
  for (uint32_t i = 0; i < s->given_count; i++) {
    Constraint *k = constraint_copy(copy, s->given[i]);
    Origin *o = origin_of_given(copy, at, s->given[i]->origin, put_in);
    *put_in = copy->map;
    k->origin = o;
    if (is_unopened(k)) { /* filter's ?m <= n: known, not demanded */
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
        report_shapes(c, k->a, k->b, o);
    } else if (!k->facts || !facts_exclude(c, c->facts)) {
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
  k->enough |= !exact;
  return true;
}

/* right - left where they are sizes, else NULL; an equivalent that is simple
 * and divides as little as can be. */
static Dim *gap_of(Checker *c, const Constraint *k) {
  if (!k->left)
    return NULL;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  return k->kind == CN_DIM_LE ? dim_simplify_ge(c->dims, d)
                              : dim_cancel(c->dims, d);
}

typedef struct Granted {
  Checker *c;
  bool any, all; /* divisors; each of them is known to be at least 1 */
} Granted;

static void look_granted(void *arg, Dim *divisor) {
  Granted *g = arg;
  Checker *c = g->c;
  g->any = true;
  g->all = g->all &&
           dim_holds(c->solver,
                     dim_sub(c->dims, divisor, dim_int(c->dims, 1)), false);
}

static bool has_fact(Checker *c, const Fact *facts, const Fact *f) {
  Dim *d = dim_resolve(c->dims, f->dim);
  for (; facts; facts = facts->outer)
    if (facts->eq == f->eq && facts->ne == f->ne &&
        dim_equal(dim_resolve(c->dims, facts->dim), d))
      return true;
  return false;
}

/* o has no conditions but those of k. */
static bool holds_where(Checker *c, const Constraint *o, const Constraint *k) {
  for (const Fact *f = o->facts; f; f = f->outer)
    if (!f->index && !f->known && !has_fact(c, k->facts, f))
      return false;
  return true;
}

/* Adds those of the gaps that divide by nothing; or those that do, but by what
 * is known to be at least 1: the solver takes that for granted, so that it
 * would follow from what divides. */
static void add_gaps(Checker *c, Constraint *const *others, Dim *const *gaps,
                     uint32_t count, uint32_t self, bool dividing) {
  for (uint32_t i = 0; i < count; i++) {
    const Constraint *o = others[i];
    if (i == self || !o || !gaps[i] || o->kind == CN_DIM_NE || o->enough ||
        !holds_where(c, o, others[self]))
      continue;
    Granted g = {c, false, true};
    dim_each_divisor(c->dims, gaps[i], false, look_granted, &g);
    if (g.any != dividing || !g.all)
      continue;
    if (o->kind == CN_DIM_EQ)
      dim_facts_add_eq(c->solver, gaps[i]);
    else
      dim_facts_add_ge(c->solver, gaps[i]);
  }
}

static bool follows(Checker *c, const Constraint *k, Dim *d) {
  return loaded_holds(c, d, k->kind == CN_DIM_EQ);
}

/* Does one before it say the same? */
static bool repeats(const Constraint *k, Constraint *const *others,
                    Dim *const *gaps, uint32_t self) {
  for (uint32_t i = 0; i < self; i++)
    if (others[i] && gaps[i] && others[i]->kind == k->kind &&
        others[i]->facts == k->facts && dim_equal(gaps[i], gaps[self]))
      return true;
  return false;
}

/* By the others, gaps[i] being gap_of(others[i]). */
static bool implied(Checker *c, Constraint *k, Constraint **others,
                    Dim *const *gaps, uint32_t count, uint32_t self) {
  Dim *d = gaps[self];
  facts_load_for(c, k->facts, d);
  add_gaps(c, others, gaps, count, self, false);
  add_gaps(c, others, gaps, count, self, true);
  return follows(c, k, d);
}

static void note_any(void *arg, Dim *divisor) {
  (void)divisor;
  *(bool *)arg = true;
}

static bool divides(Checker *c, const Dim *d) {
  bool any = false;
  dim_each_divisor(c->dims, d, false, note_any, &any);
  return any;
}

enum { IMPLIED_MOST = 16 }; /* constraints that get the solver's whole effort */

/* Drops what others imply; of equals the first one stays.  Most have no
 * conditions and divide by constants alone: they are all facts at once, but
 * for the one that is asked about. */
static void drop_implied(Checker *c, Constraint **all, Dim *const *gaps,
                         uint32_t count) {
  uint32_t *at = NEW_ARRAY(c->arena, uint32_t, count), loaded = 0;
  bool plain = true;
  dim_facts_reset(c->solver, 0);
  for (uint32_t i = 0; i < count && plain; i++) {
    at[i] = UINT32_MAX;
    Constraint *k = all[i];
    if (!k || !gaps[i] || k->kind == CN_DIM_NE)
      continue;
    plain = !k->facts && !divides(c, gaps[i]);
    if (!plain || k->enough)
      continue;
    at[i] = loaded++;
    if (k->kind == CN_DIM_EQ)
      dim_facts_add_eq(c->solver, gaps[i]);
    else
      dim_facts_add_ge(c->solver, gaps[i]);
  }
  dim_facts_brief(c->solver, count > IMPLIED_MOST);
  for (uint32_t i = count; i-- > 0;) {
    Constraint *k = all[i];
    if (!k || (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE) || k->assumed)
      continue;
    bool found;
    if (plain) {
      if (at[i] != UINT32_MAX)
        dim_facts_skip(c->solver, at[i], true);
      found = follows(c, k, gaps[i]);
      if (at[i] != UINT32_MAX)
        dim_facts_skip(c->solver, at[i], found);
    } else {
      found = repeats(k, all, gaps, i) ||
              implied(c, k, all, gaps, count, i);
    }
    if (found) {
      all[i] = NULL;
      c->stats.proved++;
      c->stats.row[constraint_row(k)].proved++;
    }
  }
  dim_facts_brief(c->solver, false);
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

/* f follows from the others. */
static bool is_repeated(Checker *c, const Fact *all, const Fact *f) {
  if (f->eq || f->ne)
    return false;
  dim_facts_reset(c->solver, 0);
  for (; all; all = all->outer)
    if (all != f && all->eq)
      dim_facts_add_eq(c->solver, all->dim);
    else if (all != f && !all->ne)
      dim_facts_add_ge(c->solver, all->dim);
  return dim_holds(c->solver, dim_resolve(c->dims, f->dim), false);
}

/* Its conditions, each once, are those of its branch alone. */
static void tidy_conditions(Checker *c, Constraint *k) {
  Fact *kept = NULL;
  for (Fact *f = k->facts; f; f = f->outer) {
    General g = {.c = c};
    dim_each_var(dim_resolve(c->dims, f->dim), look_local, look_shape, &g);
    if (f->index || f->known || !g.local || has_fact(c, kept, f))
      continue;
    Fact *copy = NEW(c->arena, Fact);
    *copy = *f;
    copy->outer = kept;
    kept = copy;
  }
  uint32_t count = 0;
  for (const Fact *f = kept; f; f = f->outer)
    count++;
  dim_facts_brief(c->solver, count > IMPLIED_MOST);
  for (Fact **f = &kept; *f;)
    if (is_repeated(c, kept, *f))
      *f = (*f)->outer;
    else
      f = &(*f)->outer;
  dim_facts_brief(c->solver, false);
  k->facts = kept;
}

static bool is_forgotten(Checker *c, Dim *d) {
  return dim_has_top(dim_resolve(c->dims, d));
}

/* Of a size that was forgotten no caller can see to anything. */
static bool mentions_forgotten(Checker *c, const Constraint *k) {
  if (k->left && (is_forgotten(c, k->left) || is_forgotten(c, k->right)))
    return true;
  for (const Fact *f = k->facts; k->left && f; f = f->outer)
    if (is_forgotten(c, f->dim))
      return true;
  return false;
}

/* Takes from pending what mentions a variable above the level. */
static Constraint **take_constraints(Checker *c, uint32_t mark,
                                     uint32_t *count, uint32_t n_types,
                                     Type *const *types) {
  Constraints taken = {0};
  uint32_t kept = mark;
  for (uint32_t i = mark; i < c->pending.len; i++) {
    Constraint *k = c->pending.at[i];
    if (k->done || constraint_is_void(c, k))
      continue;
    General g;
    look_constraint(c, k, &g);
    if (g.index && without_indices(c, k))
      look_constraint(c, k, &g);
    k->pending = !g.local;
    if (!g.local) {
      c->pending.at[kept++] = k;
    } else if (g.data || g.index || mentions_forgotten(c, k)) {
      k->done = true;
      VEC_PUSH(c->arena, c->stuck, k);
    } else {
      if (k->assumed || index_runs(c, k))
        VEC_PUSH(c->arena, taken, k);
      else
        k->done = true;
    }
  }
  c->pending.len = kept;
  for (uint32_t i = 0; i < taken.len; i++)
    tidy_conditions(c, taken.at[i]);
  givens_simplify(c, &taken);
  flatten_joins(c, taken.at, taken.len, n_types, types);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i] && taken.at[i]->kind == CN_JOIN)
      join_unique(c, taken.at[i]);
  drop_joins(c, taken.at, taken.len, n_types, types);
  drop_keeps(c, taken.at, taken.len, n_types, types);
  uint32_t n = 0;
  Dim **gaps = NEW_ARRAY(c->arena, Dim *, taken.len);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i])
      gaps[i] = gap_of(c, taken.at[i]);
  drop_implied(c, taken.at, gaps, taken.len);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i])
      taken.at[n++] = taken.at[i];
  for (uint32_t i = 0; i < n; i++)
    given_tidy(c, taken.at[i]);
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

/* The constraints of a scheme. */
typedef struct Given {
  Constraint **at;
  uint32_t count;
} Given;

static Dim *rejoin(Copy *copy, Dim *d) {
  const Given *given = copy->arg;
  for (uint32_t i = 0; i < given->count; i++) {
    const Constraint *k = given->at[i];
    if (k->divides && !k->facts)
      d = dim_rejoin(copy->c->dims, d, dim_resolve(copy->c->dims, k->left),
                     dim_resolve(copy->c->dims, k->divisor));
  }
  return d;
}

/* Where h divides n, types and the other constraints say n, not h*(n/h). */
static void rejoin_sizes(Checker *c, Given *given, uint32_t n, Type **types) {
  Copy copy = {.c = c, .size = rejoin, .arg = given};
  uint32_t some = 0, kept = 0;
  for (uint32_t i = 0; i < given->count; i++)
    some += given->at[i]->divides && !given->at[i]->facts;
  if (!some)
    return;
  for (uint32_t i = 0; i < n; i++)
    types[i] = ty_copy(&copy, types[i]);
  for (uint32_t i = 0; i < given->count; i++) {
    Constraint *k = given->at[i];
    Dim *d = !k->divides && k->left ? dim_copy(&copy, gap_of(c, k)) : NULL;
    if (d && k->kind == CN_DIM_EQ)
      d = dim_cancel(c->dims, d);
    if (d)
      dim_split_signs(c->dims, d, &k->right, &k->left);
    if (d && k->kind == CN_DIM_EQ && dim_is_const(d) && !dim_sign(d))
      c->stats.proved++;
    else
      given->at[kept++] = k;
  }
  given->count = kept;
}

void scheme_generalise(Checker *c, uint32_t n, Type **types, Scheme **out,
                       uint32_t mark) {
  c->progress = true;
  solve_pending(c);
  Visit single = {.shape = settle_axis, .arg = c, .c = c};
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&single, types[i]);
  for (uint32_t i = mark; i < c->pending.len; i++)
    constraint_visit(&single, c->pending.at[i]);
  solve_pending(c);
  solve_together(c, mark, false);
  solve_holes(c, mark);
  General g = {.c = c};
  Visit quantify = {.ty = general_ty, .elem = general_elem,
                    .dim = general_dim, .shape = general_shape,
                    .effect = general_effect, .arg = &g, .c = c};
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&quantify, types[i]);
  Given given;
  given.at = take_constraints(c, mark, &given.count, n, types);
  take_data_facts(c, &given.at, &given.count);
  rejoin_sizes(c, &given, n, types);
  for (uint32_t i = 0; i < given.count; i++) {
    constraint_visit(&quantify, given.at[i]);
    for (Fact *f = given.at[i]->facts; f; f = f->outer)
      dim_visit(&quantify, f->dim);
  }
  for (uint32_t i = 0; i < n; i++) {
    Scheme *s = out[i] ? out[i] : NEW(c->arena, Scheme);
    s->type = types[i];
    s->given = given.at;
    s->given_count = given.count;
    s->poly = g.any || given.count;
    out[i] = s;
  }
}
