/* Listening to how the graph is run: what is told is copied, with the places
 * in the program that it comes from. */
#include "cli/plan.h"

#include <string.h>

enum { TRIES = 5, NAMES = 6 };
static const double tries_seconds = 0.05; /* of one kernel */

/* ---- places ---- */

static const char *whole_line(Arena *arena, const Source *s, uint32_t at) {
  uint32_t start = at, end = at;
  while (start > 0 && s->text[start - 1] != '\n')
    start--;
  while (end < s->len && s->text[end] != '\n')
    end++;
  while (start < end && s->text[start] == ' ')
    start++;
  return arena_text(arena, s->text + start, end - start);
}

/* An expression without brackets around all of it. */
static const char *bare_text(Arena *arena, const char *text) {
  size_t len = text ? strlen(text) : 0;
  if (len < 2 || text[0] != '(' || text[len - 1] != ')')
    return text;
  int depth = 0;
  for (size_t k = 0; k + 1 < len; k++) {
    depth += (text[k] == '(') - (text[k] == ')');
    if (depth == 0)
      return text;
  }
  return arena_text(arena, text + 1, len - 2);
}

static PlanPlace place_of(const PlanLog *log, Arena *arena, Span span) {
  const Source *s = span.file ? sources_get(log->sources, span.file) : NULL;
  PlanPlace p = {0};
  uint32_t column;
  if (!s || span.start > s->len)
    return p;
  p.text = bare_text(arena, source_excerpt(arena, log->sources, span));
  p.file = s->name;
  source_place(s, span.start, &p.line, &column);
  p.whole = whole_line(arena, s, span.start);
  return p;
}

/* ---- loops ---- */

static void put_extents(Buffer *out, const int64_t *extents, uint32_t from,
                        uint32_t to) {
  for (uint32_t v = from; v < to; v++)
    buffer_printf(out, "%s%lld", v > from ? " × " : "", (long long)extents[v]);
}

static const char *extents_text(Arena *arena, const int64_t *extents,
                                uint32_t from, uint32_t to) {
  Buffer out = {.arena = arena};
  buffer_puts(&out, "");
  put_extents(&out, extents, from, to);
  return out.text ? out.text : "";
}

static const char *short_name(PrimId op) {
  const char *name = prim_info[op].name;
  return strncmp(name, "op ", 3) == 0 ? name + 3 : name;
}

/* What is done, each operation once, in the order of the steps. */
static void put_operations(Buffer *out, const Loop *loop) {
  bool seen[PRIM_COUNT] = {false};
  uint32_t count = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    bool named = s->kind == STEP_OP || s->kind == STEP_RANDOM;
    if (s->kind == STEP_SELECT && !seen[PRIM_SELECT])
      buffer_printf(out, "%sif", count++ ? ", " : "");
    seen[PRIM_SELECT] |= s->kind == STEP_SELECT;
    if (!named || seen[s->op])
      continue;
    seen[s->op] = true;
    if (count++ < NAMES)
      buffer_printf(out, "%s%s", count > 1 ? ", " : "", short_name(s->op));
  }
  if (count > NAMES)
    buffer_puts(out, ", …");
  if (!count)
    buffer_puts(out, loop->axes > loop->kept ? "elements" : "copy");
}

static const char *does_text(Arena *arena, const Loop *loop) {
  Buffer out = {.arena = arena};
  uint32_t reductions = 0;
  for (uint32_t j = 0; j < loop->results.len; j++) {
    PrimId op = loop->results.at[j].reduce;
    if (op != PRIM_NONE)
      buffer_printf(&out, "%s%s", reductions++ ? ", " : "", short_name(op));
  }
  if (reductions)
    buffer_puts(&out, " of ");
  if (reductions && loop_is_product(loop))
    buffer_puts(&out, "products");
  else
    put_operations(&out, loop);
  if (loop->limits)
    buffer_printf(&out, " (%.0f %%)", 100 * loop->part);
  return out.text;
}

static void add_loops(const PlanLog *log, Arena *arena, PlanKernel *to,
                      const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    PlanLoop l = {0};
    uint32_t last = loop->results.len - 1;
    l.place = place_of(log, arena, loop->results.at[last].node->span);
    l.inner = extents_text(arena, loop->extents, loop->outer, loop->kept);
    l.reduced = extents_text(arena, loop->extents, loop->kept, loop->axes);
    l.does = does_text(arena, loop);
    VEC_PUSH(arena, to->loops, l);
  }
  if (k->loops.len)
    to->outer = extents_text(arena, k->loops.at[0]->extents, 0, k->outer);
}

/* ---- values ---- */

static const char *type_text(Arena *arena, const Node *n) {
  Buffer out = {.arena = arena};
  buffer_puts(&out, dtype_info[n->dtype].name);
  uint32_t rank = n->free_count + n->rank;
  if (rank) {
    buffer_putc(&out, '[');
    for (uint32_t k = 0; k < rank; k++)
      buffer_printf(&out, "%s%lld", k ? ", " : "", (long long)n->extents[k]);
    buffer_putc(&out, ']');
  }
  return out.text;
}

static void add_values(const PlanLog *log, Arena *arena, PlanKernel *to,
                       const Cluster *c) {
  for (uint32_t j = 0; j < c->nodes.len; j++) {
    const Node *n = c->nodes.at[j];
    PlanValue v = {.place = place_of(log, arena, n->span)};
    v.fate = cluster_stores(c, n) ? VALUE_STORED : VALUE_LOCAL;
    v.type = type_text(arena, n);
    v.bytes = (double)node_count(n) * dtype_info[n->dtype].bytes;
    v.why = c->notes->stored.at[j];
    VEC_PUSH(arena, to->values, v);
  }
  for (uint32_t j = 0; j < c->notes->fused.len; j++) {
    const FusedValue *f = &c->notes->fused.at[j];
    PlanValue v = {.place = place_of(log, arena, f->span)};
    v.fate = f->moves ? VALUE_MOVED : VALUE_FUSED;
    v.type = dtype_info[f->dtype].name;
    v.bytes = (double)f->count * dtype_info[f->dtype].bytes;
    VEC_PUSH(arena, to->values, v);
  }
}

/* ---- code ---- */

/* A line of the program as a comment of C, and what the loop does of it. */
static const char *note_of(Arena *arena, const PlanLoop *l) {
  const PlanPlace *p = &l->place;
  char *text = p->file ? arena_printf(arena, "%s:%u: %s\n * %s%s%s", p->file,
                                      p->line, p->whole, l->does,
                                      *l->reduced ? " over " : "", l->reduced)
                       : arena_printf(arena, "%s", l->does);
  for (char *at = text; *at; at++)
    if ((at[0] == '*' && at[1] == '/') || (at[0] == '/' && at[1] == '*'))
      at[0] = ' ';
  return text;
}

static const char *const *notes_of(Arena *arena, const PlanKernel *k) {
  const char **notes = NEW_ARRAY(arena, const char *, k->loops.len + 1);
  for (uint32_t j = 0; j < k->loops.len; j++)
    notes[j] = note_of(arena, &k->loops.at[j]);
  return notes;
}

/* ---- kernels ---- */

static const char *const no_backend = "the reference backend was asked for";

static bool describe(const Graph *g, const Cluster *c, Arena *arena,
                     const char *const *notes, KernelAbout *out) {
  return g->backend && g->backend->describe &&
         g->backend->describe(c, arena, notes, out);
}

static bool has_object(const PlanRun *run, const void *object) {
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (run->kernels.at[k].about.object == object)
      return true;
  return false;
}

/* Is it one of an earlier kernel, too? */
static bool is_known(const PlanLog *log, const void *object) {
  bool known = has_object(log->current, object);
  for (uint32_t j = 0; j < log->runs.len; j++)
    known = known || has_object(log->runs.at[j], object);
  return known;
}

static void add_code(const Planned *p, const Cluster *c, Arena *arena,
                     PlanKernel *to) {
  KernelAbout about;
  if (describe(p->graph, c, arena, notes_of(arena, to), &about) && about.code)
    to->about.code = arena_text(arena, about.code, strlen(about.code));
}

/* To describe a kernel may change its loops, as running it does: this comes
 * before they are looked at. */
static void add_about(const PlanLog *log, const Planned *p, const Cluster *c,
                      Arena *arena, PlanKernel *to) {
  bool compiled = describe(p->graph, c, arena, NULL, &to->about);
  to->again = to->about.object && is_known(log, to->about.object);
  to->routine = c->routine;
  to->interpreted = c->interpreted;
  if (!compiled && (!p->graph->backend || !p->graph->backend->kernels))
    to->interpreted = no_backend;
  else if (!compiled && !to->interpreted && !to->routine)
    to->interpreted = "there is no C for something in it yet";
  if (to->interpreted)
    to->interpreted =
        arena_text(arena, to->interpreted, strlen(to->interpreted));
  if (!c->kernel)
    return;
  to->cost = cost_of(c->kernel);
  if (compiled && to->about.predicts)
    to->predicted = to->about.predicted;
  else if (compiled)
    to->predicted =
        cost_predict(&to->cost, to->about.units, (double)to->about.scratch,
                     machine(), machine_limits());
}

static uint32_t number_of(const Planned *p, const Cluster *c) {
  uint32_t k = 0;
  while (k < p->count && p->clusters[k] != c)
    k++;
  return k;
}

static PlanKernel kernel_of(const PlanLog *log, const Planned *p,
                            const Cluster *c, Arena *arena) {
  PlanKernel k = {.outer = ""};
  uint32_t last = c->nodes.len - 1;
  k.place = place_of(log, arena, c->nodes.at[last]->span);
  add_about(log, p, c, arena, &k);
  if (c->kernel)
    add_loops(log, arena, &k, c->kernel);
  add_values(log, arena, &k, c);
  for (uint32_t j = 0; j < c->notes->apart.len; j++) {
    const Apart *from = &c->notes->apart.at[j];
    PlanApart a = {number_of(p, from->from), from->why};
    VEC_PUSH(arena, k.apart, a);
  }
  if (log->code)
    add_code(p, c, arena, &k);
  return k;
}

/* ---- runs ---- */

static PlanRun *run_of(PlanLog *log, const Planned *p) {
  Arena *arena = arena_new();
  PlanRun *run = NEW(arena, PlanRun);
  run->arena = arena;
  log->current = run;
  run->held = p->held;
  run->peak = p->peak;
  for (uint32_t k = 0; k < p->count; k++)
    VEC_PUSH(arena, run->kernels, kernel_of(log, p, p->clusters[k], arena));
  Buffer key = {.arena = arena};
  static const PlanStyle style = {.stable = true};
  plan_text_run(&key, run, 0, 0, &style);
  run->key = key.text;
  return run;
}

static void planned(void *owner, const Planned *p) {
  PlanLog *log = owner;
  PlanRun *run = run_of(log, p);
  log->fresh = true;
  for (uint32_t k = 0; k < log->runs.len && log->fresh; k++)
    if (strcmp(log->runs.at[k]->key, run->key) == 0) {
      arena_free(run->arena);
      run = log->runs.at[k];
      log->fresh = false;
    }
  if (log->fresh)
    VEC_PUSH(log->arena, log->runs, run);
  if (log->fresh)
    run->extra = log->extra;
  run->count++;
  log->current = run;
  log->clusters = p->clusters;
  log->tried = 0;
}

static void again(void *owner) {
  PlanLog *log = owner;
  log->current->count++;
}

static bool ran(void *owner, uint32_t at, double seconds) {
  PlanLog *log = owner;
  PlanKernel *k = &log->current->kernels.at[at];
  bool first = log->tried != at + 1;
  log->tried = at + 1;
  k->shared = seconds < 0;
  if (k->shared)
    return false;
  if (first && log->clusters[at]->interpreted && !k->interpreted)
    k->interpreted = log->clusters[at]->interpreted; /* a literal */
  if (first)
    k->total += seconds;
  if (!log->fresh) {
    log->tried = 0;
    return false;
  }
  k->spent += seconds;
  k->tries++;
  if (k->tries == 1 || seconds < k->best)
    k->best = seconds;
  if (k->tries < TRIES && k->spent < tries_seconds)
    return true;
  log->tried = 0; /* the next turn of a loop may be of the same kernel */
  return false;
}

void plan_listen(PlanLog *log, Session *session, bool code, bool dry) {
  log->watch = (PlanWatch){log, planned, ran, again, dry};
  log->sources = session_sources(session);
  log->arena = arena_new();
  log->code = code;
}

void plan_forget(PlanLog *log) {
  for (uint32_t k = 0; k < log->runs.len; k++)
    arena_free(log->runs.at[k]->arena);
  arena_free(log->arena);
}
