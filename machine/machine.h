/* machine: what this machine can do: what the operating system says about it,
 * and limits that are measured when somebody asks for that (`axon doctor`), for
 * the cost model, and for how near to them a kernel comes. */
#ifndef AXON_MACHINE_H
#define AXON_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Machine {
  int cores;      /* that this process may run on */
  int processors; /* that are online, for decisions that change last digits:
                     results must not depend on the affinity of a process */
  uint64_t memory_bytes; /* bytes that it may use */
  size_t cache_bytes[3]; /* bytes of data cache, levels 1 to 3, as one core sees
                            them; 0 where unknown */
  size_t cache_line_bytes; /* bytes of a cache line */
  uint32_t vector_bytes;   /* bytes of the vectors that generated code is for */
  char cpu_name[64];       /* of the processor; "" where unknown */
} Machine;

/* Found out once; any thread may ask. */
const Machine *machine(void);

typedef enum MemoryLevel {
  LEVEL_L1,
  LEVEL_L2,
  LEVEL_L3,
  LEVEL_DRAM,
  LEVEL_COUNT,
} MemoryLevel;

/* [0]: one thread, [1]: all of them together. */
typedef struct PeakRates {
  bool measured;        /* else they are guesses */
  int threads;          /* all of them */
  double f32_flops[2];  /* f32 operations a second; a multiply-add is two */
  double bf16_flops[2]; /* of products of bf16 that are summed in f32; 0: there
                           are no instructions for that */
  double read_bandwidth[LEVEL_COUNT][2]; /* bytes a second */
  double copy_bandwidth[LEVEL_COUNT]
                       [2];        /* bytes a second, read and written ones */
  double nontemporal_bandwidth[2]; /* the same, from memory to memory past the
                                      caches */
  double fork_join_seconds; /* seconds until all threads did nothing, and said
                               so */
} PeakRates;

/* What was measured and kept for this processor, this version and so many
 * threads; else guesses.  Found out once, from a file; never measures. */
const PeakRates *machine_peak_rates(void);
/* Measures, for a quarter of a second, with the threads of the pool; false:
 * there is no memory, or this program is not optimised, and what it finds would
 * be too low. */
bool machine_measure_peak_rates(PeakRates *out);
/* Keeps them for processes to come; false: there is no place.  Of operations
 * and of `fork` that is the best that was ever found, and they are made so, as
 * others may be at work now; of bytes it is what there is now, as on some
 * machines that differs by the hour. */
bool machine_save_peak_rates(PeakRates *rates);

#endif
