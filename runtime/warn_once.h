/* warn_once: warnings that a process shows once and that no program causes,
 * such as a missing compiler.  Sessions make diagnostics of them. */
#ifndef AXON_WARN_ONCE_H
#define AXON_WARN_ONCE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct OnceWarning {
  uint16_t code;                           /* code in support/catalog.def */
  char message[256], note[512], help[256]; /* note and help may be "" */
} OnceWarning;

/* Adds a warning.  Only the first one of a code is shown. */
void warn_once(const OnceWarning *notice);
/* Takes the next warning that was not shown.  Returns false if there is
 * none. */
bool warn_once_take(OnceWarning *out);

#endif
