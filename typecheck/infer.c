/* Expressions: their types are inferred, and they become core. */
#include "typecheck/internal.h"

#include <stdarg.h>
#include <string.h>

enum { DEPTH_MAX = 2500 };

/* ---- core ---- */

Core *core_new(Checker *c, CoreKind kind, Span span) {
  Core *core = NEW(c->arena, Core);
  core->kind = kind;
  core->span = span;
  return core;
}

Core *core_var(Checker *c, Var *v, Span span) {
  Core *core = core_new(c, CORE_VAR, span);
  core->var = v;
  return core;
}

Core *core_items(Checker *c, CoreKind kind, Span span, uint32_t n, ...) {
  Core *core = core_new(c, kind, span);
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->item_count = n;
  va_list args;
  va_start(args, n);
  for (uint32_t i = 0; i < n; i++)
    core->items[i] = va_arg(args, Core *);
  va_end(args);
  return core;
}

Core *core_let(Checker *c, Var *v, Core *value, Core *body) {
  Core *core = core_items(c, CORE_LET, value->span, 2, value, body);
  core->var = v;
  return core;
}

/* ---- names ---- */

static Core *bad(Checker *c, Span span, Type **type) {
  *type = ty_meta(c);
  return core_new(c, CORE_ERROR, span);
}

/* Element type of what a primitive gives in the end. */
static ElemVar *result_elem(Checker *c, Type *t) {
  for (t = ty_norm(c, t); t->tag == TY_FUN; t = ty_norm(c, t->arg[1]))
    ;
  if (t->tag == TY_TUPLE && t->count)
    t = ty_norm(c, t->args[0]);
  return t->tag == TY_TENSOR ? t->elem : NULL;
}

static uint32_t arity_of(Type *t) {
  uint32_t n = 0;
  for (t = ty_root(t); t->tag == TY_FUN; t = ty_root(t->arg[1]))
    n++;
  return n;
}

static Core *apply_con(Checker *c, Binding *b, Span span, Type **type,
                       Origin *o) {
  Inst *inst;
  *type = scheme_instantiate(c, b->scheme, o, &inst);
  Core *con = core_new(c, CORE_CON, span);
  con->con = &b->con->con;
  if (!b->con->con.has_arg)
    return con;
  Var *v = var_new(c, b->name, span, false);
  Core *fn = core_new(c, CORE_LAM, span);
  fn->params = NEW(c->arena, CoreParam);
  fn->params[0].var = v;
  fn->param_count = 1;
  Core *arg = core_var(c, v, span);
  con->items = NEW(c->arena, Core *);
  con->items[0] = arg;
  con->item_count = 1;
  fn->items = NEW(c->arena, Core *);
  fn->items[0] = con;
  fn->item_count = 1;
  return fn;
}

/* Sizes that a variable's type leaves as `?` get names, the same at each of
 * its uses. */
static Core *open_variable(Checker *c, Binding *b, Core *core, Type **type) {
  if (b->plain)
    return core;
  if (!b->opened) {
    uint32_t level = c->level;
    c->level = b->level;
    Core *open = core;
    b->opened = ty_open_data(c, *type, &open);
    b->opening = open != core ? open : NULL;
    c->level = level;
    if (!b->opening) {
      b->opened = NULL;
      b->plain = ty_is_ground(c, *type);
    }
  }
  if (!b->opened)
    return core;
  if (b->var->global)
    VEC_PUSH(c->arena, c->sized, b);
  Core *open = core_new(c, CORE_OPEN, core->span);
  *open = *b->opening;
  open->items = NEW(c->arena, Core *);
  open->items[0] = core;
  *type = b->opened;
  return open;
}

/* Reads the sizes that were found in a variable, then runs the body. */
Core *open_binding(Checker *c, const Binding *b, Core *body) {
  Core *value = core_var(c, b->var, b->span);
  Core *open = core_items(c, CORE_OPEN, b->span, 1, value);
  if (b->opening) {
    open->binds = b->opening->binds;
    open->bind_count = b->opening->bind_count;
  } else {
    open->binds = NEW(c->arena, CoreBind);
    open->binds[0] = (CoreBind){.var = b->size, .value = true};
    open->bind_count = 1;
  }
  return core_items(c, CORE_SEQ, body->span, 2, open, body);
}

/* The body of what binds the names from `from` to `until`: sizes that it has
 * found in them are read first, for all of it. */
Core *open_bound(Checker *c, const Scope *from, const Scope *until,
                 Core *body) {
  for (const Scope *s = from; s && s != until; s = s->outer) {
    const Binding *b = s->binding;
    if (b && b->kind == BK_VALUE && b->var && (b->opening || b->size))
      body = open_binding(c, b, body);
  }
  return body;
}

Core *apply_binding(Checker *c, Binding *b, Span span, Type **type,
                    Origin *o) {
  if (b->failed)
    return bad(c, span, type);
  Scheme *s = binding_scheme(c, b);
  switch (b->kind) {
  case BK_MODULE:
    error_at(c, 310, span, "`%s` is a module, not a value", b->name->text)
        ->help = "use one of its names, as in nn.softmax";
    return bad(c, span, type);
  case BK_CON:
    return apply_con(c, b, span, type, o);
  case BK_PRIM:
  case BK_DTYPE: {
    *type = scheme_instantiate(c, s, o, NULL);
    Core *core = core_new(c, CORE_PRIM, span);
    core->prim = b->kind == BK_DTYPE ? PRIM_CONVERT : b->prim;
    core->arity = arity_of(*type);
    core->elem.var = result_elem(c, *type);
    return core;
  }
  case BK_SIZE: {
    *type = ty_int(c, b->dim);
    Core *core = core_new(c, CORE_DIM, span);
    core->dim = b->dim;
    return core;
  }
  case BK_VALUE:
    break;
  }
  if (!s) {
    error_at(c, 311, span, "`%s` is used while it is being defined",
             b->name->text)
        ->help = "only functions can be recursive: define it with fun";
    return bad(c, span, type);
  }
  Core *core = core_var(c, b->var, span);
  if (b->recursive && b->annotated) {
    polyrec_use(c, b, core, type, o);
    return core;
  }
  Inst *inst;
  *type = scheme_instantiate(c, s, o, &inst);
  if (!s->poly && !b->recursive)
    core = open_variable(c, b, core, type);
  if (b->recursive) {
    VEC_PUSH(c->arena, b->group->uses, core);
  } else if (inst) {
    inst->core = core;
    core->inst = inst;
  }
  return core;
}

static bool may_have_field(Checker *c, Type *t, Sym *name, Span span);
static Core *infer_num(Checker *c, Expr *e, Type **type);

/* `at` is where the name itself stands. */
static Core *unknown_name(Checker *c, Sym *module, Sym *name, Span span,
                          Span at, Type **type) {
  places_name(c, PLACE_VALUE, at, name, (Span){0}, NULL);
  Diag *d = module ? error_at(c, 312, span, "module `%s` has no `%s`",
                              module->text, name->text)
                   : error_at(c, 312, span, "`%s` is not defined", name->text);
  const Foreign *word = lexer_foreign(name->text);
  if (module)
    suggest_member(c, d, at, module, name);
  else if (word)
    suggest_foreign(c, d, span, word);
  else if (lookup_type(c, NULL, name))
    d->help = "this is the name of a type, not of a value";
  else
    suggest_name(c, d, span, name);
  return bad(c, span, type);
}

/* A use of a name, which stands at `place` in an expression. */
static Core *name_at(Checker *c, Binding *b, Span span, Span place,
                     Type **type, Origin *o) {
  Core *core = apply_binding(c, b, span, type, o);
  places_binding(c, place, b, *type);
  return core;
}

/* Of what a name demands of its use: of all arguments, if it is applied. */
static Origin *name_origin(Checker *c, Expr *e, const char *what) {
  Origin *o = origin_new(c, OR_ARG, e->span);
  o->what = what;
  if (e != c->head)
    return o;
  o->args = c->head_args;
  o->arg_count = c->head_arg_count;
  return o;
}

static Core *infer_id(Checker *c, Expr *e, Type **type) {
  for (Scope *s = c->scope; s; s = s->outer)
    if (s->name == e->id && (s->binding || s->dim || s->shape)) {
      if (s->binding)
        break;
      places_size(c, e->span, e->id, s->shape != NULL);
      if (s->shape) {
        *type = ty_shape(c, s->shape);
        Core *core = core_new(c, CORE_SHAPEVAL, e->span);
        core->inst = s->shape; /* read when all is solved: core_finish */
        return core;
      }
      *type = ty_int(c, s->dim);
      Core *core = core_new(c, CORE_DIM, e->span);
      core->dim = s->dim;
      return core;
    }
  Binding *b = lookup(c, NULL, e->id);
  if (!b && (strcmp(e->id->text, "inf") == 0 ||
             strcmp(e->id->text, "nan") == 0)) {
    Expr num = {.kind = EX_NUM, .span = e->span, .num = e->id->text,
                .is_float = true};
    return infer_num(c, &num, type);
  }
  if (!b)
    return unknown_name(c, NULL, e->id, e->span, e->span, type);
  Origin *o = name_origin(c, e, e->id->text);
  e->means = b;
  Core *core = name_at(c, b, e->span, e->span, type, o);
  e->inst = core->kind == CORE_VAR ? core->inst : NULL;
  return core;
}

/* ---- literals ---- */

static Core *infer_num(Checker *c, Expr *e, Type **type) {
  ElemVar *elem = elem_meta(c, e->is_float ? CLASS_FLOAT : CLASS_NUM);
  elem->prefer = e->is_float ? 2 : 1;
  Dim *term = NULL;
  if (!e->is_float) {
    term = meta_term(c, e->span);
    dim_as_var(term)->bound = dim_text(c->dims, e->num);
    term = dim_as_var(term)->bound;
  }
  *type = ty_tensor(c, elem, shape_new(c, 0), term);
  Core *core = core_new(c, CORE_NUM, e->span);
  core->num = e->num;
  core->is_float = e->is_float;
  core->elem.var = elem;
  return core;
}

static Core *infer_string(Checker *c, Expr *e, Type **type) {
  *type = ty_string(c);
  Core *core = core_new(c, CORE_STRING, e->span);
  core->text = e->text;
  core->text_len = e->text_len;
  return core;
}

/* Constructors are known by their case: a name may be meant. */
void unknown_con(Checker *c, Sym *module, Sym *name, Span span) {
  if (module) {
    error_at(c, 313, span, "module `%s` has no constructor `%s`",
             module->text, name->text);
    return;
  }
  Diag *d = error_at(c, 313, span, "no constructor is named `%s`", name->text);
  const Foreign *word = lexer_foreign(name->text);
  char *small = arena_text(c->arena, name->text, name->len);
  small[0] = (char)(small[0] - 'A' + 'a');
  if (word)
    suggest_foreign(c, d, span, word);
  else if (lookup(c, NULL, intern_text(c->in, small)))
    d->help = arena_printf(c->arena, "there is a value named `%s`", small);
  else
    suggest_con(c, d, span, name);
}

static Core *infer_con(Checker *c, Expr *e, Type **type) {
  if (e->id == c->sym_true || e->id == c->sym_false) {
    *type = ty_scalar(c, DT_BOOL, NULL);
    Core *core = core_new(c, CORE_BOOL, e->span);
    core->flag = e->id == c->sym_true;
    return core;
  }
  Binding *b = lookup(c, NULL, e->id);
  if (!b) {
    unknown_con(c, NULL, e->id, e->span);
    return bad(c, e->span, type);
  }
  return name_at(c, b, e->span, e->span, type,
                 origin_new(c, OR_ARG, e->span));
}

/* ---- sizes of expressions ---- */

static bool is_integer(Checker *c, Type *t) {
  t = ty_norm(c, t);
  return t->tag == TY_TENSOR && elem_root(t->elem)->dtype == DT_I64 &&
         shape_norm(c, t->shape)->len == 0;
}

/* An integer variable, by its known term or the name of its value; NULL if e
 * is none. */
static Dim *size_of_name(Checker *c, Expr *e) {
  Binding *b = lookup(c, NULL, e->id);
  if (!b || b->kind != BK_VALUE || !b->scheme || b->scheme->poly ||
      b->recursive || !is_integer(c, b->scheme->type))
    return NULL;
  Dim *known = term_of(c, b->scheme->type);
  if (known)
    return known;
  if (!b->size)
    b->size = dim_as_var(data_dim(c, b->name, e->span));
  b->size->value = true;
  if (b->var->global)
    VEC_PUSH(c->arena, c->sized, b);
  return dim_of_var(c->dims, b->size);
}

/* Of sums and products of integer variables and literals; else NULL. */
static Dim *size_of_sum(Checker *c, Expr *e) {
  if (e->kind == EX_ID)
    return size_of_name(c, e);
  if (e->kind == EX_NUM && !e->is_float)
    return dim_text(c->dims, e->num);
  if (e->kind != EX_BIN || (e->op != BIN_ADD && e->op != BIN_SUB &&
                            e->op != BIN_MUL))
    return NULL;
  Dim *a = size_of_sum(c, e->arg[0]);
  Dim *b = a ? size_of_sum(c, e->arg[1]) : NULL;
  if (!b)
    return NULL;
  return e->op == BIN_ADD   ? dim_add(c->dims, a, b)
         : e->op == BIN_SUB ? dim_sub(c->dims, a, b)
                            : dim_mul(c->dims, a, b);
}

/* A term for an integer whose value only running code knows: of a variable
 * one for all uses, of a sum that of its parts, else a new one. */
Dim *size_of(Checker *c, Expr *e, Core **core, Type *t) {
  Dim *known = term_of(c, t);
  if (known)
    return t->term ? ty_root(t)->term : known;
  Dim *sum = e && e->kind == EX_BIN ? size_of_sum(c, e) : NULL;
  if (sum)
    return sum;
  DimVar *v = NULL;
  Binding *b = e && e->kind == EX_ID ? lookup(c, NULL, e->id) : NULL;
  if (b && b->kind == BK_VALUE) {
    if (!b->size)
      b->size = dim_as_var(data_dim(c, b->name, e->span));
    if (b->var->global)
      VEC_PUSH(c->arena, c->sized, b);
    v = b->size;
  } else {
    v = dim_as_var(data_dim(c, NULL, e ? e->span : (Span){0}));
  }
  v->value = true; /* what makes a size of it demands that it is one */
  if (core && *core) {
    Core *open = core_items(c, CORE_OPEN, (*core)->span, 1, *core);
    open->binds = NEW(c->arena, CoreBind);
    open->binds[0] = (CoreBind){.var = v, .value = true};
    open->bind_count = 1;
    *core = open;
  }
  return dim_of_var(c->dims, v);
}

/* ---- structures ---- */

static void find_meta(void *arg, DimVar *v) {
  bool *found = arg;
  *found |= v->kind == DV_META && !v->bound && !v->top;
}

/* A branch or an element must not decide what the others have. */
static bool is_open_shape(Checker *c, Type *w) {
  if (w->tag != TY_TENSOR)
    return false;
  Shape *s = shape_norm(c, w->shape);
  bool open = false;
  for (uint32_t i = 0; i < s->len; i++)
    if (s->at[i].tag == IT_DIM)
      dim_each_var(s->at[i].dim, find_meta, NULL, &open);
    else
      open |= s->at[i].tag == IT_SPLICE && !s->at[i].var->rigid;
  return open;
}

static Core *infer_tuple(Checker *c, Expr *e, Type *want, Type **type) {
  Core *core = core_new(c, CORE_TUPLE, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  Type **parts = NEW_ARRAY(c->arena, Type *, e->item_count);
  bool fits = want && want->tag == TY_TUPLE && want->count == e->item_count;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *w = fits ? ty_norm(c, want->args[i]) : NULL;
    if (w && w->tag != TY_VAR) {
      Origin *o = origin_new(c, OR_ELEMENT, e->items[i]->span);
      o->expr = e->items[i];
      core->items[i] = check(c, e->items[i], w, o);
      parts[i] = w;
    } else {
      core->items[i] = infer(c, e->items[i], &parts[i]);
    }
  }
  *type = ty_tuple(c, e->item_count, parts);
  return core;
}

static Core *infer_seq(Checker *c, Expr **items, uint32_t n, Span span,
                       Type *want, Type **type, Origin *o) {
  Core *core = core_new(c, CORE_SEQ, span);
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->item_count = n;
  for (uint32_t i = 0; i < n; i++) {
    Type *t;
    if (i + 1 == n && want) {
      core->items[i] = check(c, items[i], want, o);
      *type = want;
    } else {
      core->items[i] = infer(c, items[i], &t);
      if (i + 1 == n)
        *type = t;
    }
  }
  return n == 1 ? core->items[0] : core;
}

static Core *infer_list(Checker *c, Expr *e, Type *want, Type **type) {
  Core *core = core_new(c, CORE_LIST, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  Type *item = want && want->tag == TY_DATA && want->data == c->data_list
                   ? ty_norm(c, want->args[0])
                   : NULL;
  bool given = item && item->tag != TY_VAR && !is_open_shape(c, item);
  if (given)
    item = ty_forget_terms(c, item);
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *t;
    Origin *o = origin_new(c, OR_ELEMENT, e->items[i]->span);
    o->number = i;
    o->expr = e->items[i];
    if (given) {
      core->items[i] = check(c, e->items[i], item, o);
      continue;
    }
    uint32_t mark = c->dims->next_id;
    core->items[i] = infer(c, e->items[i], &t);
    t = ty_leave(c, t, mark, LEAVE_FORGOTTEN);
    if (i)
      o->other = e->items[0]->span;
    item = i ? ty_join(c, item, t, o) : t;
  }
  if (!given && item && e->item_count)
    item = ty_forget_terms(c, item);
  *type = ty_list(c, item ? item : ty_meta(c));
  return core;
}

static Core *infer_record(Checker *c, Expr *e, Type *want, Type **type) {
  Core *core = core_new(c, CORE_RECORD, e->span);
  uint32_t n = e->field_count;
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->labels = NEW_ARRAY(c->arena, Sym *, n);
  core->item_count = core->label_count = n;
  Type *r = ty_new(c, TY_RECORD);
  r->args = NEW_ARRAY(c->arena, Type *, n);
  r->labels = NEW_ARRAY(c->arena, Sym *, n);
  r->count = n;
  unique_fields(c, e->fields, n);
  for (uint32_t i = 0; i < n; i++) {
    FieldExpr *f = &e->fields[i];
    core->labels[i] = r->labels[i] = f->id;
    Type *w = NULL;
    for (uint32_t k = 0; want && want->tag == TY_RECORD && k < want->count;
         k++)
      if (want->labels[k] == f->id)
        w = ty_norm(c, want->args[k]);
    if (w && w->tag != TY_VAR) {
      Origin *o = origin_new(c, OR_FIELD, f->expr->span);
      o->what = f->id->text;
      o->expr = f->expr;
      core->items[i] = check(c, f->expr, w, o);
      r->args[i] = w;
    } else {
      core->items[i] = infer(c, f->expr, &r->args[i]);
    }
    places_name(c, PLACE_FIELD, f->span, f->id, (Span){0}, r->args[i]);
  }
  *type = r;
  return core;
}

static Type *open_record(Checker *c, Sym **labels, uint32_t n, Type *rest) {
  Type *r = ty_new(c, TY_RECORD);
  r->count = n;
  r->labels = labels;
  r->args = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    r->args[i] = ty_meta(c);
  r->arg[0] = rest;
  return r;
}

static Core *infer_with(Checker *c, Expr *e, Type **type) {
  Type *base;
  uint32_t n = e->field_count;
  Core *core = core_new(c, CORE_WITH, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, n + 1);
  core->labels = NEW_ARRAY(c->arena, Sym *, n);
  core->item_count = n + 1;
  core->label_count = n;
  core->items[0] = infer(c, e->arg[0], &base);
  unique_fields(c, e->fields, n);
  for (uint32_t i = 0; i < n; i++)
    core->labels[i] = e->fields[i].id;
  for (uint32_t i = 0; i < n; i++)
    if (!may_have_field(c, ty_norm(c, base), e->fields[i].id,
                        e->fields[i].span))
      return bad(c, e->span, type);
  Type *rest = ty_meta(c);
  Type *old = open_record(c, core->labels, n, rest);
  Origin *o = origin_new(c, OR_FIELD, e->arg[0]->span);
  if (!unify(c, base, old, o))
    mismatch(c, base, old, o);
  Type *new = open_record(c, core->labels, n, rest);
  for (uint32_t i = 0; i < n; i++)
    core->items[i + 1] = infer(c, e->fields[i].expr, &new->args[i]);
  for (uint32_t i = 0; i < n; i++)
    places_name(c, PLACE_FIELD, e->fields[i].span, e->fields[i].id, (Span){0},
                new->args[i]);
  *type = new;
  return core;
}

/* What is a method elsewhere is a function here. */
static void help_method(Checker *c, Diag *d, Sym *name) {
  const Foreign *word = lexer_foreign(name->text);
  if (word)
    d->help = word->help; /* its value stands in front */
  else if (lookup(c, NULL, name))
    d->help = arena_printf(c->arena, "apply the function: `%s x`", name->text);
}

/* False, and an error, if a value of this type has no such field. */
static bool may_have_field(Checker *c, Type *t, Sym *name, Span span) {
  if (t->tag == TY_VAR || (t->tag == TY_RECORD && t->arg[0]))
    return true;
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    if (t->labels[i] == name)
      return true;
  const char *shown = ty_text(c, ty_forget_terms(c, t));
  Diag *d;
  if (t->tag == TY_RECORD) {
    d = error_at(c, 305, span, "there is no field `%s` in %s", name->text,
                 shown);
    suggest_field(c, d, span, t, name);
    return false;
  }
  d = error_at(c, 305, span, "%s has no field `%s`",
               t->tag == TY_TENSOR ? "a tensor" : "this", name->text);
  d->note = arena_printf(c->arena, "it is %s", shown);
  help_method(c, d, name);
  if (!d->help)
    d->help = "only records have fields";
  return false;
}

static Core *infer_field(Checker *c, Expr *e, Type **type) {
  Expr *base = e->arg[0];
  if (base->kind == EX_ID) {
    Binding *b = lookup(c, NULL, base->id);
    if (b && b->kind == BK_MODULE) {
      Binding *member = lookup(c, base->id, e->id);
      places_module(c, base->span, base->id, b);
      if (!member)
        return unknown_name(c, base->id, e->id, e->span, e->op_span, type);
      Origin *o = name_origin(
          c, e, arena_printf(c->arena, "%s.%s", base->id->text, e->id->text));
      e->means = member;
      return name_at(c, member, e->span, e->op_span, type, o);
    }
  }
  Type *t;
  Core *core = core_new(c, CORE_FIELD, e->span);
  core->label = e->id;
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, base, &t);
  t = ty_norm(c, t);
  for (Type *r = t; r && r->tag == TY_RECORD;
       r = r->arg[0] ? ty_norm(c, r->arg[0]) : NULL)
    for (uint32_t i = 0; i < r->count; i++)
      if (r->labels[i] == e->id) {
        *type = r->args[i];
        places_name(c, PLACE_FIELD, e->op_span, e->id, (Span){0}, *type);
        return core;
      }
  if (!may_have_field(c, t, e->id,
                      e->op_span.file ? e->op_span : e->span))
    return bad(c, e->span, type);
  Sym **label = NEW(c->arena, Sym *);
  *label = e->id;
  Type *open = open_record(c, label, 1, ty_meta(c));
  Origin *o = origin_new(c, OR_FIELD, e->op_span.file ? e->op_span : e->span);
  o->what = e->id->text;
  if (!unify(c, t, open, o))
    mismatch(c, t, open, o);
  *type = open->args[0];
  places_name(c, PLACE_FIELD, e->op_span, e->id, (Span){0}, *type);
  return core;
}

/* ---- conditions ---- */

/* d != 0: at one end of what d can be, it is an inequality. */
static void fact_differ(Checker *c, Dim *d) {
  Dim *zero = dim_int(c->dims, 0), *one = dim_int(c->dims, 1);
  if (facts_le(c, zero, d) == PROVED) {
    fact_add(c, dim_sub(c->dims, d, one), false);
  } else if (facts_le(c, d, zero) == PROVED) {
    fact_add(c, dim_neg(c->dims, dim_add(c->dims, d, one)), false);
  } else {
    fact_add(c, d, false);
    c->facts->ne = true;
  }
}

static void fact_compare(Checker *c, BinOp op, Dim *a, Dim *b, bool holds) {
  Dim *one = dim_int(c->dims, 1);
  if (!holds) {
    static const BinOp opposite[BIN_COUNT] = {
        [BIN_EQ] = BIN_NE, [BIN_NE] = BIN_EQ, [BIN_LT] = BIN_GE,
        [BIN_LE] = BIN_GT, [BIN_GT] = BIN_LE, [BIN_GE] = BIN_LT};
    op = opposite[op];
  }
  Dim *d = dim_sub(c->dims, b, a);
  switch (op) {
  case BIN_EQ: fact_add(c, d, true); break;
  case BIN_NE: fact_differ(c, d); break;
  case BIN_LE: fact_add(c, d, false); break;
  case BIN_GE: fact_add(c, dim_neg(c->dims, d), false); break;
  case BIN_LT: fact_add(c, dim_sub(c->dims, d, one), false); break;
  case BIN_GT:
    fact_add(c, dim_sub(c->dims, dim_neg(c->dims, d), one), false);
    break;
  default: break;
  }
}

/* The name of a condition says what it was bound to. */
static Expr *condition_meant(Expr *cond) {
  while (cond->kind == EX_ID && cond->means && cond->means->value)
    cond = cond->means->value;
  return cond;
}

/* Does it compare sizes, or indices? */
static bool condition_on_sizes(Checker *c, Expr *cond) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_sizes(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_sizes(c, cond->arg[0]) ||
           condition_on_sizes(c, cond->arg[1]);
  return map_get(&c->terms, cond) != NULL;
}

static void fact_unsaid(Checker *c, Expr *cond) {
  if (!condition_on_sizes(c, cond))
    return;
  fact_add(c, dim_int(c->dims, 0), true);
  c->facts->unsaid = true;
}

void condition_facts(Checker *c, Expr *cond, Core *core, bool holds) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1 &&
      cond->arg[0]->kind == EX_ID &&
      strcmp(cond->arg[0]->id->text, "not") == 0) {
    condition_facts(c, cond->args[0].expr, core, !holds);
    return;
  }
  if (cond->kind != EX_BIN)
    return;
  if (cond->op == (holds ? BIN_AND : BIN_OR)) {
    condition_facts(c, cond->arg[0], core, holds);
    condition_facts(c, cond->arg[1], core, holds);
    return;
  }
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    fact_unsaid(c, cond);
  Terms *t = map_get(&c->terms, cond);
  if (t)
    fact_compare(c, cond->op, t->left, t->right, holds);
}

static void any_index(void *arg, DimVar *v) {
  if (v->kind == DV_INDEX)
    *(bool *)arg = true;
}

bool condition_on_index(Checker *c, Expr *cond) {
  cond = condition_meant(cond);
  if (cond->kind == EX_APP && cond->arg_count == 1)
    return condition_on_index(c, cond->args[0].expr);
  if (cond->kind != EX_BIN)
    return false;
  if (cond->op == BIN_AND || cond->op == BIN_OR)
    return condition_on_index(c, cond->arg[0]) ||
           condition_on_index(c, cond->arg[1]);
  Terms *t = map_get(&c->terms, cond);
  bool found = false;
  if (t) {
    dim_each_var(dim_resolve(c->dims, t->left), any_index, NULL, &found);
    dim_each_var(dim_resolve(c->dims, t->right), any_index, NULL, &found);
  }
  return found;
}

typedef struct Branch {
  Core *core;
  Type *type;
  Fact *facts;
  bool dead;
} Branch;

static Branch infer_branch(Checker *c, Expr *e, Type *want, Origin *o) {
  Branch b = {.facts = c->facts, .dead = facts_exclude(c, c->facts)};
  uint32_t mark = c->dims->next_id;
  uint32_t errors = c->diags->errors, kept = c->diags->all.len;
  uint32_t open = c->open.len;
  if (want && want->tag != TY_VAR && !b.dead) {
    b.core = check(c, e, want, o);
    b.type = want;
  } else {
    b.core = infer(c, e, &b.type);
    b.type = ty_leave(c, b.type, mark, LEAVE_NEW);
  }
  if (b.dead) { /* its facts exclude each other: it never runs */
    c->diags->errors = errors;
    c->diags->all.len = kept;
    c->stats.open -= c->open.len - open;
    c->open.len = open;
  }
  return b;
}

Core *infer_if(Checker *c, Expr *e, Type *want, Type **type, Origin *o) {
  Origin *oc = origin_new(c, OR_ARG, e->arg[0]->span);
  oc->what = "if";
  oc->expr = e->arg[0];
  Core *cond = check(c, e->arg[0], ty_scalar(c, DT_BOOL, NULL), oc);
  bool on_index = condition_on_index(c, e->arg[0]);
  c->conditional += on_index;
  Fact *saved = c->facts;
  condition_facts(c, e->arg[0], cond, true);
  Branch yes = infer_branch(c, e->arg[1], want, o);
  c->facts = saved;
  condition_facts(c, e->arg[0], cond, false);
  Branch no = infer_branch(c, e->arg[2], want, o);
  c->conditional -= on_index;
  if (yes.dead || no.dead) {
    *type = yes.dead ? no.type : yes.type;
  } else if (want && want->tag != TY_VAR) {
    *type = want;
  } else {
    Origin *oj = origin_new(c, OR_BRANCH, e->arg[2]->span);
    oj->other = e->arg[1]->span;
    oj->expr = e->arg[2];
    bool equation = yes.facts != saved && yes.facts && yes.facts->eq;
    c->facts = equation ? yes.facts : no.facts;
    *type = equation ? ty_join(c, no.type, yes.type, oj)
                     : ty_join(c, yes.type, no.type, oj);
  }
  c->facts = saved;
  Core *core = core_items(c, CORE_IF, e->span, 3, cond, yes.core, no.core);
  if (!want || want->tag == TY_VAR)
    *type = ty_open_data(c, *type, &core);
  return core;
}

/* ---- case ---- */

/* The size that a literal pattern compares the subject with; or NULL. */
static Dim *literal_of(Checker *c, const Pat *p) {
  return p->kind == PAT_NUM && !p->is_float ? dim_text(c->dims, p->num) : NULL;
}

static Branch infer_rule(Checker *c, Clause *rule, CoreRule *out,
                         Type *subject, Type *want, Origin *o) {
  Scope *saved = c->scope;
  unique_pattern(c, rule->params[0].pat);
  out->pat = pattern(c, rule->params[0].pat, subject, false);
  Branch b = infer_branch(c, rule->body, want, o);
  out->body = open_bound(c, c->scope, saved, b.core);
  c->scope = saved;
  return b;
}

/* The type that all have: each agrees with it under its own facts.  One that
 * an equation does not narrow comes first. */
static Type *join_branches(Checker *c, const Branch *at, const Expr *e) {
  const Branch *base = NULL;
  for (uint32_t i = 0; i < e->clause_count; i++)
    if (!at[i].dead &&
        (!base || (base->facts && base->facts->eq && at[i].facts &&
                   !at[i].facts->eq)))
      base = &at[i];
  if (!base)
    return ty_meta(c);
  Type *t = base->type;
  for (uint32_t i = 0; i < e->clause_count; i++) {
    if (&at[i] == base || at[i].dead)
      continue;
    Origin *o = origin_new(c, OR_BRANCH, e->clauses[i].body->span);
    o->other = e->clauses[base - at].body->span;
    o->expr = e->clauses[i].body;
    c->facts = at[i].facts;
    t = ty_join(c, t, at[i].type, o);
  }
  return t;
}

static Core *infer_case(Checker *c, Expr *e, Type *want, Type **type,
                        Origin *o) {
  Type *subject;
  uint32_t n = e->clause_count;
  Core *core = core_new(c, CORE_CASE, e->span);
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, e->arg[0], &subject);
  core->rules = NEW_ARRAY(c->arena, CoreRule, n);
  core->rule_count = n;
  Branch *branches = NEW_ARRAY(c->arena, Branch, n);
  Fact *saved = c->facts, *rest = saved;
  Dim *term = term_of(c, subject);
  for (uint32_t i = 0; i < n; i++) {
    Dim *literal = term ? literal_of(c, e->clauses[i].params[0].pat) : NULL;
    c->facts = rest;
    if (literal)
      fact_compare(c, BIN_EQ, term, literal, true);
    branches[i] =
        infer_rule(c, &e->clauses[i], &core->rules[i], subject, want, o);
    c->facts = rest;
    if (literal)
      fact_compare(c, BIN_EQ, term, literal, false);
    rest = c->facts;
  }
  CorePat **pats = NEW_ARRAY(c->arena, CorePat *, n);
  for (uint32_t i = 0; i < n; i++)
    pats[i] = core->rules[i].pat;
  match_check(c, n, pats, subject, e->span);
  bool given = want && want->tag != TY_VAR;
  *type = given ? want : join_branches(c, branches, e);
  c->facts = saved;
  if (!given)
    *type = ty_open_data(c, *type, &core);
  return core;
}

/* ---- let ---- */

Core *infer_let(Checker *c, Expr *e, Type *want, Type **type, Origin *o) {
  Scope *saved = c->scope;
  Fact *facts = c->facts;
  CoreDec **decs = NEW_ARRAY(c->arena, CoreDec *, e->dec_count);
  Scope **scopes = NEW_ARRAY(c->arena, Scope *, e->dec_count);
  for (uint32_t i = 0; i < e->dec_count; i++) {
    dec_infer(c, e->decs[i], false, &decs[i]);
    scopes[i] = c->scope;
  }
  Core *core =
      infer_seq(c, e->items, e->item_count, e->span, want, type, o);
  for (uint32_t i = e->dec_count; i-- > 0;) {
    CoreDec *d = decs[i];
    if (!d)
      continue;
    core = open_bound(c, scopes[i], i ? scopes[i - 1] : saved, core);
    if (d->kind == CD_EXPR) {
      core = core_items(c, CORE_SEQ, d->span, 2, d->expr, core);
    } else if (d->kind == CD_BIND && d->pat->kind == CP_VAR) {
      core = core_let(c, d->pat->var, d->expr, core);
    } else if (d->kind == CD_BIND) {
      Core *match = core_items(c, CORE_CASE, d->span, 1, d->expr);
      match->rules = NEW(c->arena, CoreRule);
      match->rules[0] = (CoreRule){d->pat, core};
      match->rule_count = 1;
      core = match;
    } else {
      Core *rec = core_new(c, CORE_LETREC, d->span);
      rec->vars = d->vars;
      rec->var_count = d->var_count;
      rec->items = NEW_ARRAY(c->arena, Core *, d->var_count + 1);
      rec->item_count = d->var_count + 1;
      for (uint32_t k = 0; k < d->var_count; k++)
        rec->items[k] = d->items[k];
      rec->items[d->var_count] = core;
      core = rec;
    }
  }
  c->scope = saved;
  if (!e->dec_count)
    c->facts = facts;
  return core;
}

/* ---- ascription ---- */

static Core *infer_ascribe(Checker *c, Expr *e, Type **type) {
  Scope *mark = c->scope;
  Type *want = annot_type(c, e->type, AN_VAL);
  Origin *o = origin_new(c, OR_ANNOTATION, e->arg[0]->span);
  o->other = e->type->span;
  o->expr = e->arg[0];
  Type *w = ty_norm(c, want);
  Core *core;
  if (w->tag == TY_TENSOR && !w->term) {
    Type *got;
    uint32_t errors = c->diags->errors;
    core = e->arg[0]->kind == EX_FN || e->arg[0]->kind == EX_BRACKET
               ? check(c, e->arg[0], w, o)
               : infer(c, e->arg[0], &got);
    if (e->arg[0]->kind != EX_FN && e->arg[0]->kind != EX_BRACKET &&
        errors == c->diags->errors) {
      core = flow(c, core, got, w, o);
      got = ty_norm(c, got);
      if (got->tag == TY_TENSOR && got->term)
        want = ty_tensor(c, w->elem, w->shape, got->term);
    }
  } else {
    core = check(c, e->arg[0], want, o);
  }
  found_sizes(c, mark, want, &core);
  *type = want;
  return core;
}

/* ---- the two directions ---- */

static Core *infer_hole(Checker *c, Expr *e, Type *want, Type **type) {
  *type = want ? want : ty_meta(c);
  Diag *d = error_at(c, 330, e->span, "a hole of type %s is to be filled in",
                     ty_text(c, *type));
  d->help = "write an expression of this type in place of _";
  return core_new(c, CORE_ERROR, e->span);
}

/* `f` as fn a b => f a b: what f's variables stand for is found anew at each
 * call. */
static Expr *at_each_call(Checker *c, Expr *e, Type *want) {
  uint32_t n = 0;
  for (Type *t = want; t->tag == TY_FUN; t = ty_norm(c, t->arg[1]))
    n++;
  Expr *body = NEW(c->arena, Expr), *fn = NEW(c->arena, Expr);
  *body = (Expr){.kind = EX_APP, .span = e->span, .arg = {e}, .arg_count = n};
  body->args = NEW_ARRAY(c->arena, Arg, n);
  Clause *clause = NEW(c->arena, Clause);
  *clause = (Clause){.span = e->span, .param_count = n, .body = body};
  clause->params = NEW_ARRAY(c->arena, Param, n);
  for (uint32_t i = 0; i < n; i++) {
    Pat *p = NEW(c->arena, Pat);
    Expr *x = NEW(c->arena, Expr);
    Sym *name = intern_text(c->in, arena_printf(c->arena, "%u", i));
    *p = (Pat){.kind = PAT_VAR, .span = e->span, .id = name};
    *x = (Expr){.kind = EX_ID, .span = e->span, .id = name};
    clause->params[i] = (Param){.span = e->span, .pat = p};
    body->args[i] = (Arg){.span = e->span, .expr = x};
  }
  *fn = (Expr){.kind = EX_FN, .span = e->span, .clauses = clause,
               .clause_count = 1};
  return fn;
}

/* (op ::) is fn a b => a :: b. */
static Expr *operator_fn(Checker *c, Expr *e) {
  static const char *const names[] = {"a", "b"};
  Expr *body = NEW(c->arena, Expr), *fn = NEW(c->arena, Expr);
  *body = (Expr){.kind = EX_BIN, .span = e->span, .op = e->op};
  Clause *clause = NEW(c->arena, Clause);
  *clause = (Clause){.span = e->span, .param_count = 2, .body = body};
  clause->params = NEW_ARRAY(c->arena, Param, 2);
  for (int i = 0; i < 2; i++) {
    Pat *p = NEW(c->arena, Pat);
    Expr *x = NEW(c->arena, Expr);
    Sym *name = intern_text(c->in, names[i]);
    *p = (Pat){.kind = PAT_VAR, .span = e->span, .id = name};
    *x = (Expr){.kind = EX_ID, .span = e->span, .id = name};
    clause->params[i] = (Param){.span = e->span, .pat = p};
    body->arg[i] = x;
  }
  *fn = (Expr){.kind = EX_FN, .span = e->span, .clauses = clause,
               .clause_count = 1};
  return fn;
}

static Core *infer_op(Checker *c, Expr *e, Type **type) {
  const char *name = arena_printf(c->arena, "op %s", binop_text[e->op]);
  PrimId id = prim_named(name);
  if (id == PRIM_NONE) {
    return infer_fn(c, operator_fn(c, e), NULL, type);
  }
  return apply_binding(c, binding_of_prim(c, id), e->span, type,
                       origin_new(c, OR_OPERATOR, e->span));
}

static Core *infer_kind(Checker *c, Expr *e, Type **type) {
  switch (e->kind) {
  case EX_ID: return infer_id(c, e, type);
  case EX_CON: return infer_con(c, e, type);
  case EX_NUM: return infer_num(c, e, type);
  case EX_STRING: return infer_string(c, e, type);
  case EX_HOLE: return infer_hole(c, e, NULL, type);
  case EX_TUPLE: return infer_tuple(c, e, NULL, type);
  case EX_SEQ:
    return infer_seq(c, e->items, e->item_count, e->span, NULL, type, NULL);
  case EX_ASCRIBE: return infer_ascribe(c, e, type);
  case EX_OP: return infer_op(c, e, type);
  case EX_BRACKET: return infer_bracket(c, e, type);
  case EX_LIST: return infer_list(c, e, NULL, type);
  case EX_RECORD: return infer_record(c, e, NULL, type);
  case EX_WITH: return infer_with(c, e, type);
  case EX_LET: return infer_let(c, e, NULL, type, NULL);
  case EX_FN: return infer_fn(c, e, NULL, type);
  case EX_CASE: return infer_case(c, e, NULL, type, NULL);
  case EX_IF: return infer_if(c, e, NULL, type, NULL);
  case EX_FOR: return infer_for(c, e, type);
  case EX_BIN:
    if (e->op == BIN_PIPE)
      return infer_app(c, e, type);
    return infer_operator(c, e, type);
  case EX_NEG: return infer_operator(c, e, type);
  case EX_APP: return infer_app(c, e, type);
  case EX_FIELD:
    if (e->id->text[0] >= 'A' && e->id->text[0] <= 'Z' &&
        e->arg[0]->kind == EX_ID) {
      Binding *b = lookup(c, e->arg[0]->id, e->id);
      if (b)
        return name_at(c, b, e->span, e->op_span, type,
                       origin_new(c, OR_ARG, e->span));
    }
    return infer_field(c, e, type);
  case EX_INDEX: return infer_index(c, e, type);
  case EX_ERROR: return bad(c, e->span, type);
  }
  return bad(c, e->span, type);
}

static bool too_deep(Checker *c, Span span) {
  if (c->depth < DEPTH_MAX)
    return false;
  error_at(c, 315, span, "this expression is nested too deeply")->help =
      "name some of its parts with val";
  return true;
}

Core *infer(Checker *c, Expr *e, Type **type) {
  if (too_deep(c, e->span))
    return bad(c, e->span, type);
  c->depth++;
  uint32_t mark = c->serial;
  Core *core = infer_kind(c, e, type);
  places_expr(c, PLACE_EXPR, e->span, *type);
  e->inferred = *type;
  checks_claim(c, core, mark, false);
  c->depth--;
  return core;
}

static Core *check_kind(Checker *c, Expr *e, Type *want, Origin *o) {
  Type *t, *w = ty_norm(c, want);
  if (w->tag == TY_AXIS)
    return check_axis(c, e, w, o);
  if (w->tag == TY_KEEP)
    return check_keep(c, e, w, o);
  if (w->tag == TY_SHAPE && e->kind == EX_BRACKET)
    return check_shape_bracket(c, e, w, o);
  if ((e->kind == EX_ID || e->kind == EX_FIELD) && takes_unknown(c, w))
    e = at_each_call(c, e, w);
  Core *core;
  uint32_t mark = c->serial, errors = c->diags->errors;
  Type *for_branches = is_open_shape(c, w) ? NULL : w;
  switch (e->kind) {
  case EX_FN: core = infer_fn(c, e, w, &t); break;
  case EX_IF: core = infer_if(c, e, for_branches, &t, o); break;
  case EX_CASE: core = infer_case(c, e, for_branches, &t, o); break;
  case EX_LET: core = infer_let(c, e, w->tag == TY_VAR ? NULL : w, &t, o);
    break;
  case EX_SEQ:
    core = infer_seq(c, e->items, e->item_count, e->span,
                     w->tag == TY_VAR ? NULL : w, &t, o);
    break;
  case EX_TUPLE: core = infer_tuple(c, e, w, &t); break;
  case EX_LIST: core = infer_list(c, e, w, &t); break;
  case EX_RECORD: core = infer_record(c, e, w, &t); break;
  case EX_HOLE: core = infer_hole(c, e, w, &t); break;
  default: core = infer_kind(c, e, &t); break;
  }
  places_expr(c, PLACE_EXPR, e->span, t);
  e->inferred = t;
  checks_claim(c, core, mark, false);
  if (t == want || ty_root(t) == w || c->diags->errors > errors)
    return core; /* one mistake is told once */
  mark = c->serial;
  core = flow(c, core, t, w, o);
  if (o->kind != OR_ARG) /* those of a call belong to the call */
    checks_claim(c, core, mark, true);
  return core;
}

Core *check(Checker *c, Expr *e, Type *want, Origin *o) {
  if (too_deep(c, e->span))
    return core_new(c, CORE_ERROR, e->span);
  c->depth++;
  if (!o->expr)
    o->expr = e;
  Core *core = check_kind(c, e, want, o);
  c->depth--;
  return core;
}
