/* The text of it is part of what `axon build` writes, too. */
#define _GNU_SOURCE
#include "runtime/cores.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cores.inc"
