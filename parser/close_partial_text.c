/* Closes a partial text: finds the constructs that it leaves open, and the text
   that closes them, so that it parses while it is being written.  Main entry
   point: parse_close_partial. */
#include "parser/internal.h"
#include "parser/parse.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/source.h"

#include <string.h>

/* A construct that may be open at the end, and the text that closes it. */
typedef struct OpenConstruct {
  const char *word, *close;
} OpenConstruct;

static const OpenConstruct openers[] = {
    {"let", " in 0 end"}, {"(", ")"},       {"[", "]"},
    {".[", "]"},          {"{", "}"},       {"if", " then 0 else 0"},
    {"fn", " => 0"},      {"for", " => 0"}, {"case", " of _ => 0"},
};
/* What must follow each of these words; "" for nothing. */
static const struct {
  const char *word, *of, *then;
} continuations[] = {
    {"in", "let", " end"},
    {"end", "let", ""},
    {")", "(", ""},
    {"]", "[", ""},
    {"]", ".[", ""},
    {"}", "{", ""},
    {"then", "if", " else 0"},
    {"else", "if", ""},
    {"=>", "fn", ""},
    {"=>", "for", ""},
    {"of", "case", " => 0"},
    {"=>", "case", ""},
};

typedef VEC(OpenConstruct) OpenVec;

static void update_open(Arena *arena, OpenVec *open, const char *word) {
  for (size_t i = 0; i < ARRAY_LEN(continuations); i++) {
    if (strcmp(word, continuations[i].word) != 0)
      continue;
    for (uint32_t k = open->len; k-- > 0;) {
      if (strcmp(open->at[k].word, continuations[i].of) != 0)
        continue;
      open->at[k].close = continuations[i].then;
      open->len = *continuations[i].then ? k + 1 : k;
      return;
    }
  }
  for (size_t i = 0; i < ARRAY_LEN(openers); i++)
    if (strcmp(word, openers[i].word) == 0)
      VEC_PUSH(arena, *open, openers[i]);
}

void parse_close_partial(Sources *sources, uint32_t file, Interner *interner,
                         Arena *arena, Buffer *out) {
  const Source *source = sources_get(sources, file);
  Lexer lexer;
  Diags ignored;
  OpenVec open = {0};
  Span span;
  GRAMMAR_STYPE value;
  diags_init(&ignored, arena);
  lexer_init(&lexer, sources, file, 0, (uint32_t)source->len, interner, arena,
             &ignored);
  while (lexer_token(&lexer, &value, &span)) {
    char word[8] = {0};
    uint32_t len = span.end - span.start;
    if (len < sizeof word) {
      memcpy(word, source->text + span.start, len);
      update_open(arena, &open, word);
    }
  }
  while (open.len)
    buffer_puts(out, open.at[--open.len].close);
}
