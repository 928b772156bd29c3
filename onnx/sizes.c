/* Sizes of axes in a model: numbers, or computed from the shapes of inputs. */
#include "onnx/emit.h"

int64_t known_extent(Exporter *x, int64_t extent) {
  return extent_is_static(x->graph, extent) ? extent : -1;
}

const char *put_extent(Exporter *x, int64_t extent) {
  if (extent_is_static(x->graph, extent))
    return put_int(x, extent);
  return put_dim(x, NULL, extent_dim(x->graph, extent)).name;
}

const char *put_shape(Exporter *x, uint32_t count, const int64_t *extents) {
  bool is_known = true;
  for (uint32_t k = 0; k < count; k++)
    is_known &= extent_is_static(x->graph, extents[k]);
  if (is_known)
    return put_list(x, count, extents);
  int64_t zero = 0;
  OpMessage *concat = op_new(x, "Concat");
  op_int(x, concat, "axis", 0);
  for (uint32_t k = 0; k < count; k++) {
    if (extent_is_static(x->graph, extents[k])) {
      op_input(x, concat, put_list(x, 1, &extents[k]));
      continue;
    }
    const char *size = put_extent(x, extents[k]);
    op_input(x, concat,
             put_op(x, "Unsqueeze", size, put_list(x, 1, &zero), NULL));
  }
  return op_output(x, concat);
}
