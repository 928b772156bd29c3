//@
/* Intrinsics that CUDA C++ lacks: each ax_ function is one instruction, or a
 * short sequence.  intrinsics.h describes what a kernel may use.  Section
 * numbers refer to the manual "PTX ISA", version 9.0. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define AX_DEVICE __device__ __forceinline__

//@ ax_hold
/* Keeps the compiler from reading `d` before the preceding wait. */
template <int R> AX_DEVICE void ax_hold(float (&d)[R]) {
#pragma unroll
  for (int i = 0; i < R; i++)
    asm volatile("" : "+f"(d[i])::"memory");
}

//@ ax_shared_address
/* 9.7.9.20, cvta: a 32-bit address in shared memory. */
AX_DEVICE unsigned ax_shared_address(const void *p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

//@ ax_shared
/* Dynamic shared memory of the block. */
extern __shared__ __align__(1024) unsigned char ax_shared_memory[];
AX_DEVICE unsigned char *ax_shared() {
  return ax_shared_memory;
}
