/* Attention: scores, masks, softmax and values; rotary embeddings. */
#include "onnx/ops.h"

#include <math.h>
#include <string.h>

enum { IN_MASK = 3, IN_PAST_KEY, IN_PAST_VALUE, IN_LENGTHS };
enum { ROTARY_COS = 1, ROTARY_SIN, ROTARY_POSITIONS };
enum { MODE_SCORES, MODE_CAPPED, MODE_BIASED, MODE_SOFTMAX };

typedef struct Heads { /* q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] */
  Importer *im;
  Value *q, *k, *v;
  bool is_joined; /* the heads lie side by side in three axes */
  Shape scores;
} Heads;

/* Splits the heads of a tensor with three axes. */
static Value *split_heads(Importer *im, uint32_t i, const char *attribute) {
  Value *x = input(im, i);
  if (x->shape.rank == 4)
    return x;
  int64_t heads = attr_int(im, attribute, 0);
  if (x->shape.rank != 3 || heads < 1)
    import_fail(im, NULL, "its operands need 4 axes, or 3 and `%s`", attribute);
  Value *out = MAKE(im->arena, Value);
  Dim *const *d = x->shape.dims, *n = num(im, heads);
  Dim *size = dim_exact_quotient(&im->dims, d[2], n);
  if (!size)
    import_fail(im, NULL, "`%s` = %lld does not divide %s", attribute,
                (long long)heads, extent_source(im, d[2]));
  Shape split = {4, 0, {d[0], d[1], n, size}};
  out->dtype = x->dtype;
  out->shape = (Shape){4, 0, {d[0], n, d[1], size}};
  out->text =
      local(im, "heads",
            text(im, "%s |> reshape %s |> permute \"b s h d -> b h s d\"",
                 ref(im, x), sizes_text(im, &split)));
  return out;
}

/* Appends to the cache; output `o` is the whole. */
static Value *with_past(Importer *im, Value *x, uint32_t past, uint32_t o) {
  Value *out = x;
  if (has_input(im, past)) {
    Value *before = input(im, past);
    out = MAKE(im->arena, Value);
    *out = *x;
    if (before->shape.rank != 4)
      import_fail(im, NULL, "the cache must have four axes");
    out->shape.dims[2] =
        dim_add(&im->dims, before->shape.dims[2], x->shape.dims[2]);
    const char *first = ref(im, before), *rest = ref(im, x);
    out->text =
        local(im, "present", text(im, "concat ~axis:2 (%s, %s)", first, rest));
  }
  define(im, o, out->dtype, &out->shape, "%s", ref(im, out));
  return out;
}

/* Each head of the keys serves several heads of the queries. */
static const char *repeated(const Heads *h, Value *x) {
  Importer *im = h->im;
  int64_t heads = dim_number(im, h->q->shape.dims[1], "the heads");
  int64_t groups = dim_number(im, x->shape.dims[1], "the heads");
  if (groups < 1 || heads % groups)
    import_fail(im, NULL,
                "%lld heads of queries are no multiple of %lld heads of keys "
                "and values",
                (long long)heads, (long long)groups);
  return heads == groups ? ref(im, x)
                         : text(im, "(repeat ~axis:1 %lld %s)",
                                (long long)(heads / groups), ref(im, x));
}

/* The mask over all keys; keys that it does not have are masked. */
static Value *whole_mask(const Heads *h) {
  Importer *im = h->im;
  Value *mask = input(im, IN_MASK);
  uint32_t rank = mask->shape.rank;
  if (rank == 0 || rank > 4)
    import_fail(im, NULL, "its mask needs 1 to 4 axes");
  Dim *missing =
      dim_sub(&im->dims, h->scores.dims[3], mask->shape.dims[rank - 1]);
  int64_t n;
  if (!dim_is_int(missing, &n) || n <= 0 || is_one(mask->shape.dims[rank - 1]))
    return mask;
  Value *out = MAKE(im->arena, Value);
  *out = *mask;
  out->tensor = NULL;
  out->shape.dims[rank - 1] = h->scores.dims[3];
  out->text = local(
      im, "mask",
      text(im, "pad ~axis:%u ~after:%lld ~value:%s %s", rank - 1, (long long)n,
           mask->dtype == DT_BOOL ? "false" : "(-inf)", ref(im, mask)));
  return out;
}

/* Conditions on positions of queries and keys, or NULL. */
static const char *allowed_keys(const Heads *h) {
  Importer *im = h->im;
  Buffer b = {.arena = im->arena};
  int64_t left = attr_int(im, "left_window_size", -1);
  int64_t right = attr_int(im, "right_window_size", -1);
  bool is_causal = attr_int(im, "is_causal", 0);
  const char *rows = extent_atom(im, h->scores.dims[2]), *lengths = NULL;
  if (!is_causal && left < 0 && right < 0 && !has_input(im, IN_LENGTHS))
    return NULL;
  Dim *past = has_input(im, IN_PAST_KEY) ? input(im, IN_PAST_KEY)->shape.dims[2]
                                         : num(im, 0);
  const char *j = local(
      im, "keys", text(im, "iota %s", extent_atom(im, h->scores.dims[3])));
  const char *i =
      text(im, "(%s + iota %s).[:, *]", extent_atom(im, past), rows);
  if (has_input(im, IN_LENGTHS)) {
    lengths =
        local(im, "lengths",
              text(im, "i64 %s.[:, *, *, *]", ref(im, input(im, IN_LENGTHS))));
    i = text(im, "%s - %s + %s", lengths, rows, i);
  }
  i = local(im, "queries", i);
  if (is_causal)
    buffer_printf(&b, " && %s <= %s", j, i);
  if (left >= 0)
    buffer_printf(&b, " && %s - %s <= %lld", i, j, (long long)left);
  if (right >= 0)
    buffer_printf(&b, " && %s - %s <= %lld", j, i, (long long)right);
  if (lengths)
    buffer_printf(&b, " && %s < %s", j, lengths);
  return local(im, "allowed", b.text + 4);
}

static const char *biased_scores(const Heads *h, const char *scores) {
  Importer *im = h->im;
  const char *allowed = allowed_keys(h);
  if (has_input(im, IN_MASK)) {
    Value s = {.dtype = h->q->dtype, .shape = h->scores, .text = scores};
    Value *v[] = {&s, whole_mask(h)};
    const char *texts[2] = {0};
    align(im, 2, v, texts);
    scores = local(im, "masked",
                   v[1]->dtype == DT_BOOL
                       ? text(im, "select %s %s (-inf)", texts[1], scores)
                       : text(im, "%s + %s", scores, texts[1]));
  }
  return allowed ? local(im, "masked",
                         text(im, "select %s %s (-inf)", allowed, scores))
                 : scores;
}

/* Rows without any key are 0. */
static const char *weights(const Heads *h, const char *scores, bool is_masked) {
  Importer *im = h->im;
  int64_t type = attr_int(im, "softmax_precision", 0);
  Dtype wide = type ? dtype_of_onnx((int32_t)type) : h->q->dtype;
  const char *own = dtype_info[h->q->dtype].name;
  if (!dtype_is_float(wide))
    import_fail(im, NULL, "its `softmax_precision` is not supported");
  const char *all = text(im, "softmax %s", scores);
  if (wide != h->q->dtype)
    all = text(im, "%s (softmax (%s %s))", own, dtype_info[wide].name, scores);
  if (is_masked)
    all = text(im, "select (max ~axis:3 ~keep:true %s == -inf) 0.0 (%s)",
               scores, all);
  return local(im, "weights", all);
}

static Heads read_heads(Importer *im) {
  Heads h = {.im = im, .is_joined = input(im, 0)->shape.rank == 3};
  h.q = split_heads(im, 0, "q_num_heads");
  h.k = with_past(im, split_heads(im, 1, "kv_num_heads"), IN_PAST_KEY, 1);
  h.v = with_past(im, split_heads(im, 2, "kv_num_heads"), IN_PAST_VALUE, 2);
  if (dims_differ(h.q->shape.dims[3], h.k->shape.dims[3]))
    import_fail(im, NULL, "queries have heads of size %s, keys of size %s",
                extent_source(im, h.q->shape.dims[3]),
                extent_source(im, h.k->shape.dims[3]));
  if (dims_differ(h.k->shape.dims[2], h.v->shape.dims[2]))
    import_fail(im, NULL, "there are %s keys, but %s values",
                extent_source(im, h.k->shape.dims[2]),
                extent_source(im, h.v->shape.dims[2]));
  h.scores = h.q->shape;
  h.scores.dims[3] = h.k->shape.dims[2];
  return h;
}

static void define_result(const Heads *h, const char *p) {
  Importer *im = h->im;
  Shape shape = h->q->shape;
  shape.dims[3] = h->v->shape.dims[3];
  const char *all = text(im, "%s @ %s", p, repeated(h, h->v));
  if (!h->is_joined) {
    define(im, 0, h->q->dtype, &shape, "%s", all);
    return;
  }
  Shape joined = {3,
                  0,
                  {shape.dims[0], shape.dims[2],
                   dim_mul(&im->dims, shape.dims[1], shape.dims[3])}};
  define(im, 0, h->q->dtype, &joined,
         "%s |> permute \"b h s d -> b s h d\" |> reshape %s", all,
         sizes_text(im, &joined));
}

void onnx_attention(Importer *im, const char *how) {
  Heads h = read_heads(im);
  const Attribute *given = find_attribute(im, "scale");
  float cap = attr_float(im, "softcap", 0);
  double scale = given ? given->f
                       : 1 / sqrt((double)dim_number(im, h.q->shape.dims[3],
                                                     "the size of a head"));
  const char *steps[4], *s, *root;
  int64_t mode = attr_int(im, "qk_matmul_output_mode", 0);
  (void)how;
  if (mode < 0 || mode > MODE_SOFTMAX)
    import_fail(im, NULL, "its `qk_matmul_output_mode` is invalid");
  if (!(scale >= 0))
    import_fail(im, NULL, "its scale is negative");
  root = float_text(im, sqrt(scale));
  const char *queries = ref(im, h.q), *keys = repeated(&h, h.k);
  steps[MODE_SCORES] = s = local(
      im, "scores",
      text(im, "(%s * %s) @ transpose (%s * %s)", queries, root, keys, root));
  if (cap > 0)
    s = local(im, "capped",
              text(im, "%s * tanh (%s / %s)", float_text(im, cap), s,
                   float_text(im, cap)));
  steps[MODE_CAPPED] = s;
  steps[MODE_BIASED] = biased_scores(&h, s);
  bool is_masked = steps[MODE_BIASED] != s;
  steps[MODE_SOFTMAX] = weights(&h, steps[MODE_BIASED], is_masked);
  define_result(&h, steps[MODE_SOFTMAX]);
  define(im, 3, h.q->dtype, &h.scores, "%s", steps[mode]);
}

/* ---- rotary embedding ---- */

typedef struct Rotary {
  const char *b, *h, *t, *k;
  const char *binders; /* b < 2, h < 4, t < n */
  int64_t half;        /* pairs that are rotated */
  bool interleaved;    /* elements of a pair are neighbours */
} Rotary;

/* A cosine or sine: a table has a row for each token, or for each position. */
static const char *rotation(Importer *im, const Rotary *r, uint32_t i) {
  Value *table = input(im, i);
  const char *s = ref(im, table);
  bool has_positions = has_input(im, ROTARY_POSITIONS);
  uint32_t rank = has_positions ? 2 : 3;
  if (table->shape.rank != rank ||
      dim_number(im, table->shape.dims[rank - 1], "a table") != r->half)
    import_fail(im, NULL,
                "the table %s must have %u axes, and %lld numbers for each "
                "token or position",
                sizes_text(im, &table->shape), rank, (long long)r->half);
  if (!has_positions)
    return text(im, "%s.[%s, %s, %s]", s, r->b, r->t, r->k);
  use_helper(im, HELPER_WRAP);
  return text(im, "%s.[wrap %s %s.[%s, %s], %s]", s,
              extent_atom(im, table->shape.dims[0]),
              ref(im, input(im, ROTARY_POSITIONS)), r->b, r->t, r->k);
}

static Rotary read_rotary(Importer *im, const Value *x) {
  Rotary r = {.b = index_name(im, "b"),
              .h = index_name(im, "h"),
              .t = index_name(im, "t"),
              .k = index_name(im, "k")};
  Dim *const *d = x->shape.dims;
  int64_t size = dim_number(im, d[3], "the size of a head");
  int64_t rotated = attr_int(im, "rotary_embedding_dim", 0);
  rotated = rotated ? rotated : size;
  if (rotated < 2 || rotated > size || rotated % 2)
    import_fail(im, NULL, "%lld elements of %lld cannot be rotated",
                (long long)rotated, (long long)size);
  r.half = rotated / 2;
  r.interleaved = attr_int(im, "interleaved", 0);
  r.binders = text(im, "%s < %s, %s < %s, %s < %s", r.b, extent_atom(im, d[0]),
                   r.h, extent_atom(im, d[1]), r.t, extent_atom(im, d[2]));
  return r;
}

/* One part of each pair: x1 * factor + sign x2 * other. */
static const char *rotated_part(Importer *im, const Rotary *r, const char *x,
                                const char *name, uint32_t factor,
                                const char *sign, uint32_t other) {
  const char *first = r->interleaved ? text(im, "2 * %s", r->k) : r->k;
  const char *second = r->interleaved
                           ? text(im, "2 * %s + 1", r->k)
                           : text(im, "%s + %lld", r->k, (long long)r->half);
  const char *at = text(im, "%s.[%s, %s, %s", x, r->b, r->h, r->t);
  const char *by = rotation(im, r, factor);
  const char *by_other = rotation(im, r, other);
  return local(im, name,
               text(im, "for %s, %s < %lld => %s, %s] * %s %s %s, %s] * %s",
                    r->binders, r->k, (long long)r->half, at, first, by, sign,
                    at, second, by_other));
}

void onnx_rotary(Importer *im, const char *how) {
  Value *whole = input(im, 0), *x = split_heads(im, 0, "num_heads");
  Rotary r = read_rotary(im, x);
  const char *in = ref(im, x), *at = text(im, "[%s, %s, %s", r.b, r.h, r.t);
  (void)how;
  const char *re =
      rotated_part(im, &r, in, "rotated", ROTARY_COS, "-", ROTARY_SIN);
  const char *other =
      rotated_part(im, &r, in, "other", ROTARY_SIN, "+", ROTARY_COS);
  long long half = (long long)r.half;
  const char *pair =
      r.interleaved
          ? text(im, "if %s %% 2 == 0 then %s.%s, %s / 2] else %s.%s, %s / 2]",
                 r.k, re, at, r.k, other, at, r.k)
          : text(im, "if %s < %lld then %s.%s, %s] else %s.%s, %s - %lld]", r.k,
                 half, re, at, r.k, other, at, r.k, half);
  const char *size = extent_atom(im, x->shape.dims[3]);
  if (dim_number(im, x->shape.dims[3], "the size of a head") > 2 * r.half)
    pair = text(im, "if %s < %lld then (%s) else %s.%s, %s]", r.k, 2 * half,
                pair, in, at, r.k);
  const char *all =
      text(im, "for %s, %s < %s => %s", r.binders, r.k, size, pair);
  if (whole->shape.rank == 3)
    all = text(im, "%s |> permute \"b s h d -> b h s d\" |> reshape %s",
               local(im, "heads", all), sizes_text(im, &whole->shape));
  define(im, 0, x->dtype, &whole->shape, "%s", all);
}
