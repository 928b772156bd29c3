/* Edit distance for suggestions of similar words: insertions, deletions,
   replacements, and exchanges of two neighbours (optimal string alignment,
   after Damerau 1964). */
#include "support/edit_distance.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static int least(int a, int b) {
  return a < b ? a : b;
}

int edit_distance(const char *a, const char *b, int max) {
  enum { MAX_NAME_BYTES = 32 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= MAX_NAME_BYTES || m >= MAX_NAME_BYTES)
    return max + 1;
  int rows[3][MAX_NAME_BYTES]; /* row i of the table is rows[i % 3] */
  for (size_t j = 0; j <= m; j++)
    rows[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int *row = rows[i % 3];
    const int *up = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      row[j] = least(up[j - 1] + (a[i - 1] != b[j - 1]),
                     least(up[j], row[j - 1]) + 1);
      bool exchanged =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged)
        row[j] = least(row[j], second[j - 2] + 1);
    }
  }
  int distance = rows[n % 3][m];
  return distance <= max ? distance : max + 1;
}

int edit_distance_limit(size_t len) {
  return len < 2 ? 0 : len <= 3 ? 1 : 2;
}
