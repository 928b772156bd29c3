/* Regular expressions: PCRE2 (libpcre2-8), loaded at first use.  The text is
 * UTF-8. */
#ifndef AXON_RUNTIME_REGEX_H
#define AXON_RUNTIME_REGEX_H

#include "runtime/runtime.h"

typedef struct Regex Regex;

/* Returns NULL with a fault that names the place in the pattern. */
Regex *regex_compile(const char *pattern, size_t len, Fault *fault);
void regex_free(Regex *r);

/* Searches text from byte `start`: 0, or the end of an earlier match in it.  A
 * match that is empty must not begin at `start` if `is_after_empty`.  Returns
 * the number of groups, the match itself included; 0 if there is no match; -1
 * with a fault if a limit is exceeded or the text is not UTF-8.  regex_group
 * returns the bytes of a group in the last match, or false if the group takes
 * no part in it. */
int regex_search(Regex *r, const char *text, size_t len, size_t start,
                 bool is_after_empty, Fault *fault);
bool regex_group(const Regex *r, uint32_t group, size_t *from, size_t *to);

/* Replaces all matches.  `replacement` may contain $1, ${name} and $$.  Returns
 * text to be freed with mem_free, or NULL with a fault. */
char *regex_replace(Regex *r, const char *text, size_t len,
                    const char *replacement, size_t replacement_len,
                    size_t *result_len, Fault *fault);

#endif
