/* backend/cpu: what scalar_ops.c, affine.c and load.c know of each other. */
#ifndef AXON_EMIT_SCALAR_OPS_H
#define AXON_EMIT_SCALAR_OPS_H

#include "backend/emit/emit.h"

/* ---- affine.c ---- */

Buffer *emit_block_at(Emitter *e, uint32_t level);
const char *emit_index_type(const Emitter *e);
bool range_fits_i32(int64_t low, int64_t high);
/* Does the form differ from lane to lane? */
bool emit_affine_varies(const Emitter *e, const AffineExpr *q);
const char *emit_affine_term(Emitter *e, int64_t coef, const char *name);
/* Names of a level that is written once more for its conditions alone
 * (backend/cpu/unrolled_reduction.c) are not all used there. */
const char *emit_const_qualifier(const Emitter *e);
/* Values that fit are computed in 32 bits. */
bool floor_div_fits_i32(const FloorDiv *q);
/* What of a form differs from lane to lane, as a vector of class i or l. */
const char *emit_varying_terms(Emitter *e, const AffineExpr *q, char class);
/* Defines all quotients that the loop needs. */
void emit_floor_divs(Emitter *e);

/* ---- load.c ---- */

bool emit_load_varies(const Emitter *e, const KernelOp *s);
void emit_load_op(Emitter *e, uint32_t op_index, const KernelOp *s);
void emit_local_load_op(Emitter *e, uint32_t op_index, const KernelOp *s);

/* ---- scalar_ops.c ---- */

/* An operand beside another one that is lanes: a scalar may stay one. */
const char *emit_operand(Emitter *e, uint32_t op_index, char class,
                         bool is_vector);
/* The step's name stands for the value; of lanes that come from memory. */
void emit_define(Emitter *e, uint32_t op_index, const char *value);
void emit_define_loaded(Emitter *e, uint32_t op_index, const char *value);
/* An index or a divisor that is wrong where it is needed. */
uint32_t emit_check_index(Emitter *e, uint32_t op_index);
void emit_check(Emitter *e, uint32_t op_index, bool is_vector,
                const char *is_invalid);
/* select(condition, x, y) on lanes or scalars of a class */
const char *emit_select(Emitter *e, char class, bool is_vector, const char *c,
                        const char *x, const char *y);
/* The text of a row of primitives/map.def or reduce.def with these arguments;
 * without a text there is no kernel.  A row of map.def has several. */
const char *emit_template(Emitter *e, const char *template, char class,
                          const char *const *args);
const char *emit_map(Emitter *e, PrimId op, char class, bool is_vector,
                     const char *const *args);
/* A test on lanes of a class, as a mask. */
const char *emit_compare(Emitter *e, char class, bool is_vector,
                         const char *text);

#endif
