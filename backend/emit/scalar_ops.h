/* backend/emit: interface between scalar_ops.c, affine.c and load.c. */
#ifndef AXON_EMIT_SCALAR_OPS_H
#define AXON_EMIT_SCALAR_OPS_H

#include "backend/emit/emit.h"

/* ---- affine.c ---- */

Buffer *emit_block_at(Emitter *e, uint32_t level);
const char *emit_index_type(const Emitter *e);
bool range_fits_i32(int64_t low, int64_t high);
/* Returns true if the expression differs between lanes. */
bool emit_affine_varies(const Emitter *e, const AffineExpr *q);
const char *emit_affine_term(Emitter *e, int64_t coef, const char *name);
/* A qualifier for names that may be unused: the shared loads of
 * backend/cpu/nest_stream.c emit a level again only for its
 * conditions. */
const char *emit_const_qualifier(const Emitter *e);
/* Values that fit are computed in 32 bits. */
bool floor_div_fits_i32(const FloorDiv *q);
/* The parts that differ between lanes, as a vector of class i or l. */
const char *emit_varying_terms(Emitter *e, const AffineExpr *q, char class);
/* Defines all floor divisions of the loop. */
void emit_floor_divs(Emitter *e);

/* ---- load.c ---- */

bool emit_load_varies(const Emitter *e, const KernelOp *s);
void emit_load_op(Emitter *e, uint32_t op_index, const KernelOp *s);
void emit_local_load_op(Emitter *e, uint32_t op_index, const KernelOp *s);

/* ---- scalar_ops.c ---- */

/* An operand of a vector operation, which may stay a scalar. */
const char *emit_operand(Emitter *e, uint32_t op_index, char class,
                         bool is_vector);
/* A vector of the operation's type in memory, with lanes of its class. */
const char *emit_loaded(Emitter *e, uint32_t op_index, const char *value);
/* Defines the operation's name; emit_define_loaded: for a vector from
 * memory. */
void emit_define(Emitter *e, uint32_t op_index, const char *value);
void emit_define_loaded(Emitter *e, uint32_t op_index, const char *value);
/* A check that an index or a divisor is valid in the lanes that use it. */
uint32_t emit_check_index(Emitter *e, uint32_t op_index);
void emit_check(Emitter *e, uint32_t op_index, bool is_vector,
                const char *is_invalid);
/* select(condition, x, y) for vectors or scalars of a class */
const char *emit_select(Emitter *e, char class, bool is_vector, const char *c,
                        const char *x, const char *y);
/* Expands a text of primitives/map.def or reduce.def with arguments.  Without a
 * text, the kernel is not emitted. emit_map: selects one of the texts of a
 * row. */
const char *emit_template(Emitter *e, const char *template, char class,
                          const char *const *args);
const char *emit_map(Emitter *e, PrimId op, char class, bool is_vector,
                     const char *const *args);

#endif
