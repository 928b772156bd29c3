/* What kernels take, by events on the stream, with a cold second cache: so a
 * time is of one run, and neither of the host nor of copies to it.  The cache
 * is emptied just before: meanwhile the host gets ahead, so that what it does
 * until the first kernel is started is not between the events. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/device.h"

/* Bytes: as many as the peers of bench/gpu.sh write.  It takes some 0.3 ms, in
 * which the host starts kernels: of those that take 20 us its own time would
 * else be measured. */
enum { FLUSH_LEAST = 1 << 30 };

static bool prepare(Device *d, Fault *fault) {
  int64_t size = 2 * (int64_t)d->gpu.about.l2;
  size = size > FLUSH_LEAST ? size : FLUSH_LEAST;
  if ((uint64_t)size > d->gpu.about.memory / 4)
    size = (int64_t)(d->gpu.about.memory / 4);
  const CudaUse use = {.name = "what empties the second cache",
                       .dtype = DT_U8,
                       .rank = 1,
                       .shape = &size};
  if (!d->flush)
    d->flush = cuda_memory_take(d->memory, (size_t)size, &use, fault);
  return d->flush && (d->first || cuda_event(&d->gpu, &d->first, fault)) &&
         (d->last || cuda_event(&d->gpu, &d->last, fault));
}

bool device_clock(Device *d, bool before, Fault *fault) {
  bool now = d->timed && (before ? !d->started : d->running);
  d->started |= d->timed && before;
  d->running = d->timed && before;
  if (!now)
    return true;
  return (!before ||
          cuda_fill(&d->gpu, d->flush->at, 0, d->flush->size, fault)) &&
         cuda_record(&d->gpu, before ? d->first : d->last, fault);
}

bool cuda_time_begin(Fault *fault) {
  device_lock();
  Device *d = device_get(fault);
  bool good = d && prepare(d, fault) && cuda_wait(&d->gpu, fault);
  if (d)
    d->timed = good;
  if (d)
    d->started = false;
  device_unlock();
  return good;
}

bool cuda_time_end(double *seconds, Fault *fault) {
  device_lock();
  Device *d = device_get(fault);
  bool good = d != NULL;
  *seconds = 0;
  if (good && d->timed && d->started)
    good = cuda_seconds(&d->gpu, d->first, d->last, seconds, fault);
  if (good)
    d->timed = false;
  device_unlock();
  return good;
}
