/* The operations of a kernel as C: straight-line code, one block for each loop
 * level.  Loop-invariant operations are hoisted to the level at which they are
 * known. */
#include "backend/emit/scalar_ops.h"

#include <math.h>
#include <string.h>

enum { MAX_DEMAND_CHARS = 600 };

#define format emit_format

/* ---- operands ---- */

/* A vector of another class. */
static const char *emit_converted(Emitter *e, const char *x, char from,
                                  char to) {
  static const char *const names[] = {"il wide",     "li narrow",
                                      "id double_i", "ld double_l",
                                      "fd double_f", "df float_d"};
  for (uint32_t j = 0; j < ARRAY_LEN(names); j++)
    if (names[j][0] == from && names[j][1] == to)
      return format(e, "%s(%s)", names[j] + 3, x);
  return format(e, "CONVERT(%s, v%c)", x, to);
}

/* The value of an operation as a vector of a class. */
const char *emit_vector(Emitter *e, uint32_t op_index, char class) {
  char from = e->ops.classes[op_index];
  if (!e->ops.varies[op_index]) {
    const char *cast =
        class == 'b' || from == class ? ""
                                      : format(e, "(%s)", scalar_type(class));
    return format(e, "splat_%c(%ss%u)", class, cast,
                  op_index + e->ops.first_name);
  }
  const char *x = format(e, "v%u", op_index + e->ops.first_name);
  if (from == class)
    return x;
  if (from == 'b')
    x = format(e, class == 'i' ? "(%s & 1)" : "%s & 1", x), from = 'i';
  return from == class ? x : emit_converted(e, x, from, class);
}

/* An operand of a vector operation, which may stay a scalar. */
const char *emit_operand(Emitter *e, uint32_t op_index, char class,
                         bool is_vector) {
  if (is_vector)
    return emit_vector(e, op_index, class);
  return e->ops.classes[op_index] == class ? format(e, "s%u",
                                                    op_index +
                                                        e->ops.first_name)
                                           : format(e, "(%s)s%u",
                                                    scalar_type(class),
                                                    op_index +
                                                        e->ops.first_name);
}

const char *emit_scalar(Emitter *e, uint32_t op_index) {
  return format(e, "s%u", op_index + e->ops.first_name);
}

void emit_define(Emitter *e, uint32_t op_index, const char *value) {
  char class = e->ops.classes[op_index];
  if (e->ops.varies[op_index])
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "const v%c v%u = %s;\n", vector_type_letter(class),
                  op_index + e->ops.first_name, value);
  else
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "%s %s s%u = %s;\n", emit_const_qualifier(e),
                  scalar_type(class), op_index + e->ops.first_name, value);
}

/* An operation with more precision than its type keeps its value, since stores
 * round or wrap.  `narrowed` is the element from `wide`, the value's name. */
static void emit_define_narrowed(Emitter *e, uint32_t op_index,
                                 const char *value, const char *narrowed) {
  Buffer *to = emit_block_at(e, e->ops.levels[op_index]);
  uint32_t name = op_index + e->ops.first_name;
  buffer_printf(to, "const v%c wide%u = %s;\n",
                vector_type_letter(e->ops.classes[op_index]), name, value);
  buffer_puts(to, "__attribute__((unused)) ");
  emit_define(e, op_index, narrowed);
  e->ops.has_unrounded[op_index] = true;
}

const char *emit_store_value(Emitter *e, uint32_t op_index, Dtype t) {
  if (e->ops.has_unrounded[op_index] && e->loop->ops.at[op_index].dtype == t)
    return format(e, "wide%u", op_index + e->ops.first_name);
  return e->dialect->scalars_only ? emit_scalar(e, op_index)
                                  : emit_vector(e, op_index, emit_class(e, t));
}

const char *emit_loaded(Emitter *e, uint32_t op_index, const char *value) {
  bool narrow = e->ops.classes[op_index] == 'i' &&
                e->loop->ops.at[op_index].dtype == DT_I64;
  return narrow ? format(e, "narrow(%s)", value) : value;
}

void emit_define_loaded(Emitter *e, uint32_t op_index, const char *value) {
  emit_define(e, op_index, emit_loaded(e, op_index, value));
}

/* ---- checks of indices and divisors ---- */

/* An operation that is emitted several times has one check. */
uint32_t emit_check_index(Emitter *e, uint32_t op_index) {
  Call *call = &e->emitted->call;
  const KernelOp *s = &e->loop->ops.at[op_index];
  for (uint32_t j = 0; j < call->checks.len; j++)
    if (call->checks.at[j] == s)
      return j;
  if (call->checks.len < MAX_CHECKS)
    VEC_PUSH(e->arena, call->checks, s);
  return call->checks.len - 1;
}

/* A mark in demanded_lanes, compared by address: the value is unused.  Fusion
 * leaves such operations. */
static const char not_demanded[] = "";

void emit_check(Emitter *e, uint32_t op_index, bool is_vector,
                const char *is_invalid) {
  const char *demand = e->ops.demanded_lanes[op_index];
  if (e->loop->ops.at[op_index].proved_safe)
    return;
  if (!demand)
    e->failed = true;
  buffer_printf(&e->check_code, "bad%u |= %s(%s) & %s & LIVE;\n",
                emit_check_index(e, op_index), is_vector ? "" : "splat_b",
                is_invalid, demand);
}

static const char *condition_mask(Emitter *e, uint32_t op_index) {
  return emit_vector(e, op_index, 'b');
}

static const char *mask_and(Emitter *e, const char *x, const char *y) {
  const char *r = !strcmp(x, "ALL") ? y : format(e, "(%s & %s)", x, y);
  return strlen(r) > MAX_DEMAND_CHARS ? NULL : r;
}

static void add_demand(Emitter *e, uint32_t op_index, const char *extra) {
  const char *previous = e->ops.demanded_lanes[op_index];
  bool first = previous == not_demanded;
  if (!extra || !previous)
    e->ops.demanded_lanes[op_index] = NULL;
  else if (first || !strcmp(extra, "ALL"))
    e->ops.demanded_lanes[op_index] = extra;
  else if (strcmp(previous, "ALL") && strcmp(previous, extra))
    e->ops.demanded_lanes[op_index] =
        strlen(previous) + strlen(extra) > MAX_DEMAND_CHARS
            ? NULL
            : format(e, "(%s | %s)", previous, extra);
}

typedef struct Demand {
  Emitter *e;
  const char *lanes;
} Demand;

static void add_uniform_demand(void *context, uint32_t op_index) {
  Demand *n = context;
  add_demand(n->e, op_index, n->lanes);
}

/* Finds the lanes in which each operation's value is used. */
static void find_demanded_lanes(Emitter *e) {
  uint32_t count = e->loop->ops.len;
  bool is_check =
      e->loop == e->kernel->trim_check || e->loop == e->kernel->retry_check;
  for (uint32_t j = 0; j < count; j++)
    e->ops.demanded_lanes[j] = not_demanded;
  for (uint32_t j = 0; j < e->loop->outputs.len; j++) {
    const LoopOutput *r = &e->loop->outputs.at[j];
    bool read = r->global_index || r->local_index || r->reduce == PRIM_FOLD ||
                e->loop->outputs.len == 1 || is_check;
    if (read && r->value_op < count) /* other outputs are used in this loop
                                        only, or computed elsewhere */
      e->ops.demanded_lanes[r->value_op] = "ALL";
  }
  for (uint32_t j = count; j-- > 0;) {
    const KernelOp *s = &e->loop->ops.at[j];
    const char *demand = e->ops.demanded_lanes[j];
    if (demand == not_demanded || (e->ops.precomputed && e->ops.precomputed[j]))
      continue;
    bool has_interval_mask =
        s->kind == KOP_SELECT && emit_has_interval_mask(e, j);
    if (has_interval_mask) {
      Demand n = {e, demand};
      emit_each_uniform_condition(e, s->args[0], add_uniform_demand, &n);
    }
    for (uint32_t a = has_interval_mask ? 2 : 0; a < s->arg_count; a++) {
      const char *arg = demand;
      if (a > 0 && emit_is_masked_load(e, j) &&
          (a == 1 || !emit_has_passthru(e, j)))
        continue; /* it is only loaded if the condition holds */
      if (s->kind == KOP_SELECT && a > 0 && demand && !has_interval_mask) {
        const char *m = condition_mask(e, s->args[0]);
        arg = mask_and(e, demand, a == 1 ? m : format(e, "~%s", m));
      }
      add_demand(e, s->args[a], arg);
    }
    if (s->kind == KOP_LOAD)
      for (uint32_t a = 0; a < s->checked_index_count; a++)
        add_demand(e, s->checked_indices[a].index_op, demand);
  }
}

/* ---- operations ---- */

static char wider_class(char x, char y) {
  static const char ranks[] = "biulfd";
  return strchr(ranks, x) > strchr(ranks, y) ? x : y;
}

bool is_float_class(char class) {
  return class == 'f' || class == 'd';
}

/* Integers whose bits are those of a float. */
static bool is_float_of_bits(PrimId op) {
  return op == PRIM_F32_OF_BITS || op == PRIM_F64_OF_BITS;
}

/* The class in which an operation is computed: the widest of its arguments and
 * its numeric result. */
static char working_class(const Emitter *e, uint32_t op_index,
                          const KernelOp *s) {
  if (s->kind == KOP_MAP && is_float_of_bits(s->op))
    return emit_class(e, e->loop->ops.at[s->args[0]].dtype);
  bool narrows_to_i32 = s->dtype == DT_BOOL || e->ops.classes[op_index] == 'i';
  char class = 'b';
  for (uint32_t j = s->op == PRIM_SELECT; j < s->arg_count; j++) {
    const KernelOp *x = &e->loop->ops.at[s->args[j]];
    char of = e->ops.classes[s->args[j]];
    bool fits_i32 = of == 'l' && narrows_to_i32 && e->ops.varies[op_index] &&
                    !e->ops.varies[s->args[j]] &&
                    range_fits_i32(x->low, x->high);
    class = wider_class(class, fits_i32 ? 'i' : of);
  }
  return s->dtype == DT_BOOL ? class
                             : wider_class(class, e->ops.classes[op_index]);
}

/* 8-bit integers are computed in 32 bits, unless these are the lanes, and so
 * are 16-bit floats. */
static void emit_define_wrapped(Emitter *e, uint32_t op_index, const char *x) {
  const KernelOp *s = &e->loop->ops.at[op_index];
  bool is_vector = e->ops.varies[op_index],
       half = dtype_is_narrow_float(s->dtype),
       byte = s->dtype == DT_U8 || s->dtype == DT_I8;
  const char *type = dtype_info[s->dtype].name;
  const char *wide = format(e, "wide%u", op_index + e->ops.first_name);
  if (half && (is_vector || e->dialect->scalars_only))
    emit_define_narrowed(e, op_index, x, format(e, "round_%s(%s)", type, wide));
  else if (half)
    emit_define(e, op_index,
                format(e, "first_f(round_%s(splat_f(%s)))", type, x));
  else if (byte && !is_vector)
    emit_define(
        e, op_index,
        format(e, "(%s_t)(%s)", s->dtype == DT_U8 ? "uint8" : "int8", x));
  else if (byte && !e->has_byte_lanes)
    emit_define_narrowed(
        e, op_index, x,
        format(e, s->dtype == DT_U8 ? "%s & 255" : "(vi)((vu)%s << 24) >> 24",
               wide));
  else
    emit_define(e, op_index, x);
}

/* ---- texts of primitives/map.def and reduce.def ---- */

static void put_template_name(Buffer *out, char name, char class,
                              const char *const *args) {
  switch (name) {
  case 'x':
  case 'y':
  case 'z':
    buffer_puts(out, args[name - 'x']);
    break;
  case 'c':
    buffer_printf(out, "%c", class);
    break;
  case 't':
    buffer_puts(out, scalar_type(class));
    break;
  case 'u':
    buffer_puts(out, class == 'l' ? "uint64_t" : "uint32_t");
    break;
  case 'f':
    buffer_puts(out, class == 'f' ? "f" : "");
    break;
  }
}

const char *emit_template(Emitter *e, const char *template, char class,
                          const char *const *args) {
  Buffer out = {.arena = e->arena};
  if (!template) {
    e->failed = true;
    return "0";
  }
  for (const char *at = template; *at; at++)
    if (*at == '$')
      put_template_name(&out, *++at, class, args);
    else
      buffer_printf(&out, "%c", *at);
  return out.text;
}

static const PrimText *map_text(PrimId op, char class) {
  const MapInfo *row = &map_info[op];
  return !is_float_class(class)            ? &row->integer
         : class == 'd' && row->f64.scalar ? &row->f64
                                           : &row->f32;
}

const char *emit_map(Emitter *e, PrimId op, char class, bool is_vector,
                     const char *const *args) {
  const PrimText *text = map_text(op, class);
  const char *cuda = e->dialect->is_cuda ? map_info[op].cuda.scalar : NULL;
  return emit_template(e,
                       cuda        ? cuda
                       : is_vector ? text->vector
                                   : text->scalar,
                       class, args);
}

/* Returns true if the second argument is uniform and the row has a text for
 * that. */
static bool has_uniform_argument(const Emitter *e, const KernelOp *s,
                                 char class) {
  return map_info[s->op].uniform.scalar && is_float_class(class) &&
         !e->ops.varies[s->args[1]];
}

/* select(condition, x, y) for vectors or scalars of a class */
const char *emit_select(Emitter *e, char class, bool is_vector, const char *c,
                        const char *x, const char *y) {
  return is_vector ? format(e, "sel_%c(%s, %s, %s)", class, c, x, y)
                   : format(e, "(%s ? %s : %s)", c, x, y);
}

/* A comparison of vectors of a class, as a mask. */
static const char *emit_compare(Emitter *e, char class, bool is_vector,
                                const char *condition) {
  return is_vector ? format(e, "test_%c(%s)", class, condition) : condition;
}

/* Names an argument, so that an expression may use it twice. */
static const char *emit_named(Emitter *e, uint32_t op_index, char class,
                              bool is_vector, const char *value) {
  uint32_t name = e->next_id++;
  if (is_vector)
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "const v%c t%u = %s;\n", vector_type_letter(class), name,
                  value);
  else
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "const %s t%u = %s;\n", scalar_type(class), name, value);
  return format(e, "t%u", name);
}

/* Returns true if the divisor is a positive constant of 31 bits. */
static bool divides_by_constant(const Emitter *e, uint32_t op_index,
                                const KernelOp *s, char class) {
  const KernelOp *divisor = &e->loop->ops.at[s->args[1]];
  return (s->op == PRIM_DIV || s->op == PRIM_MOD) && class == 'i' &&
         e->ops.varies[op_index] && e->width > 1 &&
         divisor->kind == KOP_CONST &&
         extent_is_static(e->kernel->graph, divisor->value.i) &&
         divisor->value.i >= 1 && divisor->value.i <= INT32_MAX;
}

static const char *emit_constant_division(Emitter *e, uint32_t op_index,
                                          const KernelOp *s) {
  const char *x = emit_operand(e, s->args[0], 'i', true);
  int divisor = (int)e->loop->ops.at[s->args[1]].value.i;
  x = x[0] == 'v' ? x : emit_named(e, op_index, 'i', true, x);
  const char *q =
      emit_divide_by_constant(e, x, &e->loop->ops.at[s->args[0]], divisor);
  return s->op == PRIM_DIV ? q : format(e, "%s - %s * %d", x, q, divisor);
}

/* An operation that fails for some second arguments, which are checked unless
 * their range proves them valid. */
static const char *emit_fallible(Emitter *e, uint32_t op_index,
                                 const KernelOp *s, bool is_vector,
                                 const char *const *args) {
  const KernelOp *divisor = &e->loop->ops.at[s->args[1]];
  bool is_division = map_info[s->op].fault == ARITH_DIVIDE_BY_ZERO;
  bool is_valid = divisor->low > 0 || (is_division && divisor->high < 0) ||
                  (!is_division && divisor->low >= 0);
  char class = working_class(e, op_index, s);
  const char *x[] = {args[0], args[1], NULL};
  if (!is_valid || (e->ops.varies[s->args[1]] && is_division)) {
    const char *is_invalid =
        format(e, is_division ? "%s == 0" : "%s < 0", x[1]);
    uint32_t name = e->next_id++;
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "const %s w%u = %s;\n", is_vector ? "vi" : "int", name,
                  emit_compare(e, class, is_vector, is_invalid));
    if (!is_valid) /* otherwise only lanes of a tail are invalid */
      emit_check(e, op_index, is_vector, format(e, "w%u", name));
    const char *one = is_vector ? format(e, "splat_%c(1)", class) : "1";
    x[1] = emit_named(
        e, op_index, class, is_vector,
        emit_select(e, class, is_vector, format(e, "w%u", name), one, x[1]));
  }
  return emit_map(e, s->op, class, is_vector, x);
}

/* Returns true for the sum of an earlier loop. */
static bool is_row_sum(const Emitter *e, const KernelOp *s) {
  return s->kind == KOP_LOAD_LOCAL &&
         e->function.locals[s->source_loop][s->source_output].is_row_sum;
}

/* Computes the reciprocal next to the sum, before the loop.  In an unrolled
 * loop, its conditions prevent compilers from hoisting it. */
static const char *emit_row_sum_division(Emitter *e, const KernelOp *s,
                                         const char *const *a) {
  uint32_t name = e->next_id++;
  buffer_printf(emit_block_at(e, e->ops.levels[s->args[1]]),
                "const ax_inverse d%u = ax_invert(%s);\n", name, a[1]);
  return format(e, "%s(%s, d%u)", e->dialect->divide_by_row_sum, a[0], name);
}

static const KernelOp *argument(const Emitter *e, const KernelOp *s,
                                uint32_t j) {
  return &e->loop->ops.at[s->args[j]];
}

static bool is_f32_map(const KernelOp *s, PrimId op) {
  return s->kind == KOP_MAP && s->op == op && s->dtype == DT_F32;
}

/* The number of the argument that is 1; 2: neither is. */
static uint32_t argument_that_is_one(const Emitter *e, const KernelOp *s) {
  for (uint32_t j = 0; j < 2; j++)
    if (argument(e, s, j)->kind == KOP_CONST && argument(e, s, j)->value.f == 1)
      return j;
  return 2;
}

/* CUDA: sigmoids in f32 without branches, or NULL.  1 / (1 + e^x) is a
 * reciprocal of a number that is at least 1; so is (1 + tanh x) / 2. */
static const char *emit_sigmoid(Emitter *e, uint32_t op_index,
                                const KernelOp *s, const char *const *a) {
  uint32_t one = s->arg_count == 2 ? argument_that_is_one(e, s) : 2;
  const bool *may = e->dialect->approximates_sigmoid;
  bool approximates = may && may[op_index];
  if (!e->dialect->is_cuda || one == 2)
    return NULL;
  const KernelOp *other = argument(e, s, 1 - one);
  if (is_f32_map(s, PRIM_ADD) && is_f32_map(other, PRIM_TANH) && approximates)
    return format(e, "ax_tanh_plus_1(%s)", emit_scalar(e, other->args[0]));
  if (!is_f32_map(s, PRIM_DIV) || one != 0 || !is_f32_map(other, PRIM_ADD))
    return NULL;
  uint32_t sum_one = argument_that_is_one(e, other);
  const KernelOp *power = sum_one < 2 ? argument(e, other, 1 - sum_one) : other;
  if (!is_f32_map(power, PRIM_EXP))
    return NULL;
  return approximates ? format(e, "ax_reciprocal(1.0f + ax_exp_rounded(%s))",
                               emit_scalar(e, power->args[0]))
                      : format(e, "ax_reciprocal_from_1(%s)", a[1]);
}

static const char *emit_primitive_expr(Emitter *e, uint32_t op_index,
                                       const KernelOp *s, char class,
                                       bool is_vector, const char *const *a) {
  const PrimText *uniform = &map_info[s->op].uniform;
  if (s->op == PRIM_DIV && class == 'f' && e->dialect->divide_by_row_sum &&
      is_row_sum(e, &e->loop->ops.at[s->args[1]]))
    return emit_row_sum_division(e, s, a);
  const char *sigmoid = emit_sigmoid(e, op_index, s, a);
  if (sigmoid)
    return sigmoid;
  if (s == e->dialect->approximated_tanh)
    return format(e, "ax_tanh_absolute(%s)", a[0]);
  if (map_info[s->op].fault != ARITH_OK && !is_float_class(class))
    return emit_fallible(e, op_index, s, is_vector, a);
  if (has_uniform_argument(e, s, class))
    return emit_template(e, is_vector ? uniform->vector : uniform->scalar,
                         class, a);
  return emit_map(e, s->op, class, is_vector, a);
}

static void emit_primitive(Emitter *e, uint32_t op_index, const KernelOp *s) {
  char class = working_class(e, op_index, s), result = e->ops.classes[op_index];
  bool is_vector = e->ops.varies[op_index], is_select = s->op == PRIM_SELECT;
  const char *args[3] = {NULL, NULL, NULL};
  if (divides_by_constant(e, op_index, s, class)) {
    emit_define_wrapped(e, op_index, emit_constant_division(e, op_index, s));
    return;
  }
  for (uint32_t j = 0; j < s->arg_count; j++) {
    char c = is_select && j == 0 ? 'b' : class;
    bool is_vector_operand =
        is_vector && !(j == 1 && has_uniform_argument(e, s, class));
    args[j] = emit_operand(e, s->args[j], c, is_vector_operand);
    if (args[j][0] != 's' && args[j][0] != 'v')
      args[j] = emit_named(e, op_index, c, is_vector_operand, args[j]);
    else if (!strncmp(args[j], "splat", 5))
      args[j] = emit_named(e, op_index, c, is_vector_operand, args[j]);
  }
  const char *value =
      emit_primitive_expr(e, op_index, s, class, is_vector, args);
  if (s->dtype != DT_BOOL && class != result && is_vector)
    value =
        class == 'l' && result == 'i' ? format(e, "narrow(%s)", value) : value;
  if (is_select)
    emit_define(e, op_index, value);
  else
    emit_define_wrapped(e, op_index, value);
}

static void emit_select_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  char class = e->ops.classes[op_index];
  bool is_vector = e->ops.varies[op_index];
  if (emit_is_masked_load(e, op_index)) {
    emit_define(e, op_index, emit_masked_load(e, op_index));
    return;
  }
  emit_define(e, op_index,
              emit_select(e, class, is_vector,
                          emit_operand(e, s->args[0], 'b', is_vector),
                          emit_operand(e, s->args[1], class, is_vector),
                          emit_operand(e, s->args[2], class, is_vector)));
}

/* ---- conversions, as in scalar_convert ---- */

/* Returns true for conversions to a 16-bit float from a type with more
 * precision than f32. */
static bool rounds_twice(const Emitter *e, uint32_t op_index,
                         const KernelOp *s) {
  Dtype from = e->loop->ops.at[s->args[0]].dtype;
  return e->ops.classes[op_index] == 'f' && s->dtype != DT_F32 &&
         (from == DT_F64 || from == DT_I64 || from == DT_I32);
}

/* A float that rounds to a 16-bit float as the value does. */
static const char *emit_rounded_to_odd(Emitter *e, uint32_t op_index,
                                       const KernelOp *s) {
  bool is_i32 = e->ops.classes[s->args[0]] == 'i';
  char from = e->ops.varies[op_index] && is_i32 ? 'i' : 'd';
  const char *name = from == 'i'          ? "odd_i"
                     : s->dtype == DT_F16 ? "odd_f16"
                                          : "odd_d";
  const char *x = emit_operand(e, s->args[0], from, e->ops.varies[op_index]);
  return format(e,
                e->ops.varies[op_index] ? "%s(%s)" : "first_f(%s(splat_d(%s)))",
                name, x);
}

static void emit_convert_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  char from = e->ops.classes[s->args[0]], to = e->ops.classes[op_index];
  bool is_vector = e->ops.varies[op_index];
  const char *v = emit_operand(e, s->args[0], from, is_vector);
  if (s->dtype == DT_BOOL) {
    emit_define(e, op_index,
                from == 'b' ? v
                            : emit_compare(e, from, is_vector,
                                           format(e, "%s != 0", v)));
    return;
  }
  if (is_float_class(from) && !is_float_class(to)) {
    const char *name = dtype_info[s->dtype].name; /* saturating */
    emit_define(e, op_index,
                is_vector ? format(e, "to_%s_%c(%s)", name, from, v)
                          : format(e, "to_%s(%s)", name, v));
    return;
  }
  if (rounds_twice(e, op_index, s)) {
    emit_define_wrapped(e, op_index, emit_rounded_to_odd(e, op_index, s));
    return;
  }
  emit_define_wrapped(e, op_index, emit_operand(e, s->args[0], to, is_vector));
}

static const char *emit_constant(Emitter *e, const KernelOp *s) {
  if (!dtype_is_float(s->dtype))
    return s->value.i == 0 || s->value.i == 1 ? format(e, "%d", (int)s->value.i)
                                              : emit_plain_int(e, s->value.i);
  if (s->value.f == 0 && !signbit(s->value.f))
    return "0";
  return s->value.f == 1 ? "1" : emit_float(e, s->value.f);
}

static void emit_affine_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  const char *base = emit_affine(e, s->affine);
  if (!e->ops.varies[op_index]) {
    emit_define(e, op_index, base);
    return;
  }
  char class = e->ops.classes[op_index];
  emit_define(e, op_index,
              format(e, "%s%s + %s", class == 'i' ? "(int32_t)" : "",
                     strcmp(base, "0") ? format(e, "(%s)", base) : "0",
                     emit_varying_terms(e, s->affine, class)));
}

/* Element args[0] of the random sequence of a key. */
static void emit_random_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  bool is_vector = e->ops.varies[op_index],
       narrow = dtype_is_narrow_float(s->dtype);
  char class = e->ops.classes[op_index];
  const char *type = dtype_info[s->dtype].name;
  const char *number = emit_vector(e, s->args[0], 'l');
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
  emit_define(e, op_index, is_vector ? x : format(e, "first_%c(%s)", class, x));
}

static void emit_pack_bf16x2(Emitter *e, uint32_t op_index, const KernelOp *s) {
  const char *x =
      format(e, "pair_bf16(%s, %s)", emit_vector(e, s->args[0], 'f'),
             emit_vector(e, s->args[1], 'f'));
  emit_define(e, op_index,
              e->ops.varies[op_index] ? x : format(e, "first_i(%s)", x));
}

static void emit_dot_bytes(Emitter *e, uint32_t op_index, const KernelOp *s) {
  const char *x =
      format(e, "dot_bytes(%s, %s, splat_i(0))",
             emit_vector(e, s->args[0], 'i'), emit_vector(e, s->args[1], 'i'));
  emit_define(e, op_index,
              e->ops.varies[op_index] ? x : format(e, "first_i(%s)", x));
}

/* ---- operations of a loop ---- */

static void emit_op(Emitter *e, uint32_t op_index) {
  const KernelOp *s = &e->loop->ops.at[op_index];
  if (e->ops.precomputed && e->ops.precomputed[op_index]) {
    emit_define(e, op_index, e->ops.precomputed[op_index]);
    return;
  }
  switch (s->kind) {
  case KOP_CONST:
    emit_define(e, op_index, emit_constant(e, s));
    break;
  case KOP_AFFINE:
    emit_affine_op(e, op_index, s);
    break;
  case KOP_LOAD:
    emit_load_op(e, op_index, s);
    break;
  case KOP_LOAD_LOCAL:
    emit_local_load_op(e, op_index, s);
    break;
  case KOP_MAP:
    emit_primitive(e, op_index, s);
    break;
  case KOP_SELECT:
    emit_select_op(e, op_index, s);
    break;
  case KOP_CONVERT:
    emit_convert_op(e, op_index, s);
    break;
  case KOP_RANDOM:
    emit_random_op(e, op_index, s);
    break;
  case KOP_PACK_BF16X2:
    emit_pack_bf16x2(e, op_index, s);
    break;
  case KOP_DOT_BYTES:
    emit_dot_bytes(e, op_index, s);
    break;
  }
}

static void place_op(Emitter *e, uint32_t op_index) {
  const KernelOp *s = &e->loop->ops.at[op_index];
  uint32_t level = 0;
  bool varies = false;
  if (s->kind == KOP_AFFINE) {
    level = emit_affine_level(e, s->affine);
    varies = emit_affine_varies(e, s->affine);
  } else if (s->kind == KOP_LOAD) {
    level = emit_affine_level(e, s->address);
    varies = emit_load_varies(e, s);
    for (uint32_t j = 0; j < s->checked_index_count; j++)
      if (e->ops.levels[s->checked_indices[j].index_op] > level)
        level = e->ops.levels[s->checked_indices[j].index_op];
  }
  if (s->kind == KOP_LOAD_LOCAL) {
    level = emit_affine_level(e, s->address);
    uint32_t last = e->loop->parallel_axes - 1;
    for (uint32_t v = e->loop->parallel_axes; v-- > 0;)
      if (e->levels.of[v] > level)
        level = e->levels.of[v];
    varies = emit_affine_varies(e, s->address) || e->vector_axis == last;
  }
  for (uint32_t j = 0; j < s->arg_count; j++) {
    varies |= e->ops.varies[s->args[j]];
    if (e->ops.levels[s->args[j]] > level)
      level = e->ops.levels[s->args[j]];
  }
  char class = emit_class(e, s->dtype);
  bool narrow = varies || e->dialect->narrow_ints;
  if (narrow && emit_fits_i32(s))
    class = 'i';
  if (e->has_byte_lanes && s->kind == KOP_CONVERT &&
      dtype_info[s->dtype].bytes > 1) /* a term of sums, which stays a byte */
    class = e->ops.classes[s->args[0]];
  e->ops.levels[op_index] = level;
  e->ops.varies[op_index] = varies;
  e->ops.classes[op_index] = class;
}

bool emit_is_demanded(const Emitter *e, uint32_t op_index) {
  return e->ops.demanded_lanes[op_index] != not_demanded;
}

void emit_place_ops(Emitter *e) {
  emit_floor_divs(e);
  for (uint32_t j = 0; j < e->loop->ops.len; j++)
    place_op(e, j);
}

void emit_demanded_ops(Emitter *e) {
  find_demanded_lanes(e);
  for (uint32_t j = 0; j < e->loop->ops.len && !e->failed; j++)
    if (emit_is_demanded(e, j) && j != e->ops.contracted)
      emit_op(e, j);
}

void emit_ops(Emitter *e) {
  emit_place_ops(e);
  emit_demanded_ops(e);
}
