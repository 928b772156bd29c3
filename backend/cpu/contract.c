/* Which kernels are sums of products of two factors, each of which lacks an
 * axis of the result that the other one has; and how such a one is cut up.
 * (Packing and blocking: Goto and van de Geijn, Anatomy of high-performance
 * matrix multiplication, 2008; BLIS, 2015.) */
#include "backend/cpu/contract.h"

#include "backend/cpu/emit.h"

#include <string.h>

enum {
  FACTORS = 8,
  LEAST_M = 4,
  LEAST_N = 8,
  LEAST_K = 8,
  LEAST_WORK = 1 << 14,
  LOCAL_BYTES = 256 << 10,
  PASS_BYTES = 32 << 10, /* a panel of b, in the first cache */
  UNIT_ROWS = 96,
  UNIT_COLUMNS = 256,
};

typedef struct Finder {
  Arena *arena;
  const Kernel *k;
  uint64_t *axes; /* of steps: the set of variables that they depend on */
  uint32_t factors[FACTORS], count;
  bool full;
} Finder;

/* ---- on which axes a step depends ---- */

static uint64_t quasi_axes(const Kernel *k, const Quasi *q) {
  uint64_t set = 0;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (!q->times[v])
      continue;
    if (v < KERNEL_AXES)
      set |= (uint64_t)1 << v;
    else
      set |= quasi_axes(k, &k->quotients[v - KERNEL_AXES].of);
  }
  return set;
}

static void find_axes(Finder *f) {
  for (uint32_t j = 0; j < f->k->steps.len; j++) {
    const Step *s = &f->k->steps.at[j];
    uint64_t set = 0;
    if (s->kind == STEP_INDEX)
      set = quasi_axes(f->k, s->index);
    if (s->kind == STEP_READ) {
      set = quasi_axes(f->k, s->address);
      for (uint32_t a = 0; a < s->index_count; a++)
        set |= f->axes[s->indices[a].step];
    }
    for (uint32_t a = 0; a < s->arg_count; a++)
      set |= f->axes[s->args[a]];
    f->axes[j] = set;
  }
}

static void find_factors(Finder *f, uint32_t at) {
  const Step *s = &f->k->steps.at[at];
  if (s->kind == STEP_OP && s->op == PRIM_MUL) {
    find_factors(f, s->args[0]);
    find_factors(f, s->args[1]);
  } else if (f->count == FACTORS) {
    f->full = true;
  } else {
    f->factors[f->count++] = at;
  }
}

/* ---- the parts of a product as kernels of their own ---- */

typedef struct Part {
  Kernel *k;
  const Kernel *from;
  uint32_t *steps;            /* 1 + the new step */
  uint32_t vars[KERNEL_AXES]; /* the new variable of an old axis */
  uint32_t tile, panel, lane; /* the old axis that is cut into two new ones */
  uint32_t rows;              /* new axes that units go over */
  int64_t width;
} Part;

static void part_quasi(const Part *p, const Quasi *from, Quasi *to) {
  *to = (Quasi){.constant = from->constant};
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    to->times[v] = from->times[v];
  for (uint32_t v = 0; v < p->from->axes; v++) {
    if (!from->times[v])
      continue;
    if (v == p->tile) {
      to->times[p->panel] = from->times[v] * p->width;
      to->times[p->lane] = from->times[v];
    } else {
      to->times[p->vars[v]] = from->times[v];
    }
  }
}

static Quasi *part_copy(const Part *p, const Quasi *from) {
  Quasi *to = NEW(p->k->arena, Quasi);
  part_quasi(p, from, to);
  return to;
}

static uint32_t part_step(Part *p, uint32_t at) {
  if (p->steps[at])
    return p->steps[at] - 1;
  Step s = p->from->steps.at[at];
  for (uint32_t a = 0; a < s.arg_count; a++)
    s.args[a] = part_step(p, s.args[a]);
  if (s.kind == STEP_INDEX)
    s.index = part_copy(p, s.index);
  if (s.kind == STEP_READ) {
    ReadIndex *indices = NEW_ARRAY(p->k->arena, ReadIndex, s.index_count + 1);
    s.address = part_copy(p, s.address);
    for (uint32_t a = 0; a < s.index_count; a++) {
      indices[a] = s.indices[a];
      indices[a].step = part_step(p, s.indices[a].step);
    }
    s.indices = indices;
  }
  VEC_PUSH(p->k->arena, p->k->steps, s);
  p->steps[at] = p->k->steps.len;
  return p->k->steps.len - 1;
}

/* Axes: those outside of the tile that it depends on, panels, the summed ones,
 * lanes.  The result is laid out in that order. */
static void part_axes(Part *p, const Contraction *c, uint64_t depends) {
  const Kernel *from = p->from;
  Kernel *k = p->k;
  uint32_t v = 0;
  for (uint32_t j = 0; j < from->outer; j++)
    if (j != c->m && j != c->n && (depends >> j & 1)) {
      k->extents[v] = from->extents[j];
      p->vars[j] = v++;
    }
  p->panel = v;
  k->extents[v++] = (from->extents[p->tile] + p->width - 1) / p->width;
  p->rows = v;
  for (uint32_t j = from->outer; j < from->axes; j++) {
    k->extents[v] = from->extents[j];
    p->vars[j] = v++;
  }
  p->lane = v;
  k->extents[v++] = p->width;
  k->outer = k->axes = v;
  k->out = NEW(k->arena, Quasi);
  int64_t stride = 1;
  for (uint32_t j = v; j-- > 0; stride *= k->extents[j])
    k->out->times[j] = stride;
}

/* The product of those factors as one step. */
static void part_product(Part *p, const uint32_t *factors, uint32_t count) {
  uint32_t product = part_step(p, factors[0]);
  for (uint32_t j = 1; j < count; j++) {
    Step s = p->k->steps.at[product];
    s = (Step){.kind = STEP_OP,
               .op = PRIM_MUL,
               .dtype = s.dtype,
               .low = INT64_MIN,
               .high = INT64_MAX,
               .arg_count = 2,
               .args = {product, part_step(p, factors[j])}};
    VEC_PUSH(p->k->arena, p->k->steps, s);
    product = p->k->steps.len - 1;
  }
  if (product + 1 != p->k->steps.len) /* the value comes last */
    VEC_PUSH(p->k->arena, p->k->steps, p->k->steps.at[product]);
}

static void operand_new(const Finder *f, const Contraction *c, Operand *o,
                        uint32_t tile, int64_t width, const uint32_t *factors,
                        uint32_t count) {
  Part p = {.from = f->k, .tile = tile, .width = width};
  uint64_t depends = 0;
  for (uint32_t j = 0; j < count; j++)
    depends |= f->axes[factors[j]];
  p.k = NEW(f->arena, Kernel);
  *p.k = *f->k;
  p.k->arena = f->arena;
  p.k->steps.at = NULL;
  p.k->steps.len = p.k->steps.cap = 0;
  p.k->reduce = PRIM_NONE;
  p.k->dtype = f->k->steps.at[f->k->steps.len - 1].dtype;
  p.steps = NEW_ARRAY(f->arena, uint32_t, f->k->steps.len);
  part_axes(&p, c, depends);
  for (uint32_t j = 0; j < f->k->quotient_count; j++)
    part_quasi(&p, &f->k->quotients[j].of, &p.k->quotients[j].of);
  part_product(&p, factors, count);
  o->pack = p.k;
  o->schedule = (Schedule){.form = LOOP_MAP,
                           .lane = p.lane,
                           .width = c->width,
                           .rows = p.rows,
                           .limit = f->k->extents[tile]};
  o->panels = p.k->extents[p.panel];
  o->panel = c->depth * width;
  o->units = 1;
  o->whole = true;
  for (uint32_t j = 0; j < p.rows; j++)
    o->units *= p.k->extents[j];
  for (uint32_t j = 0; j < f->k->outer; j++)
    o->whole &= j == c->m || j == c->n || (depends >> j & 1);
  o->depends = depends;
}

/* ---- choosing ---- */

static uint32_t choose_m(const Finder *f, const Contraction *c, uint64_t a,
                         uint64_t b) {
  uint32_t best = NO_LANE;
  for (uint32_t v = 0; v < f->k->outer; v++)
    if (v != c->n && (a >> v & 1) && !(b >> v & 1) &&
        (best == NO_LANE || f->k->extents[v] > f->k->extents[best]))
      best = v;
  return best;
}

static int64_t round_up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

/* The tile of registers that wastes least at the edges. */
static void choose_tile(Contraction *c, int64_t m, int64_t n) {
  static const uint8_t big[][2] = {{12, 2}, {6, 4}, {14, 2}, {8, 3}};
  static const uint8_t small[][2] = {{6, 2}, {4, 2}, {12, 1}};
  bool many = target_vector_bytes() == 64; /* 32 registers */
  uint32_t count = many ? ARRAY_LEN(big) : ARRAY_LEN(small);
  double best = 0;
  for (uint32_t j = 0; j < count; j++) {
    const uint8_t *t = many ? big[j] : small[j];
    int64_t columns = (int64_t)t[1] * c->width;
    double waste = (double)(round_up(m, t[0]) * round_up(n, columns)) /
                   ((double)m * (double)n) * (1 + 0.005 * j);
    if (j == 0 || waste < best) {
      best = waste;
      c->rows = t[0];
      c->vectors = t[1];
    }
  }
}

static bool is_local(const Operand *o, int64_t elements, bool alone,
                     uint32_t bytes) {
  return o->whole && alone && elements * bytes <= LOCAL_BYTES;
}

static void choose_blocks(Contraction *c, int64_t m, int64_t n,
                          uint32_t bytes) {
  int64_t columns = (int64_t)c->vectors * c->width;
  c->block_k = PASS_BYTES / (columns * bytes);
  if (c->depth < 2 * c->block_k) /* one pass, or two of a size */
    c->block_k = c->depth <= c->block_k * 3 / 2 ? c->depth : (c->depth + 1) / 2;
  c->block_m = round_up(m < UNIT_ROWS ? m : UNIT_ROWS, c->rows);
  c->block_n = round_up(n < UNIT_COLUMNS ? n : UNIT_COLUMNS, columns);
}

static bool is_product(const Kernel *k) {
  Dtype t = k->steps.at[k->steps.len - 1].dtype;
  return k->reduce == PRIM_SUM && k->axes > k->outer && k->outer > 0 &&
         (t == DT_F32 || t == DT_F64);
}

bool contraction_find(Arena *arena, const Kernel *k, Contraction *c) {
  *c = (Contraction){.k = k, .depth = 1, .outer = 1};
  if (!is_product(k))
    return false;
  Finder f = {.arena = arena, .k = k};
  f.axes = NEW_ARRAY(arena, uint64_t, k->steps.len);
  find_axes(&f);
  find_factors(&f, k->steps.len - 1);
  uint32_t side[2][FACTORS], count[2] = {0, 0};
  uint64_t depends[2] = {0, 0};
  c->n = k->outer - 1;
  for (uint32_t j = 0; j < f.count; j++) {
    uint32_t s = f.axes[f.factors[j]] >> c->n & 1;
    side[s][count[s]++] = f.factors[j];
    depends[s] |= f.axes[f.factors[j]];
  }
  c->m = choose_m(&f, c, depends[0], depends[1]);
  if (f.full || !count[0] || !count[1] || c->m == NO_LANE)
    return false;
  for (uint32_t v = k->outer; v < k->axes; v++)
    c->depth *= k->extents[v];
  int64_t m = k->extents[c->m], n = k->extents[c->n];
  if (m < LEAST_M || n < LEAST_N || c->depth < LEAST_K ||
      m * n * c->depth < LEAST_WORK)
    return false;
  uint32_t bytes = k->steps.at[k->steps.len - 1].dtype == DT_F64 ? 8 : 4;
  c->width = target_vector_bytes() / bytes;
  choose_tile(c, m, n);
  choose_blocks(c, m, n, bytes);
  for (uint32_t v = 0; v < k->outer; v++)
    if (v != c->m && v != c->n)
      c->outer *= k->extents[v];
  operand_new(&f, c, &c->a, c->m, c->rows, side[0], count[0]);
  operand_new(&f, c, &c->b, c->n, (int64_t)c->vectors * c->width, side[1],
              count[1]);
  c->a.local =
      is_local(&c->a, c->a.panels * c->a.panel, n <= c->block_n, bytes);
  c->b.local =
      is_local(&c->b, c->b.panels * c->b.panel, m <= c->block_m, bytes);
  return true;
}

/* ---- as C ---- */

#define format emit_format

/* The tile that lies in registers: sums of `depth` products, fused. */
static void emit_tile(const Contraction *c, Buffer *out, const char *type) {
  char v = type[0];
  buffer_printf(out,
                "typedef v%c v%c_u __attribute__((aligned(1), may_alias));\n"
                "static __attribute__((noinline)) FUSED void\n"
                "tile(const %s *a, const %s *b, int64_t depth, %s *c, "
                "int64_t stride, int more) {\nFUSING\n",
                v, v, type, type, type);
  for (uint32_t i = 0; i < c->rows; i++)
    for (uint32_t j = 0; j < c->vectors; j++)
      buffer_printf(out, "v%c c%u_%u = {0};\n", v, i, j);
  buffer_puts(out, "for (int64_t k = 0; k < depth; k++) {\n");
  for (uint32_t j = 0; j < c->vectors; j++)
    buffer_printf(out, "const v%c b%u = *(const v%c_u *)(b + %u * W);\n", v, j,
                  v, j);
  for (uint32_t i = 0; i < c->rows; i++) {
    buffer_printf(out, "const v%c a%u = a[%u] - (v%c){0};\n", v, i, i, v);
    for (uint32_t j = 0; j < c->vectors; j++)
      buffer_printf(out, "c%u_%u += a%u * b%u;\n", i, j, i, j);
  }
  buffer_printf(out, "a += %u;\nb += %u * W;\n}\n", c->rows, c->vectors);
  for (uint32_t i = 0; i < c->rows; i++)
    for (uint32_t j = 0; j < c->vectors; j++) {
      const char *at = j ? " + W * " : " + 0 * ";
      buffer_printf(out,
                    "{ v%c_u *r = (v%c_u *)(c + %u * stride%s%u);\n"
                    "if (more) c%u_%u += *r;\n*r = c%u_%u; }\n",
                    v, v, i, at, j, i, j, i, j);
    }
  buffer_puts(out, "}\n");
}

/* Where the panels of an operand begin, for the unit at hand. */
static void emit_panels(Emitter *e, const Contraction *c, const Operand *o,
                        Buffer *out, const char *name, const char *type,
                        uint32_t ints, uint32_t floats) {
  const Kernel *k = c->k;
  const char *index = "0";
  for (uint32_t v = 0; v < k->outer; v++)
    if (v != c->m && v != c->n && (o->depends >> v & 1))
      index =
          format(e, "(%s) * %s + i%u", index, emit_int(e, k->extents[v]), v);
  bool a = name[0] == 'a';
  const char *width = a ? "MR" : "NR", *from = a ? "m0" : "n0";
  const char *to = a ? "m1" : "n1";
  buffer_printf(out, "const int64_t %s_first = (%s) * %s + %s / %s;\n", name,
                index, emit_int(e, o->panels), from, width);
  const char *panel = emit_int(e, o->panel);
  if (o->local) {
    buffer_printf(out,
                  "const %s *const %s = room_%s;\n"
                  "wrong |= pack_%s_units(room_%s - %s_first * %s, p, n + %u, "
                  "c + %u, %s_first, %s_first + (%s - %s + %s - 1) / %s);\n",
                  type, name, name, name, name, name, panel, ints, floats, name,
                  name, to, from, width, width);
  } else {
    buffer_printf(out,
                  "const %s *const %s = (const %s *)p[%u] + %s_first * %s;\n",
                  type, name, type, k->inputs.len + (a ? 1 : 2), name, panel);
  }
  buffer_printf(out, "const int64_t %s_panel = %s;\n", name, panel);
}

static void emit_unit(Emitter *e, const Contraction *c, Buffer *out) {
  const Kernel *k = c->k;
  int64_t m = k->extents[c->m], n = k->extents[c->n];
  int64_t blocks_m = (m + c->block_m - 1) / c->block_m;
  int64_t blocks_n = (n + c->block_n - 1) / c->block_n;
  buffer_printf(out,
                "int64_t row = u;\n"
                "const int64_t n0 = row %% %s * %s;\nrow /= %s;\n",
                emit_int(e, blocks_n), emit_int(e, c->block_n),
                emit_int(e, blocks_n));
  buffer_printf(out, "const int64_t m0 = row %% %s * %s;\nrow /= %s;\n",
                emit_int(e, blocks_m), emit_int(e, c->block_m),
                emit_int(e, blocks_m));
  buffer_printf(out,
                "const int64_t m1 = m0 + %s < %s ? m0 + %s : %s;\n"
                "const int64_t n1 = n0 + %s < %s ? n0 + %s : %s;\n",
                emit_int(e, c->block_m), emit_int(e, m),
                emit_int(e, c->block_m), emit_int(e, m),
                emit_int(e, c->block_n), emit_int(e, n),
                emit_int(e, c->block_n), emit_int(e, n));
  for (uint32_t v = k->outer; v-- > 0;) {
    if (v == c->m || v == c->n)
      continue;
    const char *extent = emit_int(e, k->extents[v]);
    buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v,
                  extent, extent);
  }
  e->out->call.units = c->outer * blocks_m * blocks_n;
}

static void emit_blocks(Emitter *e, const Contraction *c, Buffer *out) {
  buffer_printf(out,
                "for (int64_t k0 = 0; k0 < %s; k0 += %s) {\n"
                "const int64_t left = %s - k0, depth = left < %s ? left : %s;\n"
                "for (int64_t y = 0; y < n1 - n0; y += NR)\n"
                "for (int64_t x = 0; x < m1 - m0; x += MR)\n"
                "tile(a + x / MR * a_panel + k0 * MR, "
                "b + y / NR * b_panel + k0 * NR, depth,\n"
                "block + x * BN + y, BN, k0 != 0);\n}\n",
                emit_int(e, c->depth), emit_int(e, c->block_k),
                emit_int(e, c->depth), emit_int(e, c->block_k),
                emit_int(e, c->block_k));
}

static void emit_result(Emitter *e, const Contraction *c, Buffer *out,
                        char class) {
  const Kernel *k = c->k;
  const char *name = dtype_info[k->dtype].name, *sum = "0";
  for (uint32_t v = 0; v < k->outer; v++)
    if (v != c->n && v != c->m)
      sum = format(e, "%s + %s * i%u", sum, emit_int(e, k->out->times[v]), v);
  buffer_printf(out,
                "for (int64_t x = m0; x < m1; x++) {\n"
                "%s *const to = o + %s + x * %s + n0;\n"
                "const %s *const from = block + (x - m0) * BN;\n"
                "int64_t y = 0;\n"
                "for (; y + W <= n1 - n0; y += W)\n"
                "st_%s(to + y, ld_%s(from + y));\n"
                "if (y < n1 - n0)\n"
                "stp_%s(to + y, ld_%s(from + y), (int)(n1 - n0 - y));\n}\n",
                memory_type(k->dtype), sum, emit_int(e, k->out->times[c->m]),
                class == 'f' ? "float" : "double", name,
                class == 'f' ? "f32" : "f64", name,
                class == 'f' ? "f32" : "f64");
}

bool contraction_emit(Arena *arena, const Contraction *c, Emitted *result) {
  const Kernel *k = c->k;
  Dtype t = k->steps.at[k->steps.len - 1].dtype;
  const char *type = t == DT_F64 ? "double" : "float";
  *result = (Emitted){.text = {.arena = arena}};
  Buffer *out = &result->text;
  buffer_printf(out, "#define W %u\n@#define MR %u\n#define NR (%u * W)\n",
                c->width, c->rows, c->vectors);
  uint32_t ints[2], floats[2];
  const Operand *operands[2] = {&c->a, &c->b};
  for (uint32_t j = 0; j < 2; j++) {
    ints[j] = result->call.ints.len;
    floats[j] = result->call.floats.len;
    if (!emit_function(arena, operands[j]->pack, &operands[j]->schedule,
                       j ? "pack_b" : "pack_a", result))
      return false;
  }
  Emitter *e = NEW(arena, Emitter);
  e->arena = arena;
  e->k = k;
  e->out = result;
  emit_tile(c, out, type);
  buffer_printf(out,
                "#define BM %d\n#define BN %d\n"
                "static int kernel_units(void *result, void *const *p, "
                "const int64_t *n,\nconst double *c, int64_t begin, "
                "int64_t end) {\n(void)c;\n%s *restrict const o = result;\n"
                "%s block[BM * BN] __attribute__((aligned(64)));\n"
                "int wrong = 0;\n",
                UNIT_ROWS + 16, UNIT_COLUMNS + 64, memory_type(k->dtype), type);
  for (uint32_t j = 0; j < 2; j++)
    if (operands[j]->local)
      buffer_printf(out, "%s room_%c[%d] __attribute__((aligned(64)));\n", type,
                    j ? 'b' : 'a', LOCAL_BYTES / (t == DT_F64 ? 8 : 4));
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  emit_unit(e, c, out);
  emit_panels(e, c, &c->a, out, "a", type, ints[0], floats[0]);
  emit_panels(e, c, &c->b, out, "b", type, ints[1], floats[1]);
  emit_blocks(e, c, out);
  emit_result(e, c, out, type[0]);
  buffer_puts(out, "}\nreturn wrong;\n}\n");
  emit_entry(out, "kernel");
  result->ints[0] = ints[0], result->ints[1] = ints[1];
  result->floats[0] = floats[0], result->floats[1] = floats[1];
  return !e->failed;
}
