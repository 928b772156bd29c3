/* Prepacked operands of matmuls, and the functions that pack them. */
#include "backend/cpu/prepack.h"

#include "backend/cpu/gemm.h"

#define format emit_format

/* ---- cache key ---- */

static void hash_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void hash_affine(Buffer *b, const LoopNest *loop, const AffineExpr *q,
                        uint32_t n_axis, int64_t from) {
  hash_number(b, q->constant - from);
  hash_number(b, q->coef[n_axis]);
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    hash_number(b, q->coef[v]);
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    hash_number(b, q->coef[MAX_KERNEL_AXES + j]);
}

static void hash_op(Buffer *b, const LoopNest *loop, const KernelOp *s,
                    uint32_t n_axis, int64_t from) {
  hash_number(b, (int64_t)s->kind << 32 | s->dtype);
  hash_number(b, (int64_t)s->op << 32 | s->arg_count);
  for (uint32_t j = 0; j < s->arg_count; j++)
    hash_number(b, s->args[j]);
  if (s->kind == KOP_CONST)
    hash_number(b, s->value.i);
  if (s->kind == KOP_AFFINE)
    hash_affine(b, loop, s->affine, n_axis, 0);
  if (s->kind != KOP_LOAD)
    return;
  hash_affine(b, loop, s->address, n_axis, from);
  hash_number(b, s->packed_pairs);
  hash_number(b, s->packed_elements);
}

static const KernelOp *the_load(const LoopNest *loop) {
  uint32_t j = 0;
  while (loop->ops.at[j].kind != KOP_LOAD)
    j++;
  return &loop->ops.at[j];
}

/* Returns true if each panel has a flag per block of terms: it contains inf or
 * NaN. */
static bool has_nonfinite_flags(const GemmTiling *t) {
  return t->window && t->window->padding.group_terms &&
         dtype_is_float(t->accumulator_dtype);
}

/* Hash of the layout, except for the element at which it begins. */
static ArtifactKey prepacked_layout_key(Emitter *e, const GemmTiling *t,
                                        const Operand *o, uint32_t n_axis) {
  const LoopNest *loop = o->loop;
  int64_t from = the_load(loop)->address->constant;
  Buffer b = {.arena = e->arena};
  hash_number(&b, (int64_t)t->nr_vectors << 32 | e->width);
  hash_number(&b, t->element_dtype);
  hash_number(&b, loop->extents[n_axis]);
  hash_number(&b, loop->axis_count - loop->spatial_axes);
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    hash_number(&b, loop->extents[v]);
  hash_number(&b, loop->floor_div_count);
  for (uint32_t j = 0; j < loop->floor_div_count; j++) {
    hash_affine(&b, loop, &loop->floor_divs[j].dividend, n_axis, 0);
    hash_number(&b, loop->floor_divs[j].divisor);
  }
  for (uint32_t j = 0; j < loop->ops.len; j++)
    hash_op(&b, loop, &loop->ops.at[j], n_axis, from);
  hash_number(&b, loop->outputs.at[0].value_op);
  hash_number(&b, has_nonfinite_flags(t) ? t->kc : 0);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* ---- C source ---- */

/* Emits the packing function before the kernel, with its own function head. */
static void emit_pack_function(Emitter *e, const GemmTiling *t,
                               const Operand *o, uint32_t n_axis,
                               uint32_t prepacked_index) {
  Buffer saved_head = e->function.head, task_code = {.arena = e->arena},
         body = task_code;
  uint32_t input = the_load(o->loop)->input;
  e->function.head = task_code;
  gemm_pack_b(e, t, o, n_axis, &task_code, &body);
  buffer_printf(&e->cpu->pack_functions,
                "static __attribute__((noinline)) void\n"
                "copy%u(const %s *const p%u, const int64_t *n, const double *c,"
                "\n%s *b, int64_t n0, int64_t n1, int64_t from, int64_t to) {\n"
                "(void)n, (void)c;\n",
                prepacked_index,
                memory_type(e->kernel->inputs.at[input]->dtype), input,
                memory_type(t->element_dtype));
  emit_append(&e->cpu->pack_functions, &e->function.head);
  emit_append(&e->cpu->pack_functions, &task_code);
  emit_append(&e->cpu->pack_functions, &body);
  buffer_puts(&e->cpu->pack_functions, "}\n");
  e->function.head = saved_head;
}

bool prepack_begin(Emitter *e, const GemmTiling *t, const Operand *o,
                   uint32_t n_axis, uint32_t loop_index,
                   uint32_t *prepacked_index) {
  if (!o->may_prepack || *e->suffix)
    return false;
  CpuKernel *kernel = e->cpu->out;
  for (*prepacked_index = 0; *prepacked_index < kernel->prepacked.len;
       ++*prepacked_index)
    if (kernel->prepacked.at[*prepacked_index].loop == loop_index)
      return true;
  int64_t columns = (int64_t)t->nr_vectors * e->width;
  int64_t panels = emit_extent_ceil_div(e, o->loop->extents[n_axis], columns);
  int64_t elements =
      emit_extent_mul(e, emit_extent_mul(e, panels, columns), t->depth);
  PrepackedOperand k = {.loop = loop_index,
                        .input = the_load(o->loop)->input,
                        .panel_count = panels,
                        .offset = the_load(o->loop)->address->constant,
                        .prepack_pays = o->prepack_pays,
                        .packs_once = o->packs_once,
                        .c_type = memory_type(t->element_dtype)};
  k.panel_columns = emit_int(e, columns);
  k.extent = emit_int(e, o->loop->extents[n_axis]);
  k.depth = emit_int(e, t->depth);
  elements = emit_extent_add(e, elements,
                             e->width); /* the last load reads beyond the end */
  if (has_nonfinite_flags(t)) {
    int64_t kc_blocks = emit_extent_ceil_div(e, t->depth, t->kc);
    k.nonfinite_flags = emit_int(e, elements);
    k.kc_blocks = emit_int(e, kc_blocks);
    k.kc = emit_int(e, t->kc);
    elements =
        emit_extent_add(e, elements, emit_extent_mul(e, panels, kc_blocks));
  }
  k.bytes = emit_extent_mul(e, elements, dtype_info[t->element_dtype].bytes);
  k.layout_key = prepacked_layout_key(e, t, o, n_axis);
  VEC_PUSH(e->arena, kernel->prepacked, k);
  emit_pack_function(e, t, o, n_axis, *prepacked_index);
  return true;
}

void prepack_emit_call(Emitter *e, uint32_t prepacked_index, Buffer *out) {
  buffer_printf(out, "copy%u(p%u, n, numbers, b, n0, n1, from, to);\n",
                prepacked_index,
                e->cpu->out->prepacked.at[prepacked_index].input);
}

const char *prepack_nonfinite_flag(Emitter *e, uint32_t prepacked_index) {
  const PrepackedOperand *k = &e->cpu->out->prepacked.at[prepacked_index];
  return format(e, "kept%u[%s + first / %s * %s + from / %s]", prepacked_index,
                k->nonfinite_flags, k->panel_columns, k->kc_blocks, k->kc);
}

/* Computes the flags of a panel. */
static void emit_nonfinite_flags(const PrepackedOperand *k, Buffer *out) {
  buffer_printf(
      out,
      "for (int64_t pass = 0; pass < %s; pass++) {\n"
      "const int64_t from = pass * %s;\n"
      "const int64_t terms = %s - from < %s ? %s - from : %s;\n"
      "to[%s + u * %s + pass] = !sound_%c(to + n0 * %s + from * %s, terms,\n"
      "n1 - n0, %s);\n}\n",
      k->kc_blocks, k->kc, k->depth, k->kc, k->depth, k->kc, k->nonfinite_flags,
      k->kc_blocks, k->c_type[0], k->depth, k->panel_columns, k->panel_columns);
}

void emit_prepack_functions(Emitter *e, Buffer *out) {
  const CpuKernel *kernel = e->cpu->out;
  const Call *call = &kernel->code.call;
  for (uint32_t j = 0; j < kernel->prepacked.len; j++) {
    const PrepackedOperand *k = &kernel->prepacked.at[j];
    buffer_printf(
        out,
        "int keep%u" TASK_PARAMETERS "(void)room;\n%s *const to = p[%u];\n"
        "for (int64_t u = begin; u < end; u++) {\n"
        "const int64_t n0 = u * %s, n1 = n0 + %s < %s ? n0 + %s : %s;\n"
        "copy%u(p[%u], n, c, to + n0 * %s, n0, n1, 0, %s);\n",
        j, k->c_type, call->outputs.len + e->kernel->inputs.len + j,
        k->panel_columns, k->panel_columns, k->extent, k->panel_columns,
        k->extent, j, call->outputs.len + k->input, k->depth, k->depth);
    if (k->nonfinite_flags)
      emit_nonfinite_flags(k, out);
    buffer_puts(out, "}\nreturn 0;\n}\n");
  }
}
