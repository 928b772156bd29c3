/* The driver of gcc prints the commands that it would run, quoted for a shell,
 * if its argument is -### (GCC manual, "Overall Options").  They are kept as an
 * artifact, since the driver takes as long for that as they save. */
#define _GNU_SOURCE
#include "backend/cpu/driver_commands.h"

#include "support/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_OUTPUT_BYTES = 32 << 10, LEVELS = COMPILE_OPTIMIZED + 1 };

/* Commands of the driver, as words for a shell. */
typedef struct DriverCommands {
  char *compiler, *assembler, *linker, *linker_args;
  const char *object;  /* the file that the assembler writes */
  const char *folders; /* where gcc looks for programs, separated by colons */
} DriverCommands;

/* ---- the output of the driver ---- */

static pid_t spawn_driver(const char *path, const char *const *argv, int end) {
  pid_t pid;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end, STDERR_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  int error = posix_spawn(&pid, path, &actions, NULL,
                          (char *const *)(uintptr_t)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return error ? 0 : pid;
}

static size_t read_all(int file, char *out, size_t size) {
  size_t len = 0;
  while (len < size) {
    ssize_t n = read(file, out + len, size - len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    len += (size_t)n;
  }
  return len;
}

/* Returns false if there is no output, or too much. */
static bool read_output(const Toolchain *tools, const char *const *argv,
                        char out[MAX_OUTPUT_BYTES]) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return false;
  pid_t pid = spawn_driver(tools->path, argv, ends[1]);
  close(ends[1]);
  size_t len = pid ? read_all(ends[0], out, MAX_OUTPUT_BYTES) : 0;
  close(ends[0]);
  while (pid && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    ;
  if (len == MAX_OUTPUT_BYTES)
    return false;
  out[len] = '\0';
  return len > 0;
}

/* ---- commands ---- */

static bool ends_with(const char *text, const char *end) {
  size_t len = strlen(text), end_len = strlen(end);
  return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* The compiler writes to a pipe, and the assembler writes a temporary file for
 * the linker.  Changes the output. */
static bool find_commands(char *output, DriverCommands *out) {
  static const char folders[] = "COMPILER_PATH=", pipe_end[] = " |";
  char *commands[3];
  uint32_t count = 0;
  *out = (DriverCommands){.folders = ""};
  for (char *line; (line = strsep(&output, "\n"));) {
    if (strncmp(line, folders, strlen(folders)) == 0)
      out->folders = line + strlen(folders);
    if (*line != ' ')
      continue;
    if (count == ARRAY_LEN(commands))
      return false;
    commands[count++] = line + 1;
  }
  if (count != ARRAY_LEN(commands) || !ends_with(commands[0], pipe_end))
    return false;
  commands[0][strlen(commands[0]) - strlen(pipe_end)] = '\0';
  char *object = strstr(commands[1], " -o "), *args = strchr(commands[2], ' ');
  if (!object || !args || strpbrk(object + 4, " \""))
    return false;
  *object = *args = '\0';
  *out = (DriverCommands){commands[0], commands[1], commands[2],
                          args + 1,    object + 4,  out->folders};
  return true;
}

/* The linker that collect2 would run.  It is the driver's choice if that does
 * more than to run a linker, as for link-time optimization. */
static const char *find_linker(const DriverCommands *c,
                               char path[ARTIFACT_PATH_BYTES]) {
  if (!ends_with(c->linker, "/collect2") || strstr(c->linker_args, "-plugin") ||
      strstr(c->linker_args, "-fuse-ld"))
    return c->linker;
  for (const char *p = c->folders; *p;) {
    int len = (int)strcspn(p, ":");
    if (snprintf(path, ARTIFACT_PATH_BYTES, "%.*sld", len, p) <
            ARTIFACT_PATH_BYTES &&
        access(path, X_OK) == 0)
      return strpbrk(path, " \"'$`\\") ? c->linker : path;
    p += len + (p[len] == ':');
  }
  return "ld";
}

static const char script_format[] =
    "exec 3>&2 2>/dev/null\n"
    "cd \"$1\" && { %s || echo .err; } | %s -o kernel.o &&\n"
    "%s %.*skernel.o%s && exit\n"
    "shift\n"
    "exec \"$@\" 2>&3\n";

static bool write_script(const DriverCommands *c, char *out, size_t size) {
  char linker[ARTIFACT_PATH_BYTES];
  char *object = strstr(c->linker_args, c->object);
  if (!object)
    return false;
  int len = snprintf(out, size, script_format, c->compiler, c->assembler,
                     find_linker(c, linker), (int)(object - c->linker_args),
                     c->linker_args, object + strlen(c->object));
  return len > 0 && (size_t)len < size;
}

/* ---- which compilers ---- */

/* Returns true if the program is gcc itself, without arguments of the user: not
 * a script, and not ccache under its name. */
static bool is_driver(const Toolchain *tools) {
  char head[4] = "";
  int file = tools->is_gcc && tools->user_arg_count == 1
                 ? open(tools->path, O_RDONLY | O_CLOEXEC)
                 : -1;
  if (file < 0)
    return false;
  bool is_program = read_all(file, head, sizeof head) == sizeof head &&
                    memcmp(head, "\177ELF", sizeof head) == 0;
  close(file);
  return is_program;
}

static bool make_script(const Toolchain *tools, const char *const *argv,
                        char *out, size_t size) {
  char output[MAX_OUTPUT_BYTES];
  DriverCommands commands;
  return read_output(tools, argv, output) && find_commands(output, &commands) &&
         write_script(&commands, out, size);
}

/* ---- kept scripts ---- */

static const ArtifactKind script_kind = {ARTIFACT_COMMANDS, ".sh"};

/* Contains what the output of the driver depends on. */
static ArtifactKey script_key(const Toolchain *tools, uint32_t argc,
                              const char *const *argv) {
  static const char *const variables[] = {"GCC_EXEC_PREFIX", "COMPILER_PATH",
                                          "LIBRARY_PATH"};
  ArtifactPart parts[2 + ARRAY_LEN(variables) + MAX_COMPILER_COMMAND] = {
      {&tools->key, sizeof tools->key}, {script_format, sizeof script_format}};
  uint32_t count = 2;
  for (size_t k = 0; k < ARRAY_LEN(variables); k++) {
    const char *value = getenv(variables[k]);
    parts[count++] =
        (ArtifactPart){value ? value : "", value ? strlen(value) + 1 : 0};
  }
  for (uint32_t k = 0; k < argc; k++)
    parts[count++] = (ArtifactPart){argv[k], strlen(argv[k])};
  return artifact_key(count, parts);
}

static bool read_kept(ArtifactKey key, char *out, size_t size) {
  Artifact kept;
  if (!artifact_open(&script_kind, key, &kept))
    return false;
  bool fits =
      kept.size < size && read_all(kept.fd, out, kept.size) == kept.size;
  out[fits ? kept.size : 0] = '\0';
  artifact_close(&kept);
  return fits;
}

static bool find_script(const Toolchain *tools, CompileLevel level,
                        CompileLibraries libraries, char *out, size_t size) {
  const char *argv[MAX_COMPILER_COMMAND];
  if (!is_driver(tools))
    return false;
  uint32_t n =
      toolchain_command(tools, level, libraries, "kernel.c", "kernel.so", argv);
  argv[n++] = "-###";
  argv[n] = NULL;
  ArtifactKey key = script_key(tools, n, argv);
  if (read_kept(key, out, size))
    return true;
  if (!make_script(tools, argv, out, size))
    return false;
  artifact_store(&script_kind, key, out, strlen(out));
  return true;
}

const char *driver_commands_script(const Toolchain *tools, CompileLevel level,
                                   CompileLibraries libraries) {
  static char scripts[LEVELS][WITH_LIBRARIES + 1][MAX_OUTPUT_BYTES];
  static bool is_known[LEVELS][WITH_LIBRARIES + 1];
  char *script = scripts[level][libraries];
  if (!is_known[level][libraries] &&
      !find_script(tools, level, libraries, script, MAX_OUTPUT_BYTES))
    *script = '\0';
  is_known[level][libraries] = true;
  return *script ? script : NULL;
}
