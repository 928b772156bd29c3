/* For the thread sanitizer (tests/check_races.sh): sessions in several threads,
 * which use the shared thread pool, compilers, plans and files, while another
 * thread interrupts them repeatedly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/axon.h"
#include "support/compiler.h"
#include "support/flag.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SESSIONS = 2, TURNS = 3 };

static const char *const texts[] = {
    "val x : f32[300000] = iota 300000\ndo print (sum (tanh x * 2.0))",
    "do print (sum (sort (uniform (key 1) [200000] : f32[200000])))",
    "fun f n = if n > 200000 then n else f (n + 1)\ndo print (f 0)",
    "val xs : f32[200000] = iota 200000\n"
    "do print (fold (fn s x => tanh (s * 0.5 + x)) 0.0 xs)",
    "val a : f32[160, 160] = uniform (key 2) [160, 160]\n"
    "do print (sum (a @ a + transpose a))",
    "val n : i64[100000] = iota 100000\ndo print (sum (cumsum n))",
    "do print (sum (none))", /* an error */
};

typedef struct Host {
  AxnSession *_Atomic session;
  int wrong;
} Host;

static Host hosts[SESSIONS];
static Flag done;

static void ignore(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static void *run(void *argument) {
  Host *h = argument;
  for (int turn = 0; turn < TURNS; turn++) {
    AxnSession *s = axn_session_new();
    axn_session_output(s, ignore, NULL);
    h->session = s;
    for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
      AxnStatus status =
          axn_session_run(s, "races", texts[k], strlen(texts[k]));
      bool last = k + 1 == ARRAY_LEN(texts);
      h->wrong +=
          status != AXN_INTERRUPTED && status != (last ? AXN_ERROR : AXN_OK);
    }
    h->session = NULL; /* not freed: an interrupt may still arrive */
  }
  return NULL;
}

static void *interrupt(void *argument) {
  (void)argument;
  for (int n = 0; !flag_is_set(&done); n++) {
    AxnSession *s = hosts[n % SESSIONS].session;
    if (s)
      axn_interrupt(s);
    usleep(20000);
  }
  return NULL;
}

static void test_races(void **state) {
  (void)state;
  pthread_t threads[SESSIONS], other;
  pthread_create(&other, NULL, interrupt, NULL);
  for (int k = 0; k < SESSIONS; k++)
    pthread_create(&threads[k], NULL, run, &hosts[k]);
  for (int k = 0; k < SESSIONS; k++)
    pthread_join(threads[k], NULL);
  flag_set(&done, true);
  pthread_join(other, NULL);
  for (int k = 0; k < SESSIONS; k++)
    assert_int_equal(hosts[k].wrong, 0);
}

int main(void) {
  setenv("AXON_THREADS", "3", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_races)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
