/* What functions of models.axn come to, as models.run prints it. */
#include "models.h"

#include <math.h>
#include <stdio.h>

static float out[4096];

static void show(int code, int count) {
  double sum = 0, all = 0, squares = 0;
  if (code)
    printf("%s\n", models_message(code));
  for (int k = 0; k < count; k++) {
    sum += out[k];
    all += fabs(out[k]);
    squares += (double)out[k] * out[k];
  }
  printf("%.9g\n%.9g\n%.9g\n", sum, all, squares);
}

int main(void) {
  for (int n = 1; n <= 5; n += 4) {
    show(models_of_mlp(n, out), n * 4);
    show(models_of_lenet5(n, out), n * 4);
    show(models_of_gpt2(n, out), 2 * n * 50);
    show(models_of_char_rnn(n, out), n * 10);
    show(models_of_pointnet(n, out), 10);
    show(models_of_llama(n, out), 2 * n * 50);
    show(models_of_bert(n, out), n * 32);
    show(models_of_vit(n, out), n * 5);
    show(models_of_mamba(n, out), 2 * n * 50);
  }
  return 0;
}
