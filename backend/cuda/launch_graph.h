/* backend/cuda: CUDA graphs of recorded launches.
 *
 * Launches are recorded, and submitted before the next other operation on the
 * stream, or if the record is full.  The first submission of a sequence
 * launches each kernel directly.  If the same kernels repeat with the same
 * grids, the sequence is instantiated as a CUDA graph and cached.  From then
 * on, it is launched as one graph, after an update of changed kernel arguments
 * (mostly tensor addresses). */
#ifndef AXON_CUDA_LAUNCH_GRAPH_H
#define AXON_CUDA_LAUNCH_GRAPH_H

#include "backend/cuda/driver.h"

typedef struct LaunchGraph LaunchGraph;

/* NULL if memory is exhausted; then launches are direct. */
LaunchGraph *launch_graph_new(void);
void launch_graph_free(CudaContext *gpu);
/* False if the launch cannot be recorded. */
bool launch_graph_add(CudaContext *gpu, const CudaLaunch *launch, Fault *fault,
                      bool *good);
/* Submits all recorded launches. */
bool launch_graph_flush(CudaContext *gpu, Fault *fault);

typedef struct LaunchGraphStats {
  uint64_t direct_launches; /* kernels that were launched directly */
  uint64_t graphs_instantiated, graph_launches; /* graphs */
  uint64_t nodes_updated; /* kernel nodes with updated arguments */
} LaunchGraphStats;
LaunchGraphStats launch_graph_stats(const LaunchGraph *graph);

#endif
