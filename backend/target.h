/* What programs run on, by its name, and the settings that say it. */
#ifndef AXON_TARGET_H
#define AXON_TARGET_H

#include "plan/backend.h"

extern const Backend backend_reference; /* backend/reference/ */
extern const Backend backend_cpu;       /* backend/cpu/ */
extern const Backend backend_cuda;      /* backend/cuda/ */

/* Its names, for people. */
#define TARGET_NAMES "cpu, cuda or reference"

/* NULL: there is none of this name. */
const Backend *target_by_name(const char *name);
/* Whether this machine can run programs on it; false with a fault that says
 * what is missing. */
bool target_is_available(const Backend *target, Fault *fault);
/* A fault where AXON_TARGET, AXON_TINY, AXON_STREAM, AXON_VECTOR, AXON_CACHES,
 * AXON_KEEP or AXON_TF32 has a value that it cannot have. */
bool target_check_settings(Fault *fault);
/* What a graph runs on as AXON_TARGET says, or on the CPU; AXON_TINY,
 * and AXON_KEEP. */
void target_configure(Graph *g);

#endif
