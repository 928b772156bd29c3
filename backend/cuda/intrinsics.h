/* backend/cuda: the functions that generated kernels may use.
 *
 * Each instruction that plain CUDA C++ lacks is a function `ax_...`.  It has
 * two implementations.  device/ has inline PTX, in sections as in
 * backend/cpu/prelude: a kernel contains the sections that it names.  sim/ is
 * the simulator, for a C++ compiler of the host.  Both accept the same source.
 *
 * A kernel may contain:
 * - `extern "C" __global__ void __launch_bounds__(T) NAME(
 *   const __grid_constant__ NAME_args a)` after the struct NAME_args; other
 *   functions with `AX_DEVICE`; templates, plain structs and references; tables
 *   as `static __device__ const`; #pragma unroll before a loop.  It must not
 *   contain #include, asm, static or __shared__ variables, recursion, memcpy or
 *   memset, and lambdas with default capture.
 * - threadIdx, blockIdx, blockDim, gridDim; uint2, uint4, float2, float4, int2,
 *   int4 and make_...; int8_t ... uint64_t; 16-bit floats as their bits
 *   (uint16_t), with the conversions below.
 * - CUDA functions: math.h for float and double; rsqrtf, fmaf, fma, __fmaf_rn,
 *   __fmul_rn, __fadd_rn, __fdividef, __expf, __logf, min, max;
 *   __float_as_int, __float_as_uint, __int_as_float, __uint_as_float,
 *   __double_as_longlong, __longlong_as_double, __popc, __ffs, __clz, __brev,
 *   __umulhi, __mulhi, __umul64hi, __ldg, __nanosleep, __threadfence,
 *   __threadfence_block, __trap; atomicAdd, atomicMin, atomicMax, atomicAnd,
 *   atomicOr, atomicExch, atomicCAS of int, unsigned, unsigned long long, float
 *   and double as in CUDA.  Barriers, shuffles and votes are ax_ functions.
 * - Shared memory: `ax_shared()` is dynamic and 1024-byte aligned.  Pointers
 *   into it are plain pointers.  The simulator instruments each access
 *   (-fsanitize=thread), to shared and to global memory.  An access must be
 *   aligned to its size, and must not read uninitialized memory.  Instructions
 *   need shared addresses as `unsigned`: call ax_shared_address(pointer) once,
 *   then add offsets.
 * - Register arrays of matrices: all indices must be constant after unrolling.
 *   `float d[64]` of a wgmma is a separate array.
 * - Warp functions (shuffles, votes, ldmatrix, mma, ax_elect, ax_sync_warp):
 *   all 32 lanes must call them.  Warpgroup functions (wgmma, ax_registers_):
 *   4 warps must call them, the first of which has a multiple of 4 as its
 *   index.  Conditions around them must be uniform.  ax_warp() returns a warp
 *   index that the compiler knows to be uniform.
 *
 * The simulator checks accesses by happens-before.  These functions order
 * memory: ax_sync, ax_barrier_..., ax_sync_warp, mbarriers (arrive, then wait),
 * ax_cluster_... except ax_cluster_begin.  Shuffles and votes order nothing.
 * ax_mbarrier_arrive_at in another block orders TMA and wgmma, but no plain
 * accesses.
 *
 * If TMA or wgmma read a plain write, or TMA overwrites it, the writer must
 * call ax_fence_async before the barrier.  If other threads read memory that
 * ax_copy_ wrote, the copying thread must call ax_copy_wait before the barrier.
 * If another block reads or overwrites global memory, the writer must call
 * __threadfence, and the reader an atomic function, such as a counter of
 * finished blocks.  Within a block, a barrier suffices.
 *
 * If threads use tensor memory one after the other, the first one must call
 * ax_tcgen05_fence_before before the barrier (a commit includes it), and the
 * other ax_tcgen05_fence_after after it. */
#ifndef AXON_CUDA_INTRINSICS_H
#define AXON_CUDA_INTRINSICS_H

#include <stdbool.h>

typedef struct Buffer Buffer;

/* Writes the intrinsics that a kernel uses, followed by its source.  False if
 * memory is exhausted. */
bool intrinsics_write(Buffer *out, const char *source);

/* ---- list of intrinsics ----
 *
 * Addresses (any architecture)
 *   unsigned ax_shared_address(const void *p)
 *   unsigned char *ax_shared()
 * Threads (any; sm_90 on: ax_elect, ax_grid_; sm_90a, sm_100a: ax_registers_)
 *   void ax_sync()                        all threads of the block
 *   bool ax_sync_or(bool), ax_sync_and(bool); int ax_sync_count(bool)
 *   void ax_barrier_sync(unsigned id, unsigned count)     id: 1 to 15; count:
 *   void ax_barrier_arrive(unsigned id, unsigned count)   a multiple of 32
 *   void ax_sync_warp()
 *   unsigned ax_lane(), ax_warp()         blocks have one dimension
 *   T ax_shuffle(T, int lane), ax_shuffle_xor(T, int mask)
 *   T ax_shuffle_up(T, unsigned by), ax_shuffle_down(T, unsigned by)
 *   unsigned ax_ballot(bool); bool ax_any(bool), ax_all(bool)
 *   bool ax_elect()
 *   void ax_registers_more<N>(), ax_registers_less<N>()
 *   void ax_grid_wait(), ax_grid_launch()
 * Global memory (any)
 *   uint4 ax_load_16(const void *), uint2 ax_load_8, unsigned ax_load_4
 *   ax_load_16_once ...                   read-only for the whole kernel
 *   void ax_store_16(void *, uint4), ax_store_8, ax_store_4; ..._once
 * cp.async (sm_80 on)
 *   void ax_copy_16(unsigned to, const void *from, unsigned bytes), _8, _4
 *   void ax_copy_commit(), ax_copy_wait<N>()
 * Matrices (any; stmatrix sm_90 on; mma sm_80 on, except m16n8k8_f16)
 *   void ax_ldmatrix_4(unsigned *r, unsigned row), _2, _1; ..._trans
 *   void ax_stmatrix_4(unsigned row, const unsigned *r), _2, _1; ..._trans
 *   void ax_mma_m16n8k16_f16(float *d, const unsigned *a, const unsigned *b)
 *   void ax_mma_m16n8k16_bf16, ax_mma_m16n8k8_tf32, ax_mma_m16n8k8_f16
 *   void ax_mma_m16n8k32_e4m3, ax_mma_m16n8k32_e5m2     sm_89 on
 * Conversions (any; ax_tf32 sm_80 on)
 *   unsigned ax_pack_f16(float low, float high), ax_pack_bf16
 *   float ax_f16_to_f32(uint16_t), ax_bf16_to_f32
 *   uint16_t ax_f32_to_f16(float), ax_f32_to_bf16
 *   float ax_f8_e4m3_to_f32(uint8_t), ax_f8_e5m2_to_f32
 *   uint8_t ax_f32_to_f8_e4m3(float), ax_f32_to_f8_e5m2
 *   float ax_f4_e2m1_to_f32(uint8_t), ax_f8_e8m0_to_f32
 *   uint8_t ax_f32_to_f4_e2m1(float), ax_f32_to_f8_e8m0
 *   unsigned ax_pack_f4_e2m1(uint2)       8 numbers, one in each byte
 *   uint16_t ax_low(unsigned), ax_high(unsigned)
 *   unsigned ax_tf32(float)
 *   float ax_exp2(float), ax_log2, ax_reciprocal, ax_rsqrt      approximate
 *   float ax_tanh(float)                  less exact (sm_75 on)
 * mbarriers, clusters (sm_90 on)
 *   void ax_mbarrier_init(unsigned bar, unsigned count)   by one thread, then
 *   void ax_fence_mbarrier_init()         this, and a barrier
 *   void ax_mbarrier_arrive(unsigned bar)
 *   void ax_mbarrier_expect(unsigned bar, unsigned bytes)  also arrives
 *   void ax_mbarrier_arrive_at(unsigned bar, unsigned rank)  after wgmma
 *   bool ax_mbarrier_try(unsigned bar, unsigned parity)
 *   void ax_mbarrier_wait(unsigned bar, unsigned parity)
 *   void ax_fence_async()
 *   unsigned ax_cluster_rank(), ax_cluster_blocks()
 *   void ax_cluster_sync(), ax_cluster_arrive(), ax_cluster_wait()
 *   void ax_cluster_begin()               orders only fenced mbarriers
 *   unsigned ax_cluster_load_4(unsigned address, unsigned rank)
 * TMA (sm_90 on; cast: sm_90a, sm_100a), 1d to 5d; c0: the contiguous axis
 *   struct ax_tensor_map                  128 bytes; cuTensorMapEncodeTiled
 *   void ax_tma_prefetch(const ax_tensor_map *)
 *   void ax_tma_load_2d(unsigned to, const ax_tensor_map *, unsigned bar,
 *                       int c0, int c1)
 *   void ax_tma_pixels_4d(unsigned to, const ax_tensor_map *, unsigned bar,
 *                       int c, int w, int h, int n, int move_w, int move_h)
 *                       im2col, 3d to 5d: cuTensorMapEncodeIm2col
 *   void ax_tma_cast_2d(unsigned to, const ax_tensor_map *, unsigned bar,
 *                       unsigned blocks, int c0, int c1)  multicast
 *   void ax_tma_pair_2d(unsigned to, const ax_tensor_map *, unsigned bar,
 *                       int c0, int c1)   sm_100a: the mbarrier is in the first
 *                       block of the pair
 *   void ax_tma_store_2d(const ax_tensor_map *, unsigned from, int c0, int c1)
 *   void ax_bulk_load(unsigned to, const void *from, unsigned bytes,
 *                     unsigned bar), ax_bulk_store(void *to, unsigned from,
 *                     unsigned bytes)
 *   void ax_tma_commit(), ax_tma_wait_read<N>(), ax_tma_wait<N>()
 * wgmma (sm_90a), N: 8 to 256, a multiple of 8
 *   uint64_t ax_wgmma_descriptor(unsigned address, unsigned leading,
 *                                unsigned stride, unsigned swizzle)
 *   void ax_wgmma_fence(), ax_wgmma_commit(), ax_wgmma_wait<PENDING>()
 *   void ax_hold(float (&d)[N / 2])       after the wait, before a read of d
 *   void ax_wgmma_m64n128k16_bf16<TRANS_A, TRANS_B>(float (&d)[64], uint64_t a,
 *                                uint64_t b, bool add)   TRANS 1: MN-major;
 *                                add false: d = a * b
 *   void ax_wgmma_m64n128k16_bf16_ra<TRANS_B>(float (&d)[64],
 *                                const unsigned *a, uint64_t b, bool add)
 *   ..._f16, ..._f16_ra; ax_wgmma_m64n128k8_tf32(d, a, b, add), ..._tf32_ra
 *   ax_wgmma_m64n128k32_e4m3(d, a, b, add), ..._e5m2
 * Tensor memory and tcgen05 (sm_100a)
 *   void ax_tmem_alloc(unsigned to, unsigned columns)  by a warp; `to`: shared
 *                                memory, where the address is written
 *   void ax_tmem_permit()                 the block allocates no more
 *   void ax_tmem_free(unsigned address, unsigned columns)
 *   void ax_tmem_load_x1(float *d, unsigned address), _x2, ... _x16   16 lanes,
 *                                8 columns for each 4 registers
 *   void ax_tmem_wait_load()              by the warp; then ax_hold (wgmma)
 *   void ax_tmem_store_x1(const float *d, unsigned address), _x2, ... _x16
 *                                what ax_tmem_load_x1 loads
 *   void ax_tmem_store_pairs_x1(const unsigned *d, unsigned address), ... _x16
 *                                16 lanes, 4 columns for each 2 registers, of
 *                                two 16-bit values: operand A of mma
 *   void ax_tmem_wait_store()             by the warp
 *   uint64_t ax_tcgen05_descriptor(unsigned address, unsigned leading,
 *                                unsigned stride, unsigned swizzle)
 *   void ax_tcgen05_mma_f16(unsigned d, uint64_t a, uint64_t b,
 *                                unsigned instruction, bool add)   by a thread
 *   ax_tcgen05_mma_tf32, ax_tcgen05_mma_f8
 *   void ax_tcgen05_mma_mxf4(unsigned d, uint64_t a, uint64_t b,
 *                                unsigned instruction, unsigned scales_a,
 *                                unsigned scales_b, bool add), ..._nvf4
 *   void ax_tcgen05_copy_scales(unsigned to, uint64_t from)   32 rows of 16
 *                                bytes; by the thread that issues the products
 *   void ax_tcgen05_mma_f16_ta(unsigned d, unsigned a, uint64_t b,
 *                                unsigned instruction, bool add)   A in tensor
 *                                memory
 *   void ax_tcgen05_commit(unsigned bar)  arrives after the thread's products
 *   void ax_tcgen05_commit_cast(unsigned bar, unsigned blocks)
 *   void ax_tcgen05_fence_before(), ax_tcgen05_fence_after()
 * Pairs of blocks, which differ in the last bit of their ranks (sm_100a).  A
 * kernel that has one of these has none of the above but loads and fences.
 *   ax_tmem_pair_alloc, ax_tmem_pair_permit, ax_tmem_pair_free   by both
 *   ax_tcgen05_pair_mma_f16, ..._tf32, ..._f8   by the first block; each has
 *                                half of the rows and of the columns of b
 *   void ax_tcgen05_pair_commit(unsigned bar, unsigned blocks)
 */

#endif
