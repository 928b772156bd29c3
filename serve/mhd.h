/* libmicrohttpd, loaded at first use.  Its functions are called through the
 * table `mhd`. */
#ifndef AXON_SERVE_MHD_H
#define AXON_SERVE_MHD_H

#include <microhttpd.h>

#include "runtime/runtime.h"

#define MHD_FUNCTIONS(F)               \
  F(MHD_start_daemon)                  \
  F(MHD_stop_daemon)                   \
  F(MHD_quiesce_daemon)                \
  F(MHD_get_daemon_info)               \
  F(MHD_get_connection_info)           \
  F(MHD_lookup_connection_value)       \
  F(MHD_create_response_from_buffer)   \
  F(MHD_create_response_from_callback) \
  F(MHD_add_response_header)           \
  F(MHD_queue_response)                \
  F(MHD_destroy_response)              \
  F(MHD_suspend_connection)            \
  F(MHD_resume_connection)

#define MHD_POINTER(name) __typeof__(&name) name;
typedef struct Mhd {
  MHD_FUNCTIONS(MHD_POINTER)
} Mhd;
extern Mhd mhd;

/* Returns false with a fault that names the package. */
bool mhd_load_library(Fault *fault);

#endif
