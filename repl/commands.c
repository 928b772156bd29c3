/* The commands of the REPL: one table, also used by :help and completion.  Main
   entry point: repl_run_command. */
#define _GNU_SOURCE
#include "repl/repl.h"

#include "plan_report/plan_report.h"
#include "support/buffer.h"
#include "support/diag_render.h"
#include "support/utf8.h"

#include "backend/target.h"
#include "lexer/lexer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Command {
  const char *name, *argument, *doc;
  void (*run)(Repl *repl, const char *argument);
} Command;

static void command_help(Repl *repl, const char *argument);

/* ---- types and docs ---- */

static void add_typed(const Repl *repl, const char *name, const char *type,
                      Buffer *out) {
  buffer_printf(out, "%s : ", name);
  type_lay_out(type, utf8_columns(name, strlen(name)) + 3,
               (size_t)repl->host.width(repl), repl->host.colours, out);
  buffer_putc(out, '\n');
}

static void put_typed(const Repl *repl, const char *name, const char *type) {
  Buffer line = {0};
  add_typed(repl, name, type, &line);
  repl->host.write(repl, line.text, line.len);
  buffer_free(&line);
}

static void command_type(Repl *repl, const char *text) {
  const char *type = session_expr_type(repl->session, text, strlen(text));
  repl_report(repl);
  if (type)
    put_typed(repl, text, type);
}

/* Prints only the brackets of a tensor type. */
static void command_shape(Repl *repl, const char *text) {
  const char *type = session_expr_type(repl->session, text, strlen(text));
  repl_report(repl);
  if (!type)
    return;
  size_t name = strspn(type, "'abcdefghijklmnopqrstuvwxyz0123456789");
  size_t end = type[name] == '[' ? strcspn(type, "]") + 1 : 0;
  bool tensor = end && (!type[end] || strncmp(type + end, " given ", 7) == 0);
  if (tensor)
    repl_printf(repl, "%.*s\n", (int)(end - name), type + name);
  else
    repl_printf(repl, "%s\n", type);
}

/* Operators and keywords have no binding. */
static bool describe_operator(const Repl *repl, const char *name, Buffer *out) {
  Buffer full = {0};
  buffer_printf(&full, "op %s", name);
  PrimId id = prim_by_name(full.text);
  buffer_free(&full);
  if (id) {
    add_typed(repl, name, prim_info[id].scheme, out);
    buffer_printf(out, "  %s\n  >>> %s\n", prim_info[id].doc,
                  prim_info[id].example);
    return true;
  }
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (strcmp(lexer_keywords[i].text, name) == 0) {
      buffer_printf(out, "%s is a keyword: see doc/language.md\n", name);
      return true;
    }
  return false;
}

bool repl_describe(const Repl *repl, const char *name, Buffer *out) {
  Binding *binding = session_find_binding(repl->session, name);
  if (!binding) {
    repl_report(repl);
    return describe_operator(repl, name, out);
  }
  const char *type = session_binding_type(repl->session, binding);
  const char *doc = binding_doc(binding);
  PrimId id = prim_by_name(name);
  add_typed(repl, name, type ? type : "?", out);
  if (!doc && id)
    doc = prim_info[id].doc;
  if (doc)
    buffer_printf(out, "  %s\n", doc);
  if (id && prim_info[id].example[0] != '#')
    buffer_printf(out, "  >>> %s\n", prim_info[id].example);
  return true;
}

static void command_doc(Repl *repl, const char *name) {
  Buffer text = {0};
  if (repl_describe(repl, name, &text))
    repl->host.write(repl, text.text, text.len);
  else
    repl_printf(repl, "there is no `%s`\n", name);
  buffer_free(&text);
}

static void explain_type(const Repl *repl, Binding *binding) {
  const Diag *why = session_explain_type(repl->session, binding);
  Buffer text = {0};
  if (why)
    diag_render(&text, session_sources(repl->session), why, repl->host.colours);
  repl_printf(repl, "%s", text.text ? text.text : "");
  buffer_free(&text);
}

static void command_why(Repl *repl, const char *name) {
  Binding *binding = session_find_binding(repl->session, name);
  repl_report(repl);
  if (binding)
    explain_type(repl, binding);
  else
    repl_printf(repl, "there is no `%s`\n", name);
}

/* ---- browsing ---- */

static void browse_own(void *arg, Binding *binding) {
  Repl *repl = arg;
  repl_show(repl, binding, false);
}

typedef struct Browse {
  Repl *repl;
  const char *prefix;
  uint32_t count;
} Browse;

static void browse_name(void *arg, const char *name) {
  Browse *b = arg;
  size_t len = strlen(b->prefix);
  if (strncmp(name, b->prefix, len) != 0 || name[len] != '.')
    return;
  Binding *binding = session_find_binding(b->repl->session, name);
  const char *type =
      binding ? session_binding_type(b->repl->session, binding) : NULL;
  if (type)
    put_typed(b->repl, name, type);
  b->count++;
}

static void command_browse(Repl *repl, const char *module) {
  if (!*module) {
    session_each_binding(repl->session, browse_own, repl);
    return;
  }
  Browse b = {repl, module, 0};
  session_each_name(repl->session, browse_name, &b);
  if (repl->host.report)
    repl->host.report(repl, true);
  if (!b.count)
    repl_printf(repl, "there is no module `%s` in the library\n", module);
}

/* ---- files, time, settings ---- */

static void command_load(Repl *repl, const char *path) {
  repl_load(repl, path);
}

static void command_reload(Repl *repl, const char *argument) {
  (void)argument;
  if (repl->loaded_path.len)
    repl_load(repl, repl->loaded_path.text);
  else
    repl_printf(repl, "no file is loaded: use :load FILE\n");
}

static void command_time(Repl *repl, const char *text) {
  bool before = repl->show_time;
  repl->show_time = true;
  repl_run(repl, "input", text, strlen(text), true);
  repl->show_time = before;
}

static void command_plan(Repl *repl, const char *text) {
  PlanRecorder recorder = {.with_code = false};
  plan_recorder_init(&recorder, repl->session, false, false);
  session_set_observer(repl->session, &recorder.observer);
  repl_run(repl, "input", text, strlen(text), true);
  session_set_observer(repl->session, NULL);
  PlanStyle style = {.colour = repl->host.colours,
                     .stable = repl->host.stable_plans};
  Buffer out = {0};
  plan_text(&out, &recorder, &style);
  repl->host.write(repl, out.text, out.len);
  buffer_free(&out);
  plan_recorder_free(&recorder);
}

static bool parse_number(const char *text, int64_t min, int64_t *out) {
  char *end;
  long long n = strtoll(text, &end, 10);
  if (end == text || *end || n < min || n > 1000000000)
    return false;
  *out = n;
  return true;
}

/* ---- settings ---- */

static bool set_limit(Repl *repl, const char *value) {
  return parse_number(value, 1, &session_eval_host(repl->session)->print_limit);
}

static bool set_width(Repl *repl, const char *value) {
  int64_t n;
  if (!parse_number(value, 20, &n))
    return false;
  session_eval_host(repl->session)->print_width = (int)n;
  return repl->width_set = true;
}

static bool set_time(Repl *repl, const char *value) {
  repl->show_time = strcmp(value, "on") == 0;
  return repl->show_time || strcmp(value, "off") == 0;
}

/* Reports a target that exists but is not available. */
static bool set_target(Repl *repl, const char *value) {
  Fault fault = {0};
  if (session_set_target(repl->session, value, &fault))
    return true;
  if (*fault.message)
    repl_printf(repl, "%s\nhelp: %s\n", fault.message, fault.help);
  return *fault.message;
}

static const struct Setting {
  const char *name;
  bool (*set)(Repl *repl, const char *value);
} settings[] = {
    {"limit", set_limit},
    {"target", set_target},
    {"time", set_time},
    {"width", set_width},
};

static void list_settings(const Repl *repl) {
  const EvalHost *host = session_eval_host(repl->session);
  repl_printf(repl,
              ":set limit N       elements printed before ... (now %lld)\n:set "
              "target NAME   compute with " TARGET_NAMES
              " (now %s)\n:set time on       print the time of each input (now "
              "%s)\n:set width N       columns of a line (now %d)\n",
              (long long)host->print_limit, session_target_name(repl->session),
              repl->show_time ? "on" : "off", host->print_width);
}

static void command_set(Repl *repl, const char *argument) {
  size_t len = strcspn(argument, " ");
  const char *value = argument + len + strspn(argument + len, " ");
  for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
    const struct Setting *s = &settings[k];
    if (strlen(s->name) != len || strncmp(argument, s->name, len) != 0)
      continue;
    if (!s->set(repl, value))
      list_settings(repl);
    return;
  }
  if (len)
    repl_printf(repl, "unknown setting `%.*s`: see :set\n", (int)len, argument);
  else
    list_settings(repl);
}

static void command_quit(Repl *repl, const char *argument) {
  (void)argument;
  repl->done = true;
  repl->last_status = SESSION_EXITED;
}

/* ---- the table ---- */

static const Command commands[] = {
    {":browse", "[MODULE]", "list your names and types, or those of a module",
     command_browse},
    {":doc", "NAME", "show the documentation of a name", command_doc},
    {":help", "", "show this list", command_help},
    {":load", "FILE", "run a file and keep its definitions", command_load},
    {":plan", "EXPR", "show the kernels that compute it", command_plan},
    {":quit", "", "exit (also Ctrl-D)", command_quit},
    {":reload", "", "load the last file again", command_reload},
    {":set", "NAME VALUE", "change limit, target, time, width", command_set},
    {":shape", "EXPR", "show the shape of a value", command_shape},
    {":time", "EXPR", "measure its time", command_time},
    {":type", "EXPR", "show the type without running it", command_type},
    {":why", "NAME", "explain how its type was inferred", command_why},
};

static void command_help(Repl *repl, const char *argument) {
  (void)argument;
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    repl_printf(repl, "%-8s %-10s  %s\n", commands[i].name,
                commands[i].argument, commands[i].doc);
  repl_printf(
      repl,
      "\nOther inputs are definitions or expressions; `it` is the last "
      "value.\nAn incomplete input continues on the next line; an empty line "
      "ends it.\nA line that begins with | continues the previous input, and "
      "|> f\napplies f to `it`.  Commands can be shortened: :t is :type.\n");
}

void repl_each_command(void (*f)(void *, const char *name), void *arg) {
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    f(arg, commands[i].name);
}

/* `:t` means :type, although :time has the same prefix. */
static const Command *find_command(const char *word, size_t len) {
  const Command *found = NULL;
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    if (strncmp(commands[i].name, word, len) == 0)
      if (!found || strcmp(commands[i].name, ":type") == 0)
        found = &commands[i];
  return len > 1 ? found : NULL;
}

void repl_run_command(Repl *repl, const char *line) {
  size_t len = strcspn(line, " \t");
  const Command *command = find_command(line, len);
  if (!command) {
    repl_printf(repl, "unknown command `%.*s`: see :help\n", (int)len, line);
    return;
  }
  Buffer argument = {0};
  buffer_puts(&argument, line + len + strspn(line + len, " \t"));
  while (argument.len && strchr(" \t\r", argument.text[argument.len - 1]))
    argument.text[--argument.len] = 0;
  bool wanted = command->argument[0] && command->argument[0] != '[' &&
                command->run != command_set;
  if (wanted && !argument.len)
    repl_printf(repl, "usage: %s %s\n", command->name, command->argument);
  else
    command->run(repl, argument.text);
  buffer_free(&argument);
}
