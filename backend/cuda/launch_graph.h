/* backend/cuda: kernels that are started together.
 *
 * What is started is noted first, and given to the driver when something else
 * is asked of the stream, or when there is much of it.  The first time these
 * are kernels one by one; the second time that the same ones are started with
 * grids as before, they become a graph of the driver's, which is kept: from
 * then on it is started as one, after what is otherwise in their arguments
 * (where tensors are, mostly) was changed in it. */
#ifndef AXON_CUDA_LAUNCH_GRAPH_H
#define AXON_CUDA_LAUNCH_GRAPH_H

#include "backend/cuda/driver.h"

typedef struct LaunchGraph LaunchGraph;

/* NULL: no memory, which is no harm. */
LaunchGraph *launch_graph_new(void);
void launch_graph_free(CudaContext *gpu);
/* False: it is none for tapes. */
bool launch_graph_add(CudaContext *gpu, const CudaLaunch *launch, Fault *fault,
                      bool *good);
/* Gives all of it to the driver. */
bool launch_graph_flush(CudaContext *gpu, Fault *fault);

typedef struct LaunchGraphStats {
  uint64_t direct_launches;                     /* kernels started one by one */
  uint64_t graphs_instantiated, graph_launches; /* graphs */
  uint64_t nodes_updated; /* nodes of graphs that were started again */
} LaunchGraphStats;
LaunchGraphStats launch_graph_stats(const LaunchGraph *tape);

#endif
