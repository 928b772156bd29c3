/* LAPACK in programs that Axon runs. */
#include "runtime/lapack.h"

#include "runtime/lapack.inc"
