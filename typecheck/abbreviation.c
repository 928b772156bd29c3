/* Abbreviations of types whose meaning is the same wherever they stand, but for
 * the sizes that they are given: it is kept, and copied with those, so that a
 * long row of them costs what it says and no more. */
#include "typecheck/internal.h"

/* Made of the parameters alone.  One that divides may be in error at some
 * sizes. */
static bool is_plain_dim(const Dec *dec, const DimExpr *d) {
  switch (d->kind) {
  case DX_NUM:
    return true;
  case DX_ID:
    for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++)
      if (dec->axes.at[i].kind == AXIS_DIM &&
          dec->axes.at[i].dim->kind == DX_ID &&
          dec->axes.at[i].dim->id == d->id)
        return true;
    return false;
  case DX_NEG:
    return is_plain_dim(dec, d->arg[0]);
  case DX_BIN:
    return d->op != '/' && d->op != '%' && is_plain_dim(dec, d->arg[0]) &&
           is_plain_dim(dec, d->arg[1]);
  case DX_SOME:
  case DX_HOLE:
  case DX_CALL:
  case DX_SHAPE:
    return false;
  }
  return false;
}

static bool is_plain_name(Checker *c, const Dec *dec, const TypeExpr *t) {
  if (t->arg_count)
    return false;
  for (uint32_t i = 0; t->has_axes && i < t->axes.len; i++)
    if (t->axes.at[i].kind != AXIS_DIM ||
        !is_plain_dim(dec, t->axes.at[i].dim))
      return false;
  if (!t->name.module && dtype_named(t->name.id->text) != DT_NONE)
    return true;
  TypeName *n = lookup_type(c, t->name.module, t->name.id);
  return n && (n->data || n->template);
}

static bool is_plain(Checker *c, const Dec *dec, const TypeExpr *t) {
  bool plain = true;
  switch (t->kind) {
  case TX_NAME:
    return is_plain_name(c, dec, t);
  case TX_FUN:
    return is_plain(c, dec, t->arg[0]) && is_plain(c, dec, t->arg[1]);
  case TX_TUPLE:
    for (uint32_t i = 0; i < t->arg_count && plain; i++)
      plain = is_plain(c, dec, t->args[i]);
    return plain;
  case TX_RECORD:
    plain = !t->open;
    for (uint32_t i = 0; i < t->field_count && plain; i++)
      plain = is_plain(c, dec, t->fields[i].type);
    return plain;
  case TX_VAR:
  case TX_CALL:
  case TX_LIFT:
  case TX_HOLE:
    return false;
  }
  return false;
}

void template_keep(Checker *c, TypeName *n, Type *t, Dim **sizes) {
  if (n->failed || n->dec->tyvar_count || !is_plain(c, n->dec, n->dec->type))
    return;
  n->template = t;
  n->sizes = sizes;
}

static void is_data(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_DATA;
}

static Dim *given_size(Copy *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

static bool same_sizes(Checker *c, uint32_t n, Dim *const *a, Dim *const *b) {
  for (uint32_t i = 0; i < n; i++)
    if (!dim_equal(dim_resolve(c->dims, a[i]), dim_resolve(c->dims, b[i])))
      return false;
  return true;
}

Type *template_at(Checker *c, TypeName *n, Dim **sizes) {
  if (!n->template)
    return NULL;
  uint32_t count = n->dec->has_axes ? n->dec->axes.len : 0;
  if (n->last && same_sizes(c, count, n->at, sizes))
    return n->last;
  Copy copy = {.c = c, .dim = given_size, .share = true};
  map_init(&copy.map, c->arena);
  bool data = false;
  for (uint32_t i = 0; i < count; i++) {
    dim_each_var(dim_resolve(c->dims, sizes[i]), is_data, NULL, &data);
    if (n->sizes[i])
      map_put(&copy.map, dim_as_var(n->sizes[i]), sizes[i]);
  }
  if (data)
    return NULL;
  n->at = sizes;
  return n->last = ty_copy(&copy, n->template);
}
