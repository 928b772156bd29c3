/* Signatures of functions for a host program.  Main entry point:
   binding_signature. */
#include "typecheck/internal.h"
#include "support/diag.h"
#include "support/intern.h"

/* The parameter name in the first clause; NULL if the parameter is not a plain
   name. */
static const char *param_name(const Binding *b, uint32_t i) {
  const Clause *k = binding_clause(b);
  if (!k || i >= k->param_count)
    return NULL;
  const Pat *pat = k->params[i].pat;
  while (pat && pat->kind == PAT_ASCRIBE)
    pat = pat->args[0];
  return pat && pat->kind == PAT_VAR ? pat->id->text : NULL;
}

static ParamInfo param_info(Checker *c, Scheme *s, Type *t) {
  ParamInfo out = {.type = ty_text_within(c, s, t), .rank = -1};
  t = ty_norm(c, t);
  if (t->tag != TY_TENSOR)
    return out;
  out.dtype = elem_root(t->tensor.elem)->dtype;
  out.rank = 0;
  const Shape *shape = shape_norm(c, t->tensor.shape);
  for (uint32_t i = 0; i < shape->len; i++)
    if (shape->axes[i].tag == SHAPE_SPLICE)
      out.rank = -1;
    else if (out.rank >= 0)
      out.rank++;
  return out;
}

bool binding_signature(Checker *c, Binding *b, Signature *out) {
  Scheme *s = binding_scheme(c, b);
  if (!s)
    return false;
  VEC(ParamInfo) all = {0};
  Diags ignored, *diags = c->diags;
  diags_init(&ignored, c->arena);
  c->diags = &ignored;
  c->inference.work = 0;
  Type *t = ty_norm(c, s->type);
  for (; t->tag == TY_FUN; t = ty_norm(c, t->fun.result)) {
    ParamInfo one = param_info(c, s, t->fun.param);
    one.name = param_name(b, all.len);
    one.label = t->fun.label ? t->fun.label->text : NULL;
    one.optional = t->fun.optional;
    VEC_PUSH(c->arena, all, one);
  }
  *out = (Signature){all.at, all.len, param_info(c, s, t)};
  c->diags = diags;
  return true;
}

bool checker_dec_isolated(Checker *c, Module *m, Dec *dec, Diags *diags,
                          Checked *out) {
  CheckStats stats = c->notes.stats;
  uint32_t names = m->bindings.len;
  __typeof__(c->notes.unproved) unproved = c->notes.unproved;
  bool ok = checker_dec(c, m, dec, diags, out);
  module_undo(m);
  m->bindings.len = names;
  c->notes.stats = stats;
  c->notes.unproved = unproved;
  return ok;
}
