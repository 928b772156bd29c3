/* backend/cpu: several kernel sources as one, for one process of the C
 * compiler.  A third of the time of a quick compilation is the start of the
 * compiler and the prelude. */
#ifndef AXON_CPU_COMPILE_BATCH_H
#define AXON_CPU_COMPILE_BATCH_H

#include "support/buffer.h"

#include <stddef.h>
#include <stdint.h>

enum { BATCH_SUFFIX_BYTES = 20 };

/* Returns true if a source may be a part of a batch: it begins with the number
 * of lanes, and all that it defines are functions, among them `kernel`, and
 * macros. */
bool compile_batch_accepts(const char *source, size_t len);
/* Returns true if both sources have the same number of lanes. */
bool compile_batch_matches(const char *x, const char *y);
/* The suffix of the functions of a source in a batch, from its key. */
void compile_batch_suffix(char out[BATCH_SUFFIX_BYTES], uint64_t key);
/* Appends a source.  Its functions get the suffix.  Raises FAIL_MEMORY. */
void compile_batch_add(Buffer *out, const char *source, size_t len,
                       uint64_t key);

#endif
