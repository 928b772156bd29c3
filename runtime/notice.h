/* notice: what a process is to be told once that is no mistake of a program: a
 * compiler that is missing, say.  Sessions make warnings of them. */
#ifndef AXON_NOTICE_H
#define AXON_NOTICE_H

#include "support/support.h"

typedef struct Notice {
  uint16_t code;                           /* of support/catalog.def */
  char message[256], note[512], help[256]; /* the last two may be "" */
} Notice;

/* Of several with one code a process is told the first. */
void notice_add(const Notice *notice);
/* The next one that nobody was told yet; false: there is none. */
bool notice_take(Notice *out);

#endif
