/* runtime: cores that a control group grants to the process; for
 * thread_pool.c. */
#ifndef AXON_CPU_QUOTA_H
#define AXON_CPU_QUOTA_H

/* Returns at least 1; INT_MAX without a limit. root: "/sys/fs/cgroup"; groups:
 * "/proc/self/cgroup". */
int cpu_quota_cores(const char *root, const char *groups);

#endif
