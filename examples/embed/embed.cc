// Calls the functions of model.axn with vectors of this program.
//
//   c++ -std=c++17 embed.cc $(pkg-config --cflags --libs axon) -o embed
//   ./embed model.axn
#include <axon.h>

#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// What a program needs around axon.h: owners, and errors that are thrown.
namespace axon {

struct Free {
  void operator()(AxnValue *v) const { axn_value_free(v); }
  void operator()(AxnSession *s) const { axn_session_free(s); }
};
using Value = std::unique_ptr<AxnValue, Free>;

class Session {
public:
  Session() : session(axn_session_new()) {
    if (!session)
      throw std::bad_alloc();
  }

  void run(const std::string &name, const std::string &text) {
    check(axn_session_run(session.get(), name.c_str(), text.data(),
                          text.size()));
  }

  // Over the vector's memory, which has to stay.
  Value tensor(std::vector<float> &data, std::vector<int64_t> shape) {
    AxnTensor t = {};
    t.dtype = AXN_F32;
    t.rank = static_cast<int32_t>(shape.size());
    t.shape = shape.data();
    t.data = data.data();
    return made(axn_value_tensor(session.get(), &t, nullptr, nullptr));
  }

  Value record(const char *one, Value x, const char *two, Value y) {
    const char *names[] = {one, two};
    AxnValue *items[] = {x.get(), y.get()};
    return made(axn_value_record(session.get(), 2, names, items));
  }

  Value call(const char *name, std::initializer_list<const AxnValue *> values) {
    AxnFunction *f = axn_function(session.get(), name);
    if (!f)
      throw error();
    std::vector<AxnArg> args;
    for (const AxnValue *value : values)
      args.push_back({value, nullptr});
    AxnValue *result;
    check(axn_call(session.get(), f, args.data(), args.size(), &result));
    return Value(result);
  }

private:
  std::unique_ptr<AxnSession, Free> session;

  std::runtime_error error() {
    const AxnDiag *diag = axn_diag_get(session.get(), 0);
    return std::runtime_error(diag ? diag->message : "stopped");
  }
  void check(AxnStatus status) {
    if (status != AXN_OK)
      throw error();
  }
  Value made(AxnValue *value) {
    if (!value)
      throw error();
    return Value(value);
  }
};

} // namespace axon

static void print(const char *what, const AxnValue *value) {
  AxnTensor t;
  if (!axn_value_get(value, &t))
    return;
  int64_t count = 1;
  for (int32_t i = 0; i < t.rank; i++)
    count *= t.shape[i];
  std::printf("%s:", what);
  for (int64_t i = 0; i < count; i++)
    std::printf(" %.4f", static_cast<double>(static_cast<float *>(t.data)[i]));
  std::printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s model.axn\n", argv[0]);
    return 2;
  }
  try {
    std::stringstream text;
    text << std::ifstream(argv[1]).rdbuf();
    axon::Session m;
    m.run(argv[1], text.str());

    std::vector<float> w1 = {1, -1, 0.5f, 0.25f, -0.5f, 1};
    std::vector<float> b1 = {0, 0.5f, -0.5f}, b2 = {0.25f, 0};
    std::vector<float> w2 = {1, 0, 0, 1, 0.5f, -0.5f};
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
    axon::Value p = m.record(
        "first", m.record("w", m.tensor(w1, {2, 3}), "b", m.tensor(b1, {3})),
        "second", m.record("w", m.tensor(w2, {3, 2}), "b", m.tensor(b2, {2})));

    for (int64_t rows : {1, 4}) { // one code for all sizes
      axon::Value batch = m.tensor(x, {rows, 2});
      print("forward", m.call("forward", {p.get(), batch.get()}).get());
      if (rows == 4) {
        axon::Value d = m.call("describe", {batch.get()});
        print("mean", axn_value_field(d.get(), "mean"));
        print("deviation", axn_value_field(d.get(), "deviation"));
      }
    }
    axon::Value wrong = m.tensor(x, {2, 4}); // does not fit, and is told so
    try {
      m.call("forward", {p.get(), wrong.get()});
    } catch (const std::runtime_error &e) {
      std::printf("%s\n", e.what());
    }
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
