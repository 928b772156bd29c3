/* kept: what was made of a tensor's elements, for the next time that it is
 * wanted.
 *
 * A kernel may want an operand in another form than that in which it lies:
 * columns of a product in panels, the weights of a convolution turned.  Where
 * the tensor lives on, as weights do, that form is made once and hangs on the
 * tensor, under a hash of all that it depends on beside the elements.  It is
 * made when the same form of the same tensor is wanted for the second time, so
 * that what is used once pays nothing.
 *
 * It goes with the tensor, and before that where all forms together would take
 * more memory than they may: those first that were not used for longest, but
 * none that was used since the new one was last wanted, since of forms that
 * are wanted in turn, and do not fit, each would drive out the next.  Tensors
 * over memory of a host program have none, since it may change what is there.
 *
 * Any thread may use it. */
#ifndef AXON_DERIVED_CACHE_H
#define AXON_DERIVED_CACHE_H

#include "runtime/artifact.h"

typedef struct DerivedData DerivedData;

/* Writes the form to `to`; false: it was interrupted, and there is none. */
typedef bool DeriveFunction(void *context, void *to);

/* That form of t, of so many bytes, which stays until derived_cache_release;
 * NULL: there is none, and whoever asks has to do without. */
DerivedData *derived_cache_acquire(Tensor *t, const ArtifactKey *key,
                                   size_t bytes, DeriveFunction *derive,
                                   void *context);
/* A form of the elements from so many bytes on: parts of a tensor have forms of
 * the whole. */
ArtifactKey derived_cache_key_at(ArtifactKey key, int64_t from);
const void *derived_data(const DerivedData *k);
void derived_cache_release(DerivedData *k);

/* Of a tensor that goes, or is written to. */
void derived_cache_invalidate(Tensor *t);

/* Bytes that all of them may take; 0: nothing is kept; UINT64_MAX: a quarter of
 * the memory. */
void derived_cache_set_limit(uint64_t bytes);
/* Gives memory back until at most so many bytes are taken. */
void derived_cache_trim(uint64_t bytes);
/* For tests: whatever it costs, and from the first use on. */
void derived_cache_set_eager(bool on);
bool derived_cache_is_eager(void);

typedef struct DerivedCacheStats {
  uint64_t builds, hits; /* so far; used: without being made */
  uint64_t bytes;        /* now */
} DerivedCacheStats;
DerivedCacheStats derived_cache_stats(void);

#endif
