/* Search for NVRTC and its headers. */
#define _GNU_SOURCE
#include "backend/cuda/nvrtc.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Search {
  int major;
  bool (*try)(void *owner, const char *name);
  void *owner;
} Search;

static const char *env_value(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* Escapes glob characters in a folder name. */
static bool escape_glob(char out[ARTIFACT_PATH_BYTES], const char *folder) {
  size_t len = 0;
  for (; *folder; folder++) {
    if (len + 3 > ARTIFACT_PATH_BYTES)
      return false;
    if (strchr("*?[]\\", *folder))
      out[len++] = '\\';
    out[len++] = *folder;
  }
  out[len] = 0;
  return true;
}

/* Tries all files that match `inside` in a folder, the newest version first:
 * cuda-12.9 before cuda-12.4. */
static bool try_pattern(const Search *s, const char *folder,
                        const char *inside) {
  char base[ARTIFACT_PATH_BYTES], pattern[ARTIFACT_PATH_BYTES];
  glob_t found;
  bool done = false;
  if (!escape_glob(base, folder) ||
      snprintf(pattern, sizeof pattern, "%s/%s/libnvrtc.so.%d", base, inside,
               s->major) >= (int)sizeof pattern ||
      glob(pattern, 0, NULL, &found) != 0)
    return false;
  for (size_t k = found.gl_pathc; k-- > 0 && !done;)
    done = s->try(s->owner, found.gl_pathv[k]);
  globfree(&found);
  return done;
}

/* ---- CUDA toolkit ---- */

static bool try_toolkit(const Search *s, const char *folder) {
  static const char *const inside[] = {"lib64", "lib", "targets/*/lib"};
  for (size_t k = 0; folder && k < ARRAY_LEN(inside); k++)
    if (try_pattern(s, folder, inside[k]))
      return true;
  return false;
}

/* ---- Python ---- */

/* The packages have it in nvidia/cuda_nvrtc/lib (CUDA 12) and nvidia/cu13/lib
 * (CUDA 13).  The python3 of Debian also uses dist-packages. */
static bool try_python(const Search *s, const char *prefix) {
  return try_pattern(s, prefix, "lib/python3*/site-packages/nvidia/*/lib") ||
         try_pattern(s, prefix, "lib/python3*/dist-packages/nvidia/*/lib");
}

/* The parent of the folder of a program: /usr for /usr/bin/python3. */
static bool prefix_of(char path[ARTIFACT_PATH_BYTES]) {
  for (int k = 0; k < 2; k++) {
    char *slash = strrchr(path, '/');
    if (!slash)
      return false;
    *slash = 0;
  }
  return true;
}

/* Tries the path as given (a virtual environment), then its symlink target. */
static bool try_python_at(const Search *s, const char *program) {
  char path[ARTIFACT_PATH_BYTES], real[ARTIFACT_PATH_BYTES];
  if (!realpath(program, real) ||
      snprintf(path, sizeof path, "%s", program) >= (int)sizeof path)
    return false;
  return (prefix_of(path) && try_python(s, path)) ||
         (prefix_of(real) && try_python(s, real));
}

/* Tries only the first python3 in PATH. */
static bool try_path(const Search *s) {
  const char *path = env_value("PATH");
  while (path && *path) {
    char program[ARTIFACT_PATH_BYTES];
    int len = (int)strcspn(path, ":");
    bool fits = snprintf(program, sizeof program, "%.*s/python3", len, path) <
                (int)sizeof program;
    if (fits && access(program, X_OK) == 0)
      return try_python_at(s, program);
    path += len + (path[len] == ':');
  }
  return false;
}

static bool try_home(const Search *s) {
  const char *home = env_value("HOME");
  return home && (try_pattern(s, home,
                              ".local/lib/python3*/site-packages/"
                              "nvidia/*/lib"));
}

/* ---- search order ---- */

bool nvrtc_search(int major, bool (*try)(void *owner, const char *name),
                  void *owner) {
  Search s = {major, try, owner};
  char name[32], folder[32];
  snprintf(name, sizeof name, "libnvrtc.so.%d", major);
  snprintf(folder, sizeof folder, "cuda-%d*/lib64", major);
  const char *venv = env_value("VIRTUAL_ENV");
  return try_toolkit(&s, env_value("CUDA_HOME")) ||
         try_toolkit(&s, env_value("CUDA_PATH")) ||
         try(owner, name) || /* LD_LIBRARY_PATH, system folders */
         try_toolkit(&s, "/usr/local/cuda") ||
         try_pattern(&s, "/usr/local", folder) ||
         try_toolkit(&s, "/opt/cuda") ||
         try_toolkit(&s, env_value("CONDA_PREFIX")) ||
         (venv && try_python(&s, venv)) || try_path(&s) || try_home(&s);
}

/* ---- headers ---- */

bool nvrtc_headers(const char *library, char out[ARTIFACT_PATH_BYTES]) {
  /* Relative to the folder of the library: the toolkit (lib64,
   * targets/NAME/lib) and the CUDA 13 packages; the CUDA 12 packages;
   * Debian. */
  static const char *const beside[] = {
      "/../include", "/../targets/x86_64-linux/include",
      "/../../cuda_runtime/include", "/../../include"};
  char folder[ARTIFACT_PATH_BYTES], file[ARTIFACT_PATH_BYTES + 128];
  if (!realpath(library, folder) || !strrchr(folder, '/'))
    return false;
  *strrchr(folder, '/') = 0;
  for (size_t k = 0; k < ARRAY_LEN(beside); k++) {
    char path[ARTIFACT_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%s", folder, beside[k]);
    snprintf(file, sizeof file, "%s/cuda_fp16.h", path);
    if (access(file, R_OK) == 0 && realpath(path, out))
      return true;
  }
  return false;
}
