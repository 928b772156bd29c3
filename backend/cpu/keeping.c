/* Which operands of products may be kept in the form that their tiles want,
 * and the functions that make it. */
#include "backend/cpu/keeping.h"

#include "backend/cpu/products.h"

#define format emit_format

/* ---- which ---- */

static bool is_of(const Loop *loop, const Quasi *q, uint32_t n) {
  for (uint32_t v = 0; v < KERNEL_AXES; v++)
    if (q->times[v] && v != n && v < loop->kept)
      return false;
  return true;
}

static bool is_whole_division(const Step *s) {
  return !dtype_is_float(s->dtype) &&
         (s->op == PRIM_DIV || s->op == PRIM_MOD || s->op == PRIM_POW);
}

/* Nothing of it differs from call to call, but what the tensor holds. */
static bool is_fixed(const Loop *loop, const Step *s, uint32_t n) {
  switch (s->kind) {
  case STEP_CONST:
    return !is_param(s->value);
  case STEP_INDEX:
    return is_of(loop, s->index, n);
  case STEP_READ:
    return s->index_count == 0 && is_of(loop, s->address, n);
  case STEP_OP:
    return !is_whole_division(s);
  case STEP_SELECT:
  case STEP_CONVERT:
  case STEP_PAIR:
    return true;
  case STEP_LOCAL:
  case STEP_RANDOM:
    break;
  }
  return false;
}

bool keeping_may(const Loop *loop, uint32_t n) {
  const Step *read = NULL;
  if (loop_is_open(loop))
    return false;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (!is_of(loop, &loop->quotients[j].of, n))
      return false;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (!is_fixed(loop, s, n) ||
        (s->kind == STEP_READ && read && s->input != read->input))
      return false;
    read = s->kind == STEP_READ ? s : read;
  }
  return read != NULL;
}

/* ---- under what ---- */

static void put_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void put_form(Buffer *b, const Loop *loop, const Quasi *q, uint32_t n,
                     int64_t from) {
  put_number(b, q->constant - from);
  put_number(b, q->times[n]);
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    put_number(b, q->times[v]);
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    put_number(b, q->times[KERNEL_AXES + j]);
}

static void put_step(Buffer *b, const Loop *loop, const Step *s, uint32_t n,
                     int64_t from) {
  put_number(b, (int64_t)s->kind << 32 | s->dtype);
  put_number(b, (int64_t)s->op << 32 | s->arg_count);
  for (uint32_t j = 0; j < s->arg_count; j++)
    put_number(b, s->args[j]);
  if (s->kind == STEP_CONST)
    put_number(b, s->value.i);
  if (s->kind == STEP_INDEX)
    put_form(b, loop, s->index, n, 0);
  if (s->kind != STEP_READ)
    return;
  put_form(b, loop, s->address, n, from);
  put_number(b, s->pairs);
  put_number(b, s->terms);
}

static const Step *read_of(const Loop *loop) {
  uint32_t j = 0;
  while (loop->steps.at[j].kind != STEP_READ)
    j++;
  return &loop->steps.at[j];
}

/* Is it told of each panel's terms, pass by pass, whether all are finite? */
static bool marks_panels(const Tile *t) {
  return t->window && t->window->rims.group && dtype_is_float(t->dtype);
}

/* But for where in the tensor it begins: `from` says that. */
static ArtifactKey form_of(Emitter *e, const Tile *t, const Operand *o,
                           uint32_t n) {
  const Loop *loop = o->loop;
  int64_t from = read_of(loop)->address->constant;
  Buffer b = {.arena = e->arena};
  put_number(&b, (int64_t)t->vectors << 32 | e->s->width);
  put_number(&b, t->element);
  put_number(&b, loop->extents[n]);
  put_number(&b, loop->axes - loop->kept);
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    put_number(&b, loop->extents[v]);
  put_number(&b, loop->quotient_count);
  for (uint32_t j = 0; j < loop->quotient_count; j++) {
    put_form(&b, loop, &loop->quotients[j].of, n, 0);
    put_number(&b, loop->quotients[j].by);
  }
  for (uint32_t j = 0; j < loop->steps.len; j++)
    put_step(&b, loop, &loop->steps.at[j], n, from);
  put_number(&b, loop->results.at[0].step);
  put_number(&b, marks_panels(t) ? t->block_k : 0);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* ---- as C ---- */

/* The function stands before the kernel, with a head of its own. */
static void emit_copy(Emitter *e, const Tile *t, const Operand *o, uint32_t n,
                      uint32_t at, uint32_t number) {
  Buffer head = e->head, unit = {.arena = e->arena}, body = unit;
  uint32_t input = read_of(o->loop)->input;
  e->head = unit;
  product_copy_b(e, t, o, n, at, &unit, &body);
  buffer_printf(&e->copies,
                "static __attribute__((noinline)) void\n"
                "copy%u(const %s *const p%u, const int64_t *n, const double *c,"
                "\n%s *b, int64_t n0, int64_t n1, int64_t from, int64_t to) {\n"
                "(void)n, (void)c;\n",
                number, memory_type(e->k->inputs.at[input]->dtype), input,
                product_type(t->element));
  emit_put(&e->copies, &e->head);
  emit_put(&e->copies, &unit);
  emit_put(&e->copies, &body);
  buffer_puts(&e->copies, "}\n");
  e->head = head;
}

bool keeping_begin(Emitter *e, const Tile *t, const Operand *o, uint32_t n,
                   uint32_t at, uint32_t *number) {
  if (!o->keeps || *e->number)
    return false;
  Call *call = &e->out->call;
  for (*number = 0; *number < call->keepings.len; ++*number)
    if (call->keepings.at[*number].loop == at)
      return true;
  int64_t columns = (int64_t)t->vectors * e->s->width;
  int64_t panels = emit_over(e, o->loop->extents[n], columns);
  int64_t elements = emit_times(e, emit_times(e, panels, columns), t->depth);
  Keeping k = {.loop = at,
               .input = read_of(o->loop)->input,
               .panels = panels,
               .from = read_of(o->loop)->address->constant,
               .pays = o->pays,
               .type = product_type(t->element),
               .columns = emit_int(e, columns),
               .extent = emit_int(e, o->loop->extents[n]),
               .depth = emit_int(e, t->depth)};
  elements = emit_plus(e, elements, e->s->width); /* the last ones go on */
  if (marks_panels(t)) {
    int64_t passes = emit_over(e, t->depth, t->block_k);
    k.marks = emit_int(e, elements);
    k.passes = emit_int(e, passes);
    k.pass = emit_int(e, t->block_k);
    elements = emit_plus(e, elements, emit_times(e, panels, passes));
  }
  k.bytes = emit_times(e, elements, dtype_info[t->element].bytes);
  k.form = form_of(e, t, o, n);
  VEC_PUSH(e->arena, call->keepings, k);
  emit_copy(e, t, o, n, at, *number);
  return true;
}

void keeping_copy(Emitter *e, uint32_t number, Buffer *out) {
  buffer_printf(out, "copy%u(p%u, n, numbers, b, n0, n1, from, to);\n", number,
                e->out->call.keepings.at[number].input);
}

const char *keeping_mark(Emitter *e, uint32_t number) {
  const Keeping *k = &e->out->call.keepings.at[number];
  return format(e, "kept%u[%s + first / %s * %s + from / %s]", number, k->marks,
                k->columns, k->passes, k->pass);
}

/* The marks of a panel. */
static void emit_marks(const Keeping *k, Buffer *out) {
  buffer_printf(
      out,
      "for (int64_t pass = 0; pass < %s; pass++) {\n"
      "const int64_t from = pass * %s;\n"
      "const int64_t terms = %s - from < %s ? %s - from : %s;\n"
      "to[%s + u * %s + pass] = !sound_%c(to + n0 * %s + from * %s, terms,\n"
      "n1 - n0, %s);\n}\n",
      k->passes, k->pass, k->depth, k->pass, k->depth, k->pass, k->marks,
      k->passes, k->type[0], k->depth, k->columns, k->columns);
}

void emit_keepings(Emitter *e, Buffer *out) {
  const Call *call = &e->out->call;
  for (uint32_t j = 0; j < call->keepings.len; j++) {
    const Keeping *k = &call->keepings.at[j];
    buffer_printf(
        out,
        "int keep%u(void *const *p, const int64_t *n,\n"
        "const double *c, int64_t begin, int64_t end, char *room) {\n"
        "(void)room;\n%s *const to = p[%u];\n"
        "for (int64_t u = begin; u < end; u++) {\n"
        "const int64_t n0 = u * %s, n1 = n0 + %s < %s ? n0 + %s : %s;\n"
        "copy%u(p[%u], n, c, to + n0 * %s, n0, n1, 0, %s);\n",
        j, k->type, call->outs.len + e->k->inputs.len + j, k->columns,
        k->columns, k->extent, k->columns, k->extent, j,
        call->outs.len + k->input, k->depth, k->depth);
    if (k->marks)
      emit_marks(k, out);
    buffer_puts(out, "}\nreturn 0;\n}\n");
  }
}
