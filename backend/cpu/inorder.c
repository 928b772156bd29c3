/* Folds and scans over formulas, as C: a loop over turns around the cells of
 * one, its state in registers.
 *
 * A unit is some elements of the states, whose turns do not wait for each
 * other: lanes where these are next to each other in memory, or numbers of
 * neighbours. */
#include "backend/cpu/emit.h"
#include "backend/cpu/program.h"
#include "backend/cpu/routines.h"

#include "runtime/pool.h"

#include <string.h>

#define format emit_format

enum {
  TOGETHER = 4,            /* vectors, or numbers */
  TURNS_AT_ONCE = 1 << 14, /* before there is a look at whether to stop */
  GRAIN_WORK = 1 << 15,    /* operations that a thread takes at a time */
};

typedef struct InOrder {
  Emitter *e;
  const Node *node;
  Loop *loop;
  uint32_t turn, states; /* the axis of turns; how many states */
  uint32_t inner;        /* the axis of elements that go together, or NO_LANE */
  bool lanes;            /* they are lanes */
  uint32_t *steps;       /* of cells */
  const char *(*begins); /* where states begin */
  const char *out;
  Buffer whole, part; /* what is done with the values of a turn */
} InOrder;

/* ---- one turn as steps ---- */

static int64_t product_of(uint32_t count, const int64_t *extents) {
  int64_t product = 1;
  for (uint32_t k = 0; k < count; k++)
    product *= extents[k];
  return product;
}

/* Elements for one value of all free indices. */
static int64_t slice_of(const Node *n) {
  return product_of(n->rank, n->extents + n->free_count);
}

static int64_t elements_of(const Node *n) {
  int64_t count = slice_of(n);
  return n->op == PRIM_SCAN ? count / n->params[0] : count;
}

/* An axis for each free index, one for all elements of a state, and turns. */
static Loop *loop_of(InOrder *o, Kernel *k) {
  const Node *n = o->node;
  int64_t elements = elements_of(n);
  Loop *loop = NEW(k->arena, Loop);
  loop->graph = k->graph;
  for (uint32_t v = 0; v < n->free_count; v++)
    loop->extents[loop->outer++] = n->extents[v];
  if (elements != 1)
    loop->extents[loop->outer++] = elements;
  o->turn = loop->kept = loop->outer;
  o->inner = loop->outer ? loop->outer - 1 : NO_LANE;
  loop->extents[loop->outer] = n->params[0];
  loop->axes = loop->outer + 1;
  k->outer = loop->outer;
  VEC_PUSH(k->arena, k->loops, loop);
  return loop;
}

static uint32_t axis_of_free(const Node *n, const IndexVar *v) {
  uint32_t k = 0;
  while (n->free[k] != v)
    k++;
  return k;
}

/* Where an input's element is: of a turn, if it has turns. */
static Quasi *address_of(const InOrder *o, const Node *x, bool turns) {
  const Node *n = o->node;
  Quasi *q = quasi_new(o->e->arena, 0);
  bool each = x->rank > turns;
  int64_t slice = slice_of(x);
  if (each && elements_of(n) != 1)
    q->times[o->turn - 1] = 1;
  if (turns)
    q->times[o->turn] = slice / n->params[0];
  for (uint32_t k = x->free_count; k-- > 0; slice *= x->extents[k])
    q->times[axis_of_free(n, x->free[k])] += slice;
  return q;
}

static Step step_like(const Cell *c) {
  return (Step){.dtype = c->dtype,
                .op = c->op,
                .span = c->span,
                .low = INT64_MIN,
                .high = INT64_MAX,
                .sure = true};
}

static void add_operand(InOrder *o, const Cell *c, Step *s) {
  const Node *n = o->node, *x = n->inputs[c->axis];
  s->kind = STEP_READ;
  s->node = x;
  s->input = c->axis;
  s->address = address_of(o, x, (uint64_t)n->params[2] >> c->axis & 1);
  if (c->axis >= o->states)
    return;
  /* it changes with each turn, and is in no memory */
  s->address = quasi_new(o->e->arena, 0);
  for (uint32_t v = 0; v < o->loop->axes; v++)
    s->address->times[v] = 2;
}

static void add_steps(InOrder *o) {
  const Node *n = o->node;
  Arena *arena = o->e->arena;
  o->steps = NEW_ARRAY(arena, uint32_t, n->cell_count);
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    Step s = step_like(c);
    s.arg_count = c->arg_count;
    for (uint32_t j = 0; j < c->arg_count; j++)
      s.args[j] = o->steps[c->args[j]];
    if (c->kind == CELL_AXIS)
      add_operand(o, c, &s);
    else if (c->kind == CELL_CONST)
      s.kind = STEP_CONST, s.value = c->value;
    else
      s.kind = c->kind == CELL_OP       ? STEP_OP
               : c->kind == CELL_SELECT ? STEP_SELECT
                                        : STEP_CONVERT;
    o->steps[k] = o->loop->steps.len;
    VEC_PUSH(arena, o->loop->steps, s);
  }
}

/* The cells that a turn comes to, all of them wanted. */
static void add_results(InOrder *o) {
  const Node *n = o->node;
  uint32_t count = o->states + (n->op == PRIM_SCAN);
  for (uint32_t k = n->cell_count - count; k < n->cell_count; k++) {
    Result r = {.dtype = n->cells[k].dtype, .step = o->steps[k]};
    r.out = quasi_new(o->e->arena, 0);
    VEC_PUSH(o->e->arena, o->loop->results, r);
  }
}

static uint32_t width_of(const InOrder *o) {
  uint32_t bytes = target_vector_bytes(), number = 4;
  for (uint32_t k = 0; k < o->loop->steps.len; k++)
    if (dtype_info[o->loop->steps.at[k].dtype].bytes == 8)
      number = 8;
  return bytes / number ? bytes / number : 1;
}

/* ---- text ---- */

static const char *state_name(InOrder *o, uint32_t k) {
  return format(o->e, "state%u[q]", k);
}

static void give_states(InOrder *o) {
  Emitter *e = o->e;
  const char **given = NEW_ARRAY(e->arena, const char *, o->loop->steps.len);
  for (uint32_t k = 0; k < o->loop->steps.len; k++) {
    const Step *s = &o->loop->steps.at[k];
    if (s->kind == STEP_READ && s->input < o->states)
      given[k] = state_name(o, s->input);
  }
  e->given = given;
}

static const char *place(InOrder *o, const char *base) {
  return o->lanes ? format(o->e, "%s + j", base) : base;
}

static void store(InOrder *o, Buffer *out, Dtype t, const char *x, bool whole) {
  const char *name = dtype_info[t].name, *to = place(o, o->out);
  if (o->lanes)
    buffer_printf(
        out, whole ? "st_%s(o0 + %s, %s);\n" : "stp_%s(o0 + %s, %s, rest);\n",
        name, to, x);
  else if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "put_%s(o0 + %s, %s);\n", name, to, x);
  else
    buffer_printf(out, "o0[%s] = (%s)%s;\n", to, memory_type(t), x);
}

static const char *value_of(InOrder *o, const Result *r) {
  return o->lanes ? emit_lanes(o->e, r->step, class_of(r->dtype))
                  : format(o->e, "(%s)%s", scalar_type(class_of(r->dtype)),
                           emit_scalar(o->e, r->step));
}

/* What a turn leaves: first all that reads what there was before. */
static void add_ends(InOrder *o) {
  for (uint32_t k = o->states; k < o->loop->results.len; k++) {
    const Result *r = &o->loop->results.at[k];
    store(o, &o->whole, r->dtype, value_of(o, r), true);
    store(o, &o->part, r->dtype, value_of(o, r), false);
  }
  for (uint32_t k = 0; k < o->states; k++) {
    const char *x = value_of(o, &o->loop->results.at[k]);
    buffer_printf(&o->whole, "%s = %s;\n", state_name(o, k), x);
    buffer_printf(&o->part, "%s = %s;\n", state_name(o, k), x);
  }
}

static const char *loaded(InOrder *o, uint32_t k) {
  Dtype t = o->node->inputs[k]->dtype;
  const char *name = dtype_info[t].name;
  const char *at = format(o->e, "p%u + %s", k, place(o, o->begins[k]));
  if (o->lanes)
    return format(o->e, "LOAD(%s, %s)", name, at);
  if (t == DT_F16 || t == DT_BF16)
    return format(o->e, "get_%s(%s)", name, at);
  return format(o->e, "*(%s)%s", at, t == DT_BOOL ? " != 0" : "");
}

/* Around what is done for each of the elements that go together. */
static void open_each(InOrder *o, Buffer *out, uint32_t together) {
  buffer_printf(out, "#pragma GCC unroll %d\nfor (int q = 0; q < %u; q++) {\n",
                TOGETHER, together);
  if (o->lanes)
    buffer_puts(out, "const int64_t j = first + q * W;\n(void)j;\n");
  else if (o->inner != NO_LANE)
    buffer_printf(out, "const int64_t i%u = first + q;\n(void)i%u;\n", o->inner,
                  o->inner);
}

/* A loop of many turns looks now and then whether it is to stop. */
static void open_turns(InOrder *o, Buffer *out) {
  uint32_t v = o->turn;
  int64_t turns = o->loop->extents[v];
  const char *most = emit_int(o->e, turns);
  if (turns <= TURNS_AT_ONCE) {
    buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v, most,
                  v);
    return;
  }
  buffer_printf(out,
                "for (int64_t at = 0; at < %s; at += %d) {\n"
                "if (stop && *stop)\nreturn 0;\n"
                "const int64_t till = %s - at < %d ? %s : at + %d;\n"
                "for (int64_t i%u = at; i%u < till; i%u++) {\n",
                most, TURNS_AT_ONCE, most, TURNS_AT_ONCE, most, TURNS_AT_ONCE,
                v, v, v);
}

static void close_turns(const InOrder *o, Buffer *out) {
  buffer_puts(out,
              o->loop->extents[o->turn] > TURNS_AT_ONCE ? "}\n}\n" : "}\n");
}

/* All turns of so many vectors or numbers from `first` on. */
static void emit_turns_of(InOrder *o, Buffer *out, uint32_t together,
                          bool whole) {
  Emitter *e = o->e;
  uint32_t inner = o->lanes              ? e->lane_level
                   : o->inner != NO_LANE ? e->level_of[o->inner]
                                         : e->level_of[o->turn];
  for (uint32_t k = 0; k < o->states; k++) {
    char class = class_of(o->node->inputs[k]->dtype);
    if (o->lanes)
      buffer_printf(out, "v%c state%u[%u];\n", vector_letter(class), k,
                    together);
    else
      buffer_printf(out, "%s state%u[%u];\n", scalar_type(class), k, together);
  }
  buffer_puts(out, whole ? whole_macros : part_macros);
  open_each(o, out, together);
  for (uint32_t k = 0; k < o->states; k++)
    buffer_printf(out, "%s = %s;\n", state_name(o, k), loaded(o, k));
  buffer_puts(out, "}\n");
  open_turns(o, out);
  if (inner != e->level_of[o->turn])
    emit_put(out, &e->blocks[e->level_of[o->turn]]);
  open_each(o, out, together);
  emit_put(out, &e->blocks[inner]);
  emit_put(out, whole ? &o->whole : &o->part);
  buffer_puts(out, "}\n");
  close_turns(o, out);
  if (o->node->op == PRIM_FOLD) {
    open_each(o, out, together);
    store(o, out, o->node->dtype, state_name(o, (uint32_t)o->node->params[3]),
          whole);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, no_macros);
}

/* Elements lo .. hi - 1: some together, then the others. */
static void emit_elements(InOrder *o, Buffer *out) {
  if (o->inner == NO_LANE) {
    buffer_puts(out, "const int64_t first = 0;\n(void)first;\n");
    emit_turns_of(o, out, 1, true);
    return;
  }
  const char *step = o->lanes ? " * W" : "";
  buffer_puts(out, "int64_t first = lo;\n");
  for (uint32_t together = TOGETHER; together; together /= TOGETHER) {
    buffer_printf(out, "for (; first + %u%s <= hi; first += %u%s) {\n",
                  together, step, together, step);
    emit_turns_of(o, out, together, true);
    buffer_puts(out, "}\n");
  }
  if (!o->lanes)
    return;
  buffer_puts(out, "if (first < hi) {\nconst int rest = (int)(hi - first);\n"
                   "(void)rest;\n");
  emit_turns_of(o, out, 1, false);
  buffer_puts(out, "}\n");
}

/* The elements that unit u has; how many units there are. */
static int64_t emit_unit_of(InOrder *o, Buffer *out) {
  Emitter *e = o->e;
  int64_t units = 1;
  uint32_t points = o->loop->outer;
  buffer_puts(out, "int64_t row = u;\n");
  if (o->inner != NO_LANE) {
    int64_t extent = o->loop->extents[--points];
    int64_t block = TOGETHER * (o->lanes ? (int64_t)e->s->width : 1);
    const char *n = emit_int(e, extent);
    units = divide_up(extent, block);
    buffer_printf(out,
                  "const int64_t blocks = %s, lo = row %% blocks * %lld;\n"
                  "const int64_t hi = lo + %lld < %s ? lo + %lld : %s;\n"
                  "row /= blocks;\n",
                  emit_int(e, units), (long long)block, (long long)block, n,
                  (long long)block, n);
  }
  for (uint32_t v = points; v-- > 0; units *= o->loop->extents[v]) {
    const char *n = emit_int(e, o->loop->extents[v]);
    buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v, n, n);
  }
  buffer_puts(out, "(void)row;\n");
  return units;
}

static void emit_pointers_of(const InOrder *o, Buffer *out) {
  const Node *n = o->node;
  buffer_printf(out, "%s *restrict const o0 = p[0];\n", memory_type(n->dtype));
  for (uint32_t k = 0; k < n->input_count; k++)
    buffer_printf(out, "const %s *const p%u = p[%u];\n",
                  memory_type(n->inputs[k]->dtype), k, k + 1);
  buffer_printf(out, "const _Atomic _Bool *const stop = p[%u];\n(void)stop;\n",
                n->input_count + 1);
}

/* A place, where no turn has begun: as an expression of its own. */
static const char *place_outside(InOrder *o, const Quasi *q) {
  const char *sum = "0";
  for (uint32_t v = 0; v < o->turn; v++)
    if (q->times[v] && !(o->lanes && v == o->inner))
      sum = format(o->e, "%s + %s * i%u", sum, emit_int(o->e, q->times[v]), v);
  return sum;
}

static void emit_places(InOrder *o) {
  Emitter *e = o->e;
  const Node *n = o->node;
  Quasi *out = quasi_new(e->arena, 0);
  int64_t slice = slice_of(n);
  if (elements_of(n) != 1)
    out->times[o->turn - 1] = 1;
  if (n->op == PRIM_SCAN)
    out->times[o->turn] = elements_of(n);
  for (uint32_t k = n->free_count; k-- > 0; slice *= n->extents[k])
    out->times[k] += slice;
  o->out = n->op == PRIM_SCAN ? emit_quasi(e, out) : place_outside(o, out);
  o->begins = NEW_ARRAY(e->arena, const char *, o->states);
  for (uint32_t k = 0; k < o->states; k++)
    o->begins[k] = place_outside(o, address_of(o, n->inputs[k], false));
}

/* The text; false: there is something in a turn that cannot be emitted. */
static bool emit_in_order(InOrder *o, int64_t *units) {
  Emitter *e = o->e;
  Buffer *out = &e->out->text, rows = {.arena = e->arena}, body = rows;
  uint32_t order[2] = {o->turn, o->inner};
  o->whole = o->part = body;
  bool both = !o->lanes && o->inner != NO_LANE;
  emit_begin_loop(e, o->loop, o->lanes ? o->inner : NO_LANE, both ? 2 : 1,
                  order);
  give_states(o);
  *units = emit_unit_of(o, &rows);
  emit_steps(e);
  e->given = NULL;
  emit_places(o);
  add_ends(o);
  emit_elements(o, &body);
  buffer_printf(out,
                "#define W %u\nint kernel(void *const *p, const int64_t *n,\n"
                "const double *c, int64_t begin, int64_t end, char *room) {\n"
                "(void)p, (void)n, (void)c, (void)room;\n",
                e->s->width);
  emit_pointers_of(o, out);
  emit_put(out, &e->blocks[0]);
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  emit_put(out, &rows);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  emit_put(out, &body);
  buffer_puts(out, "}\nreturn 0;\n}\n");
  return !e->failed && !e->checks.len && !e->out->call.room &&
         !e->out->call.keys.len;
}

/* ---- running it ---- */

typedef struct Job {
  KernelFunction *function;
  void **pointers;
  const Program *program;
} Job;

static int work_on(void *context, int64_t begin, int64_t end) {
  const Job *job = context;
  return job->function(job->pointers, job->program->ints, job->program->floats,
                       begin, end, NULL);
}

static Emitter *emitter_of(Routine *r) {
  Arena *arena = r->arena;
  Kernel *k = NEW(arena, Kernel);
  Schedule *s = NEW(arena, Schedule);
  Emitter *e = NEW(arena, Emitter);
  k->arena = arena;
  k->graph = r->graph;
  s->bytes = target_vector_bytes();
  e->arena = arena;
  e->k = k;
  e->s = s;
  e->number = "";
  e->fetched = NO_LANE;
  e->out = NEW(arena, Emitted);
  e->out->text = (Buffer){.arena = arena};
  e->head = e->copies = e->out->text;
  return e;
}

static bool run_program(Routine *r, const Program *p) {
  const Node *n = r->node;
  Job job = {.program = p};
  job.function = (KernelFunction *)object_function(p->object, "kernel");
  if (!job.function)
    return false;
  job.pointers = NEW_ARRAY(r->arena, void *, n->input_count + 2);
  job.pointers[0] = r->out->data;
  for (uint32_t k = 0; k < n->input_count; k++)
    job.pointers[k + 1] = n->inputs[k]->data->data;
  job.pointers[n->input_count + 1] = (void *)(uintptr_t)r->graph->interrupt;
  int64_t grain = 1 + (int64_t)(GRAIN_WORK / (p->work / (double)p->units));
  return routine_share(r, p->units, grain, work_on, &job);
}

/* ---- what was written is kept ---- */

static void put_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void put_axes(Buffer *b, const Node *n, const Node *x) {
  put_number(b, (int64_t)x->dtype << 32 | x->free_count);
  put_number(b, x->rank);
  for (uint32_t k = 0; k < x->free_count; k++)
    put_number(b, axis_of_free(n, x->free[k]));
  for (uint32_t k = 0; k < x->free_count + x->rank; k++)
    put_number(b, x->extents[k]);
}

static void put_cell(Buffer *b, const Cell *c) {
  put_number(b, (int64_t)c->kind << 32 | c->dtype);
  put_number(b, (int64_t)c->op << 32 | c->arg_count);
  for (uint32_t k = 0; k < c->arg_count; k++)
    put_number(b, c->args[k]);
  put_number(b, c->kind == CELL_AXIS    ? c->axis
                : c->kind == CELL_CONST ? c->value.i
                                        : 0);
}

/* All that the text and its numbers depend on. */
static ArtifactKey key_of(Arena *arena, const Node *n) {
  Buffer b = {.arena = arena};
  buffer_puts(&b, prim_info[n->op].name);
  for (uint32_t k = 0; k < ARRAY_LEN(n->params); k++)
    put_number(&b, n->params[k]);
  put_axes(&b, n, n);
  for (uint32_t k = 0; k < n->input_count; k++)
    put_axes(&b, n, n->inputs[k]);
  for (uint32_t k = 0; k < n->cell_count; k++)
    put_cell(&b, &n->cells[k]);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* Without an object where it cannot be emitted. */
static Program write_program(Routine *r) {
  const Node *n = r->node;
  InOrder o = {.e = emitter_of(r), .node = n, .states = (uint32_t)n->params[1]};
  Emitter *e = o.e;
  Program p = {.units = 1};
  o.loop = loop_of(&o, (Kernel *)(uintptr_t)e->k);
  add_steps(&o);
  add_results(&o);
  Schedule *s = (Schedule *)(uintptr_t)e->s;
  s->width = width_of(&o);
  o.lanes = elements_of(n) >= s->width && s->width > 1;
  if (!emit_in_order(&o, &p.units))
    return p;
  const Call *call = &e->out->call;
  p.ints = call->ints.at;
  p.int_count = call->ints.len;
  p.floats = call->floats.at;
  p.float_count = call->floats.len;
  p.work = (double)n->cell_count * (double)n->params[0] *
           (double)elements_of(n) *
           (double)product_of(n->free_count, n->extents);
  p.exact = node_is_exact(n);
  p.object = object_request(e->out->text.text, e->out->text.len);
  return p;
}

bool routine_in_order(Routine *r) {
  r->arena = arena_new();
  ArtifactKey key = key_of(r->arena, r->node);
  const Program *p = program_kept(key);
  Program written;
  if (!p) {
    written = write_program(r);
    p = program_keep(key, &written);
  }
  if (!p)
    p = &written;
  if (!p->object || program_is_interpreted(r->graph, p))
    return false;
  return run_program(r, p);
}
