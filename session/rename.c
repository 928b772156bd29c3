/* A name is changed, at all its places, and only if the text then still means
 * the same: it is checked again, and every name must be bound where it was. */
#include "lexer/lexer.h"
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(DiagEdit) EditVec;

typedef struct Rename {
  SessionText text;
  const Place *of;
  const char *name;
  EditVec edits;
  VEC(const char *) files; /* names of those that have to mean the same */
  const char *refused;
} Rename;

/* ---- what a name may be ---- */

static bool is_letter(char c, char first, char last) {
  return c >= first && c <= last;
}

static const char *bad_name(Session *s, const Place *of, const char *name) {
  const char *old = of->name->text, *p = name;
  bool variable = *old == '\'';
  if (variable && *p++ != '\'')
    return "the name of a type variable begins with a quote";
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (strcmp(lexer_keywords[i].text, name) == 0)
      return arena_printf(s->arena, "`%s` is a word of the language", name);
  bool capital = is_letter(*old, 'A', 'Z');
  if (capital && !is_letter(*p, 'A', 'Z'))
    return "the name of a constructor begins with a capital";
  if (!capital && !is_letter(*p, 'a', 'z') && *p != '_')
    return "this name begins with a small letter";
  size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_'");
  return p[len] || strcmp(name, "_") == 0
             ? arena_printf(s->arena, "`%s` is not a name", name)
             : NULL;
}

static const char *not_to_be_renamed(Session *s, const Place *of) {
  const Source *source = sources_get(&s->sources, of->def.file);
  if (of->kind == PLACE_FIELD)
    return "a field is part of every record type that has it: fields are "
           "renamed by hand";
  if (of->kind == PLACE_MODULE)
    return "a module is called as its file, or as the import says by `as`";
  if (source && source->library)
    return arena_printf(s->arena, "`%s` belongs to the library",
                        of->name->text);
  if (!source && of->binding)
    return arena_printf(s->arena, "`%s` is built in", of->name->text);
  if (!source)
    return arena_printf(s->arena, "where `%s` is defined is not known",
                        of->name->text);
  return NULL;
}

const char *session_rename_refused(Session *s, const Place *of) {
  return not_to_be_renamed(s, of);
}

/* ---- the edits ---- */

static void edit(Session *s, Rename *r, uint32_t file, uint32_t start,
                 uint32_t end, const char *text) {
  VEC_PUSH(s->arena, r->edits, ((DiagEdit){{file, start, end}, text}));
}

/* The end of the type in `{w : type, ...}`. */
static uint32_t type_end(const Source *source, uint32_t at) {
  int depth = 0;
  uint32_t end = at;
  for (; at < source->len; at++) {
    char c = source->text[at];
    if (strchr("([{", c))
      depth++;
    else if (strchr(")]}", c) && --depth < 0)
      break;
    else if (c == ',' && !depth)
      break;
    if (!strchr(" \t\r\n", c))
      end = at + 1;
  }
  return end;
}

/* {w} is a field and a value at once: {w = new}. */
static void rename_field_pun(Session *s, Rename *r, const Place *p) {
  const Source *source = sources_get(&s->sources, p->span.file);
  uint32_t at = p->span.end;
  while (at < source->len && strchr(" \t\r\n", source->text[at]))
    at++;
  if (at < source->len && source->text[at] == ':') {
    edit(s, r, p->span.file, p->span.start, p->span.end,
         arena_printf(s->arena, "%s = (%s", p->name->text, r->name));
    uint32_t end = type_end(source, at);
    edit(s, r, p->span.file, end, end, ")");
    return;
  }
  edit(s, r, p->span.file, p->span.start, p->span.end,
       arena_printf(s->arena, "%s = %s", p->name->text, r->name));
}

static void rename_place(Session *s, Rename *r, const Place *p) {
  const char *old = p->name->text;
  const char *text = r->name;
  if (p->kind == PLACE_VALUE && session_place(s, PLACE_LABEL, p->span))
    text = arena_printf(s->arena, "%s:%s", old, r->name);
  else if (p->kind == PLACE_LABEL && session_place(s, PLACE_VALUE, p->span))
    text = arena_printf(s->arena, "%s:%s", r->name, old);
  if (p->kind == PLACE_VALUE && session_place(s, PLACE_FIELD, p->span) &&
      !session_place(s, PLACE_LABEL, p->span))
    rename_field_pun(s, r, p);
  else
    edit(s, r, p->span.file, p->span.start, p->span.end, text);
}

typedef struct Renaming {
  Session *s;
  Rename *r;
} Renaming;

static void rename_use(void *arg, const Place *p) {
  Renaming *g = arg;
  rename_place(g->s, g->r, p);
}

/* ---- whether it means the same ---- */

/* Where an offset of the text is in the one that was edited. */
static uint32_t moved(const Rename *r, uint32_t file, uint32_t offset) {
  int64_t shift = 0;
  for (uint32_t i = 0; i < r->edits.len; i++) {
    const DiagEdit *e = &r->edits.at[i];
    if (e->span.file == file && e->span.end <= offset)
      shift += (int64_t)strlen(e->text) - (e->span.end - e->span.start);
  }
  return (uint32_t)((int64_t)offset + shift);
}

static void apply(Session *s, const Rename *r, uint32_t file, Buffer *out) {
  const Source *source = sources_get(&s->sources, file);
  uint32_t at = 0;
  for (uint32_t i = 0; i < r->edits.len; i++) {
    const DiagEdit *e = &r->edits.at[i];
    if (e->span.file != file)
      continue;
    buffer_add(out, source->text + at, e->span.start - at);
    buffer_puts(out, e->text);
    at = e->span.end;
  }
  buffer_add(out, source->text + at, source->len - at);
}

typedef struct Bound { /* a name, and where it is bound, in the new texts */
  PlaceKind kind;
  uint32_t file;     /* of Rename.files */
  uint32_t end;      /* ends: what a pun puts in front does not move them */
  uint32_t def_file; /* of Rename.files; 0: bound elsewhere */
  uint32_t def;
} Bound;

static int by_end(const void *a, const void *b) {
  const Bound *x = a, *y = b;
  if (x->file != y->file)
    return x->file < y->file ? -1 : 1;
  if (x->end != y->end)
    return x->end < y->end ? -1 : 1;
  if (x->kind != y->kind)
    return (int)x->kind - (int)y->kind;
  if (x->def_file != y->def_file)
    return x->def_file < y->def_file ? -1 : 1;
  return x->def < y->def ? -1 : x->def > y->def;
}

/* Of each source, which of Rename.files it is, from 1; 0: none, or not the last
 * of that name that was read. */
static uint32_t *numbers(Session *s, const Rename *r) {
  uint32_t count;
  const Place *all = all_places(s, &count);
  uint32_t *of = NEW_ARRAY(s->arena, uint32_t, s->sources.files.len);
  uint32_t *last = NEW_ARRAY(s->arena, uint32_t, r->files.len);
  for (uint32_t i = 0, before = 0; i < count; i++) {
    uint32_t file = all[i].span.file;
    const Source *source = sources_get(&s->sources, file);
    for (uint32_t k = 1; file != before && k < r->files.len; k++)
      if (file > last[k] && strcmp(source->name, r->files.at[k]) == 0)
        last[k] = file;
    before = file;
  }
  for (uint32_t k = 1; k < r->files.len; k++)
    of[last[k]] = k + 1;
  of[s->file] = 1;
  of[0] = 0;
  return of;
}

/* Labels are left out: a pun that was taken apart has moved them. */
static Bound *bounds(Session *s, const Rename *r, bool edited,
                     uint32_t *count) {
  uint32_t all_count, n = 0;
  const Place *all = all_places(s, &all_count);
  Bound *at = NEW_ARRAY(s->arena, Bound, all_count + 1);
  const uint32_t *number = numbers(s, r);
  for (uint32_t i = 0; i < all_count; i++) {
    const Place *p = &all[i];
    if (!number[p->span.file] ||
        (p->kind != PLACE_VALUE && p->kind != PLACE_SIZE &&
         p->kind != PLACE_TYPE))
      continue;
    Bound b = {.kind = p->kind, .file = number[p->span.file],
               .end = p->span.end, .def_file = number[p->def.file]};
    b.def = b.def_file ? p->def.end : 0;
    if (!edited) {
      b.end = moved(r, p->span.file, b.end);
      b.def = b.def_file ? moved(r, p->def.file, b.def) : 0;
    }
    at[n++] = b;
  }
  qsort(at, n, sizeof *at, by_end);
  *count = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!*count || by_end(&at[*count - 1], &at[i]) != 0)
      at[(*count)++] = at[i];
  return at;
}

/* Files that the text imports are as the edits make them. */
typedef struct Edited {
  Session *s;
  const Rename *r;
  Unsaved *unsaved;
  void *owner;
} Edited;

static bool edited_text(void *owner, const char *path, const char **text,
                        size_t *len) {
  const Edited *e = owner;
  for (uint32_t i = 0; i < e->r->edits.len; i++) {
    uint32_t file = e->r->edits.at[i].span.file;
    if (strcmp(sources_get(&e->s->sources, file)->name, path) != 0)
      continue;
    Buffer out = {.arena = e->s->arena};
    apply(e->s, e->r, file, &out);
    *text = out.text, *len = out.len;
    return true;
  }
  return e->unsaved && e->unsaved(e->owner, path, text, len);
}

static void check_edited(Session *s, Rename *r) {
  Buffer text = {.arena = s->arena};
  Edited e = {s, r, s->unsaved, s->unsaved_owner};
  __typeof__(s->imports) imports = s->imports;
  apply(s, r, s->file, &text);
  SessionText edited = r->text;
  edited.text = text.text ? text.text : "";
  edited.len = text.len;
  edited.own_module = true;
  memset(&s->imports, 0, sizeof s->imports);
  session_on_unsaved(s, edited_text, &e);
  session_check(s, &edited);
  for (uint32_t i = 1; i < r->files.len; i++)
    session_check_beside(s, r->files.at[i]);
  session_on_unsaved(s, e.unsaved, e.owner);
  s->imports = imports;
}

static void add_file(Session *s, Rename *r, uint32_t file) {
  const Source *source = sources_get(&s->sources, file);
  bool known = !source || source->library;
  for (uint32_t i = 0; i < r->files.len && !known; i++)
    known = strcmp(r->files.at[i], source->name) == 0;
  if (!known)
    VEC_PUSH(s->arena, r->files, source->name);
}

/* The text itself is the first; a name that others see may be taken for
 * another in each of them, or another for it. */
static void find_files(Session *s, Rename *r) {
  uint32_t count, last = 0;
  const Place *all = all_places(s, &count);
  const Var *var = r->of->binding ? binding_var(r->of->binding) : NULL;
  bool local = r->of->kind == PLACE_SIZE || (var && !var->global);
  add_file(s, r, s->file);
  for (uint32_t i = 0; i < count && !local; i++)
    if (all[i].span.file != last)
      add_file(s, r, last = all[i].span.file);
}

static bool means_the_same(Session *s, Rename *r) {
  uint32_t before_count, after_count, errors = s->diags.errors;
  find_files(s, r);
  Bound *before = bounds(s, r, false, &before_count);
  Known known = known_aside(s);
  check_edited(s, r);
  bool same = s->diags.errors == errors;
  Bound *after = bounds(s, r, true, &after_count);
  known_back(s, &known);
  same = same && before_count == after_count;
  for (uint32_t i = 0; same && i < before_count; i++)
    same = by_end(&before[i], &after[i]) == 0;
  return same;
}

static SessionStatus rename_all(Session *s, void *arg) {
  Rename *r = arg;
  r->refused = not_to_be_renamed(s, r->of);
  if (!r->refused)
    r->refused = bad_name(s, r->of, r->name);
  if (r->refused || strcmp(r->of->name->text, r->name) == 0)
    return SESSION_OK;
  Renaming g = {s, r};
  session_each_use(s, r->of, rename_use, &g);
  if (!means_the_same(s, r))
    r->refused = arena_printf(s->arena,
                              "with the name `%s` the program would mean "
                              "something else",
                              r->name);
  return SESSION_OK;
}

const char *session_rename(Session *s, const SessionText *text,
                           const Place *of, const char *name,
                           void (*f)(void *, const DiagEdit *), void *arg) {
  Rename r = {.text = *text, .of = of, .name = name};
  if (session_guard(s, rename_all, &r) != SESSION_OK)
    return "there is no memory for this";
  for (uint32_t i = 0; !r.refused && i < r.edits.len; i++)
    f(arg, &r.edits.at[i]);
  return r.refused;
}
