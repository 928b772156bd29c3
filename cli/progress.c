/* What a terminal shows while a program works: a progress bar, and above it the
   curves of tracked numbers, such as the loss.  Main entry points:
   progress_update, progress_track and terminal_hide_progress. */
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
  BAR_COLUMNS = 30,
  CURVE_ROWS = 8,
  DRAWN_ROWS = CURVE_ROWS + 5, /* with axis, names and bar */
  MAX_TRACKED = 4,
  MAX_POINTS = 256, /* of a curve; must be even */
};

/* A curve of at most MAX_POINTS means of `stride` numbers each. */
typedef struct Tracked {
  char name[24];
  double x[MAX_POINTS], y[MAX_POINTS];
  uint32_t count, stride, pending;
  double pending_x, pending_y; /* sums */
  double last;
} Tracked;

static struct Progress {
  bool is_running;
  double start, last;  /* seconds: start of the work, and last drawing */
  int lines;           /* drawn lines; 0: nothing is drawn */
  bool in_output_line; /* output has not ended its line, so a bar would
                          overwrite it */
  uint32_t tracked_count;
  Tracked tracked[MAX_TRACKED];
} shown;

bool progress_is_shown(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

static void put_erase(Buffer *out) {
  if (shown.lines > 1)
    buffer_printf(out, "\033[%dA", shown.lines - 1);
  if (shown.lines)
    buffer_puts(out, "\r\033[J");
  shown.lines = 0;
}

static void flush_to_stderr(Buffer *out) {
  if (out->len)
    fwrite(out->text, 1, out->len, stderr);
  fflush(stderr);
  buffer_free(out);
}

void terminal_hide_progress(void) {
  Buffer out = {0};
  put_erase(&out);
  flush_to_stderr(&out);
}

void progress_note_line(bool has_ended) {
  shown.in_output_line = !has_ended && isatty(STDOUT_FILENO);
}

/* ---- curves ---- */

static void add_mean(Tracked *t) {
  if (t->count == MAX_POINTS) { /* pairs become one point */
    for (uint32_t k = 0; k < MAX_POINTS / 2; k++) {
      t->x[k] = (t->x[2 * k] + t->x[2 * k + 1]) / 2;
      t->y[k] = (t->y[2 * k] + t->y[2 * k + 1]) / 2;
    }
    t->count /= 2;
    t->stride *= 2;
    return;
  }
  t->x[t->count] = t->pending_x / t->pending;
  t->y[t->count++] = t->pending_y / t->pending;
  t->pending_x = t->pending_y = t->pending = 0;
}

void progress_track(void *owner, const char *name, double x, double y) {
  (void)owner;
  uint32_t k = 0;
  while (k < shown.tracked_count &&
         strncmp(shown.tracked[k].name, name, sizeof shown.tracked[k].name - 1))
    k++;
  if (!shown.is_running || k == MAX_TRACKED)
    return;
  Tracked *t = &shown.tracked[k];
  if (k == shown.tracked_count) {
    shown.tracked_count++;
    t->count = t->pending = 0, t->stride = 1;
    t->pending_x = t->pending_y = 0;
    snprintf(t->name, sizeof t->name, "%s", name);
  }
  t->last = y;
  t->pending_x += x, t->pending_y += y, t->pending++;
  if (t->pending >= t->stride)
    add_mean(t);
}

/* Curves need two points, and a terminal that is high enough. */
static void put_curves(Buffer *out) {
  struct winsize size = {0};
  bool has_line = false;
  FigureLayer layers[MAX_TRACKED];
  char labels[MAX_TRACKED][48];
  for (uint32_t k = 0; k < shown.tracked_count; k++) {
    const Tracked *t = &shown.tracked[k];
    snprintf(labels[k], sizeof labels[k], "%s %.4g", t->name, t->last);
    layers[k] = (FigureLayer){.kind = LAYER_LINE,
                              .label = labels[k],
                              .x = t->x,
                              .y = t->y,
                              .count = t->count};
    has_line |= t->count > 1;
  }
  if (!has_line || ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 ||
      size.ws_row <= DRAWN_ROWS || size.ws_col < 40)
    return;
  const FigureAxis fitted = {.from = INFINITY, .to = INFINITY};
  Figure f = {.x = fitted,
              .y = fitted,
              .layers = layers,
              .layer_count = shown.tracked_count};
  FigureStyle style = {.columns = size.ws_col - 1,
                       .rows = CURVE_ROWS,
                       .colours = terminal_colour_depth(STDERR_FILENO),
                       .is_ascii = terminal_is_ascii()};
  figure_print(out, &f, &style);
}

/* ---- the bar ---- */

static void put_bar(Buffer *out, int64_t done, int64_t total, double elapsed) {
  double part = total > 0 ? (double)done / (double)total : 1;
  int filled = (int)(part * BAR_COLUMNS);
  bool ascii = terminal_is_ascii();
  for (int i = 0; i < BAR_COLUMNS; i++)
    buffer_puts(out, i < filled ? ascii ? "#" : "█" : ascii ? "." : "░");
  buffer_printf(out, " %3.0f%%  %lld/%lld", 100 * part, (long long)done,
                (long long)total);
  if (done > 0 && done < total)
    buffer_printf(out, "  %.0f s left", elapsed * (1 / part - 1));
}

static void draw(int64_t done, int64_t total, double elapsed) {
  Buffer out = {0};
  put_erase(&out);
  size_t start = out.len;
  put_curves(&out);
  put_bar(&out, done, total, elapsed);
  shown.lines = 1;
  for (size_t k = start; k < out.len; k++)
    shown.lines += out.text[k] == '\n';
  fflush(stdout);
  flush_to_stderr(&out);
}

/* Quick work shows nothing.  Bar and curves are removed at the end, and before
   other output. */
void progress_update(void *owner, int64_t done, int64_t total) {
  (void)owner;
  if (!progress_is_shown())
    return;
  double t = clock_seconds();
  if (done == 0) {
    shown.start = shown.last = t;
    shown.tracked_count = 0;
    shown.is_running = true;
  }
  if (done >= total) {
    shown.is_running = false;
    terminal_hide_progress();
  } else if (t - shown.start > 0.5 && (t - shown.last > 0.1 || !shown.lines) &&
             !shown.in_output_line) {
    draw(done, total, t - shown.start);
    shown.last = t;
  }
}
