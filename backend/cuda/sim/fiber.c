/* Stack switching: pushes the callee-saved registers and pops those of the
 * other fiber.  Machines other than x86-64 and arm64 use ucontext, which is
 * slower.  AddressSanitizer is notified of each switch, and that the stack of a
 * new fiber is empty. */
#include "backend/cuda/sim/fiber.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

void __sanitizer_start_switch_fiber(void **, const void *, size_t)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
    __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *, size_t)
    __attribute__((weak));

static struct {
  void *at, *sanitizer;
  const void *stack;
  size_t size;
} host;

static void asan_before_switch(void **keep, const void *stack, size_t size) {
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(keep, stack, size);
}

static void asan_after_switch(void *kept, const void **stack, size_t *size) {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(kept, stack, size);
}

static void (*entry_function)(void);

static void entry(void) {
  void (*start)(void) = entry_function;
  asan_after_switch(NULL, &host.stack, &host.size);
  start();
}

#if defined __x86_64__ || defined __aarch64__

/* Pushes the registers, stores the stack pointer to *from, loads it from `to`,
 * and pops the registers. */
void sim_fiber_switch(void **from, void *to)
    __attribute__((visibility("hidden")));
#ifdef __x86_64__
enum { SAVED_REGISTERS = 6 };
__asm__(".text\n"
        ".globl sim_fiber_switch\n"
        ".hidden sim_fiber_switch\n"
        "sim_fiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n"
        "  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n"
        "  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n");
#else
enum { SAVED_REGISTERS = 20 };
__asm__(".text\n"
        ".globl sim_fiber_switch\n"
        ".hidden sim_fiber_switch\n"
        "sim_fiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp d8, d9, [sp]\n  stp d10, d11, [sp, #16]\n"
        "  stp d12, d13, [sp, #32]\n  stp d14, d15, [sp, #48]\n"
        "  stp x19, x20, [sp, #64]\n  stp x21, x22, [sp, #80]\n"
        "  stp x23, x24, [sp, #96]\n  stp x25, x26, [sp, #112]\n"
        "  stp x27, x28, [sp, #128]\n  stp x29, x30, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp d8, d9, [sp]\n  ldp d10, d11, [sp, #16]\n"
        "  ldp d12, d13, [sp, #32]\n  ldp d14, d15, [sp, #48]\n"
        "  ldp x19, x20, [sp, #64]\n  ldp x21, x22, [sp, #80]\n"
        "  ldp x23, x24, [sp, #96]\n  ldp x25, x26, [sp, #112]\n"
        "  ldp x27, x28, [sp, #128]\n  ldp x29, x30, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n");
#endif

static void prepare(Fiber *f) {
  void **top = (void **)(f->stack + FIBER_STACK_BYTES) - 2;
  memset(top - SAVED_REGISTERS, 0, (SAVED_REGISTERS + 2) * sizeof *top);
#ifdef __x86_64__
  top[0] = (void *)entry; /* aligned as after a call */
  f->saved_stack = top - SAVED_REGISTERS;
#else
  top[-1] = (void *)entry;
  f->saved_stack = top - SAVED_REGISTERS;
#endif
}

static void switch_stack(void **from, void *to) {
  sim_fiber_switch(from, to);
}

#else

static ucontext_t contexts[2048 * 4 + 1]; /* the last one is the host's */
static size_t context_count;

static void prepare(Fiber *f) {
  ucontext_t *c = &contexts[context_count++ % 8192];
  getcontext(c);
  c->uc_stack.ss_sp = f->stack;
  c->uc_stack.ss_size = FIBER_STACK_BYTES;
  c->uc_link = NULL;
  makecontext(c, entry, 0);
  f->saved_stack = c;
}

static void switch_stack(void **from, void *to) {
  if (!*from)
    *from = &contexts[8192];
  swapcontext(*from, to);
}

#endif

bool fiber_stacks(char ***stacks, size_t count) {
  static char **all;
  static size_t have, stack_bytes;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (count > stack_bytes) {
    char **more = realloc(all, count * sizeof *all);
    if (!more)
      return false;
    all = more;
    stack_bytes = count;
  }
  for (; have < count; have++) {
    char *at = mmap(NULL, FIBER_STACK_BYTES + page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0)
      return false;
    all[have] = at + page;
  }
  *stacks = all;
  return true;
}

void fiber_begin(Fiber *f, char *stack, void (*start)(void)) {
  f->stack = stack;
  f->sanitizer = NULL;
  entry_function = start;
  if (__asan_unpoison_memory_region)
    __asan_unpoison_memory_region(stack, FIBER_STACK_BYTES);
  prepare(f);
}

void fiber_resume(Fiber *f) {
  asan_before_switch(&host.sanitizer, f->stack, FIBER_STACK_BYTES);
  switch_stack(&host.at, f->saved_stack);
  asan_after_switch(host.sanitizer, NULL, NULL);
}

void fiber_pause(Fiber *f, bool last) {
  asan_before_switch(last ? NULL : &f->sanitizer, host.stack, host.size);
  switch_stack(&f->saved_stack, host.at);
  asan_after_switch(f->sanitizer, &host.stack, &host.size);
}
