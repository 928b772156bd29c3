/* backend/cuda: which text a micro-kernel in CUDA C++ may have
 * (plan/schedule_file.h). */
#ifndef AXON_CUDA_MICRO_TEXT_H
#define AXON_CUDA_MICRO_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Arena Arena;

typedef struct CudaMicroFault {
  uint32_t at, len; /* the wrong part of the text */
  const char *message, *help;
} CudaMicroFault;

/* A micro-kernel has plain CUDA C++ and wrappers that work on its operands
 * (backend/cuda/intrinsics.h).  It has neither assembler, includes, macros,
 * strings nor variables outside of functions.  Returns false, with a fault, if
 * the text has something else. */
bool cuda_micro_text_check(Arena *arena, const char *text,
                           CudaMicroFault *fault);

#endif
