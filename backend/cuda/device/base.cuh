//@
/* What is not plain CUDA C++: each ax_ function is one instruction, or the few
 * that make one step.  intrinsics.h says what a kernel may write.  Numbers are of
 * sections of the manual "PTX ISA", version 9.0. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define AX_DEVICE __device__ __forceinline__

//@ ax_shared_address
/* 9.7.9.20, cvta: an address in shared memory as a number. */
AX_DEVICE unsigned ax_shared_address(const void *p) {
  return (unsigned)__cvta_generic_to_shared(p);
}

//@ ax_shared
/* The dynamic shared memory of the block. */
extern __shared__ __align__(1024) unsigned char ax_shared_memory[];
AX_DEVICE unsigned char *ax_shared() {
  return ax_shared_memory;
}
