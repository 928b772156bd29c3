/* Discrete Fourier transforms, by runtime/fourier.c.  A task has some lines,
 * whatever the number of threads. */
#include "runtime/fourier.h"
#include "backend/cpu/library_ops.h"
#include "machine/limits/cpu.h"

static int run_tasks(void *context, int64_t begin, int64_t end) {
  return fourier_run(context, begin, end);
}

static bool run_axis(const LibraryOp *r, FourierLines *l) {
  int64_t tasks = fourier_task_count(l);
  double points = (double)r->out->count / (double)(tasks ? tasks : 1);
  int64_t grain = (int64_t)(FOURIER_GRAIN_POINTS / (points + 1)) + 1;
  return library_op_parallel_for(r, tasks, grain, run_tasks, l);
}

/* The lines of the slices of x along own axis `axis`. */
static FourierLines lines_along(const Node *n, uint32_t axis) {
  const Node *x = n->inputs[0];
  FourierLines l = {.op = n->op,
                    .is_inverse = n->op == PRIM_DFT && n->params[2],
                    .dtype = x->dtype,
                    .slices = 1,
                    .outer = 1,
                    .inner = 1};
  const int64_t *own = x->extents + x->free_count;
  for (uint32_t k = 0; k < x->free_count; k++)
    l.slices *= x->extents[k];
  for (uint32_t k = 0; k < axis; k++)
    l.outer *= own[k];
  for (uint32_t k = axis + 1; k < x->rank; k++)
    l.inner *= own[k];
  l.length = n->op == PRIM_INVERSE_REAL_DFT ? n->params[1] : own[axis];
  return l;
}

bool library_op_fourier(LibraryOp *r) {
  const Node *n = r->node;
  uint32_t first = (uint32_t)n->params[0];
  uint32_t axes = n->op == PRIM_DFT ? (uint32_t)n->params[1] : 1;
  for (uint32_t k = 0; k < axes; k++) {
    FourierLines l = lines_along(n, first + k);
    l.to = r->out->data;
    if (k == 0) {
      l.re = n->inputs[0]->data->data;
      l.im = n->input_count > 1 ? n->inputs[1]->data->data : NULL;
    }
    if (!run_axis(r, &l))
      return false;
  }
  return true;
}
