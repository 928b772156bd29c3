/* For tests of random graphs: the backend that AXON_TARGET names (default:
 * cpu), with a wrapper that counts, and the seeds. */
#ifndef AXON_TESTS_UNIT_TESTED_H
#define AXON_TESTS_UNIT_TESTED_H

#include "tests/unit/tensors.h"

static uint64_t first_seed = 1, seed_count;

static const Backend *tested_backend(void) {
  const char *name = getenv("AXON_TARGET");
  const Backend *target = name ? target_by_name(name) : NULL;
  return target ? target : &backend_cpu;
}

/* Number of fused-attention kernels of the backend. */
static uint32_t fused_attention_count;

static inline bool count_fused_attention(const struct Kernel *k) {
  bool has = tested_backend()->has_fused_attention(k);
  fused_attention_count += has;
  return has;
}

static inline Backend counting_backend(void) {
  Backend b = *tested_backend();
  b.name = "cpu";
  b.has_fused_attention = b.has_fused_attention ? count_fused_attention : NULL;
  return b;
}

/* [SEED [COUNT]] */
static inline void parse_seeds(int argc, char **argv, uint64_t count) {
  seed_count = count;
  if (argc > 1)
    first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2)
    seed_count = strtoull(argv[2], NULL, 10);
}

/* Runs `check` for all seeds.  Fails if one is wrong, or if too few graphs
 * contain what the test is about (if the backend supports it). */
static inline void check_seeds(bool (*check)(uint64_t seed), const char *what) {
  uint32_t wrong = 0;
  for (uint64_t s = first_seed; s < first_seed + seed_count; s++)
    wrong += !check(s);
  if (tested_backend()->has_fused_attention)
    print_message("%u of %u %s\n", fused_attention_count, (unsigned)seed_count,
                  what);
  assert_int_equal(wrong, 0);
  assert_true(!tested_backend()->has_fused_attention || seed_count < 20 ||
              fused_attention_count >= seed_count / 4);
}

#endif
