/* Connections: routes, bodies, answers.  libmicrohttpd calls `handle` several
 * times for a request: for its head, for the parts of its body, at its end, and
 * again when it is resumed. */
#include "serve/internal.h"
#include "support/mem.h"
#include "support/trap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum {
  IDLE_SECONDS = 30, /* without a byte in either direction */
  CONNECTIONS = 256,
  EVENT_BLOCK = 16 * 1024
};

/* A request of HTTP. */
typedef struct Exchange {
  Server *server;
  Buffer body;
  bool is_too_long;
  Request *request; /* whose answer it waits for; or NULL */
} Exchange;

/* ---- answers ---- */

typedef enum MHD_Result Result;

static Result send_text(struct MHD_Connection *c, unsigned status,
                        const char *type, const char *text, size_t len) {
  struct MHD_Response *response = mhd.MHD_create_response_from_buffer(
      len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
  if (!response)
    return MHD_NO;
  mhd.MHD_add_response_header(response, "Content-Type", type);
  mhd.MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (status == 401)
    mhd.MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (status == 413)
    mhd.MHD_add_response_header(response, "Connection", "close");
  if (status == 429)
    mhd.MHD_add_response_header(response, "Retry-After", "1");
  Result sent = mhd.MHD_queue_response(c, status, response);
  mhd.MHD_destroy_response(response);
  return sent;
}

static Result send_buffer(struct MHD_Connection *c, const char *type,
                          Buffer *text) {
  Result sent = send_text(c, 200, type, text->text, text->len);
  buffer_free(text);
  return sent;
}

static Result send_error(struct MHD_Connection *c, const HttpError *e) {
  Buffer text = {0};
  answer_error(e, &text);
  Result sent =
      send_text(c, e->status, "application/json", text.text, text.len);
  buffer_free(&text);
  return sent;
}

/* ---- streams ---- */

/* Gives the connection the next bytes of the events of a request.  Without any,
 * it sleeps until http_wake. */
static ssize_t read_events(void *owner, uint64_t at, char *to, size_t most) {
  Exchange *x = owner;
  Request *r = x->request;
  (void)at;
  pthread_mutex_lock(&x->server->lock);
  size_t left = r->events.len - r->sent, n = left < most ? left : most;
  ssize_t result = (ssize_t)n;
  if (n) {
    memcpy(to, r->events.text + r->sent, n);
    r->sent += n;
  } else if (r->state == REQUEST_ENDED) {
    result = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    r->is_suspended = true;
    mhd.MHD_suspend_connection(r->connection);
  }
  if (r->sent == r->events.len)
    r->sent = r->events.len = 0;
  pthread_mutex_unlock(&x->server->lock);
  return result;
}

static Result send_events(struct MHD_Connection *c, Exchange *x) {
  struct MHD_Response *response = mhd.MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, EVENT_BLOCK, read_events, x, NULL);
  if (!response)
    return MHD_NO;
  mhd.MHD_add_response_header(response, "Content-Type", "text/event-stream");
  mhd.MHD_add_response_header(response, "Cache-Control", "no-cache");
  Result sent = mhd.MHD_queue_response(c, 200, response);
  mhd.MHD_destroy_response(response);
  return sent;
}

void http_wake(Request *r) {
  if (!r->is_suspended)
    return;
  r->is_suspended = false;
  mhd.MHD_resume_connection(r->connection);
}

/* A sleeping connection is not watched by libmicrohttpd. */
bool http_is_closed(const Request *r) {
  char byte;
  if (!r->has_connection || !r->is_suspended)
    return !r->has_connection;
  ssize_t n = recv(r->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

/* ---- routes ---- */

/* Sends the answer of a request that has ended. */
static Result send_answer(struct MHD_Connection *c, Exchange *x) {
  Request *r = x->request;
  if (r->error.status)
    return send_error(c, &r->error);
  Buffer text = {0};
  answer_whole(x->server, r, &text);
  return send_buffer(c, "application/json", &text);
}

static Result begin_request(struct MHD_Connection *c, Exchange *x, Request *r,
                            HttpError *error) {
  Server *s = x->server;
  const union MHD_ConnectionInfo *info =
      mhd.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
  r->connection = c;
  r->socket = info ? info->connect_fd : -1;
  pthread_mutex_lock(&s->lock);
  bool added = scheduler_add(s, r, error);
  if (added && !r->is_stream) {
    r->is_suspended = true;
    mhd.MHD_suspend_connection(c);
  }
  pthread_mutex_unlock(&s->lock);
  if (!added) {
    request_free(r);
    return send_error(c, error);
  }
  x->request = r;
  return r->is_stream ? send_events(c, x) : MHD_YES;
}

static Result compute(struct MHD_Connection *c, Exchange *x, RequestKind kind) {
  HttpError error = {0};
  const char *type =
      mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Type");
  static const char json[] = "application/json";
  /* Another type could come from a form of any page in the web. */
  if (!type || strncasecmp(type, json, strlen(json)) != 0) {
    http_error(&error, 415, NULL, "the Content-Type must be %s", json);
    return send_error(c, &error);
  }
  Request *r =
      request_parse(x->server, kind, x->body.text, x->body.len, &error);
  return r ? begin_request(c, x, r, &error) : send_error(c, &error);
}

static Result chat(struct MHD_Connection *c, Exchange *x) {
  return compute(c, x, REQUEST_CHAT);
}

static Result completion(struct MHD_Connection *c, Exchange *x) {
  return compute(c, x, REQUEST_COMPLETION);
}

static Result embedding(struct MHD_Connection *c, Exchange *x) {
  return compute(c, x, REQUEST_EMBEDDING);
}

static Result page(struct MHD_Connection *c, Exchange *x) {
  (void)x;
  return send_text(c, 200, "text/html; charset=utf-8", serve_page,
                   strlen(serve_page));
}

static Result health(struct MHD_Connection *c, Exchange *x) {
  pthread_mutex_lock(&x->server->lock);
  bool is_ready = x->server->is_ready, is_stopping = x->server->is_stopping;
  pthread_mutex_unlock(&x->server->lock);
  const char *text = is_stopping ? "{\"status\":\"stopping\"}\n"
                     : is_ready  ? "{\"status\":\"ok\"}\n"
                                 : "{\"status\":\"loading\"}\n";
  return send_text(c, is_ready && !is_stopping ? 200 : 503, "application/json",
                   text, strlen(text));
}

static Result metrics(struct MHD_Connection *c, Exchange *x) {
  Buffer text = {0};
  pthread_mutex_lock(&x->server->lock);
  answer_metrics(x->server, &text);
  pthread_mutex_unlock(&x->server->lock);
  return send_buffer(c, "text/plain; version=0.0.4", &text);
}

static Result models(struct MHD_Connection *c, Exchange *x) {
  Buffer text = {0};
  answer_models(x->server, true, &text);
  return send_buffer(c, "application/json", &text);
}

static Result model(struct MHD_Connection *c, Exchange *x) {
  Buffer text = {0};
  answer_models(x->server, false, &text);
  return send_buffer(c, "application/json", &text);
}

typedef enum ModelKind { ANY_MODEL, GENERATOR, ENCODER } ModelKind;

typedef struct Route {
  const char *path, *method;
  bool is_open; /* needs no key */
  ModelKind of; /* which models have it */
  Result (*answer)(struct MHD_Connection *, Exchange *);
} Route;

static const Route routes[] = {
    {"/", "GET", true, GENERATOR, page},
    {"/health", "GET", true, ANY_MODEL, health},
    {"/metrics", "GET", false, ANY_MODEL, metrics},
    {"/v1/models", "GET", false, ANY_MODEL, models},
    {"/v1/completions", "POST", false, GENERATOR, completion},
    {"/v1/chat/completions", "POST", false, GENERATOR, chat},
    {"/v1/embeddings", "POST", false, ENCODER, embedding},
};
static const Route model_route = {NULL, "GET", false, ANY_MODEL, model};

static const Route *find_route(const Server *s, const char *path) {
  static const char models_path[] = "/v1/models/";
  size_t n = strlen(models_path);
  if (!strncmp(path, models_path, n) && !strcmp(path + n, s->name))
    return &model_route;
  for (size_t i = 0; i < ARRAY_LEN(routes); i++)
    if (!strcmp(path, routes[i].path))
      return &routes[i];
  return NULL;
}

/* Compares in a time that does not depend on where they differ. */
static bool same_key(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  unsigned char differ = n != m;
  for (size_t i = 0; i < n; i++)
    differ |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
  return !differ;
}

static bool has_key(struct MHD_Connection *c, const Server *s) {
  static const char bearer[] = "Bearer ";
  size_t n = strlen(bearer);
  const char *given =
      mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
  return !s->options.key || (given && !strncasecmp(given, bearer, n) &&
                             same_key(given + n, s->options.key));
}

static void refuse_other_model(const Server *s, HttpError *error) {
  http_error(error, 404, NULL,
             s->is_encoder
                 ? "the model `%s` only computes embeddings: use /v1/embeddings"
                 : "the model `%s` has no embeddings: use /v1/completions or "
                   "/v1/chat/completions, or serve a folder such as minilm",
             s->name);
}

/* What is wrong with a request before its body; NULL: nothing. */
static const Route *check_head(struct MHD_Connection *c, const Server *s,
                               const char *path, const char *method,
                               HttpError *error) {
  const Route *route = find_route(s, path);
  bool is_head =
      route && !strcmp(method, "HEAD") && !strcmp(route->method, "GET");
  if (!route)
    http_error(error, 404, NULL, "there is nothing at this path");
  else if (strcmp(method, route->method) != 0 && !is_head)
    http_error(error, 405, NULL, "this path wants the method %s",
               route->method);
  else if (!route->is_open && !has_key(c, s))
    http_error(error, 401, NULL, "the key is missing or wrong");
  else if (route->of == (s->is_encoder ? GENERATOR : ENCODER))
    refuse_other_model(s, error);
  return route;
}

/* ---- libmicrohttpd's calls ---- */

static bool is_too_long(struct MHD_Connection *c, const Server *s) {
  const char *text =
      mhd.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
  return text && strtoull(text, NULL, 10) > (uint64_t)s->options.body;
}

static Result send_too_long(struct MHD_Connection *c, const Server *s) {
  HttpError error = {0};
  http_error(&error, 413, NULL, "a body may have %lld bytes",
             (long long)s->options.body);
  return send_error(c, &error);
}

static void add_body(Exchange *x, const char *part, size_t len) {
  x->is_too_long |= x->body.len + len > (size_t)x->server->options.body;
  if (x->is_too_long)
    buffer_free(&x->body);
  else
    buffer_add(&x->body, part, len);
}

static Result begin(Server *s, struct MHD_Connection *c, void **state) {
  Exchange *x = mem_alloc(sizeof *x);
  x->server = s;
  *state = x;
  return is_too_long(c, s) ? send_too_long(c, s) : MHD_YES;
}

static Result answer(Exchange *x, struct MHD_Connection *c, const char *path,
                     const char *method) {
  HttpError error = {0};
  if (x->request)
    return send_answer(c, x);
  if (x->is_too_long)
    return send_too_long(c, x->server);
  const Route *route = check_head(c, x->server, path, method, &error);
  return error.status ? send_error(c, &error) : route->answer(c, x);
}

static Result handle(void *owner, struct MHD_Connection *c, const char *path,
                     const char *method, const char *version, const char *part,
                     size_t *len, void **state) {
  Result result = MHD_NO; /* out of memory: the connection ends */
  Trap trap;
  (void)version;
  if (TRAP_SET(trap) != FAIL_NONE)
    return MHD_NO;
  if (!*state) {
    result = begin(owner, c, state);
  } else if (*len) {
    add_body(*state, part, *len);
    *len = 0;
    result = MHD_YES;
  } else {
    result = answer(*state, c, path, method);
  }
  trap_end(&trap);
  return result;
}

static void end_exchange(void *owner, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why) {
  Server *s = owner;
  Exchange *x = *state;
  (void)c, (void)why;
  if (!x)
    return;
  pthread_mutex_lock(&s->lock);
  if (x->request)
    scheduler_release(s, x->request);
  pthread_mutex_unlock(&s->lock);
  buffer_free(&x->body);
  mem_free(x);
  *state = NULL;
}

/* ---- start ---- */

static bool address_of(const ServeOptions *o, struct sockaddr_storage *out,
                       Fault *fault) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)out;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
  const char *host = strcmp(o->host, "localhost") != 0 ? o->host : "127.0.0.1";
  memset(out, 0, sizeof *out);
  if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)o->port);
    return true;
  }
  if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)o->port);
    return true;
  }
  fault_set(fault, "%s is no address such as 127.0.0.1 or ::1", host);
  return false;
}

bool http_start(Server *s, Fault *fault) {
  struct sockaddr_storage address;
  if (!address_of(&s->options, &address, fault))
    return false;
  unsigned flags =
      MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  if (address.ss_family == AF_INET6)
    flags |= MHD_USE_IPv6;
  errno = 0;
  s->daemon = mhd.MHD_start_daemon(
      flags, (uint16_t)s->options.port, NULL, NULL, handle, s,
      MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
      MHD_OPTION_NOTIFY_COMPLETED, end_exchange, s, MHD_OPTION_END);
  if (s->daemon)
    return true;
  fault_set(fault, "cannot listen at %s, port %lld: %s", s->options.host,
            (long long)s->options.port,
            errno ? strerror(errno) : "unknown reason");
  return false;
}

int http_port(const Server *s) {
  const union MHD_DaemonInfo *info =
      mhd.MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
  return info ? info->port : (int)s->options.port;
}
