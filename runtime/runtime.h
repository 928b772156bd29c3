/* runtime: tensors in memory, element types, file formats, random numbers.
 *
 * This module does not depend on the language.  Ownership: a Tensor is
 * reference counted.  A function that returns one gives the caller a reference;
 * a function that takes one only borrows it.  Errors: a function that can fail
 * takes a Fault, fills it in, and returns NULL or false.  It never prints or
 * exits. */
#ifndef AXON_RUNTIME_H
#define AXON_RUNTIME_H

#include "support/compiler.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;

/* ---- dtype.c (table: primitives/dtypes.def) ---- */

typedef enum Dtype {
  DT_NONE,
#define D(id, name, bytes, class, memory, compute) DT_##id,
#include "primitives/dtypes.def"
#undef D
  DT_COUNT
} Dtype;

typedef struct DtypeInfo {
  const char *name;
  uint8_t bytes;
  char class; /* bool, unsigned, signed, float: b, u, i, f */
} DtypeInfo;
extern const DtypeInfo dtype_info[DT_COUNT];

static inline bool dtype_is_float(Dtype t) {
  return dtype_info[t].class == 'f';
}
/* Computed as f32, and rounded after each operation. */
static inline bool dtype_is_narrow_float(Dtype t) {
  return dtype_info[t].class == 'f' && dtype_info[t].bytes < 4;
}
static inline bool dtype_is_int(Dtype t) {
  return dtype_info[t].class == 'i' || dtype_info[t].class == 'u';
}
Dtype dtype_by_name(const char *name); /* DT_NONE if there is none */

/* A scalar of any element type.  f is exactly a number of the float type. */
typedef struct Scalar {
  Dtype dtype;
  union {
    int64_t i; /* BOOL (0 or 1), U8, I8, I32, I64 */
    double f;  /* floats */
  };
} Scalar;

uint16_t f16_from_double(double x); /* rounds to nearest, ties to even */
double f16_to_double(uint16_t h);
uint16_t bf16_from_double(double x);
double bf16_to_double(uint16_t h);
/* NaN becomes 0x7f in f8_e4m3 and 0x7e in f8_e5m2.  f8_e4m3 has no infinity:
 * numbers beyond +-448 become +-448. */
uint8_t f8_e4m3_from_double(double x);
double f8_e4m3_to_double(uint8_t h);
uint8_t f8_e5m2_from_double(double x);
double f8_e5m2_to_double(uint8_t h);
/* The low 4 bits of h.  Numbers beyond +-6 become +-6, and NaN becomes 6. */
uint8_t f4_e2m1_from_double(double x);
double f4_e2m1_to_double(uint8_t h);
/* One element in each byte, of `count` / 2 bytes that have two, the first in
 * the low half.  An odd count has a last byte with one.  The packed bytes may
 * be the last ones of `to`. */
void f4_unpack(uint8_t *to, const uint8_t *packed, size_t count);
/* 2^(h - 127), and NaN for 255.  Numbers below 2^-127, also those below 0,
 * become 2^-127, and numbers beyond 2^127 become 2^127. */
uint8_t f8_e8m0_from_double(double x);
double f8_e8m0_to_double(uint8_t h);
/* Rounds to the precision of a float dtype (identity for F64). */
double dtype_round(Dtype dtype, double x);
/* The greatest finite number of a float dtype. */
double dtype_greatest(Dtype dtype);
/* Wraps to the width of an integer dtype in two's complement. */
int64_t dtype_wrap(Dtype dtype, int64_t x);
/* Converts like `f32 x` and `i64 x`.  Float to integer truncates towards zero
 * and saturates; NaN gives 0.  Integers wrap.  Conversion to bool is x != 0. */
Scalar scalar_convert(Scalar x, Dtype to);
Scalar scalar_load(Dtype dtype, const void *at);
void scalar_store(Scalar x, void *at); /* stores as x.dtype */
/* Returns -1, 0 or 1 as x is less than, equal to or greater than y, of the same
 * dtype.  In the total order, NaN is the last number and equal to itself;
 * otherwise NaN differs from all numbers, and the result is 1. */
int scalar_order(Scalar x, Scalar y, bool is_total);
/* Prints the shortest text that reads back as the same value. "1.0" keeps its
 * point; also "inf", "nan", "true". */
void scalar_print(Buffer *out, Scalar x);
/* Returns the float of a dtype that is nearest to a decimal number.  Like
 * strtod, but rounded once.  LC_NUMERIC must stay "C": parsing and printing do
 * not read it. */
double dtype_parse(Dtype dtype, const char *text, char **end);

/* ---- tensor.c ---- */

enum { MAX_RANK = 32 };
enum { TENSOR_ALIGNMENT = 64 }; /* bytes; of the elements of a new tensor */

typedef struct Mapped Mapped; /* a file in memory (mapped.c) */

/* A row-major, contiguous tensor.  An axis whose bit is set in the broadcast
 * mask may stretch; its extent is 1.  See "Broadcasting" in doc/language.md. */
typedef struct Tensor {
  uint32_t refs; /* atomic */
  Dtype dtype;
  uint32_t rank;
  uint32_t broadcast_mask;
  int64_t shape[MAX_RANK];
  int64_t count;      /* product of the shape */
  void *data;         /* count * bytes of the dtype, aligned */
  void *block;        /* of caching_allocator.c, contains the data; or NULL */
  Mapped *mapped;     /* file that contains the data; or NULL */
  bool is_borrowed;   /* the data belong to others: see tensor_borrow */
  size_t alloc_bytes; /* bytes allocated by caching_allocator.c; or 0 */
  void *device_copy;  /* copy in device memory, owned by its backend; or NULL */
  struct DerivedData *derived; /* derived data (derived_cache.h); or NULL */
  struct Tensor *base; /* tensor whose memory this view shares; or NULL */
} Tensor;

/* The file that contains the elements, for large files; otherwise NULL.  Others
 * may write to the file.  Results computed or copied from it are valid only if
 * tensor_check succeeds afterwards. */
static inline Mapped *tensor_mapped(const Tensor *t) {
  return t->base ? t->base->mapped : t->mapped;
}

/* Releases a device copy when its tensor is freed.  Set by the backend. */
extern void (*tensor_device_release)(void *device);

typedef enum FaultKind {
  FAULT_SHAPE, /* the default; sizes or indices do not fit */
  FAULT_BROADCAST,
  FAULT_INNER_SIZE, /* inner sizes of a matmul */
  FAULT_ARITHMETIC,
  FAULT_MEMORY,
  FAULT_TARGET_UNAVAILABLE, /* the target is not available */
  FAULT_FILE,
  FAULT_SCHEDULE, /* a schedule that cannot be applied */
  FAULT_COUNT,
} FaultKind;

/* An error of the runtime.  A diagnostic quotes it. */
typedef struct Fault {
  char message[512]; /* "" if there is no error */
  char help[256];    /* a fix, or "" */
  FaultKind kind;
} Fault;
void fault_set(Fault *fault, const char *format, ...) PRINTF_LIKE(2, 3);
void fault_set_kind(Fault *fault, FaultKind kind, const char *message);
void fault_set_help(Fault *fault, const char *format, ...) PRINTF_LIKE(2, 3);

/* Returns false with a fault that names the file if it has changed. */
bool tensor_check(const Tensor *t, Fault *fault);
/* Returns the tensor, or a copy if its elements lie in a file.  For readers
 * that cannot call tensor_check afterwards. */
Tensor *tensor_in_memory(Tensor *t, Fault *fault);
bool mapped_any(void); /* true if any file is mapped */
/* true if both are the same file, loaded in the same state */
bool mapped_same(const Mapped *a, const Mapped *b);
/* true if the file is already known to have changed */
bool mapped_is_lost(const Mapped *m);
bool files_check(Fault *fault); /* checks all mapped files */

/* Makes a tensor.  The elements are zero only if `clear`.  Fails if the size
 * overflows or memory is lacking ("f32[100000, 100000] needs 37.3 GiB of
 * memory"). */
Tensor *tensor_new(Dtype dtype, uint32_t rank, const int64_t *shape,
                   bool zeroed, Fault *fault);
Tensor *tensor_scalar(Scalar x); /* rank 0; raises when out of memory */
/* Makes a tensor over foreign memory.  The memory is contiguous, aligned to the
 * elements, and must not change while borrowed.  Returns NULL when out of
 * memory, or if the size is too large. */
Tensor *tensor_borrow(Dtype dtype, uint32_t rank, const int64_t *shape,
                      void *data);
/* Ends the borrowing: the tensor gets its own copy.  Only one thread may call
 * this, before others see the tensor. */
bool tensor_unborrow(Tensor *t, Fault *fault);
/* A view of the rows first_row .. first_row + count - 1.  The original lives as
 * long as the view.  Returns NULL when out of memory. */
Tensor *tensor_row_view(Tensor *t, int64_t first_row, int64_t count);
/* Returns the tensor with one more reference.  A view is copied, so that it
 * does not keep the whole tensor alive.  Returns NULL when out of memory. */
Tensor *tensor_detach(Tensor *t, Fault *fault);
Tensor *tensor_retain(Tensor *t);
/* Returns true if a result may take the memory of t: only its owner, who reads
 * it no more, refers to it. */
bool tensor_is_donatable(const Tensor *t);
void tensor_release(Tensor *t);
static inline void *tensor_at(const Tensor *t, int64_t i) {
  return (char *)t->data + i * dtype_info[t->dtype].bytes;
}
/* The first difference of elements (scalar_order) of two tensors of equal dtype
 * and shape. */
int tensor_order(const Tensor *a, const Tensor *b, bool is_total);
/* Bytes of memory that this process may use: those of the machine, or the limit
 * of its container. */
uint64_t memory_limit(void);

/* prints "f32[2, 3]" */
void tensor_print_type(Buffer *out, const Tensor *t);
/* Prints like NumPy: aligned, summarized with "..." beyond `threshold`
 * elements, in `width` columns. */
void tensor_print(Buffer *out, const Tensor *t, int64_t threshold, int width);

/* ---- data_dependent_shape.c: the data decides the result's shape ---- */

/* The indices, i64[m], of true elements of a bool[n]. */
Tensor *tensor_nonzero(const Tensor *x, Fault *fault);
/* The indices, i64[m], at which the elements of a sorted x[n] differ from the
 * previous one. */
Tensor *tensor_run_starts(const Tensor *x, Fault *fault);
/* The rows of x that the integers in `rows` name; NULL with a fault where one
 * is out of bounds. */
Tensor *tensor_take_rows(const Tensor *x, const Tensor *rows, Fault *fault);

/* ---- caching_allocator.c: the memory of tensors ---- */

/* Counts blocks of at least 4 KiB. */
typedef struct AllocatorStats {
  uint64_t system_allocs,
      cache_hits; /* blocks allocated from the system; blocks reused */
  uint64_t live_bytes, cached_bytes; /* bytes in use; bytes kept for reuse */
  bool is_caching;                   /* false with the address sanitizer */
} AllocatorStats;
AllocatorStats allocator_stats(void);
/* Returns memory to the system until at most this number of bytes is kept. */
void allocator_trim(uint64_t max_cached_bytes);

/* ---- files: file.c, and npy.c and others for the formats ---- */

/* The header of a file, read without its data, for the type checker.  For csv:
 * rank 2, and dtype DT_NONE (the use decides the element type). */
typedef struct TensorHeader {
  Dtype dtype;
  uint32_t rank;
  int64_t shape[MAX_RANK];
} TensorHeader;

typedef struct LoadOptions {
  const char *name; /* name of a tensor in a file with several; or NULL */
  bool skip_header; /* csv: skip a first line of names */
  Dtype dtype;      /* csv: element type; DT_NONE means F32 */
} LoadOptions;

/* Sets a fault if AXON_FILE_LIMIT is not a size. */
bool file_check_env(Fault *fault);
/* The extension decides: .npy .npz .safetensors .gguf .pth .pt .csv .png ...
 * The file need not exist. */
bool file_has_known_extension(const char *path, Fault *fault);
bool file_read_header(const char *path, const LoadOptions *options,
                      TensorHeader *out, Fault *fault);
Tensor *file_load(const char *path, const LoadOptions *options, Fault *fault);

/* One of the tensors of a file. */
typedef struct NamedTensor {
  const char *name;
  const char *dtype_name; /* spelling of the element type in the file */
  TensorHeader header;    /* dtype DT_NONE: Axon has no such element type */
  Tensor *tensor;         /* NULL if Axon has no such element type */
} NamedTensor;

typedef struct NamedTensors {
  NamedTensor *all; /* sorted by name */
  uint32_t count;
  char *text; /* the names */
} NamedTensors;

/* True if the extension is .safetensors, .gguf, .pth or .pt; otherwise sets a
 * fault. */
bool file_has_structures(const char *path, Fault *fault);
/* Reads all tensors of such a file.  On success the caller frees them
 * with named_tensors_free. */
bool file_load_all(const char *path, NamedTensors *out, Fault *fault);
void named_tensors_free(NamedTensors *tensors);

/* Writes to a temporary file beside `path` and renames it: an interrupted write
 * keeps the old file. .npz and .safetensors accept several names; others
 * require count == 1. .png, .pgm and .ppm require u8[h, w] or u8[h, w, c].
 * file_can_save only checks the name and the count. */
bool file_can_save(const char *path, uint32_t count, Fault *fault);
bool file_save(const char *path, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault);
/* Names of the tensors in a file with several, allocated in the arena. */
const char **file_names(const char *path, Arena *arena, uint32_t *count,
                        Fault *fault);

/* ---- random.c: Philox4x32-10 (Salmon et al., SC 2011, section 3.3) ---- */

typedef struct PrngKey {
  uint64_t word[2];
} PrngKey;
PrngKey prng_key_from_seed(int64_t seed);
PrngKey prng_key_split(PrngKey key, uint64_t index); /* the index-th child */
void philox4x32(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4]);
/* element `index` of the stream of the key */
uint32_t prng_bits32(PrngKey key, uint64_t index);
uint64_t prng_bits64(PrngKey key, uint64_t index);
enum { PRNG_BATCH_WORDS = 16 };
/* Makes PRNG_BATCH_WORDS elements of 64 bits each.  The first one is element
 * PRNG_BATCH_WORDS * block_index. */
void prng_batch64(PrngKey key, uint64_t block_index,
                  uint64_t to[PRNG_BATCH_WORDS]);
double prng_uniform(PrngKey key, uint64_t index, Dtype dtype); /* in [0, 1) */
double prng_normal(PrngKey key, uint64_t index, Dtype dtype);

/* ---- dynlib.c: libraries that only some programs need ----
 *
 *   #define FUNCTIONS(F) F(zip_close) F(zip_fread)
 *   static DYNLIB_TABLE(FUNCTIONS) zip;
 *   static const DynLib zip_library = DYNLIB("libzip.so.4", "libzip4",
 *                                              FUNCTIONS, zip);
 *   if (!dynlib_load(&zip_library, fault)) return NULL;
 *   zip.zip_close(...); */
typedef struct DynLib {
  const char *soname, *package; /* name of the Debian package */
  const char *const *symbols;   /* names of functions; NULL at the end */
  void *table;                  /* function pointers in the same order */
} DynLib;

#define DYNLIB_POINTER(name) __typeof__(&name) name;
#define DYNLIB_SYMBOL(name) #name,
#define DYNLIB_TABLE(functions) \
  struct {                      \
    functions(DYNLIB_POINTER)   \
  }
#define DYNLIB(soname, package, functions, table)                              \
  {                                                                            \
    (soname), (package), (const char *const[]){functions(DYNLIB_SYMBOL) NULL}, \
        &(table)                                                               \
  }

/* Loads the library at first use.  Returns false with a fault that names the
 * package. */
bool dynlib_load(const DynLib *library, Fault *fault);

#endif
