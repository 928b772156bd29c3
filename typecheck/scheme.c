/* Instantiation and generalization of type schemes.  Main entry points:
   scheme_generalize and scheme_instantiate. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/source.h"

/* ---- instantiation ---- */

static ElemVar *fresh_elem(TypeMapper *copy, ElemVar *v);

static Type *fresh_ty(TypeMapper *copy, TyVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Type *t = map_get(&copy->map, v);
  if (!t)
    map_put(&copy->map, v, t = ty_meta(copy->c));
  if (t->tag == TY_VAR) {
    t->var->is_data |= v->is_data;
    t->var->is_stackable |= v->is_stackable;
    t->var->is_tensor_element |= v->is_tensor_element;
    ElemVar *floats = v->floats ? elem_root(v->floats) : NULL;
    ElemVar *fresh = floats ? fresh_elem(copy, floats) : NULL;
    if (floats && !t->var->floats)
      t->var->floats = fresh ? fresh : floats;
  }
  return t;
}

static ElemVar *fresh_elem(TypeMapper *copy, ElemVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  ElemVar *e = map_get(&copy->map, v);
  if (!e) {
    e = elem_meta(copy->c, v->classes);
    e->default_preference = v->default_preference;
    e->prefers_by_scheme = true;
    e->unfit = v->unfit;
    map_put(&copy->map, v, e);
  }
  return e;
}

static Dim *fresh_dim(TypeMapper *copy, DimVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Dim *d = map_get(&copy->map, v);
  if (!d) {
    Checker *c = copy->c;
    if (v->kind == DV_EXISTENTIAL) {
      d = existential_dim(c, v->name, v->origin);
      dim_var_set_packed(dim_as_var(d));
      c->sizes.has_packed = true;
    } else {
      d = v->is_integer ? meta_integer(c, v->origin)
                        : meta_dim(c, NULL, v->origin);
      dim_as_var(d)->matmul_inner = v->matmul_inner;
    }
    map_put(&copy->map, v, d);
  }
  return d;
}

static Shape *fresh_shape(TypeMapper *copy, ShapeVar *v) {
  if (v->level != LEVEL_GENERIC)
    return NULL;
  Shape *s = map_get(&copy->map, v);
  if (!s)
    map_put(&copy->map, v,
            s = shape_of_var(copy->c, shape_var_new(copy->c, v->fixed_rank)));
  return s;
}

static Effect *fresh_effect(TypeMapper *copy, Effect *e) {
  if (e->level != LEVEL_GENERIC)
    return NULL;
  Effect *r = map_get(&copy->map, e);
  if (!r)
    map_put(&copy->map, e, r = effect_var(copy->c));
  return r;
}

static bool bounds_packed_size(const Constraint *k) {
  DimVar *v = constraint_is_size(k) ? dim_as_var(k->left) : NULL;
  return v && dim_var_is_packed(v);
}

/* If the constraint arose in a user's body, its origin there is kept. */
static Origin *origin_of_given(TypeMapper *copy, const Origin *at,
                               Origin *inner, Map *substitution) {
  Checker *c = copy->c;
  const Source *source = inner && inner->span.file
                             ? sources_get(c->sources, inner->span.file)
                             : NULL;
  Origin *o = NEW(c->arena, Origin);
  *o = *at;
  if (!source || source->is_library)
    return o;
  o->body_origin = inner;
  o->substitution = substitution;
  return o;
}

/* Adds the given constraints of a scheme for a copy of its variables. */
static void instantiate_givens(TypeMapper *copy, Scheme *s, Origin *at) {
  Checker *c = copy->c;
  Map *substitution = s->given_count ? NEW(c->arena, Map) : NULL;
  at->scheme = s;
  for (uint32_t i = 0; i < s->given_count; i++) {
    Constraint *k = constraint_copy(copy, s->given[i]);
    Origin *o = origin_of_given(copy, at, s->given[i]->origin, substitution);
    *substitution = copy->map;
    k->origin = o;
    /* such as filter's ?m <= n: assumed, not required */
    if (bounds_packed_size(k)) {
      assumption_add_unconditional(c, dim_sub(c->dims, k->right, k->left),
                                   k->kind == CN_DIM_EQ);
      continue;
    }
    Assumption *saved = c->facts.assumptions;
    if (k->assumptions) { /* an implication: its conditions come first */
      k->is_implication = true;
      k->check.assumptions = saved;
      Assumption *f = k->assumptions;
      for (; f; f = f->outer) {
        Assumption *g = NEW(c->arena, Assumption);
        *g = *f;
        g->outer = c->facts.assumptions;
        c->facts.assumptions = g;
      }
    }
    if (k->kind == CN_SHAPE_EQ && !k->is_dependent) {
      if (!unify_shape(c, k->a, k->b, o))
        report_shapes(c, k->a, k->b, o);
    } else if (!k->assumptions ||
               !assumption_inconsistent(c, c->facts.assumptions)) {
      k->queue.suspended = false;
      c->solver.progress = true;
      add_constraint(c, *k);
    }
    c->facts.assumptions = saved;
  }
}

static SchemeInstance *instance_new(Checker *c, Scheme *s, Map map) {
  SchemeInstance *instance = NEW(c->arena, SchemeInstance);
  instance->scheme = s;
  instance->substitution = map;
  VEC_PUSH(c->arena, c->inference.instances, instance);
  return instance;
}

SchemeInstance *scheme_instance_of(Checker *c, Scheme *s, Map map, Origin *o) {
  TypeMapper copy = {.c = c,
                     .ty = fresh_ty,
                     .elem = fresh_elem,
                     .dim = fresh_dim,
                     .shape = fresh_shape,
                     .effect = fresh_effect,
                     .is_consistent = true,
                     .map = map};
  instantiate_givens(&copy, s, o);
  return instance_new(c, s, map);
}

Type *scheme_instantiate(Checker *c, Scheme *s, Origin *o,
                         SchemeInstance **instance) {
  if (instance)
    *instance = NULL;
  if (!s->is_polymorphic)
    return s->type;
  TypeMapper copy = {.c = c,
                     .ty = fresh_ty,
                     .elem = fresh_elem,
                     .dim = fresh_dim,
                     .shape = fresh_shape,
                     .effect = fresh_effect,
                     .is_consistent = true};
  map_init(&copy.map, c->arena);
  if (s->variable_count)
    map_reserve(&copy.map, s->variable_count);
  Type *t = ty_copy(&copy, s->type);
  instantiate_givens(&copy, s, o);
  s->variable_count = copy.map.len;
  if (instance)
    *instance = instance_new(c, s, copy.map);
  return t;
}

Scheme *scheme_mono(Checker *c, Type *t) {
  Scheme *s = NEW(c->arena, Scheme);
  s->type = t;
  return s;
}

/* ---- generalisation ---- */

typedef struct Generalizer {
  Checker *c;
  bool quantified;  /* something was quantified */
  bool existential; /* an existential size of this level */
  bool index;
  bool local; /* mentions a variable above the level */
} Generalizer;

/* Makes a variable of an inner level generic. */
static void quantify(Generalizer *g, uint32_t *level, bool *skolem) {
  if (*level > g->c->inference.level && *level != LEVEL_GENERIC) {
    *level = LEVEL_GENERIC;
    *skolem = true;
  }
  g->quantified |= *level == LEVEL_GENERIC;
}

static void quantify_elem(void *arg, ElemVar *v) {
  quantify(arg, &v->level, &v->skolem);
}

static void quantify_ty(void *arg, TyVar *v) {
  Generalizer *g = arg;
  if (v->floats)
    quantify_elem(g, elem_root(v->floats));
  quantify(g, &v->level, &v->skolem);
}

static void quantify_dim(void *arg, DimVar *v) {
  Generalizer *g = arg;
  if (v->unknown)
    return;
  if (v->level > g->c->inference.level && v->level != LEVEL_GENERIC) {
    if (v->kind == DV_INDEX) {
      g->index = true;
      return;
    }
    v->level = LEVEL_GENERIC;
    if (v->kind == DV_META)
      v->kind = DV_SKOLEM;
  }
  g->quantified |= v->level == LEVEL_GENERIC;
}

static void quantify_shape(void *arg, ShapeVar *v) {
  quantify(arg, &v->level, &v->skolem);
}

static void quantify_effect(void *arg, Effect *e) {
  Generalizer *g = arg;
  if (e->level > g->c->inference.level)
    e->level = LEVEL_GENERIC;
  g->quantified |= e->level == LEVEL_GENERIC;
}

static void classify_dim(void *arg, DimVar *v) {
  Generalizer *g = arg;
  if (v->unknown)
    return;
  bool above = v->level > g->c->inference.level;
  g->local |= above;
  g->index |= v->kind == DV_INDEX;
  g->existential |= v->kind == DV_EXISTENTIAL && above;
}

static void classify_shape(void *arg, ShapeVar *v) {
  Generalizer *g = arg;
  g->local |= v->level > g->c->inference.level;
}

/* Eliminates `for` indices.  Returns false if that is impossible, or if no
   sizes satisfy the result although the original constraint may hold. */
static bool eliminate_for_indices(Checker *c, Constraint *k) {
  Constraint eliminated;
  bool exact;
  if (!eliminate_indices(c, k, &eliminated, &exact))
    return false;
  assumption_load(c, eliminated.assumptions);
  if (!exact &&
      dim_check_ge0(c->facts.loaded, dim_resolve(c->dims, eliminated.right),
                    true) == CONTRADICTED)
    return false;
  *k = eliminated;
  k->sufficient_only |= !exact;
  return true;
}

/* right - left for sizes, otherwise NULL.  Returns an equivalent form that is
   simple and has few divisions. */
static Dim *constraint_slack(Checker *c, const Constraint *k) {
  if (!constraint_is_size(k))
    return NULL;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->right, k->left));
  return k->kind == CN_DIM_LE ? dim_simplify_ge(c->dims, d)
                              : given_cancel_sizes(c, d);
}

typedef struct DivisorsPositive {
  Checker *c;
  bool any, all; /* divisors; all are known to be at least 1 */
} DivisorsPositive;

static void note_divisor_positive(void *arg, Dim *divisor) {
  DivisorsPositive *g = arg;
  Checker *c = g->c;
  g->any = true;
  g->all = g->all &&
           dim_entailed(c->facts.loaded,
                        dim_sub(c->dims, divisor, dim_int(c->dims, 1)), false);
}

static bool has_assumption(Checker *c, const Assumption *assumptions,
                           const Assumption *f) {
  for (; assumptions; assumptions = assumptions->outer)
    if (assumption_equal(c, assumptions, f))
      return true;
  return false;
}

/* True if every condition of o is also a condition of k. */
static bool applies_where(Checker *c, const Constraint *o,
                          const Constraint *k) {
  for (const Assumption *f = o->assumptions; f; f = f->outer)
    if (assumption_is_condition(f) && !has_assumption(c, k->assumptions, f))
      return false;
  return true;
}

/* Adds slacks without divisions, and slacks whose divisors are known to be at
   least 1.  The solver assumes that of all divisors; with other slacks it would
   prove that from the division itself. */
static void add_slacks(Checker *c, Constraint *const *others,
                       Dim *const *slacks, uint32_t count, uint32_t self,
                       bool dividing) {
  for (uint32_t i = 0; i < count; i++) {
    const Constraint *o = others[i];
    if (i == self || !o || !slacks[i] || o->kind == CN_DIM_NE ||
        o->sufficient_only || !applies_where(c, o, others[self]))
      continue;
    DivisorsPositive g = {c, false, true};
    dim_each_divisor(c->dims, slacks[i], false, note_divisor_positive, &g);
    if (g.any != dividing || !g.all)
      continue;
    if (o->kind == CN_DIM_EQ)
      assumptions_add_eq(c->facts.loaded, slacks[i]);
    else
      assumptions_add_ge(c->facts.loaded, slacks[i]);
  }
}

static bool is_entailed(Checker *c, const Constraint *k, Dim *d) {
  return assumption_loaded_entails(c, d, k->kind == CN_DIM_EQ);
}

static void drop_constraint(Checker *c, Constraint **all, uint32_t i) {
  c->notes.stats.proved++;
  c->notes.stats.by_class[constraint_class(all[i])].proved++;
  all[i] = NULL;
}

/* True if k makes o superfluous: it is the same, under the same conditions. */
static bool is_same_constraint(const Constraint *k, const Constraint *o) {
  return k && k->kind == o->kind &&
         (!k->sufficient_only || o->sufficient_only) &&
         k->assumptions == o->assumptions;
}

/* True if the others imply k. slacks[i] is constraint_slack(others[i]). */
static bool is_implied_by_others(Checker *c, Constraint *k, Constraint **others,
                                 Dim *const *slacks, uint32_t count,
                                 uint32_t self) {
  Dim *d = slacks[self];
  assumption_load_for(c, k->assumptions, d);
  add_slacks(c, others, slacks, count, self, false);
  add_slacks(c, others, slacks, count, self, true);
  return is_entailed(c, k, d);
}

static void note_divisor(void *arg, Dim *divisor) {
  (void)divisor;
  *(bool *)arg = true;
}

static bool has_symbolic_divisor(Checker *c, const Dim *d) {
  bool any = false;
  dim_each_divisor(c->dims, d, false, note_divisor, &any);
  return any;
}

enum {
  /* number of constraints that are tested with full effort */
  MAX_FULL_EFFORT_CONSTRAINTS = 16,
  HASH_BUCKETS = 256,
};

/* Drops constraints that are equal to earlier ones, so that few are left for
   the full test. */
static void drop_duplicates(Checker *c, Constraint **all, Dim *const *slacks,
                            uint32_t count) {
  uint32_t last[HASH_BUCKETS] = {0}; /* of each bucket: 1 + index, or 0 */
  uint32_t *earlier = NEW_ARRAY(c->arena, uint32_t, count);
  for (uint32_t i = 0; i < count; i++)
    if (slacks[i]) {
      uint32_t *bucket = &last[dim_hash(slacks[i]) % HASH_BUCKETS];
      earlier[i] = *bucket;
      *bucket = i + 1;
    }
  for (uint32_t i = count; i-- > 0;) {
    bool found = false;
    for (uint32_t j = earlier[i]; j && all[i] && !all[i]->is_given && !found;
         j = earlier[j - 1])
      found = is_same_constraint(all[j - 1], all[i]) &&
              dim_equal(slacks[j - 1], slacks[i]);
    if (found)
      drop_constraint(c, all, i);
  }
}

/* Constraints that are assumed while others are tested. */
typedef struct LoadedConstraints {
  uint32_t *at;     /* of each: its position among the assumptions, or
                       NOT_LOADED */
  bool plain;       /* no constraint has conditions or a symbolic divisor */
  Witness *witness; /* of those without conditions; only if not plain */
} LoadedConstraints;

enum { NOT_LOADED = -1 };

/* Assumes all constraints without conditions. */
static void load_constraints(Checker *c, LoadedConstraints *loaded,
                             Constraint *const *all, Dim *const *slacks,
                             uint32_t count) {
  uint32_t n = 0;
  loaded->at = NEW_ARRAY(c->arena, uint32_t, count);
  loaded->plain = true;
  assumptions_backtrack(c->facts.loaded, 0);
  for (uint32_t i = 0; i < count; i++) {
    Constraint *k = all[i];
    loaded->at[i] = (uint32_t)NOT_LOADED;
    if (!k || !slacks[i] || k->kind == CN_DIM_NE)
      continue;
    loaded->plain =
        loaded->plain && !k->assumptions && !has_symbolic_divisor(c, slacks[i]);
    if (k->assumptions || k->sufficient_only)
      continue;
    loaded->at[i] = n++;
    if (k->kind == CN_DIM_EQ)
      assumptions_add_eq(c->facts.loaded, slacks[i]);
    else
      assumptions_add_ge(c->facts.loaded, slacks[i]);
  }
  if (loaded->plain)
    assumptions_expect_queries(c->facts.loaded);
  else
    loaded->witness = assumptions_find_witness(c->facts.loaded);
}

static void set_disabled(Checker *c, LoadedConstraints *loaded, uint32_t i,
                         bool disabled) {
  if (loaded->at[i] == (uint32_t)NOT_LOADED)
    return;
  if (loaded->plain)
    assumptions_set_disabled(c->facts.loaded, loaded->at[i], disabled);
  else if (loaded->witness)
    witness_set_disabled(loaded->witness, loaded->at[i], disabled);
}

/* Drops implied constraints.  Of equal ones the first stays.  Most have no
   conditions and divide only by constants; those are all assumed together,
   except the tested one. */
static void drop_implied(Checker *c, Constraint **all, Dim *const *slacks,
                         uint32_t count) {
  LoadedConstraints loaded = {0};
  drop_duplicates(c, all, slacks, count);
  load_constraints(c, &loaded, all, slacks, count);
  assumptions_set_low_effort(c->facts.loaded,
                             count > MAX_FULL_EFFORT_CONSTRAINTS);
  for (uint32_t i = count; i-- > 0;) {
    Constraint *k = all[i];
    if (!k || (k->kind != CN_DIM_EQ && k->kind != CN_DIM_LE) || k->is_given)
      continue;
    set_disabled(c, &loaded, i, true);
    bool refuted =
        loaded.witness && !k->assumptions &&
        witness_refutes(loaded.witness, slacks[i], k->kind == CN_DIM_EQ);
    bool found =
        !refuted &&
        (loaded.plain ? is_entailed(c, k, slacks[i])
                      : is_implied_by_others(c, k, all, slacks, count, i));
    set_disabled(c, &loaded, i, found);
    if (found)
      drop_constraint(c, all, i);
  }
  assumptions_set_low_effort(c->facts.loaded, false);
}

static void classify_constraint(Checker *c, Constraint *k, Generalizer *g) {
  *g = (Generalizer){.c = c};
  TypeVisitor visit = {
      .dim = classify_dim, .shape = classify_shape, .arg = g, .c = c};
  constraint_visit(&visit, k);
}

static ShapeVar *broadcast_result_var(Checker *c, Constraint *k) {
  if (!k || k->kind != CN_BROADCAST)
    return NULL;
  Shape *s = shape_norm(c, k->a);
  return s->len == 1 && s->axes[0].tag == SHAPE_SPLICE ? s->axes[0].var : NULL;
}

typedef struct ShapeVarSearch {
  ShapeVar *var;
  bool found;
} ShapeVarSearch;

static void match_shape_var(void *arg, ShapeVar *v) {
  ShapeVarSearch *s = arg;
  s->found |= s->var == v;
}

static bool shape_var_occurs(Checker *c, ShapeVar *v, Constraint **all,
                             uint32_t count, uint32_t self, uint32_t n_types,
                             Type *const *types) {
  ShapeVarSearch s = {v, false};
  TypeVisitor visit = {
      .shape = match_shape_var, .arg = &s, .done = &s.found, .c = c};
  for (uint32_t i = 0; i < n_types; i++)
    ty_visit(&visit, types[i]);
  for (uint32_t i = 0; i < count; i++)
    if (i != self && all[i])
      constraint_visit(&visit, all[i]);
  return s.found;
}

/* Flattens broadcasts: join(join(s, t), u) becomes join(s, t, u).  An argument
   that another broadcast defines is replaced by that one's arguments. */
static void flatten_broadcasts(Checker *c, Constraint **all, uint32_t count,
                               uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    ShapeVar *v = broadcast_result_var(c, all[i]);
    bool used = false;
    for (uint32_t j = 0; v && j < count; j++) {
      Constraint *k = all[j];
      if (j == i || !k || k->kind != CN_BROADCAST)
        continue;
      for (uint32_t a = 0; a < k->broadcast_arg_count; a++) {
        Shape *s = shape_norm(c, k->broadcast_args[a]);
        if (s->len != 1 || s->axes[0].tag != SHAPE_SPLICE ||
            s->axes[0].var != v)
          continue;
        uint32_t n = k->broadcast_arg_count - 1 + all[i]->broadcast_arg_count;
        Shape **args = NEW_ARRAY(c->arena, Shape *, n);
        uint32_t m = 0;
        for (uint32_t b = 0; b < k->broadcast_arg_count; b++) {
          if (b != a) {
            args[m++] = k->broadcast_args[b];
            continue;
          }
          for (uint32_t d = 0; d < all[i]->broadcast_arg_count; d++)
            args[m++] = all[i]->broadcast_args[d];
        }
        k->broadcast_args = args;
        k->broadcast_arg_count = n;
        used = true;
        break;
      }
    }
    if (used && !shape_var_occurs(c, v, all, count, i, n_types, types)) {
      v->join = all[i]; /* the body may need it */
      all[i] = NULL;    /* the larger broadcast implies it */
    }
  }
}

static void dedupe_broadcast_args(Checker *c, Constraint *k) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++) {
    bool seen = false;
    for (uint32_t j = 0; j < n && !seen; j++)
      seen = shape_equal(c, k->broadcast_args[i], k->broadcast_args[j]);
    if (!seen)
      k->broadcast_args[n++] = k->broadcast_args[i];
  }
  k->broadcast_arg_count = n;
}

static bool broadcasts_all_of(Checker *c, const Constraint *k,
                              const Constraint *of) {
  for (uint32_t i = 0; i < of->broadcast_arg_count; i++) {
    bool found = false;
    for (uint32_t j = 0; j < k->broadcast_arg_count && !found; j++)
      found = shape_equal(c, k->broadcast_args[j], of->broadcast_args[i]);
    if (!found)
      return false;
  }
  return true;
}

/* Drops a broadcast whose result is unused if another one broadcasts at least
   the same shapes under no further conditions. */
static void drop_broadcasts(Checker *c, Constraint **all, uint32_t count,
                            uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    ShapeVar *v = broadcast_result_var(c, all[i]);
    for (uint32_t j = 0; v && j < count; j++) {
      Constraint *k = all[j];
      if (j == i || !k || k->kind != CN_BROADCAST ||
          (k->assumptions && k->assumptions != all[i]->assumptions) ||
          !broadcasts_all_of(c, k, all[i]) ||
          shape_var_occurs(c, v, all, count, i, n_types, types))
        continue;
      v->join = all[i];
      all[i] = NULL;
      v = NULL;
    }
  }
}

/* keep(w, t) can always be satisfied if w is mentioned nowhere else. */
static void drop_keeps(Checker *c, Constraint **all, uint32_t count,
                       uint32_t n_types, Type *const *types) {
  for (uint32_t i = 0; i < count; i++) {
    Constraint *k = all[i];
    if (!k || k->kind != CN_KEEP)
      continue;
    Shape *s = shape_norm(c, k->a);
    if (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE &&
        !shape_var_occurs(c, s->axes[0].var, all, count, i, n_types, types))
      all[i] = NULL;
  }
}

static void note_local(void *arg, DimVar *v) {
  Generalizer *g = arg;
  g->local |= v->level > g->c->inference.level;
}

/* True if the other conditions imply f. */
static bool is_redundant_condition(Checker *c, const Assumption *all,
                                   const Assumption *f) {
  if (f->relation != ASSUME_GE)
    return false;
  assumptions_backtrack(c->facts.loaded, 0);
  for (; all; all = all->outer)
    if (all != f && all->relation == ASSUME_EQ)
      assumptions_add_eq(c->facts.loaded, all->dim);
    else if (all != f && all->relation != ASSUME_NE)
      assumptions_add_ge(c->facts.loaded, all->dim);
  return dim_entailed(c->facts.loaded, dim_resolve(c->dims, f->dim), false);
}

/* Keeps only the conditions of its own branch, each once. */
static void simplify_conditions(Checker *c, Constraint *k) {
  Assumption *kept = NULL;
  for (Assumption *f = k->assumptions; f; f = f->outer) {
    Generalizer g = {.c = c};
    dim_each_var(dim_resolve(c->dims, f->dim), note_local, classify_shape, &g);
    if (!assumption_is_condition(f) || !g.local || has_assumption(c, kept, f))
      continue;
    kept = assumption_copy(c, f, kept);
  }
  uint32_t count = 0;
  for (const Assumption *f = kept; f; f = f->outer)
    count++;
  assumptions_set_low_effort(c->facts.loaded,
                             count > MAX_FULL_EFFORT_CONSTRAINTS);
  for (Assumption **f = &kept; *f;)
    if (is_redundant_condition(c, kept, *f))
      *f = (*f)->outer;
    else
      f = &(*f)->outer;
  assumptions_set_low_effort(c->facts.loaded, false);
  k->assumptions = kept;
}

/* True if an unconditional constraint states the condition. */
static bool is_stated(Checker *c, const Assumption *f, Constraint *const *all,
                      Dim *const *slacks, uint32_t count) {
  Dim *d = dim_resolve(c->dims, f->dim);
  ConstraintKind kind = f->relation == ASSUME_EQ ? CN_DIM_EQ : CN_DIM_LE;
  for (uint32_t i = 0; f->relation != ASSUME_NE && i < count; i++)
    if (all[i] && slacks[i] && all[i]->kind == kind && !all[i]->assumptions &&
        !all[i]->sufficient_only && dim_equal(slacks[i], d))
      return true;
  return false;
}

/* Drops conditions that unconditional constraints state. */
static void drop_stated_conditions(Checker *c, Constraint **all,
                                   Dim *const *slacks, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (Assumption **f = all[i] ? &all[i]->assumptions : NULL; f && *f;)
      if (is_stated(c, *f, all, slacks, count))
        *f = (*f)->outer;
      else
        f = &(*f)->outer;
}

static bool is_unknown(Checker *c, Dim *d) {
  return dim_has_unknown(dim_resolve(c->dims, d));
}

/* True if the constraint mentions a forgotten size: callers cannot satisfy
   it. */
static bool mentions_unknown(Checker *c, const Constraint *k) {
  if (!constraint_is_size(k))
    return false;
  return is_unknown(c, k->left) || is_unknown(c, k->right);
}

/* Drops conditions on integers without a known term: as conditions on other
   data, they do not limit what callers have to ensure. */
static Assumption *drop_unknown_conditions(Checker *c, Assumption *f) {
  if (!f)
    return NULL;
  Assumption *outer = drop_unknown_conditions(c, f->outer);
  if (assumption_is_condition(f) && is_unknown(c, f->dim))
    return outer;
  if (outer == f->outer)
    return f;
  return assumption_copy(c, f, outer);
}

/* Removes the constraints from pending that mention a variable above the
   level. */
static Constraint **extract_constraints(Checker *c, uint32_t mark,
                                        uint32_t *count, uint32_t n_types,
                                        Type *const *types) {
  Constraints taken = {0};
  uint32_t kept = mark;
  for (uint32_t i = mark; i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (k->solved || constraint_is_vacuous(c, k))
      continue;
    bool dependent = constraint_is_dependent(c, k);
    if (constraint_is_size(k) || dependent)
      k->assumptions = drop_unknown_conditions(c, k->assumptions);
    Generalizer g;
    classify_constraint(c, k, &g);
    if (g.index && eliminate_for_indices(c, k))
      classify_constraint(c, k, &g);
    k->queue.active = !g.local;
    if (g.local && dependent) {
      k->is_dependent |= !constraint_is_size(k);
      g.existential = constraint_is_size(k);
    }
    if (!g.local) {
      c->solver.pending.at[kept++] = k;
    } else if (g.existential || g.index || mentions_unknown(c, k)) {
      k->solved = true;
      VEC_PUSH(c->arena, c->solver.residual, k);
    } else {
      if (k->is_given || index_assume_loops_run(c, k))
        VEC_PUSH(c->arena, taken, k);
      else
        k->solved = true;
    }
  }
  c->solver.pending.len = kept;
  for (uint32_t i = 0; i < taken.len; i++)
    simplify_conditions(c, taken.at[i]);
  givens_simplify(c, &taken);
  flatten_broadcasts(c, taken.at, taken.len, n_types, types);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i] && taken.at[i]->kind == CN_BROADCAST)
      dedupe_broadcast_args(c, taken.at[i]);
  drop_broadcasts(c, taken.at, taken.len, n_types, types);
  drop_keeps(c, taken.at, taken.len, n_types, types);
  uint32_t n = 0;
  Dim **slacks = NEW_ARRAY(c->arena, Dim *, taken.len);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i])
      slacks[i] = constraint_slack(c, taken.at[i]);
  drop_stated_conditions(c, taken.at, slacks, taken.len);
  drop_implied(c, taken.at, slacks, taken.len);
  for (uint32_t i = 0; i < taken.len; i++)
    if (taken.at[i])
      taken.at[n++] = taken.at[i];
  for (uint32_t i = 0; i < n; i++)
    given_normalize(c, taken.at[i]);
  *count = n;
  return taken.at;
}

typedef struct SingleAxes {
  Checker *c;
  Map params; /* set of the shape variables in the types of parameters */
  Map stars;  /* set of those that calls may solve by a * */
} SingleAxes;

static void note_param_shape(void *arg, ShapeVar *v) {
  SingleAxes *s = arg;
  map_put(&s->params, v, v);
}

/* No size of a parameter is a *. */
static void note_params(SingleAxes *s, Type *t) {
  TypeVisitor note = {.shape = note_param_shape, .arg = s, .c = s->c};
  t = ty_norm(s->c, t);
  if (t->tag == TY_FUN) {
    ty_visit(&note, t->fun.param);
    note_params(s, t->fun.result);
  }
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    note_params(s, t->args[i]);
}

static void note_possible_star(void *arg, ShapeVar *v) {
  SingleAxes *s = arg;
  if (!map_get(&s->params, v))
    map_put(&s->stars, v, v);
}

static bool mentions_star(const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++)
    if (axis_is_star(&s->axes[i]))
      return true;
  return false;
}

static bool equates_star(Checker *c, const Constraint *k) {
  return k->kind == CN_SHAPE_EQ && !k->solved &&
         (mentions_star(shape_norm(c, k->a)) ||
          mentions_star(shape_norm(c, k->b)));
}

/* Finds the variables that an equation with a * mentions: the ranks decide
   which of them it is. */
static void find_possible_stars(SingleAxes *s, uint32_t mark, uint32_t n,
                                Type *const *types) {
  Checker *c = s->c;
  TypeVisitor note = {.shape = note_possible_star, .arg = s, .c = c};
  bool any = false;
  for (uint32_t i = mark; i < c->solver.pending.len; i++) {
    const Constraint *k = c->solver.pending.at[i];
    if (!equates_star(c, k))
      continue;
    for (uint32_t j = 0; !any && j < n; j++)
      note_params(s, types[j]);
    any = true;
    shape_visit(&note, k->a);
    shape_visit(&note, k->b);
  }
}

/* The single axes of equations with a side in common may be the same. */
static void unify_possible_stars(SingleAxes *s, uint32_t mark) {
  Checker *c = s->c;
  for (uint32_t i = mark; s->stars.len && i < c->solver.pending.len; i++) {
    Constraint *k = c->solver.pending.at[i];
    if (!equates_star(c, k))
      continue;
    k->queue.suspended = false;
    c->solver.has_awake = c->solver.progress = true;
  }
  c->solver.unifies_single_axes = true;
  solve_pending(c);
  c->solver.unifies_single_axes = false;
}

/* A shape variable of rank 1 becomes a size, if it cannot be a *. */
static void solve_single_axis(void *arg, ShapeVar *v) {
  const SingleAxes *s = arg;
  Checker *c = s->c;
  if (v->fixed_rank != 1 || v->skolem || v->solution ||
      v->level <= c->inference.level || map_get(&s->stars, v))
    return;
  Dim *d = meta_dim(c, NULL, (Span){0});
  dim_as_var(d)->level = v->level;
  shape_bind(c, v, shape_of_dims(c, 1, &d));
}

static void note_generic_existential(void *arg, DimVar *v) {
  if (v->kind == DV_EXISTENTIAL && v->level == LEVEL_GENERIC)
    *(bool *)arg = true;
}

/* Adds the assumptions about existential sizes of each call. */
static void extract_existential_assumptions(Checker *c, Constraint ***given,
                                            uint32_t *count) {
  for (uint32_t i = 0; i < c->sizes.existential_assumptions.len; i++) {
    Assumption *f = c->sizes.existential_assumptions.at[i];
    Dim *d = dim_resolve(c->dims, f->dim), *pos, *neg;
    bool generic = false;
    dim_each_var(d, note_generic_existential, NULL, &generic);
    dim_split_signs(c->dims, d, &pos, &neg);
    DimVar *v = dim_as_var(neg);
    if (!generic || f->relation == ASSUME_EQ || !v ||
        v->kind != DV_EXISTENTIAL || v->level != LEVEL_GENERIC)
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

/* The given constraints of a scheme. */
typedef struct GivenList {
  Constraint **at;
  uint32_t count;
} GivenList;

typedef struct KnownRemainder { /* num == den*(num/den) + rest */
  Dim *num, *den, *rest;
} KnownRemainder;

/* True for the constraints n % h == 0 and n % 2 == 1. */
static bool as_known_remainder(Checker *c, const Constraint *k,
                               KnownRemainder *out) {
  if (k->kind != CN_DIM_EQ || k->assumptions || k->sufficient_only)
    return false;
  if (k->divisibility) {
    *out =
        (KnownRemainder){dim_resolve(c->dims, k->left),
                         dim_resolve(c->dims, k->divisor), dim_int(c->dims, 0)};
    return true;
  }
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, k->left, k->right));
  Dim *offset = dim_int(c->dims, dim_offset(d));
  if (!dim_is_remainder(c->dims, dim_sub(c->dims, d, offset), &out->num,
                        &out->den))
    return false;
  bool negated = dim_offset(d) > 0; /* d is the rest minus the remainder */
  out->rest = negated ? offset : dim_neg(c->dims, offset);
  return true;
}

/* d with num - rest instead of den*(num/den) */
static Dim *cancel_division(DimCtx *cx, Dim *d, const KnownRemainder *r) {
  Dim *exact = dim_cancel_exact_division(cx, d, r->num, r->den);
  if (exact == d)
    return d;
  if (dim_is_const(r->rest) && !dim_sign(r->rest))
    return exact;
  Dim *product = dim_mul(cx, r->den, dim_div(cx, r->num, r->den));
  Dim *times = dim_exact_quotient(cx, dim_sub(cx, d, exact),
                                  dim_sub(cx, product, r->num));
  return times ? dim_sub(cx, exact, dim_mul(cx, times, r->rest)) : d;
}

typedef struct KnownRemainders {
  VEC(KnownRemainder) all;
} KnownRemainders;

static Dim *cancel_divisions(TypeMapper *copy, Dim *d) {
  const KnownRemainders *known = copy->arg;
  for (uint32_t i = 0; i < known->all.len; i++)
    d = cancel_division(copy->c->dims, d, &known->all.at[i]);
  return d;
}

/* If h divides n, types and other constraints contain n instead of h*(n/h).  If
   n is odd, they contain n - 1 instead of 2*(n/2). */
static void cancel_divisions_in_types(Checker *c, GivenList *given, uint32_t n,
                                      Type **types) {
  KnownRemainders known = {0};
  KnownRemainder one;
  TypeMapper copy = {.c = c, .size = cancel_divisions, .arg = &known};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < given->count; i++)
    if (as_known_remainder(c, given->at[i], &one))
      VEC_PUSH(c->arena, known.all, one);
  if (!known.all.len)
    return;
  for (uint32_t i = 0; i < n; i++)
    types[i] = ty_copy(&copy, types[i]);
  for (uint32_t i = 0; i < given->count; i++) {
    Constraint *k = given->at[i];
    Dim *d = constraint_is_size(k) && !as_known_remainder(c, k, &one)
                 ? dim_copy(&copy, constraint_slack(c, k))
                 : NULL;
    if (d && k->kind == CN_DIM_EQ)
      d = given_cancel_sizes(c, d);
    if (d)
      dim_split_signs(c->dims, d, &k->right, &k->left);
    if (d && k->kind == CN_DIM_EQ && dim_is_const(d) && !dim_sign(d))
      c->notes.stats.proved++;
    else
      given->at[kept++] = k;
  }
  given->count = kept;
}

/* Later expressions may have made the escape impossible. */
static void retry_possible_escapes(Checker *c, uint32_t mark) {
  for (uint32_t i = mark; i < c->solver.pending.len; i++)
    if (c->solver.pending.at[i]->may_escape) {
      c->solver.pending.at[i]->queue.suspended = false;
      c->solver.has_awake = true;
    }
}

void scheme_generalize(Checker *c, uint32_t n, Type **types, Scheme **out,
                       uint32_t mark) {
  retry_possible_escapes(c, mark);
  c->solver.progress = true;
  solve_pending(c);
  SingleAxes axes = {.c = c};
  map_init(&axes.params, c->arena);
  map_init(&axes.stars, c->arena);
  find_possible_stars(&axes, mark, n, types);
  unify_possible_stars(&axes, mark);
  TypeVisitor single = {.shape = solve_single_axis, .arg = &axes, .c = c};
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&single, types[i]);
  for (uint32_t i = mark; i < c->solver.pending.len; i++)
    constraint_visit(&single, c->solver.pending.at[i]);
  solve_pending(c);
  solve_equation_systems(c, mark, false);
  solve_reshape_holes(c, mark);
  Generalizer g = {.c = c};
  TypeVisitor quantify = {.ty = quantify_ty,
                          .elem = quantify_elem,
                          .dim = quantify_dim,
                          .shape = quantify_shape,
                          .effect = quantify_effect,
                          .arg = &g,
                          .c = c};
  dependent_mark(c, mark, n, types);
  for (uint32_t i = 0; i < n; i++)
    ty_visit(&quantify, types[i]);
  GivenList given;
  given.at = extract_constraints(c, mark, &given.count, n, types);
  extract_existential_assumptions(c, &given.at, &given.count);
  cancel_divisions_in_types(c, &given, n, types);
  for (uint32_t i = 0; i < given.count; i++) {
    constraint_visit(&quantify, given.at[i]);
    for (Assumption *f = given.at[i]->assumptions; f; f = f->outer)
      dim_visit(&quantify, f->dim);
  }
  for (uint32_t i = 0; i < n; i++) {
    Scheme *s = out[i] ? out[i] : NEW(c->arena, Scheme);
    s->type = types[i];
    s->given = given.at;
    s->given_count = given.count;
    s->is_polymorphic = g.quantified || given.count;
    out[i] = s;
  }
}
