/* Hidden sizes and shapes that the parameters of a function show.  A caller of
 * which the types do not say what they are (what it hands over was loaded from
 * a file that nobody has read, say) leaves them to the function. */
#include "typecheck/internal.h"

#include <string.h>

enum { PATH_MOST = 8 };

typedef struct Shown {
  Checker *c;
  Core *tlam;
  uint32_t param;
  struct CoreStep steps[PATH_MOST];
  uint32_t len;
  VEC(CoreBind) out;
} Shown;

static bool is_hidden(const Core *tlam, const void *var) {
  for (uint32_t i = 0; i < tlam->hidden_count; i++) {
    const Hidden *h = &tlam->hidden[i];
    if ((h->kind == HID_DIM && h->dim_var == var) ||
        (h->kind == HID_SHAPE && h->shape_var == var))
      return true;
  }
  return false;
}

static void add_bind(Shown *s, CoreBind b) {
  b.param = s->param;
  b.step_count = s->len;
  b.steps = NEW_ARRAY(s->c->arena, struct CoreStep, s->len);
  memcpy(b.steps, s->steps, s->len * sizeof *b.steps);
  VEC_PUSH(s->c->arena, s->out, b);
}

/* How many splices of any number of axes there are; *at: where the last is. */
static uint32_t splices_of(const Shape *s, uint32_t *at) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_SPLICE && s->at[i].var->fixed != 1)
      *at = i, n++;
  return n;
}

static void shape_shows(Shown *s, const Shape *s0) {
  Shape *shape = shape_norm(s->c, s0);
  uint32_t at = 0, splices = splices_of(shape, &at);
  if (splices > 1)
    return;
  for (uint32_t i = 0; i < shape->len; i++) {
    const ShapeIt *it = &shape->at[i];
    uint32_t after = shape->len - 1 - i;
    DimVar *v = it->tag == IT_DIM ? dim_as_var(it->dim) : NULL;
    if (v && is_hidden(s->tlam, v))
      add_bind(s, (CoreBind){.var = v, .axis = splices && i > at
                                                   ? -1 - (int)after
                                                   : (int)i});
    else if (it->tag == IT_SPLICE && it->var->fixed != 1 &&
             is_hidden(s->tlam, it->var))
      add_bind(s, (CoreBind){.shape = it->var, .axis = (int)i,
                             .after = after});
  }
}

static void type_shows(Shown *s, Type *t) {
  t = ty_norm(s->c, t);
  if (t->tag == TY_TENSOR)
    shape_shows(s, t->shape);
  if ((t->tag != TY_TUPLE && t->tag != TY_RECORD) || s->len == PATH_MOST)
    return;
  spend(s->c, t->count);
  for (uint32_t i = 0; i < t->count; i++) {
    s->steps[s->len++] = (struct CoreStep){
        t->tag == TY_RECORD ? t->labels[i] : NULL, i};
    type_shows(s, t->args[i]);
    s->len--;
  }
}

void sizes_shown(Checker *c, Core *tlam, Type *t) {
  const Core *fn = tlam->items[0];
  Shown s = {.c = c, .tlam = tlam};
  t = ty_norm(c, t);
  for (; fn->kind == CORE_LAM && s.param < fn->param_count && t->tag == TY_FUN;
       s.param++, t = ty_norm(c, t->arg[1]))
    if (!fn->params[s.param].preset)
      type_shows(&s, t->arg[0]);
  tlam->binds = s.out.at;
  tlam->bind_count = s.out.len;
}

bool size_is_shown(const Scheme *s, const void *var) {
  for (uint32_t i = 0; s->tlam && i < s->tlam->bind_count; i++)
    if (s->tlam->binds[i].var == var || s->tlam->binds[i].shape == var)
      return true;
  return false;
}
