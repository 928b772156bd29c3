/* Compiles a kernel to a shared object with the host's C++ compiler, and maps
 * code addresses to source lines. */
#define _GNU_SOURCE
#include "backend/cuda/sim/internal.h"
#include "machine/limits/cuda.h"
#include "runtime/artifact.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/json_writer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The files that are compiled with a kernel. */
extern const char sim_abi_text[], sim_kernel_text[], sim_hooks_text[];

enum { MAX_OPEN_FOLDERS = 8 };

/* ---- compiler ---- */

static bool compiler_works(const char *cxx) {
  char command[600];
  snprintf(command, sizeof command, "%.500s --version >/dev/null 2>&1", cxx);
  return system(command) == 0;
}

static const char *found_compiler; /* NULL: there is none */

/* The best compiler first. clang does not instrument accesses to local arrays,
 * so that conflicts with wgmma registers are not detected. */
static void find_compiler(void) {
  static const char *const names[] = {"g++", "c++", "clang++"};
  const char *named = getenv("AXON_SIM_CXX");
  if (named && *named) {
    found_compiler = compiler_works(named) ? named : NULL;
    return;
  }
  for (size_t j = 0; j < ARRAY_LEN(names) && !found_compiler; j++)
    found_compiler = compiler_works(names[j]) ? names[j] : NULL;
}

static const char *compiler(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_compiler);
  return found_compiler;
}

bool sim_is_available(void) {
  return compiler() != NULL;
}

static pthread_once_t found_key = PTHREAD_ONCE_INIT;
static ArtifactKey compiler_key;

static void find_key(void) {
  char command[600], version[200] = "";
  const char *cxx = compiler();
  if (!cxx)
    return;
  snprintf(command, sizeof command, "%.500s --version 2>&1", cxx);
  FILE *f = popen(command, "r");
  if (f && !fgets(version, sizeof version, f))
    version[0] = 0;
  if (f)
    pclose(f);
  compiler_key = artifact_key(
      2, (ArtifactPart[]){{cxx, strlen(cxx)}, {version, strlen(version)}});
}

ArtifactKey sim_compiler_key(void) {
  pthread_once(&found_key, find_key);
  return compiler_key;
}

bool sim_sees_registers(void) {
  char command[600];
  snprintf(command, sizeof command, "! %.500s --version 2>&1 | grep -q clang",
           compiler());
  return system(command) == 0;
}

/* Skips to the end of the parenthesis that opens at p. */
static const char *skip_parenthesis(const char *p) {
  int depth = 0;
  do {
    depth += *p == '(';
    depth -= *p == ')';
    p++;
  } while (depth && *p);
  return p;
}

/* The name of the function that begins at p; *len is 0 if there is none. */
static const char *function_name(const char *p, size_t *len) {
  for (*len = 0; *p; p += *len) {
    while (*p && !is_c_identifier_char(*p))
      p = *p == '(' ? skip_parenthesis(p) : p + 1;
    for (*len = 0; is_c_identifier_char(p[*len]);)
      ++*len;
    size_t after = *len + strspn(p + *len, " \n");
    if (p[after] == '(' && strncmp(p, "__", 2) != 0)
      return p;
  }
  return p;
}

/* The cluster size of a kernel, from the text between its head and its name. */
static unsigned long cluster_blocks_of(const char *head, const char *name) {
  static const char mark[] = "__cluster_dims__(";
  const char *at = strstr(head, mark);
  return at && at < name ? strtoul(at + strlen(mark), NULL, 10) : 1;
}

/* Kernels take their arguments by value; the entry points take a pointer to
 * them. */
static void write_entries(FILE *f, const char *source) {
  static const char mark[] = "__global__";
  for (const char *at = source; (at = strstr(at, mark));) {
    size_t len;
    const char *head = at;
    at = function_name(at + strlen(mark), &len);
    if (len)
      fprintf(f,
              "extern \"C\" __global__ void %.*s_sim(const void *a) "
              "{ ax_sim_kernel(%.*s, a); }\n"
              "extern \"C\" __global__ const unsigned %.*s_cluster = %lu;\n",
              (int)len, at, (int)len, at, (int)len, at,
              cluster_blocks_of(head, at));
  }
}

static bool write_text(const char *path, const char *source, const char *name) {
  FILE *f = fopen(path, "w");
  if (!f)
    return false;
  Buffer quoted = {0};
  json_quote(&quoted, name); /* a name in C has the same escapes */
  fprintf(f, "#line 1 %s\n%s\n", quoted.text, source);
  buffer_free(&quoted);
  write_entries(f, source);
  return fclose(f) == 0;
}

static void add_file(Buffer *out, const char *path) {
  FILE *f = fopen(path, "r");
  char chunk[4096];
  for (size_t n; f && (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
    buffer_add(out, chunk, n);
  if (f)
    fclose(f);
}

/* -Og keeps values in registers, and takes two thirds of the time of -O1.
 * Instrumentation calls the simulator before each access and on undefined
 * behaviour. */
static const char compiler_flags[] =
    "-std=c++17 -Og -g1 -w -fPIC -fvisibility=hidden "
    "-fsanitize=thread,bounds,object-size,shift,alignment,integer-divide-by-"
    "zero "
    "-ftrivial-auto-var-init=pattern -fno-strict-aliasing -ffp-contract=off "
    "-fwrapv "
    "-fno-exceptions -fno-rtti -fno-tree-vectorize -fno-tree-slp-vectorize";

/* Uninitialized variables get a pattern that is an unlikely integer and a NaN
 * as f32, so that 0 times it is not 0. g++ fills them with byte 254, in numbers
 * of 8, 4 and 16 bytes; this changes each fourth byte to 255.  The pattern of
 * clang is a NaN already. */
static const char poison_sed_script[] =
    "s/-72340172838076674\\b/-282578783371522/\n"
    "s/-16843010\\b/-65794/\n"
    "/\\.byte\t-2$/{N;N;N;s/^\\(\\(.*-2.\\)\\{3\\}.*\\)-2$/\\1-1/}";

ArtifactKey sim_runtime_key(void) {
  return artifact_key(
      4, (ArtifactPart[]){{sim_abi_text, strlen(sim_abi_text)},
                          {sim_kernel_text, strlen(sim_kernel_text)},
                          {sim_hooks_text, strlen(sim_hooks_text)},
                          {compiler_flags, sizeof compiler_flags}});
}

/* ---- cache ---- */

/* AXON_SIM_CACHE names a folder for compiled kernels, which processes share.
 * Returns NULL if there is no such folder. */
static char *cached_path(const char *source, const char *name,
                         const char *suffix) {
  const char *folder = getenv("AXON_SIM_CACHE"), *cxx = compiler();
  char *path = NULL;
  if (!folder || !*folder)
    return NULL;
  ArtifactKey runtime = sim_runtime_key();
  ArtifactKey key =
      artifact_key(4, (ArtifactPart[]){{source, strlen(source)},
                                       {name, strlen(name)},
                                       {cxx, strlen(cxx)},
                                       {&runtime, sizeof runtime}});
  mkdir(folder, 0700);
  if (asprintf(&path, "%s/%016llx%016llx%s", folder,
               (unsigned long long)key.word[0], (unsigned long long)key.word[1],
               suffix) < 0)
    return NULL;
  return path;
}

/* A copy, because dlopen returns the same library for two links to one file.
 * Each Sim has its own variables. */
static bool copy_file(const char *from, const char *to) {
  struct stat status;
  bool complete = false;
  int in = open(from, O_RDONLY | O_CLOEXEC);
  if (in < 0)
    return false;
  int out = open(to, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0700);
  if (out >= 0 && fstat(in, &status) == 0)
    complete = sendfile(out, in, NULL, (size_t)status.st_size) ==
               (ssize_t)status.st_size;
  close(in);
  if (out >= 0)
    close(out);
  return complete;
}

/* ---- compilation ---- */

/* The folder $runtime contains what is the same for all kernels: the files of
 * the simulator, in backend/; kernel.hh as a precompiled header; and the object
 * file of hooks.cc.  Without it, half of the kernels compile twice as long.  A
 * concurrent process may create the same folder, so that it gets its name when
 * it is complete.  A precompiled header of clang works in one place only.
 *
 * Compilation and link of a kernel are separate: a direct link would add the
 * sanitizer library. */
static const char script[] =
    "export LC_ALL=C\n"
    "ulimit -t \"$seconds\"; ulimit -v \"$kib\"\n"
    "compile() { $cxx $flags \"$@\"; }\n"
    "is_clang() { $cxx --version | grep -q clang; }\n"
    "make_runtime() {\n"
    "  sim=\"$1/backend/cuda/sim\"\n"
    "  cp -R backend \"$1\" && cp \"$sim/kernel.hh\" \"$1\" &&\n"
    "    { is_clang || compile -I\"$1\" -x c++-header \\\n"
    "      -o \"$1/kernel.hh.gch\" \"$sim/kernel.hh\"; } &&\n"
    "    compile -I\"$1\" -fno-sanitize=all -c -o \"$1/hooks.o\" \\\n"
    "      \"$sim/hooks.cc\" &&\n"
    "    mv -T \"$1\" \"$runtime\" || rm -r \"$1\"\n"
    "}\n"
    "[ -e \"$runtime\" ] || make_runtime \"$(mktemp -d \"$runtime.XXXXXX\")\"\n"
    "compile -I\"$runtime\" -include \"$runtime/kernel.hh\" -S -o kernel.s \\\n"
    "  kernel.cc &&\n"
    "  sed -i -e \"$poison\" kernel.s &&\n"
    "  $cxx -shared -nostdlib -fno-use-linker-plugin -o kernel.so kernel.s \\\n"
    "    \"$runtime/hooks.o\" -lm -lgcc\n";

/* Writes the files of the simulator into the folder. */
static bool write_runtime(const Sim *s) {
  static const char *const folders[] = {"backend", "backend/cuda",
                                        "backend/cuda/sim"};
  const struct {
    const char *name, *text;
  } files[] = {{"abi.h", sim_abi_text},
               {"kernel.hh", sim_kernel_text},
               {"hooks.cc", sim_hooks_text}};
  char path[400];
  for (size_t j = 0; j < ARRAY_LEN(folders); j++) {
    snprintf(path, sizeof path, "%.300s/%s", s->folder, folders[j]);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
      return false;
  }
  for (size_t j = 0; j < ARRAY_LEN(files); j++) {
    snprintf(path, sizeof path, "%.300s/backend/cuda/sim/%s", s->folder,
             files[j].name);
    FILE *f = fopen(path, "w");
    if (!f)
      return false;
    fputs(files[j].text, f);
    if (fclose(f) != 0)
      return false;
  }
  return true;
}

/* g++ and clang++ report the end of their processes. */
static bool exceeds_limit(const char *log) {
  static const char *const signs[] = {
      "CPU time limit exceeded", "Killed",    "out of memory",
      "memory exhausted",        "bad_alloc", "cannot allocate memory"};
  for (size_t j = 0; j < ARRAY_LEN(signs); j++)
    if (strstr(log, signs[j]))
      return true;
  return false;
}

static void describe_failure(Buffer *error, const char *name,
                             const char *log_path) {
  Buffer log = {0};
  buffer_puts(&log, "");
  add_file(&log, log_path);
  if (exceeds_limit(log.text))
    buffer_printf(error,
                  "%s: error: the C++ compiler needs more than %d seconds or "
                  "%d MiB: has it templates without an end?\n",
                  name, SIM_COMPILER_SECONDS, SIM_COMPILER_MIB);
  else
    buffer_printf(error, "%s does not compile for the host:\n", name);
  buffer_puts(error, log.text);
  buffer_free(&log);
}

static bool compile(Sim *s, const char *source, const char *runtime,
                    Buffer *error) {
  char log[300], source_path[300], *command = NULL;
  snprintf(source_path, sizeof source_path, "%s/kernel.cc", s->folder);
  snprintf(log, sizeof log, "%s/log", s->folder);
  if (!write_runtime(s) || !write_text(source_path, source, s->name)) {
    buffer_printf(error, "%s: %s", source_path, strerror(errno));
    return false;
  }
  if (asprintf(&command,
               "cd '%s' && exec >log 2>&1\n"
               "runtime='%s' cxx='%s' flags='%s' poison='%s' seconds=%d "
               "kib=%d\n%s",
               s->folder, runtime, compiler(), compiler_flags,
               poison_sed_script, SIM_COMPILER_SECONDS, SIM_COMPILER_MIB * 1024,
               script) < 0)
    return false;
  bool good = system(command) == 0;
  free(command);
  if (!good)
    describe_failure(error, s->name, log);
  return good;
}

static bool compile_once(Sim *s, const char *source, Buffer *error) {
  char *cached = cached_path(source, s->name, ".so");
  char *runtime = cached_path("", "", ".runtime");
  bool good = (cached && copy_file(cached, s->path)) ||
              compile(s, source, runtime ? runtime : "runtime", error);
  if (good && cached)
    (void)!link(s->path, cached);
  free(cached);
  free(runtime);
  return good;
}

/* ---- shared object ---- */

static int find_extent(struct dl_phdr_info *info, size_t size, void *owner) {
  Sim *s = owner;
  (void)size;
  if (info->dlpi_addr != s->base)
    return 0;
  for (int j = 0; j < info->dlpi_phnum; j++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[j];
    const char *from = (const char *)(s->base + h->p_vaddr);
    if (h->p_type != PT_LOAD)
      continue;
    s->from = s->from && s->from < from ? s->from : from;
    s->to = s->to > from + h->p_memsz ? s->to : from + h->p_memsz;
  }
  return 1;
}

static bool load(Sim *s, Buffer *error) {
  Dl_info info;
  s->library = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
  if (!s->library) {
    buffer_puts(error, dlerror());
    return false;
  }
  s->table = dlsym(s->library, "ax_sim_table");
  if (!s->table || !dladdr((void *)s->table, &info)) {
    buffer_printf(error, "%s is no kernel", s->path);
    return false;
  }
  s->base = (uintptr_t)info.dli_fbase;
  dl_iterate_phdr(find_extent, s);
  return true;
}

char *sim_temp_dir(void) {
  const char *temporary = getenv("TMPDIR");
  char *folder = NULL;
  if (asprintf(&folder, "%s/axon_simXXXXXX",
               temporary && *temporary ? temporary : "/tmp") < 0)
    return NULL;
  if (mkdtemp(folder))
    return folder;
  free(folder);
  return NULL;
}

Sim *sim_compile(const char *source, const char *name, Buffer *error) {
  Sim *s = calloc(1, sizeof *s);
  if (!s || !sim_is_available()) {
    buffer_puts(error, "there is no C++ compiler");
    free(s);
    return NULL;
  }
  s->name = strdup(name);
  if (!(s->folder = sim_temp_dir()) ||
      asprintf(&s->path, "%s/kernel.so", s->folder) < 0 ||
      !compile_once(s, source, error) || !load(s, error)) {
    sim_free(s);
    return NULL;
  }
  return s;
}

static int remove_one(const char *path, const struct stat *about, int kind,
                      struct FTW *level) {
  (void)about, (void)kind, (void)level;
  return remove(path);
}

void sim_remove_dir(const char *folder) {
  nftw(folder, remove_one, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

void sim_free(Sim *s) {
  if (!s)
    return;
  if (s->library)
    dlclose(s->library);
  if (s->folder)
    sim_remove_dir(s->folder);
  free(s->folder);
  free(s->path);
  free(s->name);
  free(s);
}

void (*sim_entry(const Sim *s, const char *kernel))(const void *args) {
  char symbol[400];
  snprintf(symbol, sizeof symbol, "%s_sim", kernel);
  return (void (*)(const void *))(uintptr_t)dlsym(s->library, symbol);
}

uint32_t sim_cluster_blocks(const Sim *s, const char *kernel) {
  char symbol[400];
  snprintf(symbol, sizeof symbol, "%s_cluster", kernel);
  const unsigned *blocks = dlsym(s->library, symbol);
  return blocks ? *blocks : 1;
}

/* ---- source positions ---- */

void sim_site(const SimRun *r, uint32_t site, char out[SIM_TEXT_BYTES]) {
  const Sim *s = r->sim;
  char command[500], position[SIM_TEXT_BYTES] = "";
  if (site < SIM_FIRST_CODE_SITE) {
    snprintf(out, SIM_TEXT_BYTES, "%.100s:%u", s->name, site);
    return;
  }
  snprintf(command, sizeof command, "addr2line -s -e '%.300s' 0x%x 2>&1",
           /* The address of the call. */
           s->path, site - SIM_FIRST_CODE_SITE - 1);
  FILE *f = popen(command, "r");
  if (f && fgets(position, sizeof position, f))
    position[strcspn(position, " \n")] = 0;
  if (f)
    pclose(f);
  if (strchr(position, ':'))
    snprintf(out, SIM_TEXT_BYTES, "%s", position);
  else
    snprintf(out, SIM_TEXT_BYTES, "%.100s, code 0x%x", s->name,
             site - SIM_FIRST_CODE_SITE);
}
