/* Edit distance, for suggestions of similar words. */
#ifndef AXON_SUPPORT_EDIT_DISTANCE_H
#define AXON_SUPPORT_EDIT_DISTANCE_H

/* The number of characters to add, remove or replace; max + 1 if it is larger,
   or if a word is long (32 bytes or more). */
int edit_distance(const char *a, const char *b, int max);

#endif
