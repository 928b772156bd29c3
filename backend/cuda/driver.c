/* Loads the driver, translates its errors, and queries devices. */
#define _GNU_SOURCE
#include "backend/cuda/driver.h"

#include "backend/cuda/dynlib.h"

#include <glob.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const symbols[] = {
#define CU(name, symbol, arguments) symbol,
#include "backend/cuda/driver.def"
#undef CU
    NULL};

_Static_assert(ARRAY_LEN(symbols) - 1 == sizeof(CudaApi) / sizeof(void *),
               "a row is a pointer");

/* ---- errors ---- */

#define CONTEXT_LOST_HELP                                  \
  "this process has lost its GPU memory: restart it, and " \
  "please report it"

typedef struct DriverError {
  CuResult number;
  const char *name, *help;
} DriverError;

static const DriverError errors[] = {
#define E(number, name, help) {number, "CUDA_ERROR_" #name, help},
#include "backend/cuda/errors.def"
#undef E
};

static const DriverError *find_error(CuResult result) {
  for (size_t k = 0; k < ARRAY_LEN(errors); k++)
    if (errors[k].number == result)
      return &errors[k];
  return NULL;
}

/* "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)" */
static void error_text(const CudaApi *api, CuResult result, char out[200]) {
  const DriverError *e = find_error(result);
  const char *name = NULL, *text = NULL;
  if (api->error_name(result, &name) != 0 || !name)
    name = e ? e->name : "unknown driver error";
  if (api->error_string(result, &text) != 0 || !text)
    snprintf(out, 200, "%.90s (%d)", name, result);
  else
    snprintf(out, 200, "%.90s (%.100s)", name, text);
}

bool cuda_check(const CudaApi *api, CuResult result, Fault *fault,
                const char *what, ...) {
  if (result == 0)
    return true;
  char driver_text[200], action[256];
  va_list args;
  va_start(args, what);
  vsnprintf(action, sizeof action, what, args);
  va_end(args);
  error_text(api, result, driver_text);
  fault_set(fault, "the GPU: %s: %s", action, driver_text);
  fault->kind =
      result == CU_OUT_OF_MEMORY ? FAULT_MEMORY : FAULT_TARGET_UNAVAILABLE;
  const DriverError *e = find_error(result);
  if (e)
    fault_set_help(fault, "%s", e->help);
  return false;
}

/* ---- loading ---- */

static struct {
  pthread_once_t once;
  bool good;
  CudaApi api;
  LoadedLibrary library;
  Fault fault; /* set if loading failed */
} driver = {.once = PTHREAD_ONCE_INIT};

static bool has_line(const char *path, const char *start) {
  char line[64] = "";
  FILE *f = fopen(path, "re");
  if (!f)
    return false;
  bool has =
      fgets(line, sizeof line, f) && strncmp(line, start, strlen(start)) == 0;
  fclose(f);
  return has;
}

/* True if the machine has a display adapter (class 3) of NVIDIA (vendor
 * 10de). */
static bool has_nvidia_gpu(void) {
  glob_t found;
  bool has = false;
  if (glob("/sys/bus/pci/devices/*/vendor", GLOB_NOSORT, NULL, &found) != 0)
    return false;
  for (size_t k = 0; k < found.gl_pathc && !has; k++) {
    char path[512];
    int folder = (int)strlen(found.gl_pathv[k]) - (int)strlen("vendor");
    snprintf(path, sizeof path, "%.*sclass", folder, found.gl_pathv[k]);
    has = has_line(found.gl_pathv[k], "0x10de") && has_line(path, "0x03");
  }
  globfree(&found);
  return has;
}

static void fault_no_driver(Fault *fault) {
  if (has_nvidia_gpu()) {
    fault_set(
        fault,
        "found an NVIDIA GPU, but not its driver: libcuda.so.1 is missing");
    fault_set_help(
        fault, "install the driver (Debian: apt install nvidia-driver, Ubuntu: "
               "ubuntu-drivers install); a container needs the host's "
               "(--gpus all)");
  } else {
    fault_set(fault,
              "found no NVIDIA GPU and no driver: libcuda.so.1 is missing");
    fault_set_help(
        fault, "programs run on the CPU without one; where there is one, "
               "install its driver, and give it to the container (--gpus all)");
  }
}

/* Tries the search path of the system, then the paths of WSL, NixOS and
 * containers. */
static LoadStatus load_driver(void) {
  static const char *const names[] = {"libcuda.so.1",
                                      "/usr/lib/wsl/lib/libcuda.so.1",
                                      "/run/opengl-driver/lib/libcuda.so.1",
                                      "/usr/local/nvidia/lib64/libcuda.so.1"};
  LoadStatus end = LOAD_ABSENT;
  for (size_t k = 0; k < ARRAY_LEN(names) && end == LOAD_ABSENT; k++)
    end = load_library(names[k], symbols, &driver.api, &driver.library);
  return end;
}

static void find_driver(void) {
  Fault *fault = &driver.fault;
  switch (load_driver()) {
  case LOAD_OK:
    driver.good =
        cuda_check(&driver.api, driver.api.init(0), fault, "initializing it");
    break;
  case LOAD_INVALID:
    fault_set(fault, "cannot use the GPU driver, libcuda.so.1: %s",
              driver.library.error);
    fault_set_help(fault,
                   "install a driver for CUDA 12 or later (525 or later)");
    break;
  case LOAD_ABSENT:
  case LOAD_NONE:
  case LOAD_COUNT:
    fault_no_driver(fault);
  }
  if (!driver.good)
    fault->kind = FAULT_TARGET_UNAVAILABLE;
}

const CudaApi *cuda_api(Fault *fault) {
  pthread_once(&driver.once, find_driver);
  if (driver.good)
    return &driver.api;
  *fault = driver.fault;
  return NULL;
}

const char *cuda_api_path(void) {
  pthread_once(&driver.once, find_driver);
  return driver.library.path;
}

/* ---- devices ---- */

bool cuda_version(const CudaApi *api, int *version, Fault *fault) {
  *version = 0;
  return cuda_check(api, api->driver_version(version), fault,
                    "querying the driver version");
}

bool cuda_device_count(const CudaApi *api, int *count, Fault *fault) {
  *count = 0;
  return cuda_check(api, api->device_count(count), fault, "counting devices");
}

/* Numbers of CUdevice_attribute: chapter "Data types used by CUDA driver". */
#define DEVICE_ATTRIBUTES(A)                                     \
  A(75, COMPUTE_CAPABILITY_MAJOR, major)                         \
  A(76, COMPUTE_CAPABILITY_MINOR, minor)                         \
  A(16, MULTIPROCESSOR_COUNT, sm_count)                          \
  A(39, MAX_THREADS_PER_MULTIPROCESSOR, sm_threads)              \
  A(106, MAX_BLOCKS_PER_MULTIPROCESSOR, sm_blocks)               \
  A(82, MAX_REGISTERS_PER_MULTIPROCESSOR, sm_registers)          \
  A(81, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sm_shared_bytes)   \
  A(1, MAX_THREADS_PER_BLOCK, block_threads)                     \
  A(12, MAX_REGISTERS_PER_BLOCK, block_registers)                \
  A(97, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, block_shared_bytes)   \
  A(111, RESERVED_SHARED_MEMORY_PER_BLOCK, block_reserved_bytes) \
  A(38, L2_CACHE_SIZE, l2_bytes)                                 \
  A(13, CLOCK_RATE, clock_khz)                                   \
  A(36, MEMORY_CLOCK_RATE, memory_clock_khz)                     \
  A(37, GLOBAL_MEMORY_BUS_WIDTH, memory_bus_bits)

/* Code with architecture-specific instructions (wgmma, tcgen05, ...) needs a
 * target whose name ends in `a`: PTX ISA, 11.1.2, .target. */
static void set_arch_name(CudaDeviceInfo *d) {
  static const int arch_specific[] = {90, 100, 103};
  int number = 10 * d->major + d->minor;
  const char *end = "";
  for (size_t k = 0; k < ARRAY_LEN(arch_specific); k++)
    if (arch_specific[k] == number)
      end = "a";
  snprintf(d->arch, sizeof d->arch, "sm_%d%s", number, end);
}

static bool device_at(const CudaApi *api, int ordinal, CuDevice *device,
                      Fault *fault) {
  return cuda_check(api, api->device_get(device, ordinal), fault,
                    "opening device %d", ordinal);
}

bool cuda_device_info(const CudaApi *api, int ordinal, CudaDeviceInfo *out,
                      Fault *fault) {
  CuDevice device;
  size_t memory = 0;
  *out = (CudaDeviceInfo){0};
  if (!device_at(api, ordinal, &device, fault) ||
      !cuda_check(api, api->device_name(out->name, sizeof out->name, device),
                  fault, "querying the name of device %d", ordinal) ||
      !cuda_check(api, api->device_memory(&memory, device), fault,
                  "querying the memory of device %d", ordinal))
    return false;
  out->name[sizeof out->name - 1] = 0;
  out->memory_bytes = memory;
  const struct {
    int number, *value;
    const char *name;
  } attributes[] = {
#define A(number, name, field) {number, &out->field, #name},
      DEVICE_ATTRIBUTES(A)
#undef A
  };
  for (size_t k = 0; k < ARRAY_LEN(attributes); k++)
    if (!cuda_check(api,
                    api->device_attribute(attributes[k].value,
                                          attributes[k].number, device),
                    fault, "querying device %d for %s", ordinal,
                    attributes[k].name))
      return false;
  set_arch_name(out);
  return true;
}
