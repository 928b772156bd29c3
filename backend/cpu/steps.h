/* backend/cpu: what steps.c, forms.c and reads.c know of each other. */
#ifndef AXON_CPU_STEPS_H
#define AXON_CPU_STEPS_H

#include "backend/cpu/emit.h"

/* ---- forms.c ---- */

Buffer *step_block(Emitter *e, uint32_t level);
const char *step_index_type(const Emitter *e);
bool step_fits_i32(int64_t low, int64_t high);
/* Does the form differ from lane to lane? */
bool step_form_varies(const Emitter *e, const Quasi *q);
const char *step_term(Emitter *e, int64_t times, const char *name);
/* Names of a level that is written once more for its conditions alone (few.c)
 * are not all used there. */
const char *step_constant(const Emitter *e);
/* Values that fit are computed in 32 bits. */
bool step_is_small(const Quotient *q);
/* What of a form differs from lane to lane, as a vector of class i or l. */
const char *step_lane_terms(Emitter *e, const Quasi *q, char class);
/* Defines all quotients that the loop needs. */
void step_quotients(Emitter *e);

/* ---- reads.c ---- */

bool step_read_varies(const Emitter *e, const Step *s);
void step_read(Emitter *e, uint32_t at, const Step *s);
void step_read_local(Emitter *e, uint32_t at, const Step *s);

/* ---- steps.c ---- */

/* An operand beside another one that is lanes: a scalar may stay one. */
const char *step_operand(Emitter *e, uint32_t at, char class, bool lanes);
/* The step's name stands for the value; of lanes that come from memory. */
void step_define(Emitter *e, uint32_t at, const char *value);
void step_define_loaded(Emitter *e, uint32_t at, const char *value);
/* An index or a divisor that is wrong where it is needed. */
uint32_t step_check_number(Emitter *e, uint32_t at);
void step_check(Emitter *e, uint32_t at, bool lanes, const char *wrong);
/* select(condition, x, y) on lanes or scalars of a class */
const char *step_choose(Emitter *e, char class, bool lanes, const char *c,
                        const char *x, const char *y);
/* A test on lanes of a class, as a mask. */
const char *step_test(Emitter *e, char class, bool lanes, const char *text);

#endif
