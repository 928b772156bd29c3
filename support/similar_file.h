/* Suggests the file that a wrong path means. */
#ifndef AXON_SUPPORT_SIMILAR_FILE_H
#define AXON_SUPPORT_SIMILAR_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the regular file in the folder of `path` whose name is most similar to
   its name.  Writes a help to out: did you mean "PATH"?  Returns false if no
   name is similar, or if the help has `size` bytes or more. */
bool similar_file_help(const char *path, char *out, size_t size);

#endif
