/* Failure injection: allocations that fail in tests. */
#ifndef AXON_SUPPORT_MEM_INJECT_H
#define AXON_SUPPORT_MEM_INJECT_H

#include <stdbool.h>
#include <stdint.h>

/* For tests: the n-th allocation from now on fails, or all from the n-th on; 0
   turns this off. mem_failure_injected: true if one has failed since. */
void mem_inject_failure_at(uint64_t n);
void mem_inject_failures_from(uint64_t n);
bool mem_failure_injected(void);
/* For allocations from other sources: true if this one should fail. */
bool mem_should_fail(void);

#endif
