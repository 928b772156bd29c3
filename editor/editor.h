/* editor: queries about the text last checked, for the language server and the
 * C API.
 *
 * Symbol references are recorded after session_record_refs.  A Session owns all
 * results.  Offsets are in bytes. */
#ifndef AXON_EDITOR_EDITOR_H
#define AXON_EDITOR_EDITOR_H

#include "session/session.h"
#include "support/span.h"

typedef struct DiagEdit DiagEdit;
typedef struct Sym Sym;

/* ---- symbol_queries.c ---- */

/* The name at an offset, or that ends there; otherwise NULL. */
const SymbolRef *editor_ref_at(Session *session, uint32_t file,
                               uint32_t offset);
/* The innermost expression of that text, or NULL. */
const SymbolRef *editor_expr_at(Session *session, uint32_t offset);
const char *editor_ref_type(Session *session, const SymbolRef *ref);
/* Calls f once for each reference of the same name, in text order. */
void editor_each_reference(Session *session, const SymbolRef *ref,
                           void (*f)(void *, const SymbolRef *), void *arg);
/* Calls f for the labelled parameters of the function of a REF_LABEL. */
void editor_each_label(Session *session, const SymbolRef *ref,
                       void (*f)(void *, Sym *name, bool optional,
                                 const char *type),
                       void *arg);
/* The span where a name is bound, or where a module begins. file is 0 if there
   is none. */
Span editor_definition(Session *session, const SymbolRef *ref);
const char *editor_doc(Session *session, const SymbolRef *ref); /* or NULL */
/* The reference of this kind with exactly this span, or NULL. */
const SymbolRef *editor_find_ref(Session *session, SymbolRefKind kind,
                                 Span span);

/* ---- rename.c ---- */

/* The reason why a name cannot be renamed, or NULL. */
const char *editor_rename_refusal(Session *session, const SymbolRef *ref);
/* Computes the edits, in order of file and position, that rename `ref` in
   `text` (the one last checked) and in its imports.  Returns the reason if that
   is impossible, otherwise NULL. */
const char *editor_rename(Session *session, const SourceInput *text,
                          const SymbolRef *ref, const char *name,
                          void (*f)(void *, const DiagEdit *), void *arg);

/* ---- inlay_hints.c ---- */

/* An inferred type or shape that the text does not state.  It is shown after
   `offset`.  Inserting prefix and suffix writes it into the text. */
typedef struct InlayHint {
  enum { INLAY_HINT_TYPE, INLAY_HINT_PIPELINE_STAGE } kind;
  uint32_t offset;
  const char *type;
  uint32_t edit_start, edit_end;
  const char *edit_prefix,
      *edit_suffix; /* "(" and " : f32[n])"; NULL if it cannot be written */
} InlayHint;
/* Calls f for the hints in a part of the text. with_edits: computes edits for
   the first few hints, where possible. */
void editor_each_inlay_hint(Session *session, uint32_t start, uint32_t end,
                            bool with_edits,
                            void (*f)(void *, const InlayHint *), void *arg);

/* ---- completion.c ---- */

/* Completion and signature help for a position in the text last checked.  They
   check the text up to the end of that declaration, with a name inserted at the
   cursor.  Earlier query results stay valid. */
typedef struct Completion {
  enum {
    COMPLETION_VALUE,
    COMPLETION_FUNCTION,
    COMPLETION_CONSTRUCTOR,
    COMPLETION_SIZE,
    COMPLETION_MODULE,
    COMPLETION_FIELD,
    COMPLETION_LABEL,
    COMPLETION_TYPE,
    COMPLETION_KEYWORD,
  } kind;
  const char *name;
  const char *type, *doc; /* or NULL */
} Completion;
/* Calls f for the names that begin with the text before the offset. */
void editor_complete(Session *session, const SourceInput *text, uint32_t offset,
                     void (*f)(void *, const Completion *), void *arg);
typedef struct SignatureHelp {
  const char *name, *type, *doc;
  const char *active_label; /* label of the current argument, or NULL */
  /* index among the arguments without a label, from 0 */
  uint32_t active_parameter;
} SignatureHelp;
/* Returns false if the position is not in a call. */
bool editor_signature_help(Session *session, const SourceInput *text,
                           uint32_t offset, SignatureHelp *out);

#endif
