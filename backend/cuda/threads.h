/* backend/cuda: the threads of a block, on all architectures. */
#ifndef AXON_CUDA_THREADS_H
#define AXON_CUDA_THREADS_H

enum { WARP = 32, MAX_BLOCK_THREADS = 1024 };

#endif
