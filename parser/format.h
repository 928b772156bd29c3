/* Formatter, internal: converts trees to documents.  It walks the tree in text
   order.  Each node first takes the comments before it, and finally those that
   remain within its span, so none is lost. */
#ifndef AXON_PARSER_FORMAT_H
#define AXON_PARSER_FORMAT_H

#include "parser/internal.h"
#include "parser/pretty.h"
#include "support/compiler.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;
typedef struct Source Source;
typedef struct Sym Sym;

enum { FORMAT_WIDTH = 80 };

typedef struct Formatter {
  Arena *arena;
  const Source *source;
  const char *text; /* text of the source */
  CommentVec comments;
  uint32_t next_comment; /* first comment that is not yet placed */
} Formatter;

typedef VEC(Doc *) DocVec;

typedef struct ListItem { /* item of a list */
  Doc *doc;
  Doc *trailing; /* comments at the end of its line, after the comma */
} ListItem;

typedef VEC(ListItem) ItemVec;

#define DOC_CONCAT(f, ...)                         \
  doc_cat((f)->arena, (Doc *const[]){__VA_ARGS__}, \
          (uint32_t)ARRAY_LEN(((Doc *const[]){__VA_ARGS__})))
#define LINE(f) doc_line((f)->arena)
#define NEST(f, n, doc) doc_nest((f)->arena, (n), (doc))
#define ALIGN(f, doc) doc_align((f)->arena, (doc))
#define GROUP(f, doc) doc_group((f)->arena, (doc))
#define ADD_DOC(f, vec, doc) VEC_PUSH((f)->arena, (vec), (doc))
#define ADD_ITEM(f, vec, ...) \
  VEC_PUSH((f)->arena, (vec), ((ListItem){__VA_ARGS__}))
#define CONCAT_ALL(f, vec) doc_cat((f)->arena, (vec).at, (vec).len)

/* ---- format.c ---- */

Doc *fmt_text(Formatter *f, const char *text);
Doc *fmt_sym(Formatter *f, const Sym *sym);
Doc *fmt_name(Formatter *f, const Name *name);
/* Comments before an offset, formatted to precede what is there. */
Doc *fmt_leading_comments(Formatter *f, uint32_t offset);
/* Comments before an offset, formatted to follow what was printed. */
Doc *fmt_trailing_comments(Formatter *f, uint32_t offset);
/* Comments before `limit` that end the line of offset `end`. */
Doc *fmt_line_end_comments(Formatter *f, uint32_t end, uint32_t limit);
/* The offset of a character outside of comments, in [from, stop). */
uint32_t fmt_find_char(const Formatter *f, char c, uint32_t from,
                       uint32_t stop);
bool fmt_has_comment_before(const Formatter *f, uint32_t offset);
/* A break and "| " before the next rule, with the rule's comments. */
Doc *fmt_rule_separator(Formatter *f, uint32_t indent, uint32_t from,
                        uint32_t to);
/* A node's document with comments on both sides.  Adds parentheses if `parens`,
   or if the source had them and comments precede the closing one. */
Doc *fmt_with_comments(Formatter *f, Doc *leading, Doc *body, Span span,
                       bool had_parens, bool parens);
bool fmt_newline_between(const Formatter *f, uint32_t from, uint32_t to);
typedef enum ListStyle {
  LIST_GROUP,  /* on one line, or one item per line */
  LIST_FILL,   /* as many items per line as fit */
  LIST_BROKEN, /* one item per line */
} ListStyle;
/* "open item, item close". */
Doc *fmt_list(Formatter *f, const char *open, const ItemVec *items,
              const char *close, uint32_t end, ListStyle style);
Doc *fmt_decs(Formatter *f, Dec *const *decs, uint32_t count, uint32_t end);

/* ---- format_type.c ---- */

Doc *fmt_type(Formatter *f, const TypeExpr *type);
Doc *fmt_axes(Formatter *f, const char *open, const Axes *axes,
              const char *close, uint32_t end);
Doc *fmt_given(Formatter *f, const Givens *facts); /* begins with a break */
Doc *fmt_pat(Formatter *f, const Pat *pat);
Doc *fmt_pat_atom(Formatter *f, const Pat *pat);

/* ---- format_expr.c ---- */

Doc *fmt_expr(Formatter *f, const Expr *expr);
Doc *fmt_param(Formatter *f, const Param *param);
/* The body of a clause.  If other clauses follow, its own rules must not
   capture theirs. */
Doc *fmt_clause_body(Formatter *f, const Expr *expr, bool more_follow);

#endif
