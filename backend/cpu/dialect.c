/* The C dialect of backend/emit. */
#include "backend/cpu/cpu_emitter.h"
#include "backend/cpu/gemm_tiling.h"

#define format emit_format

/* The position in a block of the last parallel axis, if no lanes lie along it.
 * Otherwise those who load and store vectors add it. */
static const char *column_offset(Emitter *e, uint32_t last) {
  bool has_column = e->vector_axis != last && e->loop->staging != STAGE_OUT;
  return has_column ? format(e, " + (i%u - lo)", last) : "";
}

static const char *local_offset(Emitter *e, const LocalBuffer *l,
                                const AffineExpr *q) {
  const char *inner = emit_affine(e, q);
  const Schedule *s = e->cpu->schedule;
  uint32_t last = e->loop->parallel_axes - 1;
  const char *top = gemm_tiling_epilogue_per_block(s) ? "y0" : "top";
  if (s->task_kind == TASK_POINT)
    return inner;
  if (s->task_kind == TASK_ROWS)
    return format(e, "(i%u - lo) * %s + %s", last, l->point_elements, inner);
  const char *column = column_offset(e, last);
  if (s->task_kind == TASK_TILE && s->task_image_rows)
    return format(e, "(i%u - %s) * %s + (i%u - above) * %s%s", last - 1, top,
                  l->row_elements, last - 2, emit_int(e, s->row_pitch), column);
  if (s->task_kind == TASK_TILE)
    return format(e, "(i%u - %s) * %s%s", last - 1, top, l->row_elements,
                  column);
  return format(e, "(%s) * %s%s", inner, l->row_elements, column);
}

const Dialect c_dialect = {.index_type = "int64_t",
                           .emit_divisor = emit_int,
                           .emit_local_offset = local_offset,
                           .emit_gather_prefetch = emit_gather_prefetch,
                           .emit_next_row_prefetch = emit_next_row_prefetch};
