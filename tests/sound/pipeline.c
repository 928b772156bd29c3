/* Programs that are a row of operations on tensors, right by construction or
 * broken at one of them: at top level, as a function that is called at several
 * sizes, with annotations, or with sizes that are unknown before it runs. */
#include "tests/sound/sound.h"
#include "support/arena.h"

#include <stdlib.h>
#include <string.h>

typedef enum Mode { TOP, FUN, ANNOTATED, DATA } Mode;

enum { MAX_STEPS = 8, MAX_INPUTS = 3, NAMES = 12, LITERAL = -1 };

typedef struct Pipeline {
  Mode mode;
  GenStep step[MAX_STEPS];
  int steps, inputs;
  Env base;            /* of the inputs alone */
  Env call[MAX_CALLS]; /* likewise, other sizes */
  int calls;
  int name[MAX_INPUTS][MAX_AXES];  /* ANNOTATED: n0, n1, ... or LITERAL */
  int times[MAX_INPUTS][MAX_AXES]; /* as 2 in 2*n0 */
  uint32_t drop;
  ConstraintClass broken;
} Pipeline;

static bool is_dropped(const Pipeline *p, int step) {
  return p->drop >> step & 1;
}

/* ---- the truth ---- */

/* Of all variables; *failed: the first step that is wrong. */
static Truth pipeline_shapes(const Pipeline *p, Env *env, int *failed) {
  Truth truth = TRUTH_RIGHT;
  env->count = p->inputs;
  for (int i = 0; i < p->steps; i++) {
    Extents *out = &env->var[env->count];
    *out = (Extents){.rank = 0};
    if (!is_dropped(p, i)) {
      truth = p->step[i].op->shape(env, &p->step[i], out);
      *failed = i;
      if (truth != TRUTH_RIGHT)
        return truth;
    }
    env->count++;
  }
  return TRUTH_RIGHT;
}

/* Its annotations, met with these inputs. */
static Truth names_fit(const Pipeline *p, const Env *env) {
  int64_t size[NAMES];
  for (int i = 0; i < NAMES; i++)
    size[i] = BROADCAST_AXIS;
  for (int i = 0; i < p->inputs; i++) {
    const Extents *x = &env->var[i], *base = &p->base.var[i];
    if (x->rank != base->rank)
      return TRUTH_WRONG;
    for (int k = 0; k < x->rank; k++) {
      int name = p->name[i][k];
      int64_t *known = name == LITERAL ? NULL : &size[name];
      int times = p->times[i][k];
      int64_t want = !known                     ? base->at[k]
                     : *known == BROADCAST_AXIS ? BROADCAST_AXIS
                                                : *known * times;
      if ((want != BROADCAST_AXIS && want != x->at[k]) || x->at[k] % times)
        return TRUTH_WRONG;
      if (known)
        *known = x->at[k] / times;
    }
  }
  return TRUTH_RIGHT;
}

static Truth truth_of(const Pipeline *p, const Env *inputs, Env *env,
                      bool *skipped) {
  int failed;
  bool unsure = false;
  *env = *inputs;
  env->ranks_known = p->mode != FUN;
  env->skipped = skipped;
  env->unknown = &unsure;
  if (p->mode == ANNOTATED && names_fit(p, inputs) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  Truth truth = pipeline_shapes(p, env, &failed);
  return unsure ? TRUTH_UNKNOWN : truth;
}

/* At the sizes that a witness names, and some for the rest: it is to be blamed
 * only if it is right for all of these. */
static Truth truth_at(void *arg, const char *witness) {
  const Pipeline *p = arg;
  int64_t size[NAMES];
  for (int fill = 0; fill < 8; fill++) {
    Env inputs = p->base, env;
    for (int i = 0; i < NAMES; i++)
      size[i] = fill ? fill : BROADCAST_AXIS;
    for (const char *at = witness; (at = strstr(at, " = ")); at += 3) {
      const char *name = at;
      while (name > witness && name[-1] != ' ')
        name--;
      int n = *name == 'n' ? atoi(name + 1) : NAMES;
      if (n >= NAMES)
        return TRUTH_UNKNOWN;
      size[n] = atoll(at + 3);
    }
    for (int i = 0; i < p->inputs; i++)
      for (int k = 0; k < inputs.var[i].rank; k++)
        if (p->name[i][k] != LITERAL && size[p->name[i][k]] != BROADCAST_AXIS)
          inputs.var[i].at[k] = size[p->name[i][k]] * p->times[i][k];
    if (truth_of(p, &inputs, &env, NULL) != TRUTH_RIGHT)
      return TRUTH_WRONG;
  }
  return TRUTH_RIGHT;
}

/* ---- making one ---- */

static const Op *pick_op(Gen *g) {
  static const Op *const tables[] = {move_ops, math_ops, loop_ops, call_ops,
                                     library_ops};
  int total = 0;
  for (int round = 0;; round++) {
    int left = round ? random_below(g, total) : 0;
    for (uint32_t t = 0; t < ARRAY_LEN(tables); t++)
      for (const Op *op = tables[t]; op->name; op++) {
        if (!round)
          total += op->weight;
        else if ((left -= op->weight) < 0)
          return op;
      }
  }
}

static bool is_small(const Extents *s) {
  return s->rank <= MAX_AXES - 2 && axes_prod(s) <= 2000;
}

static void make_inputs(Gen *g, Pipeline *p, int64_t *palette, int colours) {
  p->inputs = random_between(g, 1, MAX_INPUTS);
  for (int i = 0; i < p->inputs; i++) {
    Extents *x = &p->base.var[i];
    x->rank = random_percent(g, 70) ? random_between(g, 1, 2)
                                    : random_between(g, 3, 4);
    for (int k = 0; k < x->rank; k++)
      x->at[k] = palette[random_below(g, colours)];
    if (i && random_percent(g, 25))
      *x = p->base.var[0];
  }
  p->base.count = p->inputs;
}

static void make_steps(Gen *g, Pipeline *p) {
  Env env = p->base;
  env.ranks_known = p->mode != FUN;
  int wanted = random_between(g, 1, MAX_STEPS - 1);
  for (int tries = 0; p->steps < wanted && tries < 80; tries++) {
    GenStep *s = &p->step[p->steps];
    Extents *out = &env.var[env.count];
    *s = (GenStep){.op = pick_op(g)};
    *out = (Extents){.rank = 0};
    if (s->op->right_variants)
      s->variant = random_below(g, s->op->right_variants);
    if (!s->op->make(g, &env, s) || s->op->shape(&env, s, out) != TRUTH_RIGHT ||
        !is_small(out))
      continue;
    env.count++;
    p->steps++;
  }
}

/* ---- breaking one ---- */

static Size **some_size(Gen *g, GenStep *s) {
  Size **all[MAX_SIZES + 2 * MAX_ITEMS];
  int n = 0;
  for (int i = 0; i < s->sizes; i++)
    if (s->size[i])
      all[n++] = &s->size[i];
  for (int i = 0; i < s->items; i++) {
    if (s->item[i].from)
      all[n++] = &s->item[i].from;
    if (s->item[i].to)
      all[n++] = &s->item[i].to;
  }
  return n ? all[random_below(g, n)] : NULL;
}

static Size *changed_size(Gen *g, const Env *env, const Size *old) {
  int64_t n;
  if (size_value(old, env, &n) != TRUTH_RIGHT)
    return NULL;
  n += random_percent(g, 50)   ? 1
       : random_percent(g, 50) ? -1
                               : random_between(g, 2, 5);
  return n < 0                   ? NULL
         : random_percent(g, 50) ? size_int(g, n)
                                 : size_for(g, env, n);
}

/* Changes one thing about a step; says what that is about. */
static bool change_step(Gen *g, const Env *env, GenStep *s,
                        ConstraintClass *row) {
  *row = CONSTRAINT_NONE;
  if (s->op->wrong_variants && random_percent(g, 60)) {
    s->variant = s->op->right_variants + random_below(g, s->op->wrong_variants);
    *row = s->op->row;
    return true;
  }
  if (s->op->takes_keep && random_percent(g, 40)) {
    s->keep_axes = !s->keep_axes;
    *row = CONSTRAINT_KEEP;
    return true;
  }
  switch (random_below(g, 4)) {
  case 0:
  case 1: {
    Size **at = some_size(g, s), *size;
    if (!at || !(size = changed_size(g, env, *at)))
      return false;
    *at = size;
    return true;
  }
  case 2:
    s->axis += random_between(g, 1, 3) * (s->axis < 0 ? -1 : 1);
    *row = CONSTRAINT_AXIS;
    return true;
  }
  if (!s->operand_count)
    return false;
  s->operands[random_below(g, s->operand_count)] = random_below(g, env->count);
  return true;
}

/* Exactly one operation fails: the changed one, or one that uses it. */
static void break_one(Gen *g, Pipeline *p) {
  for (int tries = 0; tries < 40; tries++) {
    int at = random_below(g, p->steps), failed = 0;
    GenStep saved = p->step[at];
    Env env = p->base;
    ConstraintClass row;
    env.ranks_known = p->mode != FUN;
    pipeline_shapes(p, &env, &failed);
    env.count = p->inputs + at;
    if (change_step(g, &env, &p->step[at], &row)) {
      env = p->base;
      env.ranks_known = p->mode != FUN;
      Truth truth = pipeline_shapes(p, &env, &failed);
      if (truth == TRUTH_WRONG && (failed == at || row == CONSTRAINT_KEEP)) {
        p->broken = row;
        return;
      }
    }
    p->step[at] = saved;
  }
}

/* ---- other sizes to call it at ---- */

static void make_calls(Gen *g, Pipeline *p, const int64_t *palette,
                       int colours) {
  p->call[p->calls++] = p->base;
  if (p->mode == TOP || p->mode == DATA)
    return;
  int wanted = random_between(g, 1, MAX_CALLS - 1);
  while (p->calls <= wanted) {
    Env *env = &p->call[p->calls++];
    int64_t size[8];
    *env = p->base;
    for (int i = 0; i < colours; i++)
      size[i] = random_between(g, 1, 7);
    for (int i = 0; i < p->inputs; i++)
      for (int k = 0; k < env->var[i].rank; k++)
        for (int c = 0; c < colours; c++)
          if (p->base.var[i].at[k] == palette[c])
            env->var[i].at[k] = size[c];
    Extents *x = &env->var[random_below(g, p->inputs)];
    if (random_percent(g, 20) && x->rank)
      x->at[random_below(g, x->rank)] = random_between(g, 1, 6);
    if (random_percent(g, 8) && x->rank < 4)
      x->at[x->rank++] = random_between(g, 1, 3);
  }
}

/* Sizes that are equal mostly have one name, as a writer would know. */
static void make_names(Gen *g, Pipeline *p, const int64_t *palette,
                       int colours) {
  int fresh = colours;
  for (int i = 0; i < p->inputs; i++)
    for (int k = 0; k < p->base.var[i].rank; k++) {
      int how = random_below(g, 20);
      int *name = &p->name[i][k];
      *name = LITERAL;
      p->times[i][k] = 1;
      for (int c = 0; how < 17 && c < colours; c++)
        if (p->base.var[i].at[k] == palette[c])
          *name = c;
      if (how >= 17 && how < 19 && fresh < NAMES) {
        *name = fresh++;
        p->times[i][k] =
            1 + (p->base.var[i].at[k] % 2 == 0 && random_percent(g, 60));
      }
    }
}

static Pipeline *pipeline_new(Gen *g) {
  Pipeline *p = NEW(g->arena, Pipeline);
  int64_t palette[4];
  int colours = random_between(g, 2, 4), how = random_below(g, 100);
  p->mode = how < 20 ? TOP : how < 75 ? FUN : how < 92 ? ANNOTATED : DATA;
  for (int i = 0; i < colours; i++) /* all different */
    for (bool again = true; again;) {
      palette[i] = random_percent(g, 3) ? 0 : random_between(g, 1, 6);
      again = false;
      for (int k = 0; k < i; k++)
        again |= palette[k] == palette[i];
    }
  make_inputs(g, p, palette, colours);
  make_steps(g, p);
  bool broken = p->steps && random_percent(g, 35);
  if (broken)
    break_one(g, p);
  make_names(g, p, palette, colours);
  make_calls(g, p, palette, colours);
  p->drop = g->dropped_parts; /* of its text: it is made in whole */
  return p;
}

/* ---- its text ---- */

static bool is_used(const Pipeline *p, int var) {
  for (int i = 0; i < p->steps; i++) {
    const GenStep *s = &p->step[i];
    if (is_dropped(p, i))
      continue;
    for (int k = 0; k < s->operand_count; k++)
      if (s->operands[k] == var)
        return true;
    for (int k = 0; k < s->sizes; k++)
      if (size_mentions(s->size[k], var))
        return true;
    for (int k = 0; k < s->items; k++)
      if (size_mentions(s->item[k].from, var) ||
          size_mentions(s->item[k].to, var))
        return true;
  }
  return false;
}

/* The values that no other is made of, so that all has to be right. */
static int leaves(const Pipeline *p, int *out) {
  int n = 0;
  for (int i = 0; i < p->steps; i++)
    if (!is_dropped(p, i) && !is_used(p, p->inputs + i))
      out[n++] = p->inputs + i;
  if (!n)
    out[n++] = 0;
  return n;
}

static void put_leaves(Buffer *out, const Pipeline *p, const char *prefix) {
  int leaf[MAX_STEPS], n = leaves(p, leaf);
  PUT(out, n > 1 ? "(" : "");
  for (int i = 0; i < n; i++)
    PUT(out, "%s%s%d", i ? ", " : "", prefix, leaf[i]);
  PUT(out, n > 1 ? ")" : "");
}

static void put_steps(Buffer *out, const Pipeline *p, const char *margin) {
  for (int i = 0; i < p->steps; i++)
    if (!is_dropped(p, i)) {
      PUT(out, "%sval v%d = ", margin, p->inputs + i);
      p->step[i].op->print(out, &p->step[i]);
      PUT(out, "\n");
    }
}

static void put_param(Buffer *out, const Pipeline *p, int input) {
  if (p->mode != ANNOTATED) {
    PUT(out, " v%d", input);
    return;
  }
  PUT(out, " (v%d : f32[", input);
  for (int k = 0; k < p->base.var[input].rank; k++) {
    int name = p->name[input][k];
    if (name == LITERAL)
      PUT(out, "%s%d", k ? ", " : "", (int)p->base.var[input].at[k]);
    else
      PUT(out, "%s%sn%d", k ? ", " : "", p->times[input][k] == 2 ? "2*" : "",
          name);
  }
  PUT(out, "])");
}

static void put_function(Buffer *out, const Pipeline *p) {
  PUT(out, "fun f");
  for (int i = 0; i < p->inputs; i++)
    put_param(out, p, i);
  PUT(out, " =\n  let\n");
  put_steps(out, p, "    ");
  PUT(out, "  in ");
  put_leaves(out, p, "v");
  PUT(out, " end\n");
}

static void put_value(Buffer *out, const Pipeline *p, const Extents *x) {
  PUT(out, p->mode == DATA ? "forget (zeros " : "(zeros ");
  axes_brackets(out, x);
  PUT(out, " : ");
  axes_type(out, x);
  PUT(out, ")");
}

static void put_call(Buffer *out, const Pipeline *p, int n) {
  const Env *env = &p->call[n];
  bool fun = p->mode == FUN || p->mode == ANNOTATED;
  for (int i = 0; !fun && i < p->inputs; i++) {
    PUT(out, "val v%d = ", i);
    put_value(out, p, &env->var[i]);
    PUT(out, "\n");
  }
  if (!fun)
    put_steps(out, p, "");
  PUT(out, "val r%d = ", n);
  if (!fun)
    put_leaves(out, p, "v");
  PUT(out, fun ? "f" : "");
  for (int i = 0; fun && i < p->inputs; i++) {
    PUT(out, " ");
    put_value(out, p, &env->var[i]);
  }
  int leaf[MAX_STEPS], count = leaves(p, leaf);
  PUT(out, "\nval ");
  put_leaves(out, p, "q");
  PUT(out, " = r%d\n", n);
  for (int i = 0; i < count; i++)
    PUT(out, "do print (shape q%d)\ndo print (sum q%d)\n", leaf[i], leaf[i]);
}

static void put_expected(Call *call, const Pipeline *p, const Env *env) {
  int leaf[MAX_STEPS], count = leaves(p, leaf);
  for (int i = 0; i < count; i++) {
    PUT(&call->type, i ? " * " : "");
    axes_type(&call->type, &env->var[leaf[i]]);
    axes_brackets(&call->output, &env->var[leaf[i]]);
    PUT(&call->output, "\n");
  }
}

static bool has_nothing(const Env *env) {
  bool found = false;
  for (int i = 0; i < env->count; i++)
    found |= axes_prod(&env->var[i]) == 0;
  return found;
}

void pipeline_script(Gen *g, Script *out) {
  static const char *const family[] = {"values", "functions", "annotated",
                                       "data"};
  Pipeline *p = pipeline_new(g);
  *out = (Script){.family = family[p->mode],
                  .sizes_depend_on_data = p->mode == DATA,
                  .is_single_call = p->mode == TOP || p->mode == DATA,
                  .is_annotated = p->mode == ANNOTATED,
                  .broken = p->broken,
                  .at = truth_at,
                  .at_arg = p};
  Buffer steps = {.arena = g->arena};
  put_steps(&steps, p, "");
  put_helpers(&out->defs, steps.text ? steps.text : "");
  for (int i = 0; i < p->steps; i++)
    out->sizes_depend_on_data |=
        !is_dropped(p, i) && p->step[i].op->size_depends_on_data;
  if (p->mode == FUN || p->mode == ANNOTATED)
    put_function(&out->defs, p);
  for (int i = 0; i < p->calls; i++) {
    if (p->drop >> (16 + i) & 1)
      continue;
    Call *call = &out->call[out->calls++];
    Env env;
    call->truth = truth_of(p, &p->call[i], &env, &call->vacuous);
    call->empty = p->mode != TOP && has_nothing(&env);
    put_call(&call->text, p, i);
    if (call->truth == TRUTH_RIGHT)
      put_expected(call, p, &env);
  }
  for (int i = 0; i < p->steps; i++)
    if (!is_dropped(p, i) && !is_used(p, p->inputs + i))
      out->parts |= (uint32_t)1 << i;
  for (int i = 0; i < p->calls; i++)
    out->parts |= (uint32_t)1 << (16 + i);
}
