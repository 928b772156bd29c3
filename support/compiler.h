/* Macros for declarations. */
#ifndef AXON_SUPPORT_COMPILER_H
#define AXON_SUPPORT_COMPILER_H

#include <stdio.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

#endif
