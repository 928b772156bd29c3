/* backend/cuda: loads NVIDIA libraries at run time.  The build does not need
 * them.  load_library fills a table of function pointers in the order of their
 * names.  Tests can fill such tables themselves. */
#ifndef AXON_CUDA_DYNLIB_H
#define AXON_CUDA_DYNLIB_H

#include "runtime/artifact.h"

typedef enum LoadStatus {
  LOAD_NONE,
  LOAD_OK,
  LOAD_ABSENT,  /* no such file */
  LOAD_INVALID, /* the file exists but cannot be used */
  LOAD_COUNT,
} LoadStatus;

typedef struct LoadedLibrary {
  char path[ARTIFACT_PATH_BYTES]; /* path of the loaded file */
  char error[300];                /* why loading failed */
  void *handle;
} LoadedLibrary;

/* name: a path, or a file name for the search path.  `symbols` ends in NULL.  A
 * loaded library stays loaded. */
LoadStatus load_library(const char *name, const char *const *symbols,
                        void *table, LoadedLibrary *out);
/* Unloads a library that turns out to be unusable. */
void unload_library(LoadedLibrary *loaded);

#endif
