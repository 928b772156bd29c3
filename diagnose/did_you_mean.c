/* "Did you mean": the nearest name in scope for an unbound one, as help and
   fix-it. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/edit_distance.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>
#include <strings.h>

/* A search for the nearest name.  Of equally near names, the first wins. */
typedef struct NameSearch {
  Checker *c;
  const char *word;   /* the unbound name */
  const char *module; /* searched module; "" for the prelude */
  const char *best;   /* best name, or NULL */
  int best_distance;  /* distance of the best name; initially the limit */
} NameSearch;

static NameSearch name_search_new(Checker *c, const Sym *word) {
  return (NameSearch){.c = c,
                      .word = word->text,
                      .module = "",
                      .best_distance = edit_distance_limit(word->len)};
}

static void consider(NameSearch *s, const char *name) {
  bool same_letters = strcasecmp(s->word, name) == 0; /* ReLU and relu */
  int distance =
      same_letters ? 1 : edit_distance(s->word, name, s->best_distance);
  if (distance > s->best_distance ||
      (s->best && distance == s->best_distance) || strcmp(name, s->word) == 0)
    return;
  s->best = name;
  s->best_distance = distance;
}

static void attach_suggestion(NameSearch *s, Diag *d, Span span) {
  if (!s->best)
    return;
  d->help = arena_printf(s->c->arena, "did you mean `%s`?", s->best);
  diag_add_fixit(s->c->arena, d, span, s->best, "write `%s`", s->best);
}

/* ---- names of values ---- */

static void consider_library_name(void *arg, const char *full) {
  NameSearch *s = arg;
  const char *dot = strncmp(full, "op ", 3) != 0 ? strchr(full, '.') : NULL;
  size_t len = dot ? (size_t)(dot - full) : 0;
  if (len != strlen(s->module) || strncmp(full, s->module, len) != 0)
    return;
  const char *name = full + len + (dot != NULL);
  if (strcasecmp(s->word, name) == 0 ||
      edit_distance(s->word, name, s->best_distance) <= s->best_distance)
    consider(s, arena_strndup(s->c->arena, name, strlen(name)));
}

/* Searches the library.  Without a module, short names get no suggestion: too
   many are near. */
static void consider_library(NameSearch *s) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    consider_library_name(s, prim_info[id].name);
  if (s->c->host->library_names && strlen(s->word) > (*s->module ? 1 : 3))
    s->c->host->library_names(consider_library_name, s);
}

/* Finds a module of the library that contains exactly this name. */
static void find_exact_in_library(void *arg, const char *full) {
  NameSearch *s = arg;
  const char *dot = strchr(full, '.');
  if (dot && strcmp(dot + 1, s->word) == 0 && !s->best)
    s->best = arena_strndup(s->c->arena, full, strlen(full));
}

/* Names of modules need only one edit: there are many. */
static void consider_in_module(void *arg, const char *full) {
  NameSearch *s = arg;
  const char *dot = strchr(full, '.');
  int limit = s->best ? s->best_distance - 1 : s->best_distance;
  int distance = dot ? edit_distance(s->word, dot + 1, 1) : 2;
  if (distance > 1 || distance > limit)
    return;
  s->best = arena_strndup(s->c->arena, full, strlen(full));
  s->best_distance = distance;
}

static void consider_modules(NameSearch *s) {
  if (s->c->host->library_names && strlen(s->word) > 4)
    s->c->host->library_names(consider_in_module, s);
}

static bool suggest_qualified(Checker *c, Diag *d, Span span, Sym *name) {
  NameSearch s = {.c = c, .word = name->text};
  if (c->host->library_names)
    c->host->library_names(find_exact_in_library, &s);
  attach_suggestion(&s, d, span);
  return s.best != NULL;
}

void suggest_name(Checker *c, Diag *d, Span span, Sym *name) {
  NameSearch s = name_search_new(c, name);
  if (name == c->inference.val_name) {
    d->help = "a recursive function needs `fun`";
    return;
  }
  if (strcmp(name->text, "f") == 0 &&
      sources_get(c->sources, span.file)->text[span.end] == '"') {
    d->help = "for values in a string, write `format \"loss %.2f\" x`";
    return;
  }
  consider(&s, "true");
  consider(&s, "false");
  for (Scope *scope = c->names.scope; scope; scope = scope->outer)
    if (scope->binding || scope->dim)
      consider(&s, scope->name->text);
  for (uint32_t i = 0; i < c->names.module->bindings.len; i++) {
    Sym *other = c->names.module->bindings.at[i]->name;
    if (map_get(&c->names.module->names, other))
      consider(&s, other->text);
  }
  if (!s.best && name->len > 1 && suggest_qualified(c, d, span, name))
    return;
  consider_library(&s);
  consider_modules(&s);
  attach_suggestion(&s, d, span);
}

/* Functions of a module, and their names in Python. */
static const struct {
  const char *module, *theirs, *ours;
} foreign_members[] = {
    {"dicts", "add", "insert"},
    {"dicts", "contains", "member"},
    {"dicts", "delete", "remove"},
    {"dicts", "has", "member"},
    {"dicts", "length", "size"},
    {"dicts", "lookup", "find"},
    {"dicts", "pop", "remove"},
    {"dicts", "put", "insert"},
    {"dicts", "set", "insert"},
    {"lists", "len", "length"},
    {"sets", "add", "insert"},
    {"strings", "len", "length"},
    {"strings", "startswith", "starts_with"},
    {"strings", "endswith", "ends_with"},
};

static const char *foreign_member(const Sym *module, const Sym *name) {
  for (size_t i = 0; i < ARRAY_LEN(foreign_members); i++)
    if (strcmp(foreign_members[i].module, module->text) == 0 &&
        strcmp(foreign_members[i].theirs, name->text) == 0)
      return foreign_members[i].ours;
  return NULL;
}

static void consider_binding(void *arg, Binding *b) {
  consider(arg, b->name->text);
}

void suggest_member(Checker *c, Diag *d, Span span, Sym *module, Sym *name) {
  NameSearch s = name_search_new(c, name);
  Binding *b = lookup(c, NULL, module);
  Binding *plain = lookup(c, NULL, name);
  s.best = foreign_member(module, name);
  if (!s.best && plain && plain->kind != BK_MODULE) {
    d->help = arena_printf(c->arena, "`%s` needs no module name: write `%s`",
                           name->text, name->text);
    return;
  }
  if (!s.best && b && b->kind == BK_MODULE && b->imported)
    module_each(b->imported, consider_binding, &s);
  if (!s.best && b && b->kind == BK_MODULE && b->imported &&
      b->imported->library) {
    s.module = b->imported->name->text;
    consider_library(&s);
  }
  attach_suggestion(&s, d, span);
  if (s.best)
    d->help =
        arena_printf(c->arena, "did you mean `%s.%s`?", module->text, s.best);
  const ForeignWord *word = s.best ? NULL : lexer_find_foreign(name->text);
  if (word)
    d->help = word->help;
}

void suggest_con(Checker *c, Diag *d, Span span, Sym *name) {
  NameSearch s = name_search_new(c, name);
  consider(&s, "Some");
  consider(&s, "None");
  for (uint32_t i = 0; i < c->names.module->bindings.len; i++)
    if (c->names.module->bindings.at[i]->kind == BK_CON)
      consider(&s, c->names.module->bindings.at[i]->name->text);
  attach_suggestion(&s, d, span);
  if (s.best)
    return;
  const char *after = sources_get(c->sources, span.file)->text + span.end;
  d->help = after[strspn(after, " ")] == '{'
                ? "a record needs no constructor: write `{x = e}`"
                : "constructors begin with a capital letter; values and "
                  "functions begin with a small letter";
}

/* ---- fields, labels, types, words of other languages ---- */

void suggest_field(Checker *c, Diag *d, Span span, const Type *record,
                   Sym *name) {
  NameSearch s = name_search_new(c, name);
  for (uint32_t i = 0; i < record->count; i++)
    consider(&s, record->record.labels[i]->text);
  attach_suggestion(&s, d, span);
}

void suggest_similar_field(Checker *c, Diag *d, const TypeDiff *part) {
  Type *without = row_flat(c, part->extra ? part->expected : part->actual);
  Type *with = row_flat(c, part->extra ? part->actual : part->expected);
  NameSearch s = name_search_new(c, part->field);
  for (uint32_t i = 0; i < without->count; i++)
    if (!row_field(with, without->record.labels[i]))
      consider(&s, without->record.labels[i]->text);
  if (s.best)
    d->help = arena_printf(c->arena,
                           "`%s` and `%s` are similar: is one of them a "
                           "misspelling?",
                           s.best, part->field->text);
}

/* Names in Python libraries, and names here. */
static const struct {
  const char *theirs, *ours;
} foreign_labels[] = {{"dim", "axis"},           {"dims", "axis"},
                      {"axes", "axis"},          {"keepdim", "keep"},
                      {"keepdims", "keep"},      {"kernel_size", "size"},
                      {"scale_factor", "scale"}, {"lr", "rate"},
                      {"num_heads", "heads"},    {"p", "rate"}};

static bool is_axis_order(const char *label) {
  return strcmp(label, "axes") == 0 || strcmp(label, "dims") == 0 ||
         strcmp(label, "perm") == 0;
}

/* If the label is shorthand (`~axis`), the value keeps its name. */
void suggest_label(Checker *c, Diag *d, const Arg *a, Type *fun) {
  NameSearch s = name_search_new(c, a->label);
  for (Type *t = ty_norm(c, fun); t->tag == TY_FUN;
       t = ty_norm(c, t->fun.result))
    if (t->fun.label)
      consider(&s, t->fun.label->text);
  for (size_t i = 0; i < ARRAY_LEN(foreign_labels) && !s.best; i++)
    for (Type *t = ty_norm(c, fun); t->tag == TY_FUN;
         t = ty_norm(c, t->fun.result))
      if (strcmp(a->label->text, foreign_labels[i].theirs) == 0 &&
          t->fun.label &&
          strcmp(t->fun.label->text, foreign_labels[i].ours) == 0)
        s.best = foreign_labels[i].ours;
  if (!s.best && is_axis_order(a->label->text))
    d->help = "for another order of axes, write `permute \"i j k -> k i j\" x`";
  if (!s.best && !d->help)
    d->help =
        "only parameters that the type shows with `~` or `?` have labels: "
        "write the others without one";
  if (!s.best || !a->label_span.file)
    return;
  Span span = a->label_span;
  bool pun = a->expr->span.start < span.end;
  span.start++;
  span.end = span.start + (pun ? 0 : a->label->len);
  d->help = arena_printf(c->arena, "did you mean ~%s?", s.best);
  diag_add_fixit(c->arena, d, span,
                 pun ? arena_printf(c->arena, "%s:", s.best) : s.best,
                 "write `~%s`", s.best);
}

void suggest_type(Checker *c, Diag *d, Span span, Sym *name) {
  NameSearch s = name_search_new(c, name);
  const Map *types = &c->names.module->types;
  for (uint32_t i = 0; i < types->cap; i++) {
    const Sym *other = types->slots[i].key;
    if (other && types->slots[i].value)
      consider(&s, other->text);
  }
  static const char *const own[] = {"int", "string", "unit", "list"};
  for (size_t i = 0; i < ARRAY_LEN(own); i++)
    consider(&s, own[i]);
  for (Dtype t = 1; t < DT_COUNT; t++)
    consider(&s, dtype_info[t].name);
  attach_suggestion(&s, d, span);
}

void suggest_foreign(Checker *c, Diag *d, Span span, const ForeignWord *word) {
  d->help = word->help;
  if (word->replacement)
    diag_add_fixit(c->arena, d, span, word->replacement, "write `%s`",
                   word->replacement);
}
