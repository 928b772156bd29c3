/* The parts of a tokenizer, shared by the files runtime/tokenizer*.c.
 *
 * Encoding: added tokens are cut out of the text, the rest is normalized and
 * split into pieces, the model makes tokens of each piece, and a template puts
 * tokens around them.  All of a tokenizer lies in its arena. */
#ifndef AXON_RUNTIME_TOKENIZER_PARTS_H
#define AXON_RUNTIME_TOKENIZER_PARTS_H

#include "runtime/regex.h"
#include "runtime/runtime.h"
#include "runtime/unicode.h"
#include "support/buffer.h"
#include "support/vec.h"

typedef struct Text {
  const char *text; /* NUL-terminated, but may contain NUL */
  size_t len;
} Text;

Text text_copy(Arena *arena, const char *text, size_t len);
bool text_equal(Text a, Text b);
bool text_starts(Text a, Text start);
Text buffer_text(Arena *arena, const Buffer *b);

/* ---- the vocabulary ---- */

enum { NO_TOKEN = -1 };

typedef enum TokenFlag {
  TOKEN_ADDED = 1,      /* is cut out of the text */
  TOKEN_SPECIAL = 2,    /* decoding can skip it */
  TOKEN_NORMALIZED = 4, /* is cut out of normalized text */
  TOKEN_SINGLE_WORD = 8,
  TOKEN_STRIPS_LEFT = 16, /* takes the white space before it */
  TOKEN_STRIPS_RIGHT = 32,
} TokenFlag;

typedef struct Token {
  Text text;
  uint32_t flags;
  float score; /* logarithm of the probability (unigram) */
} Token;

typedef struct Vocabulary {
  Token *tokens;   /* by number; text.text is NULL if there is none */
  size_t count;    /* largest number + 1 */
  uint32_t *slots; /* hash table: numbers + 1, or 0 */
  size_t slot_count;
  size_t longest; /* bytes of the longest token */
} Vocabulary;

/* Room for `count` numbers. */
void vocabulary_init(Arena *arena, Vocabulary *v, size_t count);
void vocabulary_put(Vocabulary *v, size_t id, Text text);
int64_t vocabulary_find(const Vocabulary *v, const char *text, size_t len);

/* ---- steps ---- */

typedef enum StepType {
  /* normalizers */
  STEP_BERT,
  STEP_NORMAL_FORM,
  STEP_LOWERCASE,
  STEP_STRIP_ACCENTS,
  STEP_TRIM,
  STEP_PREPEND,
  STEP_REPLACE, /* also a decoder */
  /* pre-tokenizers */
  STEP_SPLIT_BERT,
  STEP_SPLIT_BYTES,
  STEP_SPLIT_REGEX,
  STEP_SPLIT_DIGITS,
  STEP_SPLIT_SPACES,
  STEP_SPLIT_PUNCTUATION,
  STEP_METASPACE, /* also a decoder */
  /* decoders */
  STEP_JOIN_WORDPIECE,
  STEP_JOIN_BYTES,
  STEP_JOIN_SUFFIX,
  STEP_BYTE_FALLBACK,
  STEP_FUSE,
  STEP_STRIP_ENDS,
  STEP_COUNT,
} StepType;

/* What happens to a separator. */
typedef enum SplitMode {
  SPLIT_ISOLATED,
  SPLIT_REMOVED,
  SPLIT_MERGED_WITH_PREVIOUS,
  SPLIT_MERGED_WITH_NEXT,
  SPLIT_CONTIGUOUS, /* neighbouring separators are one piece */
} SplitMode;

typedef enum PrependMode {
  PREPEND_NEVER,
  PREPEND_FIRST, /* only at the start of the text */
  PREPEND_ALWAYS,
} PrependMode;

typedef struct Step {
  StepType type;
  SplitMode mode;
  PrependMode prepend;
  NormalForm form;
  Regex *regex; /* or NULL: `pattern` is matched as it is */
  Text pattern, content;
  bool clean, chinese, strip_accents, lowercase; /* STEP_BERT */
  bool left, right;                              /* STEP_TRIM */
  bool is_inverted, individual, use_regex, cleanup;
  uint32_t start, stop; /* STEP_STRIP_ENDS: characters */
} Step;

typedef VEC(Step) Steps;

/* A part of the text: a token that is known, or text. */
typedef struct Piece {
  Text text;
  int64_t token; /* or NO_TOKEN */
  bool is_first; /* begins where the whole text begins */
} Piece;

typedef VEC(Piece) Pieces;

/* ---- models ---- */

typedef enum ModelKind { MODEL_WORDPIECE, MODEL_BPE, MODEL_UNIGRAM } ModelKind;

typedef struct Merge {
  uint32_t left, right, rank, token;
} Merge;

typedef struct Model {
  ModelKind kind;
  int64_t unknown;       /* or NO_TOKEN */
  Text prefix;           /* of pieces that continue a word */
  Text suffix;           /* of pieces that end a word (BPE) */
  size_t max_word_chars; /* WordPiece */
  bool fuse_unknown, byte_fallback, ignore_merges;
  int64_t bytes[256]; /* tokens of bytes, if byte_fallback */
  Merge *merges;      /* hash table; unused: token is UINT32_MAX */
  size_t merge_slots;
  double lowest_score;
} Model;

void model_init_merges(Arena *arena, Model *m, size_t count);
void model_put_merge(Model *m, Merge merge);

/* A token that is cut out of the text. */
typedef struct Added {
  Text text; /* as it is in the text, which may be normalized */
  int64_t token;
} Added;

typedef struct Tokenizer {
  Arena *arena;
  Vocabulary vocabulary;
  Steps normalizers, splitters, decoders;
  bool has_decoder;
  Model model;
  VEC(int64_t) before, after; /* the template */
  VEC(Added) added;
  bool starts_added[256]; /* first bytes of added tokens */
} Tokenizer;

/* State of one call.  Memory is in the arena. */
typedef struct Work {
  const Tokenizer *tokenizer;
  Arena *arena;
  Fault *fault;
  bool failed;   /* the fault is set */
  bool is_plain; /* the text has no special tokens */
  VEC(int64_t) ids;
} Work;

/* tokenizer_text.c */
bool normalize_text(Work *w, Text in, Text *out);
bool split_pieces(Work *w, Pieces *pieces);
void add_piece(Work *w, Pieces *to, Text text, int64_t token, bool is_first);
bool replace_all(Work *w, const Step *s, Text in, Text *out);
void put_byte_char(Buffer *out, uint8_t byte); /* the character of a byte */
int byte_of_char(uint32_t code);               /* or -1 */

/* tokenizer_models.c */
void model_encode(Work *w, Text piece);

/* tokenizer_decode.c */
bool decode_tokens(Work *w, Text *texts, size_t count, Buffer *out);

/* Readers.  They raise when out of memory. */
bool tokenizer_read_json(Tokenizer *t, const char *path, const char *text,
                         size_t len, Fault *fault);
struct Gguf;
bool tokenizer_read_gguf(Tokenizer *t, const char *path,
                         const struct Gguf *file, Fault *fault);
/* After reading: finds the added tokens and the tokens of bytes. */
bool tokenizer_finish(Tokenizer *t, Fault *fault);
bool step_set_regex(Step *s, const char *pattern, size_t len, Fault *fault);

#endif
