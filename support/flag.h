/* Flags that another thread or a signal handler sets. */
#ifndef AXON_SUPPORT_FLAG_H
#define AXON_SUPPORT_FLAG_H

#include <stdatomic.h>
#include <stdbool.h>

/* A flag that another thread or a signal handler sets and others poll.  It does
   not order other memory accesses. */
typedef _Atomic bool Flag;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler must be able to set it");

static inline bool flag_is_set(const Flag *flag) {
  return atomic_load_explicit(flag, memory_order_relaxed);
}
static inline void flag_set(Flag *flag, bool to) {
  atomic_store_explicit(flag, to, memory_order_relaxed);
}

#endif
