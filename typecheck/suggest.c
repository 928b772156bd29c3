/* What may have been meant by a name that is not there: the nearest one in
 * scope, as a help and as a fix. */
#include "typecheck/internal.h"

#include <string.h>

/* Edit distance (Levenshtein 1966) of two short names; `most` + 1 if more. */
static int edits(const char *a, const char *b, int most) {
  enum { LEN = 32 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= LEN || m >= LEN)
    return most + 1;
  int row[LEN], diagonal, up;
  for (size_t j = 0; j <= m; j++)
    row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      up = row[j];
      int least = diagonal + (a[i - 1] != b[j - 1]);
      least = up + 1 < least ? up + 1 : least;
      row[j] = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
      diagonal = up;
    }
  }
  return row[m] <= most ? row[m] : most + 1;
}

/* A search for the nearest name: the first of those that are equally near. */
typedef struct Search {
  Checker *c;
  const char *word;   /* that is not there */
  const char *module; /* whose names are looked at; "" the prelude's */
  const char *best;   /* or NULL */
  int least;          /* the distance of what would be better */
} Search;

/* One letter is like all others. */
static Search search_for(Checker *c, const Sym *word) {
  return (Search){.c = c, .word = word->text, .module = "",
                  .least = word->len < 2 ? 0 : word->len <= 3 ? 1 : 2};
}

static void offer(Search *s, const char *name) {
  int distance = edits(s->word, name, s->least);
  if (distance > s->least || (s->best && distance == s->least) ||
      strcmp(name, s->word) == 0)
    return;
  s->best = name;
  s->least = distance;
}

static void take(Search *s, Diag *d, Span span) {
  if (!s->best)
    return;
  d->help = arena_printf(s->c->arena, "did you mean `%s`?", s->best);
  diag_fix(s->c->arena, d, span, s->best, "write `%s`", s->best);
}

/* ---- names of values ---- */

static void offer_library(void *arg, const char *full) {
  Search *s = arg;
  const char *dot = strncmp(full, "op ", 3) != 0 ? strchr(full, '.') : NULL;
  size_t len = dot ? (size_t)(dot - full) : 0;
  if (len != strlen(s->module) || strncmp(full, s->module, len) != 0)
    return;
  const char *name = full + len + (dot != NULL);
  if (edits(s->word, name, s->least) <= s->least)
    offer(s, arena_text(s->c->arena, name, strlen(name)));
}

/* Short names are like too many of them. */
static void offer_all_of_library(Search *s) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    offer_library(s, prim_info[id].name);
  if (s->c->host->library_names && strlen(s->word) > 3)
    s->c->host->library_names(offer_library, s);
}

/* A module of the library that has just this name. */
static void find_home(void *arg, const char *full) {
  Search *s = arg;
  const char *dot = strchr(full, '.');
  if (dot && strcmp(dot + 1, s->word) == 0 && !s->best)
    s->best = arena_text(s->c->arena, full, strlen(full));
}

static bool suggest_qualified(Checker *c, Diag *d, Span span, Sym *name) {
  Search s = {.c = c, .word = name->text};
  if (c->host->library_names)
    c->host->library_names(find_home, &s);
  take(&s, d, span);
  return s.best != NULL;
}

void suggest_name(Checker *c, Diag *d, Span span, Sym *name) {
  Search s = search_for(c, name);
  if (name == c->naming) {
    d->help = "what calls itself is declared by `fun`";
    return;
  }
  for (Scope *scope = c->scope; scope; scope = scope->outer)
    if (scope->binding || scope->dim)
      offer(&s, scope->name->text);
  for (uint32_t i = 0; i < c->module->order.len; i++) {
    Sym *other = c->module->order.at[i]->name;
    if (map_get(&c->module->names, other))
      offer(&s, other->text);
  }
  if (!s.best && name->len > 1 && suggest_qualified(c, d, span, name))
    return;
  offer_all_of_library(&s);
  take(&s, d, span);
}

static void offer_binding(void *arg, Binding *b) { offer(arg, b->name->text); }

void suggest_member(Checker *c, Diag *d, Span span, Sym *module, Sym *name) {
  Search s = search_for(c, name);
  Binding *b = lookup(c, NULL, module);
  if (b && b->kind == BK_MODULE && b->target)
    module_each(b->target, offer_binding, &s);
  if (b && b->kind == BK_MODULE && b->target && b->target->library) {
    s.module = b->target->name->text;
    offer_all_of_library(&s);
  }
  take(&s, d, span);
  if (s.best)
    d->help = arena_printf(c->arena, "did you mean `%s.%s`?", module->text,
                           s.best);
}

void suggest_con(Checker *c, Diag *d, Span span, Sym *name) {
  Search s = search_for(c, name);
  offer(&s, "Some");
  offer(&s, "None");
  for (uint32_t i = 0; i < c->module->order.len; i++)
    if (c->module->order.at[i]->kind == BK_CON)
      offer(&s, c->module->order.at[i]->name->text);
  take(&s, d, span);
  if (!s.best)
    d->help = "names with a capital are constructors; those of values and "
              "functions begin with a small letter";
}

/* ---- fields, labels, types, words of other languages ---- */

void suggest_field(Checker *c, Diag *d, Span span, const Type *record,
                   Sym *name) {
  Search s = search_for(c, name);
  for (uint32_t i = 0; i < record->count; i++)
    offer(&s, record->labels[i]->text);
  take(&s, d, span);
}

/* What libraries for Python call them. */
static const struct {
  const char *theirs, *ours;
} elsewhere[] = {{"dim", "axis"},           {"dims", "axis"},
                 {"axes", "axis"},          {"keepdim", "keep"},
                 {"keepdims", "keep"},      {"kernel_size", "size"},
                 {"scale_factor", "scale"}, {"lr", "rate"},
                 {"num_heads", "heads"},    {"p", "rate"}};

/* Where the label is short for itself (`~axis`), the value keeps its name. */
void suggest_label(Checker *c, Diag *d, const Arg *a, Type *fun) {
  Search s = search_for(c, a->label);
  for (Type *t = ty_norm(c, fun); t->tag == TY_FUN; t = ty_norm(c, t->arg[1]))
    if (t->label)
      offer(&s, t->label->text);
  for (size_t i = 0; i < ARRAY_LEN(elsewhere) && !s.best; i++)
    for (Type *t = ty_norm(c, fun); t->tag == TY_FUN; t = ty_norm(c, t->arg[1]))
      if (strcmp(a->label->text, elsewhere[i].theirs) == 0 && t->label &&
          strcmp(t->label->text, elsewhere[i].ours) == 0)
        s.best = elsewhere[i].ours;
  if (!s.best || !a->label_span.file)
    return;
  Span span = a->label_span;
  bool pun = a->expr->span.start < span.end;
  span.start++;
  span.end = span.start + (pun ? 0 : a->label->len);
  d->help = arena_printf(c->arena, "did you mean ~%s?", s.best);
  diag_fix(c->arena, d, span,
           pun ? arena_printf(c->arena, "%s:", s.best) : s.best,
           "write `~%s`", s.best);
}

void suggest_type(Checker *c, Diag *d, Span span, Sym *name) {
  Search s = search_for(c, name);
  const Map *types = &c->module->types;
  for (uint32_t i = 0; i < types->cap; i++) {
    const Sym *other = types->slots[i].key;
    if (other && types->slots[i].value)
      offer(&s, other->text);
  }
  static const char *const own[] = {"int", "string", "unit", "list"};
  for (size_t i = 0; i < ARRAY_LEN(own); i++)
    offer(&s, own[i]);
  for (Dtype t = 1; t < DT_COUNT; t++)
    offer(&s, dtype_info[t].name);
  take(&s, d, span);
}

void suggest_foreign(Checker *c, Diag *d, Span span, const Foreign *word) {
  d->help = word->help;
  if (word->own)
    diag_fix(c->arena, d, span, word->own, "write `%s`", word->own);
}
