/* How the products of a kernel are cut up.
 *
 * A tile of the result lies in registers while the sum goes along; one operand
 * is broadcast, the other one lies along lanes, copied into panels that the
 * caches keep: Goto and van de Geijn, Anatomy of high-performance matrix
 * multiplication, 2008.  Each thread copies for itself, which is cheaper than
 * to read what another core has written. */
#include "backend/cpu/keeping.h"

#include "backend/cpu/emit.h"
#include "machine/machine.h"

#include <string.h>

enum {
  BLOCK_N = 1024,         /* columns that are copied at a time, */
  PANEL_BYTES = 4 << 20,  /* and bytes of all of them, ahead */
  AHEAD_BYTES = 16 << 20, /* of all columns, where few rows go at a time */
  COPY_BYTES = 16 << 20,  /* of the narrowest unit, however long the sum */
  UNITS = 8,              /* that are wanted at least */
  CUT_ROWS = 192,         /* no more rows than that, */
  CUT_PANELS = 4,         /* fewer panels than that, */
  CUT_UNITS = 4,          /* and fewer such results, with */
  CUT_DEPTH = 1 << 13,    /* a longer sum than that: it is cut */
  CHUNKS = 16,            /* into so many parts */
  WINDOW_ROWS = 48,       /* that are wanted for one that does not slide */
  SUMS_LEAST = 8,         /* that keep the machine busy */
  BANDS_MOST = 4,         /* of open sizes, where their rows are few */
  FAR_BYTES = 512 << 10,  /* of the left side of a product: that is far */
  ROWS_MOST = 24,         /* of a tile, where they are positions */
  PORTION = 512,          /* elements of rows that go in portions */
  WINDOW_LEAST = 64,      /* columns of a unit, where there are more */
  WINDOW_PARTS = 16,      /* of all rows, at most */
  KEPT_ELEMENTS = 4096,   /* of an operand that is worth keeping */
  OPEN_COLUMNS = 256,   /* of a unit through a window, where sizes are open, */
  OPEN_LINES = 4,       /* at most, at least; */
  OPEN_POSITIONS = 196, /* it is no smaller to have */
  OPEN_UNITS = 4,       /* so many, */
  OPEN_ELEMENTS = 192 << 10, /* and no larger than that, if it can be */
  LIMITED = 32,       /* parts of the rows that have limits of their own */
  PLAIN_STRIDE = 128, /* elements between terms of b that is not copied */
};

static const double KEPT_SHARE = 0.02; /* of the product, to copy it */

/* ---- the tile ---- */

static const TileShape *tile_shapes(const Schedule *s, uint32_t *count) {
  static const TileShape big[] = {{6, 4}, {8, 3},  {12, 2}, {8, 2},
                                  {4, 4}, {24, 1}, {16, 1}, {8, 1}};
  static const TileShape small[] = {{6, 2}, {4, 2}, {12, 1}, {8, 1}};
  bool many = s->bytes == 64; /* 32 registers */
  *count = many ? ARRAY_LEN(big) : ARRAY_LEN(small);
  return many ? big : small;
}

/* Half cycles of a term: two sums are gone on with at a time, each four cycles
 * after its last term, and two operands loaded; loads are better few. */
static double term_time(int64_t rows, int64_t vectors) {
  double sums = (double)(rows * vectors), loads = (double)(rows + vectors);
  double most = sums > loads ? sums : loads;
  return (most > SUMS_LEAST ? most : SUMS_LEAST) + 0.1 * loads;
}

/* Are rows tiles of so many, and of one less? */
static bool come_out(int64_t m, int64_t rows) {
  return m % rows == 0 || (rows - m % rows) * (rows - 1) <= m;
}

/* At most so many, in as many tiles as that takes, which are alike. */
static int64_t even_rows(int64_t m, int64_t most) {
  return m > 0 ? divide_up(m, divide_up(m, most)) : most;
}

/* known: there are m rows, in all calls. */
static void choose_tile(Tile *t, const Schedule *s, int64_t m, int64_t n,
                        bool known) {
  uint32_t count;
  const TileShape *shapes = tile_shapes(s, &count);
  int64_t vectors = divide_up(n, s->width);
  double best = 0;
  for (uint32_t j = 0; j < count; j++) {
    int64_t rows = shapes[j].rows, each = shapes[j].vectors;
    if (known)
      rows = even_rows(m, rows);
    double tiles = come_out(m, rows) ? (double)m / (double)rows
                                     : (double)divide_up(m, rows);
    double time = (double)(vectors / each) * term_time(rows, each);
    if (vectors % each)
      time += term_time(rows, vectors % each);
    if (j > 0 && tiles * time >= best)
      continue;
    best = tiles * time;
    t->rows = (uint32_t)rows;
    t->vectors = shapes[j].vectors;
  }
}

/* Which tiles there are at the edges: of one row less, and of fewer vectors. */
static void choose_edges(Tile *t, const Loop *loop, uint32_t width) {
  int64_t m = loop->extents[t->m], n = loop->extents[t->n];
  t->less = !size_is_number(loop->graph, m) || m % t->rows != 0;
  t->less &= t->rows > 1;
  bool known = size_is_number(loop->graph, n);
  if (known)
    t->last = (uint32_t)(divide_up(n, width) % t->vectors);
  if (t->b.form == OPERAND_PLAIN && !t->last && (!known || n % width))
    t->last = t->vectors;
}

/* ---- operands ---- */

/* The summed axes as one, where the operand walks over them as over one: their
 * order stays the same. */
static void merge_terms(Loop *loop) {
  uint32_t k = loop->kept, last = loop->axes - 1;
  int64_t terms;
  if (!size_product(loop->graph, last - k + 1, loop->extents + k, &terms))
    return;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    for (uint32_t v = k; v <= last; v++)
      if (loop->quotients[j].of.times[v])
        return;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    const Quasi *q = s->kind == STEP_INDEX ? s->index
                     : s->kind == STEP_READ || s->kind == STEP_LOCAL
                         ? s->address
                         : NULL;
    int64_t step;
    for (uint32_t v = k; q && v < last; v++)
      if (!size_mul(loop->graph, q->times[v + 1], loop->extents[v + 1],
                    &step) ||
          q->times[v] != step)
        return;
  }
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    Step *s = &loop->steps.at[j];
    Quasi *q = s->kind == STEP_INDEX                           ? s->index
               : s->kind == STEP_READ || s->kind == STEP_LOCAL ? s->address
                                                               : NULL;
    if (!q)
      continue;
    q->times[k] = q->times[last];
    for (uint32_t v = k + 1; v <= last; v++)
      q->times[v] = 0;
  }
  loop->extents[k] = terms;
  loop->axes = k + 1;
}

static Loop *operand_loop(Arena *arena, const Loop *loop, const Product *p,
                          uint32_t which, Dtype t) {
  Loop *to = product_side(arena, loop, p, which, t);
  merge_terms(to);
  return to;
}

/* What it costs to have lanes along v, as bad accesses. */
static uint32_t strides_along(const Loop *loop, uint32_t v) {
  uint32_t bad = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_READ || s->kind == STEP_LOCAL)
      bad += s->address->times[v] != 0 && s->address->times[v] != 1;
    for (uint32_t a = 0; s->kind == STEP_READ && a < s->index_count; a++)
      bad += loop->steps.at[s->indices[a].step].kind == STEP_INDEX ? 1 : 4;
  }
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    bad += loop->quotients[j].of.times[v] != 0 ? 16 : 0;
  return bad;
}

/* The one value in memory that an operand is; NULL: it is computed. */
static const Step *plain_read(const Loop *loop, Dtype t) {
  const Step *s = &loop->steps.at[loop->results.at[0].step];
  bool read = s->kind == STEP_READ && s->index_count == 0;
  if ((!read && s->kind != STEP_LOCAL) || s->dtype != t ||
      loop->axes != loop->kept + 1)
    return NULL;
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (s->address->times[v])
      return NULL;
  return s;
}

static void choose_forms(Tile *t, const Loop *loop, const Schedule *s) {
  uint32_t k = loop->kept;
  bool single_a = t->a.loop->axes == k + 1, single_b = t->b.loop->axes == k + 1;
  const Step *a = plain_read(t->a.loop, t->dtype);
  const Step *b = plain_read(t->b.loop, t->dtype);
  t->a.form = OPERAND_COLUMNS;
  if (single_a && strides_along(t->a.loop, k) <= strides_along(t->a.loop, t->m))
    t->a.form = OPERAND_ROWS;
  if (a && a->address->times[k] == 1 &&
      (a->kind == STEP_READ || s->shape == UNIT_ROWS))
    t->a.form = OPERAND_PLAIN;
  t->b.form = OPERAND_PANELS;
  if (single_b && strides_along(t->b.loop, k) < strides_along(t->b.loop, t->n))
    t->b.form = OPERAND_TURNED;
  if (b && b->kind == STEP_READ && b->address->times[t->n] == 1 &&
      b->address->times[k] <= PLAIN_STRIDE)
    t->b.form = OPERAND_PLAIN;
}

/* Is each element of b wanted for so few rows that to copy it first would take
 * longer than to read it as it lies? */
static bool is_read_there(const Tile *t, const Loop *loop, const Schedule *s) {
  int64_t m = loop->extents[t->m];
  const Step *b = plain_read(t->b.loop, t->dtype);
  return s->shape == UNIT_TILE && t->b.form == OPERAND_PANELS &&
         t->element == t->dtype && size_is_number(loop->graph, m) &&
         m <= BLOCK_M_MOST && b && b->kind == STEP_READ &&
         b->address->times[t->n] == 1;
}

/* ---- the shape of units ---- */

typedef struct Choice {
  Arena *arena;
  Kernel *k;
  Schedule *s;
  Product products[KERNEL_LOOPS];
  bool is[KERNEL_LOOPS];
  bool window; /* of the one product's tiles */
  uint32_t count;
} Choice;

static void find_products(Choice *c) {
  c->count = 0;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    c->is[j] = product_find(c->arena, c->k->loops.at[j], &c->products[j]);
    c->count += c->is[j];
  }
}

/* Would the product do with lanes along n? */
static bool suits(const Choice *c, uint32_t n) {
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    uint32_t m, with_n;
    if (!c->is[j])
      continue;
    if (!product_sides(c->k->loops.at[j], &c->products[j], n, &m, &with_n) ||
        !with_n || m >= c->k->outer)
      return false;
  }
  return true;
}

static double strided_work(const Choice *c, uint32_t v) {
  double work = 0;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    const Loop *loop = c->k->loops.at[j];
    if (!c->is[j])
      work += loop_points(loop, 0, loop->axes) * strides_along(loop, v);
    double points = loop_points(loop, 0, loop->kept);
    for (uint32_t i = 0; i < loop->results.len; i++)
      if (loop->results.at[i].out)
        work += points * (loop->results.at[i].out->times[v] != 1);
  }
  return work;
}

/* The outer axis for lanes: one along which the rest is contiguous, and the
 * longest of those. */
static uint32_t outer_lane(const Choice *c) {
  const Loop *loop = c->k->loops.at[0];
  uint32_t best = NO_LANE;
  double least = 0;
  for (uint32_t v = c->k->outer; v-- > 0;) {
    if (!suits(c, v))
      continue;
    double work = strided_work(c, v);
    if (best == NO_LANE || work < least ||
        (work == least && loop_guess(loop, v) > loop_guess(loop, best))) {
      best = v;
      least = work;
    }
  }
  return best;
}

static Dtype sum_type(const Loop *loop) {
  return loop->steps.at[loop->results.at[0].step].dtype;
}

static const double WASTE_MOST = 1.15; /* of lanes, without a window */

/* Does the side lie on positions that go on from row to row better than row by
 * row, though it does not slide? */
static bool wants_rows(const Choice *c, int64_t m, int64_t rows,
                       int64_t columns) {
  double now = (double)round_up(columns, c->s->width) / (double)columns;
  double then =
      (double)round_up(rows * columns, c->s->width) / (double)(rows * columns);
  return m >= WINDOW_ROWS && now > WASTE_MOST * then;
}

/* Are there so few columns that many lanes would be idle, and rows to have them
 * along?  Then the side is better copied once, its columns rows of a tile. */
static bool wants_turning(const Choice *c, int64_t m, int64_t columns) {
  double now = (double)round_up(columns, c->s->width) / (double)columns;
  return m >= WINDOW_ROWS && now > WASTE_MOST &&
         !product_of_halves(c->k->loops.at[0]);
}

/* Such that a small unit fits. */
static bool window_fits(const Choice *c, const Loop *b, uint32_t row,
                        uint32_t n) {
  Window *w = window_new(c->arena, b, row, n);
  int64_t columns = loop_guess(b, n);
  columns = columns < WINDOW_LEAST ? columns : 2 * WINDOW_LEAST;
  return w && window_size(w, 2, columns, c->s->width) &&
         (double)size_guess(b->graph, w->planes) *
                 (double)size_guess(b->graph, w->plane) * sizeof(double) <=
             WINDOW_BYTES;
}

/* The axis of rows for a window that slides along n, or along which it would
 * slide too; NO_LANE: there is none.  on: a window is the thing. */
static uint32_t window_rows(const Choice *c, uint32_t m, uint32_t n,
                            uint32_t with_n, bool *on) {
  const Loop *loop = c->k->loops.at[0];
  const Product *p = &c->products[0];
  const Loop *b = operand_loop(c->arena, loop, p, with_n, sum_type(loop));
  uint64_t of_a = 0, of_b = 0;
  for (uint32_t j = 0; j < p->count; j++)
    *(with_n >> j & 1 ? &of_b : &of_a) |= p->depends[p->factors[j]];
  Reach r;
  bool open = kernel_is_open(c->k);
  *on = false;
  if ((open && (!c->k->window || c->s->width == 1)) || !window_reach(b, n, &r))
    return NO_LANE;
  *on = window_slides(&r);
  uint32_t best = NO_LANE;
  int64_t most = -1;
  for (uint32_t v = 0; v < c->k->outer; v++) {
    if (v == m || v == n || !(of_b >> v & 1) || of_a >> v & 1 ||
        !window_reach(b, v, &r))
      continue;
    int64_t span = window_slides(&r) ? size_guess(b->graph, r.span) : 0;
    if (span < most || loop_guess(loop, v) < 2)
      continue;
    most = span;
    best = v;
  }
  bool slides = most > 0;
  if (best != NO_LANE && !slides && !*on && !open)
    slides =
        wants_rows(c, loop->extents[m], loop->extents[best], loop->extents[n]);
  *on |= slides;
  if (best == NO_LANE && !*on && !open)
    *on = wants_turning(c, loop->extents[m], loop->extents[n]);
  *on = *on && window_fits(c, b, best, n); /* even a small one may not */
  return best;
}

/* All axes of the one product are shared: tiles of its two sides. */
static bool choose_tiles(Choice *c) {
  uint32_t m, with_n, outer = c->k->outer;
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->k->loops.at[j]->kept > outer)
      return false;
  if (c->count != 1 || !c->is[0] || outer < 2)
    return false;
  uint32_t n = outer_lane(c);
  if (n == NO_LANE)
    return false;
  product_sides(c->k->loops.at[0], &c->products[0], n, &m, &with_n);
  uint32_t row = window_rows(c, m, n, with_n, &c->window);
  if (c->window && row != NO_LANE) {
    c->s->strip = 1;
    kernel_move_last(c->k, row);
    m -= m > row;
    n -= n > row;
  }
  kernel_move_last(c->k, m);
  kernel_move_last(c->k, n - (n > m));
  c->s->shape = UNIT_TILE;
  return true;
}

/* Rows of products: lanes along their last inner axis. */
static bool choose_rows(Choice *c) {
  uint32_t m = NO_LANE;
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    const Loop *loop = c->k->loops.at[j];
    uint32_t of, with_n;
    if (!c->is[j])
      continue;
    if (loop->kept == loop->outer ||
        !product_sides(loop, &c->products[j], loop->kept - 1, &of, &with_n) ||
        !with_n || of >= c->k->outer || (m != NO_LANE && m != of))
      return false;
    m = of;
  }
  kernel_move_last(c->k, m);
  c->s->shape = UNIT_ROWS;
  return true;
}

/* ---- sizes ---- */

static int64_t depth_of(const Loop *loop) {
  int64_t depth;
  return size_product(loop->graph, loop->axes - loop->kept,
                      loop->extents + loop->kept, &depth)
             ? depth
             : INT64_MAX;
}

/* In pieces of a size, at most `most` each, multiples of `of`. */
static int64_t pieces(int64_t extent, int64_t most, int64_t of) {
  int64_t count = divide_up(extent, most);
  return round_up(divide_up(extent, count > 0 ? count : 1), of);
}

static double other_points(const Choice *c, uint32_t last) {
  uint32_t outer = c->k->outer;
  return outer > last ? loop_points(c->k->loops.at[0], 0, outer - last) : 1;
}

/* Are the rows and columns of a tile the innermost axes of the result, and as
 * many whatever the sizes are? */
static bool is_last(const Loop *loop, const Quasi *out) {
  uint32_t last = loop->outer - 1;
  int64_t size = 1;
  for (uint32_t v = loop->outer; v-- > 0;)
    if (out->times[v] != size ||
        !size_mul(loop->graph, size, loop->extents[v], &size))
      return false;
  return size_is_number(loop->graph, loop->extents[last]) &&
         size_is_number(loop->graph, loop->extents[last - 1]);
}

/* Is the sum so long and the result so small that parts of the sum are what
 * threads can share? */
static bool is_long_sum(const Choice *c, const Tile *t, const Grid *g) {
  const Loop *loop = c->k->loops.at[0];
  const Result *r = &loop->results.at[0];
  int64_t columns = (int64_t)t->vectors * c->s->width;
  return r->out && g->n < CUT_PANELS * columns && g->m <= CUT_ROWS &&
         g->others < CUT_UNITS && g->depth >= CUT_DEPTH &&
         c->k->loops.len == 1 && is_last(loop, r->out);
}

/* Of so many rows as there turn out to be, each band as many: at most `height`,
 * and fewer where that gives threads something to do. */
static int64_t bands_of(const Loop *loop, const Tile *t, int64_t bands,
                        int64_t height) {
  Graph *g = loop->graph;
  int64_t m = loop->extents[t->m], least, most;
  if (size_is_number(g, m) || !size_div_up(g, m, height, &least) ||
      !size_div_up(g, m, BLOCK_M_MOST, &most))
    return 0;
  bands = bands < BANDS_MOST ? bands : BANDS_MOST;
  return size_max(g, least, size_min(g, most, bands));
}

static void size_tile(Choice *c, Tile *t) {
  const Loop *loop = c->k->loops.at[0];
  Grid g = {.m = loop_guess(loop, t->m),
            .n = loop_guess(loop, t->n),
            .depth = size_guess(loop->graph, t->depth),
            .others = other_points(c, 2),
            .bytes = dtype_info[t->dtype].bytes,
            .width = c->s->width};
  if (is_long_sum(c, t, &g)) {
    g.height = round_up(g.m, t->rows);
    g.block = round_up(g.n, (int64_t)t->vectors * c->s->width);
    c->s->chunk = pieces(g.depth, divide_up(g.depth, CHUNKS), t->block_k);
  } else {
    grid_choose(&g, t, loop->graph->sizes != NULL);
  }
  t->block_n = c->s->block = g.block;
  t->block_m = pieces(g.height, BLOCK_M_MOST, t->rows);
  c->s->height = g.height;
  c->s->bands = bands_of(loop, t, divide_up(g.m, g.height), g.height);
  t->passing = !loop->results.at[0].out &&
               size_is_number(loop->graph, t->depth) && t->pack_k >= t->depth;
}

static bool has_limits(const Kernel *k) {
  return k->limits.len > 0;
}

/* Of a row, or of the portion of it that is there at a time. */
static double local_bytes(const Choice *c) {
  double bytes = kernel_local_bytes(c->k, false);
  for (uint32_t j = c->k->portion_from; j < c->k->portion_to; j++) {
    const Loop *loop = c->k->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      if (r->local && loop_keeps(loop, r, loop->limited))
        bytes -=
            (double)(size_guess(loop->graph, r->local_size) - c->s->portion) *
            dtype_info[r->dtype].bytes;
    }
  }
  return bytes;
}

/* Rows of which a cache does not hold enough for tiles go in portions. */
static void choose_portions(Choice *c) {
  double local = kernel_local_bytes(c->k, false);
  if (c->s->shape == UNIT_ROWS && local * PORTION_ROWS > UNIT_BYTES &&
      kernel_portion(c->k))
    c->s->portion = PORTION;
}

/* Rows that are gone through together, and those of a unit, which share
 * copies. */
static void size_rows(Choice *c, uint32_t tile_rows) {
  int64_t extent = loop_guess(c->k->loops.at[0], c->k->outer - 1);
  double local = local_bytes(c), points = other_points(c, 1);
  int64_t rows = BLOCK_M_MOST, span = extent;
  if (has_limits(c->k))
    rows = 2 * tile_rows > extent / LIMITED
               ? 2 * tile_rows
               : extent / LIMITED / tile_rows * tile_rows;
  rows = rows < BLOCK_M_MOST ? rows : BLOCK_M_MOST;
  while (rows > tile_rows && local * (double)rows > UNIT_BYTES)
    rows -= tile_rows;
  while (span > rows && points * (double)divide_up(extent, span) < UNITS)
    span = divide_up(span, 2);
  c->s->block = rows < extent ? rows : extent;
  c->s->span = round_up(span, c->s->block);
}

/* ---- windows ---- */

typedef struct Search { /* for the best unit */
  const Window *window;
  const Schedule *schedule;
  WindowWork work;
  WindowUnit best;
  double least; /* its cost; below 0: there is none yet */
} Search;

static void try_unit(Search *s, WindowUnit u) {
  double cost = window_cost(s->window, &s->work, &u);
  if (s->least < 0 || cost < s->least) {
    s->least = cost;
    s->best = u;
  }
}

/* All tiles, for parts of the rows. */
static void try_tiles(Search *s, int64_t parts, int64_t strip, int64_t block) {
  uint32_t count, width = s->work.width;
  const TileShape *shapes = tile_shapes(s->schedule, &count);
  int64_t height = divide_up(s->work.rows, parts);
  WindowUnit u = {.strip = strip, .block = block};
  for (uint32_t j = 0; j < count; j++) {
    u.tile = shapes[j];
    u.height = round_up(height, shapes[j].rows);
    try_unit(s, u);
  }
  uint32_t registers = target_vector_bytes() == 64 ? 32 : 16;
  u.across = true;
  /* of open sizes, where tiles that come out are no reason for another shape:
   * four vectors of weights are read from a far cache in each step */
  uint32_t vectors = s->work.open ? 2 : 4;
  for (uint32_t v = 1; v <= vectors; v++) {
    int64_t most = (registers - 1 - v) / v;
    most = most < ROWS_MOST ? most : ROWS_MOST;
    int64_t runs = divide_up(block, most);
    u.tile = (TileShape){
        (uint32_t)(s->work.open ? most : divide_up(block, runs)), v};
    u.height = round_up(height, (int64_t)v * width);
    try_unit(s, u);
  }
}

static void try_units(Search *s) {
  int64_t m = s->work.rows, n = s->work.columns, lines = s->work.lines;
  for (int64_t parts = 1; parts <= WINDOW_PARTS && parts <= m; parts *= 2)
    for (int64_t strips = 1; strips <= lines;
         strips = strips < 16 ? strips + 1 : 2 * strips)
      for (int64_t block = n; block == n || block >= WINDOW_LEAST;
           block = round_up(divide_up(block, 2), s->work.width)) {
        try_tiles(s, parts, divide_up(lines, strips), block);
        if (block < 2 * WINDOW_LEAST)
          break;
      }
}

/* Sizes; what overflows becomes INT64_MAX, which is emitted nowhere. */
static int64_t times(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return size_mul(g, x, y, &out) ? out : INT64_MAX;
}

static int64_t plus(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return size_add(g, x, y, &out) ? out : INT64_MAX;
}

static int64_t over(Graph *g, int64_t x, int64_t y) {
  int64_t out;
  return size_div_up(g, x, y, &out) ? size_max(g, out, 1) : INT64_MAX;
}

static int64_t multiple(Graph *g, int64_t x, int64_t of) {
  return times(g, over(g, x, of), of);
}

/* How many lines of so many rows and columns a cache holds, with what of the
 * window is read for each, and what is read for all. */
static int64_t lines_held(Graph *g, const Window *w, int64_t rows,
                          int64_t columns) {
  int64_t pitch, more, most;
  if (!size_div(g, w->column.span, w->column.step, &pitch) ||
      !size_div(g, w->row.span, w->row.step, &more))
    return OPEN_LINES;
  pitch = size_alias(g, times(g, plus(g, pitch, columns), w->planes));
  int64_t line = size_alias(g, plus(g, times(g, rows, columns), pitch));
  int64_t left = plus(g, OPEN_ELEMENTS, times(g, times(g, pitch, more), -1));
  return size_div(g, left, size_max(g, line, 1), &most)
             ? size_max(g, most, OPEN_LINES)
             : OPEN_LINES;
}

/* The unit where sizes are open: of whole lines, if they are not very long, as
 * many as fit a cache, and fewer, then fewer rows, so that there is something
 * to do for several threads. */
static void open_unit(const Choice *c, const Tile *t, WindowUnit *u) {
  Graph *g = c->k->graph;
  const Loop *loop = c->k->loops.at[0];
  uint32_t outer = c->k->outer, axes = outer - (c->s->strip ? 3 : 2);
  int64_t rows = size_alias(g, loop->extents[t->m]), units = 1;
  int64_t columns = size_alias(g, loop->extents[t->n]);
  int64_t lines = c->s->strip ? size_alias(g, loop->extents[axes]) : 1;
  for (uint32_t v = 0; v < axes; v++)
    units = times(g, units, loop->extents[v]);
  units = size_alias(g, size_max(g, units, 1));
  u->block = size_alias(g, over(g, columns, over(g, columns, OPEN_COLUMNS)));
  int64_t strips = over(g, lines, over(g, OPEN_POSITIONS, u->block));
  strips = size_min(g, strips, over(g, OPEN_UNITS, units));
  int64_t held = size_alias(g, lines_held(g, t->window, rows, u->block));
  strips = size_alias(g, size_max(g, strips, over(g, lines, held)));
  u->strip = size_alias(g, over(g, lines, strips));
  units = times(g, units, strips);
  int64_t least = u->across ? (int64_t)u->tile.vectors * c->s->width
                            : (int64_t)u->tile.rows;
  int64_t parts =
      size_min(g, over(g, OPEN_UNITS, units), over(g, rows, 2 * least));
  u->height = size_alias(g, multiple(g, over(g, rows, parts), least));
}

/* The tile and the unit of a product through a window. */
static void size_window(Choice *c, Tile *t) {
  const Loop *loop = c->k->loops.at[0];
  Graph *g = loop->graph;
  uint32_t outer = c->k->outer, k = t->a.loop->kept;
  Search s = {.window = t->window, .schedule = c->s, .least = -1};
  bool single = t->a.loop->axes == k + 1;
  bool turned =
      single && strides_along(t->a.loop, k) < strides_along(t->a.loop, t->m);
  s.work = (WindowWork){.rows = loop_guess(loop, t->m),
                        .lines = c->s->strip ? loop_guess(loop, outer - 3) : 1,
                        .columns = loop_guess(loop, t->n),
                        .depth = size_guess(g, t->depth),
                        .bytes = dtype_info[t->dtype].bytes,
                        .block_k = t->block_k,
                        .open = kernel_is_open(c->k),
                        .turned = turned &&
                                  !(keeping_may(t->a.loop, t->m) && !g->sizes),
                        .others = other_points(c, c->s->strip ? 3 : 2),
                        .width = c->s->width};
  Window *w = t->window;
  rims_find(w, s.work.lines, s.work.columns);
  try_units(&s);
  WindowUnit *u = &s.best;
  w->across = u->across;
  t->rows = u->tile.rows;
  t->vectors = u->tile.vectors;
  t->block_m = pieces(u->height, BLOCK_M_MOST, t->rows);
  t->block_n = (int64_t)t->vectors * c->s->width;
  t->shorter = s.work.open && w->across;
  if (s.work.open)
    open_unit(c, t, u);
  int64_t places;
  if (!window_size(w, u->strip, u->block, c->s->width) ||
      !window_positions(w, u->strip, u->block, &places))
    w->plane = places = INT64_MAX;
  c->s->height = u->height;
  c->s->block = u->block;
  c->s->strip = c->s->strip ? u->strip : 0;
  c->s->pitch = w->pitch;
  c->s->places = multiple(g, places, t->block_n);
  if (w->across) {
    t->a.form = turned ? OPERAND_TURNED : OPERAND_PANELS;
    const Step *a = plain_read(t->a.loop, t->dtype);
    t->far = turned && a && a->kind == STEP_READ && a->address->times[k] == 1 &&
             (double)s.work.rows * (double)s.work.depth * (double)s.work.bytes >
                 FAR_BYTES;
    c->s->pitch = multiple(g, u->block, t->rows);
    c->s->places = multiple(g, times(g, u->strip, c->s->pitch), c->s->width);
    t->passing = true; /* a panel's sums */
    t->block_m = t->block_n;
    rims_choose_ends(w, s.work.columns, u->block, t->rows);
  } else {
    w->rims = (Rims){.group = 0};
  }
  if (w->rims.group) /* whole groups */
    t->block_k = pieces(t->depth, BLOCK_K_MOST / w->rims.group * w->rims.group,
                        w->rims.group);
}

/* ---- the whole ---- */

/* Rows of pairs as they lie: each begins with a first one, and ends with a
 * second one. */
static bool has_plain_pairs(const Loop *loop, uint32_t m) {
  const Step *s = plain_read(loop, DT_I32);
  return s && s->kind == STEP_READ && s->pairs && !s->terms &&
         s->address->times[m] % 2 == 0;
}

static void make_pairs(Choice *c, Tile *t) {
  t->element = DT_I32;
  t->a.loop = pairs_of(c->arena, t->a.loop, t->a.form == OPERAND_ROWS);
  t->b.loop = pairs_of(c->arena, t->b.loop, t->b.form == OPERAND_TURNED);
  if (has_plain_pairs(t->a.loop, t->m))
    t->a.form = OPERAND_PLAIN;
  if (!size_div_up(c->k->graph, t->depth, 2, &t->depth))
    t->depth = INT64_MAX;
}

static void make_tile(Choice *c, uint32_t at) {
  const Loop *loop = c->k->loops.at[at];
  Tile *t = &c->s->tiling->of[at];
  Product *p = &c->products[at];
  product_find(c->arena, loop, p); /* axes have moved */
  uint32_t with_n, outer = c->k->outer;
  t->on = true;
  t->n = c->s->shape == UNIT_ROWS ? loop->kept - 1 : outer - 1;
  product_sides(loop, p, t->n, &t->m, &with_n);
  t->m = c->s->shape == UNIT_TILE ? outer - 2 : outer - 1;
  t->dtype = sum_type(loop);
  t->a.loop = operand_loop(c->arena, loop, p, ~with_n, t->dtype);
  t->b.loop = operand_loop(c->arena, loop, p, with_n, t->dtype);
  t->element = t->dtype;
  t->depth = depth_of(loop);
  choose_forms(t, loop, c->s);
  bool limited =
      (loop->limits || loop->portioned) && loop->limited >= loop->kept;
  if (c->window) {
    uint32_t row = c->s->strip ? outer - 3 : NO_LANE;
    t->window = window_new(c->arena, t->b.loop, row, t->n); /* as before */
    t->b.form = OPERAND_WINDOW;
  } else if (!limited && (!loop_is_open(loop) || c->k->here) &&
             pairs_fit(c->s, t)) { /* limits may go through a pair */
    make_pairs(c, t);
  }
  t->block_k = pieces(size_guess(loop->graph, t->depth), BLOCK_K_MOST, 1);
}

static void shape_tile(Choice *c, Tile *t, const Loop *loop) {
  if (t->window) {
    size_window(c, t);
    return;
  }
  int64_t m = loop_guess(loop, t->m), n = loop_guess(loop, t->n);
  int64_t depth = size_guess(loop->graph, t->depth);
  int64_t bytes = dtype_info[t->dtype].bytes;
  choose_tile(t, c->s, m, n, size_is_number(loop->graph, loop->extents[t->m]));
  t->in_place = is_read_there(t, loop, c->s);
  if (t->in_place)
    t->b.form = OPERAND_PLAIN;
  t->fetched = t->in_place && (double)n * (double)depth * (double)bytes >
                                  (double)machine()->cache[2];
  choose_edges(t, loop, c->s->width);
  t->block_m = pieces(m, BLOCK_M_MOST, t->rows);
  t->block_n = pieces(n, BLOCK_N, (int64_t)t->vectors * c->s->width);
  /* what follows a tile at once wants all terms before */
  bool direct = loop->results.at[0].out != NULL;
  int64_t columns = 4 * (int64_t)t->vectors * c->s->width;
  int64_t most = COPY_BYTES / (columns * bytes) / t->block_k * t->block_k;
  t->pack_k = direct ? t->block_k : depth < most ? depth : most;
  t->ahead = c->s->shape == UNIT_ROWS && t->b.form != OPERAND_PLAIN &&
             loop->kept == loop->outer + 1 &&
             (double)depth * (double)n * (double)bytes <=
                 (loop->portioned ? AHEAD_BYTES : PANEL_BYTES);
  for (uint32_t j = 0; j < t->b.loop->steps.len; j++)
    t->ahead &= t->b.loop->steps.at[j].kind != STEP_LOCAL;
  if (t->ahead) {
    int64_t width = (int64_t)t->vectors * c->s->width;
    t->pack_k = t->depth;
    t->ahead =
        size_div_up(loop->graph, loop->extents[t->n], width, &t->block_n) &&
        size_mul(loop->graph, t->block_n, width, &t->block_n);
  }
}

uint64_t tiling_slides(Arena *arena, const Loop *loop, uint32_t *rows) {
  uint64_t terms = 0;
  Product p;
  if (!product_find(arena, loop, &p))
    return 0;
  for (uint32_t v = 0; v < loop->outer; v++) {
    uint32_t m, with_n;
    Reach r;
    if (!product_sides(loop, &p, v, &m, &with_n) ||
        !window_reach(product_side(arena, loop, &p, with_n, sum_type(loop)), v,
                      &r))
      continue;
    for (uint32_t k = loop->kept; k < loop->axes; k++)
      terms |= (uint64_t)(r.by[k] != 0) << k;
    if (window_slides(&r))
      *rows = m;
  }
  return terms;
}

/* A product goes to memory as it is, or is local for a loop after it. */
static void part_results(Choice *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++) {
    Loop *loop = c->k->loops.at[j];
    Product p;
    if (!product_find(c->arena, loop, &p))
      continue;
    const Result *r = &loop->results.at[0];
    uint32_t n = c->s->shape == UNIT_ROWS ? loop->kept - 1 : c->k->outer - 1;
    bool plain = r->out && !r->local && r->out->times[n] == 1 && !c->window;
    if ((r->out && !plain) || r->dtype != sum_type(loop))
      kernel_part_result(c->k, j);
  }
  find_products(c);
}

static int64_t panel_columns(const Choice *c, uint32_t at) {
  return (int64_t)c->s->tiling->of[at].vectors * c->s->width;
}

/* An element is copied, or turned, in the time in which so many rows, for each
 * lane, are multiplied with it. */
static const double COPIED_ROWS = 1, TURNED_ROWS = 2;

static void choose_kept(const Choice *c, Tile *t) {
  bool across = t->window && t->window->across;
  uint32_t n = across ? t->m : t->n;
  Operand *o = across ? &t->a : &t->b;
  bool copied =
      o->form == OPERAND_PANELS || o->form == OPERAND_TURNED || t->in_place;
  o->keeps = copied && keeping_may(o->loop, n);
  if (across && t->window->rims.group) /* what is kept lies in one piece */
    t->far &= o->keeps;
  if (!o->keeps)
    return;
  double rows = (double)(across                     ? c->s->places
                         : c->s->shape == UNIT_TILE ? c->s->height
                         : t->ahead                 ? c->s->span
                                                    : c->s->block);
  double each = o->form == OPERAND_TURNED ? TURNED_ROWS : COPIED_ROWS;
  double elements = (double)t->depth * (double)o->loop->extents[n];
  o->pays =
      elements >= KEPT_ELEMENTS && each * c->s->width >= KEPT_SHARE * rows;
}

static void choose_all_kept(const Choice *c) {
  for (uint32_t j = 0; j < c->k->loops.len; j++)
    if (c->is[j])
      choose_kept(c, &c->s->tiling->of[j]);
}

bool tiling_choose(Kernel *k, Schedule *s) {
  if (k->loops.len > KERNEL_LOOPS / 2)
    return false;
  Choice *c = NEW(k->arena, Choice);
  c->arena = k->arena;
  c->k = k;
  c->s = s;
  find_products(c);
  if (!c->count || !(choose_tiles(c) || choose_rows(c)))
    return false;
  part_results(c);
  if (s->shape == UNIT_ROWS)
    kernel_limit(k, true);
  choose_portions(c);
  s->tiling = NEW(k->arena, Tiling);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is[j])
      make_tile(c, j);
  uint32_t rows = 1;
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (c->is[j]) {
      shape_tile(c, &s->tiling->of[j], k->loops.at[j]);
      rows = s->tiling->of[j].rows;
    }
  if (c->window) {
    choose_all_kept(c);
    return true;
  }
  if (s->portion) /* whole panels of the first product */
    s->portion -= s->portion % panel_columns(c, k->portion_from);
  if (s->shape == UNIT_TILE)
    size_tile(c, &s->tiling->of[0]);
  else
    size_rows(c, rows);
  choose_all_kept(c);
  return true;
}
