/* The CPU quota.  `axon build` writes the included source, too. */
#define _GNU_SOURCE
#include "runtime/cpu_quota.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cpu_quota.inc"
