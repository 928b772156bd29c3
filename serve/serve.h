/* serve: an HTTP server for one model, which continues texts or computes their
 * embeddings, with the requests of OpenAI's interface.  Main entry points:
 * server_start and server_next_step.
 *
 *   Server *s = server_start(&options, &fault);
 *   ... run a program that calls serve.next or serve.next_texts, with the
 *       functions below as host ...
 *   server_close(s);
 *
 * Threads: the caller's thread computes.  libmicrohttpd has one for
 * connections, and one waits for signals.  All that they share is behind one
 * lock.  A request belongs to its connection and, while it has pages or waits
 * for them, to the scheduler. */
#ifndef AXON_SERVE_H
#define AXON_SERVE_H

#include "eval/eval.h"

typedef struct Server Server;

typedef struct ServeOptions {
  const char *model; /* a .gguf file, or the folder of an encoder */
  const char *host;  /* numeric address */
  const char *key;   /* of AXON_API_KEY; NULL: everybody may ask */
  int64_t port;      /* 0: any that is free */
  int64_t slots;     /* requests in progress */
  int64_t queue;     /* requests that wait */
  int64_t cache;     /* tokens in memory, of all texts */
  int64_t context;   /* tokens of one text; 0: as the model permits */
  int64_t most;      /* tokens of one answer */
  int64_t seconds;   /* for one answer */
  int64_t body;      /* bytes of a request */
  bool is_quiet;
  void (*interrupt)(void *owner); /* ends the program before it is ready */
  void *owner;
} ServeOptions;

enum { SERVE_PAGE = 16 }; /* tokens of a page, as in stdlib/llama.axn */

/* Blocks SIGINT and SIGTERM for this thread and those that it starts: call it
 * first. */
void server_block_signals(void);
/* Listens, and answers that the model is loading.  Returns NULL with a fault if
 * the model cannot be read, a library is missing or the port is taken. */
Server *server_start(const ServeOptions *options, Fault *fault);
/* Does a path name an encoder, whose only answers are embeddings? */
bool server_is_encoder(const char *path);
/* Pages of the pool that the program makes. */
int64_t server_page_count(const Server *s);
/* Callbacks of EvalHost; `server` is a Server. */
void server_next_step(void *server, const int64_t *chosen, int64_t count,
                      ServeStep *step);
void server_next_texts(void *server, const float *rows, int64_t count,
                       int64_t width, ServeTexts *texts);
/* Did a signal ask for the end? */
bool server_is_stopping(Server *s);
/* Ends all connections. */
void server_close(Server *s);

#endif
