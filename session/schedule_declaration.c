/* Schedules that a program declares.
 *
 *     schedule softmax =
 *       kernel exp (x - m)
 *         tasks i0; width 8
 *         1: tile i1 8 peel; lanes i1
 *
 * The name is that of a function or a value, and the text after `kernel` is an
 * expression in it, or the name of a local value.  The kernel that stores this
 * value has the schedule.  Without `kernel`, it is the kernel of the result.
 * `store` and such an expression: the value is stored.  `cut`: the same, and
 * other kernels read it.  The backends read the schedules themselves
 * (plan/schedule_file.h). */
#include "session/internal.h"

#include "eval/eval.h"
#include "parser/parser.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"
#include "tensor/tensor.h"

#include <ctype.h>
#include <string.h>

static const struct {
  const char *word;
  ScheduleEntryKind kind;
} words[] = {{"kernel", SCHEDULE_DECLARED},
             {"store", SCHEDULE_STORE},
             {"cut", SCHEDULE_CUT}};

typedef struct ScheduleReader {
  Session *session;
  const Dec *schedule, *target;
  const char *name; /* of the target */
  char *text;       /* comments are blanks */
} ScheduleReader;

static void fail(const ScheduleReader *r, const char *at, const char *message,
                 const char *help) {
  uint32_t start = r->schedule->text_span.start + (uint32_t)(at - r->text);
  Span span = {r->schedule->span.file, start,
               start + (uint32_t)strcspn(at, "\n")};
  Diag *diag = session_error(r->session, 523, span, "%s", message);
  diag->help = help;
}

/* ---- the declaration with the name ---- */

static bool dec_has_name(const Dec *dec, const Sym *name) {
  if (dec->kind == DEC_VAL)
    return dec->pat->kind == PAT_VAR && dec->pat->id == name;
  for (uint32_t j = 0; dec->kind == DEC_FUN && j < dec->fun_count; j++)
    if (dec->funs[j].name == name)
      return true;
  return false;
}

/* The last declaration of the name, here or in earlier inputs. */
static const Dec *find_dec(Session *s, const Program *program, Sym *name) {
  for (uint32_t j = program->dec_count; j-- > 0;)
    if (dec_has_name(program->decs[j], name))
      return program->decs[j];
  for (uint32_t j = s->main_decs.len; j-- > 0;)
    if (dec_has_name(s->main_decs.at[j], name))
      return s->main_decs.at[j];
  return NULL;
}

/* ---- the expression of a kernel ---- */

typedef struct TargetSearch {
  const char *source; /* the whole file */
  const char *text;   /* of the expression, without blanks */
  Expr *found;
  uint32_t count;
} TargetSearch;

/* True if a part of the source is the text, but for blanks. */
static bool is_same_text(const char *source, Span span, const char *text) {
  for (uint32_t j = span.start; j < span.end; j++)
    if (!isspace((unsigned char)source[j]) && source[j] != *text++)
      return false;
  return !*text;
}

/* The same without parentheses around the part. */
static bool is_same_expression(const char *source, Span span,
                               const char *text) {
  bool is_same = is_same_text(source, span, text);
  while (!is_same && span.end - span.start > 2 && source[span.start] == '(' &&
         source[span.end - 1] == ')') {
    span.start++;
    span.end--;
    is_same = is_same_text(source, span, text);
  }
  return is_same;
}

static void search(void *arg, Expr *e) {
  TargetSearch *s = arg;
  Expr *found = NULL;
  for (uint32_t j = 0; e->kind == EX_LET && j < e->dec_count; j++) {
    const Dec *d = e->decs[j];
    if (d->kind == DEC_VAL && d->pat->kind == PAT_VAR &&
        strcmp(d->pat->id->text, s->text) == 0)
      found = d->expr;
  }
  if (e->kind != EX_ID && is_same_expression(s->source, e->span, s->text))
    found = e;
  if (found) {
    s->found = found;
    s->count++;
  }
  if (found != e)
    expr_visit_children(e, search, s);
}

static const char *without_blanks(Arena *arena, const char *text, size_t len) {
  char *copy = arena_strndup(arena, text, len), *to = copy;
  for (const char *p = copy; *p; p++)
    if (!isspace((unsigned char)*p))
      *to++ = *p;
  *to = 0;
  return copy;
}

static Expr *find_expression(const ScheduleReader *r, const char *at,
                             size_t len) {
  Session *s = r->session;
  TargetSearch found = {
      .source = sources_get(&s->sources, r->target->span.file)->text,
      .text = without_blanks(s->arena, at, len)};
  dec_visit_exprs(r->target, search, &found);
  if (found.count == 1)
    return found.found;
  fail(r, at,
       arena_printf(s->arena,
                    found.count ? "`%s` computes `%.*s` %u times"
                                : "`%s` does not compute `%.*s`",
                    r->name, (int)len, at, found.count),
       found.count ? "give it a name with `val`, and write this name"
                   : "write an expression as it is in the declaration, or the "
                     "name of a local value");
  return NULL;
}

/* The expression whose value is the result; NULL: there are several. */
static Expr *result_of(Expr *e) {
  while (e)
    if (e->kind == EX_ASCRIBE)
      e = e->arg[0];
    else if ((e->kind == EX_LET || e->kind == EX_SEQ) && e->item_count)
      e = e->items[e->item_count - 1];
    else if (e->kind == EX_FN)
      e = e->clause_count == 1 ? e->clauses[0].body : NULL;
    else
      break;
  return e;
}

static Expr *find_result(const ScheduleReader *r, const char *at) {
  Expr *e = r->target->expr;
  for (uint32_t j = 0; j < r->target->fun_count; j++) {
    const FunDef *f = &r->target->funs[j];
    if (f->name == r->schedule->name)
      e = f->clause_count == 1 ? f->clauses[0].body : NULL;
  }
  e = result_of(e);
  if (!e)
    fail(r, at,
         arena_printf(r->session->arena,
                      "`%s` has several results: which one has this schedule?",
                      r->name),
         "write `kernel` and an expression before it");
  return e;
}

/* ---- entries ---- */

/* Removes ` on sm_90a` from the end of the first line of an entry. */
static size_t take_arch(const char *line, size_t len, ScheduleEntry *e) {
  size_t word = len, on;
  while (word && !isspace((unsigned char)line[word - 1]))
    word--;
  on = word;
  while (on && isspace((unsigned char)line[on - 1]))
    on--;
  bool is_arch = strncmp(line + word, "sm_", 3) == 0 ||
                 (len - word == 4 && memcmp(line + word, "cuda", 4) == 0);
  if (!is_arch || len - word >= sizeof e->arch || on < 3 ||
      memcmp(line + on - 2, "on", 2) != 0 ||
      !isspace((unsigned char)line[on - 3]))
    return len;
  memcpy(e->arch, line + word, len - word);
  if (line[word] == 'c')
    memcpy(e->arch, "*", sizeof "*");
  on -= 2;
  while (on && isspace((unsigned char)line[on - 1]))
    on--;
  return on;
}

static bool declare(const ScheduleReader *r, const char *text, Expr *of,
                    ScheduleEntry *e) {
  Session *s = r->session;
  if (!of)
    return false;
  const Source *source = sources_get(&s->sources, r->schedule->span.file);
  while (of->kind == EX_BIN && of->op == BIN_PIPE)
    of = of->arg[1]; /* nodes have the place of the function */
  e->span = of->span;
  e->text = text;
  e->path = source->name;
  e->text_span = r->schedule->text_span;
  e->text_span.start += (uint32_t)(text - r->text);
  source_line_and_column(source, e->text_span.start, &e->line, &e->column);
  schedule_declare(eval_graph(s->eval), s->arena, e);
  return true;
}

/* The length of the word that begins an entry, or 0. */
static size_t entry_word(const char *at, ScheduleEntryKind *kind) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++) {
    size_t len = strlen(words[j].word);
    if (strncmp(at, words[j].word, len) == 0 &&
        isspace((unsigned char)at[len])) {
      *kind = words[j].kind;
      return len;
    }
  }
  return 0;
}

/* Reads an entry: its first line has one of the words, or it is the text before
 * all such lines. */
static bool read_entry(const ScheduleReader *r, const char *at) {
  ScheduleEntry *e = NEW(r->session->arena, ScheduleEntry);
  const char *blank = at + strspn(at, " \t\r\n");
  e->kind = SCHEDULE_DECLARED;
  size_t word = entry_word(blank, &e->kind);
  if (!word)
    return declare(r, at, find_result(r, blank), e);
  const char *line = blank + word + strspn(blank + word, " \t");
  size_t len = strcspn(line, "\r\n"), all = len;
  while (len && isspace((unsigned char)line[len - 1]))
    len--;
  bool has_steps = e->kind == SCHEDULE_DECLARED;
  if (has_steps)
    len = take_arch(line, len, e);
  const char *rest = line + all + strspn(line + all, " \t\r\n");
  if (!has_steps && *rest) {
    fail(r, rest, "no steps follow `store` and `cut`",
         "write `kernel` and the expression in the line before the steps");
    return false;
  }
  return declare(r, has_steps ? line + all : line,
                 find_expression(r, line, len), e);
}

/* The next line that begins with such a word, or the end. */
static char *next_entry(char *at) {
  ScheduleEntryKind ignored;
  for (; *at; at++)
    if (at[-1] == '\n' && entry_word(at + strspn(at, " \t"), &ignored))
      return at;
  return at;
}

bool schedule_declaration_read(Session *s, const Program *program,
                               const Dec *dec) {
  ScheduleReader r = {
      .session = s,
      .schedule = dec,
      .name = dec->name->text,
      .target = find_dec(s, program, dec->name),
      .text = arena_strndup(s->arena, dec->text, strlen(dec->text))};
  size_t open = schedule_blank_comments(r.text);
  if (!r.target) {
    Diag *diag = session_error(s, 523, dec->name_span,
                               "no function or value of this file is named "
                               "`%s`",
                               r.name);
    diag->help = "a schedule has the name of the declaration that it is for";
    return false;
  }
  if (open != SIZE_MAX) {
    fail(&r, r.text + open, "this comment has no end", "write *)");
    return false;
  }
  char *at = r.text;
  if (!at[strspn(at, " \t\r\n")]) {
    fail(&r, at, "this schedule is empty",
         "`axon plan --schedule` prints schedules");
    return false;
  }
  bool good = true;
  for (char *next; *at; at = next) {
    next = next_entry(at + 1);
    if (*next)
      next[-1] = 0; /* the end of the line before */
    good &= !at[strspn(at, " \t\r\n")] || read_entry(&r, at);
  }
  return good;
}

void session_put_unused_schedules(Session *s, Buffer *out) {
  schedule_put_unused(eval_graph(s->eval), out);
}

void session_check_schedules(Session *s) {
  Fault fault = {0};
  Span where = {0};
  if (!schedule_check(eval_graph(s->eval), &where, &fault))
    session_error(s, 523, where, "%s", fault.message);
}
