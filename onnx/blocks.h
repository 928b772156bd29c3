/* onnx, internal: repeated blocks of a program that is being written.
 *
 * A model often repeats a part, such as a layer, with other weights.  In the
 * program these are runs of statements that differ only in the names and
 * constants that they mention.  One run becomes a function, and all runs
 * become calls of it. */
#ifndef AXON_ONNX_BLOCKS_H
#define AXON_ONNX_BLOCKS_H

#include "onnx/internal.h"

typedef enum DefKind { DEF_WEIGHT, DEF_PARAMETER, DEF_STATEMENT } DefKind;

typedef struct Def { /* what a name of the program stands for */
  DefKind kind;
  uint32_t index; /* of the load, parameter or statement */
  const char *name;
} Def;

typedef enum TokenKind {
  TOKEN_TEXT,
  TOKEN_NAME, /* of a Def */
  TOKEN_LIST, /* a list of numbers such as [0.5, 1.0] */
  TOKEN_SIZE, /* the name of a size */
} TokenKind;

typedef struct Token {
  TokenKind kind;
  const char *text;
  const Def *def; /* NAME */
  Dtype dtype;    /* LIST */
} Token;

typedef VEC(Token) Tokens;

/* A value that comes from outside of a run: what it is in each of them. */
typedef struct Parameter {
  const Token **in_run;
  bool is_shared; /* a weight that is the same in all runs: no parameter */
  bool is_field;  /* weights and constants: a field of the record */
  const char *name;
} Parameter;

/* Runs of statements of one length that do the same. */
typedef struct Block {
  uint32_t length, count;
  uint32_t *starts; /* ascending */
  VEC(Parameter) parameters;
  uint32_t *outputs; /* offsets of statements that others use */
  uint32_t output_count;
  int64_t score;
} Block;

typedef struct Blocks {
  Importer *im;
  Map defs;          /* from the Sym of a name to Def */
  Map is_size;       /* Syms of names of sizes */
  Tokens *tokens;    /* of each statement */
  uint32_t *symbols; /* equal for statements that differ in names only */
  bool *is_result;   /* the result of the model mentions the statement */
} Blocks;

/* Finds the block that saves most lines, or returns false. */
bool find_block(Blocks *b, Block *best);
/* The parameter that stands for this token of run 0; NULL: it is inside. */
const Parameter *block_parameter(const Block *block, uint32_t offset,
                                 uint32_t token, const Blocks *b);
/* Replaces the runs of a block by calls of a new function. */
void write_block(Blocks *b, Block *block);
/* The element type and shape of a name or list; false if they are unknown. */
bool token_type(Importer *im, const Token *t, Dtype *dtype, Shape *shape);
/* The same of a parameter that has one shape in all runs. */
bool parameter_type(Importer *im, const Block *block, const Parameter *p,
                    Dtype *dtype, Shape *shape);

#endif
