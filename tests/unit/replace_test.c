/* Tests atomic file replacement: permissions, links, refused files, and who can
 * read the temporary file meanwhile. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/replace.h"
#include "runtime/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char dir[] = "/tmp/axon_replace_XXXXXX";

static const char *at(const char *name) {
  static char paths[4][600];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", dir, name);
  return path;
}

static void put(const char *name, mode_t mode, const char *text) {
  unlink(at(name));
  int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

static struct stat of(const char *name) {
  struct stat info;
  assert_int_equal(lstat(at(name), &info), 0);
  return info;
}

static mode_t mode_of(const char *name) {
  return of(name).st_mode & 07777;
}

static void holds(const char *name, const char *text) {
  char got[100] = "";
  int fd = open(at(name), O_RDONLY);
  assert_true(fd >= 0);
  assert_true(read(fd, got, sizeof got - 1) >= 0);
  close(fd);
  assert_string_equal(got, text);
}

static bool replace(const char *name, mode_t mode, const char *text) {
  return replace_file(at(name), mode, text, strlen(text));
}

/* No temporary file is left. */
static void no_temp(void) {
  DIR *d = opendir(dir);
  for (struct dirent *e; (e = readdir(d));)
    if (strncmp(e->d_name, ".axon", 5) == 0)
      fail_msg("%s was left", e->d_name);
  closedir(d);
}

/* ---- rights ---- */

static void test_modes(void **state) {
  (void)state;
  static const mode_t masks[] = {022, 077, 0},
                      modes[] = {0600, 0640, 0644,  0666, 0400,
                                 0755, 0604, 02755, 0000};
  for (size_t m = 0; m < ARRAY_LEN(masks); m++) {
    umask(masks[m]);
    for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
      if (geteuid() != 0 && !(modes[k] & 0200))
        continue;
      put("old", modes[k], "old");
      assert_true(replace("old", 0666, "new"));
      assert_int_equal(mode_of("old"), modes[k]);
    }
    unlink(at("fresh"));
    assert_true(replace("fresh", 0666, "new"));
    assert_int_equal(mode_of("fresh"), 0666 & ~masks[m]);
    unlink(at("fresh"));
    assert_true(replace("fresh", 0777, "new"));
    assert_int_equal(mode_of("fresh"), 0777 & ~masks[m]);
  }
  umask(022);
  /* Execution rights for all users who may read. */
  put("old", 0640, "old");
  assert_true(replace("old", 0777, "new"));
  assert_int_equal(mode_of("old"), 0750);
  no_temp();
}

static void test_beside(void **state) {
  (void)state;
  Replacement r;
  put("old", 0644, "old");
  assert_true(replace_begin(&r, at("old"), 0666));
  struct stat info;
  assert_int_equal(stat(r.temp, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0600);
  assert_true(replace_write(&r, "new", 3));
  holds("old", "old");
  replace_drop(&r);
  holds("old", "old");
  no_temp();
}

static void test_owner(void **state) {
  (void)state;
  if (geteuid() != 0)
    skip();
  put("old", 0640, "old");
  assert_int_equal(chown(at("old"), NOBODY, NOBODY), 0);
  assert_true(replace("old", 0666, "new"));
  assert_int_equal(of("old").st_uid, NOBODY);
  assert_int_equal(of("old").st_gid, NOBODY);
  assert_int_equal(mode_of("old"), 0640);
  holds("old", "new");
}

/* A user who cannot give a file away keeps it, and the rights of the old group
 * do not apply to the user's own group. */
static void test_other_owner(void **state) {
  (void)state;
  if (geteuid() != 0)
    skip();
  put("old", 0666, "old");
  put("group", 0660, "old");
  assert_int_equal(chown(at("group"), NOBODY, 0), 0);
  assert_int_equal(chmod(dir, 0777), 0);
  pid_t child = fork();
  if (child == 0) {
    bool good = setgid(NOBODY) == 0 && setuid(NOBODY) == 0 &&
                replace("old", 0666, "new") && replace("group", 0666, "new");
    _exit(good ? 0 : errno);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  assert_int_equal(of("old").st_uid, NOBODY);
  assert_int_equal(mode_of("old"), 0666); /* others could do so, too */
  assert_int_equal(of("group").st_gid, NOBODY);
  assert_int_equal(mode_of("group"), 0600);
  chmod(dir, 0700);
}

static void test_attributes(void **state) {
  (void)state;
  put("old", 0640, "old");
  if (setxattr(at("old"), "user.note", "kept", 4, 0) != 0)
    skip(); /* not on this file system */
  /* user::rw, user:65534:r, group::none, mask::r, other::none */
  static const uint8_t acl[] = {
      2, 0,   0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
      0, 254, 255, 0,   0,   4,   0,  0, 0,   255, 255, 255, 255, 16, 0,
      4, 0,   255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255};
  bool lists =
      setxattr(at("old"), "system.posix_acl_access", acl, sizeof acl, 0) == 0;
  mode_t mode = mode_of("old");
  assert_true(replace("old", 0666, "new"));
  char got[100];
  assert_int_equal(getxattr(at("old"), "user.note", got, sizeof got), 4);
  assert_int_equal(mode_of("old"), mode);
  ssize_t len = getxattr(at("old"), "system.posix_acl_access", got, sizeof got);
  assert_int_equal(len, lists ? (ssize_t)sizeof acl : -1);
  if (lists)
    assert_memory_equal(got, acl, sizeof acl);
}

/* ---- links ---- */

static void test_links(void **state) {
  (void)state;
  char folder[700];
  snprintf(folder, sizeof folder, "%s/sub", dir);
  assert_int_equal(mkdir(folder, 0755), 0);
  put("sub/old", 0600, "old");
  assert_int_equal(symlink("sub/old", at("first")), 0);
  assert_int_equal(symlink(at("first"), at("second")), 0);
  assert_true(replace("second", 0666, "new"));
  assert_true(S_ISLNK(of("second").st_mode) && S_ISLNK(of("first").st_mode));
  holds("sub/old", "new");
  assert_int_equal(mode_of("sub/old"), 0600);
  /* A dangling link, relative to its own folder. */
  assert_int_equal(symlink("made", at("sub/dangling")), 0);
  assert_int_equal(symlink("sub/dangling", at("far")), 0);
  assert_true(replace("far", 0666, "new"));
  assert_true(S_ISLNK(of("far").st_mode) &&
              S_ISLNK(of("sub/dangling").st_mode));
  holds("sub/made", "new");
  assert_int_equal(symlink("round", at("round")), 0);
  assert_false(replace("round", 0666, "new"));
  assert_int_equal(errno, ELOOP);
  assert_int_equal(symlink("none/file", at("nowhere")), 0);
  assert_false(replace("nowhere", 0666, "new"));
  assert_int_equal(errno, ENOENT);
}

/* ---- what is refused ---- */

static void test_refused(void **state) {
  (void)state;
  assert_false(replace("sub", 0666, "new"));
  assert_int_equal(errno, EISDIR);
  assert_int_equal(mkfifo(at("pipe"), 0600), 0);
  assert_false(replace("pipe", 0666, "new"));
  assert_int_equal(errno, EINVAL);
  assert_false(replace("none/file", 0666, "new"));
  assert_int_equal(errno, ENOENT);
  put("fixed", 0444, "old");
  put("sub/inside", 0666, "old");
  chmod(at("sub"), 0555);
  chmod(dir, 0777);
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
      _exit(1);
    if (replace("fixed", 0666, "new") || errno != EACCES)
      _exit(2);
    if (replace("sub/inside", 0666, "new") || errno != EACCES)
      _exit(3);
    if (replace("sub/new", 0666, "new") || errno != EACCES)
      _exit(4);
    /* A read-only file may be replaced. */
    _exit(replace("fixed", 0444, "new") ? 0 : 5);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  holds("fixed", "new");
  holds("sub/inside", "old");
  chmod(dir, 0700);
  chmod(at("sub"), 0755);
  no_temp();
}

/* ---- what save writes, of each format ---- */

static const char *const formats[] = {"x.npy", "x.npz", "x.safetensors",
                                      "x.csv", "x.tsv", "x.png",
                                      "x.pgm", "x.ppm"};

static Tensor *picture(bool colour, int64_t side) {
  Fault fault;
  return tensor_new(DT_U8, colour ? 3 : 2, (int64_t[]){side, side, 3}, true,
                    &fault);
}

static void save(const char *name, Tensor *grey, Tensor *colour) {
  Fault fault = {0};
  bool ppm = strstr(name, ".ppm");
  if (!file_save(at(name), 1, NULL, ppm ? &colour : &grey, &fault))
    fail_msg("%s: %s", name, fault.message);
}

static void test_formats(void **state) {
  (void)state;
  static const mode_t masks[] = {022, 077};
  Tensor *grey = picture(false, 3), *colour = picture(true, 3);
  for (size_t m = 0; m < ARRAY_LEN(masks); m++)
    for (size_t k = 0; k < ARRAY_LEN(formats); k++) {
      umask(masks[m]);
      unlink(at(formats[k]));
      unlink(at("link"));
      save(formats[k], grey, colour);
      assert_int_equal(mode_of(formats[k]), 0666 & ~masks[m]);
      chmod(at(formats[k]), 0640);
      save(formats[k], grey, colour);
      assert_int_equal(mode_of(formats[k]), 0640);
      char link[20], name[40];
      snprintf(name, sizeof name, "link%s", strchr(formats[k], '.'));
      snprintf(link, sizeof link, "%s", formats[k]);
      unlink(at(name));
      assert_int_equal(symlink(link, at(name)), 0);
      save(name, grey, colour);
      assert_true(S_ISLNK(of(name).st_mode));
      assert_int_equal(mode_of(formats[k]), 0640);
    }
  umask(022);
  tensor_release(grey);
  tensor_release(colour);
  no_temp();
}

/* While a child saves repeatedly, nobody else can read any file in the folder;
 * libzip creates a file of its own. */
static void test_nobody_reads(void **state) {
  (void)state;
  for (size_t k = 0; k < ARRAY_LEN(formats); k++) {
    Tensor *grey = picture(false, 300), *colour = picture(true, 300);
    save(formats[k], grey, colour);
    chmod(at(formats[k]), 0600);
    pid_t child = fork();
    if (child == 0) {
      for (int n = 0; n < 40; n++)
        save(formats[k], grey, colour);
      _exit(0);
    }
    mode_t seen = 0;
    char name[300] = "";
    while (waitpid(child, NULL, WNOHANG) == 0) {
      DIR *d = opendir(dir);
      struct stat info;
      for (struct dirent *e; (e = readdir(d));)
        if ((strncmp(e->d_name, ".axon", 5) == 0 ||
             strcmp(e->d_name, formats[k]) == 0) &&
            lstat(at(e->d_name), &info) == 0 && info.st_mode & 077) {
          seen |= info.st_mode & 077;
          snprintf(name, sizeof name, "%s", e->d_name);
        }
      closedir(d);
    }
    if (seen)
      fail_msg("%s: %s had the mode %o", formats[k], name, seen);
    tensor_release(grey);
    tensor_release(colour);
  }
}

static int group_setup(void **state) {
  (void)state;
  umask(022);
  return mkdtemp(dir) ? 0 : -1;
}

static int group_teardown(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_modes),       cmocka_unit_test(test_beside),
      cmocka_unit_test(test_owner),       cmocka_unit_test(test_other_owner),
      cmocka_unit_test(test_attributes),  cmocka_unit_test(test_links),
      cmocka_unit_test(test_refused),     cmocka_unit_test(test_formats),
      cmocka_unit_test(test_nobody_reads)};
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
