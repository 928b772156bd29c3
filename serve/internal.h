/* Shared by the files of serve/. */
#ifndef AXON_SERVE_INTERNAL_H
#define AXON_SERVE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/tokenizer.h"
#include "serve/mhd.h"
#include "serve/pages.h"
#include "serve/serve.h"
#include "support/buffer.h"

typedef struct Request Request;

/* ---- errors of a request ---- */

typedef struct HttpError {
  unsigned status;                     /* 0: none */
  const char *type, *code, *parameter; /* code, parameter: or NULL */
  char message[256];
} HttpError;

PRINTF_LIKE(4, 5)
void http_error(HttpError *e, unsigned status, const char *parameter,
                const char *format, ...);

/* ---- requests ---- */

enum {
  MAX_STOPS = 4,
  MAX_STOP_BYTES = 256,
  MAX_INPUTS = 2048,
  CHOICE_NUMBERS = 5
};
enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, PENALTY }; /* as in serve.axn */

typedef enum RequestKind {
  REQUEST_NONE,
  REQUEST_COMPLETION,
  REQUEST_CHAT,
  REQUEST_EMBEDDING,
  REQUEST_KINDS
} RequestKind;

typedef enum RequestState {
  REQUEST_WAITS,
  REQUEST_RUNS,
  REQUEST_ENDED,
} RequestState;

/* The text that tokens make, as stdlib/tokenizer.axn's `next` does. */
typedef struct TextStream {
  size_t from, before; /* tokens: of the next text, and before it */
} TextStream;

/* Where the tokens of an input are. */
typedef struct InputSpan {
  int64_t start, length, input;
} InputSpan;

struct Request {
  Request *next; /* in the queue, or among those that run */
  /* what is asked */
  int64_t number;
  RequestKind kind;
  bool is_stream, wants_usage;
  int64_t most;
  float choice[CHOICE_NUMBERS];
  int64_t seed;
  char *stops[MAX_STOPS];
  /* tokens of the prompt, or of all inputs; then of the answer */
  int64_t *tokens, token_count, prompt_count;
  /* state */
  RequestState state;
  bool has_connection, in_scheduler, is_cancelled;
  int64_t computed; /* tokens in the pool */
  int64_t *pages, page_count;
  int64_t fresh;   /* the first page that it does not share */
  bool has_pages;  /* the fresh ones are cleared */
  uint64_t prefix; /* the number of its text up to the last full page */
  double arrived, first;
  /* inputs of REQUEST_EMBEDDING */
  InputSpan *spans; /* in order of length */
  int64_t input_count, done_count;
  float *rows; /* of `width` numbers for each input; NULL: none is done */
  int64_t width;
  bool wants_base64;
  /* the answer */
  TextStream stream;
  Buffer text;        /* all of it */
  size_t told;        /* bytes of `text` in events */
  const char *reason; /* why it ended */
  HttpError error;    /* it ended without an answer */
  Buffer events;      /* for a streaming connection; from `sent` on */
  size_t sent;
  /* the connection */
  struct MHD_Connection *connection;
  int socket;
  bool is_suspended, has_begun; /* the head of the events was written */
};

void request_free(Request *r);

/* ---- the server ---- */

typedef struct Metrics {
  int64_t answers, errors, cancelled, prompt_tokens, shared_tokens, tokens;
  int64_t steps, firsts, texts;
  double step_seconds, first_seconds;
} Metrics;

struct Server {
  ServeOptions options;
  char *name; /* of the model, as clients give it */
  bool is_encoder;
  int64_t width; /* numbers of an embedding */
  int64_t tokenizer, vocabulary;
  int64_t stop_tokens[8], stop_count;
  bool has_template;
  int64_t message_start, message_end; /* tokens of the template */
  char *system_message;               /* the model's own; or NULL */
  int64_t created;                    /* Unix time */
  struct MHD_Daemon *daemon;
  pthread_t signals;
  bool has_signals;
  /* ---- behind the lock ---- */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool is_ready, is_stopping, is_closing; /* closing: nothing may finish */
  double stop_at; /* when requests that still run are cancelled */
  int64_t last_number;
  Request *queue, *running; /* in order of arrival */
  int64_t queue_length, running_count;
  int64_t open_count; /* requests whose connection is open */
  Pages *pages;
  int64_t page_count;
  bool *is_dirty; /* for each page: it was used, and not cleared since */
  Metrics metrics;
  /* the arrays of a step: the scheduler's thread only */
  struct StepArrays *arrays;
  struct TextArrays *text_arrays;
};

/* ---- model.c: what the server reads from the file itself ---- */

bool server_read_model(Server *s, Fault *fault);
typedef struct Message {
  const char *role, *text;
} Message;
/* The tokens of a conversation.  Special tokens in the texts are ordinary
 * text. */
bool model_chat_tokens(const Server *s, const Message *messages, size_t count,
                       TokenIds *out, Fault *fault);
bool model_is_stop(const Server *s, int64_t token);

/* ---- parse.c ---- */

/* The request in a body.  Returns NULL with an error. */
Request *request_parse(const Server *s, RequestKind kind, const char *body,
                       size_t len, HttpError *error);

/* ---- text.c ---- */

/* The token behind the others has come: extends the text, and ends the request
 * at a stop text.  Raises when out of memory. */
void request_add_token(const Server *s, Request *r, int64_t token);
/* How many bytes of the text will stay, even if a stop text follows. */
size_t request_certain_bytes(const Request *r);

/* ---- answer.c: answers as JSON ---- */

void answer_whole(const Server *s, const Request *r, Buffer *out);
/* Adds events for what is new. */
void answer_events(const Server *s, Request *r);
void answer_error(const HttpError *e, Buffer *out);
void answer_models(const Server *s, bool is_list, Buffer *out);
void answer_metrics(const Server *s, Buffer *out);

/* ---- scheduler.c; the caller has the lock ---- */

/* Returns false with an error if the queue is full, or the server stops. */
bool scheduler_add(Server *s, Request *r, HttpError *error);
/* The connection is gone. */
void scheduler_release(Server *s, Request *r);
/* Ends requests that are answered, gone, or must not go on. */
void scheduler_end_all(Server *s);
void scheduler_free(Server *s);
bool scheduler_new(Server *s);
/* The model can compute a step. */
void scheduler_note_ready(Server *s);
/* Waits until there is some text to compute.  Returns false at the end. */
bool scheduler_wait(Server *s);

/* ---- embedding.c ---- */

void embedding_new(Server *s);
void embedding_free(Server *s);

/* ---- http.c ---- */

bool http_start(Server *s, Fault *fault);
int http_port(const Server *s);
/* Lets the connection of a request go on; the caller has the lock. */
void http_wake(Request *r);
/* Has the client closed its side? */
bool http_is_closed(const Request *r);

extern const char serve_page[]; /* page.html */

#endif
