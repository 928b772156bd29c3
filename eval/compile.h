/* What the files that compile (compile.c, compile_match.c, compile_tensor.c)
 * share. */
#ifndef AXON_EVAL_COMPILE_H
#define AXON_EVAL_COMPILE_H

#include "eval/internal.h"

typedef VEC(const void *) KeyVec;

typedef struct LetrecGroup { /* functions that share an environment */
  Var **vars;
  Code **codes;
  uint32_t count;
} LetrecGroup;

/* A function being compiled.  Keys are addresses: of Vars, DimVars, ElemVars
 * and ShapeVars. */
typedef struct FunctionState {
  struct FunctionState *outer;
  BytecodeEmitter emitter;
  Map slots;                 /* key to its place on the stack, plus 1 */
  KeyVec *captures;          /* what the environment holds, in order */
  LetrecGroup *group;        /* it is one of these; or NULL */
  const Core *lambda;        /* whose parameters it has; or NULL */
  uint32_t next_unpack_slot; /* the next place for CORE_UNPACK */
  bool is_top_level;         /* the code of a declaration itself */
} FunctionState;

typedef struct JumpPatch {
  uint32_t at; /* to be patched */
} JumpPatch;

void compile(FunctionState *fn, const Core *c, bool tail);
void compile_closure(FunctionState *fn, const Core *c, uint32_t arity);
void compile_bug(FunctionState *fn, const char *what);
bool fn_emit_load(FunctionState *fn, const void *key);
bool fn_knows(const FunctionState *fn, const void *key);
bool fn_slot(const FunctionState *fn, const void *key, uint32_t *slot);
void fn_bind(FunctionState *fn, const void *key, uint32_t slot);
NumLiteral *num_literal(Eval *vm, const char *text);
Dtype num_dtype(const Core *c);

/* ---- compile_match.c ---- */

void compile_case(FunctionState *fn, const Core *c, bool tail);
void compile_global_pat(FunctionState *fn, const CorePat *pat, uint32_t slot);

/* ---- compile_tensor.c ---- */

void compile_dim(FunctionState *fn, Dim *dim);
void compile_size(FunctionState *fn, Dim *dim); /* CORE_DIM */
bool dim_is_computable(FunctionState *fn,
                       Dim *dim); /* can it be computed here? */
bool shape_is_computable(FunctionState *fn, const CoreShape *ref);
/* As a hidden argument: unit where a part of it is not known. */
void compile_shape_arg(FunctionState *fn, const ImplicitArg *h);
void compile_shape_ref(FunctionState *fn, const CoreShape *ref);
void compile_shape_value(FunctionState *fn,
                         const Core *c); /* CORE_SHAPE_VALUE */
void compile_load_check(FunctionState *fn, const CoreShape *expected);
void compile_checks(FunctionState *fn, const Core *c);
void compile_unpack(FunctionState *fn, const Core *c);
void compile_tensor(FunctionState *fn, const Core *c);
void compile_shape(FunctionState *fn, const Core *c);
void compile_index(FunctionState *fn, const Core *c);
void compile_for(FunctionState *fn, const Core *c);
/* With the function and its top n values pushed: code for the case that the
 * loop runs over nothing.  The jump at its end is to be patched; 0: none. */
uint32_t compile_empty_loop(FunctionState *fn, const Core *c, uint32_t n,
                            LoopKind kind);

#endif
