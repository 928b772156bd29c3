/* Finds the inputs whose memory an output of a kernel may reuse.  A map loads
 * all its operands before it stores its outputs. */
#include "backend/cpu/cpu.h"
#include "kernel/nest.h"

static bool can_fail(const KernelOp *s) {
  return (s->kind == KOP_LOAD && s->checked_index_count > 0) ||
         (s->kind == KOP_MAP && !dtype_is_float(s->dtype) &&
          map_info[s->op].fault != ARITH_OK);
}

static bool is_infallible_map(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  bool is_infallible =
      k->loops.len == 1 && loop->spatial_axes == loop->axis_count;
  for (uint32_t j = 0; is_infallible && j < loop->ops.len; j++)
    is_infallible = !can_fail(&loop->ops.at[j]);
  return is_infallible;
}

/* Returns true if the input is read only at the address of the output. */
static bool reads_only_own_element(const LoopNest *loop, uint32_t input,
                                   const AffineExpr *address) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD && s->input == input &&
        !affine_equal(s->address, address))
      return false;
  }
  return true;
}

/* Returns true if tiles of a map overlap: an element is computed again after it
 * is stored. */
static bool computes_twice(const Nest *n) {
  for (uint32_t j = 0; n && j < n->loop_count; j++)
    if (n->loops[j].tail == TAIL_SHIFT)
      return true;
  return false;
}

uint64_t kernel_inplace_inputs(const Kernel *k, const Schedule *s,
                               const LoopOutput *output) {
  const LoopNest *loop = k->loops.at[0];
  uint64_t inplace = 0;
  if (!is_infallible_map(k) || computes_twice(s->nests[0]) ||
      !output->global_index)
    return 0;
  for (uint32_t j = 0; j < k->inputs.len && j < 64; j++) {
    const Node *x = k->inputs.at[j];
    if (dtype_info[x->dtype].bytes == dtype_info[output->dtype].bytes &&
        node_element_count(x) == node_element_count(output->node) &&
        reads_only_own_element(loop, j, output->global_index))
      inplace |= UINT64_C(1) << j;
  }
  return inplace;
}
