/* Lanes of a flattened loop whose operands are loaded as vectors and shuffled:
 * which element each lane reads. */
#include "backend/cpu/lane_shuffle.h"
#include "machine/limits/cpu.h"
#include "tensor/node.h"

LaneShuffle lane_shuffle_of(const Nest *n, uint32_t width) {
  LaneShuffle f = {
      .loop = n->spec, .width = width, .axis_count = n->flat->count};
  for (uint32_t j = 0; j < n->flat->count; j++) {
    const NestLoop *l = &n->flat->loops[j];
    f.axes[j] = l->axis;
    f.extents[j] = l->count ? l->count : n->spec->extents[l->axis];
  }
  return f;
}

int64_t lane_shuffle_lanes(const LaneShuffle *f) {
  return shape_element_count(f->axis_count, f->extents);
}

int64_t lane_shuffle_span(const LaneShuffle *f, const KernelOp *load) {
  int64_t last = 0;
  for (uint32_t j = 0; j < f->axis_count; j++)
    last += (f->extents[j] - 1) * load->address->coef[f->axes[j]];
  for (uint32_t v = f->loop->spatial_axes; v < f->loop->axis_count; v++)
    last += (f->loop->extents[v] - 1) * load->address->coef[v];
  return last + 1;
}

int64_t lane_shuffle_element(const LaneShuffle *f, const KernelOp *load,
                             int64_t offset, int64_t lane) {
  for (uint32_t j = f->axis_count; j-- > 0; lane /= f->extents[j])
    offset += lane % f->extents[j] * load->address->coef[f->axes[j]];
  return lane ? -1 : offset;
}

bool lane_shuffle_sources(const LaneShuffle *f, const KernelOp *load,
                          int64_t offset, int64_t first,
                          int64_t sources[MAX_SHUFFLE_SOURCES]) {
  int count = 0;
  sources[0] = sources[1] = 0;
  for (int64_t l = 0; l < f->width; l++) {
    int64_t e = lane_shuffle_element(f, load, offset, first + l);
    bool is_known = e < 0;
    for (int k = 0; k < count; k++)
      is_known |= sources[k] == e / f->width;
    if (is_known)
      continue;
    if (count == MAX_SHUFFLE_SOURCES)
      return false;
    sources[count++] = e / f->width;
  }
  return true;
}

/* ---- refusals ---- */

static bool is_constant_axis(const LaneShuffle *f, const KernelOp *load,
                             uint32_t v) {
  int64_t coef = load->address->coef[v];
  return extent_is_static(f->loop->graph, coef) && coef >= 0;
}

/* Returns true if all elements that a load reads have constant places. */
static bool has_constant_places(const LaneShuffle *f, const KernelOp *load) {
  bool is_constant = true;
  if (load->kind != KOP_LOAD || load->checked_index_count)
    return false;
  for (uint32_t j = 0; j < f->axis_count; j++)
    is_constant &= is_constant_axis(f, load, f->axes[j]);
  for (uint32_t v = f->loop->spatial_axes; v < f->loop->axis_count; v++)
    is_constant &= is_constant_axis(f, load, v);
  return is_constant && !affine_has_floor_divs(load->address);
}

/* The offset of a term in the order of the reduced axes. */
static int64_t term_offset(const LaneShuffle *f, const KernelOp *load,
                           int64_t term) {
  int64_t offset = 0;
  for (uint32_t v = f->loop->axis_count; v-- > f->loop->spatial_axes;) {
    offset += term % f->loop->extents[v] * load->address->coef[v];
    term /= f->loop->extents[v];
  }
  return offset;
}

static bool has_few_sources(const LaneShuffle *f, const KernelOp *load) {
  int64_t terms = 1, lanes = lane_shuffle_lanes(f),
          sources[MAX_SHUFFLE_SOURCES];
  for (uint32_t v = f->loop->spatial_axes; v < f->loop->axis_count; v++)
    terms *= f->loop->extents[v];
  for (int64_t t = 0; t < terms; t++)
    for (int64_t first = 0; first < lanes; first += f->width)
      if (!lane_shuffle_sources(f, load, term_offset(f, load, t), first,
                                sources))
        return false;
  return true;
}

/* Returns true for an operation that has no lanes but those of its operands. */
static bool is_lanewise(const KernelOp *s) {
  return s->kind == KOP_CONST || s->kind == KOP_MAP || s->kind == KOP_SELECT ||
         s->kind == KOP_CONVERT;
}

const char *lane_shuffle_refusal(const LaneShuffle *f) {
  const LoopNest *loop = f->loop;
  const LoopOutput *r = &loop->outputs.at[0];
  if (loop->outputs.len != 1 || !r->global_index || r->local_index ||
      prim_is_arg_reduction(r->reduce) || loop_has_states(loop))
    return "shuffles the lanes of one result, which no later loop nest reads";
  int64_t stride = 1;
  for (uint32_t j = f->axis_count; j-- > 0; stride *= f->extents[j])
    if (r->global_index->coef[f->axes[j]] != stride && f->extents[j] != 1)
      return "has lanes that are not contiguous in the result";
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (is_lanewise(s))
      continue;
    if (!has_constant_places(f, s))
      return "shuffles loads of elements at constant places only";
    if (lane_shuffle_span(f, s) > MAX_SHUFFLED_VECTORS * (int64_t)f->width)
      return "would load more vectors of an operand than stay in registers";
    if (!has_few_sources(f, s))
      return "would shuffle lanes of more than two vectors";
  }
  return NULL;
}
