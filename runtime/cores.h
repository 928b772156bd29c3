/* runtime: cores that a group of processes is granted; for pool.c. */
#ifndef AXON_CORES_H
#define AXON_CORES_H

#include "support/support.h"

/* At least 1; INT_MAX: there is no limit.  root: "/sys/fs/cgroup"; groups:
 * "/proc/self/cgroup". */
int cores_granted(const char *root, const char *groups);

#endif
