/* Schedules of contractions as text: one word for the way, then name=value. */
#include "backend/cuda/gemm.h"

#include <stdlib.h>
#include <string.h>

typedef struct Field {
  const char *name;
  size_t at;
} Field;

static const Field fields[] = {
#define GEMM_FIELD(field, about) {#field, offsetof(GemmSchedule, field)},
#include "backend/cuda/gemm.def"
};

typedef struct Word {
  const char *field;
  uint32_t value;
  const char *text;
} Word;

static const Word words[] = {
#define GEMM_WORD(kind, name, text) {#kind, name, text},
#include "backend/cuda/gemm.def"
};

static uint32_t *field_of(const GemmSchedule *s, const Field *f) {
  return (uint32_t *)((char *)s + f->at);
}

static const Word *word_of(const char *field, uint32_t value) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++)
    if (strcmp(words[j].field, field) == 0 && words[j].value == value)
      return &words[j];
  return NULL;
}

void gemm_print(Buffer *out, const GemmSchedule *s) {
  const char *between = "";
  for (size_t j = 0; j < ARRAY_LEN(fields); j++) {
    uint32_t value = *field_of(s, &fields[j]);
    const Word *word = word_of(fields[j].name, value);
    if (!value)
      continue;
    if (word)
      buffer_printf(out, "%s%s=%s", between, fields[j].name, word->text);
    else
      buffer_printf(out, "%s%s=%u", between, fields[j].name, value);
    between = " ";
  }
}

/* ---- reading ---- */

static const Field *find_field(const char *name, size_t len) {
  for (size_t j = 0; j < ARRAY_LEN(fields); j++)
    if (strlen(fields[j].name) == len && memcmp(fields[j].name, name, len) == 0)
      return &fields[j];
  return NULL;
}

static bool read_value(const Field *f, const char *text, size_t len,
                       uint32_t *out) {
  bool named = false;
  for (size_t j = 0; j < ARRAY_LEN(words); j++) {
    if (strcmp(words[j].field, f->name) != 0)
      continue;
    named = true;
    if (strlen(words[j].text) == len && memcmp(words[j].text, text, len) == 0) {
      *out = words[j].value;
      return true;
    }
  }
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (named || end != text + len || !len || *text < '0' || *text > '9' ||
      value > UINT16_MAX)
    return false;
  *out = (uint32_t)value;
  return true;
}

bool gemm_parse(GemmSchedule *s, const char *text, Buffer *why) {
  GemmSchedule to = *s;
  while (*(text += strspn(text, " \t\r\n"))) {
    size_t len = strcspn(text, " \t\r\n"), name = strcspn(text, "= \t\r\n");
    const Field *f = find_field(text, name);
    if (!f) {
      buffer_printf(why, "%.*s is no field of a schedule", (int)name, text);
      return false;
    }
    if (name == len ||
        !read_value(f, text + name + 1, len - name - 1, field_of(&to, f))) {
      buffer_printf(why, "%.*s: that is no value of %s", (int)len, text,
                    f->name);
      return false;
    }
    text += len;
  }
  *s = to;
  return true;
}
