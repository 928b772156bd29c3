/* Calls what axon build made of small.axn. */
#include "small.h"

#include <stdint.h>
#include <stdio.h>

static void show(const char *name, int code, int64_t count, const float *x) {
  printf("%s: %s", name, small_message(code));
  for (int64_t i = 0; code == 0 && i < count; i++)
    printf(" %g", x[i]);
  printf("\n");
}

int main(void) {
  const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {0.5f, -100};
  const float x[] = {1, 0, -1, 2, 1, 0};
  const int64_t at[] = {2, 0}, beyond[] = {6};
  const int64_t sizes[] = {3};
  const float by = 2;
  float out[6], sum;
  const void *args[] = {x, &by};
  void *outs[] = {out};
  show("forward", small_forward(2, 3, 2, w, b, x, out), 4, out);
  /* turned, backwards, one row for all; and the result turned */
  const float turned[] = {1, 4, 2, 5, 3, 6}, back[] = {-100, 0.5f};
  const int64_t columns[] = {1, 2}, backwards[] = {-1}, repeated[] = {0, 1};
  show("strided",
       small_forward_strided(2, 3, 2, turned, columns, back + 1, backwards,
                             x + 3, repeated, out, columns),
       4, out);
  show("dense",
       small_forward_strided(2, 3, 2, w, NULL, b, NULL, x, NULL, out, NULL), 4,
       out);
  /* w as a part of x and more, its rows 4 apart */
  const float wide[] = {1, 2, 3, 9, 4, 5, 6, 9};
  const int64_t apart[] = {4, 1};
  show("rows",
       small_forward_strided(2, 3, 2, wide, apart, b, NULL, x, NULL, out, NULL),
       4, out);
  show("none",
       small_forward_strided(2, -3, 2, w, columns, b, NULL, x, columns, out,
                             columns),
       4, out);
  show("no rows", small_forward(2, 3, 0, w, b, x, out), 0, out);
  show("scale", small_scale(6, x, 0.5f, out), 6, out);
  show("scale_call", small_scale_call(sizes, args, outs), 3, out);
  show("tail", small_tail(6, 4, x, out), 2, out);
  show("tail", small_tail(6, 7, x, out), 2, out);
  show("pick", small_pick(6, 2, x, at, out, &sum), 2, out);
  show("pick", small_pick(6, 1, x, beyond, out, &sum), 1, out);
  show("sum", small_pick(6, 0, x, at, out, &sum), 1, &sum);
  show("less than none", small_scale(-1, x, 0.5f, out), 0, out);
  const int64_t large = INT64_C(1) << 62;
  show("large", small_forward(large, large, 1, w, b, x, out), 0, out);
  show("large", small_forward(2, large, 0, w, b, x, out), 0, out);
  show("large", small_forward(0, 1, large, w, b, x, out), 0, out);
  show("large",
       small_forward_strided(large, large, 1, w, columns, b, NULL, x, NULL, out,
                             NULL),
       0, out);
  show("large",
       small_forward_strided(3, large, 1, w, columns, b, NULL, x, columns, out,
                             NULL),
       0, out);
  show("steps", small_steps(1 << 30, 1 << 30, &sum), 0, out);
  show("steps", small_steps(large, 0, &sum), 0, out);
  show("steps", small_steps(30, 0, &sum), 1, &sum);
  /* formulas that would wrap around, to 0 and to 4 */
  const int64_t two[] = {2}, four = INT64_C(1) << 32;
  show("four", small_four(large, x, w, out), 0, out);
  show("four", small_four(large + 1, x, w, out), 0, out);
  show("four", small_four_strided(large + 1, x, two, w, two, out, NULL), 0,
       out);
  show("four", small_four(1, b, w, out), 4, out);
  show("area", small_area(four, out), 0, out);
  show("area", small_area(-four, out), 0, out);
  show("area", small_area(2, out), 2, out);
  const int64_t seven[] = {7, -7}, by_two[] = {2, 2}, by_none[] = {1, 0};
  int64_t whole[2];
  int code = small_over(2, seven, by_two, whole);
  printf("over: %s %d %d\n", small_message(code), (int)whole[0], (int)whole[1]);
  printf("over: %s\n", small_message(small_over(2, seven, by_none, whole)));
  printf("%s\n", small_message(-1));
  return 0;
}
