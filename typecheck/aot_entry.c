/* Describes the parameters of a function that is compiled ahead of time for all
   sizes.  Lists them leaf by leaf, with sizes in variables of its own type.
   Main entry point: checker_entry. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

typedef struct EntryReader {
  Checker *c;
  TypePrinter *printer;
  const char *path;
  Shape *lifted_axes; /* axes of lifts that could not be pushed inwards */
  const char *rejected_part,
      *reject_reason; /* first part that cannot be compiled */
  bool undetermined;  /* compilable if its type were determined */
} EntryReader;

static void reject(EntryReader *r, Type *t, bool undetermined,
                   const char *why) {
  if (r->rejected_part)
    return;
  r->rejected_part = arena_printf(r->c->arena, "%s : %s", r->path,
                                  printer_type(r->printer, t));
  r->reject_reason = why;
  r->undetermined = undetermined;
}

static EntryType read_type(EntryReader *r, Type *t);

static EntryType read_component(EntryReader *r, const char *name, Type *t) {
  const char *path = r->path;
  r->path = arena_printf(r->c->arena, "%s.%s", path, name);
  EntryType part = read_type(r, t);
  r->path = path;
  return part;
}

static EntryType read_tuple(EntryReader *r, Type *t) {
  EntryType part = {.kind = ENTRY_TUPLE, .count = t->count};
  part.parts = NEW_ARRAY(r->c->arena, EntryType, t->count);
  for (uint32_t i = 0; i < t->count; i++)
    part.parts[i] =
        read_component(r, arena_printf(r->c->arena, "%u", i), t->args[i]);
  return part;
}

/* Ignores fields that are not named. */
static EntryType read_record(EntryReader *r, Type *t) {
  Arena *arena = r->c->arena;
  VEC(EntryType) parts = {0};
  VEC(Sym *) labels = {0};
  for (; t && t->tag == TY_RECORD;
       t = t->record.rest ? ty_norm(r->c, t->record.rest) : NULL)
    for (uint32_t i = 0; i < t->count; i++) {
      VEC_PUSH(arena, parts,
               read_component(r, t->record.labels[i]->text, t->args[i]));
      VEC_PUSH(arena, labels, t->record.labels[i]);
    }
  return (EntryType){.kind = ENTRY_RECORD,
                     .parts = parts.at,
                     .count = parts.len,
                     .labels = labels.at};
}

static void read_shape(EntryReader *r, EntryType *part, Type *t,
                       const Shape *s) {
  s = shape_norm(r->c, s);
  part->dims = NEW_ARRAY(r->c->arena, Dim *, s->len + 1);
  part->rank = s->len;
  for (uint32_t i = 0; i < s->len; i++) {
    const ShapeAxis *it = &s->axes[i];
    if (it->tag == SHAPE_SPLICE)
      reject(r, t, true, "its rank is not known");
    else if (i >= MAX_RANK)
      reject(r, t, false, "it has too many axes");
    else if (axis_is_star(it))
      part->broadcast_mask |= (uint32_t)1 << i;
    else
      part->dims[i] = it->dim;
  }
}

static EntryType read_tensor(EntryReader *r, Type *t) {
  EntryType part = {.kind = ENTRY_TENSOR, .singleton = ty_singleton(r->c, t)};
  part.dtype = elem_root(t->tensor.elem)->dtype;
  if (part.dtype == DT_NONE)
    reject(r, t, true, "its element type is not known");
  read_shape(r, &part, t, shape_concat(r->c, r->lifted_axes, t->tensor.shape));
  return part;
}

static EntryType read_lift(EntryReader *r, Type *t) {
  Shape *lifted_axes = r->lifted_axes;
  r->lifted_axes =
      shape_concat(r->c, lifted_axes, shape_of_dims(r->c, 1, &t->lift.dim));
  EntryType part = read_type(r, t->lift.type);
  r->lifted_axes = lifted_axes;
  return part;
}

static EntryType read_type(EntryReader *r, Type *t) {
  EntryType part = {.kind = ENTRY_NONE};
  charge_work(r->c, 1);
  t = ty_norm(r->c, t);
  switch (t->tag) {
  case TY_TENSOR:
    return read_tensor(r, t);
  case TY_RECORD:
    return read_record(r, t);
  case TY_TUPLE:
    return read_tuple(r, t);
  case TY_LIFT:
    return read_lift(r, t);
  case TY_SHAPE:
    part.kind = ENTRY_SHAPE;
    read_shape(r, &part, t, t->shape);
    return part;
  case TY_FUN:
    reject(r, t, false, "it is a function");
    return part;
  case TY_VAR:
  case TY_CAST:
    reject(r, t, true, "its type is not known");
    return part;
  case TY_DATATYPE:
  case TY_AXIS:
  case TY_KEEP:
    reject(
        r, t, false,
        "a compiled function takes tensors, and records and tuples of tensors");
    return part;
  }
  return part;
}

/* ---- names of parameters ---- */

static const char *pat_name(const Pat *pat) {
  while (pat->kind == PAT_ASCRIBE)
    pat = pat->args[0];
  return pat->id && (pat->kind == PAT_VAR || pat->kind == PAT_AS)
             ? pat->id->text
             : NULL;
}

static const char *binding_param_name(const Binding *b, uint32_t n) {
  const Clause *k = binding_clause(b);
  for (uint32_t i = 0; k && i < k->param_count; i++)
    if (!k->params[i].label && n-- == 0)
      return pat_name(k->params[i].pat);
  return NULL;
}

/* *bare counts parameters without a label. */
static const char *param_name(Checker *c, const Binding *b, const Type *t,
                              uint32_t *positional) {
  if (t->fun.label)
    return t->fun.label->text;
  const char *name = binding_param_name(b, (*positional)++);
  return name ? name : arena_printf(c->arena, "arg%u", *positional);
}

/* ---- what its callers have to make sure of ---- */

static void note_not_callers(void *arg, DimVar *v) {
  *(bool *)arg |=
      v->kind == DV_INDEX || v->kind == DV_EXISTENTIAL || v->unknown;
}
static void note_shape_var(void *arg, ShapeVar *v) {
  (void)v;
  *(bool *)arg = true;
}

/* True if the caller knows all sizes in d. */
static bool is_caller_size(Dim *d) {
  bool foreign = false;
  dim_each_var(d, note_not_callers, note_shape_var, &foreign);
  return !foreign;
}

static bool add_conditions(Checker *c, const Constraint *k,
                           EntryPrecondition *out) {
  VEC(CoreCondition) conds = {0};
  Dim *zero = dim_int(c->dims, 0);
  for (const Assumption *f = k->assumptions; f; f = f->outer) {
    Dim *d = dim_resolve(c->dims, f->dim);
    if (!assumption_is_condition(f))
      continue;
    if (f->role == ROLE_INEXPRESSIBLE || !is_caller_size(d))
      return false;
    CoreCondition cond = {f->relation == ASSUME_NE   ? CHECK_NE
                          : f->relation == ASSUME_EQ ? CHECK_EQ
                                                     : CHECK_LE,
                          zero, d};
    VEC_PUSH(c->arena, conds, cond);
  }
  out->conditions = conds.at;
  out->condition_count = conds.len;
  return true;
}

/* Leaves out shape constraints and those that only the body can test: the
   operations check them. */
static void read_preconditions(Checker *c, Scheme *s, EntryPoint *out) {
  VEC(EntryPrecondition) givens = {0};
  TypePrinter *printer = s->given_count ? printer_new(c, s, false) : NULL;
  for (uint32_t i = 0; i < s->given_count; i++) {
    Constraint *k = s->given[i];
    EntryPrecondition g = {0};
    if (!constraint_is_size(k))
      continue;
    g.kind = k->kind == CN_DIM_EQ   ? CHECK_EQ
             : k->kind == CN_DIM_LE ? CHECK_LE
                                    : CHECK_NE;
    g.left = dim_resolve(c->dims, k->left);
    g.right = dim_resolve(c->dims, k->right);
    if (!is_caller_size(g.left) || !is_caller_size(g.right) ||
        !add_conditions(c, k, &g))
      continue;
    g.text = printer_given(printer, k);
    VEC_PUSH(c->arena, givens, g);
  }
  out->preconditions = givens.at;
  out->precondition_count = givens.len;
}

/* ---- the whole of it ---- */

static bool read_params(EntryReader *r, const Binding *b, Type *t,
                        EntryPoint *out) {
  VEC(EntryType) params = {0};
  VEC(const char *) names = {0};
  VEC(bool) labelled = {0};
  for (uint32_t positional = 0; (t = ty_norm(r->c, t))->tag == TY_FUN;
       t = t->fun.result) {
    r->path = param_name(r->c, b, t, &positional);
    EntryType part = {.kind = ENTRY_ABSENT};
    if (!t->fun.optional)
      part = read_type(r, t->fun.param);
    VEC_PUSH(r->c->arena, params, part);
    VEC_PUSH(r->c->arena, names, r->path);
    VEC_PUSH(r->c->arena, labelled, t->fun.label != NULL);
  }
  out->params = params.at;
  out->names = names.at;
  out->labelled = labelled.at;
  out->param_count = params.len;
  return !r->rejected_part;
}

/* ---- what it comes to ---- */

static bool is_tensor_tree(Checker *c, Type *t) {
  t = ty_norm(c, t);
  switch (t->tag) {
  case TY_TENSOR:
    return true;
  case TY_LIFT:
    return is_tensor_tree(c, t->lift.type);
  case TY_TUPLE:
  case TY_RECORD:
    for (uint32_t i = 0; i < t->count; i++)
      if (!is_tensor_tree(c, t->args[i]))
        return false;
    return t->tag == TY_TUPLE || !t->record.rest ||
           is_tensor_tree(c, t->record.rest);
  case TY_SHAPE:
  case TY_FUN:
  case TY_VAR:
  case TY_CAST:
  case TY_DATATYPE:
  case TY_AXIS:
  case TY_KEEP:
    return false;
  }
  return false;
}

/* The result after all arguments. */
static bool is_pure_tensor_result(Checker *c, Type *t) {
  for (; (t = ty_norm(c, t))->tag == TY_FUN; t = t->fun.result)
    if (effect_root(t->fun.effect)->tag == EF_IMPURE)
      return false;
  return is_tensor_tree(c, t);
}

static bool implicits_are_sizes(const Scheme *s) {
  for (uint32_t i = 0; i < s->implicits.len; i++)
    if (s->implicits.at[i].kind != IMPLICIT_DIM)
      return false;
  return true;
}

/* The type with top-level defaults, without its given constraints. */
static const char *defaulted_type_text(Checker *c, Scheme *s) {
  return printer_type(printer_new(c, s, true), s->type);
}

bool checker_entry(Checker *c, Binding *b, const Binding *of, const char *name,
                   Diags *diags, EntryPoint *out) {
  c->diags = diags;
  c->inference.work = 0;
  Scheme *s = binding_scheme(c, b);
  if (!s || b->kind != BK_VALUE || !b->value.var ||
      ty_norm(c, s->type)->tag != TY_FUN) {
    error_at(c, 610, b->span, "the program has no function %s", name);
    return false;
  }
  EntryReader r = {.c = c,
                   .printer = printer_new(c, s, false),
                   .path = "",
                   .lifted_axes = shape_new(c, 0)};
  *out = (EntryPoint){
      .name = of->name->text, .span = of->span, .var = b->value.var};
  out->doc = binding_doc(of);
  out->type = scheme_text(c, s);
  if (!read_params(&r, of, s->type, out)) {
    Diag *d = error_at(c, 611, b->span, "%s cannot be compiled: %s", name,
                       r.rejected_part);
    d->primary_label = r.reject_reason;
    d->note = arena_printf(c->arena, "%s : %s", name, out->type);
    d->help = arena_printf(c->arena,
                           r.undetermined
                               ? "give its element types and axes: --entry '%s "
                                 ": f32[n, k] -> _', or annotate it"
                               : "write a function that applies %s to such an "
                                 "argument, and compile that",
                           name);
    return false;
  }
  if (!implicits_are_sizes(s)) {
    Diag *d = error_at(c, 611, b->span,
                       "%s cannot be compiled: element types or ranks in its "
                       "type are not known",
                       name);
    d->note = arena_printf(c->arena, "%s : %s", name, out->type);
    d->help = arena_printf(
        c->arena,
        "annotate the result too, or give the whole type: --entry '%s : %s'",
        name, defaulted_type_text(c, s));
    return false;
  }
  out->is_pure_tensor_function = is_pure_tensor_result(c, s->type);
  out->implicits = s->implicits.at;
  out->implicit_count = s->implicits.len;
  read_preconditions(c, s, out);
  return true;
}
