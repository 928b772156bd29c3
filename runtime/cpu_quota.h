/* runtime: cores that a group of processes is granted; for thread_pool.c. */
#ifndef AXON_CPU_QUOTA_H
#define AXON_CPU_QUOTA_H

#include "support/support.h"

/* At least 1; INT_MAX: there is no limit.  root: "/sys/fs/cgroup"; groups:
 * "/proc/self/cgroup". */
int cpu_quota_cores(const char *root, const char *groups);

#endif
