/* Programs as s-expressions, which are read as Core: for tests of the evaluator
 * without the type checker.  Include it after cmocka.h. */
#ifndef AXON_TESTS_EVAL_SEXP_H
#define AXON_TESTS_EVAL_SEXP_H

#include "support/arena.h"
#include "support/arena_text.h"
#include "support/compiler.h"
#include "support/intern.h"
#include "support/source.h"
#include "support/span.h"
#include "typecheck/core.h"

#include <string.h>

static Arena *arena;
static Interner *interner;
static Sources sources;

/* ---- parser of s-expressions ---- */

typedef struct Scope {
  const char *name;
  Var *var;
  struct Scope *outer;
} Scope;

static Scope *globals;
static const char *text_start;
static const char *in; /* the rest of the input */
static uint32_t file;
static Con *cons[16];
static uint32_t con_count;

static Core *read_expr(Scope *scope);

static void blank(void) {
  in += strspn(in, " \n");
}

static bool eat(char c) {
  blank();
  if (*in != c)
    return false;
  in++;
  return true;
}

static char *word(void) {
  blank();
  size_t len = strcspn(in, " \n()");
  char *w = arena_strndup(arena, in, len);
  in += len;
  return w;
}

static Sym *symbol(const char *name) {
  return intern_string(interner, name);
}

static Core *new_core(CoreKind kind) {
  Core *c = NEW(arena, Core);
  c->kind = kind;
  uint32_t at = (uint32_t)(in - text_start);
  c->span = (Span){file, at, at + 1};
  return c;
}

static void set_items(Core *c, uint32_t n, Core **items) {
  c->items = NEW_ARRAY(arena, Core *, n + 1);
  memcpy(c->items, items, n * sizeof *items);
  c->item_count = n;
}

static Var *new_var(const char *name, bool global) {
  Var *v = NEW(arena, Var);
  v->name = symbol(name);
  v->global = global;
  return v;
}

static Scope *bind(Scope *outer, const char *name, Var *var) {
  Scope *s = NEW(arena, Scope);
  *s = (Scope){name, var, outer};
  return s;
}

static Var *lookup(Scope *scope, const char *name) {
  for (; scope; scope = scope->outer)
    if (!strcmp(scope->name, name))
      return scope->var;
  return NULL;
}

static Con *constructor(const char *name) {
  for (uint32_t i = 0; i < con_count; i++)
    if (!strcmp(cons[i]->name->text, name))
      return cons[i];
  assert_true(con_count < ARRAY_LEN(cons));
  Con *con = NEW(arena, Con);
  con->name = symbol(name);
  con->tag = con_count;
  return cons[con_count++] = con;
}

static uint32_t scheme_arity(PrimId prim) {
  uint32_t depth = 0, n = 0;
  for (const char *s = prim_info[prim].scheme; *s; s++) {
    depth += *s == '(';
    depth -= *s == ')';
    n += !depth && s[0] == '-' && s[1] == '>';
  }
  return n;
}

/* A name, or name:dtype. */
static Core *primitive(const char *name) {
  char *plain = arena_strndup(arena, name, strlen(name));
  char *colon = strchr(plain, ':');
  if (colon)
    *colon = 0;
  PrimId prim = prim_by_name(plain);
  if (!prim)
    prim = prim_by_name(arena_printf(arena, "op %s", plain));
  if (!prim)
    return NULL;
  Core *c = new_core(CORE_PRIM);
  c->prim = prim;
  c->arity = scheme_arity(prim);
  c->elem.dtype = colon ? dtype_by_name(colon + 1) : DT_NONE;
  return c;
}

static Core *read_string(void) {
  const char *end = strchr(++in, '"');
  Core *c = new_core(CORE_STRING);
  c->text = arena_strndup(arena, in, (size_t)(end - in));
  c->text_len = (uint32_t)(end - in);
  in = end + 1;
  return c;
}

static bool is_number(const char *w) {
  return strspn(w, "-0123456789") &&
         (w[0] != '-' || strspn(w + 1, "0123456789"));
}

static Core *read_atom(Scope *scope) {
  if (*in == '"')
    return read_string();
  char *w = word();
  Core *c;
  if (is_number(w)) {
    c = new_core(CORE_NUM);
    char *colon = strchr(w, ':');
    if (colon)
      *colon = 0;
    c->num = w;
    c->is_float = strchr(w, '.') != NULL;
    c->elem.dtype = colon         ? dtype_by_name(colon + 1)
                    : c->is_float ? DT_F32
                                  : DT_I64;
    return c;
  }
  if (!strcmp(w, "true") || !strcmp(w, "false")) {
    c = new_core(CORE_BOOL);
    c->flag = *w == 't';
    return c;
  }
  if (!strcmp(w, "absent"))
    return new_core(CORE_ABSENT);
  if (!strcmp(w, "all-axes"))
    return new_core(CORE_ALL_AXES);
  Var *var = lookup(scope, w);
  if (!var)
    var = lookup(globals, w);
  if (var) {
    c = new_core(CORE_VAR);
    c->var = var;
    return c;
  }
  c = primitive(w);
  if (!c)
    fail_msg("unknown word %s", w);
  return c;
}

/* ---- patterns ---- */

static CorePat *read_pat(Scope **scope, bool global) {
  CorePat *p = NEW(arena, CorePat);
  CorePat *args[16];
  Sym *labels[16];
  uint32_t n = 0;
  p->rest = -1;
  blank();
  p->span = (Span){file, (uint32_t)(in - text_start),
                   (uint32_t)(in - text_start) + 1};
  if (*in == '"') {
    Core *s = read_string();
    p->kind = CP_STRING;
    p->text = s->text;
    p->text_len = s->text_len;
    return p;
  }
  if (!eat('(')) {
    char *w = word();
    if (!strcmp(w, "_"))
      return p;
    if (!strcmp(w, "true") || !strcmp(w, "false")) {
      p->kind = CP_BOOL;
      p->flag = *w == 't';
    } else if (is_number(w)) {
      p->kind = CP_NUM;
      p->num = w;
      p->elem.dtype = DT_I64;
    } else {
      p->kind = CP_VAR;
      p->var = new_var(w, global);
      *scope = bind(*scope, w, p->var);
    }
    return p;
  }
  char *w = word();
  if (!strcmp(w, "tuple"))
    p->kind = CP_TUPLE;
  else if (!strcmp(w, "list"))
    p->kind = CP_LIST;
  else if (!strcmp(w, "::"))
    p->kind = CP_CONS;
  else if (!strcmp(w, "shape"))
    p->kind = CP_SHAPE;
  else if (!strcmp(w, "con")) {
    p->kind = CP_CON;
    p->con = constructor(word());
  } else if (!strcmp(w, "as")) {
    p->kind = CP_AS;
    char *name = word();
    p->var = new_var(name, global);
    *scope = bind(*scope, name, p->var);
  } else {
    assert_string_equal(w, "rec");
    p->kind = CP_RECORD;
  }
  while (!eat(')')) {
    if (p->kind == CP_RECORD)
      labels[n] = symbol(word());
    if (p->kind == CP_SHAPE && eat('*'))
      p->rest = (int)n;
    args[n++] = read_pat(scope, global);
  }
  p->args = NEW_ARRAY(arena, CorePat *, n + 1);
  memcpy(p->args, args, n * sizeof *args);
  p->labels = NEW_ARRAY(arena, Sym *, n + 1);
  memcpy(p->labels, labels, n * sizeof *labels);
  p->arg_count = n;
  return p;
}

/* ---- forms ---- */

static void read_items(Core *c, Scope *scope) {
  Core *items[64];
  uint32_t n = 0;
  while (!eat(')'))
    items[n++] = read_expr(scope);
  set_items(c, n, items);
}

/* (x y), or with default values (x (y 1)). */
static void read_params(Core *c, Scope **scope) {
  c->params = NEW_ARRAY(arena, CoreParam, 16);
  bool open = eat('(');
  assert_true(open);
  while (!eat(')')) {
    CoreParam *p = &c->params[c->param_count++];
    bool preset = eat('(');
    char *name = word();
    if (preset) {
      p->default_value = read_expr(*scope);
      open = eat(')');
      assert_true(open);
    }
    p->var = new_var(name, false);
    *scope = bind(*scope, name, p->var);
  }
}

static Core *read_fn(Scope *scope) {
  Core *c = new_core(CORE_LAM);
  read_params(c, &scope);
  read_items(c, scope);
  return c;
}

static Core *read_letrec(Scope *scope) { /* (letrec ((f fn) ...) body) */
  Core *c = new_core(CORE_LETREC);
  const char *again;
  c->vars = NEW_ARRAY(arena, Var *, 8);
  Core *items[9];
  eat('(');
  again = in;
  for (int pass = 0; pass < 2; pass++) {
    in = again;
    uint32_t n = 0;
    while (eat('(')) {
      char *name = word();
      if (!pass) {
        c->vars[n] = new_var(name, false);
        scope = bind(scope, name, c->vars[n]);
        int depth = 0; /* skip the function */
        do {
          depth += *in == '(';
          depth -= *in == ')';
          in++;
        } while (depth > 0 || *in != ')');
      } else {
        items[n] = read_expr(scope);
      }
      eat(')');
      n++;
    }
    c->var_count = n;
  }
  eat(')');
  items[c->var_count] = read_expr(scope);
  set_items(c, c->var_count + 1, items);
  eat(')');
  return c;
}

static Core *read_case(Scope *scope) { /* (case e (pat body) ...) */
  Core *c = new_core(CORE_CASE);
  Core *of = read_expr(scope);
  set_items(c, 1, &of);
  c->rules = NEW_ARRAY(arena, CoreRule, 16);
  while (!eat(')')) {
    Scope *inner = scope;
    eat('(');
    c->rules[c->rule_count].pat = read_pat(&inner, false);
    c->rules[c->rule_count++].body = read_expr(inner);
    eat(')');
  }
  return c;
}

static Core *read_for(Scope *scope) { /* (for ((i n) ...) body) */
  Core *c = new_core(CORE_FOR);
  c->params = NEW_ARRAY(arena, CoreParam, 8);
  c->ranges = NEW_ARRAY(arena, CoreRange, 8);
  Scope *inner = scope;
  eat('(');
  while (!eat(')')) {
    eat('(');
    char *name = word();
    c->ranges[c->param_count].expr = read_expr(scope);
    c->params[c->param_count].var = new_var(name, false);
    inner = bind(inner, name, c->params[c->param_count++].var);
    eat(')');
  }
  Core *body = read_expr(inner);
  set_items(c, 1, &body);
  eat(')');
  return c;
}

/* (at x item ...): an item is an expression, `:`, `...`, `new`, `*`, `<k` (from
 * the end), or (: from to) with _ for a missing bound */
static Core *read_index(Scope *scope) {
  Core *c = new_core(CORE_INDEX);
  Core *of = read_expr(scope);
  set_items(c, 1, &of);
  c->slices = NEW_ARRAY(arena, CoreSlice, 8);
  while (!eat(')')) {
    CoreSlice *s = &c->slices[c->slice_count++];
    s->span = c->span;
    if (!strncmp(in, "(: ", 3)) {
      in += 3;
      s->kind = CS_RANGE;
      s->from = eat('_') ? NULL : read_expr(scope);
      s->to = eat('_') ? NULL : read_expr(scope);
      s->from_end = s->from && s->from->num && *s->from->num == '-';
      s->to_end = s->to && s->to->num && *s->to->num == '-';
      eat(')');
    } else if (!strncmp(in, "...", 3)) {
      in += 3;
      s->kind = CS_ELLIPSIS;
    } else if (!strncmp(in, "new", 3)) {
      in += 3;
      s->kind = CS_NEWAXIS;
    } else if (eat('*')) {
      s->kind = CS_STAR;
    } else if (eat(':')) {
      s->kind = CS_RANGE;
    } else {
      s->from = read_expr(scope);
      s->from_end = s->from->num && *s->from->num == '-';
    }
  }
  return c;
}

/* (tensor a (... s) b), (dims n _ (... s)) */
static Core *read_spliced(CoreKind kind, Scope *scope) {
  Core *c = new_core(kind);
  Core *items[64];
  uint32_t n = 0;
  c->splices = NEW_ARRAY(arena, bool, 64);
  c->elem.dtype = DT_I64;
  while (!eat(')')) {
    if (!strncmp(in, "(...", 4)) {
      in += 4;
      c->splices[n] = true;
      items[n++] = read_expr(scope);
      eat(')');
    } else if (kind == CORE_SHAPE && eat('_')) {
      items[n++] = NULL;
    } else {
      items[n++] = read_expr(scope);
    }
  }
  set_items(c, n, items);
  return c;
}

static Core *read_record(Scope *scope, Core *first) {
  Core *c = new_core(first ? CORE_WITH : CORE_RECORD);
  Core *items[16];
  uint32_t n = 0;
  c->labels = NEW_ARRAY(arena, Sym *, 16);
  if (first)
    items[n++] = first;
  while (!eat(')')) {
    c->labels[c->label_count++] = symbol(word());
    items[n++] = read_expr(scope);
  }
  set_items(c, n, items);
  return c;
}

static Core *read_let(Scope *scope) {
  Core *c = new_core(CORE_LET), *items[2];
  char *name = word();
  items[0] = read_expr(scope);
  c->var = new_var(name, false);
  items[1] = read_expr(bind(scope, name, c->var));
  set_items(c, 2, items);
  eat(')');
  return c;
}

/* (lit einsum "pattern" arity args...) */
static Core *read_literal(Scope *scope) {
  Core *c = new_core(CORE_APP), *items[16];
  uint32_t n = 1;
  items[0] = primitive(word());
  blank();
  items[0]->literal = read_string()->text;
  items[0]->arity = (uint32_t)atoi(word());
  while (!eat(')'))
    items[n++] = read_expr(scope);
  set_items(c, n, items);
  return c;
}

static Core *read_form(Scope *scope) {
  static const struct {
    const char *name;
    CoreKind kind;
  } plain[] = {{"if", CORE_IF},
               {"tuple", CORE_TUPLE},
               {"list", CORE_LIST},
               {"::", CORE_CONS},
               {"seq", CORE_SEQ}};
  const char *start = in;
  if (eat(')'))
    return new_core(CORE_TUPLE);
  char *w = word();
  for (uint32_t i = 0; i < ARRAY_LEN(plain); i++)
    if (!strcmp(w, plain[i].name)) {
      Core *c = new_core(plain[i].kind);
      read_items(c, scope);
      return c;
    }
  if (!strcmp(w, "fn"))
    return read_fn(scope);
  if (!strcmp(w, "let"))
    return read_let(scope);
  if (!strcmp(w, "letrec"))
    return read_letrec(scope);
  if (!strcmp(w, "case"))
    return read_case(scope);
  if (!strcmp(w, "for"))
    return read_for(scope);
  if (!strcmp(w, "at"))
    return read_index(scope);
  if (!strcmp(w, "tensor"))
    return read_spliced(CORE_TENSOR, scope);
  if (!strcmp(w, "dims"))
    return read_spliced(CORE_SHAPE, scope);
  if (!strcmp(w, "rec"))
    return read_record(scope, NULL);
  if (!strcmp(w, "with"))
    return read_record(scope, read_expr(scope));
  if (!strcmp(w, "lit"))
    return read_literal(scope);
  if (!strcmp(w, "con")) {
    Core *c = new_core(CORE_CON);
    c->con = constructor(word());
    read_items(c, scope);
    return c;
  }
  if (*w == '.' && w[1]) {
    Core *c = new_core(CORE_FIELD);
    c->label = symbol(w + 1);
    read_items(c, scope);
    return c;
  }
  in = start;
  Core *c = new_core(CORE_APP);
  read_items(c, scope);
  return c;
}

static Core *read_expr(Scope *scope) {
  return eat('(') ? read_form(scope) : read_atom(scope);
}

static void begin(const char *text) {
  in = text_start = text;
  file = sources_add(&sources, "test", text, strlen(text), false);
}

#endif
