/* backend/cuda: access to GPUs through the CUDA driver API.
 *
 * libcuda.so.1 belongs to the NVIDIA driver.  It is loaded on first use.  Its
 * functions are in a table (CudaApi), which tests can replace.  A failed call
 * returns a Fault with the attempted action, the error name of the driver, and
 * help.
 *
 * The caller owns a CudaContext.  Any thread may use it, one at a time.  Work
 * on its stream runs asynchronously in order.  A later call may report the
 * error of an earlier kernel. */
#ifndef AXON_CUDA_DRIVER_H
#define AXON_CUDA_DRIVER_H

#include "runtime/artifact.h"
#include "support/compiler.h"
#include "support/mem.h"

typedef int CuResult; /* 0: success */
typedef int CuDevice;
typedef struct CuContextIs *CuContext;
typedef struct CuModuleIs *CuModule;
typedef struct CuFunctionIs *CuFunction;
typedef struct CuStreamIs *CuStream;
typedef struct CuEventIs *CuEvent;
typedef struct CuGraphIs *CuGraph;
typedef struct CuNodeIs *CuGraphNode; /* node of a CuGraph */
typedef struct CuGraphExecIs *CuGraphExec;
typedef uint64_t CuDevicePtr; /* address in device memory */

enum { CU_OUT_OF_MEMORY = 2 };

/* CUDA_KERNEL_NODE_PARAMS_v2. */
typedef struct CuKernelNode {
  CuFunction function;
  unsigned grid[3], block[3], shared_bytes;
  void **args, **extra;
  void *kernel;
  CuContext context;
} CuKernelNode;

typedef struct CudaApi {
#define CU(name, symbol, arguments) CuResult(*name) arguments;
#include "backend/cuda/driver.def"
#undef CU
} CudaApi;

/* Loads and initializes the driver once.  NULL with a fault if that fails. */
const CudaApi *cuda_api(Fault *fault);
const char *
cuda_api_path(void); /* path of the library; "" if it is not loaded */

/* True if the result is success.  Otherwise false with a fault.  `what` names
 * the attempted action: "copying 3 bytes". */
bool cuda_check(const CudaApi *api, CuResult result, Fault *fault,
                const char *what, ...) PRINTF_LIKE(4, 5);

/* ---- devices ---- */

typedef struct CudaDeviceInfo {
  char name[128];
  int major, minor;          /* compute capability */
  char arch[16];             /* target architecture of its code: "sm_90a" */
  uint64_t memory_bytes;     /* device memory, bytes */
  int sm_count;              /* number of multiprocessors */
  int sm_threads, sm_blocks; /* resident per SM, at most */
  int sm_registers, sm_shared_bytes; /* per SM: 32-bit registers, bytes */
  int block_threads;                 /* threads per block, at most */
  /* Limits of a block: registers, bytes with opt-in. */
  int block_registers, block_shared_bytes;
  /* Shared memory per block that the system reserves, bytes. */
  int block_reserved_bytes;
  int l2_bytes;
  int clock_khz, memory_clock_khz;
  int memory_bus_bits; /* width of the memory bus */
} CudaDeviceInfo;

bool cuda_device_count(const CudaApi *api, int *count, Fault *fault);
bool cuda_device_info(const CudaApi *api, int ordinal, CudaDeviceInfo *out,
                      Fault *fault);
/* The CUDA version that the driver supports: 13000 is 13.0. */
bool cuda_version(const CudaApi *api, int *version, Fault *fault);

/* ---- contexts ---- */

typedef struct CudaContext {
  const CudaApi *api;
  CudaDeviceInfo info;
  CuDevice device;
  CuContext context;
  CuStream stream;
  struct LaunchGraph *launch_graph; /* NULL: each kernel is launched directly */
} CudaContext;

bool cuda_context_open(const CudaApi *api, int ordinal, CudaContext *out,
                       Fault *fault);
void cuda_context_close(CudaContext *gpu);
/* Makes the context current in this thread.  The functions below do so
 * themselves. */
bool cuda_context_make_current(CudaContext *gpu, Fault *fault);
/* Waits for all work on the stream. */
bool cuda_synchronize(CudaContext *gpu, Fault *fault);
bool cuda_memory_info(CudaContext *gpu, uint64_t *unused, uint64_t *total,
                      Fault *fault);

/* image: a cubin, or PTX that ends in NUL. */
bool cuda_load_module(CudaContext *gpu, const void *image, CuModule *out,
                      Fault *fault);
void cuda_unload_module(CudaContext *gpu, CuModule module);
/* Finds a kernel and permits `shared` bytes of dynamic shared memory for it. */
bool cuda_get_function(CudaContext *gpu, CuModule module, const char *name,
                       unsigned shared, CuFunction *out, Fault *fault);

typedef struct CudaLaunch {
  CuFunction function;
  const char *name; /* for messages */
  unsigned grid[3], block[3], shared_bytes;
  void **args;       /* pointers to the arguments */
  size_t args_bytes; /* size of the only argument; 0: there may be several */
} CudaLaunch;
/* With a launch graph, the kernel is only recorded.  It starts before the next
 * other operation on the stream. */
bool cuda_launch(CudaContext *gpu, const CudaLaunch *launch, Fault *fault);

/* Copies in stream order.  Host memory must stay valid until the copy is
 * complete.  Only copies from or to pinned memory (cuda_host_alloc) are
 * asynchronous to the host. */
bool cuda_memcpy_h2d(CudaContext *gpu, CuDevicePtr to, const void *from,
                     size_t bytes, Fault *fault);
bool cuda_memcpy_d2h(CudaContext *gpu, void *to, CuDevicePtr from, size_t bytes,
                     Fault *fault);
bool cuda_memcpy_d2d(CudaContext *gpu, CuDevicePtr to, CuDevicePtr from,
                     size_t bytes, Fault *fault);
bool cuda_memset(CudaContext *gpu, CuDevicePtr at, uint8_t value, size_t bytes,
                 Fault *fault);
void *cuda_host_alloc(CudaContext *gpu, size_t bytes, Fault *fault);
void cuda_host_free(CudaContext *gpu, void *at);

/* Events with timing. */
bool cuda_event_create(CudaContext *gpu, CuEvent *out, Fault *fault);
void cuda_event_destroy(CudaContext *gpu, CuEvent event);
bool cuda_event_record(CudaContext *gpu, CuEvent event, Fault *fault);
/* Waits for the last event. */
bool cuda_event_elapsed(CudaContext *gpu, CuEvent first, CuEvent last,
                        double *seconds, Fault *fault);

#endif
