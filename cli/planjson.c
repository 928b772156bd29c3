/* What was planned and run, as one object. */
#include "cli/plan.h"

static void put_number(Buffer *out, const char *name, double x) {
  json_key(out, name);
  buffer_printf(out, "%.9g", x);
}

static void put_flag(Buffer *out, const char *name, bool is) {
  json_key(out, name);
  buffer_puts(out, is ? "true" : "false");
}

static void put_place(Buffer *out, const PlanPlace *p) {
  json_field(out, "text", p->text);
  json_field(out, "file", p->file);
  if (p->file)
    json_number(out, "line", p->line);
}

static void put_loops(Buffer *out, const PlanKernel *k) {
  json_open(out, "loops", '[');
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const PlanLoop *l = &k->loops.at[j];
    json_open(out, NULL, '{');
    json_field(out, "does", l->does);
    json_field(out, "each", l->inner);
    json_field(out, "over", l->reduced);
    put_place(out, &l->place);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_values(Buffer *out, const PlanKernel *k) {
  static const char *const fates[] = {[VALUE_FUSED] = "fused",
                                      [VALUE_LOCAL] = "scratch",
                                      [VALUE_MOVED] = "moved",
                                      [VALUE_STORED] = "stored"};
  json_open(out, "values", '[');
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    json_open(out, NULL, '{');
    json_field(out, "fate", fates[v->fate]);
    json_field(out, "type", v->type);
    put_number(out, "bytes", v->bytes);
    json_field(out, "why", v->why);
    put_place(out, &v->place);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_apart(Buffer *out, const PlanKernel *k, uint32_t first) {
  json_open(out, "apart", '[');
  for (uint32_t j = 0; j < k->apart.len; j++) {
    json_open(out, NULL, '{');
    json_number(out, "from", first + k->apart.at[j].from);
    json_field(out, "why", k->apart.at[j].why);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
}

static void put_cost(Buffer *out, const PlanKernel *k) {
  const Cost *c = &k->cost;
  if (c->points == 0)
    return;
  put_number(out, "bytes_read", c->read);
  put_number(out, "bytes_written", c->written);
  put_number(out, "bytes_scratch", c->scratch);
  put_number(out, "operations", c->products + c->others);
  put_number(out, "operations_of_products", c->products);
}

static void put_code(Buffer *out, const char *code) {
  Buffer text = {0};
  if (!code)
    return;
  code_indent(code, &text);
  json_field(out, "code", text.text);
  buffer_free(&text);
}

static void put_machine(Buffer *out, const PlanKernel *k) {
  const KernelAbout *a = &k->about;
  if (!k->interpreted && !k->routine && !k->shared) {
    json_number(out, "lanes", a->lanes);
    json_number(out, "pieces", a->units);
    json_field(out, "piece", a->shape);
    json_field(out, "tiles", a->tiles);
    json_field(out, "fixed", a->fixed);
    json_number(out, "accesses_apart", a->apart);
    json_number(out, "accesses_by_index", a->by_index);
    json_number(out, "scratch", (int64_t)a->scratch);
    json_field(out, "uses", a->report);
    put_flag(out, "compiled", a->compiled);
    put_number(out, "compile_seconds", a->compile_seconds);
  }
  if (k->tries) {
    put_number(out, "seconds", k->best);
    put_number(out, "total_seconds", k->total);
  }
  if (k->predicted.seconds > 0 && !k->interpreted) {
    put_number(out, "predicted_seconds", k->predicted.seconds);
    put_number(out, "limit_seconds", k->predicted.limit);
    json_field(out, "limit", plan_bound(k->predicted.bound));
  }
}

static void put_kernel(Buffer *out, const PlanKernel *k, uint32_t number,
                       uint32_t first, const PlanStyle *s) {
  json_open(out, NULL, '{');
  json_number(out, "number", number);
  put_place(out, &k->place);
  json_field(out, "each", k->outer);
  put_flag(out, "shared", k->shared);
  put_flag(out, "routine", k->routine);
  json_field(out, "interpreted", k->interpreted);
  put_loops(out, k);
  put_values(out, k);
  put_apart(out, k, first);
  put_cost(out, k);
  if (!s->stable)
    put_machine(out, k);
  if (s->code)
    put_code(out, k->about.code);
  buffer_putc(out, '}');
}

static void put_run(Buffer *out, const PlanRun *run, uint32_t first,
                    const PlanStyle *s) {
  json_open(out, NULL, '{');
  json_number(out, "times", run->count);
  put_flag(out, "needed", !run->extra);
  put_number(out, "bytes_held", run->held);
  put_number(out, "bytes_peak", run->peak);
  json_open(out, "kernels", '[');
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (!s->kernel || s->kernel == first + k)
      put_kernel(out, &run->kernels.at[k], first + k, first, s);
  buffer_puts(out, "]}");
}

static void put_totals(Buffer *out, const PlanLog *log, const PlanStyle *s) {
  PlanTotals t = plan_totals(log);
  json_open(out, "total", '{');
  json_number(out, "runs", t.runs);
  put_number(out, "bytes_peak", t.peak);
  if (!s->stable) {
    put_number(out, "kernel_seconds", t.kernels);
    put_number(out, "reference_seconds", t.interpreted);
    put_number(out, "compile_seconds", t.compiling);
    json_number(out, "compiled", t.compiled);
    json_number(out, "found", t.found);
    put_flag(out, "limits_measured", machine_limits()->measured);
  }
  buffer_putc(out, '}');
}

void plan_json(Buffer *out, const PlanLog *log, const PlanStyle *s) {
  uint32_t first = 1;
  json_open(out, NULL, '{');
  json_field(out, "version", AXON_VERSION);
  put_flag(out, "dry", s->dry);
  json_field(out, "planned_for", s->arch);
  json_open(out, "runs", '[');
  for (uint32_t j = 0; j < log->runs.len; j++) {
    put_run(out, log->runs.at[j], first, s);
    first += log->runs.at[j]->kernels.len;
  }
  buffer_putc(out, ']');
  put_totals(out, log, s);
  buffer_puts(out, "}\n");
}
