/* Declarations shared by the files of machine/. */
#ifndef AXON_MACHINE_INTERNAL_H
#define AXON_MACHINE_INTERNAL_H

#include "machine/machine.h"

#include <stdio.h>

/* Loops for timing, for one vector width (microbenchmarks.c).  Sizes are
 * multiples of 256 bytes; addresses are multiples of 64 bytes. */
typedef struct Microbenchmarks {
  uint32_t vector_bytes; /* bytes of a vector */
  uint32_t
      flops_per_round; /* floating-point operations per round of multiply */
  float (*multiply_add)(int64_t rounds);
  float (*read)(const char *from, size_t bytes);
  void (*copy)(char *to, const char *from, size_t bytes);
  void (*nontemporal_copy)(char *to, const char *from, size_t bytes);
  uint32_t bf16_flops_per_round;
  float (*dot_bf16)(
      int64_t rounds); /* NULL if the CPU lacks these instructions */
  /* For the core: MICRO_STEPS multiply-adds of each round, of f64, or each of
   * which waits for the one before; loads and stores of `bytes` bytes. */
  double (*multiply_add_f64)(int64_t rounds);
  float (*dependent)(int64_t rounds);
  void (*load)(const char *from, size_t bytes);
  /* Loads the first element of each vector. */
  void (*load_elements)(const char *from, size_t bytes);
  void (*store)(char *to, size_t bytes);
} Microbenchmarks;
enum { MICRO_STEPS = 12 };
Microbenchmarks machine_microbenchmarks(uint32_t vector_bytes);

/* ---- benchmark_buffer.c ---- */

typedef struct BenchmarkBuffer {
  char *memory; /* to be freed */
  char *at;     /* the first whole huge page */
  size_t bytes; /* whole huge pages */
} BenchmarkBuffer;

/* Memory that exceeds the last cache `caches` times, as far as the machine has
 * it.  Returns false if there is none, or if this build is not optimized: its
 * rates would be too low. */
bool benchmark_buffer_new(BenchmarkBuffer *b, size_t caches);

/* ---- core_rates.c ---- */

/* Returns true if some core may have this rate. */
bool core_rate_is_possible(uint32_t index, double rate);

/* ---- peak_rates.c: files of the machine, in the folder of artifacts ---- */

typedef enum MachineFile {
  MACHINE_PEAK, /* of this number of threads, on the cores of this process */
  MACHINE_CORE, /* of one core, for any number of threads */
} MachineFile;
enum { MACHINE_TEXT = 256 };
/* What all rates of a machine depend on: version, processor, caches and
 * vectors; a line. */
void machine_identity(char text[MACHINE_TEXT]);
/* Opens a file of this machine to read; NULL if there is none. */
FILE *machine_file_read(MachineFile which);
/* Replaces it.  Returns false if no folder is available. */
bool machine_file_write(MachineFile which, const char *text, size_t len);

#endif
