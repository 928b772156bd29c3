/* The time of a scheduled kernel on a CPU, as terms in cycles.
 *
 * A backend counts what the code of a schedule does: the instructions of its
 * loop bodies, and the bytes that cross the boundary of each cache.  Rates of
 * the machine (machine.h) turn counts into cycles.  As in the ECM model
 * (Treibig and Hager, 2010), a body takes the time of its slowest resource, and
 * only cycles without loads and stores hide transfers between caches.
 *
 * Choosers enumerate candidates and take the one of least cost.  A choice that
 * changes the order of the terms of a sum uses machine_reference_rates(), so
 * that measuring the machine never changes a digit of a result. */
#ifndef AXON_KERNEL_COST_MODEL_H
#define AXON_KERNEL_COST_MODEL_H

#include "machine/machine.h"

enum { MAX_COST_BODIES = 24, COST_LINE_BYTES = 64 };

typedef struct CostBody { /* instructions of one iteration */
  double iterations;
  double vectors;  /* multiply-adds and other arithmetic, in vectors */
  double loads;    /* of vectors */
  double elements; /* loads of one element, also as operands */
  double stores;
  double others; /* instructions that use only the front end */
  double serial; /* accumulations that wait for each other */
} CostBody;

typedef struct CostCounts {
  CoreType type; /* of the arithmetic */
  uint32_t body_count;
  CostBody bodies[MAX_COST_BODIES];
  double bytes[CORE_BOUNDARIES]; /* across the boundaries of caches */
  /* more bytes, of copies that have no arithmetic */
  double copied_bytes[CORE_BOUNDARIES];
  double packed_vectors; /* vectors copied to packed operands */
  double calls;          /* of register tiles, and starts of loops */
  double pages; /* parts of pages that are read between parts of others */
  double tasks; /* parallel tasks */
} CostCounts;

typedef enum CostTerm {
#define COST_TERM(name, key, text) COST_##name,
#include "kernel/cost_terms.def"
  COST_TERM_COUNT
} CostTerm;

typedef struct CostTerms {
  double cycles[COST_TERM_COUNT]; /* of one thread; IMBALANCE: of waiting */
  double total;                   /* cycles until the last thread ends */
} CostTerms;

/* The part of an access to data that a cache of this size misses, if `bytes`
 * bytes are accessed in between: none if they fit, all if they exceed it by
 * far.  Caches do not replace exactly the oldest lines. */
double cost_miss_share(double bytes, double cache_bytes);
/* Adds iterations of a body. */
void cost_add_body(CostCounts *c, const CostBody *body);
/* The terms for a number of threads. */
CostTerms cost_of_counts(const CostCounts *c, const CoreRates *rates,
                         double threads);

extern const char *const cost_term_keys[COST_TERM_COUNT];
extern const char *const cost_term_names[COST_TERM_COUNT];

#endif
