/* Diagnostics as data.  support/diag_render.h renders them. */
#ifndef AXON_SUPPORT_DIAG_H
#define AXON_SUPPORT_DIAG_H

#include "support/compiler.h"
#include "support/map.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;

typedef enum Severity { SEV_NONE, SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

/* A step of the provenance trace: how a shape arose. */
typedef struct DiagStep {
  Span span;         /* the expression */
  const char *shape; /* its shape: "f32[b, 32, 26, 26]" */
  const char *text;  /* arithmetic of the shape: "28 - 3 + 1 = 26"; or NULL */
} DiagStep;

/* A secondary span with a label. */
typedef struct DiagLabel {
  Span span;
  const char *text; /* "the annotation"; or NULL */
} DiagLabel;

typedef struct DiagEdit { /* replaces the text of `span` by `text` */
  Span span;              /* if empty, `text` is inserted */
  const char *text;
} DiagEdit;

/* A fix-it: a change of the program that implements the help line and that a
   tool can apply.  The edits are in order and do not overlap. */
typedef struct DiagFixIt {
  const char *title; /* "write `softmax`" */
  const DiagEdit *edits;
  uint32_t edit_count;
} DiagFixIt;

/* A diagnostic.  Every output format (text, JSON, SARIF, axon.h, editor) is
   generated from it. */
typedef struct Diag {
  Severity severity;
  uint16_t code;             /* 301 prints as E0301, or W0301 for a warning */
  const char *message;       /* one line, no full stop */
  Span span;                 /* primary span */
  const char *primary_label; /* text next to the underline, or NULL */
  const DiagStep *steps;     /* provenance trace, in program order */
  const DiagLabel *labels;   /* secondary spans */
  const DiagFixIt *fixits;   /* best first */
  uint32_t step_count, label_count, fixit_count;
  const char *found, *expected; /* types or sizes that differ, or NULL */
  int32_t axis; /* axis of `found` along which they differ, from 0; -1: none or
                   several */
  const char *note;         /* may have several lines, or NULL */
  const char *help;         /* or NULL */
  const struct Diag *cause; /* a warning about the same mistake; or NULL */
  Span mistake; /* the place to correct, which several errors may have; no file:
                   the primary span */
  const char *mistake_part;   /* which of several mistakes at that place; or
                                 NULL */
  const char *counterexample; /* "fails at h = 350: 20 meets 21"; or NULL */
  const struct Diag
      *previous_in_bucket; /* an earlier diagnostic with the same hash key */
  uint32_t index;          /* index in Diags.all */
} Diag;

typedef struct Diags {
  Arena *arena;
  VEC(Diag *) all;
  Map by_span; /* last diagnostic per key; see previous_in_bucket */
  uint32_t errors, warnings;
} Diags;

void diags_init(Diags *diags, Arena *arena);
/* Adds a diagnostic and returns it, so that the caller can add steps and help.
   The message is formatted into the arena.  If an error already has the same
   primary span, the new one is returned but not stored. */
Diag *diag_error(Diags *diags, uint16_t code, Span span, const char *format,
                 ...) PRINTF_LIKE(4, 5);
Diag *diag_warning(Diags *diags, uint16_t code, Span span, const char *format,
                   ...) PRINTF_LIKE(4, 5);

/* Removes the warnings since `from` that are causes of errors since `from`, or
   have the primary span of one; and errors with the same mistake as an earlier
   one. */
void diags_drop_explained(Diags *diags, uint32_t from);

/* Adds a note; it does not count as an error. */
Diag *diag_note(Diags *diags, Span span, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Functions that add parts to a diagnostic.  Texts are not copied. */
void diag_add_step(Arena *arena, Diag *diag, Span span, const char *shape,
                   const char *text);
void diag_add_label(Arena *arena, Diag *diag, Span span, const char *label);
/* Adds a fix-it with one edit: replaces `span` by `text`.  The title is
   formatted into the arena. */
void diag_add_fixit(Arena *arena, Diag *diag, Span span, const char *text,
                    const char *format, ...) PRINTF_LIKE(5, 6);
/* Adds a fix-it with several edits; copies them. */
void diag_add_fixit_edits(Arena *arena, Diag *diag, const DiagEdit *edits,
                          uint32_t count, const char *format, ...)
    PRINTF_LIKE(5, 6);

#endif
