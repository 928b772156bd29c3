/* Measures kernel times by stream events, with a cold L2 cache.  The times
 * exclude the host and copies.
 *
 * The L2 cache is flushed just before the start event.  While the flush runs,
 * the host launches the first kernels, so that its launch overhead is not
 * measured. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/device.h"

/* The comparison programs of bench/gpu.sh write as many bytes.  The flush takes
 * about 0.3 ms, which hides the launch overhead of kernels of 20 us. */
enum { MIN_L2_FLUSH_BYTES = 1 << 30 };

static bool prepare_timer(Device *d, Fault *fault) {
  int64_t size = 2 * (int64_t)d->context.info.l2_bytes;
  size = size > MIN_L2_FLUSH_BYTES ? size : MIN_L2_FLUSH_BYTES;
  if ((uint64_t)size > d->context.info.memory_bytes / 4)
    size = (int64_t)(d->context.info.memory_bytes / 4);
  const AllocationLabel label = {.name = "what empties the second cache",
                                 .dtype = DT_U8,
                                 .rank = 1,
                                 .shape = &size};
  if (!d->l2_flush_buffer)
    d->l2_flush_buffer =
        device_allocator_alloc(d->allocator, (size_t)size, &label, fault);
  return d->l2_flush_buffer &&
         (d->start_event ||
          cuda_event_create(&d->context, &d->start_event, fault)) &&
         (d->end_event || cuda_event_create(&d->context, &d->end_event, fault));
}

bool device_record_timer(Device *d, bool before, Fault *fault) {
  bool record_now =
      d->is_timed && (before ? !d->timer_started : d->timer_pending);
  d->timer_started |= d->is_timed && before;
  d->timer_pending = d->is_timed && before;
  if (!record_now)
    return true;
  return (!before || cuda_memset(&d->context, d->l2_flush_buffer->address, 0,
                                 d->l2_flush_buffer->size, fault)) &&
         cuda_event_record(&d->context, before ? d->start_event : d->end_event,
                           fault);
}

bool cuda_timer_begin(Fault *fault) {
  device_lock();
  Device *d = device_get(fault);
  bool good =
      d && prepare_timer(d, fault) && cuda_synchronize(&d->context, fault);
  if (d)
    d->is_timed = good;
  if (d)
    d->timer_started = false;
  device_unlock();
  return good;
}

bool cuda_timer_end(double *seconds, Fault *fault) {
  device_lock();
  Device *d = device_get(fault);
  bool good = d != NULL;
  *seconds = 0;
  if (good && d->is_timed && d->timer_started)
    good = cuda_event_elapsed(&d->context, d->start_event, d->end_event,
                              seconds, fault);
  if (good)
    d->is_timed = false;
  device_unlock();
  return good;
}
