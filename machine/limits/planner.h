/* The constants of machine/limits/planner.def. */
#ifndef AXON_LIMITS_PLANNER_H
#define AXON_LIMITS_PLANNER_H

#define LIMITS_TABLE "machine/limits/planner.def"
#include "machine/limits/expand.inc"
#undef LIMITS_TABLE

#endif
