/* Emits calls of micro-kernels, and what they stand on. */
#include "backend/cuda/gemm_micro.h"

#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/json_writer.h"

enum { MMA_ROWS = 16, MMA_COLUMNS = 8, MMA_ACCUMULATORS = 4 };

MmaKind cuda_micro_kind(const MicroKernel *m) {
  return m->dtype == DT_F32 || m->dtype == DT_F64 ? MMA_KIND_FMA
                                                  : MMA_KIND_MMA_SYNC;
}

/* The accumulators: their name and type. */
static const char *accumulators(Arena *arena, const MicroKernel *m) {
  if (cuda_micro_kind(m) == MMA_KIND_FMA)
    return arena_printf(arena, "%s (&c)[%u][%u]", gemm_compute_type(m->dtype),
                        m->rows, m->columns);
  return arena_printf(arena, "float (&c)[%u][%u][%d]", m->rows / MMA_ROWS,
                      m->columns / MMA_COLUMNS, MMA_ACCUMULATORS);
}

const char *cuda_micro_signature(Arena *arena, const MicroKernel *m) {
  return arena_printf(arena,
                      "template <class A, class B> AX_DEVICE void %s(A a, B b, "
                      "int terms, %s)",
                      m->name, accumulators(arena, m));
}

static void put_call_head(Buffer *out, const MicroKernel *m) {
  buffer_printf(out,
                "template <class A, class B> "
                "AX_DEVICE void axn_call(A a, B b, int terms, %s)",
                accumulators(out->arena, m));
}

/* ---- views ---- */

/* In the check, indices beyond the tile are errors at the line of the micro-
 * kernel. */
static void put_index_check(Buffer *out, const GemmKernelSpec *t,
                            const GemmTiledCopy *s, uint32_t rows,
                            uint32_t terms) {
  const MicroKernel *m = t->schedule->micro;
  if (!t->checks_micro)
    return;
  buffer_printf(
      out,
      "if (%c < 0 || %c > %u || k < 0 || k > %u)\n"
      "ax_sim_at(AX_TRAP, line, \"an index of %c beyond the tile\");\n",
      s->b ? 'j' : 'i', s->b ? 'j' : 'i', (s->b ? m->columns : m->rows) - rows,
      t->schedule->k - terms, s->letter);
}

static void put_parameters(Buffer *out, const GemmKernelSpec *t,
                           const GemmTiledCopy *s) {
  buffer_printf(out, "%s%s) const {\n", s->b ? "int k, int j" : "int i, int k",
                t->checks_micro ? ", int line = __builtin_LINE()" : "");
}

static void put_element(Buffer *out, const GemmKernelSpec *t,
                        const GemmTiledCopy *s) {
  const char *type = gemm_storage_type(s->side->dtype);
  char row[200];
  uint32_t count = s->b ? t->schedule->thread_n : t->schedule->thread_m;
  char index = s->b ? 'j' : 'i';
  if (count) {
    uint32_t max = 16 / s->tile.element_bytes, each = count < max ? count : max;
    snprintf(row, sizeof row,
             "first * %uu + (unsigned)%c / %uu * %uu + "
             "(unsigned)%c %% %uu",
             each, index, each, s->tile.columns / count * each, index, each);
  } else {
    snprintf(row, sizeof row, "first + (unsigned)%c", index);
  }
  buffer_printf(out, "__device__ __forceinline__ const %s &operator()(", type);
  put_parameters(out, t, s);
  put_index_check(out, t, s, 1, 1);
  buffer_printf(out, "return *(const %s *)(memory + at + %s_%c(", type, t->name,
                s->letter);
  if (s->mn_major)
    buffer_printf(out, "(unsigned)k, %s", row);
  else
    buffer_printf(out, "%s, (unsigned)k", row);
  buffer_puts(out, "));\n}\n");
}

static void put_fragment(Buffer *out, const GemmKernelSpec *t,
                         const GemmTiledCopy *s) {
  uint32_t depth = gemm_instruction_k(t->shape, t->schedule);
  buffer_puts(out, "__device__ __forceinline__ void load(unsigned (&to)[4], ");
  put_parameters(out, t, s);
  put_index_check(out, t, s, MMA_ROWS, depth);
  buffer_printf(out,
                "const unsigned lane = ax_lane(), row = first + (unsigned)%c;\n"
                "const unsigned term = (unsigned)k;\n"
                "unsigned (*const fragment)[4] = &to;\n",
                s->b ? 'j' : 'i');
  gemm_put_fragment_load(out, s,
                         &(FragmentLoad){.name = "fragment",
                                         .smem_tile = "(shared + at)",
                                         .first_row = "row",
                                         .first_k = "term",
                                         .count = 1,
                                         .b = s->b,
                                         .transposed = s->side->mn_major});
  buffer_puts(out, "}\n");
}

/* at: offset of the stage in shared memory.  first: place of the thread, or
 * first row of the warp.  The members are private, so that a micro-kernel reads
 * only elements whose indices the check sees.  Casts of the address of an
 * element are not checked: a read elsewhere in shared memory shows only in
 * another result. */
static void put_view(Buffer *out, const GemmKernelSpec *t,
                     const GemmTiledCopy *s) {
  buffer_printf(out,
                "class %s_view_%c {\nunsigned char *memory;\n"
                "unsigned shared, at, first;\npublic:\n"
                "__device__ __forceinline__ %s_view_%c("
                "unsigned char *memory, unsigned shared, unsigned at, "
                "unsigned first)\n"
                ": memory(memory), shared(shared), at(at), first(first) {}\n",
                t->name, s->letter, t->name, s->letter);
  put_element(out, t, s);
  if (cuda_micro_kind(t->schedule->micro) == MMA_KIND_MMA_SYNC)
    put_fragment(out, t, s);
  buffer_puts(out, "};\n");
}

void gemm_put_micro_views(Buffer *before, const GemmKernelSpec *t,
                          const GemmTiledCopy *a, const GemmTiledCopy *b) {
  const MicroKernel *m = t->schedule->micro;
  put_view(before, t, a);
  put_view(before, t, b);
  buffer_printf(before, "namespace axn_micro_%s {\n", m->name);
  put_call_head(before, m);
  buffer_puts(before, ";\n}\n");
}

/* ---- call ---- */

static void put_view_of(Buffer *out, const GemmKernelSpec *t,
                        const GemmTiledCopy *s) {
  const char *first =
      cuda_micro_kind(t->schedule->micro) == MMA_KIND_FMA ? "place" : "first";
  buffer_printf(out, "%s_view_%c(memory, shared, %c_stage, %c_%s), ", t->name,
                s->letter, s->letter, s->letter, first);
}

void gemm_put_micro_call(Buffer *out, const void *owner, const StageCopies *s) {
  const GemmKernelSpec *t = owner;
  const GemmTiledCopy *a = s->copies[0], *b = s->copies[1];
  const MicroKernel *m = t->schedule->micro;
  buffer_printf(out,
                "const unsigned a_stage = read * %uu;\n"
                "const unsigned b_stage = a_stage + %uu;\n"
                "axn_micro_%s::axn_call(",
                a->stage_bytes + b->stage_bytes, a->stage_bytes, m->name);
  put_view_of(out, t, a);
  put_view_of(out, t, b);
  buffer_printf(out, "%u, ", t->schedule->k);
  if (cuda_micro_kind(m) == MMA_KIND_FMA)
    buffer_puts(out, "sums);\n");
  else
    buffer_printf(out, "reinterpret_cast<float (&)[%u][%u][%d]>(sums));\n",
                  m->rows / MMA_ROWS, m->columns / MMA_COLUMNS,
                  MMA_ACCUMULATORS);
}

/* ---- text ---- */

static void put_line(Buffer *out, const MicroKernel *m, uint32_t line) {
  buffer_printf(out, "#line %u ", line);
  json_quote(out, m->path); /* a path in C has the same escapes */
  buffer_putc(out, '\n');
}

/* The sources of a module are one text, so that each may have the text of the
 * micro-kernel.  A wrong call is an error at the line of the declaration. */
void cuda_micro_put_text(Buffer *out, const MicroKernel *m, bool has_lines) {
  buffer_printf(out,
                "#ifndef AXN_MICRO_%s\n#define AXN_MICRO_%s\n"
                "namespace axn_micro_%s {\n",
                m->name, m->name, m->name);
  if (has_lines)
    put_line(out, m, m->line);
  buffer_printf(out, "%s\n", m->text);
  if (has_lines)
    put_line(out, m, m->first_line);
  put_call_head(out, m);
  buffer_printf(out, " { %s(a, b, terms, c); }\n}\n#endif\n", m->name);
}
