/* Macros for declarations. */
#ifndef AXON_SUPPORT_COMPILER_H
#define AXON_SUPPORT_COMPILER_H

#include <stdio.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

/* 1 if the address sanitizer checks this code. */
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif
#ifndef ADDRESS_SANITIZER
#define ADDRESS_SANITIZER 0
#endif

#endif
