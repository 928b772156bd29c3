/* axon generate MODEL PROMPT: a language model continues a text.  Main entry
   point: verb_generate.  The work is done by the module llama. */
#include "cli/cli.h"
#include "support/buffer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char program[] =
    "val (file, prompt) =\n"
    "  case args () of list [x, y] => (x, y) | _ => (\"\", \"\")\n"
    "do llama.write_text ~most:%ld ~seed:%ld (llama.open_model file)\n"
    "  {temperature = %.9f, top_k = %ld, top_p = %.9f, min_p = %.9f,\n"
    "   penalty = %.9f} prompt\n";

/* Reads the value of an option; NULL leaves the default.  Returns false after a
   message if it is not a number from `least` to `most`. */
static bool take_number(const char *name, const char *text, double least,
                        double most, double *value) {
  char *end = NULL;
  if (!text)
    return true;
  errno = 0;
  double x = strtod(text, &end);
  if (!errno && end != text && !*end && x >= least && x <= most) {
    *value = x;
    return true;
  }
  usage_error("generate", "--%s must be a number from %g to %g; found `%s`",
              name, least, most, text);
  return false;
}

static bool take_count(const char *name, const char *text, double least,
                       long *value) {
  double x = (double)*value;
  if (!take_number(name, text, least, INT32_MAX, &x))
    return false;
  *value = (long)x;
  if ((double)*value == x)
    return true;
  usage_error("generate", "--%s must be an integer; found `%s`", name, text);
  return false;
}

/* Returns false after a message. */
static bool write_program(const Options *o, Buffer *to) {
  double temperature = 0, top_p = 1, min_p = 0, penalty = 1;
  long most = 128, seed = 0, top_k = 0;
  if (!take_count("max", o->max_tokens, 1, &most) ||
      !take_count("seed", o->seed, 0, &seed) ||
      !take_count("topk", o->top_k, 0, &top_k) ||
      !take_number("temperature", o->temperature, 0, 100, &temperature) ||
      !take_number("topp", o->top_p, 0, 1, &top_p) ||
      !take_number("minp", o->min_p, 0, 1, &min_p) ||
      !take_number("penalty", o->penalty, 0.01, 100, &penalty))
    return false;
  buffer_printf(to, program, most, seed, temperature, top_k, top_p, min_p,
                penalty);
  return true;
}

int verb_generate(int argc, char **argv) {
  Options o;
  Buffer text = {0};
  int status = options_parse(&o, "generate", "Gq", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 2)
    return usage_error("generate", "give a model and a prompt");
  if (!write_program(&o, &text)) {
    buffer_free(&text);
    return EXIT_USAGE;
  }
  SessionHost host = terminal_host(o.arg_count, o.args);
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  SourceInput input = {.name = "generate", .text = text.text, .len = text.len};
  SessionStatus ended = session_check(session, &input);
  if (ended == SESSION_OK)
    ended = session_run(session);
  status = terminal_finish(session, ended, o.quiet);
  session_close(session);
  buffer_free(&text);
  return status;
}
