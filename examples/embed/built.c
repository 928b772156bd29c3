/* Calls what axon build made of model.axn: no Axon is there when this runs.
 *
 *   axon build -o model.c --entry "$(cat forward.type)" \
 *     --entry 'describe : f32[b, n] -> _' model.axn
 *   cc -O3 built.c model.c -lm -o built && ./built
 */
#include "model.h"

#include <stdint.h>
#include <stdio.h>

static int failed(int code) {
  fprintf(stderr, "%s\n", model_message(code));
  return 1;
}

static void print(const char *what, const float *x, int count) {
  printf("%s:", what);
  for (int i = 0; i < count; i++)
    printf(" %.4f", (double)x[i]);
  printf("\n");
}

int main(void) {
  float w1[] = {1, -1, 0.5f, 0.25f, -0.5f, 1}, b1[] = {0, 0.5f, -0.5f};
  float w2[] = {1, 0, 0, 1, 0.5f, -0.5f}, b2[] = {0.25f, 0};
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8], mean[2], deviation[2];
  int code;

  for (int64_t rows = 1; rows <= 4; rows += 3) { /* one code for all sizes */
    code = model_forward(2, 3, 2, rows, w1, b1, w2, b2, x, y);
    if (code)
      return failed(code);
    print("forward", y, (int)rows * 2);
  }
  code = model_describe(4, 2, x, mean, deviation);
  if (code)
    return failed(code);
  print("mean", mean, 2);
  print("deviation", deviation, 2);

  /* The transpose of x, by its strides. */
  int64_t transposed[] = {1, 2};
  float of_rows[4], spread[4];
  code =
      model_describe_strided(2, 4, x, transposed, of_rows, NULL, spread, NULL);
  if (code)
    return failed(code);
  print("mean of rows", of_rows, 4);

  code = model_describe(-1, 2, x, mean, deviation); /* is told so */
  printf("%s\n", model_message(code));
  return 0;
}
