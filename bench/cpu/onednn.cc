// The workloads for which oneDNN has primitives, as a library that
// peer_onednn.py loads.  A Job is prepared once: primitives, their memory, and
// weights in the layout that oneDNN chooses.
#include <dnnl.hpp>

#if DNNL_VERSION_MAJOR != 2
#error "this is written for oneDNN 2"
#endif

#include <string>
#include <unordered_map>
#include <vector>

using namespace dnnl;
using Dims = memory::dims;
using Tag = memory::format_tag;
using Type = memory::data_type;
using Args = std::unordered_map<int, memory>;

struct Job {
  engine cpu{engine::kind::cpu, 0};
  stream line{cpu};
  std::vector<std::pair<primitive, Args>> steps;

  memory borrow(const memory::desc &desc, void *data) {
    return memory(desc, cpu, data);
  }
  // Reorders the elements once, if the layouts differ.
  memory laid_out(memory from, const memory::desc &want) {
    if (from.get_desc() == want)
      return from;
    memory to(want, cpu);
    reorder(from, to).execute(line, from, to);
    line.wait();
    return to;
  }
  void run() {
    for (auto &step : steps)
      step.first.execute(line, step.second);
    line.wait();
  }
};

static Tag rows(size_t rank) {
  return rank == 1 ? Tag::a : rank == 2 ? Tag::ab : rank == 3 ? Tag::abc
         : Tag::abcd;
}

static memory::desc plain(const Dims &dims, Type type = Type::f32) {
  return memory::desc(dims, type, rows(dims.size()));
}

static memory::desc any(const Dims &dims, Type type = Type::f32) {
  return memory::desc(dims, type, Tag::any);
}

static primitive_attr followed_by(const std::string &what) {
  post_ops ops;
  if (what == "gelu")
    ops.append_eltwise(1.0f, algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
  if (what == "silu")
    ops.append_eltwise(1.0f, algorithm::eltwise_swish, 1.0f, 0.0f);
  if (what == "tanh")
    ops.append_eltwise(1.0f, algorithm::eltwise_tanh, 0.0f, 0.0f);
  if (what == "relu")
    ops.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
  primitive_attr attr;
  attr.set_post_ops(ops);
  return attr;
}

template <class Make> static Job *made(Make make) {
  Job *job = nullptr;
  try {
    job = new Job;
    make(*job);
    return job;
  } catch (const error &) {
    delete job;
    return nullptr;
  }
}

extern "C" {

const char *onednn_version() {
  static const std::string text = std::to_string(DNNL_VERSION_MAJOR) + "." +
                                  std::to_string(DNNL_VERSION_MINOR) + "." +
                                  std::to_string(DNNL_VERSION_PATCH);
  return text.c_str();
}

void onednn_run(Job *job) { job->run(); }
void onednn_free(Job *job) { delete job; }

Job *onednn_matmul(int bf16, int64_t count, int64_t m, int64_t n, int64_t k,
                   void *a, void *b, void *out) {
  return made([=](Job &job) {
    Type type = bf16 ? Type::bf16 : Type::f32;
    auto shape = [=](int64_t i, int64_t j) {
      return plain(count > 1 ? Dims{count, i, j} : Dims{i, j}, type);
    };
    matmul::primitive_desc chosen(
        matmul::desc(shape(m, k), shape(k, n), shape(m, n)), job.cpu);
    job.steps = {{matmul(chosen),
                  {{DNNL_ARG_SRC, job.borrow(shape(m, k), a)},
                   {DNNL_ARG_WEIGHTS, job.borrow(shape(k, n), b)},
                   {DNNL_ARG_DST, job.borrow(shape(m, n), out)}}}};
  });
}

// x @ transpose w + b, then `what`; weights are reordered in advance.
static void add_linear(Job &job, int64_t m, int64_t n, int64_t k,
                       const memory &x, void *w, void *b, const memory &out,
                       const char *what) {
  inner_product_forward::primitive_desc chosen(
      inner_product_forward::desc(prop_kind::forward_inference, plain({m, k}),
                                  any({n, k}), plain({n}), plain({m, n})),
      followed_by(what), job.cpu);
  memory weights =
      job.laid_out(job.borrow(plain({n, k}), w), chosen.weights_desc());
  job.steps.push_back({inner_product_forward(chosen),
                       {{DNNL_ARG_SRC, x},
                        {DNNL_ARG_WEIGHTS, weights},
                        {DNNL_ARG_BIAS, job.borrow(plain({n}), b)},
                        {DNNL_ARG_DST, out}}});
}

Job *onednn_linear(int64_t m, int64_t n, int64_t k, void *x, void *w, void *b,
                   void *out, const char *what) {
  return made([=](Job &job) {
    add_linear(job, m, n, k, job.borrow(plain({m, k}), x), w, b,
               job.borrow(plain({m, n}), out), what);
  });
}

Job *onednn_mlp(int64_t batch, int layers, const int64_t *widths, void *x,
                void *const *w, void *const *b, void *out) {
  return made([=](Job &job) {
    memory from = job.borrow(plain({batch, widths[0]}), x);
    for (int i = 0; i < layers; i++) {
      bool last = i + 1 == layers;
      memory::desc shape = plain({batch, widths[i + 1]});
      memory to = last ? job.borrow(shape, out) : memory(shape, job.cpu);
      add_linear(job, batch, widths[i + 1], widths[i], from, w[i], b[i], to,
                 last ? "" : "relu");
      from = to;
    }
  });
}

// The image and the result are in the layout that oneDNN chooses; `onednn_read`
// brings the result back.
Job *onednn_conv(int64_t n, int64_t c, int64_t o, int64_t h, int64_t k,
                 int depthwise, void *x, void *w, void *b) {
  return made([=](Job &job) {
    Dims kernel = depthwise ? Dims{c, 1, 1, k, k} : Dims{o, c, k, k};
    Tag tag = depthwise ? Tag::abcde : Tag::abcd;
    convolution_forward::primitive_desc chosen(
        convolution_forward::desc(
            prop_kind::forward_inference, algorithm::convolution_direct,
            any({n, c, h, h}), any(kernel), plain({o}), any({n, o, h, h}),
            {1, 1}, {k / 2, k / 2}, {k / 2, k / 2}),
        job.cpu);
    memory image =
        job.laid_out(job.borrow(plain({n, c, h, h}), x), chosen.src_desc());
    memory weights = job.laid_out(
        job.borrow(memory::desc(kernel, Type::f32, tag), w),
        chosen.weights_desc());
    job.steps = {{convolution_forward(chosen),
                  {{DNNL_ARG_SRC, image},
                   {DNNL_ARG_WEIGHTS, weights},
                   {DNNL_ARG_BIAS, job.borrow(plain({o}), b)},
                   {DNNL_ARG_DST, memory(chosen.dst_desc(), job.cpu)}}}};
  });
}

void onednn_read(Job *job, int64_t n, int64_t c, int64_t h, void *out) {
  memory from = job->steps.back().second[DNNL_ARG_DST];
  memory to = job->borrow(plain({n, c, h, h}), out);
  reorder(from, to).execute(job->line, from, to);
  job->line.wait();
}

Job *onednn_softmax(int64_t n, int64_t m, int logarithm, void *x, void *out) {
  return made([=](Job &job) {
    memory::desc shape = plain({n, m});
    Args args = {{DNNL_ARG_SRC, job.borrow(shape, x)},
                 {DNNL_ARG_DST, job.borrow(shape, out)}};
    prop_kind kind = prop_kind::forward_inference;
    if (logarithm)
      job.steps = {{logsoftmax_forward({{kind, shape, 1}, job.cpu}), args}};
    else
      job.steps = {{softmax_forward({{kind, shape, 1}, job.cpu}), args}};
  });
}

Job *onednn_layernorm(int64_t n, int64_t m, void *x, void *w, void *b,
                      void *out) {
  return made([=](Job &job) {
    memory::desc shape = plain({n, m});
    auto both = normalization_flags::use_scale |
                normalization_flags::use_shift;
    layer_normalization_forward::primitive_desc chosen(
        layer_normalization_forward::desc(prop_kind::forward_inference, shape,
                                          1e-5f, both),
        job.cpu);
    job.steps = {{layer_normalization_forward(chosen),
                  {{DNNL_ARG_SRC, job.borrow(shape, x)},
                   {DNNL_ARG_SCALE, job.borrow(plain({m}), w)},
                   {DNNL_ARG_SHIFT, job.borrow(plain({m}), b)},
                   {DNNL_ARG_DST, job.borrow(shape, out)}}}};
  });
}

// The sum over the first axis; rest 0: over all elements.
Job *onednn_sum(int64_t n, int64_t rest, void *x, void *out) {
  return made([=](Job &job) {
    memory::desc from = rest ? plain({n, rest}) : plain({n});
    memory::desc to = rest ? plain({1, rest}) : plain({1});
    reduction::primitive_desc chosen(
        reduction::desc(algorithm::reduction_sum, from, to, 0.0f, 0.0f),
        job.cpu);
    job.steps = {{reduction(chosen),
                  {{DNNL_ARG_SRC, job.borrow(from, x)},
                   {DNNL_ARG_DST, job.borrow(to, out)}}}};
  });
}

} // extern "C"
