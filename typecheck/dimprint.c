/* Sizes as a person writes them.
 *
 * The normal form is undone where that reads better:
 *   n - d*(n/d)         prints  n % d
 *   (h + 1)/2 - 2       prints  (h - 3)/2
 *   min(n, m + 1) - 1   prints  min(n - 1, m)
 * Added terms come first, then subtracted ones; constants come last, except
 * where that would start with a minus: 3 - n. */
#include "diminternal.h"

#include <stdlib.h>

typedef enum Context { /* what stands around an expression */
  IN_SUM,              /* nothing that binds */
  IN_QUOTIENT,         /* left of `/` or `%` */
  IN_PRODUCT,          /* a factor, or right of `/` */
} Context;

/* coef times: a monomial; or num % den; or an atom with other operands. */
typedef struct Item {
  Num coef;
  const Mono *mono; /* also the place in the order */
  const Atom *atom; /* printed with args, or NULL */
  bool mod;
  Dim **args;
} Item;

typedef struct Items {
  DimCtx *cx;
  Dim *rest; /* what no item holds yet */
  VEC(Item) all;
} Items;

const char *dim_var_name(DimCtx *cx, const DimVar *var) {
  if (var->text)
    return var->text;
  return var->name ? var->name->text : arena_printf(cx->arena, "n%u", var->id);
}

/* ---- undoing the normal form ---- */

/* Moves k*(num - den*atom) from the rest to an item, if it is there exactly;
 * constants may differ, unless num is one. */
static void take_mod(Items *items, const Term *term, const Atom *atom) {
  DimCtx *cx = items->cx;
  Dim *num = atom->args[0], *den = atom->args[1];
  Dim *mod = dim_sub(cx, num, dim_mul(cx, den, atom->dim));
  Num lead = dim_coef(mod, term->mono), k, r;
  if (!num_sign(lead))
    return;
  num_divide(cx, term->coef, lead, &k, &r);
  if (num_sign(r) || !num_sign(k))
    return;
  for (uint32_t i = 0; i < mod->count; i++) {
    Num there = dim_coef(items->rest, mod->at[i].mono);
    bool free = !mod->at[i].mono->count && !dim_is_const(num);
    if (!free && num_cmp(there, num_mul(cx, mod->at[i].coef, k)))
      return;
  }
  items->rest = dim_sub(cx, items->rest, dim_scale(cx, mod, k));
  const Mono *place = num->at[0].mono;
  Item item = {.coef = k, .mono = place, .mod = true, .args = atom->args};
  VEC_PUSH(cx->arena, items->all, item);
}

/* Whether absorbing k*mono into the operands of an atom reads better. */
static bool absorbs(const Atom *atom, Num k, const Mono *mono) {
  if (atom->kind == AT_DIV) {
    Num there = dim_coef(atom->args[0], mono);
    return num_sign(there) * num_sign(k) < 0;
  }
  int more = -1;
  bool opposite = false;
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    Num there = dim_coef(atom->args[i], mono);
    opposite |= num_sign(there) * num_sign(k) < 0;
    if (!num_sign(there))
      more++;
    else if (!there.limbs && !k.limbs && there.small == -k.small)
      more--;
  }
  return opposite && more <= 0;
}

/* Takes the term sign*atom and those terms that may go under its operands. */
static void take_atom(Items *items, const Term *term, const Atom *atom) {
  DimCtx *cx = items->cx;
  Num sign = term->coef;
  uint32_t count = atom->arg_count;
  Dim **args = NEW_ARRAY(cx->arena, Dim *, count);
  for (uint32_t i = 0; i < count; i++)
    args[i] = atom->args[i];
  Dim *rest = items->rest;
  bool any = false;
  for (uint32_t i = 0; i < items->rest->count; i++) {
    const Term *other = &items->rest->at[i];
    Num k = num_mul(cx, other->coef, sign);
    if (other->mono == term->mono || !absorbs(atom, k, other->mono))
      continue;
    Dim *part = dim_of_term(cx, other->coef, other->mono);
    rest = dim_sub(cx, rest, part);
    part = dim_scale(cx, part, sign);
    for (uint32_t j = 0; j < (atom->kind == AT_DIV ? 1 : count); j++)
      args[j] = dim_add(cx, args[j], atom->kind == AT_DIV
                                         ? dim_mul(cx, part, args[1])
                                         : part);
    any = true;
  }
  if (!any)
    return;
  items->rest =
      dim_sub(cx, rest, dim_of_term(cx, term->coef, term->mono));
  Item item = {.coef = sign, .mono = term->mono, .atom = atom, .args = args};
  VEC_PUSH(cx->arena, items->all, item);
}

static void take_mods(Items *items) {
  Dim *d = items->rest; /* items->rest changes below */
  for (uint32_t i = 0; i < d->count; i++) {
    const Mono *mono = d->at[i].mono;
    if (!num_sign(dim_coef(items->rest, mono)))
      continue;
    for (uint32_t j = 0; j < mono->count; j++)
      if (mono->at[j].atom->kind == AT_DIV && mono->at[j].exp == 1) {
        take_mod(items, &d->at[i], mono->at[j].atom);
        break;
      }
  }
}

static void take_atoms(Items *items) {
  Dim *d = items->rest;
  for (uint32_t i = 0; i < d->count; i++) {
    const Term *term = &d->at[i];
    if (term->mono->degree != 1 ||
        (!num_is(term->coef, 1) && !num_is(term->coef, -1)))
      continue;
    const Atom *atom = term->mono->at[0].atom;
    bool constant = atom->kind == AT_DIV && dim_is_const(atom->args[1]) &&
                    dim_sign(atom->args[1]) > 0 && num_is(term->coef, 1);
    if (constant || atom->kind == AT_MIN || atom->kind == AT_MAX)
      take_atom(items, term, atom);
  }
}

static int item_group(const Item *item) {
  if (!item->mono->count)
    return 2;
  return num_sign(item->coef) < 0;
}

static int item_order(const void *a, const void *b) {
  const Item *x = a, *y = b;
  int gx = item_group(x), gy = item_group(y);
  return gx != gy ? gx - gy : dim_mono_cmp(x->mono, y->mono);
}

static void items_of(Items *items, DimCtx *cx, Dim *d) {
  *items = (Items){.cx = cx, .rest = d};
  take_mods(items);
  take_atoms(items);
  for (uint32_t i = 0; i < items->rest->count; i++) {
    Item item = {items->rest->at[i].coef, items->rest->at[i].mono, NULL, false,
                 NULL};
    VEC_PUSH(cx->arena, items->all, item);
  }
  if (items->all.len > 1)
    qsort(items->all.at, items->all.len, sizeof *items->all.at, item_order);
  /* "3 - n": a positive constant leads where nothing else can. */
  Item *at = items->all.at;
  uint32_t n = items->all.len;
  if (n > 1 && num_sign(at[0].coef) < 0 && num_sign(at[n - 1].coef) > 0) {
    Item last = at[n - 1];
    for (uint32_t i = n - 1; i; i--)
      at[i] = at[i - 1];
    at[0] = last;
  }
}

/* ---- text ---- */

static void print(DimCtx *cx, Buffer *out, Dim *d, Context where);

static void print_call(DimCtx *cx, Buffer *out, const Atom *atom, Dim **args) {
  buffer_puts(out, atom->kind == AT_MIN ? "min(" : "max(");
  for (uint32_t i = 0; i < atom->arg_count; i++) {
    if (i)
      buffer_puts(out, ", ");
    print(cx, out, args[i], IN_SUM);
  }
  buffer_putc(out, ')');
}

static void print_atom(DimCtx *cx, Buffer *out, const Atom *atom, Dim **args,
                       Context where) {
  switch (atom->kind) {
  case AT_VAR:
    buffer_puts(out, dim_var_name(cx, atom->var));
    return;
  case AT_PROD:
    buffer_printf(out, "prod(%s)",
                  cx->shape_name ? cx->shape_name(cx->owner, atom->shape)
                                 : "s");
    return;
  case AT_MIN:
  case AT_MAX:
    print_call(cx, out, atom, args);
    return;
  case AT_DIV:
    buffer_puts(out, where == IN_PRODUCT ? "(" : "");
    print(cx, out, args[0], IN_QUOTIENT);
    buffer_putc(out, '/');
    print(cx, out, args[1], IN_PRODUCT);
    buffer_puts(out, where == IN_PRODUCT ? ")" : "");
    return;
  }
}

static uint32_t item_factors(const Item *item) {
  bool factor = !num_is(item->coef, 1) && !num_is(item->coef, -1);
  if (item->mod || item->atom)
    return 1 + factor;
  return item->mono->degree + (factor || !item->mono->count);
}

/* Without its sign. */
static void print_item(DimCtx *cx, Buffer *out, const Item *item,
                       Context where) {
  Num coef = num_abs(cx, item->coef);
  bool first = num_is(coef, 1) && (item->mod || item->mono->count);
  if (item_factors(item) > 1)
    where = IN_PRODUCT;
  if (!first)
    buffer_puts(out, num_text(cx, coef));
  if (!first && (item->mod || item->mono->count))
    buffer_putc(out, '*');
  if (item->mod) {
    buffer_puts(out, where == IN_SUM ? "" : "(");
    print(cx, out, item->args[0], IN_QUOTIENT);
    buffer_puts(out, " % ");
    print(cx, out, item->args[1], IN_PRODUCT);
    buffer_puts(out, where == IN_SUM ? "" : ")");
    return;
  }
  if (item->atom) {
    print_atom(cx, out, item->atom, item->args, where);
    return;
  }
  first = true;
  for (uint32_t i = 0; i < item->mono->count; i++)
    for (uint32_t e = 0; e < item->mono->at[i].exp; e++) {
      buffer_puts(out, first ? "" : "*");
      first = false;
      const Atom *atom = item->mono->at[i].atom;
      print_atom(cx, out, atom, atom->args, where);
    }
}

static bool wants_parens(const Items *items, Context where) {
  if (where == IN_SUM || !items->all.len)
    return false;
  const Item *item = &items->all.at[0];
  if (items->all.len > 1 || num_sign(item->coef) < 0)
    return true;
  return where == IN_PRODUCT && item_factors(item) > 1;
}

/* n*(h - 1)*(w + 2), where the sum is such a product. */
static bool print_product(DimCtx *cx, Buffer *out, Dim *d, Context where) {
  Dim *factors[DIM_FACTORS], *lead = dim_int(cx, 1);
  uint32_t count = d->count > 1 ? dim_factor(cx, d, factors) : 0, sums = 0;
  for (uint32_t i = 0; i < count; i++)
    if (factors[i]->count > 1)
      factors[sums++] = factors[i];
    else
      lead = dim_mul(cx, lead, factors[i]);
  if (sums + !dim_is_const(lead) < 2 || num_sign(lead->at[0].coef) < 0)
    return false;
  int64_t one;
  bool alone = dim_is_int(lead, &one) && one == 1;
  buffer_puts(out, where == IN_PRODUCT ? "(" : "");
  if (!alone)
    print(cx, out, lead, IN_QUOTIENT);
  for (uint32_t i = 0; i < sums; i++) {
    buffer_puts(out, i || !alone ? "*" : "");
    print(cx, out, factors[i], IN_PRODUCT);
  }
  buffer_puts(out, where == IN_PRODUCT ? ")" : "");
  return true;
}

static void print(DimCtx *cx, Buffer *out, Dim *d, Context where) {
  if (print_product(cx, out, d, where))
    return;
  Items items;
  items_of(&items, cx, d);
  bool parens = wants_parens(&items, where);
  uint32_t count = items.all.len;
  buffer_puts(out, parens ? "(" : count ? "" : "0");
  for (uint32_t i = 0; i < count; i++) {
    const Item *item = &items.all.at[i];
    bool minus = num_sign(item->coef) < 0;
    buffer_puts(out, minus ? (i ? " - " : "-") : i ? " + " : "");
    Context around = parens || count > 1 ? IN_SUM : where;
    print_item(cx, out, item, minus && !i ? IN_PRODUCT : around);
  }
  buffer_puts(out, parens ? ")" : "");
}

void dim_print(DimCtx *cx, Buffer *out, const Dim *d) {
  print(cx, out, dim_resolve(cx, (Dim *)d), IN_SUM);
}
