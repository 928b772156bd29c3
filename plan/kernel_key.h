/* plan: what the kernels of groups are kept under. */
#ifndef AXON_PLAN_KERNEL_KEY_H
#define AXON_PLAN_KERNEL_KEY_H

#include "plan/fusion_group.h"
#include "runtime/artifact.h"

/* A hash of the group's kernel with all its numbers. */
ArtifactKey kernel_key(const FusionGroup *c);
/* A hash of its operations and sizes, without the values of constants: kernels
 * that differ only in these have one schedule. */
ArtifactKey kernel_schedule_key(const FusionGroup *c);

#endif
