/* Kernels as text. */
#include "kernel/kernel.h"
#include "support/buffer.h"

/* names: the numbers of axes in text (Kernel.axis_names). */
void kernel_print_affine(Buffer *out, const AffineExpr *q,
                         const uint8_t *names) {
  const char *separator = "";
  if (q->constant) {
    buffer_printf(out, "%lld", (long long)q->constant);
    separator = " + ";
  }
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    if (!q->coef[v])
      continue;
    buffer_puts(out, separator);
    separator = " + ";
    if (q->coef[v] != 1)
      buffer_printf(out, "%lld*", (long long)q->coef[v]);
    buffer_printf(out, "%c%u", v < MAX_KERNEL_AXES ? 'i' : 'q',
                  v < MAX_KERNEL_AXES ? names[v] : v - MAX_KERNEL_AXES);
  }
  if (!*separator)
    buffer_puts(out, "0");
}

void kernel_print_op(Buffer *out, const LoopNest *loop, uint32_t at,
                     const uint8_t *names) {
  const KernelOp *s = &loop->ops.at[at];
  buffer_printf(out, "%%%u %s = ", at, dtype_info[s->dtype].name);
  switch (s->kind) {
  case KOP_CONST:
    scalar_print(out, s->value);
    break;
  case KOP_AFFINE:
    kernel_print_affine(out, s->affine, names);
    break;
  case KOP_LOAD:
    buffer_printf(out, "in%u%s[", s->input, s->packed_bytes ? "*4" : "");
    kernel_print_affine(out, s->address, names);
    for (uint32_t j = 0; j < s->checked_index_count; j++)
      buffer_printf(out, " + %lld*(%%%u < %lld)",
                    (long long)s->checked_indices[j].stride,
                    s->checked_indices[j].index_op,
                    (long long)s->checked_indices[j].extent);
    buffer_puts(out, "]");
    break;
  case KOP_LOAD_LOCAL:
    buffer_printf(out, "local%u.%u[", s->source_loop, s->source_output);
    kernel_print_affine(out, s->address, names);
    buffer_puts(out, "]");
    break;
  case KOP_MAP:
  case KOP_RANDOM:
    buffer_puts(out, prim_info[s->op].name);
    break;
  case KOP_SELECT:
    buffer_puts(out, "choose");
    break;
  case KOP_CONVERT:
    buffer_puts(out, "convert");
    break;
  case KOP_PACK_BF16X2:
    buffer_puts(out, "pair");
    break;
  case KOP_DOT_BYTES:
    buffer_puts(out, "dot");
    break;
  }
  for (uint32_t j = 0; j < s->arg_count; j++)
    buffer_printf(out, " %%%u", s->args[j]);
}

void kernel_print_output(Buffer *out, const LoopOutput *r,
                         const uint8_t *names) {
  if (r->global_index) {
    buffer_printf(out, "out n%u[", r->node->id);
    kernel_print_affine(out, r->global_index, names);
    buffer_puts(out, r->local_index ? "], " : "] = ");
  }
  if (r->local_index) {
    if (r->updates)
      buffer_printf(out, "local%u.%u[", r->state_loop, r->state_output);
    else
      buffer_puts(out, "local[");
    kernel_print_affine(out, r->local_index, names);
    buffer_puts(out, r->updates && r->reduce != PRIM_NONE ? "] with " : "] = ");
  }
  if (r->reduce != PRIM_NONE)
    buffer_printf(out, "%s ", prim_info[r->reduce].name);
  buffer_printf(out, "%%%u", r->value_op);
}

static void print_loop(Buffer *out, const LoopNest *loop,
                       const uint8_t *names) {
  buffer_puts(out, "  loop");
  for (uint32_t v = 0; v < loop->axis_count; v++)
    buffer_printf(out, "%s i%u < %lld",
                  v == loop->spatial_axes    ? " reduce"
                  : v == loop->parallel_axes ? " in each"
                                             : "",
                  names[v], (long long)loop->extents[v]);
  buffer_puts(out, "\n");
  for (uint32_t j = 0; j < loop->floor_div_count; j++) {
    buffer_printf(out, "    q%u = (", j);
    kernel_print_affine(out, &loop->floor_divs[j].dividend, names);
    buffer_printf(out, ") / %lld\n", (long long)loop->floor_divs[j].divisor);
  }
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    buffer_puts(out, "    ");
    kernel_print_op(out, loop, j, names);
    buffer_puts(out, "\n");
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    buffer_puts(out, "    ");
    kernel_print_output(out, &loop->outputs.at[j], names);
    buffer_puts(out, "\n");
  }
}

void kernel_print(Buffer *out, const Kernel *k) {
  buffer_puts(out, "kernel\n");
  for (uint32_t j = 0; j < k->loops.len; j++)
    print_loop(out, k->loops.at[j], k->axis_names);
}
