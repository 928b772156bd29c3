/* Prints the recorded plans as text of at most 100 columns. */
#include "plan_report/plan_report.h"
#include "machine/limits/cpu.h"
#include "machine/machine.h"
#include "plan/schedule_file.h"
#include "support/buffer.h"
#include "support/code_indent.h"
#include "support/utf8.h"

#include <math.h>
#include <string.h>

enum {
  MIN_SHOWN_PERCENT = 5, /* of a term of the cost model */
  MAX_COLUMNS = 100,
  LABEL_COLUMNS = 9,
  INDENT_COLUMNS = 5,
  MAX_SHOWN_VALUES = 4,
  MAX_TITLE_COLUMNS = 64
};

/* ---- numbers ---- */

/* Three digits and a metric prefix: "16.8 M". */
static const char *format_scaled(char out[24], double x) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P"};
  size_t k = 0;
  while (x >= 999.5 && k + 1 < ARRAY_LEN(units))
    x /= 1000, k++;
  int digits = (k == 0 && x == floor(x)) || x >= 99.95 ? 0 : x < 9.995 ? 2 : 1;
  snprintf(out, 24, "%.*f %s", digits, x, units[k]);
  return out;
}

static void put_bytes(Buffer *out, double bytes) {
  char text[24];
  buffer_printf(out, "%s%s", format_scaled(text, bytes),
                bytes < 999.5 ? "bytes" : "B");
}

static void put_count(Buffer *out, double x, const char *what) {
  char text[24];
  format_scaled(text, x);
  if (text[strlen(text) - 1] == ' ')
    text[strlen(text) - 1] = 0;
  buffer_printf(out, "%s %s", text, what);
}

static void put_seconds(Buffer *out, double seconds) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
  size_t k = 0;
  while (k + 1 < ARRAY_LEN(units) && seconds < units[k].unit * 0.9995)
    k++;
  double x = seconds / units[k].unit;
  buffer_printf(out, "%.*f %s",
                x < 9.995   ? 2
                : x < 99.95 ? 1
                            : 0,
                x, units[k].name);
}

/* ---- lines ---- */

static const char *ansi_style(const PlanStyle *s, const char *code) {
  return s->colour ? code : "";
}
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

/* A label, followed by text that is wrapped between words. */
static void put_line(Buffer *out, const PlanStyle *s, const char *label,
                     const char *text) {
  int column = INDENT_COLUMNS + LABEL_COLUMNS;
  buffer_printf(out, "%*s%s%-*s%s", INDENT_COLUMNS, "", ansi_style(s, DIM),
                LABEL_COLUMNS, label, ansi_style(s, PLAIN));
  for (const char *word = text; *word;) {
    size_t len = strcspn(word, " "), blanks = strspn(word + len, " ");
    int width = (int)utf8_columns(word, len);
    if (word > text && column + 1 + width > MAX_COLUMNS) {
      buffer_printf(out, "\n%*s", INDENT_COLUMNS + LABEL_COLUMNS, "");
      column = INDENT_COLUMNS + LABEL_COLUMNS;
    } else if (word > text) {
      buffer_putc(out, ' ');
      column++;
    }
    buffer_add(out, word, len);
    column += width;
    word += len + blanks;
  }
  buffer_putc(out, '\n');
}

/* Prints text, truncated to a number of columns. */
static void put_truncated(Buffer *out, const char *text, int columns) {
  size_t len = strlen(text);
  if ((int)utf8_columns(text, len) <= columns) {
    buffer_puts(out, text);
    return;
  }
  while (len && ((text[len] & 0xc0) == 0x80 ||
                 (int)utf8_columns(text, len) > columns - 1))
    len--;
  buffer_add(out, text, len);
  buffer_puts(out, "…");
}

static void put_location(Buffer *out, const PlanLocation *p) {
  if (p->file)
    buffer_printf(out, "%s:%u", p->file, p->line);
}

static void put_quoted(Buffer *out, const PlanLocation *p, int columns) {
  buffer_putc(out, '`');
  put_truncated(out, p->text ? p->text : "?", columns);
  buffer_putc(out, '`');
}

/* ---- a kernel ---- */

static void put_title(Buffer *out, const PlanKernel *k, uint32_t number,
                      const PlanStyle *s) {
  Buffer title = {0}, place = {0};
  put_truncated(&title, k->place.text ? k->place.text : "a value",
                MAX_TITLE_COLUMNS);
  put_location(&place, &k->place);
  int used = INDENT_COLUMNS + (int)utf8_columns(title.text, title.len);
  int behind = place.text ? (int)utf8_columns(place.text, place.len) : 0;
  int gap = MAX_COLUMNS - used - behind;
  buffer_printf(out, "%s%3u  %s%s", ansi_style(s, BOLD), number, title.text,
                ansi_style(s, PLAIN));
  if (place.text)
    buffer_printf(out, "%*s%s%s%s", gap > 2 ? gap : 2, "", ansi_style(s, DIM),
                  place.text, ansi_style(s, PLAIN));
  buffer_putc(out, '\n');
  buffer_free(&title);
  buffer_free(&place);
}

static int put_operation(Buffer *out, const PlanLoop *l) {
  size_t before = out->len;
  buffer_puts(out, l->operation);
  if (*l->reduction_extents)
    buffer_printf(out, " over %s", l->reduction_extents);
  if (*l->spatial_extents)
    buffer_printf(out, " for each of %s", l->spatial_extents);
  return (int)utf8_columns(out->text + before, out->len - before);
}

static int operation_width(const PlanKernel *k) {
  int width = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    Buffer text = {0};
    int w = put_operation(&text, &k->loops.at[j]);
    width = w > width && !k->loops.at[j].keeps_states ? w : width;
    buffer_free(&text);
  }
  return width;
}

/* Source locations are in a column of their own if there is space. */
static void put_loop(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                     const PlanLoop *l, bool is_first, int width) {
  Buffer text = {0};
  int used = put_operation(&text, l);
  int available = MAX_COLUMNS - INDENT_COLUMNS - LABEL_COLUMNS - width - 5;
  if (l->place.text && k->loops.len > 1 && available > 8) {
    buffer_printf(&text, "%*s", width - used + 2, "");
    put_quoted(&text, &l->place, available);
  }
  /* its columns are aligned, so put_line is not used */
  buffer_printf(out, "%*s%s%-*s%s%s\n", INDENT_COLUMNS, "", ansi_style(s, DIM),
                LABEL_COLUMNS, is_first ? "loops" : "", ansi_style(s, PLAIN),
                text.text);
  buffer_free(&text);
}

static void put_parallel_extents(Buffer *out, const PlanStyle *s,
                                 const PlanKernel *k) {
  Buffer text = {0};
  buffer_puts(&text, k->parallel_extents);
  const char *shape = k->info.task_shape;
  if (!s->stable && shape && !k->fallback_reason &&
      (k->info.tasks > 1 || strncmp(shape, "tile for", 8) == 0))
    buffer_printf(&text, "%sin %lld task%s of %s%s", text.len ? ", " : "",
                  (long long)k->info.tasks, k->info.tasks == 1 ? "" : "s",
                  strncmp(shape, "tile ", 5) == 0 ? "a " : "", shape);
  if (text.len)
    put_line(out, s, *k->parallel_extents ? "for each" : "all", text.text);
  buffer_free(&text);
}

static bool is_duplicate_value(const PlanKernel *k, uint32_t at) {
  const PlanValue *v = &k->values.at[at];
  for (uint32_t j = 0; j < at; j++) {
    const PlanValue *w = &k->values.at[j];
    if (w->storage == v->storage && w->place.text && v->place.text &&
        w->place.line == v->place.line && !strcmp(w->place.text, v->place.text))
      return true;
  }
  return false;
}

/* Prints values of one storage kind on a line: number, sizes, and some
   names. */
static void put_values_of(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                          ValueStorage storage, const char *label,
                          const char *description) {
  Buffer text = {0}, names = {0};
  uint32_t count = 0, shown = 0;
  double bytes = 0;
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    if (v->storage != storage)
      continue;
    count++;
    bytes += v->bytes;
    if (!v->place.text || is_duplicate_value(k, j) ||
        shown++ >= MAX_SHOWN_VALUES)
      continue;
    buffer_puts(&names, shown > 1 ? ", " : ": ");
    put_quoted(&names, &v->place, 40);
  }
  if (count) {
    buffer_printf(&text, "%u value%s", count, count == 1 ? "" : "s");
    if (storage != VALUE_VIEW) {
      buffer_puts(&text, ", ");
      put_bytes(&text, bytes);
    }
    buffer_printf(&text, " %s%s%s", description, names.text ? names.text : "",
                  shown > MAX_SHOWN_VALUES ? ", …" : "");
    put_line(out, s, label, text.text);
  }
  buffer_free(&text);
  buffer_free(&names);
}

static void put_materialized(Buffer *out, const PlanStyle *s,
                             const PlanKernel *k) {
  bool first = true;
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    if (v->storage != VALUE_MATERIALIZED)
      continue;
    Buffer text = {0};
    buffer_printf(&text, "%s, ", v->type);
    put_bytes(&text, v->bytes);
    if (v->reason)
      buffer_printf(&text, ": %s", v->reason);
    if (v->is_saved)
      buffer_puts(&text, "; saved for the gradient");
    put_line(out, s, first ? "stored" : "", text.text);
    buffer_free(&text);
    first = false;
  }
}

static void put_fusion_blockers(Buffer *out, const PlanStyle *s,
                                const PlanKernel *k, uint32_t first) {
  for (uint32_t j = 0; j < k->fusion_blockers.len; j++) {
    Buffer text = {0};
    buffer_printf(&text, "with %u: %s", first + k->fusion_blockers.at[j].kernel,
                  k->fusion_blockers.at[j].reason);
    put_line(out, s, j ? "" : "unfused", text.text);
    buffer_free(&text);
  }
}

static void put_work(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  const Cost *c = &k->cost;
  if (c->parallel_iterations == 0)
    return;
  Buffer text = {0};
  buffer_puts(&text, "reads ");
  put_bytes(&text, c->bytes_read);
  buffer_puts(&text, ", writes ");
  put_bytes(&text, c->bytes_written);
  if (!s->stable && k->info.scratch_bytes) {
    buffer_puts(&text, "; scratch of ");
    put_bytes(&text, (double)k->info.scratch_bytes);
    buffer_puts(&text, " for each thread");
  }
  put_line(out, s, "memory", text.text);
  text.len = 0;
  double work = c->contraction_flops + c->other_ops,
         bytes = c->bytes_read + c->bytes_written;
  put_count(&text, work, "operations");
  double each = bytes > 0 ? work / bytes : 0;
  if (each >= 999.5) {
    buffer_puts(&text, ", ");
    put_count(&text, each, "for each byte");
  } else if (each > 0) {
    buffer_printf(&text, ", %.*f for each byte", each < 9.95 ? 1 : 0, each);
  }
  put_line(out, s, "work", text.text);
  buffer_free(&text);
}

static void put_code_summary(Buffer *out, const PlanStyle *s,
                             const PlanKernel *k) {
  const KernelInfo *a = &k->info;
  Buffer text = {0};
  if (k->is_alias) {
    buffer_puts(&text, "none: a view of its input");
  } else if (k->fallback_reason) {
    buffer_printf(&text, "reference backend: %s", k->fallback_reason);
  } else if (k->is_library_op) {
    buffer_puts(&text, "library routine");
    if (!s->stable && a->task_shape)
      buffer_printf(&text, ": %s", a->task_shape);
  } else if (s->stable) {
    buffer_puts(&text, "compiled");
  } else {
    buffer_printf(&text, "%s, %s", a->specialized_for,
                  a->has_constant_sizes ? "constant sizes"
                                        : "sizes are arguments");
    if (a->strided_accesses)
      buffer_printf(&text, "; %u access%s with stride (not contiguous)",
                    a->strided_accesses, a->strided_accesses == 1 ? "" : "es");
    if (a->indirect_accesses)
      buffer_printf(&text, "; %u access%s by gather or scatter",
                    a->indirect_accesses,
                    a->indirect_accesses == 1 ? "" : "es");
    if (a->tiling)
      buffer_printf(&text, "; tiles: %s", a->tiling);
    if (k->reuses_code) {
      buffer_puts(&text, "; same code as an earlier kernel");
    } else if (a->compile_seconds > 0) {
      buffer_puts(&text, "; compiled in ");
      put_seconds(&text, a->compile_seconds);
    } else if (a->compiled) {
      buffer_puts(&text, "; from the cache");
    } else {
      buffer_puts(&text, "; not compiled yet");
    }
  }
  put_line(out, s, "code", text.text);
  if (!s->stable && !k->is_alias && !k->fallback_reason &&
      k->info.compiler_report)
    put_line(out, s, "uses", k->info.compiler_report);
  buffer_free(&text);
}

const char *plan_bound_name(RooflineBound bound) {
  static const char *const names[] = {
      [ROOFLINE_L1] = "L1 cache",        [ROOFLINE_L2] = "L2 cache",
      [ROOFLINE_L3] = "L3 cache",        [ROOFLINE_MEMORY] = "memory",
      [ROOFLINE_COMPUTE] = "arithmetic", [ROOFLINE_SCRATCH] = "scratch memory"};
  return names[bound];
}

static void put_time(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  bool predicted = k->predicted.seconds > 0 && !k->fallback_reason;
  if (s->stable || (!k->tries && !predicted))
    return;
  Buffer text = {0};
  if (k->tries)
    put_seconds(&text, k->best_seconds);
  if (predicted) {
    buffer_puts(&text, k->tries ? "; predicted " : "predicted ");
    put_seconds(&text, k->predicted.seconds);
    buffer_printf(&text, ", limited by %s",
                  plan_bound_name(k->predicted.bound));
  }
  if (predicted && k->tries && k->best_seconds > 0)
    buffer_printf(&text, "; %.0f %% of this limit",
                  100 * k->predicted.bound_seconds / k->best_seconds);
  put_line(out, s, "time", text.text);
  buffer_free(&text);
}

/* The largest terms of the cost model, down to MIN_SHOWN_PERCENT. */
static void put_terms(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  const CostTerms *t = &k->info.terms;
  if (s->stable || !k->info.has_terms || k->fallback_reason || t->total <= 0)
    return;
  Buffer text = {0};
  bool shown[COST_TERM_COUNT] = {false};
  put_seconds(&text, t->total / machine_core_rates()->clock_hz);
  for (int n = 0; n < COST_TERM_COUNT; n++) {
    int max = -1;
    for (int j = 0; j < COST_TERM_COUNT; j++)
      if (!shown[j] && (max < 0 || t->cycles[j] > t->cycles[max]))
        max = j;
    double percent = 100 * t->cycles[max] / t->total;
    if (percent < MIN_SHOWN_PERCENT)
      break;
    shown[max] = true;
    buffer_printf(&text, "%s%s %.0f %%", n ? ", " : ": ", cost_term_names[max],
                  percent);
  }
  put_line(out, s, "model", text.text);
  buffer_free(&text);
}

/* Candidates of one loop nest, and the time of the best one that was not
 * chosen. */
static void put_candidates_of(Buffer *out, const PlanStyle *s,
                              const ScheduleCandidate *at, uint32_t count) {
  double chosen = 0, next = HUGE_VAL;
  for (uint32_t j = 0; j < count; j++)
    if (at[j].is_chosen)
      chosen = at[j].cycles;
    else
      next = fmin(next, at[j].cycles);
  if (chosen <= 0 || isinf(next))
    return;
  Buffer text = {0};
  buffer_printf(&text,
                "%u schedules of loop nest %u; by the model, the next one "
                "takes %.0f %% of the time",
                count, at->loop + 1, 100 * next / chosen);
  if (next < chosen) /* the first one is chosen */
    buffer_printf(&text,
                  ", and only one that takes less than %.0f %% of it "
                  "replaces the first one",
                  100 * (1 - LEAST_NEST_GAIN));
  put_line(out, s, "compared", text.text);
  buffer_free(&text);
}

static void put_candidates(Buffer *out, const PlanStyle *s,
                           const PlanKernel *k) {
  const ScheduleCandidate *all = k->info.candidates;
  uint32_t count =
      s->stable || k->fallback_reason ? 0 : k->info.candidate_count;
  for (uint32_t j = 0, end; j < count; j = end) {
    for (end = j; end < count && all[end].loop == all[j].loop;)
      end++;
    put_candidates_of(out, s, all + j, end - j);
  }
}

static void put_kernel(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                       uint32_t number, uint32_t first) {
  put_title(out, k, number, s);
  if (!k->is_alias) {
    put_parallel_extents(out, s, k);
    int width = operation_width(k);
    bool is_first = true;
    for (uint32_t j = 0; j < k->loops.len; j++) {
      if (k->loops.at[j].keeps_states)
        continue;
      put_loop(out, s, k, &k->loops.at[j], is_first, width);
      is_first = false;
    }
    put_values_of(out, s, k, VALUE_INLINED, "fused", "never written to memory");
    put_values_of(out, s, k, VALUE_LOCAL, "local",
                  "held in registers or cache");
    put_values_of(out, s, k, VALUE_VIEW, "views", "without data movement");
    put_materialized(out, s, k);
    put_fusion_blockers(out, s, k, first);
    put_work(out, s, k);
  }
  put_code_summary(out, s, k);
  put_time(out, s, k);
  put_terms(out, s, k);
  put_candidates(out, s, k);
  if (s->with_code && k->info.source) {
    buffer_printf(out, "\n/* kernel %u: ", number);
    put_location(out, &k->place);
    buffer_puts(out, " */\n");
    code_indent(k->info.source, out);
  }
}

/* ---- a run ---- */

void plan_text_run(Buffer *out, const PlanRun *run, uint32_t number,
                   uint32_t first, const PlanStyle *s) {
  if (!s->only_kernel) {
    buffer_printf(out, "%srun %u%s: %u kernel%s", ansi_style(s, BOLD), number,
                  ansi_style(s, PLAIN), run->kernels.len,
                  run->kernels.len == 1 ? "" : "s");
    if (run->count > 1)
      buffer_printf(out, ", %u times", run->count);
    buffer_puts(out, "; memory: ");
    put_bytes(out, run->bytes_before);
    buffer_puts(out, " before, peak ");
    put_bytes(out, run->peak_bytes);
    buffer_puts(out, "\n");
    if (run->unused_by_program)
      put_line(out, s, "", "unused by the program; evaluated for this plan");
  }
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (!s->only_kernel || s->only_kernel == first + k) {
      if (!s->only_kernel)
        buffer_putc(out, '\n');
      put_kernel(out, s, &run->kernels.at[k], first + k, first);
    }
}

PlanTotals plan_totals(const PlanRecorder *recorder) {
  PlanTotals t = {0};
  for (uint32_t j = 0; j < recorder->runs.len; j++) {
    const PlanRun *run = recorder->runs.at[j];
    t.runs += run->count;
    t.peak_bytes =
        run->peak_bytes > t.peak_bytes ? run->peak_bytes : t.peak_bytes;
    for (uint32_t i = 0; i < run->kernels.len; i++) {
      const PlanKernel *k = &run->kernels.at[i];
      *(k->fallback_reason ? &t.fallback_seconds : &t.kernel_seconds) +=
          k->total_seconds;
      if (k->is_alias || k->fallback_reason || k->is_library_op ||
          !k->info.compiled)
        continue;
      if (k->reuses_code)
        continue;
      bool here = k->info.compile_seconds > 0;
      t.compile_seconds += here ? k->info.compile_seconds : 0;
      *(here ? &t.compiled : &t.cache_hits) += 1;
    }
  }
  return t;
}

/* The values that stay in memory for a reverse pass, by source line. */
static void put_saved(Buffer *out, const SavedCall *call, bool has_others,
                      const PlanStyle *s) {
  enum { MAX_SAVED_LINES = 20 };
  Buffer text = {0};
  put_bytes(&text, call->bytes);
  buffer_printf(&text,
                " for the gradient%s:", has_others ? " that saves most" : "");
  put_line(out, s, "saved", text.text);
  for (uint32_t k = 0; k < call->lines.len && k < MAX_SAVED_LINES; k++) {
    const SavedLine *line = &call->lines.at[k];
    text.len = 0;
    put_bytes(&text, line->bytes);
    buffer_printf(&text, ", %u value%s: ", line->count,
                  line->count == 1 ? "" : "s");
    put_location(&text, &line->place);
    if (line->place.line_text)
      buffer_printf(&text, " `%s`", line->place.line_text);
    put_line(out, s, "", text.text);
  }
  text.len = 0;
  if (call->lines.len > MAX_SAVED_LINES) {
    buffer_printf(&text, "… and %u other lines",
                  call->lines.len - MAX_SAVED_LINES);
    put_line(out, s, "", text.text);
  }
  buffer_free(&text);
}

/* The rates of the cost model that are typical values. */
static void put_typical_rates(Buffer *out, const PlanStyle *s) {
  const CoreRates *r = machine_core_rates();
  Buffer text = {0};
  if (!r->measured) {
    put_line(out, s, "rates",
             "of the model are typical; run `axon doctor --measure` to measure "
             "them");
    return;
  }
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (!core_rate_is_measured(r, k))
      buffer_printf(&text, "%s%s",
                    text.len ? "; "
                             : "of the model that are "
                               "typical: ",
                    core_rate_info[k].text);
  if (text.len)
    put_line(out, s, "rates", text.text);
  buffer_free(&text);
}

static void put_totals(Buffer *out, const PlanRecorder *recorder,
                       const PlanStyle *s) {
  PlanTotals t = plan_totals(recorder);
  const SavedCall *saved = plan_largest_call(recorder);
  Buffer text = {0};
  buffer_printf(out, "%stotal%s: %u run%s; peak ", ansi_style(s, BOLD),
                ansi_style(s, PLAIN), t.runs, t.runs == 1 ? "" : "s");
  put_bytes(out, t.peak_bytes);
  buffer_puts(out, "\n");
  if (saved)
    put_saved(out, saved, recorder->calls.len > 1, s);
  if (s->stable)
    return;
  if (t.kernel_seconds > 0) {
    put_seconds(&text, t.kernel_seconds);
    buffer_printf(&text, " in kernels%s", t.fallback_seconds > 0 ? ", " : "");
  }
  if (t.fallback_seconds > 0) {
    put_seconds(&text, t.fallback_seconds);
    buffer_puts(&text, " in the reference backend");
  }
  if (text.len)
    put_line(out, s, "time", text.text);
  text.len = 0;
  buffer_printf(&text, "%u compiled", t.compiled);
  if (t.compile_seconds > 0) {
    buffer_puts(&text, ", in ");
    put_seconds(&text, t.compile_seconds);
  }
  buffer_printf(&text, "; %u from the cache", t.cache_hits);
  put_line(out, s, "kernels", text.text);
  if (s->arch) {
    text.len = 0;
    buffer_printf(&text, "of a typical %s GPU", s->arch);
    put_line(out, s, "limits", text.text);
  } else {
    if (!machine_peak_rates()->measured)
      put_line(out, s, "limits",
               "are estimates; run `axon doctor` to measure them");
    put_typical_rates(out, s);
  }
  buffer_free(&text);
}

void plan_text(Buffer *out, const PlanRecorder *recorder, const PlanStyle *s) {
  uint32_t first = 1;
  if (!recorder->runs.len) {
    buffer_puts(out, "the program computes no tensors\n");
    return;
  }
  if (s->arch && !s->only_kernel)
    buffer_printf(out, "Planned for %s.  ", s->arch);
  if (s->dry_run && !s->only_kernel)
    buffer_puts(out, "Dry run: every computed value is zero.  Data-dependent "
                     "control flow may differ\nfrom a real run.\n\n");
  for (uint32_t j = 0; j < recorder->runs.len; j++) {
    const PlanRun *run = recorder->runs.at[j];
    plan_text_run(out, run, j + 1, first, s);
    if (!s->only_kernel)
      buffer_putc(out, '\n');
    first += run->kernels.len;
  }
  if (!s->only_kernel)
    put_totals(out, recorder, s);
}

/* ---- schedules ---- */

/* A kernel that runs again has one entry. */
static bool is_listed(const Buffer *out, const char *schedule) {
  return out->text && strstr(out->text, schedule);
}

/* Returns true if another kernel with this number has another schedule.  A file
 * has one for both; those that the program declares win over it. */
static bool is_ambiguous(const PlanRecorder *recorder, const PlanKernel *k) {
  const char *text = k->info.schedule;
  size_t head = strcspn(text, "\n") + 1;
  for (uint32_t j = 0; j < recorder->runs.len; j++)
    for (uint32_t i = 0; i < recorder->runs.at[j]->kernels.len; i++) {
      const char *other = recorder->runs.at[j]->kernels.at[i].info.schedule;
      if (other && !strncmp(text, other, head) && strcmp(text, other) != 0)
        return true;
    }
  return false;
}

void plan_schedules(Buffer *out, const PlanRecorder *recorder,
                    const PlanStyle *style) {
  uint32_t number = 0;
  for (uint32_t j = 0; j < recorder->runs.len; j++)
    for (uint32_t i = 0; i < recorder->runs.at[j]->kernels.len; i++) {
      const PlanKernel *k = &recorder->runs.at[j]->kernels.at[i];
      const char *text = style->with_stage ? k->stage_text : k->info.schedule;
      number++;
      if (!text || is_listed(out, text) ||
          (style->only_kernel && style->only_kernel != number))
        continue;
      buffer_printf(out, "%s(* %u: ", out->len ? "\n" : "", number);
      schedule_put_comment(out, k->place.text ? k->place.text : "");
      buffer_puts(out, k->place.file ? ", " : "");
      put_location(out, &k->place);
      bool in_comment = !style->with_stage && k->info.is_declared &&
                        is_ambiguous(recorder, k);
      buffer_printf(out,
                    in_comment ? "; the program declares:\n%s*)\n" : " *)\n%s",
                    text);
    }
  if (!out->len)
    buffer_puts(out, "(* no kernel of the program was compiled for the CPU: "
                     "small ones are interpreted *)\n");
}
