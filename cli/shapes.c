/* axon shapes: lists the tensors of a type with their numbers of elements.
   Main entry point: verb_shapes. */
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/utf8.h"

#include <string.h>

static int max_width(const char *text, int min_width) {
  int width = utf8_columns(text, strlen(text));
  return width > min_width ? width : min_width;
}

/* Prints text, padded with blanks to a width. */
static void put_padded(const char *text, int width) {
  printf("%s%*s", text, width - max_width(text, 0), "");
}

static void print_leaves(const char *name, const TypeLeaves *leaves) {
  int path = max_width("total", 0), type = 0;
  int count = max_width(leaves->total_elements, 0);
  for (uint32_t i = 0; i < leaves->count; i++) {
    const TypeLeaf *leaf = &leaves->leaves[i];
    path = max_width(leaf->path, path);
    type = max_width(leaf->type, type);
    count = max_width(leaf->element_count ? leaf->element_count : "-", count);
  }
  puts(name);
  for (uint32_t i = 0; i < leaves->count; i++) {
    const TypeLeaf *leaf = &leaves->leaves[i];
    const char *number = leaf->element_count ? leaf->element_count : "-";
    printf("  ");
    put_padded(leaf->path, path);
    printf("  ");
    put_padded(leaf->type, type);
    printf("  %*s%s\n", count - max_width(number, 0), "", number);
  }
  printf("  ");
  put_padded("total", path);
  printf("  %*s  %*s%s\n", type, "",
         count - max_width(leaves->total_elements, 0), "",
         leaves->total_elements);
}

static bool list_expr(Session *session, const char *text) {
  TypeLeaves leaves;
  if (!session_type_leaves(session, text, strlen(text), &leaves))
    return false;
  print_leaves(text, &leaves);
  return true;
}

/* Omits definitions without a tensor. */
static void list_own(void *arg, Binding *binding) {
  Session *session = arg;
  const char *name = binding_name(binding)->text;
  TypeLeaves leaves;
  bool any = false;
  if (!session_type_leaves(session, name, strlen(name), &leaves))
    return;
  for (uint32_t i = 0; i < leaves.count; i++)
    any |= leaves.leaves[i].element_count != NULL;
  if (any)
    print_leaves(name, &leaves);
}

int verb_shapes(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "shapes", "D", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count)
    return usage_error("shapes", "no file given");
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  terminal_apply_defines(session, &o);
  SourceInput text = {0};
  Buffer program = {0};
  bool ok = read_program_argument(o.args[0], &text, &program) &&
            session_check(session, &text) == SESSION_OK;
  session_discard_pending(session);
  terminal_match_defines(session, &o);
  ok = ok && terminal_defines_matched(&o);
  for (int i = 1; ok && i < o.arg_count; i++)
    ok = list_expr(session, o.args[i]);
  if (ok && o.arg_count == 1)
    session_each_binding(session, list_own, session);
  terminal_report(session, true);
  session_close(session);
  buffer_free(&program);
  return terminal_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
