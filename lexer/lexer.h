/* lexer: converts the text of a source file to tokens.
 *
 * Ownership: a Lexer and all its results live in the arena passed to it.
 * The grammar (parser/parse.y) defines the numbers and values of tokens.  Its
 * generated header is the only file of a later module that scan.l includes. */
#ifndef AXON_LEXER_H
#define AXON_LEXER_H

#include "support/span.h"
#include "support/vec.h"

#include <stdbool.h>

typedef struct Arena Arena;
typedef struct Diags Diags;
typedef struct Interner Interner;
typedef struct Sources Sources;

/* Maximum bytes of a file, since offsets must fit flex's int; maximum number of
 * reported errors. */
enum { LEXER_MAX_BYTES = 1 << 30, LEXER_MAX_ERRORS = 20 };

typedef struct StringLiteral { /* may contain NUL */
  const char *text;
  uint32_t len;
  const char *raw; /* as written, with quotes; NULL after an error */
} StringLiteral;

typedef struct Comment {
  Span span; /* includes the delimiters */
  bool doc;  /* true for (** ... *) */
} Comment;

typedef VEC(Comment) CommentVec;

typedef struct Lexer {
  Arena *arena;
  Interner *interner;
  Diags *diags;
  const char *text; /* text of the whole file */
  uint32_t file;
  uint32_t begin, pos, end; /* start offset; next offset to read; end offset */
  CommentVec comments;      /* in source order */
  uint32_t error_count;
  uint32_t incomplete_errors; /* errors that more text could fix */
  uint32_t after_error_start; /* offset after the start of the last error; 0 if
                                 none */
  uint32_t suppress_errors_until; /* errors before this offset are suppressed */
  bool reported_blank;            /* an invalid blank was already reported */
  bool reported_encoding;         /* the same for a wrong encoding */
  uint32_t comment_start, comment_depth;
  void *scanner; /* state of flex */
} Lexer;

/* Initializes a lexer for the bytes [start, end) of a file. */
void lexer_init(Lexer *lexer, const Sources *sources, uint32_t file,
                uint32_t start, uint32_t end, Interner *interner, Arena *arena,
                Diags *diags);

/* Returns the number of the next token, 0 at the end.  Reports lexical errors
 * as diagnostics and skips them. */
union GRAMMAR_STYPE;
int lexer_token(Lexer *lexer, union GRAMMAR_STYPE *value, Span *span);

/* ---- keywords, for completion and highlighting ---- */

typedef enum KeywordKind {
  KEYWORD_DEC,
  KEYWORD_EXPR,
  KEYWORD_OTHER
} KeywordKind;
typedef struct Keyword {
  const char *text;
  KeywordKind kind;
  int token;
} Keyword;
extern const Keyword lexer_keywords[];
extern const uint32_t lexer_keyword_count;
bool lexer_is_keyword(int token);

/* ---- words of other languages ---- */

typedef struct ForeignWord {
  const char *text;
  int error_token; /* an error at this token is blamed on the word; or: */
  const char *help;
  const char *replacement; /* a single word; NULL if that is not enough */
} ForeignWord;
enum { FOREIGN_NONE = -1, FOREIGN_LINE_START = -2, FOREIGN_AFTER_BINDER = -3 };

/* Returns NULL if the word is not in the table. */
const ForeignWord *lexer_find_foreign(const char *word);

/* ---- literals, shared by the lexer and the formatter ---- */

typedef enum EscapeError {
  ESCAPE_OK,
  ESCAPE_UNKNOWN, /* unknown escape such as \q */
  ESCAPE_HEX,     /* \x without two hex digits */
  ESCAPE_UNICODE, /* \u{...} without a valid code point */
} EscapeError;

/* Decodes the escape at text[0] == '\\' of at most len bytes.  Writes up to 4
 * bytes to out and their number to *out_len.  Returns the number of bytes
 * read. */
uint32_t lexer_unescape(const char *text, uint32_t len, char out[4],
                        uint32_t *out_len, EscapeError *error_kind);

#endif
