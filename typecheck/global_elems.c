/* Element types of global values.  A value whose declaration leaves its element
   type undetermined gets it from the first use in its text that determines it,
   otherwise the default.  Main entry points: global_elems_collect,
   global_elem_finish and checker_default_elems. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"

/* ---- changes by a declaration ---- */

void global_elem_save(Checker *c, ElemVar *e) {
  if (e->global)
    VEC_PUSH(c->arena, c->elems.changes, ((ElemChange){e, *e}));
}

TextStart global_elems_mark(const Checker *c) {
  return (TextStart){c->elems.is_text, c->elems.open.len, c->elems.sites.len,
                     c->elems.changes.len};
}

void global_elems_undo(Checker *c, const TextStart *from) {
  c->elems.open.len = from->open;
  c->elems.sites.len = from->sites;
  while (c->elems.changes.len > from->changes) {
    const ElemChange *change = &c->elems.changes.at[--c->elems.changes.len];
    *change->var = change->before;
  }
}

/* ---- defaults ---- */

static bool is_undetermined(const ElemVar *e) {
  return e->dtype == DT_NONE && !e->skolem;
}

void elem_apply_default(Checker *c, ElemVar *e) {
  unify_elem(c, e, elem_fixed(c, elem_default_dtype(e)));
}

/* Without a use that determines it, the value itself does. */
static void default_global(Checker *c, ElemVar *e) {
  e->decided = e->global->span;
  elem_apply_default(c, e);
}

void elem_require_default_int(Checker *c, ElemVar *e) {
  e = elem_root(e);
  if (e->global && is_undetermined(e) && e->default_preference == PREFERS_INT) {
    global_elem_save(c, e);
    default_global(c, e);
  }
}

/* ---- messages ---- */

GlobalElem global_elem_of(const ElemVar *e) {
  GlobalElem found = {0};
  for (; e; e = e->link)
    if (e->global) {
      found.value = found.value ? found.value : e->global;
      found.determined = e;
    }
  found.by_default = found.value && span_equal(found.determined->decided,
                                               found.determined->global->span);
  return found;
}

static void label_default(Checker *c, Diag *d, const GlobalElem *global) {
  const ElemVar *e = elem_root((ElemVar *)global->determined);
  const char *name = dtype_info[elem_shown_dtype(e)].name;
  diag_add_label(c->arena, d, global->value->span,
                 global->determined->default_preference == PREFERS_INT
                     ? arena_printf(c->arena, "an integer: %s", name)
                     : arena_printf(c->arena, "%s by default", name));
}

void global_elem_label(Checker *c, Diag *d, const GlobalElem *global) {
  if (!global->value)
    return;
  if (global->by_default) {
    label_default(c, d, global);
    return;
  }
  if (!global->determined->decided.file)
    return;
  const ElemVar *e = elem_root((ElemVar *)global->determined);
  diag_add_label(c->arena, d, global->value->span,
                 "its first use determines its element type");
  diag_add_label(c->arena, d, global->determined->decided,
                 arena_printf(c->arena, "the first use: %s",
                              e->dtype != DT_NONE ? dtype_info[e->dtype].name
                              : e->classes & ~(uint32_t)CLASS_FLOAT
                                  ? "a numeric type"
                                  : "a float type"));
}

/* ---- places that need an element type ---- */

void global_elem_finish(Checker *c, ElemSite site) {
  const GlobalElem global = global_elem_of(site.at->var);
  ElemVar *e = elem_root(site.at->var);
  if (is_undetermined(e) && e->global) {
    VEC_PUSH(c->arena, c->elems.sites, site);
    return;
  }
  if (is_undetermined(e))
    elem_apply_default(c, e);
  e = elem_root(e);
  *site.at = (ElemRef){e->dtype, e->dtype == DT_NONE ? e : NULL};
  Diag *d = NULL;
  if (site.num)
    d = literal_check(c, site.num, site.is_float, e->dtype, site.span);
  if (site.generic)
    d = literal_check_use(c, site.generic, e->dtype, site.use);
  if (d && !global.by_default)
    global_elem_label(c, d, &global);
}

/* ---- declarations and texts ---- */

typedef struct OpenElems {
  Checker *c;
  Binding *value;
} OpenElems;

static void note_open(void *arg, ElemVar *e) {
  const OpenElems *open = arg;
  Checker *c = open->c;
  if (!is_undetermined(e) || e->level == LEVEL_GENERIC || e->global)
    return;
  e->global = open->value;
  if (!e->default_preference) /* later numbers do not change its default */
    e->default_preference =
        elem_default_dtype(e) == DT_F32 ? PREFERS_F32 : PREFERS_INT;
  VEC_PUSH(c->arena, c->elems.open, e);
}

static void default_elems(Checker *c, uint32_t open, uint32_t sites) {
  for (uint32_t i = open; i < c->elems.open.len; i++) {
    ElemVar *e = elem_root(c->elems.open.at[i]);
    if (is_undetermined(e))
      default_global(c, e);
  }
  c->elems.open.len = open;
  for (uint32_t i = sites; i < c->elems.sites.len; i++)
    global_elem_finish(c, c->elems.sites.at[i]);
  c->elems.sites.len = sites;
}

void global_elems_collect(Checker *c, const Bindings *bound) {
  uint32_t before = c->elems.open.len;
  for (uint32_t i = 0; i < bound->len && !c->names.module->library; i++) {
    OpenElems open = {c, bound->at[i]};
    TypeVisitor visit = {.elem = note_open, .arg = &open, .c = c};
    ty_visit(&visit, bound->at[i]->scheme->type);
  }
  if (c->elems.is_text)
    return;
  default_elems(c, before, c->elems.sites.len);
  c->elems.changes.len = 0;
}

void checker_abort_text(Checker *c) {
  c->elems.is_text = false;
  c->elems.open.len = c->elems.sites.len = c->elems.changes.len = 0;
}

TextStart checker_begin_text(Checker *c) {
  if (!c->elems.is_text)
    c->elems.changes.len = 0;
  TextStart start = global_elems_mark(c);
  c->elems.is_text = true;
  return start;
}

void checker_default_elems(Checker *c, TextStart start) {
  default_elems(c, start.open, start.sites);
  c->elems.is_text = start.is_text;
}
