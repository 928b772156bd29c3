/* Operators on images: grids, regions and patches. */
#include "onnx/ops.h"

#include <string.h>

/* ---- AffineGrid ---- */

/* The middle of pixel i, or its corner: -1 to 1. */
static const char *grid_place(Importer *im, const char *type, const char *i,
                              Dim *size, bool aligned) {
  const char *n = extent_atom(im, size);
  return aligned
             ? text(im, "(%s (2 * %s) / %s (%s - 1) - 1.0)", type, i, type, n)
             : text(im, "(%s (2 * %s + 1) / %s %s - 1.0)", type, i, type, n);
}

void onnx_affine_grid(Importer *im, const char *how) {
  Value *theta = input(im, 0);
  uint32_t count;
  Dim **size = size_operand(im, 1, NULL, &count);
  uint32_t axes = count - 2;
  bool aligned = attr_int(im, "align_corners", 0);
  (void)how;
  if ((count != 4 && count != 5) || theta->shape.rank != 3 ||
      !dim_equal(theta->shape.dims[1], num(im, axes)) ||
      !dim_equal(theta->shape.dims[2], num(im, axes + 1)))
    import_fail(im, NULL, "its operands do not fit: %s, for %u axes",
                sizes_text(im, &theta->shape), count);
  Shape shape = {.rank = axes + 2, .dims = {theta->shape.dims[0]}};
  for (uint32_t k = 0; k < axes; k++)
    shape.dims[k + 1] = size[k + 2];
  shape.dims[axes + 1] = num(im, axes);
  Loop loop = loop_over(im, &shape);
  const char *all = ref(im, theta), *type = dtype_info[theta->dtype].name;
  const char *row =
      text(im, "%s.[%s, %s", all, loop.names[0], loop.names[axes + 1]);
  const char *sum = text(im, "%s, %u]", row, axes);
  for (uint32_t k = 0; k < axes; k++) /* x is the last axis of the image */
    sum = text(im, "%s + %s, %u] * %s", sum, row, k,
               grid_place(im, type, loop.names[axes - k], size[count - 1 - k],
                          aligned));
  define(im, 0, theta->dtype, &shape, "for %s => %s", loop.binders, sum);
}

/* ---- CenterCropPad ---- */

void onnx_center_crop_pad(Importer *im, const char *how) {
  Value *x = input(im, 0);
  const int64_t *axes;
  uint32_t count, rank = x->shape.rank;
  uint32_t named = attr_ints(im, "axes", &axes);
  Dim **target = int_operand(im, 1, NULL, &count);
  const char *all = ref(im, x);
  Shape shape = x->shape;
  (void)how;
  if (count != (named ? named : rank))
    import_fail(im, NULL, "it has %u sizes for %u axes", count,
                named ? named : rank);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = named ? normal_axis(im, axes[i], rank) : i;
    if (dim_equal(shape.dims[k], target[i]))
      continue;
    int64_t from = dim_number(im, shape.dims[k], "the padding");
    int64_t to = dim_number(im, target[i], "the padding");
    long long before = (from > to ? from - to : to - from) / 2;
    if (to < 0)
      import_fail(im, NULL, "a size is %lld", (long long)to);
    if (from > to)
      all = item_at(im, strchr(all, ' ') ? local(im, "padded", all) : all, k,
                    rank, text(im, "%lld:%lld", before, before + to));
    else
      all = text(im, "%s |> pad ~axis:%u ~before:%lld ~after:%lld", all, k,
                 before, (long long)(to - from) - before);
    shape.dims[k] = target[i];
  }
  define(im, 0, x->dtype, &shape, "%s", all);
}

/* ---- RoiAlign ---- */

/* Names of vectors with an element for each region. */
typedef struct Regions {
  const char *start[2], *bin[2], *points[2]; /* of rows, of columns */
} Regions;

static Regions read_regions(Importer *im, const char *rois,
                            const int64_t *out) {
  Regions r;
  bool half =
      strcmp(attr_string(im, "coordinate_transformation_mode",
                         im->opset < 16 ? "output_half_pixel" : "half_pixel"),
             "half_pixel") == 0;
  const char *scale = float_text(im, attr_float(im, "spatial_scale", 1));
  int64_t points = attr_int(im, "sampling_ratio", 0);
  for (uint32_t k = 0; k < 2; k++) {
    r.start[k] = local(im, "start",
                       text(im, "%s.[:, %u] * %s%s", rois, 1 - k, scale,
                            half ? " - 0.5" : ""));
    const char *size = text(im, "(%s.[:, %u] - %s.[:, %u]) * %s", rois, 3 - k,
                            rois, 1 - k, scale);
    if (!half)
      size = text(im, "maximum 1.0 (%s)", size);
    r.bin[k] =
        local(im, "bin", text(im, "(%s) / %lld.0", size, (long long)out[k]));
    r.points[k] = points > 0
                      ? text(im, "%lld", (long long)points)
                      : local(im, "points",
                              text(im, "maximum 0 (i64 (ceil %s))", r.bin[k]));
  }
  return r;
}

/* The place of point i of bin k in a region: an expression. */
static const char *region_place(Importer *im, const Regions *r, uint32_t axis,
                                const char *type, const char *region,
                                const char *bin, const char *i,
                                const char *points) {
  return text(im, "(%s.[%s] + (%s %s + (%s %s + 0.5) / %s %s) * %s.[%s])",
              r->start[axis], region, type, bin, type, i, type, points,
              r->bin[axis], region);
}

void onnx_roi_align(Importer *im, const char *how) {
  Value *x = input(im, 0), *rois = input(im, 1), *batch = input(im, 2);
  int64_t out[] = {attr_int(im, "output_height", 1),
                   attr_int(im, "output_width", 1)};
  bool is_mean = strcmp(attr_string(im, "mode", "avg"), "avg") == 0;
  (void)how;
  if (x->shape.rank != 4 || rois->shape.rank != 2 || batch->shape.rank != 1 ||
      !dtype_is_float(x->dtype) || out[0] < 1 || out[1] < 1)
    import_fail(im, NULL, "its operands do not fit");
  const char *type = dtype_info[x->dtype].name;
  const char *image = ref(im, x), *at = ref(im, batch);
  Regions r = read_regions(im, ref(im, rois), out);
  Shape shape = {4,
                 0,
                 {rois->shape.dims[0], x->shape.dims[1], num(im, out[0]),
                  num(im, out[1])}};
  Loop loop = loop_over(im, &shape);
  const char *i = index_name(im, "i"), *j = index_name(im, "j");
  const char *region = loop.names[0], *points[2];
  bool is_fixed = attr_int(im, "sampling_ratio", 0) > 0;
  for (uint32_t k = 0; k < 2; k++)
    points[k] =
        is_fixed ? r.points[k] : text(im, "%s.[%s]", r.points[k], region);
  use_helper(im, HELPER_TAPS);
  const char *all = text(
      im,
      "%s (for %s < %s, %s < %s => %s (roi_taps %s.[i64 %s.[%s], %s, ...] %s "
      "%s))",
      is_mean ? "sum" : "max", i, points[0], j, points[1],
      is_mean ? "sum" : "max", image, at, region, loop.names[1],
      region_place(im, &r, 0, type, region, loop.names[2], i, points[0]),
      region_place(im, &r, 1, type, region, loop.names[3], j, points[1]));
  if (is_mean)
    all = text(im, "%s / %s (maximum 1 (%s * %s))", all, type, points[0],
               points[1]);
  define(im, 0, x->dtype, &shape, "for %s => %s", loop.binders, all);
}
