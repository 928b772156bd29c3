/* What a fuzzer of programs tells grammar.c, which changes its inputs. */
#ifndef AXON_TESTS_FUZZ_GRAMMAR_H
#define AXON_TESTS_FUZZ_GRAMMAR_H

#include <stdbool.h>

/* Changes that leave no program are mostly tried again. */
extern const bool grammar_keeps_programs;

#endif
