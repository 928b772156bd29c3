/* Lookup in the embedded standard library.  Parses a definition at its first
   use.  Main entry point: stdlib_find_dec. */
#include "session/internal.h"
#include "session/stdlib.h"
#include "support/arena.h"
#include "support/intern.h"

#include <string.h>

static int compare_names(const char *module, const char *name,
                         const StdlibName *with) {
  int order = strcmp(module, with->module);
  return order ? order : strcmp(name, with->name);
}

static const StdlibName *find(const char *module, const char *name) {
  uint32_t low = 0, high = stdlib_name_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    int order = compare_names(module, name, &stdlib_names[middle]);
    if (order == 0)
      return &stdlib_names[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

static uint32_t stdlib_source(Session *s, uint32_t number) {
  if (!s->stdlib_sources)
    s->stdlib_sources = NEW_ARRAY(s->arena, uint32_t, stdlib_file_count);
  uint32_t *file = &s->stdlib_sources[number];
  if (!*file)
    *file =
        sources_add(&s->sources, stdlib_files[number].name,
                    stdlib_files[number].text, stdlib_files[number].len, true);
  return *file;
}

uint32_t stdlib_module_source(Session *s, const Sym *module) {
  for (uint32_t i = 0; i < stdlib_file_count; i++)
    if (strcmp(stdlib_files[i].module, module ? module->text : "") == 0)
      return stdlib_source(s, i);
  return 0;
}

Dec *stdlib_find_dec(void *owner, Sym *module, Sym *name) {
  Session *s = owner;
  const StdlibName *entry = find(module ? module->text : "", name->text);
  if (!entry)
    return NULL;
  /* Names of one declaration share the key, which is its position. */
  const void *key = stdlib_files[entry->file].text + entry->start;
  Dec *dec = map_get(&s->stdlib_decs, key);
  if (dec)
    return dec;
  Program program =
      parse_range(&s->sources, stdlib_source(s, entry->file), entry->start,
                  entry->end, s->interner, s->arena, &s->diags);
  if (!program.dec_count) /* impossible: it was parsed at build time */
    return NULL;
  dec = program.decs[0];
  map_put(&s->stdlib_decs, key, dec);
  return dec;
}

bool stdlib_has_module(void *owner, Sym *module) {
  (void)owner;
  for (uint32_t i = 0; i < stdlib_file_count; i++)
    if (*stdlib_files[i].module &&
        strcmp(stdlib_files[i].module, module->text) == 0)
      return true;
  return false;
}

/* Other names are for the library itself. */
static bool is_documented(const StdlibName *n) {
  return strncmp(stdlib_files[n->file].text + n->start, "(**", 3) == 0;
}

void stdlib_each_name(void (*f)(void *, const char *name), void *arg) {
  char full[256];
  for (uint32_t i = 0; i < stdlib_name_count; i++) {
    const StdlibName *n = &stdlib_names[i];
    if (!is_documented(n))
      continue;
    snprintf(full, sizeof full, "%s%s%s", n->module, *n->module ? "." : "",
             n->name);
    f(arg, full);
  }
}
