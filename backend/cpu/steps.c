/* The steps of a kernel as C: straight-line code in blocks, one for each loop:
 * what does not change with a loop stands outside of it. */
#include "backend/cpu/steps.h"
#include "backend/cpu/tiling.h"

#include <math.h>
#include <string.h>

enum { NEED_MOST = 600 };

#define format emit_format

/* ---- operands ---- */

/* A step's value as lanes of a class. */
const char *emit_lanes(Emitter *e, uint32_t at, char class) {
  char from = e->classes[at];
  if (!e->varies[at]) {
    const char *cast =
        class == 'b' || from == class ? ""
                                      : format(e, "(%s)", scalar_type(class));
    return format(e, "splat_%c(%ss%u)", class, cast, at + e->first);
  }
  if (from == class)
    return format(e, "v%u", at + e->first);
  if (from == 'b')
    return class == 'i'
               ? format(e, "(v%u & 1)", at + e->first)
               : format(e, "CONVERT(v%u & 1, v%c)", at + e->first, class);
  return format(e, "CONVERT(v%u, v%c)", at + e->first, class);
}

/* An operand beside another one that is lanes: a scalar may stay one. */
const char *step_operand(Emitter *e, uint32_t at, char class, bool lanes) {
  if (lanes)
    return emit_lanes(e, at, class);
  return e->classes[at] == class ? format(e, "s%u", at + e->first)
                                 : format(e, "(%s)s%u", scalar_type(class),
                                          at + e->first);
}

const char *emit_scalar(Emitter *e, uint32_t at) {
  return format(e, "s%u", at + e->first);
}

void step_define(Emitter *e, uint32_t at, const char *value) {
  char class = e->classes[at];
  if (e->varies[at])
    buffer_printf(step_block(e, e->levels[at]), "const v%c v%u = %s;\n",
                  vector_letter(class), at + e->first, value);
  else
    buffer_printf(step_block(e, e->levels[at]), "%s %s s%u = %s;\n",
                  step_constant(e), scalar_type(class), at + e->first, value);
}

/* What is computed with more bits than it has is there before it is rounded,
 * too, for stores, which round. */
static void define_rounded(Emitter *e, uint32_t at, const char *value) {
  const char *type = dtype_info[e->loop->steps.at[at].dtype].name;
  const char *wide = format(e, "wide%u", at + e->first);
  Buffer *to = step_block(e, e->levels[at]);
  buffer_printf(to, "const vf %s = %s;\n", wide, value);
  buffer_puts(to, "__attribute__((unused)) ");
  step_define(e, at, format(e, "round_%s(%s)", type, wide));
  e->rounds[at] = true;
}

const char *emit_stored(Emitter *e, uint32_t at, Dtype t) {
  if (e->rounds[at] && e->loop->steps.at[at].dtype == t)
    return format(e, "wide%u", at + e->first);
  return e->dialect ? emit_scalar(e, at) : emit_lanes(e, at, class_of(t));
}

/* Lanes that come from memory. */
void step_define_loaded(Emitter *e, uint32_t at, const char *value) {
  bool narrow = e->classes[at] == 'i' && e->loop->steps.at[at].dtype == DT_I64;
  step_define(e, at, narrow ? format(e, "narrow(%s)", value) : value);
}

/* ---- checks: an index or a divisor that is wrong where it is needed ---- */

/* A step that is written more than once has one. */
uint32_t step_check_number(Emitter *e, uint32_t at) {
  Call *call = &e->out->call;
  const Step *s = &e->loop->steps.at[at];
  for (uint32_t j = 0; j < call->checks.len; j++)
    if (call->checks.at[j] == s)
      return j;
  if (call->checks.len < CHECK_BITS)
    VEC_PUSH(e->arena, call->checks, s);
  return call->checks.len - 1;
}

void step_check(Emitter *e, uint32_t at, bool lanes, const char *wrong) {
  const char *need = e->need[at];
  if (e->loop->steps.at[at].sure)
    return;
  if (!need)
    e->failed = true;
  buffer_printf(&e->checks, "bad%u |= %s(%s) & %s & LIVE;\n",
                step_check_number(e, at), lanes ? "" : "splat_b", wrong, need);
}

static const char *mask_of(Emitter *e, uint32_t at) {
  return emit_lanes(e, at, 'b');
}

static const char *both(Emitter *e, const char *x, const char *y) {
  const char *r = !strcmp(x, "ALL") ? y : format(e, "(%s & %s)", x, y);
  return strlen(r) > NEED_MOST ? NULL : r;
}

static void add_need(Emitter *e, uint32_t at, const char *more) {
  const char *old = e->need[at];
  bool first = old == (const char *)e; /* not seen yet */
  if (!more || !old)
    e->need[at] = NULL;
  else if (first || !strcmp(more, "ALL"))
    e->need[at] = more;
  else if (strcmp(old, "ALL") && strcmp(old, more))
    e->need[at] = strlen(old) + strlen(more) > NEED_MOST
                      ? NULL
                      : format(e, "(%s | %s)", old, more);
}

typedef struct Need {
  Emitter *e;
  const char *need;
} Need;

static void add_scalar_need(void *context, uint32_t at) {
  Need *n = context;
  add_need(n->e, at, n->need);
}

/* Under which condition the value of a step is wanted at all; NULL: that is
 * too long to say. */
static void find_needs(Emitter *e) {
  uint32_t count = e->loop->steps.len;
  for (uint32_t j = 0; j < count; j++)
    e->need[j] = (const char *)e;
  for (uint32_t j = 0; j < e->loop->results.len; j++) {
    const Result *r = &e->loop->results.at[j];
    bool read = r->out || r->local || e->loop->results.len == 1 ||
                e->loop == e->k->guard;
    if (read && r->step < count) /* the others were read in this loop alone, or
                                    are computed elsewhere */
      e->need[r->step] = "ALL";
  }
  for (uint32_t j = count; j-- > 0;) {
    const Step *s = &e->loop->steps.at[j];
    const char *need = e->need[j];
    if (need == (const char *)e || (e->given && e->given[j]))
      continue;
    bool ranged = s->kind == STEP_SELECT && emit_is_ranged(e, j);
    if (ranged) {
      Need n = {e, need};
      emit_each_scalar(e, s->args[0], add_scalar_need, &n);
    }
    for (uint32_t a = ranged ? 2 : 0; a < s->arg_count; a++) {
      const char *arg = need;
      if (a > 0 && emit_is_masked(e, j) && (a == 1 || !emit_masked_else(e, j)))
        continue; /* it is loaded where the condition holds */
      if (s->kind == STEP_SELECT && a > 0 && need && !ranged) {
        const char *m = mask_of(e, s->args[0]);
        arg = both(e, need, a == 1 ? m : format(e, "~%s", m));
      }
      add_need(e, s->args[a], arg);
    }
    if (s->kind == STEP_READ)
      for (uint32_t a = 0; a < s->index_count; a++)
        add_need(e, s->indices[a].step, need);
  }
}

/* ---- operations ---- */

static char wider(char x, char y) {
  static const char ranks[] = "bilfd";
  return strchr(ranks, x) > strchr(ranks, y) ? x : y;
}

static bool is_test(PrimId op) {
  return op == PRIM_EQ || op == PRIM_NE || op == PRIM_LT || op == PRIM_LE ||
         op == PRIM_GT || op == PRIM_GE;
}

bool is_float_class(char class) {
  return class == 'f' || class == 'd';
}

/* The class in which an operation is computed: its arguments', and as wide as
 * a number that comes out. */
static char working_class(const Emitter *e, uint32_t at, const Step *s) {
  bool narrows = is_test(s->op) || e->classes[at] == 'i';
  char class = 'b';
  for (uint32_t j = s->op == PRIM_SELECT; j < s->arg_count; j++) {
    const Step *x = &e->loop->steps.at[s->args[j]];
    char of = e->classes[s->args[j]];
    bool small = of == 'l' && narrows && e->varies[at] &&
                 !e->varies[s->args[j]] && step_fits_i32(x->low, x->high);
    class = wider(class, small ? 'i' : of);
  }
  return s->dtype == DT_BOOL ? class : wider(class, e->classes[at]);
}

/* Integers of eight bits live in 32, floats of 16 too. */
static void define_fitting(Emitter *e, uint32_t at, const char *x) {
  const Step *s = &e->loop->steps.at[at];
  bool lanes = e->varies[at], half = s->dtype == DT_F16 || s->dtype == DT_BF16;
  if (half && (lanes || e->dialect)) {
    define_rounded(e, at, x);
    return;
  }
  if (s->dtype == DT_U8)
    x = lanes ? format(e, "(%s) & 255", x) : format(e, "(uint8_t)(%s)", x);
  else if (s->dtype == DT_I8)
    x = lanes ? format(e, "(vi)((vu)(%s) << 24) >> 24", x)
              : format(e, "(int8_t)(%s)", x);
  else if (half)
    x = format(e, "first_f(round_%s(splat_f(%s)))", dtype_info[s->dtype].name,
               x);
  step_define(e, at, x);
}

static const char *const functions[PRIM_COUNT] = {
    [PRIM_FLOOR] = "floor", [PRIM_CEIL] = "ceil", [PRIM_ROUND] = "nearbyint",
    [PRIM_TRUNC] = "trunc", [PRIM_SQRT] = "sqrt", [PRIM_EXP] = "exp",
    [PRIM_EXPM1] = "expm1", [PRIM_LOG] = "log",   [PRIM_LOG1P] = "log1p",
    [PRIM_SIN] = "sin",     [PRIM_COS] = "cos",   [PRIM_TAN] = "tan",
    [PRIM_ATAN2] = "atan2", [PRIM_SINH] = "sinh", [PRIM_COSH] = "cosh",
    [PRIM_TANH] = "tanh",   [PRIM_ERF] = "erf",   [PRIM_POW] = "pow",
};

/* Has the prelude a function of whole vectors for it?  Then scalars take it
 * too, so that an element is the same wherever it stands. */
static bool has_lanes(PrimId op, char class) {
  return class == 'f' || op != PRIM_ATAN2;
}

static const char *call_text(Emitter *e, const Step *s, char class, bool lanes,
                             const char *const *args) {
  const char *name = functions[s->op];
  if (has_lanes(s->op, class)) {
    const char *x = args[0], *y = s->arg_count == 2 ? args[1] : NULL;
    if (!lanes) {
      x = format(e, "splat_%c(%s)", class, x);
      y = y ? format(e, "splat_%c(%s)", class, y) : NULL;
    }
    const char *call = y ? format(e, "%s_%c(%s, %s)", name, class, x, y)
                         : format(e, "%s_%c(%s)", name, class, x);
    return lanes ? call : format(e, "first_%c(%s)", class, call);
  }
  const char *f = format(e, "__builtin_%s", name);
  if (!lanes)
    return s->arg_count == 1 ? format(e, "%s(%s)", f, args[0])
                             : format(e, "%s(%s, %s)", f, args[0], args[1]);
  if (s->arg_count == 1)
    return format(e, "LANES1(v%c, %s, %s)", class, f, args[0]);
  return format(e, "LANES2(v%c, %s, %s, %s)", class, f, args[0], args[1]);
}

/* A power that all lanes have: the prelude knows what is quicker for some. */
static bool is_even_power(const Emitter *e, const Step *s, char class) {
  return s->op == PRIM_POW && is_float_class(class) && !e->varies[s->args[1]];
}

static const char *even_power(Emitter *e, char class, bool lanes, const char *x,
                              const char *y) {
  return lanes ? format(e, "pow_by_%c(%s, %s)", class, x, y)
               : format(e, "first_%c(pow_by_%c(splat_%c(%s), %s))", class,
                        class, class, x, y);
}

static const char *const infixes[PRIM_COUNT] = {
    [PRIM_ADD] = "+", [PRIM_SUB] = "-", [PRIM_MUL] = "*",
    [PRIM_EQ] = "==", [PRIM_NE] = "!=", [PRIM_LT] = "<",
    [PRIM_LE] = "<=", [PRIM_GT] = ">",  [PRIM_GE] = ">=",
};

/* select(condition, x, y) on lanes or scalars of a class */
const char *step_choose(Emitter *e, char class, bool lanes, const char *c,
                        const char *x, const char *y) {
  return lanes ? format(e, "sel_%c(%s, %s, %s)", class, c, x, y)
               : format(e, "(%s ? %s : %s)", c, x, y);
}

/* A test on lanes of a class, as a mask. */
const char *step_test(Emitter *e, char class, bool lanes, const char *text) {
  return lanes ? format(e, "test_%c(%s)", class, text) : text;
}

/* Names for arguments, so that an expression may use one twice. */
static const char *named(Emitter *e, uint32_t at, char class, bool lanes,
                         const char *value) {
  uint32_t name = e->names++;
  if (lanes)
    buffer_printf(step_block(e, e->levels[at]), "const v%c t%u = %s;\n",
                  vector_letter(class), name, value);
  else
    buffer_printf(step_block(e, e->levels[at]), "const %s t%u = %s;\n",
                  scalar_type(class), name, value);
  return format(e, "t%u", name);
}

/* By a number that is known, of 31 bits; false: it is not. */
static bool divides_by_number(const Emitter *e, uint32_t at, const Step *s,
                              char class) {
  const Step *by = &e->loop->steps.at[s->args[1]];
  return (s->op == PRIM_DIV || s->op == PRIM_MOD) && class == 'i' &&
         e->varies[at] && e->s->width > 1 && by->kind == STEP_CONST &&
         size_is_number(e->k->graph, by->value.i) && by->value.i >= 1 &&
         by->value.i <= INT32_MAX;
}

static const char *number_division(Emitter *e, uint32_t at, const Step *s) {
  const char *x = step_operand(e, s->args[0], 'i', true);
  int by = (int)e->loop->steps.at[s->args[1]].value.i;
  x = x[0] == 'v' ? x : named(e, at, 'i', true, x);
  const char *q = emit_divided(e, x, &e->loop->steps.at[s->args[0]], by);
  return s->op == PRIM_DIV ? q : format(e, "%s - %s * %d", x, q, by);
}

/* Integer division: the divisor is looked at unless its bounds say enough. */
static const char *int_division(Emitter *e, uint32_t at, const Step *s,
                                bool lanes, const char *const *args) {
  const Step *by = &e->loop->steps.at[s->args[1]];
  const char *x = args[0], *y = args[1];
  const char *f = s->op == PRIM_DIV   ? "div_int"
                  : s->op == PRIM_MOD ? "mod_int"
                                      : "pow_int";
  bool safe = by->low > 0 || (s->op != PRIM_POW && by->high < 0) ||
              (s->op == PRIM_POW && by->low >= 0);
  char class = working_class(e, at, s);
  if (!safe || (e->varies[s->args[1]] && s->op != PRIM_POW)) {
    const char *wrong =
        s->op == PRIM_POW ? format(e, "%s < 0", y) : format(e, "%s == 0", y);
    uint32_t name = e->names++;
    buffer_printf(step_block(e, e->levels[at]), "const %s w%u = %s;\n",
                  lanes ? "vi" : "int", name,
                  step_test(e, class, lanes, wrong));
    if (!safe) /* else: in lanes behind the last one alone */
      step_check(e, at, lanes, format(e, "w%u", name));
    const char *one = lanes ? format(e, "splat_%c(1)", class) : "1";
    y = named(e, at, class, lanes,
              step_choose(e, class, lanes, format(e, "w%u", name), one, y));
  }
  if (lanes && s->op == PRIM_POW)
    return format(e, "LANES2(v%c, %s, %s, %s)", class, f, x, y);
  if (lanes)
    return format(e, "%s_%c(%s, %s)", s->op == PRIM_DIV ? "div" : "mod", class,
                  x, y);
  return format(e, "%s(%s, %s)", f, x, y);
}

static const char *float_mod(Emitter *e, char class, bool lanes, const char *x,
                             const char *y) {
  if (lanes)
    return format(e, "mod_%c(%s, %s)", class, x, y);
  return format(e, "mod_%s(%s, %s)", scalar_type(class), x, y);
}

/* One that an earlier loop left? */
static bool is_sum(const Emitter *e, const Step *s) {
  return s->kind == STEP_LOCAL && e->locals[s->loop][s->result].sum;
}

static const char *wrapping(Emitter *e, char class, bool lanes, const char *x,
                            const char *op, const char *y) {
  if (lanes || is_float_class(class))
    return format(e, "%s %s %s", x, op, y);
  const char *u = class == 'l' ? "uint64_t" : "uint32_t";
  return format(e, "(%s)((%s)%s %s (%s)%s)", scalar_type(class), u, x, op, u,
                y);
}

static const char *sign_text(Emitter *e, char class, bool lanes,
                             const char *x) {
  if (!lanes)
    return format(e, "(%s > 0 ? 1 : %s < 0 ? -1 : %s == 0 ? 0 : %s)", x, x, x,
                  x);
  const char *one = format(e, "splat_%c(1)", class);
  const char *more = step_test(e, class, true, format(e, "%s > 0", x));
  const char *less = step_test(e, class, true, format(e, "%s < 0", x));
  const char *zero = step_test(e, class, true, format(e, "%s == 0", x));
  const char *rest =
      format(e, "sel_%c(%s, splat_%c(0), %s)", class, zero, class, x);
  rest = step_choose(e, class, true, less, format(e, "-%s", one), rest);
  return step_choose(e, class, true, more, one, rest);
}

const char *emit_extreme(Emitter *e, bool most, char class, bool lanes,
                         const char *x, const char *y) {
  if (lanes && class != 'b')
    return format(e, "%s_%c(%s, %s)", most ? "most" : "least", class, x, y);
  const char *c =
      step_test(e, class, lanes, format(e, "%s %s %s", x, most ? ">" : "<", y));
  if (is_float_class(class))
    c = format(e, "(%s || %s != %s)", c, x, x);
  return step_choose(e, class, lanes, c, x, y);
}

static const char *abs_text(Emitter *e, char class, bool lanes, const char *x) {
  if (is_float_class(class) && !lanes)
    return format(e, "__builtin_fabs%s(%s)", class == 'f' ? "f" : "", x);
  if (is_float_class(class))
    return format(e, "abs_%c(%s)", class, x);
  const char *minus =
      lanes ? format(e, "-%s", x) : wrapping(e, class, false, "0", "-", x);
  return step_choose(e, class, lanes,
                     step_test(e, class, lanes, format(e, "%s < 0", x)), minus,
                     x);
}

static const char *op_text(Emitter *e, uint32_t at, const Step *s, char class,
                           bool lanes, const char *const *a) {
  switch ((int)s->op) {
  case PRIM_ADD:
  case PRIM_SUB:
  case PRIM_MUL:
    return wrapping(e, class, lanes, a[0], infixes[s->op], a[1]);
  case PRIM_DIV:
    if (class == 'f' && e->dialect && e->dialect->over &&
        is_sum(e, &e->loop->steps.at[s->args[1]]))
      return format(e, "%s(%s, %s)", e->dialect->over, a[0], a[1]);
    return is_float_class(class) ? format(e, "%s / %s", a[0], a[1])
                                 : int_division(e, at, s, lanes, a);
  case PRIM_MOD:
    return is_float_class(class) ? float_mod(e, class, lanes, a[0], a[1])
                                 : int_division(e, at, s, lanes, a);
  case PRIM_POW:
    if (is_even_power(e, s, class))
      return even_power(e, class, lanes, a[0], a[1]);
    return is_float_class(class) ? call_text(e, s, class, lanes, a)
                                 : int_division(e, at, s, lanes, a);
  case PRIM_NEG:
    return is_float_class(class) || lanes
               ? format(e, "-%s", a[0])
               : wrapping(e, class, false, "0", "-", a[0]);
  case PRIM_MAXIMUM:
  case PRIM_MINIMUM:
    return emit_extreme(e, s->op == PRIM_MAXIMUM, class, lanes, a[0], a[1]);
  case PRIM_ABS:
    return abs_text(e, class, lanes, a[0]);
  case PRIM_SIGN:
    return sign_text(e, class, lanes, a[0]);
  case PRIM_RSQRT:
    return lanes ? format(e, "rsqrt_%c(%s)", class, a[0])
                 : format(e, "1 / __builtin_sqrt%s(%s)",
                          class == 'f' ? "f" : "", a[0]);
  case PRIM_ISNAN:
    return step_test(e, class, lanes, format(e, "%s != %s", a[0], a[0]));
  case PRIM_AND:
    return lanes ? format(e, "%s & %s", a[0], a[1])
                 : format(e, "%s && %s", a[0], a[1]);
  case PRIM_OR:
    return lanes ? format(e, "%s | %s", a[0], a[1])
                 : format(e, "%s || %s", a[0], a[1]);
  case PRIM_NOT:
    return format(e, "%s%s", lanes ? "~" : "!", a[0]);
  case PRIM_SELECT:
    return step_choose(e, class, lanes, a[0], a[1], a[2]);
  }
  if (is_test(s->op))
    return step_test(e, class, lanes,
                     format(e, "%s %s %s", a[0], infixes[s->op], a[1]));
  if (functions[s->op] && is_float_class(class))
    return call_text(e, s, class, lanes, a);
  e->failed = true;
  return "0";
}

static void emit_op(Emitter *e, uint32_t at, const Step *s) {
  char class = working_class(e, at, s), result = e->classes[at];
  bool lanes = e->varies[at], chooses = s->op == PRIM_SELECT;
  const char *args[3] = {NULL, NULL, NULL};
  if (divides_by_number(e, at, s, class)) {
    define_fitting(e, at, number_division(e, at, s));
    return;
  }
  for (uint32_t j = 0; j < s->arg_count; j++) {
    char c = chooses && j == 0 ? 'b' : class;
    bool many = lanes && !(j == 1 && is_even_power(e, s, class));
    args[j] = step_operand(e, s->args[j], c, many);
    if (args[j][0] != 's' && args[j][0] != 'v')
      args[j] = named(e, at, c, many, args[j]);
    else if (!strncmp(args[j], "splat", 5))
      args[j] = named(e, at, c, many, args[j]);
  }
  const char *value = op_text(e, at, s, class, lanes, args);
  if (!is_test(s->op) && s->op != PRIM_ISNAN && class != result && lanes)
    value = class == 'l' ? format(e, "narrow(%s)", value) : value;
  if (chooses)
    step_define(e, at, value);
  else
    define_fitting(e, at, value);
}

static void emit_select(Emitter *e, uint32_t at, const Step *s) {
  char class = e->classes[at];
  bool lanes = e->varies[at];
  if (emit_is_masked(e, at)) {
    step_define(e, at, emit_masked(e, at));
    return;
  }
  step_define(e, at,
              step_choose(e, class, lanes,
                          step_operand(e, s->args[0], 'b', lanes),
                          step_operand(e, s->args[1], class, lanes),
                          step_operand(e, s->args[2], class, lanes)));
}

/* ---- conversions: as scalar_convert ---- */

/* To a float of 16 bits, from what has more bits than a float of 32? */
static bool rounds_twice(const Emitter *e, uint32_t at, const Step *s) {
  Dtype from = e->loop->steps.at[s->args[0]].dtype;
  return e->classes[at] == 'f' && s->dtype != DT_F32 &&
         (from == DT_F64 || from == DT_I64 || from == DT_I32);
}

static void emit_convert(Emitter *e, uint32_t at, const Step *s) {
  char from = e->classes[s->args[0]], to = e->classes[at];
  bool lanes = e->varies[at];
  const char *v = step_operand(e, s->args[0], from, lanes);
  if (s->dtype == DT_BOOL) {
    step_define(
        e, at,
        from == 'b' ? v : step_test(e, from, lanes, format(e, "%s != 0", v)));
    return;
  }
  if (is_float_class(from) && !is_float_class(to)) {
    const char *name = dtype_info[s->dtype].name; /* saturating */
    step_define(e, at,
                lanes ? format(e, "to_%s_%c(%s)", name, from, v)
                      : format(e, "to_%s(%s)", name, v));
    return;
  }
  if (rounds_twice(e, at, s)) {
    v = step_operand(e, s->args[0], 'd', lanes);
    v = lanes ? format(e, "odd_d(%s)", v)
              : format(e, "first_f(odd_d(splat_d(%s)))", v);
    define_fitting(e, at, v);
    return;
  }
  define_fitting(e, at, step_operand(e, s->args[0], to, lanes));
}

static const char *const_text(Emitter *e, const Step *s) {
  if (!dtype_is_float(s->dtype))
    return s->value.i == 0 || s->value.i == 1 ? format(e, "%d", (int)s->value.i)
                                              : emit_number(e, s->value.i);
  if (s->value.f == 0 && !signbit(s->value.f))
    return "0";
  return s->value.f == 1 ? "1" : emit_float(e, s->value.f);
}

static void emit_index(Emitter *e, uint32_t at, const Step *s) {
  const char *base = emit_quasi(e, s->index);
  if (!e->varies[at]) {
    step_define(e, at, base);
    return;
  }
  char class = e->classes[at];
  step_define(e, at,
              format(e, "%s%s + %s", class == 'i' ? "(int32_t)" : "",
                     strcmp(base, "0") ? format(e, "(%s)", base) : "0",
                     step_lane_terms(e, s->index, class)));
}

/* Element args[0] of the numbers that a key stands for. */
static void emit_random(Emitter *e, uint32_t at, const Step *s) {
  bool lanes = e->varies[at],
       narrow = s->dtype == DT_F16 || s->dtype == DT_BF16;
  char class = e->classes[at];
  const char *type = dtype_info[s->dtype].name;
  const char *number = emit_lanes(e, s->args[0], 'l');
  const char *key[2];
  for (uint32_t k = 0; k < 2; k++)
    key[k] = format(e, "(uint64_t)%s", emit_key(e, s->key, k));
  bool normal = s->op == PRIM_NORMAL;
  const char *x = format(e, "%s_%s(%s, %s, %s)", normal ? "normal" : "uniform",
                         narrow && !normal ? type
                         : class == 'f'    ? "f"
                                           : "d",
                         key[0], key[1], number);
  if (narrow && normal)
    x = format(e, "round_%s(%s)", type, x);
  step_define(e, at, lanes ? x : format(e, "first_%c(%s)", class, x));
}

static void emit_pair(Emitter *e, uint32_t at, const Step *s) {
  const char *x = format(e, "pair_bf16(%s, %s)", emit_lanes(e, s->args[0], 'f'),
                         emit_lanes(e, s->args[1], 'f'));
  step_define(e, at, e->varies[at] ? x : format(e, "first_i(%s)", x));
}

/* ---- steps ---- */

static void emit_step(Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  if (e->given && e->given[at]) {
    step_define(e, at, e->given[at]);
    return;
  }
  switch (s->kind) {
  case STEP_CONST:
    step_define(e, at, const_text(e, s));
    break;
  case STEP_INDEX:
    emit_index(e, at, s);
    break;
  case STEP_READ:
    step_read(e, at, s);
    break;
  case STEP_LOCAL:
    step_read_local(e, at, s);
    break;
  case STEP_OP:
    emit_op(e, at, s);
    break;
  case STEP_SELECT:
    emit_select(e, at, s);
    break;
  case STEP_CONVERT:
    emit_convert(e, at, s);
    break;
  case STEP_RANDOM:
    emit_random(e, at, s);
    break;
  case STEP_PAIR:
    emit_pair(e, at, s);
    break;
  }
}

static void place_step(Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  uint32_t level = 0;
  bool varies = false;
  if (s->kind == STEP_INDEX) {
    level = emit_level(e, s->index);
    varies = step_form_varies(e, s->index);
  } else if (s->kind == STEP_READ) {
    level = emit_level(e, s->address);
    varies = step_read_varies(e, s);
    for (uint32_t j = 0; j < s->index_count; j++)
      if (e->levels[s->indices[j].step] > level)
        level = e->levels[s->indices[j].step];
  }
  if (s->kind == STEP_LOCAL) {
    level = emit_level(e, s->address);
    uint32_t last = e->loop->outer - 1;
    for (uint32_t v = e->loop->outer; v-- > 0;)
      if (e->level_of[v] > level)
        level = e->level_of[v];
    varies = step_form_varies(e, s->address) || e->lane == last;
  }
  for (uint32_t j = 0; j < s->arg_count; j++) {
    varies |= e->varies[s->args[j]];
    if (e->levels[s->args[j]] > level)
      level = e->levels[s->args[j]];
  }
  char class = class_of(s->dtype);
  bool narrow = varies || (e->dialect && e->dialect->narrow);
  if (narrow && emit_fits_narrow(s))
    class = 'i';
  e->levels[at] = level;
  e->varies[at] = varies;
  e->classes[at] = class;
}

bool emit_is_needed(const Emitter *e, uint32_t at) {
  return e->need[at] != (const char *)e; /* some are nobody's any more */
}

void emit_placed(Emitter *e) {
  step_quotients(e);
  for (uint32_t j = 0; j < e->loop->steps.len; j++)
    place_step(e, j);
}

void emit_needed(Emitter *e) {
  find_needs(e);
  for (uint32_t j = 0; j < e->loop->steps.len && !e->failed; j++)
    if (emit_is_needed(e, j) && j != e->fused)
      emit_step(e, j);
}

void emit_steps(Emitter *e) {
  emit_placed(e);
  emit_needed(e);
}
