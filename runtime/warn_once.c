/* A short list of warnings.  A code in the list is not added again. */
#include "runtime/warn_once.h"

#include <pthread.h>

enum { MAX_WARNINGS = 16 };

static struct {
  pthread_mutex_t lock;
  OnceWarning at[MAX_WARNINGS];
  uint32_t count, taken;
} pending_warnings = {.lock = PTHREAD_MUTEX_INITIALIZER};

void warn_once(const OnceWarning *notice) {
  pthread_mutex_lock(&pending_warnings.lock);
  bool already_listed = pending_warnings.count == MAX_WARNINGS;
  for (uint32_t k = 0; k < pending_warnings.count; k++)
    already_listed |= pending_warnings.at[k].code == notice->code;
  if (!already_listed)
    pending_warnings.at[pending_warnings.count++] = *notice;
  pthread_mutex_unlock(&pending_warnings.lock);
}

bool warn_once_take(OnceWarning *out) {
  pthread_mutex_lock(&pending_warnings.lock);
  bool any = pending_warnings.taken < pending_warnings.count;
  if (any)
    *out = pending_warnings.at[pending_warnings.taken++];
  pthread_mutex_unlock(&pending_warnings.lock);
  return any;
}
