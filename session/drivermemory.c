/* Where the elements of nodes are while a built function runs. */
#include "session/driver.h"

#include <string.h>

static Memory *memory_of(Driver *e, const Node *n) {
  Memory *m = map_get(&e->memory, n);
  if (!m) {
    m = NEW(e->arena, Memory);
    map_put(&e->memory, n, m);
  }
  return m;
}

enum { DATA_MOST = 1 << 22 };

static Scalar data_at(const Tensor *t, int64_t i) {
  if (t->dtype == DT_F16 || t->dtype == DT_BF16)
    return (Scalar){DT_I64, {.i = *(uint16_t *)tensor_at(t, i)}};
  return scalar_load(t->dtype, tensor_at(t, i));
}

static Buffer data_text(Driver *e, const Tensor *t) {
  Buffer out = {.arena = e->arena};
  for (int64_t i = 0; i < t->count; i++) {
    buffer_printf(&out, "%s%s", i % 8 ? ", " : "\n  ",
                  driver_const(e, data_at(t, i)));
    if (i % 8 == 7 && i + 1 < t->count)
      buffer_puts(&out, ",");
  }
  buffer_puts(&out, t->count ? "};\n" : "0};\n");
  return out;
}

/* What is the same is there once. */
static const char *name_data(Driver *e, const Node *n) {
  const Tensor *t = n->data;
  BuildModule *m = e->m;
  if (t->count > DATA_MOST)
    driver_refuse(e, n->span,
                  "it needs data of more than 4 million elements, "
                  "which a text is no place for: make them an argument");
  Buffer all = {.arena = e->arena}, elements = data_text(e, t);
  Fault fault;
  if (!tensor_check(t, &fault))
    driver_refuse(e, n->span, arena_printf(e->arena, "%s", fault.message));
  const char *type = driver_type(t->dtype);
  for (uint32_t k = 0; k < m->constants.len; k++) {
    const Constant *c = &m->constants.at[k];
    if (strcmp(c->type, type) == 0 && c->len == elements.len &&
        memcmp(c->text, elements.text, c->len) == 0)
      return c->name;
  }
  const char *name =
      driver_format(e, "%s_data%u", m->name, m->constants.len + 1);
  if (e->cuda)
    name = driver_format(e, "((const %s *)(uintptr_t)x->m->data[%u])", type,
                         m->constants.len);
  VEC_PUSH(e->arena, m->constants,
           ((Constant){type, elements.text, name, elements.len}));
  if (e->cuda) /* cudabuild.c has it */
    return name;
  buffer_printf(&all, "static const %s %s[] = {", type, name);
  buffer_add(&m->source, all.text, all.len);
  buffer_add(&m->source, elements.text, elements.len);
  return name;
}

const char *driver_input(Driver *e, const Node *n) {
  Memory *m = memory_of(e, n);
  m->last = e->pieces.len;
  if (!m->name && n->data)
    m->name = name_data(e, n);
  if (!m->name && n->kind == NODE_ARG)
    m->name = driver_format(e, n->rank ? "%s" : e->cuda ? "g_%s" : "&%s",
                            e->arg_names[n->arg]);
  return m->name;
}

const char *driver_place(Driver *e, const Node *n) {
  if (n->strides)
    e->dense |= UINT64_C(1) << (n->arg < 64 ? n->arg : 63);
  return driver_input(e, n);
}

Memory *driver_name(Driver *e, Node *n, const char *name, bool own) {
  Memory *m = memory_of(e, n);
  m->name = name;
  m->own = own;
  m->last = e->pieces.len;
  if (own)
    VEC_PUSH(e->arena, e->owned, m);
  VEC_PUSH(e->arena, e->kept, node_retain(n));
  return m;
}

/* In a loop it is allocated once. */
const char *driver_room(Driver *e, Dtype t, const char *count, bool clear) {
  const char *name = driver_fresh(e, "t"), *type = driver_type(t);
  VEC_PUSH(e->arena, e->declared,
           driver_format(e, "%s *%s = NULL;", type, name));
  if (e->cuda)
    driver_line(e, "if (!%s && !(%s = (%s *)room(x, %s, sizeof *%s, %d)))",
                name, name, type, count, name, clear);
  else
    driver_line(e, "if (!%s && !(%s = room(%s, sizeof *%s, %d)))", name, name,
                count, name, clear);
  driver_line(e, "  %s", driver_fail(e, (Span){0}, "out of memory"));
  return name;
}

const char *driver_allocate(Driver *e, Node *n, bool clear) {
  Memory *m = memory_of(e, n);
  m->last = e->pieces.len;
  if (m->name)
    return m->name;
  uint32_t axes = n->free_count + n->rank;
  if (axes == 0 && !e->cuda) {
    const char *name = driver_fresh(e, "t");
    VEC_PUSH(e->arena, e->declared,
             driver_format(e, "%s %s[1] = {0};", driver_type(n->dtype), name));
    return driver_name(e, n, name, false)->name;
  }
  driver_bound_array(e, n->dtype, axes, n->extents, n->span,
                     driver_shape(e, n->dtype, axes, n->extents, 0));
  const char *count = driver_count(e, axes, n->extents);
  const char *name = driver_room(e, n->dtype, count, clear);
  return driver_name(e, n, name, true)->name;
}

void driver_copy(Driver *e, const Node *like, const char *to,
                 const char *from) {
  const char *count =
      driver_count(e, like->free_count + like->rank, like->extents);
  driver_line(e, "copy(%s%s, %s, %s, sizeof *%s);", e->cuda ? "x, " : "", to,
              from, count, to);
}

const char *driver_free(Driver *e, const char *name) {
  return driver_format(e, e->cuda ? "give(x, %s);" : "free(%s);", name);
}

void driver_end_piece(Driver *e) {
  VEC_PUSH(e->arena, e->pieces, e->out);
  e->out = NEW(e->arena, Buffer);
  e->out->arena = e->arena;
}

void driver_begin(Driver *e) {
  e->out = NEW(e->arena, Buffer);
  e->out->arena = e->arena;
}

/* Values of top level are nodes of other functions too. */
void driver_end(Driver *e) {
  for (uint32_t k = 0; k < e->kept.len; k++) {
    e->kept.at[k]->there = false;
    node_release(e->kept.at[k]);
  }
  e->kept.len = 0;
}

Buffer driver_body(Driver *e) {
  Buffer all = {.arena = e->arena};
  driver_end_piece(e);
  for (uint32_t k = 0; k < e->pieces.len; k++) {
    const Buffer *piece = e->pieces.at[k];
    buffer_add(&all, piece->text ? piece->text : "", piece->len);
    for (uint32_t j = 0; j < e->owned.len && k + 1 < e->pieces.len; j++)
      if (e->owned.at[j]->last == k)
        buffer_printf(&all, "  %s\n  %s = NULL;\n",
                      driver_free(e, e->owned.at[j]->name),
                      e->owned.at[j]->name);
  }
  return all;
}
