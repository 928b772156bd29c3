/* What was inferred and is not written: types of names and parameters, shapes
 * along pipelines.  Each comes with what would write it. */
#include "session/internal.h"

#include <string.h>

/* What writes a hint is checked along with all that uses it: that would take
 * seconds for all of a text, and who asks so wants no list of hundreds. */
enum { TRIED_MOST = 8 };

typedef struct Hints {
  Session *s;
  const Dec *dec;   /* of top level, at hand */
  const Map *apart; /* names of values there */
  uint32_t number, next; /* of it, and of the first place behind it */
  VEC(Dec *) users;      /* those that use it, once that is asked for */
  bool users_known;
  bool write;       /* what writes them is asked for, */
  uint32_t tried;   /* and was looked for so often */
  void (*f)(void *, const Hint *);
  void *arg;
  uint32_t start, end; /* of the text that is asked about */
  Map names; /* end of a place (and 1 more) -> Place */
} Hints;

static void expr_hints(void *arg, Expr *e);

/* ---- finding types ---- */

static const void *key(uint32_t offset) {
  return (const void *)(uintptr_t)((size_t)offset + 1);
}

/* Of those that end at one offset, the widest, and of these the last. */
static void index_names(Hints *h) {
  uint32_t count;
  const Place *all = all_places(h->s, &count);
  map_init(&h->names, h->s->arena);
  for (uint32_t i = 0; i < count; i++) {
    const Place *p = &all[i];
    if (p->span.file != h->s->file || p->kind != PLACE_VALUE || !p->bound)
      continue;
    const Place *old = map_get(&h->names, key(p->span.end));
    if (!old || p->span.start <= old->span.start)
      map_put(&h->names, key(p->span.end), (void *)p);
  }
}

/* ---- what writes it ---- */

static bool inside(Span inner, Span outer) {
  return inner.start >= outer.start && inner.end <= outer.end;
}

/* Places stand in the order of checking, those of imports between them. */
static bool belongs(const Hints *h, const Place *p, const Dec *dec) {
  return p->span.file != h->s->file || inside(p->span, dec->span);
}

static bool defines(const Hints *h, Span name) {
  bool found = inside(name, h->dec->span);
  for (uint32_t i = 0; i < h->users.len && !found; i++)
    found = inside(name, h->users.at[i]->span);
  return found;
}

/* The declarations behind the one at hand that use what it defines, or what
 * these define. */
static void find_users(Hints *h) {
  const Program *program = &h->s->program;
  uint32_t count;
  const Place *all = all_places(h->s, &count);
  h->users.len = 0;
  h->users_known = true;
  uint32_t at = h->next;
  for (uint32_t i = h->number + 1; i < program->dec_count; i++) {
    bool uses = false;
    for (; at < count && belongs(h, &all[at], program->decs[i]); at++)
      uses |= all[at].kind == PLACE_VALUE && !all[at].bound &&
              all[at].def.file == h->s->file && defines(h, all[at].def);
    if (uses)
      VEC_PUSH(h->s->arena, h->users, program->decs[i]);
  }
}

/* With the type written in it the declaration checks, and so do those that use
 * it.  Some of what is inferred no annotation can say. */
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
  if (program.dec_count != 1 || ignored.errors)
    return false;
  if (!h->users_known)
    find_users(h);
  Dec **decs = NEW_ARRAY(s->arena, Dec *, h->users.len + 1);
  decs[0] = program.decs[0];
  for (uint32_t i = 0; i < h->users.len; i++)
    decs[i + 1] = h->users.at[i];
  return checker_tries(s->checker, s->checked, decs, h->users.len + 1);
}

static void tell(Hints *h, Hint *hint, const Place *p, const char *before,
                 const char *between, const char *behind) {
  uint32_t from = hint->kind == HINT_STAGE ? hint->at : hint->before_at;
  if (hint->at < h->start || from > h->end)
    return;
  const char *type =
      h->write && h->tried < TRIED_MOST
          ? place_annotation(h->s->checker, p, h->apart)
          : NULL;
  if (type) {
    h->tried++;
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

static void stage_hint(Hints *h, const Expr *e, uint32_t chain) {
  Place p = place_of_expr(h->s->checked, h->dec, e);
  const char *type = place_is_tensor(h->s->checker, &p) ? hint_type(h, &p)
                                                       : NULL;
  if (!type)
    return;
  Hint hint = {.kind = HINT_STAGE, .at = p.span.end, .type = type,
               .before_at = chain, .behind_at = p.span.end};
  tell(h, &hint, &p, "(", " : ", ")");
}

static const Expr *chain_head(const Expr *e) {
  while (e->kind == EX_BIN && e->op == BIN_PIPE && !e->parens)
    e = e->arg[0];
  return e;
}

/* The first line, and each that is followed by one more or is the last. */
static void pipe_hints(Hints *h, const Expr *e, const Expr *head) {
  Expr *left = e->arg[0], *right = e->arg[1];
  bool chain = left != head;
  bool broken = line_between(h, left->span.end, right->span.start);
  if (chain)
    pipe_hints(h, left, head);
  else
    expr_hints(h, left);
  if (!chain && broken)
    stage_hint(h, left, head->span.start);
  if (broken && e->call)
    stage_hint(h, e->call, head->span.start);
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

static void expr_hints(void *arg, Expr *e) {
  Hints *h = arg;
  if (e->kind == EX_BIN && e->op == BIN_PIPE) {
    pipe_hints(h, e, chain_head(e->arg[0]));
  } else if (e->kind == EX_FN) {
    for (uint32_t i = 0; i < e->clause_count; i++)
      clause_hints(h, &e->clauses[i]);
  } else if (e->kind == EX_LET) {
    for (uint32_t i = 0; i < e->dec_count; i++)
      dec_hints(h, e->decs[i]);
    for (uint32_t i = 0; i < e->item_count; i++)
      expr_hints(h, e->items[i]);
  } else {
    expr_each_part(e, expr_hints, h);
  }
}

static SessionStatus hints(Session *s, void *arg) {
  Hints *h = arg;
  uint32_t count, at = 0;
  const Place *all = all_places(s, &count);
  index_names(h);
  for (uint32_t i = 0; i < s->program.dec_count; i++) {
    uint32_t from = at;
    h->dec = s->program.decs[i];
    while (at < count && belongs(h, &all[at], h->dec))
      at++;
    h->number = i;
    h->next = at;
    h->users_known = false;
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
