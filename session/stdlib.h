/* The standard library inside the program: the text of its files and an
 * index of what it defines, made by tools/embed.c when Axon is built.  Nothing
 * of it is parsed before a name of it is used. */
#ifndef AXON_SESSION_STDLIB_H
#define AXON_SESSION_STDLIB_H

#include <stdint.h>

typedef struct StdlibFile {
  const char *module; /* "nn"; "" for the prelude */
  const char *name;   /* "nn.axn" */
  const char *text;
  uint32_t len;
} StdlibFile;

/* A value, constructor or type, and the bytes of the declaration (with its
 * doc comment) that defines it. */
typedef struct StdlibName {
  const char *module, *name;
  uint32_t file, start, end;
} StdlibName;

extern const StdlibFile stdlib_files[];
extern const uint32_t stdlib_file_count;
extern const StdlibName stdlib_names[]; /* sorted by module, then name */
extern const uint32_t stdlib_name_count;

#endif
