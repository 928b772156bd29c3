/* What of a traced function is stored, in which order, and for how long. */
#include "session/cgen.h"

#include <string.h>

enum { CHEAP = 6, DEAR = 20, SMALL = 60, LARGE = 300, DATA_MOST = 1 << 22 };

typedef VEC(Node *) Nodes;

typedef struct Plan {
  Cgen *e;
  Nodes order;    /* inputs before readers */
  Map once;       /* Node: the Node that reads it, once for each element */
} Plan;

/* ---- all that there is ---- */

static void refuse(Cgen *e, const Node *n, const char *what) {
  session_error(e->s, 613, n->span.file ? n->span : e->t->span,
                "%s cannot be built: %s", e->t->name, what);
  trap_raise(FAIL_ERROR);
}

static void walk(Plan *p, Node *n);

static void used(Plan *p, Node *x, Node *by, bool once) {
  walk(p, x);
  NodeInfo *info = cgen_info(p->e, x);
  info->uses++;
  if (once)
    map_put(&p->once, x, by);
}

static void required(Plan *p, Node *x) {
  walk(p, x);
  cgen_info(p->e, x)->stored = true;
}

/* Does each element of the reader want another one? */
static bool reads_once(const Node *n, const Cell *c) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  uint64_t seen = 0;
  for (uint32_t k = 0; k < c->arg_count; k++) {
    const Cell *arg = &n->cells[c->args[k]];
    if (arg->kind == CELL_AXIS)
      seen |= (uint64_t)1 << arg->axis;
  }
  return seen == ((uint64_t)1 << axes) - 1;
}

static void walk_loop(Plan *p, Node *n) {
  Turns *l = n->loop;
  if (l->more && l->more->free_count)
    refuse(p->e, n, "a `while` in a `for` that ends at another turn for each "
                    "index");
  if (l->more)
    used(p, l->more, n, true);
  for (uint32_t k = 0; k < l->state_count; k++) {
    walk(p, l->states[k]);
    used(p, n->inputs[k], n, true);
    used(p, l->results[k], n, true);
  }
  if (n->output >= l->state_count)
    used(p, l->results[n->output], n, true);
  walk(p, l->turn);
}

static void walk(Plan *p, Node *n) {
  interrupt_poll();
  NodeInfo *info = cgen_info(p->e, n);
  if (info->seen)
    return;
  info->seen = true;
  if (n->guard && !n->data)
    used(p, n->guard, n, n->guard->free_count == n->free_count);
  if (n->loop && !n->data) {
    walk_loop(p, n);
  } else if (!n->data) {
    for (uint32_t k = 0; k < n->input_count; k++)
      required(p, n->inputs[k]);
    for (uint32_t k = 0; k < n->cell_count; k++)
      if (n->cells[k].kind == CELL_READ)
        used(p, n->cells[k].node, n, reads_once(n, &n->cells[k]));
  }
  VEC_PUSH(p->e->arena, p->order, n);
}

/* ---- what is stored ---- */

static void weigh(Cgen *e, const Node *n, NodeInfo *info) {
  info->size = n->cell_count;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    bool dear = c->kind == CELL_RANDOM ||
                (c->kind == CELL_OP && op_is_dear(c->op) &&
                 !(c->dtype == DT_I64 && (c->op == PRIM_DIV ||
                                          c->op == PRIM_MOD)));
    bool counts = c->kind == CELL_OP && c->dtype != DT_I64;
    info->cost += dear ? DEAR : counts;
    if (c->kind != CELL_READ)
      continue;
    const NodeInfo *x = cgen_info(e, c->node);
    info->cost += x->stored ? 1 : x->cost;
    info->size += x->stored ? 0 : x->size;
  }
}

static void name_data(Cgen *e, Node *n, NodeInfo *info) {
  const Tensor *t = n->data;
  if (t->count > DATA_MOST)
    refuse(e, n, "it needs data of more than 4 million elements, which a text "
                 "is no place for: make them an argument");
  info->name = cgen_fresh(e, "d");
  buffer_printf(&e->data, "static const %s %s_%s[] = {", cgen_type(t->dtype),
                e->name, info->name);
  for (int64_t i = 0; i < t->count; i++) {
    Scalar x = scalar_load(t->dtype, tensor_at(t, i));
    bool half = t->dtype == DT_F16 || t->dtype == DT_BF16;
    if (half)
      x = (Scalar){DT_I64, {.i = *(uint16_t *)tensor_at(t, i)}};
    buffer_printf(&e->data, "%s%s", i % 8 ? ", " : "\n  ", cgen_const(e, x));
    if (i % 8 == 7 && i + 1 < t->count)
      buffer_puts(&e->data, ",");
  }
  buffer_puts(&e->data, t->count ? "};\n" : "0};\n");
  info->name = cgen_format(e, "%s_%s", e->name, info->name);
}

static void decide(Plan *p, Node *n) {
  Cgen *e = p->e;
  NodeInfo *info = cgen_info(e, n);
  if (n->data) {
    info->stored = info->placed = true;
    name_data(e, n, info);
    return;
  }
  if (n->kind == NODE_ARG) {
    info->stored = info->placed = true;
    info->name = e->arg_names[n->arg];
    if (!n->rank)
      info->value = cgen_load(e, n->dtype, info->name);
    return;
  }
  info->placed = n->kind == NODE_STATE;
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE) {
    info->stored = true;
    return;
  }
  weigh(e, n, info);
  const Node *by = map_get(&p->once, n);
  bool cheap = info->cost <= CHEAP && info->size <= SMALL;
  bool single = info->uses == 1 && by && by->loops == n->loops &&
                info->size <= LARGE;
  info->stored |= !cheap && !single;
}

/* ---- statements ---- */

static void place(Plan *p, Stmts *to, Node *n);

static void add_use(Cgen *e, Stmt *s, Node *x) {
  for (uint32_t k = 0; k < s->uses.len; k++)
    if (s->uses.at[k] == x)
      return;
  VEC_PUSH(e->arena, s->uses, x);
}

typedef struct Reads { /* in a nest, with all that is written into it */
  Plan *p;
  Map seen;
  Stmt *s;
} Reads;

static void find_reads(Reads *r, Node *x) {
  if (map_get(&r->seen, x))
    return;
  map_put(&r->seen, x, r);
  if (cgen_info(r->p->e, x)->stored) {
    add_use(r->p->e, r->s, x);
    return;
  }
  for (uint32_t k = 0; k < x->cell_count; k++)
    if (x->cells[k].kind == CELL_READ)
      find_reads(r, x->cells[k].node);
}

static void stmt_reads(Plan *p, Stmt *s, Node *x) {
  Reads r = {.p = p, .s = s};
  map_init(&r.seen, p->e->arena);
  find_reads(&r, x);
}

static Stmt *add_stmt(Plan *p, Stmts *to) {
  Stmt *s = NEW(p->e->arena, Stmt);
  VEC_PUSH(p->e->arena, to->at, s);
  return s;
}

/* All that is needed inside of a loop, and is the same in all of its turns. */
static void place_outside(Plan *p, Stmts *to, Node *n, uint32_t depth,
                          Map *seen) {
  if (map_get(seen, n))
    return;
  map_put(seen, n, p);
  if (n->loops < depth) {
    place(p, to, n);
    return;
  }
  if (n->guard)
    place_outside(p, to, n->guard, depth, seen);
  for (uint32_t k = 0; k < n->input_count; k++)
    place_outside(p, to, n->inputs[k], depth, seen);
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      place_outside(p, to, n->cells[k].node, depth, seen);
  const Turns *l = n->loop;
  for (uint32_t k = 0; l && k < l->state_count + l->out_count; k++)
    place_outside(p, to, l->results[k], depth, seen);
  if (l && l->more)
    place_outside(p, to, l->more, depth, seen);
}

static void union_uses(Cgen *e, Stmt *s, const Stmts *inner) {
  for (uint32_t k = 0; k < inner->at.len; k++)
    for (uint32_t j = 0; j < inner->at.at[k]->uses.len; j++)
      add_use(e, s, inner->at.at[k]->uses.at[j]);
}

/* The loop of which n is an output, with all the others that there are. */
static void place_loop(Plan *p, Stmts *to, Node *n) {
  Cgen *e = p->e;
  Turns *l = n->loop;
  Nodes outputs = {0};
  for (uint32_t k = 0; k < p->order.len; k++)
    if (p->order.at[k]->loop == l && !p->order.at[k]->data) {
      VEC_PUSH(e->arena, outputs, p->order.at[k]);
      cgen_info(e, p->order.at[k])->placed = true;
    }
  Map seen;
  map_init(&seen, e->arena);
  if (l->more)
    place_outside(p, to, l->more, l->turn->loops, &seen);
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    place_outside(p, to, l->results[k], l->turn->loops, &seen);
  for (uint32_t k = 0; k < outputs.len; k++) {
    if (outputs.at[k]->guard)
      place(p, to, outputs.at[k]->guard);
    for (uint32_t j = 0; j < l->state_count; j++)
      place(p, to, outputs.at[k]->inputs[j]);
  }
  Stmt *s = NEW(e->arena, Stmt);
  s->loop = l;
  s->tests = NEW(e->arena, Stmts);
  s->turn = NEW(e->arena, Stmts);
  if (l->more) {
    place(p, s->tests, l->more);
    Stmt *asks = add_stmt(p, s->tests);
    asks->asks = s;
    stmt_reads(p, asks, l->more);
  }
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    place(p, s->turn, l->results[k]);
  Stmt *ends = add_stmt(p, s->turn);
  ends->ends = s;
  for (uint32_t k = 0; k < l->state_count + l->out_count; k++)
    stmt_reads(p, ends, l->results[k]);
  for (uint32_t k = 0; k < outputs.len; k++) {
    VEC_PUSH(e->arena, s->outputs, outputs.at[k]);
    cgen_info(e, outputs.at[k])->home = to;
    add_use(e, s, outputs.at[k]);
    for (uint32_t j = 0; j < l->state_count; j++)
      stmt_reads(p, s, outputs.at[k]->inputs[j]);
  }
  union_uses(e, s, s->tests);
  union_uses(e, s, s->turn);
  VEC_PUSH(e->arena, to->at, s);
}

static void place(Plan *p, Stmts *to, Node *n) {
  Cgen *e = p->e;
  NodeInfo *info = cgen_info(e, n);
  if (info->placed)
    return;
  info->placed = true;
  if (n->loop) {
    place_loop(p, to, n);
    return;
  }
  if (n->guard)
    place(p, to, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    place(p, to, n->inputs[k]);
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      place(p, to, n->cells[k].node);
  if (!info->stored)
    return;
  Stmt *s = add_stmt(p, to);
  s->node = n;
  info->home = to;
  add_use(e, s, n);
  if (n->guard)
    stmt_reads(p, s, n->guard);
  for (uint32_t k = 0; k < n->input_count; k++)
    stmt_reads(p, s, n->inputs[k]);
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      stmt_reads(p, s, n->cells[k].node);
}

static void place_test(Plan *p, Stmts *to, const Requirement *r) {
  if (r->guard)
    place(p, to, r->guard);
  Stmt *s = add_stmt(p, to);
  s->required = r;
  if (r->guard)
    stmt_reads(p, s, r->guard);
}

/* A result is stored where the caller wants it, unless it is something else
 * already. */
static void place_result(Plan *p, Stmts *to, Node *n, const char *out) {
  Cgen *e = p->e;
  place(p, to, n);
  NodeInfo *info = cgen_info(e, n);
  if (info->home == to && !info->name) {
    info->name = out;
    return;
  }
  Stmt *s = add_stmt(p, to);
  s->copy = n;
  s->to = out;
  stmt_reads(p, s, n);
}

/* ---- memory ---- */

static const char *count_text(Cgen *e, const Node *n) {
  const char *text = "1";
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    text = cgen_format(e, "times(%s, %s)", text, cgen_size(e, n->extents[k]));
  return text;
}

static void declare(Cgen *e, const char *text) {
  VEC_PUSH(e->arena, e->declared, text);
}

static void get_memory(Cgen *e, const Node *n, const char *name, bool clear) {
  const char *type = cgen_type(n->dtype);
  declare(e, cgen_format(e, "%s *%s = NULL;", type, name));
  cgen_line(e, "%s = room(%s, sizeof *%s, %d);", name, count_text(e, n), name,
            clear);
  cgen_line(e, "if (!%s) %s", name, cgen_fail(e, (Span){0}, "out of memory"));
}

static void free_memory(Cgen *e, const char *name) {
  cgen_line(e, "free(%s);", name);
  cgen_line(e, "%s = NULL;", name);
}

static void name_node(Cgen *e, const Node *n) {
  NodeInfo *info = cgen_info(e, n);
  bool clear = n->guard != NULL;
  if (info->name && clear)
    cgen_line(e, "memset(%s, 0, (size_t)%s * sizeof *%s);", info->name,
              count_text(e, n), info->name);
  if (info->name)
    return;
  info->name = cgen_fresh(e, "t");
  if (n->free_count + n->rank == 0) {
    declare(e, cgen_format(e, "%s %s[1] = {0};", cgen_type(n->dtype),
                           info->name));
    if (clear)
      cgen_line(e, "%s[0] = 0;", info->name);
    return;
  }
  info->temporary = true;
  VEC_PUSH(e->arena, e->temporaries, info);
  get_memory(e, n, info->name, clear);
}

static void emit_list(Cgen *e, Stmts *list);

static void put_type(Cgen *e, const Node *n) {
  Buffer type = {.arena = e->arena};
  node_print_type(e->g, &type, n);
  const Source *source =
      n->span.file ? sources_get(&e->s->sources, n->span.file) : NULL;
  if (!source || source->library) {
    cgen_line(e, "/* %s */", type.text);
    return;
  }
  uint32_t line, column;
  source_place(source, n->span.start, &line, &column);
  cgen_line(e, "/* line %u: %s */", line, type.text);
}

static void open_turns(Cgen *e, Stmt *s, const char *turn) {
  const Turns *l = s->loop;
  if (l->more)
    cgen_open(e, cgen_format(e, "for (int64_t %s = 0;; %s++)", turn, turn));
  else
    cgen_open(e, cgen_format(e, "for (int64_t %s = 0; %s < %s; %s++)", turn,
                             turn, cgen_size(e, l->count), turn));
}

/* The next states are made of these; then they change places. */
static void end_turn(Cgen *e, const Stmt *s) {
  const Turns *l = s->loop;
  for (uint32_t k = 0; k < s->outputs.len; k++) {
    const Node *n = s->outputs.at[k];
    if (n->output >= l->state_count)
      cgen_copy(e, n, l->results[n->output], cgen_info(e, n)->name,
                cgen_info(e, l->turn)->value, l->count);
  }
  for (uint32_t k = 0; k < l->state_count; k++)
    cgen_copy(e, l->states[k], l->results[k], s->next[k], NULL, 0);
  for (uint32_t k = 0; k < l->state_count; k++) {
    const char *name = cgen_info(e, l->states[k])->name;
    cgen_open(e, "");
    cgen_line(e, "%s *s = %s;", cgen_type(l->states[k]->dtype), name);
    cgen_line(e, "%s = %s;", name, s->next[k]);
    cgen_line(e, "%s = s;", s->next[k]);
    cgen_close(e);
  }
}

static void begin_loop(Cgen *e, Stmt *s) {
  const Turns *l = s->loop;
  const Node *any = s->outputs.at[0];
  s->next = NEW_ARRAY(e->arena, const char *, l->state_count + 1);
  for (uint32_t k = 0; k < l->state_count; k++) {
    const char *name = cgen_fresh(e, "s");
    cgen_info(e, l->states[k])->name = name;
    s->next[k] = cgen_fresh(e, "s");
    get_memory(e, l->states[k], name, false);
    get_memory(e, l->states[k], s->next[k], false);
    cgen_copy(e, l->states[k], any->inputs[k], name, NULL, 0);
  }
  for (uint32_t k = 0; k < s->outputs.len; k++)
    name_node(e, s->outputs.at[k]);
}

static void emit_loop(Cgen *e, Stmt *s) {
  const Turns *l = s->loop;
  begin_loop(e, s);
  NodeInfo *turn = cgen_info(e, l->turn);
  turn->value = cgen_fresh(e, "turn");
  turn->turns = l->more ? 0 : l->count;
  if (l->more) {
    s->go = cgen_fresh(e, "go");
    declare(e, cgen_format(e, "int32_t %s = 0;", s->go));
  }
  open_turns(e, s, turn->value);
  emit_list(e, s->tests);
  if (l->more)
    cgen_line(e, "if (!%s) break;", s->go);
  emit_list(e, s->turn);
  cgen_close(e);
  for (uint32_t k = 0; k < s->outputs.len; k++) {
    const Node *n = s->outputs.at[k];
    if (n->output < l->state_count)
      cgen_copy(e, n, l->states[n->output], cgen_info(e, n)->name, NULL, 0);
  }
  for (uint32_t k = 0; k < l->state_count; k++) {
    free_memory(e, cgen_info(e, l->states[k])->name);
    free_memory(e, s->next[k]);
  }
}

static void emit_stmt(Cgen *e, Stmt *s) {
  if (s->required) {
    cgen_test(e, s->required);
  } else if (s->copy) {
    cgen_copy(e, s->copy, s->copy, s->to, NULL, 0);
  } else if (s->loop) {
    emit_loop(e, s);
  } else if (s->ends) {
    end_turn(e, s->ends);
  } else if (s->asks) {
    cgen_ask(e, s->asks->go, s->asks->loop->more);
  } else {
    put_type(e, s->node);
    name_node(e, s->node);
    if (s->node->kind == NODE_OPAQUE)
      cgen_opaque(e, s->node, cgen_info(e, s->node)->name);
    else
      cgen_comp(e, s->node, cgen_info(e, s->node)->name);
  }
}

static void emit_list(Cgen *e, Stmts *list) {
  for (uint32_t i = 0; i < list->at.len; i++)
    for (uint32_t k = 0; k < list->at.at[i]->uses.len; k++) {
      NodeInfo *info = cgen_info(e, list->at.at[i]->uses.at[k]);
      if (info->home == list)
        info->last = i;
    }
  for (uint32_t i = 0; i < list->at.len; i++) {
    Stmt *s = list->at.at[i];
    emit_stmt(e, s);
    for (uint32_t k = 0; k < s->uses.len; k++) {
      const NodeInfo *info = cgen_info(e, s->uses.at[k]);
      if (info->home == list && info->last == i && info->temporary)
        free_memory(e, info->name);
    }
  }
}

void cgen_function(Cgen *e) {
  Plan p = {.e = e};
  map_init(&p.once, e->arena);
  const Trace *t = e->t;
  for (uint32_t k = 0; k < t->required_count; k++)
    if (t->required[k].guard)
      used(&p, t->required[k].guard, NULL, false);
  for (uint32_t k = 0; k < t->result_count; k++)
    required(&p, t->results[k].node);
  for (uint32_t k = 0; k < p.order.len; k++)
    decide(&p, p.order.at[k]);
  Stmts all = {0};
  /* Those of sizes alone first: what the others need to know may run into what
   * they refuse. */
  for (uint32_t guarded = 0; guarded < 2; guarded++)
    for (uint32_t k = 0; k < t->required_count; k++)
      if ((t->required[k].guard != NULL) == guarded)
        place_test(&p, &all, &t->required[k]);
  for (uint32_t k = 0; k < t->result_count; k++)
    place_result(&p, &all, t->results[k].node, e->out_names[k]);
  emit_list(e, &all);
}
