/* Declarations shared by the files of runtime/. */
#ifndef AXON_RUNTIME_INTERNAL_H
#define AXON_RUNTIME_INTERNAL_H

#include "runtime/runtime.h"
#include "support/buffer.h"
#include "support/compiler.h"

/* ---- dtype.c ---- */

/* Finds the shortest digits of a finite x > 0 that read back as x,
 * NUL-terminated.  The first and last digit are not 0. x is about d.ddd *
 * 10^exponent.  Returns the number of digits. */
int shortest_digits(Dtype dtype, double x, char digits[20], int *exponent);

/* ---- tensor.c ---- */

/* Writes "f32[2, 3]", truncated if necessary. */
void format_tensor_type(char *out, size_t size, Dtype dtype, uint32_t rank,
                        const int64_t *shape, uint32_t broadcast_mask);
/* such as "37.3 GiB", "12 bytes" */
void format_bytes(char *out, size_t size, uint64_t bytes);
/* Number of elements of a shape, and their bytes.  Returns false on overflow,
 * or if an extent is negative. */
bool shape_count_and_bytes(Dtype dtype, uint32_t rank, const int64_t *shape,
                           int64_t *count, size_t *bytes);
/* Makes a tensor whose data lie in a mapped file.  The tensor shares the
 * mapping.  Returns NULL when out of memory. */
Tensor *tensor_from_mapping(const TensorHeader *header, void *data,
                            Mapped *mapped);

/* ---- caching_allocator.c ---- */

/* Allocates 64-byte aligned memory, zeroed if `clear`.  Returns NULL when out
 * of memory.  Pass *size to caching_free. */
void *caching_alloc(size_t bytes, bool clear, size_t *size);
void caching_free(void *at, size_t size);

/* ---- mapped.c ---- */

/* Maps the whole file, or shares an earlier mapping of it.  Returns NULL with
 * errno on failure. `path` is for messages and for detecting changes. */
Mapped *mapped_open(int fd, const char *path, size_t size, void **at);
Mapped *mapped_retain(Mapped *m);
void mapped_close(Mapped *m); /* unmaps it after the last reference */
/* Keeps what a reader has found in the file, until the mapping ends.  Returns
 * false if there is such a note already. */
bool mapped_set_note(Mapped *m, void *note, void (*free_note)(void *note));
void *mapped_note(Mapped *m); /* or NULL */
/* True if the file has not changed; otherwise the fault names it. */
bool mapped_check(Mapped *m, Fault *fault);

/* ---- file.c: what the formats share ---- */

/* The bytes of a file: mapped, on the heap, or owned by the caller (then both
 * are NULL). */
typedef struct InputFile {
  const char *path;
  const char *entry_name; /* entry of an archive; NULL if there is none */
  const uint8_t *bytes;
  size_t size;
  Mapped *mapped;
  bool stays; /* tensors may lie in the mapping */
  void *heap;
} InputFile;

bool input_open(InputFile *in, const char *path, Fault *fault);
void input_close(InputFile *in);
/* Sets the fault 'cannot read "path": ...'.  Returns false. */
bool input_fault(const InputFile *in, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool input_no_memory(const InputFile *in, Fault *fault); /* returns false */
/* True if `left` bytes are the data of this tensor; otherwise sets a fault. */
bool input_check_data_size(const InputFile *in, const TensorHeader *header,
                           size_t available, Fault *fault);
/* Makes a tensor from the data at `offset`, after input_check_data_size. Shares
 * the mapping if the data are aligned to their elements; copies otherwise. */
Tensor *input_read_tensor(const InputFile *in, size_t offset,
                          const TensorHeader *header, Fault *fault);
/* Copies elements. `swap` reverses the bytes of each; bools become 0 or 1. */
void copy_elements(void *to, const void *from, size_t count, Dtype dtype,
                   bool swap);

/* The names of the tensors of a file, by number. "" is an entry without a
 * tensor. */
typedef struct EntryNames {
  char *text; /* NUL-terminated names, one after another */
  size_t len, cap;
  uint32_t count;
} EntryNames;
bool names_add(EntryNames *names, const char *name); /* false: out of memory */
void names_free(EntryNames *names);
/* Returns the number of the tensor that the options name, or of the only
 * one. */
bool names_select(const EntryNames *names, const InputFile *in,
                  const LoadOptions *options, uint32_t *entry_index,
                  Fault *fault);

typedef struct OutputFile {
  const char *path;
  const char *temp_path; /* the temporary file beside path */
  FILE *file;            /* open on the temporary file */
  Buffer scratch;        /* scratch space of the writer; freed by file_save */
} OutputFile;
/* Sets the fault 'cannot write "path": ...'.  Returns false. */
bool output_fault(const OutputFile *out, Fault *fault, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* `save` of formats that Axon only reads */
bool output_unsupported(OutputFile *out, uint32_t count,
                        const char *const *names, Tensor *const *tensors,
                        Fault *fault);

/* One row per file format.  Readers never raise. `save` may raise, and then
 * owns nothing but its OutputFile. file_save detects errors of out->file. */
typedef struct FileFormat {
  const char *extension;
  bool (*read_header)(InputFile *in, const LoadOptions *options,
                      TensorHeader *header, Fault *fault);
  Tensor *(*load)(InputFile *in, const LoadOptions *options, Fault *fault);
  bool (*list_names)(InputFile *in, EntryNames *names,
                     Fault *fault); /* NULL: the format has one tensor */
  /* Adds all tensors; the caller frees them, also after a fault.  NULL: not
   * supported. */
  bool (*load_all)(InputFile *in, NamedTensors *out, Fault *fault);
  bool (*save)(OutputFile *out, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault);
} FileFormat;
extern const FileFormat npy_format, npz_format, safetensors_format, gguf_format,
    pth_format, pt_format, csv_format, tsv_format, txt_format, bin_format,
    png_format, pgm_format, ppm_format;

/* ---- decompression_limit.c: bombs ---- */

/* parses "512M", "2 GiB", "1000000" */
bool parse_byte_size(const char *text, uint64_t *out);

/* Checks the size of unpacked data.  Sets a fault if it exceeds AXON_FILE_LIMIT
 * and the compression ratio is implausible. */
bool input_check_decompressed_size(const InputFile *in,
                                   uint64_t compressed_bytes, uint64_t size,
                                   Fault *fault);
/* Checks the size of a header: in memory it takes a multiple of this. */
bool input_check_header_size(const InputFile *in, uint64_t size, Fault *fault);

/* ---- npy.c, for npz.c too ---- */

typedef struct NpyHeader {
  TensorHeader header;
  bool fortran_order, byte_swap;
  bool has_pairs;     /* complex elements: pairs along an added last axis */
  size_t data_offset; /* offset of the data */
} NpyHeader;

/* Parses the header only: `in` need not contain the data. */
bool npy_parse(const InputFile *in, NpyHeader *out, Fault *fault);
bool npy_is_native_layout(
    const NpyHeader *h); /* true if the data can be used without conversion */
/* Converts data of the file to tensor data. */
void npy_convert(Tensor *out, const void *data, const NpyHeader *h);
enum { MAX_NPY_HEADER_BYTES = 1024 };
/* Returns 0 after a fault: some dtypes cannot be written. */
size_t npy_write_header(const OutputFile *out, char text[MAX_NPY_HEADER_BYTES],
                        const Tensor *t, Fault *fault);

#endif
