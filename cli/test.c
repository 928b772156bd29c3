/* axon test: runs the doctests of a program.  Main entry point: verb_test. */
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/source.h"

#include <string.h>

typedef struct TestRun {
  const Options *options;
  Buffer printed; /* output and value of the current doctest */
  bool in_example;
  uint32_t passed, failed;
} TestRun;

static void capture_output(void *owner, const char *text, size_t len) {
  TestRun *t = owner;
  if (t->in_example)
    buffer_add(&t->printed, text, len);
}

static void capture_value(void *owner, Session *session,
                          const DeclResult *ran) {
  TestRun *t = owner;
  if (!t->in_example || !ran->is_bare_expression || !ran->binding_count)
    return;
  const char *type = session_binding_type(session, ran->bindings[0]);
  if (type && strcmp(type, "unit") != 0)
    session_binding_text(session, ran->bindings[0], &t->printed);
}

/* ---- comparing ---- */

/* The next line of *at without its margins.  Returns false at the end. */
static bool next_line(const char **at, const char **line, size_t *len) {
  const char *p = *at;
  while (*p == '\n')
    p++;
  if (!*p)
    return false;
  const char *end = p + strcspn(p, "\n");
  *at = end;
  while (p < end && *p == ' ')
    p++;
  while (end > p && strchr(" \t\r", end[-1]))
    end--;
  *line = p, *len = (size_t)(end - p);
  return true;
}

/* Compares line by line without margins, since doc comments are indented. */
static bool same_text(const char *got, const char *want) {
  for (;;) {
    const char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    bool more = next_line(&got, &a, &n), more_want = next_line(&want, &b, &m);
    if (!more || !more_want)
      return more == more_want;
    if (n != m || memcmp(a, b, n) != 0)
      return false;
  }
}

/* For a bool, or a tensor of bools. */
static bool has_only_true(const char *got) {
  return strstr(got, "true") && !strstr(got, "false");
}

static void put_indented(const char *text) {
  while (*text) {
    size_t len = strcspn(text, "\n");
    printf("      %.*s\n", (int)len, text);
    text += len + (text[len] != 0);
  }
}

/* ---- running ---- */

static void put_place(Session *session, const DocTest *e, const char *verdict) {
  const Source *source = sources_get(session_sources(session), e->span.file);
  uint32_t line = 0, column = 0;
  if (source)
    source_line_and_column(source, e->span.start, &line, &column);
  printf("%s  %s:%u%s%s\n      >>> %s\n", verdict, source ? source->name : "",
         line, e->name ? "  " : "", e->name ? e->name : "", e->text);
}

static SessionStatus run_example(TestRun *t, Session *session,
                                 const DocTest *e) {
  SourceInput text = {
      .name = "example", .text = e->text, .allow_bare_expressions = true};
  text.len = strlen(e->text);
  t->printed.len = 0;
  buffer_puts(&t->printed, "");
  t->in_example = true;
  SessionStatus status = session_input(session, &text);
  t->in_example = false;
  const char *want = e->expected ? e->expected : "true";
  bool passed = e->expected ? same_text(t->printed.text, want)
                            : has_only_true(t->printed.text);
  if (status == SESSION_OK && passed) {
    t->passed++;
    session_clear_diags(session);
    return status;
  }
  t->failed++;
  put_place(session, e, "FAIL");
  if (status == SESSION_OK) {
    printf("    expected\n");
    put_indented(want);
    printf("    found\n");
    put_indented(t->printed.text);
  }
  if (status == SESSION_EXITED)
    puts("    the example calls exit: later examples are not run");
  if (status == SESSION_INTERRUPTED)
    puts("    interrupted");
  terminal_report(session, true);
  return status;
}

static const char *why_not_run(SessionStatus status) {
  return status == SESSION_EXITED        ? "the program calls exit"
         : status == SESSION_INTERRUPTED ? "interrupted"
                                         : "the file itself fails";
}

static void test_file(TestRun *t, const char *path) {
  SessionHost host = terminal_host(0, NULL);
  host.eval.owner = t;
  host.eval.write = capture_output;
  host.on_executed = capture_value;
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  SourceInput text = {0};
  Buffer program = {0};
  if (!read_program_argument(path, &text, &program)) {
    t->failed++;
    session_close(session);
    return;
  }
  uint32_t passed = t->passed, failed = t->failed, count = 0;
  SessionStatus status = session_check(session, &text);
  if (status == SESSION_OK)
    status = session_run(session);
  terminal_report(session, true);
  if (status == SESSION_OK) {
    const DocTest *examples = session_doc_tests(session, &count);
    for (uint32_t i = 0; i < count && status != SESSION_EXITED; i++)
      status = run_example(t, session, &examples[i]);
  } else if (status != SESSION_EXITED || session_exit_status(session) != 0) {
    printf("FAIL  %s: %s\n", text.name, why_not_run(status));
    t->failed++;
  }
  if (!t->options->quiet)
    printf("%s: %u passed, %u failed\n", text.name, t->passed - passed,
           t->failed - failed);
  buffer_free(&program);
  session_close(session);
}

int verb_test(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "test", "q", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("test", "no file given");
  TestRun t = {.options = &o};
  for (int i = 0; i < o.arg_count; i++)
    test_file(&t, o.args[i]);
  if (o.arg_count > 1)
    printf("%u passed, %u failed\n", t.passed, t.failed);
  buffer_free(&t.printed);
  return terminal_flush(t.failed ? EXIT_DIAGNOSTICS : EXIT_OK);
}
