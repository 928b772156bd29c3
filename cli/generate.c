/* axon generate MODEL PROMPT: a language model continues a text.  Main entry
   point: verb_generate.  The work is done by the module llama. */
#include "cli/cli.h"
#include "serve/serve.h"
#include "support/buffer.h"

static const char program[] =
    "val (file, prompt) =\n"
    "  case args () of list [x, y] => (x, y) | _ => (\"\", \"\")\n"
    "do llama.write_text ~most:%ld ~seed:%ld (llama.open_model file)\n"
    "  {temperature = %.9f, top_k = %ld, top_p = %.9f, min_p = %.9f,\n"
    "   penalty = %.9f} prompt\n";

/* Returns false after a message. */
static bool write_program(const Options *o, Buffer *to) {
  double temperature = 0, top_p = 1, min_p = 0, penalty = 1;
  int64_t most = 128, seed = 0, top_k = 0;
  const char *verb = "generate";
  if (!option_integer(verb, "max", o->max_tokens, 1, INT32_MAX, &most) ||
      !option_integer(verb, "seed", o->seed, 0, INT32_MAX, &seed) ||
      !option_integer(verb, "topk", o->top_k, 0, INT32_MAX, &top_k) ||
      !option_number(verb, "temperature", o->temperature, 0, 100,
                     &temperature) ||
      !option_number(verb, "topp", o->top_p, 0, 1, &top_p) ||
      !option_number(verb, "minp", o->min_p, 0, 1, &min_p) ||
      !option_number(verb, "penalty", o->penalty, 0.01, 100, &penalty))
    return false;
  buffer_printf(to, program, (long)most, (long)seed, temperature, (long)top_k,
                top_p, min_p, penalty);
  return true;
}

int verb_generate(int argc, char **argv) {
  Options o;
  Buffer text = {0};
  int status = options_parse(&o, "generate", "Gq", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count > 2)
    return usage_error("generate", "give one prompt: quote its words");
  if (o.arg_count < 2)
    return usage_error("generate", "give a model and a prompt");
  if (server_is_encoder(o.args[0]))
    return usage_error("generate",
                       "%s is a folder; a model that writes texts is a .gguf "
                       "file; for embeddings, use `axon embed`",
                       o.args[0]);
  if (!write_program(&o, &text)) {
    buffer_free(&text);
    return EXIT_USAGE;
  }
  SessionHost host = terminal_host(o.arg_count, o.args);
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  terminal_hide_places();
  SourceInput input = {.name = "generate", .text = text.text, .len = text.len};
  SessionStatus ended = session_check(session, &input);
  if (ended == SESSION_OK)
    ended = session_run(session);
  status = terminal_finish(session, ended, o.quiet);
  session_close(session);
  buffer_free(&text);
  return status;
}
