/* Operators whose results have as many elements as the data say. */
#include "onnx/ops.h"

#include <string.h>

/* Binds a new name to a tensor with one axis of a new size. */
static const char *counted(Importer *im, const char *wish, Dim *size,
                           const char *expression) {
  const char *name = make_identifier(im, wish, "value", 30);
  Statement s = {.name =
                     text(im, "%s : i64[%s]", name, extent_source(im, size)),
                 .text = expression};
  VEC_PUSH(im->arena, im->statements, s);
  return name;
}

static const char *flattened(Importer *im, Value *x) {
  if (x->shape.rank == 1)
    return ref(im, x);
  Dim *all = dims_product(im, &x->shape, 0, x->shape.rank);
  return local(im, "flat",
               text(im, "reshape [%s] %s", extent_source(im, all), ref(im, x)));
}

static const char *as_test(Importer *im, const Value *x, const char *flat) {
  return x->dtype == DT_BOOL ? flat : text(im, "(%s != 0)", flat);
}

/* The indices of an element of the flat tensor. */
void onnx_nonzero(Importer *im, const char *how) {
  Value *x = input(im, 0);
  uint32_t rank = x->shape.rank;
  (void)how;
  if (rank == 0)
    import_fail(im, NULL, "its input has no axes");
  const char *test = as_test(im, x, flattened(im, x));
  Dim *count = new_size(im, "count");
  Shape shape = {2, 0, {num(im, rank), count}};
  const char *at = counted(im, "places", count, text(im, "nonzero %s", test));
  Buffer rows = {.arena = im->arena};
  for (uint32_t k = 0; k < rank; k++) {
    Dim *inner = dims_product(im, &x->shape, k + 1, rank);
    const char *row = at;
    if (!is_one(inner))
      row = text(im, "%s / %s", row, extent_atom(im, inner));
    if (k > 0)
      row = text(im, "%s %% %s", row, extent_atom(im, x->shape.dims[k]));
    buffer_printf(&rows, k ? ", %s" : "%s", row);
  }
  define(im, 0, DT_I64, &shape, "[%s]", rows.text);
}

/* Rows at the indices of true elements. */
void onnx_compress(Importer *im, const char *how) {
  Value *x = input(im, 0), *condition = input(im, 1);
  const Attribute *a = find_attribute(im, "axis");
  uint32_t rank = a ? x->shape.rank : 1;
  uint32_t axis = a ? normal_axis(im, attr_int(im, "axis", 0), rank) : 0;
  const char *all = a ? ref(im, x) : flattened(im, x);
  (void)how;
  if (condition->shape.rank != 1 || condition->dtype != DT_BOOL)
    import_fail(im, NULL, "its condition is not a list of truth values");
  Dim *count = new_size(im, "count");
  const char *at =
      counted(im, "places", count, text(im, "nonzero %s", ref(im, condition)));
  Shape shape = {.rank = 1};
  if (a)
    shape = x->shape;
  shape.dims[axis] = count;
  define(im, 0, x->dtype, &shape, "%s", item_at(im, all, axis, rank, at));
}

/* ---- Unique ---- */

typedef struct Groups { /* of equal rows, in ascending order */
  Dim *size, *count;    /* of rows, of groups */
  const char *order;    /* the rows, sorted */
  const char *group;    /* of each row of `order` */
  const char *start;    /* of each group in `order` */
} Groups;

/* rows: a matrix */
static Groups equal_rows(Importer *im, const char *rows, Dim *size) {
  Groups g = {.size = size, .count = new_size(im, "count")};
  use_helper(im, HELPER_ROW_ORDER);
  use_helper(im, HELPER_FIRST_ROWS);
  g.order = local(im, "order", text(im, "row_order %s", rows));
  const char *first =
      local(im, "first", text(im, "first_rows %s %s", rows, g.order));
  g.group = local(im, "group", text(im, "cumsum (i64 %s) - 1", first));
  g.start = counted(im, "start", g.count, text(im, "nonzero %s", first));
  return g;
}

void onnx_unique(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const Attribute *a = find_attribute(im, "axis");
  uint32_t rank = a ? x->shape.rank : 1;
  uint32_t axis = a ? normal_axis(im, attr_int(im, "axis", 0), rank) : 0;
  bool is_sorted = attr_int(im, "sorted", 1);
  (void)how;
  if (x->dtype == DT_BOOL || x->shape.rank == 0)
    import_fail(im, NULL, "its input is not supported");
  const char *all = a ? ref(im, x) : flattened(im, x);
  Dim *whole = dims_product(im, &x->shape, 0, x->shape.rank);
  Dim *size = a ? x->shape.dims[axis] : whole, *columns = num(im, 1);
  for (uint32_t k = 0; a && k < rank; k++)
    if (k != axis)
      columns = dim_mul(&im->dims, columns, x->shape.dims[k]);
  const char *rows = local(
      im, "rows",
      text(im, "reshape [%s, %s] %s", extent_source(im, size),
           extent_source(im, columns), move_axis(im, all, rank, axis, 0)));
  Groups g = equal_rows(im, rows, size);
  const char *m = extent_atom(im, size);
  const char *index = local(im, "index", text(im, "%s.[%s]", g.order, g.start));
  const char *inverse = local(
      im, "inverse",
      text(im, "scatter (zeros [%s] : i64[%s]) %s %s", m, m, g.order, g.group));
  use_helper(im, HELPER_GROUP_SIZES);
  const char *counts =
      local(im, "counts", text(im, "group_sizes %s %s", m, g.start));
  if (!is_sorted) { /* in the order of the first rows */
    const char *by = local(im, "by", text(im, "argsort %s", index));
    index = text(im, "%s.[%s]", index, by);
    counts = text(im, "%s.[%s]", counts, by);
    inverse = text(im, "(argsort %s).[%s]", by, inverse);
    index = local(im, "index", index);
  }
  Shape shape = {.rank = 1}, list = {.rank = 1};
  if (a)
    shape = x->shape;
  shape.dims[axis] = list.dims[0] = g.count;
  define(im, 0, x->dtype, &shape, "%s", item_at(im, all, axis, rank, index));
  define(im, 1, DT_I64, &list, "%s", index);
  define(im, 3, DT_I64, &list, "%s", counts);
  list.dims[0] = size;
  define(im, 2, DT_I64, &list, "%s", inverse);
}

/* ---- NonMaxSuppression ---- */

/* The boxes as two opposite corners, the lower one first. */
static const char *corners(Importer *im, Value *boxes) {
  const char *all = ref(im, boxes);
  const char *item[4];
  for (int k = 0; k < 4; k++)
    item[k] = text(im, "%s.[..., %d]", all, k);
  const char *low[2], *high[2];
  for (int k = 0; k < 2; k++)
    if (attr_int(im, "center_point_box", 0)) {
      low[k] = text(im, "%s - %s / 2.0", item[k], item[k + 2]);
      high[k] = text(im, "%s + %s / 2.0", item[k], item[k + 2]);
    } else {
      low[k] = text(im, "minimum %s %s", item[k], item[k + 2]);
      high[k] = text(im, "maximum %s %s", item[k], item[k + 2]);
    }
  return local(im, "corners",
               text(im, "permute \"c b n -> b n c\" [%s, %s, %s, %s]", low[0],
                    low[1], high[0], high[1]));
}

/* An operand with one element, which may be missing. */
static const char *threshold(Importer *im, uint32_t i) {
  return has_input(im, i) ? scalar_text(im, raw_input(im, i)) : NULL;
}

void onnx_nms(Importer *im, const char *how) {
  Value *boxes = input(im, 0), *scores = input(im, 1);
  (void)how;
  if (boxes->shape.rank != 3 || scores->shape.rank != 3 ||
      !dtype_is_float(boxes->dtype) || !dtype_is_float(scores->dtype))
    import_fail(im, NULL, "its boxes and scores must be floats of three axes");
  Dim *n = scores->shape.dims[2], *limit = num(im, 0);
  if (has_input(im, 2)) {
    uint32_t count;
    Dim **most = size_operand(im, 2, NULL, &count);
    if (count != 1)
      import_fail(im, NULL, "`max_output_boxes_per_class` is not one number");
    limit = extreme_size(im, most[0], n, true);
    if (dim_is_const(limit) && dim_sign(limit) < 0)
      limit = num(im, 0);
  }
  const char *box = corners(im, boxes), *score = ref(im, scores);
  const char *overlap = threshold(im, 3), *least = threshold(im, 4);
  if (least)
    score = local(im, "score",
                  text(im, "select (%s > %s) %s (-inf)", score, least, score));
  use_helper(im, HELPER_BEST);
  const char *batch = extent_atom(im, boxes->shape.dims[0]);
  const char *classes = extent_atom(im, scores->shape.dims[1]);
  const char *b = index_name(im, "b"), *c = index_name(im, "c");
  Dim *lists = dim_mul(&im->dims, boxes->shape.dims[0], scores->shape.dims[1]);
  const char *most = extent_atom(im, limit);
  const char *best = local(
      im, "best",
      text(im,
           "reshape [%s] (for %s < %s, %s < %s => best_boxes %s %s "
           "%s.[%s, ...] %s.[%s, %s, :])",
           extent_source(im, dim_mul(&im->dims, lists, limit)), b, batch, c,
           classes, most, overlap ? overlap : "0.0", box, b, score, b, c));
  Dim *count = new_size(im, "count");
  const char *at =
      counted(im, "places", count, text(im, "nonzero (%s >= 0)", best));
  Shape shape = {2, 0, {count, num(im, 3)}};
  define(im, 0, DT_I64, &shape, "transpose [%s / %s, %s / %s %% %s, %s.[%s]]",
         at, extent_atom(im, dim_mul(&im->dims, scores->shape.dims[1], limit)),
         at, most, classes, best, at);
}
