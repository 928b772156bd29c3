/* Walks over sizes: replacing variables, looking for them, and the postfix
 * form for rooms that compute.
 *
 * Operands are shared, so that a walk visits an atom once: each has an epoch,
 * stamped into the atoms it has seen.  A callback may start a walk of its own;
 * that restamps atoms, and costs a visit, never a result. */
#include "diminternal.h"

#include <string.h>

typedef struct Rewrite {
  DimCtx *cx;
  Dim *(*var)(void *, DimVar *); /* NULL: metas by their solutions */
  Dim *(*prod)(void *, ShapeVar *);
  void *arg;
  bool resolving;
  uint64_t epoch;
  uint32_t depth;
} Rewrite;

static Dim *rewrite(Rewrite *rw, Dim *d);

/* The solution of a meta, as far as it was followed before: chains of
 * solutions stay short.  To forget a variable puts it back into all that were
 * followed past it. */
static Dim *nearest(const struct DimAtoms *atoms, const DimVar *var) {
  return var->near && var->near_at == atoms->forgotten ? var->near
                                                       : var->bound;
}

void dim_forget(DimCtx *cx, DimVar *var) {
  var->top = true;
  if (var->bound)
    dim_atoms(cx)->forgotten++;
}

static Dim *rewrite_var(Rewrite *rw, Atom *atom) {
  if (!rw->resolving) {
    Dim *d = rw->var ? rw->var(rw->arg, atom->var) : NULL;
    return d ? d : atom->dim;
  }
  DimVar *var = atom->var;
  if (!var->bound || var->top)
    return atom->dim;
  Dim *d = nearest(rw->cx->atoms, var);
  if (d == var->near && var->solved == rw->cx->solved)
    return d;
  d = rewrite(rw, d);
  var->near = d;
  var->near_at = rw->cx->atoms->forgotten;
  var->solved = rw->cx->solved;
  return d;
}

static Dim *rewrite_prod(Rewrite *rw, Atom *atom) {
  DimCtx *cx = rw->cx;
  if (!rw->resolving) {
    Dim *d = rw->prod ? rw->prod(rw->arg, atom->shape) : NULL;
    return d ? d : atom->dim;
  }
  Dim *d = cx->shape_prod ? cx->shape_prod(cx->owner, atom->shape) : NULL;
  return !d || d == atom->dim ? atom->dim : rewrite(rw, d);
}

static Dim *rewrite_operands(Rewrite *rw, Atom *atom) {
  Dim *two[2]; /* this recurs: no large frames */
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
    d = atom->soft             ? dim_div_soft(rw->cx, d, args[i])
        : atom->kind == AT_DIV ? dim_div(rw->cx, d, args[i])
        : atom->kind == AT_MIN ? dim_min(rw->cx, d, args[i])
                               : dim_max(rw->cx, d, args[i]);
  return d;
}

static Dim *rewrite_atom(Rewrite *rw, Atom *atom) {
  if (rw->resolving && !atom->has_meta)
    return atom->dim;
  if (atom->epoch == rw->epoch)
    return atom->memo;
  if (++rw->depth > DIM_MAX_CHAIN)
    dim_too_big(rw->cx);
  Dim *d = atom->kind == AT_VAR    ? rewrite_var(rw, atom)
           : atom->kind == AT_PROD ? rewrite_prod(rw, atom)
                                   : rewrite_operands(rw, atom);
  rw->depth--;
  atom->epoch = rw->epoch;
  atom->memo = d;
  return d;
}

static Dim *power(DimCtx *cx, Dim *d, uint32_t exp) {
  Dim *out = dim_int(cx, 1);
  for (;; d = dim_mul(cx, d, d)) {
    if (exp & 1)
      out = dim_mul(cx, out, d);
    if (!(exp >>= 1))
      return out;
  }
}

static Dim *rewrite_term(Rewrite *rw, const Term *term) {
  Dim *d = dim_of_num(rw->cx, term->coef);
  for (uint32_t i = 0; i < term->mono->count; i++) {
    const Power *p = &term->mono->at[i];
    Dim *by = rewrite_atom(rw, p->atom);
    d = dim_mul(rw->cx, d, p->exp == 1 ? by : power(rw->cx, by, p->exp));
  }
  return d;
}

/* Most are variables that have no solution. */
static bool atom_keeps(Rewrite *rw, Atom *atom) {
  if (rw->resolving && atom->kind == AT_VAR &&
      (!atom->var->bound || atom->var->top))
    return true;
  return rewrite_atom(rw, atom) == atom->dim;
}

static bool rewrite_keeps(Rewrite *rw, const Term *term) {
  for (uint32_t i = 0; i < term->mono->count; i++)
    if (!atom_keeps(rw, term->mono->at[i].atom))
      return false;
  return true;
}

/* The terms that stay are taken as they are, the others computed anew. */
static Dim *rewrite_terms(Rewrite *rw, const Dim *d) {
  uint32_t from = 0, most = 0;
  while (from < d->count && rewrite_keeps(rw, &d->at[from]))
    from++;
  if (from == d->count)
    return (Dim *)d;
  Dim **parts = NEW_ARRAY(rw->cx->arena, Dim *, d->count - from);
  for (uint32_t i = from; i < d->count; i++) {
    Dim *part = rewrite_keeps(rw, &d->at[i]) ? NULL
                                             : rewrite_term(rw, &d->at[i]);
    parts[i - from] = part;
    most += part ? part->count : 1;
  }
  if (most > DIM_MAX_PRODUCTS)
    dim_too_big(rw->cx);
  Term *all = NEW_ARRAY(rw->cx->arena, Term, from + most);
  memcpy(all, d->at, from * sizeof *all);
  uint32_t n = from;
  for (uint32_t i = from; i < d->count; i++) {
    const Dim *part = parts[i - from];
    if (part)
      memcpy(&all[n], part->at, part->count * sizeof *all);
    else
      all[n] = d->at[i];
    n += part ? part->count : 1;
  }
  return dim_collect(rw->cx, all, n);
}

/* A size in a type is resolved again and again: each time from where that last
 * ended. */
static Dim *rewrite_some(Rewrite *rw, Dim *d) {
  if (!rw->resolving)
    return rewrite_terms(rw, d);
  uint64_t forgotten = rw->cx->atoms->forgotten;
  bool known = d->near && d->near_at == forgotten;
  Dim *out = known ? rewrite(rw, d->near) : rewrite_terms(rw, d);
  if (out != d) {
    d->near = out;
    d->near_at = forgotten;
  }
  return out;
}

static Dim *rewrite(Rewrite *rw, Dim *d) {
  if (rw->resolving && !d->has_meta)
    return d;
  if (d->count == 1 && d->at[0].mono->degree == 1 && num_is(d->at[0].coef, 1))
    return rewrite_atom(rw, d->at[0].mono->at[0].atom);
  return dim_is_const(d) ? d : rewrite_some(rw, d);
}

Dim *dim_resolve(DimCtx *cx, Dim *d) {
  if (!d->has_meta)
    return d;
  Rewrite rw = {.cx = cx, .resolving = true, .epoch = ++dim_atoms(cx)->epoch};
  return rewrite(&rw, d);
}

Dim *dim_subst(DimCtx *cx, Dim *d, Dim *(*f)(void *, DimVar *),
               Dim *(*g)(void *, ShapeVar *), void *arg) {
  if (dim_is_const(d))
    return d;
  Rewrite rw = {.cx = cx, .var = f, .prod = g, .arg = arg};
  rw.epoch = ++dim_atoms(cx)->epoch;
  return rewrite(&rw, d);
}

/* ---- visits ---- */

typedef struct Visit {
  uint64_t epoch;
  DimCtx *cx; /* for the products of shapes; may be NULL */
  bool (*stop)(struct Visit *, Atom *); /* a variable or product: found? */
  bool through; /* look through solved metas */
  const DimVar *sought;
  void (*f)(void *, DimVar *);
  void (*g)(void *, ShapeVar *);
  void *arg;
  uint32_t depth;
} Visit;

static bool visit(Visit *v, const Dim *d);

static bool visit_leaf(Visit *v, Atom *atom) {
  if (v->stop(v, atom))
    return true;
  if (!v->through)
    return false;
  if (atom->var)
    return atom->var->bound && !atom->var->top &&
           visit(v, nearest(atom->home, atom->var));
  DimCtx *cx = v->cx;
  Dim *d = cx && cx->shape_prod ? cx->shape_prod(cx->owner, atom->shape) : NULL;
  return d && visit(v, d);
}

/* Whether the visit is to end.  Solutions are acyclic (the occurs check), and
 * an atom is stamped first, so this ends even if they were not. */
static bool visit_atom(Visit *v, Atom *atom) {
  if (atom->epoch == v->epoch)
    return false;
  atom->epoch = v->epoch;
  atom->memo = atom->dim;
  if (v->depth == DIM_MAX_CHAIN)
    return true; /* too deep to know: "mentions" is the safe answer */
  v->depth++;
  bool leaf = atom->kind == AT_VAR || atom->kind == AT_PROD;
  bool found = leaf && visit_leaf(v, atom);
  for (uint32_t i = 0; i < atom->arg_count && !found; i++)
    found = visit(v, atom->args[i]);
  v->depth--;
  return found;
}

static bool visit(Visit *v, const Dim *d) {
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    for (uint32_t j = 0; j < mono->count; j++)
      if (visit_atom(v, mono->at[j].atom))
        return true;
  }
  return false;
}

static bool visit_from(Visit *v, const Dim *d) {
  if (dim_is_const(d))
    return false;
  v->epoch = ++d->at[0].mono->at[0].atom->home->epoch;
  return visit(v, d);
}

static bool is_sought(Visit *v, Atom *atom) { return atom->var == v->sought; }

bool dim_mentions(DimCtx *cx, Dim *d, const DimVar *var) {
  Visit v = {.cx = cx, .stop = is_sought, .through = true, .sought = var};
  return visit_from(&v, d);
}

static bool is_top(Visit *v, Atom *atom) {
  (void)v;
  return atom->var && atom->var->top;
}

bool dim_has_top(const Dim *d) {
  Visit v = {.stop = is_top, .through = true};
  return d->has_meta && visit_from(&v, d);
}

static bool report(Visit *v, Atom *atom) {
  if (atom->var && v->f)
    v->f(v->arg, atom->var);
  else if (!atom->var && v->g)
    v->g(v->arg, atom->shape);
  return false;
}

void dim_each_var(const Dim *d, void (*f)(void *, DimVar *),
                  void (*g)(void *, ShapeVar *), void *arg) {
  Visit v = {.stop = report, .f = f, .g = g, .arg = arg};
  visit_from(&v, d);
}

typedef struct Leaves {
  Visit visit;
  void (*f)(void *, Atom *);
  void *arg;
} Leaves;

static bool is_leaf(Visit *v, Atom *atom) {
  Leaves *leaves = (Leaves *)v;
  leaves->f(leaves->arg, atom);
  return false;
}

uint64_t dim_epoch(DimCtx *cx) { return ++dim_atoms(cx)->epoch; }

void dim_each_leaf(const Dim *d, uint64_t epoch, void (*f)(void *, Atom *),
                   void *arg) {
  Leaves leaves = {{.stop = is_leaf, .epoch = epoch}, f, arg};
  visit(&leaves.visit, d);
}

/* ---- divisors ---- */

typedef struct Divisors {
  DimCtx *cx;
  uint64_t epoch;
  bool soft;
  VEC(Dim *) all; /* f may start a walk of its own: they come first */
} Divisors;

static void divisors(Divisors *s, const Dim *d) {
  for (uint32_t i = 0; (d->has_soft || !s->soft) && i < d->count; i++)
    for (uint32_t j = 0; j < d->at[i].mono->count; j++) {
      Atom *atom = d->at[i].mono->at[j].atom;
      if (!atom->arg_count || atom->epoch == s->epoch)
        continue;
      atom->epoch = s->epoch;
      atom->memo = atom->dim;
      if (s->soft ? atom->soft
                  : atom->kind == AT_DIV && !dim_is_const(atom->args[1]))
        VEC_PUSH(s->cx->arena, s->all, atom->args[1]);
      for (uint32_t k = 0; k < atom->arg_count; k++)
        divisors(s, atom->args[k]);
    }
}

void dim_each_divisor(DimCtx *cx, const Dim *d, bool soft,
                      void (*f)(void *, Dim *), void *arg) {
  Divisors s = {.cx = cx, .epoch = dim_epoch(cx), .soft = soft};
  divisors(&s, d);
  for (uint32_t i = 0; i < s.all.len; i++)
    f(arg, s.all.at[i]);
}

/* ---- postfix ---- */

typedef struct Postfix {
  DimCtx *cx;
  VEC(DimOp) ops;
  bool failed;
} Postfix;

static void op(Postfix *p, DimOp what) { VEC_PUSH(p->cx->arena, p->ops, what); }

static void postfix(Postfix *p, const Dim *d);

static void postfix_atom(Postfix *p, const Atom *atom) {
  if (atom->kind == AT_VAR) {
    op(p, (DimOp){.kind = DOP_VAR, .var = atom->var});
    return;
  }
  if (atom->kind == AT_PROD) {
    op(p, (DimOp){.kind = DOP_PROD, .shape = atom->shape});
    return;
  }
  DimOpKind kind = atom->kind == AT_DIV   ? DOP_DIV
                   : atom->kind == AT_MIN ? DOP_MIN
                                          : DOP_MAX;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    postfix(p, atom->args[i]);
    if (i)
      op(p, (DimOp){.kind = kind});
  }
}

/* coef times the monomial; coef is positive, or the least int64. */
static void postfix_term(Postfix *p, int64_t coef, const Mono *mono) {
  bool first = coef == 1 && mono->count;
  if (!first)
    op(p, (DimOp){.kind = DOP_INT, .num = coef});
  for (uint32_t i = 0; i < mono->count; i++)
    for (uint32_t e = 0; e < mono->at[i].exp; e++) {
      postfix_atom(p, mono->at[i].atom);
      if (!first)
        op(p, (DimOp){.kind = DOP_MUL});
      first = false;
    }
}

/* Terms that are added come first, so that sizes stay non-negative as long as
 * they can. */
static void postfix(Postfix *p, const Dim *d) {
  bool any = false;
  for (int sign = 1; sign >= -1; sign -= 2)
    for (uint32_t i = 0; i < d->count; i++) {
      const Term *term = &d->at[i];
      if (num_sign(term->coef) != sign)
        continue;
      if (term->coef.limbs) {
        p->failed = true;
        return;
      }
      int64_t coef = term->coef.small;
      bool subtract = any && coef < 0 && coef != INT64_MIN;
      postfix_term(p, subtract ? -coef : coef, term->mono);
      if (any)
        op(p, (DimOp){.kind = subtract ? DOP_SUB : DOP_ADD});
      any = true;
    }
  if (!any)
    op(p, (DimOp){.kind = DOP_INT});
}

DimOp *dim_postfix(DimCtx *cx, const Dim *d, uint32_t *count) {
  Postfix p = {.cx = cx};
  postfix(&p, d);
  *count = p.ops.len;
  return p.failed ? NULL : p.ops.at;
}
