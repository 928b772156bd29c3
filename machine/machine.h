/* machine: what this machine can do.  Nothing reads it yet: it is the ground
 * for the cost model of the compilers. */
#ifndef AXON_MACHINE_H
#define AXON_MACHINE_H

#include <stddef.h>
#include <stdint.h>

typedef struct Machine {
  int cores;       /* that this process may run on */
  uint64_t memory; /* bytes that it may use */
  size_t cache[3]; /* bytes of data cache, levels 1 to 3, as one core sees
                      them; 0 where unknown */
  size_t line;     /* bytes of a cache line */
} Machine;

/* Found out once; any thread may ask. */
const Machine *machine(void);

#endif
