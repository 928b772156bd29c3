/* Random figures: each style of terminal, SVG and PNG.  Every line fits the
 * terminal, and no coordinate is NaN or infinite. */
#include "figure/figure.h"
#include "runtime/runtime.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/mem.h"
#include "support/utf8.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 300, MAX_LAYERS = 4, MAX_COUNT = 12 };

static uint32_t random_below(uint32_t n) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

static double random_value(void) {
  static const double special[] = {
      0,        1,        -1,      NAN,   INFINITY, -INFINITY, DBL_MAX,
      -DBL_MAX, DBL_MIN,  5e-324,  1e300, -1e-300,  1e15,      1e9 + 1,
      1e9,      1.000001, 0.99999, 0.5,   1e-9,     12345.678};
  if (random_below(3) == 0)
    return special[random_below(ARRAY_LEN(special))];
  return ((double)random_below(20001) - 10000) / 100;
}

typedef struct Data {
  double x[MAX_COUNT], x2[MAX_COUNT], y[MAX_COUNT], y2[MAX_COUNT];
  double z[MAX_COUNT * MAX_COUNT];
} Data;

static void fill(double *at, size_t count) {
  double constant = random_value();
  bool is_constant = random_below(5) == 0;
  for (size_t i = 0; i < count; i++)
    at[i] = is_constant ? constant : random_value();
}

static FigureLayer random_layer(Data *d) {
  FigureLayer l = {.kind = (LayerKind)(1 + random_below(LAYER_KIND_COUNT - 1)),
                   .label = random_below(2) ? "a <label> \xc3\xa9" : "",
                   .count = random_below(MAX_COUNT + 1),
                   .x = d->x,
                   .y = d->y};
  fill(d->x, MAX_COUNT);
  fill(d->x2, MAX_COUNT);
  fill(d->y, MAX_COUNT);
  fill(d->y2, MAX_COUNT);
  fill(d->z, MAX_COUNT * MAX_COUNT);
  if (l.kind == LAYER_BARS)
    l.x2 = d->x2;
  if (l.kind == LAYER_AREA)
    l.y2 = d->y2;
  if (l.kind == LAYER_HEATMAP) {
    l.count = 2;
    l.z = d->z;
    l.rows = random_below(MAX_COUNT + 1);
    l.columns = random_below(MAX_COUNT + 1);
  }
  return l;
}

static FigureAxis random_axis(void) {
  static const char *const names[] = {"one", "two \xe2\x88\x80", "three"};
  bool is_fitted = random_below(3);
  return (FigureAxis){.label = random_below(2) ? "axis" : NULL,
                      .is_log = random_below(2),
                      .from = is_fitted ? INFINITY : random_value(),
                      .to = is_fitted ? INFINITY : random_value(),
                      .names = names,
                      .name_count = random_below(4) ? 0 : ARRAY_LEN(names)};
}

static void check_lines(const char *text, int columns, bool is_ascii) {
  for (const char *line = text; *line;) {
    size_t len = strcspn(line, "\n");
    assert_true((int)utf8_columns(line, len) <= columns);
    for (size_t i = 0; is_ascii && i < len; i++)
      assert_in_range((unsigned char)line[i], ' ', '~');
    line += len + (line[len] == '\n');
  }
}

static void print_all_styles(const Figure *f) {
  static const int widths[] = {40, 80, 133};
  for (size_t i = 0; i < ARRAY_LEN(widths); i++)
    for (int k = 0; k < 2 * COLOUR_DEPTH_COUNT; k++) {
      FigureStyle style = {.columns = widths[i],
                           .rows = random_below(2) ? 0 : 5,
                           .colours = (ColourDepth)(k / 2),
                           .is_ascii = k % 2};
      Buffer out = {0};
      figure_print(&out, f, &style);
      if (style.colours == COLOURS_NONE)
        check_lines(out.text, style.columns, style.is_ascii);
      buffer_free(&out);
    }
}

static void make_files(const Figure *f) {
  Fault fault = {0};
  Buffer svg = {0};
  FigureSize size = {100 + random_below(900), 100 + random_below(500), 1};
  assert_true(figure_svg(&svg, f, size, &fault));
  assert_null(strstr(svg.text, "nan"));
  assert_null(strstr(svg.text, "inf"));
  buffer_free(&svg);
  void *bytes;
  size_t len;
  if (figure_png(f, size, &bytes, &len, &fault)) {
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    mem_free(bytes);
  } else {
    assert_non_null(strstr(fault.help, "libcairo2"));
  }
}

static void test_random(void **state) {
  (void)state;
  int drawn = 0;
  for (int i = 0; i < ROUNDS; i++) {
    Data data[MAX_LAYERS];
    FigureLayer layers[MAX_LAYERS];
    size_t count = random_below(MAX_LAYERS + 1);
    for (size_t k = 0; k < count; k++)
      layers[k] = random_layer(&data[k]);
    Figure f = {.title = random_below(2) ? "A title & more" : NULL,
                .x = random_axis(),
                .y = random_axis(),
                .layers = layers,
                .layer_count = count};
    Fault fault = {0};
    if (!figure_check(&f, &fault)) {
      assert_true(*fault.message && *fault.help);
      continue;
    }
    drawn++;
    print_all_styles(&f);
    make_files(&f);
  }
  assert_true(drawn > ROUNDS / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
