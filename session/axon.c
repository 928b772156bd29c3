/* axon.h: the part of a session that others link. */
#include "session/outside.h"

#include "session/internal.h"

#include <string.h>

const char *axn_version(void) { return AXON_VERSION; }

int axn_abi(void) { return AXN_ABI; }

static void host_write(void *owner, const char *text, size_t len) {
  AxnSession *a = owner;
  if (a->write)
    a->write(a->owner, text, len);
}

static bool host_show(void *owner, const Tensor *t, const char *kind,
                      const char *file, int64_t size, Fault *fault) {
  (void)owner, (void)t, (void)kind, (void)file, (void)size;
  fault_set(fault, "there is no screen to show this on");
  return false;
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

void axon_forget(AxnSession *a) {
  session_clear_diags(a->session);
  if (a->arena)
    arena_free(a->arena);
  a->arena = NULL;
  a->told.at = NULL;
  a->told.len = a->told.cap = 0;
}

void axn_session_free(AxnSession *a) {
  if (!a)
    return;
  axon_forget(a);
  session_close(a->session);
  buffer_free(&a->text);
  buffer_free(&a->json);
  mem_free(a);
}

void axn_session_output(AxnSession *a,
                        void (*write)(void *owner, const char *text,
                                      size_t len),
                        void *owner) {
  a->write = write;
  a->owner = owner;
}

AxnStatus axon_status(SessionStatus status) {
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

static SessionStatus tell_error(Session *s, void *arg) {
  const ErrorText *t = arg;
  Diag *diag = session_error(s, t->code, (Span){0}, "%s", t->message);
  if (t->help && *t->help)
    diag->help = arena_text(s->arena, t->help, strlen(t->help));
  return SESSION_ERROR;
}

void axon_error(AxnSession *a, uint16_t code, const char *help,
                const char *format, ...) {
  char message[512];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  ErrorText telling = {code, message, help};
  if (!a->busy)
    axon_forget(a);
  session_guard(a->session, tell_error, &telling);
}

bool axon_begin(AxnSession *a) {
  if (a->busy)
    return false;
  axon_forget(a);
  a->busy = true;
  signal_begin(a);
  return true;
}

AxnStatus axon_end(AxnSession *a, SessionStatus status) {
  signal_end(a);
  interrupt_watch(NULL); /* the session may be freed by another thread */
  a->busy = false;
  return axon_status(status);
}

/* What was known of the text before is known no longer. */
static bool begin_text(AxnSession *a) {
  if (!axon_begin(a))
    return false;
  if (a->places)
    session_keep_places(a->session);
  return true;
}

AxnStatus axn_session_check(AxnSession *a, const char *name, const char *text,
                            size_t len) {
  SessionText source = {.name = name, .text = text, .len = len, .bare = true};
  if (!begin_text(a))
    return AXN_BUSY;
  SessionStatus status = session_check(a->session, &source);
  session_drop_waiting(a->session);
  return axon_end(a, status);
}

AxnStatus axn_session_run(AxnSession *a, const char *name, const char *text,
                          size_t len) {
  SessionText source = {.name = name, .text = text, .len = len, .bare = true};
  if (!begin_text(a))
    return AXN_BUSY;
  SessionStatus status = session_check(a->session, &source);
  if (status == SESSION_OK)
    status = session_run(a->session);
  return axon_end(a, status);
}

int axn_exit_status(const AxnSession *a) {
  return session_exit_status(a->session);
}

const char *axn_session_type(AxnSession *a, const char *name) {
  Binding *binding = session_find(a->session, name);
  return binding ? session_binding_type(a->session, binding) : NULL;
}

size_t axn_session_leaves(AxnSession *a, const char *expression, AxnLeaf *out,
                          size_t most, const char **total) {
  Leaves leaves = {0};
  session_clear_diags(a->session);
  if (!session_leaves(a->session, expression, strlen(expression), &leaves))
    return 0;
  for (uint32_t i = 0; i < leaves.count && i < most; i++)
    out[i] = (AxnLeaf){leaves.at[i].path, leaves.at[i].type,
                       leaves.at[i].count};
  if (total)
    *total = leaves.total;
  return leaves.count;
}

typedef struct PrintedCopy {
  const Buffer *text;
  const char *copy;
} PrintedCopy;

static SessionStatus keep(Session *s, void *arg) {
  PrintedCopy *kept = arg;
  kept->copy = arena_text(s->arena, kept->text->text, kept->text->len);
  return SESSION_OK;
}

const char *axn_session_print(AxnSession *a, const char *name) {
  Binding *binding = session_find(a->session, name);
  Buffer out = {0};
  PrintedCopy kept = {&out, NULL};
  if (binding && session_binding_text(a->session, binding, &out) && out.text)
    session_guard(a->session, keep, &kept);
  buffer_free(&out);
  return kept.copy;
}

/* ---- diagnostics ---- */

size_t axn_diag_count(const AxnSession *a) {
  return session_diags(a->session)->all.len;
}

static AxnPlace place_of(const Sources *sources, Span span) {
  AxnPlace place = {0};
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  if (!source)
    return place;
  place.file = source->name;
  place.start = span.start;
  place.end = span.end;
  source_place(source, span.start, &place.line, &place.column);
  source_place(source, span.end, &place.end_line, &place.end_column);
  return place;
}

static const AxnStep *steps_of(Arena *arena, const Sources *sources,
                               const Diag *diag) {
  AxnStep *steps = NEW_ARRAY(arena, AxnStep, diag->step_count);
  for (uint32_t i = 0; i < diag->step_count; i++) {
    const DiagStep *step = &diag->steps[i];
    steps[i] = (AxnStep){.place = place_of(sources, step->span),
                         .expression =
                             source_excerpt(arena, sources, step->span),
                         .shape = step->shape,
                         .arithmetic = step->text};
  }
  return steps;
}

static const AxnMark *marks_of(Arena *arena, const Sources *sources,
                               const Diag *diag) {
  AxnMark *marks = NEW_ARRAY(arena, AxnMark, diag->mark_count);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    marks[i] = (AxnMark){place_of(sources, diag->marks[i].span),
                         diag->marks[i].label};
  return marks;
}

static const AxnFix *fixes_of(Arena *arena, const Sources *sources,
                              const Diag *diag) {
  AxnFix *fixes = NEW_ARRAY(arena, AxnFix, diag->fix_count);
  for (uint32_t i = 0; i < diag->fix_count; i++) {
    const DiagFix *fix = &diag->fixes[i];
    AxnEdit *edits = NEW_ARRAY(arena, AxnEdit, fix->edit_count);
    for (uint32_t k = 0; k < fix->edit_count; k++)
      edits[k] = (AxnEdit){place_of(sources, fix->edits[k].span),
                           fix->edits[k].text};
    fixes[i] = (AxnFix){fix->title, edits, fix->edit_count};
  }
  return fixes;
}

static AxnDiag *diag_of(Arena *arena, const Sources *sources,
                        const Diag *diag) {
  AxnDiag *out = NEW(arena, AxnDiag);
  *out = (AxnDiag){
      .severity = (AxnSeverity)diag->severity,
      .code = diag->code,
      .message = diag->message,
      .place = place_of(sources, diag->span),
      .label = diag->label,
      .note = diag->note,
      .help = diag->help,
      .witness = diag->witness,
      .found = diag->found,
      .expected = diag->expected,
      .axis = diag->axis,
      .steps = steps_of(arena, sources, diag),
      .step_count = diag->step_count,
      .marks = marks_of(arena, sources, diag),
      .mark_count = diag->mark_count,
      .fixes = fixes_of(arena, sources, diag),
      .fix_count = diag->fix_count,
  };
  return out;
}

typedef struct Telling {
  AxnSession *of;
  size_t most;
} Telling;

static SessionStatus tell(Session *s, void *arg) {
  const Telling *t = arg;
  AxnSession *a = t->of;
  const Diags *diags = session_diags(s);
  if (!a->arena)
    a->arena = arena_new();
  while (a->told.len <= t->most) {
    AxnDiag *diag =
        diag_of(a->arena, &s->sources, diags->all.at[a->told.len]);
    VEC_PUSH(a->arena, a->told, diag);
  }
  return SESSION_OK;
}

const AxnDiag *axn_diag_get(AxnSession *a, size_t index) {
  if (index >= axn_diag_count(a))
    return NULL;
  Telling telling = {a, index};
  if (index >= a->told.len &&
      session_guard(a->session, tell, &telling) != SESSION_OK)
    return NULL;
  return a->told.at[index];
}

typedef struct Rendered {
  Buffer *out;
  const Diag *diag;
} Rendered;

static SessionStatus render(Session *s, void *arg) {
  Rendered *r = arg;
  diag_render(r->out, &s->sources, r->diag, false);
  return SESSION_OK;
}

const char *axn_diag_text(AxnSession *a, size_t index) {
  const Diags *diags = session_diags(a->session);
  if (index >= diags->all.len)
    return NULL;
  buffer_free(&a->text);
  Rendered r = {&a->text, diags->all.at[index]};
  SessionStatus status = session_guard(a->session, render, &r);
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
  SessionStatus status = session_guard(a->session, list_json, &a->json);
  return status == SESSION_OK ? a->json.text : NULL;
}

AxnCounts axn_session_counts(const AxnSession *a) {
  CheckStats stats = session_stats(a->session);
  return (AxnCounts){stats.proved, stats.carried, stats.open};
}

void axn_interrupt(AxnSession *a) { session_interrupt(a->session); }

/* ---- what stands where ---- */

void axn_session_keep_places(AxnSession *a) {
  a->places = true;
  session_keep_places(a->session);
}

static const Place *name_at(AxnSession *a, size_t offset) {
  return session_name_at(a->session, session_file(a->session),
                         (uint32_t)offset);
}

const char *axn_type_at(AxnSession *a, size_t offset, AxnPlace *place) {
  const Place *p = name_at(a, offset);
  const char *type = p ? session_place_type(a->session, p) : NULL;
  if (!type) {
    p = session_expr_at(a->session, (uint32_t)offset);
    type = p ? session_place_type(a->session, p) : NULL;
  }
  if (type && place)
    *place = place_of(session_sources(a->session), p->span);
  return type;
}

bool axn_definition_at(AxnSession *a, size_t offset, AxnPlace *out) {
  const Place *p = name_at(a, offset);
  Span span = p ? session_definition(a->session, p) : (Span){0};
  *out = place_of(session_sources(a->session), span);
  return out->file;
}

typedef struct Uses {
  AxnSession *session;
  void (*f)(void *, const AxnPlace *);
  void *owner;
  size_t count;
} Uses;

static void tell_use(void *arg, const Place *p) {
  Uses *u = arg;
  AxnPlace place = place_of(session_sources(u->session->session), p->span);
  u->f(u->owner, &place);
  u->count++;
}

size_t axn_uses_at(AxnSession *a, size_t offset,
                   void (*f)(void *owner, const AxnPlace *place),
                   void *owner) {
  const Place *p = name_at(a, offset);
  Uses uses = {a, f, owner, 0};
  if (p)
    session_each_use(a->session, p, tell_use, &uses);
  return uses.count;
}

typedef struct Shapes {
  AxnSession *session;
  void (*f)(void *, const AxnShape *);
  void *owner;
} Shapes;

static void tell_shape(void *arg, const Hint *hint) {
  const Shapes *s = arg;
  Span at = {session_file(s->session->session), hint->at, hint->at};
  AxnShape shape = {.type = hint->type, .stage = hint->kind == HINT_STAGE};
  shape.place = place_of(session_sources(s->session->session), at);
  s->f(s->owner, &shape);
}

void axn_each_shape(AxnSession *a,
                    void (*f)(void *owner, const AxnShape *shape),
                    void *owner) {
  Shapes shapes = {a, f, owner};
  session_each_hint(a->session, 0, UINT32_MAX, false, tell_shape, &shapes);
}
