/* A lock of one C file that fork holds, so that the child finds the guarded
 * data complete and the lock free. */
#ifndef AXON_RUNTIME_FORK_LOCK_H
#define AXON_RUNTIME_FORK_LOCK_H

#include <pthread.h>

/* Defines `lock` and `unlock`.  The handlers of pthread_atfork have no
   argument, so each lock needs its own. */
#define DEFINE_FORK_LOCK()                                      \
  static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER; \
  static pthread_once_t fork_lock_once = PTHREAD_ONCE_INIT;     \
  static void unlock(void) {                                    \
    pthread_mutex_unlock(&fork_lock);                           \
  }                                                             \
  static void lock_before_fork(void) {                          \
    pthread_mutex_lock(&fork_lock);                             \
  }                                                             \
  static void install_fork_handlers(void) {                     \
    pthread_atfork(lock_before_fork, unlock, unlock);           \
  }                                                             \
  static void lock(void) {                                      \
    pthread_once(&fork_lock_once, install_fork_handlers);       \
    pthread_mutex_lock(&fork_lock);                             \
  }

#endif
