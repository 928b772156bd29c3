/* kernel: what kernels are kept under. */
#ifndef AXON_KERNEL_KEY_H
#define AXON_KERNEL_KEY_H

#include "kernel/kernel.h"
#include "runtime/artifact.h"

/* A hash of the group's kernel with all its numbers. */
ArtifactKey kernel_key(const FusionGroup *c);
/* Where a result's node stands in the group. */
uint32_t fusion_group_node_index(const FusionGroup *c, const Node *n);

#endif
