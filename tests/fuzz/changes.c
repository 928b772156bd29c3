/* Changed programs through a fuzzer of them, without coverage and without
 * libFuzzer:  changes COUNT SEED FOLDER < NAMES OF SEEDS
 *
 * Each input is one of the programs that the names stand for, changed one to
 * four times by grammar.c: always the same ones for a SEED.  One that ends the
 * process is shown and kept in FOLDER, and the rest goes on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size,
                                 const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

enum { LONGEST = 4096, SEED_LONGEST = 3000, FOUND_MOST = 5 };

typedef struct Program {
  uint8_t *text;
  size_t len;
} Program;

typedef struct Programs {
  Program *at;
  size_t len, cap;
} Programs;

typedef struct Input { /* what a child works on, in memory that both share */
  uint64_t number;
  size_t len;
  uint8_t text[LONGEST];
} Input;

static uint64_t state;

static uint32_t roll(uint32_t n) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)((state >> 16) % n);
}

/* Each input has numbers of its own, whatever became of those before. */
static void begin(uint64_t seed, uint64_t number) {
  state = (seed * 0x9e3779b97f4a7c15u) ^ ((number + 1) * 0xbf58476d1ce4e5b9u);
  state += !state;
  for (int i = 0; i < 4; i++)
    roll(2);
}

/* Some bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) {
  if (!size || max < size)
    return size;
  for (uint32_t i = 1 + roll(3); i > 0; i--)
    data[roll((uint32_t)size)] = (uint8_t)roll(256);
  return size;
}

static void read_program(Programs *to, const char *path) {
  FILE *file = fopen(path, "rb");
  uint8_t text[SEED_LONGEST];
  size_t len = file ? fread(text, 1, sizeof text, file) : 0;
  if (file)
    fclose(file);
  if (!len || len == sizeof text)
    return;
  if (to->len == to->cap) {
    to->cap = to->cap ? 2 * to->cap : 1024;
    to->at =
        mem_realloc(to->at, to->len * sizeof *to->at, to->cap * sizeof *to->at);
  }
  to->at[to->len++] = (Program){memcpy(mem_alloc(len), text, len), len};
}

static void make(const Programs *programs, Input *in) {
  const Program *p = &programs->at[roll((uint32_t)programs->len)];
  memcpy(in->text, p->text, in->len = p->len);
  if (roll(4) == 0) {
    const Program *q = &programs->at[roll((uint32_t)programs->len)];
    in->len = LLVMFuzzerCustomCrossOver(p->text, p->len, q->text, q->len,
                                        in->text, LONGEST, roll(1u << 31));
  }
  in->len = LLVMFuzzerCustomMutator(in->text, in->len, LONGEST, roll(1u << 31));
}

static void keep(const char *folder, const Input *in, int status) {
  char path[4096];
  snprintf(path, sizeof path, "%s/fuzz_check-changed-%llu.axn", folder,
           (unsigned long long)in->number);
  FILE *file = fopen(path, "wb");
  if (file) {
    fwrite(in->text, 1, in->len, file);
    fclose(file);
  }
  printf("input %llu ended the process (%s); it is %s:\n%.*s\n",
         (unsigned long long)in->number,
         WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit", path,
         (int)in->len, (const char *)in->text);
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  uint64_t count = strtoull(argv[1], NULL, 0);
  uint64_t seed = strtoull(argv[2], NULL, 0);
  Programs programs = {0};
  char path[4096];
  while (fgets(path, sizeof path, stdin)) {
    path[strcspn(path, "\n")] = 0;
    read_program(&programs, path);
  }
  Input *in = mmap(NULL, sizeof *in, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!programs.len || in == MAP_FAILED)
    return 2;
  int found = 0;
  for (uint64_t next = 0; next < count && found < FOUND_MOST;
       next = in->number + 1) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      for (in->number = next; in->number < count; in->number++) {
        begin(seed, in->number);
        make(&programs, in);
        LLVMFuzzerTestOneInput(in->text, in->len);
      }
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
      return 2;
    if (status == 0)
      break;
    found++;
    keep(argv[3], in, status);
  }
  printf("%llu changes of %zu programs\n", (unsigned long long)count,
         programs.len);
  return found != 0;
}
