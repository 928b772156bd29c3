/* The C API (axon.h): sessions, checking, running and diagnostics. */
#include "session/capi.h"

#include "session/state.h"
#include "show/show.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag_render.h"
#include "support/interrupt.h"
#include "support/mem.h"

#include <string.h>

const char *axn_version(void) {
  return AXON_VERSION;
}

int axn_abi(void) {
  return AXN_ABI;
}

static void host_write(void *owner, const char *text, size_t len) {
  AxnSession *a = owner;
  if (a->write)
    a->write(a->owner, text, len);
}

static bool host_show(void *owner, const Tensor *t, const char *file,
                      int64_t size, Fault *fault) {
  const AxnSession *a = owner;
  return show_tensor(a->show_display, t, file, size, fault);
}

static void host_progress(void *owner, int64_t done, int64_t total) {
  (void)owner, (void)done, (void)total;
}

AxnSession *axn_session_new(void) {
  AxnSession *a = mem_try_alloc(sizeof *a);
  if (!a)
    return NULL;
  SessionHost host = {.eval = {
                          .owner = a,
                          .write = host_write,
                          .trace = host_write,
                          .progress = host_progress,
                          .show = host_show,
                          .print_width = 80,
                          .print_limit = 1000,
                      }};
  a->session = session_open(&host);
  if (a->session)
    return a;
  mem_free(a);
  return NULL;
}

void capi_clear_diags(AxnSession *a) {
  session_clear_diags(a->session);
  if (a->arena)
    arena_free(a->arena);
  a->arena = NULL;
  a->exported_diags.at = NULL;
  a->exported_diags.len = a->exported_diags.cap = 0;
}

void axn_session_free(AxnSession *a) {
  if (!a)
    return;
  capi_clear_diags(a);
  session_close(a->session);
  buffer_free(&a->text);
  buffer_free(&a->json);
  mem_free(a->png);
  mem_free(a);
}

void axn_session_output(AxnSession *a,
                        void (*write)(void *owner, const char *text,
                                      size_t len),
                        void *owner) {
  a->write = write;
  a->owner = owner;
}

AxnStatus capi_status(SessionStatus status) {
  switch (status) {
  case SESSION_OK:
    return AXN_OK;
  case SESSION_ERROR:
    return AXN_ERROR;
  case SESSION_INCOMPLETE:
    return AXN_INCOMPLETE;
  case SESSION_INTERRUPTED:
    return AXN_INTERRUPTED;
  case SESSION_EXITED:
    return AXN_EXITED;
  }
  return AXN_ERROR;
}

/* ---- errors, and what runs ---- */

typedef struct ErrorText {
  uint16_t code;
  const char *message, *help;
} ErrorText;

static SessionStatus add_error(Session *s, void *arg) {
  const ErrorText *t = arg;
  Diag *diag = session_error(s, t->code, (Span){0}, "%s", t->message);
  if (t->help && *t->help)
    diag->help = arena_strndup(s->arena, t->help, strlen(t->help));
  return SESSION_ERROR;
}

void capi_error(AxnSession *a, uint16_t code, const char *help,
                const char *format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  ErrorText telling = {code, message, help};
  if (!a->is_busy)
    capi_clear_diags(a);
  session_protected_call(a->session, add_error, &telling);
}

bool capi_begin(AxnSession *a) {
  if (a->is_busy)
    return false;
  capi_clear_diags(a);
  a->is_busy = true;
  capi_signal_begin(a);
  return true;
}

AxnStatus capi_end(AxnSession *a, SessionStatus status) {
  capi_signal_end(a);
  interrupt_set_flag(NULL); /* another thread may free the session */
  a->is_busy = false;
  return capi_status(status);
}

/* Discards the symbol references of the previous text. */
static bool begin_check(AxnSession *a) {
  if (!capi_begin(a))
    return false;
  if (a->record_refs)
    session_record_refs(a->session);
  return true;
}

AxnStatus axn_session_check(AxnSession *a, const char *name, const char *text,
                            size_t len) {
  SourceInput source = {
      .name = name, .text = text, .len = len, .allow_bare_expressions = true};
  if (!begin_check(a))
    return AXN_BUSY;
  SessionStatus status = session_check(a->session, &source);
  session_discard_pending(a->session);
  return capi_end(a, status);
}

AxnStatus axn_session_run(AxnSession *a, const char *name, const char *text,
                          size_t len) {
  SourceInput source = {
      .name = name, .text = text, .len = len, .allow_bare_expressions = true};
  if (!begin_check(a))
    return AXN_BUSY;
  SessionStatus status = session_check(a->session, &source);
  if (status == SESSION_OK)
    status = session_run(a->session);
  return capi_end(a, status);
}

int axn_exit_status(const AxnSession *a) {
  return session_exit_status(a->session);
}

const char *axn_session_type(AxnSession *a, const char *name) {
  Binding *binding = session_find_binding(a->session, name);
  return binding ? session_binding_type(a->session, binding) : NULL;
}

size_t axn_session_leaves(AxnSession *a, const char *expression, AxnLeaf *out,
                          size_t most, const char **total) {
  TypeLeaves leaves = {0};
  session_clear_diags(a->session);
  if (!session_type_leaves(a->session, expression, strlen(expression), &leaves))
    return 0;
  for (uint32_t i = 0; i < leaves.count && i < most; i++)
    out[i] = (AxnLeaf){leaves.leaves[i].path, leaves.leaves[i].type,
                       leaves.leaves[i].element_count};
  if (total)
    *total = leaves.total_elements;
  return leaves.count;
}

typedef struct PrintedCopy {
  const Buffer *text;
  const char *copy;
} PrintedCopy;

static SessionStatus copy_printed(Session *s, void *arg) {
  PrintedCopy *printed = arg;
  printed->copy =
      arena_strndup(s->arena, printed->text->text, printed->text->len);
  return SESSION_OK;
}

const char *axn_session_print(AxnSession *a, const char *name) {
  Binding *binding = session_find_binding(a->session, name);
  Buffer out = {0};
  PrintedCopy printed = {&out, NULL};
  if (binding && session_binding_text(a->session, binding, &out) && out.text)
    session_protected_call(a->session, copy_printed, &printed);
  buffer_free(&out);
  return printed.copy;
}

const void *axn_session_png(AxnSession *a, const char *name, size_t *len) {
  Binding *binding = session_find_binding(a->session, name);
  mem_free(a->png);
  a->png = NULL;
  *len = 0;
  if (binding)
    session_binding_png(a->session, binding, &a->png, len);
  return a->png;
}

/* ---- diagnostics ---- */

size_t axn_diag_count(const AxnSession *a) {
  return session_diags(a->session)->all.len;
}

AxnPlace capi_place(const Sources *sources, Span span) {
  AxnPlace place = {0};
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  if (!source)
    return place;
  place.file = source->name;
  place.start = span.start;
  place.end = span.end;
  source_line_and_column(source, span.start, &place.line, &place.column);
  source_line_and_column(source, span.end, &place.end_line, &place.end_column);
  return place;
}

static const AxnStep *export_steps(Arena *arena, const Sources *sources,
                                   const Diag *diag) {
  AxnStep *steps = NEW_ARRAY(arena, AxnStep, diag->step_count);
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    steps[i] =
        (AxnStep){.place = capi_place(sources, step->span),
                  .expression = source_excerpt(arena, sources, step->span),
                  .shape = step->shape,
                  .arithmetic = step->text};
  }
  return steps;
}

static const AxnMark *export_labels(Arena *arena, const Sources *sources,
                                    const Diag *diag) {
  AxnMark *marks = NEW_ARRAY(arena, AxnMark, diag->label_count);
  for (uint32_t i = 0; i < diag->label_count; i++)
    marks[i] = (AxnMark){capi_place(sources, diag->labels[i].span),
                         diag->labels[i].text};
  return marks;
}

static const AxnFix *export_fixes(Arena *arena, const Sources *sources,
                                  const Diag *diag) {
  AxnFix *fixes = NEW_ARRAY(arena, AxnFix, diag->fixit_count);
  for (uint32_t i = 0; i < diag->fixit_count; i++) {
    const DiagFixIt *fix = &diag->fixits[i];
    AxnEdit *edits = NEW_ARRAY(arena, AxnEdit, fix->edit_count);
    for (uint32_t k = 0; k < fix->edit_count; k++)
      edits[k] = (AxnEdit){capi_place(sources, fix->edits[k].span),
                           fix->edits[k].text};
    fixes[i] = (AxnFix){fix->title, edits, fix->edit_count};
  }
  return fixes;
}

static AxnDiag *export_diag(Arena *arena, const Sources *sources,
                            const Diag *diag) {
  AxnDiag *out = NEW(arena, AxnDiag);
  *out = (AxnDiag){
      .severity = (AxnSeverity)diag->severity,
      .code = diag->code,
      .message = diag->message,
      .place = capi_place(sources, diag->span),
      .label = diag->primary_label,
      .note = diag->note,
      .help = diag->help,
      .witness = diag->counterexample,
      .found = diag->found,
      .expected = diag->expected,
      .axis = diag->axis,
      .steps = export_steps(arena, sources, diag),
      .step_count = diag->step_count,
      .marks = export_labels(arena, sources, diag),
      .mark_count = diag->label_count,
      .fixes = export_fixes(arena, sources, diag),
      .fix_count = diag->fixit_count,
  };
  return out;
}

typedef struct DiagExport {
  AxnSession *of;
  size_t most;
} DiagExport;

static SessionStatus export_diags(Session *s, void *arg) {
  const DiagExport *t = arg;
  AxnSession *a = t->of;
  const Diags *diags = session_diags(s);
  if (!a->arena)
    a->arena = arena_new();
  while (a->exported_diags.len <= t->most) {
    AxnDiag *diag = export_diag(a->arena, &s->sources,
                                diags->all.at[a->exported_diags.len]);
    VEC_PUSH(a->arena, a->exported_diags, diag);
  }
  return SESSION_OK;
}

const AxnDiag *axn_diag_get(AxnSession *a, size_t index) {
  if (index >= axn_diag_count(a))
    return NULL;
  DiagExport telling = {a, index};
  if (index >= a->exported_diags.len &&
      session_protected_call(a->session, export_diags, &telling) != SESSION_OK)
    return NULL;
  return a->exported_diags.at[index];
}

typedef struct RenderRequest {
  Buffer *out;
  const Diag *diag;
  bool colours;
} RenderRequest;

static SessionStatus render(Session *s, void *arg) {
  RenderRequest *r = arg;
  diag_render(r->out, &s->sources, r->diag, r->colours);
  return SESSION_OK;
}

const char *axn_diag_text(AxnSession *a, size_t index) {
  const Diags *diags = session_diags(a->session);
  if (index >= diags->all.len)
    return NULL;
  buffer_free(&a->text);
  RenderRequest r = {&a->text, diags->all.at[index], a->colours};
  SessionStatus status = session_protected_call(a->session, render, &r);
  return status == SESSION_OK ? a->text.text : NULL;
}

static SessionStatus list_json(Session *s, void *arg) {
  Buffer *out = arg;
  buffer_putc(out, '[');
  for (uint32_t i = 0; i < s->diags.all.len; i++) {
    buffer_puts(out, i ? "," : "");
    diag_json(out, &s->sources, s->diags.all.at[i]);
  }
  buffer_putc(out, ']');
  return SESSION_OK;
}

const char *axn_diag_json(AxnSession *a) {
  buffer_free(&a->json);
  SessionStatus status =
      session_protected_call(a->session, list_json, &a->json);
  return status == SESSION_OK ? a->json.text : NULL;
}

AxnCounts axn_session_counts(const AxnSession *a) {
  CheckStats stats = session_stats(a->session);
  return (AxnCounts){stats.proved, stats.deferred, stats.runtime};
}

void axn_interrupt(AxnSession *a) {
  session_interrupt(a->session);
}

/* ---- what stands where ---- */

void axn_session_keep_places(AxnSession *a) {
  a->record_refs = true;
  session_record_refs(a->session);
}
