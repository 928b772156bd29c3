/* What the files of runtime/ tell one another. */
#ifndef AXON_RUNTIME_INTERNAL_H
#define AXON_RUNTIME_INTERNAL_H

#include "runtime/runtime.h"

/* ---- dtype.c ---- */

/* The shortest digits of a finite x > 0 that read back, NUL-ended, the first
 * and the last not 0, and the exponent of the first: x is about
 * d.ddd * 10^exponent.  Returns how many. */
int shortest_digits(Dtype dtype, double x, char digits[20], int *exponent);

/* ---- tensor.c ---- */

/* "f32[2, 3]", cut where it does not fit. */
void format_tensor_type(char *out, size_t size, Dtype dtype, uint32_t rank,
                        const int64_t *shape, uint32_t broadcast_mask);
/* "37.3 GiB", "12 bytes" */
void format_bytes(char *out, size_t size, uint64_t bytes);
/* Elements of a shape and their bytes; false when they overflow or an extent
 * is negative. */
bool shape_count_and_bytes(Dtype dtype, uint32_t rank, const int64_t *shape,
                           int64_t *count, size_t *bytes);
/* A tensor whose data lie in a mapped file, which it owns from here on.  NULL
 * when out of memory, and the mapping is still the caller's. */
Tensor *tensor_from_mapping(const TensorHeader *header, void *data,
                            Mapped *mapped);

/* ---- caching_allocator.c ---- */

/* 64-byte aligned, cleared or not; NULL when there is none.  `size` is for
 * caching_free. */
void *caching_alloc(size_t bytes, bool clear, size_t *size);
void caching_free(void *at, size_t size);

/* ---- mapped.c ---- */

/* Maps the whole file; NULL with errno.  `path` is for messages, and to ask
 * whether it has changed. */
Mapped *mapped_open(int fd, const char *path, size_t size, void **at);
void mapped_close(Mapped *m);
/* Is all of it what it was?  A fault that names it where not. */
bool mapped_check(Mapped *m, Fault *fault);

/* ---- file.c: what the formats share ---- */

/* A file's bytes: mapped, on the heap, or the caller's (both NULL). */
typedef struct InputFile {
  const char *path;
  const char *entry_name; /* of an archive; or NULL */
  const uint8_t *bytes;
  size_t size;
  Mapped *mapped;
  void *heap;
} InputFile;

bool input_open(InputFile *in, const char *path, Fault *fault);
void input_close(InputFile *in);
/* 'cannot read "path": ...'; returns false. */
bool input_fault(const InputFile *in, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool input_no_memory(const InputFile *in, Fault *fault); /* returns false */
/* Whether `left` bytes are what a tensor takes; a fault where not. */
bool input_check_data_size(const InputFile *in, const TensorHeader *header,
                           size_t available, Fault *fault);
/* A tensor whose data start at `offset`, checked by input_check_data_size.
 * Takes over the mapping where the data lie well in it, copies otherwise. */
Tensor *input_read_tensor(InputFile *in, size_t offset,
                          const TensorHeader *header, Fault *fault);
/* Copies elements: `swap` reverses the bytes of each, bools become 0 or 1. */
void copy_elements(void *to, const void *from, size_t count, Dtype dtype,
                   bool swap);

/* Names of the tensors of a file, by number; "" is an entry that is none. */
typedef struct EntryNames {
  char *text; /* one after another, NUL-ended */
  size_t len, cap;
  uint32_t count;
} EntryNames;
bool names_add(EntryNames *names, const char *name); /* false: out of memory */
void names_free(EntryNames *names);
/* The number of the one that the options ask for, or of the only one. */
bool names_select(const EntryNames *names, const InputFile *in,
                  const LoadOptions *options, uint32_t *entry_index,
                  Fault *fault);

typedef struct OutputFile {
  const char *path;
  const char *temp_path; /* the file being written, beside path */
  FILE *file;            /* open on temp */
  Buffer scratch;        /* room for the writer; freed by file_save */
} OutputFile;
/* 'cannot write "path": ...'; returns false. */
bool output_fault(const OutputFile *out, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* One row per format.  Readers never raise; `save` may, and holds nothing but
 * its Output when it does.  Errors of out->file are found by file_save. */
typedef struct FileFormat {
  const char *extension;
  bool (*read_header)(InputFile *in, const LoadOptions *options,
                      TensorHeader *header, Fault *fault);
  Tensor *(*load)(InputFile *in, const LoadOptions *options, Fault *fault);
  bool (*list_names)(InputFile *in, EntryNames *names,
                     Fault *fault); /* NULL: one tensor */
  bool (*save)(OutputFile *out, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault);
} FileFormat;
extern const FileFormat npy_format, npz_format, safetensors_format, csv_format,
    tsv_format, png_format, pgm_format, ppm_format;

/* ---- decompression_limit.c: bombs ---- */

/* "512M", "2 GiB", "1000000" */
bool parse_byte_size(const char *text, uint64_t *out);

/* Whether so many packed bytes of a file may become so many; a fault where
 * that is more than AXON_FILE_LIMIT and they are packed as none usually are. */
bool input_check_decompressed_size(const InputFile *in,
                                   uint64_t compressed_bytes, uint64_t size,
                                   Fault *fault);
/* Whether a header of so many bytes may be read: in memory it takes a multiple
 * of them. */
bool input_check_header_size(const InputFile *in, uint64_t size, Fault *fault);

/* ---- npy.c, for npz.c too ---- */

typedef struct NpyHeader {
  TensorHeader header;
  bool fortran_order, byte_swap;
  size_t data_offset; /* offset of the data */
} NpyHeader;

/* Looks at the header only: `in` need not hold the data. */
bool npy_parse(const InputFile *in, NpyHeader *out, Fault *fault);
bool npy_is_native_layout(
    const NpyHeader *h); /* the data are a tensor's as they are */
/* Turns data as the file has them into a tensor's. */
void npy_convert(Tensor *out, const void *data, const NpyHeader *h);
enum { MAX_NPY_HEADER_BYTES = 1024 };
/* 0 after a fault: not every dtype can be written. */
size_t npy_write_header(const OutputFile *out, char text[MAX_NPY_HEADER_BYTES],
                        const Tensor *t, Fault *fault);

#endif
