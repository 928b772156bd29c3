/* onnx, internal: windows that move over the spatial axes of an image. */
#ifndef AXON_ONNX_WINDOWS_H
#define AXON_ONNX_WINDOWS_H

#include "onnx/ops.h"

enum { MAX_SPATIAL = 6 };

typedef struct Windows {
  uint32_t axes; /* spatial axes */
  int64_t kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
  int64_t before[MAX_SPATIAL], after[MAX_SPATIAL];
  int64_t beyond[MAX_SPATIAL]; /* the part of `after` that ceil_mode adds */
  bool ceil_mode;
  Dim *out[MAX_SPATIAL];
} Windows;

/* An attribute with a positive number for each spatial axis. */
void read_window_list(Importer *im, const char *name, uint32_t axes,
                      int64_t otherwise, int64_t *out);
/* The attribute `pads`. */
void read_window_pads(Importer *im, Windows *w);
/* stride * index + dilation * tap + shift, without numbers that change
   nothing.  sign: that of the second term. */
const char *window_place(Importer *im, int64_t stride, const char *index,
                         const char *sign, int64_t dilation, const char *tap,
                         int64_t shift);

#endif
