/* Characters of C identifiers. */
#ifndef AXON_SUPPORT_C_IDENTIFIER_H
#define AXON_SUPPORT_C_IDENTIFIER_H

#include <stdbool.h>

static inline bool is_c_identifier_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool is_c_identifier_char(char c) {
  return is_c_identifier_start(c) || (c >= '0' && c <= '9');
}

#endif
