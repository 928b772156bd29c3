/* The C prelude of kernels, by the number of lanes. */
#include "backend/cpu/cpu.h"
#include "backend/emit/prelude.h"
#include "support/arena.h"
#include "support/trap.h"

extern const char prelude_text[];

const char *cpu_prelude(uint32_t width) {
  return width == 1 ? scalar_prelude_text : prelude_text;
}

bool cpu_prelude_write(Buffer *out, uint32_t width, const char *source,
                       size_t len) {
  Arena *volatile arena = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    return false;
  }
  arena = arena_new();
  prelude_write(out, arena, cpu_prelude(width), source, len);
  trap_end(&trap);
  arena_free(arena);
  return true;
}
