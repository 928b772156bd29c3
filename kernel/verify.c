/* Checks of kernels between passes.
 *
 * A check after each pass finds the pass that breaks a kernel.  Otherwise only
 * the C compiler or a test of values would find the error, in the generated
 * code. Symbolic extents are compared conservatively: only certain errors are
 * reported. */
#include "kernel/verify.h"
#include "support/buffer.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Verifier {
  const Kernel *kernel; /* NULL: the loop stands alone */
  const LoopNest *loop;
  uint32_t loop_index; /* the number of loops: the check of trimmed loops */
  Buffer *message;
} Verifier;

static bool PRINTF_LIKE(2, 3) fail(const Verifier *v, const char *format, ...) {
  va_list arguments;
  if (v->loop)
    buffer_printf(v->message, "loop %u: ", v->loop_index);
  va_start(arguments, format);
  buffer_vprintf(v->message, format, arguments);
  va_end(arguments);
  return false;
}

/* ---- expressions ---- */

static bool is_refuted(const Graph *g, ExtentRelation relation, int64_t x,
                       int64_t y) {
  return extent_decide(g, relation, x, y) == CONTRADICTED;
}

/* A floor division exists if all variables of its dividend exist.  An unused
 * one may refer to axes that were removed. */
static bool var_exists(const LoopNest *loop, uint32_t var, uint32_t depth) {
  if (var < MAX_KERNEL_AXES)
    return var < loop->axis_count;
  if (var - MAX_KERNEL_AXES >= loop->floor_div_count ||
      depth > loop->floor_div_count)
    return false;
  const AffineExpr *x = &loop->floor_divs[var - MAX_KERNEL_AXES].dividend;
  for (uint32_t k = 0; k < MAX_KERNEL_VARS; k++)
    if (x->coef[k] && !var_exists(loop, k, depth + 1))
      return false;
  return true;
}

static bool vars_exist(const Verifier *v, const AffineExpr *x, const char *what,
                       uint32_t at) {
  for (uint32_t k = 0; k < MAX_KERNEL_VARS; k++)
    if (x->coef[k] && !var_exists(v->loop, k, 0))
      return fail(v, "%s %u uses variable %u, which does not exist", what, at,
                  k);
  return true;
}

static bool uses_only_axes(const AffineExpr *x, uint32_t end) {
  for (uint32_t k = end; k < MAX_KERNEL_VARS; k++)
    if (x->coef[k])
      return false;
  return true;
}

/* ---- axes ---- */

static bool check_axes(const Verifier *v) {
  const LoopNest *loop = v->loop;
  if (loop->parallel_axes > loop->spatial_axes ||
      loop->spatial_axes > loop->axis_count ||
      loop->axis_count > MAX_KERNEL_AXES)
    return fail(v, "it has %u parallel, %u spatial and %u axes",
                loop->parallel_axes, loop->spatial_axes, loop->axis_count);
  if (loop->accumulated_axes > loop->parallel_axes ||
      (v->kernel && loop->accumulated_axes &&
       loop->accumulated_axes != v->kernel->accumulated_axes))
    return fail(v, "it accumulates along %u of %u parallel axes",
                loop->accumulated_axes, loop->parallel_axes);
  if (v->kernel && loop->parallel_axes != v->kernel->parallel_axes)
    return fail(v, "it has %u parallel axes, and the kernel %u",
                loop->parallel_axes, v->kernel->parallel_axes);
  for (uint32_t k = 0; k < loop->axis_count; k++) {
    if (is_refuted(loop->graph, EXTENT_LE, 0, loop->extents[k]))
      return fail(v, "the extent of axis %u is negative", k);
    if (v->kernel && k < loop->parallel_axes &&
        loop->extents[k] != v->kernel->loops.at[0]->extents[k])
      return fail(v, "the extent of parallel axis %u is not that of loop 0", k);
  }
  return true;
}

static bool check_floor_divs(const Verifier *v) {
  const LoopNest *loop = v->loop;
  if (loop->floor_div_count > MAX_FLOOR_DIVS)
    return fail(v, "it has %u quotients", loop->floor_div_count);
  for (uint32_t k = 0; k < loop->floor_div_count; k++)
    if (is_refuted(loop->graph, EXTENT_LE, 1, loop->floor_divs[k].divisor))
      return fail(v, "the divisor of quotient %u is less than 1", k);
  return true;
}

/* ---- ops ---- */

static bool arg_count_fits(const KernelOp *op) {
  switch (op->kind) {
  case KOP_CONST:
  case KOP_AFFINE:
  case KOP_LOAD:
  case KOP_LOAD_LOCAL:
    return op->arg_count == 0;
  case KOP_MAP:
    return op->arg_count >= 1 && op->arg_count <= 3;
  case KOP_SELECT:
    return op->arg_count == 3;
  case KOP_CONVERT:
  case KOP_RANDOM:
    return op->arg_count == 1;
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    return op->arg_count == 2;
  }
  return false;
}

static bool check_load(const Verifier *v, const KernelOp *op, uint32_t at) {
  if (!op->address)
    return fail(v, "op %u loads without an address", at);
  if (!vars_exist(v, op->address, "op", at))
    return false;
  for (uint32_t k = 0; k < op->checked_index_count; k++)
    if (op->checked_indices[k].index_op >= at)
      return fail(v, "op %u reads op %u before it is computed", at,
                  op->checked_indices[k].index_op);
  if (v->kernel && op->input >= v->kernel->inputs.len)
    return fail(v, "op %u loads input %u of %u", at, op->input,
                v->kernel->inputs.len);
  return true;
}

static bool check_load_local(const Verifier *v, const KernelOp *op,
                             uint32_t at) {
  if (!op->address)
    return fail(v, "op %u loads without an address", at);
  bool is_own = op->source_loop == v->loop_index;
  if (!v->kernel || (!is_own && op->source_loop >= v->loop_index))
    return fail(v, "op %u reads local values of loop %u before it runs", at,
                op->source_loop);
  const LoopNest *source =
      is_own ? v->loop : v->kernel->loops.at[op->source_loop];
  if (op->source_output >= source->outputs.len)
    return fail(v, "op %u reads output %u of loop %u, which does not exist", at,
                op->source_output, op->source_loop);
  if (is_own && source->outputs.at[op->source_output].reduce != PRIM_FOLD)
    return fail(v, "op %u reads output %u of its loop, which is no state", at,
                op->source_output);
  if (!is_own && !source->outputs.at[op->source_output].local_index)
    return fail(v, "op %u reads output %u of loop %u, which is not local", at,
                op->source_output, op->source_loop);
  return vars_exist(v, op->address, "op", at);
}

static bool check_op(const Verifier *v, uint32_t at) {
  const KernelOp *op = &v->loop->ops.at[at];
  if (!arg_count_fits(op))
    return fail(v, "op %u has %u arguments", at, op->arg_count);
  for (uint32_t k = 0; k < op->arg_count; k++)
    if (op->args[k] >= at)
      return fail(v, "op %u reads op %u before it is computed", at,
                  op->args[k]);
  switch (op->kind) {
  case KOP_AFFINE:
    return vars_exist(v, op->affine, "op", at);
  case KOP_LOAD:
    return check_load(v, op, at);
  case KOP_LOAD_LOCAL:
    return check_load_local(v, op, at);
  case KOP_CONST:
  case KOP_MAP:
  case KOP_SELECT:
  case KOP_CONVERT:
  case KOP_RANDOM:
  case KOP_PACK_BF16X2:
  case KOP_DOT_BYTES:
    break;
  }
  return true;
}

/* ---- outputs ---- */

/* Intervals are not exact for floor divisions, such as i - 4 * (i / 4). */
static bool check_range(const Verifier *v, const AffineExpr *x, int64_t count,
                        uint32_t output, const char *where) {
  const Graph *g = v->loop->graph;
  int64_t low, high;
  if (!uses_only_axes(x, v->loop->axis_count) ||
      !affine_bounds(v->loop, x, &low, &high) || count == INT64_MAX)
    return true;
  if (is_refuted(g, EXTENT_LE, 0, low) ||
      (extent_is_static(g, high) && extent_is_static(g, count) &&
       high >= count))
    return fail(v, "output %u is written outside of its %s", output, where);
  return true;
}

static bool check_place(const Verifier *v, const AffineExpr *x, int64_t count,
                        uint32_t output, const char *where) {
  const LoopOutput *r = &v->loop->outputs.at[output];
  if (!vars_exist(v, x, "output", output))
    return false;
  for (uint32_t k = v->loop->spatial_axes; k < v->loop->axis_count; k++)
    if (r->reduce != PRIM_NONE && x->coef[k])
      return fail(v, "output %u is written along axis %u, which it reduces",
                  output, k);
  for (uint32_t k = v->loop->parallel_axes - v->loop->accumulated_axes;
       k < v->loop->parallel_axes; k++)
    if (x->coef[k])
      return fail(v, "output %u is written along axis %u, which it accumulates",
                  output, k);
  return check_range(v, x, count, output, where);
}

/* An output that updates local values has them in the same places. */
static bool check_update(const Verifier *v, uint32_t at) {
  const LoopOutput *r = &v->loop->outputs.at[at];
  if (!v->kernel || r->state_loop >= v->loop_index)
    return fail(v, "output %u updates values of loop %u before it runs", at,
                r->state_loop);
  const LoopNest *source = v->kernel->loops.at[r->state_loop];
  const LoopOutput *state = r->state_output < source->outputs.len
                                ? &source->outputs.at[r->state_output]
                                : NULL;
  if (!state || !r->local_index || !state->local_index || state->updates ||
      state->dtype != r->dtype || state->local_elements != r->local_elements)
    return fail(v,
                "output %u updates output %u of loop %u, which is no such "
                "state",
                at, r->state_output, r->state_loop);
  return true;
}

static bool check_output(const Verifier *v, uint32_t at) {
  const LoopOutput *r = &v->loop->outputs.at[at];
  if (r->value_op >= v->loop->ops.len)
    return fail(v, "output %u is op %u of %u", at, r->value_op,
                v->loop->ops.len);
  if (r->reduce == PRIM_FOLD && r->initial_op >= v->loop->ops.len)
    return fail(v, "state %u begins with op %u of %u", at, r->initial_op,
                v->loop->ops.len);
  if (r->global_index && !r->node)
    return fail(v, "output %u is stored, and has no node", at);
  if (r->global_index &&
      !check_place(v, r->global_index, node_element_count(r->node), at,
                   "tensor"))
    return false;
  if (r->updates && !check_update(v, at))
    return false;
  return !r->local_index ||
         check_place(v, r->local_index, r->local_elements, at, "local values");
}

/* ---- kernels ---- */

static bool check_trimming(const Verifier *v) {
  const LoopNest *loop = v->loop;
  uint32_t count = v->kernel ? v->kernel->trim_bounds.len : 0;
  if (count < 32 && loop->trim_bounds >> count)
    return fail(v, "it has a bound that the kernel does not have");
  if ((loop->trim_bounds || loop->strip_mined) &&
      loop->trimmed_axis >= loop->axis_count)
    return fail(v, "the trimmed axis %u does not exist", loop->trimmed_axis);
  return true;
}

static bool check_loop(const Verifier *v) {
  if (!check_axes(v) || !check_floor_divs(v) || !check_trimming(v))
    return false;
  for (uint32_t k = 0; k < v->loop->ops.len; k++)
    if (!check_op(v, k))
      return false;
  for (uint32_t k = 0; k < v->loop->outputs.len; k++)
    if (!check_output(v, k))
      return false;
  return true;
}

static bool check_trim_bounds(const Verifier *v) {
  const Kernel *k = v->kernel;
  for (uint32_t j = 0; j < k->trim_bounds.len; j++)
    if (!uses_only_axes(&k->trim_bounds.at[j].dividend, k->parallel_axes) ||
        (k->trim_bounds.at[j].load &&
         !uses_only_axes(k->trim_bounds.at[j].load->address,
                         k->parallel_axes)) ||
        k->trim_bounds.at[j].divisor < 1)
      return fail(v,
                  "bound %u is not of parallel axes, or divides by less "
                  "than 1",
                  j);
  return true;
}

bool kernel_verify(const Kernel *k, Buffer *message) {
  Verifier v = {.kernel = k, .message = message};
  if (!check_trim_bounds(&v))
    return false;
  if (k->strip_begin > k->strip_end || k->strip_end > k->loops.len)
    return fail(&v, "loops %u to %u of %u are strip-mined", k->strip_begin,
                k->strip_end, k->loops.len);
  if (k->strip_end &&
      (k->retry_begin > k->strip_begin || k->retry_end < k->strip_end ||
       k->retry_end > k->loops.len))
    return fail(&v, "loops %u to %u run again, and the strips are %u to %u",
                k->retry_begin, k->retry_end, k->strip_begin, k->strip_end);
  for (; v.loop_index < k->loops.len; v.loop_index++) {
    v.loop = k->loops.at[v.loop_index];
    if (!check_loop(&v))
      return false;
  }
  const LoopNest *checks[2] = {k->trim_check, k->retry_check};
  for (uint32_t j = 0; j < 2; j++) {
    v.loop = checks[j];
    if (v.loop && !check_loop(&v))
      return false;
  }
  return true;
}

/* ---- after passes ---- */

bool kernel_verify_is_on(void) {
  const char *setting = getenv("AXON_VERIFY");
  return setting && *setting;
}

static void abort_if_wrong(bool right, const char *pass, Buffer *message) {
  if (!right) {
    fprintf(stderr, "axon: internal error in %s: %s\n", pass, message->text);
    abort();
  }
  buffer_free(message);
}

void loop_verify_after(const LoopNest *loop, const char *pass) {
  Buffer message = {0};
  if (kernel_verify_is_on())
    abort_if_wrong(check_loop(&(Verifier){.loop = loop, .message = &message}),
                   pass, &message);
}

void kernel_verify_after(const Kernel *k, const char *pass) {
  Buffer message = {0};
  if (!kernel_verify_is_on())
    return;
  bool right = kernel_verify(k, &message);
  if (!right) {
    buffer_puts(&message, "\n");
    kernel_print(&message, k);
  }
  abort_if_wrong(right, pass, &message);
}
