/* derived_cache: derived data of tensors, such as packed panels.
 *
 * A kernel may need an operand in another form: the columns of a matmul
 * operand in panels, the weights of a convolution transposed.  If the tensor
 * lives on, as weights do, this form is computed once and attached to the
 * tensor.  Its key is a hash of everything except the elements.  It is computed
 * at the second request, so that data used once costs nothing, or at the first
 * one if that pays by itself.
 *
 * Derived data is freed with the tensor.  It is freed earlier if all derived
 * data together would exceed its limit, least recently used first.  Data that
 * was used since the last request of the new form is not freed: otherwise forms
 * that are used in turn, and do not fit, would evict each other.  Tensors over
 * memory of a host program have no derived data, since the host may change it.
 *
 * All functions are thread-safe. */
#ifndef AXON_DERIVED_CACHE_H
#define AXON_DERIVED_CACHE_H

#include "runtime/artifact.h"

typedef struct DerivedData DerivedData;

/* Writes the form to `to`.  Returns false if it was interrupted; then there is
 * no data. */
typedef bool DeriveFunction(void *context, void *to);

/* Returns this form of t, of `bytes` bytes.  It stays valid until
 * derived_cache_release.  NULL: not available; the caller must do without. */
DerivedData *derived_cache_acquire(Tensor *t, const ArtifactKey *key,
                                   size_t bytes, DeriveFunction *derive,
                                   void *context);
/* The same for a form that is computed at the first request.  If it cannot be
 * cached, it exists until derived_cache_release.  NULL: not enough memory, or
 * interrupted. */
DerivedData *derived_cache_acquire_or_build(Tensor *t, const ArtifactKey *key,
                                            size_t bytes,
                                            DeriveFunction *derive,
                                            void *context);
/* The key of the form that begins at byte `from`: a view of a tensor uses
 * derived data of the whole. */
ArtifactKey derived_cache_key_at(ArtifactKey key, int64_t from);
const void *derived_data(const DerivedData *k);
void derived_cache_release(DerivedData *k);

/* For a tensor that is freed or overwritten. */
void derived_cache_invalidate(Tensor *t);

/* Sets the maximum bytes of all derived data. 0: keep nothing; UINT64_MAX: a
 * quarter of the memory. */
void derived_cache_set_limit(uint64_t bytes);
/* While a loop runs, data may exceed a small limit: each iteration needs them.
 * They are freed when the last loop ends. */
void derived_cache_begin_loop(void);
void derived_cache_end_loop(void);
/* Frees data until at most this number of bytes is in use. */
void derived_cache_trim(uint64_t bytes);
/* For tests: derives from the first use on, whatever it costs. */
void derived_cache_set_eager(bool on);
bool derived_cache_is_eager(void);

typedef struct DerivedCacheStats {
  uint64_t builds,
      hits;       /* totals so far; hits: requests served without computing */
  uint64_t bytes; /* bytes in use now */
} DerivedCacheStats;
DerivedCacheStats derived_cache_stats(void);

#endif
