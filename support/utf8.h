/* UTF-8: validity, and width on a terminal. */
#ifndef AXON_SUPPORT_UTF8_H
#define AXON_SUPPORT_UTF8_H

#include <stddef.h>

/* Length in bytes of the valid UTF-8 prefix of text[0..len), up to len.  NUL
   bytes count as invalid. */
size_t utf8_valid_prefix(const char *text, size_t len);
/* Display width: columns on a terminal. */
size_t utf8_columns(const char *text, size_t len);

#endif
