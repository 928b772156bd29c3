/* backend/cpu: products of few rows with an operand of few bytes. */
#ifndef AXON_CPU_NARROW_PRODUCT_H
#define AXON_CPU_NARROW_PRODUCT_H

#include "backend/cpu/nest_choose.h"

typedef struct NarrowProduct {
  uint32_t columns;    /* the axis of the operand that becomes lanes */
  uint32_t rows;       /* the parallel axis of the other operand, or NO_AXIS */
  uint32_t operations; /* for a number of the operand */
} NarrowProduct;

/* Matches a kernel whose only loop is such a product. */
bool narrow_product_match(const Kernel *k, uint32_t width, NarrowProduct *p);
/* Chooses the tasks of such a kernel: blocks of columns, of all rows.  Returns
 * false for others. */
bool narrow_product_choose(Kernel *k, Schedule *s);
/* Returns true if the schedule has such tasks. */
bool narrow_product_has_tasks(const Kernel *k, const Schedule *s,
                              const NarrowProduct *p);
/* The steps of its loop. */
void narrow_product_nest(NestChoice *c, const NarrowProduct *p);

#endif
