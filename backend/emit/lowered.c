/* Loop nests after lowering, as text: for `axon dump --stage=lowered`.  The
 * code of a loop nest is computed at the outermost loop at which its operands
 * are known, once for all iterations of the loops inside. */
#include "backend/emit/emit.h"
#include "kernel/nest.h"

typedef struct LoweredPrinter {
  const Emitter *e;
  const Nest *nest;
  Buffer out;
  uint32_t indent;
  bool is_searched; /* a function finds the place of the row's best element */
  bool is_printed[MAX_LEVELS];
} LoweredPrinter;

static const char *form_text(LoadForm form) {
  switch (form) {
  case LOAD_UNIFORM:
    return "one element";
  case LOAD_CONTIGUOUS:
    return "a vector";
  case LOAD_STRIDED:
    return "a strided vector";
  case LOAD_TRANSPOSED:
    return "vectors of another axis, transposed in registers";
  case LOAD_PAIRS:
    return "pairs of elements";
  case LOAD_CHECKED:
    return "a vector, without the lanes that are out of bounds";
  case LOAD_ROW_PART:
    return "a vector in part of a row, without the lanes out of bounds";
  case LOAD_GATHER:
    return "a gather";
  }
  return "";
}

static void begin_line(LoweredPrinter *p) {
  buffer_printf(&p->out, "%*s", (int)(2 * p->indent), "");
}

/* ---- operations ---- */

/* Returns true if a select loads the operation's value under a mask. */
static bool is_in_masked_load(const Emitter *e, uint32_t at) {
  for (uint32_t j = at + 1; j < e->loop->ops.len; j++)
    if (emit_is_masked_load(e, j) && e->loop->ops.at[j].args[1] == at)
      return true;
  return false;
}

static void put_form(LoweredPrinter *p, uint32_t at) {
  const Emitter *e = p->e;
  const KernelOp *s = &e->loop->ops.at[at];
  bool is_load = s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL;
  if (emit_is_masked_load(e, at))
    buffer_puts(&p->out, ": a masked load");
  else if (is_load && is_in_masked_load(e, at))
    buffer_puts(&p->out, ": loaded by its mask");
  else if (is_load)
    buffer_printf(&p->out, ": %s%s", form_text(emit_load_form(e, at)),
                  s->kind == KOP_LOAD && s->checked_index_count ? ", checked"
                                                                : "");
}

static void put_level(LoweredPrinter *p, uint32_t level) {
  const Emitter *e = p->e;
  if (p->is_printed[level])
    return;
  p->is_printed[level] = true;
  for (uint32_t j = 0; j < e->loop->ops.len; j++) {
    if (e->ops.levels[j] != level || !emit_is_demanded(e, j))
      continue;
    begin_line(p);
    kernel_print_op(&p->out, e->loop, j, p->nest->names);
    put_form(p, j);
    buffer_puts(&p->out,
                j == e->ops.contracted ? ": fused with its addition\n" : "\n");
  }
}

static void put_output(LoweredPrinter *p, const LoopOutput *r) {
  /* A local buffer has rows along the last parallel axis. */
  bool is_row =
      !r->global_index && p->e->vector_axis + 1 == p->e->loop->parallel_axes;
  const AffineExpr *to = r->global_index ? r->global_index : r->local_index;
  int64_t stride = is_row ? 1 : to ? to->coef[p->e->vector_axis] : 0;
  begin_line(p);
  kernel_print_output(&p->out, r, p->nest->names);
  if (p->e->vector_axis == NO_AXIS)
    buffer_puts(&p->out, ": one element\n");
  else if (p->is_searched)
    buffer_puts(&p->out, ": a function searches the row in memory\n");
  else if (r->reduce != PRIM_NONE &&
           p->e->vector_axis >= p->e->loop->spatial_axes)
    buffer_puts(&p->out, ": the lanes are joined after the loops\n");
  else if (stride == 1)
    buffer_puts(&p->out, ": a vector\n");
  else
    buffer_printf(&p->out, ": a vector of stride %lld\n", (long long)stride);
}

/* ---- loops ---- */

/* Prints what is computed where the index of a loop becomes known. */
static void put_levels_of(LoweredPrinter *p, const NestLoop *l) {
  const NestStream *s = &p->nest->stream;
  put_level(p, p->e->levels.of[l->axis]);
  if (l->axis == s->row_axis)
    put_level(p, p->e->levels.of[s->term_axis]);
}

const char *emit_lowered_text(const Emitter *e, const Nest *n,
                              bool is_searched) {
  LoweredPrinter p = {.e = e,
                      .nest = n,
                      .is_searched = is_searched,
                      .out = {.arena = e->arena}};
  put_level(&p, 0);
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (!nest_runs_outside(n, j))
      put_level(&p, OUTER_LEVEL);
    begin_line(&p);
    nest_print_loop(&p.out, n, j);
    buffer_puts(&p.out, "\n");
    p.indent++;
    if (!nest_runs_outside(n, j) && l->run != NEST_LANES &&
        nest_inner(n, j) == NO_LOOP)
      put_levels_of(&p, l);
  }
  for (uint32_t level = OUTER_LEVEL; level < MAX_LEVELS; level++)
    put_level(&p, level);
  for (uint32_t j = 0; j < e->loop->outputs.len; j++)
    put_output(&p, &e->loop->outputs.at[j]);
  return p.out.text ? p.out.text : "";
}
