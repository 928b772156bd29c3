/* Allocation that unwinds instead of returning NULL, and the unwinding. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local Trap *innermost;
/* Set by tests before any thread starts. */
static uint64_t fail_after;
static bool fail_on, has_failed;

void trap_begin(Trap *trap) {
  trap->kind = FAIL_NONE;
  trap->outer = innermost;
  innermost = trap;
}

void trap_end(Trap *trap) { innermost = trap->outer; }

void trap_raise(FailKind kind) {
  Trap *trap = innermost;
  if (!trap) /* a bug: every entry point of the library sets one */
    __builtin_trap();
  innermost = trap->outer;
  trap->kind = kind;
  longjmp(trap->at, (int)kind);
}

void mem_fail_after(uint64_t n) {
  fail_after = n;
  fail_on = false;
  has_failed = has_failed && !n;
}

void mem_fail_from(uint64_t n) {
  mem_fail_after(n);
  fail_on = true;
}

bool mem_has_failed(void) { return has_failed; }

static _Thread_local Flag *watched;

void interrupt_watch(Flag *flag) {
  watched = flag;
}

bool interrupt_seen(void) {
  return watched && flag_is_set(watched);
}

void interrupt_poll(void) {
  if (interrupt_seen())
    trap_raise(FAIL_INTERRUPT);
}

bool mem_denied(void) {
  if (!fail_after || __atomic_sub_fetch(&fail_after, 1, __ATOMIC_RELAXED) > 0)
    return false;
  fail_after = fail_on;
  has_failed = true;
  return true;
}

/* What is small comes from a list of its thread by malloc, which calloc does
 * not look at. */
enum { SMALL = 1024 };

void *mem_try_alloc(size_t size) {
  if (mem_denied() || size > PTRDIFF_MAX)
    return NULL;
  if (size > SMALL)
    return calloc(1, size);
  size += !size;
  void *p = malloc(size);
  /* else compilers make a calloc of both; or, since they know that it is
   * little, a string instruction, which takes as long to begin as the rest */
  __asm__("" : "+r"(p), "+r"(size));
  return p ? memset(p, 0, size) : NULL;
}

void *mem_try_aligned(size_t align, size_t size) {
  if (mem_denied() || size > PTRDIFF_MAX - align)
    return NULL;
  size_t rounded = (size + align - 1) / align * align;
  return aligned_alloc(align, rounded ? rounded : align);
}

void *mem_alloc(size_t size) {
  void *p = mem_try_alloc(size);
  if (!p)
    trap_raise(FAIL_MEMORY);
  return p;
}

void *mem_realloc(void *old, size_t old_size, size_t size) {
  if (mem_denied() || size > PTRDIFF_MAX)
    trap_raise(FAIL_MEMORY);
  char *p = realloc(old, size ? size : 1);
  if (!p)
    trap_raise(FAIL_MEMORY);
  if (size > old_size)
    memset(p + old_size, 0, size - old_size);
  return p;
}

void mem_free(void *p) { free(p); }
