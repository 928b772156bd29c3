/* What was inferred and is not written: types of names and parameters, shapes
 * along pipelines.  Each comes with what would write it. */
#include "session/internal.h"

#include <string.h>

typedef struct Hints {
  Session *s;
  const Dec *dec;   /* of top level, at hand */
  const Map *apart; /* names of values there */
  bool write;       /* what writes them is asked for */
  void (*f)(void *, const Hint *);
  void *arg;
  uint32_t start, end; /* of the text that is asked about */
  Map names, stages, exprs; /* end of a place (and 1 more) -> Place */
} Hints;

static void expr_hints(Hints *h, const Expr *e);

/* ---- finding types ---- */

static const void *key(uint32_t offset) {
  return (const void *)(uintptr_t)((size_t)offset + 1);
}

/* Of those that end at one offset, the widest, and of these the last. */
static void note(Map *map, const Place *p) {
  const Place *old = map_get(map, key(p->span.end));
  if (!old || p->span.start <= old->span.start)
    map_put(map, key(p->span.end), (void *)p);
}

static void index_places(Hints *h) {
  uint32_t count;
  const Place *all = all_places(h->s, &count);
  map_init(&h->names, h->s->arena);
  map_init(&h->stages, h->s->arena);
  map_init(&h->exprs, h->s->arena);
  for (uint32_t i = 0; i < count; i++) {
    const Place *p = &all[i];
    if (p->span.file != h->s->file)
      continue;
    if (p->kind == PLACE_VALUE && p->bound)
      note(&h->names, p);
    else if (p->kind == PLACE_STAGE)
      note(&h->stages, p);
    else if (p->kind == PLACE_EXPR)
      note(&h->exprs, p);
  }
}

/* ---- what writes it ---- */

/* The declaration with a type written in it still checks.  Some of what is
 * inferred no annotation can say. */
static bool checks(Hints *h, const Hint *hint) {
  Session *s = h->s;
  const char *text = sources_get(&s->sources, s->file)->text;
  Span dec = h->dec->span;
  Buffer new = {.arena = s->arena};
  buffer_add(&new, text + dec.start, hint->before_at - dec.start);
  buffer_puts(&new, hint->before);
  buffer_add(&new, text + hint->before_at, hint->behind_at - hint->before_at);
  buffer_puts(&new, hint->behind);
  buffer_add(&new, text + hint->behind_at, dec.end - hint->behind_at);
  Diags ignored;
  diags_init(&ignored, s->arena);
  uint32_t file = sources_add(&s->sources, "input", new.text, new.len, false);
  Program program = parse_range(&s->sources, file, 0, (uint32_t)new.len,
                                s->interner, s->arena, &ignored);
  return program.dec_count == 1 && !ignored.errors &&
         checker_tries(s->checker, s->checked, program.decs[0]);
}

static void tell(Hints *h, Hint *hint, const Place *p, const char *before,
                 const char *between, const char *behind) {
  if (hint->at < h->start || hint->before_at > h->end)
    return;
  const char *type =
      h->write ? place_annotation(h->s->checker, p, h->apart) : NULL;
  if (type) {
    hint->before = before;
    hint->behind = arena_printf(h->s->arena, "%s%s%s", between, type, behind);
    if (!checks(h, hint))
      hint->before = hint->behind = NULL;
  }
  h->f(h->arg, hint);
}

static const char *hint_type(Hints *h, const Place *p) {
  return p ? session_place_type(h->s, p) : NULL;
}

/* ---- names ---- */

static uint32_t name_end(const Pat *p) {
  return p->id_span.file ? p->id_span.end : p->span.end;
}

static void name_hint(Hints *h, const Pat *p, bool parens) {
  if (p->kind != PAT_VAR)
    return;
  uint32_t end = name_end(p);
  const Place *place = map_get(&h->names, key(end));
  const char *type = hint_type(h, place);
  if (!type)
    return;
  Hint hint = {.kind = HINT_TYPE, .at = end, .type = type,
               .before_at = place->span.start, .behind_at = end};
  tell(h, &hint, place, parens ? "(" : "", " : ", parens ? ")" : "");
}

/* Parts of a pattern: each name alone. */
static void pat_hints(Hints *h, const Pat *p, bool parens) {
  if (p->kind == PAT_ASCRIBE)
    return;
  if (p->kind == PAT_VAR)
    name_hint(h, p, parens);
  for (uint32_t i = 0; i < p->arg_count && p->kind != PAT_SHAPE; i++)
    pat_hints(h, p->args[i], true);
}

/* ~x is a name and a label at once: `~x:(x : t)` says its type. */
static void pun_hint(Hints *h, const Param *p) {
  Pat name = *p->pat;
  name.span.start++;
  name.id_span = (Span){0};
  name.span.end = name.span.start + name.id->len;
  const Place *place = map_get(&h->names, key(name.span.end));
  const char *type = hint_type(h, place);
  if (!type)
    return;
  Hint hint = {.kind = HINT_TYPE, .at = name.span.end, .type = type,
               .before_at = name.span.start, .behind_at = name.span.end};
  tell(h, &hint, place, "",
       arena_printf(h->s->arena, ":(%s : ", name.id->text), ")");
}

static void param_hints(Hints *h, const Param *p) {
  bool pun = p->label && p->pat->kind == PAT_VAR &&
             p->pat->span.start == p->span.start;
  if (pun)
    pun_hint(h, p);
  else if (!p->type)
    pat_hints(h, p->pat, !p->preset);
  if (p->preset)
    expr_hints(h, p->preset);
}

/* ---- pipelines ---- */

static bool line_between(const Hints *h, uint32_t from, uint32_t to) {
  const char *text = sources_get(&h->s->sources, h->s->file)->text;
  return memchr(text + from, '\n', to - from) != NULL;
}

static void stage_hint(Hints *h, const Place *p, uint32_t chain) {
  const char *type = p && place_is_tensor(h->s->checker, p) ? hint_type(h, p)
                                                           : NULL;
  if (!type)
    return;
  Hint hint = {.kind = HINT_STAGE, .at = p->span.end, .type = type,
               .before_at = chain, .behind_at = p->span.end};
  tell(h, &hint, p, "(", " : ", ")");
}

static const Expr *chain_head(const Expr *e) {
  while (e->kind == EX_BIN && e->op == BIN_PIPE && !e->parens)
    e = e->arg[0];
  return e;
}

/* The first line, and each that is followed by one more or is the last. */
static void pipe_hints(Hints *h, const Expr *e, const Expr *head) {
  const Expr *left = e->arg[0], *right = e->arg[1];
  bool chain = left != head;
  bool broken = line_between(h, left->span.end, right->span.start);
  if (chain)
    pipe_hints(h, left, head);
  else
    expr_hints(h, left);
  if (!chain && broken)
    stage_hint(h, map_get(&h->exprs, key(left->span.end)), head->span.start);
  if (broken)
    stage_hint(h, map_get(&h->stages, key(right->span.end)),
               head->span.start);
  expr_hints(h, right);
}

/* ---- the tree ---- */

static void clause_hints(Hints *h, const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    param_hints(h, &k->params[i]);
  expr_hints(h, k->body);
}

static void dec_hints(Hints *h, const Dec *dec) {
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

static void expr_hints(Hints *h, const Expr *e) {
  if (!e)
    return;
  if (e->kind == EX_BIN && e->op == BIN_PIPE) {
    pipe_hints(h, e, chain_head(e->arg[0]));
    return;
  }
  for (size_t i = 0; i < ARRAY_LEN(e->arg); i++)
    expr_hints(h, e->arg[i]);
  for (uint32_t i = 0; i < e->item_count; i++)
    expr_hints(h, e->items[i]);
  for (uint32_t i = 0; i < e->arg_count; i++)
    expr_hints(h, e->args[i].expr);
  for (uint32_t i = 0; i < e->field_count; i++)
    expr_hints(h, e->fields[i].expr);
  for (uint32_t i = 0; i < e->dec_count; i++)
    dec_hints(h, e->decs[i]);
  for (uint32_t i = 0; i < e->slice_count; i++) {
    expr_hints(h, e->slices[i].from);
    expr_hints(h, e->slices[i].to);
  }
  for (uint32_t i = 0; i < e->clause_count; i++)
    if (e->kind == EX_FN)
      clause_hints(h, &e->clauses[i]);
    else
      expr_hints(h, e->clauses[i].body);
}

static bool inside(Span inner, Span outer) {
  return inner.start >= outer.start && inner.end <= outer.end;
}

static SessionStatus hints(Session *s, void *arg) {
  Hints *h = arg;
  uint32_t count, at = 0;
  const Place *all = all_places(s, &count);
  index_places(h);
  for (uint32_t i = 0; i < s->program.dec_count; i++) {
    uint32_t from = at;
    h->dec = s->program.decs[i];
    while (at < count && (all[at].span.file != s->file ||
                          inside(all[at].span, h->dec->span)))
      at++;
    if (h->start > h->dec->span.end || h->end < h->dec->span.start)
      continue;
    if (h->write)
      h->apart = places_names(s->checker, s->checked, all + from, at - from);
    dec_hints(h, h->dec);
  }
  return SESSION_OK;
}

void session_each_hint(Session *s, uint32_t start, uint32_t end, bool write,
                       void (*f)(void *, const Hint *), void *arg) {
  Hints h = {.s = s, .start = start, .end = end, .write = write, .f = f,
             .arg = arg};
  session_guard(s, hints, &h);
}
