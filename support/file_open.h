/* Files that the user names, opened for reading.  None of the functions waits
 * for another process, as the opening of a named pipe does.  They return -1 and
 * set errno if the file is not opened. */
#ifndef AXON_SUPPORT_FILE_OPEN_H
#define AXON_SUPPORT_FILE_OPEN_H

#include <stddef.h>

/* For readers that need the size of the file.  `size` may be NULL. */
int file_open_regular(const char *path, size_t *size);
/* For readers of a stream.  Pipes and devices count if they lie in /dev or
 * /proc: /dev/stdin, and what shells write for <(command). */
int file_open_stream(const char *path);
/* Says why a file was not opened, by errno. */
const char *file_open_error(int error);

#endif
