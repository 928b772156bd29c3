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
  uint32_t next; /* the first comment not yet placed */
} Formatter;

typedef VEC(Doc *) DocVec;

typedef struct Item { /* of a list */
  Doc *doc;
  Doc *behind; /* comments that end its line, after the comma */
} Item;

typedef VEC(Item) ItemVec;

#define CAT(f, ...)                                \
  doc_cat((f)->arena, (Doc *const[]){__VA_ARGS__}, \
          (uint32_t)ARRAY_LEN(((Doc *const[]){__VA_ARGS__})))
#define LINE(f) doc_line((f)->arena)
#define NEST(f, n, doc) doc_nest((f)->arena, (n), (doc))
#define ALIGN(f, doc) doc_align((f)->arena, (doc))
#define GROUP(f, doc) doc_group((f)->arena, (doc))
#define ADD(f, vec, doc) VEC_PUSH((f)->arena, (vec), (doc))
#define ITEM(f, vec, ...) VEC_PUSH((f)->arena, (vec), ((Item){__VA_ARGS__}))
#define ALL(f, vec) doc_cat((f)->arena, (vec).at, (vec).len)

/* ---- format.c ---- */

Doc *fmt_text(Formatter *f, const char *text);
Doc *fmt_sym(Formatter *f, const Sym *sym);
Doc *fmt_name(Formatter *f, const Name *name);
/* Comments before an offset, as they stand in front of what is there. */
Doc *fmt_lead(Formatter *f, uint32_t offset);
/* Comments before an offset, as they stand behind what was printed. */
Doc *fmt_tail(Formatter *f, uint32_t offset);
/* Comments before `limit` that end the line on which `end` is. */
Doc *fmt_behind(Formatter *f, uint32_t end, uint32_t limit);
/* The offset of a character that is in no comment, in [from, stop). */
uint32_t fmt_find(const Formatter *f, char c, uint32_t from, uint32_t stop);
bool fmt_pending(const Formatter *f, uint32_t offset);
/* A break and "| " before the next of several rules; their comments stay. */
Doc *fmt_bar(Formatter *f, uint32_t indent, uint32_t from, uint32_t to);
/* A node's document with comments on both sides; in parentheses if `parens`,
 * or if the source had them and comments stand before the closing one. */
Doc *fmt_wrap(Formatter *f, Doc *lead, Doc *body, Span span, bool had_parens,
              bool parens);
bool fmt_newline_between(const Formatter *f, uint32_t from, uint32_t to);
typedef enum ListStyle {
  LIST_FITS,   /* on one line, or one item a line */
  LIST_FILLS,  /* as many items a line as fit */
  LIST_BROKEN, /* one item a line */
} ListStyle;
/* "open item, item close". */
Doc *fmt_list(Formatter *f, const char *open, const ItemVec *items,
              const char *close, uint32_t end, ListStyle style);
Doc *fmt_decs(Formatter *f, Dec *const *decs, uint32_t count, uint32_t end);

/* ---- formattype.c ---- */

Doc *fmt_type(Formatter *f, const TypeExpr *type);
Doc *fmt_axes(Formatter *f, const char *open, const Axes *axes,
              const char *close, uint32_t end);
Doc *fmt_given(Formatter *f, const Facts *facts); /* with a break before */
Doc *fmt_pat(Formatter *f, const Pat *pat);
Doc *fmt_pat_atom(Formatter *f, const Pat *pat);

/* ---- formatexpr.c ---- */

Doc *fmt_expr(Formatter *f, const Expr *expr);
Doc *fmt_param(Formatter *f, const Param *param);
/* The body of a clause that others follow: its rules must not take theirs. */
Doc *fmt_body(Formatter *f, const Expr *expr, bool more_follow);

#endif
