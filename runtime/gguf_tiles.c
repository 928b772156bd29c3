/* The weights of .gguf files in tiles, as products read them (gguf.h).  The
 * rows go from the file to their place at once, on all threads. */
#include "runtime/gguf.h"
#include "runtime/internal.h"
#include "runtime/thread_pool.h"
#include "support/mem.h"

#include <string.h>

enum {
  TILE = 64,      /* rows */
  WORD = 4,       /* bytes of a row that lie together */
  ROW_GROUP = 16, /* rows whose words fill a cache line */
  MAX_BLOCK = 210,
  MAX_PARTS = 16, /* blocks of a tile in a block of the file */
};

typedef struct Job Job;

/* A row of a tile.  One behind the last row has the step 0. */
typedef struct Row {
  const uint8_t *at;
  size_t step; /* bytes of a block */
} Row;

typedef struct TileType {
  const char *name;
  uint8_t bytes; /* of a block in the file */
  uint8_t parts, words;
  Dtype dtype; /* of the scales */
  bool has_least;
  void (*fill)(const Job *j, int64_t tile, const Row *rows);
} TileType;

struct Job {
  const TileType *type;
  const GgufRows *matrices;
  size_t count;
  int64_t blocks; /* of a row in the file */
  uint8_t *q;
  void *scale, *least;
};

/* ---- blocks whose bytes stay as they are ---- */

/* The bytes behind `head` are the words.  Each byte changes by `flip`. */
static inline void copy_tile(const Job *j, int64_t tile, const Row *rows,
                             size_t head, size_t words, uint32_t flip) {
  uint16_t *scale = j->scale, *least = j->least;
  for (size_t group = 0; group < TILE; group += ROW_GROUP)
    for (int64_t k = 0; k < j->blocks; k++)
      for (size_t l = group; l < group + ROW_GROUP; l++) {
        const uint8_t *block = rows[l].at + (size_t)k * rows[l].step;
        size_t at = (size_t)(tile * j->blocks + k) * TILE;
        uint8_t *q = j->q + (at * words + l) * WORD;
        for (size_t w = 0; w < words; w++) {
          uint32_t word;
          memcpy(&word, block + head + WORD * w, WORD);
          word ^= flip;
          memcpy(q + TILE * WORD * w, &word, WORD);
        }
        memcpy(scale + at + l, block, sizeof *scale);
        if (head > sizeof *scale)
          memcpy(least + at + l, block + sizeof *scale, sizeof *least);
      }
}

static void fill_4_0(const Job *j, int64_t tile, const Row *rows) {
  copy_tile(j, tile, rows, 2, 4, 0);
}

static void fill_4_1(const Job *j, int64_t tile, const Row *rows) {
  copy_tile(j, tile, rows, 4, 4, 0);
}

static void fill_8_0(const Job *j, int64_t tile, const Row *rows) {
  copy_tile(j, tile, rows, 2, 8, 0x80808080);
}

/* ---- blocks of 256 inputs ---- */

typedef struct Parts {
  uint8_t q[MAX_PARTS][4 * WORD];
  float scale[MAX_PARTS], least[MAX_PARTS];
} Parts;

static float half_at(const uint8_t *at) {
  uint16_t h;
  memcpy(&h, at, sizeof h);
  return (float)f16_to_double(h);
}

/* Group g of 8 has a scale and a minimum of 6 bits in 12 bytes.  The last four
 * have their upper two bits in the first eight bytes. */
static void unpack_4_k(const uint8_t *block, Parts *to) {
  const uint8_t *bits = block + 4, *q = block + 16;
  float d = half_at(block), e = half_at(block + 2);
  for (uint32_t g = 0; g < 8; g++) {
    uint32_t h = g < 4 ? g : g - 4;
    uint32_t scale = bits[h] & 63, least = bits[h + 4] & 63;
    if (g >= 4) {
      scale = (bits[g + 4] & 15u) | (bits[h] >> 6 << 4);
      least = (bits[g + 4] >> 4) | (bits[g] >> 6 << 4);
    }
    to->scale[g] = d * (float)scale;
    to->least[g] = -(e * (float)least);
    const uint8_t *from = q + 32 * (g / 2);
    uint32_t shift = 4 * (g % 2);
    for (uint32_t t = 0; t < 16; t++)
      to->q[g][t] = (uint8_t)((from[t] >> shift & 15) |
                              (from[t + 16] >> shift & 15) << 4);
  }
}

static void unpack_6_k(const uint8_t *block, Parts *to) {
  float d = half_at(block + 208);
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t part = i / 128, k = i % 128;
    uint32_t low = block[64 * part + k % 64] >> (4 * (k / 64)) & 15;
    uint32_t high = block[128 + 32 * part + k % 32] >> (2 * (k / 32)) & 3;
    to->q[i / 16][i % 16] = (uint8_t)((low | high << 4) + 128 - 32);
  }
  for (uint32_t g = 0; g < 16; g++)
    to->scale[g] = d * (float)(int8_t)block[192 + g];
}

static inline void unpack_tile(const Job *j, int64_t tile, const Row *rows,
                               void unpack(const uint8_t *block, Parts *to)) {
  float *scale = j->scale, *least = j->least;
  size_t parts = j->type->parts;
  Parts p;
  for (size_t group = 0; group < TILE; group += ROW_GROUP)
    for (int64_t k = 0; k < j->blocks; k++)
      for (size_t l = group; l < group + ROW_GROUP; l++) {
        unpack(rows[l].at + (size_t)k * rows[l].step, &p);
        for (size_t part = 0; part < parts; part++) {
          size_t at = ((size_t)(tile * j->blocks + k) * parts + part) * TILE;
          uint8_t *q = j->q + (at * 4 + l) * WORD;
          for (size_t w = 0; w < 4; w++)
            memcpy(q + TILE * WORD * w, p.q[part] + WORD * w, WORD);
          scale[at + l] = p.scale[part];
          if (j->type->has_least)
            least[at + l] = p.least[part];
        }
      }
}

static void fill_4_k(const Job *j, int64_t tile, const Row *rows) {
  unpack_tile(j, tile, rows, unpack_4_k);
}

static void fill_6_k(const Job *j, int64_t tile, const Row *rows) {
  unpack_tile(j, tile, rows, unpack_6_k);
}

/* ---- all tiles ---- */

static const TileType tile_types[] = {
    {"Q4_0", 18, 1, 4, DT_F16, false, fill_4_0},
    {"Q4_1", 20, 1, 4, DT_F16, true, fill_4_1},
    {"Q8_0", 34, 1, 8, DT_F16, false, fill_8_0},
    {"Q4_K", 144, 8, 4, DT_F32, true, fill_4_k},
    {"Q6_K", 210, 16, 4, DT_F32, false, fill_6_k},
};

static const TileType *find_type(const char *name) {
  for (size_t i = 0; i < ARRAY_LEN(tile_types); i++)
    if (strcmp(tile_types[i].name, name) == 0)
      return &tile_types[i];
  return NULL;
}

static void find_rows(const Job *j, int64_t first, Row rows[TILE]) {
  static const uint8_t zeros[MAX_BLOCK];
  size_t m = 0, step = j->type->bytes;
  for (size_t l = 0; l < TILE; l++, first++) {
    for (; m < j->count && first >= j->matrices[m].rows; m++)
      first -= j->matrices[m].rows;
    rows[l] = (Row){zeros, 0};
    if (m < j->count)
      rows[l] =
          (Row){j->matrices[m].at + (size_t)(first * j->blocks) * step, step};
  }
}

static int fill_tiles(void *context, int64_t begin, int64_t end) {
  const Job *j = context;
  Row rows[TILE];
  for (int64_t tile = begin; tile < end; tile++) {
    find_rows(j, tile * TILE, rows);
    j->type->fill(j, tile, rows);
  }
  return 0;
}

/* Finds the matrices.  Returns the number of their rows, or -1. */
static int64_t find_matrices(const Gguf *file, size_t count,
                             const char *const *names, GgufRows *to,
                             Fault *fault) {
  int64_t rows = 0;
  for (size_t i = 0; i < count; i++) {
    if (!gguf_find_rows(file, names[i], &to[i], fault))
      return -1;
    if (to[i].type != to[0].type || to[i].blocks != to[0].blocks) {
      fault_set(fault, "%.80s and %.80s differ in the type or length of rows",
                names[0], names[i]);
      return -1;
    }
    rows += to[i].rows;
  }
  return rows;
}

/* The shape of the bits. */
typedef struct TilesShape {
  int64_t all[6]; /* layers, tiles of a layer, blocks, words, rows, bytes */
  bool has_layers;
} TilesShape;

static Tensor *new_bits(const TilesShape *s, Fault *fault) {
  bool skipped = !s->has_layers;
  return tensor_new(DT_U8, 6 - skipped, s->all + skipped, false, fault);
}

static Tensor *new_scales(const TilesShape *s, Dtype dtype, Fault *fault) {
  bool skipped = !s->has_layers;
  int64_t shape[] = {s->all[0], s->all[1], s->all[2], TILE};
  return tensor_new(dtype, 4 - skipped, shape + skipped, false, fault);
}

static bool make_tensors(const Job *j, const TilesShape *s, GgufTiles *to,
                         Fault *fault) {
  Dtype dtype = j->type->dtype;
  to->q = new_bits(s, fault);
  to->scale = to->q ? new_scales(s, dtype, fault) : NULL;
  if (to->scale)
    to->least = j->type->has_least ? new_scales(s, dtype, fault)
                                   : tensor_retain(to->scale);
  return to->least != NULL;
}

static void release_tensors(GgufTiles *to) {
  Tensor *all[] = {to->q, to->scale, to->least};
  for (size_t i = 0; i < ARRAY_LEN(all); i++)
    if (all[i])
      tensor_release(all[i]);
  *to = (GgufTiles){0};
}

static bool make_tiles(const Gguf *file, Job *j, int64_t rows, int64_t layers,
                       Dtype dtype, GgufTiles *to, Fault *fault) {
  j->type = find_type(j->matrices[0].type);
  j->blocks = j->matrices[0].blocks;
  if (!j->type) {
    fault_set(fault, "matrices of %s have no tiles", j->matrices[0].type);
    return false;
  }
  if (j->type->dtype != dtype) {
    fault_set(fault, "the scales of %s are %s, not %s", j->type->name,
              dtype_info[j->type->dtype].name, dtype_info[dtype].name);
    return false;
  }
  int64_t tiles = (rows + TILE - 1) / TILE;
  if (layers > 0 && (rows % TILE || tiles % layers)) {
    fault_set(fault, "%lld rows are no tiles of %lld layers", (long long)rows,
              (long long)layers);
    return false;
  }
  TilesShape shape = {{layers, layers > 0 ? tiles / layers : tiles,
                       j->blocks * j->type->parts, j->type->words, TILE, WORD},
                      layers > 0};
  if (!make_tensors(j, &shape, to, fault))
    return false;
  j->q = to->q->data;
  j->scale = to->scale->data;
  j->least = to->least->data;
  thread_pool_parallel_for(tiles, 1, fill_tiles, j, NULL);
  return gguf_check(file, fault);
}

bool gguf_tiles(const Gguf *file, size_t count, const char *const *names,
                int64_t layers, Dtype dtype, GgufTiles *to, Fault *fault) {
  GgufRows *matrices = mem_try_alloc(sizeof *matrices * (count + 1));
  Job job = {.matrices = matrices, .count = count};
  *to = (GgufTiles){0};
  if (!matrices || !count) {
    fault_set(fault, matrices ? "there are no matrices" : "out of memory");
    mem_free(matrices);
    return false;
  }
  int64_t rows = find_matrices(file, count, names, matrices, fault);
  bool ok = rows >= 0 && make_tiles(file, &job, rows, layers, dtype, to, fault);
  mem_free(matrices);
  if (!ok)
    release_tensors(to);
  return ok;
}
