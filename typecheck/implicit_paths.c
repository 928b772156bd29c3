/* Size paths for implicit arguments.  Some callers do not know an implicit size
   or shape, for example of a tensor from a file without a readable header.
   Then the function reads it off one of its parameters.  Main entry point:
   implicit_find_paths. */
#include "typecheck/internal.h"
#include "support/arena.h"

#include <string.h>

enum { MAX_PATH_STEPS = 8 };

typedef struct PathSearch {
  Checker *c;
  Core *type_lambda;
  uint32_t param;
  struct SizePathStep steps[MAX_PATH_STEPS];
  uint32_t step_count;
  VEC(SizePath) paths;
} PathSearch;

static bool is_implicit_param(const Core *type_lambda, const void *var) {
  for (uint32_t i = 0; i < type_lambda->implicit_count; i++) {
    const ImplicitArg *h = &type_lambda->implicits[i];
    if ((h->kind == IMPLICIT_DIM && h->dim_var == var) ||
        (h->kind == IMPLICIT_SHAPE && h->shape_var == var))
      return true;
  }
  return false;
}

static void add_path(PathSearch *s, SizePath b) {
  b.param_index = s->param;
  b.step_count = s->step_count;
  b.steps = NEW_ARRAY(s->c->arena, struct SizePathStep, s->step_count);
  memcpy(b.steps, s->steps, s->step_count * sizeof *b.steps);
  VEC_PUSH(s->c->arena, s->paths, b);
}

/* The number of splices. *at is the position of the last one. */
static uint32_t count_splices(const Shape *s, uint32_t *at) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_SPLICE && s->axes[i].var->fixed_rank != 1)
      *at = i, n++;
  return n;
}

static void find_paths_in_shape(PathSearch *s, const Shape *s0) {
  Shape *shape = shape_norm(s->c, s0);
  uint32_t at = 0, splices = count_splices(shape, &at);
  if (splices > 1)
    return;
  for (uint32_t i = 0; i < shape->len; i++) {
    const ShapeAxis *it = &shape->axes[i];
    uint32_t after = shape->len - 1 - i;
    DimVar *v = it->tag == SHAPE_DIM ? dim_as_var(it->dim) : NULL;
    if (v && is_implicit_param(s->type_lambda, v))
      add_path(
          s, (SizePath){.var = v,
                        .axis = splices && i > at ? -1 - (int)after : (int)i});
    else if (it->tag == SHAPE_SPLICE && it->var->fixed_rank != 1 &&
             is_implicit_param(s->type_lambda, it->var))
      add_path(s, (SizePath){.shape_var = it->var,
                             .axis = (int)i,
                             .axes_after = after});
  }
}

static void find_paths_in_type(PathSearch *s, Type *t) {
  t = ty_norm(s->c, t);
  if (t->tag == TY_TENSOR)
    find_paths_in_shape(s, t->tensor.shape);
  if ((t->tag != TY_TUPLE && t->tag != TY_RECORD) ||
      s->step_count == MAX_PATH_STEPS)
    return;
  charge_work(s->c, t->count);
  for (uint32_t i = 0; i < t->count; i++) {
    s->steps[s->step_count++] = (struct SizePathStep){
        t->tag == TY_RECORD ? t->record.labels[i] : NULL, i};
    find_paths_in_type(s, t->args[i]);
    s->step_count--;
  }
}

void implicit_find_paths(Checker *c, Core *type_lambda, Type *t) {
  const Core *fn = type_lambda->items[0];
  PathSearch s = {.c = c, .type_lambda = type_lambda};
  t = ty_norm(c, t);
  for (; fn->kind == CORE_LAM && s.param < fn->param_count && t->tag == TY_FUN;
       s.param++, t = ty_norm(c, t->fun.result))
    if (!fn->params[s.param].default_value)
      find_paths_in_type(&s, t->fun.param);
  type_lambda->size_paths = s.paths.at;
  type_lambda->size_path_count = s.paths.len;
}

bool implicit_has_path(const Scheme *s, const void *var) {
  for (uint32_t i = 0; s->type_lambda && i < s->type_lambda->size_path_count;
       i++)
    if (s->type_lambda->size_paths[i].var == var ||
        s->type_lambda->size_paths[i].shape_var == var)
      return true;
  return false;
}
