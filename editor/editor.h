/* editor: what an editor asks of the text last checked, for the language server
 * and the C API.
 *
 * Symbol references are recorded after session_record_refs.  A Session owns all
 * that is handed out.  Offsets are in bytes. */
#ifndef AXON_EDITOR_EDITOR_H
#define AXON_EDITOR_EDITOR_H

#include "session/session.h"

/* ---- symbol_queries.c ---- */

/* The name at an offset, or ending there; NULL: there is none. */
const SymbolRef *editor_ref_at(Session *session, uint32_t file,
                               uint32_t offset);
/* The innermost expression of that text, or NULL. */
const SymbolRef *editor_expr_at(Session *session, uint32_t offset);
const char *editor_ref_type(Session *session, const SymbolRef *ref);
/* Each place of the same name, once, in order of the text. */
void editor_each_reference(Session *session, const SymbolRef *ref,
                           void (*f)(void *, const SymbolRef *), void *arg);
/* Parameters with labels of the function that a REF_LABEL is for. */
void editor_each_label(Session *session, const SymbolRef *ref,
                       void (*f)(void *, Sym *name, bool optional,
                                 const char *type),
                       void *arg);
/* Where a name is bound, or a module begins; file 0: nowhere. */
Span editor_definition(Session *session, const SymbolRef *ref);
const char *editor_doc(Session *session, const SymbolRef *ref); /* or NULL */
/* A place of that kind exactly there; or NULL. */
const SymbolRef *editor_find_ref(Session *session, SymbolRefKind kind,
                                 Span span);

/* ---- rename.c ---- */

/* Why a name cannot be renamed at all; NULL: it can. */
const char *editor_rename_refusal(Session *session, const SymbolRef *ref);
/* The edits, in order of file and place, that call `of` by another name in
 * `text`, the one last checked, and in what it imports; or why not. */
const char *editor_rename(Session *session, const SourceInput *text,
                          const SymbolRef *ref, const char *name,
                          void (*f)(void *, const DiagEdit *), void *arg);

/* ---- inlay_hints.c ---- */

/* What was inferred and is not written: behind `at` of the text it is shown,
 * and there it can be written by what is put before and behind. */
typedef struct InlayHint {
  enum { INLAY_HINT_TYPE, INLAY_HINT_PIPELINE_STAGE } kind;
  uint32_t offset;
  const char *type;
  uint32_t edit_start, edit_end;
  const char *edit_prefix,
      *edit_suffix; /* "(", " : f32[n])"; NULL: it cannot be */
} InlayHint;
/* Those that touch a part of the text; with what writes them if that is asked
 * for, of the first few, where there is such a thing. */
void editor_each_inlay_hint(Session *session, uint32_t start, uint32_t end,
                            bool with_edits,
                            void (*f)(void *, const InlayHint *), void *arg);

/* ---- completion.c ---- */

/* What can be written at a place of the text last checked, or is called there.
 * It is checked with a name put there, to the end of that declaration; what was
 * asked before stays as it was. */
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
/* Those names that begin like what stands before the offset. */
void editor_complete(Session *session, const SourceInput *text, uint32_t offset,
                     void (*f)(void *, const Completion *), void *arg);
typedef struct SignatureHelp {
  const char *name, *type, *doc;
  const char *active_label;  /* of the argument at hand; or NULL: */
  uint32_t active_parameter; /* of it among those without one, from 0 */
} SignatureHelp;
/* False: nothing is called there. */
bool editor_signature_help(Session *session, const SourceInput *text,
                           uint32_t offset, SignatureHelp *out);

#endif
