/* backend/cpu: one run of the C compiler; for jit.c. */
#ifndef AXON_CPU_COMPILE_PROCESS_H
#define AXON_CPU_COMPILE_PROCESS_H

#include "backend/cpu/toolchain.h"

typedef struct CompileProcess CompileProcess;

/* Starts a compiler on a text.  NULL, and why: there is nowhere to write, no
 * memory, no process. */
CompileProcess *compile_process_start(const Toolchain *tools,
                                      const char *source, size_t len,
                                      const char **why);
/* Has it ended?  And what can be polled for that. */
bool compile_process_has_exited(const CompileProcess *process);
int compile_process_exit_fd(const CompileProcess *process);
bool job_has(const CompileProcess *process,
             int file); /* a descriptor of its own */
/* Waits for its end.  False: it made no object; `why` says so in a line. */
bool compile_process_wait(CompileProcess *process, char *why, size_t size);
/* The path of the object; its bytes, for mem_free, NULL when they cannot be
 * read. */
const char *compile_process_object_path(const CompileProcess *process);
void *compile_process_read_object(const CompileProcess *process, size_t *len);
const char *compile_process_folder(const CompileProcess *process);
/* AXON_CC_DEBUG: folders stay, in that folder if it is one. */
bool compile_process_keeps_files(void);
void compile_process_kill(CompileProcess *process); /* ends the compiler */
void compile_process_free(CompileProcess *process); /* with its folder */
void compile_process_forget(
    CompileProcess *process); /* without: after a fork, in the child */

#endif
