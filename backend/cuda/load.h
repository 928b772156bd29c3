/* backend/cuda: libraries of NVIDIA's, which this program is built without and
 * loads where it finds them.  A table of pointers to functions is filled in, in
 * the order of their names; tests fill in such tables themselves. */
#ifndef AXON_CUDA_LOAD_H
#define AXON_CUDA_LOAD_H

#include "runtime/artifact.h"

typedef enum LoadEnd {
  LOAD_NONE,
  LOAD_GOOD,
  LOAD_ABSENT, /* there is no such file */
  LOAD_WRONG,  /* there is one, and it is none of these */
  LOAD_COUNT,
} LoadEnd;

typedef struct Loaded {
  char path[ARTIFACT_PATH]; /* where it lies */
  char why[300];            /* why it was not loaded */
  void *handle;
} Loaded;

/* By a path, or by a name that the system looks for.  `symbols` ends in NULL.
 * What is loaded once stays. */
LoadEnd load_library(const char *name, const char *const *symbols, void *table,
                     Loaded *out);
/* Lets go of one that will not do after all. */
void load_undo(Loaded *loaded);

#endif
