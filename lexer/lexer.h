/* lexer: the text of a source file to tokens.
 *
 * Ownership: a Lexer and all that it hands out live in the arena given to it.
 * Tokens are numbered and carry values as the grammar declares them
 * (parser/parse.y); that generated header is all that scan.l takes from a room
 * below it. */
#ifndef AXON_LEXER_H
#define AXON_LEXER_H

#include "support/support.h"

/* A file's greatest length: offsets must fit flex's int.  And the most errors
 * reported. */
enum { LEXER_MAX_BYTES = 1 << 30, LEXER_MAX_ERRORS = 100 };

typedef struct StringLiteral { /* of a string literal: may contain NUL */
  const char *text;
  uint32_t len;
  const char *raw; /* as written, with its quotes */
} StringLiteral;

typedef struct Comment {
  Span span; /* with its delimiters */
  bool doc;  /* (** ... *) */
} Comment;

typedef VEC(Comment) CommentVec;

typedef struct Lexer {
  Arena *arena;
  Interner *interner;
  Diags *diags;
  const char *text; /* of the whole file */
  uint32_t file;
  uint32_t begin, pos, end; /* begins at first; next to read; past the last */
  CommentVec comments;      /* in the order of the text */
  uint32_t error_count;
  uint32_t incomplete_errors; /* those that more text would mend */
  uint32_t
      after_error_start; /* just behind the start of the last error; or 0 */
  uint32_t
      suppress_errors_until; /* errors before this offset are not reported */
  bool reported_blank;       /* a blank that is none was reported */
  uint32_t comment_start, comment_depth;
  void *scanner; /* flex's own state */
} Lexer;

/* Readies a lexer for the bytes [start, end) of a file. */
void lexer_init(Lexer *lexer, const Sources *sources, uint32_t file,
                uint32_t start, uint32_t end, Interner *interner, Arena *arena,
                Diags *diags);

/* The next token's number, 0 at the end.  Lexical errors go to the
 * diagnostics and are skipped. */
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

/* ---- words of other languages ---- */

typedef struct ForeignWord {
  const char *text;
  int error_token; /* the token at which an error is its fault; or one of these:
                    */
  const char *help;
  const char
      *replacement; /* what to write in its place, where that is all; or NULL */
} ForeignWord;
enum { FOREIGN_NONE = -1, FOREIGN_LINE_START = -2, FOREIGN_AFTER_BINDER = -3 };

const ForeignWord *lexer_find_foreign(const char *word); /* or NULL */

/* ---- literals, shared by the lexer and the formatter ---- */

typedef enum EscapeError {
  ESCAPE_OK,
  ESCAPE_UNKNOWN, /* \q */
  ESCAPE_HEX,     /* \x without two hex digits */
  ESCAPE_UNICODE, /* \u{...} that is no code point */
} EscapeError;

/* Decodes the escape at text[0] == '\\', of at most len bytes.  Writes up to 4
 * bytes to out, their number to *out_len, and returns the bytes read. */
uint32_t lexer_unescape(const char *text, uint32_t len, char out[4],
                        uint32_t *out_len, EscapeError *error_kind);

#endif
