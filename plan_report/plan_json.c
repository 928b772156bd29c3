/* Writes the recorded plans as one JSON object. */
#include "plan_report/plan_report.h"
#include "machine/machine.h"
#include "support/buffer.h"
#include "support/code_indent.h"
#include "support/compiler.h"
#include "support/json_writer.h"

static void put_number(Buffer *out, const char *name, double x) {
  json_key(out, name);
  buffer_printf(out, "%.9g", x);
}

static void put_flag(Buffer *out, const char *name, bool is) {
  json_key(out, name);
  buffer_puts(out, is ? "true" : "false");
}

static void put_location(Buffer *out, const PlanLocation *p) {
  json_string_field(out, "text", p->text);
  json_string_field(out, "file", p->file);
  if (p->file)
    json_int_field(out, "line", p->line);
}

static void put_loops(Buffer *out, const PlanKernel *k) {
  json_open(out, "loops", '[');
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const PlanLoop *l = &k->loops.at[j];
    if (l->keeps_states)
      continue;
    json_open(out, NULL, '{');
    json_string_field(out, "does", l->operation);
    json_string_field(out, "each", l->spatial_extents);
    json_string_field(out, "over", l->reduction_extents);
    put_location(out, &l->place);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_values(Buffer *out, const PlanKernel *k) {
  static const char *const storage_names[] = {[VALUE_INLINED] = "fused",
                                              [VALUE_LOCAL] = "scratch",
                                              [VALUE_VIEW] = "moved",
                                              [VALUE_MATERIALIZED] = "stored"};
  json_open(out, "values", '[');
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    json_open(out, NULL, '{');
    json_string_field(out, "fate", storage_names[v->storage]);
    json_string_field(out, "type", v->type);
    put_number(out, "bytes", v->bytes);
    json_string_field(out, "why", v->reason);
    put_flag(out, "saved", v->is_saved);
    put_location(out, &v->place);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_fusion_blockers(Buffer *out, const PlanKernel *k,
                                uint32_t first) {
  json_open(out, "apart", '[');
  for (uint32_t j = 0; j < k->fusion_blockers.len; j++) {
    json_open(out, NULL, '{');
    json_int_field(out, "from", first + k->fusion_blockers.at[j].kernel);
    json_string_field(out, "why", k->fusion_blockers.at[j].reason);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_cost(Buffer *out, const PlanKernel *k) {
  const Cost *c = &k->cost;
  if (c->parallel_iterations == 0)
    return;
  put_number(out, "bytes_read", c->bytes_read);
  put_number(out, "bytes_written", c->bytes_written);
  put_number(out, "bytes_scratch", c->scratch_bytes);
  put_number(out, "operations", c->contraction_flops + c->other_ops);
  put_number(out, "operations_of_products", c->contraction_flops);
}

static void put_code(Buffer *out, const char *code) {
  Buffer text = {0};
  if (!code)
    return;
  code_indent(code, &text);
  json_string_field(out, "code", text.text);
  buffer_free(&text);
}

static void put_numbers(Buffer *out, const char *name, uint32_t count,
                        const double *numbers) {
  json_open(out, name, '[');
  for (uint32_t j = 0; j < count; j++)
    buffer_printf(out, "%s%.17g", j ? "," : "", numbers[j]);
  buffer_putc(out, ']');
}

static void put_counts(Buffer *out, const CostCounts *c) {
  json_open(out, "model_counts", '{');
  json_int_field(out, "type", c->type);
  json_open(out, "bodies", '[');
  for (uint32_t j = 0; j < c->body_count; j++) {
    const CostBody *b = &c->bodies[j];
    const double of[] = {b->iterations, b->vectors, b->loads, b->elements,
                         b->stores,     b->others,  b->serial};
    put_numbers(out, NULL, ARRAY_LEN(of), of);
  }
  buffer_putc(out, ']');
  put_numbers(out, "bytes", CORE_BOUNDARIES, c->bytes);
  put_numbers(out, "copied_bytes", CORE_BOUNDARIES, c->copied_bytes);
  put_number(out, "packed", c->packed_vectors);
  put_number(out, "calls", c->calls);
  put_number(out, "pages", c->pages);
  put_number(out, "tasks", c->tasks);
  buffer_putc(out, '}');
}

/* Terms of the cost model, in cycles. */
static void put_terms(Buffer *out, const PlanKernel *k) {
  const CostTerms *t = &k->info.terms;
  put_number(out, "model_seconds", t->total / machine_core_rates()->clock_hz);
  json_open(out, "model", '{');
  for (int j = 0; j < COST_TERM_COUNT; j++)
    put_number(out, cost_term_keys[j], t->cycles[j]);
  buffer_putc(out, '}');
  put_counts(out, &k->info.counts);
}

/* What the schedules of loop nests were chosen from. */
static void put_candidates(Buffer *out, const KernelInfo *a) {
  json_open(out, "candidates", '[');
  for (uint32_t j = 0; j < a->candidate_count; j++) {
    const ScheduleCandidate *c = &a->candidates[j];
    json_open(out, NULL, '{');
    json_int_field(out, "nest", c->loop + 1);
    json_string_field(out, "schedule", c->schedule);
    put_number(out, "cycles", c->cycles);
    put_flag(out, "chosen", c->is_chosen);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_execution(Buffer *out, const PlanKernel *k) {
  const KernelInfo *a = &k->info;
  if (!k->fallback_reason && !k->is_library_op && !k->is_alias) {
    json_int_field(out, "lanes", a->vector_lanes);
    json_int_field(out, "pieces", a->tasks);
    json_string_field(out, "piece", a->task_shape);
    json_string_field(out, "tiles", a->tiling);
    json_string_field(out, "fixed", a->specialized_for);
    json_int_field(out, "accesses_apart", a->strided_accesses);
    json_int_field(out, "accesses_by_index", a->indirect_accesses);
    json_int_field(out, "scratch", (int64_t)a->scratch_bytes);
    json_string_field(out, "uses", a->compiler_report);
    put_flag(out, "compiled", a->compiled);
    put_number(out, "compile_seconds", a->compile_seconds);
  }
  if (k->tries) {
    put_number(out, "seconds", k->best_seconds);
    put_number(out, "total_seconds", k->total_seconds);
  }
  if (k->predicted.seconds > 0 && !k->fallback_reason) {
    put_number(out, "predicted_seconds", k->predicted.seconds);
    put_number(out, "limit_seconds", k->predicted.bound_seconds);
    json_string_field(out, "limit", plan_bound_name(k->predicted.bound));
  }
  if (k->info.has_terms && !k->fallback_reason)
    put_terms(out, k);
  if (k->info.candidate_count && !k->fallback_reason)
    put_candidates(out, &k->info);
}

static void put_kernel(Buffer *out, const PlanKernel *k, uint32_t number,
                       uint32_t first, const PlanStyle *s) {
  json_open(out, NULL, '{');
  json_int_field(out, "number", number);
  put_location(out, &k->place);
  json_string_field(out, "each", k->parallel_extents);
  put_flag(out, "shared", k->is_alias);
  put_flag(out, "routine", k->is_library_op);
  json_string_field(out, "interpreted", k->fallback_reason);
  put_loops(out, k);
  put_values(out, k);
  put_fusion_blockers(out, k, first);
  put_cost(out, k);
  if (!s->stable)
    put_execution(out, k);
  if (s->with_code)
    put_code(out, k->info.source);
  if (s->with_schedule)
    json_string_field(out, "schedule", k->info.schedule);
  buffer_putc(out, '}');
}

static void put_run(Buffer *out, const PlanRun *run, uint32_t first,
                    const PlanStyle *s) {
  json_open(out, NULL, '{');
  json_int_field(out, "times", run->count);
  put_flag(out, "needed", !run->unused_by_program);
  put_number(out, "bytes_held", run->bytes_before);
  put_number(out, "bytes_peak", run->peak_bytes);
  json_open(out, "kernels", '[');
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (!s->only_kernel || s->only_kernel == first + k)
      put_kernel(out, &run->kernels.at[k], first + k, first, s);
  buffer_puts(out, "]}");
}

/* What stays in memory for a reverse pass, by source line. */
static void put_saved(Buffer *out, const SavedCall *call) {
  json_open(out, "saved", '[');
  for (uint32_t k = 0; call && k < call->lines.len; k++) {
    const SavedLine *line = &call->lines.at[k];
    json_open(out, NULL, '{');
    json_int_field(out, "values", line->count);
    put_number(out, "bytes", line->bytes);
    json_string_field(out, "file", line->place.file);
    if (line->place.file)
      json_int_field(out, "line", line->place.line);
    json_string_field(out, "text", line->place.line_text);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

/* The rates of the cost model that were not measured. */
static void put_typical_rates(Buffer *out) {
  json_open(out, "typical_rates", '[');
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (!core_rate_is_measured(machine_core_rates(), k)) {
      json_comma(out);
      json_quote(out, core_rate_info[k].key);
    }
  buffer_putc(out, ']');
}

static void put_totals(Buffer *out, const PlanRecorder *recorder,
                       const PlanStyle *s) {
  PlanTotals t = plan_totals(recorder);
  const SavedCall *saved = plan_largest_call(recorder);
  json_open(out, "total", '{');
  json_int_field(out, "runs", t.runs);
  put_number(out, "bytes_peak", t.peak_bytes);
  put_number(out, "bytes_saved", saved ? saved->bytes : 0);
  put_saved(out, saved);
  if (!s->stable) {
    put_number(out, "kernel_seconds", t.kernel_seconds);
    put_number(out, "reference_seconds", t.fallback_seconds);
    put_number(out, "compile_seconds", t.compile_seconds);
    json_int_field(out, "compiled", t.compiled);
    json_int_field(out, "found", t.cache_hits);
    put_flag(out, "limits_measured", machine_peak_rates()->measured);
    put_typical_rates(out);
  }
  buffer_putc(out, '}');
}

void plan_json(Buffer *out, const PlanRecorder *recorder, const PlanStyle *s) {
  uint32_t first = 1;
  json_open(out, NULL, '{');
  json_string_field(out, "version", AXON_VERSION);
  put_flag(out, "dry", s->dry_run);
  json_string_field(out, "planned_for", s->arch);
  json_open(out, "runs", '[');
  for (uint32_t j = 0; j < recorder->runs.len; j++) {
    put_run(out, recorder->runs.at[j], first, s);
    first += recorder->runs.at[j]->kernels.len;
  }
  buffer_putc(out, ']');
  put_totals(out, recorder, s);
  buffer_puts(out, "}\n");
}
