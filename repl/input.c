/* One input of the REPL, and its results as text.  Main entry points: repl_run
   and repl_show. */
#include "repl/repl.h"

#include "support/clock.h"
#include "support/intern.h"
#include "support/utf8.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

void repl_printf(const Repl *repl, const char *format, ...) {
  Buffer text = {0};
  va_list args;
  va_start(args, format);
  buffer_vprintf(&text, format, args);
  va_end(args);
  if (text.len)
    repl->host.write(repl, text.text, text.len);
  buffer_free(&text);
}

void repl_report(const Repl *repl) {
  if (repl->host.report)
    repl->host.report(repl, false);
}

/* ---- showing ---- */

/* True if there is an arrow outside of brackets and before any `given`. */
static bool is_function(const char *type) {
  int depth = 0;
  for (const char *p = type; *p; p++) {
    depth += strchr("([{", *p) != NULL;
    depth -= strchr(")]}", *p) != NULL;
    if (!depth && strncmp(p, "->", 2) == 0)
      return true;
    if (!depth && strncmp(p, "given ", 6) == 0)
      return false;
  }
  return false;
}

static void add_value(const Repl *repl, const char *text, size_t used,
                      Buffer *out) {
  bool on_own_line =
      strchr(text, '\n') ||
      used + utf8_columns(text, strlen(text)) > (size_t)repl->host.width(repl);
  buffer_printf(out, " =%c%s", on_own_line ? '\n' : ' ', text);
}

static void add_name_and_type(const Repl *repl, const char *keyword,
                              const char *name, const char *type, Buffer *out) {
  bool colour = repl->host.colours;
  Buffer shown = {0};
  buffer_printf(out, "%s%s%s%s : ", keyword, colour ? "\033[1m" : "", name,
                colour ? "\033[0m" : "");
  type_fold(type, SHORT_TYPE_BYTES, &shown);
  type_lay_out(shown.text, strlen(keyword) + strlen(name) + 3,
               (size_t)repl->host.width(repl), colour, out);
  buffer_free(&shown);
}

void repl_show(const Repl *repl, Binding *binding, bool value) {
  const char *name = binding_name(binding)->text;
  const char *type = session_binding_type(repl->session, binding);
  if (!type)
    return;
  bool is_it = strcmp(name, "it") == 0;
  const char *keyword = is_it ? "" : "val ";
  Buffer text = {0}, out = {0};
  bool shows_value = value && !is_function(type);
  if (shows_value && !session_binding_text(repl->session, binding, &text)) {
    buffer_free(&text);
    return;
  }
  add_name_and_type(repl, keyword, name, type, &out);
  if (shows_value && text.text)
    add_value(repl, text.text,
              strlen(keyword) + strlen(name) + strlen(type) + 6, &out);
  buffer_putc(&out, '\n');
  if (repl->host.result && value)
    repl->host.result(repl, name, out.text, out.len);
  else
    repl->host.write(repl, out.text, out.len);
  buffer_free(&text);
  buffer_free(&out);
}

void repl_show_results(const Repl *repl, const DeclResult *ran) {
  repl_report(repl);
  for (uint32_t i = 0; i < ran->binding_count; i++) {
    Binding *binding = ran->bindings[i];
    const char *type = session_binding_type(repl->session, binding);
    if (!ran->is_bare_expression || (type && strcmp(type, "unit") != 0))
      repl_show(repl, binding, true);
  }
  repl_report(repl);
}

/* ---- running ---- */

static void finish_input(Repl *repl, SessionStatus status) {
  repl->last_status = status;
  repl_report(repl);
  if (status == SESSION_INTERRUPTED)
    repl_printf(repl, "%sinterrupted\n",
                repl->host.echoes_interrupt ? "\n" : "");
  if (status == SESSION_EXITED)
    repl->done = true;
}

SessionStatus repl_run(Repl *repl, const char *name, const char *text,
                       size_t len, bool final) {
  SourceInput source = {.name = name, .text = text, .len = len};
  source.allow_bare_expressions = true;
  source.is_complete = final;
  double start = clock_seconds();
  SessionStatus status = session_input(repl->session, &source);
  if (status == SESSION_INCOMPLETE)
    return status;
  finish_input(repl, status);
  uint32_t rest = session_unrun_dec_count(repl->session);
  if (rest && (status == SESSION_ERROR || status == SESSION_INTERRUPTED))
    repl_printf(repl, "%u declaration%s after it %s not run\n", rest,
                rest == 1 ? "" : "s", rest == 1 ? "was" : "were");
  if (repl->show_time)
    repl_printf(repl, "%.3f s\n", clock_seconds() - start);
  return status;
}

void repl_load(Repl *repl, const char *path) {
  SourceInput source = {.name = path};
  session_forget_imports(repl->session);
  SessionStatus status = session_check(repl->session, &source);
  if (status == SESSION_OK)
    status = session_run(repl->session);
  finish_input(repl, status);
  if (path != repl->loaded_path.text && access(path, R_OK) == 0) {
    repl->loaded_path.len = 0;
    buffer_puts(&repl->loaded_path, path);
  }
}
