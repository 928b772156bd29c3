/* Functions as a program of their own: for each a command that reads what it
 * takes, works out the sizes from that, and prints or saves what it gives.
 * How that is done is in program.inc. */
#include "session/driver.h"

#include <string.h>

extern const char program_text[];

static const char *kind_of(Dtype t) {
  static const char *const names[DT_COUNT] = {
      [DT_BOOL] = "BOOL", [DT_U8] = "U8",   [DT_I8] = "I8",
      [DT_I32] = "I32",   [DT_I64] = "I64", [DT_F16] = "F16",
      [DT_BF16] = "BF16", [DT_F32] = "F32", [DT_F64] = "F64"};
  return names[t];
}

/* ---- tables ---- */

/* A size that no argument shows is a number before them. */
static bool is_asked(const TraceSize *s) {
  return s->arg == TRACE_NOWHERE;
}

static uint32_t asked_count(const Trace *t) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < t->size_count; k++)
    count += is_asked(&t->sizes[k]);
  return count;
}

static void put_leaf(Buffer *out, const char *name, const char *type,
                     Dtype dtype, uint32_t rank) {
  buffer_printf(out, "  {\"%s\", \"%s\", KIND_%s, %u},\n", name, type,
                kind_of(dtype), rank);
}

static void put_inputs(Driver *e, Buffer *out) {
  const Trace *t = e->t;
  buffer_printf(out, "\nstatic const Leaf %s_in[] = {\n", e->name);
  for (uint32_t k = 0; k < t->size_count; k++)
    if (is_asked(&t->sizes[k]))
      put_leaf(out, t->sizes[k].name, "a size", DT_I64, 0);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    put_leaf(out, a->name,
             a->is_size
                 ? driver_format(e, "the size %s",
                                 size_text(e->g, a->size).text)
                 : driver_shape(e, a->dtype, a->rank, a->shape, a->stars),
             a->dtype, a->rank);
  }
  buffer_puts(out, "  {NULL, NULL, KIND_BOOL, 0}};\n");
}

static void put_outputs(Driver *e, Buffer *out) {
  const Trace *t = e->t;
  buffer_printf(out, "static const Leaf %s_out[] = {\n", e->name);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const TraceResult *r = &t->results[k];
    const Node *n = r->node;
    put_leaf(out, *r->name ? r->name : "out",
             driver_shape(e, n->dtype, n->rank, n->extents, n->stars),
             n->dtype, n->rank);
  }
  buffer_puts(out, "  {NULL, NULL, KIND_BOOL, 0}};\n");
}

/* ---- what sizes are ---- */

static const char *emitted(Driver *e, int64_t size) {
  Buffer text = {.arena = e->arena};
  if (!size_emit(e->g, &text, size, driver_size_var, e))
    driver_refuse(e, e->t->span, "a size of it is too long a formula");
  return text.text;
}

static void put_size(Driver *e, Buffer *out, uint32_t k) {
  const TraceSize *s = &e->t->sizes[k];
  uint32_t asked = asked_count(e->t), before = 0;
  for (uint32_t i = 0; i < k; i++)
    before += is_asked(&e->t->sizes[i]);
  if (is_asked(s)) {
    buffer_printf(out, "  z[%u] = integer(&x[%u]);\n", k, before);
    return;
  }
  Buffer there = {.arena = e->arena};
  if (s->axis == TRACE_VALUE)
    buffer_printf(&there, "integer(&x[%u])", asked + (uint32_t)s->arg);
  else
    buffer_printf(&there, "x[%u].shape[%d]", asked + (uint32_t)s->arg, s->axis);
  if (s->rest == 0 && s->slope == 1)
    buffer_printf(out, "  z[%u] = %s;\n", k, there.text);
  else
    buffer_printf(out, "  z[%u] = shown(%s, %s, %s);\n", k, there.text,
                  emitted(e, s->rest), emitted(e, s->slope));
}

static void put_fits(Driver *e, Buffer *out, uint32_t k) {
  const TraceArg *a = &e->t->args[k];
  uint32_t at = asked_count(e->t) + k;
  if (a->is_size)
    buffer_printf(out, "  fits_number(&x[%u], %s, \"%s\");\n", at,
                  emitted(e, a->size), size_text(e->g, a->size).text);
  for (uint32_t j = 0; j < a->rank; j++) {
    int64_t size = a->stars >> j & 1 ? 1 : a->shape[j];
    buffer_printf(out, "  fits(&x[%u], %u, %s, \"%s\");\n", at, j,
                  emitted(e, size), size_text(e->g, size).text);
  }
}

static void put_make(Driver *e, Buffer *out, uint32_t k) {
  const Node *n = e->t->results[k].node;
  if (n->rank == 0) {
    buffer_printf(out, "  make(&y[%u], NULL);\n", k);
    return;
  }
  buffer_printf(out, "  make(&y[%u], (const int64_t[]){", k);
  for (uint32_t j = 0; j < n->rank; j++)
    buffer_printf(out, "%s%s", j ? ", " : "",
                  n->stars >> j & 1 ? "1" : emitted(e, n->extents[j]));
  buffer_puts(out, "});\n");
}

/* ---- the call ---- */

static void put_call(Driver *e, Buffer *out) {
  const Trace *t = e->t;
  uint32_t asked = asked_count(t), count = 0;
  buffer_printf(out, "  return %s(", e->name);
  for (uint32_t k = 0; k < t->size_count; k++)
    if (trace_size_is_given(t, k))
      buffer_printf(out, "%sz[%u]", count++ ? ", " : "", k);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    const TraceArg *a = &t->args[k];
    if (a->is_size)
      continue;
    buffer_puts(out, count++ ? ", " : "");
    if (!a->rank)
      buffer_printf(out, "*(const %s *)", driver_type(a->dtype));
    buffer_printf(out, "x[%u].data", asked + k);
  }
  for (uint32_t k = 0; k < t->result_count; k++)
    buffer_printf(out, "%sy[%u].data", count++ ? ", " : "", k);
  buffer_puts(out, ");\n");
}

void program_add(Driver *e) {
  BuildModule *m = e->m;
  const Trace *t = e->t;
  Buffer *out = &m->program;
  put_inputs(e, out);
  put_outputs(e, out);
  buffer_printf(out,
                "static int %s_run(Array *x, Array *y) {\n"
                "  int64_t z[%u] = {0};\n  (void)x, (void)y, (void)z;\n",
                e->name, t->size_count ? t->size_count : 1);
  for (uint32_t k = 0; k < t->size_count; k++)
    put_size(e, out, k);
  for (uint32_t k = 0; k < t->arg_count; k++)
    put_fits(e, out, k);
  for (uint32_t k = 0; k < t->result_count; k++)
    put_make(e, out, k);
  put_call(e, out);
  buffer_puts(out, "}\n");
  buffer_printf(&m->commands,
                "    {\"%s\", \"%s\", %s_in, %s_out, %u, %u, %s_run},\n",
                t->name, t->type, e->name, e->name,
                asked_count(t) + t->arg_count, t->result_count, e->name);
  m->command_count++;
}

/* ---- the program ---- */

/* One that was left out is asked for as well: then it is said why. */
static bool has_main(const EntryNames *names) {
  bool found = false;
  for (uint32_t k = 0; k < names->at.len; k++)
    found |= strcmp(names->at.at[k], "main") == 0;
  for (uint32_t k = 0; k < names->left.len; k++)
    found |= strncmp(names->left.at[k], "main : ", 7) == 0;
  return found;
}

SessionStatus program_entry(Session *s, EntryNames *names) {
  if (has_main(names)) {
    names->at.len = 0;
    VEC_PUSH(names->arena, names->at, "main");
    return SESSION_OK;
  }
  for (uint32_t k = 0; k < s->program.dec_count; k++) {
    const Dec *dec = s->program.decs[k];
    if (dec->kind != DEC_DO)
      continue;
    Diag *diag = session_error(
        s, 614, dec->span,
        "what a program does at top level is not compiled");
    diag->help = "name a function to make a command of, as in --entry f, or "
                 "define `fun main () = ...`, whose result is printed; `axon "
                 "run` does all of it";
    return SESSION_ERROR;
  }
  return SESSION_OK;
}

void program_write(const BuildModule *m, Buffer *out) {
  buffer_puts(out, program_text);
  buffer_add(out, m->program.text, m->program.len);
  buffer_printf(out,
                "\nint main(int count, char **words) {\n"
                "  (void)count;\n"
                "  static const Command all[] = {\n%.*s  };\n"
                "  return run_program(all, %u, words, %s_message);\n}\n",
                (int)m->commands.len, m->commands.text, m->command_count,
                m->name);
}
