/* Rendering of diagnostics as text and as JSON. */
#ifndef AXON_SUPPORT_DIAG_RENDER_H
#define AXON_SUPPORT_DIAG_RENDER_H

#include "support/diag.h"

#include <stdbool.h>

typedef struct Buffer Buffer;
typedef struct Sources Sources;

/* Appends a diagnostic as text.  `colour` enables terminal colours.  Distant
   lines are separated by a gap mark.  Underlines are correct for wide
   characters and tabs. */
void diag_render(Buffer *out, const Sources *sources, const Diag *diag,
                 bool colour);

/* Appends a diagnostic as a JSON object on one line. */
void diag_json(Buffer *out, const Sources *sources, const Diag *diag);
const char *severity_name(Severity severity); /* "error" */
typedef struct DiagCode {
  char text[8]; /* "E0301" */
} DiagCode;
DiagCode diag_code(const Diag *diag); /* requires a diagnostic with a code */

#endif
