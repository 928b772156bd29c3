/* A signal that interrupts the session that runs, and goes on to whoever
 * handled it before. */
#include "session/capi.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

/* One at a time: that of the thread which the signal is for, most likely. */
static struct {
  AxnSession *_Atomic session;
  _Atomic bool taken;  /* by a session; guards all below */
  _Atomic int looking; /* handlers that look at it, in whatever thread */
  int number;
  struct sigaction before;
} active_handler;

/* The handler of before may leave by a jump, and so is called when nothing of
 * this is looked at any more. */
static void on_signal(int number, siginfo_t *info, void *context) {
  atomic_fetch_add(&active_handler.looking, 1);
  AxnSession *a = atomic_load(&active_handler.session);
  struct sigaction before = active_handler.before;
  if (a)
    axn_interrupt(a);
  atomic_fetch_sub(&active_handler.looking, 1);
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
}

void capi_signal_begin(AxnSession *a) {
  if (!a->signal || atomic_exchange(&active_handler.taken, true))
    return;
  struct sigaction now = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  now.sa_sigaction = on_signal;
  sigemptyset(&now.sa_mask);
  active_handler.number = a->signal;
  sigaction(a->signal, NULL, &active_handler.before);
  atomic_store(&active_handler.session, a);
  sigaction(a->signal, &now, NULL);
}

void capi_signal_end(AxnSession *a) {
  if (atomic_load(&active_handler.session) != a)
    return;
  sigaction(active_handler.number, &active_handler.before, NULL);
  atomic_store(&active_handler.session, NULL);
  while (
      atomic_load(&active_handler.looking)) /* then the session may be freed */
    sched_yield();
  atomic_store(&active_handler.taken, false);
}

void axn_session_signal(AxnSession *a, int number) {
  if (!a->is_busy)
    a->signal = number;
}
