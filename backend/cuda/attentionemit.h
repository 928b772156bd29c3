/* backend/cuda, for the files that write attention.  Names in the text, beside
 * those of contractions: rows and terms, how many there are; row0, the block's
 * first; s, scores, and then weights, as mma's result; c, the sums; most and
 * total, of a thread's two rows. */
#ifndef AXON_CUDA_ATTENTIONEMIT_H
#define AXON_CUDA_ATTENTIONEMIT_H

#include "backend/cuda/attention.h"
#include "backend/cuda/gemmemit.h"

enum { ATTENTION_PRODUCER = 32 /* registers of who fetches */ };
enum { ATTENTION_HELD = 128 /* terms of a that stay in registers */ };

typedef struct AttentionParts {
  char name_q[48];
  GemmSchedule first, second;
  GemmShape first_shape, second_shape;
  GemmText q, kv, store;
  GemmSource a, b, v;
} AttentionParts;

/* The schedules of a's part, and of b's and v's. */
void attention_schedules(const AttentionShape *shape, const GemmSchedule *s,
                         AttentionParts *p);
void attention_parts(const AttentionText *t, AttentionParts *p);
void attention_put_rows(Buffer *out, const AttentionText *t);
/* With words of their own for tiles that are inside. */
void attention_put_scores(Buffer *out, const AttentionText *t, const char *row,
                          const char *term);
void attention_put_weights(Buffer *out, const AttentionText *t);
void attention_put_pack(Buffer *out, const AttentionText *t, const char *at);
void attention_put_sums(Buffer *out, const AttentionText *t,
                        const AttentionParts *p);
void attention_put_zero(Buffer *out, const AttentionText *t,
                        const AttentionParts *p);
void attention_put_totals(Buffer *out, const AttentionText *t,
                          const AttentionParts *p);
void attention_put_carried(Buffer *out, const AttentionText *t, uint32_t floats,
                           const char *warp);
/* ---- attentiongroup.c ---- */
void attention_group_put(Buffer *out, const AttentionText *t,
                         AttentionParts *p);
/* Where things begin in shared memory, behind what TMA fills. */
typedef struct AttentionRoom {
  uint32_t query, stage, v, slabs, carried, barriers, all;
} AttentionRoom;
AttentionRoom attention_room(const AttentionParts *p, const GemmSchedule *s);
const char *attention_of_row(const AttentionText *t);

#endif
