/* GGUF (github.com/ggml-org/ggml/blob/master/docs/gguf.md): tensors, many in
 * blocks of few bits, and metadata such as hyperparameters and the tokenizer.
 *
 *   Gguf *file = gguf_open("model.gguf", &fault);
 *   const GgufValue *layers = gguf_find(file, "llama.block_count");
 *   gguf_close(file);
 *
 * The names and values point into the file. */
#ifndef AXON_RUNTIME_GGUF_H
#define AXON_RUNTIME_GGUF_H

#include "runtime/runtime.h"

/* The numbers are those of the format. */
typedef enum GgufType {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_TYPE_COUNT,
} GgufType;

typedef struct GgufText {
  const char *text; /* not NUL-terminated */
  size_t len;
} GgufText;

typedef struct GgufValue {
  GgufText key;
  GgufType type; /* of the value, or of the items of an array */
  bool is_array;
  uint64_t count;    /* items; 1 if it is no array */
  const uint8_t *at; /* first item; strings follow their lengths */
} GgufValue;

typedef struct Gguf Gguf;

Gguf *gguf_open(const char *path, Fault *fault);
void gguf_close(Gguf *file);
/* The values in the order of the file. */
const GgufValue *gguf_values(const Gguf *file, size_t *count);
const GgufValue *gguf_find(const Gguf *file, const char *key); /* or NULL */

/* The name of the element type of a tensor, such as "Q4_1"; "" if the file has
 * no such tensor, "?" if Axon cannot read it. */
const char *gguf_tensor_type(const Gguf *file, const char *name);

/* The rows of a matrix of blocks. */
typedef struct GgufRows {
  const char *type; /* of the elements, such as "Q4_1" */
  const uint8_t *at;
  int64_t rows, blocks; /* blocks of a row, at least 1 */
} GgufRows;
bool gguf_find_rows(const Gguf *file, const char *name, GgufRows *rows,
                    Fault *fault);
/* True if the file has not changed since it was opened. */
bool gguf_check(const Gguf *file, Fault *fault);

/* Weights of several matrices, which have one element type and one length of
 * rows.  Their rows follow one another, in tiles of 64.  Block b of 32 inputs
 * (16 for Q6_K) of tile i has its weights in q.[i, b, :, :, :] of the shape
 * [words, 64, 4].  The others are [tiles, blocks, 64].
 *
 *   Q4_0, Q4_1, Q4_K   inputs 4 * w + t and 16 + 4 * w + t are the lower and
 *                      upper 4 bits of q.[i, b, w, l, t]
 *   Q8_0, Q6_K         input 4 * w + t is q.[i, b, w, l, t] - 128
 *
 * A weight is scale * input + least with Q4_1 and Q4_K.  With the others, where
 * `least` is `scale`, it is scale * input, and with Q4_0 scale * (input - 8).
 * Weights behind the last row have the scale 0. */
typedef struct GgufTiles {
  Tensor *q, *scale, *least;
} GgufTiles;
/* The scales are `dtype`: f16, or f32 with Q4_K and Q6_K.  With `layers` above
 * 0 each tensor has that many equal parts: another leading axis. */
bool gguf_tiles(const Gguf *file, size_t count, const char *const *names,
                int64_t layers, Dtype dtype, GgufTiles *to, Fault *fault);

/* Reads the item at *at and moves to the next one. */
GgufText gguf_next_text(const uint8_t **at);
Scalar gguf_next_number(const uint8_t **at, GgufType type);

#endif
