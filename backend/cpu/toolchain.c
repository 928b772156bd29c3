/* The C compiler of this machine, its flags, and the CPU they are for. */
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

/* -O2: kernels are vectors already; -O3 costs a tenth of the time and wins
 *   nothing, -O1 saves a quarter and makes pointwise ones half as fast.
 * -ffp-contract=off, -fno-math-errno, -fwrapv: what the language means.
 * -fno-asynchronous-unwind-tables: nobody unwinds through a kernel.
 * -pipe: compiler and assembler at the same time, 1.5 ms.
 * -nostdlib, -fno-use-linker-plugin: no start files, no search for what to
 *   link, 3 ms of 13 for an empty text.
 * No linker is named: bfd is the quickest at this size. */
static const char *const flags[] = {
#if defined(__x86_64__) || defined(__i386__)
    "-march=native",
#elif defined(__aarch64__)
    "-mcpu=native",
#endif
    "-O2",
    "-ftree-vectorize",
    "-std=gnu11",
    "-w",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fno-asynchronous-unwind-tables",
    "-pipe",
    "-nostdlib",
    "-fno-use-linker-plugin",
};

/* Conversions of f16 may be calls into libgcc, powers of doubles into libm. */
const char *const toolchain_libraries[] = {"-lm", "-lgcc", NULL};

static Toolchain chain;
static char words_text[1024]; /* of AXON_CC, cut at blanks */

/* ---- which program ---- */

static bool is_program(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0;
}

/* As execvp would. */
static bool find_program(const char *name, char path[ARTIFACT_PATH]) {
  if (strchr(name, '/'))
    return snprintf(path, ARTIFACT_PATH, "%s", name) < ARTIFACT_PATH &&
           is_program(path);
  const char *folders = getenv("PATH");
  for (const char *p = folders ? folders : "/usr/local/bin:/usr/bin:/bin";
       *p;) {
    int len = (int)strcspn(p, ":");
    if (len &&
        snprintf(path, ARTIFACT_PATH, "%.*s/%s", len, p, name) <
            ARTIFACT_PATH &&
        is_program(path))
      return true;
    p += len + (p[len] == ':');
  }
  return false;
}

static void add_word(const char *word) {
  if (chain.word_count + 1 < TOOLCHAIN_WORDS)
    chain.words[chain.word_count++] = word;
}

/* "ccache gcc -m64": a program and its arguments.  One with blanks in its own
 * path is taken as it is. */
static bool find_wanted(const char *wanted) {
  snprintf(chain.name, sizeof chain.name, "%s", wanted);
  snprintf(words_text, sizeof words_text, "%s", wanted);
  if (find_program(words_text, chain.path)) {
    add_word(words_text);
    return true;
  }
  char *rest = words_text;
  for (char *word; (word = strsep(&rest, " \t"));)
    if (*word)
      add_word(word);
  return chain.word_count && find_program(chain.words[0], chain.path);
}

static bool find_compiler(void) {
  static const char *const usual[] = {"cc", "gcc", "clang"};
  const char *wanted = getenv("AXON_CC");
  if (wanted && *wanted)
    return find_wanted(wanted);
  for (size_t k = 0; k < ARRAY_LEN(usual); k++)
    if (find_program(usual[k], chain.path)) {
      snprintf(chain.name, sizeof chain.name, "%s", usual[k]);
      add_word(usual[k]);
      return true;
    }
  snprintf(chain.name, sizeof chain.name, "cc, gcc or clang");
  return false;
}

/* ---- what it depends on ---- */

typedef struct Identity { /* of a file: to ask for its version takes longer */
  uint64_t size, inode, seconds, nanoseconds;
} Identity;

static Identity identity_of(const char *path) {
  struct stat is;
  if (stat(path, &is) != 0)
    return (Identity){0};
  return (Identity){(uint64_t)is.st_size, (uint64_t)is.st_ino,
                    (uint64_t)is.st_mtim.tv_sec, (uint64_t)is.st_mtim.tv_nsec};
}

enum { CPU_WORDS = 32 };

#if defined(__x86_64__) || defined(__i386__)
static void cpu_words(uint32_t words[CPU_WORDS]) {
  static const uint32_t leaves[][2] = {
      {0, 0}, {1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}};
  for (size_t k = 0; k < ARRAY_LEN(leaves); k++) {
    uint32_t *w = words + 4 * k;
    if (__get_cpuid_count(leaves[k][0], leaves[k][1], w, w + 1, w + 2, w + 3) &&
        leaves[k][0] == 1)
      w[1] = 0; /* which core this is */
  }
  if (words[4 + 2] & bit_OSXSAVE) { /* which registers the system keeps */
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words[20] = low;
    words[21] = high;
  }
}
#else
static void cpu_words(uint32_t words[CPU_WORDS]) {
  const char *const model = "/sys/devices/system/cpu/cpu0/regs/identification/"
                            "midr_el1";
  uint64_t has[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  memcpy(words, has, sizeof has);
  FILE *f = fopen(model, "re");
  if (!f)
    return;
  if (!fread(words + 4, 1, sizeof(uint32_t) * (CPU_WORDS - 4), f))
    words[4] = 0;
  fclose(f);
}
#endif

static ArtifactKey key_of_chain(void) {
  char real[ARTIFACT_PATH], arguments[2048] = "";
  if (!realpath(chain.path, real))
    snprintf(real, sizeof real, "%s", chain.path);
  Identity file = identity_of(real);
  uint32_t cpu[CPU_WORDS] = {0};
  cpu_words(cpu);
  size_t len = 0;
  for (uint32_t k = 0; k < chain.word_count && len < sizeof arguments; k++)
    len += (size_t)snprintf(arguments + len, sizeof arguments - len, "%s ",
                            chain.words[k]);
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

/* ---- how long it may take ---- */

enum { SECONDS_USUAL = 120, SECONDS_MOST = 100000 };

/* 0: it is no such number. */
static int seconds_wanted(void) {
  const char *wanted = getenv("AXON_CC_SECONDS");
  char *end;
  if (!wanted || !*wanted)
    return SECONDS_USUAL;
  long seconds = strtol(wanted, &end, 10);
  return *end || seconds < 1 || seconds > SECONDS_MOST ? 0 : (int)seconds;
}

bool toolchain_check(Fault *fault) {
  if (seconds_wanted())
    return true;
  fault_set(fault, "AXON_CC_SECONDS=%s is no number of seconds",
            getenv("AXON_CC_SECONDS"));
  fault_help(fault, "give 1 or more, or leave it unset: then the C compiler "
                    "has %d s for a kernel", SECONDS_USUAL);
  return false;
}

static void find(void) {
  chain.found = find_compiler();
  chain.seconds = seconds_wanted();
  if (!chain.seconds)
    chain.seconds = SECONDS_USUAL;
  chain.own_words = chain.word_count;
  for (size_t k = 0; k < ARRAY_LEN(flags); k++)
    add_word(flags[k]);
  chain.words[chain.word_count] = NULL;
  chain.key = key_of_chain();
}

const Toolchain *toolchain(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return &chain;
}
