/* The beginning of a matmul kernel: problem size and tile coordinates. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

/* Rasterization: tiles are ordered in bands of s->raster tile rows, and column
 * by column within a band.  Blocks that run at the same time share operands in
 * L2. */
void gemm_put_tile_coords(Buffer *out, const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "const unsigned batch = tile / (tiles_m * tiles_n);\n"
                "tile %%= tiles_m * tiles_n;\n"
                "const unsigned band = tile / (%uu * tiles_n) * %uu;\n"
                "const unsigned high = min(tiles_m - band, %uu);\n"
                "tile %%= %uu * tiles_n;\n"
                "const unsigned m0 = (band + tile %% high) * %uu",
                s->raster, s->raster, s->raster, s->raster,
                s->cluster_m * s->m);
  if (s->cluster_m > 1)
    buffer_printf(out, " + rank %% %uu * %uu", s->cluster_m, s->m);
  buffer_printf(out, ";\nconst unsigned n0 = tile / high * %uu",
                s->cluster_n * s->n);
  if (s->cluster_n > 1)
    buffer_printf(out, " + rank / %uu * %uu", s->cluster_m, s->n);
  buffer_puts(out, ";\n");
  buffer_puts(out, "(void)batch;\n");
  gemm_put_unravel(out, &t->batch, "(int64_t)batch");
}

void gemm_put_problem_size(Buffer *out, const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  gemm_put_extent(out, &t->m, "m_all");
  gemm_put_extent(out, &t->n, "n_all");
  gemm_put_extent(out, &t->k, "k_all");
  buffer_printf(out,
                "const unsigned tiles_m = (unsigned)(m_all + %u) / %uu;\n"
                "const unsigned tiles_n = (unsigned)(n_all + %u) / %uu;\n",
                s->cluster_m * s->m - 1, s->cluster_m * s->m,
                s->cluster_n * s->n - 1, s->cluster_n * s->n);
}

void gemm_put_preamble(Buffer *out) {
  buffer_puts(out, "const unsigned thread = threadIdx.x, lane = thread % 32u;\n"
                   "unsigned char *const memory = ax_shared();\n"
                   "const unsigned shared = ax_shared_address(memory);\n"
                   "(void)lane, (void)shared;\n");
}
