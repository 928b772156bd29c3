/* What the files of runtime/ tell one another. */
#ifndef AXON_RUNTIME_INTERNAL_H
#define AXON_RUNTIME_INTERNAL_H

#include "runtime/runtime.h"

/* ---- dtype.c ---- */

/* The shortest digits of a finite x > 0 that read back, NUL-ended, the first
 * and the last not 0, and the exponent of the first: x is about
 * d.ddd * 10^exponent.  Returns how many. */
int float_digits(Dtype dtype, double x, char digits[20], int *exponent);

/* ---- tensor.c ---- */

/* "f32[2, 3]", cut where it does not fit. */
void type_text(char *out, size_t size, Dtype dtype, uint32_t rank,
               const int64_t *shape, uint32_t stars);
/* "37.3 GiB", "12 bytes" */
void bytes_text(char *out, size_t size, uint64_t bytes);
/* Elements of a shape and their bytes; false when they overflow or an extent
 * is negative. */
bool shape_size(Dtype dtype, uint32_t rank, const int64_t *shape,
                int64_t *count, size_t *bytes);
/* A tensor whose data lie in a mapped file, which it owns from here on.  NULL
 * when out of memory, and the mapping is still the caller's. */
Tensor *tensor_over(const Header *is, void *data, Mapped *mapped);

/* ---- block.c ---- */

/* 64-byte aligned, cleared or not; NULL when there is none.  `size` is for
 * block_free. */
void *block_new(size_t bytes, bool clear, size_t *size);
void block_free(void *at, size_t size);

/* ---- mapped.c ---- */

/* Maps the whole file; NULL with errno.  `path` is for messages, and to ask
 * whether it has changed. */
Mapped *mapped_open(int fd, const char *path, size_t size, void **at);
void mapped_close(Mapped *m);
/* Is all of it what it was?  A fault that names it where not. */
bool mapped_check(Mapped *m, Fault *fault);

/* ---- file.c: what the formats share ---- */

/* A file's bytes: mapped, on the heap, or the caller's (both NULL). */
typedef struct Input {
  const char *path;
  const char *entry; /* of an archive; or NULL */
  const uint8_t *bytes;
  size_t size;
  Mapped *mapped;
  void *heap;
} Input;

bool input_open(Input *in, const char *path, Fault *fault);
void input_close(Input *in);
/* 'cannot read "path": ...'; returns false. */
bool input_fault(const Input *in, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool input_no_memory(const Input *in, Fault *fault); /* returns false */
/* Whether `left` bytes are what a tensor takes; a fault where not. */
bool input_holds(const Input *in, const Header *is, size_t left, Fault *fault);
/* A tensor whose data start at `offset`, checked by input_holds.  Takes over
 * the mapping where the data lie well in it, copies otherwise. */
Tensor *input_tensor(Input *in, size_t offset, const Header *is, Fault *fault);
/* Copies elements: `swap` reverses the bytes of each, bools become 0 or 1. */
void copy_elements(void *to, const void *from, size_t count, Dtype dtype,
                   bool swap);

/* Names of the tensors of a file, by number; "" is an entry that is none. */
typedef struct Names {
  char *text; /* one after another, NUL-ended */
  size_t len, cap;
  uint32_t count;
} Names;
bool names_add(Names *names, const char *name); /* false: out of memory */
void names_free(Names *names);
/* The number of the one that the options ask for, or of the only one. */
bool names_choose(const Names *names, const Input *in,
                  const LoadOptions *options, uint32_t *number, Fault *fault);

typedef struct Output {
  const char *path;
  const char *temp; /* the file being written, beside path */
  FILE *file;       /* open on temp */
  Buffer text;      /* room for the writer; freed by file_save */
} Output;
/* 'cannot write "path": ...'; returns false. */
bool output_fault(const Output *out, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* One row per format.  Readers never raise; `save` may, and holds nothing but
 * its Output when it does.  Errors of out->file are found by file_save. */
typedef struct Format {
  const char *extension;
  bool (*header)(Input *in, const LoadOptions *options, Header *is,
                 Fault *fault);
  Tensor *(*load)(Input *in, const LoadOptions *options, Fault *fault);
  bool (*names)(Input *in, Names *names, Fault *fault); /* NULL: one tensor */
  bool (*save)(Output *out, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault);
} Format;
extern const Format npy_format, npz_format, safetensors_format, csv_format,
    tsv_format, png_format, pgm_format, ppm_format;

/* ---- limit.c: bombs ---- */

/* "512M", "2 GiB", "1000000" */
bool size_parse(const char *text, uint64_t *out);

/* Whether so many packed bytes of a file may become so many; a fault where
 * that is more than AXON_FILE_LIMIT and they are packed as none usually are. */
bool input_may_unpack(const Input *in, uint64_t packed, uint64_t size,
                      Fault *fault);
/* Whether a header of so many bytes may be read: in memory it takes a multiple
 * of them. */
bool input_may_parse(const Input *in, uint64_t size, Fault *fault);

/* ---- npy.c, for npz.c too ---- */

typedef struct NpyHeader {
  Header is;
  bool fortran, swap;
  size_t data; /* offset of the data */
} NpyHeader;

/* Looks at the header only: `in` need not hold the data. */
bool npy_parse(const Input *in, NpyHeader *out, Fault *fault);
bool npy_is_plain(const NpyHeader *h); /* the data are a tensor's as they are */
/* Turns data as the file has them into a tensor's. */
void npy_arrange(Tensor *out, const void *data, const NpyHeader *h);
enum { NPY_HEADER_MOST = 1024 };
/* 0 after a fault: not every dtype can be written. */
size_t npy_write_header(const Output *out, char text[NPY_HEADER_MOST],
                        const Tensor *t, Fault *fault);

#endif
