/* What was planned and run, for people: at most 100 columns. */
#include "cli/plan.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 100, LABEL = 9, INDENT = 5, SHOWN = 4, TITLE = 64 };

/* ---- numbers ---- */

/* Three digits and a unit of a thousand's power: "16.8 M". */
static const char *scaled(char out[24], double x) {
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
  buffer_printf(out, "%s%s", scaled(text, bytes),
                bytes < 999.5 ? "bytes" : "B");
}

static void put_count(Buffer *out, double x, const char *what) {
  char text[24];
  scaled(text, x);
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

static const char *paint(const PlanStyle *s, const char *code) {
  return s->colour ? code : "";
}
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

/* A label, and a text behind it that is broken between words. */
static void put_line(Buffer *out, const PlanStyle *s, const char *label,
                     const char *text) {
  int column = INDENT + LABEL;
  buffer_printf(out, "%*s%s%-*s%s", INDENT, "", paint(s, DIM), LABEL, label,
                paint(s, PLAIN));
  for (const char *word = text; *word;) {
    size_t len = strcspn(word, " "), blanks = strspn(word + len, " ");
    int width = (int)utf8_width(word, len);
    if (word > text && column + 1 + width > COLUMNS) {
      buffer_printf(out, "\n%*s", INDENT + LABEL, "");
      column = INDENT + LABEL;
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

/* Text that begins no later than `column`, or is cut. */
static void put_cut(Buffer *out, const char *text, int columns) {
  size_t len = strlen(text);
  if ((int)utf8_width(text, len) <= columns) {
    buffer_puts(out, text);
    return;
  }
  while (len && ((text[len] & 0xc0) == 0x80 ||
                 (int)utf8_width(text, len) > columns - 1))
    len--;
  buffer_add(out, text, len);
  buffer_puts(out, "…");
}

static void put_place(Buffer *out, const PlanPlace *p) {
  if (p->file)
    buffer_printf(out, "%s:%u", p->file, p->line);
}

static void put_quoted(Buffer *out, const PlanPlace *p, int columns) {
  buffer_putc(out, '`');
  put_cut(out, p->text ? p->text : "?", columns);
  buffer_putc(out, '`');
}

/* ---- a kernel ---- */

static void put_title(Buffer *out, const PlanKernel *k, uint32_t number,
                      const PlanStyle *s) {
  Buffer title = {0}, place = {0};
  put_cut(&title, k->place.text ? k->place.text : "a value", TITLE);
  put_place(&place, &k->place);
  int used = INDENT + (int)utf8_width(title.text, title.len);
  int behind = place.text ? (int)utf8_width(place.text, place.len) : 0;
  int gap = COLUMNS - used - behind;
  buffer_printf(out, "%s%3u  %s%s", paint(s, BOLD), number, title.text,
                paint(s, PLAIN));
  if (place.text)
    buffer_printf(out, "%*s%s%s%s", gap > 2 ? gap : 2, "", paint(s, DIM),
                  place.text, paint(s, PLAIN));
  buffer_putc(out, '\n');
  buffer_free(&title);
  buffer_free(&place);
}

static int put_does(Buffer *out, const PlanLoop *l) {
  size_t before = out->len;
  buffer_puts(out, l->does);
  if (*l->reduced)
    buffer_printf(out, " over %s", l->reduced);
  if (*l->inner)
    buffer_printf(out, " for each of %s", l->inner);
  return (int)utf8_width(out->text + before, out->len - before);
}

static int does_width(const PlanKernel *k) {
  int width = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    Buffer text = {0};
    int w = put_does(&text, &k->loops.at[j]);
    width = w > width ? w : width;
    buffer_free(&text);
  }
  return width;
}

/* Places stand in a column of their own, where there is room. */
static void put_loop(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                     const PlanLoop *l, int width) {
  Buffer text = {0};
  int used = put_does(&text, l);
  int room = COLUMNS - INDENT - LABEL - width - 5;
  if (l->place.text && k->loops.len > 1 && room > 8) {
    buffer_printf(&text, "%*s", width - used + 2, "");
    put_quoted(&text, &l->place, room);
  }
  /* its blanks line up: not through put_line */
  buffer_printf(out, "%*s%s%-*s%s%s\n", INDENT, "", paint(s, DIM), LABEL,
                l == k->loops.at ? "loops" : "", paint(s, PLAIN), text.text);
  buffer_free(&text);
}

static void put_points(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  Buffer text = {0};
  buffer_puts(&text, k->outer);
  if (!s->stable && k->about.shape && !k->interpreted && k->about.units > 1)
    buffer_printf(&text, "%sin %lld pieces of %s", text.len ? ", " : "",
                  (long long)k->about.units, k->about.shape);
  if (text.len)
    put_line(out, s, *k->outer ? "for each" : "all", text.text);
  buffer_free(&text);
}

static bool is_seen(const PlanKernel *k, uint32_t at) {
  const PlanValue *v = &k->values.at[at];
  for (uint32_t j = 0; j < at; j++) {
    const PlanValue *w = &k->values.at[j];
    if (w->fate == v->fate && w->place.text && v->place.text &&
        w->place.line == v->place.line && !strcmp(w->place.text, v->place.text))
      return true;
  }
  return false;
}

/* Values of one fate in a line: how many, how large, some of them. */
static void put_fate(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                     ValueFate fate, const char *label, const char *said) {
  Buffer text = {0}, names = {0};
  uint32_t count = 0, shown = 0;
  double bytes = 0;
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    if (v->fate != fate)
      continue;
    count++;
    bytes += v->bytes;
    if (!v->place.text || is_seen(k, j) || shown++ >= SHOWN)
      continue;
    buffer_puts(&names, shown > 1 ? ", " : ": ");
    put_quoted(&names, &v->place, 40);
  }
  if (count) {
    buffer_printf(&text, "%u value%s", count, count == 1 ? "" : "s");
    if (fate != VALUE_MOVED) {
      buffer_puts(&text, ", ");
      put_bytes(&text, bytes);
    }
    buffer_printf(&text, " %s%s%s", said, names.text ? names.text : "",
                  shown > SHOWN ? ", …" : "");
    put_line(out, s, label, text.text);
  }
  buffer_free(&text);
  buffer_free(&names);
}

static void put_stored(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  bool first = true;
  for (uint32_t j = 0; j < k->values.len; j++) {
    const PlanValue *v = &k->values.at[j];
    if (v->fate != VALUE_STORED)
      continue;
    Buffer text = {0};
    buffer_printf(&text, "%s, ", v->type);
    put_bytes(&text, v->bytes);
    if (v->why)
      buffer_printf(&text, ": %s", v->why);
    put_line(out, s, first ? "stored" : "", text.text);
    buffer_free(&text);
    first = false;
  }
}

static void put_apart(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                      uint32_t first) {
  for (uint32_t j = 0; j < k->apart.len; j++) {
    Buffer text = {0};
    buffer_printf(&text, "from %u: %s", first + k->apart.at[j].from,
                  k->apart.at[j].why);
    put_line(out, s, j ? "" : "apart", text.text);
    buffer_free(&text);
  }
}

static void put_work(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  const Cost *c = &k->cost;
  if (c->points == 0)
    return;
  Buffer text = {0};
  buffer_puts(&text, "reads ");
  put_bytes(&text, c->read);
  buffer_puts(&text, ", writes ");
  put_bytes(&text, c->written);
  if (!s->stable && k->about.scratch) {
    buffer_puts(&text, "; scratch of ");
    put_bytes(&text, (double)k->about.scratch);
    buffer_puts(&text, " for each thread");
  }
  put_line(out, s, "memory", text.text);
  text.len = 0;
  double work = c->products + c->others, bytes = c->read + c->written;
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

static void put_how(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  const KernelAbout *a = &k->about;
  Buffer text = {0};
  if (k->shared) {
    buffer_puts(&text, "no work: it is the memory of what it reads");
  } else if (k->interpreted) {
    buffer_printf(&text, "reference backend: %s", k->interpreted);
  } else if (k->routine) {
    buffer_puts(&text, "a routine, which is no loop over indices");
    if (!s->stable && a->shape)
      buffer_printf(&text, ": %s", a->shape);
  } else if (s->stable) {
    buffer_puts(&text, "compiled");
  } else {
    buffer_printf(&text, "%s, sizes as arguments", a->fixed);
    if (a->apart)
      buffer_printf(&text, "; %u access%s with lanes apart in memory", a->apart,
                    a->apart == 1 ? "" : "es");
    if (a->by_index)
      buffer_printf(&text, "; %u access%s with lanes where data says",
                    a->by_index, a->by_index == 1 ? "" : "es");
    if (a->tiles)
      buffer_printf(&text, "; tiles: %s", a->tiles);
    if (k->again) {
      buffer_puts(&text, "; that of a kernel before");
    } else if (a->compile_seconds > 0) {
      buffer_puts(&text, "; compiled in ");
      put_seconds(&text, a->compile_seconds);
    } else if (a->compiled) {
      buffer_puts(&text, "; found in the cache");
    } else {
      buffer_puts(&text, "; to be compiled");
    }
  }
  put_line(out, s, "code", text.text);
  if (!s->stable && !k->shared && !k->interpreted && k->about.report)
    put_line(out, s, "uses", k->about.report);
  buffer_free(&text);
}

const char *plan_bound(CostBound bound) {
  static const char *const names[] = {
      [COST_LEVEL_1] = "the first cache", [COST_LEVEL_2] = "the second cache",
      [COST_LEVEL_3] = "the third cache", [COST_MEMORY] = "memory",
      [COST_ARITHMETIC] = "arithmetic",   [COST_SCRATCH] = "scratch memory"};
  return names[bound];
}

static void put_time(Buffer *out, const PlanStyle *s, const PlanKernel *k) {
  bool predicted = k->predicted.seconds > 0 && !k->interpreted;
  if (s->stable || (!k->tries && !predicted))
    return;
  Buffer text = {0};
  if (k->tries)
    put_seconds(&text, k->best);
  if (predicted) {
    buffer_puts(&text, k->tries ? "; predicted " : "predicted ");
    put_seconds(&text, k->predicted.seconds);
    buffer_printf(&text, ", by %s", plan_bound(k->predicted.bound));
  }
  if (predicted && k->tries && k->best > 0)
    buffer_printf(&text, "; %.0f %% of that limit",
                  100 * k->predicted.limit / k->best);
  put_line(out, s, "time", text.text);
  buffer_free(&text);
}

static void put_kernel(Buffer *out, const PlanStyle *s, const PlanKernel *k,
                       uint32_t number, uint32_t first) {
  put_title(out, k, number, s);
  if (!k->shared) {
    put_points(out, s, k);
    int width = does_width(k);
    for (uint32_t j = 0; j < k->loops.len; j++)
      put_loop(out, s, k, &k->loops.at[j], width);
    put_fate(out, s, k, VALUE_FUSED, "fused", "that never reach memory");
    put_fate(out, s, k, VALUE_LOCAL, "kept",
             "that live part by part near to their readers");
    put_fate(out, s, k, VALUE_MOVED, "moved", "at no cost");
    put_stored(out, s, k);
    put_apart(out, s, k, first);
    put_work(out, s, k);
  }
  put_how(out, s, k);
  put_time(out, s, k);
  if (s->code && k->about.code) {
    buffer_printf(out, "\n/* kernel %u: ", number);
    put_place(out, &k->place);
    buffer_puts(out, " */\n");
    code_indent(k->about.code, out);
  }
}

/* ---- a run ---- */

void plan_text_run(Buffer *out, const PlanRun *run, uint32_t number,
                   uint32_t first, const PlanStyle *s) {
  if (!s->kernel) {
    buffer_printf(out, "%srun %u%s: %u part%s", paint(s, BOLD), number,
                  paint(s, PLAIN), run->kernels.len,
                  run->kernels.len == 1 ? "" : "s");
    if (run->count > 1)
      buffer_printf(out, ", %u times", run->count);
    buffer_puts(out, "; memory: ");
    put_bytes(out, run->held);
    buffer_puts(out, " before, ");
    put_bytes(out, run->peak);
    buffer_puts(out, " at most\n");
    if (run->extra)
      put_line(out, s, "",
               "made by the program, and never needed: computed "
               "for this plan");
  }
  for (uint32_t k = 0; k < run->kernels.len; k++)
    if (!s->kernel || s->kernel == first + k) {
      if (!s->kernel)
        buffer_putc(out, '\n');
      put_kernel(out, s, &run->kernels.at[k], first + k, first);
    }
}

PlanTotals plan_totals(const PlanLog *log) {
  PlanTotals t = {0};
  for (uint32_t j = 0; j < log->runs.len; j++) {
    const PlanRun *run = log->runs.at[j];
    t.runs += run->count;
    t.peak = run->peak > t.peak ? run->peak : t.peak;
    for (uint32_t i = 0; i < run->kernels.len; i++) {
      const PlanKernel *k = &run->kernels.at[i];
      *(k->interpreted ? &t.interpreted : &t.kernels) += k->total;
      if (k->shared || k->interpreted || k->routine || !k->about.compiled)
        continue;
      if (k->again)
        continue;
      bool here = k->about.compile_seconds > 0;
      t.compiling += here ? k->about.compile_seconds : 0;
      *(here ? &t.compiled : &t.found) += 1;
    }
  }
  return t;
}

static void put_totals(Buffer *out, const PlanLog *log, const PlanStyle *s) {
  PlanTotals t = plan_totals(log);
  Buffer text = {0};
  buffer_printf(out, "%stotal%s: %u run%s; ", paint(s, BOLD), paint(s, PLAIN),
                t.runs, t.runs == 1 ? "" : "s");
  put_bytes(out, t.peak);
  buffer_puts(out, " at most\n");
  if (s->stable)
    return;
  if (t.kernels > 0) {
    put_seconds(&text, t.kernels);
    buffer_printf(&text, " in kernels%s", t.interpreted > 0 ? ", " : "");
  }
  if (t.interpreted > 0) {
    put_seconds(&text, t.interpreted);
    buffer_puts(&text, " in the reference backend");
  }
  if (text.len)
    put_line(out, s, "time", text.text);
  text.len = 0;
  buffer_printf(&text, "%u compiled", t.compiled);
  if (t.compiling > 0) {
    buffer_puts(&text, ", in ");
    put_seconds(&text, t.compiling);
  }
  buffer_printf(&text, "; %u found", t.found);
  put_line(out, s, "kernels", text.text);
  if (s->arch) {
    text.len = 0;
    buffer_printf(&text, "are those of a usual GPU of %s", s->arch);
    put_line(out, s, "limits", text.text);
  } else if (!machine_limits()->measured)
    put_line(out, s, "limits",
             "of this machine are guesses: `axon doctor` measures them");
  buffer_free(&text);
}

void plan_text(Buffer *out, const PlanLog *log, const PlanStyle *s) {
  uint32_t first = 1;
  if (s->arch && !s->kernel)
    buffer_printf(out, "Planned for %s.  ", s->arch);
  if (s->dry && !s->kernel)
    buffer_puts(out, "Nothing was run: what the program computes is taken for "
                     "zeros, and where that\ndecides what it does next, this "
                     "is not what it would do.\n\n");
  for (uint32_t j = 0; j < log->runs.len; j++) {
    const PlanRun *run = log->runs.at[j];
    plan_text_run(out, run, j + 1, first, s);
    if (!s->kernel)
      buffer_putc(out, '\n');
    first += run->kernels.len;
  }
  if (!s->kernel)
    put_totals(out, log, s);
}
