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
/* Reads sizes in bytes, "L1,L2,L3", none of which is 0 or less than that of the
 * level before.  AXON_CACHES sets them, in place of those of the system. */
bool machine_read_caches(const char *text, size_t cache[3]);

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

/* ---- the core, for the cost model (kernel/cost_model.h) ---- */

typedef enum CoreType {
  CORE_F32,
  CORE_F64,
  CORE_BF16,
  CORE_TYPE_COUNT
} CoreType;

/* Between L1 and L2, L2 and L3, the last cache and memory. */
enum { CORE_BOUNDARIES = 3 };

/* What one core does per cycle; see core_rates.def. */
typedef struct CoreRates {
  uint32_t measured; /* bits, by rate; 0: the reference, a typical value */
  double clock_hz;
  double fma_per_cycle[CORE_TYPE_COUNT]; /* vectors */
  double fma_latency;                    /* cycles */
  double loads_per_cycle;                /* vectors */
  double elements_per_cycle;             /* loads of one element */
  double stores_per_cycle, issue_per_cycle;
  double bytes_per_cycle[CORE_BOUNDARIES];
  double page_cycles; /* to read a line of each page, from L3 */
  double task_cycles; /* to start a grain of tasks */
  double cache_bytes[CORE_BOUNDARIES]; /* from the operating system */
} CoreRates;

enum { CORE_RATE_COUNT = 14 };
typedef struct CoreRateInfo {
  const char *key, *unit, *text;
  double reference, min, max;
} CoreRateInfo;
extern const CoreRateInfo core_rate_info[CORE_RATE_COUNT];
/* The rate of this number. */
double *core_rate(CoreRates *r, uint32_t index);
/* False: it is a typical value. */
bool core_rate_is_measured(const CoreRates *r, uint32_t index);

/* Rates that no measurement changes.  Choices that change the order of the
 * terms of a sum use them, so that results do not depend on measurements. */
const CoreRates *machine_reference_rates(void);
/* The rates that `axon doctor --measure` saved for this version, processor and
 * its caches, with any number of threads; otherwise the reference.  Reads a
 * file once; never measures. */
const CoreRates *machine_core_rates(void);
/* Why the file with saved rates is not used; NULL: it is, or there is none. */
const char *machine_core_rates_fault(void);
/* Measures the rates in one thread, in short slices of which the fastest count,
 * and the start of a task in all.  Takes about two seconds.  spread: by rate,
 * the relative difference between two halves of the slices; HUGE_VAL if other
 * programs disturbed all of them, IMPOSSIBLE_RATE if they gave a rate that no
 * core has.  A rate that this process cannot measure is
 * that of the reference.  Returns false if there is no memory, or if this build
 * is not optimized. */
bool machine_measure_core(CoreRates *out, double spread[CORE_RATE_COUNT]);
/* Saves the rates for later processes.  A rate whose spread exceeds
 * MAX_RATE_SPREAD, or that was not measured, keeps its earlier value: saved, or
 * the reference.
 * Returns false if no folder is available. */
bool machine_save_core_rates(CoreRates *r,
                             const double spread[CORE_RATE_COUNT]);
#define MAX_RATE_SPREAD 0.05
#define IMPOSSIBLE_RATE 1e300
enum { RATE_PROBLEM_TEXT = 64 };
/* Why a measurement with this spread does not count, in words; "": it does. */
void core_rate_problem(double spread, char text[RATE_PROBLEM_TEXT]);

#endif
