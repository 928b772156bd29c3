/* The C API (axon.h): inputs of a prompt or a notebook.  Main entry point:
   axn_session_input. */
#include "repl/repl.h"
#include "session/capi.h"
#include "session/state.h"
#include "show/show.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <string.h>

enum { DEFAULT_COLUMNS = 80, MIN_PICTURE_PIXELS = 256 };

typedef struct InputSession {
  Repl repl;
  AxnDisplay display;
  void *owner; /* of display */
  ShowDisplay show;
} InputSession;

/* ---- what the REPL and `show` call ---- */

static void write_text(const Repl *repl, const char *text, size_t len) {
  const AxnSession *a = repl->host.owner;
  if (a->write)
    a->write(a->owner, text, len);
}

static int width(const Repl *repl) {
  const AxnSession *a = repl->host.owner;
  return a->inputs->display.columns;
}

static void give_result(const Repl *repl, const char *name, const char *text,
                        size_t len) {
  const AxnSession *a = repl->host.owner;
  a->inputs->display.result(a->inputs->owner, name, text, len);
}

static void show_results(void *owner, Session *session, const DeclResult *ran) {
  const AxnSession *a = owner;
  (void)session;
  repl_show_results(&a->inputs->repl, ran);
}

/* Takes over the pixels, which are NULL after a fault. */
static bool give_pixels(const InputSession *inputs, Tensor *pixels) {
  if (!pixels)
    return false;
  AxnTensor picture = {.dtype = (AxnDtype)pixels->dtype,
                       .rank = (int32_t)pixels->rank,
                       .shape = pixels->shape,
                       .data = pixels->data,
                       .readonly = true};
  inputs->display.picture(inputs->owner, &picture);
  tensor_release(pixels);
  return true;
}

/* Small images grow by an integer factor. */
static bool give_image(void *owner, const Image *image, int64_t size,
                       Fault *fault) {
  if (size <= 0 && image->width < MIN_PICTURE_PIXELS)
    size = image->width * (MIN_PICTURE_PIXELS / image->width);
  return give_pixels(owner, image_pixels(image, size, fault));
}

/* ---- opening ---- */

static SessionStatus open_inputs(Session *s, void *arg) {
  AxnSession *a = arg;
  InputSession *inputs = NEW(s->arena, InputSession);
  inputs->repl.session = s;
  inputs->repl.loaded_path.arena = s->arena;
  inputs->repl.host =
      (ReplHost){.owner = a, .write = write_text, .width = width};
  inputs->display.columns = DEFAULT_COLUMNS;
  inputs->show = (ShowDisplay){inputs, give_image};
  a->inputs = inputs;
  return SESSION_OK;
}

/* NULL if there is no memory. */
static InputSession *inputs_of(AxnSession *a) {
  if (!a->inputs)
    session_protected_call(a->session, open_inputs, a);
  return a->inputs;
}

AxnStatus axn_session_display(AxnSession *a, const AxnDisplay *display,
                              void *owner) {
  InputSession *inputs = a->is_busy ? NULL : inputs_of(a);
  if (!inputs)
    return a->is_busy ? AXN_BUSY : AXN_ERROR;
  inputs->display = *display;
  inputs->owner = owner;
  if (display->columns <= 0)
    inputs->display.columns = DEFAULT_COLUMNS;
  inputs->repl.host.result = display->result ? give_result : NULL;
  inputs->repl.host.colours = a->colours = display->colours;
  a->show_display = display->picture ? &inputs->show : NULL;
  EvalHost *host = session_eval_host(a->session);
  host->print_width = inputs->display.columns;
  host->figure_colours = display->colours ? COLOURS_256 : COLOURS_NONE;
  return AXN_OK;
}

/* ---- running ---- */

typedef struct CellInput {
  Repl *repl;
  const char *name, *text;
  size_t len;
} CellInput;

static SessionStatus run_cell(Session *s, void *arg) {
  const CellInput *cell = arg;
  const char *text = arena_strndup(s->arena, cell->text, cell->len);
  return repl_run_cell(cell->repl, cell->name, text, cell->len);
}

AxnStatus axn_session_input(AxnSession *a, const char *name, const char *text,
                            size_t len) {
  if (!capi_begin(a))
    return AXN_BUSY;
  InputSession *inputs = inputs_of(a);
  SessionStatus status = SESSION_ERROR;
  if (inputs) {
    CellInput cell = {&inputs->repl, name, text, len};
    a->session->host.on_executed = show_results;
    status = session_protected_call(a->session, run_cell, &cell);
    a->session->host.on_executed = NULL;
  }
  AxnStatus ended = capi_end(a, status);
  session_clear_interrupt(a->session); /* it came too late for this input */
  return ended;
}

AxnStatus axn_input_status(AxnSession *a, const char *text, size_t len) {
  SourceInput source = {.name = "input", .text = text, .len = len};
  source.allow_bare_expressions = true;
  return a->is_busy ? AXN_BUSY
                    : capi_status(session_input_status(a->session, &source));
}

/* ---- names at an offset ---- */

typedef struct OffsetQuery {
  const char *text;
  size_t len, offset;
  InputSession *inputs;
  void (*f)(void *owner, const char *word);
  void *owner;
  size_t start;            /* of the word */
  const char *description; /* or NULL */
} OffsetQuery;

static bool is_word(const char *text, size_t at) {
  return text[at] && !strchr(repl_word_breaks, text[at]);
}

static size_t word_start(const char *text, size_t offset) {
  while (offset > 0 && is_word(text, offset - 1))
    offset--;
  return offset;
}

static SessionStatus complete(Session *s, void *arg) {
  OffsetQuery *query = arg;
  size_t line = query->offset;
  while (line > 0 && query->text[line - 1] != '\n')
    line--;
  query->start = word_start(query->text, query->offset);
  const char *text =
      arena_strndup(s->arena, query->text + line, query->offset - line);
  repl_complete_word(&query->inputs->repl, text, (int)(query->start - line),
                     (int)(query->offset - line), query->f, query->owner);
  return SESSION_OK;
}

/* Describes the word at the offset, or else the word before it in its
   line. */
static SessionStatus describe(Session *s, void *arg) {
  OffsetQuery *query = arg;
  size_t end = query->offset;
  while (end < query->len && is_word(query->text, end))
    end++;
  while (end > 0 && !is_word(query->text, end - 1) &&
         query->text[end - 1] != '\n')
    end--;
  size_t start = word_start(query->text, end);
  if (start == end)
    return SESSION_OK;
  const char *name = arena_strndup(s->arena, query->text + start, end - start);
  Buffer out = {.arena = s->arena};
  if (repl_describe(&query->inputs->repl, name, &out))
    query->description = out.text;
  return SESSION_OK;
}

/* Keeps the diagnostics. */
static bool run_query(AxnSession *a, SessionStatus (*f)(Session *, void *),
                      OffsetQuery *query) {
  query->inputs = a->is_busy ? NULL : inputs_of(a);
  query->start = query->offset;
  if (!query->inputs || query->offset > query->len)
    return false;
  Diags diags = a->session->diags;
  diags_init(&a->session->diags, a->session->arena);
  SessionStatus status = session_protected_call(a->session, f, query);
  a->session->diags = diags;
  return status == SESSION_OK;
}

size_t axn_complete(AxnSession *a, const char *text, size_t len, size_t offset,
                    void (*f)(void *owner, const char *word), void *owner) {
  OffsetQuery query = {
      .text = text, .len = len, .offset = offset, .f = f, .owner = owner};
  run_query(a, complete, &query);
  return query.start;
}

const char *axn_describe(AxnSession *a, const char *text, size_t len,
                         size_t offset) {
  OffsetQuery query = {.text = text, .len = len, .offset = offset};
  return run_query(a, describe, &query) ? query.description : NULL;
}
