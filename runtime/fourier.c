/* Fourier transforms.  `axon build` writes the included source, too. */
#include "runtime/fourier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fourier.inc"

static FftwFunctions double_functions, float_functions;
static const DynLib double_library = {
    "libfftw3.so.3", "libfftw3-double3",
    (const char *const[])FOURIER_SYMBOLS("fftw"), &double_functions};
static const DynLib float_library = {
    "libfftw3f.so.3", "libfftw3-single3",
    (const char *const[])FOURIER_SYMBOLS("fftwf"), &float_functions};

bool fourier_load_library(Dtype dtype, Fault *fault) {
  return dynlib_load(dtype == DT_F64 ? &double_library : &float_library, fault);
}

static FourierAxis axis_of(const FourierLines *l, int64_t slice) {
  FourierAxis a = {.kind = l->op == PRIM_REAL_DFT ? FOURIER_REAL
                           : l->op == PRIM_INVERSE_REAL_DFT
                               ? FOURIER_INVERSE_REAL
                               : FOURIER_COMPLEX,
                   .is_inverse = l->is_inverse,
                   .is_double = l->dtype == DT_F64,
                   .outer = l->outer,
                   .length = l->length,
                   .inner = l->inner};
  int64_t bytes = dtype_info[l->dtype].bytes, lines = l->outer * l->inner;
  int64_t from = slice * lines * fourier_from_length(&a) * bytes;
  int64_t part = lines * fourier_to_length(&a) * bytes;
  bool has_parts = a.kind != FOURIER_INVERSE_REAL;
  a.to_re = (char *)l->to + slice * part * (has_parts ? 2 : 1);
  a.to_im = has_parts ? (char *)a.to_re + part : NULL;
  a.re = l->re ? (const char *)l->re + from : a.to_re;
  a.im = l->im ? (const char *)l->im + from : l->re ? NULL : a.to_im;
  return a;
}

int64_t fourier_task_count(const FourierLines *l) {
  FourierAxis a = axis_of(l, 0);
  return l->slices * fourier_strip_count(&a);
}

int fourier_run(const FourierLines *l, int64_t begin, int64_t end) {
  Fault ignored = {0};
  if (!fourier_load_library(l->dtype, &ignored))
    return FOURIER_NO_LIBRARY;
  const FftwFunctions *f =
      l->dtype == DT_F64 ? &double_functions : &float_functions;
  FourierAxis first = axis_of(l, 0);
  int64_t strips = fourier_strip_count(&first);
  int status = FOURIER_OK;
  for (int64_t at = begin; at < end && status == FOURIER_OK;) {
    int64_t slice = at / strips, in_slice = at % strips;
    int64_t stop = in_slice + end - at < strips ? in_slice + end - at : strips;
    FourierAxis a = axis_of(l, slice);
    status = fourier_run_strips(f, &a, in_slice, stop);
    at += stop - in_slice;
  }
  return status;
}
