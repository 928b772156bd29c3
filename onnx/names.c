/* Identifiers of the program, made from names in the file. */
#include "onnx/internal.h"
#include "primitives/primitives.h"

#include <ctype.h>
#include <string.h>

bool is_reserved_name(const char *name) {
  static const char *const words[] = {
#define KEYWORD(token, text, kind) text,
#include "lexer/keywords.def"
#undef KEYWORD
#define H(name, function, text) #function,
#include "onnx/helpers.def"
#undef H
    "true",
    "false",
    "inf",
    "nan",
    "pi",
    "e",
    "model",
    "nn",
    "clamp",
    "softmax",
    "mean",
    "square",
    "all",
    "bool",
    "u8",
    "i8",
    "i32",
    "i64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f8_e4m3",
    "f8_e5m2",
    "f4_e2m1",
    "f8_e8m0",
    "norm",
    "logsumexp",
    "int",
    "key",
    "id",
    "cumprod",
    "zeros",
    "log_softmax",
    "fst",
    "snd",
    "swap",
    "linalg",
    "take_along_axis",
    "put",
    "const",
    "names",
    "unit",
    "string",
  };
  for (size_t i = 0; i < ARRAY_LEN(words); i++)
    if (strcmp(words[i], name) == 0)
      return true;
  return prim_by_name(name) != PRIM_NONE;
}

static bool is_used(Importer *im, const char *name) {
  return is_reserved_name(name) ||
         map_get(&im->used_names, intern_string(im->interner, name));
}

static const char *claim(Importer *im, const char *name) {
  const char *unique = name;
  for (int i = 2; is_used(im, unique); i++)
    unique = arena_printf(im->arena, "%s_%d", name, i);
  Sym *sym = intern_string(im->interner, unique);
  map_put(&im->used_names, sym, sym);
  return sym->text;
}

/* Behind the prefix that an inliner of graphs put in front of a name, such as
   If_0_then_branch__Inline_0__. */
static const char *without_prefix(const char *name) {
  const char *inlined = strstr(name, "__Inline_");
  const char *end = inlined ? strstr(inlined + 2, "__") : NULL;
  return end && end[2] ? end + 2 : name;
}

/* Letters, digits and _ of a name; everything else becomes one _. */
static char *clean(Importer *im, const char *name) {
  name = without_prefix(name);
  size_t len = strnlen(name, 4096), n = 0;
  char *out = import_alloc(im->arena, len + 1);
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)name[i];
    if (c < 128 && isalnum(c))
      out[n++] = (char)tolower(c);
    else if (n > 0 && out[n - 1] != '_')
      out[n++] = '_';
  }
  static const char suffix[] = "_output_0";
  if (n > sizeof suffix && strcmp(out + n - (sizeof suffix - 1), suffix) == 0)
    n -= sizeof suffix - 1;
  while (n > 0 && out[n - 1] == '_')
    n--;
  out[n] = 0;
  return out;
}

/* The last parts of a name that together have at most `limit` characters. */
static const char *last_parts(const char *name, size_t limit) {
  const char *best = NULL;
  for (const char *at = name; at; at = strchr(at, '_')) {
    at += *at == '_';
    if (islower((unsigned char)*at) && strlen(at) <= limit)
      return at;
    if (islower((unsigned char)*at))
      best = at;
  }
  return best;
}

const char *make_identifier(Importer *im, const char *name, const char *other,
                            size_t limit) {
  char *whole = clean(im, name);
  const char *part = last_parts(whole, limit);
  if (!part && isdigit((unsigned char)*whole))
    part = arena_printf(im->arena, "%s_%.40s", clean(im, other), whole);
  if (!part)
    part = clean(im, other);
  return claim(im, arena_strndup(im->arena, part, strnlen(part, 2 * limit)));
}

const char *index_name(Importer *im, const char *wish) {
  while (is_used(im, wish))
    wish = arena_printf(im->arena, "%s'", wish);
  return wish;
}
