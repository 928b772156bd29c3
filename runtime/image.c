/* Image files: PNG through libpng; PGM and PPM by hand.  A tensor is u8[h, w,
 * c] with the channels of the file: 1 gray, 2 gray and alpha, 3 color, 4 color
 * and alpha.
 *
 * The values are those of the file; gamma and color profiles are not applied.
 * Other depths (16, 1, 2, 4 bits) are scaled so that the brightest value is
 * 255, and rounded.  Palettes are converted to colors. */
#include "runtime/internal.h"
#include "support/interrupt.h"
#include "support/mem.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(F)             \
  F(png_create_read_struct)      \
  F(png_create_write_struct)     \
  F(png_create_info_struct)      \
  F(png_destroy_read_struct)     \
  F(png_destroy_write_struct)    \
  F(png_set_chunk_malloc_max)    \
  F(png_set_keep_unknown_chunks) \
  F(png_get_error_ptr)           \
  F(png_get_io_ptr)              \
  F(png_set_read_fn)             \
  F(png_set_write_fn)            \
  F(png_read_info)               \
  F(png_read_update_info)        \
  F(png_read_image)              \
  F(png_read_end)                \
  F(png_get_IHDR)                \
  F(png_get_rowbytes)            \
  F(png_get_channels)            \
  F(png_set_expand)              \
  F(png_set_scale_16)            \
  F(png_set_interlace_handling)  \
  F(png_set_IHDR)                \
  F(png_write_info)              \
  F(png_write_row)               \
  F(png_write_end)

static DYNLIB_TABLE(FUNCTIONS) lib;
static const DynLib libpng =
    DYNLIB("libpng16.so.16", "libpng16-16", FUNCTIONS, lib);

enum { MAX_DEFLATE_RATIO = 1032, MAX_SIDE_PIXELS = 1000000 };

/* ---- reading PNG ---- */

typedef struct PngReader {
  jmp_buf failed; /* target of errors in libpng */
  const InputFile *in;
  Fault *fault;
  size_t offset; /* in the file */
  png_structp png;
  png_infop info;
  TensorHeader header;
  Tensor *tensor;
  png_bytep *rows;
} PngReader;

static void on_read_error(png_structp png, png_const_charp message) {
  PngReader *p = lib.png_get_error_ptr(png);
  input_fault(p->in, p->fault, "it is damaged: %s", message);
  longjmp(p->failed, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep to, size_t size) {
  PngReader *p = lib.png_get_io_ptr(png);
  if (size > p->in->size - p->offset) {
    input_fault(p->in, p->fault, "the file is truncated");
    longjmp(p->failed, 1);
  }
  memcpy(to, p->in->bytes + p->offset, size);
  p->offset += size;
}

/* The decoded pixels must not be larger than what the bytes of the file can
 * inflate to. */
static bool check_decoded_size(const PngReader *p, png_uint_32 width,
                               png_uint_32 height, int depth) {
  uint64_t bits =
      (uint64_t)width * (unsigned)depth * lib.png_get_channels(p->png, p->info);
  uint64_t row = bits / 8 + 1;
  if (width <= MAX_SIDE_PIXELS && height <= MAX_SIDE_PIXELS &&
      row * height / MAX_DEFLATE_RATIO <= p->in->size)
    return true;
  return input_fault(p->in, p->fault,
                     "%u by %u pixels need more than its %zu bytes", width,
                     height, p->in->size);
}

static bool read_png_header(PngReader *p) {
  png_uint_32 width, height;
  int depth, colour, interlace;
  lib.png_read_info(p->png, p->info);
  lib.png_get_IHDR(p->png, p->info, &width, &height, &depth, &colour,
                   &interlace, NULL, NULL);
  if (!check_decoded_size(p, width, height, depth))
    return false;
  lib.png_set_expand(p->png);
  lib.png_set_scale_16(p->png);
  lib.png_set_interlace_handling(p->png);
  lib.png_read_update_info(p->png, p->info);
  p->header = (TensorHeader){DT_U8, 3, {height, width}};
  p->header.shape[2] = lib.png_get_channels(p->png, p->info);
  return true;
}

static bool read_png_data(PngReader *p) {
  size_t height = (size_t)p->header.shape[0];
  size_t stride = (size_t)(p->header.shape[1] * p->header.shape[2]);
  if (lib.png_get_rowbytes(p->png, p->info) != stride)
    return input_fault(p->in, p->fault, "its rows are of an unknown kind");
  if (!input_check_decompressed_size(p->in, p->in->size,
                                     (uint64_t)stride * height, p->fault))
    return false;
  p->tensor = tensor_new(DT_U8, 3, p->header.shape, true, p->fault);
  if (!p->tensor)
    return false;
  p->rows = mem_try_alloc(height * sizeof *p->rows);
  if (!p->rows)
    return input_no_memory(p->in, p->fault);
  for (size_t i = 0; i < height; i++)
    p->rows[i] = (png_bytep)p->tensor->data + i * stride;
  lib.png_read_image(p->png, p->rows);
  lib.png_read_end(p->png, NULL);
  return true;
}

/* A separate function, so that no variable lives across longjmp. */
static bool decode_png(PngReader *p, bool data) {
  if (setjmp(p->failed))
    return false;
  return read_png_header(p) && (!data || read_png_data(p));
}

/* Reads only chunks with pixels.  Other chunks could take much memory: texts
 * inflate to a thousand times their size, and the stated length of a chunk may
 * exceed the file. */
static void limit_png_chunks(const PngReader *p) {
  lib.png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  lib.png_set_chunk_malloc_max(p->png, p->in->size);
}

static bool read_png(PngReader *p, const InputFile *in, bool data,
                     Fault *fault) {
  *p = (PngReader){.in = in, .fault = fault};
  if (!dynlib_load(&libpng, fault))
    return false;
  if (in->size < 8 || memcmp(in->bytes, "\x89PNG\r\n\x1a\n", 8) != 0)
    return input_fault(in, fault, "it is not a PNG file");
  p->png = lib.png_create_read_struct(PNG_LIBPNG_VER_STRING, p, on_read_error,
                                      on_warning);
  if (p->png)
    p->info = lib.png_create_info_struct(p->png);
  bool ok = p->info || input_no_memory(in, fault);
  if (ok) {
    limit_png_chunks(p);
    lib.png_set_read_fn(p->png, p, on_read);
    ok = decode_png(p, data);
  }
  mem_free(p->rows);
  if (p->png)
    lib.png_destroy_read_struct(&p->png, &p->info, NULL);
  if (ok)
    return true;
  tensor_release(p->tensor);
  p->tensor = NULL;
  return false;
}

static bool png_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  (void)options;
  PngReader p;
  if (!read_png(&p, in, false, fault))
    return false;
  *header = p.header;
  return true;
}

static Tensor *png_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  (void)options;
  PngReader p;
  return read_png(&p, in, true, fault) ? p.tensor : NULL;
}

/* ---- writing PNG ---- */

/* u8[h, w] or u8[h, w, c] with a valid c.  Returns c; 0 after a fault. */
static int64_t channels_of(const OutputFile *out, const Tensor *t,
                           int64_t min_channels, int64_t max_channels,
                           Fault *fault) {
  int64_t c = t->rank == 2 ? 1 : t->rank == 3 ? t->shape[2] : 0;
  if (t->dtype == DT_U8 && c >= min_channels && c <= max_channels && t->count)
    return c;
  char type[160];
  format_tensor_type(type, sizeof type, t->dtype, t->rank, t->shape,
                     t->broadcast_mask);
  output_fault(out, fault, "%s is not an image of this kind", type);
  if (min_channels == max_channels)
    fault_set_help(fault, "it must be u8[h, w%s], with values from 0 to 255",
                   max_channels == 3 ? ", 3" : "] or u8[h, w, 1");
  else
    fault_set_help(fault,
                   "it must be u8[h, w] or u8[h, w, c] with c from %lld to "
                   "%lld, and values from 0 to 255",
                   (long long)min_channels, (long long)max_channels);
  return 0;
}

typedef struct PngWriter {
  jmp_buf failed;
  const OutputFile *out;
  Fault *fault;
  png_structp png;
  png_infop info;
} PngWriter;

static void on_write_error(png_structp png, png_const_charp message) {
  PngWriter *p = lib.png_get_error_ptr(png);
  output_fault(p->out, p->fault, "%s", message);
  longjmp(p->failed, 1);
}

static void on_write(png_structp png, png_bytep from, size_t size) {
  PngWriter *p = lib.png_get_io_ptr(png);
  fwrite(from, 1, size, p->out->file);
}

static void on_flush(png_structp png) {
  (void)png;
}

static bool encode_png(PngWriter *p, const Tensor *t, int64_t c) {
  static const int colours[] = {0, PNG_COLOR_TYPE_GRAY,
                                PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(p->failed))
    return false;
  lib.png_set_IHDR(p->png, p->info, (png_uint_32)t->shape[1],
                   (png_uint_32)t->shape[0], 8, colours[c], PNG_INTERLACE_NONE,
                   PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  lib.png_write_info(p->png, p->info);
  for (int64_t i = 0; i < t->shape[0]; i++) {
    if (interrupt_pending())
      return false;
    lib.png_write_row(p->png, tensor_at(t, i * t->shape[1] * c));
  }
  lib.png_write_end(p->png, p->info);
  return true;
}

static bool png_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  const Tensor *t = tensors[0];
  int64_t c = channels_of(out, t, 1, 4, fault);
  if (!c || !dynlib_load(&libpng, fault))
    return false;
  if (t->shape[0] > MAX_SIDE_PIXELS || t->shape[1] > MAX_SIDE_PIXELS)
    return output_fault(out, fault, "a side is longer than %d pixels",
                        MAX_SIDE_PIXELS);
  PngWriter p = {.out = out, .fault = fault};
  p.png = lib.png_create_write_struct(PNG_LIBPNG_VER_STRING, &p, on_write_error,
                                      on_warning);
  if (p.png)
    p.info = lib.png_create_info_struct(p.png);
  bool ok = p.info || output_fault(out, fault, "out of memory");
  if (ok) {
    lib.png_set_write_fn(p.png, &p, on_write, on_flush);
    ok = encode_png(&p, t, c);
  }
  if (p.png)
    lib.png_destroy_write_struct(&p.png, &p.info);
  return ok;
}

/* ---- PGM and PPM (netpbm.sourceforge.net/doc/pgm.html) ---- */

typedef struct PnmReader {
  const InputFile *in;
  size_t offset;
  bool is_text;   /* P2 and P3: numbers are text */
  int64_t maxval; /* the brightest value */
  TensorHeader header;
} PnmReader;

static bool is_space(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads a number after space and comments; -1 if there is none. */
static int64_t pnm_number(PnmReader *p) {
  const uint8_t *b = p->in->bytes;
  size_t size = p->in->size;
  while (p->offset < size && (is_space(b[p->offset]) || b[p->offset] == '#'))
    if (b[p->offset++] == '#')
      while (p->offset < size && b[p->offset] != '\n')
        p->offset++;
  int64_t n = -1;
  for (; p->offset < size && b[p->offset] >= '0' && b[p->offset] <= '9';
       p->offset++) {
    n = (n < 0 ? 0 : n) * 10 + (b[p->offset] - '0');
    if (n > INT32_MAX)
      return -1;
  }
  return n;
}

static bool pnm_read_header(PnmReader *p, const InputFile *in, Fault *fault) {
  *p = (PnmReader){.in = in, .offset = 2};
  uint8_t kind = in->size > 2 && in->bytes[0] == 'P' ? in->bytes[1] : 0;
  if (kind != '2' && kind != '3' && kind != '5' && kind != '6')
    return input_fault(in, fault,
                       "a PGM or PPM file must start with P2, P3, P5 or P6");
  p->is_text = kind < '5';
  p->header = (TensorHeader){.dtype = DT_U8, .rank = 3};
  p->header.shape[1] = pnm_number(p);
  p->header.shape[0] = pnm_number(p);
  p->header.shape[2] = kind == '2' || kind == '5' ? 1 : 3;
  p->maxval = pnm_number(p);
  if (p->header.shape[0] < 1 || p->header.shape[1] < 1 || p->maxval < 1 ||
      p->maxval > 65535 || p->offset == in->size ||
      !is_space(in->bytes[p->offset]))
    return input_fault(in, fault, "its header is damaged");
  p->offset++;
  uint64_t count = (uint64_t)p->header.shape[0] * (uint64_t)p->header.shape[1];
  size_t left = in->size - p->offset;
  unsigned bytes_per_sample = p->is_text ? 2 : p->maxval > 255 ? 2 : 1;
  uint64_t max_pixels =
      (left + p->is_text) / bytes_per_sample / (uint64_t)p->header.shape[2];
  if (count > max_pixels)
    return input_fault(
        in, fault,
        "the file is truncated: %lld by %lld pixels, but only %zu bytes",
        (long long)p->header.shape[1], (long long)p->header.shape[0], left);
  return true;
}

/* Reads the next sample, as big-endian bytes or text; -1 if there is none. */
static int64_t pnm_sample(PnmReader *p) {
  if (p->is_text)
    return pnm_number(p);
  const uint8_t *b = p->in->bytes + p->offset;
  p->offset += p->maxval > 255 ? 2 : 1;
  return p->maxval > 255 ? b[0] << 8 | b[1] : b[0];
}

static bool pnm_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  (void)options;
  PnmReader p;
  if (!pnm_read_header(&p, in, fault))
    return false;
  *header = p.header;
  return true;
}

static Tensor *pnm_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  (void)options;
  PnmReader p;
  if (!pnm_read_header(&p, in, fault))
    return NULL;
  Tensor *t = tensor_new(DT_U8, 3, p.header.shape, false, fault);
  if (!t)
    return NULL;
  uint8_t *out = t->data;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t x = pnm_sample(&p);
    if (x < 0 || x > p.maxval) {
      input_fault(in, fault, "sample %lld is not from 0 to %lld",
                  (long long)i + 1, (long long)p.maxval);
      tensor_release(t);
      return NULL;
    }
    out[i] = (uint8_t)((x * 255 + p.maxval / 2) / p.maxval);
  }
  return t;
}

static bool pnm_save(OutputFile *out, const Tensor *t, int64_t c,
                     Fault *fault) {
  if (!channels_of(out, t, c, c, fault))
    return false;
  fprintf(out->file, "P%c\n%lld %lld\n255\n", c == 1 ? '5' : '6',
          (long long)t->shape[1], (long long)t->shape[0]);
  fwrite(t->data, 1, (size_t)t->count, out->file);
  return true;
}

static bool pgm_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  return pnm_save(out, tensors[0], 1, fault);
}

static bool ppm_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  return pnm_save(out, tensors[0], 3, fault);
}

const FileFormat png_format = {".png", png_header, png_load,
                               NULL,   NULL,       png_save};
const FileFormat pgm_format = {".pgm", pnm_header, pnm_load,
                               NULL,   NULL,       pgm_save};
const FileFormat ppm_format = {".ppm", pnm_header, pnm_load,
                               NULL,   NULL,       ppm_save};
