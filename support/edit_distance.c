/* Edit distance (Levenshtein 1966), for suggestions of similar words. */
#include "support/edit_distance.h"

#include <stddef.h>
#include <string.h>

int edit_distance(const char *a, const char *b, int max) {
  enum { MAX_NAME_BYTES = 32 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= MAX_NAME_BYTES || m >= MAX_NAME_BYTES)
    return max + 1;
  int row[MAX_NAME_BYTES], diagonal, up;
  for (size_t j = 0; j <= m; j++)
    row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      up = row[j];
      int min = diagonal + (a[i - 1] != b[j - 1]);
      min = up + 1 < min ? up + 1 : min;
      row[j] = row[j - 1] + 1 < min ? row[j - 1] + 1 : min;
      diagonal = up;
    }
  }
  return row[m] <= max ? row[m] : max + 1;
}
