/* The schedule of a kernel: that of a file, or the chosen one. */
#include "backend/cpu/schedule_make.h"

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/nest_parts.h"
#include "backend/cpu/schedule_text.h"
#include "plan/kernel_key.h"
#include "plan/schedule_file.h"
#include "support/arena_text.h"

#include <inttypes.h>

static ScheduleSource *schedule_source;

void schedule_set_source(ScheduleSource *source) {
  schedule_source = source;
}

bool schedule_is_given(const FusionGroup *c, uint32_t bytes) {
  return bytes == cpu_vector_bytes() && schedule_find(c, NULL);
}

bool schedule_make(const FusionGroup *c, Kernel *k, uint32_t bytes,
                   bool may_use_bytes, Schedule *s) {
  ScheduleEntry *e =
      schedule_is_given(c, bytes) ? schedule_find(c, NULL) : NULL;
  uint32_t at;
  kernel_pack_bytes(k);
  kernel_collapse_rows(k, bytes);
  const char *text = e ? e->text : schedule_source ? schedule_source(k) : NULL;
  if (!text) {
    schedule_choose(k, bytes, may_use_bytes, s);
    return true;
  }
  const char *error = schedule_read(k, bytes, text, &at, s);
  if (!error && !may_use_bytes && gemm_tilings_have_micro_kernel(k, s)) {
    at = 0;
    error = "a micro-kernel is no part of a module: leave out `micro`";
  }
  if (error)
    schedule_entry_fail(c, e, at, error);
  else
    schedule_entry_report(e, NULL);
  return !error;
}

void schedule_has_no_code(const FusionGroup *c) {
  const ScheduleEntry *e = schedule_find(c, NULL);
  if (e || schedule_source)
    schedule_entry_fail(c, e, 0, "there is no C code for this schedule");
}

const char *schedule_entry(Arena *arena, const FusionGroup *c, const Kernel *k,
                           const Schedule *s) {
  Buffer out = {.arena = arena};
  ArtifactKey key = kernel_schedule_key(c);
  buffer_printf(&out, "kernel %016" PRIx64 "\n", key.word[0]);
  schedule_print(&out, k, s);
  return out.text;
}
