/* Bodies of comprehensions as C: each cell becomes a variable, or an expression
 * where it is an index. */
#include "session/cgen.h"

#include <math.h>
#include <string.h>

/* ---- texts ---- */

void cgen_line(Cgen *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (uint32_t k = 0; k <= e->depth; k++)
    buffer_puts(&e->body, "  ");
  buffer_vprintf(&e->body, format, args);
  buffer_putc(&e->body, '\n');
  va_end(args);
}

const char *cgen_format(Cgen *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(e->arena, format, args);
  va_end(args);
  return text;
}

const char *cgen_fresh(Cgen *e, const char *prefix) {
  return cgen_format(e, "%s%u", prefix, e->next++);
}

const char *cgen_type(Dtype t) {
  static const char *const names[DT_COUNT] = {
      [DT_BOOL] = "uint8_t", [DT_U8] = "uint8_t",    [DT_I8] = "int8_t",
      [DT_I32] = "int32_t",  [DT_I64] = "int64_t",   [DT_F16] = "uint16_t",
      [DT_BF16] = "uint16_t", [DT_F32] = "float",    [DT_F64] = "double"};
  return names[t];
}

const char *cgen_held(Dtype t) {
  if (dtype_is_float(t))
    return t == DT_F64 ? "double" : "float";
  return t == DT_I64 ? "int64_t" : "int32_t";
}

static const char *int_text(Cgen *e, int64_t x) {
  if (x == INT64_MIN)
    return "INT64_MIN";
  bool wide = x > INT32_MAX || x < -INT32_MAX;
  return cgen_format(e, x < 0 ? wide ? "(-INT64_C(%lld))" : "(-%lld)"
                        : wide ? "INT64_C(%lld)"
                               : "%lld",
                     (long long)(x < 0 ? -x : x));
}

const char *cgen_const(Cgen *e, Scalar x) {
  if (!dtype_is_float(x.dtype))
    return int_text(e, x.i);
  const char *suffix = x.dtype == DT_F64 ? "" : "f";
  if (isnan(x.f))
    return "NAN";
  if (isinf(x.f))
    return x.f < 0 ? "(-INFINITY)" : "INFINITY";
  bool negative = signbit(x.f);
  double y = negative ? -x.f : x.f;
  const char *text = y == floor(y) && y < 1e6 ? cgen_format(e, "%.1f", y)
                                              : cgen_format(e, "%a", y);
  return cgen_format(e, negative ? "(-%s%s)" : "%s%s", text, suffix);
}

static const char *size_var_name(void *arg, const DimVar *v) {
  Cgen *e = arg;
  for (uint32_t k = 0; k < e->t->size_count; k++)
    if (e->t->sizes[k].var == v)
      return e->size_vars[k];
  return "0";
}

const char *cgen_size(Cgen *e, int64_t x) {
  if (size_is_number(e->g, x))
    return int_text(e, x);
  const char *name = map_get(&e->size_names, (void *)(uintptr_t)x);
  if (name)
    return name;
  Buffer text = {.arena = e->arena};
  if (!size_emit(e->g, &text, x, size_var_name, e)) {
    session_error(e->s, 613, e->t->span, "%s cannot be built: a size of it, "
                  "%s, is too long a formula", e->t->name,
                  size_text(e->g, x).text);
    trap_raise(FAIL_ERROR);
  }
  bool plain = true;
  for (const char *p = text.text; *p; p++)
    plain &= *p != ' ' && *p != '(';
  name = text.text;
  if (!plain) {
    name = cgen_fresh(e, "e");
    VEC_PUSH(e->arena, e->size_lines, ((SizeLine){name, text.text}));
  }
  map_put(&e->size_names, (void *)(uintptr_t)x, (void *)(uintptr_t)name);
  return name;
}

const char *cgen_fail(Cgen *e, Span span, const char *message) {
  const Source *source = span.file ? sources_get(&e->s->sources, span.file)
                                   : NULL;
  if (source && source->library) {
    span = e->t->span;
    source = sources_get(&e->s->sources, span.file);
  }
  if (source) {
    uint32_t line, column;
    source_place(source, span.start, &line, &column);
    const char *slash = strrchr(source->name, '/');
    message = cgen_format(e, "%s:%u: %s", slash ? slash + 1 : source->name,
                          line, message);
  }
  uint32_t code = 0;
  for (uint32_t k = 0; k < e->m->messages.len; k++)
    if (strcmp(e->m->messages.at[k], message) == 0)
      code = k + 1;
  if (!code) {
    VEC_PUSH(e->s->arena, e->m->messages,
             arena_text(e->s->arena, message, strlen(message)));
    code = e->m->messages.len;
  }
  e->fails = true;
  return cgen_format(e, "{ code = %u; goto done; }", code);
}

NodeInfo *cgen_info(Cgen *e, const Node *n) {
  NodeInfo *info = map_get(&e->infos, n);
  if (!info) {
    info = NEW(e->arena, NodeInfo);
    map_put(&e->infos, n, info);
  }
  return info;
}

/* ---- scopes: what was computed in a block is known only there ---- */

uint32_t cgen_scope(Cgen *e) {
  return e->trail.len;
}

void cgen_leave(Cgen *e, uint32_t scope) {
  while (e->trail.len > scope)
    e->trail.at[--e->trail.len]->text = NULL;
}

static void keep(Cgen *e, Val *memo, Val v) {
  *memo = v;
  VEC_PUSH(e->arena, e->trail, memo);
}

static const char *in_variable(Cgen *e, Dtype t, const char *text) {
  const char *name = cgen_fresh(e, "v");
  cgen_line(e, "const %s %s = %s;", cgen_held(t), name, text);
  return name;
}

/* ---- indices ---- */

static Val lin_val(Cgen *e, const Lin *lin, const char *text);

static void lin_bounds(Cgen *e, Val *v) {
  Graph *g = e->g;
  int64_t low = v->lin->constant, high = low;
  bool good = true;
  for (uint32_t k = 0; good && k < e->axis_count; k++) {
    int64_t times = v->lin->times[k], last, far;
    if (times == 0)
      continue;
    good = size_sub(g, e->extent[k], 1, &last) &&
           size_mul(g, times, last, &far);
    if (good && size_holds(g, SIZE_LE, 0, times))
      good = size_add(g, high, far, &high);
    else if (good && size_holds(g, SIZE_LE, times, 0))
      good = size_add(g, low, far, &low);
    else
      good = false;
  }
  v->bounded = good;
  v->low = low;
  v->high = high;
}

static const char *lin_text(Cgen *e, const Lin *lin) {
  Buffer out = {.arena = e->arena};
  for (uint32_t k = 0; k < e->axis_count; k++) {
    if (lin->times[k] == 0)
      continue;
    buffer_puts(&out, out.len ? " + " : "");
    if (lin->times[k] == 1)
      buffer_puts(&out, e->axis[k]);
    else
      buffer_printf(&out, "%s * %s", cgen_size(e, lin->times[k]), e->axis[k]);
  }
  if (lin->constant || !out.len)
    buffer_printf(&out, "%s%s", out.len ? " + " : "",
                  cgen_size(e, lin->constant));
  bool one = true;
  for (const char *p = out.text; *p; p++)
    one &= *p != ' ';
  return one ? out.text : cgen_format(e, "(%s)", out.text);
}

static Val lin_val(Cgen *e, const Lin *lin, const char *text) {
  Val v = {.lin = lin, .text = text ? text : lin_text(e, lin)};
  lin_bounds(e, &v);
  return v;
}

Val cgen_axis(Cgen *e, uint32_t k) {
  Lin *lin = NEW(e->arena, Lin);
  lin->times[k] = 1;
  return lin_val(e, lin, e->axis[k]);
}

Val cgen_number(Cgen *e, int64_t size) {
  Lin *lin = NEW(e->arena, Lin);
  lin->constant = size;
  return lin_val(e, lin, cgen_size(e, size));
}

static bool lin_is_number(const Cgen *e, const Val *v) {
  for (uint32_t k = 0; v->lin && k < e->axis_count; k++)
    if (v->lin->times[k])
      return false;
  return v->lin;
}

static bool lin_scale(Cgen *e, const Lin *x, int64_t by, Lin *out) {
  bool good = size_mul(e->g, x->constant, by, &out->constant);
  for (uint32_t k = 0; good && k < e->axis_count; k++)
    good = size_mul(e->g, x->times[k], by, &out->times[k]);
  return good;
}

static bool lin_sum(Cgen *e, PrimId op, const Lin *x, const Lin *y, Lin *out) {
  bool (*f)(Graph *, int64_t, int64_t, int64_t *) =
      op == PRIM_ADD ? size_add : size_sub;
  bool good = f(e->g, x->constant, y->constant, &out->constant);
  for (uint32_t k = 0; good && k < e->axis_count; k++)
    good = f(e->g, x->times[k], y->times[k], &out->times[k]);
  return good;
}

static bool within(Cgen *e, const Val *v, int64_t low, int64_t end) {
  int64_t next;
  return v->bounded && size_holds(e->g, SIZE_LE, low, v->low) &&
         size_add(e->g, v->high, 1, &next) &&
         size_holds(e->g, SIZE_LE, next, end);
}

/* x = by * whole + rest, with 0 <= rest < by: of an index that was put together
 * from parts, as a reshape does. */
static bool lin_split(Cgen *e, const Lin *x, int64_t by, Lin *whole,
                      Lin *rest) {
  int64_t left;
  for (uint32_t k = 0; k <= e->axis_count; k++) {
    bool last = k == e->axis_count;
    int64_t part = last ? x->constant : x->times[k];
    int64_t *to = last ? &whole->constant : &whole->times[k];
    int64_t *over = last ? &rest->constant : &rest->times[k];
    if (size_mod(e->g, part, by, &left) && left == 0) {
      if (!size_div(e->g, part, by, to))
        return false;
    } else {
      *over = part;
    }
  }
  Val v = {.lin = rest};
  lin_bounds(e, &v);
  return within(e, &v, 0, by);
}

/* An operation on indices that is known to be one of axes and sizes. */
static bool index_op(Cgen *e, PrimId op, const Val *x, const Val *y, Val *out) {
  Lin *lin = NEW(e->arena, Lin), *rest = NEW(e->arena, Lin);
  if (!x->lin || !y->lin)
    return false;
  bool number = lin_is_number(e, y);
  bool good = false;
  if (op == PRIM_ADD || op == PRIM_SUB)
    good = lin_sum(e, op, x->lin, y->lin, lin);
  else if (op == PRIM_MUL && number)
    good = lin_scale(e, x->lin, y->lin->constant, lin);
  else if (op == PRIM_MUL && lin_is_number(e, x))
    good = lin_scale(e, y->lin, x->lin->constant, lin);
  else if ((op == PRIM_DIV || op == PRIM_MOD) && number &&
           size_holds(e->g, SIZE_LE, 1, y->lin->constant))
    good = lin_split(e, x->lin, y->lin->constant, lin, rest);
  if (good)
    *out = lin_val(e, op == PRIM_MOD ? rest : lin, NULL);
  return good;
}

/* Bounds of what is no such. */
static void loose_bounds(Cgen *e, PrimId op, const Val *x, const Val *y,
                         Val *out) {
  bool positive = y->bounded && size_holds(e->g, SIZE_LE, 1, y->low);
  if (op == PRIM_MOD && positive) {
    out->low = 0;
    out->bounded = size_sub(e->g, y->high, 1, &out->high);
  } else if (op == PRIM_DIV && positive && lin_is_number(e, y) && x->bounded) {
    out->bounded = size_div(e->g, x->low, y->low, &out->low) &&
                   size_div(e->g, x->high, y->low, &out->high);
  } else if (op == PRIM_ADD && x->bounded && y->bounded) {
    out->bounded = size_add(e->g, x->low, y->low, &out->low) &&
                   size_add(e->g, x->high, y->high, &out->high);
  } else if (op == PRIM_SUB && x->bounded && y->bounded) {
    out->bounded = size_sub(e->g, x->low, y->high, &out->low) &&
                   size_sub(e->g, x->high, y->low, &out->high);
  } else if ((op == PRIM_MINIMUM || op == PRIM_MAXIMUM) && x->bounded &&
             y->bounded) {
    int64_t (*f)(Graph *, int64_t, int64_t) =
        op == PRIM_MINIMUM ? size_min : size_max;
    out->low = f(e->g, x->low, y->low);
    out->high = f(e->g, x->high, y->high);
    out->bounded = true;
  }
}

/* ---- memory ---- */

const char *cgen_address(Cgen *e, const Node *x, const char *const *args) {
  const char *at = "0";
  for (uint32_t k = 0; k < x->free_count + x->rank; k++) {
    const char *extent = cgen_size(e, x->extents[k]);
    if (strcmp(at, "0") == 0)
      at = args[k];
    else
      at = cgen_format(
          e, strcmp(args[k], "0") == 0 ? "%s * %s" : "(%s * %s + %s)", at,
          extent, args[k]);
  }
  return cgen_format(e, "%s[%s]", cgen_info(e, x)->name, at);
}

const char *cgen_load(Cgen *e, Dtype t, const char *address) {
  if (t == DT_F16)
    return cgen_format(e, "from_f16(%s)", address);
  if (t == DT_BF16)
    return cgen_format(e, "from_bf16(%s)", address);
  return address;
}

const char *cgen_store(Cgen *e, Dtype t, const char *value) {
  if (t == DT_F16)
    return cgen_format(e, "to_f16(%s)", value);
  if (t == DT_BF16)
    return cgen_format(e, "to_bf16(%s)", value);
  if (t == DT_F32 || t == DT_F64 || t == DT_I64 || t == DT_I32)
    return value;
  return cgen_format(e, "(%s)%s", cgen_type(t), value);
}

static const char *wrapped(Cgen *e, Dtype to, const char *x) {
  if (to == DT_I32)
    return cgen_format(e, "(int32_t)(uint32_t)%s", x);
  return cgen_format(e, "(%s)%s", cgen_type(to), x);
}

const char *cgen_convert(Cgen *e, Dtype from, Dtype to, const char *x) {
  if (from == to || (from == DT_BOOL && !dtype_is_float(to)))
    return x;
  if (to == DT_BOOL)
    return cgen_format(e, "(%s != 0)", x);
  if (!dtype_is_float(to) && dtype_is_float(from))
    return cgen_format(e, "to_%s((double)%s)", dtype_info[to].name, x);
  if (!dtype_is_float(to))
    return wrapped(e, to, x);
  if (to == DT_F64)
    return cgen_format(e, "(double)%s", x);
  bool narrow = to == DT_F16 || to == DT_BF16;
  bool same = cgen_held(from)[0] == 'f';
  const char *y = same ? x : cgen_format(e, "(float)%s", x);
  return narrow ? cgen_format(e, "round_%s(%s)", dtype_info[to].name, y) : y;
}

static void check_index(Cgen *e, const Node *x, uint32_t k, const Val *at,
                        Span span) {
  int64_t extent = x->extents[k];
  if (within(e, at, 0, extent))
    return;
  cgen_line(e, "if (%s < 0 || %s >= %s) %s", at->text, at->text,
            cgen_size(e, extent),
            cgen_fail(e, span, "an index is out of bounds"));
}

/* What is safe only where sizes are as some test says may be computed also
 * where they are not, and nobody looks at it: then it reads nothing. */
static Val read_memory(Cgen *e, const Node *x, const Val *args, bool checked) {
  const char *at[RANK_MAX], *inside = "";
  for (uint32_t k = 0; k < x->free_count + x->rank; k++) {
    at[k] = args[k].text;
    if (!checked && !within(e, &args[k], 0, x->extents[k]))
      inside = cgen_format(e, "%s%s%s >= 0 && %s < %s", inside,
                           *inside ? " && " : "", at[k], at[k],
                           cgen_size(e, x->extents[k]));
  }
  const char *text = cgen_load(e, x->dtype, cgen_address(e, x, at));
  if (*inside)
    text = cgen_format(e, "%s ? %s : 0", inside, text);
  return (Val){.text = in_variable(e, x->dtype, text)};
}

static Context *context_for(Cgen *e, const Node *n, const Val *axes,
                            uint32_t count) {
  for (uint32_t j = 0; j < e->contexts.len; j++) {
    Context *c = e->contexts.at[j];
    bool same = c->node == n;
    for (uint32_t k = 0; same && k < count; k++)
      same = strcmp(c->axes[k].text, axes[k].text) == 0;
    if (same)
      return c;
  }
  Context *c = NEW(e->arena, Context);
  Val *copy = NEW_ARRAY(e->arena, Val, count + 1);
  memcpy(copy, axes, count * sizeof *copy);
  *c = (Context){n, copy, NEW_ARRAY(e->arena, Val, n->cell_count)};
  VEC_PUSH(e->arena, e->contexts, c);
  return c;
}

static Val cell(Cgen *e, Context *c, uint32_t k);

Val cgen_read(Cgen *e, const Node *x, const Val *args, bool checked,
              Span span) {
  NodeInfo *info = cgen_info(e, x);
  if (info->value) {
    Val v = {.text = info->value};
    if (info->turns)
      v.bounded = size_sub(e->g, info->turns, 1, &v.high);
    return v;
  }
  for (uint32_t k = 0; checked && k < x->free_count + x->rank; k++)
    check_index(e, x, k, &args[k], span);
  if (info->stored)
    return read_memory(e, x, args, checked);
  return cgen_body(e, x, args);
}

/* ---- cells ---- */

static Val read_cell(Cgen *e, Context *c, const Cell *at) {
  Val args[RANK_MAX];
  for (uint32_t k = 0; k < at->arg_count; k++)
    args[k] = cell(e, c, at->args[k]);
  return cgen_read(e, at->node, args, !c->node->safe, at->span);
}

static Val select_cell(Cgen *e, Context *c, const Cell *at) {
  Val test = cell(e, c, at->args[0]);
  const char *name = cgen_fresh(e, "v");
  cgen_line(e, "%s %s;", cgen_held(at->dtype), name);
  cgen_open(e, cgen_format(e, "if (%s)", test.text));
  uint32_t scope = cgen_scope(e);
  cgen_line(e, "%s = %s;", name, cell(e, c, at->args[1]).text);
  cgen_leave(e, scope);
  e->depth--;
  cgen_line(e, "} else {");
  e->depth++;
  cgen_line(e, "%s = %s;", name, cell(e, c, at->args[2]).text);
  cgen_leave(e, scope);
  cgen_close(e);
  return (Val){.text = name};
}

static Val op_cell(Cgen *e, Context *c, const Cell *at) {
  Val x[3] = {{0}}, out = {0};
  const char *texts[3];
  for (uint32_t k = 0; k < at->arg_count && k < 3; k++) {
    x[k] = cell(e, c, at->args[k]);
    texts[k] = x[k].text;
  }
  Dtype t = c->node->cells[at->args[at->arg_count - 1]].dtype;
  if (t == DT_I64 && at->dtype == DT_I64 && at->arg_count == 2) {
    if (index_op(e, at->op, &x[0], &x[1], &out))
      return out;
    loose_bounds(e, at->op, &x[0], &x[1], &out);
  }
  bool fails = at->arg_count == 2 && op_fails(at->op, t) &&
               !(x[1].bounded && size_holds(e->g, SIZE_LE, 1, x[1].low));
  if (fails && c->node->safe) /* of sizes behind a test: see read_memory */
    texts[1] = at->op == PRIM_POW
                   ? texts[1]
                   : cgen_format(e, "(%s ? %s : 1)", texts[1], texts[1]);
  else if (fails && at->op == PRIM_POW)
    cgen_line(e, "if (%s < 0) %s", texts[1],
              cgen_fail(e, at->span, arith_text(ARITH_POWER)));
  else if (fails)
    cgen_line(e, "if (%s == 0) %s", texts[1],
              cgen_fail(e, at->span, arith_text(ARITH_ZERO)));
  bool floor = at->op == PRIM_DIV || at->op == PRIM_MOD;
  if (!fails && floor && t == DT_I64 && x[0].bounded &&
      size_holds(e->g, SIZE_LE, 0, x[0].low)) /* no rounding to think of */
    out.text = cgen_format(e, at->op == PRIM_DIV ? "%s / %s" : "%s %% %s",
                           texts[0], texts[1]);
  else
    out.text = cgen_op(e, at->op, t, texts);
  out.text = in_variable(e, at->dtype, out.text);
  return out;
}

static Val random_cell(Cgen *e, Context *c, const Cell *at) {
  bool narrow = at->dtype == DT_F16 || at->dtype == DT_BF16;
  bool normal = at->op == PRIM_NORMAL;
  const char *type = at->dtype == DT_F64      ? "d"
                     : narrow && !normal ? dtype_info[at->dtype].name
                                         : "f";
  const char *text = cgen_format(
      e, "%s_%s(UINT64_C(%llu), UINT64_C(%llu), %s)",
      normal ? "normal" : "uniform", type, (unsigned long long)at->key.word[0],
      (unsigned long long)at->key.word[1], cell(e, c, at->args[0]).text);
  if (narrow && normal)
    text = cgen_convert(e, DT_F32, at->dtype, text);
  return (Val){.text = in_variable(e, at->dtype, text)};
}

static Val new_cell(Cgen *e, Context *c, const Cell *at) {
  switch (at->kind) {
  case CELL_CONST:
    return at->dtype == DT_I64 ? cgen_number(e, at->value.i)
                               : (Val){.text = cgen_const(e, at->value)};
  case CELL_SIZE:
    return cgen_number(e, at->size);
  case CELL_AXIS:
    return c->axes[at->axis];
  case CELL_READ:
    return read_cell(e, c, at);
  case CELL_OP:
    return op_cell(e, c, at);
  case CELL_SELECT:
    return select_cell(e, c, at);
  case CELL_CONVERT: {
    Dtype from = c->node->cells[at->args[0]].dtype;
    const char *x = cell(e, c, at->args[0]).text;
    return (Val){.text = in_variable(
                     e, at->dtype, cgen_convert(e, from, at->dtype, x))};
  }
  case CELL_RANDOM:
    return random_cell(e, c, at);
  }
  return (Val){0};
}

static Val cell(Cgen *e, Context *c, uint32_t k) {
  if (!c->memo[k].text) {
    Val v = new_cell(e, c, &c->node->cells[k]);
    keep(e, &c->memo[k], v);
  }
  return c->memo[k];
}

Val cgen_body(Cgen *e, const Node *n, const Val *axes) {
  Context *c = context_for(e, n, axes,
                           n->free_count + n->rank + n->reduce_count);
  return cell(e, c, n->cell_count - 1);
}
