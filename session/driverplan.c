/* What a built function does, in order.
 *
 * A *region* is a list of nodes that are wanted at one place: it is planned
 * and clustered as what runs at once is (tensor/plan.c, cluster.c), and its
 * clusters become calls of kernels.  A turn of a loop is a region of its own;
 * what it needs from outside is stored before the loop begins. */
#include "session/driver.h"

#include "backend/target.h"
#include "tensor/region.h"
#include "tensor/scalar.h"

#include <string.h>

typedef VEC(Node *) Nodes;

/* ---- nodes of another shape ---- */

static Shape shape_of(const Node *n) {
  return (Shape){n->free_count, n->rank, n->stars, n->free,
                 n->extents + n->free_count};
}

/* x repeated along the indices and stars that it does not have. */
static Node *shaped(Driver *e, Node *x, Shape s) {
  Fault fault = {0};
  if (node_has_shape(x, &s))
    return x;
  Node *n = node_shaped(e->g, x, &s, &fault);
  if (!n)
    driver_refuse(e, x->span, fault.message);
  VEC_PUSH(e->arena, e->kept, n);
  return n;
}

/* ---- what loops need ---- */

typedef struct Walk {
  Driver *e;
  Map seen;
  uint32_t depth; /* of the loop */
  Nodes found;
} Walk;

static void each_child(Node *n, void (*f)(Walk *, Node *), Walk *w) {
  f(w, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    f(w, n->inputs[k]);
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      f(w, n->cells[k].node);
}

static bool enter(Walk *w, Node *n) {
  interrupt_poll();
  if (!n || node_is_there(n) || map_get(&w->seen, n))
    return false;
  map_put(&w->seen, n, n);
  return true;
}

/* A short formula of indices alone; *cells: how many it may still have. */
static bool is_of_indices(const Node *n, uint32_t *cells) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || node_is_there(n) ||
      n->cell_count > *cells)
    return false;
  *cells -= n->cell_count;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    if (c->kind == CELL_RANDOM ||
        (c->kind == CELL_READ && !is_of_indices(c->node, cells)))
      return false;
  }
  return true;
}

/* Constants, indices and what moves elements. */
static bool is_move(const Node *n) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE)
    return false;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    if (c->kind == CELL_RANDOM || c->kind == CELL_CONVERT ||
        c->kind == CELL_SELECT || (c->kind == CELL_OP && c->dtype != DT_I64))
      return false;
  }
  return true;
}

static bool is_made_again(const Node *n) {
  uint32_t cells = 64;
  return is_move(n) || is_of_indices(n, &cells);
}

static void find_needs(Walk *w, Node *n) {
  if (!enter(w, n))
    return;
  if (n->loops < w->depth && !is_made_again(n)) {
    VEC_PUSH(w->e->arena, w->found, n);
    return;
  }
  each_child(n, find_needs, w);
  const Turns *l = n->loop;
  if (l)
    find_needs(w, l->more);
  for (uint32_t k = 0; l && k < l->state_count + l->out_count; k++)
    find_needs(w, l->results[k]);
}

static void prepare_loop(Driver *e, Turns *l) {
  Walk w = {.e = e, .depth = l->turn->loops};
  map_init(&w.seen, e->arena);
  find_needs(&w, l->more);
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    find_needs(&w, l->results[k]);
  l->needs = w.found.at;
  l->need_count = w.found.len;
}

/* What the states begin with has their shape. */
static void shape_inputs(Driver *e, Node *n) {
  for (uint32_t k = 0; k < n->input_count; k++) {
    Node *x = shaped(e, n->inputs[k], shape_of(n->loop->states[k]));
    if (x == n->inputs[k])
      continue;
    node_retain(x);
    node_release(n->inputs[k]);
    n->inputs[k] = x;
  }
}

static void find_loops(Walk *w, Node *n) {
  if (!enter(w, n))
    return;
  if (n->loop) {
    if (n->loop->more && n->loop->more->free_count)
      driver_refuse(w->e, n->span,
                    "a `while` in a `for` that ends at another turn for each "
                    "index");
    prepare_loop(w->e, n->loop);
    shape_inputs(w->e, n);
    for (uint32_t k = 0; k < n->loop->need_count; k++)
      find_loops(w, n->loop->needs[k]);
  }
  each_child(n, find_loops, w);
}

/* ---- clusters as C ---- */

static uint32_t line_of(const Driver *e, Span span) {
  const Source *source =
      span.file ? sources_get(&e->s->sources, span.file) : NULL;
  uint32_t line = 0, column;
  if (source && !source->library)
    source_place(source, span.start, &line, &column);
  return line;
}

/* Of the program; what is the library's, all of it, is of the function. */
static Span span_of(const Driver *e, const Node *n) {
  return line_of(e, n->span) ? n->span : e->t->span;
}

/* about: for which sizes there are versions; or NULL */
static void put_type(Driver *e, const Node *n, const char *about) {
  Buffer type = {.arena = e->arena}, text = {.arena = e->arena};
  node_print_type(e->g, &type, n);
  Span span = span_of(e, n);
  uint32_t line = line_of(e, span);
  const char *what = source_excerpt(e->arena, &e->s->sources, span);
  if (line)
    buffer_printf(&text, "line %u: %s : ", line, what ? what : "");
  buffer_puts(&text, type.text);
  if (about && strchr(about, ';'))
    buffer_printf(&text, ", with versions for %s", about);
  for (char *at = text.text; *at; at++) /* it must not end the comment */
    if ((at[0] == '*' && at[1] == '/') || (at[0] == '/' && at[1] == '*'))
      at[0] = ' ';
  driver_line(e, "/* %s */", text.text);
  VEC_PUSH(e->arena, e->kernels, ((KernelNote){type.text, about, line}));
}

static uint32_t check_code(void *driver, const Step *s) {
  const char *message = s->kind == STEP_READ ? "an index is out of bounds"
                        : s->op == PRIM_POW  ? arith_text(ARITH_POWER)
                                             : arith_text(ARITH_ZERO);
  return driver_code(driver, s->span, message);
}

static bool has_indices(const Kernel *k, uint32_t input) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      const Step *s = &k->loops.at[j]->steps.at[i];
      if (s->kind == STEP_READ && s->input == input && s->index_count)
        return true;
    }
  return false;
}

/* What an index that is wrong is not to read may have nothing at all. */
static const char *never_empty(Driver *e, const Node *x, const char *name) {
  uint32_t axes = x->free_count + x->rank;
  int64_t *least = NEW_ARRAY(e->arena, int64_t, axes + 1);
  bool empty = false;
  for (uint32_t k = 0; k < axes; k++) {
    bool some = size_holds(e->g, SIZE_LE, 1, x->extents[k]);
    least[k] = some ? x->extents[k] : size_max(e->g, x->extents[k], 1);
    empty |= !some;
  }
  if (!empty)
    return name;
  const char *other = driver_fresh(e, "t"), *type = driver_type(x->dtype);
  VEC_PUSH(e->arena, e->declared,
           driver_format(e, "%s *%s = NULL;", type, other));
  const char *count = driver_count(e, axes, x->extents);
  const char *room = e->cuda ? driver_format(e, "(%s *)room(x, ", type)
                             : "room(";
  driver_line(e, "if (%s <= 0 && !%s && !(%s = %s%s, sizeof *%s, 1)))", count,
              other, other, room, driver_count(e, axes, least), other);
  driver_line(e, "  %s", driver_fail(e, (Span){0}, "out of memory"));
  Memory *m = NEW(e->arena, Memory);
  *m = (Memory){other, true, e->pieces.len};
  VEC_PUSH(e->arena, e->owned, m);
  return driver_format(e, "%s <= 0 ? (const void *)%s : %s", count, other,
                       name);
}

/* "o_out, (void *)(p_x)": results and inputs */
static const char *places_of(Driver *e, const Kernel *k,
                             const NodeList *results) {
  Buffer out = {.arena = e->arena};
  for (uint32_t j = 0; j < results->len; j++)
    buffer_printf(&out, "%s%s", j ? ", " : "", driver_place(e, results->at[j]));
  for (uint32_t j = 0; j < k->inputs.len; j++) {
    const Node *x = k->inputs.at[j];
    const char *name = driver_input(e, x);
    if (has_indices(k, j))
      name = never_empty(e, x, name);
    buffer_printf(&out, ", (void *)(%s)", name);
  }
  return out.text;
}

static void put_call(Driver *e, const Kernel *k, const NodeList *results,
                     uint32_t number) {
  driver_line(e, "code = run%u(z, (void *[]){%s});", number,
              places_of(e, k, results));
  driver_line(e, "if (code) goto done;");
}

/* Bytes of results and inputs. */
static const char *bytes_of(Driver *e, const Kernel *k,
                            const NodeList *results) {
  Buffer out = {.arena = e->arena};
  for (uint32_t j = 0; j < results->len + k->inputs.len; j++) {
    const Node *n =
        j < results->len ? results->at[j] : k->inputs.at[j - results->len];
    buffer_printf(&out, "%s%s * %u", j ? ", " : "",
                  driver_count(e, n->free_count + n->rank, n->extents),
                  dtype_info[n->dtype].bytes);
  }
  return out.text;
}

/* What goes wrong on the way is kept, and told at the end. */
static void put_launch(Driver *e, const Kernel *k, const CudaAdded *added,
                       uint32_t number) {
  const NodeList *results = &added->results;
  const char *places = places_of(e, k, results);
  const char *lines = driver_format(e, "(x, %u, %u, p, b, q);", results->len,
                                    results->len + k->inputs.len);
  driver_open(e, "");
  driver_line(e, "void *const %s[] = {%s};", added->lines ? "p" : "q", places);
  if (added->lines) {
    driver_line(e, "const int64_t b[] = {%s};", bytes_of(e, k, results));
    driver_line(e, "void *q[%u];", results->len + k->inputs.len);
    driver_line(e, "begin_lines%s", lines);
  }
  driver_line(e, "run%u(x, z, q, flag(x, %u));", number,
              added->checks ? e->flags.len : 0);
  if (added->lines)
    driver_line(e, "end_lines%s", lines);
  driver_close(e);
  driver_line(e, "if (x->failed) goto done;");
  if (added->checks)
    VEC_PUSH(e->arena, e->flags, number);
}

/* Does n have elements for some sizes? */
static bool has_elements(const Node *n) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    if (n->extents[k] == 0)
      return false;
  return true;
}

static const char *size_known_as(void *driver, const DimVar *v) {
  const Driver *e = driver;
  for (uint32_t k = 0; k < e->t->size_count; k++)
    if (e->t->sizes[k].var == v)
      return e->t->sizes[k].name;
  return "?";
}

/* What a kernel goes through: also where no array is as large. */
static void bound_steps(Driver *e, const Cluster *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++) {
    const Node *n = c->nodes.at[k];
    driver_bound(e, n->free_count + n->rank + n->reduce_count, n->extents, 1,
                 span_of(e, n),
                 driver_format(e, "%s: sizes are too large: more than 2^59 "
                                  "steps", e->t->name));
  }
}

static void put_kernel(Driver *e, const Cluster *c) {
  const ModuleCaller caller = {e, driver_size_var, size_known_as, check_code};
  bound_steps(e, c);
  CudaAdded added;
  NodeList results;
  uint32_t number = UINT32_MAX;
  if (c->kernel && e->cuda) {
    number = cuda_module_add(&e->m->cuda, c->kernel, &caller, &added);
    results = added.results;
  } else if (c->kernel) {
    number = module_add(&e->m->kernels, c->kernel, &caller, &results);
  }
  if (number == UINT32_MAX) {
    e->refused = true;
    trap_raise(FAIL_ERROR);
  }
  for (uint32_t j = 0; j < results.len; j++) {
    put_type(e, results.at[j], e->cuda ? NULL : e->m->kernels.about);
    driver_allocate(e, (Node *)(uintptr_t)results.at[j], false);
  }
  if (e->cuda)
    put_launch(e, c->kernel, &added, number);
  else
    put_call(e, c->kernel, &results, number);
}

/* ---- loops as C ---- */

static void region(Driver *e, uint32_t count, Node *const *roots,
                   const char *const *names, uint32_t depth);

typedef struct LoopText {
  Turns *l;
  Nodes outputs;
  const char **states, **next; /* their memory */
  const char *turn, *device_turn;
} LoopText;

static void begin_states(Driver *e, LoopText *t) {
  const Turns *l = t->l;
  t->states = NEW_ARRAY(e->arena, const char *, l->state_count + 1);
  t->next = NEW_ARRAY(e->arena, const char *, l->state_count + 1);
  for (uint32_t k = 0; k < l->state_count; k++) {
    Node *state = l->states[k];
    uint32_t axes = state->free_count + state->rank;
    t->states[k] = driver_allocate(e, state, false);
    if (axes == 0 && !e->cuda) {
      t->next[k] = driver_fresh(e, "t");
      VEC_PUSH(e->arena, e->declared,
               driver_format(e, "%s %s[1] = {0};", driver_type(state->dtype),
                             t->next[k]));
    } else {
      const char *count = driver_count(e, axes, state->extents);
      t->next[k] = driver_room(e, state->dtype, count, false);
      Memory *m = NEW(e->arena, Memory);
      *m = (Memory){t->next[k], true, e->pieces.len};
      VEC_PUSH(e->arena, e->owned, m);
    }
    driver_copy(e, state, t->states[k],
                driver_place(e, t->outputs.at[0]->inputs[k]));
  }
  t->turn = driver_fresh(e, "turn");
  VEC_PUSH(e->arena, e->declared,
           driver_format(e, "int64_t %s[1] = {0};", t->turn));
  if (e->cuda) /* and for kernels, where these can read it */
    t->device_turn = driver_room(e, DT_I64, "1", false);
  driver_name(e, l->turn, e->cuda ? t->device_turn : t->turn, e->cuda);
}

/* Where what a turn makes stands in an output, if it is all in one place. */
static const char *place_in(Driver *e, const LoopText *t, Node *out) {
  const char *own =
      driver_count(e, out->rank - 1, out->extents + out->free_count + 1);
  return driver_format(e, "(%s + %s[0] * %s)", driver_place(e, out), t->turn,
                       own);
}

static void put_out(Driver *e, const LoopText *t, Node *out, Node *made) {
  const char *from = driver_place(e, made);
  uint32_t first = out->free_count;
  const char *own = driver_count(e, out->rank - 1, out->extents + first + 1);
  if (!first) {
    const char *to = place_in(e, t, out);
    if (strcmp(to, from) != 0)
      driver_line(e, "copy(%s%s, %s, %s, sizeof *%s);", e->cuda ? "x, " : "",
                  to, from, own, to);
    return;
  }
  const char *f = driver_fresh(e, "f"), *to = driver_place(e, out);
  driver_open(e, driver_format(e, "for (int64_t %s = 0; %s < %s; %s++)", f, f,
                               driver_count(e, first, out->extents), f));
  driver_line(e,
              "copy(%s%s + (%s * %s + %s[0]) * %s, %s + %s * %s, %s, "
              "sizeof *%s);",
              e->cuda ? "x, " : "", to, f, driver_size(e, t->l->count), t->turn,
              own, from, f, own, own, to);
  driver_close(e);
}

static void put_turn(Driver *e, LoopText *t) {
  const Turns *l = t->l;
  uint32_t count = 0, most = l->state_count + t->outputs.len;
  Node **roots = NEW_ARRAY(e->arena, Node *, most + 1);
  const char **names = NEW_ARRAY(e->arena, const char *, most + 1);
  for (; count < l->state_count; count++) {
    roots[count] = shaped(e, l->results[count], shape_of(l->states[count]));
    names[count] = t->next[count];
  }
  for (uint32_t k = 0; k < t->outputs.len; k++) {
    Node *out = t->outputs.at[k];
    if (out->output < l->state_count)
      continue;
    Node *made = l->results[out->output];
    Shape s = {out->free_count, made->rank, made->stars, out->free,
               made->extents + made->free_count};
    roots[count] = shaped(e, made, s);
    names[count++] = out->free_count ? NULL : place_in(e, t, out);
  }
  region(e, count, roots, names, l->turn->loops);
  count = l->state_count;
  for (uint32_t k = 0; k < t->outputs.len; k++)
    if (t->outputs.at[k]->output >= l->state_count)
      put_out(e, t, t->outputs.at[k], roots[count++]);
  for (uint32_t k = 0; k < l->state_count; k++) {
    const char *made = driver_place(e, roots[k]);
    if (strcmp(made, t->next[k]) != 0)
      driver_copy(e, l->states[k], t->next[k], made);
  }
  for (uint32_t k = 0; k < l->state_count; k++) {
    const Node *state = l->states[k];
    const char *x = t->states[k], *y = t->next[k];
    if (state->free_count + state->rank == 0 && !e->cuda)
      driver_line(e, "%s[0] = %s[0];", x, y);
    else
      driver_line(e, "{ %s *const s = %s; %s = %s; %s = s; }",
                  driver_type(state->dtype), x, x, y, y);
  }
}

/* Its memory is that of the state, which is not written again, or a copy. */
static void end_output(Driver *e, const LoopText *t, Node *out) {
  if (out->output >= t->l->state_count)
    return;
  Node *state = t->l->states[out->output];
  Shape s = shape_of(out);
  const char *name = driver_allocate(e, out, false);
  if (node_has_shape(state, &s)) {
    driver_copy(e, out, name, t->states[out->output]);
    return;
  }
  Node *wide = shaped(e, state, s);
  region(e, 1, &wide, &name, out->loops);
}

static void put_loop(Driver *e, Turns *l, const Nodes *outputs) {
  LoopText t = {.l = l, .outputs = *outputs};
  for (uint32_t k = 0; k < outputs->len; k++)
    if (outputs->at[k]->output >= l->state_count)
      driver_allocate(e, outputs->at[k], false);
  begin_states(e, &t);
  if (l->more)
    driver_open(e,
                driver_format(e, "for (%s[0] = 0;; %s[0]++)", t.turn, t.turn));
  else
    driver_open(e,
                driver_format(e, "for (%s[0] = 0; %s[0] < %s; %s[0]++)", t.turn,
                              t.turn, driver_size(e, l->count), t.turn));
  if (e->cuda)
    driver_line(e, "set(x, %s, %s, sizeof *%s);", t.device_turn, t.turn,
                t.turn);
  if (l->more) {
    region(e, 1, &l->more, NULL, l->turn->loops);
    driver_line(e, e->cuda ? "if (!any(x, %s, 1)) break;"
                           : "if (!(%s)[0]) break;",
                driver_place(e, l->more));
  }
  put_turn(e, &t);
  driver_close(e);
  for (uint32_t k = 0; k < outputs->len; k++)
    end_output(e, &t, outputs->at[k]);
}

/* ---- regions ---- */

static void put_loops_of(Driver *e, const Region *r, uint32_t at) {
  Turns *l = r->clusters[at]->nodes.at[0]->loop;
  Nodes outputs = {0};
  for (uint32_t k = at; k < r->cluster_count; k++) {
    Node *n = r->clusters[k]->nodes.at[0];
    if (n->loop == l && !n->there) {
      n->there = true;
      VEC_PUSH(e->arena, outputs, n);
    }
  }
  put_loop(e, l, &outputs);
}

static void put_cluster(Driver *e, const Region *r, uint32_t at) {
  const Cluster *c = r->clusters[at];
  Node *n = c->nodes.at[0];
  if (n->loop) {
    if (!n->there)
      put_loops_of(e, r, at);
  } else if (n->kind == NODE_OPAQUE) {
    put_type(e, n, NULL);
    if (e->cuda)
      driver_refuse(e, n->span, "there is no kernel of GPUs for sorting, "
                                "running sums, scattering and permuting yet");
    driver_opaque(e, n, driver_allocate(e, n, n->guard != NULL));
  } else if (has_elements(n)) {
    put_kernel(e, c);
  } else {
    driver_allocate(e, n, false);
  }
  for (uint32_t k = 0; k < c->nodes.len; k++)
    c->nodes.at[k]->there = true;
  if (!e->depth)
    driver_end_piece(e);
}

static void put_region(Driver *e, Region *r, uint32_t count, Node *const *roots,
                       const char *const *names) {
  region_plan(r, e->arena, e->g, count, roots);
  for (uint32_t k = 0; k < r->stored_count; k++)
    VEC_PUSH(e->arena, e->kept, node_retain(r->stored[k]));
  for (uint32_t k = 0; names && k < count; k++)
    if (names[k] && !node_is_there(roots[k]) && !driver_place(e, roots[k]))
      driver_name(e, roots[k], names[k], false);
  for (uint32_t k = 0; k < r->cluster_count; k++)
    put_cluster(e, r, k);
}

/* Code that computes the roots, in memory of these names if they have none yet.
 * depth: of the loop of which it is a turn; what is not of it is computed
 * elsewhere again. */
static void region(Driver *e, uint32_t count, Node *const *roots,
                   const char *const *names, uint32_t depth) {
  Walk w = {.e = e};
  map_init(&w.seen, e->arena);
  for (uint32_t k = 0; k < count; k++)
    find_loops(&w, roots[k]);
  Region r = {.plan = NULL};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    region_end(&r);
    trap_raise(trap.kind);
  }
  put_region(e, &r, count, roots, names);
  for (uint32_t k = 0; k < r.stored_count; k++)
    r.stored[k]->there &= r.stored[k]->loops >= depth;
  trap_end(&trap);
  region_end(&r);
}

/* ---- requirements ---- */

static const char *fact_text(Driver *e, SizeFact f) {
  static const char *const signs[] = {
      [SIZE_EQ] = "==", [SIZE_LE] = "<=", [SIZE_NE] = "!="};
  const char *x = driver_size(e, f.x), *y = driver_size(e, f.y);
  return driver_format(e, "%s %s %s", x, signs[f.test], y);
}

static void put_test(Driver *e, const Requirement *r) {
  Node *guard = r->guard;
  if (guard)
    region(e, 1, &guard, NULL, 0);
  for (uint32_t k = 0; k < r->when_count; k++)
    driver_open(e, driver_format(e, "if (%s)", fact_text(e, r->when[k])));
  driver_open(e, driver_format(e, "if (!(%s))", fact_text(e, r->fact)));
  if (guard && e->cuda) {
    driver_open(e, driver_format(
                       e, "if (any(x, %s, %s))", driver_place(e, guard),
                       driver_count(e, guard->free_count, guard->extents)));
  } else if (guard) {
    const char *i = driver_fresh(e, "i");
    driver_open(e, driver_format(
                       e, "for (int64_t %s = 0; %s < %s; %s++)", i, i,
                       driver_count(e, guard->free_count, guard->extents), i));
    driver_open(e,
                driver_format(e, "if ((%s)[%s])", driver_place(e, guard), i));
  }
  const char *message = r->message;
  if (*r->help)
    message = driver_format(e, "%s (%s)", message, r->help);
  driver_line(e, "%s", driver_fail(e, r->span, message));
  while (e->depth)
    driver_close(e);
  driver_end_piece(e);
}

/* ---- the whole ---- */

static void put_results(Driver *e) {
  const Trace *t = e->t;
  Node **roots = NEW_ARRAY(e->arena, Node *, t->result_count + 1);
  for (uint32_t k = 0; k < t->result_count; k++)
    roots[k] = t->results[k].node;
  region(e, t->result_count, roots, e->out_names, 0);
  for (uint32_t k = 0; k < t->result_count; k++) {
    const char *place = driver_place(e, roots[k]);
    if (strcmp(place, e->out_names[k]) != 0)
      driver_copy(e, roots[k], e->out_names[k], place);
  }
  driver_end_piece(e);
}

void driver_function(Driver *e) {
  const Trace *t = e->t;
  e->g->backend = e->cuda ? &e->m->cuda.backend : &backend_cpu;
  if (e->cuda)
    driver_begin_cuda(e);
  /* Those of sizes alone first: what the others need to know may run into what
   * they refuse. */
  for (uint32_t guarded = 0; guarded < 2; guarded++)
    for (uint32_t k = 0; k < t->required_count; k++)
      if ((t->required[k].guard != NULL) == guarded)
        put_test(e, &t->required[k]);
  driver_bound_results(e);
  put_results(e);
}
