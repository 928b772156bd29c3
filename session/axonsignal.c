/* A signal that interrupts the session that runs, and goes on to whoever
 * handled it before. */
#include "session/outside.h"

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
} caught;

/* The handler of before may leave by a jump, and so is called when nothing of
 * this is looked at any more. */
static void handle(int number, siginfo_t *info, void *context) {
  atomic_fetch_add(&caught.looking, 1);
  AxnSession *a = atomic_load(&caught.session);
  struct sigaction before = caught.before;
  if (a)
    axn_interrupt(a);
  atomic_fetch_sub(&caught.looking, 1);
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(number);
}

void signal_begin(AxnSession *a) {
  if (!a->signal || atomic_exchange(&caught.taken, true))
    return;
  struct sigaction now = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  now.sa_sigaction = handle;
  sigemptyset(&now.sa_mask);
  caught.number = a->signal;
  sigaction(a->signal, NULL, &caught.before);
  atomic_store(&caught.session, a);
  sigaction(a->signal, &now, NULL);
}

void signal_end(AxnSession *a) {
  if (atomic_load(&caught.session) != a)
    return;
  sigaction(caught.number, &caught.before, NULL);
  atomic_store(&caught.session, NULL);
  while (atomic_load(&caught.looking)) /* then the session may be freed */
    sched_yield();
  atomic_store(&caught.taken, false);
}

void axn_session_signal(AxnSession *a, int number) {
  if (!a->busy)
    a->signal = number;
}
