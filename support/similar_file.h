/* Suggests the file that a wrong path means. */
#ifndef AXON_SUPPORT_SIMILAR_FILE_H
#define AXON_SUPPORT_SIMILAR_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the file in the folder of `path` whose name is most similar to its
   name.  Writes the path of that file to out.  Returns false if no name is
   similar. */
bool file_find_similar(const char *path, char *out, size_t size);

#endif
