/* Rename refactoring: renames all references, but only if the meaning stays the
   same.  The edited text is checked again, and every name must have the same
   definition.  Main entry point: editor_rename. */
#include "editor/internal.h"
#include "lexer/lexer.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(DiagEdit) EditVec;

typedef struct RenameRequest {
  SourceInput text;
  const SymbolRef *ref;
  const char *name;
  EditVec edits;
  VEC(const char *) files; /* names of files whose meaning must not change */
  const char *refusal;
} RenameRequest;

/* ---- what a name may be ---- */

static bool is_between(char c, char first, char last) {
  return c >= first && c <= last;
}

static const char *invalid_name_reason(Session *s, const SymbolRef *of,
                                       const char *name) {
  const char *old = of->name->text, *p = name;
  bool variable = *old == '\'';
  if (variable && *p++ != '\'')
    return "the name of a type variable must begin with a quote";
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (strcmp(lexer_keywords[i].text, name) == 0)
      return arena_printf(s->arena, "`%s` is a keyword", name);
  bool capital = is_between(*old, 'A', 'Z');
  if (capital && !is_between(*p, 'A', 'Z'))
    return "the name of a constructor must begin with a capital letter";
  if (!capital && !is_between(*p, 'a', 'z') && *p != '_')
    return "this name must begin with a small letter";
  size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_'");
  return p[len] || strcmp(name, "_") == 0
             ? arena_printf(s->arena, "`%s` is not a name", name)
             : NULL;
}

static const char *refusal_reason(Session *s, const SymbolRef *of) {
  const Source *source = sources_get(&s->sources, of->definition.file);
  if (of->kind == REF_FIELD)
    return "fields cannot be renamed: every record type can have the same "
           "field";
  if (of->kind == REF_MODULE)
    return "a module has the name of its file, or the name after `as` in the "
           "import";
  if (source && source->is_library)
    return arena_printf(s->arena, "`%s` is defined in the library",
                        of->name->text);
  if (!source && of->binding)
    return arena_printf(s->arena, "`%s` is built in", of->name->text);
  if (!source)
    return arena_printf(s->arena, "the definition of `%s` is not known",
                        of->name->text);
  return NULL;
}

const char *editor_rename_refusal(Session *s, const SymbolRef *of) {
  return refusal_reason(s, of);
}

/* ---- the edits ---- */

static void add_edit(Session *s, RenameRequest *r, uint32_t file,
                     uint32_t start, uint32_t end, const char *text) {
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

/* {w} is both a field and a value: it becomes {w = new}. */
static void rename_field_pun(Session *s, RenameRequest *r, const SymbolRef *p) {
  const Source *source = sources_get(&s->sources, p->span.file);
  uint32_t at = p->span.end;
  while (at < source->len && strchr(" \t\r\n", source->text[at]))
    at++;
  if (at < source->len && source->text[at] == ':') {
    add_edit(s, r, p->span.file, p->span.start, p->span.end,
             arena_printf(s->arena, "%s = (%s", p->name->text, r->name));
    uint32_t end = type_end(source, at);
    add_edit(s, r, p->span.file, end, end, ")");
    return;
  }
  add_edit(s, r, p->span.file, p->span.start, p->span.end,
           arena_printf(s->arena, "%s = %s", p->name->text, r->name));
}

static void rename_ref(Session *s, RenameRequest *r, const SymbolRef *p) {
  const char *old = p->name->text;
  const char *text = r->name;
  if (p->kind == REF_VALUE && editor_find_ref(s, REF_LABEL, p->span))
    text = arena_printf(s->arena, "%s:%s", old, r->name);
  else if (p->kind == REF_LABEL && editor_find_ref(s, REF_VALUE, p->span))
    text = arena_printf(s->arena, "%s:%s", r->name, old);
  if (p->kind == REF_VALUE && editor_find_ref(s, REF_FIELD, p->span) &&
      !editor_find_ref(s, REF_LABEL, p->span))
    rename_field_pun(s, r, p);
  else
    add_edit(s, r, p->span.file, p->span.start, p->span.end, text);
}

typedef struct RenameContext {
  Session *s;
  RenameRequest *r;
} RenameContext;

static void rename_reference(void *arg, const SymbolRef *p) {
  RenameContext *g = arg;
  rename_ref(g->s, g->r, p);
}

/* ---- whether it means the same ---- */

/* The offset in the edited text of an offset in the original text. */
static uint32_t offset_after_edits(const RenameRequest *r, uint32_t file,
                                   uint32_t offset) {
  int64_t shift = 0;
  for (uint32_t i = 0; i < r->edits.len; i++) {
    const DiagEdit *e = &r->edits.at[i];
    if (e->span.file == file && e->span.end <= offset)
      shift += (int64_t)strlen(e->text) - (e->span.end - e->span.start);
  }
  return (uint32_t)((int64_t)offset + shift);
}

static void apply_edits(Session *s, const RenameRequest *r, uint32_t file,
                        Buffer *out) {
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

typedef struct Resolution { /* a name and its definition, in the edited text */
  SymbolRefKind kind;
  uint32_t file; /* number in RenameRequest.files */
  uint32_t end;  /* ends are compared, since edits insert text before names */
  /* number in RenameRequest.files; 0: defined elsewhere */
  uint32_t definition_file;
  uint32_t definition;
} Resolution;

static int compare_resolutions(const void *a, const void *b) {
  const Resolution *x = a, *y = b;
  if (x->file != y->file)
    return x->file < y->file ? -1 : 1;
  if (x->end != y->end)
    return x->end < y->end ? -1 : 1;
  if (x->kind != y->kind)
    return (int)x->kind - (int)y->kind;
  if (x->definition_file != y->definition_file)
    return x->definition_file < y->definition_file ? -1 : 1;
  return x->definition < y->definition ? -1 : x->definition > y->definition;
}

/* For each source, its number in RenameRequest.files, from 1.  0 if it is not
   one of them, or was read again later. */
static uint32_t *number_files(Session *s, const RenameRequest *r) {
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count);
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
  of[s->current_file] = 1;
  of[0] = 0;
  return of;
}

/* Omits labels: edits of shorthand move them. */
static Resolution *collect_resolutions(Session *s, const RenameRequest *r,
                                       bool edited, uint32_t *count) {
  uint32_t all_count, n = 0;
  const SymbolRef *all = session_refs(s, &all_count);
  Resolution *at = NEW_ARRAY(s->arena, Resolution, all_count + 1);
  const uint32_t *number = number_files(s, r);
  for (uint32_t i = 0; i < all_count; i++) {
    const SymbolRef *p = &all[i];
    if (!number[p->span.file] ||
        (p->kind != REF_VALUE && p->kind != REF_SIZE && p->kind != REF_TYPE))
      continue;
    Resolution b = {.kind = p->kind,
                    .file = number[p->span.file],
                    .end = p->span.end,
                    .definition_file = number[p->definition.file]};
    b.definition = b.definition_file ? p->definition.end : 0;
    if (!edited) {
      b.end = offset_after_edits(r, p->span.file, b.end);
      b.definition =
          b.definition_file
              ? offset_after_edits(r, p->definition.file, b.definition)
              : 0;
    }
    at[n++] = b;
  }
  qsort(at, n, sizeof *at, compare_resolutions);
  *count = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!*count || compare_resolutions(&at[*count - 1], &at[i]) != 0)
      at[(*count)++] = at[i];
  return at;
}

/* Supplies the edited text of imported files. */
typedef struct EditedFiles {
  Session *s;
  const RenameRequest *r;
  UnsavedFileFn *unsaved;
  void *owner;
} EditedFiles;

static bool edited_text(void *owner, const char *path, const char **text,
                        size_t *len) {
  const EditedFiles *e = owner;
  for (uint32_t i = 0; i < e->r->edits.len; i++) {
    uint32_t file = e->r->edits.at[i].span.file;
    if (strcmp(sources_get(&e->s->sources, file)->name, path) != 0)
      continue;
    Buffer out = {.arena = e->s->arena};
    apply_edits(e->s, e->r, file, &out);
    *text = out.text, *len = out.len;
    return true;
  }
  return e->unsaved && e->unsaved(e->owner, path, text, len);
}

static void check_edited(Session *s, RenameRequest *r) {
  Buffer text = {.arena = s->arena};
  EditedFiles e = {s, r, s->unsaved_files, s->unsaved_files_owner};
  __typeof__(s->imports) imports = s->imports;
  apply_edits(s, r, s->current_file, &text);
  SourceInput edited = r->text;
  edited.text = text.text ? text.text : "";
  edited.len = text.len;
  edited.is_separate_module = true;
  memset(&s->imports, 0, sizeof s->imports);
  session_set_unsaved_files(s, edited_text, &e);
  session_check(s, &edited);
  for (uint32_t i = 1; i < r->files.len; i++)
    session_check_importer(s, r->files.at[i]);
  session_set_unsaved_files(s, e.unsaved, e.owner);
  s->imports = imports;
}

static void add_file(Session *s, RenameRequest *r, uint32_t file) {
  const Source *source = sources_get(&s->sources, file);
  bool known = !source || source->is_library;
  for (uint32_t i = 0; i < r->files.len && !known; i++)
    known = strcmp(r->files.at[i], source->name) == 0;
  if (!known)
    VEC_PUSH(s->arena, r->files, source->name);
}

/* The text itself is the first file.  In each file that can see the name,
   another name may be confused with it. */
static void find_affected_files(Session *s, RenameRequest *r) {
  uint32_t count, last = 0;
  const SymbolRef *all = session_refs(s, &count);
  const Var *var = r->ref->binding ? binding_var(r->ref->binding) : NULL;
  bool local = r->ref->kind == REF_SIZE || (var && !var->global);
  add_file(s, r, s->current_file);
  for (uint32_t i = 0; i < count && !local; i++)
    if (all[i].span.file != last)
      add_file(s, r, last = all[i].span.file);
}

static bool preserves_resolution(Session *s, RenameRequest *r) {
  uint32_t before_count, after_count, errors = s->diags.errors;
  find_affected_files(s, r);
  Resolution *before = collect_resolutions(s, r, false, &before_count);
  CheckedState known = checked_state_save(s);
  check_edited(s, r);
  bool same = s->diags.errors == errors;
  Resolution *after = collect_resolutions(s, r, true, &after_count);
  checked_state_restore(s, &known);
  same = same && before_count == after_count;
  for (uint32_t i = 0; same && i < before_count; i++)
    same = compare_resolutions(&before[i], &after[i]) == 0;
  return same;
}

static SessionStatus rename_all(Session *s, void *arg) {
  RenameRequest *r = arg;
  r->refusal = refusal_reason(s, r->ref);
  if (!r->refusal)
    r->refusal = invalid_name_reason(s, r->ref, r->name);
  if (r->refusal || strcmp(r->ref->name->text, r->name) == 0)
    return SESSION_OK;
  RenameContext g = {s, r};
  editor_each_reference(s, r->ref, rename_reference, &g);
  if (!preserves_resolution(s, r))
    r->refusal = arena_printf(
        s->arena, "the new name `%s` would change the meaning of the program",
        r->name);
  return SESSION_OK;
}

const char *editor_rename(Session *s, const SourceInput *text,
                          const SymbolRef *of, const char *name,
                          void (*f)(void *, const DiagEdit *), void *arg) {
  RenameRequest r = {.text = *text, .ref = of, .name = name};
  if (session_protected_call(s, rename_all, &r) != SESSION_OK)
    return "out of memory";
  for (uint32_t i = 0; !r.refusal && i < r.edits.len; i++)
    f(arg, &r.edits.at[i]);
  return r.refusal;
}
