/* backend/cpu: one run of the C compiler; for compiler.c. */
#ifndef AXON_CPU_JOB_H
#define AXON_CPU_JOB_H

#include "backend/cpu/toolchain.h"

typedef struct Job Job;

/* Starts a compiler on a text.  NULL, and why: there is nowhere to write, no
 * memory, no process. */
Job *job_start(const Toolchain *tools, const char *text, size_t len,
               const char **why);
/* Has it ended?  And what can be polled for that. */
bool job_is_done(const Job *job);
int job_end(const Job *job);
bool job_has(const Job *job, int file); /* a descriptor of its own */
/* Waits for its end.  False: it made no object; `why` says so in a line. */
bool job_wait(Job *job, char *why, size_t size);
/* The path of the object; its bytes, for mem_free, NULL when they cannot be
 * read. */
const char *job_object(const Job *job);
void *job_read_object(const Job *job, size_t *len);
const char *job_folder(const Job *job);
/* AXON_CC_DEBUG: folders stay, in that folder if it is one. */
bool job_is_kept(void);
void job_stop(Job *job);   /* ends the compiler */
void job_free(Job *job);   /* with its folder */
void job_disown(Job *job); /* without: after a fork, in the child */

#endif
