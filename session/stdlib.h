/* The embedded standard library: the text of its files and an index of its
   definitions. tools/embed.c generates it at build time.  A definition is
   parsed at its first use. */
#ifndef AXON_SESSION_STDLIB_H
#define AXON_SESSION_STDLIB_H

#include <stdint.h>

typedef struct StdlibFile {
  const char *module; /* "nn"; "" for the prelude */
  const char *name;   /* "nn.axn" */
  const char *text;
  uint32_t len;
} StdlibFile;

/* A value, constructor or type, and the bytes of its declaration with its doc
   comment. */
typedef struct StdlibName {
  const char *module, *name;
  uint32_t file, start, end;
} StdlibName;

extern const StdlibFile stdlib_files[];
extern const uint32_t stdlib_file_count;
extern const StdlibName stdlib_names[]; /* sorted by module, then name */
extern const uint32_t stdlib_name_count;

#endif
