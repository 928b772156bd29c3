/* Prints and parses matmul schedules as text: key=value, separated by spaces.
 */
#include "backend/cuda/gemm.h"
#include "plan/schedule_file.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Users of fields: sets of matmul kernels, and attention. */
enum {
  FMA = 1 << MMA_KIND_FMA,
  MMA = 1 << MMA_KIND_MMA_SYNC,
  WGMMA = 1 << MMA_KIND_WGMMA,
  TCGEN05 = 1 << MMA_KIND_TCGEN05,
  ATTENTION = 1,
  PRODUCER = WGMMA | TCGEN05,
  MATMUL = FMA | MMA | PRODUCER,
  ALL = MATMUL | ATTENTION,
  DERIVED = 1 << (MMA_KIND_TCGEN05 + 1), /* of other fields */
};

typedef struct ScheduleField {
  const char *key;
  size_t offset; /* in GemmSchedule */
  uint32_t users, unused;
} ScheduleField;

static const ScheduleField fields[] = {
#define GEMM_FIELD(field, key, users, unused, about) \
  {key, offsetof(GemmSchedule, field), users, unused},
#include "backend/cuda/gemm.def"
};

typedef struct ScheduleWord {
  size_t offset; /* of the field in GemmSchedule */
  uint32_t value;
  const char *text;
} ScheduleWord;

static const ScheduleWord words[] = {
#define GEMM_WORD(field, value, word) \
  {offsetof(GemmSchedule, field), value, word},
#include "backend/cuda/gemm.def"
};

static uint32_t *field_at(const GemmSchedule *s, const ScheduleField *f) {
  return (uint32_t *)((char *)s + f->offset);
}

static const ScheduleWord *find_word(size_t offset, uint32_t value) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++)
    if (words[j].offset == offset && words[j].value == value)
      return &words[j];
  return NULL;
}

static void print_field(Buffer *out, const GemmSchedule *s,
                        const ScheduleField *f) {
  uint32_t value = *field_at(s, f);
  const ScheduleWord *word = find_word(f->offset, value);
  if (word)
    buffer_printf(out, "%s=%s", f->key, word->text);
  else
    buffer_printf(out, "%s=%u", f->key, value);
}

void gemm_schedule_print(Buffer *out, const GemmSchedule *s) {
  const char *separator = "";
  if (s->micro) {
    buffer_printf(out, "micro=%s", s->micro->name);
    separator = " ";
  }
  for (size_t j = 0; j < ARRAY_LEN(fields); j++) {
    if (!*field_at(s, &fields[j]))
      continue;
    buffer_puts(out, separator);
    print_field(out, s, &fields[j]);
    separator = " ";
  }
}

/* ---- parser ---- */

const char *gemm_schedule_take_micro(Arena *arena, const char *text,
                                     const char **name) {
  static const char key[] = "micro", blanks[] = " \t\r\n";
  *name = NULL;
  for (const char *at = text; *(at += strspn(at, blanks));) {
    size_t len = strcspn(at, blanks), key_len = strcspn(at, "= \t\r\n");
    if (key_len == strlen(key) && memcmp(at, key, key_len) == 0) {
      size_t to = key_len + (at[key_len] == '=');
      *name = arena_strndup(arena, at + to, len - to);
      return arena_printf(arena, "%.*s%s", (int)(at - text), text, at + len);
    }
    at += len;
  }
  return text;
}

static const ScheduleField *find_field(const char *key, size_t len) {
  for (size_t j = 0; j < ARRAY_LEN(fields); j++)
    if (strlen(fields[j].key) == len && memcmp(fields[j].key, key, len) == 0)
      return &fields[j];
  return NULL;
}

static bool read_value(const ScheduleField *f, const char *text, size_t len,
                       uint32_t *out) {
  bool named = false;
  for (size_t j = 0; j < ARRAY_LEN(words); j++) {
    if (words[j].offset != f->offset)
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

bool gemm_schedule_parse(GemmSchedule *s, const char *text, Buffer *why) {
  GemmSchedule to = *s;
  bool is_set[ARRAY_LEN(fields)] = {false};
  while (*(text += strspn(text, " \t\r\n"))) {
    size_t len = strcspn(text, " \t\r\n"), name = strcspn(text, "= \t\r\n");
    const ScheduleField *f = find_field(text, name);
    if (!f && name == 5 && memcmp(text, "micro", name) == 0) {
      buffer_puts(why, s->micro ? "micro is set twice"
                                : "attention has no micro-kernel");
      return false;
    }
    if (!f) {
      buffer_printf(why, "%.*s is not a field of a schedule", (int)name, text);
      return false;
    }
    if (is_set[f - fields]) {
      buffer_printf(why, "%s is set twice", f->key);
      return false;
    }
    is_set[f - fields] = true;
    if (name == len ||
        !read_value(f, text + name + 1, len - name - 1, field_at(&to, f))) {
      buffer_printf(why, "%.*s: invalid value of %s", (int)len, text, f->key);
      return false;
    }
    text += len;
  }
  *s = to;
  return true;
}

/* ---- unused fields ---- */

bool gemm_schedule_check_fields(const GemmSchedule *s, bool attention,
                                Buffer *why) {
  uint32_t user = attention ? ATTENTION : 1u << s->mma_kind;
  for (size_t j = 0; j < ARRAY_LEN(fields); j++) {
    const ScheduleField *f = &fields[j];
    if (f->users & user || *field_at(s, f) == f->unused)
      continue;
    if (!why)
      return false;
    if (attention) {
      buffer_printf(why, "attention has no field %s", f->key);
      return false;
    }
    const char *separator = " needs";
    buffer_puts(why, f->key);
    for (uint32_t kind = MMA_KIND_FMA; kind <= MMA_KIND_TCGEN05; kind++)
      if (f->users >> kind & 1) {
        buffer_printf(why, "%s way=%s", separator,
                      find_word(offsetof(GemmSchedule, mma_kind), kind)->text);
        separator = " or";
      }
    return false;
  }
  return true;
}

/* ---- derived fields ---- */

bool gemm_schedule_check_derived(const GemmSchedule *s, const char *text,
                                 Buffer *why) {
  GemmSchedule stated = *s;
  if (!gemm_schedule_parse(&stated, text, why))
    return false;
  for (size_t j = 0; j < ARRAY_LEN(fields); j++) {
    const ScheduleField *f = &fields[j];
    if (!(f->users & DERIVED) || *field_at(s, f) == *field_at(&stated, f))
      continue;
    print_field(why, &stated, f);
    buffer_puts(why, ": with these fields it is ");
    print_field(why, s, f);
    buffer_printf(why, "; %s follows from the others, so leave it out", f->key);
    return false;
  }
  return true;
}
