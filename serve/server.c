/* Starts and ends a server.  The first signal lets requests that run finish for
 * some seconds; the second one cancels them. */
#include "serve/internal.h"
#include "support/clock.h"
#include "support/mem.h"

#include "runtime/json.h"
#include "support/trap.h"

#include <signal.h>
#include <string.h>
#include <time.h>

enum {
  STOP_SECONDS = 30,
  SEND_SECONDS = 5 /* for answers that are there already */
};

static sigset_t ending_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void server_block_signals(void) {
  sigset_t set = ending_signals();
  signal(SIGPIPE, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void stop(Server *s) {
  pthread_mutex_lock(&s->lock);
  s->is_closing = s->is_stopping;
  if (!s->is_stopping)
    s->stop_at = clock_seconds() + STOP_SECONDS;
  s->is_stopping = true;
  bool is_ready = s->is_ready;
  pthread_cond_signal(&s->changed);
  pthread_mutex_unlock(&s->lock);
  if (!is_ready)
    s->options.interrupt(s->options.owner);
}

static void *wait_for_signals(void *server) {
  sigset_t set = ending_signals();
  int number;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  while (sigwait(&set, &number) == 0)
    stop(server);
  return NULL;
}

static bool begin(Server *s, Fault *fault) {
  if (!mhd_load_library(fault) || !json_load_library(fault) ||
      !server_read_model(s, fault) || !scheduler_new(s) ||
      !http_start(s, fault))
    return false;
  s->has_signals = pthread_create(&s->signals, NULL, wait_for_signals, s) == 0;
  return true;
}

Server *server_start(const ServeOptions *options, Fault *fault) {
  Server *s = mem_try_alloc(sizeof *s);
  if (!s)
    return NULL;
  s->options = *options;
  s->created = (int64_t)time(NULL);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  Trap trap;
  bool begun = false;
  if (TRAP_SET(trap) == FAIL_NONE) {
    begun = begin(s, fault);
    trap_end(&trap);
  } else {
    fault_set(fault, "out of memory");
  }
  if (begun)
    return s;
  server_close(s);
  return NULL;
}

bool server_is_stopping(Server *s) {
  pthread_mutex_lock(&s->lock);
  bool is = s->is_stopping;
  pthread_mutex_unlock(&s->lock);
  return is;
}

/* The program has ended, maybe with an error: nobody computes any more. */
static void end_requests(Server *s) {
  pthread_mutex_lock(&s->lock);
  s->is_stopping = s->is_closing = true;
  scheduler_end_all(s);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += SEND_SECONDS;
  while (s->open_count &&
         pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
    ;
  pthread_mutex_unlock(&s->lock);
}

void server_close(Server *s) {
  if (s->has_signals) {
    pthread_cancel(s->signals);
    pthread_join(s->signals, NULL);
  }
  if (s->daemon) {
    end_requests(s);
    mhd.MHD_stop_daemon(s->daemon);
  }
  scheduler_free(s);
  mem_free(s->name);
  mem_free(s->system_message);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->changed);
  mem_free(s);
}
