/* parser, inside: trees to documents.  The tree is walked in the order of the
 * text; each node first takes the comments that stand before it, and last those
 * left within its span, so that none is lost. */
#ifndef AXON_PARSER_FORMAT_H
#define AXON_PARSER_FORMAT_H

#include "parser/internal.h"
#include "parser/pretty.h"

enum { FORMAT_WIDTH = 80 };

typedef struct Formatter {
  Arena *arena;
  const Source *source;
  const char *text; /* the source's */
  CommentVec comments;
  uint32_t next_comment; /* the first comment not yet placed */
} Formatter;

typedef VEC(Doc *) DocVec;

typedef struct ListItem { /* of a list */
  Doc *doc;
  Doc *trailing; /* comments that end its line, after the comma */
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
/* Comments before an offset, as they stand in front of what is there. */
Doc *fmt_leading_comments(Formatter *f, uint32_t offset);
/* Comments before an offset, as they stand behind what was printed. */
Doc *fmt_trailing_comments(Formatter *f, uint32_t offset);
/* Comments before `limit` that end the line on which `end` is. */
Doc *fmt_line_end_comments(Formatter *f, uint32_t end, uint32_t limit);
/* The offset of a character that is in no comment, in [from, stop). */
uint32_t fmt_find_char(const Formatter *f, char c, uint32_t from,
                       uint32_t stop);
bool fmt_has_comment_before(const Formatter *f, uint32_t offset);
/* A break and "| " before the next of several rules; their comments stay. */
Doc *fmt_rule_separator(Formatter *f, uint32_t indent, uint32_t from,
                        uint32_t to);
/* A node's document with comments on both sides; in parentheses if `parens`,
 * or if the source had them and comments stand before the closing one. */
Doc *fmt_with_comments(Formatter *f, Doc *leading, Doc *body, Span span,
                       bool had_parens, bool parens);
bool fmt_newline_between(const Formatter *f, uint32_t from, uint32_t to);
typedef enum ListStyle {
  LIST_GROUP,  /* on one line, or one item a line */
  LIST_FILL,   /* as many items a line as fit */
  LIST_BROKEN, /* one item a line */
} ListStyle;
/* "open item, item close". */
Doc *fmt_list(Formatter *f, const char *open, const ItemVec *items,
              const char *close, uint32_t end, ListStyle style);
Doc *fmt_decs(Formatter *f, Dec *const *decs, uint32_t count, uint32_t end);

/* ---- format_type.c ---- */

Doc *fmt_type(Formatter *f, const TypeExpr *type);
Doc *fmt_axes(Formatter *f, const char *open, const Axes *axes,
              const char *close, uint32_t end);
Doc *fmt_given(Formatter *f, const Givens *facts); /* with a break before */
Doc *fmt_pat(Formatter *f, const Pat *pat);
Doc *fmt_pat_atom(Formatter *f, const Pat *pat);

/* ---- format_expr.c ---- */

Doc *fmt_expr(Formatter *f, const Expr *expr);
Doc *fmt_param(Formatter *f, const Param *param);
/* The body of a clause that others follow: its rules must not take theirs. */
Doc *fmt_clause_body(Formatter *f, const Expr *expr, bool more_follow);

#endif
