/* parser, inside: documents that know how to break into lines, after Wadler.
 *
 * A group is laid out on one line if it fits, else the breaks directly in it
 * become newlines.  NULL is the empty document.  Documents live in an arena. */
#ifndef AXON_PARSER_PRETTY_H
#define AXON_PARSER_PRETTY_H

#include "support/support.h"

typedef struct Doc Doc;

Doc *doc_text(Arena *arena, const char *text, size_t len);
/* The text of a comment, whose lines move with its first. */
Doc *doc_comment(Arena *arena, const char *text, size_t len, uint32_t column);
/* The same, at the end of a line that it may make too long. */
Doc *doc_zero_width(Doc *doc);
Doc *doc_line(Arena *arena);       /* a space, or a newline */
Doc *doc_hardline(Arena *arena);   /* a newline; breaks all groups around it */
Doc *doc_blank_line(Arena *arena); /* the same with an empty line */
Doc *doc_break_parent(
    Arena *arena); /* nothing, but breaks all groups around it */
Doc *doc_nest(Arena *arena, uint32_t indent, Doc *body);
Doc *doc_align(Arena *arena, Doc *body); /* indents to the column it is at */
Doc *doc_group(Arena *arena, Doc *body);
Doc *doc_cat(Arena *arena, Doc *const *items, uint32_t count);

bool doc_is_forced(const Doc *doc); /* cannot be on one line */
uint32_t doc_width(const Doc *doc); /* of the one line */

void doc_print(Buffer *out, const Doc *doc, Arena *arena, uint32_t width);

#endif
