/* Shared by the files of `show`. */
#ifndef AXON_CLI_SHOW_H
#define AXON_CLI_SHOW_H

#include "cli/cli.h"

/* ---- terminal_image.c ---- */

typedef struct Image { /* values from 0 to 1, row-major, 1 or 3 channels */
  uint32_t width, height, channels;
  float *at; /* allocated by mem_alloc */
} Image;

/* `size` columns wide; 0: as wide as fits. */
void image_print(const Image *p, int64_t size);
bool image_save(const Image *p, const char *path, int64_t size, Fault *fault);

#endif
