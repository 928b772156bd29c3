/* backend/cpu: the fields of matmuls in schedules, which a user may set:
 *
 *     1: by gemm {mr=6 nr=16 kc=512 rows=96 columns=256}
 *     2: by gemm {micro=NAME}
 *
 * A micro-kernel of the program (plan/schedule_file.h) sets mr and nr.  The
 * chooser takes the fields that are set, and chooses the others. */
#ifndef AXON_CPU_GEMM_FIELDS_H
#define AXON_CPU_GEMM_FIELDS_H

#include "backend/cpu/cpu.h"

typedef struct Buffer Buffer;

typedef enum GemmField {
#define GEMM_FIELD(name, key, meaning) GEMM_##name,
#include "backend/cpu/gemm_fields.def"
  GEMM_FIELD_COUNT
} GemmField;

enum { GEMM_ALONG_POSITIONS = 1, GEMM_ALONG_CHANNELS };

typedef struct GemmFields {
  int64_t of[GEMM_FIELD_COUNT];    /* 0: not set */
  const struct MicroKernel *micro; /* computes register tiles; NULL: not set */
} GemmFields;

/* The fields that the user set for a loop of the kernel. */
const GemmFields *gemm_fields_set(const Schedule *s, uint32_t loop);
/* Prints the fields of a schedule, separated by blanks. */
void gemm_fields_print(Buffer *out, const Kernel *k, const Schedule *s,
                       uint32_t loop);
/* Reads fields up to the end of the text.  Returns NULL, or an error in the
 * arena of the kernel; *at is then its position. */
const char *gemm_fields_read(const Kernel *k, const char *text, GemmFields *to,
                             uint32_t *at);
/* Returns NULL if the schedule has the fields that the user set; otherwise the
 * reason for which it does not, in the arena of the kernel. */
const char *gemm_fields_refusal(const Kernel *k, const Schedule *s,
                                uint32_t loop);

#endif
