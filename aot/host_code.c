/* Emits the statements of a function.
 *
 * A *region* is a list of nodes that are computed at one place.  It is planned
 * and partitioned into fusion groups as in immediate execution (plan/fusion.c,
 * plan/fusion_groups.c).  The groups become kernel calls.  A loop body is a
 * separate region; the values that it reads from outside are stored before the
 * loop. */
#include "aot/host_code.h"

#include "backend/target.h"
#include "plan/region.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/interrupt.h"
#include "support/trap.h"
#include "tensor/node.h"
#include "tensor/scalar_ops.h"

#include <string.h>

typedef VEC(Node *) NodeVec;

/* ---- broadcasts ---- */

static NodeShape node_shape_of(const Node *n) {
  return (NodeShape){n->free_count, n->rank, n->broadcast_mask, n->free_vars,
                     n->extents + n->free_count};
}

/* Broadcasts x along the free indices and broadcast axes that it lacks. */
static Node *broadcast_to(HostEmitter *e, Node *x, NodeShape s) {
  Fault fault = {0};
  if (node_has_shape(x, &s))
    return x;
  Node *n = node_broadcast_to_shape(e->graph, x, &s, &fault);
  if (!n)
    host_emit_unsupported(e, x->span, fault.message);
  VEC_PUSH(e->arena, e->retained_nodes, n);
  return n;
}

/* ---- operands of loops ---- */

typedef struct NodeWalk {
  HostEmitter *e;
  Map seen;
  uint32_t loop_depth; /* of the loop */
  NodeVec found;
} NodeWalk;

static void each_operand(Node *n, void (*f)(NodeWalk *, Node *), NodeWalk *w) {
  f(w, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    f(w, n->inputs[k]);
  for (uint32_t k = 0; k < n->body_op_count; k++)
    if (n->body_ops[k].kind == BODY_READ)
      f(w, n->body_ops[k].node);
}

static bool visit_once(NodeWalk *w, Node *n) {
  interrupt_poll();
  if (!n || node_is_materialized(n) || map_get(&w->seen, n))
    return false;
  map_put(&w->seen, n, n);
  return true;
}

/* True for a short expression of indices only.  *op_budget: remaining
 * operations. */
static bool is_index_expression(const Node *n, uint32_t *op_budget) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE ||
      node_is_materialized(n) || n->body_op_count > *op_budget)
    return false;
  *op_budget -= n->body_op_count;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_RANDOM ||
        (c->kind == BODY_READ && !is_index_expression(c->node, op_budget)))
      return false;
  }
  return true;
}

/* True for constants, indices, and data movement. */
static bool is_view(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE)
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_RANDOM || c->kind == BODY_CONVERT ||
        c->kind == BODY_SELECT || (c->kind == BODY_OP && c->dtype != DT_I64))
      return false;
  }
  return true;
}

static bool is_rematerialized(const Node *n) {
  uint32_t op_budget = 64;
  return is_view(n) || is_index_expression(n, &op_budget);
}

static void find_captures(NodeWalk *w, Node *n) {
  if (!visit_once(w, n))
    return;
  if (n->loop_depth < w->loop_depth && !is_rematerialized(n)) {
    VEC_PUSH(w->e->arena, w->found, n);
    return;
  }
  each_operand(n, find_captures, w);
  const LoopBody *l = n->loop_body;
  if (l)
    find_captures(w, l->condition);
  for (uint32_t k = 0; l && k < l->carry_count + l->stacked_count; k++)
    find_captures(w, l->results[k]);
}

static void set_captures(HostEmitter *e, LoopBody *l) {
  NodeWalk w = {.e = e, .loop_depth = l->iteration->loop_depth};
  map_init(&w.seen, e->arena);
  find_captures(&w, l->condition);
  for (uint32_t k = 0; k < l->carry_count + l->stacked_count; k++)
    find_captures(&w, l->results[k]);
  l->captures = w.found.at;
  l->capture_count = w.found.len;
}

/* Broadcasts the initial values of loop-carried variables to the shapes of the
 * variables. */
static void broadcast_carry_inits(HostEmitter *e, Node *n) {
  for (uint32_t k = 0; k < n->input_count; k++) {
    Node *x =
        broadcast_to(e, n->inputs[k], node_shape_of(n->loop_body->carry_in[k]));
    if (x == n->inputs[k])
      continue;
    node_retain(x);
    node_release(n->inputs[k]);
    n->inputs[k] = x;
  }
}

static void find_loops(NodeWalk *w, Node *n) {
  if (!visit_once(w, n))
    return;
  if (n->loop_body) {
    if (n->loop_body->condition && n->loop_body->condition->free_count)
      host_emit_unsupported(
          w->e, n->span,
          "a `while` in a `for` whose trip count depends on the index");
    set_captures(w->e, n->loop_body);
    broadcast_carry_inits(w->e, n);
    for (uint32_t k = 0; k < n->loop_body->capture_count; k++)
      find_loops(w, n->loop_body->captures[k]);
  }
  each_operand(n, find_loops, w);
}

/* ---- fusion groups ---- */

static uint32_t line_of(const HostEmitter *e, Span span) {
  const Source *source =
      span.file ? sources_get(&e->session->sources, span.file) : NULL;
  uint32_t line = 0, column;
  if (source && !source->is_library)
    source_line_and_column(source, span.start, &line, &column);
  return line;
}

/* The position in the program; for library code, the position of the
 * function. */
static Span span_of(const HostEmitter *e, const Node *n) {
  return line_of(e, n->span) ? n->span : e->trace->span;
}

/* version_summary: the sizes that have specialized versions; or NULL. */
static void emit_kernel_comment(HostEmitter *e, const Node *n,
                                const char *version_summary) {
  Buffer type = {.arena = e->arena}, text = {.arena = e->arena};
  node_print_type(e->graph, &type, n);
  Span span = span_of(e, n);
  uint32_t line = line_of(e, span);
  const char *what = source_excerpt(e->arena, &e->session->sources, span);
  if (line)
    buffer_printf(&text, "line %u: %s : ", line, what ? what : "");
  buffer_puts(&text, type.text);
  if (version_summary && strchr(version_summary, ';'))
    buffer_printf(&text, ", with versions for %s", version_summary);
  for (char *at = text.text; *at; at++) /* must not end the comment */
    if ((at[0] == '*' && at[1] == '/') || (at[0] == '/' && at[1] == '*'))
      at[0] = ' ';
  host_emit_line(e, "/* %s */", text.text);
  VEC_PUSH(e->arena, e->manifest_kernels,
           ((ManifestKernel){type.text, version_summary, line}));
}

static uint32_t check_code(void *driver, const KernelOp *s) {
  const char *message = s->kind == KOP_LOAD
                            ? "an index is out of bounds"
                            : arith_message(map_info[s->op].fault);
  return host_emit_error_code(driver, s->span, message);
}

static bool is_gathered(const Kernel *k, uint32_t input) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind == KOP_LOAD && s->input == input && s->checked_index_count)
        return true;
    }
  return false;
}

/* If the array of a checked gather is empty, an invalid index must not read
 * from it: passes a valid pointer instead. */
static const char *nonempty_pointer(HostEmitter *e, const Node *x,
                                    const char *name) {
  uint32_t axes = x->free_count + x->rank;
  int64_t *min = NEW_ARRAY(e->arena, int64_t, axes + 1);
  bool empty = false;
  for (uint32_t k = 0; k < axes; k++) {
    bool is_nonempty = extent_proved(e->graph, EXTENT_LE, 1, x->extents[k]);
    min[k] =
        is_nonempty ? x->extents[k] : extent_max(e->graph, x->extents[k], 1);
    empty |= !is_nonempty;
  }
  if (!empty)
    return name;
  const char *other = host_emit_fresh_name(e, "t"),
             *type = host_emit_c_type(x->dtype);
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "%s *%s = NULL;", type, other));
  const char *count = host_emit_element_count(e, axes, x->extents);
  const char *malloc_call =
      e->is_cuda ? host_emit_format(e, "(%s *)allocate(x, ", type)
                 : "allocate(";
  host_emit_line(e, "if (%s <= 0 && !%s && !(%s = %s%s, sizeof *%s, 1)))",
                 count, other, other, malloc_call,
                 host_emit_element_count(e, axes, min), other);
  host_emit_line(e, "  %s", host_emit_fail(e, (Span){0}, "out of memory"));
  Allocation *m = NEW(e->arena, Allocation);
  *m = (Allocation){other, true, e->statements.len};
  VEC_PUSH(e->arena, e->owned_allocations, m);
  return host_emit_format(e, "%s <= 0 ? (const void *)%s : %s", count, other,
                          name);
}

/* Lists outputs and inputs: "o_out, (void *)(p_x)". */
static const char *pointer_args(HostEmitter *e, const Kernel *k,
                                const NodeList *results) {
  Buffer out = {.arena = e->arena};
  for (uint32_t j = 0; j < results->len; j++)
    buffer_printf(&out, "%s%s", j ? ", " : "",
                  host_emit_dense_pointer(e, results->at[j]));
  for (uint32_t j = 0; j < k->inputs.len; j++) {
    const Node *x = k->inputs.at[j];
    const char *name = host_emit_input_pointer(e, x);
    if (is_gathered(k, j))
      name = nonempty_pointer(e, x, name);
    buffer_printf(&out, ", (void *)(%s)", name);
  }
  return out.text;
}

static void emit_kernel_call(HostEmitter *e, const Kernel *k,
                             const NodeList *results, uint32_t number) {
  host_emit_line(e, "code = run%u(z, (void *[]){%s});", number,
                 pointer_args(e, k, results));
  host_emit_line(e, "if (code) goto done;");
}

/* Lists the sizes of outputs and inputs in bytes. */
static const char *byte_counts(HostEmitter *e, const Kernel *k,
                               const NodeList *results) {
  Buffer out = {.arena = e->arena};
  for (uint32_t j = 0; j < results->len + k->inputs.len; j++) {
    const Node *n =
        j < results->len ? results->at[j] : k->inputs.at[j - results->len];
    buffer_printf(
        &out, "%s%s * %u", j ? ", " : "",
        host_emit_element_count(e, n->free_count + n->rank, n->extents),
        dtype_info[n->dtype].bytes);
  }
  return out.text;
}

/* Emits a kernel call.  Errors are collected and reported at the end. */
static void emit_kernel_launch(HostEmitter *e, const Kernel *k,
                               const AotKernelInfo *added, uint32_t number) {
  const NodeList *results = &added->outputs;
  const char *pointers = pointer_args(e, k, results);
  const char *line_args = host_emit_format(
      e, "(x, %u, %u, p, b, q);", results->len, results->len + k->inputs.len);
  host_emit_open_block(e, "");
  host_emit_line(e, "void *const %s[] = {%s};",
                 added->requires_align16 ? "p" : "q", pointers);
  if (added->requires_align16) {
    host_emit_line(e, "const int64_t b[] = {%s};", byte_counts(e, k, results));
    host_emit_line(e, "void *q[%u];", results->len + k->inputs.len);
    host_emit_line(e, "begin_lines%s", line_args);
  }
  host_emit_line(e, "run%u(x, z, q, flag(x, %u));", number,
                 added->has_checks ? e->checking_kernels.len : 0);
  if (added->requires_align16)
    host_emit_line(e, "end_lines%s", line_args);
  host_emit_close_block(e);
  host_emit_line(e, "if (x->failed) goto done;");
  if (added->has_checks)
    VEC_PUSH(e->arena, e->checking_kernels, number);
}

/* True if n is not statically empty. */
static bool has_elements(const Node *n) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    if (n->extents[k] == 0)
      return false;
  return true;
}

static const char *size_display_name(void *driver, const DimVar *v) {
  const HostEmitter *e = driver;
  for (uint32_t k = 0; k < e->trace->size_count; k++)
    if (e->trace->sizes[k].var == v)
      return e->trace->sizes[k].name;
  return "?";
}

/* Checks the iteration count of each kernel: it may be too large even if all
 * arrays are small. */
static void emit_iteration_limits(HostEmitter *e, const FusionGroup *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const Node *n = c->nodes.at[k];
    host_emit_size_limit(
        e, n->free_count + n->rank + n->reduce_count, n->extents, 1,
        span_of(e, n),
        host_emit_format(e,
                         "%s: sizes are too large: more than 2^59 "
                         "steps",
                         e->trace->name));
  }
}

/* Adds the schedule of a kernel, unless an equal kernel has it. */
static void note_schedule(HostEmitter *e, const Node *n) {
  Buffer *out = &e->module->schedules;
  const char *entry =
      e->is_cuda ? e->module->cuda.schedules.text : e->module->kernels.schedule;
  Span span = span_of(e, n);
  const char *what = source_excerpt(e->arena, &e->session->sources, span);
  if (!entry || (out->text && strstr(out->text, entry)))
    return;
  buffer_printf(out, "%s(* %s: ", out->len ? "\n" : "", e->name);
  schedule_put_comment(out, what ? what : "");
  buffer_printf(out, ", line %u *)\n%s", line_of(e, span), entry);
}

static void emit_kernel(HostEmitter *e, const FusionGroup *c) {
  const AotCaller caller = {e, host_emit_extent_var, size_display_name,
                            check_code};
  emit_iteration_limits(e, c);
  AotKernelInfo added;
  NodeList results;
  uint32_t number = UINT32_MAX;
  if (c->kernel && e->is_cuda) {
    number = cuda_aot_module_add(&e->module->cuda, c, &caller, &added);
    results = added.outputs;
  } else if (c->kernel) {
    number = aot_module_add(&e->module->kernels, c, &caller, &results);
  }
  if (number == UINT32_MAX) {
    e->needs_unfused = true;
    trap_raise(FAIL_ERROR);
  }
  note_schedule(e, results.at[0]);
  for (uint32_t j = 0; j < results.len; j++) {
    emit_kernel_comment(e, results.at[j],
                        e->is_cuda ? NULL : e->module->kernels.version_summary);
    host_emit_allocate(e, (Node *)(uintptr_t)results.at[j], false);
  }
  if (e->is_cuda)
    emit_kernel_launch(e, c->kernel, &added, number);
  else
    emit_kernel_call(e, c->kernel, &results, number);
}

/* ---- loops ---- */

static void emit_region(HostEmitter *e, uint32_t count, Node *const *roots,
                        const char *const *names, uint32_t depth);

typedef struct LoopCode {
  LoopBody *loop;
  NodeVec outputs;
  const char **carry, **next_carry; /* buffers */
  const char *iteration, *device_iteration;
} LoopCode;

static void emit_carry_init(HostEmitter *e, LoopCode *t) {
  const LoopBody *l = t->loop;
  t->carry = NEW_ARRAY(e->arena, const char *, l->carry_count + 1);
  t->next_carry = NEW_ARRAY(e->arena, const char *, l->carry_count + 1);
  for (uint32_t k = 0; k < l->carry_count; k++) {
    Node *state = l->carry_in[k];
    uint32_t axes = state->free_count + state->rank;
    t->carry[k] = host_emit_allocate(e, state, false);
    if (axes == 0 && !e->is_cuda) {
      t->next_carry[k] = host_emit_fresh_name(e, "t");
      VEC_PUSH(e->arena, e->declarations,
               host_emit_format(e, "%s %s[1] = {0};",
                                host_emit_c_type(state->dtype),
                                t->next_carry[k]));
    } else {
      const char *count = host_emit_element_count(e, axes, state->extents);
      t->next_carry[k] = host_emit_malloc(e, state->dtype, count, false);
      Allocation *m = NEW(e->arena, Allocation);
      *m = (Allocation){t->next_carry[k], true, e->statements.len};
      VEC_PUSH(e->arena, e->owned_allocations, m);
    }
    host_emit_copy(e, state, t->carry[k],
                   host_emit_dense_pointer(e, t->outputs.at[0]->inputs[k]));
  }
  t->iteration = host_emit_fresh_name(e, "iteration");
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "int64_t %s[1] = {0};", t->iteration));
  if (e->is_cuda) /* also in device memory, for kernels */
    t->device_iteration = host_emit_malloc(e, DT_I64, "1", false);
  host_emit_assign_buffer(e, l->iteration,
                          e->is_cuda ? t->device_iteration : t->iteration,
                          e->is_cuda);
}

/* The slice of an output that one iteration writes, if it is contiguous. */
static const char *stacked_slice(HostEmitter *e, const LoopCode *t, Node *out) {
  const char *own = host_emit_element_count(e, out->rank - 1,
                                            out->extents + out->free_count + 1);
  return host_emit_format(e, "(%s + %s[0] * %s)",
                          host_emit_dense_pointer(e, out), t->iteration, own);
}

static void emit_stacked_store(HostEmitter *e, const LoopCode *t, Node *out,
                               Node *made) {
  const char *from = host_emit_dense_pointer(e, made);
  uint32_t first = out->free_count;
  const char *own =
      host_emit_element_count(e, out->rank - 1, out->extents + first + 1);
  if (!first) {
    const char *to = stacked_slice(e, t, out);
    if (strcmp(to, from) != 0)
      host_emit_line(e, "copy(%s%s, %s, %s, sizeof *%s);",
                     e->is_cuda ? "x, " : "", to, from, own, to);
    return;
  }
  const char *f = host_emit_fresh_name(e, "f"),
             *to = host_emit_dense_pointer(e, out);
  host_emit_open_block(
      e, host_emit_format(e, "for (int64_t %s = 0; %s < %s; %s++)", f, f,
                          host_emit_element_count(e, first, out->extents), f));
  host_emit_line(e,
                 "copy(%s%s + (%s * %s + %s[0]) * %s, %s + %s * %s, %s, "
                 "sizeof *%s);",
                 e->is_cuda ? "x, " : "", to, f,
                 host_emit_extent(e, t->loop->trip_count), t->iteration, own,
                 from, f, own, own, to);
  host_emit_close_block(e);
}

static void emit_iteration(HostEmitter *e, LoopCode *t) {
  const LoopBody *l = t->loop;
  uint32_t count = 0, max = l->carry_count + t->outputs.len;
  Node **roots = NEW_ARRAY(e->arena, Node *, max + 1);
  const char **names = NEW_ARRAY(e->arena, const char *, max + 1);
  for (; count < l->carry_count; count++) {
    roots[count] =
        broadcast_to(e, l->results[count], node_shape_of(l->carry_in[count]));
    names[count] = t->next_carry[count];
  }
  for (uint32_t k = 0; k < t->outputs.len; k++) {
    Node *out = t->outputs.at[k];
    if (out->output_index < l->carry_count)
      continue;
    Node *made = l->results[out->output_index];
    NodeShape s = {out->free_count, made->rank, made->broadcast_mask,
                   out->free_vars, made->extents + made->free_count};
    roots[count] = broadcast_to(e, made, s);
    names[count++] = out->free_count ? NULL : stacked_slice(e, t, out);
  }
  emit_region(e, count, roots, names, l->iteration->loop_depth);
  count = l->carry_count;
  for (uint32_t k = 0; k < t->outputs.len; k++)
    if (t->outputs.at[k]->output_index >= l->carry_count)
      emit_stacked_store(e, t, t->outputs.at[k], roots[count++]);
  for (uint32_t k = 0; k < l->carry_count; k++) {
    const char *made = host_emit_dense_pointer(e, roots[k]);
    if (strcmp(made, t->next_carry[k]) != 0)
      host_emit_copy(e, l->carry_in[k], t->next_carry[k], made);
  }
  for (uint32_t k = 0; k < l->carry_count; k++) {
    const Node *state = l->carry_in[k];
    const char *x = t->carry[k], *y = t->next_carry[k];
    if (state->free_count + state->rank == 0 && !e->is_cuda)
      host_emit_line(e, "%s[0] = %s[0];", x, y);
    else
      host_emit_line(e, "{ %s *const s = %s; %s = %s; %s = s; }",
                     host_emit_c_type(state->dtype), x, x, y, y);
  }
}

/* Copies the final value of a loop-carried variable to an output.  Broadcasts
 * it if the shapes differ. */
static void emit_carry_output(HostEmitter *e, const LoopCode *t, Node *out) {
  if (out->output_index >= t->loop->carry_count)
    return;
  Node *state = t->loop->carry_in[out->output_index];
  NodeShape s = node_shape_of(out);
  const char *name = host_emit_allocate(e, out, false);
  if (node_has_shape(state, &s)) {
    host_emit_copy(e, out, name, t->carry[out->output_index]);
    return;
  }
  Node *broadcasted = broadcast_to(e, state, s);
  emit_region(e, 1, &broadcasted, &name, out->loop_depth);
}

static void emit_loop(HostEmitter *e, LoopBody *l, const NodeVec *outputs) {
  LoopCode t = {.loop = l, .outputs = *outputs};
  for (uint32_t k = 0; k < outputs->len; k++)
    if (outputs->at[k]->output_index >= l->carry_count)
      host_emit_allocate(e, outputs->at[k], false);
  emit_carry_init(e, &t);
  if (l->condition)
    host_emit_open_block(e, host_emit_format(e, "for (%s[0] = 0;; %s[0]++)",
                                             t.iteration, t.iteration));
  else
    host_emit_open_block(
        e, host_emit_format(e, "for (%s[0] = 0; %s[0] < %s; %s[0]++)",
                            t.iteration, t.iteration,
                            host_emit_extent(e, l->trip_count), t.iteration));
  if (e->is_cuda)
    host_emit_line(e, "copy_to_device(x, %s, %s, sizeof *%s);",
                   t.device_iteration, t.iteration, t.iteration);
  if (l->condition) {
    emit_region(e, 1, &l->condition, NULL, l->iteration->loop_depth);
    host_emit_line(
        e, e->is_cuda ? "if (!any(x, %s, 1)) break;" : "if (!(%s)[0]) break;",
        host_emit_dense_pointer(e, l->condition));
  }
  emit_iteration(e, &t);
  host_emit_close_block(e);
  for (uint32_t k = 0; k < outputs->len; k++)
    emit_carry_output(e, &t, outputs->at[k]);
}

/* ---- regions ---- */

static void emit_loop_at(HostEmitter *e, const Region *r, uint32_t at) {
  LoopBody *l = r->groups[at]->nodes.at[0]->loop_body;
  NodeVec outputs = {0};
  for (uint32_t k = at; k < r->group_count; k++) {
    Node *n = r->groups[k]->nodes.at[0];
    if (n->loop_body == l && !n->materialized) {
      n->materialized = true;
      VEC_PUSH(e->arena, outputs, n);
    }
  }
  emit_loop(e, l, &outputs);
}

static void emit_group(HostEmitter *e, const Region *r, uint32_t at) {
  const FusionGroup *c = r->groups[at];
  Node *n = c->nodes.at[0];
  if (n->loop_body) {
    if (!n->materialized)
      emit_loop_at(e, r, at);
  } else if (n->kind == NODE_OPAQUE) {
    emit_kernel_comment(e, n, NULL);
    if (e->is_cuda)
      host_emit_unsupported(e, n->span,
                            "CUDA code generation does not support sort, "
                            "prefix sums, scatter, permutations, linear "
                            "algebra and Fourier transforms");
    host_emit_library_op(e, n, host_emit_allocate(e, n, n->guard != NULL));
  } else if (has_elements(n)) {
    emit_kernel(e, c);
  } else {
    host_emit_allocate(e, n, false);
  }
  for (uint32_t k = 0; k < c->nodes.len; k++)
    c->nodes.at[k]->materialized = true;
  if (!e->depth)
    host_emit_end_statement(e);
}

static void emit_groups(HostEmitter *e, Region *r, uint32_t count,
                        Node *const *roots, const char *const *names) {
  region_plan(r, e->arena, e->graph, count, roots);
  for (uint32_t k = 0; k < r->materialized_count; k++)
    VEC_PUSH(e->arena, e->retained_nodes, node_retain(r->materialized[k]));
  for (uint32_t k = 0; names && k < count; k++)
    if (names[k] && !node_is_materialized(roots[k]) &&
        !host_emit_dense_pointer(e, roots[k]))
      host_emit_assign_buffer(e, roots[k], names[k], false);
  for (uint32_t k = 0; k < r->group_count; k++)
    emit_group(e, r, k);
}

/* Emits code that computes the roots.  names: buffers for roots without
 * storage, or NULL.  depth: nesting depth of the loop whose body this is;
 * values from outside the loop are computed elsewhere. */
static void emit_region(HostEmitter *e, uint32_t count, Node *const *roots,
                        const char *const *names, uint32_t depth) {
  NodeWalk w = {.e = e};
  map_init(&w.seen, e->arena);
  for (uint32_t k = 0; k < count; k++)
    find_loops(&w, roots[k]);
  Region r = {.plan = NULL};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    region_release(&r);
    trap_raise(trap.kind);
  }
  emit_groups(e, &r, count, roots, names);
  for (uint32_t k = 0; k < r.materialized_count; k++)
    r.materialized[k]->materialized &= r.materialized[k]->loop_depth >= depth;
  trap_end(&trap);
  region_release(&r);
}

/* ---- requirements ---- */

static const char *constraint_expr(HostEmitter *e, ExtentConstraint f) {
  static const char *const signs[] = {
      [EXTENT_EQ] = "==", [EXTENT_LE] = "<=", [EXTENT_NE] = "!="};
  const char *x = host_emit_extent(e, f.x), *y = host_emit_extent(e, f.y);
  return host_emit_format(e, "%s %s %s", x, signs[f.relation], y);
}

static void emit_requirement(HostEmitter *e, const Requirement *r) {
  Node *guard = r->guard;
  if (guard)
    emit_region(e, 1, &guard, NULL, 0);
  for (uint32_t k = 0; k < r->premise_count; k++)
    host_emit_open_block(
        e, host_emit_format(e, "if (%s)", constraint_expr(e, r->premises[k])));
  host_emit_open_block(
      e, host_emit_format(e, "if (!(%s))", constraint_expr(e, r->constraint)));
  if (guard && e->is_cuda) {
    host_emit_open_block(
        e, host_emit_format(
               e, "if (any(x, %s, %s))", host_emit_dense_pointer(e, guard),
               host_emit_element_count(e, guard->free_count, guard->extents)));
  } else if (guard) {
    const char *i = host_emit_fresh_name(e, "i");
    host_emit_open_block(
        e,
        host_emit_format(
            e, "for (int64_t %s = 0; %s < %s; %s++)", i, i,
            host_emit_element_count(e, guard->free_count, guard->extents), i));
    host_emit_open_block(e, host_emit_format(e, "if ((%s)[%s])",
                                             host_emit_dense_pointer(e, guard),
                                             i));
  }
  const char *message = r->message;
  if (*r->help)
    message = host_emit_format(e, "%s (%s)", message, r->help);
  host_emit_line(e, "%s", host_emit_fail(e, r->span, message));
  while (e->depth)
    host_emit_close_block(e);
  host_emit_end_statement(e);
}

/* ---- function ---- */

static void emit_results(HostEmitter *e) {
  const Trace *t = e->trace;
  Node **roots = NEW_ARRAY(e->arena, Node *, t->result_count + 1);
  for (uint32_t k = 0; k < t->result_count; k++)
    roots[k] = t->results[k].node;
  emit_region(e, t->result_count, roots, e->out_names, 0);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const char *place = host_emit_dense_pointer(e, roots[k]);
    if (strcmp(place, e->out_names[k]) != 0)
      host_emit_copy(e, roots[k], e->out_names[k], place);
  }
  host_emit_end_statement(e);
}

void host_emit_function(HostEmitter *e) {
  const Trace *t = e->trace;
  e->graph->backend = e->is_cuda ? &e->module->cuda.backend : &backend_cpu;
  if (e->is_cuda)
    host_emit_cuda_prologue(e);
  /* Checks of sizes only come first: the computation of guards may rely on
   * them. */
  for (uint32_t with_guard = 0; with_guard < 2; with_guard++)
    for (uint32_t k = 0; k < t->requirement_count; k++)
      if ((t->requirements[k].guard != NULL) == with_guard)
        emit_requirement(e, &t->requirements[k]);
  host_emit_result_limits(e);
  emit_results(e);
}
