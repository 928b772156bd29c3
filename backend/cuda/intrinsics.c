/* Intrinsics for kernels: sections of device/, and wgmma functions. wgmma has
 * 32 widths, five types and two storages of A, so functions are generated for
 * the names that a source uses. */
#include "backend/cuda/intrinsics.h"
#include "backend/emit/prelude.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/compiler.h"
#include "support/trap.h"

#include <stdlib.h>
#include <string.h>

extern const char wrappers_text[];

typedef struct WgmmaIntrinsic {
  int n, k;
  const char *type;    /* "bf16" */
  bool a_in_registers; /* A is in registers */
} WgmmaIntrinsic;

static const char prefix[] = "ax_wgmma_m64n";

/* Parses the name of a wgmma function.  False if it is none. */
static bool parse_wgmma_name(const char *name, size_t len,
                             WgmmaIntrinsic *out) {
  static const struct {
    const char *name;
    int k;
  } types[] = {
      {"f16", 16}, {"bf16", 16}, {"tf32", 8}, {"e4m3", 32}, {"e5m2", 32}};
  char source[40], *at;
  if (len >= sizeof source || strncmp(name, prefix, strlen(prefix)) != 0)
    return false;
  memcpy(source, name, len);
  source[len] = 0;
  out->n = (int)strtol(source + strlen(prefix), &at, 10);
  if (out->n < 8 || out->n > 256 || out->n % 8 || *at != 'k')
    return false;
  out->k = (int)strtol(at + 1, &at, 10);
  size_t end = strlen(at);
  out->a_in_registers = end > 3 && strcmp(at + end - 3, "_ra") == 0;
  if (out->a_in_registers)
    at[end - 3] = 0;
  for (size_t j = 0; j < ARRAY_LEN(types); j++)
    if (*at == '_' && strcmp(at + 1, types[j].name) == 0) {
      out->type = types[j].name;
      return out->k == types[j].k && !(out->k == 32 && out->a_in_registers);
    }
  return false;
}

/* Writes operands `first` to `first + count - 1` in braces. */
static void write_operands(Buffer *out, int first, int count) {
  for (int i = 0; i < count; i++)
    buffer_printf(out, "%s%%%d",
                  !i            ? "{"
                  : i % 12 == 0 ? ", \"\n    \""
                                : ", ",
                  first + i);
  buffer_puts(out, "}");
}

/* wgmma.mma_async, PTX ISA 9.7.15.5.2: the predicate is scale-d, the scales of
 * A and B are 1, and only 16-bit operands in shared memory can be
 * transposed. */
static void write_wgmma(Buffer *out, const WgmmaIntrinsic *p) {
  int registers = p->n / 2, a = registers, b = a + (p->a_in_registers ? 4 : 1);
  int operands = p->k == 16 ? (p->a_in_registers ? 1 : 2) : 0;
  buffer_puts(out, "AX_WGMMA_CHECK\n");
  if (operands)
    buffer_printf(out, "template <%sint TRANS_B>\n",
                  operands == 2 ? "int TRANS_A, " : "");
  buffer_printf(out, "AX_DEVICE void %s%dk%d_%s%s(float (&d)[%d],\n    %sa, ",
                prefix, p->n, p->k, p->type, p->a_in_registers ? "_ra" : "",
                registers,
                p->a_in_registers ? "const unsigned *" : "unsigned long long ");
  buffer_printf(out,
                "unsigned long long b, bool add) {\n"
                "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %%%d, 0;"
                "\\n\"\n    \"wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s "
                "\"\n    \"",
                b + 1, p->n, p->k, p->type, p->type);
  write_operands(out, 0, registers);
  buffer_puts(out, ", \"\n    \"");
  if (p->a_in_registers)
    write_operands(out, a, 4);
  else
    buffer_printf(out, "%%%d", a);
  buffer_printf(out, ", %%%d, p, 1, 1", b);
  for (int j = 0; j < operands; j++)
    buffer_printf(out, ", %%%d", b + 2 + j);
  buffer_puts(out, ";\\n}\"\n    : ");
  for (int i = 0; i < registers; i++)
    buffer_printf(out, "%s\"+f\"(d[%d])",
                  i % 4 ? ", "
                  : i   ? ",\n      "
                        : "",
                  i);
  buffer_puts(out, "\n    : ");
  for (int i = 0; p->a_in_registers && i < 4; i++)
    buffer_printf(out, "\"r\"(a[%d]), ", i);
  buffer_printf(out, "%s\"l\"(b), \"r\"((int)add)%s%s);\n}\n",
                p->a_in_registers ? "" : "\"l\"(a), ",
                operands == 2 ? ", \"n\"(TRANS_A)" : "",
                operands ? ", \"n\"(TRANS_B)" : "");
}

static bool seen_before(const char *source, const char *at, size_t len) {
  for (const char *p = source; (p = strstr(p, prefix)) && p < at; p++)
    if (strncmp(p, at, len) == 0 && !is_c_identifier_char(p[len]))
      return true;
  return false;
}

static void write_wgmmas(Buffer *out, const char *source) {
  for (const char *at = source; (at = strstr(at, prefix));) {
    size_t len = 0;
    WgmmaIntrinsic p;
    while (is_c_identifier_char(at[len]))
      len++;
    if (parse_wgmma_name(at, len, &p) && !seen_before(source, at, len))
      write_wgmma(out, &p);
    at += len;
  }
}

bool intrinsics_write(Buffer *out, const char *source) {
  Arena *volatile arena = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    return false;
  }
  arena = arena_new();
  Buffer text = {.arena = arena};
  write_wgmmas(&text, source);
  buffer_puts(&text, source);
  prelude_write(out, arena, wrappers_text, text.text, text.len);
  buffer_add(out, text.text, text.len);
  trap_end(&trap);
  arena_free(arena);
  return true;
}
