// backend/cuda/sim: the functions that instrumented code of a kernel calls
// (-fsanitize).  They are linked into each kernel.
#include "backend/cuda/sim/abi.h"

extern "C" {
__attribute__((visibility("default"))) const AxTable *ax_sim_table;
}

#define AX_HOOK extern "C" __attribute__((visibility("hidden")))
#define AX_HOOKS(bytes)                                                \
  AX_HOOK void __tsan_read##bytes(void *p) {                           \
    ax_sim_table->access(p, bytes, 0, 1, __builtin_return_address(0)); \
  }                                                                    \
  AX_HOOK void __tsan_write##bytes(void *p) {                          \
    ax_sim_table->access(p, bytes, 1, 1, __builtin_return_address(0)); \
  }                                                                    \
  AX_HOOK void __tsan_unaligned_read##bytes(void *p) {                 \
    ax_sim_table->access(p, bytes, 0, 0, __builtin_return_address(0)); \
  }                                                                    \
  AX_HOOK void __tsan_unaligned_write##bytes(void *p) {                \
    ax_sim_table->access(p, bytes, 1, 0, __builtin_return_address(0)); \
  }
AX_HOOKS(1)
AX_HOOKS(2)
AX_HOOKS(4)
AX_HOOKS(8)
AX_HOOKS(16)
#undef AX_HOOKS
AX_HOOK void __tsan_read_range(void *p, unsigned long bytes) {
  ax_sim_table->access(p, bytes, 0, 0, __builtin_return_address(0));
}
AX_HOOK void __tsan_write_range(void *p, unsigned long bytes) {
  ax_sim_table->access(p, bytes, 1, 0, __builtin_return_address(0));
}
// Newer compilers call it for structs.
AX_HOOK void *__tsan_memcpy(void *to, const void *from, unsigned long bytes) {
  ax_sim_table->access(from, bytes, 0, 0, __builtin_return_address(0));
  ax_sim_table->access(to, bytes, 1, 0, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
AX_HOOK void *__tsan_memmove(void *to, const void *from, unsigned long bytes) {
  ax_sim_table->access(from, bytes, 0, 0, __builtin_return_address(0));
  ax_sim_table->access(to, bytes, 1, 0, __builtin_return_address(0));
  return __builtin_memmove(to, from, bytes);
}
AX_HOOK void *__tsan_memset(void *to, int value, unsigned long bytes) {
  ax_sim_table->access(to, bytes, 1, 0, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
AX_HOOK void __ubsan_handle_out_of_bounds(void *, void *) {
  ax_sim_table->wrong("an index that is not within its array",
                      __builtin_return_address(0));
}
AX_HOOK void __ubsan_handle_type_mismatch_v1(void *, void *) {
  ax_sim_table->wrong("an access that is not aligned as its type must be",
                      __builtin_return_address(0));
}
AX_HOOK void __ubsan_handle_shift_out_of_bounds(void *, void *, void *) {
  ax_sim_table->wrong("a shift by more than the bits that there are",
                      __builtin_return_address(0));
}
AX_HOOK void __ubsan_handle_divrem_overflow(void *, void *, void *) {
  ax_sim_table->wrong("a quotient by 0", __builtin_return_address(0));
}
AX_HOOK void __tsan_func_entry(void *) {}
AX_HOOK void __tsan_func_exit(void) {}
AX_HOOK void __tsan_init(void) {}
