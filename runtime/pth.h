/* Files of torch.save: what pth.c, which opens them and copies elements, and
 * pth_names.c, which finds the tensors in the pickle, share. */
#ifndef AXON_RUNTIME_PTH_H
#define AXON_RUNTIME_PTH_H

#include "runtime/pickle.h"
#include "runtime/zip_archive.h"

/* An element type of PyTorch. */
typedef struct PthElement {
  const char *name;
  Dtype dtype;      /* DT_NONE: Axon has no such type */
  uint8_t bytes;    /* of an element */
  bool has_pairs;   /* complex: pairs along an added last axis */
  const char *help; /* DT_NONE: what to save instead */
} PthElement;

/* A piece of memory that tensors share. */
typedef struct PthStorage {
  const char *key; /* not NUL-terminated */
  uint32_t key_len;
  const PthElement *element; /* NULL: bytes */
  uint64_t view_start; /* bytes: of a view, from the start of the storage */
  uint64_t view_bytes; /* UINT64_MAX: the whole storage */
  bool is_placed;
  size_t at, bytes;    /* in the file; zip: `at` is the number of the entry */
  size_t packed_bytes; /* zip: the bytes in the file */
} PthStorage;

typedef struct PthTensor {
  const PthElement *element;
  uint32_t storage, rank;
  bool negated, conjugated; /* not yet in the elements of the storage */
  uint64_t offset;          /* in elements of the dtype, as the strides */
  int64_t *shape;
  uint64_t *strides;
} PthTensor;

typedef struct PthFile {
  InputFile in;
  Arena *arena;
  zip_t *zip;   /* NULL: an old file, which is no archive */
  void *pickle; /* zip: the bytes of data.pkl */
  char *prefix; /* zip: the folder of the entries */
  Buffer entry; /* zip: the name of an entry that is looked up */
  bool swap;    /* the first byte of an element is the most significant one */
  PthStorage *storages;
  uint32_t storage_count;
  VEC(PthTensor) tensors;
  uint32_t others;  /* values that are no tensors */
  uint32_t unnamed; /* tensors whose keys are no names */
  EntryNames names;
} PthFile;

/* The names that a pickle may use, and their number. */
const char *const *pth_names(size_t *count);
extern const char pth_wanted[]; /* help: how to save what Axon reads */

/* Lists the storages of a pickle that was read. */
bool pth_find_storages(PthFile *file, const Pickle *p, Fault *fault);
/* Lists the tensors in `root`.  Their names are joined by dots.  The size
 * of the pickle bounds the walk, since values may be shared. */
bool pth_find_tensors(PthFile *file, const PickleValue *root,
                      size_t pickle_bytes, Fault *fault);

#endif
