/* Contractions by warpgroups (sm_90a): one of them has TMA fill a ring of
 * stages, and computes what is not copied; the others take products straight
 * from it.
 *
 * A stage is full when its bytes have come, or were computed, and empty when
 * all that read it are done; both are barriers whose phases count the rounds.
 * A block stays, and goes through *segments*: tiles, and where tiles are left
 * that are too few for all blocks, equal parts of their sums (stream-K,
 * arXiv:2301.03598), which the last block of a tile to come adds up.  Groups
 * share a tile, or have one each in turn, so that one multiplies while the
 * other stores.
 *
 * Blocks of a cluster have tiles beside each other, in step: of what they share
 * of the operands each has a part copied to all.  So a stage is empty when it
 * is in all of them. */
#include "backend/cuda/gemmemit.h"

#include <string.h>

enum {
  GROUP_ROWS = 64, /* of one wgmma */
  PRODUCER_WARPS = 4,
};

/* ---- segments ---- */

uint32_t gemm_cluster(const GemmSchedule *s) {
  return s->cluster_m * s->cluster_n;
}

/* Clusters count as blocks do where there are none: `team` of `teams`. */
static void put_team(Buffer *out, const GemmSchedule *s) {
  uint32_t blocks = gemm_cluster(s);
  if (blocks == 1)
    buffer_puts(out, "const unsigned team = blockIdx.x, teams = gridDim.x;\n");
  else
    buffer_printf(out,
                  "const unsigned rank = ax_cluster_rank();\n"
                  "const unsigned team = blockIdx.x / %uu, "
                  "teams = gridDim.x / %uu;\n",
                  blocks, blocks);
}

/* The block's own number among those of tiles, or parts of sums. */
static const char *own_of(const GemmText *t, const char *number, char to[80]) {
  uint32_t blocks = gemm_cluster(t->schedule);
  if (blocks == 1)
    snprintf(to, 80, "%s", number);
  else
    snprintf(to, 80, "(%s * %uu + rank)", number, blocks);
  return to;
}

static void put_sizes(Buffer *out, const GemmText *t) {
  const GemmSchedule *s = t->schedule;
  put_team(out, s);
  gemm_put_sizes(out, t);
  gemm_put_extent(out, &t->batch, "batches");
  if (t->shape->inner > 0) {
    GemmGroup outer = t->k;
    outer.count--;
    gemm_put_extent(out, &outer, "taps");
    buffer_printf(out,
                  "const unsigned tap_steps = (unsigned)(%s + %u) / %uu;\n"
                  "const unsigned steps = (unsigned)taps * tap_steps;\n",
                  t->k.axes[outer.count].extent, s->k - 1, s->k);
  } else {
    buffer_printf(out, "const unsigned steps = (unsigned)(k_all + %u) / %uu;\n",
                  s->k - 1, s->k);
  }
  buffer_puts(out, "const unsigned tiles = tiles_m * tiles_n * "
                   "(unsigned)batches;\n");
  if (s->stream)
    buffer_puts(out,
                "const unsigned alone =\n"
                "steps ? tiles / teams * teams : tiles;\n"
                "const uint64_t cuts = (uint64_t)(tiles - alone) * steps;\n"
                "const unsigned cut_to = (unsigned)(cuts * (team + 1) "
                "/ teams);\n");
}

static const char *more_of(const GemmText *t) {
  return t->schedule->stream ? "next < alone || cut < cut_to" : "next < tiles";
}

static void put_first(Buffer *out, const GemmText *t) {
  buffer_puts(out, "unsigned next = team;\n");
  if (t->schedule->stream)
    buffer_puts(out, "unsigned cut = (unsigned)(cuts * team / teams);\n");
}

/* The loop over segments, up to its body: from and to are steps of the sum,
 * whole is the tile's number. */
static void put_each(Buffer *out, const GemmText *t) {
  buffer_printf(out,
                "while (%s) {\nunsigned tile = next, from = 0, to = steps;\n",
                more_of(t));
  if (t->schedule->stream)
    buffer_puts(out, "if (next < alone) {\nnext += teams;\n} else {\n"
                     "tile = alone + cut / steps;\nfrom = cut % steps;\n"
                     "to = min(steps, from + (cut_to - cut));\n"
                     "cut += to - from;\n}\nconst unsigned whole = tile;\n"
                     "(void)whole;\n");
  else
    buffer_puts(out, "next += teams;\n");
  gemm_put_tile(out, t);
}

/* ---- the ring ---- */

typedef struct Ring {
  GemmSource a, b;
  uint32_t groups, stages, stage;   /* of shared memory: bytes of one, */
  uint32_t slabs, barriers, counts; /* and where other things begin */
  uint32_t rows;                    /* of a group's tile */
  bool computes; /* an operand, by all of the producer's threads */
} Ring;

static Ring ring_of(const GemmText *t) {
  const GemmSchedule *s = t->schedule;
  Ring r = {.a = gemm_source(t, false), .b = gemm_source(t, true)};
  r.a.end = r.b.end = "end";
  r.computes = !r.a.copy || !r.b.copy;
  r.groups = s->warps_m;
  r.stages = s->stages;
  r.stage = r.a.bytes + r.b.bytes;
  r.slabs = r.stages * r.stage;
  r.barriers = r.slabs + r.groups * 4 * gemm_out_bytes(t->shape, s);
  r.counts = r.barriers + 2 * 8 * r.stages;
  r.rows = s->pingpong ? s->m : s->m / r.groups;
  return r;
}

static void put_begin(Buffer *out, const GemmText *t, const Ring *r) {
  buffer_printf(out,
                "const unsigned full = shared + %uu, empty = full + %uu;\n"
                "if (thread == 0) {\nfor (unsigned s = 0; s < %uu; s++) {\n"
                "ax_mbarrier_init(full + 8 * s, %u);\n"
                "ax_mbarrier_init(empty + 8 * s, %u);\n}\n"
                "ax_fence_mbarrier_init();\n}\n%s();\n",
                r->barriers, 8 * r->stages, r->stages,
                r->computes ? 1 + PRODUCER_WARPS : 1,
                gemm_cluster(t->schedule) *
                    (t->schedule->pingpong ? 1 : r->groups),
                gemm_cluster(t->schedule) > 1 ? "ax_cluster_sync" : "ax_sync");
}

/* Blocks that have the same part of an operand; 0: there is but one. */
static uint32_t share_of(const GemmSchedule *s, bool b) {
  uint32_t share = b ? s->cluster_m : s->cluster_n;
  return share > 1 ? share : 0;
}

/* Boxes as wide as what lies together: one, or several next to each other. */
void gemm_put_boxes(Buffer *out, const GemmBoxes *b) {
  const SharedTile *t = b->tile;
  uint32_t each = t->width / t->bytes, axes = 2;
  uint32_t rows = b->share ? t->rows / b->share : 0;
  for (uint32_t j = 0; j < b->batch->count; j++)
    axes += gemm_stride(&b->batch->axes[j], b->b) != NULL;
  for (uint32_t from = 0; from < t->columns; from += each) {
    buffer_printf(out, "ax_tma_%s_%ud(%s + %uu", b->share ? "cast" : "load",
                  axes, b->at, from / each * t->rows * t->width);
    if (b->share)
      buffer_printf(out, " + %s * %uu", b->part, rows * t->width);
    buffer_printf(out, ", %s, %s, ", b->map, b->barrier);
    if (b->share)
      buffer_printf(out, "%s, ", b->blocks);
    buffer_printf(out, "(int)(%s) + %u, %s", b->dense, from, b->other);
    if (b->share)
      buffer_printf(out, " + (int)(%s * %uu)", b->part, rows);
    for (uint32_t j = b->batch->count; j-- > 0;)
      if (gemm_stride(&b->batch->axes[j], b->b))
        buffer_printf(out, ", (int)%s", b->batch->axes[j].name);
    buffer_puts(out, ");\n");
  }
}

static void put_pixels(Buffer *out, const GemmSource *s, const char *at,
                       const char *term) {
  const GemmPixels *p = &s->operand->pixels;
  buffer_printf(out, "ax_tma_pixels_%ud(%s, %s, full + 8 * stage, %s",
                p->count + 2, at, s->operand->map, term);
  for (uint32_t j = 0; j < p->count; j++)
    buffer_printf(out, ", (int)(%s)", p->at[j]);
  buffer_printf(out, ", (int)(%s)", p->image);
  for (uint32_t j = 0; j < p->count; j++)
    buffer_printf(out, ", (int)(%s)", p->move[j]);
  buffer_puts(out, ");\n");
}

/* Blocks are numbered along the rows first: those beside each other there have
 * the same columns, and so the same part of the right side. */
static void put_box(Buffer *out, const GemmText *t, const GemmSource *s,
                    const char *at) {
  char terms[40], rows[16], part[24], blocks[40];
  uint32_t m = t->schedule->cluster_m, n = t->schedule->cluster_n, all = 0;
  GemmGroup beside = t->batch;
  snprintf(terms, sizeof terms, "(int)(step%s * %uu)",
           t->shape->inner > 0 ? " % tap_steps" : "", t->schedule->k);
  for (uint32_t j = 0; t->shape->inner > 0 && j + 1 < t->k.count; j++)
    beside.axes[beside.count++] = t->k.axes[j];
  if (s->operand->pixels.count) {
    put_pixels(out, s, at, terms);
    return;
  }
  snprintf(rows, sizeof rows, "(int)%c0", s->b ? 'n' : 'm');
  for (uint32_t j = 0; j < (s->b ? m : n); j++)
    all |= 1u << (s->b ? j : j * m);
  snprintf(part, sizeof part, "rank %c %uu", s->b ? '%' : '/', m);
  if (s->b)
    snprintf(blocks, sizeof blocks, "%uu << rank / %uu * %uu", all, m, m);
  else
    snprintf(blocks, sizeof blocks, "%uu << rank %% %uu", all, m);
  gemm_put_boxes(out, &(GemmBoxes){.tile = &s->tile,
                                   .batch = &beside,
                                   .b = s->b,
                                   .at = at,
                                   .map = s->operand->map,
                                   .barrier = "full + 8 * stage",
                                   .dense = s->turned ? rows : terms,
                                   .other = s->turned ? terms : rows,
                                   .share = share_of(t->schedule, s->b),
                                   .part = part,
                                   .blocks = blocks});
}

/* What TMA brings of a stage. */
static void put_boxes(Buffer *out, const GemmText *t, const Ring *r) {
  char at_b[40];
  uint32_t bytes = 0;
  snprintf(at_b, sizeof at_b, "into + %uu", r->a.bytes);
  bytes += r->a.copy ? (uint32_t)shared_bytes(&r->a.tile) : 0;
  bytes += r->b.copy ? (uint32_t)shared_bytes(&r->b.tile) : 0;
  buffer_printf(out, "ax_mbarrier_expect(full + 8 * stage, %u);\n", bytes);
  if (r->a.copy)
    put_box(out, t, &r->a, "into");
  if (r->b.copy)
    put_box(out, t, &r->b, at_b);
}

/* What threads compute of it: they write, and wgmma reads by the asynchronous
 * proxy. */
static void put_computed(Buffer *out, const GemmText *t, const Ring *r) {
  const char *terms = "k_all", *first = "";
  char at[60];
  if (t->shape->inner > 0) {
    terms = t->k.axes[t->k.count - 1].extent;
    first = "(int)tap * inner + ";
    buffer_printf(out, "const int inner = (int)(%s);\n", terms);
  }
  buffer_printf(out, "const int begin = %s(int)(step%s * %uu);\n", first,
                *first ? " % tap_steps" : "", t->schedule->k);
  buffer_printf(out, "const int end = %s;\n",
                *first ? "((int)tap + 1) * inner" : terms);
  for (uint32_t b = 0; b < 2; b++) {
    const GemmSource *s = b ? &r->b : &r->a;
    snprintf(at, sizeof at, "stage * %uu + %uu", r->stage, b ? r->a.bytes : 0);
    if (!s->copy)
      gemm_put_computed(out, s, at, "begin");
  }
  buffer_puts(out, "ax_fence_async();\nax_sync_warp();\n"
                   "if (lane == 0)\nax_mbarrier_arrive(full + 8 * stage);\n");
}

static void put_producer(Buffer *out, const GemmText *t, const Ring *r) {
  if (r->computes)
    buffer_puts(out, "{\n");
  else
    buffer_printf(out,
                  "if (ax_warp() == 0 && ax_elect()) {\n"
                  "ax_tma_prefetch(%s);\nax_tma_prefetch(%s);\n",
                  t->a.map, t->b.map);
  buffer_puts(out, "unsigned round = 0;\n");
  put_first(out, t);
  put_each(out, t);
  if (t->a.pixels.count)
    gemm_put_axes(out, &t->m, "m0");
  buffer_printf(out,
                "for (unsigned step = from; step < to; step++, round++) {\n"
                "const unsigned stage = round %% %uu;\n"
                "const unsigned into = shared + stage * %uu;\n"
                "ax_mbarrier_wait(empty + 8 * stage, (round / %uu & 1) ^ 1);\n",
                r->stages, r->stage, r->stages);
  if (t->shape->inner > 0) {
    GemmGroup outer = t->k;
    outer.count--;
    buffer_puts(out, "const unsigned tap = step / tap_steps;\n");
    gemm_put_axes(out, &outer, "tap");
  }
  if (r->computes)
    buffer_puts(out, "if (thread == 0) {\n");
  put_boxes(out, t, r);
  if (r->computes) {
    buffer_puts(out, "}\n");
    put_computed(out, t, r);
  }
  buffer_puts(out, "}\n}\n}\n");
}

/* ---- products ---- */

/* Bytes from the tile's beginning, where a descriptor is to begin. */
uint32_t gemm_tile_at(const SharedTile *t, uint32_t row, uint32_t column) {
  SharedTile plain = *t;
  plain.swizzle = (Swizzle){0};
  return (uint32_t)shared_at(&plain, row, column);
}

static uint32_t rows_at(const GemmSource *s, uint32_t at) {
  return s->turned ? gemm_tile_at(&s->tile, 0, at)
                   : gemm_tile_at(&s->tile, at, 0);
}

static uint32_t terms_at(const GemmSource *s, uint32_t at) {
  return s->turned ? gemm_tile_at(&s->tile, at, 0)
                   : gemm_tile_at(&s->tile, 0, at);
}

void gemm_put_descriptor(Buffer *out, const SharedTile *tile, bool turned,
                         const char *name, const char *at) {
  SharedMatrix m = shared_matrix(tile, turned);
  buffer_printf(out,
                "const uint64_t %s = ax_wgmma_descriptor(%s, %uu, %uu, %uu);\n",
                name, at, m.leading, m.stride, m.swizzle);
}

/* The product's name behind its columns; those of f32 turn nothing. */
static const char *type_of(const GemmText *t, const Ring *r, char to[40]) {
  if (t->shape->a.dtype == DT_F32)
    snprintf(to, 40, "k8_tf32");
  else
    snprintf(to, 40, "k16_%s<%d, %d>", dtype_info[t->shape->a.dtype].name,
             r->a.turned, r->b.turned);
  return to;
}

/* The stage that was begun so many rounds ago is empty; there is one, where so
 * many were begun. */
static void put_release(Buffer *out, const GemmText *t, const Ring *r,
                        uint32_t ago, const char *begun) {
  uint32_t blocks = gemm_cluster(t->schedule);
  if (begun && ago)
    buffer_printf(out, "if (%s >= %uu)\n", begun, ago);
  buffer_printf(out,
                "if (member < %uu)\nax_mbarrier_arrive%s(empty + 8 * ((round - "
                "%uu) %% %uu)%s);\n",
                blocks, blocks > 1 ? "_at" : "", ago, r->stages,
                blocks > 1 ? ", member" : "");
}

/* One stage's products are begun; those of some before it are under way still,
 * and what is behind them is done, and its memory empty. */
static void put_products(Buffer *out, const GemmText *t, const Ring *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t depth = gemm_depth(t->shape, s), tall = r->rows / GROUP_ROWS;
  char type[40];
  buffer_printf(out,
                "for (unsigned step = from; step < to; step++, round++) {\n"
                "const unsigned stage = round %% %uu;\n"
                "ax_mbarrier_wait(full + 8 * stage, round / %uu & 1);\n"
                "const uint64_t a_stage = a_first + (stage * %uu >> 4);\n"
                "const uint64_t b_stage = b_first + (stage * %uu >> 4);\n"
                "ax_wgmma_fence();\n",
                r->stages, r->stages, r->stage, r->stage);
  for (uint32_t k = 0; k < s->k; k += depth)
    for (uint32_t x = 0; x < tall; x++)
      buffer_printf(out,
                    "ax_wgmma_m64n%u%s(sums%u, a_stage + %u, b_stage + %u, "
                    "true);\n",
                    s->n, type_of(t, r, type), x,
                    (rows_at(&r->a, x * GROUP_ROWS) + terms_at(&r->a, k)) >> 4,
                    terms_at(&r->b, k) >> 4);
  buffer_printf(out, "ax_wgmma_commit();\nax_wgmma_wait<%u>();\n",
                s->flight - 1);
  put_release(out, t, r, s->flight - 1, "step - from");
  buffer_puts(out, "}\nax_wgmma_wait<0>();\n");
  for (uint32_t x = 0; x < tall; x++)
    buffer_printf(out, "ax_wgmma_hold(sums%u);\n", x);
  for (uint32_t left = s->flight; --left > 0;) {
    buffer_printf(out, "if (to - from >= %uu)\n", left);
    put_release(out, t, r, left, NULL);
  }
}

/* ---- parts of sums ---- */

/* Where a thread puts a part of its block's: of a sum's end first, then of
 * one's beginning. */
static void put_slot(Buffer *out, const GemmText *t, const char *team,
                     const char *first, uint32_t sums, uint32_t members) {
  char block[80];
  buffer_printf(out, "parts + (%s * 2 + (%s ? 0 : 1)) * (int64_t)%u",
                own_of(t, team, block), first, sums * members);
}

/* As gemm_put_split; which blocks have parts of a tile is told by their
 * numbers.  Who has a sum's beginning comes to it last: mostly all else of it
 * is there, and what this block has need not go through memory. */
static void put_cut(Buffer *out, const GemmText *t, const Ring *r) {
  bool ping = t->schedule->pingpong;
  uint32_t tall = r->rows / GROUP_ROWS, each = t->schedule->n / 2;
  uint32_t members = ping ? 128 : 128 * r->groups, sums = tall * each;
  const char *first = ping ? "member" : "thread - 128u";
  char sync[60], counter[80];
  own_of(t, "(whole - alone)", counter);
  snprintf(sync, sizeof sync, "ax_barrier_sync(3 + %s, %u);\n",
           ping ? "group" : "0", members);
  buffer_printf(out,
                "bool last = true;\nif (to - from < steps) {\n"
                "float *const parts = (float *)%s + (%s);\n"
                "unsigned *const count = (unsigned *)(memory + %uu)%s;\n"
                "bool there = false;\nif (from == 0) {\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, 0u) + "
                "to;\n%sthere = *count == steps;\n}\n"
                "if (!there) {\nfloat *to_slot = ",
                t->room, first, r->counts, ping ? " + group" : "", sync, first,
                t->counters, counter, sync);
  put_slot(out, t, "team", "from", sums, members);
  buffer_puts(out, ";\n");
  for (uint32_t x = 0; x < tall; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "to_slot[(%u + i) * %u] = sums%u[i];\n",
                  each, x * each, members, x);
  buffer_printf(out,
                "__threadfence();\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, "
                "to - from) + to - from;\n%s}\nlast = *count == steps;\n"
                "if (last) {\n__threadfence();\n"
                "if (%s == 0)\n((unsigned *)%s)[%s] = 0;\nif (!there) {\n",
                sync, first, t->counters, counter, sync, first, t->counters,
                counter);
  for (uint32_t x = 0; x < tall; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums%u[i] = 0;\n",
                  each, x);
  buffer_puts(out, "}\n"
                   "const uint64_t low = (uint64_t)(whole - alone) * steps;\n"
                   "unsigned b = (unsigned)(low * teams / cuts);\n"
                   "while (cuts * (b + 1) / teams <= low)\nb++;\n"
                   "b += there;\n"
                   "for (; cuts * b / teams < low + steps; b++) {\n"
                   "const float *slot = ");
  put_slot(out, t, "b", "cuts * b / teams > low", sums, members);
  buffer_puts(out, ";\n");
  for (uint32_t x = 0; x < tall; x++)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "sums%u[i] += slot[(%u + i) * %u];\n",
                  each, x, x * each, members);
  buffer_puts(out, "}\n}\n}\nif (last) {\n");
}

/* ---- consumers ---- */

static void put_sums(Buffer *out, const GemmText *t, uint32_t tall) {
  for (uint32_t x = 0; x < tall; x++)
    buffer_printf(out,
                  "float sums%u[%u];\n#pragma unroll\n"
                  "for (int i = 0; i < %u; i++)\nsums%u[i] = 0;\n",
                  x, t->schedule->n / 2, t->schedule->n / 2, x);
}

static void put_consumer(Buffer *out, const GemmText *t, const Ring *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t tall = r->rows / GROUP_ROWS;
  char at[80], row[80];
  buffer_printf(out,
                "const unsigned group = thread / 128u - 1, member = thread %% "
                "128u;\n"
                "const unsigned out_at = %uu + (thread / 32u - 4) * %uu;\n",
                r->slabs, gemm_out_bytes(t->shape, s));
  buffer_puts(out, s->store == STORE_ENGINE
                       ? "const unsigned sets = out_at;\nunsigned stored = 0;\n"
                       : "float *const slab = (float *)(memory + out_at);\n");
  snprintf(at, sizeof at, "shared + group * %uu",
           s->pingpong ? 0 : rows_at(&r->a, r->rows));
  gemm_put_descriptor(out, &r->a.tile, r->a.turned, "a_first", at);
  snprintf(at, sizeof at, "shared + %uu", r->a.bytes);
  gemm_put_descriptor(out, &r->b.tile, r->b.turned, "b_first", at);
  buffer_printf(out,
                "const unsigned row = group * %uu + member / 32u * 16u;\n"
                "unsigned round = 0;\n",
                s->pingpong ? 0 : r->rows);
  put_first(out, t);
  if (s->pingpong)
    buffer_printf(out,
                  "unsigned turn = 0;\nif (group == 1 && (%s))\n"
                  "ax_barrier_arrive(1, 256);\n",
                  more_of(t));
  put_each(out, t);
  if (s->pingpong)
    buffer_puts(out,
                "if (turn++ % 2 != group) {\nround += to - from;\ncontinue;\n"
                "}\nax_barrier_sync(1 + group, 256);\n");
  put_sums(out, t, tall);
  put_products(out, t, r);
  if (s->pingpong)
    buffer_printf(out, "if (%s)\nax_barrier_arrive(2 - group, 256);\n",
                  more_of(t));
  if (s->stream)
    put_cut(out, t, r);
  for (uint32_t x = 0; x < tall; x++) {
    snprintf(at, sizeof at, "sums%u", x);
    snprintf(row, sizeof row, "row + %uu", x * GROUP_ROWS);
    gemm_put_rows(out, t, at, row, "0u", "0u");
    if (s->store == STORE_ENGINE)
      gemm_put_sets(out, t, at, row);
    else if (t->shape->results || !t->rows.levels)
      gemm_put_slab(out, t, at, row, "0u");
  }
  buffer_puts(out, s->stream ? "}\n}\n" : "}\n");
  if (s->store == STORE_ENGINE)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait_read<0>();\n");
}

/* ---- the whole ---- */

void gemm_group_put(Buffer *before, Buffer *out, const GemmText *t) {
  Ring r = ring_of(t);
  uint32_t registers = gemm_producer_registers(t->schedule);
  if (!r.a.copy)
    gemm_put_places(before, &r.a);
  if (!r.b.copy)
    gemm_put_places(before, &r.b);
  gemm_put_start(out);
  put_sizes(out, t);
  put_begin(out, t, &r);
  buffer_puts(out, "if (thread < 128u) {\n");
  if (r.groups > 1)
    buffer_printf(out, "ax_registers_less<%u>();\n", registers);
  put_producer(out, t, &r);
  buffer_puts(out, "} else {\n");
  if (r.groups > 1)
    buffer_printf(out, "ax_registers_more<%u>();\n",
                  gemm_group_registers(r.groups, registers));
  put_consumer(out, t, &r);
  buffer_puts(out, "}\n");
  if (gemm_cluster(t->schedule) > 1) /* nobody goes while others write there */
    buffer_puts(out, "ax_sync_warp();\nax_cluster_sync();\n");
}

void gemm_box(const GemmShape *shape, const GemmSchedule *s, bool b,
              uint32_t box[2], uint32_t *swizzle) {
  SharedTile tile = gemm_tile(shape, s, b);
  uint32_t share = share_of(s, b);
  box[0] = tile.width / tile.bytes;
  box[1] = share ? tile.rows / share : tile.rows;
  *swizzle = shared_matrix(&tile, false).swizzle;
}
