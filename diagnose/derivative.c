/* Words a result that a function such as grad cannot differentiate.  Main entry
   point: diagnose_differentiated. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"

typedef enum WantedResult {
  WANTED_DATA,        /* of vjp */
  WANTED_FLOAT,       /* of grad */
  WANTED_VECTOR,      /* of jacobian */
  WANTED_FLOAT_FIRST, /* of value_and_grad_aux */
} WantedResult;

static const char *const wanted_text[] = {
    [WANTED_DATA] = "data",
    [WANTED_FLOAT] = "one float",
    [WANTED_VECTOR] = "a vector of floats",
    [WANTED_FLOAT_FIRST] = "one float and other results",
};

static WantedResult wanted_result(Checker *c, const Type *expected) {
  if (expected->tag == TY_TUPLE)
    return WANTED_FLOAT_FIRST;
  if (expected->tag != TY_TENSOR)
    return WANTED_DATA;
  return shape_norm(c, expected->tensor.shape)->len ? WANTED_VECTOR
                                                    : WANTED_FLOAT;
}

/* The number of parameters of the function that the callee expects. */
static uint32_t wanted_parameters(Checker *c, const Origin *o) {
  uint32_t number = 0, count = 0;
  Type *t = ty_norm(c, o->arg.fun_type);
  while (t->tag == TY_FUN && (t->fun.label || ++number < o->number))
    t = ty_norm(c, t->fun.result);
  t = t->tag == TY_FUN ? ty_norm(c, t->fun.param) : t;
  for (; t->tag == TY_FUN; t = ty_norm(c, t->fun.result))
    count++;
  return count;
}

/* The function has more parameters than the callee gives to it, so its result
   is a function. */
static void curried_error(Checker *c, Type *actual, WantedResult wanted,
                          const Origin *o, const char *callee) {
  const char *name = o->expr ? error_expr_path(c, o->expr) : NULL;
  uint32_t count = wanted_parameters(c, o);
  Diag *d = error_at(c, wanted == WANTED_DATA ? 377 : 375, o->span,
                     "%s needs a function of %u argument%s to %s; the result "
                     "is a function: %s",
                     callee, count, count == 1 ? "" : "s", wanted_text[wanted],
                     ty_text(c, actual));
  if (count != 1)
    d->help = "use other values directly, instead of as parameters";
  else if (name)
    d->help = arena_printf(c->arena,
                           "give the other arguments too, as in `%s (fn p => "
                           "%s p x) p`, where x is constant",
                           callee, name);
  else
    d->help = "use other values directly, or differentiate by a tuple of all "
              "parameters: `fn (a, b) => ...`";
}

static bool is_integer(Checker *c, const Expr *e) {
  Type *t = e->inferred_type ? ty_norm(c, e->inferred_type) : NULL;
  return t && t->tag == TY_TENSOR &&
         !(elem_root(t->tensor.elem)->classes & ~(uint32_t)CLASS_INT);
}

typedef struct IntegerSearch {
  Checker *c;
  const Expr *found; /* an integer part of the expression */
} IntegerSearch;

static void search_integer(void *search, Expr *e) {
  IntegerSearch *s = search;
  if (!s->found && is_integer(s->c, e))
    s->found = e;
}

/* Labels where integers come from: follows the result of the function through
   integer parts and local names. */
static void label_integers(Checker *c, Diag *d, const Origin *o) {
  enum { MAX_FOLLOWED = 32 };
  const Expr *e = o->expr;
  const Clause *k =
      e && e->kind == EX_ID && e->binding ? binding_clause(e->binding) : NULL;
  e = k ? k->body : e && e->kind == EX_FN ? e->clauses[0].body : NULL;
  for (int i = 0; e && i < MAX_FOLLOWED; i++) {
    IntegerSearch s = {.c = c};
    if (e->kind == EX_LET || e->kind == EX_SEQ)
      s.found = e->items[e->item_count - 1];
    else if (e->kind == EX_ID && e->binding && binding_expr(e->binding))
      s.found = binding_expr(e->binding);
    else
      expr_visit_children((Expr *)e, search_integer, &s);
    if (!s.found)
      break;
    e = s.found;
  }
  if (e && error_source_text(c, e->span) && is_integer(c, e))
    diag_add_label(c->arena, d, e->span, "integers from here");
}

static void integer_error(Checker *c, Type *value, const char *what,
                          WantedResult wanted, const Origin *o,
                          const char *callee) {
  bool is_bool = elem_root(value->tensor.elem)->classes & CLASS_BOOL;
  Diag *d =
      error_at(c, 376, o->span, "the %s is %s: %s have no derivative", what,
               ty_text(c, value), is_bool ? "booleans" : "integers");
  d->help = arena_printf(
      c->arena,
      wanted == WANTED_VECTOR
          ? "%s needs floats, such as probabilities; labels and counts have no "
            "derivative"
          : "%s needs a loss of a float type, such as nn.cross_entropy; an "
            "accuracy has no derivative",
      callee);
  if (!is_bool)
    label_integers(c, d, o);
}

static const char *help_for_tensor(WantedResult wanted, bool is_first,
                                   bool is_scalar) {
  switch (wanted) {
  case WANTED_DATA:
    break;
  case WANTED_FLOAT:
    return "return its mean or its sum; vjp accepts results of any shape";
  case WANTED_VECTOR:
    return is_scalar
               ? "grad differentiates a function to one float"
               : "return a vector, as in `reshape [n] y`; vjp accepts results "
                 "of any shape";
  case WANTED_FLOAT_FIRST:
    return is_first ? "return its mean or its sum; vjp accepts results of any "
                      "shape"
           : is_scalar
               ? "return a pair of it and the other results; value_and_grad "
                 "accepts one float alone"
               : "return a pair of one float and the other results, such as "
                 "`(mean y, y)`";
  }
  return NULL;
}

bool diagnose_differentiated(Checker *c, Type *actual, Type *expected,
                             const Origin *o) {
  const char *callee = o->subject ? o->subject : "this function";
  WantedResult wanted = wanted_result(c, expected);
  if (actual->tag == TY_FUN) {
    curried_error(c, actual, wanted, o, callee);
    return true;
  }
  if (wanted == WANTED_DATA)
    return false;
  bool is_pair = actual->tag == TY_TUPLE && actual->count == 2;
  bool is_first = wanted == WANTED_FLOAT_FIRST && is_pair;
  Type *value = is_first ? ty_norm(c, actual->args[0]) : actual;
  const char *what = is_first ? "first result" : "result";
  bool is_tensor = value->tag == TY_TENSOR;
  if (is_tensor && !(elem_root(value->tensor.elem)->classes & CLASS_FLOAT)) {
    integer_error(c, value, what, wanted, o, callee);
    return true;
  }
  Diag *d = error_at(c, 375, o->span, "%s needs a function to %s; the %s is %s",
                     callee, wanted_text[wanted], what, ty_text(c, value));
  if (is_tensor)
    d->help = help_for_tensor(wanted, is_first,
                              !shape_norm(c, value->tensor.shape)->len);
  else if (wanted == WANTED_FLOAT && is_pair)
    d->help = "return the float alone; value_and_grad_aux accepts a pair of a "
              "float and other results";
  return true;
}

const char *derivative_argument_help(Checker *c, const Type *actual,
                                     const Type *expected, const Origin *o) {
  Type *callee = o->kind == ORIGIN_ARG && o->arg.fun_type
                     ? ty_norm(c, o->arg.fun_type)
                     : NULL;
  Type *first =
      callee && callee->tag == TY_FUN ? ty_norm(c, callee->fun.param) : NULL;
  bool is_structure = actual->tag == TY_RECORD || actual->tag == TY_TUPLE;
  if (!first || first->tag != TY_FUN || !first->fun.is_differentiated ||
      o->number < 2 || expected->tag != TY_TENSOR || !is_structure)
    return NULL;
  return "differentiate by one tensor of it; hvp and jvp accept structures";
}
