/* What is known of a kernel before its schedule is chosen, as text: for
 * `axon dump --stage=facts`.  Choosers ask the same functions. */
#include "kernel/kernel.h"
#include "kernel/roofline.h"
#include "support/buffer.h"

typedef struct FactPrinter {
  Buffer *out;
  const Kernel *kernel;
  const LoopNest *loop;
} FactPrinter;

static uint32_t name_of(const FactPrinter *p, uint32_t axis) {
  return p->kernel->axis_names[axis];
}

/* "i0, i2": the axes in a set of variables. */
static void put_axes(const FactPrinter *p, uint64_t axes) {
  const char *separator = "";
  for (uint32_t v = 0; v < p->loop->axis_count; v++)
    if (axes >> v & 1) {
      buffer_printf(p->out, "%si%u", separator, name_of(p, v));
      separator = ", ";
    }
  if (!*separator)
    buffer_puts(p->out, "no axis");
}

/* ---- accesses ---- */

/* The distance in memory of neighbours along each axis. */
static void put_strides(const FactPrinter *p, const AffineExpr *at) {
  const char *separator = "";
  for (uint32_t v = 0; v < p->loop->axis_count; v++)
    if (at->coef[v]) {
      buffer_printf(p->out, "%s%lld along i%u", separator,
                    (long long)at->coef[v], name_of(p, v));
      separator = ", ";
    }
  for (uint32_t j = 0; j < p->loop->floor_div_count; j++)
    if (at->coef[MAX_KERNEL_AXES + j]) {
      buffer_printf(p->out, "%s%lld along the quotient q%u", separator,
                    (long long)at->coef[MAX_KERNEL_AXES + j], j);
      separator = ", ";
    }
  if (!*separator)
    buffer_puts(p->out, "one element");
}

static void put_load(const FactPrinter *p, uint32_t at) {
  const KernelOp *s = &p->loop->ops.at[at];
  if (s->kind == KOP_LOAD)
    buffer_printf(p->out, "  %%%u reads in%u: ", at, s->input);
  else
    buffer_printf(p->out, "  %%%u reads local%u.%u: ", at, s->source_loop,
                  s->source_output);
  put_strides(p, s->address);
  for (uint32_t j = 0; s->kind == KOP_LOAD && j < s->checked_index_count; j++)
    buffer_printf(p->out, ", %lld along the index %%%u",
                  (long long)s->checked_indices[j].stride,
                  s->checked_indices[j].index_op);
  buffer_puts(p->out, "\n");
}

static void put_output(const FactPrinter *p, uint32_t at, uint32_t output) {
  const LoopOutput *r = &p->loop->outputs.at[output];
  if (r->global_index) {
    buffer_printf(p->out, "  stores n%u: ", r->node->id);
    put_strides(p, r->global_index);
    buffer_puts(p->out, "\n");
  }
  if (r->local_index)
    buffer_printf(p->out,
                  "  keeps local%u.%u for later loop nests, elements: "
                  "%lld\n",
                  at, output, (long long)r->local_elements);
}

/* ---- reductions ---- */

static void put_reduction(const FactPrinter *p, const LoopOutput *r) {
  const LoopNest *loop = p->loop;
  uint64_t terms = 0;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    terms |= (uint64_t)1 << v;
  if (r->reduce == PRIM_NONE || !terms)
    return;
  buffer_printf(p->out, "  %s of %%%u over ", prim_info[r->reduce].name,
                r->value_op);
  put_axes(p, terms);
  buffer_puts(p->out, prim_is_arg_reduction(r->reduce)
                          ? "; its terms stay in order\n"
                          : "; its terms may be reordered\n");
}

static void put_factors(const FactPrinter *p, const ContractionPattern *c) {
  for (uint32_t j = 0; j < c->factor_count; j++) {
    buffer_printf(p->out, "%s%%%u (of ",
                  j == 0                 ? ""
                  : c->factor_divides[j] ? " / "
                                         : " * ",
                  c->factors[j]);
    put_axes(p, c->op_vars[c->factors[j]]);
    buffer_puts(p->out, ")");
  }
  for (uint32_t j = 0; j < c->hoisted_count; j++)
    buffer_printf(p->out, "%s%%%u after the sum",
                  c->hoisted_divides[j] ? ", / " : ", * ", c->hoisted[j]);
}

static void put_product(const FactPrinter *p) {
  ContractionPattern c;
  if (!contraction_match(p->kernel->arena, p->loop, &c))
    return;
  buffer_puts(p->out, "  matrix product: ");
  put_factors(p, &c);
  buffer_puts(p->out, "\n");
}

/* ---- bounds ---- */

static void put_bound(const FactPrinter *p, const TrimBound *b) {
  buffer_printf(p->out, "  i%u %s (", name_of(p, p->loop->trimmed_axis),
                b->is_lower ? ">=" : "<=");
  kernel_print_affine(p->out, &b->dividend, p->kernel->axis_names);
  if (b->load)
    buffer_printf(p->out, " + %lld*in%u[…]", (long long)b->load_coef,
                  b->load->input);
  buffer_printf(p->out, ") / %lld: other iterations have no effect\n",
                (long long)b->divisor);
}

/* ---- kernels ---- */

static void put_loop(Buffer *out, const Kernel *k, uint32_t at) {
  const FactPrinter p = {out, k, k->loops.at[at]};
  buffer_printf(out, "loop nest %u\n", at + 1);
  put_product(&p);
  for (uint32_t j = 0; j < p.loop->outputs.len; j++)
    put_reduction(&p, &p.loop->outputs.at[j]);
  for (uint32_t j = 0; j < MAX_TRIM_BOUNDS && j < k->trim_bounds.len; j++)
    if (p.loop->trim_bounds >> j & 1)
      put_bound(&p, &k->trim_bounds.at[j]);
  for (uint32_t j = 0; j < p.loop->ops.len; j++)
    if (p.loop->ops.at[j].kind == KOP_LOAD ||
        p.loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      put_load(&p, j);
  for (uint32_t j = 0; j < p.loop->outputs.len; j++)
    put_output(&p, at, j);
}

static void put_rows(Buffer *out, const Kernel *k) {
  AttentionPattern a;
  int64_t length;
  if (kernel_match_attention(k, &a))
    buffer_printf(
        out, "attention: scores of loop nest %u, weights of loop nest %u\n",
        a.products[0].loop + 1, a.pv_loop + 1);
  if (kernel_can_strip_mine(k, &length))
    buffer_printf(out,
                  "rows of %lld elements can run in strips, with running "
                  "maxima and sums\n",
                  (long long)length);
}

void kernel_print_facts(Buffer *out, const Kernel *from) {
  Kernel *k = kernel_copy(from);
  Cost cost = kernel_cost(k);
  kernel_trim(k, TRIM_ROWS);
  buffer_printf(out,
                "independent iterations: %.0f; operations: %.0f; bytes read: "
                "%.0f, stored: %.0f\n",
                cost.parallel_iterations, kernel_operation_count(k),
                cost.bytes_read, cost.bytes_written);
  if (k->accumulated_axes)
    buffer_printf(out,
                  "axes whose iterations add to sums in memory: the last "
                  "%u\n",
                  k->accumulated_axes);
  put_rows(out, from);
  for (uint32_t j = 0; j < k->loops.len; j++)
    put_loop(out, k, j);
}
