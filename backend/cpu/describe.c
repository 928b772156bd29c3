/* What a cluster is compiled as, for who asks. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/members.h"
#include "backend/cpu/tiling.h"
#include "tensor/watch.h"

static const char *shape_text(const Kernel *k, const Schedule *s,
                              Arena *arena) {
  long long block = s->block, height = s->height;
  switch (s->shape) {
  case UNIT_POINT:
    break;
  case UNIT_ROWS:
    if (s->portion)
      return arena_printf(arena, "%lld rows, %lld at a time, %lld of each",
                          (long long)s->span, block, (long long)s->portion);
    return arena_printf(arena, "%lld rows, %lld at a time", (long long)s->span,
                        block);
  case UNIT_COLUMNS:
    return arena_printf(arena, "%lld columns", block);
  case UNIT_TILE:
    if (s->strip)
      return arena_printf(arena, "%lld × %lld × %lld", height,
                          (long long)s->strip, block);
    return arena_printf(arena, "%lld × %lld", height, block);
  case UNIT_MEMBERS:
    return arena_printf(arena, "%lld of %lld × %lld", block,
                        (long long)s->members->rows,
                        (long long)s->members->columns);
  }
  return k->outer && !s->chunk
             ? "a row"
             : arena_printf(arena, "%lld terms of a sum", (long long)s->chunk);
}

static const char *form_text(const Operand *o) {
  switch (o->form) {
  case OPERAND_PLAIN:
    return o->pays ? "as it lies, kept in panels" : "as it lies";
  case OPERAND_ROWS:
    return "copied in rows";
  case OPERAND_COLUMNS:
    return "copied in columns";
  case OPERAND_PANELS:
    return o->pays ? "in panels, kept" : "copied in panels";
  case OPERAND_TURNED:
    return o->pays ? "turned into panels, kept" : "turned into panels";
  case OPERAND_WINDOW:
    return "in panels out of a window";
  }
  return "";
}

static const char *tiles_text(const Kernel *k, const Schedule *s,
                              Arena *arena) {
  Buffer out = {.arena = arena};
  const Members *p = s->members;
  if (p && p->vectors)
    return arena_printf(arena, "%u × %u in registers, all as it lies",
                        p->tile_rows, p->vectors * s->width);
  if (p)
    return arena_printf(
        arena, "%lld × %lld by %lld terms, %lld at a time: constants here",
        (long long)p->rows, (long long)p->columns, (long long)p->depth,
        (long long)p->at_once);
  for (uint32_t j = 0; s->tiling && j < k->loops.len; j++) {
    const Tile *t = &s->tiling->of[j];
    if (!t->on)
      continue;
    bool across = t->window && t->window->across;
    buffer_printf(&out, "%s%u × %u in registers%s, left %s, right %s",
                  out.len ? "; " : "", t->rows, t->vectors * s->width,
                  t->element == DT_I32 ? " by pairs of bf16" : "",
                  across ? "a window" : form_text(&t->a),
                  form_text(across ? &t->a : &t->b));
  }
  return out.text;
}

static bool reduces(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (k->loops.at[j]->axes > k->loops.at[j]->kept)
      return true;
  return false;
}

static bool streams(const Kernel *k, const Schedule *s) {
  if (s->members)
    return members_stream(s, k->graph, &k->loops.at[0]->results.at[0]);
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      if (r->out && schedule_streams_along(s, k->loops.at[j], r, s->lanes[j]))
        return true;
    }
  return false;
}

static const char *fixed_text(const Kernel *k, const Schedule *s,
                              Arena *arena) {
  const char *past = streams(k, s) ? ", stored past the caches" : "";
  if (s->shape == UNIT_COLUMNS && reduces(k))
    return arena_printf(arena, "%u lanes, sums of at most %lld columns%s",
                        s->width, (long long)s->block, past);
  return arena_printf(arena, "%u lanes%s", s->width, past);
}

static bool is_by_index(const uint64_t *depends, const Step *s, uint32_t lane) {
  for (uint32_t j = 0; j < s->index_count; j++)
    if (depends[s->indices[j].step] >> lane & 1)
      return true;
  return false;
}

static bool is_apart(const Quasi *q, uint32_t lane) {
  return q && q->times[lane] != 0 && q->times[lane] != 1;
}

/* Is it loaded with what lies between its lanes, or stored by parts? */
static bool is_near(const Quasi *q, uint32_t lane) {
  return q->times[lane] > 1 && q->times[lane] <= NEAR_STEPS;
}

/* turned: what is next to each other along another axis is. */
static void count_accesses(const Loop *loop, uint32_t lane, bool turned,
                           Arena *arena, KernelAbout *about) {
  const uint64_t *depends = loop_depends(arena, loop);
  double numbers;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_READ && is_by_index(depends, s, lane))
      about->by_index++;
    else if (s->kind == STEP_READ &&
             !(turned && loop_reads_apart(loop, s, lane, &numbers)))
      about->apart += is_apart(s->address, lane) &&
                      s->address->times[lane] != -1 && /* turned round */
                      !is_near(s->address, lane);
  }
  for (uint32_t j = 0; j < loop->results.len; j++)
    about->apart += is_apart(loop->results.at[j].out, lane) &&
                    !is_near(loop->results.at[j].out, lane);
}

static void count_all(const Kernel *k, const Schedule *s, Arena *arena,
                      KernelAbout *about) {
  for (uint32_t j = 0; j < k->loops.len && !s->members; j++)
    if (!(s->tiling && s->tiling->of[j].on) && s->lanes[j] < KERNEL_AXES)
      count_accesses(k->loops.at[j], s->lanes[j], k->across, arena, about);
}

/* Schedule and text are made once more: that they are the same shows in the
 * object, which is found then, and not made (tests/check_plan.sh). */
bool cpu_describe(const Cluster *c, Arena *arena, const char *const *notes,
                  KernelAbout *about) {
  Kernel *k = c->kernel;
  Schedule s;
  Emitted e;
  *about = (KernelAbout){.units = 1};
  if (!k || c->interpreted)
    return false;
  schedule_choose(k, target_vector_bytes(), &s);
  if (!emit_kernel(k, &s, NULL, "", &e))
    return false;
  about->lanes = s.width;
  about->units = e.call.units;
  about->scratch = e.call.room;
  about->shape = shape_text(k, &s, arena);
  about->fixed = fixed_text(k, &s, arena);
  about->tiles = tiles_text(k, &s, arena);
  count_all(k, &s, arena, about);
  Object *o = c->backend ? object_request(e.text.text, e.text.len) : NULL;
  about->object = o;
  about->compiled = o && object_kernel(o);
  about->compile_seconds = about->compiled ? object_seconds(o) : 0;
  if (notes && emit_kernel(k, &s, notes, "", &e))
    about->code = e.text.text;
  return true;
}
