/* axon serve MODEL: a model behind HTTP.  Main entry point:
   verb_serve.  The program below computes; serve/ has the connections. */
#include "cli/cli.h"
#include "serve/serve.h"
#include "support/buffer.h"

#include <stdio.h>
#include <stdlib.h>

static void write_program(const Server *server, bool is_encoder, Buffer *to) {
  if (is_encoder)
    buffer_puts(to,
                "do serve.embed (bert.open_model (lists.head (args ())))\n");
  else
    buffer_printf(to,
                  "do serve.run (llama.open_model (lists.head (args ()))) "
                  "%lld\n",
                  (long long)server_page_count(server));
}

typedef struct Limit {
  const char *name, *text;
  int64_t least, most, *value;
} Limit;

/* Returns false after a message. */
static bool take_options(const Options *o, ServeOptions *out) {
  *out = (ServeOptions){.model = o->args[0],
                        .host = o->host ? o->host : "127.0.0.1",
                        .port = 8080,
                        .slots = 16,
                        .queue = 64,
                        .cache = 8192,
                        .most = 1024,
                        .seconds = 600,
                        .body = 1 << 20,
                        .is_quiet = o->quiet};
  const char *key = getenv("AXON_API_KEY");
  out->key = key && *key ? key : NULL;
  const Limit limits[] = {
      {"port", o->port, 0, 65535, &out->port},
      {"slots", o->slots, 1, 64, &out->slots},
      {"queue", o->queue, 0, 100000, &out->queue},
      {"cache", o->cache, 64, 1 << 24, &out->cache},
      {"context", o->context, 16, 1 << 20, &out->context},
      {"tokens", o->tokens, 1, INT32_MAX, &out->most},
      {"timeout", o->timeout, 1, 1 << 24, &out->seconds},
      {"body", o->body, 1, 1 << 28, &out->body},
  };
  for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
    const Limit *l = &limits[i];
    if (!option_integer("serve", l->name, l->text, l->least, l->most, l->value))
      return false;
  }
  return true;
}

static void interrupt(void *session) {
  session_interrupt(session);
}

static int report_fault(const Fault *fault) {
  fprintf(stderr, "axon serve: %s\n", fault->message);
  if (fault->help[0])
    fprintf(stderr, "help: %s\n", fault->help);
  return EXIT_DIAGNOSTICS;
}

/* A signal is the usual end. */
static int serve(Server *server, bool is_encoder, Session *session) {
  Buffer text = {0};
  write_program(server, is_encoder, &text);
  SourceInput input = {.name = "serve", .text = text.text, .len = text.len};
  SessionStatus ended = session_check(session, &input);
  if (ended == SESSION_OK)
    ended = session_run(session);
  bool was_stopped = server_is_stopping(server);
  int status = ended == SESSION_INTERRUPTED && was_stopped
                   ? EXIT_OK
                   : terminal_finish(session, ended, true);
  buffer_free(&text);
  return status;
}

int verb_serve(int argc, char **argv) {
  Options o;
  ServeOptions options;
  Fault fault = {0};
  int status = options_parse(&o, "serve", "Hq", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("serve", "give one model");
  if (!take_options(&o, &options))
    return EXIT_USAGE;
  bool is_encoder = server_is_encoder(o.args[0]);
  if (is_encoder && (o.cache || o.tokens))
    return usage_error("serve",
                       "--cache and --tokens are for models that write texts");
  server_block_signals();
  SessionHost host = terminal_host(o.arg_count, o.args);
  host.eval.next_step = server_next_step;
  host.eval.next_texts = server_next_texts;
  Session *session = terminal_open_session(&host);
  terminal_hide_places();
  options.interrupt = interrupt;
  options.owner = session;
  Server *server = server_start(&options, &fault);
  if (server) {
    session_eval_host(session)->owner = server;
    status = serve(server, is_encoder, session);
    server_close(server);
  } else {
    status = report_fault(&fault);
  }
  session_close(session);
  return status;
}
