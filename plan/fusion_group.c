/* Queries about fusion groups. */
#include "plan/fusion_group.h"

uint32_t fusion_group_node_index(const FusionGroup *c, const Node *n) {
  uint32_t k = 0;
  while (c->nodes.at[k] != n)
    k++;
  return k;
}

bool fusion_group_stores(const FusionGroup *c, const Node *n) {
  if (!c->kernel)
    return true;
  for (uint32_t j = 0; j < c->kernel->loops.len; j++) {
    const LoopNest *loop = c->kernel->loops.at[j];
    for (uint32_t i = 0; i < loop->outputs.len; i++)
      if (loop->outputs.at[i].node == n && loop->outputs.at[i].global_index)
        return true;
  }
  return false;
}

bool fusion_group_is_exact(const FusionGroup *c) {
  for (uint32_t k = 0; k < c->nodes.len; k++)
    if (!node_is_exact(c->nodes.at[k]))
      return false;
  return true;
}
