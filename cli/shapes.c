/* axon shapes: the tensors of a type, and how many elements they have. */
#include "cli/cli.h"

#include <string.h>

static int width_of(const char *text, int least) {
  int width = utf8_width(text, strlen(text));
  return width > least ? width : least;
}

/* `text`, with blanks up to a width. */
static void put_padded(const char *text, int width) {
  printf("%s%*s", text, width - width_of(text, 0), "");
}

static void print_leaves(const char *name, const Leaves *leaves) {
  int path = width_of("total", 0), type = 0;
  int count = width_of(leaves->total, 0);
  for (uint32_t i = 0; i < leaves->count; i++) {
    const Leaf *leaf = &leaves->at[i];
    path = width_of(leaf->path, path);
    type = width_of(leaf->type, type);
    count = width_of(leaf->count ? leaf->count : "-", count);
  }
  puts(name);
  for (uint32_t i = 0; i < leaves->count; i++) {
    const Leaf *leaf = &leaves->at[i];
    const char *number = leaf->count ? leaf->count : "-";
    printf("  ");
    put_padded(leaf->path, path);
    printf("  ");
    put_padded(leaf->type, type);
    printf("  %*s%s\n", count - width_of(number, 0), "", number);
  }
  printf("  ");
  put_padded("total", path);
  printf("  %*s  %*s%s\n", type, "", count - width_of(leaves->total, 0), "",
         leaves->total);
}

static bool list_expr(Session *session, const char *text) {
  Leaves leaves;
  if (!session_leaves(session, text, strlen(text), &leaves))
    return false;
  print_leaves(text, &leaves);
  return true;
}

/* Definitions without a tensor are not worth a word. */
static void list_own(void *arg, Binding *binding) {
  Session *session = arg;
  const char *name = binding_name(binding)->text;
  Leaves leaves;
  bool any = false;
  if (!session_leaves(session, name, strlen(name), &leaves))
    return;
  for (uint32_t i = 0; i < leaves.count; i++)
    any |= leaves.at[i].count != NULL;
  if (any)
    print_leaves(name, &leaves);
}

int verb_shapes(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "shapes", "D", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("shapes", "which file?");
  SessionHost host = host_terminal(0, NULL);
  Session *session = host_open(&host);
  host_apply_defines(session, &o);
  SessionText text = {0};
  Buffer program = {0};
  bool ok = host_text(o.args[0], &text, &program) &&
            session_check(session, &text) == SESSION_OK;
  session_drop_waiting(session);
  host_note_defines(session, &o);
  ok = ok && host_defines_met(&o);
  for (int i = 1; ok && i < o.arg_count; i++)
    ok = list_expr(session, o.args[i]);
  if (ok && o.arg_count == 1)
    session_each_own(session, list_own, session);
  host_report(session, true);
  session_close(session);
  buffer_free(&program);
  return host_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
