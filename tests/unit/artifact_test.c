/* Tests artifacts: they are found unchanged or not at all, whatever happens to
 * files, folders and other processes. */
#include "runtime/artifact.h"
#include "runtime/warn_once.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const ArtifactKind kind = {"test", ".bin"};
static char base[256]; /* XDG_CACHE_HOME */

static int set_up(void **state) {
  (void)state;
  strcpy(base, "/tmp/axon-artifact-XXXXXX");
  unsetenv("AXON_CACHE_LIMIT");
  return mkdtemp(base) && setenv("XDG_CACHE_HOME", base, 1) == 0 ? 0 : 1;
}

static int tear_down(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", base,
           base);
  return system(command);
}

static ArtifactKey key_of(int n) {
  const ArtifactPart part = {&n, sizeof n};
  return artifact_key(1, &part);
}

static char content[20000];

static size_t fill(int n, size_t len) {
  for (size_t k = 0; k < len; k++)
    content[k] = (char)(n * 31 + (int)k * 7);
  return len;
}

static bool keep(int n, size_t len) {
  return artifact_store(&kind, key_of(n), content, fill(n, len));
}

static const char *path_of(const Artifact *a) {
  static char path[512];
  snprintf(path, sizeof path, "%s/axon/test/%s", base, a->name);
  return path;
}

/* 1: found unchanged; 0: not found; -1: found, but changed. */
static int find(int n, size_t len, Artifact *a) {
  if (!artifact_lookup(&kind, key_of(n), a))
    return 0;
  static char is[sizeof content];
  ssize_t got = read(a->fd, is, sizeof is);
  artifact_close(a);
  fill(n, len);
  bool same =
      a->size == len && got >= (ssize_t)len && memcmp(is, content, len) == 0;
  return same ? 1 : -1;
}

static void test_keys(void **state) {
  (void)state;
  const ArtifactPart ab[] = {{"a", 1}, {"bc", 2}}, ba[] = {{"ab", 2}, {"c", 1}};
  ArtifactKey x = artifact_key(2, ab), y = artifact_key(2, ba);
  assert_memory_not_equal(&x, &y, sizeof x);
}

static void test_kept(void **state) {
  (void)state;
  Artifact a;
  assert_int_equal(find(1, 100, &a), 0);
  assert_true(keep(1, 100));
  assert_true(keep(2, 20000));
  assert_true(keep(3, 0));
  assert_int_equal(find(1, 100, &a), 1);
  assert_int_equal(find(2, 20000, &a), 1);
  assert_int_equal(find(3, 0, &a), 1);
  assert_true(keep(1, 100)); /* again, like another process */
  assert_int_equal(find(1, 100, &a), 1);
  struct stat is;
  assert_int_equal(stat(path_of(&a), &is), 0);
  assert_int_equal(is.st_mode & 0777, 0600);
  ArtifactStats t;
  artifact_stats(&t);
  assert_int_equal(t.entries, 3);
  assert_string_equal(t.unusable_reason, "");
  assert_true(artifact_clear(&t));
  assert_int_equal(t.entries, 3);
  assert_int_equal(find(1, 100, &a), 0);
}

/* ---- damage ---- */

static void change_byte(const char *path, off_t at) {
  int file = open(path, O_RDWR);
  char c;
  assert_int_equal(pread(file, &c, 1, at), 1);
  c ^= 1 << (at % 8);
  assert_int_equal(pwrite(file, &c, 1, at), 1);
  close(file);
}

static void test_damage(void **state) {
  (void)state;
  Artifact a;
  struct stat is;
  srand(7);
  for (int n = 0; n < 400; n++) {
    size_t len = 200 + (size_t)(rand() % 3000);
    assert_true(keep(n, len));
    assert_int_equal(find(n, len, &a), 1);
    assert_int_equal(stat(path_of(&a), &is), 0);
    off_t at = rand() % is.st_size;
    if (n % 2)
      change_byte(path_of(&a), at);
    else
      assert_int_equal(truncate(path_of(&a), at), 0);
    assert_int_equal(find(n, len, &a), 0);
    /* removed, so that it is made again. */
    assert_int_equal(access(path_of(&a), F_OK), -1);
    assert_true(keep(n, len));
    assert_int_equal(find(n, len, &a), 1);
  }
}

static void test_verify(void **state) {
  (void)state;
  Artifact a;
  for (int n = 0; n < 10; n++)
    assert_true(keep(n, 1000));
  assert_int_equal(find(4, 1000, &a), 1);
  change_byte(path_of(&a), 500);
  assert_int_equal(find(7, 1000, &a), 1);
  assert_int_equal(truncate(path_of(&a), 10), 0);
  ArtifactStats t;
  artifact_verify(&t);
  assert_int_equal(t.entries, 10);
  assert_int_equal(t.corrupt, 2);
  artifact_verify(&t);
  assert_int_equal(t.entries, 8);
  assert_int_equal(t.corrupt, 0);
}

/* One artifact under the name of another. */
static void test_exchanged(void **state) {
  (void)state;
  Artifact a, b;
  assert_true(keep(1, 50) && keep(2, 50));
  assert_int_equal(find(1, 50, &a), 1);
  assert_int_equal(find(2, 50, &b), 1);
  char from[512];
  strcpy(from, path_of(&a));
  assert_int_equal(rename(from, path_of(&b)), 0);
  assert_int_equal(find(2, 50, &b), 0);
}

static void test_foreign(void **state) {
  (void)state;
  Artifact a;
  assert_true(keep(1, 50));
  assert_int_equal(find(1, 50, &a), 1);
  /* Others may have written it. */
  assert_int_equal(chmod(path_of(&a), 0666), 0);
  assert_int_equal(find(1, 50, &a), 0);
  char other[600];
  assert_true(keep(1, 50));
  assert_int_equal(find(1, 50, &a), 1);
  snprintf(other, sizeof other, "%s.x", path_of(&a));
  assert_int_equal(rename(path_of(&a), other), 0);
  assert_int_equal(symlink(other, path_of(&a)), 0);
  assert_int_equal(find(1, 50, &a), 0);
}

/* ---- the limit ---- */

static void test_eviction(void **state) {
  (void)state;
  Artifact a;
  setenv("AXON_CACHE_LIMIT", "100K", 1);
  for (int n = 0; n < 50; n++) {
    assert_true(keep(n, 10000));
    if (n >= 4) /* it is in use, so it stays */
      assert_int_equal(find(4, 10000, &a), 1);
    usleep(2000); /* file times have the resolution of a clock tick */
    ArtifactStats t;
    artifact_stats(&t);
    assert_true(t.bytes <= 100 << 10);
  }
  assert_int_equal(find(49, 10000, &a), 1);
  assert_int_equal(find(5, 10000, &a), 0);
  setenv("AXON_CACHE_LIMIT", "0", 1);
  assert_false(keep(60, 10));
  assert_int_equal(find(60, 10, &a), 0);
}

static void test_limits(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes; /* 1: it is wrong */
  } cases[] = {
      {"1000", 1000},      {"4K", 4096}, {"2M", 2 << 20}, {"3 GiB", 3ull << 30},
      {"1tb", 1ull << 40}, {"0", 0},     {"", 512 << 20}, {"M", 1},
      {"-5", 1},           {"12Q", 1},   {"1.5G", 1},     {"99999999999T", 1},
      {"5 apples", 1}};
  Fault fault;
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    setenv("AXON_CACHE_LIMIT", cases[k].text, 1);
    assert_int_equal(artifact_check_env(&fault), cases[k].bytes != 1);
    uint64_t wanted = cases[k].bytes == 1 ? 512 << 20 : cases[k].bytes;
    assert_int_equal(artifact_limit(), wanted);
  }
}

/* A file of a killed writer is removed when it is old. */
static void test_stale(void **state) {
  (void)state;
  char path[512];
  assert_true(keep(1, 10));
  snprintf(path, sizeof path, "%s/axon/test/.123-4.part", base);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  const struct timespec old[2] = {{1000, 0}, {1000, 0}};
  assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
  setenv("AXON_CACHE_LIMIT", "1000", 1);
  for (int n = 0; n < 30; n++)
    keep(n, 100);
  assert_int_equal(access(path, F_OK), -1);
}

/* ---- the folder ---- */

static void test_modes(void **state) {
  (void)state;
  char path[512];
  struct stat is;
  Artifact a;
  assert_true(keep(1, 10));
  snprintf(path, sizeof path, "%s/axon", base);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0700);
  assert_int_equal(chmod(path, 0755), 0); /* the mode is corrected */
  assert_int_equal(find(1, 10, &a), 1);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0700);
}

enum { OTHER = 65534 };

/* Runs f as an ordinary user, since root may write anywhere. */
static int as_user(int f(void)) {
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(OTHER) != 0 || setuid(OTHER) != 0))
      _exit(99);
    _exit(f());
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int nothing_works(void) {
  Artifact a;
  ArtifactStats t;
  artifact_stats(&t);
  return keep(1, 10) ? 1 : find(1, 10, &a) ? 2 : !t.unusable_reason[0] ? 3 : 0;
}

static int nothing_kept(void) {
  Artifact a;
  return keep(1, 10) ? 1 : find(1, 10, &a) ? 2 : 0;
}

static int only_found(void) {
  Artifact a;
  return keep(2, 10) ? 1 : find(2, 10, &a) ? 2 : 0;
}

/* Number of warnings about an untrusted folder. */
static int told(void) {
  OnceWarning n;
  int count = 0;
  while (warn_once_take(&n))
    count += n.code == 515 && n.note[0] && n.help[0];
  return count;
}

static int nothing_and_told(void) {
  int status = nothing_works();
  return status ? status : told() == 1 ? 0 : 4;
}

static int nothing_and_quiet(void) {
  int status = nothing_kept();
  return status ? status : told() == 0 ? 0 : 4;
}

/* Runs f in a new process, which warns once. */
static int as_self(int f(void)) {
  pid_t child = fork();
  if (child == 0)
    _exit(f());
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void test_refused(void **state) {
  (void)state;
  char path[512];
  snprintf(path, sizeof path, "%s/axon", base);
  assert_int_equal(chmod(base, 01777), 0);
  assert_int_equal(mkdir(path, 0777), 0);
  assert_int_equal(chmod(path, 0777), 0);
  /* ours, but writable by all. */
  assert_int_equal(as_self(nothing_and_told), 0);
  if (geteuid() == 0) /* owned by another user */
    assert_int_equal(as_user(nothing_and_told), 0);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(chmod(base, 0555), 0); /* cannot be created */
  assert_int_equal(as_user(nothing_and_quiet), 0);
  assert_int_equal(chmod(base, 0755), 0);
  close(open(path, O_CREAT | O_WRONLY, 0600)); /* is a file */
  assert_int_equal(as_user(nothing_works), 0);
  assert_int_equal(nothing_works(), 0);
}

static int is_kept(void) {
  Artifact a;
  return !keep(1, 10) ? 1 : find(1, 10, &a) != 1 ? 2 : told() ? 3 : 0;
}

/* Write permissions of the folders on the path. */
static void test_parents(void **state) {
  (void)state;
  static const struct {
    mode_t mode;
    bool good;
  } cases[] = {{0700, true},  {0755, true},  {0777, false}, {01777, true},
               {0757, false}, {03777, true}, {01757, true}};
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    assert_int_equal(chmod(base, cases[k].mode), 0);
    assert_int_equal(as_self(cases[k].good ? is_kept : nothing_and_told), 0);
    char command[600]; /* nothing was created in an untrusted place */
    snprintf(command, sizeof command, "! [ -e '%s/axon' ] || rm -r '%s/axon'",
             base, base);
    assert_int_equal(system(command), 0);
  }
  assert_int_equal(chmod(base, 0775), 0);
  if (geteuid() != 0)
    return;
  assert_int_equal(chown(base, 0, OTHER), 0); /* a group that is not root's */
  assert_int_equal(as_self(nothing_and_told), 0);
  assert_int_equal(chown(base, OTHER, OTHER),
                   0); /* another user could replace it */
  assert_int_equal(chmod(base, 0755), 0);
  assert_int_equal(as_self(nothing_and_told), 0);
  assert_int_equal(chmod(base, 01777), 0);
  assert_int_equal(as_self(nothing_and_told), 0);
  assert_int_equal(chown(base, 0, 0), 0);
  assert_int_equal(as_user(is_kept), 0); /* owned by root, like /tmp */
}

/* ---- links ---- */

static char way[300], target[300];

static mode_t mode_of(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 ? is.st_mode & 07777 : 0;
}

static void test_links(void **state) {
  (void)state;
  snprintf(way, sizeof way, "%s/axon", base);
  snprintf(target, sizeof target, "%s/elsewhere", base);
  assert_int_equal(mkdir(target, 0755), 0);
  assert_int_equal(symlink("elsewhere", way), 0);
  assert_int_equal(as_self(is_kept), 0); /* our own link */
  assert_int_equal(mode_of(target), 0700);
  if (geteuid() != 0)
    return;
  /* a link of another user to our folder is neither used nor changed */
  assert_int_equal(chmod(base, 01777), 0);
  assert_int_equal(chmod(target, 0755), 0);
  assert_int_equal(lchown(way, OTHER, OTHER), 0);
  assert_int_equal(as_self(nothing_and_told), 0);
  assert_int_equal(mode_of(target), 0755);
  /* a link of root to a folder of another user */
  assert_int_equal(lchown(way, 0, 0), 0);
  assert_int_equal(chown(target, OTHER, OTHER), 0);
  assert_int_equal(as_self(nothing_and_told), 0);
  /* a link of root on the path of a user, such as /home */
  char command[700];
  snprintf(command, sizeof command, "rm -r '%s/test'", target);
  assert_int_equal(system(command), 0);
  assert_int_equal(as_user(is_kept), 0);
}

static void test_ring(void **state) {
  (void)state;
  snprintf(way, sizeof way, "%s/axon", base);
  assert_int_equal(symlink("axon", way), 0);
  assert_int_equal(as_self(nothing_works), 0);
  assert_int_equal(unlink(way), 0);
  assert_int_equal(symlink("nowhere/at/all", way), 0);
  assert_int_equal(as_self(is_kept), 0); /* like a missing folder */
}

/* A folder of this kind that another user created. */
static void test_foreign_kind(void **state) {
  (void)state;
  char path[512];
  assert_int_equal(as_self(is_kept), 0);
  snprintf(path, sizeof path, "%s/axon/test", base);
  snprintf(target, sizeof target, "%s/axon/aside", base);
  assert_int_equal(rename(path, target), 0);
  assert_int_equal(symlink("aside", path), 0);
  assert_int_equal(as_self(nothing_kept), 0); /* a link with any owner */
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rename(target, path), 0);
  if (geteuid() != 0)
    return;
  assert_int_equal(chown(path, OTHER, OTHER), 0);
  int status = as_self(nothing_kept);
  ArtifactStats t;
  assert_true(artifact_clear(&t));
  assert_int_equal(t.entries, 0);
  assert_int_equal(status, 0);
}

/* In a world-writable folder, a link of another user switches between our
 * folder and theirs while we check it. */
static void alternate(const char *theirs) {
  char next[400];
  snprintf(next, sizeof next, "%s.next", way);
  for (int k = 0;; k++) {
    unlink(next);
    if (symlink(k % 2 ? target : theirs, next) == 0)
      rename(next, way);
  }
}

static void test_turning(void **state) {
  (void)state;
  Artifact a;
  char theirs[300], path[1000];
  if (geteuid() != 0)
    return;
  snprintf(way, sizeof way, "%s/axon", base);
  snprintf(target, sizeof target, "%s/ours", base);
  snprintf(theirs, sizeof theirs, "%s/theirs", base);
  assert_true(keep(1, 10));
  assert_int_equal(rename(way, target), 0);
  assert_int_equal(chmod(target, 0755), 0);
  snprintf(path, sizeof path, "cp -a '%s' '%s' && chown -R %d '%s'", target,
           theirs, OTHER, theirs);
  assert_int_equal(system(path), 0);
  assert_int_equal(chmod(base, 0777), 0);
  pid_t child = fork();
  if (child == 0) {
    if (setgid(OTHER) == 0 && setuid(OTHER) == 0)
      alternate(theirs);
    _exit(1);
  }
  int found = 0;
  for (int k = 0; k < 3000; k++)
    found += find(1, 10, &a) != 0;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_int_equal(found, 0);
  assert_int_equal(mode_of(target), 0755);
  told();
}

static int read_only(void) {
  Artifact a;
  char path[512];
  if (!keep(1, 10))
    return 10;
  snprintf(path, sizeof path, "%s/axon/test", base);
  chmod(path, 0500);
  int status = find(1, 10, &a) == 1 ? only_found() : 11;
  chmod(path, 0700);
  return status;
}

static void test_read_only(void **state) {
  (void)state;
  assert_int_equal(chmod(base, 01777), 0);
  int status = as_user(read_only);
  assert_true(status == 0 || (status == 1 && geteuid() == 0));
}

static void test_no_home(void **state) {
  (void)state;
  Artifact a;
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_int_equal(nothing_works(), 0);
  setenv("HOME", "/nowhere/at/all", 1);
  assert_int_equal(nothing_works(), 0);
  assert_int_equal(access("/nowhere", F_OK), -1);
  setenv("XDG_CACHE_HOME", "relative", 1); /* like an unset variable */
  assert_int_equal(nothing_works(), 0);
  setenv("HOME", base, 1);
  unsetenv("XDG_CACHE_HOME");
  assert_true(keep(1, 10));
  assert_int_equal(find(1, 10, &a), 1);
}

/* ---- processes ---- */

/* Other processes truncate files here, also between finding and reading one.  A
 * damaged file must not be found again. */
static bool stays_wrong(int n, size_t len, Artifact *a) {
  for (int k = 0; k < 10; k++)
    if (find(n, len, a) >= 0)
      return false;
  return true;
}

static int many(void) {
  Artifact a;
  srand((unsigned)getpid());
  for (int k = 0; k < 300; k++) {
    int n = rand() % 20;
    if (stays_wrong(n, 5000, &a))
      return 1;
    if (k % 3 == 0)
      keep(n, 5000);
    if (k % 50 == 7 && find(n, 5000, &a) == 1)
      truncate(path_of(&a), rand() % 5000);
  }
  return 0;
}

static void test_processes(void **state) {
  (void)state;
  setenv("AXON_CACHE_LIMIT", "60K", 1);
  for (int k = 0; k < 20; k++)
    if (fork() == 0)
      _exit(many());
  int status, bad = 0, ended = 0;
  while (wait(&status) > 0) { /* all, so that none still writes afterwards */
    bad |= status;
    ended++;
  }
  assert_true(ended >= 20);
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
      T(test_keys),      T(test_kept),         T(test_damage),
      T(test_verify),    T(test_exchanged),    T(test_foreign),
      T(test_eviction),  T(test_limits),       T(test_stale),
      T(test_modes),     T(test_refused),      T(test_read_only),
      T(test_parents),   T(test_links),        T(test_ring),
      T(test_turning),   T(test_foreign_kind), T(test_no_home),
      T(test_processes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
