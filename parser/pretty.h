/* Pretty printer, internal: documents with possible line breaks (Wadler, "A
 * prettier printer").
 *
 * A group is laid out on one line if it fits.  Otherwise the breaks directly in
 * it become newlines.  NULL is the empty document.  Documents live in an
 * arena. */
#ifndef AXON_PARSER_PRETTY_H
#define AXON_PARSER_PRETTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Doc Doc;

Doc *doc_text(Arena *arena, const char *text, size_t len);
/* The text of a comment.  Its lines are shifted like the first one. */
Doc *doc_comment(Arena *arena, const char *text, size_t len, uint32_t column);
/* The same at the end of a line; it does not count for the width. */
Doc *doc_zero_width(Doc *doc);
Doc *doc_line(Arena *arena);       /* a space, or a newline */
Doc *doc_hardline(Arena *arena);   /* a newline; breaks all groups around it */
Doc *doc_blank_line(Arena *arena); /* the same, with an empty line */
Doc *doc_break_parent(
    Arena *arena); /* empty, but breaks all groups around it */
Doc *doc_nest(Arena *arena, uint32_t indent, Doc *body);
/* indents the body to the current column */
Doc *doc_align(Arena *arena, Doc *body);
Doc *doc_group(Arena *arena, Doc *body);
/* on one line in any case, unless it is forced */
Doc *doc_flat(Arena *arena, Doc *body);
Doc *doc_cat(Arena *arena, Doc *const *items, uint32_t count);

bool doc_is_forced(const Doc *doc);      /* cannot be laid out on one line */
uint32_t doc_width(const Doc *doc);      /* columns if laid out on one line */
uint32_t doc_head_width(const Doc *doc); /* columns before the first break */

void doc_print(Buffer *out, const Doc *doc, Arena *arena, uint32_t width);

#endif
