/* Walks over sizes: substitution of variables, occurrence tests, and the
 * postfix form.  Main entry points: dim_resolve, dim_subst, dim_each_var,
 * dim_postfix.
 *
 * Operands are shared, so a walk visits each atom once: it has an epoch, which
 * it stamps into visited atoms.  A callback may start another walk.  That
 * overwrites stamps, which costs repeated visits but never changes a result. */
#include "internal.h"
#include "support/arena.h"
#include "support/vec.h"

#include <string.h>

typedef struct Rewrite {
  DimCtx *cx;
  Dim *(*var)(void *, DimVar *); /* NULL: replace metas by their solutions */
  Dim *(*product)(void *, ShapeVar *);
  void *arg;
  bool resolving;
  uint64_t epoch;
  uint32_t depth;
} Rewrite;

static Dim *rewrite(Rewrite *rw, Dim *d);

/* The solution of a meta as far as it was followed before, so that chains of
   solutions stay short.  Forgetting a variable invalidates these cached
   solutions. */
static Dim *cached_solution(const struct DimAtomTable *atoms,
                            const DimVar *var) {
  return var->resolved && var->resolved_generation == atoms->resolved_generation
             ? var->resolved
             : var->solution;
}

void dim_set_unknown(DimCtx *cx, DimVar *var) {
  struct DimAtomTable *atoms = dim_atom_table(cx);
  var->unknown = atoms->has_unknown = true;
  if (var->solution)
    atoms->resolved_generation++;
}

bool dim_any_unknown(DimCtx *cx) {
  return dim_atom_table(cx)->has_unknown;
}

void dim_replace_solution(DimCtx *cx, DimVar *var, Dim *solution) {
  var->solution = solution;
  cx->solution_count++;
  dim_atom_table(cx)->resolved_generation++;
}

static void set_resolved_solution(const DimCtx *cx, DimVar *var, Dim *d) {
  var->resolved = d;
  var->resolved_generation = cx->atom_table->resolved_generation;
  var->resolved_solution_count = cx->solution_count;
}

static Dim *rewrite_var(Rewrite *rw, Atom *atom) {
  if (!rw->resolving) {
    Dim *d = rw->var ? rw->var(rw->arg, atom->var) : NULL;
    return d ? d : atom->dim;
  }
  DimVar *var = atom->var;
  if (!var->solution || var->unknown)
    return atom->dim;
  Dim *d = cached_solution(rw->cx->atom_table, var);
  if (d == var->resolved &&
      var->resolved_solution_count == rw->cx->solution_count)
    return d;
  d = rewrite(rw, d);
  set_resolved_solution(rw->cx, var, d);
  return d;
}

static Dim *rewrite_prod(Rewrite *rw, Atom *atom) {
  DimCtx *cx = rw->cx;
  if (!rw->resolving) {
    Dim *d = rw->product ? rw->product(rw->arg, atom->shape) : NULL;
    return d ? d : atom->dim;
  }
  Dim *d = cx->shape_product ? cx->shape_product(cx->owner, atom->shape) : NULL;
  return !d || d == atom->dim ? atom->dim : rewrite(rw, d);
}

static Dim *rewrite_operands(Rewrite *rw, Atom *atom) {
  Dim *two[2]; /* recursive function: keeps the frame small */
  uint32_t count = atom->arg_count;
  Dim **args = count <= 2 ? two : NEW_ARRAY(rw->cx->arena, Dim *, count);
  bool changed = false;
  for (uint32_t i = 0; i < count; i++) {
    args[i] = rewrite(rw, atom->args[i]);
    changed |= args[i] != atom->args[i];
  }
  if (!changed)
    return atom->dim;
  Dim *d = args[0];
  for (uint32_t i = 1; i < count; i++)
    d = atom->unguarded          ? dim_div_unguarded(rw->cx, d, args[i])
        : atom->kind == ATOM_DIV ? dim_div(rw->cx, d, args[i])
        : atom->kind == ATOM_MIN ? dim_min(rw->cx, d, args[i])
                                 : dim_max(rw->cx, d, args[i]);
  return d;
}

static Dim *rewrite_atom(Rewrite *rw, Atom *atom) {
  if (rw->resolving && !atom->has_meta)
    return atom->dim;
  if (atom->visit_epoch == rw->epoch)
    return atom->visit_result;
  if (++rw->depth > DIM_MAX_RESOLVE_DEPTH)
    dim_limit_exceeded(rw->cx);
  Dim *d = atom->kind == ATOM_VAR    ? rewrite_var(rw, atom)
           : atom->kind == ATOM_PROD ? rewrite_prod(rw, atom)
                                     : rewrite_operands(rw, atom);
  rw->depth--;
  atom->visit_epoch = rw->epoch;
  atom->visit_result = d;
  return d;
}

static Dim *dim_power(DimCtx *cx, Dim *d, uint32_t exp) {
  Dim *out = dim_int(cx, 1);
  for (;; d = dim_mul(cx, d, d)) {
    if (exp & 1)
      out = dim_mul(cx, out, d);
    if (!(exp >>= 1))
      return out;
  }
}

static Dim *rewrite_product(Rewrite *rw, const Monomial *mono) {
  Dim *d = NULL;
  for (uint32_t i = 0; i < mono->power_count; i++) {
    const Power *p = &mono->powers[i];
    Dim *by = rewrite_atom(rw, p->atom);
    by = p->exp == 1 ? by : dim_power(rw->cx, by, p->exp);
    d = d ? dim_mul(rw->cx, d, by) : by;
  }
  return d;
}

/* Writes coef*part to `out`. */
static void write_scaled(DimCtx *cx, Term *out, BigInt coef, const Dim *part) {
  memcpy(out, part->terms, part->term_count * sizeof *out);
  for (uint32_t i = 0; i < part->term_count && !bigint_is(coef, 1); i++)
    out[i].coef = bigint_mul(cx, out[i].coef, coef);
}

/* Fast path: most atoms are variables without a solution. */
static bool atom_unchanged(Rewrite *rw, Atom *atom) {
  if (rw->resolving && atom->kind == ATOM_VAR &&
      (!atom->var->solution || atom->var->unknown))
    return true;
  return rewrite_atom(rw, atom) == atom->dim;
}

/* What replaces the monomial, or NULL if it stays. */
static Dim *rewrite_monomial(Rewrite *rw, const Monomial *mono) {
  bool changed = false;
  for (uint32_t i = 0; i < mono->power_count && !changed; i++)
    changed = !atom_unchanged(rw, mono->powers[i].atom);
  if (!changed)
    return NULL;
  return mono->degree == 1 ? rewrite_atom(rw, mono->powers[0].atom)
                           : rewrite_product(rw, mono);
}

enum { MAX_STACK_TERMS = 32 };

/* The terms of d from the first one that changes on: parts has what replaces
   their monomials.  `max` bounds the number of terms of the result. */
static Dim *sum_parts(DimCtx *cx, const Dim *d, Dim *const *parts,
                      uint32_t from, uint32_t max) {
  Term few[MAX_STACK_TERMS];
  Term *all = max <= MAX_STACK_TERMS ? few : NEW_ARRAY(cx->arena, Term, max);
  memcpy(all, d->terms, from * sizeof *all);
  uint32_t n = from;
  for (uint32_t i = from; i < d->term_count; i++) {
    const Dim *part = parts[i - from];
    if (part)
      write_scaled(cx, &all[n], d->terms[i].coef, part);
    else
      all[n] = d->terms[i];
    n += part ? part->term_count : 1;
  }
  return dim_of_unsorted_terms(cx, all, n);
}

/* Copies unchanged terms and recomputes the others. */
static Dim *rewrite_terms(Rewrite *rw, const Dim *d) {
  uint32_t from = 0;
  Dim *part = NULL;
  while (from < d->term_count &&
         !(part = rewrite_monomial(rw, d->terms[from].mono)))
    from++;
  if (from == d->term_count)
    return (Dim *)d;
  uint32_t max = from;
  Dim **parts = NEW_ARRAY(rw->cx->arena, Dim *, d->term_count - from);
  for (uint32_t i = from; i < d->term_count; i++) {
    if (i > from)
      part = rewrite_monomial(rw, d->terms[i].mono);
    parts[i - from] = part;
    max += part ? part->term_count : 1;
  }
  if (max - from > DIM_MAX_PRODUCTS)
    dim_limit_exceeded(rw->cx);
  return sum_parts(rw->cx, d, parts, from, max);
}

/* The result of the last resolution, or NULL if a variable was forgotten
   since. */
static Dim *resolved_before(const DimCtx *cx, const Dim *d) {
  bool valid = d->resolved_generation == cx->atom_table->resolved_generation;
  return valid ? d->resolved : NULL;
}

static void set_resolved(const DimCtx *cx, Dim *d, Dim *out) {
  d->resolved = out;
  d->resolved_generation = cx->atom_table->resolved_generation;
  d->resolved_solution_count = cx->solution_count;
}

/* A size in a type is resolved repeatedly.  Each time continues from the last
   result, which is the answer if no variable was solved or forgotten since. */
static Dim *rewrite_resolving(Rewrite *rw, Dim *d) {
  Dim *known = resolved_before(rw->cx, d);
  if (known && d->resolved_solution_count == rw->cx->solution_count)
    return known;
  Dim *out = known && known != d ? rewrite(rw, known) : rewrite_terms(rw, d);
  set_resolved(rw->cx, d, out);
  return out;
}

/* The sizes of a type mostly occur several times in it. */
static Dim *rewrite_substituting(Rewrite *rw, Dim *d) {
  if (d->substituted_epoch == rw->epoch)
    return d->substituted;
  Dim *out = rewrite_terms(rw, d);
  d->substituted = out;
  d->substituted_epoch = rw->epoch;
  return out;
}

static Dim *rewrite(Rewrite *rw, Dim *d) {
  if (rw->resolving && !d->has_meta)
    return d;
  if (d->term_count == 1 && d->terms[0].mono->degree == 1 &&
      bigint_is(d->terms[0].coef, 1))
    return rewrite_atom(rw, d->terms[0].mono->powers[0].atom);
  return dim_is_const(d) ? d
         : rw->resolving ? rewrite_resolving(rw, d)
                         : rewrite_substituting(rw, d);
}

/* True if the variable may get a solution, or has one. */
static bool var_may_change(const DimVar *var) {
  return var->kind == DV_META || var->solution || var->unknown;
}

/* True if d consists of variables without a solution.  Notes if none of them
   can get one any more, because they were generalized. */
static bool is_sum_of_unsolved(Dim *d) {
  bool has_meta = false;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    for (uint32_t j = 0; j < mono->power_count; j++) {
      Atom *atom = mono->powers[j].atom;
      if (!atom->has_meta)
        continue;
      const DimVar *var = atom->var;
      if (!var || (var->solution && !var->unknown))
        return false;
      atom->has_meta = var_may_change(var);
      has_meta |= atom->has_meta;
    }
  }
  d->has_meta = has_meta;
  return true;
}

/* True if d->resolved is final. */
static inline bool is_resolved_now(const DimCtx *cx, const Dim *d) {
  return d->resolved && d->resolved_solution_count == cx->solution_count &&
         d->resolved_generation == cx->atom_table->resolved_generation;
}

/* The resolved form if no walk is necessary, otherwise NULL. */
static Dim *resolved_form(const DimCtx *cx, Dim *d) {
  if (!d->has_meta)
    return d;
  if (is_resolved_now(cx, d))
    return d->resolved;
  if (!is_sum_of_unsolved(d))
    return NULL;
  set_resolved(cx, d, d);
  return d;
}

__attribute__((noinline)) static Dim *resolve_slowly(DimCtx *cx, Dim *d) {
  Dim *out = resolved_form(cx, d);
  if (out)
    return out;
  DimVar *var = dim_as_var(d);
  out = var ? resolved_form(cx, cached_solution(cx->atom_table, var)) : NULL;
  if (out) {
    set_resolved_solution(cx, var, out);
  } else {
    Rewrite rw = {
        .cx = cx, .resolving = true, .epoch = ++dim_atom_table(cx)->epoch};
    out = rewrite(&rw, d);
  }
  set_resolved(cx, d, out);
  return out;
}

Dim *dim_resolve(DimCtx *cx, Dim *d) {
  if (!d->has_meta)
    return d;
  return is_resolved_now(cx, d) ? d->resolved : resolve_slowly(cx, d);
}

Dim *dim_subst(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
               Dim *(*g)(void *, ShapeVar *), void *arg) {
  uint64_t epoch = 0;
  return dim_subst_consistently(cx, d, f, g, arg, &epoch);
}

Dim *dim_subst_consistently(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
                            Dim *(*g)(void *, ShapeVar *), void *arg,
                            uint64_t *epoch) {
  if (dim_is_const(d))
    return d;
  if (!*epoch)
    *epoch = dim_next_visit_epoch(cx);
  Rewrite rw = {.cx = cx, .var = f, .product = g, .arg = arg, .epoch = *epoch};
  return rewrite(&rw, d);
}

/* ---- visits ---- */

/* Visits the solutions of metas, too. */
typedef struct AtomVisit {
  uint64_t epoch;
  DimCtx *cx; /* for products of shapes; may be NULL */
  /* called at a variable or product; true ends the walk */
  bool (*stop)(struct AtomVisit *, Atom *);
  const DimVar *sought;
  uint32_t depth;
} AtomVisit;

static bool visit(AtomVisit *v, const Dim *d);

static bool visit_leaf(AtomVisit *v, Atom *atom) {
  if (v->stop(v, atom))
    return true;
  if (atom->var)
    return atom->var->solution && !atom->var->unknown &&
           visit(v, cached_solution(atom->table, atom->var));
  DimCtx *cx = v->cx;
  Dim *d = cx && cx->shape_product ? cx->shape_product(cx->owner, atom->shape)
                                   : NULL;
  return d && visit(v, d);
}

/* Returns true if the visit should end.  Solutions are acyclic (occurs check).
   An atom is stamped before its operands are visited, so the walk terminates in
   any case. */
static bool visit_atom(AtomVisit *v, Atom *atom) {
  if (atom->visit_epoch == v->epoch)
    return false;
  atom->visit_epoch = v->epoch;
  atom->visit_result = atom->dim;
  if (v->depth == DIM_MAX_RESOLVE_DEPTH)
    return true; /* too deep to know: "mentions" is the safe answer */
  v->depth++;
  bool leaf = atom->kind == ATOM_VAR || atom->kind == ATOM_PROD;
  bool found = leaf && visit_leaf(v, atom);
  for (uint32_t i = 0; i < atom->arg_count && !found; i++)
    found = visit(v, atom->args[i]);
  v->depth--;
  return found;
}

static bool visit(AtomVisit *v, const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    for (uint32_t j = 0; j < mono->power_count; j++)
      if (visit_atom(v, mono->powers[j].atom))
        return true;
  }
  return false;
}

static bool visit_from(AtomVisit *v, const Dim *d) {
  if (dim_is_const(d))
    return false;
  v->epoch = ++d->terms[0].mono->powers[0].atom->table->epoch;
  return visit(v, d);
}

static bool is_sought(AtomVisit *v, Atom *atom) {
  return atom->var == v->sought;
}

bool dim_mentions(DimCtx *cx, Dim *d, const DimVar *var) {
  AtomVisit v = {.cx = cx, .stop = is_sought, .sought = var};
  return visit_from(&v, d);
}

static bool is_unknown(AtomVisit *v, Atom *atom) {
  (void)v;
  return atom->var && atom->var->unknown;
}

/* True if no variable of the sum is forgotten or has a solution. */
static bool is_plain_sum(const Dim *d) {
  for (uint32_t i = 0; d->is_sum_of_vars && i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    const DimVar *var = mono->degree ? mono->powers[0].atom->var : NULL;
    if (var && (var->unknown || var->solution))
      return false;
  }
  return d->is_sum_of_vars;
}

bool dim_has_unknown(const Dim *d) {
  AtomVisit v = {.stop = is_unknown};
  return d->has_meta && d->terms[0].mono->powers[0].atom->table->has_unknown &&
         !is_plain_sum(d) && visit_from(&v, d);
}

/* ---- leaves ---- */

typedef struct LeafVisit {
  uint64_t epoch;
  void (*leaf)(void *, Atom *); /* NULL: f and g, which may be NULL */
  void (*f)(void *, DimVar *);
  void (*g)(void *, ShapeVar *);
  void *arg;
} LeafVisit;

static void visit_leaves(const LeafVisit *v, const Dim *d) {
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    for (uint32_t j = 0; j < mono->power_count; j++) {
      Atom *atom = mono->powers[j].atom;
      if (atom->visit_epoch == v->epoch)
        continue;
      atom->visit_epoch = v->epoch;
      atom->visit_result = atom->dim;
      for (uint32_t k = 0; k < atom->arg_count; k++)
        visit_leaves(v, atom->args[k]);
      if (v->leaf && !atom->arg_count)
        v->leaf(v->arg, atom);
      else if (v->f && atom->var)
        v->f(v->arg, atom->var);
      else if (v->g && atom->shape)
        v->g(v->arg, atom->shape);
    }
  }
}

void dim_each_var(const Dim *d, void (*f)(void *, DimVar *),
                  void (*g)(void *, ShapeVar *), void *arg) {
  if (!d->is_sum_of_vars) {
    LeafVisit v = {.f = f, .g = g, .arg = arg};
    v.epoch = ++d->terms[0].mono->powers[0].atom->table->epoch;
    visit_leaves(&v, d);
    return;
  }
  for (uint32_t i = 0; f && i < d->term_count; i++)
    if (d->terms[i].mono->degree)
      f(arg, d->terms[i].mono->powers[0].atom->var);
}

uint64_t dim_next_visit_epoch(DimCtx *cx) {
  return ++dim_atom_table(cx)->epoch;
}

void dim_each_leaf(const Dim *d, uint64_t epoch, void (*f)(void *, Atom *),
                   void *arg) {
  LeafVisit v = {.epoch = epoch, .leaf = f, .arg = arg};
  visit_leaves(&v, d);
}

/* ---- divisors ---- */

typedef struct DivisorWalk {
  DimCtx *cx;
  uint64_t epoch;
  bool unguarded;
  VEC(Dim *) all; /* collected first, since f may start another walk */
} DivisorWalk;

static bool is_positive_const(const Dim *d) {
  return dim_is_const(d) && dim_sign(d) > 0;
}

static void collect_divisors(DivisorWalk *s, const Dim *d) {
  for (uint32_t i = 0; (d->has_unguarded || !s->unguarded) && i < d->term_count;
       i++)
    for (uint32_t j = 0; j < d->terms[i].mono->power_count; j++) {
      Atom *atom = d->terms[i].mono->powers[j].atom;
      if (!atom->arg_count || atom->visit_epoch == s->epoch)
        continue;
      atom->visit_epoch = s->epoch;
      atom->visit_result = atom->dim;
      if (s->unguarded
              ? atom->unguarded
              : atom->kind == ATOM_DIV && !is_positive_const(atom->args[1]))
        VEC_PUSH(s->cx->arena, s->all, atom->args[1]);
      for (uint32_t k = 0; k < atom->arg_count; k++)
        collect_divisors(s, atom->args[k]);
    }
}

void dim_each_divisor(DimCtx *cx, const Dim *d, bool unguarded,
                      void (*f)(void *, Dim *), void *arg) {
  DivisorWalk s = {
      .cx = cx, .epoch = dim_next_visit_epoch(cx), .unguarded = unguarded};
  collect_divisors(&s, d);
  for (uint32_t i = 0; i < s.all.len; i++)
    f(arg, s.all.at[i]);
}

static void note_undefined(void *arg, Dim *divisor) {
  *(bool *)arg |= dim_is_const(divisor);
}

bool dim_divides_by_zero(DimCtx *cx, const Dim *d) {
  bool undefined = false;
  dim_each_divisor(cx, d, false, note_undefined, &undefined);
  return undefined;
}

/* ---- postfix ---- */

typedef struct Postfix {
  DimCtx *cx;
  VEC(DimOp) ops;
  bool failed;
} Postfix;

static void emit_op(Postfix *p, DimOp what) {
  VEC_PUSH(p->cx->arena, p->ops, what);
}

static void emit_postfix(Postfix *p, const Dim *d);

static void emit_atom(Postfix *p, const Atom *atom) {
  if (atom->kind == ATOM_VAR) {
    emit_op(p, (DimOp){.kind = DOP_VAR, .var = atom->var});
    return;
  }
  if (atom->kind == ATOM_PROD) {
    emit_op(p, (DimOp){.kind = DOP_PROD, .shape = atom->shape});
    return;
  }
  DimOpKind kind = atom->kind == ATOM_DIV   ? DOP_DIV
                   : atom->kind == ATOM_MIN ? DOP_MIN
                                            : DOP_MAX;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    emit_postfix(p, atom->args[i]);
    if (i)
      emit_op(p, (DimOp){.kind = kind});
  }
}

/* Emits coef times the monomial. coef is positive or the smallest int64. */
static void emit_term(Postfix *p, int64_t coef, const Monomial *mono) {
  bool first = coef == 1 && mono->power_count;
  if (!first)
    emit_op(p, (DimOp){.kind = DOP_INT, .num = coef});
  for (uint32_t i = 0; i < mono->power_count; i++)
    for (uint32_t e = 0; e < mono->powers[i].exp; e++) {
      emit_atom(p, mono->powers[i].atom);
      if (!first)
        emit_op(p, (DimOp){.kind = DOP_MUL});
      first = false;
    }
}

/* Emits added terms first, so that sizes stay non-negative as long as
   possible. */
static void emit_postfix(Postfix *p, const Dim *d) {
  bool any = false;
  for (int sign = 1; sign >= -1; sign -= 2)
    for (uint32_t i = 0; i < d->term_count; i++) {
      const Term *term = &d->terms[i];
      if (bigint_sign(term->coef) != sign)
        continue;
      if (term->coef.limbs) {
        p->failed = true;
        return;
      }
      int64_t coef = term->coef.small;
      bool subtract = any && coef < 0 && coef != INT64_MIN;
      emit_term(p, subtract ? -coef : coef, term->mono);
      if (any)
        emit_op(p, (DimOp){.kind = subtract ? DOP_SUB : DOP_ADD});
      any = true;
    }
  if (!any)
    emit_op(p, (DimOp){.kind = DOP_INT});
}

DimOp *dim_postfix(DimCtx *cx, const Dim *d, uint32_t *count) {
  Postfix p = {.cx = cx};
  emit_postfix(&p, d);
  *count = p.ops.len;
  return p.failed ? NULL : p.ops.at;
}
