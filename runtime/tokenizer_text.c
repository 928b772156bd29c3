/* Normalizers and pre-tokenizers.  Their names and effects are those of the
 * tokenizers library (github.com/huggingface/tokenizers). */
#include "runtime/tokenizer_parts.h"

#include <string.h>

static void put_text(Buffer *out, Text t) {
  buffer_add(out, t.text, t.len);
}

void add_piece(Work *w, Pieces *to, Text text, int64_t token, bool is_first) {
  if (text.len || token != NO_TOKEN)
    VEC_PUSH(w->arena, *to, ((Piece){text, token, is_first}));
}

/* ---- the characters of bytes (GPT-2) ----
 *
 * Printable bytes are themselves.  The other 68 are U+0100 and following. */

static bool is_own_char(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

static uint32_t char_of_byte(int byte) {
  if (is_own_char(byte))
    return (uint32_t)byte;
  return byte == 0xad  ? 0x143
         : byte <= ' ' ? 0x100 + (uint32_t)byte
                       : 0x121 + (uint32_t)byte - 0x7f;
}

void put_byte_char(Buffer *out, uint8_t byte) {
  unicode_put(out, char_of_byte(byte));
}

int byte_of_char(uint32_t code) {
  if (code < 0x100)
    return is_own_char((int)code) ? (int)code : -1;
  return code <= 0x120   ? (int)code - 0x100
         : code <= 0x142 ? (int)code - 0x121 + 0x7f
         : code == 0x143 ? 0xad
                         : -1;
}

/* ---- normalizers ---- */

/* The classes of the original are those of Unicode 8.  Marks, punctuation and
 * format characters that are newer have no class there.  The list comes from
 * comparing all characters. */
static const struct {
  uint32_t first, last;
} newer_chars[] = {{0x61d, 0x61d},     {0x7fd, 0x7fd},     {0x890, 0x891},
                   {0x898, 0x89f},     {0x8ca, 0x8e2},     {0x9fd, 0x9fe},
                   {0xa76, 0xa76},     {0xafa, 0xaff},     {0xb55, 0xb55},
                   {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xc77, 0xc77},
                   {0xc84, 0xc84},     {0xd00, 0xd00},     {0xd3b, 0xd3c},
                   {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},
                   {0x180f, 0x180f},   {0x1885, 0x1886},   {0x1abf, 0x1ace},
                   {0x1b7d, 0x1b7e},   {0x1df6, 0x1dfb},   {0x2e43, 0x2e4f},
                   {0x2e52, 0x2e5d},   {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},
                   {0xa8ff, 0xa8ff},   {0xa9bd, 0xa9bd},   {0x10d24, 0x10d27},
                   {0x10eab, 0x10ead}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
                   {0x10f55, 0x10f59}, {0x10f82, 0x10f89}, {0x11070, 0x11070},
                   {0x11073, 0x11074}, {0x110c2, 0x110c2}, {0x110cd, 0x110cd},
                   {0x111c9, 0x111c9}, {0x111cf, 0x111cf}, {0x1123e, 0x1123e},
                   {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x11438, 0x1143f},
                   {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1144b, 0x1144f},
                   {0x1145a, 0x1145b}, {0x1145d, 0x1145e}, {0x11660, 0x1166c},
                   {0x116b9, 0x116b9}, {0x1182f, 0x11837}, {0x11839, 0x1183b},
                   {0x1193b, 0x1193c}, {0x1193e, 0x1193e}, {0x11943, 0x11946},
                   {0x119d4, 0x119d7}, {0x119da, 0x119db}, {0x119e0, 0x119e0},
                   {0x119e2, 0x119e2}, {0x11a01, 0x11a0a}, {0x11a33, 0x11a38},
                   {0x11a3b, 0x11a47}, {0x11a51, 0x11a56}, {0x11a59, 0x11a5b},
                   {0x11a8a, 0x11a96}, {0x11a98, 0x11a9c}, {0x11a9e, 0x11aa2},
                   {0x11b00, 0x11b09}, {0x11c30, 0x11c36}, {0x11c38, 0x11c3d},
                   {0x11c3f, 0x11c3f}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
                   {0x11c92, 0x11ca7}, {0x11caa, 0x11cb0}, {0x11cb2, 0x11cb3},
                   {0x11cb5, 0x11cb6}, {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a},
                   {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45}, {0x11d47, 0x11d47},
                   {0x11d90, 0x11d91}, {0x11d95, 0x11d95}, {0x11d97, 0x11d97},
                   {0x11ef3, 0x11ef4}, {0x11ef7, 0x11ef8}, {0x11f00, 0x11f01},
                   {0x11f36, 0x11f3a}, {0x11f40, 0x11f40}, {0x11f42, 0x11f4f},
                   {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2}, {0x13430, 0x13440},
                   {0x13447, 0x13455}, {0x16e97, 0x16e9a}, {0x16f4f, 0x16f4f},
                   {0x16fe2, 0x16fe2}, {0x16fe4, 0x16fe4}, {0x1cf00, 0x1cf2d},
                   {0x1cf30, 0x1cf46}, {0x1e000, 0x1e006}, {0x1e008, 0x1e018},
                   {0x1e01b, 0x1e021}, {0x1e023, 0x1e024}, {0x1e026, 0x1e02a},
                   {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
                   {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e944, 0x1e94a},
                   {0x1e95e, 0x1e95f}};

static bool is_newer(uint32_t c) {
  size_t low = 0, high = sizeof newer_chars / sizeof *newer_chars;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (newer_chars[middle].last < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < sizeof newer_chars / sizeof *newer_chars &&
         newer_chars[low].first <= c;
}

static bool is_control(uint32_t c) {
  return c != '\t' && c != '\n' && c != '\r' && unicode_is_other(c) &&
         !is_newer(c);
}

static bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void put_bert_char(Buffer *out, const Step *s, uint32_t c) {
  if (s->clean && (!c || c == 0xfffd || is_control(c)))
    return;
  if (s->clean && unicode_is_space(c))
    c = ' ';
  bool apart = s->chinese && is_chinese(c);
  if (apart)
    buffer_putc(out, ' ');
  unicode_put(out, c);
  if (apart)
    buffer_putc(out, ' ');
}

static bool is_bert_mark(uint32_t c) {
  return unicode_is_nonspacing(c) && !is_newer(c);
}

static void put_without(Buffer *out, Text in, bool (*drops)(uint32_t)) {
  const char *at = in.text, *end = in.text + in.len;
  while (at < end) {
    uint32_t c = unicode_next(&at);
    if (!drops(c))
      unicode_put(out, c);
  }
}

static void put_small(Buffer *out, Text in) {
  const char *at = in.text, *end = in.text + in.len;
  while (at < end)
    unicode_put_lower(out, unicode_next(&at));
}

static bool normal_form(Work *w, NormalForm form, Text *t) {
  Buffer out = {.arena = w->arena};
  if (!unicode_normalize(&out, t->text, t->len, form, w->fault))
    return false;
  *t = buffer_text(w->arena, &out);
  return true;
}

static bool normalize_bert(Work *w, const Step *s, Text *t) {
  Buffer out = {.arena = w->arena};
  const char *at = t->text, *end = t->text + t->len;
  while (at < end)
    put_bert_char(&out, s, unicode_next(&at));
  *t = buffer_text(w->arena, &out);
  if (s->strip_accents) {
    if (!normal_form(w, FORM_NFD, t))
      return false;
    out = (Buffer){.arena = w->arena};
    put_without(&out, *t, is_bert_mark);
    *t = buffer_text(w->arena, &out);
  }
  if (s->lowercase) {
    out = (Buffer){.arena = w->arena};
    put_small(&out, *t);
    *t = buffer_text(w->arena, &out);
  }
  return true;
}

static Text trimmed(const Step *s, Text t) {
  const char *at = t.text, *end = at + t.len;
  while (s->left && at < end) {
    const char *next = at;
    if (!unicode_is_space(unicode_next(&next)))
      break;
    at = next;
  }
  while (s->right && end > at) {
    const char *last = end - 1, *next;
    while (last > at && ((unsigned char)*last & 0xc0) == 0x80)
      last--;
    next = last;
    if (!unicode_is_space(unicode_next(&next)))
      break;
    end = last;
  }
  return (Text){at, (size_t)(end - at)};
}

/* ---- separators in a text ---- */

/* A search for separators. */
typedef struct Finder {
  Work *w;
  const Step *step;
  Text text;
  size_t from, to; /* the separator */
  size_t start;    /* of the next search */
  bool failed;
} Finder;

static bool is_mark(uint32_t c) {
  bool is_ascii_mark = c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') &&
                       !((c | 32) >= 'a' && (c | 32) <= 'z');
  return is_ascii_mark || (unicode_is_punctuation(c) && !is_newer(c));
}

static bool is_separator(const Step *s, uint32_t c) {
  if (s->type == STEP_SPLIT_DIGITS)
    return unicode_is_number(c);
  return s->type == STEP_SPLIT_SPACES ? unicode_is_space(c) : is_mark(c);
}

static bool find_char(Finder *f) {
  const char *at = f->text.text + f->start, *end = f->text.text + f->text.len;
  while (at < end) {
    const char *next = at;
    if (is_separator(f->step, unicode_next(&next))) {
      f->from = (size_t)(at - f->text.text);
      f->to = f->start = (size_t)(next - f->text.text);
      return true;
    }
    at = next;
  }
  return false;
}

static bool find_text(Finder *f) {
  Text p = f->step->pattern;
  for (size_t i = f->start; p.len && i + p.len <= f->text.len; i++)
    if (memcmp(f->text.text + i, p.text, p.len) == 0) {
      f->from = i;
      f->to = f->start = i + p.len;
      return true;
    }
  return false;
}

static bool find_regex(Finder *f) {
  while (f->start <= f->text.len) {
    int groups = regex_search(f->step->regex, f->text.text, f->text.len,
                              f->start, false, f->w->fault);
    f->failed = groups < 0;
    if (groups <= 0 || !regex_group(f->step->regex, 0, &f->from, &f->to))
      return false;
    f->start = f->to;
    if (f->to > f->from)
      return true;
    if (f->to == f->text.len) /* an empty match separates nothing */
      return false;
    const char *next = f->text.text + f->to;
    unicode_next(&next);
    f->start = (size_t)(next - f->text.text);
  }
  return false;
}

static bool find_next(Finder *f) {
  if (f->step->type != STEP_SPLIT_REGEX && f->step->type != STEP_REPLACE)
    return find_char(f);
  return f->step->regex ? find_regex(f) : find_text(f);
}

bool replace_all(Work *w, const Step *s, Text in, Text *out) {
  Finder f = {.w = w, .step = s, .text = in};
  Buffer b = {.arena = w->arena};
  size_t done = 0;
  while (find_next(&f)) {
    buffer_add(&b, in.text + done, f.from - done);
    put_text(&b, s->content);
    done = f.to;
  }
  buffer_add(&b, in.text + done, in.len - done);
  *out = buffer_text(w->arena, &b);
  return !f.failed;
}

static Text joined(Work *w, Text a, Text b) {
  Buffer out = {.arena = w->arena};
  put_text(&out, a);
  put_text(&out, b);
  return buffer_text(w->arena, &out);
}

static bool normalize_form(Work *w, const Step *s, Text *t) {
  return normal_form(w, s->form, t);
}

static bool lowercase(Work *w, const Step *s, Text *t) {
  Buffer out = {.arena = w->arena};
  (void)s;
  put_small(&out, *t);
  *t = buffer_text(w->arena, &out);
  return true;
}

static bool strip_accents(Work *w, const Step *s, Text *t) {
  Buffer out = {.arena = w->arena};
  (void)s;
  put_without(&out, *t, unicode_is_mark);
  *t = buffer_text(w->arena, &out);
  return true;
}

static bool trim(Work *w, const Step *s, Text *t) {
  (void)w;
  *t = trimmed(s, *t);
  return true;
}

static bool prepend(Work *w, const Step *s, Text *t) {
  if (t->len)
    *t = joined(w, s->content, *t);
  return true;
}

static bool replace(Work *w, const Step *s, Text *t) {
  return replace_all(w, s, *t, t);
}

static bool (*const normalizers[STEP_COUNT])(Work *w, const Step *s,
                                             Text *t) = {
    [STEP_BERT] = normalize_bert, [STEP_NORMAL_FORM] = normalize_form,
    [STEP_LOWERCASE] = lowercase, [STEP_STRIP_ACCENTS] = strip_accents,
    [STEP_TRIM] = trim,           [STEP_PREPEND] = prepend,
    [STEP_REPLACE] = replace,
};

bool normalize_text(Work *w, Text in, Text *out) {
  *out = in;
  const Steps *steps = &w->tokenizer->normalizers;
  for (uint32_t i = 0; i < steps->len; i++)
    if (!normalizers[steps->at[i].type](w, &steps->at[i], out))
      return false;
  return true;
}

/* ---- pre-tokenizers ---- */

/* Splitting one piece. */
typedef struct Splitter {
  Work *w;
  const Piece *from;
  SplitMode mode;
  Pieces *to;
  bool last_matched;
} Splitter;

static void put_part(Splitter *s, size_t from, size_t to) {
  const Text *t = &s->from->text;
  add_piece(s->w, s->to, (Text){t->text + from, to - from}, NO_TOKEN,
            s->from->is_first && from == 0);
}

/* Appends the part from..to to the last piece. */
static void extend_last(Splitter *s, size_t from, size_t to) {
  Piece *last = &s->to->at[s->to->len - 1];
  last->text.len += to - from;
}

/* One part of a text, of which the parts that match are separators.
 * `held` is the start of a separator that joins the next part. */
static void put_split(Splitter *s, size_t from, size_t to, bool matches,
                      bool has_before, size_t *held) {
  bool joins = false;
  switch (s->mode) {
  case SPLIT_REMOVED:
    if (!matches)
      put_part(s, from, to);
    return;
  case SPLIT_ISOLATED:
    break;
  case SPLIT_CONTIGUOUS:
    joins = has_before && matches == s->last_matched;
    break;
  case SPLIT_MERGED_WITH_PREVIOUS:
    joins = has_before && matches && !s->last_matched;
    break;
  case SPLIT_MERGED_WITH_NEXT:
    if (matches && *held == SIZE_MAX) {
      *held = from;
      return;
    }
    if (matches) {
      put_part(s, *held, from);
      *held = from;
      return;
    }
    from = *held == SIZE_MAX ? from : *held;
    *held = SIZE_MAX;
    break;
  }
  if (joins)
    extend_last(s, from, to);
  else
    put_part(s, from, to);
  s->last_matched = matches;
}

static bool split_by(Work *w, const Step *step, SplitMode mode,
                     const Piece *from, Pieces *to) {
  Finder f = {.w = w, .step = step, .text = from->text};
  Splitter s = {.w = w, .from = from, .mode = mode, .to = to};
  size_t done = 0, held = SIZE_MAX;
  bool inverted = step->is_inverted, any = false;
  while (find_next(&f)) {
    if (f.from > done) {
      put_split(&s, done, f.from, inverted, any, &held);
      any = true;
    }
    put_split(&s, f.from, f.to, !inverted, any, &held);
    any = true;
    done = f.to;
  }
  if (done < from->text.len)
    put_split(&s, done, from->text.len, inverted, any, &held);
  if (held != SIZE_MAX)
    put_part(&s, held, from->text.len);
  return !f.failed;
}

static bool split_bert(Work *w, const Step *s, const Piece *from, Pieces *to) {
  (void)s;
  const Step spaces = {.type = STEP_SPLIT_SPACES};
  const Step marks = {.type = STEP_SPLIT_PUNCTUATION};
  Pieces words = {0};
  split_by(w, &spaces, SPLIT_REMOVED, from, &words);
  for (uint32_t i = 0; i < words.len; i++)
    split_by(w, &marks, SPLIT_ISOLATED, &words.at[i], to);
  return true;
}

static void put_byte_piece(Work *w, const Piece *from, Pieces *to) {
  Buffer b = {.arena = w->arena};
  for (size_t i = 0; i < from->text.len; i++)
    put_byte_char(&b, (uint8_t)from->text.text[i]);
  add_piece(w, to, buffer_text(w->arena, &b), NO_TOKEN, from->is_first);
}

static bool split_bytes(Work *w, const Step *s, const Piece *from, Pieces *to) {
  Piece whole = *from;
  Pieces words = {0};
  const char *at = from->text.text;
  if (s->prepend == PREPEND_ALWAYS && from->text.len &&
      !unicode_is_space(unicode_next(&at)))
    whole.text = joined(w, (Text){" ", 1}, from->text);
  if (s->use_regex) {
    Step words_step = *s;
    words_step.type = STEP_SPLIT_REGEX;
    if (!split_by(w, &words_step, SPLIT_ISOLATED, &whole, &words))
      return false;
  } else {
    add_piece(w, &words, whole.text, NO_TOKEN, whole.is_first);
  }
  for (uint32_t i = 0; i < words.len; i++)
    put_byte_piece(w, &words.at[i], to);
  return true;
}

static bool split_metaspace(Work *w, const Step *s, const Piece *from,
                            Pieces *to) {
  Step spaces = {
      .type = STEP_REPLACE, .pattern = {" ", 1}, .content = s->content};
  Step marks = {.type = STEP_SPLIT_REGEX, .pattern = s->content};
  Piece whole = *from;
  replace_all(w, &spaces, from->text, &whole.text);
  if (!text_starts(whole.text, s->content) &&
      (s->prepend == PREPEND_ALWAYS ||
       (s->prepend == PREPEND_FIRST && from->is_first)))
    whole.text = joined(w, s->content, whole.text);
  if (s->use_regex)
    return split_by(w, &marks, SPLIT_MERGED_WITH_NEXT, &whole, to);
  add_piece(w, to, whole.text, NO_TOKEN, whole.is_first);
  return true;
}

static bool split_marks(Work *w, const Step *s, const Piece *from, Pieces *to) {
  return split_by(w, s, s->mode, from, to);
}

static bool (*const splitters[STEP_COUNT])(Work *w, const Step *s,
                                           const Piece *from, Pieces *to) = {
    [STEP_SPLIT_BERT] = split_bert,     [STEP_SPLIT_BYTES] = split_bytes,
    [STEP_SPLIT_REGEX] = split_marks,   [STEP_SPLIT_DIGITS] = split_marks,
    [STEP_SPLIT_SPACES] = split_marks,  [STEP_SPLIT_PUNCTUATION] = split_marks,
    [STEP_METASPACE] = split_metaspace,
};

bool split_pieces(Work *w, Pieces *pieces) {
  const Steps *steps = &w->tokenizer->splitters;
  for (uint32_t k = 0; k < steps->len; k++) {
    Pieces to = {0};
    for (uint32_t i = 0; i < pieces->len; i++) {
      const Piece *p = &pieces->at[i];
      if (p->token != NO_TOKEN)
        VEC_PUSH(w->arena, to, *p);
      else if (!splitters[steps->at[k].type](w, &steps->at[k], p, &to))
        return false;
    }
    *pieces = to;
  }
  return true;
}
