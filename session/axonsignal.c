/* A signal that interrupts the session that runs, and goes on to whoever
 * handled it before. */
#include "session/outside.h"

#include <signal.h>
#include <string.h>

/* One at a time: that of the thread which the signal is for, most likely. */
static struct {
  AxnSession *session; /* atomic */
  int number;
  struct sigaction before;
} caught;

static void handle(int number, siginfo_t *info, void *context) {
  AxnSession *a = __atomic_load_n(&caught.session, __ATOMIC_SEQ_CST);
  if (a)
    axn_interrupt(a);
  if (caught.before.sa_flags & SA_SIGINFO)
    caught.before.sa_sigaction(number, info, context);
  else if (caught.before.sa_handler != SIG_DFL &&
           caught.before.sa_handler != SIG_IGN)
    caught.before.sa_handler(number);
}

void signal_begin(AxnSession *a) {
  AxnSession *none = NULL;
  if (!a->signal ||
      !__atomic_compare_exchange_n(&caught.session, &none, a, false,
                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  struct sigaction now = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  now.sa_sigaction = handle;
  sigemptyset(&now.sa_mask);
  caught.number = a->signal;
  sigaction(a->signal, NULL, &caught.before);
  sigaction(a->signal, &now, NULL);
}

void signal_end(AxnSession *a) {
  if (__atomic_load_n(&caught.session, __ATOMIC_SEQ_CST) != a)
    return;
  sigaction(caught.number, &caught.before, NULL);
  __atomic_store_n(&caught.session, NULL, __ATOMIC_SEQ_CST);
}

void axn_session_signal(AxnSession *a, int number) {
  if (!a->busy)
    a->signal = number;
}
