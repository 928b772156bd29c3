/* axon embed MODEL [TEXT...]: embeddings of texts, or the passages of files
   that are nearest to a query.  Main entry point: verb_embed.  The work is done
   by the module bert. */
#include "cli/cli.h"
#include "support/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The arguments: the folder of the model, the query or the output file or "",
   then texts or files. */
static const char arguments[] =
    "val (model, other, words) =\n"
    "  case args () of\n"
    "    model :: other :: words => (bert.open_model model, other, words)\n"
    "  | _ => fail \"no model\"\n";
static const char texts[] =
    "val texts =\n"
    "  if lists.is_empty words then read_lines \"/dev/stdin\" else words\n";

static const char *writer(const Options *o) {
  if (o->output)
    return "do save other (bert.embed model texts)\n";
  return o->json ? "do bert.write_json model texts\n"
                 : "do bert.write_text model texts\n";
}

/* Returns false after a message. */
static bool write_program(const Options *o, Buffer *to) {
  int64_t most = 5;
  if (!option_integer("embed", "passages", o->passages, 1, INT32_MAX, &most))
    return false;
  buffer_puts(to, arguments);
  if (o->search)
    buffer_printf(to, "do bert.search ~most:%ld model other words\n",
                  (long)most);
  else {
    buffer_puts(to, texts);
    buffer_puts(to, writer(o));
  }
  return true;
}

static bool is_file(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 && !S_ISDIR(is.st_mode);
}

static bool is_used_well(const Options *o) {
  if (o->arg_count == 0)
    return usage_error("embed", "no model given"), false;
  if (is_file(o->args[0]))
    return usage_error("embed",
                       "%s is a file; a model for embeddings is a folder; for "
                       "a .gguf file, use `axon generate`",
                       o->args[0]),
           false;
  if (o->search && (o->output || o->json))
    return usage_error("embed", "--search does not go with -o and --json"),
           false;
  if (o->search && o->arg_count == 1)
    return usage_error("embed", "--search needs files to search"), false;
  if (o->output && o->json)
    return usage_error("embed", "--json does not go with -o"), false;
  if (o->passages && !o->search)
    return usage_error("embed", "--passages needs --search"), false;
  return true;
}

static int run(const Options *o, const Buffer *text, char **args) {
  args[0] = o->args[0];
  args[1] = (char *)(o->search ? o->search : o->output ? o->output : "");
  memcpy(args + 2, o->args + 1, (size_t)(o->arg_count - 1) * sizeof *args);
  SessionHost host = terminal_host(o->arg_count + 1, args);
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  terminal_hide_places();
  SourceInput input = {.name = "embed", .text = text->text, .len = text->len};
  SessionStatus ended = session_check(session, &input);
  if (ended == SESSION_OK)
    ended = session_run(session);
  int status = terminal_finish(session, ended, o->quiet);
  session_close(session);
  return status;
}

int verb_embed(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "embed", "MqjO", argc, argv);
  if (status >= 0)
    return status;
  if (!is_used_well(&o))
    return EXIT_USAGE;
  Buffer text = {0};
  char **args = calloc((size_t)o.arg_count + 1, sizeof *args);
  if (!args)
    status = EXIT_INTERNAL;
  else if (!write_program(&o, &text))
    status = EXIT_USAGE;
  else
    status = run(&o, &text, args);
  free(args);
  buffer_free(&text);
  return status;
}
