/* Writes JSON to a buffer. */
#ifndef AXON_SUPPORT_JSON_WRITER_H
#define AXON_SUPPORT_JSON_WRITER_H

#include <stddef.h>
#include <stdint.h>

typedef struct Buffer Buffer;

/* Writes a quoted string; invalid UTF-8 becomes `?`. */
void json_quote(Buffer *out, const char *text);
void json_quote_len(Buffer *out, const char *text, size_t len);
/* Writes `"name":`.  This and the functions below put a comma in front if the
   object or array already has an element. */
void json_key(Buffer *out, const char *name);
void json_string_field(Buffer *out, const char *name,
                       const char *text); /* or NULL */
void json_int_field(Buffer *out, const char *name, int64_t n);
/* Opens `{` or `[`. name: the key inside of an object, NULL inside of an
   array. */
void json_open(Buffer *out, const char *name, char bracket);
void json_comma(Buffer *out);

#endif
