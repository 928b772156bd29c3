/* Queries about symbol references: names, definitions and references in the
   text last checked and its imports, and types of expressions.  Main entry
   point: editor_ref_at. */
#include "editor/internal.h"
#include "support/arena.h"

#include <stdlib.h>
#include <string.h>

struct RefIndex { /* index of the references recorded when it was built */
  const SymbolRef *refs;
  uint32_t count;
  Map last_at_start; /* maps file and start to the number of the last reference
                        there, from 1 */
  /* For each reference, the number of the previous one with the same start, or
     0. */
  uint32_t *previous_at_start;
};

static bool is_named(const SymbolRef *p) {
  return p->name;
}

static uint32_t width(Span span) {
  return span.end - span.start;
}

static bool covers(Span span, uint32_t file, uint32_t offset) {
  return span.file == file && span.start <= offset && offset <= span.end;
}

/* Selects the more specific of two references of one name.  A word may both
   bind and use a name (`{w}`, `~x`); then the value is meant. */
static bool is_more_specific(const SymbolRef *a, const SymbolRef *b) {
  static const int rank[] = {
      [REF_VALUE] = 4,  [REF_SIZE] = 3,  [REF_TYPE] = 3,
      [REF_MODULE] = 3, [REF_LABEL] = 2, [REF_FIELD] = 1};
  if (rank[a->kind] != rank[b->kind])
    return rank[a->kind] > rank[b->kind];
  return a->type || !b->type;
}

const SymbolRef *editor_ref_at(Session *s, uint32_t file, uint32_t offset) {
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count), *best = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const SymbolRef *p = &all[i];
    if (!is_named(p) || !covers(p->span, file, offset))
      continue;
    bool begins = p->span.end != offset;
    bool best_begins = best && best->span.end != offset;
    if (!best || begins > best_begins ||
        (begins == best_begins && is_more_specific(p, best)))
      best = p;
  }
  return best;
}

typedef struct InnermostSearch {
  Session *s;
  const Dec *dec; /* current global declaration */
  uint32_t offset;
  const SymbolRef *best;
} InnermostSearch;

static void keep_if_narrower(InnermostSearch *in, const SymbolRef *p) {
  if (p->type && (!in->best || width(p->span) <= width(in->best->span)))
    in->best = p;
}

/* Of two expressions with the same span, takes the outer one. */
static void search_expr(void *arg, Expr *e) {
  InnermostSearch *in = arg;
  if (!covers(e->span, in->s->current_file, in->offset))
    return;
  expr_visit_children(e, search_expr, in);
  const Expr *both[] = {e->desugared, e};
  for (size_t i = 0; i < ARRAY_LEN(both); i++)
    if (both[i] && covers(both[i]->span, in->s->current_file, in->offset)) {
      SymbolRef *p = NEW(in->s->arena, SymbolRef);
      *p = ref_of_expr(in->s->current_module, in->dec, both[i]);
      keep_if_narrower(in, p);
    }
}

static SessionStatus find_expr(Session *s, void *arg) {
  InnermostSearch *in = arg;
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count);
  for (uint32_t i = 0; i < count; i++)
    if (all[i].kind != REF_LABEL &&
        covers(all[i].span, s->current_file, in->offset))
      keep_if_narrower(in, &all[i]);
  for (uint32_t i = 0; i < s->current_program.dec_count; i++) {
    in->dec = s->current_program.decs[i];
    if (covers(in->dec->span, s->current_file, in->offset))
      dec_visit_exprs(in->dec, search_expr, in);
  }
  return SESSION_OK;
}

const SymbolRef *editor_expr_at(Session *s, uint32_t offset) {
  InnermostSearch in = {.s = s, .offset = offset};
  session_protected_call(s, find_expr, &in);
  return in.best;
}

/* ---- places by where they begin ---- */

static const void *start_key(Span span) {
  return (const void *)(uintptr_t)((uint64_t)span.file << 32 | span.start);
}

/* Links each reference to the previous one with the same start. */
static SessionStatus build_ref_index(Session *s, void *arg) {
  struct RefIndex *x = NEW(s->arena, struct RefIndex);
  (void)arg;
  x->refs = session_refs(s, &x->count);
  x->previous_at_start = NEW_ARRAY(s->arena, uint32_t, x->count + 1);
  map_init(&x->last_at_start, s->arena);
  for (uint32_t i = 0; i < x->count; i++) {
    const void *key = start_key(x->refs[i].span);
    x->previous_at_start[i] =
        (uint32_t)(uintptr_t)map_get(&x->last_at_start, key);
    map_put(&x->last_at_start, key, (void *)(uintptr_t)(i + 1));
  }
  s->ref_index = x;
  return SESSION_OK;
}

const SymbolRef *editor_find_ref(Session *s, SymbolRefKind kind, Span span) {
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count), *found = NULL;
  const struct RefIndex *x = s->ref_index;
  if ((!x || x->refs != all || x->count != count) &&
      session_protected_call(s, build_ref_index, NULL) != SESSION_OK)
    return NULL;
  x = s->ref_index;
  for (uint32_t i =
           (uint32_t)(uintptr_t)map_get(&x->last_at_start, start_key(span));
       i; i = x->previous_at_start[i - 1])
    if (all[i - 1].kind == kind && all[i - 1].span.end == span.end) {
      found = &all[i - 1];
      if (found->type) /* the last one with a type, otherwise the first */
        break;
    }
  return found;
}

/* ---- text ---- */

typedef struct RefTypeQuery {
  const SymbolRef *ref;
  const char *type;
} RefTypeQuery;

/* At its definition, a polymorphic name has its general type.  Elsewhere it has
   the type of this use. */
static SessionStatus query_ref_type(Session *s, void *arg) {
  RefTypeQuery *t = arg;
  const SymbolRef *p = t->ref;
  if (p->binding && (p->is_definition || !p->type) && p->kind == REF_VALUE &&
      (p->binding == p->enclosing || !p->type))
    t->type = binding_type(s->checker, p->binding);
  else
    t->type = ref_type(s->checker, p);
  return SESSION_OK;
}

const char *editor_ref_type(Session *s, const SymbolRef *ref) {
  RefTypeQuery t = {.ref = ref};
  session_protected_call(s, query_ref_type, &t);
  return t.type;
}

const char *editor_doc(Session *s, const SymbolRef *p) {
  (void)s;
  if (p->binding && binding_doc(p->binding))
    return binding_doc(p->binding);
  return p->dec ? p->dec->doc : NULL;
}

typedef struct LabelCallback {
  const SymbolRef *ref;
  void (*f)(void *, Sym *name, bool optional, const char *type);
  void *arg;
} LabelCallback;

static SessionStatus call_with_labels(Session *s, void *arg) {
  const LabelCallback *l = arg;
  ref_labels(s->checker, l->ref, l->f, l->arg);
  return SESSION_OK;
}

void editor_each_label(Session *s, const SymbolRef *ref,
                       void (*f)(void *, Sym *name, bool optional,
                                 const char *type),
                       void *arg) {
  LabelCallback l = {ref, f, arg};
  session_protected_call(s, call_with_labels, &l);
}

/* ---- one name ---- */

/* A file may have been read twice: as the current text, and as an import. */
static bool same_file(const Session *s, uint32_t a, uint32_t b) {
  const Source *x = sources_get(&s->sources, a);
  const Source *y = sources_get(&s->sources, b);
  return a == b || (x && y && strcmp(x->name, y->name) == 0);
}

static bool is_same_symbol(const Session *s, const SymbolRef *a,
                           const SymbolRef *b) {
  if (a->kind != b->kind || a->name != b->name)
    return false;
  if (a->kind == REF_FIELD)
    return true;
  if (a->kind == REF_MODULE && a->binding && b->binding)
    return binding_module(a->binding) == binding_module(b->binding);
  if (!a->definition.file || !b->definition.file)
    return !a->definition.file && !b->definition.file &&
           a->binding == b->binding && a->binding;
  return a->definition.start == b->definition.start &&
         same_file(s, a->definition.file, b->definition.file);
}

static int compare_refs(const void *a, const void *b) {
  const SymbolRef *x = *(const SymbolRef *const *)a,
                  *y = *(const SymbolRef *const *)b;
  if (x->span.file != y->span.file)
    return x->span.file < y->span.file ? -1 : 1;
  return x->span.start < y->span.start ? -1 : x->span.start > y->span.start;
}

typedef struct ReferenceSearch {
  const SymbolRef *ref;
  VEC(const SymbolRef *) found;
} ReferenceSearch;

static SessionStatus find_references(Session *s, void *arg) {
  ReferenceSearch *u = arg;
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count);
  for (uint32_t i = 0; i < count; i++)
    if (is_named(&all[i]) && is_same_symbol(s, u->ref, &all[i]))
      VEC_PUSH(s->arena, u->found, &all[i]);
  if (u->found.len)
    qsort(u->found.at, u->found.len, sizeof *u->found.at, compare_refs);
  return SESSION_OK;
}

void editor_each_reference(Session *s, const SymbolRef *ref,
                           void (*f)(void *, const SymbolRef *), void *arg) {
  ReferenceSearch u = {.ref = ref};
  session_protected_call(s, find_references, &u);
  const SymbolRef *before = NULL;
  for (uint32_t i = 0; i < u.found.len; i++) {
    const SymbolRef *p = u.found.at[i];
    if (!before || compare_refs(&before, &p) != 0)
      f(arg, p);
    before = p;
  }
}

typedef struct DefinitionQuery {
  const SymbolRef *ref;
  Span span;
} DefinitionQuery;

static SessionStatus find_definition(Session *s, void *arg) {
  DefinitionQuery *d = arg;
  const SymbolRef *p = d->ref;
  Module *m = p->binding ? binding_module(p->binding) : NULL;
  if (!m) {
    d->span = p->definition;
    return SESSION_OK;
  }
  if (module_is_library(m))
    d->span.file = stdlib_module_source(s, module_sym(m));
  for (uint32_t i = 0; i < s->imports.len; i++)
    if (s->imports.at[i].module == m)
      d->span.file = s->imports.at[i].file;
  return SESSION_OK;
}

Span editor_definition(Session *s, const SymbolRef *ref) {
  DefinitionQuery d = {.ref = ref};
  session_protected_call(s, find_definition, &d);
  return d.span;
}

/* ---- another text in between ---- */

CheckedState checked_state_save(Session *s) {
  CheckedState k = {s->current_program, s->current_file,
                    s->pending.len,     s->current_module,
                    s->diags,           checker_swap_refs(s->checker, NULL)};
  diags_init(&s->diags, s->arena);
  checker_record_refs(s->checker, true);
  return k;
}

void checked_state_restore(Session *s, const CheckedState *k) {
  s->current_program = k->program;
  s->current_file = k->file;
  s->pending.len = k->pending_count;
  s->current_module = k->module;
  s->diags = k->diags;
  checker_swap_refs(s->checker, k->refs);
}
