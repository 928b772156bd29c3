/* Entry points of the parser: parse_program (a file), parse_range (a part of
   one), parse_type (a type). */
#include "parser/internal.h"
#include "parser/parse.h"
#include "support/diag.h"
#include "support/source.h"

void parse_begin(ParseState *ps, Sources *sources, uint32_t file,
                 Interner *interner, Arena *arena, Diags *diags) {
  *ps = (ParseState){.arena = arena,
                     .interner = interner,
                     .diags = diags,
                     .sources = sources,
                     .file = file};
}

void parse_run(ParseState *ps, uint32_t start, uint32_t end, int start_token) {
  lexer_init(&ps->lexer, ps->sources, ps->file, start, end, ps->interner,
             ps->arena, ps->diags);
  ps->start_token = start_token;
  tokens_init(ps);
  grammar_parse(ps);
}

bool parse_failed(const ParseState *ps) {
  return ps->error_count + ps->lexer.error_count > 0;
}

bool parse_incomplete(const ParseState *ps) {
  return parse_failed(ps) && ps->error_count == ps->incomplete_errors &&
         ps->lexer.error_count == ps->lexer.incomplete_errors;
}

static Program program_of(const ParseState *ps) {
  return (Program){ps->decs.at, ps->decs.len, parse_incomplete(ps),
                   ps->type_missing};
}

/* Forgets the program if most of it may be no program. */
static void stop_after_many_errors(ParseState *ps) {
  uint32_t end = ps->lexer.end;
  if (ps->error_count <= PARSE_MAX_ERRORS &&
      ps->lexer.error_count <= LEXER_MAX_ERRORS)
    return;
  Diag *d = diag_error(ps->diags, 119, (Span){ps->file, end, end},
                       "too many syntax errors; the others are not shown");
  d->help = "correct the first ones, or check that this is an Axon program";
  ps->decs.len = 0;
}

Program parse_program(Sources *sources, uint32_t file, bool allow_bare_expr,
                      Interner *interner, Arena *arena, Diags *diags) {
  ParseState ps;
  parse_begin(&ps, sources, file, interner, arena, diags);
  ps.allow_bare_expr = allow_bare_expr;
  parse_run(&ps, 0, (uint32_t)sources_get(sources, file)->len,
            TOK_START_PROGRAM);
  stop_after_many_errors(&ps);
  return program_of(&ps);
}

Program parse_range(Sources *sources, uint32_t file, uint32_t start,
                    uint32_t end, Interner *interner, Arena *arena,
                    Diags *diags) {
  ParseState ps;
  parse_begin(&ps, sources, file, interner, arena, diags);
  parse_run(&ps, start, end, TOK_START_PROGRAM);
  return program_of(&ps);
}

TypeExpr *parse_type(Sources *sources, uint32_t file, uint32_t start,
                     Givens *given, Interner *interner, Arena *arena,
                     Diags *diags) {
  ParseState ps;
  parse_begin(&ps, sources, file, interner, arena, diags);
  parse_run(&ps, start, (uint32_t)sources_get(sources, file)->len,
            TOK_START_TYPE);
  if (given)
    *given = ps.given;
  return parse_failed(&ps) ? NULL : ps.type;
}
