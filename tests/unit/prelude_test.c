/* Tests the prelude of a kernel: it contains what the kernel names, and what
 * that depends on. */
#include "backend/cpu/cpu.h"
#include "backend/emit/prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

extern const char prelude_text[];

static void test_only_what_is_named(void **state) {
  (void)state;
  Buffer none = {0}, some = {0};
  const char text[] = "/* tanh_f */ vf y = exp_f(x); int z = 0x1exp_p;";
  cpu_prelude_write(&none, 16, "", 0);
  cpu_prelude_write(&some, 16, text, strlen(text));
  assert_non_null(strstr(none.text, "typedef float vf"));
  assert_null(strstr(none.text, "exp_p"));
  assert_non_null(strstr(some.text, "exp_p"));
  assert_null(strstr(some.text, "tanh_p"));
  buffer_free(&none);
  buffer_free(&some);
}

/* Writes each section of a prelude to a file.  Returns their number. */
static int write_sections(const char *folder, const char *prelude,
                          unsigned width) {
  int files = 0;
  for (const char *at = prelude; (at = strstr(at, "//@")); at++) {
    char name[80];
    if (sscanf(at + 3, "%*[ ]%79[A-Za-z0-9_]", name) != 1)
      continue;
    Buffer b = {0};
    cpu_prelude_write(&b, width, name, strlen(name));
    char path[120];
    snprintf(path, sizeof path, "%s/%s%s.c", folder, width == 1 ? "1" : "",
             name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#define W %u\n%s", width, b.text);
    assert_int_equal(fclose(file), 0);
    buffer_free(&b);
    files++;
  }
  return files;
}

/* Each section compiles with the sections that it needs and no others.  Those
 * for one lane are plain C. */
static void test_sections_are_whole(void **state) {
  (void)state;
  if (system("command -v cc >/dev/null"))
    skip();
  char folder[] = "/tmp/axon_preludeXXXXXX";
  assert_non_null(mkdtemp(folder));
  int files = write_sections(folder, scalar_prelude_text, 1) +
              write_sections(folder, prelude_text, 16);
  assert_true(files > 100);
  char command[256];
  snprintf(command, sizeof command,
           "cd %s && flags='-fsyntax-only -Wall -Wextra -Werror' && "
           "cc -std=c11 -pedantic $flags 1*.c && "
           "cc -std=gnu11 -march=native -Wno-psabi $flags [!1]*.c",
           folder);
  int failed = system(command);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_only_what_is_named),
      cmocka_unit_test(test_sections_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
