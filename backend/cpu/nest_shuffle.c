/* Nests with shuffled lanes, as C.
 *
 * The lanes are those of a flattened loop over whole axes, and perhaps over a
 * tile of one more axis.  Each iteration of the loop outside loads its operands
 * as vectors of neighbouring elements.  The iterations inside are written out,
 * so that all elements that a lane reads have constant places in these
 * vectors. */
#include "backend/cpu/nest_writer.h"
#include "support/arena.h"

#define format emit_format

/* The tile of an axis in the flattened loop; NULL: all axes are whole. */
static const NestLoop *flattened_tile(const NestWriter *w) {
  const NestLoop *first = &w->nest->flat->loops[0];
  return first->count ? first : NULL;
}

LoopNest *nest_index_by_lanes(const Nest *n) {
  LoopNest *loop = loop_clone(n->arena, n->spec);
  uint32_t lanes = n->flat->loops[n->flat->count - 1].axis;
  AffineExpr *to = loop->outputs.at[0].global_index;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    AffineExpr *q = kernel_op_affine(&loop->ops.at[j]);
    for (uint32_t v = loop->spatial_axes; q && v < loop->axis_count; v++)
      q->coef[v] = 0;
  }
  for (uint32_t j = 0; j < n->flat->count; j++) {
    uint32_t v = n->flat->loops[j].axis;
    if (n->flat->loops[j].count) /* the index is that of the block */
      continue;
    to->coef[v] = v == lanes;
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      AffineExpr *q = kernel_op_affine(&loop->ops.at[i]);
      if (q)
        q->coef[v] = v == lanes;
    }
  }
  loop->extents[lanes] = nest_constant_extent(n, n->flat->axis);
  return loop;
}

void nest_begin_shuffle(NestWriter *w) {
  Emitter *e = w->e;
  w->shuffle = lane_shuffle_of(w->nest, e->width);
  w->precomputed = NEW_ARRAY(e->arena, const char *, e->loop->ops.len);
  for (uint32_t j = 0; j < e->loop->ops.len; j++) {
    const KernelOp *s = &e->loop->ops.at[j];
    if (s->kind != KOP_LOAD)
      continue;
    ShuffledLoad load = {j, e->next_id++, NULL};
    load.address = format(e, "p%u + %s", s->input, emit_affine(e, s->address));
    w->precomputed[j] = format(e, "y%u", load.id);
    VEC_PUSH(e->arena, w->shuffled_loads, load);
  }
}

/* ---- blocks ---- */

void nest_write_blocks(NestWriter *w, uint32_t depth, const NestState *from) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &from->axes[l->axis];
  const char *at = format(w->e, "b%u", depth);
  NestState s = *from;
  buffer_printf(w->out,
                "int64_t %s = %s;\n"
                "for (; %s + %lld <= %s; %s += %lld) {\n",
                at, r->begin, at, (long long)l->step, r->end, at,
                (long long)l->step);
  nest_enter(w, depth, &s, at, false);
  buffer_printf(w->out, "}\nif (%s < %s) {\n", at, r->end);
  s.tiles = format(w->e, "(%s - %s)", r->end, at);
  nest_enter(w, depth, &s, at, false);
  buffer_puts(w->out, "}\n");
}

/* ---- loads ---- */

/* Loads the part of an operand from element `at` on, as a vector. */
static void load_vector(NestWriter *w, const KernelOp *s,
                        const ShuffledLoad *load, int64_t at, int64_t span) {
  const char *name = dtype_info[s->dtype].name;
  long long width = w->e->width;
  buffer_printf(w->out, "const v%c x%u_%lld = ",
                vector_type_letter(emit_class(w->e, s->dtype)), load->id,
                (long long)at / width);
  if (at + width <= span)
    buffer_printf(w->out, "ld_%s(x%u + %lld);\n", name, load->id,
                  (long long)at);
  else
    buffer_printf(w->out, "ldp_%s(x%u + %lld, %lld);\n", name, load->id,
                  (long long)at, (long long)(span - at));
}

/* The same for the last block, which has fewer iterations of the tile. */
static void load_rest(NestWriter *w, const KernelOp *s,
                      const ShuffledLoad *load, int64_t at, const char *tiles) {
  LaneShuffle one = w->shuffle;
  one.extents[0] = 1;
  long long first = lane_shuffle_span(&one, s),
            each = s->address->coef[one.axes[0]], width = w->e->width;
  buffer_printf(
      w->out,
      "const int64_t z%u_%lld = (%s - 1) * %lld + (%lld);\n"
      "const v%c x%u_%lld = ldp_%s(x%u + %lld, z%u_%lld < 0 ? 0 : z%u_%lld < W "
      "? (int)z%u_%lld : W);\n",
      load->id, at / width, tiles, each, first - (long long)at,
      vector_type_letter(emit_class(w->e, s->dtype)), load->id, at / width,
      dtype_info[s->dtype].name, load->id, (long long)at, load->id, at / width,
      load->id, at / width, load->id, at / width);
}

void nest_load_shuffled(NestWriter *w, NestState *s) {
  const LoopNest *spec = w->nest->spec;
  const NestLoop *tile = flattened_tile(w);
  int64_t lanes = lane_shuffle_lanes(&w->shuffle);
  for (uint32_t j = 0; j < w->shuffled_loads.len; j++) {
    const ShuffledLoad *load = &w->shuffled_loads.at[j];
    const KernelOp *x = &spec->ops.at[load->op];
    int64_t span = lane_shuffle_span(&w->shuffle, x);
    buffer_printf(w->out, "const %s *const x%u = %s;\n", memory_type(x->dtype),
                  load->id, load->address);
    for (int64_t at = 0; at < span; at += w->e->width)
      if (s->tiles)
        load_rest(w, x, load, at, s->tiles);
      else
        load_vector(w, x, load, at, span);
  }
  const char *end = s->tiles ? format(w->e, "%s * %lld", s->tiles,
                                      (long long)(lanes / tile->count))
                             : format(w->e, "%lld", (long long)lanes);
  s->axes[w->nest->flat->axis] =
      (AxisRange){.begin = "0", .end = end, .single = NO_LOOP};
}

/* ---- iterations ---- */

void nest_write_out(NestWriter *w, uint32_t depth, const NestState *from) {
  const NestLoop *l = &w->nest->loops[depth];
  int64_t extent = nest_constant_extent(w->nest, l->axis);
  bool is_last = l->axis == w->nest->flat->axis && from->tiles;
  for (int64_t t = 0; t < l->count; t++) {
    NestState s = *from;
    AxisRange *r = &s.axes[l->axis];
    r->at += t * l->step;
    if (r->at >= extent)
      break;
    buffer_printf(w->out, "{\nconst int n%u = %lld;\n(void)n%u;\n", depth,
                  (long long)t, depth);
    nest_enter(w, depth, &s, format(w->e, "%lld", (long long)r->at),
               !is_last && r->at + l->step <= extent);
    buffer_puts(w->out, "}\n");
  }
}

/* ---- lanes ---- */

static void shuffle_load(NestWriter *w, const NestState *s,
                         const ShuffledLoad *load) {
  const LoopNest *spec = w->nest->spec;
  const KernelOp *x = &spec->ops.at[load->op];
  int64_t offset = 0, sources[MAX_SHUFFLE_SOURCES], width = w->e->width,
          first = s->axes[w->nest->flat->axis].at;
  for (uint32_t v = spec->spatial_axes; v < spec->axis_count; v++)
    offset += s->axes[v].at * x->address->coef[v];
  lane_shuffle_sources(&w->shuffle, x, offset, first, sources);
  buffer_printf(
      w->out, "const v%c y%u = __builtin_shufflevector(x%u_%lld, x%u_%lld",
      vector_type_letter(emit_class(w->e, x->dtype)), load->id, load->id,
      (long long)sources[0], load->id, (long long)sources[1]);
  for (int64_t l = 0; l < width; l++) {
    int64_t at = lane_shuffle_element(&w->shuffle, x, offset, first + l);
    int64_t lane = at < 0 ? 0 : at % width;
    bool is_second = at >= 0 && at / width != sources[0];
    buffer_printf(w->out, ", %lld",
                  (long long)(is_second ? lane + width : lane));
  }
  buffer_puts(w->out, ");\n");
}

void nest_shuffle_lanes(NestWriter *w, const NestState *s) {
  for (uint32_t j = 0; j < w->shuffled_loads.len; j++)
    shuffle_load(w, s, &w->shuffled_loads.at[j]);
}
