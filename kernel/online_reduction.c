/* Online reduction: strip-mines rows that do not fit into a cache.
 *
 * Softmax and attention compute a row maximum m, exponentials of x - m, and
 * contractions with these, all along one axis.  Strip mining runs these loops
 * on one strip of the axis, then on the next.  Sums continue from the previous
 * strip.  If m grows, they are first multiplied by exp (old m - new m).  So a
 * whole row of scores never exists (Milakov, Gimelshein, Online normalizer
 * calculation for softmax, 2018; Dao et al., FlashAttention, 2022).
 *
 * The condition is algebraic: each value that depends on m does so by a factor
 * exp (slope * m).  Multiples and sums of such values keep this property.
 * online_states.c adds the loops that keep the sums.
 *
 * A loop that accumulates along the rows adds the part of a strip to memory.
 *
 * The main entry point is kernel_strip_mine. */
#include "kernel/online_reduction.h"
#include "kernel/verify.h"

#include "support/arena.h"
#include "tensor/scalar_ops.h"

#include <string.h>

enum {
  NO_AXIS = UINT32_MAX,
  MAX_LOOPS = 64,      /* backend/emit/emit.h: MAX_KERNEL_LOOPS */
  LOOPS_PER_STATE = 4, /* first value, two rescalings, test */
  LOOPS_OF_SCALE = 3,
};

/* How a value depends on the extreme m. */
typedef enum DependenceKind {
  UNVISITED,
  INDEPENDENT, /* the value does not depend on m */
  SHIFTED,     /* x + slope * m, where x is independent */
  SCALED,      /* x * exp (slope * m), where x is independent */
  OTHER_DEPENDENCE,
} DependenceKind;

typedef struct ExtremeDependence {
  DependenceKind kind;
  double slope;
} ExtremeDependence;

typedef struct StripMiner {
  Kernel *kernel; /* a copy */
  Arena *arena;
  uint32_t first_loop, end_loop;   /* the loops first_loop .. end_loop - 1 */
  uint32_t *axes;                  /* for each of these loops: its strip axis */
  ExtremeDependence **dependences; /* for each of these loops and its ops */
  uint32_t extreme_loop, extreme_output; /* the output that is the extreme m */
  bool has_extreme;
  uint32_t state_count; /* outputs that continue from strip to strip */
} StripMiner;

static uint32_t strip_axis(const StripMiner *p, uint32_t loop) {
  return p->axes[loop - p->first_loop];
}

/* ---- how values depend on the extreme ---- */

static ExtremeDependence dependence_of(StripMiner *p, uint32_t loop_index,
                                       uint32_t at);

static const ExtremeDependence other_dependence = {.kind = OTHER_DEPENDENCE},
                               independent = {.kind = INDEPENDENT};

static ExtremeDependence dependence_of_load(StripMiner *p, const KernelOp *s) {
  if (s->source_loop < p->first_loop)
    return independent;
  const LoopNest *loop = p->kernel->loops.at[s->source_loop];
  const LoopOutput *r = &loop->outputs.at[s->source_output];
  ExtremeDependence inner = dependence_of(p, s->source_loop, r->value_op);
  if (loop_output_has_axis(loop, r, strip_axis(p, s->source_loop)) &&
      r->reduce == PRIM_NONE)
    return inner;
  if (loop_output_has_axis(loop, r, strip_axis(p, s->source_loop)))
    return inner.kind == INDEPENDENT ? inner : other_dependence;
  if (!prim_is_extreme(r->reduce) || inner.kind != INDEPENDENT ||
      (p->has_extreme && (p->extreme_loop != s->source_loop ||
                          p->extreme_output != s->source_output)))
    return other_dependence;
  p->has_extreme = true;
  p->extreme_loop = s->source_loop;
  p->extreme_output = s->source_output;
  return (ExtremeDependence){SHIFTED, 1};
}

static bool is_float_constant(const KernelOp *s, double *x) {
  *x = s->value.f;
  return s->kind == KOP_CONST && dtype_is_float(s->dtype) &&
         !scalar_is_param(s->value);
}

static ExtremeDependence negate(ExtremeDependence x) {
  if (x.kind == SHIFTED)
    x.slope = -x.slope;
  return x;
}

static ExtremeDependence dependence_of_sum(ExtremeDependence x,
                                           ExtremeDependence y) {
  if (x.kind == SCALED || y.kind == SCALED)
    return x.kind == y.kind && x.slope == y.slope ? x : other_dependence;
  return (ExtremeDependence){SHIFTED, x.slope + y.slope};
}

static ExtremeDependence dependence_of_product(const LoopNest *loop,
                                               const KernelOp *s,
                                               ExtremeDependence x,
                                               ExtremeDependence y) {
  double factor;
  if (x.kind == SHIFTED || y.kind == SHIFTED) {
    const KernelOp *by = &loop->ops.at[s->args[x.kind == SHIFTED]];
    ExtremeDependence shifted = x.kind == SHIFTED ? x : y;
    if ((x.kind == INDEPENDENT || y.kind == INDEPENDENT) &&
        is_float_constant(by, &factor))
      return (ExtremeDependence){SHIFTED, shifted.slope * factor};
    return other_dependence;
  }
  return (ExtremeDependence){SCALED, x.slope + y.slope};
}

static ExtremeDependence dependence_of_quotient(const LoopNest *loop,
                                                const KernelOp *s,
                                                ExtremeDependence x,
                                                ExtremeDependence y) {
  double by;
  if (y.kind != INDEPENDENT)
    return other_dependence;
  if (x.kind == SCALED)
    return x;
  return is_float_constant(&loop->ops.at[s->args[1]], &by) && by != 0
             ? (ExtremeDependence){SHIFTED, x.slope / by}
             : other_dependence;
}

/* The condition must be independent of the extreme.  A zero is compatible with
 * any factor. */
static ExtremeDependence dependence_of_select(const LoopNest *loop,
                                              const KernelOp *s,
                                              const ExtremeDependence *args) {
  double value;
  ExtremeDependence x = args[1], y = args[2];
  if (args[0].kind != INDEPENDENT)
    return other_dependence;
  if (x.kind == y.kind && x.slope == y.slope)
    return x;
  for (uint32_t j = 1; j < 3; j++)
    if (args[3 - j].kind == SCALED &&
        is_float_constant(&loop->ops.at[s->args[j]], &value) && value == 0)
      return args[3 - j];
  return other_dependence;
}

static ExtremeDependence dependence_of_op(const LoopNest *loop,
                                          const KernelOp *s,
                                          const ExtremeDependence *args) {
  bool is_free = true;
  for (uint32_t j = 0; j < s->arg_count; j++) {
    is_free &= args[j].kind == INDEPENDENT;
    if (args[j].kind == OTHER_DEPENDENCE)
      return other_dependence;
  }
  if (is_free)
    return independent;
  if (s->kind == KOP_CONVERT)
    return dtype_is_float(s->dtype) ? args[0] : other_dependence;
  if (s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT))
    return dependence_of_select(loop, s, args);
  if (s->kind != KOP_MAP)
    return other_dependence;
  switch ((int)s->op) {
  case PRIM_ADD:
    return dependence_of_sum(args[0], args[1]);
  case PRIM_SUB:
    return dependence_of_sum(args[0], negate(args[1]));
  case PRIM_NEG:
    return negate(args[0]);
  case PRIM_MUL:
    return dependence_of_product(loop, s, args[0], args[1]);
  case PRIM_DIV:
    return dependence_of_quotient(loop, s, args[0], args[1]);
  case PRIM_EXP:
    return args[0].kind == SHIFTED ? (ExtremeDependence){SCALED, args[0].slope}
                                   : other_dependence;
  }
  return other_dependence;
}

static ExtremeDependence compute_dependence(StripMiner *p, uint32_t loop_index,
                                            uint32_t at) {
  const LoopNest *loop = p->kernel->loops.at[loop_index];
  const KernelOp *s = &loop->ops.at[at];
  ExtremeDependence args[3] = {independent, independent, independent};
  if (s->kind == KOP_LOAD_LOCAL)
    return dependence_of_load(p, s);
  for (uint32_t j = 0; s->kind == KOP_LOAD && j < s->checked_index_count; j++)
    if (dependence_of(p, loop_index, s->checked_indices[j].index_op).kind !=
        INDEPENDENT)
      return other_dependence;
  for (uint32_t j = 0; j < s->arg_count; j++)
    args[j] = dependence_of(p, loop_index, s->args[j]);
  return dependence_of_op(loop, s, args);
}

/* The planner limits the depth of the recursion: it is the depth of a body. */
static ExtremeDependence dependence_of(StripMiner *p, uint32_t loop_index,
                                       uint32_t at) {
  ExtremeDependence *dependence =
      &p->dependences[loop_index - p->first_loop][at];
  if (dependence->kind == UNVISITED)
    *dependence = compute_dependence(p, loop_index, at);
  return *dependence;
}

/* ---- choosing loops ---- */

/* The axis along which a loop reads the strips of earlier loops, or NO_AXIS. */
static uint32_t common_axis(const StripMiner *p, const LoopNest *loop) {
  uint32_t axis = NO_AXIS;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind != KOP_LOAD_LOCAL || s->source_loop < p->first_loop)
      continue;
    const LoopNest *x = p->kernel->loops.at[s->source_loop];
    const LoopOutput *r = &x->outputs.at[s->source_output];
    if (!loop_output_has_axis(x, r, strip_axis(p, s->source_loop)))
      continue;
    uint32_t v = loop_matching_axis(loop, s->address, x, r,
                                    strip_axis(p, s->source_loop));
    if (v == NO_AXIS || (axis != NO_AXIS && axis != v))
      return NO_AXIS;
    axis = v;
  }
  return axis;
}

static bool has_strip_shape(const LoopNest *loop, uint32_t axis, bool product) {
  uint32_t inner = loop->axis_count - loop->parallel_axes;
  if (loop->trim_bounds && loop->trimmed_axis != axis)
    return false;
  if (loop->accumulated_axes) /* its strips are rows of a matmul's result */
    return inner == 2 && axis == loop->parallel_axes;
  return product ? inner == 2 && loop->axis_count == loop->spatial_axes + 1
                 : inner == 1;
}

static bool is_rescalable(StripMiner *p, uint32_t at, const LoopOutput *r) {
  ExtremeDependence dependence = dependence_of(p, at, r->value_op);
  bool single = r->dtype == DT_F32 || r->dtype == DT_F64;
  if (r->reduce == PRIM_SUM)
    return single &&
           (dependence.kind == INDEPENDENT || dependence.kind == SCALED);
  return single && prim_is_extreme(r->reduce) && dependence.kind == INDEPENDENT;
}

static bool add_loop(StripMiner *p, uint32_t at, uint32_t axis) {
  const LoopNest *loop = p->kernel->loops.at[at];
  if (axis == NO_AXIS ||
      !has_strip_shape(loop, axis, loop_is_contraction(loop)))
    return false;
  p->axes[at - p->first_loop] = axis;
  p->dependences[at - p->first_loop] =
      NEW_ARRAY(p->arena, ExtremeDependence, loop->ops.len);
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    bool has_axis = loop_output_has_axis(loop, r, axis);
    p->state_count += !has_axis;
    if ((r->global_index && !(has_axis && p->kernel->accumulated_axes)) ||
        (!has_axis && (!r->local_index || !is_rescalable(p, at, r))))
      return false;
  }
  return true;
}

/* The last loop that reads values along the strip axis of a loop in first_loop
 * .. end_loop - 1. */
static uint32_t last_reader(const StripMiner *p) {
  uint32_t last = p->first_loop;
  for (uint32_t j = p->first_loop; j < p->kernel->loops.len; j++)
    for (uint32_t i = 0; i < p->kernel->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &p->kernel->loops.at[j]->ops.at[i];
      if (s->kind != KOP_LOAD_LOCAL || s->source_loop < p->first_loop ||
          s->source_loop >= p->end_loop)
        continue;
      const LoopNest *x = p->kernel->loops.at[s->source_loop];
      if (loop_output_has_axis(x, &x->outputs.at[s->source_output],
                               strip_axis(p, s->source_loop)))
        last = j;
    }
  return last;
}

/* ---- order of the loops of a kernel with several producers ---- */

/* Sets the strip axis of loop j to v.  Returns false if it has another one. */
static bool set_axis(uint32_t *axes, uint32_t j, uint32_t v, bool *changed) {
  *changed |= axes[j] == NO_AXIS && v != NO_AXIS;
  if (axes[j] == NO_AXIS)
    axes[j] = v;
  return v != NO_AXIS && axes[j] == v;
}

/* Spreads the strip axis from a producer to a reader, and vice versa. */
static bool spread_axis(const Kernel *k, uint32_t reader, const KernelOp *s,
                        uint32_t *axes, bool *changed) {
  const LoopNest *loop = k->loops.at[reader], *x = k->loops.at[s->source_loop];
  const LoopOutput *r = &x->outputs.at[s->source_output];
  uint32_t from = axes[s->source_loop];
  if (from != NO_AXIS)
    return !loop_output_has_axis(x, r, from) ||
           set_axis(axes, reader,
                    loop_matching_axis(loop, s->address, x, r, from), changed);
  for (uint32_t v = x->parallel_axes;
       v < x->spatial_axes && axes[reader] != NO_AXIS; v++)
    if (loop_matching_axis(loop, s->address, x, r, v) == axes[reader])
      return set_axis(axes, s->source_loop, v, changed);
  return true;
}

/* Finds the strip axis of each loop; NO_AXIS: it has no strips.  Loop `first`
 * has strips of its last spatial axis. */
static bool find_axes(const Kernel *k, uint32_t first, uint32_t *axes) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    axes[j] = j == first ? k->loops.at[j]->spatial_axes - 1 : NO_AXIS;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t j = 0; j < k->loops.len; j++)
      for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
        const KernelOp *s = &k->loops.at[j]->ops.at[i];
        if (s->kind == KOP_LOAD_LOCAL && !spread_axis(k, j, s, axes, &changed))
          return false;
      }
  }
  return true;
}

/* Where a loop runs. */
typedef enum StripPhase { BEFORE_STRIPS, IN_STRIPS, AFTER_STRIPS } StripPhase;

static bool find_phases(const Kernel *k, const uint32_t *axes,
                        StripPhase *phases) {
  for (uint32_t j = 0; j < k->loops.len; j++) {
    bool reads_strips = false, reads_end = false;
    for (uint32_t i = 0; i < k->loops.at[j]->ops.len; i++) {
      const KernelOp *s = &k->loops.at[j]->ops.at[i];
      if (s->kind != KOP_LOAD_LOCAL)
        continue;
      reads_strips |= phases[s->source_loop] == IN_STRIPS;
      reads_end |= phases[s->source_loop] == AFTER_STRIPS;
    }
    phases[j] = axes[j] != NO_AXIS          ? IN_STRIPS
                : reads_strips || reads_end ? AFTER_STRIPS
                                            : BEFORE_STRIPS;
    if (phases[j] == IN_STRIPS && reads_end)
      return false;
  }
  return true;
}

static void renumber_loads(LoopNest *loop, const uint32_t *numbers) {
  for (uint32_t j = 0; loop && j < loop->ops.len; j++)
    if (loop->ops.at[j].kind == KOP_LOAD_LOCAL)
      loop->ops.at[j].source_loop = numbers[loop->ops.at[j].source_loop];
}

/* Makes the loops with strips neighbours. */
static bool order_loops(Kernel *k, uint32_t first) {
  uint32_t count = k->loops.len, *axes = NEW_ARRAY(k->arena, uint32_t, count),
           *numbers = NEW_ARRAY(k->arena, uint32_t, count), next = 0;
  StripPhase *phases = NEW_ARRAY(k->arena, StripPhase, count);
  LoopNest **loops = NEW_ARRAY(k->arena, LoopNest *, count);
  if (!find_axes(k, first, axes) || !find_phases(k, axes, phases))
    return false;
  for (int phase = BEFORE_STRIPS; phase <= AFTER_STRIPS; phase++)
    for (uint32_t j = 0; j < count; j++)
      if ((int)phases[j] == phase) {
        numbers[j] = next;
        loops[next++] = k->loops.at[j];
      }
  for (uint32_t j = 0; j < count; j++) {
    k->loops.at[j] = loops[j];
    renumber_loads(loops[j], numbers);
  }
  renumber_loads(k->trim_check, numbers);
  return true;
}

/* ---- row results that are stored ---- */

static uint32_t add_conversion(Arena *arena, LoopNest *loop, Dtype to) {
  KernelOp convert = {.kind = KOP_CONVERT,
                      .dtype = to,
                      .arg_count = 1,
                      .args = {loop->ops.len - 1},
                      .low = INT64_MIN,
                      .high = INT64_MAX};
  VEC_PUSH(arena, loop->ops, convert);
  return loop->ops.len - 1;
}

/* A loop that stores output `at` of loop `from` from its local values.  The
 * partial sums of 16-bit floats are f32, and rounded once. */
static LoopNest *store_loop_new(Kernel *k, uint32_t from, uint32_t at) {
  LoopNest *loop = k->loops.at[from], *to = loop_clone_empty(k->arena, loop);
  LoopOutput *r = &loop->outputs.at[at], stored = *r;
  to->axis_count = to->spatial_axes;
  if (!r->local_index && r->reduce == PRIM_SUM)
    r->dtype = loop->ops.at[r->value_op].dtype;
  if (!r->local_index)
    r->local_index = loop_local_layout(k->arena, loop, &r->local_elements);
  KernelOp read = {.kind = KOP_LOAD_LOCAL,
                   .dtype = r->dtype,
                   .low = INT64_MIN,
                   .high = INT64_MAX};
  read.source_loop = from;
  read.source_output = at;
  read.address = affine_copy(k->arena, r->local_index);
  VEC_PUSH(k->arena, to->ops, read);
  r->global_index = NULL;
  stored.reduce = PRIM_NONE;
  stored.value_op = read.dtype == stored.dtype
                        ? 0
                        : add_conversion(k->arena, to, stored.dtype);
  stored.local_index = NULL;
  VEC_PUSH(k->arena, to->outputs, stored);
  return to;
}

/* Stores results of reductions, such as the maximum of each row, after all
 * other loops, since they are complete after the last strip. */
static void defer_stores(Kernel *k, uint32_t first) {
  uint32_t count = k->loops.len;
  for (uint32_t j = first; j < count; j++) {
    const LoopNest *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].global_index &&
          loop->outputs.at[i].reduce != PRIM_NONE && !loop->accumulated_axes)
        VEC_PUSH(k->arena, k->loops, store_loop_new(k, j, i));
  }
}

/* ---- matching ---- */

static bool find_strip_axes(StripMiner *p) {
  uint32_t *axes = NEW_ARRAY(p->arena, uint32_t, p->kernel->loops.len);
  if (!find_axes(p->kernel, p->first_loop, axes))
    return false;
  while (p->first_loop && axes[p->first_loop - 1] != NO_AXIS)
    p->first_loop--;
  p->end_loop = p->first_loop;
  for (; p->end_loop < p->kernel->loops.len && axes[p->end_loop] != NO_AXIS;
       p->end_loop++)
    if (!add_loop(p, p->end_loop, axes[p->end_loop]))
      return false;
  return p->end_loop > p->first_loop + 1 && !p->has_extreme;
}

/* True if several contractions may compute values of a strip, which then are
 * found from their readers, too. */
static bool has_several_producers(const Kernel *k) {
  return k->accumulated_axes || k->recomputes;
}

static bool find_strip_loops(StripMiner *p) {
  if (has_several_producers(p->kernel))
    return find_strip_axes(p);
  p->end_loop = p->first_loop + 1;
  if (!add_loop(p, p->first_loop,
                p->kernel->loops.at[p->first_loop]->spatial_axes - 1))
    return false;
  while (p->end_loop <= last_reader(p)) {
    if (!add_loop(p, p->end_loop,
                  common_axis(p, p->kernel->loops.at[p->end_loop])))
      return false;
    p->end_loop++;
  }
  return p->end_loop > p->first_loop + 1;
}

/* True if rescaling factors are at most 1, so that sums cannot overflow. */
static bool rescaling_is_stable(const StripMiner *p) {
  if (!p->has_extreme)
    return true;
  PrimId extreme = p->kernel->loops.at[p->extreme_loop]
                       ->outputs.at[p->extreme_output]
                       .reduce;
  bool is_max = reduce_info[extreme].order == ORDER_MAX;
  for (uint32_t j = p->first_loop; j < p->end_loop; j++)
    for (uint32_t i = 0; i < p->kernel->loops.at[j]->ops.len; i++) {
      ExtremeDependence s = p->dependences[j - p->first_loop][i];
      if (s.kind == SCALED && (is_max ? s.slope >= 0 : s.slope <= 0))
        return false;
    }
  return true;
}

static uint32_t first_strip_loop(const Kernel *k) {
  uint32_t j = 0;
  while (j < k->loops.len &&
         !(loop_is_contraction(k->loops.at[j]) &&
           k->loops.at[j]->spatial_axes > k->parallel_axes &&
           !k->loops.at[j]->accumulated_axes))
    j++;
  return j;
}

/* Matches the loops of a copy of the kernel, in the order in which they run.
 * defers: row results are stored after all other loops. */
static bool match_copy(StripMiner *p, const Kernel *from, bool defers) {
  Kernel *k = kernel_copy(from);
  *p = (StripMiner){.kernel = k, .arena = k->arena};
  p->first_loop = first_strip_loop(k);
  if (p->first_loop == k->loops.len)
    return false;
  if (defers)
    defer_stores(k, p->first_loop);
  if (has_several_producers(k) && !order_loops(k, p->first_loop))
    return false;
  p->first_loop = first_strip_loop(k);
  p->axes = NEW_ARRAY(k->arena, uint32_t, k->loops.len);
  p->dependences = NEW_ARRAY(k->arena, ExtremeDependence *, k->loops.len);
  return find_strip_loops(p) && rescaling_is_stable(p) &&
         k->loops.len + LOOPS_PER_STATE * p->state_count + LOOPS_OF_SCALE <=
             MAX_LOOPS;
}

static bool match_strip_mining(StripMiner *p, const Kernel *k) {
  return match_copy(p, k, false) || match_copy(p, k, true);
}

bool kernel_can_strip_mine(const Kernel *k, int64_t *length) {
  StripMiner p;
  if (!match_strip_mining(&p, k))
    return false;
  const LoopNest *loop = p.kernel->loops.at[first_strip_loop(p.kernel)];
  if (length)
    *length = loop->extents[loop->spatial_axes - 1];
  return true;
}

/* The reductions of a loop along its strips. */
static void add_states(StripMiner *p, uint32_t loop_index,
                       OnlineStates *online) {
  const LoopNest *loop = p->kernel->loops.at[loop_index];
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    const LoopOutput *r = &loop->outputs.at[i];
    ExtremeDependence dependence = dependence_of(p, loop_index, r->value_op);
    OnlineState s = {.loop = loop_index,
                     .output = i,
                     .is_scaled = dependence.kind == SCALED,
                     .slope = dependence.slope};
    if (!loop_output_has_axis(loop, r, loop->trimmed_axis))
      VEC_PUSH(p->arena, online->states, s);
  }
}

bool kernel_strip_mine(Kernel *k) {
  StripMiner p;
  if (k->strip_end)
    return true;
  if (!match_strip_mining(&p, k))
    return false;
  OnlineStates online = {.strip_begin = p.first_loop,
                         .strip_end = p.end_loop,
                         .extreme_loop = p.extreme_loop,
                         .extreme_output = p.extreme_output};
  k->loops = p.kernel->loops;
  k->trim_check = p.kernel->trim_check;
  for (uint32_t j = p.first_loop; j < p.end_loop; j++) {
    k->loops.at[j]->trimmed_axis = strip_axis(&p, j);
    k->loops.at[j]->strip_mined = true;
    add_states(&p, j, &online);
  }
  kernel_add_online_states(k, &online);
  kernel_verify_after(k, "strip mining");
  return true;
}
