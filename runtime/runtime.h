/* runtime: tensors in memory, element types, file formats, random numbers.
 *
 * Knows nothing of the language.  Ownership: a Tensor is reference counted;
 * a function that returns one gives the caller a reference, a function that
 * takes one only borrows it.  Errors: functions that can fail take a Fault
 * and return NULL or false after filling it in; they never print or exit. */
#ifndef AXON_RUNTIME_H
#define AXON_RUNTIME_H

#include "support/support.h"

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
  char class; /* b, u, i, f */
} DtypeInfo;
extern const DtypeInfo dtype_info[DT_COUNT];

static inline bool dtype_is_float(Dtype t) {
  return dtype_info[t].class == 'f';
}
static inline bool dtype_is_int(Dtype t) {
  return dtype_info[t].class == 'i' || dtype_info[t].class == 'u';
}
Dtype dtype_by_name(const char *name); /* DT_NONE when there is none */

/* A scalar of any element type.  Floats of 16 bits are held as float in f,
 * f32 as a double that is exactly a float. */
typedef struct Scalar {
  Dtype dtype;
  union {
    int64_t i; /* BOOL (0 or 1), U8, I8, I32, I64 */
    double f;  /* F16, BF16, F32, F64 */
  };
} Scalar;

uint16_t f16_from_double(double x); /* round to nearest, ties to even */
double f16_to_double(uint16_t h);
uint16_t bf16_from_double(double x);
double bf16_to_double(uint16_t h);
/* Rounds to the precision of a float dtype (identity for F64). */
double dtype_round(Dtype dtype, double x);
/* Wraps to the width of an integer dtype, two's complement. */
int64_t dtype_wrap(Dtype dtype, int64_t x);
/* Conversion as `f32 x`, `i64 x` do it: float to integer truncates towards
 * zero and saturates, NaN gives 0; integers wrap; to bool is x != 0. */
Scalar scalar_convert(Scalar x, Dtype to);
Scalar scalar_load(Dtype dtype, const void *at);
void scalar_store(Scalar x, void *at); /* as x.dtype */
/* Shortest text that reads back as the same value; "1.0" keeps its point,
 * also "inf", "nan", "true". */
void scalar_print(Buffer *out, Scalar x);
/* The float of a dtype nearest to a decimal number: as strtod, but rounded
 * once.  LC_NUMERIC must stay "C": neither this nor printing looks at it. */
double dtype_parse(Dtype dtype, const char *text, char **end);

/* ---- tensor.c ---- */

enum { MAX_RANK = 32 };

typedef struct Mapped Mapped; /* a file in memory: mapped.c */

/* Row-major and contiguous.  An axis whose bit is set in `stars` was made to
 * stretch (its extent is 1): see "Broadcasting is safe" in doc/language.md. */
typedef struct Tensor {
  uint32_t refs; /* atomic */
  Dtype dtype;
  uint32_t rank;
  uint32_t broadcast_mask;
  int64_t shape[MAX_RANK];
  int64_t count;      /* product of the shape */
  void *data;         /* count * bytes of the dtype, 64-byte aligned */
  void *block;        /* that they lie in, of caching_allocator.c; or NULL */
  Mapped *mapped;     /* the file that they lie in; or NULL */
  bool is_borrowed;   /* data are somebody else's: see tensor_borrow */
  size_t alloc_bytes; /* of memory from caching_allocator.c; or 0 */
  void *device_copy;  /* a copy in a device's memory, its backend's; or NULL */
  struct DerivedData
      *derived;        /* other forms of it (derived_cache.h); or NULL */
  struct Tensor *base; /* what it is a part of, in the same memory; or NULL */
} Tensor;

/* The file that its elements lie in, as those of a large one do; or NULL.
 * Somebody may write to it meanwhile: what was computed or copied from it is
 * good only if tensor_check says so afterwards. */
static inline Mapped *tensor_mapped(const Tensor *t) {
  return t->base ? t->base->mapped : t->mapped;
}

/* Lets go of such a copy when the tensor goes; set by who makes them. */
extern void (*tensor_device_release)(void *device);

typedef enum FaultKind {
  FAULT_SHAPE, /* or none: sizes or indices do not fit */
  FAULT_BROADCAST,
  FAULT_INNER_SIZE, /* inner sizes of a product */
  FAULT_ARITHMETIC,
  FAULT_MEMORY,
  FAULT_TARGET_UNAVAILABLE, /* what is to run it cannot */
  FAULT_FILE,
  FAULT_COUNT,
} FaultKind;

typedef struct Fault { /* what went wrong, for a diagnostic to quote */
  char message[512];   /* "" when nothing did */
  char help[256];      /* a way out, or "" */
  FaultKind kind;
} Fault;
void fault_set(Fault *fault, const char *format, ...) PRINTF_LIKE(2, 3);
void fault_set_kind(Fault *fault, FaultKind kind, const char *message);
void fault_set_help(Fault *fault, const char *format, ...) PRINTF_LIKE(2, 3);

/* A fault that names the file where it is not what it was. */
bool tensor_check(const Tensor *t, Fault *fault);
/* The tensor, or a copy where its elements lie in a file: for who reads them
 * where nobody asks afterwards. */
Tensor *tensor_in_memory(Tensor *t, Fault *fault);
bool mapped_any(void); /* is there any such file? */
/* Are both the same file, loaded as the same? */
bool mapped_same(const Mapped *a, const Mapped *b);
bool mapped_is_lost(const Mapped *m); /* is that known already? */
bool files_check(Fault *fault);       /* of all that there are */

/* Not initialised to zero when `clear` is false.  Fails on overflow of the
 * size and when there is no memory ("f32[100000, 100000] needs 37.3 GiB of
 * memory"). */
Tensor *tensor_new(Dtype dtype, uint32_t rank, const int64_t *shape,
                   bool zeroed, Fault *fault);
Tensor *tensor_scalar(Scalar x); /* rank 0; raises when out of memory */
/* Over memory of somebody else, contiguous and aligned to its elements, which
 * stays as it is while the tensor borrows it.  NULL: no memory, or a size that
 * none can hold. */
Tensor *tensor_borrow(Dtype dtype, uint32_t rank, const int64_t *shape,
                      void *data);
/* Ends that: from here on the tensor has a copy of its own.  Of one thread
 * only, before others see the tensor. */
bool tensor_unborrow(Tensor *t, Fault *fault);
/* Rows from .. from + count - 1 of it, in its memory, which lives as long.
 * NULL: no memory for that. */
Tensor *tensor_row_view(Tensor *t, int64_t first_row, int64_t count);
/* The tensor itself, with a reference more; of a part a copy, so that it does
 * not hold the whole.  NULL: no memory. */
Tensor *tensor_detach(Tensor *t, Fault *fault);
Tensor *tensor_retain(Tensor *t);
void tensor_release(Tensor *t);
static inline void *tensor_at(const Tensor *t, int64_t i) {
  return (char *)t->data + i * dtype_info[t->dtype].bytes;
}
/* Bytes of memory that this process may use: the machine's, or less where a
 * container says so. */
uint64_t memory_limit(void);

/* "f32[2, 3]" */
void tensor_print_type(Buffer *out, const Tensor *t);
/* As NumPy prints, aligned, abbreviated with "..." beyond `limit` elements;
 * `width` columns. */
void tensor_print(Buffer *out, const Tensor *t, int64_t threshold, int width);

/* ---- data_dependent_shape.c: the data decides the result's shape ---- */

/* The indices, i64[m], of true elements of a bool[n]. */
Tensor *tensor_nonzero(const Tensor *x, Fault *fault);
/* The distinct elements of a sorted tensor. */
Tensor *tensor_unique(const Tensor *x, Fault *fault);
/* The rows of x that the integers in `rows` name; NULL with a fault where one
 * is out of bounds. */
Tensor *tensor_take_rows(const Tensor *x, const Tensor *rows, Fault *fault);

/* ---- caching_allocator.c: the memory of tensors ---- */

/* Of blocks of 4 KiB or more. */
typedef struct AllocatorStats {
  uint64_t system_allocs,
      cache_hits; /* handed out so far: from the system, or again */
  uint64_t live_bytes, cached_bytes; /* bytes in use, bytes for use again */
  bool is_caching;                   /* false under the address sanitizer */
} AllocatorStats;
AllocatorStats allocator_stats(void);
/* Gives memory back to the system until at most so many bytes are kept. */
void allocator_trim(uint64_t max_cached_bytes);

/* ---- files: npy.c, npz.c, safetensors.c, csv.c, image.c ---- */

/* What a file's header says, read without its data: the type checker uses it.
 * csv: rank 2, dtype DT_NONE (elements take the type that use asks for). */
typedef struct TensorHeader {
  Dtype dtype;
  uint32_t rank;
  int64_t shape[MAX_RANK];
} TensorHeader;

typedef struct LoadOptions {
  const char *name; /* which tensor of a file that holds several; or NULL */
  bool skip_header; /* csv: skip a first line of names */
  Dtype dtype;      /* csv: element type; DT_NONE is F32 */
} LoadOptions;

/* A fault where AXON_FILE_LIMIT is no size. */
bool file_check_env(Fault *fault);
/* By the extension: .npy .npz .safetensors .csv .tsv .png .pgm .ppm */
bool file_has_known_extension(const char *path,
                              Fault *fault); /* there or not */
bool file_read_header(const char *path, const LoadOptions *options,
                      TensorHeader *out, Fault *fault);
Tensor *file_load(const char *path, const LoadOptions *options, Fault *fault);
/* Writes to a temporary file beside `path` and renames it: an interrupted
 * write leaves the old file.  .npz and .safetensors take several names; the
 * others want count == 1.  .png .pgm .ppm want u8[h, w] or u8[h, w, c]. */
bool file_save(const char *path, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault);
/* Names of the tensors in a file that holds several, in the arena. */
const char **file_names(const char *path, Arena *arena, uint32_t *count,
                        Fault *fault);

/* ---- random.c: Philox4x32-10 (Salmon et al., SC 2011, section 3.3) ---- */

typedef struct PrngKey {
  uint64_t word[2];
} PrngKey;
PrngKey prng_key_from_seed(int64_t seed);
PrngKey prng_key_split(PrngKey key,
                       uint64_t index); /* independent child keys */
void philox4x32(const uint32_t counter[4], const uint32_t key[2],
                uint32_t out[4]);
uint32_t prng_bits32(PrngKey key,
                     uint64_t index); /* element `index` of a stream */
uint64_t prng_bits64(PrngKey key, uint64_t index);
enum { PRNG_BATCH_WORDS = 16 };
/* Elements from PRNG_BATCH_WORDS `number` on, of 64 bits. */
void prng_batch64(PrngKey key, uint64_t block_index,
                  uint64_t to[PRNG_BATCH_WORDS]);
double prng_uniform(PrngKey key, uint64_t index, Dtype dtype); /* in [0, 1) */
double prng_normal(PrngKey key, uint64_t index, Dtype dtype);

/* ---- dynlib.c: libraries that only some programs need ----
 *
 *   #define FUNCTIONS(F) F(zip_close) F(zip_fread)
 *   static DYNLIB_TABLE(FUNCTIONS) zip;
 *   static const Library zip_library = DYNLIB("libzip.so.4", "libzip4",
 *                                              FUNCTIONS, zip);
 *   if (!dynlib_load(&zip_library, fault)) return NULL;
 *   zip.zip_close(...); */
typedef struct DynLib {
  const char *soname, *package; /* of Debian */
  const char *const *symbols;   /* NULL at the end */
  void *table;                  /* of function pointers, in their order */
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

/* Loads it on first use; false with a fault that names the package. */
bool dynlib_load(const DynLib *library, Fault *fault);

#endif
