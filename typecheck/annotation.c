/* Annotations: reads types as the user or the table of primitives writes
   them. */
#include "typecheck/annotation.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

static Scope *find_annotated_name(Checker *c, Sym *name, bool shape) {
  for (Scope *s = scope_find(c->names.scope, name); s;
       s = scope_find(s->outer, name))
    if (shape ? s->shape != NULL : s->dim || s->binding)
      return s;
  return NULL;
}

static Scope *push_name(Checker *c, Sym *name) {
  return scope_push(c, name, NULL);
}

/* ---- sizes ---- */

/* Records a hole.  Its size or type is reported at the end.  A syntax error was
   reported. */
static void note_hole(Checker *c, TypedHole hole, bool is_error) {
  c->inference.meets_error |= is_error;
  if (!is_error && !c->names.module->library)
    VEC_PUSH(c->arena, c->notes.typed_holes, hole);
}

static Dim *new_size(Checker *c, Sym *name, Span span, AnnotMode mode) {
  Dim *d = meta_dim(c, name, span);
  DimVar *v = dim_as_var(d);
  if (mode == ANNOT_PARAM || mode == ANNOT_SCHEME)
    v->kind = DV_SKOLEM;
  if (mode == ANNOT_SCHEME)
    v->level = LEVEL_GENERIC;
  push_name(c, name)->dim = d;
  return d;
}

/* True if a value of this type may be a size. */
static bool may_be_size(Checker *c, Type *t) {
  if (t->tag == TY_VAR)
    return !t->var->skolem;
  return t->tag == TY_TENSOR &&
         elem_root(t->tensor.elem)->classes & CLASS_INT &&
         !shape_min_rank(shape_norm(c, t->tensor.shape));
}

/* Reports a name that denotes a value of another kind, for example a parameter
   with the name of a size. */
static void error_not_a_size(Checker *c, const Binding *b, Type *t, Span span) {
  Diag *d = error_at(c, 374, span, "`%s` is not a size here: it is %s",
                     b->name->text, ty_text(c, t));
  diag_add_label(c->arena, d, b->span, "the value");
  for (Scope *s = c->names.scope; s; s = s->outer)
    if (s->name == b->name && s->dim) {
      if (dim_as_var(s->dim))
        diag_add_label(c->arena, d, dim_as_var(s->dim)->origin,
                       "the size that it hides");
      d->help = "rename one of them";
      return;
    }
}

/* The size that a name in scope denotes: a size of an annotation, or the value
   of an integer. */
static Dim *size_of_binding(Checker *c, Binding *b, Span span) {
  if (b->kind == BK_SIZE)
    return b->dim;
  Type *t = b->scheme ? ty_norm(c, b->scheme->type) : NULL;
  Dim *singleton = t ? ty_singleton(c, t) : NULL;
  if (singleton)
    return t->tensor.singleton;
  if (t && !may_be_size(c, t)) {
    error_not_a_size(c, b, t, span);
    Dim *d = meta_dim(c, NULL, span); /* from here on it is a size: one error */
    push_name(c, b->name)->dim = d;
    return d;
  }
  if (!b->value.size_var) {
    Dim *d = existential_dim(c, b->name, span);
    b->value.size_var = dim_as_var(d);
    b->value.size_var->level = c->inference.level;
    b->value.size_var->is_integer = true;
    if (t && t->tag == TY_VAR && !t->var->skolem) {
      Dim *meta = meta_integer(c, span);
      Type *i = ty_int(c, meta);
      unify(c, t, i, origin_new(c, ORIGIN_ANNOTATION, span));
      b->value.size_var = NULL;
      return meta;
    }
  }
  if (b->value.var && b->value.var->global)
    VEC_PUSH(c->arena, c->sizes.bindings, b);
  return dim_of_var(c->dims, b->value.size_var);
}

static Dim *annot_size_function(Checker *c, DimExpr *d, AnnotMode mode) {
  bool min = strcmp(d->id->text, "min") == 0;
  if (min || strcmp(d->id->text, "max") == 0) {
    Dim *r = NULL;
    for (uint32_t i = 0; i < d->axes.len; i++) {
      if (d->axes.at[i].kind != AXIS_DIM)
        continue;
      Dim *x = annot_dim(c, d->axes.at[i].dim, mode);
      r = !r ? x : min ? dim_min(c->dims, r, x) : dim_max(c->dims, r, x);
    }
    if (r)
      return r;
  } else if (strcmp(d->id->text, "prod") == 0 && d->axes.len == 1) {
    AxisExpr *a = &d->axes.at[0];
    if (a->kind == AXIS_DIM && a->dim->kind == DX_ID) {
      AxisExpr splice = {
          .kind = AXIS_SPLICE, .span = a->span, .id = a->dim->id};
      return shape_product(c, annot_axes(c, (Axes){&splice, 1}, mode));
    }
    return shape_product(c, annot_axes(c, d->axes, mode));
  }
  error_at(c, 340, d->span, "there is no size function `%s`", d->id->text)
      ->help = "size functions: min(n, m), max(n, m), prod(s)";
  return meta_dim(c, NULL, d->span);
}

/* Warns if a parameter's size has the name of a number of the program. */
static void warn_hidden_number(Checker *c, const DimExpr *d, AnnotMode mode) {
  Binding *b = c->names.module && !c->names.module->library
                   ? lookup_in(c, c->names.module, d->id)
                   : NULL;
  if (mode != ANNOT_PARAM || !b || b->kind != BK_VALUE || !b->scheme)
    return;
  Type *t = ty_norm(c, b->scheme->type);
  Dim *value =
      ty_singleton(c, t) ? dim_resolve(c->dims, t->tensor.singleton) : NULL;
  if (!value || !dim_is_const(value))
    return;
  Diag *w = warning_at(c, 409, d->span,
                       "the size `%s` of this parameter may be any size, not "
                       "only the value %s",
                       d->id->text, dim_to_text(c, value));
  diag_add_label(c->arena, w, b->span, "the value");
  w->help = "rename the size; to require the value, write its number";
}

static Dim *annot_size_name(Checker *c, DimExpr *d, AnnotMode mode) {
  Scope *s = find_annotated_name(c, d->id, false);
  if (s && s->dim)
    return s->dim;
  if (s)
    return size_of_binding(c, s->binding, d->span);
  if (mode == ANNOT_VAL) { /* in other modes it is a new name */
    Binding *b = c->names.module ? lookup_in(c, c->names.module, d->id) : NULL;
    if (b && b->kind == BK_SIZE)
      return b->dim;
    if (b && b->kind == BK_VALUE && b->scheme && !b->module->library &&
        ty_norm(c, b->scheme->type)->tag == TY_TENSOR)
      return size_of_binding(c, b, d->span);
    Dim *fixed = map_get(&c->sizes.defined, d->id);
    if (fixed && !c->inference.params.len) { /* not inside a function */
      map_put(&c->sizes.used, d->id, fixed);
      push_name(c, d->id)->dim = fixed;
      return fixed;
    }
  }
  warn_hidden_number(c, d, mode);
  return new_size(c, d->id, d->span, mode);
}

static Dim *annot_existential_size(Checker *c, DimExpr *d, AnnotMode mode) {
  Scope *s = d->id ? find_annotated_name(c, d->id, false) : NULL;
  if (s && s->dim)
    return s->dim;
  Dim *r;
  if (mode == ANNOT_SCHEME &&
      c->names.collected_givens) { /* not for constructors */
    r = existential_dim(c, d->id, d->span);
    dim_as_var(r)->level = LEVEL_GENERIC;
  } else if (mode == ANNOT_PARAM && d->id) {
    return new_size(c, d->id, d->span, mode);
  } else {
    r = meta_dim(c, d->id, d->span);
    dim_set_unknown(c->dims, dim_as_var(r));
  }
  if (d->id)
    push_name(c, d->id)->dim = r;
  return r;
}

Dim *annot_dim(Checker *c, DimExpr *d, AnnotMode mode) {
  Dim *r;
  switch (d->kind) {
  case DX_NUM:
    return dim_parse(c->dims, d->num);
  case DX_ID:
    r = annot_size_name(c, d, mode);
    refs_add_size(c, d->span, d->id, false);
    return r;
  case DX_EXISTENTIAL:
    r = annot_existential_size(c, d, mode);
    refs_add_size(c, d->span, d->id, false);
    return r;
  case DX_HOLE:
    r = meta_dim(c, NULL, d->span);
    note_hole(c, (TypedHole){d->span, r, NULL}, d->is_error);
    return r;
  case DX_NEG:
    return dim_neg(c->dims, annot_dim(c, d->arg[0], mode));
  case DX_CALL:
    return annot_size_function(c, d, mode);
  case DX_SHAPE:
    error_at(c, 340, d->span, "found a shape; expected a size")->help =
        "after `given`, compare shapes only with shapes, as in `join(s, t) == "
        "[n, m]`";
    return meta_dim(c, NULL, d->span);
  case DX_BIN:
    break;
  }
  Dim *a = annot_dim(c, d->arg[0], mode), *b = annot_dim(c, d->arg[1], mode);
  if (d->op == '/' || d->op == '%') {
    int64_t n;
    if (dim_is_int(dim_resolve(c->dims, b), &n) && n < 1) {
      error_at(c, 341, d->span, "the divisor of a size must be at least 1");
      return a;
    }
  }
  switch (d->op) {
  case '+':
    return dim_add(c->dims, a, b);
  case '-':
    return dim_sub(c->dims, a, b);
  case '*':
    return dim_mul(c->dims, a, b);
  case '/':
    return dim_div(c->dims, a, b);
  default:
    return dim_mod(c->dims, a, b);
  }
}

/* ---- axes ---- */

/* An argument of a broadcast: s, or [n, ...s]. */
static Shape *annot_broadcast_arg(Checker *c, AxisExpr a, AnnotMode mode) {
  if (a.kind == AXIS_DIM && a.dim->kind == DX_SHAPE)
    return annot_axes(c, a.dim->axes, mode);
  if (a.kind == AXIS_DIM && a.dim->kind == DX_ID) {
    a.kind = AXIS_SPLICE;
    a.id = a.dim->id;
  }
  return annot_axes(c, (Axes){&a, 1}, mode);
}

Shape *annot_broadcast(Checker *c, Axes axes, Span span, Shape *result,
                       AnnotMode mode) {
  Shape **args = NEW_ARRAY(c->arena, Shape *, axes.len);
  for (uint32_t i = 0; i < axes.len; i++)
    args[i] = annot_broadcast_arg(c, axes.at[i], mode);
  ShapeVar *v = shape_var_new(c, -1);
  if (mode == ANNOT_SCHEME)
    v->level = LEVEL_GENERIC, v->skolem = true;
  if (!result)
    result = shape_of_var(c, v);
  Constraint k = {.kind = CN_BROADCAST,
                  .a = result,
                  .broadcast_args = args,
                  .broadcast_arg_count = axes.len,
                  .origin = origin_new(c, ORIGIN_ANNOTATION, span)};
  if (c->names.collected_givens) {
    Constraint *copy = NEW(c->arena, Constraint);
    *copy = k;
    VEC_PUSH(c->arena, *c->names.collected_givens, copy);
  } else {
    add_constraint(c, k);
  }
  return result;
}

static Shape *annot_splice(Checker *c, AxisExpr *a, AnnotMode mode) {
  if (a->is_call)
    return annot_broadcast(c, a->args, a->span, NULL, mode);
  Scope *s = a->id ? find_annotated_name(c, a->id, true) : NULL;
  if (s)
    return s->shape;
  if (a->id) {
    for (s = scope_find(c->names.scope, a->id); s;
         s = scope_find(s->outer, a->id))
      if (s->binding && s->binding->scheme) {
        Type *t = ty_norm(c, s->binding->scheme->type);
        if (t->tag == TY_SHAPE)
          return t->shape;
      }
  }
  ShapeVar *v = shape_var_new(c, -1);
  v->name = a->id;
  if (mode == ANNOT_PARAM || mode == ANNOT_SCHEME)
    v->skolem = true;
  if (mode == ANNOT_SCHEME)
    v->level = LEVEL_GENERIC;
  Shape *r = shape_of_var(c, v);
  if (a->id)
    push_name(c, a->id)->shape = r;
  return r;
}

static void note_existential(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind == DV_EXISTENTIAL;
}

/* An axis of a parameter whose size only another parameter determines.  Callers
   see some size; a check at the call compares the two. */
static Dim *annot_existential_axis(Checker *c, Dim *d, Span span) {
  bool data = false;
  dim_each_var(dim_resolve(c->dims, d), note_existential, NULL, &data);
  if (!data)
    return d;
  Dim *m = meta_dim(c, NULL, span);
  dim_as_var(m)->kind = DV_SKOLEM;
  Origin *o = origin_new(c, ORIGIN_ANNOTATION, span);
  add_constraint(c, (Constraint){.kind = CN_DIM_EQ,
                                 .origin = o,
                                 .left = m,
                                 .right = d,
                                 .at_run_time = true});
  return m;
}

Shape *annot_axes(Checker *c, Axes axes, AnnotMode mode) {
  Shape *s = shape_new(c, 0);
  if (axes.len > MAX_RANK) {
    error_at(c, 342, axes.at[MAX_RANK].span,
             "a tensor has at most %d axes; found %u", MAX_RANK, axes.len);
    axes.len = MAX_RANK;
  }
  for (uint32_t i = 0; i < axes.len; i++) {
    AxisExpr *a = &axes.at[i];
    Shape *one = shape_new(c, 1);
    switch (a->kind) {
    case AXIS_DIM:
      one->axes[0].dim = annot_dim(c, a->dim, mode);
      if (mode == ANNOT_PARAM)
        one->axes[0].dim = annot_existential_axis(c, one->axes[0].dim, a->span);
      break;
    case AXIS_STAR:
      one->axes[0].tag = SHAPE_STAR;
      break;
    case AXIS_SPLICE:
      one = annot_splice(c, a, mode);
      if (!a->is_call)
        refs_add_size(c, a->span, a->id, true);
      break;
    }
    s = shape_concat(c, s, one);
  }
  return s;
}

/* ---- element types ---- */

ElemVar *annot_elem_param(Checker *c, Sym *name, AnnotMode mode, Span span) {
  for (Scope *s = scope_find(c->names.scope, name); s;
       s = scope_find(s->outer, name))
    if (s->elem)
      return s->elem;
  ElemVar *e = elem_meta(c, CLASS_ANY);
  e->name = name;
  e->origin = span;
  if (mode == ANNOT_PARAM || mode == ANNOT_SCHEME)
    e->skolem = true;
  if (mode == ANNOT_SCHEME)
    e->level = LEVEL_GENERIC;
  push_name(c, name)->elem = e;
  return e;
}

Type *annot_ty_param(Checker *c, Sym *name, AnnotMode mode) {
  for (Scope *s = scope_find(c->names.scope, name); s;
       s = scope_find(s->outer, name))
    if (s->tyvar) {
      Type *t = ty_new(c, TY_VAR);
      t->var = s->tyvar;
      return t;
    }
  Type *t = ty_meta(c);
  t->var->name = name;
  if (mode == ANNOT_PARAM || mode == ANNOT_SCHEME)
    t->var->skolem = true;
  if (mode == ANNOT_SCHEME)
    t->var->level = LEVEL_GENERIC;
  push_name(c, name)->tyvar = t->var;
  return t;
}

/* ---- named types ---- */

static Type *error_bad_type(Checker *c, const TypeExpr *t, const char *what) {
  error_at(c, 342, t->span, "%s", what);
  return ty_meta(c);
}

/* After an error about the type: it is any type, but its arguments give names
   to sizes. */
static Type *annot_failed(Checker *c, const TypeExpr *t, AnnotMode mode) {
  c->inference.meets_error = true;
  for (uint32_t i = 0; i < t->arg_count; i++)
    annot_type(c, t->args[i], mode);
  annot_axes(c, t->axes, mode);
  return ty_meta(c);
}

#define FLOAT_TYPES                                                         \
  "the float types are f32, f64, f16, bf16, f8_e4m3, f8_e5m2, f4_e2m1 and " \
  "f8_e8m0"

/* Names of types in other languages. */
static const struct {
  const char *name, *help;
} foreign_type_names[] = {
    {"float", FLOAT_TYPES},
    {"float32", "use `f32`"},
    {"float64", "use `f64`"},
    {"float16", "use `f16`"},
    {"bfloat16", "use `bf16`"},
    {"float8_e4m3fn", "use `f8_e4m3`"},
    {"float8_e5m2", "use `f8_e5m2`"},
    {"float8_e8m0fnu", "use `f8_e8m0`"},
    {"float4_e2m1fn", "use `f4_e2m1`"},
    {"double", "use `f64`"},
    {"real", FLOAT_TYPES},
    {"int32", "use `i32`"},
    {"int64", "use `i64` or `int`"},
    {"int8", "use `i8`"},
    {"uint8", "use `u8`"},
    {"integer", "use `int`"},
    {"long", "use `i64` or `int`"},
    {"boolean", "use `bool`"},
    {"str", "use `string`"},
    {"text", "use `string`"},
    {"char", "use `string`"},
    {"num", "for any numeric type, use a type variable with a class: `'a[n] "
            "given 'a : num`"},
    {"void", "use `unit`"},
    {"tensor", "a tensor type is written `f32[n, m]`"},
    {"array", "a tensor type is written `f32[n, m]`"},
    {"vector", "a tensor type is written `f32[n]`"},
    {"matrix", "a tensor type is written `f32[n, m]`"},
    {"dict", "use a record, `{w : f32}`, or a list of pairs"},
};

static void error_unknown_type(Checker *c, const TypeExpr *t) {
  const char *name = t->name.id->text;
  Diag *d = t->name.module
                ? error_at(c, 342, t->span, "module `%s` has no type `%s`",
                           t->name.module->text, name)
                : error_at(c, 342, t->span, "type `%s` is not defined", name);
  for (size_t i = 0; i < ARRAY_LEN(foreign_type_names); i++)
    if (!t->name.module && strcmp(foreign_type_names[i].name, name) == 0)
      d->help = foreign_type_names[i].help;
  if (!d->help && c->names.alias_name == t->name.id)
    d->help = "a type abbreviation cannot contain itself; a `datatype` can";
  if (!d->help && !t->name.module)
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_TYPE,
                         .span = t->name.span,
                         .name = t->name.id});
}

/* The types and sizes that a named type requires. */
static const char *declared_form(Checker *c, const Dec *dec) {
  Buffer b = {0};
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    buffer_printf(&b, "%s%s",
                  i                      ? ", "
                  : dec->tyvar_count > 1 ? "("
                                         : "",
                  dec->tyvars[i]->text);
  buffer_puts(&b, dec->tyvar_count > 1 ? ") " : dec->tyvar_count ? " " : "");
  buffer_puts(&b, dec->name->text);
  for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++)
    buffer_printf(&b, "%s%s", i ? ", " : "[",
                  dec->axes.at[i].kind == AXIS_DIM &&
                          dec->axes.at[i].dim->kind == DX_ID
                      ? dec->axes.at[i].dim->id->text
                      : "?");
  buffer_puts(&b, dec->has_axes ? "]" : "");
  const char *text = arena_printf(c->arena, "it is declared as `%s`", b.text);
  buffer_free(&b);
  return text;
}

bool annot_size_in_scope(Checker *c, Sym *name) {
  if (find_annotated_name(c, name, false) || map_get(&c->sizes.defined, name))
    return true;
  Binding *b = c->names.module ? lookup_in(c, c->names.module, name) : NULL;
  return b && (b->kind == BK_SIZE || b->kind == BK_VALUE);
}

void annot_bind_param(Checker *c, const Dec *dec, uint32_t i, Type *arg,
                      Span span) {
  Type *v = ty_meta(c);
  v->var->link = arg;
  Scope *s = push_name(c, dec->tyvars[i]);
  s->tyvar = v->var;
  if (!param_is_elem(dec, i))
    return;
  s->elem = elem_meta(c, CLASS_ANY);
  Type *scalar = ty_tensor(c, s->elem, shape_new(c, 0), NULL);
  if (!unify(c, arg, scalar, origin_new(c, ORIGIN_ANNOTATION, span)))
    error_at(c, 342, span, "the parameter `%s` of `%s` is an element type",
             dec->tyvars[i]->text, dec->name->text)
        ->help = "it is f32, i64, ... or a type variable";
}

/* Reads an argument of a named type. */
static Type *annot_arg(Checker *c, const Dec *dec, uint32_t i, TypeExpr *arg,
                       AnnotMode mode) {
  if (dec && arg->kind == TX_VAR && !arg->has_axes && param_is_elem(dec, i))
    return ty_tensor(c, annot_elem_param(c, arg->id, mode, arg->span),
                     shape_new(c, 0), NULL);
  return annot_type(c, arg, mode);
}

/* The aliases whose definitions are being read. */
typedef struct AliasExpansion {
  const TypeName *name;
  const struct AliasExpansion *outer;
} AliasExpansion;

static bool is_expanding(const Checker *c, const TypeName *n) {
  const AliasExpansion *x = c->names.expansions;
  while (x && x->name != n)
    x = x->outer;
  return x != NULL;
}

/* Reads the definition of an alias with its parameters in scope. */
static Type *annot_alias_body(Checker *c, TypeExpr *t, TypeName *n, Type **args,
                              Dim **sizes, AnnotMode mode) {
  Dec *dec = n->dec;
  if (c->inference.depth > 200)
    return error_bad_type(c, t,
                          "these type abbreviations are nested too deeply");
  if (is_expanding(c, n))
    return error_bad_type(c, t, "a type abbreviation cannot contain itself");
  AliasExpansion expansion = {n, c->names.expansions};
  c->names.expansions = &expansion;
  c->inference.depth++;
  Scope *saved = c->names.scope;
  Module *module = c->names.module;
  c->names.scope = NULL;
  c->names.module = n->module;
  for (uint32_t i = 0; i < t->arg_count; i++)
    annot_bind_param(c, dec, i, args[i], t->args[i]->span);
  for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++)
    if (dec->axes.at[i].kind == AXIS_DIM && dec->axes.at[i].dim->kind == DX_ID)
      push_name(c, dec->axes.at[i].dim->id)->dim = sizes[i];
  SymbolRefs *refs = c->notes.active_refs;
  c->notes.active_refs = NULL; /* references were recorded at its declaration */
  Type *r = annot_type(c, dec->type, mode);
  c->notes.active_refs = refs;
  c->names.scope = saved;
  c->names.module = module;
  c->inference.depth--;
  c->names.expansions = expansion.outer;
  return r;
}

static Type *expand_alias(Checker *c, TypeExpr *t, TypeName *n,
                          AnnotMode mode) {
  Dec *dec = n->dec;
  if (dec->tyvar_count != t->arg_count ||
      (dec->has_axes ? dec->axes.len : 0) != (t->has_axes ? t->axes.len : 0)) {
    error_at(c, 342, t->span, "type `%s` takes %u type%s and %u size%s",
             n->name->text, dec->tyvar_count, dec->tyvar_count == 1 ? "" : "s",
             dec->has_axes ? dec->axes.len : 0,
             dec->has_axes && dec->axes.len == 1 ? "" : "s")
        ->help = declared_form(c, dec);
    return annot_failed(c, t, mode);
  }
  Type **args = NEW_ARRAY(c->arena, Type *, t->arg_count);
  for (uint32_t i = 0; i < t->arg_count; i++)
    args[i] = annot_arg(c, dec, i, t->args[i], mode);
  Dim **sizes = NEW_ARRAY(c->arena, Dim *, t->axes.len);
  for (uint32_t i = 0; i < t->axes.len; i++)
    sizes[i] = t->axes.at[i].kind == AXIS_DIM
                   ? annot_dim(c, t->axes.at[i].dim, mode)
                   : meta_dim(c, NULL, t->span);
  Type *r = alias_expansion_at(c, n, sizes);
  if (!r)
    r = annot_alias_body(c, t, n, args, sizes, mode);
  if (!t->arg_count && r->tag != TY_VAR) {
    Type *named = ty_new(c, r->tag);
    *named = *r;
    named->alias = n->name;
    named->alias_dims = sizes;
    named->alias_count = t->has_axes ? t->axes.len : 0;
    return named;
  }
  return r;
}

static Type *annot_datatype(Checker *c, TypeExpr *t, Datatype *d,
                            AnnotMode mode) {
  if (d->arity != t->arg_count ||
      d->dim_arity != (t->has_axes ? t->axes.len : 0)) {
    Diag *diag =
        error_at(c, 342, t->span, "datatype `%s` takes %u type%s and %u size%s",
                 d->name->text, d->arity, d->arity == 1 ? "" : "s",
                 d->dim_arity, d->dim_arity == 1 ? "" : "s");
    diag->help = d->dec ? declared_form(c, d->dec) : "for example `int list`";
    return annot_failed(c, t, mode);
  }
  Type **args = NEW_ARRAY(c->arena, Type *, d->arity);
  for (uint32_t i = 0; i < d->arity; i++)
    args[i] = annot_arg(c, d->dec, i, t->args[i], mode);
  Type *r = ty_datatype(c, d, d->arity, args);
  if (d->dim_arity) {
    r->data.dims = NEW_ARRAY(c->arena, Dim *, d->dim_arity);
    for (uint32_t i = 0; i < d->dim_arity; i++)
      r->data.dims[i] = t->axes.at[i].kind == AXIS_DIM
                            ? annot_dim(c, t->axes.at[i].dim, mode)
                            : meta_dim(c, NULL, t->span);
  }
  return r;
}

/* Reads the float type of ('x, bf16) cast.  Returns NULL after an error. */
static ElemVar *annot_cast_elem(Checker *c, TypeExpr *t, AnnotMode mode) {
  Type *scalar = t->kind == TX_VAR && !t->has_axes
                     ? ty_tensor(c, annot_elem_param(c, t->id, mode, t->span),
                                 shape_new(c, 0), NULL)
                     : ty_norm(c, annot_type(c, t, mode));
  if (scalar->tag == TY_TENSOR && !shape_norm(c, scalar->tensor.shape)->len &&
      elem_root(scalar->tensor.elem)->classes & CLASS_FLOAT) {
    ElemVar *elem = elem_root(scalar->tensor.elem);
    elem->classes &= CLASS_FLOAT;
    return elem;
  }
  error_bad_type(c, t, "the second argument of `cast` is not a float type");
  return NULL;
}

/* Reads ('x, bf16) cast. */
static Type *annot_cast(Checker *c, TypeExpr *t, AnnotMode mode) {
  if (t->arg_count != 2 || t->has_axes)
    return error_bad_type(c, t,
                          "`cast` takes a type and a float type, as in "
                          "`('x, bf16) cast`");
  Type *from = annot_type(c, t->args[0], mode);
  ElemVar *elem = annot_cast_elem(c, t->args[1], mode);
  if (!elem || !require_one_float_type(
                   c, from, origin_new(c, ORIGIN_ANNOTATION, t->args[0]->span)))
    return ty_meta(c);
  return ty_cast(c, from, elem);
}

static Type *annot_name(Checker *c, TypeExpr *t, AnnotMode mode) {
  const char *name = t->name.id->text;
  Dtype dtype = t->name.module ? DT_NONE : dtype_by_name(name);
  bool is_int = !t->name.module && strcmp(name, "int") == 0;
  if (dtype != DT_NONE || is_int) {
    if (t->arg_count) {
      error_bad_type(c, t, "an element type takes no type arguments");
      return annot_failed(c, t, mode);
    }
    Shape *s = annot_axes(c, t->has_axes ? t->axes : (Axes){0}, mode);
    return ty_tensor(c, elem_fixed(c, is_int ? DT_I64 : dtype), s, NULL);
  }
  if (!t->name.module && strcmp(name, "unit") == 0)
    return ty_unit(c);
  TypeName *n = lookup_type(c, t->name.module, t->name.id);
  if (n)
    refs_add_type(c, t->name.span, n);
  if (!n && !t->name.module && strcmp(name, "cast") == 0)
    return annot_cast(c, t, mode);
  if (!n)
    error_unknown_type(c, t);
  if (!n || n->has_error)
    return annot_failed(c, t, mode);
  return n->data ? annot_datatype(c, t, n->data, mode)
                 : expand_alias(c, t, n, mode);
}

/* Reads an argument of axis(s, r, t) or keep(u, r).  A name is a splice, except
   if it is a size elsewhere, such as n in axis(s, n, t) with an axis n. */
static Shape *annot_shape_arg(Checker *c, TypeExpr *t, uint32_t i,
                              AnnotMode mode, bool size) {
  AxisExpr a = t->axes.at[i];
  if (a.kind == AXIS_DIM && a.dim->kind == DX_ID && !size &&
      !(find_annotated_name(c, a.dim->id, false) &&
        find_annotated_name(c, a.dim->id, false)->dim)) {
    a.kind = AXIS_SPLICE;
    a.id = a.dim->id;
  }
  return annot_axes(c, (Axes){&a, 1}, mode);
}

static bool is_size_name(const char *s) { /* n, m, k, ... by convention */
  return strchr("nmkpqdhwbc", s[0]) != NULL;
}

static Type *annot_call(Checker *c, TypeExpr *t, AnnotMode mode) {
  const char *name = t->name.id->text;
  uint32_t n = t->axes.len;
  if (strcmp(name, "dim") == 0 && n == 1 && t->axes.at[0].kind == AXIS_DIM)
    return ty_int(c, annot_dim(c, t->axes.at[0].dim, mode));
  if (strcmp(name, "shape") == 0)
    return ty_shape(c, n == 1 ? annot_shape_arg(c, t, 0, mode, false)
                              : annot_axes(c, t->axes, mode));
  if (strcmp(name, "axis") == 0 && n == 3) {
    AxisExpr *mid = &t->axes.at[1];
    bool size = mid->kind == AXIS_DIM && mid->dim->kind == DX_ID &&
                is_size_name(mid->dim->id->text);
    Shape *s = annot_shape_arg(c, t, 0, mode, false);
    Shape *r = annot_shape_arg(c, t, 1, mode, size);
    return ty_axis(c, s, r, annot_shape_arg(c, t, 2, mode, false));
  }
  if (strcmp(name, "keep") == 0 && n == 2) {
    Type *k = ty_new(c, TY_KEEP);
    k->axis[0] = annot_shape_arg(c, t, 0, mode, false);
    AxisExpr *a = &t->axes.at[1];
    bool size = a->kind == AXIS_DIM && a->dim->kind == DX_ID &&
                is_size_name(a->dim->id->text);
    k->axis[1] = annot_shape_arg(c, t, 1, mode, size);
    return k;
  }
  error_bad_type(c, t, arena_printf(c->arena, "`%s(...)` is not a type", name));
  return annot_failed(c, t, mode);
}

static Type *annot_fun(Checker *c, TypeExpr *t, AnnotMode mode) {
  Type *f = ty_new(c, TY_FUN);
  f->fun.label = t->label;
  f->fun.optional = t->is_optional;
  for (TypeExpr *u = t->arg[1]; t->label && u->kind == TX_FUN && u->label;
       u = u->arg[1])
    if (u->label == t->label)
      error_at(c, 343, u->span, "duplicate label `%s`", u->label->text);
  f->fun.param = annot_type(c, t->arg[0], mode);
  f->fun.result = annot_type(c, t->arg[1], mode);
  f->fun.effect = effect_pure(c);
  if (t->has_effect)
    f->fun.effect->tag = EF_IMPURE;
  return f;
}

static Type *annot_record(Checker *c, TypeExpr *t, AnnotMode mode) {
  Type *r = ty_new(c, TY_RECORD);
  r->count = t->field_count;
  r->args = NEW_ARRAY(c->arena, Type *, r->count);
  r->record.labels = NEW_ARRAY(c->arena, Sym *, r->count);
  for (uint32_t i = 0; i < r->count; i++) {
    r->record.labels[i] = t->fields[i].id;
    r->args[i] = annot_type(c, t->fields[i].type, mode);
    refs_add_name(c, REF_FIELD, t->fields[i].span, r->record.labels[i],
                  (Span){0}, r->args[i]);
    for (uint32_t k = 0; k < i; k++)
      if (r->record.labels[k] == r->record.labels[i])
        error_at(c, 343, t->fields[i].span, "duplicate field `%s`",
                 r->record.labels[i]->text);
  }
  if (t->is_open)
    r->record.rest = ty_meta(c);
  return r;
}

Type *annot_type(Checker *c, TypeExpr *t, AnnotMode mode) {
  Type *r = NULL;
  switch (t->kind) {
  case TX_VAR:
    if (!t->has_axes) {
      r = annot_ty_param(c, t->id, mode);
      refs_add_size(c, t->span, t->id, false);
      return r;
    }
    r = ty_tensor(c, annot_elem_param(c, t->id, mode, t->span),
                  annot_axes(c, t->axes, mode), NULL);
    refs_add_size(c, t->span, t->id, false);
    break;
  case TX_NAME:
    r = annot_name(c, t, mode);
    break;
  case TX_CALL:
    r = annot_call(c, t, mode);
    break;
  case TX_FUN:
    r = annot_fun(c, t, mode);
    break;
  case TX_TUPLE: {
    Type **args = NEW_ARRAY(c->arena, Type *, t->arg_count);
    for (uint32_t i = 0; i < t->arg_count; i++)
      args[i] = annot_type(c, t->args[i], mode);
    r = ty_tuple(c, t->arg_count, args);
    break;
  }
  case TX_RECORD:
    r = annot_record(c, t, mode);
    break;
  case TX_LIFT: {
    Dim *n = annot_dim(c, t->dim, mode);
    Type *item = annot_type(c, t->arg[0], mode);
    if (!require_stackable(c, item,
                           origin_new(c, ORIGIN_ANNOTATION, t->arg[0]->span)))
      return ty_meta(c);
    r = ty_lift(c, n, item);
    break;
  }
  case TX_HOLE:
    r = ty_meta(c);
    note_hole(c, (TypedHole){t->span, NULL, r}, t->is_error);
    return r;
  }
  if (r->tag != TY_VAR && !r->span.file)
    r->span = t->span;
  return r;
}

/* ---- schemes from text: the table of primitives ---- */

/* Sets the default of an omitted optional argument of a primitive: of axis(s,
 * n, t) the last axis, of axis(s, r, t) all axes. */
static void set_default_type(Checker *c, Type *fun) {
  Type *p = fun->fun.param;
  if (p->tag == TY_AXIS) {
    bool whole = !shape_has_known_rank(p->axis[1]);
    Shape *none = shape_new(c, 0), *any[2];
    for (int i = 0; i < 2; i++) {
      ShapeVar *v = shape_var_new(c, -1);
      v->level = LEVEL_GENERIC;
      v->skolem = true;
      any[i] = shape_of_var(c, v);
    }
    fun->fun.default_type =
        ty_axis(c, whole ? none : any[0], whole ? any[1] : p->axis[1], none);
  } else if (p->tag == TY_KEEP) {
    fun->fun.default_type = ty_new(c, TY_KEEP);
    fun->fun.default_type->axis[0] = shape_new(c, 0);
    fun->fun.default_type->axis[1] = p->axis[1];
  } else if (p->tag == TY_TENSOR && p->tensor.singleton) {
    fun->fun.default_type = ty_int(c, dim_int(c->dims, 0));
  }
}

static void link_callback_effect(Checker *c, Type *t) {
  Effect *e = effect_var(c);
  e->level = LEVEL_GENERIC;
  for (;; t = t->fun.result) {
    for (Type *p = t->fun.param; p->tag == TY_FUN; p = p->fun.result)
      if (p->fun.result->tag != TY_FUN)
        p->fun.effect = e;
    if (t->fun.result->tag != TY_FUN)
      break;
  }
  t->fun.effect = e;
}

Scheme *scheme_of_text(Checker *c, const char *text, uint8_t flags,
                       const char *name) {
  uint32_t file = sources_add(c->sources, name, text, strlen(text), true);
  Givens given = {0};
  TypeExpr *x =
      parse_type(c->sources, file, 0, &given, c->interner, c->arena, c->diags);
  Scope *saved = c->names.scope;
  Module *module = c->names.module;
  Constraints all = {0}, *outer = c->names.collected_givens;
  c->names.scope = NULL;
  c->names.module = c->names.prelude;
  c->names.collected_givens = &all;
  Scheme *s = NEW(c->arena, Scheme);
  s->type = x ? annot_type(c, x, ANNOT_SCHEME) : ty_meta(c);
  annot_givens(c, given, ANNOT_SCHEME, false);
  c->names.collected_givens = outer;
  c->names.scope = saved;
  c->names.module = module;
  for (Type *t = s->type; t->tag == TY_FUN; t = t->fun.result)
    if (t->fun.optional)
      set_default_type(c, t);
  if (flags & PRIM_EFFECT_OF_ARG)
    link_callback_effect(c, s->type);
  s->given = all.at;
  s->given_count = all.len;
  s->is_polymorphic = true;
  return s;
}

/* The scheme of a constructor: a function from its argument to the datatype. */
Scheme *annot_con(Checker *c, Dec *dec, Datatype *data, TypeExpr *arg) {
  Scope *saved = c->names.scope;
  c->names.scope = NULL;
  Type **args = NEW_ARRAY(c->arena, Type *, dec->tyvar_count);
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    if (param_is_elem(dec, i)) {
      args[i] = ty_tensor(
          c, annot_elem_param(c, dec->tyvars[i], ANNOT_SCHEME, dec->span),
          shape_new(c, 0), NULL);
      c->names.scope->tyvar = ty_meta(c)->var;
      c->names.scope->tyvar->link = args[i];
    } else {
      args[i] = annot_ty_param(c, dec->tyvars[i], ANNOT_SCHEME);
    }
  Type *result = ty_datatype(c, data, dec->tyvar_count, args);
  if (data->dim_arity) {
    result->data.dims = NEW_ARRAY(c->arena, Dim *, data->dim_arity);
    for (uint32_t i = 0; i < data->dim_arity; i++)
      result->data.dims[i] =
          dec->axes.at[i].kind == AXIS_DIM
              ? annot_dim(c, dec->axes.at[i].dim, ANNOT_SCHEME)
              : meta_dim(c, NULL, dec->span);
  }
  Scheme *s = NEW(c->arena, Scheme);
  s->is_polymorphic = true;
  s->type = result;
  if (arg)
    s->type =
        ty_fun(c, annot_type(c, arg, ANNOT_SCHEME), result, effect_pure(c));
  c->names.scope = saved;
  return s;
}
