/* machine: properties of the machine from the operating system, and peak rates,
 * which `axon doctor` measures.  The cost model and the roofline use the
 * rates. */
#ifndef AXON_MACHINE_H
#define AXON_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Machine {
  int cores;      /* cores that this process may run on */
  int processors; /* online cores.  Decisions that change last digits use this
                     number: results must not depend on the affinity of the
                     process */
  uint64_t memory_bytes;   /* bytes of memory that the process may use */
  size_t cache_bytes[3];   /* bytes of data cache per level, 1 to 3, as one core
                              sees them; 0 if unknown */
  size_t cache_line_bytes; /* bytes of a cache line */
  uint32_t vector_bytes;   /* bytes of the widest vector in generated code */
  char cpu_name[64];       /* processor name; "" if unknown */
} Machine;

/* The machine.  Detected once; callable from any thread. */
const Machine *machine(void);

typedef enum MemoryLevel {
  LEVEL_L1,
  LEVEL_L2,
  LEVEL_L3,
  LEVEL_DRAM,
  LEVEL_COUNT,
} MemoryLevel;

/* Peak rates.  Index 0 is one thread; index 1 is all threads together. */
typedef struct PeakRates {
  bool measured;        /* false: estimated */
  int threads;          /* number of all threads */
  double f32_flops[2];  /* f32 operations per second; a multiply-add counts as
                           two */
  double bf16_flops[2]; /* operations per second of bf16 products summed in f32;
                           0 if the CPU lacks the instructions */
  double read_bandwidth[LEVEL_COUNT][2]; /* bytes per second */
  double copy_bandwidth[LEVEL_COUNT][2]; /* bytes per second, counting bytes
                                            read and bytes written */
  double nontemporal_bandwidth[2];       /* the same, from memory to memory with
                                            non-temporal stores */
  double
      fork_join_seconds; /* seconds of an empty parallel loop on all threads */
} PeakRates;

/* The peak rates saved for this processor, version and number of threads;
 * otherwise estimates.  Reads a file once; never measures. */
const PeakRates *machine_peak_rates(void);
/* Measures the peak rates with the thread pool.  Takes about 0.25 seconds.
 * Returns false if there is no memory, or if this build is not optimized: its
 * rates would be too low. */
bool machine_measure_peak_rates(PeakRates *out);
/* Saves the rates for later processes.  Returns false if no folder is
 * available. Sets operation rates and fork_join_seconds to the best value ever
 * measured, since other programs may disturb a measurement.  Keeps the current
 * bandwidths, since they vary by the hour on some machines. */
bool machine_save_peak_rates(PeakRates *rates);

#endif
