/* Operators of models that keep a state between calls: linear attention,
   causal convolution, and a cache that is written in place. */
#include "onnx/ops.h"

#include <math.h>
#include <string.h>

/* ---- LinearAttention ---- */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_PAST, IN_DECAY, IN_BETA };

typedef struct Memory {
  Importer *im;
  Dim *batch, *steps;
  int64_t heads, memories; /* of queries; of keys and values */
  Dim *key, *value;        /* sizes of a head */
  bool widens;             /* computes in f32 */
} Memory;

/* Input i, which has `heads` on its last axis, as [steps, batch, heads, ...]:
   with an axis of size `size` if it is not NULL. */
static const char *by_step(const Memory *m, uint32_t i, int64_t heads,
                           Dim *size) {
  Importer *im = m->im;
  Value *x = input(im, i);
  Shape split = {3, 0, {m->batch, m->steps, num(im, heads)}};
  if (x->shape.rank != 3 || !dtype_is_float(x->dtype))
    import_fail(im, NULL, "its operands must be floats with three axes");
  if (size)
    split.dims[split.rank++] = size;
  const char *all = text(im, "permute \"%s\" (reshape %s %s)",
                         size ? "b t h d -> t b h d" : "b t h -> t b h",
                         sizes_text(im, &split), ref(im, x));
  return local(im, "steps", m->widens ? text(im, "f32 (%s)", all) : all);
}

static Dim *head_size(Importer *im, uint32_t i, int64_t heads) {
  Value *x = input(im, i);
  if (x->shape.rank != 3)
    import_fail(im, NULL, "its operands must be floats with three axes");
  Dim *size = dim_exact_quotient(&im->dims, x->shape.dims[2], num(im, heads));
  if (!size)
    import_fail(im, NULL, "%lld heads do not divide %s", (long long)heads,
                extent_source(im, x->shape.dims[2]));
  return size;
}

static Memory read_memory(Importer *im) {
  Value *q = input(im, IN_QUERY);
  Memory m = {.im = im,
              .heads = attr_int(im, "q_num_heads", 0),
              .memories = attr_int(im, "kv_num_heads", 0),
              .widens = dtype_is_narrow_float(q->dtype)};
  if (m.heads < 1 || m.memories < 1 || m.heads % m.memories)
    import_fail(im, NULL,
                "`q_num_heads` is not a multiple of `kv_num_heads`: %lld, %lld",
                (long long)m.heads, (long long)m.memories);
  m.key = head_size(im, IN_QUERY, m.heads);
  m.value = head_size(im, IN_VALUE, m.memories);
  m.batch = q->shape.dims[0];
  m.steps = q->shape.dims[1];
  return m;
}

/* The state before the first step. */
static const char *first_state(const Memory *m, const Shape *shape) {
  Importer *im = m->im;
  const char *sizes = sizes_text(im, shape);
  if (!has_input(im, IN_PAST))
    return text(im, "(zeros %s : %s%s)", sizes,
                dtype_info[m->widens ? DT_F32 : input(im, 0)->dtype].name,
                sizes);
  Value *past = input(im, IN_PAST);
  if (!shapes_equal(&past->shape, shape))
    import_fail(im, NULL, "`past_state` has the shape %s, not %s",
                sizes_text(im, &past->shape), sizes);
  return m->widens ? text(im, "(f32 %s)", ref(im, past)) : ref(im, past);
}

/* True if the number of elements for each step is that of the heads. */
static bool is_per_head(const Memory *m, uint32_t i) {
  Dim *last = input(m->im, i)->shape.dims[2];
  return dim_equal(last, num(m->im, m->memories));
}

typedef struct Update {      /* of the state in a step */
  const char *names, *items; /* of what a step takes */
  const char *text;          /* statements */
} Update;

static Update read_update(const Memory *m) {
  Importer *im = m->im;
  const char *rule = attr_string(im, "update_rule", "gated_delta");
  bool decays = strstr(rule, "gated"), corrects = strstr(rule, "delta");
  Update u = {.names = "q, k, v", .text = ""};
  if (decays != has_input(im, IN_DECAY) || corrects != has_input(im, IN_BETA))
    import_fail(im, NULL, "its inputs do not fit `update_rule` %s", rule);
  const char *q = by_step(m, IN_QUERY, m->heads, m->key);
  const char *k = by_step(m, IN_KEY, m->memories, m->key);
  const char *v = by_step(m, IN_VALUE, m->memories, m->value);
  u.items = text(im, "%s, %s, %s", q, k, v);
  if (decays) {
    bool per_head = is_per_head(m, IN_DECAY);
    u.names = text(im, "%s, g", u.names);
    u.items = text(im, "%s, %s", u.items,
                   by_step(m, IN_DECAY, m->memories, per_head ? NULL : m->key));
    u.text = text(im, " val state = state * (exp g).[:, :, %s, *]\n",
                  per_head ? "*" : ":");
  }
  if (corrects) {
    bool per_head = is_per_head(m, IN_BETA);
    u.names = text(im, "%s, beta", u.names);
    u.items = text(im, "%s, %s", u.items,
                   by_step(m, IN_BETA, per_head ? m->memories : 1, NULL));
    u.text = text(im,
                  "%s val v = beta.[:, %s, *] * (v - einsum "
                  "\"b h d m, b h d -> b h m\" state k)\n",
                  u.text, per_head ? ":" : "0, *");
  }
  u.text = text(im,
                "%s val state = state + einsum \"b h d, b h m -> b h d m\" k "
                "v\n",
                u.text);
  return u;
}

void onnx_linear_attention(Importer *im, const char *how) {
  Memory m = read_memory(im);
  Dtype dtype = input(im, 0)->dtype;
  Dtype own = has_input(im, IN_PAST) ? input(im, IN_PAST)->dtype : dtype;
  Shape shape = {4, 0, {m.batch, num(im, m.memories), m.key, m.value}};
  double scale = attr_float(im, "scale", 0);
  (void)how;
  if (scale == 0)
    scale = 1 / sqrt((double)dim_number(im, m.key, "the size of a head"));
  Update u = read_update(&m);
  const char *start = first_state(&m, &shape), *all = "state";
  if (m.heads != m.memories)
    all = text(im, "(repeat ~axis:1 %lld state)",
               (long long)(m.heads / m.memories));
  const char *state = make_identifier(im, "state", "state", 30);
  const char *steps = make_identifier(im, "outputs", "outputs", 30);
  Statement s = {
      .name = text(im, "(%s, %s)", state, steps),
      .text =
          text(im,
               "scan (fn state (%s) => let%s in (state, einsum \"b h d, "
               "b h d m -> b h m\" (%s * q) %s) end) %s (%s)",
               u.names, u.text, float_text(im, scale), all, start, u.items)};
  VEC_PUSH(im->arena, im->statements, s);
  Shape joined = {
      3, 0, {m.batch, m.steps, dim_mul(&im->dims, num(im, m.heads), m.value)}};
  const char *cast = m.widens ? dtype_info[dtype].name : "";
  define(im, 0, dtype, &joined,
         "%s |> permute \"t b h m -> b t h m\" |> reshape %s%s%s", steps,
         sizes_text(im, &joined), m.widens ? " |> " : "", cast);
  define(im, 1, own, &shape, "%s%s%s", m.widens ? dtype_info[own].name : "",
         m.widens ? " " : "", state);
}

/* ---- CausalConvWithState ---- */

/* A convolution of each channel, of the input behind the end of the previous
   one. */
void onnx_causal_conv(Importer *im, const char *how) {
  Value *x = input(im, 0), *weight = input(im, 1);
  const char *activation = attr_string(im, "activation", "none");
  (void)how;
  if (x->shape.rank != 3 || weight->shape.rank != 3 ||
      !dim_equal(x->shape.dims[1], weight->shape.dims[0]))
    import_fail(im, NULL, "its weight %s does not fit its input %s",
                sizes_text(im, &weight->shape), sizes_text(im, &x->shape));
  int64_t taps = dim_number(im, weight->shape.dims[2], "the kernel");
  if (taps < 1)
    import_fail(im, NULL, "its kernel has no elements");
  Shape kept = x->shape;
  kept.dims[2] = num(im, taps - 1);
  const char *all = ref(im, x), *kernel = ref(im, weight);
  if (has_input(im, 3)) {
    Value *past = input(im, 3);
    if (!shapes_equal(&past->shape, &kept))
      import_fail(im, NULL, "`past_state` has the shape %s, not %s",
                  sizes_text(im, &past->shape), sizes_text(im, &kept));
    all = local(im, "extended",
                text(im, "concat ~axis:2 (%s, %s)", ref(im, past), all));
  } else if (taps > 1)
    all = local(
        im, "extended",
        text(im, "pad ~axis:2 ~before:%lld %s", (long long)taps - 1, all));
  const char *b = index_name(im, "b"), *c = index_name(im, "c");
  const char *t = index_name(im, "t"), *k = index_name(im, "k");
  const char *sum = text(im,
                         "sum (for %s < %lld => %s.[%s, %s, %s + %s] * "
                         "%s.[%s, 0, %s])",
                         k, (long long)taps, all, b, c, t, k, kernel, c, k);
  if (has_input(im, 2))
    sum = text(im, "%s + %s.[%s]", sum, ref(im, input(im, 2)), c);
  const char *y = local(im, "conv",
                        text(im, "for %s < %s, %s < %s, %s < %s => %s", b,
                             extent_atom(im, x->shape.dims[0]), c,
                             extent_atom(im, x->shape.dims[1]), t,
                             extent_atom(im, x->shape.dims[2]), sum));
  if (strcmp(activation, "none") != 0) {
    im->uses_nn = true;
    y = text(im, "%s * nn.sigmoid %s", y, y);
  }
  define(im, 0, x->dtype, &x->shape, "%s", y);
  define(im, 1, x->dtype, &kept, "%s.[:, :, %s:]", all,
         extent_source(im, x->shape.dims[2]));
}

/* ---- TensorScatter ---- */

/* The update replaces elements of the cache from a place on that each sequence
   of the batch has. */
void onnx_tensor_scatter(Importer *im, const char *how) {
  Value *x = input(im, 0), *y = input(im, 1);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", -2), rank);
  bool wraps = strcmp(attr_string(im, "mode", "linear"), "circular") == 0;
  (void)how;
  if (y->shape.rank != rank || axis == 0)
    import_fail(im, NULL, "its operands do not fit");
  for (uint32_t k = 0; k < rank; k++)
    if (k != axis && !dim_equal(x->shape.dims[k], y->shape.dims[k]))
      import_fail(im, NULL, "the update has the shape %s, the cache %s",
                  sizes_text(im, &y->shape), sizes_text(im, &x->shape));
  Loop loop = loop_over(im, &x->shape);
  const char *old = ref(im, x), *new_ = ref(im, y);
  const char *place = loop.names[axis];
  if (has_input(im, 2))
    place = text(im, "(%s - i64 %s.[%s])", place, ref(im, input(im, 2)),
                 loop.names[0]);
  if (wraps)
    place = text(im, "%s %% %s", place, extent_atom(im, x->shape.dims[axis]));
  const char *at = index_name(im, "at");
  const char *items = join_names(im, loop.names, 0, rank);
  loop.names[axis] = at;
  define(im, 0, x->dtype, &x->shape,
         "for %s => let val %s = %s in if 0 <= %s && %s < %s then %s.[%s] "
         "else %s.[%s] end",
         loop.binders, at, place, at, at, extent_atom(im, y->shape.dims[axis]),
         new_, join_names(im, loop.names, 0, rank), old, items);
}
