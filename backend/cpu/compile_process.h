/* backend/cpu: one run of the C compiler, for jit.c. */
#ifndef AXON_CPU_COMPILE_PROCESS_H
#define AXON_CPU_COMPILE_PROCESS_H

#include "backend/cpu/toolchain.h"

typedef struct CompileProcess CompileProcess;

/* Length of the first line of a source if it is `#define W`, the number of
 * lanes: the prelude follows it.  Otherwise 0. */
size_t compile_process_head_len(const char *source, size_t len);

/* The search for libraries takes 10% of a small kernel's compilation. */
typedef enum CompileLibraries {
  WITHOUT_LIBRARIES, /* it can be loaded if this process has all functions */
  WITH_LIBRARIES,    /* toolchain_libraries */
} CompileLibraries;

/* Starts the compiler.  Returns NULL and a reason if there is no writable
 * folder, no memory or no process. */
CompileProcess *compile_process_start(const Toolchain *tools,
                                      CompileLevel level,
                                      CompileLibraries libraries,
                                      const char *source, size_t len,
                                      const char **reason);
/* Returns true if the process has ended. exit_fd: a descriptor to poll for
 * that. */
bool compile_process_has_exited(const CompileProcess *process);
int compile_process_exit_fd(const CompileProcess *process);
bool compile_process_owns_fd(
    const CompileProcess *process,
    int file); /* whether the descriptor belongs to this object */
/* Waits for the process.  Returns false and a one-line reason if there is no
 * object. */
bool compile_process_wait(CompileProcess *process, char *reason, size_t size);
/* The path of the object file, and its bytes, to be freed with mem_free; NULL:
 * they cannot be read. */
const char *compile_process_object_path(const CompileProcess *process);
void *compile_process_read_object(const CompileProcess *process, size_t *len);
const char *compile_process_folder(const CompileProcess *process);
/* AXON_CC_DEBUG keeps the folders; if it is a folder, they are created
 * there. */
bool compile_process_keeps_files(void);
void compile_process_kill(CompileProcess *process);
void compile_process_free(
    CompileProcess *process); /* also removes its folder */
void compile_process_forget(
    CompileProcess *process); /* keeps the folder; for the child of a fork */

#endif
