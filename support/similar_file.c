/* Suggests a file instead of one that is missing: reads the names of the folder
   and takes the nearest one.  Stems and extensions are compared apart.  Main
   entry point: similar_file_help. */
#define _GNU_SOURCE
#include "support/similar_file.h"
#include "support/edit_distance.h"
#include "support/utf8.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* A folder with more names gets no suggestion: which of its names are read
   first depends on the file system. */
enum { MAX_NAMES = 1 << 14 };
enum { NO_DISTANCE = 100 };

typedef struct FileSearch {
  const char *name; /* of the missing file */
  DIR *dir;
  char best[NAME_MAX + 1];
  int best_distance;
} FileSearch;

/* The end of the stem: the last dot, or the end of the name. */
static size_t stem_len(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static int part_distance(const char *wanted, const char *found) {
  if (strcmp(wanted, found) == 0)
    return 0;
  int limit = edit_distance_limit(strlen(wanted));
  int distance =
      strcasecmp(wanted, found) == 0 ? 1 : edit_distance(wanted, found, limit);
  return distance <= limit ? distance : NO_DISTANCE;
}

static int file_distance(const char *wanted, const char *found) {
  char wanted_stem[NAME_MAX + 1], found_stem[NAME_MAX + 1];
  size_t wanted_len = stem_len(wanted), found_len = stem_len(found);
  if (wanted_len > NAME_MAX || found_len > NAME_MAX)
    return NO_DISTANCE;
  snprintf(wanted_stem, sizeof wanted_stem, "%.*s", (int)wanted_len, wanted);
  snprintf(found_stem, sizeof found_stem, "%.*s", (int)found_len, found);
  const char *wanted_ending = wanted + wanted_len;
  const char *found_ending = found + found_len;
  if (!*wanted_ending != !*found_ending)
    return NO_DISTANCE;
  return part_distance(wanted_stem, found_stem) +
         part_distance(wanted_ending + (*wanted_ending != 0),
                       found_ending + (*found_ending != 0));
}

/* True if a terminal shows the name and obeys no byte of it: U+0080 to U+009F
   are control characters, too. */
static bool is_printable(const char *name) {
  for (const char *p = name; *p; p++) {
    unsigned char c = (unsigned char)p[0], next = (unsigned char)p[1];
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && next < 0xa0))
      return false;
  }
  return utf8_valid_prefix(name, strlen(name)) == strlen(name);
}

static bool is_regular(DIR *dir, const struct dirent *entry) {
  if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
    return entry->d_type == DT_REG;
  struct stat info;
  return fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 &&
         S_ISREG(info.st_mode);
}

/* Of equally near names, the first one in the order of bytes wins. */
static void consider(FileSearch *s, const struct dirent *entry) {
  const char *name = entry->d_name;
  int distance = name[0] == '.' ? NO_DISTANCE : file_distance(s->name, name);
  if (distance == 0 || distance > s->best_distance ||
      (distance == s->best_distance && s->best[0] &&
       strcmp(name, s->best) > 0) ||
      !is_printable(name) || !is_regular(s->dir, entry))
    return;
  snprintf(s->best, sizeof s->best, "%s", name);
  s->best_distance = distance;
}

/* Returns false if the folder has too many names. */
static bool search_folder(FileSearch *s) {
  const struct dirent *entry;
  for (int count = 0; (entry = readdir(s->dir)); count++) {
    if (count == MAX_NAMES)
      return false;
    consider(s, entry);
  }
  return true;
}

bool similar_file_help(const char *path, char *out, size_t size) {
  const char *slash = strrchr(path, '/');
  FileSearch s = {.name = slash ? slash + 1 : path, .best_distance = 2};
  char folder[PATH_MAX] = ".";
  int folder_len = (int)(s.name - path);
  if (strlen(path) >= sizeof folder)
    return false;
  if (folder_len)
    snprintf(folder, sizeof folder, "%.*s", folder_len, path);
  s.dir = opendir(folder);
  if (!s.dir)
    return false;
  bool is_read = search_folder(&s);
  closedir(s.dir);
  if (!is_read || !s.best[0])
    return false;
  int len =
      snprintf(out, size, "did you mean \"%.*s%s\"?", folder_len, path, s.best);
  return len > 0 && (size_t)len < size;
}
