/* Prints sizes in readable form.  Main entry point: dim_print.
 *
 * Some normal forms are undone for readability:
 *   n - d*(n/d)         prints  n % d
 *   (h + 1)/2 - 2       prints  (h - 3)/2
 *   min(n, m + 1) - 1   prints  min(n - 1, m)
 * Added terms come first, then subtracted ones.  Constants come last, unless
 * the result would start with a minus: 3 - n. */
#include "internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/vec.h"

#include <stdlib.h>

typedef enum PrintContext {
  IN_SUM,      /* no parentheses needed */
  IN_QUOTIENT, /* left of `/` or `%` */
  IN_PRODUCT,  /* a factor, or right of `/` */
} PrintContext;

/* A coefficient times one of: a monomial, num % den, or an atom with modified
   operands. */
typedef struct PrintTerm {
  BigInt coef;
  const Monomial *mono; /* also defines the order */
  const Atom *atom;     /* printed with args; may be NULL */
  bool mod;
  Dim **args;
} PrintTerm;

typedef struct PrintTerms {
  DimCtx *cx;
  Dim *remaining; /* the part that no item covers yet */
  VEC(PrintTerm) all;
} PrintTerms;

const char *dim_var_name(DimCtx *cx, const DimVar *var) {
  if (var->printed_name && *var->printed_name)
    return var->printed_name;
  return var->name ? var->name->text : arena_printf(cx->arena, "n%u", var->id);
}

/* ---- undoing the normal form ---- */

/* Moves k*(num - den*atom) from the rest to an item, if the rest contains it
   exactly.  Constants may differ, unless num is a constant. */
static void extract_remainder(PrintTerms *items, const Term *term,
                              const Atom *atom) {
  DimCtx *cx = items->cx;
  Dim *num = atom->args[0], *den = atom->args[1];
  Dim *mod = dim_sub(cx, num, dim_mul(cx, den, atom->dim));
  BigInt lead = dim_coef_of(mod, term->mono), k, r;
  if (!bigint_sign(lead))
    return;
  bigint_divide(cx, term->coef, lead, &k, &r);
  if (bigint_sign(r) || !bigint_sign(k))
    return;
  for (uint32_t i = 0; i < mod->term_count; i++) {
    BigInt there = dim_coef_of(items->remaining, mod->terms[i].mono);
    bool free = !mod->terms[i].mono->power_count && !dim_is_const(num);
    if (!free && bigint_cmp(there, bigint_mul(cx, mod->terms[i].coef, k)))
      return;
  }
  items->remaining = dim_sub(cx, items->remaining, dim_scale(cx, mod, k));
  const Monomial *place = num->terms[0].mono;
  PrintTerm item = {.coef = k, .mono = place, .mod = true, .args = atom->args};
  VEC_PUSH(cx->arena, items->all, item);
}

/* True if absorbing k*mono into the operands of an atom improves
   readability. */
static bool absorbing_reads_better(const Atom *atom, BigInt k,
                                   const Monomial *mono) {
  if (atom->kind == ATOM_DIV) {
    BigInt there = dim_coef_of(atom->args[0], mono);
    return bigint_sign(there) * bigint_sign(k) < 0;
  }
  int more = -1;
  bool opposite = false;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    BigInt there = dim_coef_of(atom->args[i], mono);
    opposite |= bigint_sign(there) * bigint_sign(k) < 0;
    if (!bigint_sign(there))
      more++;
    else if (!there.limbs && !k.limbs && there.small == -k.small)
      more--;
  }
  return opposite && more <= 0;
}

/* Moves the term sign*atom to an item, together with the terms that its
   operands absorb. */
static void absorb_into_atom(PrintTerms *items, const Term *term,
                             const Atom *atom) {
  DimCtx *cx = items->cx;
  BigInt sign = term->coef;
  uint32_t count = atom->arg_count;
  Dim **args = NEW_ARRAY(cx->arena, Dim *, count);
  for (uint32_t i = 0; i < count; i++)
    args[i] = atom->args[i];
  Dim *rest = items->remaining;
  bool any = false;
  for (uint32_t i = 0; i < items->remaining->term_count; i++) {
    const Term *other = &items->remaining->terms[i];
    BigInt k = bigint_mul(cx, other->coef, sign);
    if (other->mono == term->mono ||
        !absorbing_reads_better(atom, k, other->mono))
      continue;
    Dim *part = dim_of_term(cx, other->coef, other->mono);
    rest = dim_sub(cx, rest, part);
    part = dim_scale(cx, part, sign);
    for (uint32_t j = 0; j < (atom->kind == ATOM_DIV ? 1 : count); j++)
      args[j] =
          dim_add(cx, args[j],
                  atom->kind == ATOM_DIV ? dim_mul(cx, part, args[1]) : part);
    any = true;
  }
  if (!any)
    return;
  items->remaining = dim_sub(cx, rest, dim_of_term(cx, term->coef, term->mono));
  PrintTerm item = {
      .coef = sign, .mono = term->mono, .atom = atom, .args = args};
  VEC_PUSH(cx->arena, items->all, item);
}

static void extract_remainders(PrintTerms *items) {
  Dim *d = items->remaining; /* items->remaining changes below */
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Monomial *mono = d->terms[i].mono;
    if (!bigint_sign(dim_coef_of(items->remaining, mono)))
      continue;
    for (uint32_t j = 0; j < mono->power_count; j++)
      if (mono->powers[j].atom->kind == ATOM_DIV && mono->powers[j].exp == 1) {
        extract_remainder(items, &d->terms[i], mono->powers[j].atom);
        break;
      }
  }
}

static void absorb_into_atoms(PrintTerms *items) {
  Dim *d = items->remaining;
  for (uint32_t i = 0; i < d->term_count; i++) {
    const Term *term = &d->terms[i];
    if (term->mono->degree != 1 ||
        (!bigint_is(term->coef, 1) && !bigint_is(term->coef, -1)))
      continue;
    const Atom *atom = term->mono->powers[0].atom;
    bool constant = atom->kind == ATOM_DIV && dim_is_const(atom->args[1]) &&
                    dim_sign(atom->args[1]) > 0 && bigint_is(term->coef, 1);
    if (constant || atom->kind == ATOM_MIN || atom->kind == ATOM_MAX)
      absorb_into_atom(items, term, atom);
  }
}

static int print_term_group(const PrintTerm *item) {
  if (!item->mono->power_count)
    return 2;
  return bigint_sign(item->coef) < 0;
}

static int print_term_cmp(const void *a, const void *b) {
  const PrintTerm *x = a, *y = b;
  int gx = print_term_group(x), gy = print_term_group(y);
  return gx != gy ? gx - gy : dim_monomial_cmp(x->mono, y->mono);
}

static void sort_print_terms(PrintTerm *at, uint32_t n) {
  uint32_t sorted = 1;
  while (sorted < n && print_term_cmp(&at[sorted - 1], &at[sorted]) <= 0)
    sorted++;
  if (sorted < n)
    qsort(at, n, sizeof *at, print_term_cmp);
}

static void split_print_terms(PrintTerms *items, DimCtx *cx, Dim *d) {
  *items = (PrintTerms){.cx = cx, .remaining = d};
  extract_remainders(items);
  absorb_into_atoms(items);
  for (uint32_t i = 0; i < items->remaining->term_count; i++) {
    PrintTerm item = {items->remaining->terms[i].coef,
                      items->remaining->terms[i].mono, NULL, false, NULL};
    VEC_PUSH(cx->arena, items->all, item);
  }
  sort_print_terms(items->all.at, items->all.len);
  /* "3 - n": a positive constant comes first if no other positive term
     exists. */
  PrintTerm *at = items->all.at;
  uint32_t n = items->all.len;
  if (n > 1 && bigint_sign(at[0].coef) < 0 && bigint_sign(at[n - 1].coef) > 0) {
    PrintTerm last = at[n - 1];
    for (uint32_t i = n - 1; i; i--)
      at[i] = at[i - 1];
    at[0] = last;
  }
}

/* ---- text ---- */

static void print_in_context(DimCtx *cx, Buffer *out, Dim *d,
                             PrintContext where);

static void print_call(DimCtx *cx, Buffer *out, const Atom *atom, Dim **args) {
  buffer_puts(out, atom->kind == ATOM_MIN ? "min(" : "max(");
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    if (i)
      buffer_puts(out, ", ");
    print_in_context(cx, out, args[i], IN_SUM);
  }
  buffer_putc(out, ')');
}

static void print_atom(DimCtx *cx, Buffer *out, const Atom *atom, Dim **args,
                       PrintContext where) {
  switch (atom->kind) {
  case ATOM_VAR:
    buffer_puts(out, dim_var_name(cx, atom->var));
    return;
  case ATOM_PROD:
    buffer_printf(out, "prod(%s)",
                  cx->shape_name ? cx->shape_name(cx->owner, atom->shape)
                                 : "s");
    return;
  case ATOM_MIN:
  case ATOM_MAX:
    print_call(cx, out, atom, args);
    return;
  case ATOM_DIV:
    buffer_puts(out, where == IN_PRODUCT ? "(" : "");
    print_in_context(cx, out, args[0], IN_QUOTIENT);
    buffer_putc(out, '/');
    print_in_context(cx, out, args[1], IN_PRODUCT);
    buffer_puts(out, where == IN_PRODUCT ? ")" : "");
    return;
  }
}

static uint32_t print_term_factors(const PrintTerm *item) {
  bool factor = !bigint_is(item->coef, 1) && !bigint_is(item->coef, -1);
  if (item->mod || item->atom)
    return 1 + factor;
  return item->mono->degree + (factor || !item->mono->power_count);
}

/* Prints a term without its sign. */
static void print_term(DimCtx *cx, Buffer *out, const PrintTerm *item,
                       PrintContext where) {
  BigInt coef = bigint_abs(cx, item->coef);
  bool first = bigint_is(coef, 1) && (item->mod || item->mono->power_count);
  if (print_term_factors(item) > 1)
    where = IN_PRODUCT;
  if (!first)
    buffer_puts(out, bigint_text(cx, coef));
  if (!first && (item->mod || item->mono->power_count))
    buffer_putc(out, '*');
  if (item->mod) {
    buffer_puts(out, where == IN_SUM ? "" : "(");
    print_in_context(cx, out, item->args[0], IN_QUOTIENT);
    buffer_puts(out, " % ");
    print_in_context(cx, out, item->args[1], IN_PRODUCT);
    buffer_puts(out, where == IN_SUM ? "" : ")");
    return;
  }
  if (item->atom) {
    print_atom(cx, out, item->atom, item->args, where);
    return;
  }
  first = true;
  for (uint32_t i = 0; i < item->mono->power_count; i++)
    for (uint32_t e = 0; e < item->mono->powers[i].exp; e++) {
      buffer_puts(out, first ? "" : "*");
      first = false;
      const Atom *atom = item->mono->powers[i].atom;
      print_atom(cx, out, atom, atom->args, where);
    }
}

static bool needs_parens(const PrintTerms *items, PrintContext where) {
  if (where == IN_SUM || !items->all.len)
    return false;
  const PrintTerm *item = &items->all.at[0];
  if (items->all.len > 1 || bigint_sign(item->coef) < 0)
    return true;
  return where == IN_PRODUCT && print_term_factors(item) > 1;
}

/* Prints a product of factors, such as n*(h - 1)*(w + 2), if the sum
   factors. */
static bool print_product(DimCtx *cx, Buffer *out, Dim *d, PrintContext where) {
  Dim *factors[DIM_MAX_FACTORS], *lead = dim_int(cx, 1);
  uint32_t count = d->term_count > 1 ? dim_factor(cx, d, factors) : 0, sums = 0;
  for (uint32_t i = 0; i < count; i++)
    if (factors[i]->term_count > 1)
      factors[sums++] = factors[i];
    else
      lead = dim_mul(cx, lead, factors[i]);
  if (sums + !dim_is_const(lead) < 2 || bigint_sign(lead->terms[0].coef) < 0)
    return false;
  int64_t one;
  bool alone = dim_is_int(lead, &one) && one == 1;
  buffer_puts(out, where == IN_PRODUCT ? "(" : "");
  if (!alone)
    print_in_context(cx, out, lead, IN_QUOTIENT);
  for (uint32_t i = 0; i < sums; i++) {
    buffer_puts(out, i || !alone ? "*" : "");
    print_in_context(cx, out, factors[i], IN_PRODUCT);
  }
  buffer_puts(out, where == IN_PRODUCT ? ")" : "");
  return true;
}

static void print_in_context(DimCtx *cx, Buffer *out, Dim *d,
                             PrintContext where) {
  const DimVar *var = dim_as_var(d);
  if (var || (dim_is_const(d) && dim_sign(d) >= 0)) { /* most sizes */
    buffer_puts(out, var ? dim_var_name(cx, var)
                         : bigint_text(cx, dim_constant_term(d)));
    return;
  }
  if (print_product(cx, out, d, where))
    return;
  PrintTerms items;
  split_print_terms(&items, cx, d);
  bool parens = needs_parens(&items, where);
  uint32_t count = items.all.len;
  buffer_puts(out, parens ? "(" : count ? "" : "0");
  for (uint32_t i = 0; i < count; i++) {
    const PrintTerm *item = &items.all.at[i];
    bool minus = bigint_sign(item->coef) < 0;
    buffer_puts(out, minus ? (i ? " - " : "-") : i ? " + " : "");
    PrintContext around = parens || count > 1 ? IN_SUM : where;
    print_term(cx, out, item, minus && !i ? IN_PRODUCT : around);
  }
  buffer_puts(out, parens ? ")" : "");
}

void dim_print(DimCtx *cx, Buffer *out, const Dim *d) {
  print_in_context(cx, out, dim_resolve(cx, (Dim *)d), IN_SUM);
}
