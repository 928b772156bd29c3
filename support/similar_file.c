/* Main entry point: file_find_similar. */
#include "support/similar_file.h"
#include "support/edit_distance.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Reads at most this many names of a folder. */
enum { MAX_NAMES = 4096 };

bool file_find_similar(const char *path, char *out, size_t size) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  size_t folder = (size_t)(name - path);
  if (folder >= size || strlen(name) < 3)
    return false;
  snprintf(out, size, "%.*s", (int)folder, path);
  DIR *dir = opendir(folder ? out : ".");
  int best = 3;
  const struct dirent *entry;
  for (int i = 0; dir && i < MAX_NAMES && (entry = readdir(dir)); i++) {
    int distance = edit_distance(name, entry->d_name, best - 1);
    if (distance >= best || distance == 0 || entry->d_name[0] == '.' ||
        folder + strlen(entry->d_name) >= size)
      continue;
    best = distance;
    snprintf(out + folder, size - folder, "%s", entry->d_name);
  }
  if (dir)
    closedir(dir);
  return best < 3;
}
