/* The constants of machine/limits/cpu.def. */
#ifndef AXON_LIMITS_CPU_H
#define AXON_LIMITS_CPU_H

#define LIMITS_TABLE "machine/limits/cpu.def"
#include "machine/limits/expand.inc"
#undef LIMITS_TABLE

#endif
