/* Buffer assignment: the storage of nodes in a generated function. */
#include "aot/host_code.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <string.h>

static Allocation *allocation_of(HostEmitter *e, const Node *n) {
  Allocation *m = map_get(&e->allocations, n);
  if (!m) {
    m = NEW(e->arena, Allocation);
    map_put(&e->allocations, n, m);
  }
  return m;
}

enum { MAX_CONSTANT_ELEMENTS = 1 << 22 };

static int64_t narrow_bits(const Tensor *t, int64_t i) {
  return dtype_info[t->dtype].bytes == 1 ? *(uint8_t *)tensor_at(t, i)
                                         : *(uint16_t *)tensor_at(t, i);
}

static Scalar constant_element(const Tensor *t, int64_t i) {
  if (dtype_is_narrow_float(t->dtype))
    return (Scalar){DT_I64, {.i = narrow_bits(t, i)}};
  return scalar_load(t->dtype, tensor_at(t, i));
}

static Buffer constant_initializer(HostEmitter *e, const Tensor *t) {
  Buffer out = {.arena = e->arena};
  for (int64_t i = 0; i < t->count; i++) {
    buffer_printf(&out, "%s%s", i % 8 ? ", " : "\n  ",
                  host_emit_literal(e, constant_element(t, i)));
    if (i % 8 == 7 && i + 1 < t->count)
      buffer_puts(&out, ",");
  }
  buffer_puts(&out, t->count ? "};\n" : "0};\n");
  return out;
}

/* Identical constants are stored once. */
static const char *define_constant(HostEmitter *e, const Node *n) {
  const Tensor *t = n->data;
  CModule *m = e->module;
  if (t->count > MAX_CONSTANT_ELEMENTS)
    host_emit_unsupported(e, n->span,
                          "it contains constant data of more than 4 million "
                          "elements: pass the data as an argument");
  Buffer all = {.arena = e->arena}, elements = constant_initializer(e, t);
  Fault fault;
  if (!tensor_check(t, &fault))
    host_emit_unsupported(e, n->span,
                          arena_printf(e->arena, "%s", fault.message));
  const char *type = host_emit_c_type(t->dtype);
  for (uint32_t k = 0; k < m->constants.len; k++) {
    const ConstantArray *c = &m->constants.at[k];
    if (strcmp(c->type, type) == 0 && c->len == elements.len &&
        memcmp(c->text, elements.text, c->len) == 0)
      return c->name;
  }
  const char *name =
      host_emit_format(e, "%s_data%u", m->name, m->constants.len + 1);
  if (e->is_cuda)
    name = host_emit_format(e, "((const %s *)(uintptr_t)x->m->data[%u])", type,
                            m->constants.len);
  VEC_PUSH(e->arena, m->constants,
           ((ConstantArray){type, elements.text, name, elements.len}));
  if (e->is_cuda) /* cuda_host_code.c writes it */
    return name;
  buffer_printf(&all, "static const %s %s[] = {", type, name);
  buffer_add(&m->source, all.text, all.len);
  buffer_add(&m->source, elements.text, elements.len);
  return name;
}

const char *host_emit_input_pointer(HostEmitter *e, const Node *n) {
  Allocation *m = allocation_of(e, n);
  m->last_use = e->statements.len;
  if (!m->name && n->data)
    m->name = define_constant(e, n);
  if (!m->name && n->kind == NODE_ARG)
    m->name = host_emit_format(e,
                               n->rank      ? "%s"
                               : e->is_cuda ? "g_%s"
                                            : "&%s",
                               e->arg_names[n->arg_index]);
  return m->name;
}

const char *host_emit_dense_pointer(HostEmitter *e, const Node *n) {
  if (n->strides)
    e->dense_args |= UINT64_C(1) << (n->arg_index < 64 ? n->arg_index : 63);
  return host_emit_input_pointer(e, n);
}

Allocation *host_emit_assign_buffer(HostEmitter *e, Node *n, const char *name,
                                    bool is_owned) {
  Allocation *m = allocation_of(e, n);
  m->name = name;
  m->is_owned = is_owned;
  m->last_use = e->statements.len;
  if (is_owned)
    VEC_PUSH(e->arena, e->owned_allocations, m);
  VEC_PUSH(e->arena, e->retained_nodes, node_retain(n));
  return m;
}

/* Inside a loop, the buffer is allocated in the first iteration only. */
const char *host_emit_malloc(HostEmitter *e, Dtype t, const char *count,
                             bool zeroed) {
  const char *name = host_emit_fresh_name(e, "t"), *type = host_emit_c_type(t);
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "%s *%s = NULL;", type, name));
  if (e->is_cuda)
    host_emit_line(e,
                   "if (!%s && !(%s = (%s *)allocate(x, %s, sizeof *%s, %d)))",
                   name, name, type, count, name, zeroed);
  else
    host_emit_line(e, "if (!%s && !(%s = allocate(%s, sizeof *%s, %d)))", name,
                   name, count, name, zeroed);
  host_emit_line(e, "  %s", host_emit_fail(e, (Span){0}, "out of memory"));
  return name;
}

const char *host_emit_allocate(HostEmitter *e, Node *n, bool zeroed) {
  Allocation *m = allocation_of(e, n);
  m->last_use = e->statements.len;
  if (m->name)
    return m->name;
  uint32_t axes = n->free_count + n->rank;
  if (axes == 0 && !e->is_cuda) {
    const char *name = host_emit_fresh_name(e, "t");
    VEC_PUSH(e->arena, e->declarations,
             host_emit_format(e, "%s %s[1] = {0};", host_emit_c_type(n->dtype),
                              name));
    return host_emit_assign_buffer(e, n, name, false)->name;
  }
  host_emit_array_limit(
      e, n->dtype, axes, n->extents, n->span,
      host_emit_tensor_type(e, n->dtype, axes, n->extents, 0));
  const char *count = host_emit_element_count(e, axes, n->extents);
  const char *name = host_emit_malloc(e, n->dtype, count, zeroed);
  return host_emit_assign_buffer(e, n, name, true)->name;
}

void host_emit_copy(HostEmitter *e, const Node *like, const char *to,
                    const char *from) {
  const char *count =
      host_emit_element_count(e, like->free_count + like->rank, like->extents);
  host_emit_line(e, "copy(%s%s, %s, %s, sizeof *%s);", e->is_cuda ? "x, " : "",
                 to, from, count, to);
}

const char *host_emit_free(HostEmitter *e, const char *name) {
  return host_emit_format(e, e->is_cuda ? "release(x, %s);" : "free(%s);",
                          name);
}

void host_emit_end_statement(HostEmitter *e) {
  VEC_PUSH(e->arena, e->statements, e->statement);
  e->statement = NEW(e->arena, Buffer);
  e->statement->arena = e->arena;
}

void host_emit_begin(HostEmitter *e) {
  e->statement = NEW(e->arena, Buffer);
  e->statement->arena = e->arena;
}

/* Top-level values are also nodes of other functions. */
void host_emit_end(HostEmitter *e) {
  for (uint32_t k = 0; k < e->retained_nodes.len; k++) {
    e->retained_nodes.at[k]->materialized = false;
    node_release(e->retained_nodes.at[k]);
  }
  e->retained_nodes.len = 0;
}

Buffer host_emit_body(HostEmitter *e) {
  Buffer all = {.arena = e->arena};
  host_emit_end_statement(e);
  for (uint32_t k = 0; k < e->statements.len; k++) {
    const Buffer *statement = e->statements.at[k];
    buffer_add(&all, statement->text ? statement->text : "", statement->len);
    for (uint32_t j = 0;
         j < e->owned_allocations.len && k + 1 < e->statements.len; j++)
      if (e->owned_allocations.at[j]->last_use == k)
        buffer_printf(&all, "  %s\n  %s = NULL;\n",
                      host_emit_free(e, e->owned_allocations.at[j]->name),
                      e->owned_allocations.at[j]->name);
  }
  return all;
}
