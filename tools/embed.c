/* embed: writes the standard library as C data, with an index of its names.
 *
 *   embed SOURCE-DIRECTORY OUTPUT.c stdlib/a.axn stdlib/b.axn ...
 *
 * Runs during the build of Axon.  The build stops if a library file does not
 * parse, runs code, or defines a name twice. */
#include "parser/parser.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/diag.h"
#include "support/diag_render.h"
#include "support/intern.h"
#include "support/source.h"
#include "support/trap.h"
#include "support/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct NameEntry {
  const char *module, *name;
  uint32_t file, start, end;
} NameEntry;

typedef struct Embed {
  Arena *arena;
  Sources sources;
  Interner *interner;
  Diags diags;
  VEC(NameEntry) entries;
  VEC(const char *) modules;
  const char *module; /* module of the current file */
  uint32_t file;      /* index of the current file */
  const Dec *dec;
} Embed;

NORETURN static void die(const char *what, const char *path) {
  fprintf(stderr, "embed: %s %s: %s\n", what, path, strerror(errno));
  exit(1);
}

static char *read_file(Arena *arena, const char *path, size_t *len) {
  FILE *in = fopen(path, "rb");
  if (!in)
    die("cannot read", path);
  Buffer text = {0};
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, in)) > 0;)
    buffer_add(&text, part, n);
  if (ferror(in))
    die("cannot read", path);
  fclose(in);
  char *copy = arena_strndup(arena, text.text ? text.text : "", text.len);
  *len = text.len;
  buffer_free(&text);
  return copy;
}

/* ---- the index ---- */

static void add_name(Embed *e, const Sym *name) {
  const Dec *dec = e->dec;
  uint32_t start = dec->doc ? dec->doc_span.start : dec->span.start;
  for (uint32_t i = 0; i < e->entries.len; i++)
    if (strcmp(e->entries.at[i].name, name->text) == 0 &&
        strcmp(e->entries.at[i].module, e->module) == 0) {
      diag_error(&e->diags, 0, dec->span, "%s is defined twice", name->text);
      return;
    }
  VEC_PUSH(e->arena, e->entries,
           ((NameEntry){e->module, name->text, e->file, start, dec->span.end}));
}

static void add_pattern(Embed *e, const Pat *pat) {
  if (pat->id &&
      (pat->kind == PAT_VAR || pat->kind == PAT_AS || pat->kind == PAT_SPLICE))
    add_name(e, pat->id);
  for (uint32_t i = 0; i < pat->arg_count; i++)
    add_pattern(e, pat->args[i]);
  for (uint32_t i = 0; i < pat->field_count; i++)
    if (pat->fields[i].pat)
      add_pattern(e, pat->fields[i].pat);
    else
      add_name(e, pat->fields[i].id);
}

static void add_dec(Embed *e, const Dec *dec) {
  e->dec = dec;
  switch (dec->kind) {
  case DEC_VAL:
    add_pattern(e, dec->pat);
    break;
  case DEC_FUN:
    for (uint32_t i = 0; i < dec->fun_count; i++)
      add_name(e, dec->funs[i].name);
    break;
  case DEC_TYPE:
    add_name(e, dec->name);
    break;
  case DEC_DATATYPE:
    add_name(e, dec->name);
    for (uint32_t i = 0; i < dec->con_count; i++)
      add_name(e, dec->cons[i].name);
    break;
  case DEC_IMPORT:
  case DEC_OPEN:
  case DEC_DO:
  case DEC_SCHEDULE:
  case DEC_KERNEL:
  case DEC_EXPR:
    diag_error(&e->diags, 0, dec->span, "a library file only defines");
    break;
  }
}

/* "stdlib/nn.axn" is module nn; "stdlib/prelude.axn" is no module. */
static const char *module_of(Arena *arena, const char *path) {
  const char *base = strrchr(path, '/');
  base = base ? base + 1 : path;
  const char *dot = strrchr(base, '.');
  const char *name =
      arena_strndup(arena, base, dot ? (size_t)(dot - base) : strlen(base));
  return strcmp(name, "prelude") == 0 ? "" : name;
}

static int compare_entries(const void *a, const void *b) {
  const NameEntry *x = a, *y = b;
  int order = strcmp(x->module, y->module);
  return order ? order : strcmp(x->name, y->name);
}

/* ---- writing C ---- */

static void put_text(FILE *out, const char *text, size_t len) {
  fputs("\n   \"", out);
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '\n')
      fprintf(out, "\\n%s", i + 1 < len ? "\"\n   \"" : "");
    else if (c == '"' || c == '\\' || c == '?')
      fprintf(out, "\\%c", c);
    else if (c >= ' ' && c < 0x7f)
      putc(c, out);
    else
      fprintf(out, "\\%03o", c);
  }
  fputs("\"", out);
}

static void put_file(Embed *e, FILE *out, uint32_t file) {
  const Source *source = sources_get(&e->sources, file + 1);
  fprintf(out, "  {\"%s\", \"%s\",", e->modules.at[file], source->name);
  put_text(out, source->text, source->len);
  fprintf(out, ",\n   %zu},\n", source->len);
}

static void write_data(Embed *e, FILE *out) {
  fputs("/* Written by tools/embed.c. */\n#include \"session/stdlib.h\"\n\n"
        "const StdlibFile stdlib_files[] = {\n",
        out);
  for (uint32_t i = 0; i < e->modules.len; i++)
    put_file(e, out, i);
  fprintf(out, "  {0, 0, 0, 0}};\nconst uint32_t stdlib_file_count = %u;\n\n",
          e->modules.len);
  fputs("const StdlibName stdlib_names[] = {\n", out);
  for (uint32_t i = 0; i < e->entries.len; i++) {
    const NameEntry *x = &e->entries.at[i];
    fprintf(out, "  {\"%s\", \"%s\", %u, %u, %u},\n", x->module, x->name,
            x->file, x->start, x->end);
  }
  fprintf(out, "  {0, 0, 0, 0, 0}};\nconst uint32_t stdlib_name_count = %u;\n",
          e->entries.len);
}

static void read_library(Embed *e, const char *directory, char **paths,
                         int count) {
  for (int i = 0; i < count; i++) {
    const char *base = strrchr(paths[i], '/');
    size_t len;
    char *text = read_file(
        e->arena, arena_printf(e->arena, "%s/%s", directory, paths[i]), &len);
    uint32_t file =
        sources_add(&e->sources, base ? base + 1 : paths[i], text, len, false);
    e->module = module_of(e->arena, paths[i]);
    e->file = (uint32_t)i;
    VEC_PUSH(e->arena, e->modules, e->module);
    Program program = parse_program(&e->sources, file, false, e->interner,
                                    e->arena, &e->diags);
    for (uint32_t k = 0; k < program.dec_count; k++)
      add_dec(e, program.decs[k]);
  }
  if (e->entries.len)
    qsort(e->entries.at, e->entries.len, sizeof *e->entries.at,
          compare_entries);
}

static int report(Embed *e) {
  Buffer text = {0};
  for (uint32_t i = 0; i < e->diags.all.len; i++)
    diag_render(&text, &e->sources, e->diags.all.at[i], false);
  if (text.text)
    fputs(text.text, stderr);
  buffer_free(&text);
  return e->diags.errors ? 1 : 0;
}

static int run(const char *directory, const char *output, char **paths,
               int count) {
  Embed e = {.arena = arena_new()};
  sources_init(&e.sources, e.arena);
  e.interner = interner_new(e.arena);
  diags_init(&e.diags, e.arena);
  read_library(&e, directory, paths, count);
  int status = report(&e);
  if (status == 0) {
    FILE *out = fopen(output, "w");
    if (!out)
      die("cannot write", output);
    write_data(&e, out);
    if (ferror(out) || fclose(out) != 0)
      die("cannot write", output);
  }
  arena_free(e.arena);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: embed SOURCE-DIRECTORY OUTPUT.c FILE...\n");
    return 2;
  }
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    fprintf(stderr, "embed: out of memory\n");
    return 1;
  }
  int status = run(argv[1], argv[2], argv + 3, argc - 3);
  trap_end(&trap);
  return status;
}
