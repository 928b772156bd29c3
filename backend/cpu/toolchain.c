/* The C compiler of this machine, its flags, and the CPU that it compiles
 * for. */
#define _GNU_SOURCE
#include "backend/cpu/toolchain.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

extern const char prelude_text[];

/* -ffp-contract=off, -fno-math-errno, -fwrapv: the semantics of Axon.
 *
 * --param=avoid-fma-max-bits=0: some tunings, such as that of Zen 3, do not
 * fuse a product with the only sum of a loop; quick and optimized kernels must
 * fuse the same ones.  clang ignores the parameter.
 *
 * -fno-asynchronous-unwind-tables: nothing unwinds through a kernel.
 *
 * -pipe: runs compiler and assembler concurrently, saves 1.5 ms.
 *
 * -nostdlib, -fno-use-linker-plugin: no start files and no search for
 * libraries, saves 3 ms of 13 ms for an empty source.
 *
 * -z noseparate-code: code and constants are one mapping, so the page fault of
 * the code maps the constants, too.  A masked load whose mask is all zero does
 * not fault: while the page of its constants is not mapped, each such load
 * takes some 100 cycles on Zen 4.
 *
 * The default linker bfd is the fastest at this size. */
static const char *const flags[] = {
#if defined(__x86_64__) || defined(__i386__)
    "-march=native",
#elif defined(__aarch64__)
    "-mcpu=native",
#endif
    "-ftree-vectorize",
    "-std=gnu11",
    "-w",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
#if defined(__x86_64__) || defined(__i386__)
    "--param=avoid-fma-max-bits=0",
#endif
    "-fno-math-errno",
    "-fwrapv",
    "-fno-asynchronous-unwind-tables",
    "-pipe",
    "-nostdlib",
    "-fno-use-linker-plugin",
    "-Wl,-z,noseparate-code",
};

/* gcc only.  They save 11% of -Og.  If a program with this name refuses them,
 * all kernels are optimized before they run. */
static const char *const quick_gcc_flags[] = {
    "-fno-guess-branch-probability",
    "-fno-forward-propagate",
    "-fno-cprop-registers",
};

static bool compiler_is_gcc;

/* -O2: kernels are already vectorized. -O3 takes 10% longer and gains nothing;
 * -O1 saves 35%.  -Og takes a third of the time of -O2, little more than -O0,
 * whose kernels are 20 to 40 times slower.  Register allocation without regions
 * for loops (ira-max-loops-num) saves 20 to 50% of -Og; clang ignores the
 * parameter, but would refuse -fira-region. */
LevelFlags toolchain_level_flags(CompileLevel level) {
  if (level == COMPILE_OPTIMIZED)
    return (LevelFlags){{"-O2"}};
  LevelFlags quick = {{"-Og", "-DQUICK", "--param=ira-max-loops-num=0"}};
  for (size_t k = 0; compiler_is_gcc && k < ARRAY_LEN(quick_gcc_flags); k++)
    quick.flag[3 + k] = quick_gcc_flags[k];
  return quick;
}

/* Conversions of f16 may call libgcc; powers of doubles may call libm. */
const char *const toolchain_libraries[] = {"-lm", "-lgcc", NULL};

static Toolchain cached_toolchain;
static char compiler_command[1024]; /* AXON_CC, split at blanks */

/* ---- compiler ---- */

static bool is_program(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
         access(path, X_OK) == 0;
}

/* Searches PATH like execvp. */
static bool find_program(const char *name, char path[ARTIFACT_PATH_BYTES]) {
  if (strchr(name, '/'))
    return snprintf(path, ARTIFACT_PATH_BYTES, "%s", name) <
               ARTIFACT_PATH_BYTES &&
           is_program(path);
  const char *directories = getenv("PATH");
  for (const char *p = directories ? directories
                                   : "/usr/local/bin:/usr/bin:/bin";
       *p;) {
    int len = (int)strcspn(p, ":");
    if (len &&
        snprintf(path, ARTIFACT_PATH_BYTES, "%.*s/%s", len, p, name) <
            ARTIFACT_PATH_BYTES &&
        is_program(path))
      return true;
    p += len + (p[len] == ':');
  }
  return false;
}

static void add_arg(const char *word) {
  if (cached_toolchain.arg_count + 1 < MAX_COMPILER_ARGS)
    cached_toolchain.args[cached_toolchain.arg_count++] = word;
}

/* For example "ccache gcc -m64": a program and its arguments.  The path of an
 * existing program may contain blanks. */
static bool find_requested(const char *setting) {
  snprintf(cached_toolchain.name, sizeof cached_toolchain.name, "%s", setting);
  snprintf(compiler_command, sizeof compiler_command, "%s", setting);
  if (find_program(compiler_command, cached_toolchain.path)) {
    add_arg(compiler_command);
    return true;
  }
  char *rest = compiler_command;
  for (char *word; (word = strsep(&rest, " \t"));)
    if (*word)
      add_arg(word);
  return cached_toolchain.arg_count &&
         find_program(cached_toolchain.args[0], cached_toolchain.path);
}

static bool find_compiler(void) {
  static const char *const default_names[] = {"cc", "gcc", "clang"};
  const char *setting = getenv("AXON_CC");
  if (setting && *setting)
    return find_requested(setting);
  for (size_t k = 0; k < ARRAY_LEN(default_names); k++)
    if (find_program(default_names[k], cached_toolchain.path)) {
      snprintf(cached_toolchain.name, sizeof cached_toolchain.name, "%s",
               default_names[k]);
      add_arg(default_names[k]);
      return true;
    }
  snprintf(cached_toolchain.name, sizeof cached_toolchain.name,
           "cc, gcc or clang");
  return false;
}

/* ---- cache key ---- */

typedef struct FileIdentity { /* identity of a file, which is faster than asking
                                 for its version */
  uint64_t size, inode, seconds, nanoseconds;
} FileIdentity;

static FileIdentity file_identity(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0)
    return (FileIdentity){0};
  return (FileIdentity){(uint64_t)status.st_size, (uint64_t)status.st_ino,
                        (uint64_t)status.st_mtim.tv_sec,
                        (uint64_t)status.st_mtim.tv_nsec};
}

enum { CPUID_WORDS = 32 };

#if defined(__x86_64__) || defined(__i386__)
static void cpuid_words(uint32_t words[CPUID_WORDS]) {
  static const uint32_t leaves[][2] = {
      {0, 0}, {1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}};
  for (size_t k = 0; k < ARRAY_LEN(leaves); k++) {
    uint32_t *w = words + 4 * k;
    if (__get_cpuid_count(leaves[k][0], leaves[k][1], w, w + 1, w + 2, w + 3) &&
        leaves[k][0] == 1)
      w[1] = 0; /* number of this core */
  }
  if (words[4 + 2] &
      bit_OSXSAVE) { /* register state that the operating system saves */
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words[20] = low;
    words[21] = high;
  }
}
#else
static void cpuid_words(uint32_t words[CPUID_WORDS]) {
  const char *const model = "/sys/devices/system/cpu/cpu0/regs/identification/"
                            "midr_el1";
  uint64_t has[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  memcpy(words, has, sizeof has);
  FILE *f = fopen(model, "re");
  if (!f)
    return;
  if (!fread(words + 4, 1, sizeof(uint32_t) * (CPUID_WORDS - 4), f))
    words[4] = 0;
  fclose(f);
}
#endif

/* A program without symbolic links. */
static void real_path(const char *path, char out[ARTIFACT_PATH_BYTES]) {
  if (!realpath(path, out))
    snprintf(out, ARTIFACT_PATH_BYTES, "%s", path);
}

static bool name_contains(const char *path, const char *word) {
  const char *slash = strrchr(path, '/');
  return strstr(slash ? slash : path, word) != NULL;
}

/* By the name of the last program of the command, such as ccache
 * x86_64-linux-gnu-gcc-12.  A link gcc to ccache runs gcc, too. */
static bool is_gcc(void) {
  char path[ARTIFACT_PATH_BYTES], real[ARTIFACT_PATH_BYTES];
  for (uint32_t k = cached_toolchain.arg_count; k-- > 0;) {
    if (!find_program(cached_toolchain.args[k], path))
      continue;
    real_path(path, real);
    return name_contains(real, "gcc") ||
           (name_contains(real, "ccache") && name_contains(path, "gcc"));
  }
  return false;
}

static ArtifactKey toolchain_key(void) {
  char real[ARTIFACT_PATH_BYTES], arguments[2048] = "";
  real_path(cached_toolchain.path, real);
  FileIdentity file = file_identity(real);
  uint32_t cpu[CPUID_WORDS] = {0};
  cpuid_words(cpu);
  size_t len = 0;
  for (uint32_t k = 0; k < cached_toolchain.arg_count && len < sizeof arguments;
       k++)
    len += (size_t)snprintf(arguments + len, sizeof arguments - len, "%s ",
                            cached_toolchain.args[k]);
  const ArtifactPart parts[] = {
      {AXON_VERSION, sizeof AXON_VERSION},
      {real, strlen(real)},
      {&file, sizeof file},
      {arguments, strlen(arguments)},
      {cpu, sizeof cpu},
      {prelude_text, strlen(prelude_text)},
  };
  return artifact_key(ARRAY_LEN(parts), parts);
}

/* ---- time limit ---- */

enum { DEFAULT_TIMEOUT_SECONDS = 120, MAX_TIMEOUT_SECONDS = 100000 };

/* Returns 0 if the setting is invalid. */
static int timeout_setting(void) {
  const char *setting = getenv("AXON_CC_SECONDS");
  char *end;
  if (!setting || !*setting)
    return DEFAULT_TIMEOUT_SECONDS;
  long seconds = strtol(setting, &end, 10);
  return *end || seconds < 1 || seconds > MAX_TIMEOUT_SECONDS ? 0
                                                              : (int)seconds;
}

/* ---- when kernels are optimized ---- */

/* Returns false if the setting is invalid. */
static bool optimize_setting(Toolchain *t) {
  const char *setting = getenv("AXON_OPTIMIZE");
  if (!setting || !*setting)
    setting = "later";
  t->optimizes_sample = strcmp(setting, "sample") == 0;
  t->optimizes_batches = strcmp(setting, "together") == 0;
  t->quick_at_first = t->optimizes_sample || strcmp(setting, "later") == 0;
  return t->quick_at_first || t->optimizes_batches ||
         strcmp(setting, "always") == 0;
}

bool toolchain_check(Fault *fault) {
  Toolchain settings;
  if (!timeout_setting()) {
    fault_set(fault, "AXON_CC_SECONDS=%s is not a number of seconds",
              getenv("AXON_CC_SECONDS"));
    fault_set_help(fault,
                   "use 1 or more, or unset it (default: %d s per kernel)",
                   DEFAULT_TIMEOUT_SECONDS);
    return false;
  }
  if (!optimize_setting(&settings)) {
    fault_set(fault, "AXON_OPTIMIZE=%s is not a time to optimize kernels",
              getenv("AXON_OPTIMIZE"));
    fault_set_help(fault, "use always, later, sample or together, or unset it "
                          "(default: later)");
    return false;
  }
  return true;
}

static void detect_toolchain(void) {
  cached_toolchain.found = find_compiler();
  compiler_is_gcc = cached_toolchain.found && is_gcc();
  cached_toolchain.timeout_seconds = timeout_setting();
  if (!cached_toolchain.timeout_seconds)
    cached_toolchain.timeout_seconds = DEFAULT_TIMEOUT_SECONDS;
  optimize_setting(&cached_toolchain);
  cached_toolchain.user_arg_count = cached_toolchain.arg_count;
  for (size_t k = 0; k < ARRAY_LEN(flags); k++)
    add_arg(flags[k]);
  cached_toolchain.args[cached_toolchain.arg_count] = NULL;
  cached_toolchain.key = toolchain_key();
}

const Toolchain *toolchain(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, detect_toolchain);
  return &cached_toolchain;
}
