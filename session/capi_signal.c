/* The C API (axon.h): a signal that interrupts the running session and is then
   passed to the previous handler.  Main entry point: axn_session_signal. */
#include "session/capi.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

/* Only one session at a time has the handler: usually that of the thread that
   receives the signal. */
static struct {
  AxnSession *_Atomic session;
  _Atomic bool taken;  /* a session has it; guards the fields below */
  _Atomic int looking; /* number of handlers that use it, in any thread */
  int number;
  struct sigaction before;
} active_handler;

/* The previous handler may leave by longjmp.  So it is called after the last
   use of this state. */
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
  while (atomic_load(
      &active_handler.looking)) /* afterwards the session may be freed */
    sched_yield();
  atomic_store(&active_handler.taken, false);
}

void axn_session_signal(AxnSession *a, int number) {
  if (!a->is_busy)
    a->signal = number;
}
