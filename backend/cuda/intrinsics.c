/* Intrinsics for kernels: sections of device/, and functions with many operands
 * or variants, which are generated for the names that a source uses: wgmma (32
 * widths, five types and two storages of A), and loads and stores of tensor
 * memory. */
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

static const char wgmma_prefix[] = "ax_wgmma_m64n";
static const char tmem_load_prefix[] = "ax_tmem_load_x";
static const char tmem_store_prefix[] = "ax_tmem_store_x";
static const char tmem_pairs_prefix[] = "ax_tmem_store_pairs_x";

/* Parses the name of a wgmma function.  False if it is none. */
static bool parse_wgmma_name(const char *name, size_t len,
                             WgmmaIntrinsic *out) {
  static const struct {
    const char *name;
    int k;
  } types[] = {
      {"f16", 16}, {"bf16", 16}, {"tf32", 8}, {"e4m3", 32}, {"e5m2", 32}};
  char source[40], *at;
  if (len >= sizeof source)
    return false;
  memcpy(source, name, len);
  source[len] = 0;
  out->n = (int)strtol(source + strlen(wgmma_prefix), &at, 10);
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

/* The registers d[0] to d[count - 1] as results or operands. */
static void write_registers(Buffer *out, const char *constraint, int count) {
  for (int i = 0; i < count; i++)
    buffer_printf(out, "%s\"%s\"(d[%d])",
                  i % 4 ? ", "
                  : i   ? ",\n      "
                        : "",
                  constraint, i);
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
                wgmma_prefix, p->n, p->k, p->type,
                p->a_in_registers ? "_ra" : "", registers,
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
  write_registers(out, "+f", registers);
  buffer_puts(out, "\n    : ");
  for (int i = 0; p->a_in_registers && i < 4; i++)
    buffer_printf(out, "\"r\"(a[%d]), ", i);
  buffer_printf(out, "%s\"l\"(b), \"r\"((int)add)%s%s);\n}\n",
                p->a_in_registers ? "" : "\"l\"(a), ",
                operands == 2 ? ", \"n\"(TRANS_A)" : "",
                operands ? ", \"n\"(TRANS_B)" : "");
}

static void write_named_wgmma(Buffer *out, const char *name, size_t len) {
  WgmmaIntrinsic p;
  if (parse_wgmma_name(name, len, &p))
    write_wgmma(out, &p);
}

/* Parses the number at the end of the name of a load or store: 1, 2, 4, 8 or
 * 16; 0 if it is another one. */
static int tmem_times(const char *name, size_t len, const char *prefix) {
  static const int all[] = {1, 2, 4, 8, 16};
  char *end;
  long times = strtol(name + strlen(prefix), &end, 10);
  for (size_t j = 0; j < ARRAY_LEN(all); j++)
    if (times == all[j] && end == name + len)
      return all[j];
  return 0;
}

/* tcgen05.ld, PTX ISA 9.7.16: loads 16 lanes and 8 columns, or 2 to 16 times as
 * many columns, in the layout of accumulators of mma.  Warp w may load lanes
 * from 32 * (w % 4) on.  It is asynchronous. */
static void write_named_tmem_load(Buffer *out, const char *name, size_t len) {
  int times = tmem_times(name, len, tmem_load_prefix), registers = 4 * times;
  if (!times)
    return;
  buffer_printf(out,
                "AX_TCGEN05_CHECK\n"
                "AX_DEVICE void %.*s(float *d, unsigned address) {\n"
                "  asm volatile(\"tcgen05.ld.sync.aligned.16x256b.x%d.b32 "
                "\"\n    \"",
                (int)len, name, times);
  write_operands(out, 0, registers);
  buffer_printf(out, ", [%%%d];\"\n    : ", registers);
  write_registers(out, "=f", registers);
  buffer_puts(out, "\n    : \"r\"(address)\n    : \"memory\");\n}\n");
}

/* tcgen05.st, PTX ISA 9.7.16: stores what such a load gives; or pairs of 16-bit
 * values: 4 columns of 16 lanes for each 2 registers, in the layout of operand
 * A of mma. */
static void write_tmem_store(Buffer *out, const char *name, size_t len,
                             bool pairs) {
  int times =
      tmem_times(name, len, pairs ? tmem_pairs_prefix : tmem_store_prefix);
  int registers = (pairs ? 2 : 4) * times;
  if (!times)
    return;
  buffer_printf(out,
                "AX_TCGEN05_CHECK\n"
                "AX_DEVICE void %.*s(const %s *d, unsigned address) {\n"
                "  asm volatile(\"tcgen05.st.sync.aligned.16x%db.x%d.b32 "
                "[%%%d], \"\n    \"",
                (int)len, name, pairs ? "unsigned" : "float", pairs ? 128 : 256,
                times, registers);
  write_operands(out, 0, registers);
  buffer_puts(out, ";\" ::\n      ");
  write_registers(out, pairs ? "r" : "f", registers);
  buffer_puts(out, ",\n      \"r\"(address)\n    : \"memory\");\n}\n");
}

static void write_named_tmem_store(Buffer *out, const char *name, size_t len) {
  write_tmem_store(out, name, len, false);
}

static void write_named_tmem_pairs(Buffer *out, const char *name, size_t len) {
  write_tmem_store(out, name, len, true);
}

static bool seen_before(const char *source, const char *prefix, const char *at,
                        size_t len) {
  for (const char *p = source; (p = strstr(p, prefix)) && p < at; p++)
    if (strncmp(p, at, len) == 0 && !is_c_identifier_char(p[len]))
      return true;
  return false;
}

/* Writes the functions of the source whose names have this prefix. */
static void write_named(Buffer *out, const char *source, const char *prefix,
                        void (*write)(Buffer *out, const char *name,
                                      size_t len)) {
  for (const char *at = source; (at = strstr(at, prefix));) {
    size_t len = 0;
    while (is_c_identifier_char(at[len]))
      len++;
    if (!seen_before(source, prefix, at, len))
      write(out, at, len);
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
  write_named(&text, source, wgmma_prefix, write_named_wgmma);
  write_named(&text, source, tmem_load_prefix, write_named_tmem_load);
  write_named(&text, source, tmem_store_prefix, write_named_tmem_store);
  write_named(&text, source, tmem_pairs_prefix, write_named_tmem_pairs);
  buffer_puts(&text, source);
  prelude_write(out, arena, wrappers_text, text.text, text.len);
  buffer_add(out, text.text, text.len);
  trap_end(&trap);
  arena_free(arena);
  return true;
}
