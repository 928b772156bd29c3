/* Unicode: UTF-8 and, by utf8proc, normal forms, categories and cases.  The
 * library is loaded at first use. */
#ifndef AXON_RUNTIME_UNICODE_H
#define AXON_RUNTIME_UNICODE_H

#include "runtime/runtime.h"

typedef enum NormalForm { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD } NormalForm;

bool unicode_load(Fault *fault);
/* Adds the normal form of valid UTF-8 text. */
bool unicode_normalize(Buffer *out, const char *text, size_t len,
                       NormalForm form, Fault *fault);
/* Adds the small letters of a character. */
void unicode_put_lower(Buffer *out, uint32_t code);

/* Classes of characters. */
bool unicode_is_space(uint32_t code);       /* White_Space */
bool unicode_is_punctuation(uint32_t code); /* P* */
bool unicode_is_mark(uint32_t code);        /* M* */
bool unicode_is_nonspacing(uint32_t code);  /* Mn */
bool unicode_is_number(uint32_t code);      /* N* */
bool unicode_is_other(uint32_t code);       /* C*, without unassigned ones */

/* Returns the character at *at of valid UTF-8 and moves to the next one. */
uint32_t unicode_next(const char **at);
void unicode_put(Buffer *out, uint32_t code);
/* Adds text.  Each maximal part that is not UTF-8 becomes U+FFFD. */
void unicode_put_lossy(Buffer *out, const char *text, size_t len);

#endif
