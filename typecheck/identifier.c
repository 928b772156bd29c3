/* Names in expressions: finds the binding and instantiates its type.  Main
   entry point: infer_binding_use. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* Element type of the final result of a primitive. */
static ElemVar *result_elem(Checker *c, Type *t) {
  for (t = ty_norm(c, t); t->tag == TY_FUN; t = ty_norm(c, t->fun.result))
    ;
  if (t->tag == TY_TUPLE && t->count)
    t = ty_norm(c, t->args[0]);
  return t->tag == TY_TENSOR ? t->tensor.elem : NULL;
}

static uint32_t arity_of(Type *t) {
  uint32_t n = 0;
  for (t = ty_root(t); t->tag == TY_FUN; t = ty_root(t->fun.result))
    n++;
  return n;
}

static Core *instantiate_con(Checker *c, Binding *b, Span span, Type **type,
                             Origin *o) {
  SchemeInstance *instance;
  *type = scheme_instantiate(c, b->scheme, o, &instance);
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

/* Names the unknown sizes (`?`) in a variable's type.  All its uses share these
   names. */
static Core *unpack_variable(Checker *c, Binding *b, Core *core, Type **type) {
  if (b->value.needs_no_unpack)
    return core;
  if (!b->value.unpacked_type) {
    uint32_t level = c->inference.level;
    c->inference.level = b->level;
    Core *unpack = core;
    b->value.unpacked_type = ty_unpack(c, *type, &unpack);
    b->value.unpack_core = unpack != core ? unpack : NULL;
    c->inference.level = level;
    if (!b->value.unpack_core) {
      b->value.unpacked_type = NULL;
      b->value.needs_no_unpack = ty_is_ground(c, *type);
    }
  }
  if (!b->value.unpacked_type)
    return core;
  if (b->value.var->global)
    VEC_PUSH(c->arena, c->sizes.bindings, b);
  Core *unpack = core_new(c, CORE_UNPACK, core->span);
  *unpack = *b->value.unpack_core;
  unpack->items = NEW(c->arena, Core *);
  unpack->items[0] = core;
  *type = b->value.unpacked_type;
  return unpack;
}

/* Wraps body so that the unpacked sizes of a variable are read first. */
Core *unpack_binding(Checker *c, const Binding *b, Core *body) {
  Core *value = core_var(c, b->value.var, b->span);
  Core *unpack = core_items(c, CORE_UNPACK, b->span, 1, value);
  if (b->value.unpack_core) {
    unpack->size_paths = b->value.unpack_core->size_paths;
    unpack->size_path_count = b->value.unpack_core->size_path_count;
  } else {
    unpack->size_paths = NEW(c->arena, SizePath);
    unpack->size_paths[0] =
        (SizePath){.var = b->value.size_var, .is_value = true};
    unpack->size_path_count = 1;
  }
  return core_items(c, CORE_SEQ, body->span, 2, unpack, body);
}

/* Wraps the body of the scopes from `from` to `until`: the sizes that it
   unpacked from their names are read first. */
Core *unpack_scope(Checker *c, const Scope *from, const Scope *until,
                   Core *body) {
  for (const Scope *s = from; s && s != until; s = s->outer) {
    const Binding *b = s->binding;
    if (b && b->kind == BK_VALUE && b->value.var &&
        (b->value.unpack_core || b->value.size_var))
      body = unpack_binding(c, b, body);
  }
  return body;
}

Core *instantiate_binding(Checker *c, Binding *b, Span span, Type **type,
                          Origin *o) {
  if (b->has_error)
    return core_error(c, span, type);
  c->inference.meets_error |= b->is_partial;
  Scheme *s = binding_scheme(c, b);
  switch (b->kind) {
  case BK_MODULE:
    error_at(c, 310, span, "`%s` is a module, not a value", b->name->text)
        ->help = "use a name of the module, for example nn.softmax";
    return core_error(c, span, type);
  case BK_CON:
    return instantiate_con(c, b, span, type, o);
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
        ->help = "only functions can be recursive: define it with `fun`";
    return core_error(c, span, type);
  }
  Core *core = core_var(c, b->value.var, span);
  if (b->value.recursive && b->value.annotation_scheme) {
    polyrec_use(c, b, core, type, o);
    return core;
  }
  SchemeInstance *instance;
  *type = scheme_instantiate(c, s, o, &instance);
  if (!s->is_polymorphic && !b->value.recursive)
    core = unpack_variable(c, b, core, type);
  if (b->value.recursive) {
    b->value.used_recursively = true;
    VEC_PUSH(c->arena, b->value.group->occurrences, core);
  } else if (instance) {
    instance->core = core;
    core->checker_data = instance;
  }
  return core;
}

/* Reports a name that is declared below; all of a declaration in one error. */
static bool report_used_early(Checker *c, Sym *name, Span span) {
  const Span *below = map_get(&c->names.module->foretold, name);
  if (!below || below->file != span.file || below->start < span.end)
    return false;
  Diag *d = c->inference.used_early;
  if (d) {
    diag_add_label(
        c->arena, d, span,
        arena_printf(c->arena, "`%s` is declared below, too", name->text));
    return true;
  }
  d = c->inference.used_early =
      error_at(c, 312, span, "`%s` is used before its declaration", name->text);
  diag_add_label(c->arena, d, *below, "declared here");
  d->help = "a name is known after its declaration: move that before this "
            "line; functions that call each other are joined by `and`";
  return true;
}

/* `at` is the span of the name alone. */
Core *error_unbound_name(Checker *c, Sym *module, Sym *name, Span span, Span at,
                         Type **type) {
  refs_add_name(c, REF_VALUE, at, name, (Span){0}, NULL);
  if (!module && name != c->inference.val_name &&
      report_used_early(c, name, span))
    return core_error(c, span, type);
  Diag *d = module ? error_at(c, 312, span, "module `%s` has no `%s`",
                              module->text, name->text)
                   : error_at(c, 312, span, "`%s` is not defined", name->text);
  const ForeignWord *word = lexer_find_foreign(name->text);
  if (module)
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_MEMBER,
                         .span = at,
                         .module = module,
                         .name = name});
  else if (word)
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_FOREIGN, .span = span, .word = word});
  else if (lookup_type(c, NULL, name))
    d->help = "this name is a type, not a value";
  else
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_NAME, .span = span, .name = name});
  return core_error(c, span, type);
}

/* Infers the use of a name. name_span is its span in the expression. */
Core *infer_binding_use(Checker *c, Binding *b, Span span, Span name_span,
                        Type **type, Origin *o) {
  Core *core = instantiate_binding(c, b, span, type, o);
  refs_add_binding(c, name_span, b, *type);
  return core;
}

/* The origin of constraints from the use of a name.  Covers all arguments if it
   is applied. */
Origin *use_origin(Checker *c, Expr *e, const Binding *b, const char *what) {
  Origin *o = origin_new(c, ORIGIN_ARG, e->span);
  o->prim = b->kind == BK_PRIM ? b->prim : PRIM_NONE;
  o->subject = what;
  if (e != c->inference.head.expr)
    return o;
  o->arg.callee = e;
  o->arg.args = c->inference.head.args;
  o->arg.arg_count = c->inference.head.arg_count;
  return o;
}

/* The literal of a name that the program did not define; NULL: none. */
static const char *named_constant(const char *name) {
  if (strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0)
    return name;
  return strcmp(name, "pi") == 0  ? "3.14159265358979323846"
         : strcmp(name, "e") == 0 ? "2.71828182845904523536"
                                  : NULL;
}

/* The innermost local value, size or shape of this name; NULL: there is none.
 */
static const Scope *find_local(Checker *c, const Sym *name) {
  Scope *s = scope_find(c->names.scope, name);
  while (s && !s->binding && !s->dim && !s->shape)
    s = scope_find(s->outer, name);
  return s;
}

bool is_defined_name(Checker *c, Sym *name) {
  return find_local(c, name) || lookup(c, NULL, name);
}

const ForeignWord *undefined_foreign_word(Checker *c, const Expr *e) {
  const ForeignWord *word =
      e->kind == EX_ID ? lexer_find_foreign(e->id->text) : NULL;
  return word && !is_defined_name(c, e->id) ? word : NULL;
}

static Core *infer_local_size(Checker *c, const Expr *e, const Scope *s,
                              Type **type) {
  refs_add_size(c, e->span, e->id, s->shape != NULL);
  if (s->shape) {
    *type = ty_shape(c, s->shape);
    Core *core = core_new(c, CORE_SHAPE_VALUE, e->span);
    core->checker_data =
        s->shape; /* read by core_finish, once everything is solved */
    return core;
  }
  *type = ty_int(c, s->dim);
  Core *core = core_new(c, CORE_DIM, e->span);
  core->dim = s->dim;
  return core;
}

Core *infer_id(Checker *c, Expr *e, Type **type) {
  const Scope *local = find_local(c, e->id);
  if (local && !local->binding)
    return infer_local_size(c, e, local, type);
  Binding *b = lookup(c, NULL, e->id);
  const char *constant = b ? NULL : named_constant(e->id->text);
  if (constant) {
    Expr num = {
        .kind = EX_NUM, .span = e->span, .num = constant, .is_float = true};
    return infer_num(c, &num, type);
  }
  if (!b)
    return error_unbound_name(c, NULL, e->id, e->span, e->span, type);
  Origin *o = use_origin(c, e, b, e->id->text);
  e->binding = b;
  Core *core = infer_binding_use(c, b, e->span, e->span, type, o);
  e->instance = core->kind == CORE_VAR ? core->checker_data : NULL;
  return core;
}

/* Case distinguishes constructors from names, so the user may have meant a
   name. */
void error_unbound_con(Checker *c, Sym *module, Sym *name, Span span) {
  if (module) {
    error_at(c, 313, span, "module `%s` has no constructor `%s`", module->text,
             name->text);
    return;
  }
  Diag *d = error_at(c, 313, span, "there is no constructor `%s`", name->text);
  const ForeignWord *word = lexer_find_foreign(name->text);
  char *small = arena_strndup(c->arena, name->text, name->len);
  small[0] = (char)(small[0] - 'A' + 'a');
  if (word)
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_FOREIGN, .span = span, .word = word});
  else if (lookup(c, NULL, intern_string(c->interner, small)))
    d->help = arena_printf(c->arena, "there is a value named `%s`", small);
  else
    suggest(c, d,
            (Suggestion){.kind = SUGGEST_CON, .span = span, .name = name});
}

Core *infer_con(Checker *c, Expr *e, Type **type) {
  if (e->id == c->builtins.sym_true || e->id == c->builtins.sym_false) {
    *type = ty_scalar(c, DT_BOOL, NULL);
    Core *core = core_new(c, CORE_BOOL, e->span);
    core->flag = e->id == c->builtins.sym_true;
    return core;
  }
  Binding *b = lookup(c, NULL, e->id);
  if (!b) {
    error_unbound_con(c, NULL, e->id, e->span);
    return core_error(c, e->span, type);
  }
  return infer_binding_use(c, b, e->span, e->span, type,
                           origin_new(c, ORIGIN_ARG, e->span));
}
