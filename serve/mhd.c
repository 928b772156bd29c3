/* libmicrohttpd, loaded when a server starts. */
#include "serve/mhd.h"

Mhd mhd;

static const DynLib library =
    DYNLIB("libmicrohttpd.so.12", "libmicrohttpd12", MHD_FUNCTIONS, mhd);

bool mhd_load_library(Fault *fault) {
  return dynlib_load(&library, fault);
}
