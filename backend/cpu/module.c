/* Kernels for several kinds of vectors in one text. */
#include "backend/cpu/module.h"
#include "backend/cpu/versions.h"

#include "backend/cpu/tiling.h"

#include <math.h>
#include <string.h>

enum { TERMS_OF_LANE = 6 }; /* of a product's sum, in a nanosecond */

/* Stands for a kernel's number while it is not known if its text is there. */
#define MARK "\1"

typedef struct Target {
  uint32_t bytes; /* of a vector register */
  const char *condition;
} Target;

static const Target targets[MODULE_TARGETS] = {
    {64, "#if defined __AVX512F__ && defined __AVX512DQ__ && \\\n"
         "    defined __AVX512BW__ && defined __AVX512VL__ && defined __FMA__ "
         "&& \\\n    !defined AXON_PORTABLE\n"},
    {32, "#elif defined __AVX2__ && !defined AXON_PORTABLE\n"},
    {16, "#elif defined __GNUC__ && !defined AXON_PORTABLE\n"},
    {4, "#else\n"},
};

/* ---- how it is called ---- */

typedef struct Adding {
  const ModuleCaller *caller;
  Graph *graph;
  Buffer *out;
  const Version *version; /* whose named sizes are u3 and so on */
  bool failed;
} Adding;

static const char *size_of(void *adding, const DimVar *var) {
  const Adding *a = adding;
  int64_t is;
  for (uint32_t k = a->version->named_from; k < a->version->named_to; k++)
    if (sizes_alias(a->graph->sizes, k, &is) == var)
      return arena_printf(a->version->kernel->arena, "u%u", k);
  return a->caller->size(a->caller->owner, var);
}

static void put_size(Adding *a, int64_t x) {
  a->failed |= !size_emit(a->graph, a->out, x, size_of, a);
}

static void put_named(Adding *a) {
  for (uint32_t k = a->version->named_from; k < a->version->named_to; k++) {
    int64_t is;
    sizes_alias(a->graph->sizes, k, &is);
    buffer_printf(a->out, "const int64_t u%u = ", k);
    put_size(a, is);
    buffer_printf(a->out, ";\n(void)u%u;\n", k);
  }
}

static void put_ints(Adding *a, const Call *call) {
  buffer_printf(a->out, "const int64_t n[%u] = {",
                call->ints.len ? call->ints.len : 1);
  for (uint32_t j = 0; j < call->ints.len; j++) {
    buffer_puts(a->out, j ? ",\n" : "");
    put_size(a, call->ints.at[j]);
  }
  buffer_puts(a->out, call->ints.len ? "};\n" : "0};\n");
}

static void put_float(Buffer *out, double x) {
  if (isnan(x))
    buffer_puts(out, "NAN");
  else if (isinf(x))
    buffer_puts(out, x < 0 ? "-INFINITY" : "INFINITY");
  else
    buffer_printf(out, "%a", x);
}

static void put_floats(Adding *a, const Call *call) {
  buffer_printf(a->out, "const double c[%u] = {",
                call->floats.len ? call->floats.len : 1);
  for (uint32_t j = 0; j < call->floats.len; j++) {
    buffer_puts(a->out, j ? ", " : "");
    put_float(a->out, call->floats.at[j]);
  }
  buffer_puts(a->out, call->floats.len ? "};\n" : "0};\n");
}

static uint32_t place_of(const NodeList *results, const Node *n) {
  uint32_t k = 0;
  while (results->at[k] != n)
    k++;
  return k;
}

/* first: what takes the place of the first one, or NULL */
static void put_pointers(Adding *a, const Kernel *k, const Call *call,
                         const NodeList *results, const char *first) {
  buffer_puts(a->out, "void *const p[] = {");
  for (uint32_t j = 0; j < call->outs.len; j++)
    if (first)
      buffer_puts(a->out, first);
    else
      buffer_printf(a->out, "%sq[%u]", j ? ", " : "",
                    place_of(results, call->outs.at[j]->node));
  for (uint32_t j = 0; j < k->inputs.len; j++)
    buffer_printf(a->out, ", q[%u]", results->len + j);
  buffer_puts(a->out, "};\n");
}

/* How many nanoseconds the products of a kernel take; of others, whose
 * operations differ too much, nobody says. */
static void put_time(Adding *a, const Kernel *k, const Schedule *s) {
  uint32_t count = 0;
  for (uint32_t j = 0; s->tiling && j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    if (!s->tiling->of[j].on)
      continue;
    buffer_puts(a->out, count++ ? " + (" : "(");
    for (uint32_t v = 0; v < loop->axes; v++) {
      buffer_printf(a->out, "%s(", v ? " * " : "");
      put_size(a, loop->extents[v]);
      buffer_puts(a->out, " + 0.0)");
    }
    buffer_printf(a->out, ") / %u", TERMS_OF_LANE * s->width);
  }
  buffer_puts(a->out, count ? "" : "0");
}

static void put_work(Adding *a, const Kernel *k, const Schedule *s,
                     const Call *call, const char *function) {
  buffer_printf(a->out, "%s, p, n, c, ", function);
  put_size(a, call->units);
  buffer_puts(a->out, ", ");
  put_size(a, call->room);
  buffer_puts(a->out, ", ");
  put_time(a, k, s);
  buffer_puts(a->out, ");\n");
}

/* The sums of parts, then their sum. */
static void put_chunks(Adding *a, const Kernel *k, const Schedule *s,
                       const Call *call, const NodeList *results,
                       uint32_t number) {
  const Node *n = call->outs.at[0]->node;
  int64_t count = 0;
  a->failed |=
      !size_product(a->graph, n->free_count + n->rank, n->extents, &count);
  buffer_puts(a->out, "const int64_t count = ");
  put_size(a, count);
  buffer_puts(a->out, ", chunks = ");
  put_size(a, call->chunks);
  buffer_printf(a->out,
                ";\nvoid *const parts = room(times(count, chunks), %u, 0);\n"
                "if (!parts)\nreturn 1;\n",
                (unsigned)dtype_info[call->accumulator].bytes << call->places);
  put_pointers(a, k, call, results, "parts");
  buffer_puts(a->out, "int bad = ");
  Buffer name = {.arena = k->arena};
  buffer_printf(&name, "work(kernel%u", number);
  put_work(a, k, s, call, name.text);
  buffer_printf(a->out, "if (!bad) {\nvoid *const f[] = {q[0], parts};\n"
                        "const int64_t sums[] = {chunks, ");
  put_size(a, count);
  buffer_printf(a->out,
                "};\nbad = work(fold%u, f, sums, c, count, 0, 0);\n}\n"
                "free(parts);\n",
                number);
}

static void put_run(Adding *a, const NodeList *results, const char *name,
                    uint32_t number) {
  const Kernel *k = a->version->kernel;
  const Schedule *s = &a->version->schedule;
  const Call *call = &a->version->emitted.call;
  buffer_printf(a->out,
                "static int %s(const int64_t *z, void *const *q) {\n"
                "(void)z;\n",
                name);
  put_named(a);
  put_ints(a, call);
  put_floats(a, call);
  if (s->chunk) {
    put_chunks(a, k, s, call, results, number);
  } else {
    put_pointers(a, k, call, results, NULL);
    Buffer call_of = {.arena = k->arena};
    buffer_printf(&call_of, "const int bad = work(kernel%u", number);
    put_work(a, k, s, call, call_of.text);
  }
  buffer_puts(a->out, "return bad < 0 ? 1\n");
  for (uint32_t j = 0; j < call->checks.len; j++)
    buffer_printf(a->out, ": bad & %u ? %u\n", 1u << j,
                  a->caller->code(a->caller->owner, call->checks.at[j]));
  buffer_puts(a->out, ": 0;\n}\n");
}

/* ---- the whole ---- */

static void put_numbered(Buffer *out, const Buffer *text, uint32_t number) {
  const char *p = text->len ? text->text : "", *end = p + text->len;
  while (p < end) {
    const char *mark = memchr(p, *MARK, (size_t)(end - p));
    buffer_add(out, p, (size_t)((mark ? mark : end) - p));
    if (mark)
      buffer_printf(out, "%u", number);
    p = mark ? mark + 1 : end;
  }
}

/* The number of the kernel with this text, which is there from now on: sizes
 * are parameters, so that many kernels are one. */
static uint32_t add_text(AotModule *m, Buffer *part, const Buffer *text) {
  for (uint32_t k = 0; k < m->known.len; k++) {
    const ModuleText *t = &m->known.at[k];
    if (t->part == part && t->len == text->len &&
        memcmp(t->text, text->text, t->len) == 0)
      return t->number;
  }
  uint32_t number = m->known.len + 1;
  put_numbered(part, text, number);
  VEC_PUSH(m->arena, m->known,
           ((ModuleText){part, text->text, text->len, number}));
  return number;
}

/* Rows that are stored past the caches are long, too. */
static void put_streamed(Adding *a, const Version *x,
                         const char *(*name)(void *, const DimVar *)) {
  const Schedule *s = &x->schedule;
  for (uint32_t j = 0; x->least > 0 && j < x->kernel->loops.len; j++) {
    const Loop *loop = x->kernel->loops.at[j];
    uint32_t lane = s->lanes[j];
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      if (!r->out || !schedule_streams_along(s, loop, r, lane) ||
          size_is_number(a->graph, loop->extents[lane]))
        continue;
      buffer_puts(a->out, " && (");
      a->failed |= !size_emit(a->graph, a->out, loop->extents[lane], name,
                              a->caller->owner);
      buffer_printf(a->out, ") >= %d",
                    SCHEDULE_STREAM_ROW / (int)dtype_info[r->dtype].bytes);
    }
  }
}

/* Do 31 bits hold all indices? */
static void put_narrow(Adding *a, const Versions *v) {
  buffer_puts(a->out, "const int narrow = ");
  for (uint32_t j = 0; j < v->lows.len + v->highs.len; j++) {
    bool low = j < v->lows.len;
    buffer_puts(a->out, j ? " &&\n" : "");
    put_size(a, low ? v->lows.at[j] : v->highs.at[j - v->lows.len]);
    buffer_puts(a->out, low ? " >= -1073741824" : " <= 1073741823");
  }
  buffer_puts(a->out, ";\n");
}

/* Of how many parts it is. */
static uint32_t put_condition(Adding *a, const Versions *v, const Version *x,
                              const char *(*name)(void *, const DimVar *)) {
  uint32_t count = 0;
  const Loop *loop = x->kernel->loops.at[0];
  for (uint32_t j = 0; x->least > 0 && j < loop->axes; j++) {
    buffer_puts(a->out, count++ ? " * (" : "(");
    a->failed |=
        !size_emit(a->graph, a->out, loop->extents[j], name, a->caller->owner);
    buffer_puts(a->out, " + 0.0)");
  }
  if (x->least > 0)
    buffer_printf(a->out, "%s >= %.0f", count++ ? "" : "1", x->least);
  put_streamed(a, x, name);
  if (x->narrow)
    buffer_puts(a->out, count++ ? " && narrow" : "narrow");
  for (uint32_t j = 0; x->most && j < v->var_count; j++)
    if (x->vars >> j & 1)
      buffer_printf(a->out, "%s%s <= %lld", count++ ? " && " : "",
                    name(a->caller->owner, v->vars[j]), (long long)x->most);
  for (uint32_t j = 0; x->from && j < v->var_count; j++)
    if (x->vars >> j & 1)
      buffer_printf(a->out, "%s%s >= %lld", count++ ? " && " : "",
                    name(a->caller->owner, v->vars[j]), (long long)x->from);
  return count;
}

/* Is there not too much scratch memory in it? */
static void put_fits(Adding *a) {
  buffer_puts(a->out, "(");
  put_size(a, a->version->emitted.call.room);
  buffer_printf(a->out, ") <= %d", WINDOW_ROOM);
}

/* "n <= 1, or m <= 24, or others" */
static const char *about(Adding *a, const Versions *v) {
  Buffer text = {.arena = v->at[0].kernel->arena};
  Adding to = *a;
  to.out = &text;
  buffer_puts(&text, "");
  for (uint32_t j = 0; j + 1 < v->count; j++) {
    uint32_t parts = put_condition(&to, v, &v->at[j], a->caller->name);
    if (v->at[j].window)
      buffer_printf(&text, "%sa window that a cache holds",
                    parts ? " && " : "");
    buffer_puts(&text, "; ");
  }
  buffer_puts(&text, "others");
  return text.text;
}

static void put_choice(Adding *a, const Versions *v, const uint32_t *parts) {
  buffer_puts(a->out, "static int run" MARK
                      "(const int64_t *z, void *const *q) {\n");
  a->version = &v->at[0];
  if (v->at[0].narrow)
    put_narrow(a, v);
  for (uint32_t j = 0; j < v->count; j++) {
    a->version = &v->at[j];
    if (v->at[j].window)
      put_named(a);
    if (j + 1 < v->count) {
      buffer_puts(a->out, "if (");
      uint32_t count = put_condition(a, v, &v->at[j], a->caller->size);
      if (v->at[j].window) {
        buffer_puts(a->out, count ? " && " : "");
        put_fits(a);
      }
      buffer_puts(a->out, ")\n");
    }
    buffer_printf(a->out, "return part%u(z, q);\n", parts[j]);
  }
  buffer_puts(a->out, "}\n");
}

static bool add_for(AotModule *m, const Kernel *k, const ModuleCaller *caller,
                    const NodeList *results, uint32_t target, Buffer *run) {
  Versions v;
  uint32_t bytes = targets[target].bytes, parts[VERSIONS_MOST];
  Adding a = {.caller = caller, .graph = k->graph};
  if (!versions_write(k, bytes, m->only >= 0, MARK, &v))
    return false;
  for (uint32_t j = 0; j < v.count; j++) {
    const Version *x = &v.at[j];
    Buffer *out = &m->text[target][bytes > 4 && x->schedule.width * 4 < bytes];
    uint32_t number = add_text(m, out, &x->emitted.text);
    Buffer part = {.arena = k->arena};
    a.out = v.count > 1 ? &part : run;
    a.version = x;
    put_run(&a, results, v.count > 1 ? "part" MARK : "run" MARK, number);
    parts[j] = v.count > 1 ? add_text(m, out, &part) : 0;
  }
  a.out = run;
  if (v.count > 1)
    put_choice(&a, &v, parts);
  if (!m->about)
    m->about = about(&a, &v);
  return !a.failed;
}

static bool same_text(const Buffer *x, const Buffer *y) {
  return x->len == y->len && (!x->len || memcmp(x->text, y->text, x->len) == 0);
}

/* Its number. */
static uint32_t add_run(AotModule *m, const ModuleRun *run) {
  for (uint32_t k = 0; k < m->runs.len; k++) {
    bool same = true;
    for (uint32_t t = 0; t < MODULE_TARGETS; t++)
      same &= same_text(&m->runs.at[k].text[t], &run->text[t]);
    if (same)
      return k + 1;
  }
  VEC_PUSH(m->arena, m->runs, *run);
  for (uint32_t t = 0; t < MODULE_TARGETS; t++)
    put_numbered(&m->choices[t], &run->text[t], m->runs.len);
  return m->runs.len;
}

void module_begin(AotModule *m, Arena *arena, bool here) {
  *m = (AotModule){.arena = arena, .only = -1};
  for (int t = 0; t < MODULE_TARGETS; t++) {
    m->text[t][0].arena = m->text[t][1].arena = arena;
    m->choices[t].arena = arena;
    if (here && targets[t].bytes == target_vector_bytes())
      m->only = t;
  }
}

static bool is_wanted(const AotModule *m, uint32_t target) {
  return m->only < 0 || (uint32_t)m->only == target;
}

uint32_t module_add(AotModule *m, const Kernel *k, const ModuleCaller *caller,
                    NodeList *results) {
  ModuleRun run;
  *results = (NodeList){0};
  m->about = NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (k->loops.at[j]->results.at[i].out)
        VEC_PUSH(k->arena, *results, k->loops.at[j]->results.at[i].node);
  for (uint32_t t = 0; t < MODULE_TARGETS; t++) {
    run.text[t] = (Buffer){.arena = m->arena};
    if (is_wanted(m, t) && !add_for(m, k, caller, results, t, &run.text[t]))
      return UINT32_MAX;
  }
  return add_run(m, &run);
}

void module_write(const AotModule *m, Buffer *out) {
  if (!m->runs.len)
    return;
  for (uint32_t t = 0; t < MODULE_TARGETS; t++) {
    if (!is_wanted(m, t))
      continue;
    buffer_printf(out, "\n%s", m->only < 0 ? targets[t].condition : "");
    for (uint32_t wide = 0; wide < 2; wide++) {
      const Buffer *text = &m->text[t][wide];
      uint32_t width = targets[t].bytes / (wide ? 8 : 4);
      char suffix[16];
      snprintf(suffix, sizeof suffix, "_%u", width);
      if (text->len)
        prelude_part(m->arena, width, text, suffix, out);
    }
    if (m->choices[t].len)
      buffer_add(out, m->choices[t].text, m->choices[t].len);
  }
  if (m->only < 0)
    buffer_puts(out, "#endif\n");
}

void module_write_plain(Arena *arena, const Buffer *text, Buffer *out) {
  prelude_part(arena, 1, text, "_plain", out);
}
