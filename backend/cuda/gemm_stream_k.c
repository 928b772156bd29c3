/* Stream-K in matmul kernels with a producer (arXiv:2301.03598).
 *
 * Blocks that share a tile store their partial sums in the workspace, in the
 * layout of threads and their values.  A counter per tile has the steps that
 * are stored.  The last block adds the partial sums in order of the blocks, so
 * that the result is deterministic, and runs the epilogue.  The block with the
 * beginning of a tile usually finishes last.  Then it adds the others to its
 * sums, without storing them. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

/* The workspace slot of a thread.  A block has two slots: for the end of a
 * tile, and for the beginning of one. */
static void put_workspace_slot(Buffer *out, const GemmKernelSpec *t,
                               const StreamK *k, const char *cluster,
                               const char *first) {
  char block[80];
  buffer_printf(out, "parts + (%s * 2 + (%s ? 0 : 1)) * (int64_t)%u",
                gemm_block_number(t, cluster, block), first,
                k->arrays * k->values * k->threads);
}

static void put_partial_store(Buffer *out, const GemmKernelSpec *t,
                              const StreamK *k) {
  buffer_puts(out, "float *to_slot = ");
  put_workspace_slot(out, t, k, "team", "from");
  buffer_puts(out, ";\n");
  for (uint32_t x = 0; x < k->arrays; x++) {
    buffer_puts(out, "{\n");
    if (k->put_load)
      k->put_load(out, t->schedule, x);
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "to_slot[(%u + i) * %u] = sums%u[i];\n}\n",
                  k->values, x * k->values, k->threads, x);
  }
}

void gemm_put_stream_k_begin(Buffer *out, const GemmKernelSpec *t,
                             const StreamK *k) {
  char counter[80];
  gemm_block_number(t, "(whole - alone)", counter);
  buffer_printf(out,
                "const bool shared_tile = to - from < steps;\n"
                "bool last = true, there = false;\n"
                "unsigned first_part = 0;\n"
                "const uint64_t low = shared_tile ? "
                "(uint64_t)(whole - alone) * steps : 0;\n"
                "float *const parts = (float *)%s + %s;\n"
                "if (shared_tile) {\n"
                "unsigned *const count = (unsigned *)(memory + %s);\n"
                "if (from == 0) {\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, 0u) + "
                "to;\n%sthere = *count == steps;\n}\n"
                "if (!there) {\n",
                t->workspace, k->member, k->count_offset, k->sync, k->member,
                t->counters, counter, k->sync);
  put_partial_store(out, t, k);
  buffer_printf(out,
                "__threadfence();\n%s"
                "if (%s == 0)\n*count = atomicAdd((unsigned *)%s + %s, "
                "to - from) + to - from;\n%s}\nlast = *count == steps;\n"
                "if (last) {\n__threadfence();\n"
                "if (%s == 0)\n((unsigned *)%s)[%s] = 0;\n"
                "first_part = (unsigned)(low * teams / cuts);\n"
                "while (cuts * (first_part + 1) / teams <= low)\n"
                "first_part++;\nfirst_part += there;\n}\n}\n",
                k->sync, k->member, t->counters, counter, k->sync, k->member,
                t->counters, counter);
}

void gemm_put_stream_k_sums(Buffer *out, const GemmKernelSpec *t,
                            const StreamK *k, uint32_t x) {
  buffer_printf(out,
                "if (shared_tile) {\nif (!there) {\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "sums%u[i] = 0;\n}\n"
                "for (unsigned b = first_part; "
                "cuts * b / teams < low + steps; b++) {\n"
                "const float *slot = ",
                k->values, x);
  put_workspace_slot(out, t, k, "b", "cuts * b / teams > low");
  buffer_printf(out,
                ";\n#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "sums%u[i] += slot[(%u + i) * %u];\n}\n}\n",
                k->values, x, x * k->values, k->threads);
}
