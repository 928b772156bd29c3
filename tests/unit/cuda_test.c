/* Tests the basic parts of the CUDA backend on a fake driver: devices, errors,
 * memory, launch graphs.  No GPU is needed. */
#define _GNU_SOURCE
#include "backend/cuda/caching_allocator.h"
#include "backend/cuda/launch_graph.h"
#include "backend/cuda/tensor_map.h"
#include "support/mem_inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/cuda_fake.h"

static const CudaApi api = {
#define CU(name, symbol, arguments) .name = fake_##name,
#include "backend/cuda/driver.def"
#undef CU
};

static CudaContext gpu;
static Fault fault;

static int set_up(void **state) {
  (void)state;
  assert_int_equal(fake.block_count, 0);
  memset(&fake, 0, sizeof fake);
  fake.capability = 90;
  fake.devices = 1;
  fake.memory = 1 << 20;
  fault = (Fault){0};
  return cuda_context_open(&api, 0, &gpu, &fault) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  cuda_context_close(&gpu);
  if (fake.broken)
    fprintf(stderr, "%s\n", fake.broken);
  bool left = fake.contexts || fake.streams || fake.modules || fake.events ||
              fake.hosts || fake.block_count || fake.graphs;
  if (left)
    fprintf(stderr, "something was left open\n");
  return left || fake.broken ? -1 : 0;
}

static void assert_said(const char *text) {
  if (!strstr(fault.message, text))
    fail_msg("`%s` is not in: %s", text, fault.message);
}

/* ---- devices ---- */

static void test_device(void **state) {
  (void)state;
  CudaDeviceInfo d;
  int count, version;
  assert_true(cuda_device_count(&api, &count, &fault) && count == 1);
  assert_true(cuda_version(&api, &version, &fault) && version == 13010);
  assert_true(cuda_device_info(&api, 0, &d, &fault));
  assert_string_equal(d.name, "Fake GPU 0");
  assert_string_equal(d.arch, "sm_90a");
  assert_int_equal(d.memory_bytes, 1 << 20);
  assert_int_equal(d.sm_count, 1016);
  assert_int_equal(d.block_shared_bytes, 1097);
  assert_int_equal(d.l2_bytes, 1038);
  static const struct {
    int capability;
    const char *arch;
  } archs[] = {{75, "sm_75"},  {86, "sm_86"},    {89, "sm_89"},
               {90, "sm_90a"}, {100, "sm_100a"}, {120, "sm_120"}};
  for (size_t k = 0; k < ARRAY_LEN(archs); k++) {
    fake.capability = archs[k].capability;
    assert_true(cuda_device_info(&api, 0, &d, &fault));
    assert_string_equal(d.arch, archs[k].arch);
  }
  assert_false(cuda_device_info(&api, 1, &d, &fault));
  assert_said("device 1");
}

/* Each step fails once: the message names it, and nothing is leaked. */
static void test_opening_fails(void **state) {
  (void)state;
  static const struct {
    const char *function, *said;
    int after;
  } cases[] = {
      {"device_get", "opening device 0", 0},
      {"device_get", "opening device 0", 1},
      {"device_name", "the name of device 0", 0},
      {"device_memory", "the memory of device 0", 0},
      {"device_attribute", "COMPUTE_CAPABILITY_MAJOR", 0},
      {"device_attribute", "GLOBAL_MEMORY_BUS_WIDTH", 14},
      {"context_retain", "opening Fake GPU 0", 0},
      {"context_set", "selecting it", 0},
      {"stream_create", "creating a stream", 0},
  };
  CudaContext other;
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    fake_inject_failure(cases[k].function, 46, cases[k].after);
    assert_false(cuda_context_open(&api, 0, &other, &fault));
    assert_said(cases[k].said);
    assert_said("CUDA_ERROR_FAKE (it is a fake)");
    assert_non_null(strstr(fault.help, "nvidia-smi -c DEFAULT"));
    assert_int_equal(fault.kind, FAULT_TARGET_UNAVAILABLE);
    assert_int_equal(fake.contexts, 1);
    assert_int_equal(fake.streams, 1);
  }
  int n;
  fake_inject_failure("device_count", 100, 0);
  assert_false(cuda_device_count(&api, &n, &fault));
  assert_said("counting devices");
  fake_inject_failure("driver_version", 1, 0);
  assert_false(cuda_version(&api, &n, &fault));
}

/* Every row of errors.def has a name and a help, even if the driver has
 * neither. Other errors are reported by number. */
static void test_errors(void **state) {
  (void)state;
  static const struct {
    int number;
    const char *name;
  } rows[] = {
#define E(number, name, help) {number, "CUDA_ERROR_" #name},
#include "backend/cuda/errors.def"
#undef E
  };
  fake.nameless = true;
  for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
    fault = (Fault){0};
    assert_false(cuda_check(&api, rows[k].number, &fault, "doing %d", 5));
    assert_said(rows[k].name);
    assert_said("doing 5");
    assert_true(strlen(fault.help) > 10 &&
                strlen(fault.help) < sizeof fault.help - 1);
  }
  assert_false(cuda_check(&api, 4711, &fault, "this"));
  assert_said("(4711)");
  assert_string_equal(fault.help, "");
  assert_true(cuda_check(&api, 0, NULL, "nothing"));
}

/* ---- use ---- */

static void test_use(void **state) {
  (void)state;
  CuModule module;
  CuFunction function;
  CuEvent event;
  CuDevicePtr at = 0;
  double seconds;
  float x[100] = {1, 2, 3}, y[100];
  int n = 100;
  void *arguments[] = {&at, &n};
  assert_int_equal(api.mem_alloc(&at, sizeof x), 0);
  assert_true(cuda_load_module(&gpu, "image", &module, &fault));
  assert_true(cuda_get_function(&gpu, module, "k", 0, &function, &fault));
  assert_int_equal(fake.shared, 0);
  assert_true(cuda_get_function(&gpu, module, "k", 100000, &function, &fault));
  assert_int_equal(fake.shared, 100000);
  const CudaLaunch launch = {function, "k",       {4, 1, 1}, {32, 1, 1},
                             0,        arguments, 0};
  assert_true(cuda_event_create(&gpu, &event, &fault));
  assert_true(cuda_event_record(&gpu, event, &fault));
  assert_true(cuda_memset(&gpu, at, 1, sizeof x, &fault));
  assert_true(cuda_memcpy_h2d(&gpu, at, x, sizeof x, &fault));
  assert_true(cuda_launch(&gpu, &launch, &fault));
  assert_true(cuda_memcpy_d2d(&gpu, at, at, sizeof x, &fault));
  assert_true(cuda_memcpy_d2h(&gpu, y, at, sizeof x, &fault));
  assert_true(cuda_memcpy_d2h(&gpu, NULL, 0, 0, &fault));
  assert_true(cuda_synchronize(&gpu, &fault));
  assert_true(y[2] == 8 && y[99] == 99);
  assert_true(cuda_event_elapsed(&gpu, event, event, &seconds, &fault));
  assert_true(seconds > 0.00249 && seconds < 0.00251);
  void *host = cuda_host_alloc(&gpu, 10, &fault);
  assert_non_null(host);
  cuda_host_free(&gpu, host);
  cuda_host_free(&gpu, NULL);

  static const struct {
    const char *function, *said;
  } cases[] = {
      {"module_load", "loading code for sm_90a"},
      {"module_function", "finding the kernel k"},
      {"function_set", "allocating for the kernel k 100000 bytes"},
      {"launch", "starting the kernel k, 4 x 1 x 1 blocks of 32 x 1 x 1"},
      {"copy_in", "copying 400 bytes to it"},
      {"copy_out", "copying 400 bytes from it"},
      {"copy", "copying 400 bytes on it"},
      {"fill", "filling 400 bytes"},
      {"stream_wait", "waiting for kernels"},
      {"host_take", "allocating 10 bytes of host memory"},
      {"event_create", "creating an event"},
      {"event_record", "recording an event"},
      {"event_wait", "waiting for an event"},
      {"event_elapsed", "time between events"},
      {"memory_info", "querying free memory"},
      {"context_set", "selecting it"},
  };
  CuModule other;
  CuEvent more;
  uint64_t sizes[2];
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    fault = (Fault){0};
    fake_inject_failure(cases[k].function, 700, 0);
    bool good =
        cuda_load_module(&gpu, "image", &other, &fault) &&
        (cuda_unload_module(&gpu, other), true) &&
        cuda_get_function(&gpu, module, "k", 100000, &function, &fault) &&
        cuda_launch(&gpu, &launch, &fault) &&
        cuda_memcpy_h2d(&gpu, at, x, sizeof x, &fault) &&
        cuda_memcpy_d2h(&gpu, y, at, sizeof x, &fault) &&
        cuda_memcpy_d2d(&gpu, at, at, sizeof x, &fault) &&
        cuda_memset(&gpu, at, 0, sizeof x, &fault) &&
        cuda_synchronize(&gpu, &fault) &&
        (host = cuda_host_alloc(&gpu, 10, &fault)) &&
        (cuda_host_free(&gpu, host), true) &&
        cuda_event_create(&gpu, &more, &fault) &&
        (cuda_event_destroy(&gpu, more), true) &&
        cuda_event_record(&gpu, event, &fault) &&
        cuda_event_elapsed(&gpu, event, event, &seconds, &fault) &&
        cuda_memory_info(&gpu, &sizes[0], &sizes[1], &fault);
    assert_false(good);
    assert_said(cases[k].said);
    assert_non_null(strstr(fault.help, "restart it"));
  }
  cuda_event_destroy(&gpu, event);
  cuda_unload_module(&gpu, module);
  assert_true(cuda_synchronize(&gpu, &fault));
  api.mem_free(at);
}

/* ---- memory ---- */

static const int64_t shape[] = {3, 1000};
static const AllocationLabel use = {"scores", DT_F32, 2, shape};

static DeviceBuffer *take(DeviceAllocator *m, size_t bytes) {
  DeviceBuffer *b = device_allocator_alloc(m, bytes, &use, &fault);
  assert_non_null(b);
  assert_true(b->size >= bytes && b->address);
  return b;
}

static void test_memory_again(void **state) {
  (void)state;
  DeviceAllocator *m = device_allocator_new(&gpu, 1 << 19);
  DeviceBuffer *a = take(m, 5000), *b = take(m, 5000);
  CuDevicePtr was = a->address;
  assert_true(a->address != b->address);
  device_allocator_release(m, a);
  a = take(m, 4900); /* a similar size */
  assert_true(a->address == was);
  device_allocator_release(m, a);
  DeviceBuffer *c = take(m, 100); /* a block that is not much larger */
  assert_true(c->address != was);
  DeviceBuffer *none = take(m, 0);
  DeviceAllocatorStats n = device_allocator_stats(m);
  assert_int_equal(n.driver_allocs, 4);
  assert_int_equal(n.cache_hits, 1);
  assert_int_equal(n.live_bytes, b->size + c->size + none->size);
  device_allocator_release(m, b);
  device_allocator_release(m, c);
  device_allocator_release(m, none);
  device_allocator_release(m, NULL);
  n = device_allocator_stats(m);
  assert_int_equal(n.live_bytes, 0);
  assert_int_equal(n.cached_bytes, fake.taken);
  device_allocator_trim(m, 6000);
  assert_in_range(fake.taken, 1, 6000);
  device_allocator_trim(m, 0);
  assert_int_equal(fake.taken, 0);
  device_allocator_free(m);
  device_allocator_free(NULL);
}

/* Blocks that were freed first are released first, and never while work may
 * run. */
static void test_memory_bounded(void **state) {
  (void)state;
  enum { KEPT = 300000 };
  DeviceAllocator *m = device_allocator_new(&gpu, KEPT);
  DeviceBuffer *b[10];
  for (int k = 0; k < 10; k++)
    b[k] = take(m, 30000 + 8000 * (size_t)k);
  CuDevicePtr last = b[9]->address;
  fake.busy = true;
  for (int k = 0; k < 10; k++) {
    device_allocator_release(m, b[k]);
    assert_true(device_allocator_stats(m).cached_bytes <= KEPT);
  }
  DeviceBuffer *again = take(m, 102000);
  assert_true(again->address == last);
  device_allocator_release(m, again);
  device_allocator_free(m);
}

static void test_memory_full(void **state) {
  (void)state;
  DeviceAllocator *m = device_allocator_new(&gpu, 1 << 20);
  DeviceBuffer *held = take(m, 100 << 10), *kept = take(m, 800 << 10);
  memset((void *)(uintptr_t)held->address, 7, 100 << 10);
  device_allocator_release(m, kept);
  fake.busy = true;
  /* free blocks are released for a request that does not fit */
  DeviceBuffer *more = take(m, 500 << 10);
  assert_int_equal(device_allocator_stats(m).cached_bytes, 0);
  /* if that does not help, the message names the tensor */
  assert_null(device_allocator_alloc(m, 600 << 10, &use, &fault));
  assert_string_equal(fault.message, "scores : f32[3, 1000] needs 600.0 KiB of "
                                     "the GPU's memory");
  assert_non_null(strstr(fault.help, "of 1.0 MiB, "));
  assert_non_null(strstr(fault.help, "this program uses"));
  assert_int_equal(fault.kind, FAULT_MEMORY);
  for (int k = 0; k < 100 << 10; k++) /* everything else is unchanged */
    assert_int_equal(((char *)(uintptr_t)held->address)[k], 7);
  device_allocator_release(m, more);
  /* a request that can never fit releases nothing */
  const AllocationLabel nameless = {NULL, DT_BF16, 2, shape};
  device_allocator_release(m, take(m, 100));
  uint64_t before = device_allocator_stats(m).cached_bytes;
  assert_true(before > 0);
  assert_null(device_allocator_alloc(m, 2 << 20, &nameless, &fault));
  assert_string_equal(fault.message,
                      "bf16[3, 1000] needs 2.0 MiB of the GPU's memory");
  assert_non_null(
      strstr(fault.help, "it has 1.0 MiB: process the data in parts"));
  assert_null(device_allocator_alloc(m, SIZE_MAX, &use, &fault));
  assert_int_equal(device_allocator_stats(m).cached_bytes, before);
  /* the driver cannot tell the free memory */
  fake_inject_failure("memory_info", 700, 0);
  assert_null(device_allocator_alloc(m, 1000 << 10, &use, &fault));
  assert_non_null(strstr(fault.help, "and this program uses"));
  device_allocator_release(m, held);
  device_allocator_free(m);
}

static void test_memory_fails(void **state) {
  (void)state;
  DeviceAllocator *m = device_allocator_new(&gpu, 1 << 20);
  /* An error of an earlier kernel. */
  fake_inject_failure("memory_take", 700, 0);
  assert_null(device_allocator_alloc(m, 1000, &use, &fault));
  assert_said("allocating 1000 bytes");
  assert_int_equal(fault.kind, FAULT_TARGET_UNAVAILABLE);
  fake_inject_failure("context_set", 709, 0);
  assert_null(device_allocator_alloc(m, 1000, &use, &fault));
  assert_said("selecting it");
  for (uint64_t n = 1; n <= 2; n++) { /* host memory, then GPU memory */
    mem_inject_failures_from(n);
    assert_null(device_allocator_alloc(m, 1000, &use, &fault));
    mem_inject_failures_from(0);
    assert_int_equal(fault.kind, FAULT_MEMORY);
  }
  mem_inject_failures_from(1);
  assert_null(device_allocator_new(&gpu, 1));
  mem_inject_failures_from(0);
  assert_int_equal(device_allocator_stats(m).driver_allocs, 0);
  assert_int_equal(device_allocator_stats(m).live_bytes, 0);
  DeviceBuffer *b = take(m, 1000);
  device_allocator_release(m, b);
  device_allocator_free(m);
}

/* The CUDA backend predicts whether the driver accepts a tensor map. */
static void test_map(void **state) {
  (void)state;
  const TensorMap good = {.dtype = DT_BF16,
                          .offset_bytes = 32,
                          .rank = 3,
                          .extent = {65, 7, 0},
                          .stride = {2, 144, 1008},
                          .box = {64, 128, 1},
                          .swizzle = 1};
  TensorMap wrong[9];
  for (size_t j = 0; j < ARRAY_LEN(wrong); j++)
    wrong[j] = good;
  wrong[0].dtype = DT_F64;
  wrong[1].offset_bytes = 8;
  wrong[2].stride[1] = 132;
  wrong[3].box[1] = 257;
  wrong[4].box[0] = 128; /* longer than the swizzle */
  wrong[5].box[0] = 4;
  wrong[6].extent[1] = INT64_C(1) << 33;
  wrong[7].stride[2] = INT64_C(1) << 40;
  wrong[8].rank = 6;
  assert_true(tensor_map_is_encodable(&good));
  for (size_t j = 0; j < ARRAY_LEN(wrong); j++)
    assert_false(tensor_map_is_encodable(&wrong[j]));
  DeviceAllocator *m = device_allocator_new(&gpu, 0);
  DeviceBuffer *b = take(m, 4096);
  uint64_t made[TENSOR_MAP_BYTES / 8];
  fake.current = NULL; /* like in another thread */
  assert_true(tensor_map_encode(&gpu, &good, b->address, made, &fault));
  assert_true(made[0] == b->address + 32 && made[1] == 3 && made[2] == 65 &&
              made[3] == 144 && made[4] == 64 && made[5] == 3);
  fake_inject_failure("tensor_map", 1, 0);
  assert_false(tensor_map_encode(&gpu, &good, b->address, made, &fault));
  assert_said("describing a tensor");
  device_allocator_release(m, b);
  device_allocator_free(m);
}

/* Large blocks are not rounded to classes: blocks of one class may be smaller
 * than the request. */
static void test_memory_large(void **state) {
  (void)state;
  gpu.info.memory_bytes = fake.memory = (size_t)2 << 30;
  DeviceAllocator *m = device_allocator_new(&gpu, UINT64_MAX);
  DeviceBuffer *a = take(m, (size_t)257 << 20);
  assert_int_equal(a->size, (size_t)258 << 20);
  CuDevicePtr was = a->address;
  device_allocator_release(m, a);
  DeviceBuffer *b = take(m, (size_t)270 << 20);
  assert_true(b->address != was);
  a = take(m, (size_t)256 << 20);
  assert_true(a->address == was);
  device_allocator_release(m, a);
  device_allocator_release(m, b);
  device_allocator_free(m);
}

/* Any sizes in any order: live blocks never overlap. */
static void test_memory_random(void **state) {
  (void)state;
  enum { HELD = 40, TURNS = 20000 };
  gpu.info.memory_bytes = fake.memory = 400 << 10;
  DeviceAllocator *m = device_allocator_new(&gpu, 300 << 10);
  DeviceBuffer *held[HELD] = {0};
  size_t sizes[HELD] = {0};
  uint32_t seed = 1, refused = 0;
  for (int turn = 0; turn < TURNS; turn++) {
    seed = seed * 1664525 + 1013904223;
    int k = (int)(seed >> 16) % HELD;
    if (held[k]) {
      for (size_t j = 0; j < sizes[k]; j += 97)
        assert_int_equal(((uint8_t *)(uintptr_t)held[k]->address)[j], k);
      device_allocator_release(m, held[k]);
      held[k] = NULL;
      continue;
    }
    sizes[k] = (size_t)1 << (seed >> 8) % 17;
    sizes[k] += (seed >> 4) % sizes[k];
    fake.busy = true;
    held[k] = device_allocator_alloc(m, sizes[k], &use, &fault);
    if (held[k])
      memset((void *)(uintptr_t)held[k]->address, k, sizes[k]);
    else
      refused++;
  }
  DeviceAllocatorStats n = device_allocator_stats(m);
  assert_true(refused > 0 && n.cache_hits > n.driver_allocs / 2);
  assert_int_equal(n.live_bytes + n.cached_bytes, fake.taken);
  for (int k = 0; k < HELD; k++)
    device_allocator_release(m, held[k]);
  device_allocator_free(m);
}

/* ---- launch graphs ---- */

typedef struct Arguments {
  CuDevicePtr at;
  int n, k;
} Arguments;

/* Launches the kernels of a plan, with `wide` blocks each, and checks the
 * stream. */
static bool start_plan(CuFunction function, DeviceBuffer *b, int kernels, int k,
                       unsigned wide) {
  for (int j = 0; j < kernels; j++) {
    Arguments a = {b->address, 32, j == 1 ? k : 0};
    void *arguments[] = {&a, &a.n};
    const CudaLaunch launch = {function, "k",       {wide, 1, 1}, {32, 1, 1},
                               0,        arguments, sizeof a};
    if (!cuda_launch(&gpu, &launch, &fault))
      return false;
  }
  return cuda_synchronize(&gpu, &fault);
}

static void assert_counts(uint64_t alone, uint64_t made, uint64_t started,
                          uint64_t changed) {
  LaunchGraphStats n = launch_graph_stats(gpu.launch_graph);
  assert_int_equal(n.direct_launches, alone);
  assert_int_equal(n.graphs_instantiated, made);
  assert_int_equal(n.graph_launches, started);
  assert_int_equal(n.nodes_updated, changed);
}

/* A repeated list of launches becomes a graph.  Other arguments update it;
 * other grids need another graph. */
static void test_tape(void **state) {
  (void)state;
  CuModule module;
  CuFunction function;
  DeviceAllocator *m = device_allocator_new(&gpu, 0);
  DeviceBuffer *b = take(m, 4096);
  memset((void *)(uintptr_t)b->address, 0, 4096);
  gpu.launch_graph = launch_graph_new();
  fake.bytes = sizeof(Arguments);
  assert_non_null(gpu.launch_graph);
  assert_true(cuda_load_module(&gpu, "image", &module, &fault));
  assert_true(cuda_get_function(&gpu, module, "k", 0, &function, &fault));
  assert_true(start_plan(function, b, 4, 0, 1));
  assert_counts(4, 0, 0, 0);
  assert_true(start_plan(function, b, 4, 0, 1));
  assert_counts(4, 1, 1, 0);
  assert_true(start_plan(function, b, 4, 0, 1));
  assert_true(start_plan(function, b, 4, 7, 1));
  assert_counts(4, 1, 3, 1);
  assert_int_equal(fake.started, 12);
  assert_true(start_plan(function, b, 4, 7, 2)); /* other grids */
  assert_counts(8, 1, 3, 1);
  /* Too few launches for a graph. */
  assert_true(start_plan(function, b, 2, 0, 1));
  assert_true(start_plan(function, b, 2, 0, 1));
  assert_counts(12, 1, 3, 1);
  assert_true(start_plan(function, b, 150, 0, 1)); /* more than a graph holds */
  assert_true(start_plan(function, b, 150, 0, 1));
  assert_counts(12 + 64 + 22, 3, 7, 1); /* 64 launches reuse the first graph */
  cuda_unload_module(&gpu, module);
  device_allocator_release(m, b);
  device_allocator_free(m);
}

/* If the driver cannot make a graph, kernels are launched one by one.  Errors
 * are reported when they are found. */
static void test_tape_fails(void **state) {
  (void)state;
  static const char *const steps[] = {"graph_create", "graph_kernel",
                                      "graph_make", "graph_start",
                                      "graph_change"};
  CuModule module;
  CuFunction function;
  DeviceAllocator *m = device_allocator_new(&gpu, 0);
  DeviceBuffer *b = take(m, 4096);
  fake.bytes = sizeof(Arguments);
  assert_true(cuda_load_module(&gpu, "image", &module, &fault) &&
              cuda_get_function(&gpu, module, "k", 0, &function, &fault));
  for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
    gpu.launch_graph = launch_graph_new();
    assert_true(start_plan(function, b, 3, 0, 1));
    fake_inject_failure(steps[k], 999, 0);
    assert_true(start_plan(function, b, 3, 1, 1));
    assert_true(start_plan(function, b, 3, 2, 1));
    assert_int_equal(launch_graph_stats(gpu.launch_graph).direct_launches,
                     k < 4 ? 9 : 6);
    assert_true(start_plan(function, b, 3, 3, 1));
    assert_int_equal(launch_graph_stats(gpu.launch_graph).direct_launches,
                     k < 4 ? 12 : 9);
    launch_graph_free(&gpu);
  }
  gpu.launch_graph = launch_graph_new();
  fake_inject_failure("launch", 700, 1);
  assert_false(start_plan(function, b, 3, 0, 1));
  assert_said("starting the kernel k, 1 blocks of 32 threads");
  fault = (Fault){0};
  cuda_unload_module(&gpu, module);
  device_allocator_release(m, b);
  device_allocator_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
      T(test_device),       T(test_opening_fails), T(test_errors),
      T(test_use),          T(test_memory_again),  T(test_memory_bounded),
      T(test_memory_full),  T(test_memory_fails),  T(test_map),
      T(test_memory_large), T(test_memory_random), T(test_tape),
      T(test_tape_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
