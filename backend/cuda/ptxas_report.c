/* The format of ptxas -v ("CUDA Compiler Driver NVCC", 4.2.9.1.24, and "PTX
 * Compiler APIs") for each kernel:
 *
 *     ptxas info    : Compiling entry function 'k' for 'sm_90a'
 *     ptxas info    : Function properties for k
 *     ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes
 * ... ptxas info    : Used 96 registers, used 1 barriers, 256 bytes smem
 *
 * In version 12, the third line begins with blanks only. */
#include "backend/cuda/ptxas_report.h"

#include <stdlib.h>
#include <string.h>

static const char *line_end(const char *line) {
  return line + strcspn(line, "\n");
}

static const char *next_line(const char *line) {
  const char *end = line_end(line);
  return *end ? end + 1 : end;
}

static bool line_has(const char *line, const char *word) {
  const char *at = strstr(line, word);
  return at && at < line_end(line);
}

/* The number before a word: 256 in "256 bytes smem". */
static uint32_t number_before(const char *line, const char *word) {
  const char *at = strstr(line, word);
  if (!at || at >= line_end(line))
    return 0;
  while (at > line && at[-1] == ' ')
    at--;
  while (at > line && at[-1] >= '0' && at[-1] <= '9')
    at--;
  return (uint32_t)strtoul(at, NULL, 10);
}

static bool begins(const char *line, const char *kernel) {
  static const char words[] = "Compiling entry function '";
  const char *at = strstr(line, words);
  size_t len = strlen(kernel);
  if (!at || at >= line_end(line))
    return false;
  at += sizeof words - 1;
  return strncmp(at, kernel, len) == 0 && at[len] == '\'';
}

bool ptxas_report(const char *log, const char *kernel, PtxasReport *out) {
  bool in_kernel = false, seen = false;
  *out = (PtxasReport){0};
  for (const char *line = log ? log : ""; *line; line = next_line(line)) {
    if (line_has(line, "Compiling entry function"))
      in_kernel = begins(line, kernel);
    if (!in_kernel)
      continue;
    if (line_has(line, "bytes stack frame")) {
      out->stack_bytes = number_before(line, "bytes stack frame");
      out->spill_stores = number_before(line, "bytes spill stores");
      out->spill_loads = number_before(line, "bytes spill loads");
    }
    if (line_has(line, ": Used ")) {
      out->registers = number_before(line, "registers");
      out->barriers = number_before(line, "barriers");
      out->shared_bytes = number_before(line, "bytes smem");
      seen = true;
    }
  }
  return seen;
}

uint32_t ptxas_report_spilled(const char *log) {
  uint32_t bytes = 0;
  for (const char *line = log ? log : ""; *line; line = next_line(line))
    bytes += number_before(line, "bytes spill stores");
  return bytes;
}

const char *ptxas_report_warning(const char *log) {
  for (const char *line = log ? log : ""; *line; line = next_line(line)) {
    bool known = (strncmp(line, "ptxas info ", 11) == 0 &&
                  !line_has(line, "Performance Loss")) ||
                 line_has(line, "bytes stack frame") || line == line_end(line);
    if (!known)
      return line;
  }
  return NULL;
}
