/* Caches expansions of type aliases.  If the meaning of an alias depends only
   on its size parameters, its expansion is stored and copied with other sizes.
   So long chains of aliases stay cheap. */
#include "typecheck/internal.h"
#include "support/intern.h"

/* True if the size depends only on the parameters.  A division does not count,
   since it may be an error for some sizes. */
static bool is_closed_dim(const Dec *dec, const DimExpr *d) {
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
    return is_closed_dim(dec, d->arg[0]);
  case DX_BIN:
    return d->op != '/' && d->op != '%' && is_closed_dim(dec, d->arg[0]) &&
           is_closed_dim(dec, d->arg[1]);
  case DX_EXISTENTIAL:
  case DX_HOLE:
  case DX_CALL:
  case DX_SHAPE:
    return false;
  }
  return false;
}

static bool is_closed_name(Checker *c, const Dec *dec, const TypeExpr *t) {
  if (t->arg_count)
    return false;
  for (uint32_t i = 0; t->has_axes && i < t->axes.len; i++)
    if (t->axes.at[i].kind != AXIS_DIM ||
        !is_closed_dim(dec, t->axes.at[i].dim))
      return false;
  if (!t->name.module && dtype_by_name(t->name.id->text) != DT_NONE)
    return true;
  TypeName *n = lookup_type(c, t->name.module, t->name.id);
  return n && (n->data || n->expansion);
}

static bool is_closed_type(Checker *c, const Dec *dec, const TypeExpr *t) {
  bool plain = true;
  switch (t->kind) {
  case TX_NAME:
    return is_closed_name(c, dec, t);
  case TX_FUN:
    return is_closed_type(c, dec, t->arg[0]) &&
           is_closed_type(c, dec, t->arg[1]);
  case TX_TUPLE:
    for (uint32_t i = 0; i < t->arg_count && plain; i++)
      plain = is_closed_type(c, dec, t->args[i]);
    return plain;
  case TX_RECORD:
    plain = !t->is_open;
    for (uint32_t i = 0; i < t->field_count && plain; i++)
      plain = is_closed_type(c, dec, t->fields[i].type);
    return plain;
  case TX_VAR:
  case TX_CALL:
  case TX_LIFT:
  case TX_HOLE:
    return false;
  }
  return false;
}

void alias_save_expansion(Checker *c, TypeName *n, Type *t, Dim **sizes) {
  if (n->has_error || n->dec->tyvar_count ||
      !is_closed_type(c, n->dec, n->dec->type))
    return;
  n->expansion = t;
  n->expansion_params = sizes;
}

static void note_existential(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_EXISTENTIAL;
}

static Dim *param_size(TypeMapper *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

static bool same_sizes(Checker *c, uint32_t n, Dim *const *a, Dim *const *b) {
  for (uint32_t i = 0; i < n; i++)
    if (!dim_equal(dim_resolve(c->dims, a[i]), dim_resolve(c->dims, b[i])))
      return false;
  return true;
}

Type *alias_expansion_at(Checker *c, TypeName *n, Dim **sizes) {
  if (!n->expansion)
    return NULL;
  uint32_t count = n->dec->has_axes ? n->dec->axes.len : 0;
  if (n->last_expansion && same_sizes(c, count, n->last_args, sizes))
    return n->last_expansion;
  TypeMapper copy = {.c = c, .dim = param_size, .share_aliases = true};
  map_init(&copy.map, c->arena);
  bool data = false;
  for (uint32_t i = 0; i < count; i++) {
    dim_each_var(dim_resolve(c->dims, sizes[i]), note_existential, NULL, &data);
    if (n->expansion_params[i])
      map_put(&copy.map, dim_as_var(n->expansion_params[i]), sizes[i]);
  }
  if (data)
    return NULL;
  n->last_args = sizes;
  return n->last_expansion = ty_copy(&copy, n->expansion);
}
