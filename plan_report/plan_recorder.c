/* Records how the graph runs: copies what is observed, with the source
   locations it comes from.  Main entry point: plan_recorder_init. */
#include "plan_report/plan_report.h"
#include "kernel/nest.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/source.h"

#include <string.h>

enum { MAX_TRIES = 5, MAX_OPERATION_NAMES = 6 };
/* seconds for all tries of one kernel */
static const double max_tries_seconds = 0.05;

/* ---- places ---- */

static const char *text_of_line(Arena *arena, const Source *s, uint32_t at) {
  uint32_t start = at, end = at;
  while (start > 0 && s->text[start - 1] != '\n')
    start--;
  while (end < s->len && s->text[end] != '\n')
    end++;
  while (start < end && s->text[start] == ' ')
    start++;
  return arena_strndup(arena, s->text + start, end - start);
}

/* The expression without parentheses around all of it. */
static const char *strip_parentheses(Arena *arena, const char *text) {
  size_t len = text ? strlen(text) : 0;
  if (len < 2 || text[0] != '(' || text[len - 1] != ')')
    return text;
  int depth = 0;
  for (size_t k = 0; k + 1 < len; k++) {
    depth += (text[k] == '(') - (text[k] == ')');
    if (depth == 0)
      return text;
  }
  return arena_strndup(arena, text + 1, len - 2);
}

static PlanLocation location_of(const PlanRecorder *recorder, Arena *arena,
                                Span span) {
  const Source *s =
      span.file ? sources_get(recorder->sources, span.file) : NULL;
  PlanLocation p = {0};
  uint32_t column;
  if (!s || span.start > s->len)
    return p;
  p.text =
      strip_parentheses(arena, source_excerpt(arena, recorder->sources, span));
  p.file = s->name;
  source_line_and_column(s, span.start, &p.line, &column);
  p.line_text = text_of_line(arena, s, span.start);
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

/* Lists the operations of a loop nest, each once, in order. */
static void put_operations(Buffer *out, const LoopNest *loop) {
  bool seen[PRIM_COUNT] = {false};
  uint32_t count = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    bool named = s->kind == KOP_MAP || s->kind == KOP_RANDOM;
    if (s->kind == KOP_SELECT && !seen[PRIM_SELECT])
      buffer_printf(out, "%sif", count++ ? ", " : "");
    seen[PRIM_SELECT] |= s->kind == KOP_SELECT;
    if (!named || seen[s->op])
      continue;
    seen[s->op] = true;
    if (count++ < MAX_OPERATION_NAMES)
      buffer_printf(out, "%s%s", count > 1 ? ", " : "", short_name(s->op));
  }
  if (count > MAX_OPERATION_NAMES)
    buffer_puts(out, ", …");
  if (!count)
    buffer_puts(out,
                loop->axis_count > loop->spatial_axes ? "elements" : "copy");
}

static const char *operation_text(Arena *arena, const LoopNest *loop) {
  Buffer out = {.arena = arena};
  uint32_t reductions = 0;
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    PrimId op = loop->outputs.at[j].reduce;
    if (op != PRIM_NONE)
      buffer_printf(&out, "%s%s", reductions++ ? ", " : "", short_name(op));
  }
  if (reductions)
    buffer_puts(&out, " of ");
  if (reductions && loop_is_contraction(loop))
    buffer_puts(&out, "products");
  else
    put_operations(&out, loop);
  if (loop->trim_bounds)
    buffer_printf(&out, " (%.0f %%)", 100 * loop->trip_fraction);
  return out.text;
}

static void add_loops(const PlanRecorder *recorder, Arena *arena,
                      PlanKernel *to, const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    PlanLoop l = {0};
    uint32_t last = loop->outputs.len - 1;
    l.place = location_of(recorder, arena, loop->outputs.at[last].node->span);
    l.spatial_extents = extents_text(arena, loop->extents, loop->parallel_axes,
                                     loop->spatial_axes);
    l.reduction_extents = extents_text(arena, loop->extents, loop->spatial_axes,
                                       loop->axis_count);
    l.operation = operation_text(arena, loop);
    l.keeps_states = loop->keeps_states;
    VEC_PUSH(arena, to->loops, l);
  }
  if (k->loops.len)
    to->parallel_extents =
        extents_text(arena, k->loops.at[0]->extents, 0, k->parallel_axes);
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

static bool is_saved(const PlanSummary *p, const Node *n) {
  for (uint32_t k = 0; k < p->saved.len; k++)
    if (p->saved.at[k].node == n)
      return true;
  return false;
}

static double node_bytes(const Node *n) {
  return (double)node_element_count(n) * dtype_info[n->dtype].bytes;
}

static void add_values(const PlanRecorder *recorder, const PlanSummary *p,
                       Arena *arena, PlanKernel *to, const FusionGroup *c) {
  for (uint32_t j = 0; j < c->nodes.len; j++) {
    const Node *n = c->nodes.at[j];
    PlanValue v = {.place = location_of(recorder, arena, n->span)};
    v.storage = fusion_group_stores(c, n) ? VALUE_MATERIALIZED : VALUE_LOCAL;
    v.type = type_text(arena, n);
    v.bytes = node_bytes(n);
    v.reason = c->remarks->materialize_reasons.at[j];
    v.is_saved = is_saved(p, n);
    VEC_PUSH(arena, to->values, v);
  }
  for (uint32_t j = 0; j < c->remarks->inlined_values.len; j++) {
    const FusedValue *f = &c->remarks->inlined_values.at[j];
    PlanValue v = {.place = location_of(recorder, arena, f->span)};
    v.storage = f->is_view ? VALUE_VIEW : VALUE_INLINED;
    v.type = dtype_info[f->dtype].name;
    v.bytes = (double)f->element_count * dtype_info[f->dtype].bytes;
    VEC_PUSH(arena, to->values, v);
  }
}

/* ---- code ---- */

/* A source line as a C comment, with what the loop does for it. */
static const char *kernel_comment(Arena *arena, const PlanLoop *l) {
  const PlanLocation *p = &l->place;
  char *text = p->file ? arena_printf(arena, "%s:%u: %s\n * %s%s%s", p->file,
                                      p->line, p->line_text, l->operation,
                                      *l->reduction_extents ? " over " : "",
                                      l->reduction_extents)
                       : arena_printf(arena, "%s", l->operation);
  for (char *at = text; *at; at++)
    if ((at[0] == '*' && at[1] == '/') || (at[0] == '/' && at[1] == '*'))
      at[0] = ' ';
  return text;
}

static const char *const *kernel_comments(Arena *arena, const PlanKernel *k) {
  const char **comments = NEW_ARRAY(arena, const char *, k->loops.len + 1);
  for (uint32_t j = 0; j < k->loops.len; j++)
    comments[j] = kernel_comment(arena, &k->loops.at[j]);
  return comments;
}

/* ---- kernels ---- */

static const char *const reference_requested =
    "the reference backend was requested";

static bool describe(const Graph *g, const FusionGroup *c, Arena *arena,
                     const char *const *comments, KernelInfo *out) {
  return g->backend->describe && g->backend->describe(c, arena, comments, out);
}

static bool has_object(const PlanRun *run, const void *object) {
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (run->kernels.at[k].info.code_id == object)
      return true;
  return false;
}

/* True if an earlier kernel has the same object. */
static bool is_known_object(const PlanRecorder *recorder, const void *object) {
  bool known = has_object(recorder->current, object);
  for (uint32_t j = 0; j < recorder->runs.len; j++)
    known = known || has_object(recorder->runs.at[j], object);
  return known;
}

static void add_code(const PlanSummary *p, const FusionGroup *c, Arena *arena,
                     PlanKernel *to) {
  KernelInfo info;
  if (!describe(p->graph, c, arena, kernel_comments(arena, to), &info))
    return;
  to->info.lowered = info.lowered;
  if (info.source)
    to->info.source = arena_strndup(arena, info.source, strlen(info.source));
}

/* Sets info.kernel, for the time in which the plan exists. */
static void add_info(const PlanRecorder *recorder, const PlanSummary *p,
                     const FusionGroup *c, Arena *arena, PlanKernel *to) {
  bool compiled = describe(p->graph, c, arena, NULL, &to->info);
  to->reuses_code =
      to->info.code_id && is_known_object(recorder, to->info.code_id);
  to->is_library_op = c->library_op;
  to->fallback_reason = c->fallback_reason;
  if (!compiled && !p->graph->backend->compiles_kernels)
    to->fallback_reason = reference_requested;
  else if (!compiled && !to->fallback_reason && !to->is_library_op)
    to->fallback_reason = "no C code generation for one of its operations";
  if (to->fallback_reason)
    to->fallback_reason =
        arena_strndup(arena, to->fallback_reason, strlen(to->fallback_reason));
  if (to->info.schedule)
    to->info.schedule =
        arena_strndup(arena, to->info.schedule, strlen(to->info.schedule));
  if (!c->kernel)
    return;
  if (!to->info.kernel)
    to->info.kernel = c->kernel;
  to->cost = kernel_cost(to->info.kernel);
  if (compiled && to->info.has_prediction)
    to->predicted = to->info.prediction;
  else if (compiled)
    to->predicted = roofline_predict(&to->cost, to->info.tasks,
                                     (double)to->info.scratch_bytes, machine(),
                                     machine_peak_rates());
}

static void put_part(const PlanRecorder *recorder, const char *name,
                     const Nest *n, Buffer *out) {
  if (!n)
    return;
  buffer_printf(out, "%s\n", name);
  nest_print(out, nest_after(n, recorder->shown.steps));
}

/* A matmul, with its nest and those that pack its operands. */
static void put_gemm(const PlanRecorder *recorder, const KernelInfo *info,
                     uint32_t at, Buffer *out) {
  buffer_puts(out, "by gemm\n");
  if (recorder->shown.stage != PLAN_NESTS || !info->gemms)
    return;
  put_part(recorder, "tiles", info->gemms[at].tiles, out);
  put_part(recorder, "pack the left operand", info->gemms[at].left, out);
  put_part(recorder, "pack the right operand", info->gemms[at].right, out);
}

/* The loop nest as text at the recorded stage. */
static void put_nest(const PlanRecorder *recorder, const KernelInfo *info,
                     uint32_t at, Buffer *out) {
  const Nest *n = info->nests[at];
  if (!n)
    put_gemm(recorder, info, at, out);
  else if (at && info->nests[at - 1] && info->nests[at - 1]->has_epilogue)
    buffer_puts(out, "in the epilogue of the one before\n");
  else if (recorder->shown.stage == PLAN_NESTS)
    nest_print(out, nest_after(n, recorder->shown.steps));
  else if (info->lowered && info->lowered[at])
    buffer_puts(out, info->lowered[at]);
}

static const char *nests_text(const PlanRecorder *recorder, Arena *arena,
                              const KernelInfo *info) {
  Buffer out = {.arena = arena};
  bool has_text =
      info->nests && (recorder->shown.stage == PLAN_NESTS || info->lowered);
  for (uint32_t j = 0; has_text && j < info->kernel->loops.len; j++) {
    buffer_printf(&out, "nest %u\n", j + 1);
    put_nest(recorder, info, j, &out);
  }
  return out.text;
}

/* The kernel as text at the recorded stage; NULL: it has none. */
static const char *stage_text(const PlanRecorder *recorder, Arena *arena,
                              const FusionGroup *c, const KernelInfo *info) {
  Buffer out = {.arena = arena};
  if (!info->kernel)
    return NULL;
  switch (recorder->shown.stage) {
  case PLAN_SPECS:
    kernel_print(&out, info->kernel);
    break;
  case PLAN_FACTS:
    kernel_print_facts(&out, c->kernel);
    break;
  case PLAN_SCHEDULE:
    return info->schedule;
  case PLAN_CODE:
    return info->source;
  case PLAN_NESTS:
  case PLAN_LOWERED:
    return nests_text(recorder, arena, info);
  case PLAN_NO_STAGE:
    break;
  }
  return out.text;
}

static uint32_t index_of_cluster(const PlanSummary *p, const FusionGroup *c) {
  uint32_t k = 0;
  while (k < p->group_count && p->groups[k] != c)
    k++;
  return k;
}

static PlanKernel kernel_of(const PlanRecorder *recorder, const PlanSummary *p,
                            const FusionGroup *c, Arena *arena) {
  PlanKernel k = {.parallel_extents = ""};
  uint32_t last = c->nodes.len - 1;
  k.place = location_of(recorder, arena, c->nodes.at[last]->span);
  add_info(recorder, p, c, arena, &k);
  if (c->kernel)
    add_loops(recorder, arena, &k, k.info.kernel);
  if (recorder->with_code || recorder->shown.stage >= PLAN_LOWERED)
    add_code(p, c, arena, &k);
  k.stage_text = stage_text(recorder, arena, c, &k.info);
  k.info.kernel = NULL;
  k.info.nests = NULL;
  k.info.gemms = NULL;
  k.info.lowered = NULL;
  add_values(recorder, p, arena, &k, c);
  for (uint32_t j = 0; j < c->remarks->blockers.len; j++) {
    const FusionBlocker *from = &c->remarks->blockers.at[j];
    PlanFusionBlocker a = {index_of_cluster(p, from->producer), from->reason};
    VEC_PUSH(arena, k.fusion_blockers, a);
  }
  return k;
}

/* ---- values saved for a gradient ---- */

static bool is_same_line(const PlanLocation *a, const PlanLocation *b) {
  return a->line == b->line &&
         (a->file == b->file ||
          (a->file && b->file && strcmp(a->file, b->file) == 0));
}

static void add_saved_value(const PlanRecorder *recorder, SavedCall *call,
                            const Node *n) {
  PlanLocation at = location_of(recorder, recorder->arena, n->span);
  uint32_t k = 0;
  while (k < call->lines.len && !is_same_line(&call->lines.at[k].place, &at))
    k++;
  if (k == call->lines.len)
    VEC_PUSH(recorder->arena, call->lines, ((SavedLine){.place = at}));
  SavedLine line = call->lines.at[k];
  line.count++;
  line.bytes += node_bytes(n);
  call->bytes += node_bytes(n);
  for (; k && call->lines.at[k - 1].bytes < line.bytes; k--)
    call->lines.at[k] = call->lines.at[k - 1];
  call->lines.at[k] = line;
}

static SavedCall *call_of(PlanRecorder *recorder, uint32_t id) {
  for (uint32_t k = recorder->calls.len; k-- > 0;)
    if (recorder->calls.at[k]->id == id)
      return recorder->calls.at[k];
  SavedCall *call = NEW(recorder->arena, SavedCall);
  call->id = id;
  map_init(&call->nodes, recorder->arena);
  VEC_PUSH(recorder->arena, recorder->calls, call);
  return call;
}

/* Several runs may read one value. */
static void add_saved(PlanRecorder *recorder, const PlanSummary *p) {
  for (uint32_t k = 0; k < p->saved.len; k++) {
    const Node *n = p->saved.at[k].node;
    SavedCall *call = call_of(recorder, p->saved.at[k].call);
    void *key = (void *)((uintptr_t)n->id + 1);
    if (map_get(&call->nodes, key))
      continue;
    map_put(&call->nodes, key, key);
    add_saved_value(recorder, call, n);
  }
}

const SavedCall *plan_largest_call(const PlanRecorder *recorder) {
  const SavedCall *largest = NULL;
  for (uint32_t k = 0; k < recorder->calls.len; k++)
    if (!largest || recorder->calls.at[k]->bytes > largest->bytes)
      largest = recorder->calls.at[k];
  return largest;
}

/* ---- runs ---- */

static PlanRun *run_of(PlanRecorder *recorder, const PlanSummary *p) {
  Arena *arena = arena_new();
  PlanRun *run = NEW(arena, PlanRun);
  run->arena = arena;
  recorder->current = run;
  run->bytes_before = p->input_bytes;
  run->peak_bytes = p->peak_bytes;
  for (uint32_t k = 0; k < p->group_count; k++)
    VEC_PUSH(arena, run->kernels, kernel_of(recorder, p, p->groups[k], arena));
  Buffer key = {.arena = arena};
  static const PlanStyle style = {.stable = true};
  plan_text_run(&key, run, 0, 0, &style);
  run->key = key.text;
  return run;
}

static void on_planned(void *owner, const PlanSummary *p) {
  PlanRecorder *recorder = owner;
  PlanRun *run = run_of(recorder, p);
  recorder->first_of_equals = true;
  for (uint32_t k = 0; k < recorder->runs.len && recorder->first_of_equals; k++)
    if (strcmp(recorder->runs.at[k]->key, run->key) == 0) {
      arena_free(run->arena);
      run = recorder->runs.at[k];
      recorder->first_of_equals = false;
    }
  if (recorder->first_of_equals)
    VEC_PUSH(recorder->arena, recorder->runs, run);
  if (recorder->first_of_equals)
    run->unused_by_program = recorder->unused_by_program;
  add_saved(recorder, p);
  run->count++;
  recorder->current = run;
  recorder->clusters = p->groups;
  recorder->last_cluster_plus_one = 0;
}

static void on_again(void *owner) {
  PlanRecorder *recorder = owner;
  recorder->current->count++;
}

static bool on_ran(void *owner, uint32_t at, double seconds) {
  PlanRecorder *recorder = owner;
  PlanKernel *k = &recorder->current->kernels.at[at];
  bool first = recorder->last_cluster_plus_one != at + 1;
  recorder->last_cluster_plus_one = at + 1;
  k->is_alias = seconds < 0;
  if (k->is_alias)
    return false;
  if (first && recorder->clusters[at]->fallback_reason && !k->fallback_reason)
    k->fallback_reason =
        recorder->clusters[at]->fallback_reason; /* a string literal */
  if (first)
    k->total_seconds += seconds;
  if (!recorder->first_of_equals) {
    recorder->last_cluster_plus_one = 0;
    return false;
  }
  k->spent_seconds += seconds;
  k->tries++;
  if (k->tries == 1 || seconds < k->best_seconds)
    k->best_seconds = seconds;
  if (k->tries < MAX_TRIES && k->spent_seconds < max_tries_seconds)
    return true;
  recorder->last_cluster_plus_one =
      0; /* the next loop iteration may have the same kernel */
  return false;
}

void plan_recorder_init(PlanRecorder *recorder, Session *session, bool code,
                        bool dry) {
  recorder->observer =
      (PlanObserver){recorder, on_planned, on_ran, on_again, dry};
  recorder->sources = session_sources(session);
  recorder->arena = arena_new();
  recorder->with_code = code;
}

void plan_recorder_free(PlanRecorder *recorder) {
  for (uint32_t k = 0; k < recorder->runs.len; k++)
    arena_free(recorder->runs.at[k]->arena);
  arena_free(recorder->arena);
}
