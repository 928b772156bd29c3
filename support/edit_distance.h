/* Edit distance, for suggestions of similar words. */
#ifndef AXON_SUPPORT_EDIT_DISTANCE_H
#define AXON_SUPPORT_EDIT_DISTANCE_H

#include <stddef.h>

/* The number of bytes to add, remove or replace, and of neighbours to exchange;
   max + 1 if it is larger, or if a word is long (32 bytes or more). */
int edit_distance(const char *a, const char *b, int max);
/* The largest distance at which words are similar to one of `len` bytes.  0 for
   one byte: all such words are equally near. */
int edit_distance_limit(size_t len);

#endif
