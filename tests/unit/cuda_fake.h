/* A fake CUDA driver: implements each function of driver.def, under its symbol,
 * in host memory.  cuda_test.c uses it as a table.  check_cuda.sh builds a
 * libcuda.so.1 from it.
 *
 * With FAKE_RUNS, the simulator runs the sources that nvrtc_fake.h returns as
 * code.  So a whole program for the GPU runs without one (check_cudarun.sh).
 * With FAKE_IDLE, kernels do nothing; only their sources matter (cudatexts.sh).
 *
 * Any function can be made to fail (fake_inject_failure, or
 * FAKE_FAIL="init=100").  The rules of the driver are checked: nothing is used
 * after it was freed, and nothing is freed while the stream may use it. */
#include "backend/cuda/driver.h"
#include "support/buffer.h"
#include "support/mem.h"

#ifdef FAKE_RUNS
#include "backend/cuda/sim/sim.h"
#endif

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CU(name, symbol, arguments) \
  CuResult fake_##name arguments __asm__(symbol);
#include "backend/cuda/driver.def"
#undef CU

/* The gaps between blocks are so large that an access far out of bounds hits no
 * other block. */
enum { FAKE_BLOCKS = 1 << 15, FAKE_BLOCK_GAP_BYTES = 1 << 20 };

typedef struct FakeBlock {
  char *at;
  size_t size;
} FakeBlock;

static struct {
  char fails[32]; /* name of the function that fails */
  CuResult result;
  int after;      /* number of calls that succeed before the failure */
  int capability; /* such as 90 */
  int devices;
  int processors; /* 0: a number that depends on the attribute */
  size_t memory;  /* bytes of GPU memory; `taken` of them are allocated */
  size_t taken;
  FakeBlock blocks[FAKE_BLOCKS];
  int block_count;
  CuContext current;
  int graphs, started; /* open graphs; kernels that graphs launched */
  size_t bytes;        /* bytes of kernel arguments in graphs; 0: 4096 */
  int contexts, streams, modules, events, hosts; /* numbers of open objects */
  bool busy;                                     /* work may still be running */
  /* A rule that was broken; NULL: none. */
  const char *broken;
  unsigned shared; /* bytes of shared memory of the last function */
  bool nameless;   /* the driver has no names for errors */
} fake = {.capability = 90, .devices = 1, .memory = 1 << 20};

/* Threads call the fake one at a time. */
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int fake_depth;

static int fake_enter(void) {
  return fake_depth++ ? 0 : pthread_mutex_lock(&fake_lock);
}

static void fake_leave(int *unused) {
  (void)unused;
  if (--fake_depth == 0)
    pthread_mutex_unlock(&fake_lock);
}

#define WITH_FAKE_LOCK \
  int alone __attribute__((cleanup(fake_leave), unused)) = fake_enter()

static void fake_inject_failure(const char *name, CuResult result, int after) {
  snprintf(fake.fails, sizeof fake.fails, "%s", name);
  fake.result = result;
  fake.after = after;
}

static CuResult fake_injected_result(const char *name) {
  if (strcmp(fake.fails, name) != 0 || fake.after-- > 0)
    return 0;
  *fake.fails = 0;
  return fake.result;
}

#define RETURN_INJECTED_FAILURE(name)              \
  do {                                             \
    CuResult result = fake_injected_result(#name); \
    if (result != 0)                               \
      return result;                               \
  } while (0)

static void fake_settings(void) {
  const char *fail = getenv("FAKE_FAIL"), *kind = getenv("FAKE_CAPABILITY");
  const char *devices = getenv("FAKE_DEVICES");
  const char *memory = getenv("FAKE_MEMORY");
  const char *processors = getenv("FAKE_PROCESSORS");
  char name[32];
  int result;
  if (fail && sscanf(fail, "%31[a-z_]=%d", name, &result) == 2)
    fake_inject_failure(name, result, 0);
  if (kind)
    fake.capability = atoi(kind);
  if (devices)
    fake.devices = atoi(devices);
  if (memory)
    fake.memory = (size_t)atoll(memory) << 20;
  if (processors)
    fake.processors = atoi(processors);
}

CuResult fake_init(unsigned flags) {
  fake_settings();
  RETURN_INJECTED_FAILURE(init);
  return flags == 0 ? 0 : 1;
}

CuResult fake_driver_version(int *version) {
  RETURN_INJECTED_FAILURE(driver_version);
  *version = getenv("FAKE_VERSION") ? atoi(getenv("FAKE_VERSION")) : 13010;
  return 0;
}

CuResult fake_error_name(CuResult result, const char **name) {
  *name = fake.nameless ? NULL
          : result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY"
                        : "CUDA_ERROR_FAKE";
  return fake.nameless;
}

CuResult fake_error_string(CuResult result, const char **text) {
  *text = fake.nameless ? NULL : result == 2 ? "out of memory" : "it is a fake";
  return fake.nameless;
}

/* NVRTC also looks for a driver and calls this; it compiles without it. */
CuResult cuGetExportTable(const void **table, const void *id);
CuResult cuGetExportTable(const void **table, const void *id) {
  (void)table, (void)id;
  return 801;
}

/* ---- devices ---- */

CuResult fake_device_count(int *count) {
  RETURN_INJECTED_FAILURE(device_count);
  *count = fake.devices;
  return 0;
}

CuResult fake_device_get(CuDevice *out, int ordinal) {
  RETURN_INJECTED_FAILURE(device_get);
  *out = ordinal;
  return ordinal < fake.devices ? 0 : 101;
}

CuResult fake_device_name(char *name, int size, CuDevice device) {
  RETURN_INJECTED_FAILURE(device_name);
  snprintf(name, (size_t)size, "Fake GPU %d", device);
  return 0;
}

CuResult fake_device_memory(size_t *bytes, CuDevice device) {
  RETURN_INJECTED_FAILURE(device_memory);
  (void)device;
  *bytes = fake.memory;
  return 0;
}

CuResult fake_device_attribute(int *value, int attribute, CuDevice device) {
  RETURN_INJECTED_FAILURE(device_attribute);
  (void)device;
  *value = attribute == 75                      ? fake.capability / 10
           : attribute == 76                    ? fake.capability % 10
           : attribute == 16 && fake.processors ? fake.processors
           : attribute == 97 && fake.processors ? 227 << 10
                                                : 1000 + attribute;
  return 0;
}

CuResult fake_context_retain(CuContext *out, CuDevice device) {
  RETURN_INJECTED_FAILURE(context_retain);
  (void)device;
  fake.contexts++;
  *out = (CuContext)&fake;
  return 0;
}

CuResult fake_context_release(CuDevice device) {
  (void)device;
  fake.contexts--;
  return 0;
}

CuResult fake_context_set(CuContext context) {
  RETURN_INJECTED_FAILURE(context_set);
  fake.current = context;
  return context == (CuContext)&fake ? 0 : 201;
}

/* Functions that programs of axon build call, but we do not. */

CuResult cuCtxGetCurrent(CuContext *out);
CuResult cuCtxGetCurrent(CuContext *out) {
  *out = fake.current;
  return 0;
}

CuResult cuCtxGetDevice(CuDevice *out);
CuResult cuCtxGetDevice(CuDevice *out) {
  *out = 0;
  return fake.current ? 0 : 201;
}

CuResult fake_context_synchronize(void) {
  RETURN_INJECTED_FAILURE(context_wait);
  fake.busy = false;
  return 0;
}

/* ---- memory ---- */

static FakeBlock *fake_block(CuDevicePtr at, size_t bytes) {
  for (int k = 0; k < fake.block_count; k++) {
    FakeBlock *b = &fake.blocks[k];
    if (at >= (CuDevicePtr)(uintptr_t)b->at &&
        at + bytes <= (CuDevicePtr)(uintptr_t)b->at + b->size)
      return b;
  }
  fake.broken = "memory is used that was not taken";
  return NULL;
}

CuResult fake_mem_info(size_t *unused, size_t *total) {
  RETURN_INJECTED_FAILURE(memory_info);
  *unused = fake.memory - fake.taken;
  *total = fake.memory;
  return 0;
}

/* The default stream is only for explicit use; programs have their own
 * streams. */
static CuResult fake_stream(CuStream stream) {
  fake.busy = true;
  return stream == (CuStream)&fake.streams ||
                 (!stream && getenv("FAKE_DEFAULT"))
             ? 0
             : 400;
}

CuResult fake_mem_alloc(CuDevicePtr *out, size_t bytes) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(memory_take);
  if (!bytes)
    return 1;
  if (fake.taken + bytes > fake.memory || fake.block_count == FAKE_BLOCKS)
    return CU_OUT_OF_MEMORY;
  char *at = malloc(bytes + FAKE_BLOCK_GAP_BYTES);
  memset(at, 0xff, bytes); /* NaN, until something is written */
  fake.blocks[fake.block_count++] = (FakeBlock){at, bytes};
  fake.taken += bytes;
  *out = (CuDevicePtr)(uintptr_t)at;
  return 0;
}

CuResult fake_mem_free(CuDevicePtr at) {
  WITH_FAKE_LOCK;
  FakeBlock *b = fake_block(at, 0);
  if (fake.busy)
    fake.broken = "memory is given back that something may still use";
  if (!b)
    return 1;
  fake.taken -= b->size;
  free(b->at);
  *b = fake.blocks[--fake.block_count];
  return 0;
}

CuResult cuMemAllocAsync(CuDevicePtr *out, size_t bytes, CuStream stream);
CuResult cuMemAllocAsync(CuDevicePtr *out, size_t bytes, CuStream stream) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(memory_take_on);
  if (getenv("FAKE_PLAIN"))
    return 801;
  CuResult result = fake_mem_alloc(out, bytes);
  return result ? result : fake_stream(stream);
}

/* Work runs immediately here. */
CuResult cuMemFreeAsync(CuDevicePtr at, CuStream stream);
CuResult cuMemFreeAsync(CuDevicePtr at, CuStream stream) {
  WITH_FAKE_LOCK;
  CuResult result = fake_stream(stream);
  fake.busy = false;
  return result ? result : fake_mem_free(at);
}

CuResult cuMemcpyHtoD_v2(CuDevicePtr to, const void *from, size_t bytes);
CuResult cuMemcpyHtoD_v2(CuDevicePtr to, const void *from, size_t bytes) {
  if (!fake_block(to, bytes))
    return 1;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}

CuResult cuMemsetD32Async(CuDevicePtr at, unsigned value, size_t count,
                          CuStream stream);
CuResult cuMemsetD32Async(CuDevicePtr at, unsigned value, size_t count,
                          CuStream stream) {
  WITH_FAKE_LOCK;
  if (at % 4 || !fake_block(at, 4 * count))
    return 1;
  for (size_t k = 0; k < count; k++)
    memcpy((char *)(uintptr_t)at + 4 * k, &value, 4);
  return fake_stream(stream);
}

CuResult fake_host_alloc(void **out, size_t bytes, unsigned flags) {
  RETURN_INJECTED_FAILURE(host_take);
  (void)flags;
  fake.hosts++;
  *out = malloc(bytes);
  return 0;
}

CuResult fake_host_free(void *at) {
  fake.hosts--;
  free(at);
  return 0;
}

CuResult fake_memcpy_h2d(CuDevicePtr to, const void *from, size_t bytes,
                         CuStream stream) {
  RETURN_INJECTED_FAILURE(copy_in);
  if (!fake_block(to, bytes))
    return 1;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return fake_stream(stream);
}

CuResult fake_memcpy_d2h(void *to, CuDevicePtr from, size_t bytes,
                         CuStream stream) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(copy_out);
  if (!fake_block(from, bytes))
    return 1;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return fake_stream(stream);
}

CuResult fake_memcpy_d2d(CuDevicePtr to, CuDevicePtr from, size_t bytes,
                         CuStream stream) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(copy);
  if (!fake_block(to, bytes) || !fake_block(from, bytes))
    return 1;
  memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return fake_stream(stream);
}

CuResult fake_memset(CuDevicePtr at, unsigned char value, size_t bytes,
                     CuStream stream) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(fill);
  if (!fake_block(at, bytes))
    return 1;
  memset((void *)(uintptr_t)at, value, bytes);
  return fake_stream(stream);
}

/* ---- tensor maps ---- */

/* With FAKE_LOG, logs a call to stderr. */
static void fake_log(const char *what) {
  if (getenv("FAKE_LOG"))
    fprintf(stderr, "%s\n", what);
}

enum { FAKE_TF32 = 11 /* CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 */ };

/* CU_TENSOR_MAP_DATA_TYPE_UINT8, _UINT16, _UINT32; 0: none of these. */
static inline uint32_t fake_element_bytes(int type) {
  return type == FAKE_TF32 ? 4 : type >= 0 && type <= 2 ? 1u << type : 0;
}

CuResult fake_tensor_map_encode_tiled(void *to, int type, unsigned rank,
                                      CuDevicePtr at, const uint64_t *extents,
                                      const uint64_t *strides,
                                      const uint32_t *box,
                                      const uint32_t *steps, int interleave,
                                      int swizzle, int promotion, int fill) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(tensor_map);
  fake_log("a tiled tensor map");
  if (!fake.current)
    return 201; /* CUDA_ERROR_INVALID_CONTEXT */
  uint32_t bytes = fake_element_bytes(type);
  if (!bytes || interleave || swizzle < 0 || swizzle > 3 || promotion > 3 ||
      fill || !rank || rank > 5 || !fake_block(at, bytes))
    return 1;
  for (unsigned j = 0; j < rank; j++)
    if (steps[j] != 1)
      return 1;
#ifdef FAKE_RUNS
  SimTensorMap map = {.rank = rank,
                      .element_bytes = bytes,
                      .round_tf32 = type == FAKE_TF32,
                      .address = (const void *)(uintptr_t)at,
                      .swizzle = swizzle ? 16u << swizzle : 0,
                      .stride = {bytes}};
  Buffer error = {0};
  for (unsigned j = 0; j < rank; j++) {
    map.extent[j] = extents[j];
    map.box[j] = box[j];
    if (j)
      map.stride[j] = strides[j - 1];
  }
  if (sim_tensor_map_encode(to, &map, &error))
    return 0;
  fprintf(stderr, "%s\n", error.text);
  return 1;
#else
  uint64_t words[16] = {at,         rank,
                        extents[0], rank > 1 ? strides[0] : 0,
                        box[0],     (uint64_t)swizzle};
  memcpy(to, words, sizeof words);
  return 0;
#endif
}

CuResult fake_tensor_map_encode_im2col(void *to, int type, unsigned rank,
                                       CuDevicePtr at, const uint64_t *extents,
                                       const uint64_t *strides,
                                       const int *lower, const int *upper,
                                       unsigned channels, unsigned pixels,
                                       const uint32_t *steps, int interleave,
                                       int swizzle, int promotion, int fill) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(tensor_pixels);
  fake_log("an im2col tensor map");
  if (!fake.current)
    return 201; /* CUDA_ERROR_INVALID_CONTEXT */
  uint32_t bytes = fake_element_bytes(type);
  if (!bytes || interleave || swizzle < 0 || swizzle > 3 || promotion > 3 ||
      fill || rank < 3 || rank > 5 || !fake_block(at, bytes) || steps[0] != 1 ||
      steps[rank - 1] != 1 || channels > 256 || pixels > 1024)
    return 1;
#ifdef FAKE_RUNS
  SimTensorMap map = {.rank = rank,
                      .element_bytes = bytes,
                      .round_tf32 = type == FAKE_TF32,
                      .address = (const void *)(uintptr_t)at,
                      .swizzle = swizzle ? 16u << swizzle : 0,
                      .stride = {bytes},
                      .im2col = true};
  Buffer error = {0};
  for (unsigned j = 0; j < rank; j++) {
    map.extent[j] = extents[j];
    map.box[j] = j == 0 ? channels : j == 1 ? pixels : 1;
    if (j)
      map.stride[j] = strides[j - 1];
    if (j + 2 < rank) {
      map.lower_corner[j] = lower[j];
      map.upper_corner[j] = upper[j];
      map.traversal_stride[j] = steps[j + 1];
    }
  }
  if (sim_tensor_map_encode(to, &map, &error))
    return 0;
  fprintf(stderr, "%s\n", error.text);
  return 1;
#else
  uint64_t words[16] = {at,
                        rank,
                        extents[0],
                        strides[0],
                        channels,
                        (uint64_t)swizzle,
                        (uint64_t)lower[0] + upper[0]};
  memcpy(to, words, sizeof words);
  return 0;
#endif
}

#ifdef FAKE_RUNS
#include "tests/unit/cuda_mutants.h"

/* ---- kernels: by the simulator ---- */

struct CuFunctionIs {
  Sim *sim;
  const char *text;
  char name[64];
  CuFunction next;
};
struct CuModuleIs {
  Sim *sim;
  char *text;
  CuFunction functions;
};

CuResult fake_module_load(CuModule *out, const void *image) {
  /* The simulator defines the intrinsics itself. */
  const char *text = strstr(image, "/* The prelude of GPU kernels");
  Buffer error = {0};
  bool idle = getenv("FAKE_IDLE") != NULL;
  RETURN_INJECTED_FAILURE(module_load);
  Sim *sim =
      idle ? NULL : sim_compile(text ? text : image, "kernel.cu", &error);
  if (!sim && !idle) {
    fprintf(stderr, "%s\n", error.text);
    return 218;
  }
  *out = calloc(1, sizeof **out);
  (*out)->sim = sim;
  (*out)->text = strdup(text ? text : image);
  return 0;
}

CuResult fake_module_unload(CuModule module) {
  fake_log("a module is unloaded");
  if (module->sim)
    sim_free(module->sim);
  free(module->text);
  free(module);
  return 0;
}

CuResult fake_module_get_function(CuFunction *out, CuModule module,
                                  const char *name) {
  RETURN_INJECTED_FAILURE(module_function);
  for (*out = module->functions; *out; *out = (*out)->next)
    if (strcmp((*out)->name, name) == 0)
      return 0;
  *out = calloc(1, sizeof **out);
  (*out)->sim = module->sim;
  (*out)->text = module->text;
  (*out)->next = module->functions;
  module->functions = *out;
  snprintf((*out)->name, sizeof(*out)->name, "%s", name);
  return 0;
}

CuResult fake_function_set_attribute(CuFunction function, int attribute,
                                     int value) {
  RETURN_INJECTED_FAILURE(function_set);
  return function && attribute == 8 && value <= 227 << 10 ? 0 : 1;
}

/* The size of the argument is unknown here.  Our programs have this many bytes
 * there. */
enum { FAKE_ARGUMENTS = 4096 };

CuResult fake_launch(CuFunction function, unsigned grid_x, unsigned grid_y,
                     unsigned grid_z, unsigned block_x, unsigned block_y,
                     unsigned block_z, unsigned shared, CuStream stream,
                     void **arguments, void **extra) {
  static uint64_t seed;
  SimMemory memory[FAKE_BLOCKS];
  Buffer error = {0};
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(launch);
  for (int k = 0; k < fake.block_count; k++)
    memory[k] = (SimMemory){fake.blocks[k].at, fake.blocks[k].size, true,
                            "memory that was taken"};
  const SimLaunch launch = {.kernel = function->name,
                            .grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .shared_bytes = shared,
                            .args = arguments[0],
                            .args_bytes = FAKE_ARGUMENTS,
                            .memory = memory,
                            .memory_count = (uint32_t)fake.block_count,
                            .seed = ++seed};
  if (extra)
    return 1;
  fake_log(function->name);
  if (!function->sim)
    return fake_stream(stream);
  if (!mutants_launch(function->sim, function->text, &launch, &error)) {
    fprintf(stderr, "%s: %s\n", function->name, error.text);
    return 719;
  }
  return fake_stream(stream);
}

#else

/* ---- kernels: the one that `axon doctor` tries ---- */

CuResult fake_module_load(CuModule *out, const void *image) {
  RETURN_INJECTED_FAILURE(module_load);
  fake.modules++;
  *out = (CuModule)&fake.modules;
  return image ? 0 : 200;
}

CuResult fake_module_unload(CuModule module) {
  fake.modules--;
  return module == (CuModule)&fake.modules ? 0 : 400;
}

CuResult fake_module_get_function(CuFunction *out, CuModule module,
                                  const char *name) {
  RETURN_INJECTED_FAILURE(module_function);
  *out = (CuFunction)&fake.shared;
  return module == (CuModule)&fake.modules && *name ? 0 : 500;
}

CuResult fake_function_set_attribute(CuFunction function, int attribute,
                                     int value) {
  RETURN_INJECTED_FAILURE(function_set);
  fake.shared = (unsigned)value;
  return function == (CuFunction)&fake.shared && attribute == 8 ? 0 : 1;
}

#ifndef FAKE_LACKS
CuResult fake_launch(CuFunction function, unsigned grid_x, unsigned grid_y,
                     unsigned grid_z, unsigned block_x, unsigned block_y,
                     unsigned block_z, unsigned shared, CuStream stream,
                     void **arguments, void **extra) {
  RETURN_INJECTED_FAILURE(launch);
  const CuDevicePtr *at = arguments[0];
  const int *n = fake.bytes ? (const int *)(at + 1) : arguments[1];
  unsigned threads = grid_x * grid_y * grid_z * block_x * block_y * block_z;
  float *x = (float *)(uintptr_t)*at;
  if (function != (CuFunction)&fake.shared || extra || shared > 227 << 10 ||
      !fake_block(*at, (size_t)*n * sizeof *x))
    return 1;
  for (int k = 0; k < *n && (unsigned)k < threads; k++)
    x[k] = 2 * x[k] + (float)k;
  return fake_stream(stream);
}

#endif

#endif

/* ---- graphs: chains of kernels ---- */

enum { FAKE_NODES = 64, FAKE_NODE_BYTES = 4096 };

typedef struct FakeNode {
  CuKernelNode is;
  char arguments[FAKE_NODE_BYTES];
} FakeNode;

struct CuGraphIs {
  int count;
  FakeNode nodes[FAKE_NODES];
};
struct CuGraphExecIs {
  struct CuGraphIs graph;
};

/* The test gives the size of the argument (fake.bytes). */
static void fake_node(FakeNode *to, const CuKernelNode *is) {
  to->is = *is;
  memcpy(to->arguments, is->args[0], fake.bytes ? fake.bytes : FAKE_NODE_BYTES);
}

CuResult fake_graph_create(CuGraph *out, unsigned flags) {
  RETURN_INJECTED_FAILURE(graph_create);
  fake.graphs++;
  *out = calloc(1, sizeof **out);
  return flags ? 1 : 0;
}

CuResult fake_graph_add_kernel_node(CuGraphNode *out, CuGraph graph,
                                    const CuGraphNode *after, size_t count,
                                    const CuKernelNode *is) {
  RETURN_INJECTED_FAILURE(graph_kernel);
  if (graph->count == FAKE_NODES || is->extra || is->kernel || is->context ||
      count != (graph->count > 0) ||
      (count && *after != (CuGraphNode)(uintptr_t)graph->count))
    return 1;
  fake_node(&graph->nodes[graph->count++], is);
  *out = (CuGraphNode)(uintptr_t)graph->count;
  return 0;
}

CuResult fake_graph_instantiate(CuGraphExec *out, CuGraph graph,
                                unsigned long long flags) {
  RETURN_INJECTED_FAILURE(graph_make);
  fake.graphs++;
  *out = malloc(sizeof **out);
  (*out)->graph = *graph;
  return flags ? 1 : 0;
}

CuResult fake_graph_exec_set_params(CuGraphExec exec, CuGraphNode node,
                                    const CuKernelNode *is) {
  RETURN_INJECTED_FAILURE(graph_change);
  int at = (int)(uintptr_t)node - 1;
  if (at < 0 || at >= exec->graph.count ||
      exec->graph.nodes[at].is.function != is->function)
    return 1;
  fake_node(&exec->graph.nodes[at], is);
  return 0;
}

CuResult fake_graph_launch(CuGraphExec exec, CuStream stream) {
  RETURN_INJECTED_FAILURE(graph_start);
#ifdef FAKE_RUNS
  if (getenv("FAKE_LOG"))
    fprintf(stderr, "a graph of %d kernels\n", exec->graph.count);
  for (int k = 0; k < exec->graph.count; k++) {
    FakeNode *n = &exec->graph.nodes[k];
    void *arguments[] = {n->arguments};
    CuResult result =
        fake_launch(n->is.function, n->is.grid[0], n->is.grid[1], n->is.grid[2],
                    n->is.block[0], n->is.block[1], n->is.block[2],
                    n->is.shared_bytes, stream, arguments, NULL);
    if (result)
      return result;
  }
#else
  fake.started += exec->graph.count;
#endif
  return fake_stream(stream);
}

CuResult fake_graph_destroy(CuGraph graph) {
  fake.graphs--;
  free(graph);
  return 0;
}

CuResult fake_graph_exec_destroy(CuGraphExec exec) {
  fake.graphs--;
  free(exec);
  return 0;
}

/* ---- streams and events ---- */

CuResult fake_stream_create(CuStream *out, unsigned flags) {
  RETURN_INJECTED_FAILURE(stream_create);
  fake.streams++;
  *out = (CuStream)&fake.streams;
  return flags == 1 ? 0 : 1;
}

CuResult fake_stream_destroy(CuStream stream) {
  fake.streams--;
  return stream == (CuStream)&fake.streams ? 0 : 400;
}

CuResult fake_stream_synchronize(CuStream stream) {
  WITH_FAKE_LOCK;
  RETURN_INJECTED_FAILURE(stream_wait);
  CuResult result = fake_stream(stream);
  fake.busy = false;
  return result;
}

CuResult fake_event_create(CuEvent *out, unsigned flags) {
  RETURN_INJECTED_FAILURE(event_create);
  fake.events++;
  *out = (CuEvent)&fake.events;
  return flags;
}

CuResult fake_event_destroy(CuEvent event) {
  fake.events--;
  return event == (CuEvent)&fake.events ? 0 : 400;
}

CuResult fake_event_record(CuEvent event, CuStream stream) {
  RETURN_INJECTED_FAILURE(event_record);
  return event == (CuEvent)&fake.events ? fake_stream(stream) : 400;
}

CuResult fake_event_synchronize(CuEvent event) {
  RETURN_INJECTED_FAILURE(event_wait);
  return event == (CuEvent)&fake.events ? 0 : 400;
}

CuResult fake_event_elapsed(float *milliseconds, CuEvent first, CuEvent last) {
  RETURN_INJECTED_FAILURE(event_elapsed);
  *milliseconds = 2.5f;
  return first == last ? 0 : 400;
}
