/* backend/cuda: GPUs, by the CUDA driver API.
 *
 * libcuda.so.1 comes with the driver of NVIDIA, and is loaded when somebody
 * asks for a GPU.  Its functions are a table (CudaApi), which tests fill in
 * with their own.  What goes wrong is a Fault that says what was to be done,
 * what the driver calls the error, and a way out.
 *
 * A CudaContext belongs to who has opened it.  Any thread may use it, one at a
 * time.  What is put on its stream runs in that order, and later: an error of
 * a kernel comes up in whatever is asked of the GPU after it. */
#ifndef AXON_CUDA_DRIVER_H
#define AXON_CUDA_DRIVER_H

#include "runtime/artifact.h"

typedef int CuResult; /* 0: all is well */
typedef int CuDevice;
typedef struct CuContextIs *CuContext;
typedef struct CuModuleIs *CuModule;
typedef struct CuFunctionIs *CuFunction;
typedef struct CuStreamIs *CuStream;
typedef struct CuEventIs *CuEvent;
typedef struct CuGraphIs *CuGraph;
typedef struct CuNodeIs *CuGraphNode; /* of one */
typedef struct CuGraphExecIs *CuGraphExec;
typedef uint64_t CuDevicePtr; /* in the GPU's memory */

enum { CU_OUT_OF_MEMORY = 2 };

typedef struct CuKernelNode { /* CUDA_KERNEL_NODE_PARAMS_v2 */
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

/* Found, loaded and made ready once.  NULL: there is none, or it will not
 * work. */
const CudaApi *cuda_api(Fault *fault);
const char *cuda_api_path(void); /* of the library; "" where there is none */

/* Does the result say that all is well?  False with a fault: `what` was to be
 * done, "copying 3 bytes". */
bool cuda_check(const CudaApi *api, CuResult result, Fault *fault,
                const char *what, ...) PRINTF_LIKE(4, 5);

/* ---- devices ---- */

typedef struct CudaDeviceInfo {
  char name[128];
  int major, minor;                  /* compute capability */
  char arch[16];                     /* what code for it is for: "sm_90a" */
  uint64_t memory_bytes;             /* bytes */
  int sm_count;                      /* that it has of each of the following: */
  int sm_threads, sm_blocks;         /* at once */
  int sm_registers, sm_shared_bytes; /* of 32 bits; bytes */
  int block_threads;                 /* of one block, at most: */
  int block_registers,
      block_shared_bytes;   /* bytes, the kernel asking for them */
  int block_reserved_bytes; /* bytes of shared memory that it cannot use */
  int l2_bytes;             /* bytes */
  int clock_khz, memory_clock_khz; /* kHz */
  int memory_bus_bits;             /* bits between memory and chip */
} CudaDeviceInfo;

bool cuda_device_count(const CudaApi *api, int *count, Fault *fault);
bool cuda_device_info(const CudaApi *api, int ordinal, CudaDeviceInfo *out,
                      Fault *fault);
/* The CUDA version that the driver knows: 13000 is 13.0. */
bool cuda_version(const CudaApi *api, int *version, Fault *fault);

/* ---- one that is in use ---- */

typedef struct CudaContext {
  const CudaApi *api;
  CudaDeviceInfo info;
  CuDevice device;
  CuContext context;
  CuStream stream;
  struct LaunchGraph
      *launch_graph; /* launch_graph.h; NULL: kernels are started one by one */
} CudaContext;

bool cuda_context_open(const CudaApi *api, int ordinal, CudaContext *out,
                       Fault *fault);
void cuda_context_close(CudaContext *gpu);
/* Makes its context this thread's; what follows does it by itself. */
bool cuda_context_make_current(CudaContext *gpu, Fault *fault);
/* Waits for all that is on the stream. */
bool cuda_synchronize(CudaContext *gpu, Fault *fault);
bool cuda_memory_info(CudaContext *gpu, uint64_t *unused, uint64_t *total,
                      Fault *fault);

/* From cubin or PTX (ended by NUL). */
bool cuda_load_module(CudaContext *gpu, const void *image, CuModule *out,
                      Fault *fault);
void cuda_unload_module(CudaContext *gpu, CuModule module);
/* One that may be started with so many bytes of dynamic shared memory. */
bool cuda_get_function(CudaContext *gpu, CuModule module, const char *name,
                       unsigned shared, CuFunction *out, Fault *fault);

typedef struct CudaLaunch {
  CuFunction function;
  const char *name; /* for messages */
  unsigned grid[3], block[3], shared_bytes;
  void **args;       /* pointers to them */
  size_t args_bytes; /* of the only one; 0: there may be several */
} CudaLaunch;
/* With a tape it is started when something else is asked of the stream. */
bool cuda_launch(CudaContext *gpu, const CudaLaunch *launch, Fault *fault);

/* In the order of the stream.  Host memory must stay until that has come to
 * it; only what cuda_host_alloc gave is copied beside what the host does. */
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

/* Places in the stream whose times are taken. */
bool cuda_event_create(CudaContext *gpu, CuEvent *out, Fault *fault);
void cuda_event_destroy(CudaContext *gpu, CuEvent event);
bool cuda_event_record(CudaContext *gpu, CuEvent event, Fault *fault);
/* Waits for the last one. */
bool cuda_event_elapsed(CudaContext *gpu, CuEvent first, CuEvent last,
                        double *seconds, Fault *fault);

#endif
