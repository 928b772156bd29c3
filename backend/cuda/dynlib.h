/* backend/cuda: libraries of NVIDIA's, which this program is built without and
 * loads where it finds them.  A table of pointers to functions is filled in, in
 * the order of their names; tests fill in such tables themselves. */
#ifndef AXON_CUDA_DYNLIB_H
#define AXON_CUDA_DYNLIB_H

#include "runtime/artifact.h"

typedef enum LoadStatus {
  LOAD_NONE,
  LOAD_OK,
  LOAD_ABSENT,  /* there is no such file */
  LOAD_INVALID, /* there is one, and it is none of these */
  LOAD_COUNT,
} LoadStatus;

typedef struct LoadedLibrary {
  char path[ARTIFACT_PATH_BYTES]; /* where it lies */
  char error[300];                /* why it was not loaded */
  void *handle;
} LoadedLibrary;

/* By a path, or by a name that the system looks for.  `symbols` ends in NULL.
 * What is loaded once stays. */
LoadStatus load_library(const char *name, const char *const *symbols,
                        void *table, LoadedLibrary *out);
/* Lets go of one that will not do after all. */
void unload_library(LoadedLibrary *loaded);

#endif
