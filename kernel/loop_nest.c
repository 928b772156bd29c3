/* Loop nests: comparison of ops, copies, size hints. */
#include "kernel/kernel.h"
#include "support/arena.h"

#include <string.h>

static bool checked_indices_equal(const KernelOp *x, const KernelOp *y) {
  bool equal = x->checked_index_count == y->checked_index_count;
  for (uint32_t j = 0; equal && j < x->checked_index_count; j++)
    equal = x->checked_indices[j].index_op == y->checked_indices[j].index_op &&
            x->checked_indices[j].stride == y->checked_indices[j].stride &&
            x->checked_indices[j].extent == y->checked_indices[j].extent;
  return equal;
}

bool kernel_op_equivalent(const KernelOp *x, const KernelOp *y) {
  if (x->kind != y->kind || x->dtype != y->dtype ||
      x->arg_count != y->arg_count)
    return false;
  switch (x->kind) {
  case KOP_CONST:
    return x->value.dtype == y->value.dtype && x->value.i == y->value.i;
  case KOP_AFFINE:
    return affine_equal(x->affine, y->affine);
  case KOP_LOAD:
    return x->input == y->input && affine_equal(x->address, y->address) &&
           checked_indices_equal(x, y);
  case KOP_LOAD_LOCAL:
    return x->source_loop == y->source_loop &&
           x->source_output == y->source_output;
  case KOP_MAP:
    return x->op == y->op;
  case KOP_SELECT:
  case KOP_CONVERT:
    return true;
  case KOP_RANDOM:
    return x->op == y->op && memcmp(&x->key, &y->key, sizeof x->key) == 0;
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    break;
  }
  return false;
}

LoopNest *loop_clone_empty(Arena *arena, const LoopNest *loop) {
  LoopNest *to = NEW(arena, LoopNest);
  *to = *loop;
  memset(&to->ops, 0, sizeof to->ops);
  memset(&to->outputs, 0, sizeof to->outputs);
  return to;
}

LoopNest *loop_clone(Arena *arena, const LoopNest *from) {
  LoopNest *to = loop_clone_empty(arena, from);
  for (uint32_t j = 0; j < from->ops.len; j++) {
    KernelOp s = from->ops.at[j];
    if (s.kind == KOP_AFFINE)
      s.affine = affine_copy(arena, s.affine);
    if (s.kind == KOP_LOAD || s.kind == KOP_LOAD_LOCAL)
      s.address = affine_copy(arena, s.address);
    VEC_PUSH(arena, to->ops, s);
  }
  for (uint32_t j = 0; j < from->outputs.len; j++) {
    LoopOutput r = from->outputs.at[j];
    r.global_index = affine_copy(arena, r.global_index);
    r.local_index = affine_copy(arena, r.local_index);
    VEC_PUSH(arena, to->outputs, r);
  }
  return to;
}

bool loop_has_states(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (loop->outputs.at[j].reduce == PRIM_FOLD)
      return true;
  return false;
}

/* ---- sizes ---- */

static bool affine_is_symbolic(const Graph *g, const AffineExpr *q) {
  bool symbolic = !extent_is_static(g, q->constant);
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    symbolic |= !extent_is_static(g, q->coef[v]);
  return symbolic;
}

static bool op_is_symbolic(const Graph *g, const KernelOp *s) {
  if (s->kind == KOP_AFFINE)
    return affine_is_symbolic(g, s->affine);
  if (s->kind != KOP_LOAD && s->kind != KOP_LOAD_LOCAL)
    return false;
  bool symbolic = affine_is_symbolic(g, s->address);
  for (uint32_t j = 0; s->kind == KOP_LOAD && j < s->checked_index_count; j++)
    symbolic |= !extent_is_static(g, s->checked_indices[j].stride) ||
                !extent_is_static(g, s->checked_indices[j].extent);
  return symbolic;
}

bool loop_is_symbolic(const LoopNest *loop) {
  const Graph *g = loop->graph;
  bool symbolic = false;
  if (!g->extent_table)
    return false;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    symbolic |= !extent_is_static(g, loop->extents[v]);
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    symbolic |= affine_is_symbolic(g, &loop->floor_divs[j].dividend) ||
                !extent_is_static(g, loop->floor_divs[j].divisor);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    symbolic |= op_is_symbolic(g, &loop->ops.at[j]);
  return symbolic;
}

bool kernel_is_symbolic(const Kernel *k) {
  bool symbolic = false;
  for (uint32_t j = 0; j < k->loops.len; j++)
    symbolic |= loop_is_symbolic(k->loops.at[j]);
  return symbolic;
}

int64_t loop_extent_hint(const LoopNest *loop, uint32_t v) {
  return extent_hint(loop->graph, loop->extents[v]);
}

double loop_axes_hint(const LoopNest *loop, uint32_t count,
                      const uint32_t *axes) {
  double all = 1;
  for (uint32_t j = 0; j < count; j++)
    all *= (double)loop_extent_hint(loop, axes[j]);
  return all;
}

double loop_iterations_hint(const LoopNest *loop, uint32_t from, uint32_t to) {
  return extent_hint_product(loop->graph, to - from, loop->extents + from);
}

double kernel_local_bytes(const Kernel *k, bool include_scalars) {
  double bytes = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &k->loops.at[j]->outputs.at[i];
      if (r->local_index && !k->loops.at[j]->keeps_states &&
          (include_scalars || r->local_elements > 1))
        bytes += (double)extent_hint(k->graph, r->local_elements) *
                 dtype_info[r->dtype].bytes;
    }
  return bytes;
}

double kernel_operation_count(const Kernel *k) {
  double work = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const LoopNest *loop = k->loops.at[j];
    if (!loop->keeps_states)
      work += loop->ops.len * loop_iterations_hint(loop, 0, loop->axis_count);
  }
  return work;
}

bool kernel_has_empty_input(const Kernel *k) {
  for (uint32_t j = 0; j < k->inputs.len; j++) {
    const Tensor *t = k->inputs.at[j]->data;
    if (t && t->count == 0)
      return true;
  }
  return false;
}
