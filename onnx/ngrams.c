/* TfIdfVectorizer: how often n-grams of a given pool occur in rows of tokens.
   The tokens of an n-gram may lie at a distance of more than 1. */
#include "onnx/ops.h"

#include <string.h>

enum { MAX_TOKENS = 32 /* in an n-gram */ };

typedef struct Grams {
  const int64_t *pool, *starts; /* of the n-grams of 1, 2, ... tokens in pool */
  const int64_t *columns;       /* of the result, of each n-gram */
  uint32_t pool_count, length_count, gram_count;
  int64_t shortest, longest, distances;
  int64_t column_count;
  int64_t *places;    /* of the n-gram of a column in the counts, or -1 */
  int64_t place_next; /* number of n-grams that are counted */
} Grams;

static const int64_t *all_ints(Importer *im, const char *name,
                               uint32_t *count) {
  enum { MOST = 1 << 20 };
  const Attribute *a = find_attribute(im, name);
  if (!a || a->n_ints == 0 || a->n_ints > MOST)
    import_fail(im, NULL, "the attribute `%s` has no numbers, or too many",
                name);
  *count = (uint32_t)a->n_ints;
  return a->ints;
}

static Grams read_grams(Importer *im) {
  Grams g = {.shortest = attr_int(im, "min_gram_length", 0),
             .longest = attr_int(im, "max_gram_length", 0),
             .distances = attr_int(im, "max_skip_count", 0) + 1};
  if (find_attribute(im, "pool_strings"))
    import_fail(im, NULL, "strings are not supported");
  g.pool = all_ints(im, "pool_int64s", &g.pool_count);
  g.starts = all_ints(im, "ngram_counts", &g.length_count);
  g.columns = all_ints(im, "ngram_indexes", &g.gram_count);
  if (g.shortest < 1 || g.longest < g.shortest || g.longest > MAX_TOKENS ||
      g.distances < 1 || g.distances > INT32_MAX)
    import_fail(im, NULL, "its lengths or its distances are not supported");
  for (uint32_t k = 0; k < g.gram_count; k++) {
    int64_t column = g.columns[k];
    if (column < 0 || column >= g.gram_count * 4L)
      import_fail(im, NULL, "`ngram_indexes` has the number %lld",
                  (long long)column);
    if (column >= g.column_count)
      g.column_count = column + 1;
  }
  g.places = MAKE_ARRAY(im->arena, int64_t, g.column_count);
  for (int64_t c = 0; c < g.column_count; c++)
    g.places[c] = -1;
  return g;
}

/* The tokens of the n-grams with `length` tokens.  Returns their number. */
static uint32_t pool_part(Importer *im, const Grams *g, int64_t length,
                          const int64_t **tokens) {
  int64_t from =
      length > g->length_count ? g->pool_count : g->starts[length - 1];
  int64_t to = length >= g->length_count ? g->pool_count : g->starts[length];
  if (from < 0 || to < from || to > g->pool_count || (to - from) % length)
    import_fail(im, NULL, "`ngram_counts` does not fit `pool_int64s`");
  *tokens = g->pool + from;
  return (uint32_t)((to - from) / length);
}

/* Notes the columns of `count` n-grams, the first of which is gram `id`. */
static void place_grams(Importer *im, Grams *g, uint32_t id, uint32_t count) {
  if (id + count > g->gram_count)
    import_fail(im, NULL, "`ngram_indexes` has too few numbers");
  for (uint32_t k = id; k < id + count; k++) {
    int64_t *place = &g->places[g->columns[k]];
    if (*place >= 0)
      import_fail(im, NULL, "two of its n-grams have the same column");
    *place = g->place_next++;
  }
}

static Value *int_list(Importer *im, const char *name, uint32_t rank,
                       const int64_t *sizes, const int64_t *numbers) {
  Tensor *t = constant_tensor(im, DT_I64, rank, sizes);
  memcpy(t->data, numbers, (size_t)t->count * sizeof *numbers);
  return constant_value(im, text(im, "%s_%s", im->node->output[0], name), t);
}

/* A number that is no token of the pool: it stands behind the rows. */
static int64_t absent_token(const Grams *g) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (uint32_t k = 0; k < g->pool_count; k++) {
    low = g->pool[k] < low ? g->pool[k] : low;
    high = g->pool[k] > high ? g->pool[k] : high;
  }
  return high < INT64_MAX ? high + 1 : low - 1;
}

/* sum (for i < n => select (tokens.[b, i] == pool.[g, 0] && ...) 1.0 0.0), for
   each row and n-gram.  row: `b, ` or nothing. */
static const char *count_text(Importer *im, const Grams *g, const Shape *x,
                              const char *tokens, int64_t length,
                              uint32_t count, const int64_t *pool) {
  int64_t sizes[] = {count, length};
  Value *all =
      int_list(im, text(im, "pool%lld", (long long)length), 2, sizes, pool);
  int64_t distances = length == 1 ? 1 : g->distances;
  const char *b = index_name(im, "b"), *n = index_name(im, "g"),
             *i = index_name(im, "i"), *k = index_name(im, "k");
  const char *row = x->rank == 2 ? text(im, "%s, ", b) : "";
  const char *list = ref(im, all);
  Buffer test = {.arena = im->arena}, out = {.arena = im->arena};
  for (int64_t j = 0; j < length; j++) {
    const char *step = distances == 1 ? text(im, "%lld", (long long)j)
                       : j == 1       ? text(im, "%s + 1", k)
                                : text(im, "%lld * (%s + 1)", (long long)j, k);
    const char *at = j == 0 ? i : text(im, "%s + %s", i, step);
    buffer_printf(&test, "%s%s.[%s%s] == %s.[%s, %lld]", j ? " && " : "",
                  tokens, row, at, list, n, (long long)j);
  }
  if (x->rank == 2)
    buffer_printf(&out, "%s < %s, ", b, extent_atom(im, x->dims[0]));
  buffer_printf(&out, "%s < %u => sum (for ", n, count);
  if (distances > 1)
    buffer_printf(&out, "%s < %lld, ", k, (long long)distances);
  return text(im, "for %s%s < %s => (select (%s) 1.0 0.0 : f32))", out.text, i,
              extent_atom(im, x->dims[x->rank - 1]), test.text);
}

/* The counts of all n-grams; their number is the size of the last axis. */
static const char *counts_text(Importer *im, Grams *g, Value *x) {
  Shape shape = x->shape;
  Buffer parts = {.arena = im->arena};
  int64_t beyond = (g->longest - 1) * g->distances;
  const char *tokens = ref(im, x);
  if (x->dtype != DT_I64)
    tokens = text(im, "(i64 %s)", tokens);
  if (beyond > 0 || x->dtype != DT_I64)
    tokens = local(im, "tokens",
                   text(im, "%s |> pad ~axis:%u ~after:%lld ~value:(%lld)",
                        tokens, shape.rank - 1, (long long)beyond,
                        (long long)absent_token(g)));
  uint32_t id = 0, part_count = 0;
  for (int64_t length = 1; length <= g->longest; length++) {
    const int64_t *pool;
    uint32_t count = pool_part(im, g, length, &pool);
    if (length >= g->shortest && count > 0) {
      place_grams(im, g, id, count);
      const char *part = local(
          im, "counts", count_text(im, g, &shape, tokens, length, count, pool));
      buffer_printf(&parts, part_count++ ? ", %s" : "%s", part);
    }
    id += count;
  }
  if (part_count == 0)
    import_fail(im, NULL, "it has no n-grams of these lengths");
  return part_count == 1 ? parts.text
                         : local(im, "counts",
                                 text(im, "concat ~axis:%u (%s)",
                                      shape.rank - 1, parts.text));
}

/* The column of the counts for column `c` of the result: a column of zeros is
   appended if some column has no n-gram. */
static const char *column_place(Importer *im, Grams *g, uint32_t rank,
                                const char **counts, const char *c) {
  bool is_same = g->place_next == g->column_count, has_zeros = false;
  for (int64_t k = 0; k < g->column_count; k++) {
    is_same = is_same && g->places[k] == k;
    has_zeros = has_zeros || g->places[k] < 0;
    if (g->places[k] < 0)
      g->places[k] = g->place_next;
  }
  if (is_same)
    return c;
  if (has_zeros)
    *counts = local(im, "counts",
                    text(im, "pad ~axis:%u ~after:1 %s", rank - 1, *counts));
  Value *order = int_list(im, "order", 1, &g->column_count, g->places);
  return text(im, "%s.[%s]", ref(im, order), c);
}

/* The weight of the n-gram of column `c`, or NULL: the weights are 1. */
static const char *weight_text(Importer *im, const Grams *g, const char *c) {
  const Attribute *a = find_attribute(im, "weights");
  if (!a || a->n_floats == 0)
    return NULL;
  if (a->n_floats != g->gram_count)
    import_fail(im, NULL, "it has %zu weights for %u n-grams", a->n_floats,
                g->gram_count);
  Tensor *t = constant_tensor(im, DT_F32, 1, &g->column_count);
  float *weights = memset(t->data, 0, (size_t)t->count * sizeof(float));
  for (uint32_t k = 0; k < g->gram_count; k++)
    weights[g->columns[k]] = a->floats[k];
  Value *v = constant_value(im, text(im, "%s_weights", im->node->output[0]), t);
  return text(im, "%s.[%s]", ref(im, v), c);
}

void onnx_tfidf(Importer *im, const char *how) {
  Value *x = input(im, 0);
  Shape shape = x->shape;
  const char *mode = attr_string(im, "mode", "");
  bool is_idf = strcmp(mode, "IDF") == 0, is_tf = strcmp(mode, "TF") == 0;
  (void)how;
  if (shape.rank < 1 || shape.rank > 2 ||
      (x->dtype != DT_I32 && x->dtype != DT_I64) ||
      !(is_tf || is_idf || strcmp(mode, "TFIDF") == 0))
    import_fail(im, NULL, "its input or its mode is not supported");
  Grams g = read_grams(im);
  const char *counts = counts_text(im, &g, x);
  const char *b = index_name(im, "b"), *c = index_name(im, "c");
  const char *place = column_place(im, &g, shape.rank, &counts, c);
  const char *weight = is_tf ? NULL : weight_text(im, &g, c);
  const char *item = text(im, shape.rank == 2 ? "%s.[%s, %s]" : "%s.[%s%s]",
                          counts, shape.rank == 2 ? b : "", place);
  if (is_idf)
    item = text(im, "select (%s > 0.0) %s 0.0", item, weight ? weight : "1.0");
  else if (weight)
    item = text(im, "%s * %s", item, weight);
  shape.dims[shape.rank - 1] = num(im, g.column_count);
  const char *rows =
      shape.rank == 2 ? text(im, "%s < %s, ", b, extent_atom(im, shape.dims[0]))
                      : "";
  define(im, 0, DT_F32, &shape, "for %s%s < %lld => %s", rows, c,
         (long long)g.column_count, item);
}
