/* notice: what a process is to be told once that is no mistake of a program: a
 * compiler that is missing, say.  Sessions make warnings of them. */
#ifndef AXON_WARN_ONCE_H
#define AXON_WARN_ONCE_H

#include "support/support.h"

typedef struct OnceWarning {
  uint16_t code;                           /* of support/catalog.def */
  char message[256], note[512], help[256]; /* the last two may be "" */
} OnceWarning;

/* Of several with one code a process is told the first. */
void warn_once(const OnceWarning *notice);
/* The next one that nobody was told yet; false: there is none. */
bool warn_once_take(OnceWarning *out);

#endif
