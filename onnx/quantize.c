/* QuantizeLinear and DequantizeLinear, for integers of 8 and 32 bits. */
#include "onnx/ops.h"

#include <string.h>

enum { IN_SCALE = 1, IN_ZERO };

/* A number for the whole tensor, or one for each index of an axis. */
static const char *along_axis(Importer *im, Value *v, uint32_t rank) {
  const char *s = ref(im, v);
  Buffer stars = {.arena = im->arena};
  if (v->shape.rank == 0)
    return s;
  if (v->shape.rank > 1)
    import_fail(im, NULL, "scales of blocks are not supported");
  if (is_one(v->shape.dims[0]))
    return text(im, "%s.[0]", s);
  uint32_t axis = normal_axis(im, attr_int(im, "axis", 1), rank);
  for (uint32_t k = axis + 1; k < rank; k++)
    buffer_puts(&stars, ", *");
  return stars.text ? text(im, "%s.[:%s]", s, stars.text) : s;
}

void onnx_dequantize(Importer *im, const char *how) {
  Value *x = input(im, 0), *scale = input(im, IN_SCALE);
  const char *type = dtype_info[scale->dtype].name;
  const char *all = text(im, "%s %s", type, ref(im, x));
  (void)how;
  if (attr_int(im, "block_size", 0))
    import_fail(im, NULL, "scales of blocks are not supported");
  if (has_input(im, IN_ZERO))
    all = text(im, "%s - %s %s", all, type,
               along_axis(im, input(im, IN_ZERO), x->shape.rank));
  define(im, 0, scale->dtype, &x->shape, "(%s) * %s", all,
         along_axis(im, scale, x->shape.rank));
}

void onnx_quantize(Importer *im, const char *how) {
  Value *x = input(im, 0), *scale = input(im, IN_SCALE);
  int64_t type = attr_int(im, "output_dtype", 0);
  Dtype dtype = has_input(im, IN_ZERO) ? input(im, IN_ZERO)->dtype
                : type                 ? dtype_of_onnx((int32_t)type)
                                       : DT_U8;
  (void)how;
  if ((dtype != DT_U8 && dtype != DT_I8) || attr_int(im, "block_size", 0))
    import_fail(im, NULL, "this kind of quantization is not supported");
  const char *own = dtype_info[scale->dtype].name;
  const char *all = text(im, "round (%s %s / %s)", own, ref(im, x),
                         along_axis(im, scale, x->shape.rank));
  if (has_input(im, IN_ZERO))
    all = text(im, "%s + %s %s", all, own,
               along_axis(im, input(im, IN_ZERO), x->shape.rank));
  define(im, 0, dtype, &x->shape, "%s (clamp %s (%s))", dtype_info[dtype].name,
         dtype == DT_U8 ? "0.0 255.0" : "(-128.0) 127.0", all);
}
