/* ScatterElements and ScatterND: rows x[n, c], indices at[k], rows y[k, c]. */
#include "onnx/ops.h"

#include <string.h>

typedef struct Scatter {
  Value *x, *y;
  const char *at;           /* k row numbers */
  Dim *n, *k, *c;           /* rows of x, rows of y, elements of a row */
  const char *reduction;    /* add, mul, max, min, none */
  const char *row, *column; /* indices of x */
} Scatter;

/* What stands at row r, column j. */
static const char *combined(Importer *im, const Scatter *s, const char *x,
                            const char *y) {
  const char *k = index_name(im, "k"), *r = s->row, *j = s->column;
  const char *count = extent_atom(im, s->k);
  const char *hit =
      text(im, "for %s < %s => if %s.[%s] == %s then %s.[%s, %s] else", k,
           count, s->at, k, r, y, k, j);
  if (strcmp(s->reduction, "mul") == 0)
    return text(im, "%s.[%s, %s] * prod (%s 1)", x, r, j, hit);
  if (strcmp(s->reduction, "max") == 0 || strcmp(s->reduction, "min") == 0)
    return text(im, "%simum %s.[%s, %s] (%s (%s %s.[%s, %s]))", s->reduction, x,
                r, j, s->reduction, hit, x, r, j);
  if (strcmp(s->reduction, "none") != 0)
    import_fail(im, NULL, "the reduction `%.20s` is not supported",
                s->reduction);
  const char *place = local(
      im, "place",
      text(im, "scatter (zeros [%s]) %s (1 + iota %s : i64[%s])",
           extent_source(im, s->n), s->at, count, extent_source(im, s->k)));
  return text(im, "if %s.[%s] > 0 then %s.[%s.[%s] - 1, %s] else %s.[%s, %s]",
              place, r, y, place, r, j, x, r, j);
}

static void define_scatter(Importer *im, const Scatter *s) {
  Shape rows = {2, 0, {s->n, s->c}}, updates = {2, 0, {s->k, s->c}};
  const Shape *shape = &s->x->shape;
  if (value_count(im, s->y) == 0) {
    define_alias(im, 0, s->x);
    return;
  }
  const char *x =
      local(im, "rows",
            text(im, "reshape %s %s", sizes_text(im, &rows), ref(im, s->x)));
  const char *y =
      local(im, "updates",
            text(im, "reshape %s %s", sizes_text(im, &updates), ref(im, s->y)));
  if (strcmp(s->reduction, "add") == 0)
    define(im, 0, s->x->dtype, shape, "reshape %s (scatter %s %s %s)",
           sizes_text(im, shape), x, s->at, y);
  else
    define(im, 0, s->x->dtype, shape, "reshape %s (for %s < %s, %s < %s => %s)",
           sizes_text(im, shape), s->row, extent_atom(im, s->n), s->column,
           extent_atom(im, s->c), combined(im, s, x, y));
}

static const char *counted_from_end(Importer *im, Dim *size,
                                    const char *index) {
  use_helper(im, HELPER_WRAP);
  return text(im, "wrap %s (%s)", extent_atom(im, size), index);
}

/* The updates have the first axes of the indices and the last ones of x. */
static void check_updates(Importer *im, const Shape *at, uint32_t count,
                          const Shape *x, uint32_t from) {
  const Shape *y = &input(im, 2)->shape;
  Shape shape = *at;
  shape.rank = count;
  for (uint32_t k = from; k < x->rank && shape.rank < MAX_RANK; k++)
    shape.dims[shape.rank++] = x->dims[k];
  bool fits = y->rank == shape.rank;
  for (uint32_t k = 0; fits && k < shape.rank; k++)
    fits = !dims_differ(y->dims[k], shape.dims[k]);
  if (!fits)
    import_fail(im, NULL, "its updates are %s, its indices need %s",
                sizes_text(im, y), sizes_text(im, &shape));
}

void onnx_scatter_elements(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  uint32_t rank = x->shape.rank;
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 0), rank);
  Buffer binders = {.arena = im->arena}, items = {.arena = im->arena};
  Buffer place = {.arena = im->arena};
  const char *names[MAX_RANK];
  (void)how;
  if (at->shape.rank != rank)
    import_fail(im, NULL, "its operands have different ranks");
  check_updates(im, &at->shape, rank, &at->shape, rank);
  for (uint32_t k = 0; k < rank; k++) {
    names[k] = index_name(im, text(im, "i%u", k));
    buffer_printf(&binders, "%s%s < %s", k ? ", " : "", names[k],
                  extent_atom(im, at->shape.dims[k]));
    buffer_printf(&items, "%s%s", k ? ", " : "", names[k]);
  }
  const char *index = text(im, "i64 %s.[%s]", ref(im, at), items.text);
  index = counted_from_end(im, x->shape.dims[axis], index);
  for (uint32_t k = 0; k < rank; k++)
    buffer_printf(&place, "%s(%s) * %s", k ? " + " : "",
                  k == axis ? index : names[k],
                  extent_atom(im, dims_product(im, &x->shape, k + 1, rank)));
  Value *y = input(im, 2);
  Scatter s = {.x = x,
               .y = y,
               .n = dims_product(im, &x->shape, 0, rank),
               .k = dims_product(im, &at->shape, 0, rank),
               .c = num(im, 1),
               .reduction = attr_string(im, "reduction", "none"),
               .row = index_name(im, "r"),
               .column = index_name(im, "j")};
  s.at = local(im, "at",
               text(im, "reshape [%s] (for %s => %s)", extent_source(im, s.k),
                    binders.text, place.text));
  define_scatter(im, &s);
}

void onnx_scatter_nd(Importer *im, const char *how) {
  Value *x = input(im, 0), *at = input(im, 1);
  uint32_t rank = at->shape.rank;
  Buffer place = {.arena = im->arena};
  (void)how;
  if (rank == 0)
    import_fail(im, NULL, "its indices have no axes");
  int64_t depth = dim_number(im, at->shape.dims[rank - 1], "the indices");
  if (depth < 1 || depth > x->shape.rank)
    import_fail(im, NULL, "the indices do not fit the operand");
  uint32_t used = (uint32_t)depth;
  check_updates(im, &at->shape, rank - 1, &x->shape, used);
  Value *y = input(im, 2);
  Scatter s = {.x = x,
               .y = y,
               .n = dims_product(im, &x->shape, 0, used),
               .k = dims_product(im, &at->shape, 0, rank - 1),
               .c = dims_product(im, &x->shape, used, x->shape.rank),
               .reduction = attr_string(im, "reduction", "none"),
               .row = index_name(im, "r"),
               .column = index_name(im, "j")};
  Shape flat = {2, 0, {s.k, num(im, depth)}};
  const char *rows = local(
      im, "indices",
      text(im, "i64 (reshape %s %s)", sizes_text(im, &flat), ref(im, at)));
  for (uint32_t k = 0; k < used; k++)
    buffer_printf(
        &place, "%s(%s) * %s", k ? " + " : "",
        counted_from_end(im, x->shape.dims[k], text(im, "%s.[:, %u]", rows, k)),
        extent_atom(im, dims_product(im, &x->shape, k + 1, used)));
  s.at = local(im, "at", place.text);
  define_scatter(im, &s);
}
