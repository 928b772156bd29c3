/* backend/cuda/sim: runs kernels' texts on the host, and finds what is wrong in
 * them: backend/cuda/intrinsics.h says what they may hold, doc/architecture.md
 * how this works.  One launch at a time in a process. */
#ifndef AXON_CUDA_SIM_H
#define AXON_CUDA_SIM_H

#include "support/support.h"

typedef struct Sim Sim;

/* A text, without the wrappers, by the host's C++ compiler (AXON_SIM_CXX, or
 * g++, c++, clang++).  NULL: it does not compile, or there is none
 * (sim_is_available).  name: for messages, "kernel.cu".  AXON_SIM_CACHE names a
 * folder that keeps compiled texts. */
Sim *sim_compile(const char *source, const char *name, Buffer *error);
void sim_free(Sim *s);
/* A new folder for temporary files; the caller frees the name.  NULL: errno. */
char *sim_temp_dir(void);
/* Is there such a compiler? */
bool sim_is_available(void);
/* Does it tell of accesses to arrays of the thread's own?  g++ does. */
bool sim_sees_registers(void);

/* A range of global memory. */
typedef struct SimMemory {
  const void *address;
  size_t bytes;
  bool writable;
  const char *name; /* for messages */
} SimMemory;

typedef struct SimLaunch {
  const char *kernel;
  uint32_t grid[3], block[3];
  uint32_t cluster_blocks; /* blocks along x that are one cluster; 0: as the
                              kernel says (__cluster_dims__), or 1 */
  uint32_t shared_bytes;   /* bytes */
  const void *args;        /* its one parameter */
  size_t args_bytes;
  const SimMemory *memory;
  uint32_t memory_count;
  uint64_t seed;            /* which order things happen in */
  uint32_t resident_blocks; /* blocks that run at a time; 0: four */
  uint64_t
      max_steps; /* turns of threads until it is given up; 0: 100 million */
} SimLaunch;

/* False: what is wrong is in `error`. */
bool sim_launch(Sim *s, const SimLaunch *l, Buffer *error);

/* ---- tensor maps, as cuTensorMapEncodeTiled makes them ---- */

enum { SIM_MAX_RANK = 5 };

typedef struct SimTensorMap {
  uint32_t rank, element_bytes;  /* bytes of one */
  const void *address;           /* aligned to 16 */
  uint64_t extent[SIM_MAX_RANK]; /* the densest axis first */
  uint64_t stride[SIM_MAX_RANK]; /* bytes; that of axis 0 is `element` */
  uint32_t box[SIM_MAX_RANK];    /* up to 256 each */
  uint32_t swizzle;              /* bytes: 0, 32, 64, 128 */
  bool round_tf32;               /* f32 is rounded to tf32 on the way */
  /* of pixels (cuTensorMapEncodeIm2col): box[0] channels of box[1] pixels, as a
     bounding box with these corners counts them, along axes 1 .. rank - 2, by
     these steps */
  bool im2col;
  int32_t lower_corner[SIM_MAX_RANK - 2], upper_corner[SIM_MAX_RANK - 2];
  uint32_t traversal_stride[SIM_MAX_RANK - 2];
} SimTensorMap;

/* Into 128 bytes aligned to 64.  False: the driver would refuse it. */
bool sim_tensor_map_encode(void *out, const SimTensorMap *map, Buffer *error);

#endif
