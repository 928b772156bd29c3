/* Calls what axon build made of model.axn, with vectors of this program.
 *
 *   axon build -o model.so --entry "$(cat forward.type)" \
 *     --entry 'describe : f32[b, n] -> _' model.axn
 *   c++ built.cc -o built $(PKG_CONFIG_PATH=. pkg-config --cflags --libs model)
 *   LD_LIBRARY_PATH=. ./built
 */
#include "model.h"

#include <cstdio>
#include <stdexcept>
#include <vector>

using Vector = std::vector<float>;

static void check(int code) {
  if (code)
    throw std::runtime_error(model_message(code));
}

struct Layer {
  int64_t in, out;
  Vector w, b;
};

static Vector forward(const Layer &first, const Layer &second,
                      const Vector &x) {
  int64_t rows = static_cast<int64_t>(x.size()) / first.in;
  if (first.out != second.in)
    throw std::invalid_argument("the layers do not fit");
  Vector y(static_cast<size_t>(rows * second.out));
  check(model_forward(first.in, first.out, second.out, rows, first.w.data(),
                      first.b.data(), second.w.data(), second.b.data(),
                      x.data(), y.data()));
  return y;
}

static void print(const char *what, const Vector &x) {
  std::printf("%s:", what);
  for (float value : x)
    std::printf(" %.4f", static_cast<double>(value));
  std::printf("\n");
}

int main() {
  const Layer first = {2, 3, {1, -1, 0.5f, 0.25f, -0.5f, 1}, {0, 0.5f, -0.5f}};
  const Layer second = {3, 2, {1, 0, 0, 1, 0.5f, -0.5f}, {0.25f, 0}};
  const Vector x = {1, 2, 3, 4, 5, 6, 7, 8};
  try {
    print("forward", forward(first, second, {1, 2}));
    print("forward", forward(first, second, x));
    Vector mean(2), deviation(2), rows(4), spread(4);
    check(model_describe(4, 2, x.data(), mean.data(), deviation.data()));
    print("mean", mean);
    print("deviation", deviation);
    const int64_t turned[] = {1, 2};
    check(model_describe_strided(2, 4, x.data(), turned, rows.data(), nullptr,
                                 spread.data(), nullptr));
    print("mean of rows", rows);
    check(model_describe(-1, 2, x.data(), mean.data(), deviation.data()));
  } catch (const std::exception &e) {
    std::printf("%s\n", e.what());
  }
}
