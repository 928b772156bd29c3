/* Notices wait in a short list; a code that is in it, told or not, is said. */
#include "runtime/notice.h"

#include <pthread.h>

enum { NOTICES = 16 };

static struct {
  pthread_mutex_t lock;
  Notice at[NOTICES];
  uint32_t count, taken;
} notices = {.lock = PTHREAD_MUTEX_INITIALIZER};

void notice_add(const Notice *notice) {
  pthread_mutex_lock(&notices.lock);
  bool said = notices.count == NOTICES;
  for (uint32_t k = 0; k < notices.count; k++)
    said |= notices.at[k].code == notice->code;
  if (!said)
    notices.at[notices.count++] = *notice;
  pthread_mutex_unlock(&notices.lock);
}

bool notice_take(Notice *out) {
  pthread_mutex_lock(&notices.lock);
  bool any = notices.taken < notices.count;
  if (any)
    *out = notices.at[notices.taken++];
  pthread_mutex_unlock(&notices.lock);
  return any;
}
