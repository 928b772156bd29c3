/* Texts of types for a reader. */
#ifndef AXON_REPL_TYPE_TEXT_H
#define AXON_REPL_TYPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Buffer Buffer;

/* ---- type_fold.c ---- */

enum { SHORT_TYPE_BYTES = 200 }; /* limit of the short form of a type */

/* Appends a type of about `limit` bytes at most.  Returns false if the type is
   no longer than that; then it is appended as it is. */
bool type_fold(const char *type, size_t limit, Buffer *out);

/* ---- type_lines.c ---- */

/* Appends a type after `used` columns of a line: in colour, and on several
   lines if it is longer than `width` columns. */
void type_lay_out(const char *type, size_t used, size_t width, bool colour,
                  Buffer *out);

#endif
