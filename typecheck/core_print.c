/* Prints core as indented s-expressions, without spans, for `axon dump
 * --stage=core` and for tests.  Main entry point: core_print.
 *
 * First builds a tree of text, then lays it out: a list stays on one line if it
 * fits. */
#include "typecheck/types.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/utf8.h"

#include <string.h>

enum { MAX_LINE_COLUMNS = 79, MAX_SAME_LINE_COLUMNS = 24 /* columns */ };

typedef struct Sexp { /* an atom, or a list of items */
  const char *atom;
  size_t width;
  VEC(struct Sexp *) items;
} Sexp;

typedef struct CorePrinter {
  DimCtx *cx;
  Arena *arena;
  Buffer text; /* an atom under construction */
  Map names;   /* names of Vars and ElemVars */
  Map counts;  /* number of variables with each name (Sym) */
  uint32_t unnamed, unnamed_elems;
} CorePrinter;

static Sexp *core_sexp(CorePrinter *p, const Core *core);
static Sexp *pat_sexp(CorePrinter *p, const CorePat *pat);

/* ---- building ---- */

static Sexp *sexp_atom(CorePrinter *p, const char *text) {
  Sexp *s = NEW(p->arena, Sexp);
  s->atom = text;
  s->width = utf8_columns(text, strlen(text));
  return s;
}

static Sexp *sexp_list(CorePrinter *p) {
  Sexp *s = NEW(p->arena, Sexp);
  s->width = 2;
  return s;
}

static void sexp_add(CorePrinter *p, Sexp *to, Sexp *item) {
  to->width += item->width + (to->items.len ? 1 : 0);
  VEC_PUSH(p->arena, to->items, item);
}

static Sexp *sexp_form(CorePrinter *p, const char *name) {
  Sexp *s = sexp_list(p);
  sexp_add(p, s, sexp_atom(p, name));
  return s;
}

static Sexp *sexp_pair(CorePrinter *p, const char *name, Sexp *item) {
  Sexp *s = sexp_form(p, name);
  sexp_add(p, s, item);
  return s;
}

static Buffer *text_begin(CorePrinter *p) {
  p->text.len = 0;
  return &p->text;
}

static Sexp *text_end(CorePrinter *p) {
  return sexp_atom(p, arena_strndup(p->arena, p->text.text, p->text.len));
}

static void add_items(CorePrinter *p, Sexp *to, const Core *core,
                      uint32_t from) {
  for (uint32_t i = from; i < core->item_count; i++)
    sexp_add(p, to, core_sexp(p, core->items[i]));
}

/* ---- names and other atoms ---- */

static const char *var_name(CorePrinter *p, const Var *var) {
  const char *name = map_get(&p->names, var);
  if (name)
    return name;
  if (!var->name) {
    name = arena_printf(p->arena, "$%u", ++p->unnamed);
  } else if (var->global) {
    name = var->name->text;
  } else {
    uintptr_t count = (uintptr_t)map_get(&p->counts, var->name) + 1;
    map_put(&p->counts, var->name, (void *)count);
    name = var->name->text;
    if (count > 1)
      name = arena_printf(p->arena, "%s#%u", name, (unsigned)count);
  }
  map_put(&p->names, var, (void *)name);
  return name;
}

static const char *elem_name(CorePrinter *p, ElemRef ref) {
  if (ref.dtype != DT_NONE || !ref.var)
    return ref.dtype == DT_NONE ? NULL : dtype_info[ref.dtype].name;
  const ElemVar *e = ref.var;
  while (e->link)
    e = e->link;
  if (e->dtype != DT_NONE)
    return dtype_info[e->dtype].name;
  const char *name = map_get(&p->names, e);
  if (!name) {
    name = e->name ? e->name->text : e->printed_name;
    name = name ? arena_printf(p->arena, name[0] == '\'' ? "%s" : "'%s", name)
                : arena_printf(p->arena, "'e%u", ++p->unnamed_elems);
    map_put(&p->names, e, (void *)name);
  }
  return name;
}

static void add_elem(CorePrinter *p, Sexp *to, ElemRef elem) {
  const char *name = elem_name(p, elem);
  if (name)
    sexp_add(p, to, sexp_atom(p, name));
}

static Sexp *number(CorePrinter *p, const char *num, ElemRef elem) {
  const char *name = elem_name(p, elem);
  return sexp_atom(p, name ? arena_printf(p->arena, "%s:%s", num, name) : num);
}

static Sexp *quoted(CorePrinter *p, const char *text, size_t len) {
  Buffer *b = text_begin(p);
  buffer_putc(b, '"');
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\')
      buffer_putc(b, '\\');
    if (c == '\n')
      buffer_puts(b, "\\n");
    else if (c < ' ' || c == 127)
      buffer_printf(b, "\\x%02x", c);
    else
      buffer_putc(b, (char)c);
  }
  buffer_putc(b, '"');
  return text_end(p);
}

/* Prints a size, in braces unless it is a name or a number. */
static Sexp *dim_sexp(CorePrinter *p, const Dim *dim) {
  Buffer *b = text_begin(p);
  buffer_putc(b, '{');
  dim_print(p->cx, b, dim);
  if (strchr(b->text, ' ')) {
    buffer_putc(b, '}');
    return text_end(p);
  }
  return sexp_atom(p, arena_strndup(p->arena, b->text + 1, b->len - 1));
}

static const char *shape_name(CorePrinter *p, ShapeVar *var) {
  const char *name =
      p->cx->shape_name ? p->cx->shape_name(p->cx->owner, var) : NULL;
  return name ? name : arena_printf(p->arena, "s%u", var->id);
}

static void shape_text_into(CorePrinter *p, Buffer *b, const CoreShape *shape) {
  buffer_putc(b, '[');
  for (uint32_t i = 0; i < shape->len; i++) {
    const CoreAxis *item = &shape->axes[i];
    if (i)
      buffer_puts(b, ", ");
    switch (item->kind) {
    case CORE_AXIS_DIM:
      dim_print(p->cx, b, item->dim);
      break;
    case CORE_AXIS_STAR:
      buffer_putc(b, '*');
      break;
    case CORE_AXIS_SPLICE:
      buffer_printf(b, "...%s", shape_name(p, item->var));
      break;
    case CORE_AXIS_BROADCAST:
      buffer_puts(b, "...join(");
      for (uint32_t k = 0; k < item->broadcast_arg_count; k++) {
        if (k)
          buffer_puts(b, ", ");
        shape_text_into(p, b, &item->broadcast_args[k]);
      }
      buffer_putc(b, ')');
      break;
    }
  }
  buffer_putc(b, ']');
}

static Sexp *shape_sexp(CorePrinter *p, const CoreShape *shape) {
  shape_text_into(p, text_begin(p), shape);
  return text_end(p);
}

/* ---- patterns ---- */

static Sexp *record_pat(CorePrinter *p, const CorePat *pat) {
  Sexp *s = sexp_form(p, "record");
  for (uint32_t i = 0; i < pat->arg_count; i++)
    sexp_add(p, s,
             sexp_pair(p, pat->labels[i]->text, pat_sexp(p, pat->args[i])));
  return s;
}

static Sexp *pat_form(CorePrinter *p, const CorePat *pat, const char *name) {
  Sexp *s = sexp_form(p, name);
  for (uint32_t i = 0; i < pat->arg_count; i++) {
    Sexp *arg = pat_sexp(p, pat->args[i]);
    bool rest = pat->kind == CP_SHAPE && pat->rest == (int)i;
    sexp_add(p, s, rest ? sexp_pair(p, "rest", arg) : arg);
  }
  return s;
}

static Sexp *pat_sexp(CorePrinter *p, const CorePat *pat) {
  Sexp *s;
  switch (pat->kind) {
  case CP_WILD:
    return sexp_atom(p, "_");
  case CP_VAR:
    return sexp_atom(p, var_name(p, pat->var));
  case CP_AS:
    s = sexp_pair(p, "as", sexp_atom(p, var_name(p, pat->var)));
    sexp_add(p, s, pat_sexp(p, pat->args[0]));
    return s;
  case CP_NUM:
    return number(p, pat->num, pat->elem);
  case CP_BOOL:
    return sexp_atom(p, pat->flag ? "true" : "false");
  case CP_STRING:
    return quoted(p, pat->text, pat->text_len);
  case CP_CON:
    s = sexp_pair(p, "con", sexp_atom(p, pat->con->name->text));
    if (pat->arg_count)
      sexp_add(p, s, pat_sexp(p, pat->args[0]));
    return s;
  case CP_TUPLE:
    return pat_form(p, pat, "tuple");
  case CP_RECORD:
    return record_pat(p, pat);
  case CP_LIST:
    return pat_form(p, pat, "list");
  case CP_CONS:
    return pat_form(p, pat, "cons");
  case CP_SHAPE:
    return pat_form(p, pat, "shape");
  }
  return sexp_atom(p, "?");
}

/* ---- parts of expressions ---- */

static Sexp *prim_sexp(CorePrinter *p, const Core *core) {
  const char *name = prim_info[core->prim].name;
  if (strncmp(name, "op ", 3) == 0)
    name = arena_printf(p->arena, "op%s", name + 3);
  Sexp *s = sexp_pair(p, "prim", sexp_atom(p, name));
  add_elem(p, s, core->elem);
  if (core->literal)
    sexp_add(p, s, quoted(p, core->literal, strlen(core->literal)));
  return s;
}

static Sexp *param_sexp(CorePrinter *p, const CoreParam *param) {
  const char *name = var_name(p, param->var);
  return param->default_value
             ? sexp_pair(p, name, core_sexp(p, param->default_value))
             : sexp_atom(p, name);
}

static Sexp *lam_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "lam"), *params = sexp_list(p);
  for (uint32_t i = 0; i < core->param_count; i++)
    sexp_add(p, params, param_sexp(p, &core->params[i]));
  sexp_add(p, s, params);
  add_items(p, s, core, 0);
  return s;
}

static Sexp *for_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "for"), *ranges = sexp_list(p);
  for (uint32_t i = 0; i < core->param_count; i++) {
    const CoreRange *range = core->ranges ? &core->ranges[i] : NULL;
    Sexp *range_sexp = !range        ? sexp_atom(p, "?")
                       : range->expr ? core_sexp(p, range->expr)
                       : range->dim  ? dim_sexp(p, range->dim)
                                     : sexp_atom(p, "?");
    sexp_add(p, ranges,
             sexp_pair(p, var_name(p, core->params[i].var), range_sexp));
  }
  sexp_add(p, s, ranges);
  add_items(p, s, core, 0);
  return s;
}

static Sexp *letrec_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "letrec"), *bound = sexp_list(p);
  for (uint32_t i = 0; i < core->var_count; i++)
    sexp_add(
        p, bound,
        sexp_pair(p, var_name(p, core->vars[i]), core_sexp(p, core->items[i])));
  sexp_add(p, s, bound);
  add_items(p, s, core, core->var_count);
  return s;
}

static Sexp *case_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "case");
  add_items(p, s, core, 0);
  for (uint32_t i = 0; i < core->rule_count; i++) {
    Sexp *rule = sexp_list(p);
    sexp_add(p, rule, pat_sexp(p, core->rules[i].pat));
    sexp_add(p, rule, core_sexp(p, core->rules[i].body));
    sexp_add(p, s, rule);
  }
  return s;
}

/* Adds the items from `from` on, each with its label. */
static void add_fields(CorePrinter *p, Sexp *s, const Core *core,
                       uint32_t from) {
  for (uint32_t i = from; i < core->item_count; i++)
    sexp_add(p, s,
             sexp_pair(p, core->labels[i - from]->text,
                       core_sexp(p, core->items[i])));
}

static Sexp *bracket_sexp(CorePrinter *p, const Core *core, const char *name) {
  Sexp *s = sexp_form(p, name);
  if (core->kind == CORE_TENSOR)
    add_elem(p, s, core->elem);
  for (uint32_t i = 0; i < core->item_count; i++) {
    const Core *item = core->items[i];
    Sexp *it = item ? core_sexp(p, item) : sexp_atom(p, "_");
    bool splice = core->splices && core->splices[i];
    sexp_add(p, s, splice ? sexp_pair(p, "splice", it) : it);
  }
  return s;
}

static Sexp *bound_sexp(CorePrinter *p, const Core *bound, bool from_end) {
  if (!bound)
    return sexp_atom(p, "_");
  Sexp *s = core_sexp(p, bound);
  return from_end ? sexp_pair(p, "end", s) : s;
}

static Sexp *slice_sexp(CorePrinter *p, const CoreSlice *slice) {
  Sexp *s;
  switch (slice->kind) {
  case CS_AT:
    return sexp_pair(p, "at", bound_sexp(p, slice->from, slice->from_end));
  case CS_RANGE:
    s = sexp_pair(p, "range", bound_sexp(p, slice->from, slice->from_end));
    sexp_add(p, s, bound_sexp(p, slice->to, slice->to_end));
    if (slice->step)
      sexp_add(p, s, core_sexp(p, slice->step));
    return s;
  case CS_ELLIPSIS:
    return sexp_atom(p, "...");
  case CS_NEWAXIS:
    return sexp_atom(p, "new");
  case CS_STAR:
    return sexp_atom(p, "*");
  }
  return sexp_atom(p, "?");
}

static Sexp *index_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "index");
  add_items(p, s, core, 0);
  for (uint32_t i = 0; i < core->slice_count; i++)
    sexp_add(p, s, slice_sexp(p, &core->slices[i]));
  return s;
}

static Sexp *relation(CorePrinter *p, const char *op, const Dim *left,
                      const Dim *right) {
  Sexp *s = sexp_pair(p, op, dim_sexp(p, left));
  sexp_add(p, s, dim_sexp(p, right));
  return s;
}

static Sexp *check_sexp(CorePrinter *p, const Core *core) {
  static const char *const ops[] = {
      [CHECK_EQ] = "==", [CHECK_LE] = "<=", [CHECK_NE] = "!="};
  Sexp *s = sexp_form(p, "check"), *checks = sexp_list(p);
  for (uint32_t i = 0; i < core->check_count; i++) {
    const CoreCheck *check = &core->checks[i];
    Sexp *it = relation(p, ops[check->kind], check->left, check->right);
    for (uint32_t j = check->condition_count; j-- > 0;) {
      const CoreCondition *cond = &check->conditions[j];
      Sexp *rest = it;
      it = sexp_pair(p, "if",
                     relation(p, ops[cond->kind], cond->left, cond->right));
      sexp_add(p, it, rest);
    }
    sexp_add(p, checks, it);
  }
  sexp_add(p, s, checks);
  add_items(p, s, core, 0);
  return s;
}

/* (n .w .0 (axis 1)): the name, then the path to the size. */
static Sexp *size_path_sexp(CorePrinter *p, const SizePath *size_path) {
  const char *name =
      size_path->var ? dim_var_name(p->cx, size_path->var)
                     : p->cx->shape_name(p->cx->owner, size_path->shape_var);
  Sexp *s = sexp_form(p, name);
  if (size_path->value) {
    sexp_add(p, s, dim_sexp(p, size_path->value));
    return s;
  }
  for (uint32_t i = 0; i < size_path->step_count; i++) {
    const struct SizePathStep *step = &size_path->steps[i];
    sexp_add(p, s,
             sexp_atom(p, step->label
                              ? arena_printf(p->arena, ".%s", step->label->text)
                              : arena_printf(p->arena, ".%u", step->index)));
  }
  sexp_add(p, s,
           size_path->is_value
               ? sexp_pair(p, "value",
                           sexp_atom(p, arena_printf(p->arena, "%d",
                                                     size_path->axis)))
               : sexp_pair(p, "axis",
                           sexp_atom(p, arena_printf(p->arena, "%d",
                                                     size_path->axis))));
  if (size_path->shape_var)
    sexp_add(p, s,
             sexp_atom(p, arena_printf(p->arena, "%u", size_path->axes_after)));
  return s;
}

static Sexp *unpack_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "open"), *size_paths = sexp_list(p);
  for (uint32_t i = 0; i < core->size_path_count; i++)
    sexp_add(p, size_paths, size_path_sexp(p, &core->size_paths[i]));
  sexp_add(p, s, size_paths);
  add_items(p, s, core, 0);
  return s;
}

/* ---- hidden parameters and arguments ---- */

static Sexp *implicit_param(CorePrinter *p, const ImplicitArg *implicit) {
  switch (implicit->kind) {
  case IMPLICIT_ELEM: {
    const char *name = elem_name(p, implicit->elem);
    return sexp_atom(p, name ? name : "?");
  }
  case IMPLICIT_DIM:
    return sexp_atom(p, dim_var_name(p->cx, implicit->dim_var));
  case IMPLICIT_SHAPE:
    return sexp_atom(
        p, arena_printf(p->arena, "...%s", shape_name(p, implicit->shape_var)));
  }
  return sexp_atom(p, "?");
}

static Sexp *implicit_arg(CorePrinter *p, const ImplicitArg *implicit) {
  switch (implicit->kind) {
  case IMPLICIT_ELEM: {
    const char *name = elem_name(p, implicit->elem);
    return sexp_atom(p, name ? name : "?");
  }
  case IMPLICIT_DIM:
    return implicit->dim ? dim_sexp(p, implicit->dim) : sexp_atom(p, "?");
  case IMPLICIT_SHAPE:
    return shape_sexp(p, &implicit->shape);
  }
  return sexp_atom(p, "?");
}

static Sexp *tlam_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "tlam"), *params = sexp_list(p);
  for (uint32_t i = 0; i < core->implicit_count; i++)
    sexp_add(p, params, implicit_param(p, &core->implicits[i]));
  sexp_add(p, s, params);
  add_items(p, s, core, 0);
  return s;
}

static Sexp *tapp_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_form(p, "tapp");
  add_items(p, s, core, 0);
  for (uint32_t i = 0; i < core->implicit_count; i++)
    sexp_add(p, s, implicit_arg(p, &core->implicits[i]));
  return s;
}

/* ---- expressions ---- */

static Sexp *items_sexp(CorePrinter *p, const Core *core, const char *name) {
  Sexp *s = sexp_form(p, name);
  add_items(p, s, core, 0);
  return s;
}

static Sexp *con_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_pair(p, "con", sexp_atom(p, core->con->name->text));
  add_items(p, s, core, 0);
  return s;
}

static Sexp *let_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_pair(p, "let", sexp_atom(p, var_name(p, core->var)));
  add_items(p, s, core, 0);
  return s;
}

static Sexp *field_sexp(CorePrinter *p, const Core *core) {
  Sexp *s = sexp_pair(p, "field", sexp_atom(p, core->label->text));
  add_items(p, s, core, 0);
  return s;
}

static Sexp *record_sexp(CorePrinter *p, const Core *core) {
  bool with = core->kind == CORE_WITH;
  Sexp *s = sexp_form(p, with ? "with" : "record");
  if (with)
    sexp_add(p, s, core_sexp(p, core->items[0]));
  add_fields(p, s, core, with);
  return s;
}

static Sexp *core_sexp(CorePrinter *p, const Core *core) {
  switch (core->kind) {
  case CORE_NUM:
    return number(p, core->num, core->elem);
  case CORE_BOOL:
    return sexp_atom(p, core->flag ? "true" : "false");
  case CORE_STRING:
    return quoted(p, core->text, core->text_len);
  case CORE_VAR:
    return sexp_atom(p, var_name(p, core->var));
  case CORE_PRIM:
    return prim_sexp(p, core);
  case CORE_LAM:
    return lam_sexp(p, core);
  case CORE_APP:
    return items_sexp(p, core, "app");
  case CORE_ABSENT:
    return sexp_atom(p, "absent");
  case CORE_LET:
    return let_sexp(p, core);
  case CORE_LETREC:
    return letrec_sexp(p, core);
  case CORE_CASE:
    return case_sexp(p, core);
  case CORE_IF:
    return items_sexp(p, core, "if");
  case CORE_TUPLE:
    return items_sexp(p, core, "tuple");
  case CORE_RECORD:
  case CORE_WITH:
    return record_sexp(p, core);
  case CORE_FIELD:
    return field_sexp(p, core);
  case CORE_CON:
    return con_sexp(p, core);
  case CORE_LIST:
    return items_sexp(p, core, "list");
  case CORE_CONS:
    return items_sexp(p, core, "cons");
  case CORE_TENSOR:
    return bracket_sexp(p, core, "tensor");
  case CORE_SHAPE:
    return bracket_sexp(p, core, "shape");
  case CORE_FOR:
    return for_sexp(p, core);
  case CORE_INDEX:
    return index_sexp(p, core);
  case CORE_SEQ:
    return items_sexp(p, core, "seq");
  case CORE_DIM:
    return sexp_pair(p, "dim", dim_sexp(p, core->dim));
  case CORE_SHAPE_VALUE:
    return sexp_pair(p, "shapeval", shape_sexp(p, &core->shape));
  case CORE_ALL_AXES:
    return sexp_atom(p, "all");
  case CORE_CHECK:
    return check_sexp(p, core);
  case CORE_UNPACK:
    return unpack_sexp(p, core);
  case CORE_TLAM:
    return tlam_sexp(p, core);
  case CORE_TAPP:
    return tapp_sexp(p, core);
  case CORE_ERROR:
    return sexp_atom(p, "error");
  }
  return sexp_atom(p, "?");
}

/* ---- laying out ---- */

static void put_flat(Buffer *out, const Sexp *s) {
  if (s->atom) {
    buffer_puts(out, s->atom);
    return;
  }
  buffer_putc(out, '(');
  for (uint32_t i = 0; i < s->items.len; i++) {
    if (i)
      buffer_putc(out, ' ');
    put_flat(out, s->items.at[i]);
  }
  buffer_putc(out, ')');
}

/* True if an item stays on the line of its form's name: the first one, if
   short. */
static bool fits_same_line(const Sexp *item, uint32_t i, size_t column) {
  return i == 1 && (item->atom || item->width <= MAX_SAME_LINE_COLUMNS) &&
         column + item->width < MAX_LINE_COLUMNS;
}

/* Indents items that do not fit by two columns.  `closing` brackets follow. */
static void put_indented(Buffer *out, const Sexp *s, size_t column,
                         size_t closing) {
  if (s->atom || column + s->width + closing <= MAX_LINE_COLUMNS) {
    put_flat(out, s);
    return;
  }
  buffer_putc(out, '(');
  size_t at = column + 1;
  bool first_line = true;
  for (uint32_t i = 0; i < s->items.len; i++) {
    const Sexp *item = s->items.at[i];
    size_t after = i + 1 == s->items.len ? closing + 1 : 0;
    first_line = first_line && (i == 0 || fits_same_line(item, i, at + 1));
    if (i == 0) {
      put_indented(out, item, at, after);
      first_line = item->atom != NULL;
      at += item->width;
    } else if (first_line) {
      buffer_putc(out, ' ');
      put_flat(out, item);
      at += 1 + item->width;
    } else {
      buffer_printf(out, "\n%*s", (int)column + 2, "");
      put_indented(out, item, column + 2, after);
    }
  }
  buffer_putc(out, ')');
}

static Sexp *dec_sexp(CorePrinter *p, const CoreDec *dec) {
  Sexp *s;
  switch (dec->kind) {
  case CD_BIND:
    s = sexp_pair(p, "val", pat_sexp(p, dec->pat));
    sexp_add(p, s, core_sexp(p, dec->expr));
    return s;
  case CD_FUNS:
    s = sexp_form(p, "fun");
    for (uint32_t i = 0; i < dec->var_count; i++)
      sexp_add(
          p, s,
          sexp_pair(p, var_name(p, dec->vars[i]), core_sexp(p, dec->items[i])));
    return s;
  case CD_EXPR:
    return sexp_pair(p, "do", core_sexp(p, dec->expr));
  }
  return sexp_atom(p, "?");
}

static void printer_free(CorePrinter *p) {
  buffer_free(&p->text);
  arena_free(p->arena);
  mem_free(p);
}

void core_print(DimCtx *cx, Buffer *out, const CoreDec *dec) {
  CorePrinter *p = mem_alloc(sizeof *p);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    printer_free(p);
    trap_raise(trap.kind);
  }
  p->cx = cx;
  p->arena = arena_new();
  map_init(&p->names, p->arena);
  map_init(&p->counts, p->arena);
  put_indented(out, dec_sexp(p, dec), 0, 0);
  buffer_putc(out, '\n');
  trap_end(&trap);
  printer_free(p);
}
