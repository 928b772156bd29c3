/* Persistent attention kernels with wgmma: a block computes several tiles.
 *
 * The producer loads the queries of the next tile, and its first keys and
 * values, while the consumers store the results of this one.  Tile `turn` of
 * the block has number turn * gridDim.x + blockIdx.x.
 *
 * With trimmed bounds, tiles take different times.  Then tiles with later rows,
 * which usually need more keys, come first, and the order of the blocks changes
 * direction with each turn, so that the sums of their times are nearly equal.
 * The batches are processed in sections, whose keys and values fit into L2
 * (FlashAttention-3, arXiv:2407.08608, and its tile scheduler).
 *
 * A tile without keys has no query: without matmuls, the threads of a warpgroup
 * do not wait for each other, and one of them must not release the query while
 * others wait for it.
 *
 * With counters, a block counts its tiles in its end, when all of them are
 * stored.  The last block of a batch repeats the rows of the batch if a sum of
 * one of its blocks was not finite.  The batches that a block repeats are a
 * linked list: *repeat is 1 + the first batch or 0, and the last counter of a
 * batch is the link. */
#include "backend/cuda/attention_emit.h"
#include "support/buffer.h"

uint32_t attention_attempt_threads(const AttentionKernelSpec *t) {
  return t->schedule->warps_m * WARPGROUP_THREADS + WARP;
}

void attention_put_stores_done(Buffer *out, const AttentionKernelSpec *t) {
  if (t->schedule->store == STORE_TMA)
    buffer_puts(out, "if (lane == 0)\nax_tma_wait<0>();\nax_sync_warp();\n");
}

/* ---- order of the tiles ---- */

void attention_put_tiles(Buffer *out, const AttentionKernelSpec *t) {
  uint32_t bytes = 2 * (attention_padded_dim(t->shape->head_dim) +
                        attention_padded_dim(t->shape->value_dim));
  gemm_put_extent(out, &t->first.batch, "batches");
  buffer_puts(out, "const unsigned tiles = bands * (unsigned)batches;\n");
  if (t->put_bounds)
    buffer_printf(out,
                  "const unsigned section = (unsigned)max(min(%d / max(terms, "
                  "1), batches), 1);\n",
                  ATTENTION_SECTION_BYTES / (int)bytes);
}

static void put_tile_number(Buffer *out, const AttentionKernelSpec *t,
                            const char *turn) {
  buffer_printf(out, "unsigned tile = %s * gridDim.x + ", turn);
  if (t->put_bounds)
    buffer_printf(out, "(%s %% 2u ? gridDim.x - 1 - blockIdx.x : blockIdx.x)",
                  turn);
  else
    buffer_puts(out, "blockIdx.x");
  buffer_puts(out, ";\n");
}

/* Emits the batch of a tile, and its first row unless row is NULL. */
static void put_decode(Buffer *out, const AttentionKernelSpec *t,
                       const char *batch, const char *row) {
  const char *band = "tile % bands";
  if (t->put_bounds) {
    buffer_printf(out,
                  "const unsigned first = tile / (section * bands) * section;\n"
                  "const unsigned near = min(section, (unsigned)batches - "
                  "first);\n"
                  "tile -= first * bands;\n%s = first + tile %% near;\n",
                  batch);
    band = "tile / near";
  } else {
    buffer_printf(out, "%s = tile / bands;\n", batch);
  }
  if (row)
    buffer_printf(out, "%s = (int)((bands - 1 - %s) * %uu);\n", row, band,
                  t->schedule->m);
}

/* ---- repeated batches ---- */

/* Counts the tiles of the block.  Afterwards, the list has the batches that the
 * block repeats. */
static void put_count_tiles(Buffer *out, const AttentionKernelSpec *t) {
  buffer_puts(out, "if (lane == 0)\n*repeat = 0;\nax_sync_warp();\n"
                   "__threadfence();\nfor (unsigned own = lane;; own += 32u) "
                   "{\n");
  put_tile_number(out, t, "own");
  buffer_puts(out, "if (tile >= tiles)\nbreak;\n");
  put_decode(out, t, "const unsigned batch", NULL);
  buffer_printf(out,
                "unsigned *const counts = %s + batch * %uu;\n"
                "if (atomicAdd(counts, 1u) == bands - 1) {\n"
                "__threadfence();\n"
                "const bool bad = atomicAdd(counts + 1, 0u) > 0;\n"
                "counts[0] = counts[1] = 0;\n"
                "if (bad)\ncounts[2] = atomicExch(repeat, batch + 1);\n}\n}\n",
                t->counters, ATTENTION_COUNTERS);
}

static void put_next_batch(Buffer *out, const AttentionKernelSpec *t) {
  buffer_printf(out,
                "if (lane == 0) {\n"
                "unsigned *const link = %s + (odd - 1) * %uu + 2;\n"
                "*repeat = *link;\n*link = 0;\n}\n",
                t->counters, ATTENTION_COUNTERS);
}

/* Gives the block the next tile of a batch that it repeats, or leaves the
 * loop. */
static void put_repeated_tile(Buffer *out, const AttentionKernelSpec *t,
                              bool producer) {
  uint32_t threads = attention_attempt_threads(t);
  buffer_puts(out, "if (!again || ++band == bands) {\n");
  if (!producer)
    attention_put_stores_done(out, t);
  buffer_printf(out, "ax_barrier_sync(%u, %u);\n", ATTENTION_SUMS_BARRIER,
                threads);
  if (producer) {
    buffer_puts(out, "if (!again) {\n");
    put_count_tiles(out, t);
    buffer_puts(out, "} else {\n");
    put_next_batch(out, t);
    buffer_puts(out, "}\n");
  }
  buffer_printf(out,
                "ax_barrier_sync(%u, %u);\n"
                "odd = *repeat;\nband = 0;\nagain = true;\n}\n"
                "if (odd == 0)\nbreak;\nbatch = odd - 1;\n"
                "row0 = (int)(band * %uu);\n",
                ATTENTION_ATTEMPT_BARRIER, threads, t->schedule->m);
}

/* ---- loop ---- */

void attention_put_tile_loop(Buffer *out, const AttentionKernelSpec *t,
                             bool producer) {
  const GemmSchedule *s = t->schedule;
  buffer_puts(out, "unsigned done = 0, queries = 0;\n");
  if (t->counters)
    buffer_puts(out, "unsigned band = 0, odd = 0;\nbool again = false;\n");
  buffer_puts(out, "for (unsigned turn = 0;; turn++) {\n");
  put_tile_number(out, t, "turn");
  if (t->counters) {
    buffer_puts(out, "unsigned batch;\nint row0;\n"
                     "if (!again && tile < tiles) {\n");
    put_decode(out, t, "batch", "row0");
    buffer_puts(out, "} else {\n");
    put_repeated_tile(out, t, producer);
    buffer_puts(out, "}\n");
  } else {
    buffer_puts(out, "if (tile >= tiles)\nbreak;\n");
    put_decode(out, t, "const unsigned batch", "const int row0");
  }
  attention_put_tile_bounds(out, t, !producer);
  if (t->counters)
    buffer_printf(out, "if (again) {\nfrom = 0;\nto = terms;\n%s}\n",
                  producer ? "" : "whole_high = 0;\n");
  buffer_printf(out,
                "const unsigned steps = (unsigned)(to - from + %u) / %uu;\n",
                s->n - 1, s->n);
}

void attention_put_tile_end(Buffer *out) {
  buffer_puts(out, "done += steps;\nqueries += steps > 0;\n}\n");
}
