/* backend/cuda/sim: simulator that runs kernels on the host and detects errors
 * in them. backend/cuda/intrinsics.h lists what kernels may contain;
 * doc/architecture.md describes the simulator.  One launch at a time per
 * process. */
#ifndef AXON_CUDA_SIM_H
#define AXON_CUDA_SIM_H

#include "runtime/artifact.h"

typedef struct Buffer Buffer;
typedef struct Sim Sim;

/* Compiles a kernel, without the intrinsics, with the host's C++ compiler:
 * AXON_SIM_CXX, or g++, c++, clang++. NULL with a message if that fails. name:
 * for messages, "kernel.cu".  AXON_SIM_CACHE names a folder for compiled
 * kernels. */
Sim *sim_compile(const char *source, const char *name, Buffer *error);
void sim_free(Sim *s);
/* Creates a folder for temporary files.  The caller frees the name.  NULL: see
 * errno. */
char *sim_temp_dir(void);
/* Removes such a folder and what it contains. */
void sim_remove_dir(const char *folder);
/* Identifies the compiler and its version. */
ArtifactKey sim_compiler_key(void);
/* Identifies the files and flags that kernels are compiled with. */
ArtifactKey sim_runtime_key(void);
/* True if there is a C++ compiler. */
bool sim_is_available(void);
/* True if the compiler instruments accesses to local arrays, as g++ does. */
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
  /* Blocks per cluster, along x; 0: as in the kernel (__cluster_dims__), or 1.
   */
  uint32_t cluster_blocks;
  uint32_t shared_bytes; /* dynamic shared memory, bytes */
  const void *args;      /* the only parameter */
  size_t args_bytes;
  const SimMemory *memory;
  uint32_t memory_count;
  /* Determines the order of threads and asynchronous operations. */
  uint64_t seed;
  uint32_t resident_blocks; /* blocks that run concurrently; 0: four */
  /* Scheduling steps before the launch is aborted; 0: 100 million. */
  uint64_t max_steps;
} SimLaunch;

/* Runs the kernel.  False with a message in `error`. */
bool sim_launch(Sim *s, const SimLaunch *l, Buffer *error);

/* ---- tensor maps, as of cuTensorMapEncodeTiled ---- */

enum { SIM_MAX_RANK = 5 };

typedef struct SimTensorMap {
  uint32_t rank, element_bytes;  /* bytes per element */
  const void *address;           /* 16-byte aligned */
  uint64_t extent[SIM_MAX_RANK]; /* contiguous axis first */
  uint64_t stride[SIM_MAX_RANK]; /* bytes; stride[0] is element_bytes */
  uint32_t box[SIM_MAX_RANK];    /* at most 256 each */
  uint32_t swizzle;              /* bytes: 0, 32, 64, 128 */
  bool round_tf32;               /* loads round f32 to TF32 */
  /* Im2col mode (cuTensorMapEncodeIm2col): a box of box[0] channels and box[1]
   * pixels.  The pixels are counted in a bounding box with these corners, along
   * axes 1 .. rank - 2, with these strides. */
  bool im2col;
  int32_t lower_corner[SIM_MAX_RANK - 2], upper_corner[SIM_MAX_RANK - 2];
  uint32_t traversal_stride[SIM_MAX_RANK - 2];
} SimTensorMap;

/* Writes 128 bytes to `out`, which must be 64-byte aligned.  False if the
 * driver would reject the map. */
bool sim_tensor_map_encode(void *out, const SimTensorMap *map, Buffer *error);

#endif
