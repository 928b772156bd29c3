/* Decoders: tokens to text. */
#include "runtime/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct Texts {
  Text *at;
  size_t count;
} Texts;

static Text replaced(Work *w, Text in, const char *from, const char *to) {
  Step s = {.type = STEP_REPLACE,
            .pattern = {from, strlen(from)},
            .content = {to, strlen(to)}};
  replace_all(w, &s, in, &in);
  return in;
}

/* Removes the spaces that tokens of punctuation have before them. */
static Text clean_up(Work *w, Text t) {
  static const char *const pairs[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    t = replaced(w, t, pairs[i][0], pairs[i][1]);
  return t;
}

static void join_wordpiece(Work *w, const Step *s, Texts *t) {
  for (size_t i = 0; i < t->count; i++) {
    Text token = t->at[i];
    Buffer b = {.arena = w->arena};
    if (i && text_starts(token, s->content)) {
      buffer_add(&b, token.text + s->content.len, token.len - s->content.len);
    } else {
      if (i)
        buffer_putc(&b, ' ');
      buffer_add(&b, token.text, token.len);
    }
    t->at[i] = buffer_text(w->arena, &b);
    if (s->cleanup)
      t->at[i] = clean_up(w, t->at[i]);
  }
}

/* Adds the bytes of a token, or its text if it has other characters. */
static void put_bytes(Buffer *out, Text token) {
  size_t mark = out->len;
  const char *at = token.text, *end = token.text + token.len;
  while (at < end) {
    int byte = byte_of_char(unicode_next(&at));
    if (byte < 0) {
      out->len = mark;
      buffer_add(out, token.text, token.len);
      return;
    }
    buffer_putc(out, (char)byte);
  }
}

static void set_lossy(Work *w, Texts *t, const Buffer *bytes) {
  Buffer text = {.arena = w->arena};
  unicode_put_lossy(&text, bytes->text, bytes->len);
  t->at[0] = buffer_text(w->arena, &text);
  t->count = 1;
}

static void join_bytes(Work *w, const Step *s, Texts *t) {
  (void)s;
  Buffer bytes = {.arena = w->arena};
  for (size_t i = 0; i < t->count; i++)
    put_bytes(&bytes, t->at[i]);
  if (t->count)
    set_lossy(w, t, &bytes);
}

/* The byte of a token such as <0x0A>, or -1. */
static int fallback_byte(Text t) {
  unsigned byte;
  int len = 0;
  if (t.len != 6 || sscanf(t.text, "<0x%2X>%n", &byte, &len) != 1 || len != 6)
    return -1;
  return (int)byte;
}

/* Neighbouring tokens of bytes become a text.  If the bytes are not UTF-8, each
 * becomes U+FFFD. */
static void join_fallback(Work *w, const Step *s, Texts *t) {
  (void)s;
  size_t count = 0;
  for (size_t i = 0, next; i < t->count; i = next) {
    Buffer bytes = {.arena = w->arena}, text = {.arena = w->arena};
    int byte;
    for (next = i; next < t->count && (byte = fallback_byte(t->at[next])) >= 0;
         next++)
      buffer_putc(&bytes, (char)byte);
    if (next == i) {
      t->at[count++] = t->at[next++];
      continue;
    }
    unicode_put_lossy(&text, bytes.text, bytes.len);
    if (text.len != bytes.len || memcmp(text.text, bytes.text, text.len) != 0) {
      text = (Buffer){.arena = w->arena};
      for (size_t k = i; k < next; k++)
        unicode_put(&text, 0xfffd);
    }
    t->at[count++] = buffer_text(w->arena, &text);
  }
  t->count = count;
}

static void join_metaspace(Work *w, const Step *s, Texts *t) {
  for (size_t i = 0; i < t->count; i++) {
    bool drops = i == 0 && s->prepend != PREPEND_NEVER;
    Step step = {.type = STEP_REPLACE,
                 .pattern = s->content,
                 .content = {" ", drops ? 0 : 1}};
    replace_all(w, &step, t->at[i], &t->at[i]);
  }
}

static void join_suffix(Work *w, const Step *s, Texts *t) {
  for (size_t i = 0; i < t->count; i++) {
    Step step = {.type = STEP_REPLACE,
                 .pattern = s->content,
                 .content = {" ", i + 1 < t->count ? 1 : 0}};
    replace_all(w, &step, t->at[i], &t->at[i]);
  }
}

static void fuse(Work *w, const Step *s, Texts *t) {
  (void)s;
  Buffer b = {.arena = w->arena};
  for (size_t i = 0; i < t->count; i++)
    buffer_add(&b, t->at[i].text, t->at[i].len);
  if (t->count)
    t->at[0] = buffer_text(w->arena, &b);
  t->count = t->count > 0;
}

/* Removes up to s->start copies of a character in front, s->stop behind. */
static void strip_ends(Work *w, const Step *s, Texts *t) {
  (void)w;
  size_t len = s->content.len;
  for (size_t i = 0; i < t->count && len; i++) {
    Text *x = &t->at[i];
    for (uint32_t k = 0; k < s->start && text_starts(*x, s->content); k++)
      *x = (Text){x->text + len, x->len - len};
    for (uint32_t k = 0;
         k < s->stop && x->len >= len &&
         memcmp(x->text + x->len - len, s->content.text, len) == 0;
         k++)
      x->len -= len;
  }
}

static void replace_each(Work *w, const Step *s, Texts *t) {
  for (size_t i = 0; i < t->count && !w->failed; i++)
    w->failed = !replace_all(w, s, t->at[i], &t->at[i]);
}

static void (*const decoders[STEP_COUNT])(Work *w, const Step *s, Texts *t) = {
    [STEP_REPLACE] = replace_each,
    [STEP_METASPACE] = join_metaspace,
    [STEP_JOIN_WORDPIECE] = join_wordpiece,
    [STEP_JOIN_BYTES] = join_bytes,
    [STEP_JOIN_SUFFIX] = join_suffix,
    [STEP_BYTE_FALLBACK] = join_fallback,
    [STEP_FUSE] = fuse,
    [STEP_STRIP_ENDS] = strip_ends,
};

bool decode_tokens(Work *w, Text *texts, size_t count, Buffer *out) {
  const Tokenizer *t = w->tokenizer;
  Texts all = {texts, count};
  for (uint32_t i = 0; i < t->decoders.len && !w->failed; i++)
    decoders[t->decoders.at[i].type](w, &t->decoders.at[i], &all);
  if (w->failed)
    return false;
  for (size_t i = 0; i < all.count; i++) {
    if (i && !t->has_decoder)
      buffer_putc(out, ' ');
    buffer_add(out, all.at[i].text, all.at[i].len);
  }
  return true;
}
