/* plan: what the kernels of groups are kept under. */
#ifndef AXON_PLAN_KERNEL_KEY_H
#define AXON_PLAN_KERNEL_KEY_H

#include "plan/fusion_group.h"
#include "runtime/artifact.h"

/* A hash of the group's kernel with all its numbers. */
ArtifactKey kernel_key(const FusionGroup *c);

#endif
