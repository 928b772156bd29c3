/* Inlay hints: inferred types of names and parameters, and shapes along
   pipelines.  Each can have edits that write it.  Main entry point:
   editor_each_inlay_hint. */
#include "editor/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

/* Maximum number of hints with edits.  Each is verified by checking the
   declaration and its users, which would take seconds for a whole text. */
enum { MAX_CHECKED_EDITS = 8 };

typedef struct HintCollector {
  Session *s;
  const Dec *dec;           /* current global declaration */
  const Map *visible_names; /* names of values visible there */
  /* index of the declaration; first reference after it */
  uint32_t dec_index, next_ref;
  VEC(Dec *) users; /* declarations that use it, computed on demand */
  bool users_known;
  bool with_edits;        /* edits are requested */
  uint32_t checked_edits; /* number of verified edits so far */
  void (*f)(void *, const InlayHint *);
  void *arg;
  uint32_t start, end; /* requested part of the text */
  Map bound_names; /* maps the end of a reference (plus 1) to its SymbolRef */
} HintCollector;

static void expr_hints(void *arg, Expr *e);

/* ---- finding types ---- */

static const void *offset_key(uint32_t offset) {
  return (const void *)(uintptr_t)((size_t)offset + 1);
}

/* Of references that end at one offset, takes the widest; of equal ones, the
   last. */
static void index_bound_names(HintCollector *h) {
  uint32_t count;
  const SymbolRef *all = session_refs(h->s, &count);
  map_init(&h->bound_names, h->s->arena);
  for (uint32_t i = 0; i < count; i++) {
    const SymbolRef *p = &all[i];
    if (p->span.file != h->s->current_file || p->kind != REF_VALUE ||
        !p->is_definition)
      continue;
    const SymbolRef *old = map_get(&h->bound_names, offset_key(p->span.end));
    if (!old || p->span.start <= old->span.start)
      map_put(&h->bound_names, offset_key(p->span.end), (void *)p);
  }
}

/* ---- what writes it ---- */

static bool span_contains(Span inner, Span outer) {
  return inner.start >= outer.start && inner.end <= outer.end;
}

/* References are in the order of checking, with those of imports in between. */
static bool belongs(const HintCollector *h, const SymbolRef *p,
                    const Dec *dec) {
  return p->span.file != h->s->current_file ||
         span_contains(p->span, dec->span);
}

static bool defines(const HintCollector *h, Span name) {
  bool found = span_contains(name, h->dec->span);
  for (uint32_t i = 0; i < h->users.len && !found; i++)
    found = span_contains(name, h->users.at[i]->span);
  return found;
}

/* Finds later declarations that use what this one defines, directly or
   indirectly. */
static void find_users(HintCollector *h) {
  const Program *program = &h->s->current_program;
  uint32_t count;
  const SymbolRef *all = session_refs(h->s, &count);
  h->users.len = 0;
  h->users_known = true;
  uint32_t at = h->next_ref;
  for (uint32_t i = h->dec_index + 1; i < program->dec_count; i++) {
    bool uses = false;
    for (; at < count && belongs(h, &all[at], program->decs[i]); at++)
      uses |= all[at].kind == REF_VALUE && !all[at].is_definition &&
              all[at].definition.file == h->s->current_file &&
              defines(h, all[at].definition);
    if (uses)
      VEC_PUSH(h->s->arena, h->users, program->decs[i]);
  }
}

/* True if the declaration and its users check with the type inserted.  No
   annotation can express some inferred types. */
static bool edit_type_checks(HintCollector *h, const InlayHint *hint) {
  Session *s = h->s;
  const char *text = sources_get(&s->sources, s->current_file)->text;
  Span dec = h->dec->span;
  Buffer new = {.arena = s->arena};
  buffer_add(&new, text + dec.start, hint->edit_start - dec.start);
  buffer_puts(&new, hint->edit_prefix);
  buffer_add(&new, text + hint->edit_start, hint->edit_end - hint->edit_start);
  buffer_puts(&new, hint->edit_suffix);
  buffer_add(&new, text + hint->edit_end, dec.end - hint->edit_end);
  Diags ignored;
  diags_init(&ignored, s->arena);
  uint32_t file = sources_add(&s->sources, "input", new.text, new.len, false);
  Program program = parse_range(&s->sources, file, 0, (uint32_t) new.len,
                                s->interner, s->arena, &ignored);
  if (program.dec_count != 1 || ignored.errors)
    return false;
  if (!h->users_known)
    find_users(h);
  Dec **decs = NEW_ARRAY(s->arena, Dec *, h->users.len + 1);
  decs[0] = program.decs[0];
  for (uint32_t i = 0; i < h->users.len; i++)
    decs[i + 1] = h->users.at[i];
  return checker_try_decs(s->checker, s->current_module, decs, h->users.len + 1,
                          &ignored);
}

static void report_hint(HintCollector *h, InlayHint *hint, const SymbolRef *p,
                        const char *prefix, const char *between,
                        const char *suffix) {
  uint32_t from =
      hint->kind == INLAY_HINT_PIPELINE_STAGE ? hint->offset : hint->edit_start;
  if (hint->offset < h->start || from > h->end)
    return;
  const char *type = h->with_edits && h->checked_edits < MAX_CHECKED_EDITS
                         ? ref_annotation(h->s->checker, p, h->visible_names)
                         : NULL;
  if (type) {
    h->checked_edits++;
    hint->edit_prefix = prefix;
    hint->edit_suffix =
        arena_printf(h->s->arena, "%s%s%s", between, type, suffix);
    if (!edit_type_checks(h, hint))
      hint->edit_prefix = hint->edit_suffix = NULL;
  }
  h->f(h->arg, hint);
}

static const char *hint_type(HintCollector *h, const SymbolRef *p) {
  return p ? editor_ref_type(h->s, p) : NULL;
}

/* ---- names ---- */

static uint32_t name_end(const Pat *p) {
  return p->id_span.file ? p->id_span.end : p->span.end;
}

static void name_hint(HintCollector *h, const Pat *p, bool parens) {
  if (p->kind != PAT_VAR)
    return;
  uint32_t end = name_end(p);
  const SymbolRef *ref = map_get(&h->bound_names, offset_key(end));
  const char *type = hint_type(h, ref);
  if (!type)
    return;
  InlayHint hint = {.kind = INLAY_HINT_TYPE,
                    .offset = end,
                    .type = type,
                    .edit_start = ref->span.start,
                    .edit_end = end};
  report_hint(h, &hint, ref, parens ? "(" : "", " : ", parens ? ")" : "");
}

/* Hints for each variable of a pattern. */
static void pat_hints(HintCollector *h, const Pat *p, bool parens) {
  if (p->kind == PAT_ASCRIBE)
    return;
  if (p->kind == PAT_VAR)
    name_hint(h, p, parens);
  for (uint32_t i = 0; i < p->arg_count && p->kind != PAT_SHAPE; i++)
    pat_hints(h, p->args[i], true);
}

/* ~x is a name and a label; `~x:(x : t)` adds its type. */
static void label_pun_hint(HintCollector *h, const Param *p) {
  Pat name = *p->pat;
  name.span.start++;
  name.id_span = (Span){0};
  name.span.end = name.span.start + name.id->len;
  const SymbolRef *ref = map_get(&h->bound_names, offset_key(name.span.end));
  const char *type = hint_type(h, ref);
  if (!type)
    return;
  InlayHint hint = {.kind = INLAY_HINT_TYPE,
                    .offset = name.span.end,
                    .type = type,
                    .edit_start = name.span.start,
                    .edit_end = name.span.end};
  report_hint(h, &hint, ref, "",
              arena_printf(h->s->arena, ":(%s : ", name.id->text), ")");
}

static void param_hints(HintCollector *h, const Param *p) {
  bool is_pun = p->label && p->pat->kind == PAT_VAR &&
                p->pat->span.start == p->span.start;
  if (is_pun)
    label_pun_hint(h, p);
  else if (!p->type)
    pat_hints(h, p->pat, !p->default_value);
  if (p->default_value)
    expr_hints(h, p->default_value);
}

/* ---- pipelines ---- */

static bool line_between(const HintCollector *h, uint32_t from, uint32_t to) {
  const char *text = sources_get(&h->s->sources, h->s->current_file)->text;
  return memchr(text + from, '\n', to - from) != NULL;
}

static void pipeline_stage_hint(HintCollector *h, const Expr *e,
                                uint32_t chain) {
  SymbolRef p = ref_of_expr(h->s->current_module, h->dec, e);
  const char *type = ref_is_tensor(h->s->checker, &p) ? hint_type(h, &p) : NULL;
  if (!type)
    return;
  InlayHint hint = {.kind = INLAY_HINT_PIPELINE_STAGE,
                    .offset = p.span.end,
                    .type = type,
                    .edit_start = chain,
                    .edit_end = p.span.end};
  report_hint(h, &hint, &p, "(", " : ", ")");
}

static const Expr *pipeline_head(const Expr *e) {
  while (e->kind == EX_BIN && e->op == BIN_PIPE && !e->parenthesized)
    e = e->arg[0];
  return e;
}

/* Hints for the first line of a pipeline, and for each line that another
   follows or that is the last. */
static void pipeline_hints(HintCollector *h, const Expr *e, const Expr *head) {
  Expr *left = e->arg[0], *right = e->arg[1];
  bool chain = left != head;
  bool is_multiline = line_between(h, left->span.end, right->span.start);
  if (chain)
    pipeline_hints(h, left, head);
  else
    expr_hints(h, left);
  if (!chain && is_multiline)
    pipeline_stage_hint(h, left, head->span.start);
  if (is_multiline && e->desugared)
    pipeline_stage_hint(h, e->desugared, head->span.start);
  expr_hints(h, right);
}

/* ---- the tree ---- */

static void clause_hints(HintCollector *h, const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    param_hints(h, &k->params[i]);
  expr_hints(h, k->body);
}

static void dec_hints(HintCollector *h, const Dec *dec) {
  if (dec->kind == DEC_VAL) {
    if (!dec->type && dec->expr->kind != EX_FN)
      pat_hints(h, dec->pat, false);
    if (dec->expr)
      expr_hints(h, dec->expr);
  } else if (dec->kind == DEC_FUN) {
    for (uint32_t i = 0; i < dec->fun_count; i++)
      for (uint32_t k = 0; k < dec->funs[i].clause_count; k++)
        clause_hints(h, &dec->funs[i].clauses[k]);
  } else if (dec->expr) {
    expr_hints(h, dec->expr);
  }
}

static void expr_hints(void *arg, Expr *e) {
  HintCollector *h = arg;
  if (e->kind == EX_BIN && e->op == BIN_PIPE) {
    pipeline_hints(h, e, pipeline_head(e->arg[0]));
  } else if (e->kind == EX_FN) {
    for (uint32_t i = 0; i < e->clause_count; i++)
      clause_hints(h, &e->clauses[i]);
  } else if (e->kind == EX_LET) {
    for (uint32_t i = 0; i < e->dec_count; i++)
      dec_hints(h, e->decs[i]);
    for (uint32_t i = 0; i < e->item_count; i++)
      expr_hints(h, e->items[i]);
  } else {
    expr_visit_children(e, expr_hints, h);
  }
}

static SessionStatus collect_hints(Session *s, void *arg) {
  HintCollector *h = arg;
  uint32_t count, at = 0;
  const SymbolRef *all = session_refs(s, &count);
  index_bound_names(h);
  for (uint32_t i = 0; i < s->current_program.dec_count; i++) {
    uint32_t from = at;
    h->dec = s->current_program.decs[i];
    while (at < count && belongs(h, &all[at], h->dec))
      at++;
    h->dec_index = i;
    h->next_ref = at;
    h->users_known = false;
    if (h->start > h->dec->span.end || h->end < h->dec->span.start)
      continue;
    if (h->with_edits)
      h->visible_names = refs_visible_names(s->checker, s->current_module,
                                            all + from, at - from);
    dec_hints(h, h->dec);
  }
  return SESSION_OK;
}

void editor_each_inlay_hint(Session *s, uint32_t start, uint32_t end,
                            bool with_edits,
                            void (*f)(void *, const InlayHint *), void *arg) {
  HintCollector h = {.s = s,
                     .start = start,
                     .end = end,
                     .with_edits = with_edits,
                     .f = f,
                     .arg = arg};
  session_protected_call(s, collect_hints, &h);
}
