/* Threads and memory of library operations. */
#include "backend/cpu/library_ops.h"

#include "runtime/thread_pool.h"
#include "support/trap.h"

void *library_op_scratch(Tensor **tensor, int64_t bytes) {
  Fault ignored = {0};
  *tensor = tensor_new(DT_U8, 1, &bytes, false, &ignored);
  return *tensor ? (*tensor)->data : NULL;
}

bool library_op_parallel_for(const LibraryOp *r, int64_t tasks, int64_t grain,
                             int (*body)(void *, int64_t, int64_t),
                             void *context) {
  int failed = thread_pool_parallel_for_static(tasks, grain, body, context,
                                               r->graph->interrupt);
  if (r->graph->interrupt && flag_is_set(r->graph->interrupt))
    trap_raise(FAIL_INTERRUPT);
  return failed == 0;
}
