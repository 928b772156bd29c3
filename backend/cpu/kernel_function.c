/* A kernel as C functions.
 *
 * `kernel` computes tasks begin .. end - 1.  A task is an iteration of the
 * parallel axes, a block of rows or columns, or a chunk of a split reduction.
 * `fold` combines chunks.  It contains the loop nests of the kernel in order.
 * Intermediates are in scratch memory. */
#include "backend/cpu/prepack.h"
#include "backend/cpu/cpu_emitter.h"
#include "backend/cpu/nest_choose.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#define format emit_format

/* ---- local buffers ---- */

/* Elements that full vectors may read or write behind the last element. */
enum { OVERREAD_ELEMENTS = 320 };

static int64_t task_row_elements(const Schedule *s) {
  return s->task_positions ? s->task_positions
                           : ceil_div(s->last_axis_block, s->width) * s->width;
}

static int64_t task_points(Emitter *e) {
  const Schedule *s = e->cpu->schedule;
  int64_t block = ceil_div(s->last_axis_block, s->width) * s->width;
  switch (s->task_kind) {
  case TASK_POINT:
    return 1;
  case TASK_ROWS:
    return s->last_axis_block;
  case TASK_COLUMNS:
    return block;
  case TASK_TILE:
    return emit_extent_mul(e, task_row_elements(s),
                           gemm_tiling_epilogue_per_block(s)
                               ? s->gemm_tilings->by_loop[0].mc
                               : s->task_height);
  }
  return 1;
}

static bool merges_batch(const Emitter *e, uint32_t loop_index) {
  const GemmTilings *t = e->cpu->schedule->gemm_tilings;
  return t && t->by_loop[loop_index].is_gemm &&
         gemm_merges_batch(&t->by_loop[loop_index]);
}

/* Returns true if a product of merged batches writes the local values of a
 * loop. */
static bool is_merged_batch(const Emitter *e, uint32_t loop_index) {
  for (uint32_t j = loop_index + 1; j < e->kernel->loops.len; j++) {
    const LoopOutput *r = &e->kernel->loops.at[j]->outputs.at[0];
    if (r->updates && r->state_loop == loop_index && merges_batch(e, j))
      return true;
  }
  return merges_batch(e, loop_index);
}

/* Returns true if rows of a local buffer are padded, so that they map to
 * different cache sets. */
static bool pads_rows(const Emitter *e, uint32_t loop_index, int64_t size) {
  return e->cpu->schedule->task_kind == TASK_ROWS &&
         !is_merged_batch(e, loop_index) &&
         extent_hint(e->kernel->graph, size) >= MIN_PADDED_ROW;
}

static void emit_local_buffers(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++) {
    const LoopNest *loop = e->kernel->loops.at[j];
    e->function.locals[j] = NEW_ARRAY(e->arena, LocalBuffer, loop->outputs.len);
    for (uint32_t i = 0; i < loop->outputs.len; i++) {
      const LoopOutput *r = &loop->outputs.at[i];
      LocalBuffer *l = &e->function.locals[j][i];
      if (!r->local_index || e->cpu->epilogue[j])
        continue;
      if (r->updates) {
        *l = e->function.locals[r->state_loop][r->state_output];
        continue;
      }
      l->id = e->next_id++;
      l->strip_mined = loop->strip_mined &&
                       loop_output_has_axis(loop, r, loop->trimmed_axis);
      const Nest *nest = e->cpu->schedule->nests[j];
      uint32_t points = nest ? nest_jammed_rows(nest) : 0;
      l->jammed = points > 0;
      int64_t size =
          l->strip_mined ? e->cpu->schedule->strip_length : r->local_elements;
      if (pads_rows(e, j, size))
        size = emit_extent_add(e, size, ROW_PADDING_ELEMENTS);
      l->point_elements = emit_int(e, size);
      l->row_elements = emit_int(e, task_row_elements(e->cpu->schedule));
      const char *type = memory_type(r->dtype);
      int64_t count =
          emit_extent_mul(e, size, points ? points : task_points(e));
      /* Full vectors may end behind the last element.  An unrolled reduction
       * reads at most four vectors, with a stride of at most four elements. */
      count = emit_extent_add(e, count, OVERREAD_ELEMENTS);
      buffer_printf(out, "%s *restrict const %c%u = (%s *)(room + %s);\n", type,
                    l->strip_mined || l->jammed ? 'r' : 'l', l->id, type,
                    emit_scratch(e, count, r->dtype));
    }
  }
}

/* ---- ranges of a task ---- */

/* min: minimal number of blocks, also if the axis is empty. */
static int64_t emit_task_range(Emitter *e, Buffer *out, const char *from,
                               const char *to, const char *count,
                               int64_t extent, int64_t block, int64_t min) {
  int64_t blocks =
      extent_max(e->kernel->graph, emit_extent_ceil_div(e, extent, block), min);
  const char *size = emit_int(e, block), *n = emit_int(e, extent);
  buffer_printf(out,
                "const int64_t %s = %s, %s = row %% %s * %s;\n"
                "const int64_t %s = %s + %s < %s ? %s + %s : %s;\n"
                "(void)%s;\nrow /= %s;\n",
                count, emit_int(e, blocks), from, count, size, to, from, size,
                n, from, size, n, to, count);
  return blocks;
}

/* Divides symbolic rows into equal tasks of whole tiles. */
static int64_t emit_row_task_range(Emitter *e, Buffer *out, int64_t extent) {
  const char *n = emit_int(e, extent),
             *tasks = emit_int(e, e->cpu->schedule->row_task_count);
  uint32_t rows = e->cpu->schedule->gemm_tilings->by_loop[0].mr;
  buffer_printf(out,
                "const int64_t bands = %s, height = ((%s + bands - 1) / bands "
                "+ %u) / %u * %u;\n"
                "const int64_t top = row %% bands * height;\n"
                "const int64_t bottom = top + height < %s ? top + height : "
                "%s;\nrow /= bands;\n",
                tasks, n, rows - 1, rows, rows, n, n);
  return e->cpu->schedule->row_task_count;
}

static bool is_arg_reduction(const LoopNest *loop) {
  PrimId op = loop->outputs.at[0].reduce;
  return prim_is_arg_reduction(op);
}

/* Decodes the task number: chunk of the reduction, tile, then parallel
 * iteration. */
static void emit_task_ranges(Emitter *e, Buffer *out) {
  const Schedule *s = e->cpu->schedule;
  const LoopNest *loop = e->kernel->loops.at[0];
  uint32_t points = loop->parallel_axes;
  int64_t tasks = 1;
  buffer_puts(out, "int64_t row = u;\n");
  if (s->task_kind == TASK_ROWS)
    tasks = emit_task_range(e, out, "first", "last", "spans",
                            loop->extents[--points], s->last_axis_span, 0);
  else if (s->task_kind != TASK_POINT)
    tasks = emit_task_range(e, out, "lo", "hi", "blocks",
                            loop->extents[--points], s->last_axis_block, 0);
  if (s->task_kind == TASK_TILE && s->row_task_count)
    tasks = emit_extent_mul(
        e, tasks, emit_row_task_range(e, out, loop->extents[--points]));
  else if (s->task_kind == TASK_TILE)
    tasks = emit_extent_mul(e, tasks,
                            emit_task_range(e, out, "top", "bottom", "bands",
                                            loop->extents[--points],
                                            s->task_height, 0));
  if (s->task_kind == TASK_TILE && !s->gemm_tilings)
    buffer_puts(out, "const int64_t y0 = top, y1 = bottom;\n(void)y1;\n");
  if (s->task_image_rows)
    tasks = emit_extent_mul(e, tasks,
                            emit_task_range(e, out, "above", "below", "strips",
                                            loop->extents[--points],
                                            s->task_image_rows, 0));
  if (s->reduction_chunk) {
    bool is_tile = s->task_kind == TASK_TILE;
    int64_t extent = is_tile ? s->gemm_tilings->by_loop[0].depth
                             : loop->extents[loop->spatial_axes];
    e->cpu->out->reduction_chunks = emit_task_range(
        e, out, is_tile ? "part" : "from", is_tile ? "stop" : "to", "chunks",
        extent, s->reduction_chunk, 1);
    tasks = emit_extent_mul(e, tasks, e->cpu->out->reduction_chunks);
    int64_t count = 1;
    for (uint32_t v = 0; v < loop->parallel_axes; v++)
      count = emit_extent_mul(e, count, loop->extents[v]);
    const char *chunk = emit_int(e, s->reduction_chunk);
    buffer_printf(out, "const int64_t share = %s / %s * %s;\n",
                  is_tile ? "part" : "from", chunk, emit_int(e, count));
    if (is_arg_reduction(loop))
      buffer_printf(out, "const int64_t values = %s;\n",
                    emit_int(e, emit_extent_mul(
                                    e, count, e->cpu->out->reduction_chunks)));
  }
  uint32_t ordered = e->kernel->accumulated_axes;
  points -= ordered ? ordered - 1 : 0; /* open_accumulated_loops */
  for (uint32_t v = points; v-- > 0;) {
    tasks = emit_extent_mul(e, tasks, loop->extents[v]);
    const char *n = v ? emit_int(e, loop->extents[v]) : NULL;
    if (n)
      buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v, n,
                    n);
    else
      buffer_printf(out, "const int64_t i%u = row;\n", v);
  }
  buffer_puts(out, "(void)row;\n");
  e->cpu->out->tasks = tasks;
}

/* ---- loop nests ---- */

static bool is_gemm(const Emitter *e, uint32_t loop) {
  return e->cpu->schedule->gemm_tilings &&
         e->cpu->schedule->gemm_tilings->by_loop[loop].is_gemm;
}

static void emit_comment(const Emitter *e, Buffer *out, uint32_t loop) {
  if (e->cpu->comments)
    buffer_printf(out, "/* %s */\n", e->cpu->comments[loop]);
}

/* The loops after a matmul run as its epilogue, block by block. */
static void emit_loops(Emitter *e, Buffer *out, uint32_t from, uint32_t count) {
  for (uint32_t j = from; j < count;) {
    uint32_t to = j + 1;
    while (to < count && !is_gemm(e, to))
      to++;
    Buffer epilogue = {.arena = e->arena};
    for (uint32_t i = j + is_gemm(e, j); i < to; i++) {
      emit_comment(e, &epilogue, i);
      if (i == 0 || !e->cpu->epilogue[i - 1])
        emit_loop_nest(e, &epilogue, i);
    }
    bool is_tile = is_gemm(e, j) && e->cpu->schedule->task_kind == TASK_TILE;
    if (is_gemm(e, j)) {
      emit_comment(e, out, j);
      emit_gemm(e, out, j, is_tile ? &epilogue : NULL);
    }
    if (e->cpu->schedule->task_kind == TASK_ROWS && epilogue.len) {
      uint32_t v = e->kernel->parallel_axes - 1;
      emit_open_axis(out, v, "lo", "hi");
      emit_append(out, &epilogue);
      buffer_puts(out, "}\n");
    } else if (!is_tile) {
      emit_append(out, &epilogue);
    }
    j = to;
  }
}

/* Evaluates a check for each row of a task. */
static void emit_row_check(Emitter *e, Buffer *out, const LoopNest *check,
                           const char *flag) {
  uint32_t v = e->kernel->parallel_axes - 1;
  if (e->cpu->schedule->task_kind == TASK_ROWS)
    emit_open_axis(out, v, "lo", "hi");
  else
    buffer_puts(out, "{\n");
  emit_loop_check(e, out, check, flag);
  buffer_puts(out, "}\n");
}

/* Runs the loops of an online reduction strip by strip, and all of it again if
 * the check fails. */
static void emit_strip_mined_loops(Emitter *e, Buffer *out) {
  const Kernel *k = e->kernel;
  emit_loops(e, out, 0, k->retry_begin);
  if (k->retry_check)
    buffer_puts(out, "for (int again = 0, retry = 1; retry; again = 1) {\n");
  emit_loops(e, out, k->retry_begin, k->strip_begin);
  emit_strips_begin(e, out);
  emit_loops(e, out, k->strip_begin, k->strip_end);
  buffer_puts(out, "}\n");
  emit_loops(e, out, k->strip_end, k->retry_end);
  if (k->retry_check) {
    buffer_puts(out, "retry = 0;\n");
    emit_row_check(e, out, k->retry_check, "retry");
    buffer_puts(out, "retry &= !again;\n}\n");
  }
  emit_loops(e, out, k->retry_end, k->loops.len);
}

/* Runs the trimmed loops, and again untrimmed if the trim check fails.  If
 * loops accumulate, they cannot run again, and the check comes first. */
static void emit_trimmed_loops(Emitter *e, Buffer *out) {
  const Kernel *k = e->kernel;
  const char *has_nonfinite =
      e->cpu->schedule->task_kind == TASK_ROWS ? "odd" : "0";
  bool runs_again = k->trim_check && !k->accumulated_axes;
  if (k->trim_check && !runs_again) {
    buffer_puts(out, "int missed = 0;\n");
    emit_row_check(e, out, k->trim_check, "missed");
    buffer_printf(out, "const int whole = %s | missed;\n", has_nonfinite);
  } else if (runs_again)
    buffer_printf(out,
                  "for (int whole = %s, missed = 1; missed; whole = 1) {\n"
                  "missed = 0;\n",
                  has_nonfinite);
  else if (kernel_may_run_untrimmed(k))
    buffer_printf(out, "const int whole = %s;\n", has_nonfinite);
  emit_trim_bounds(e, out);
  if (e->cpu->schedule->strip_length)
    emit_strip_mined_loops(e, out);
  else
    emit_loops(e, out, 0, k->loops.len);
  if (!runs_again)
    return;
  emit_row_check(e, out, k->trim_check, "missed");
  buffer_puts(out, "missed &= !whole;\n}\n");
}

/* Opens loops over the accumulated axes but the last one, which are inside of
 * the task.  Returns their number. */
static uint32_t open_accumulated_loops(Emitter *e, Buffer *out) {
  const Kernel *k = e->kernel;
  if (!k->accumulated_axes)
    return 0;
  emit_accumulator_zeros(e, out);
  return emit_open_axes(e, out, k->loops.at[0],
                        k->parallel_axes - k->accumulated_axes,
                        k->parallel_axes - 1);
}

/* Rows: packs the shared operands, then computes blocks of rows. */
static void emit_row_blocks(Emitter *e, Buffer *out) {
  uint32_t open = open_accumulated_loops(e, out);
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (is_gemm(e, j))
      emit_hoisted_packing(e, out, j);
  if (kernel_may_run_untrimmed(e->kernel))
    emit_nonfinite_check(e, out);
  const char *block = emit_int(e, e->cpu->schedule->last_axis_block);
  buffer_printf(out,
                "for (int64_t lo = first; lo < last; lo += %s) {\n"
                "const int64_t hi = lo + %s < last ? lo + %s : last;\n",
                block, block, block);
  emit_trimmed_loops(e, out);
  emit_close(out, open + 1);
}

/* ---- combination of chunks ---- */

static void emit_combine_partials(Emitter *e, Buffer *out) {
  const LoopOutput *r = e->emitted->call.outputs.at[0];
  if (e->cpu->out->is_arg_reduction) {
    emit_arg_combine(e, out);
    return;
  }
  Dtype from = e->cpu->out->accumulator_dtype, t = r->dtype;
  char class = value_class(from);
  const char *store =
      dtype_is_narrow_float(t)
          ? format(e, "put_%s(o + u + i, (float)r[i])", dtype_info[t].name)
          : format(e, "o[u + i] = (%s)r[i]", memory_type(t));
  buffer_printf(
      out,
      "%sint fold%s" TASK_PARAMETERS "(void)c, (void)room;\n"
      "%s *restrict const o = p[0];\nconst %s *const s = p[1];\n"
      "for (int64_t u = begin; u < end; u += %d) {\n"
      "const int count = end - u < %d ? (int)(end - u) : %d;\n"
      "%s r[%d];\n"
      "for (int i = 0; i < count; i++)\nr[i] = s[u + i];\n"
      "for (int64_t k = 1; k < n[0]; k++)\n"
      "for (int i = 0; i < count; i++)\nr[i] = %s;\n"
      "for (int i = 0; i < count; i++)\n%s;\n}\nreturn 0;\n}\n",
      *e->suffix ? "static " : "", e->suffix, memory_type(t), memory_type(from),
      COMBINE_BATCH, COMBINE_BATCH, COMBINE_BATCH,
      class == 'f' ? "double" : scalar_type(class), COMBINE_BATCH,
      emit_combine(e, r->reduce, class, false, "r[i]", "s[k * n[1] + u + i]"),
      store);
}

/* ---- entry point ---- */

/* The attribute of a function with unrolled rows. */
static const char *kernel_attribute(const Kernel *k, const Schedule *s) {
  for (uint32_t j = 0; j < k->loops.len && s->width > 1; j++)
    if (s->nests[j] && nest_unrolls_rows(s->nests[j]))
      return "OPTIMIZED ";
  return "";
}

static void emit_pointers(Emitter *e, Buffer *out) {
  const CpuKernel *kernel = e->cpu->out;
  const Call *call = &kernel->code.call;
  bool no_aliasing = true;
  for (uint32_t j = 0; j < call->outputs.len; j++)
    no_aliasing &= !kernel_inplace_inputs(e->kernel, e->cpu->schedule,
                                          call->outputs.at[j]);
  for (uint32_t j = 0; j < call->outputs.len; j++)
    buffer_printf(out, "%s *%s const o%u = p[%u];\n",
                  memory_type(e->cpu->schedule->reduction_chunk
                                  ? kernel->accumulator_dtype
                                  : call->outputs.at[j]->dtype),
                  no_aliasing ? "restrict" : "", j, j);
  for (uint32_t j = 0; j < e->kernel->inputs.len; j++)
    buffer_printf(out, "const %s *const p%u = p[%u];\n",
                  memory_type(e->kernel->inputs.at[j]->dtype), j,
                  call->outputs.len + j);
  if (kernel->prepacked.len) /* an output may be named c */
    buffer_puts(out, "const double *const numbers = c;\n(void)numbers;\n");
  for (uint32_t j = 0; j < kernel->prepacked.len; j++)
    buffer_printf(out, "const %s *const kept%u = p[%u];\n",
                  kernel->prepacked.at[j].c_type, j,
                  call->outputs.len + e->kernel->inputs.len + j);
}

/* The address of a flag: an interrupt is wanted. */
static void emit_stop_pointer(const Emitter *e, Buffer *out) {
  const Nest *n = e->cpu->schedule->nests[0];
  for (uint32_t j = 0; n && j < n->loop_count; j++)
    if (n->loops[j].polls)
      buffer_printf(out, "const _Atomic _Bool *const stop = p[%u];\n",
                    e->emitted->call.outputs.len + e->kernel->inputs.len);
}

/* One mask per check. */
static void emit_check_masks(const Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->emitted->call.checks.len; j++)
    buffer_printf(out, "vi bad%u = splat_i(0);\n", j);
}

static void emit_return(const Emitter *e, Buffer *out) {
  buffer_printf(out, "}\n%sreturn ",
                e->cpu->has_nontemporal ? "stream_end();\n" : "");
  for (uint32_t j = 0; j < e->emitted->call.checks.len; j++)
    buffer_printf(out, "%sany_lane(bad%u) << %u", j ? " | " : "", j, j);
  buffer_puts(out, e->emitted->call.checks.len ? ";\n}\n" : "0;\n}\n");
}

bool emit_kernel(const Kernel *k, const Schedule *s,
                 const char *const *comments, const char *suffix,
                 CpuKernel *result) {
  *result = (CpuKernel){.code.source = {.arena = k->arena}};
  if (comments)
    result->code.lowered = NEW_ARRAY(k->arena, const char *, k->loops.len + 1);
  if (k->loops.len > MAX_KERNEL_LOOPS ||
      (k->accumulated_axes && !s->gemm_tilings))
    return false;
  Emitter *e = NEW(k->arena, Emitter);
  e->cpu = NEW(k->arena, CpuEmitter);
  e->dialect = &c_dialect;
  e->width = s->width;
  e->has_byte_lanes = schedule_has_byte_lanes(s);
  e->function.locals_by_point = s->task_kind == TASK_ROWS;
  e->function.has_lane_begin = !s->gemm_tilings;
  e->arena = k->arena;
  e->kernel = k;
  e->cpu->schedule = s;
  e->cpu->comments = comments;
  e->prefetch_axis = NO_AXIS;
  e->suffix = suffix;
  e->cpu->out = result;
  e->emitted = &result->code;
  e->function.head = e->cpu->pack_functions = (Buffer){.arena = k->arena};
  Buffer rows = e->function.head, body = e->function.head,
         locals = e->function.head;
  Buffer *out = &result->code.source;
  if (!*suffix)
    buffer_printf(out, "#define W %u\n", s->width);
  if (s->gemm_tilings)
    emit_gemm_functions(e, out);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (s->nests[j] && s->nests[j]->has_epilogue)
      e->cpu->epilogue[j] = short_reduction_epilogue(k, s, k->arena, j);
  emit_task_ranges(e, &rows);
  emit_local_buffers(e, &locals);
  if (s->task_kind == TASK_ROWS)
    emit_row_blocks(e, &body);
  else
    emit_trimmed_loops(e, &body);
  emit_transpose_functions(e, out);
  emit_append(out, &e->cpu->pack_functions);
  buffer_printf(out,
                "%s%sint kernel%s" TASK_PARAMETERS
                "(void)p, (void)n, (void)c, (void)room;\n",
                *suffix ? "static " : "", kernel_attribute(k, s), suffix);
  emit_pointers(e, out);
  emit_stop_pointer(e, out);
  emit_append(out, &locals);
  emit_check_masks(e, out);
  emit_append(out, &e->function.head);
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  emit_append(out, &rows);
  emit_append(out, &body);
  emit_return(e, out);
  if (s->reduction_chunk && !e->failed)
    emit_combine_partials(e, out);
  emit_prepack_functions(e, out);
  if (s->gemm_tilings)
    emit_micro_kernel_texts(e, out);
  return !e->failed;
}
