/* backend/cpu: the fields of matmuls in schedules, which a user may set:
 *
 *     1: by gemm {mr=6 nr=16 kc=512 rows=96 columns=256}
 *     2: by gemm {micro=NAME}
 *
 * Lines after it have the steps that pack operands:
 *
 *     1: by gemm {mr=6 nr=16 kc=512 rows=96 columns=256}
 *        pack right {tile i1 8 peel; …; lanes i1}
 *
 * A micro-kernel of the program (plan/schedule_file.h) sets mr and nr.  The
 * chooser takes the fields that are set, and chooses the others. */
#ifndef AXON_CPU_GEMM_FIELDS_H
#define AXON_CPU_GEMM_FIELDS_H

#include "backend/cpu/cpu.h"
#include "kernel/nest.h"

typedef struct Buffer Buffer;

typedef enum GemmField {
#define GEMM_FIELD(name, key, meaning) GEMM_##name,
#include "backend/cpu/gemm_fields.def"
  GEMM_FIELD_COUNT
} GemmField;

enum { GEMM_ALONG_POSITIONS = 1, GEMM_ALONG_CHANNELS };

typedef struct GemmPackText {
  const char *steps; /* NULL: not set */
  uint32_t at;       /* where it begins in the steps of its loop nest */
} GemmPackText;

typedef struct GemmFields {
  int64_t of[GEMM_FIELD_COUNT];    /* 0: not set */
  const struct MicroKernel *micro; /* computes register tiles; NULL: not set */
  GemmPackText packs[NEST_OPERAND_COUNT];
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

/* ---- gemm_pack_text.c ---- */

/* Prints the steps of the nests that pack operands, a line for each. */
void gemm_packs_print(Buffer *out, const Schedule *s, uint32_t loop);
/* Reads them, up to the end of the text.  Returns NULL, or the error; *at is
 * then its position. */
const char *gemm_packs_read(const Kernel *k, const char *text, GemmFields *to,
                            uint32_t *at);
/* Replaces the chosen nests by those that the user set.  Returns NULL, or the
 * reason for which one cannot pack its operand; *at is then the position of
 * the error in the steps of the loop nest. */
const char *gemm_packs_apply(const Kernel *k, const Schedule *s, uint32_t loop,
                             uint32_t *at);

#endif
