/* Types of nodes as text, and faults that mention them. */
#include "tensor/internal.h"
#include "support/buffer.h"

TypeText tensor_type_text(const Graph *g, Dtype dtype, uint32_t rank,
                          const int64_t *extents, uint32_t broadcast_mask) {
  TypeText t;
  size_t size = sizeof t.text, len;
  len = (size_t)snprintf(t.text, size, "%s", dtype_info[dtype].name);
  uint32_t k = 0;
  for (; k < rank && len + sizeof(ExtentText) + 8 < size; k++) {
    const char *separator = k ? ", " : "[";
    if (broadcast_mask >> k & 1)
      len += (size_t)snprintf(t.text + len, size - len, "%s*", separator);
    else
      len += (size_t)snprintf(t.text + len, size - len, "%s%s", separator,
                              extent_text(g, extents[k]).text);
  }
  if (rank)
    snprintf(t.text + len, size - len, k == rank ? "]" : ", ...]");
  return t;
}

TypeText node_type_text(const Graph *g, const Node *n) {
  return tensor_type_text(g, n->dtype, n->rank, node_own_extents(n),
                          n->broadcast_mask);
}

bool node_axis_sized(const Graph *g, const Node *x, uint32_t axis,
                     const char *what, Fault *fault) {
  if (!node_is_broadcast_axis(x, axis))
    return true;
  fault_set(
      fault,
      "%s needs an axis with a size, but axis %u of %s is a broadcast axis",
      what, axis, node_type_text(g, x).text);
  return false;
}

void node_print_type(const Graph *g, Buffer *out, const Node *n) {
  buffer_puts(out, node_type_text(g, n).text);
}

bool node_fits_memory(const Graph *g, const Node *n, Fault *fault) {
  uint64_t limit =
      g->max_tensor_bytes > 0 ? (uint64_t)g->max_tensor_bytes : memory_limit();
  double bytes = dtype_info[n->dtype].bytes;
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    bytes *= (double)n->extents[k];
  if (bytes <= (double)limit)
    return true;
  TypeText t =
      tensor_type_text(g, n->dtype, n->free_count + n->rank, n->extents, 0);
  fault_set(fault, "%s needs %.1f GiB of memory", t.text, bytes / 0x1p30);
  fault->kind = FAULT_MEMORY;
  fault_set_help(fault,
                 "the limit is %.1f GiB: process it in parts, or reduce it "
                 "before it is stored",
                 (double)limit / 0x1p30);
  return false;
}
