/* The editor queries of the C API (axon.h). */
#include "editor/editor.h"
#include "session/capi.h"

static const SymbolRef *ref_at(AxnSession *a, size_t offset) {
  return editor_ref_at(a->session, session_current_file(a->session),
                       (uint32_t)offset);
}

const char *axn_type_at(AxnSession *a, size_t offset, AxnPlace *place) {
  const SymbolRef *p = ref_at(a, offset);
  const char *type = p ? editor_ref_type(a->session, p) : NULL;
  if (!type) {
    p = editor_expr_at(a->session, (uint32_t)offset);
    type = p ? editor_ref_type(a->session, p) : NULL;
  }
  if (type && place)
    *place = capi_place(session_sources(a->session), p->span);
  return type;
}

bool axn_definition_at(AxnSession *a, size_t offset, AxnPlace *out) {
  const SymbolRef *p = ref_at(a, offset);
  Span span = p ? editor_definition(a->session, p) : (Span){0};
  *out = capi_place(session_sources(a->session), span);
  return out->file;
}

typedef struct ReferenceCallback {
  AxnSession *session;
  void (*f)(void *, const AxnPlace *);
  void *owner;
  size_t count;
} ReferenceCallback;

static void call_with_reference(void *arg, const SymbolRef *p) {
  ReferenceCallback *u = arg;
  AxnPlace place = capi_place(session_sources(u->session->session), p->span);
  u->f(u->owner, &place);
  u->count++;
}

size_t axn_uses_at(AxnSession *a, size_t offset,
                   void (*f)(void *owner, const AxnPlace *place), void *owner) {
  const SymbolRef *p = ref_at(a, offset);
  ReferenceCallback uses = {a, f, owner, 0};
  if (p)
    editor_each_reference(a->session, p, call_with_reference, &uses);
  return uses.count;
}

typedef struct ShapeCallback {
  AxnSession *session;
  void (*f)(void *, const AxnShape *);
  void *owner;
} ShapeCallback;

static void call_with_shape(void *arg, const InlayHint *hint) {
  const ShapeCallback *s = arg;
  Span at = {session_current_file(s->session->session), hint->offset,
             hint->offset};
  AxnShape shape = {.type = hint->type,
                    .stage = hint->kind == INLAY_HINT_PIPELINE_STAGE};
  shape.place = capi_place(session_sources(s->session->session), at);
  s->f(s->owner, &shape);
}

void axn_each_shape(AxnSession *a,
                    void (*f)(void *owner, const AxnShape *shape),
                    void *owner) {
  ShapeCallback shapes = {a, f, owner};
  editor_each_inlay_hint(a->session, 0, UINT32_MAX, false, call_with_shape,
                         &shapes);
}
