/* Primitives whose types depend on literal strings, tuples or files.  Main
   entry point: infer_special. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

static Core *prim_application(Checker *c, PrimId id, Expr *e, uint32_t n,
                              Core **args) {
  Core *fn = core_new(c, CORE_PRIM, e->arg[0] ? e->arg[0]->span : e->span);
  fn->prim = id;
  fn->arity = n;
  Core *app = core_new(c, CORE_APP, e->span);
  app->items = NEW_ARRAY(c->arena, Core *, n + 1);
  app->items[0] = fn;
  for (uint32_t i = 0; i < n; i++)
    app->items[i + 1] = args[i];
  app->item_count = n + 1;
  return app;
}

static Core *failed(Checker *c, Expr *e, Type **type) {
  *type = ty_meta(c);
  return core_new(c, CORE_ERROR, e->span);
}

static Arg *find_labelled_arg(Arg *args, uint32_t n, const char *label) {
  for (uint32_t i = 0; i < n; i++)
    if (args[i].label && strcmp(args[i].label->text, label) == 0)
      return &args[i];
  return NULL;
}

static uint32_t collect_positional(Arg *args, uint32_t n, Expr **out,
                                   uint32_t max) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!args[i].label && count < max)
      out[count++] = args[i].expr;
    else if (!args[i].label)
      count++;
  return count;
}

static bool check_labels_allowed(Checker *c, Arg *args, uint32_t n,
                                 const char *allowed, const char *what) {
  for (uint32_t i = 0; i < n; i++) {
    if (!args[i].label)
      continue;
    const char *at = strstr(allowed, args[i].label->text);
    size_t len = args[i].label->len;
    if (!at || (at[len] && at[len] != ' ') ||
        (at != allowed && at[-1] != ' ')) {
      error_at(c, 319, args[i].span, "%s has no parameter ~%s", what,
               args[i].label->text);
      return false;
    }
  }
  return true;
}

/* Reports such a primitive that is not applied. */
static Core *error_needs_call(Checker *c, Expr *e, const char *what,
                              const char *how, Type **type) {
  error_at(c, 354, e->span, "%s", what)->help = how;
  return failed(c, e, type);
}

/* ---- einsum and permute: labels of axes ---- */

typedef struct AxisLabels {
  const char *name[16]; /* NULL for `...` */
  uint32_t len[16];
  uint32_t count;
} AxisLabels;

typedef struct Einsum {
  AxisLabels in[8], out;
  uint32_t count;
} Einsum;

static bool parse_labels(const char **at, AxisLabels *l) {
  const char *s = *at;
  l->count = 0;
  for (;;) {
    while (*s == ' ')
      s++;
    if (!*s || *s == ',' || (s[0] == '-' && s[1] == '>'))
      break;
    if (l->count == 16)
      return false;
    if (strncmp(s, "...", 3) == 0) {
      l->name[l->count] = NULL;
      l->len[l->count++] = 0;
      s += 3;
      continue;
    }
    const char *start = s;
    while ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
           (*s >= '0' && *s <= '9') || *s == '_')
      s++;
    if (s == start)
      return false;
    l->name[l->count] = start;
    l->len[l->count++] = (uint32_t)(s - start);
  }
  *at = s;
  return true;
}

static bool parse_einsum(const char *text, Einsum *e) {
  const char *s = text;
  for (e->count = 0; e->count < 8;) {
    if (!parse_labels(&s, &e->in[e->count++]))
      return false;
    if (*s != ',')
      break;
    s++;
  }
  if (strncmp(s, "->", 2) != 0)
    return false;
  s += 2;
  return parse_labels(&s, &e->out) && !*s;
}

typedef struct LabelDims {
  Checker *c;
  const char *name[128];
  uint32_t len[128];
  Dim *dim[128];
  uint32_t count;
} LabelDims;

static Dim *label_dim(LabelDims *d, const char *name, uint32_t len, bool make,
                      Span span) {
  for (uint32_t i = 0; i < d->count; i++)
    if (d->len[i] == len && memcmp(d->name[i], name, len) == 0)
      return d->dim[i];
  if (!make || d->count == 128)
    return NULL;
  d->name[d->count] = name;
  d->len[d->count] = len;
  d->dim[d->count] = meta_dim(d->c, intern(d->c->interner, name, len), span);
  return d->dim[d->count++];
}

static Shape *labels_shape(LabelDims *d, const AxisLabels *l, Shape *rest,
                           bool make, Span span) {
  Checker *c = d->c;
  Shape *s = shape_new(c, 0);
  for (uint32_t i = 0; i < l->count; i++) {
    if (!l->name[i]) {
      s = shape_concat(c, s, rest);
      continue;
    }
    Dim *dim = label_dim(d, l->name[i], l->len[i], make, span);
    if (!dim) {
      error_at(c, 355, span,
               "the result has a label `%.*s` that no operand has",
               (int)l->len[i], l->name[i]);
      dim = meta_dim(c, NULL, span);
    }
    s = shape_concat(c, s, shape_of_dims(c, 1, &dim));
  }
  return s;
}

static bool has_label(const Einsum *e, const char *name, uint32_t len) {
  for (uint32_t i = 0; i < e->count; i++)
    for (uint32_t k = 0; k < e->in[i].count; k++)
      if (e->in[i].len[k] == len && memcmp(e->in[i].name[k], name, len) == 0)
        return true;
  return false;
}

static bool has_letter(const Einsum *e, char letter) {
  for (uint32_t i = 0; i < e->count; i++)
    for (uint32_t k = 0; k < e->in[i].count; k++)
      if (e->in[i].len[k] && memchr(e->in[i].name[k], letter, e->in[i].len[k]))
        return true;
  return false;
}

/* True for the notation of other libraries, one letter per axis.  Then a label
   of the result is unknown, but its letters are known. */
static bool is_letter_notation(const Einsum *e) {
  for (uint32_t i = 0; i < e->out.count; i++) {
    uint32_t len = e->out.len[i], known = 0;
    if (len < 2 || has_label(e, e->out.name[i], len))
      continue;
    for (uint32_t k = 0; k < len; k++)
      known += has_letter(e, e->out.name[i][k]);
    if (known == len)
      return true;
  }
  return false;
}

static void put_letters(Buffer *text, const AxisLabels *l) {
  const char *gap = "";
  for (uint32_t i = 0; i < l->count; i++) {
    if (!l->name[i]) {
      buffer_printf(text, "%s...", gap);
      gap = " ";
    }
    for (uint32_t k = 0; k < l->len[i]; k++, gap = " ")
      buffer_printf(text, "%s%c", gap, l->name[i][k]);
  }
}

static void error_letter_notation(Checker *c, const Expr *e,
                                  const Einsum *read) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < read->count; i++) {
    buffer_puts(&text, i ? ", " : "\"");
    put_letters(&text, &read->in[i]);
  }
  buffer_puts(&text, " -> ");
  put_letters(&text, &read->out);
  buffer_puts(&text, "\"");
  Diag *d = error_at(c, 355, e->span, "here each word is the name of one axis");
  d->help = arena_printf(c->arena, "put spaces between names: %s", text.text);
  suggest(
      c, d,
      (Suggestion){.kind = SUGGEST_TEXT, .span = e->span, .text = text.text});
}

/* Returns false after an error: not a valid string, or a wrong number of
   operands. */
static bool read_labels(Checker *c, Expr *e, PrimId id, Expr **pos,
                        uint32_t count, Einsum *out) {
  if (!parse_einsum(pos[0]->text, out) ||
      (id == PRIM_PERMUTE && out->count != 1)) {
    error_at(c, 356, pos[0]->span, "expected the form: axes -> axes")->help =
        "name each axis, and put spaces between names: \"b i k, k j -> b i j\"";
    return false;
  }
  if (is_letter_notation(out)) {
    error_letter_notation(c, pos[0], out);
    return false;
  }
  if (count == out->count + 1)
    return true;
  error_at(c, 357, e->span, "%s \"%s\" takes %u tensor%s; found %u",
           prim_info[id].name, pos[0]->text, out->count,
           out->count == 1 ? "" : "s", count - 1);
  return false;
}

static Core *infer_einsum_or_permute(Checker *c, Expr *e, PrimId id, Arg *args,
                                     uint32_t n, Type **type) {
  const char *name = prim_info[id].name;
  Expr *pos[10];
  uint32_t count = collect_positional(args, n, pos, 10);
  if (count < 1 || pos[0]->kind != EX_STRING)
    return error_needs_call(
        c, e,
        arena_printf(c->arena,
                     "the first argument of %s must be a literal string", name),
        id == PRIM_EINSUM ? "for example einsum \"b i k, k j -> b i j\" x y"
                          : "for example permute \"i j k -> k i j\" x",
        type);
  Einsum spec;
  if (!read_labels(c, e, id, pos, count, &spec))
    return failed(c, e, type);
  LabelDims dims = {.c = c};
  ElemVar *elem = elem_meta(c, id == PRIM_EINSUM ? CLASS_NUM : CLASS_ANY);
  Core *cores[10];
  Type *ignored;
  cores[0] = infer(c, pos[0], &ignored);
  Shape *rests[8], *rest = shape_meta(c);
  uint32_t rest_count = 0;
  for (uint32_t i = 0; i < spec.count; i++) {
    Shape *mine = shape_meta(c);
    bool has = false;
    for (uint32_t k = 0; k < spec.in[i].count; k++)
      has |= !spec.in[i].name[k];
    if (has)
      rests[rest_count++] = mine;
    Origin *o = origin_new(c, ORIGIN_ARG, arg_span(e, pos[i + 1]));
    o->subject = name;
    o->number = i + 2;
    Shape *s = labels_shape(&dims, &spec.in[i], mine, true, pos[0]->span);
    cores[i + 1] = check(c, pos[i + 1], ty_tensor(c, elem, s, NULL), o);
  }
  if (rest_count) {
    Shape **joined = NEW_ARRAY(c->arena, Shape *, rest_count);
    memcpy(joined, rests, rest_count * sizeof *joined);
    add_broadcast(c, rest, rest_count, joined,
                  origin_new(c, ORIGIN_OPERATOR, e->span));
  }
  Shape *out = labels_shape(&dims, &spec.out, rest, false, pos[0]->span);
  if (id == PRIM_PERMUTE && spec.out.count != spec.in[0].count)
    error_at(c, 358, pos[0]->span, "permute keeps every axis exactly once")
        ->help = "use sum to remove axes; use x.[:, new] to add axes";
  solve_pending(c);
  *type = ty_tensor(c, elem, out, NULL);
  Core *app = prim_application(c, id, e, count, cores);
  app->items[0]->literal = pos[0]->text;
  app->items[0]->elem.var = elem;
  return app;
}

/* ---- concat, split, squeeze ---- */

typedef struct AxisSplit {
  Type *axis;
  Shape *s, *r, *t;
} AxisSplit;

static AxisSplit axis_type(Checker *c, Shape *r) {
  AxisSplit a = {.s = shape_meta(c), .t = shape_meta(c), .r = r};
  a.axis = ty_axis(c, a.s, r, a.t);
  return a;
}

static Core *check_axis_arg(Checker *c, Arg *a, AxisSplit *split,
                            const char *what) {
  Origin *o = origin_new(c, ORIGIN_ARG, a->expr->span);
  o->subject = what;
  o->number = 1;
  return check(c, a->expr, split->axis, o);
}

static Core *infer_concat(Checker *c, Expr *e, Arg *args, uint32_t n,
                          Type **type) {
  Expr *pos[2];
  Arg *axis = find_labelled_arg(args, n, "axis");
  if (collect_positional(args, n, pos, 2) != 1 || !axis ||
      pos[0]->kind != EX_TUPLE || !pos[0]->item_count)
    return error_needs_call(c, e, "concat takes an axis and a tuple of tensors",
                            "write concat ~axis:0 (a, b, c)", type);
  if (!check_labels_allowed(c, args, n, "axis", "concat"))
    return failed(c, e, type);
  Expr *tuple = pos[0];
  Shape *one = shape_of_var(c, shape_var_new(c, 1));
  AxisSplit split = axis_type(c, one);
  Core *core_axis = check_axis_arg(c, axis, &split, "concat");
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Core *items = core_new(c, CORE_TUPLE, tuple->span);
  items->items = NEW_ARRAY(c->arena, Core *, tuple->item_count);
  items->item_count = tuple->item_count;
  Dim *total = dim_int(c->dims, 0);
  for (uint32_t i = 0; i < tuple->item_count; i++) {
    Dim *m = meta_dim(c, NULL, tuple->items[i]->span);
    Shape *s = shape_concat(
        c, shape_concat(c, split.s, shape_of_dims(c, 1, &m)), split.t);
    Origin *o = origin_new(c, ORIGIN_ELEMENT, tuple->items[i]->span);
    o->subject = "concat";
    o->number = i;
    o->operands.axis = axis->expr;
    if (i) {
      o->operands.left = tuple->items[0], o->operands.right = tuple->items[i];
      o->other_span = tuple->items[0]->span;
    }
    items->items[i] = check(c, tuple->items[i], ty_tensor(c, elem, s, NULL), o);
    total = dim_add(c->dims, total, m);
  }
  shape_bind(c, one->axes[0].var, shape_of_dims(c, 1, &total));
  solve_pending(c);
  *type = ty_tensor(
      c, elem,
      shape_concat(c, shape_concat(c, split.s, shape_of_dims(c, 1, &total)),
                   split.t),
      NULL);
  Core *cores[2] = {core_axis, items};
  return prim_application(c, PRIM_CONCAT, e, 2, cores);
}

static Core *infer_split(Checker *c, Expr *e, Arg *args, uint32_t n,
                         Type **type) {
  Expr *pos[3];
  Arg *axis = find_labelled_arg(args, n, "axis");
  if (collect_positional(args, n, pos, 3) != 2 || !axis ||
      pos[0]->kind != EX_BRACKET)
    return error_needs_call(c, e, "split takes an axis, sizes and a tensor",
                            "write split ~axis:0 [100, _] x", type);
  uint32_t parts = pos[0]->item_count;
  Dim *total = meta_dim(c, NULL, e->span);
  AxisSplit split = axis_type(c, shape_of_dims(c, 1, &total));
  Core *cores[3];
  cores[0] = check_axis_arg(c, axis, &split, "split");
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Shape *whole = shape_concat(c, shape_concat(c, split.s, split.r), split.t);
  Origin *ox = origin_new(c, ORIGIN_ARG, arg_span(e, pos[1]));
  ox->subject = "split";
  ox->number = 3;
  cores[2] = check(c, pos[1], ty_tensor(c, elem, whole, NULL), ox);
  Shape *sizes = shape_new(c, parts);
  for (uint32_t i = 0; i < parts; i++) {
    const Expr *part = pos[0]->items[i];
    sizes->axes[i].dim = meta_dim(c, NULL, part->span);
    /* it is solved before the other sizes, which may be of data */
    dim_as_var(sizes->axes[i].dim)->reshape_hole =
        part->kind == EX_HOLE && bodies_have_existential(c);
  }
  Origin *os = origin_new(c, ORIGIN_ARG, pos[0]->span);
  os->subject = "split";
  os->number = 2;
  cores[1] = check(c, pos[0], ty_shape(c, sizes), os);
  Dim *sum = dim_int(c->dims, 0);
  Type **types = NEW_ARRAY(c->arena, Type *, parts);
  for (uint32_t i = 0; i < parts; i++) {
    sum = dim_add(c->dims, sum, sizes->axes[i].dim);
    Shape *s = shape_concat(
        c, shape_concat(c, split.s, shape_of_dims(c, 1, &sizes->axes[i].dim)),
        split.t);
    types[i] = ty_tensor(c, elem, s, NULL);
  }
  add_size_eq(c, sum, total, os);
  solve_pending(c);
  *type = ty_tuple(c, parts, types);
  return prim_application(c, PRIM_SPLIT, e, 3, cores);
}

static Core *infer_squeeze(Checker *c, Expr *e, Arg *args, uint32_t n,
                           Type **type) {
  Expr *pos[2];
  Arg *axis = find_labelled_arg(args, n, "axis");
  if (collect_positional(args, n, pos, 2) != 1 || !axis)
    return NULL; /* treat as an ordinary function */
  AxisSplit split = axis_type(c, shape_meta(c));
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Shape *whole = shape_concat(c, shape_concat(c, split.s, split.r), split.t);
  Core *cores[2];
  c->inference.axis_may_be_star = true; /* the axis of squeeze may be a * */
  cores[0] = check_axis_arg(c, axis, &split, "squeeze");
  c->inference.axis_may_be_star = false;
  Origin *o = origin_new(c, ORIGIN_ARG, arg_span(e, pos[0]));
  o->subject = "squeeze";
  o->prim = PRIM_SQUEEZE;
  o->number = 2;
  cores[1] = check(c, pos[0], ty_tensor(c, elem, whole, NULL), o);
  solve_pending(c);
  Shape *r = shape_norm(c, split.r);
  for (uint32_t i = 0; i < r->len; i++)
    add_size_eq(c, shape_product(c, shape_slice(c, r, i, i + 1)),
                dim_int(c->dims, 1), o);
  *type = ty_tensor(c, elem, shape_concat(c, split.s, split.t), NULL);
  return prim_application(c, PRIM_SQUEEZE, e, 2, cores);
}

/* ---- forget ---- */

static Core *infer_forget(Checker *c, Expr *e, Arg *args, uint32_t n,
                          Type **type) {
  Expr *pos[2];
  if (collect_positional(args, n, pos, 2) != 1)
    return NULL;
  Type *t;
  Core *x = infer(c, pos[0], &t);
  t = ty_norm(c, t);
  Shape *s = t->tag == TY_TENSOR ? shape_norm(c, t->tensor.shape) : NULL;
  if (!s || !shape_has_known_rank(s)) {
    error_at(c, 364, pos[0]->span, "forget needs a tensor of known rank")
        ->help = "annotate the tensor, as in (x : f32[n, m])";
    *type = ty_meta(c);
    return core_new(c, CORE_ERROR, e->span);
  }
  s = shape_slice(c, s, 0, s->len);
  for (uint32_t i = 0; i < s->len; i++)
    if (s->axes[i].tag == SHAPE_DIM) {
      s->axes[i].dim = meta_dim(c, NULL, e->span);
      dim_set_unknown(c->dims, dim_as_var(s->axes[i].dim));
    }
  t = ty_tensor(c, t->tensor.elem, s, NULL);
  Core *app = prim_application(c, PRIM_FORGET, e, 1, &x);
  *type = ty_unpack(c, t, &app);
  for (uint32_t i = 0; i < app->size_path_count; i++)
    app->size_paths[i].var->from_unknown = true;
  return app;
}

/* ---- format ---- */

static Core *infer_format(Checker *c, Expr *e, Arg *args, uint32_t n,
                          Type **type) {
  Expr **pos = NEW_ARRAY(c->arena, Expr *, n + 1);
  uint32_t count = collect_positional(args, n, pos, n);
  if (!count || pos[0]->kind != EX_STRING)
    return error_needs_call(
        c, e, "the first argument of format must be a literal string",
        "write format \"%d of %s\" n name", type);
  uint32_t wanted = 0;
  VEC(char) kinds = {0};
  for (const char *s = pos[0]->text; *s; s++) {
    if (*s != '%')
      continue;
    if (*++s == '%')
      continue;
    s += strspn(s, "-+ 0123456789.#");
    if (!*s || !strchr("dxfegs", *s)) {
      error_at(c, 359, pos[0]->span,
               "`%%` is followed by none of d x f e g s %%");
      return failed(c, e, type);
    }
    VEC_PUSH(c->arena, kinds, *s);
    wanted++;
  }
  if (count - 1 != wanted) {
    error_at(c, 360, e->span, "this format takes %u value%s; found %u", wanted,
             wanted == 1 ? "" : "s", count - 1);
    return failed(c, e, type);
  }
  Core **cores = NEW_ARRAY(c->arena, Core *, count);
  Type *t;
  cores[0] = infer(c, pos[0], &t);
  for (uint32_t i = 1; i < count; i++) {
    cores[i] = infer(c, pos[i], &t);
    char kind = kinds.at[i - 1];
    if (kind == 's')
      continue;
    ElemVar *elem =
        elem_meta(c, kind == 'd' || kind == 'x' ? CLASS_INT : CLASS_NUM);
    elem->default_preference =
        kind == 'd' || kind == 'x' ? PREFERS_INT : PREFERS_NONE;
    Type *expected = ty_tensor(c, elem, shape_new(c, 0), NULL);
    Origin *o = origin_new(c, ORIGIN_ARG, arg_span(e, pos[i]));
    o->subject = "format";
    o->number = i + 1;
    o->expr = pos[i];
    cores[i] = subsume(c, cores[i], t, expected, o);
  }
  *type = ty_string(c);
  Core *app = prim_application(c, PRIM_FORMAT, e, count, cores);
  app->items[0]->literal = pos[0]->text;
  return app;
}

/* ---- load ---- */

static Core *optional_arg(Checker *c, Arg *a, Type *expected,
                          const char *what) {
  if (!a)
    return NULL;
  Origin *o = origin_new(c, ORIGIN_ARG, a->expr->span);
  o->subject = what;
  return check(c, a->expr, expected, o);
}

void report_missing_files(Checker *c) {
  for (uint32_t i = 0; i < c->notes.missing_files.len; i++) {
    const MissingFile *m = &c->notes.missing_files.at[i];
    if (shape_has_known_rank(shape_norm(c, m->shape)))
      continue; /* from an annotation or its uses */
    warning_at(c, 407, m->span, "there is no file %s now", m->path)->note =
        "the shape is unknown until the program reads the file";
  }
}

static Core *infer_load(Checker *c, Expr *e, Arg *args, uint32_t n,
                        Type **type) {
  Expr *pos[2];
  if (collect_positional(args, n, pos, 2) != 1)
    return NULL;
  if (!check_labels_allowed(c, args, n, "name header", "load"))
    return failed(c, e, type);
  Arg *name = find_labelled_arg(args, n, "name"),
      *header = find_labelled_arg(args, n, "header");
  Core *cores[3];
  for (int i = 0; i < 2; i++)
    cores[i] = core_new(c, CORE_ABSENT, e->span);
  if (name)
    cores[0] = optional_arg(c, name, ty_string(c), "load");
  if (header)
    cores[1] = optional_arg(c, header, ty_scalar(c, DT_BOOL, NULL), "load");
  Origin *o = origin_new(c, ORIGIN_ARG, pos[0]->span);
  o->subject = "load";
  o->number = 1;
  cores[2] = check(c, pos[0], ty_string(c), o);
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Shape *shape = shape_meta(c);
  bool literal = pos[0]->kind == EX_STRING &&
                 (!name || name->expr->kind == EX_STRING) &&
                 (!header || header->expr->kind == EX_CON);
  TensorHeader h;
  LoadOptions options = {.name = name && literal ? name->expr->text : NULL,
                         .skip_header =
                             header && literal &&
                             header->expr->id == c->builtins.sym_true};
  Fault fault = {0};
  if (literal && c->host->read_header(c->host->owner, pos[0]->text, &options,
                                      &h, &fault)) {
    Dim *dims[MAX_RANK];
    for (uint32_t i = 0; i < h.rank; i++)
      dims[i] = dim_int(c->dims, h.shape[i]);
    shape = shape_of_dims(c, h.rank, dims);
    if (h.dtype != DT_NONE)
      elem = elem_fixed(c, h.dtype);
  } else if (fault.message[0]) {
    Diag *d = error_at(c, 508, e->span, "%s", fault.message);
    if (fault.help[0])
      d->help = arena_printf(c->arena, "%s", fault.help);
  } else if (literal && !c->names.module->library) {
    MissingFile m = {pos[0]->text, pos[0]->span, shape};
    VEC_PUSH(c->arena, c->notes.missing_files, m);
  }
  *type = ty_tensor(c, elem, shape, NULL);
  Core *app = prim_application(c, PRIM_LOAD, e, 3, cores);
  app->items[0]->elem.var = elem;
  app->items[0]->checker_data = shape; /* core_finish sets the expected shape */
  effect_subsume(c, effect_impure(c), c->inference.effect, e->span, "load");
  return app;
}

/* ---- show ---- */

static Core *infer_show(Checker *c, Expr *e, Arg *args, uint32_t n,
                        Type **type) {
  Expr *pos[2];
  if (collect_positional(args, n, pos, 2) != 1)
    return NULL;
  if (!check_labels_allowed(c, args, n, "size file", "show"))
    return failed(c, e, type);
  static const char *const labels[] = {"size", "file"};
  Core *cores[3];
  for (int i = 0; i < 2; i++) {
    Core *core = optional_arg(c, find_labelled_arg(args, n, labels[i]),
                              i ? ty_string(c) : ty_int(c, NULL), "show");
    cores[i] = core ? core : core_new(c, CORE_ABSENT, e->span);
  }
  Type *expected = ty_tensor(c, elem_meta(c, CLASS_ANY), shape_meta(c), NULL);
  Origin *o = origin_new(c, ORIGIN_ARG, arg_span(e, pos[0]));
  o->subject = "show";
  cores[2] = check(c, pos[0], expected, o);
  effect_subsume(c, effect_impure(c), c->inference.effect, e->span, "show");
  *type = ty_unit(c);
  return prim_application(c, PRIM_SHOW, e, 3, cores);
}

/* Returns NULL to treat it as an ordinary function. */
Core *infer_special(Checker *c, Expr *e, PrimId id, Arg *args, uint32_t count,
                    Type **type) {
  switch ((int)id) {
  case PRIM_EINSUM:
  case PRIM_PERMUTE:
    return infer_einsum_or_permute(c, e, id, args, count, type);
  case PRIM_CONCAT:
    return infer_concat(c, e, args, count, type);
  case PRIM_SPLIT:
    return infer_split(c, e, args, count, type);
  case PRIM_SQUEEZE:
    return infer_squeeze(c, e, args, count, type);
  case PRIM_FORGET:
    return infer_forget(c, e, args, count, type);
  case PRIM_FORMAT:
    return infer_format(c, e, args, count, type);
  case PRIM_LOAD:
    return infer_load(c, e, args, count, type);
  case PRIM_SHOW:
    return infer_show(c, e, args, count, type);
  }
  return NULL;
}
