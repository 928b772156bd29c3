/* Declarations shared by the files that compile the typed tree to bytecode:
 * compile.c, compile_prim.c, compile_match.c and compile_tensor.c. */
#ifndef AXON_EVAL_COMPILE_H
#define AXON_EVAL_COMPILE_H

#include "eval/internal.h"
#include "support/map.h"
#include "support/vec.h"

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
  Map slots;          /* key to its slot on the stack, plus 1 */
  KeyVec *captures;   /* the captured values, in the order of the environment */
  LetrecGroup *group; /* the group that contains the function; or NULL */
  /* The lambda whose parameters the function has; or NULL. */
  const Core *lambda;
  uint32_t next_unpack_slot; /* next free slot for CORE_UNPACK */
  bool is_top_level;         /* true for the code of a declaration itself */
} FunctionState;

typedef struct JumpPatch {
  uint32_t at; /* index of the jump to patch */
} JumpPatch;

void compile(FunctionState *fn, const Core *c, bool tail);
void compile_closure(FunctionState *fn, const Core *c, uint32_t arity);
void compile_bug(FunctionState *fn, const char *what);
bool fn_emit_load(FunctionState *fn, const void *key);
bool fn_knows(const FunctionState *fn, const void *key);
bool fn_slot(const FunctionState *fn, const void *key, uint32_t *slot);
void fn_bind(FunctionState *fn, const void *key, uint32_t slot);
/* The variable that the path determines. */
const void *size_path_key(const SizePath *b);

/* ---- compile_prim.c ---- */

NumLiteral *num_literal(Eval *vm, const char *text);
Dtype num_dtype(const Core *c);
void compile_num(FunctionState *fn, const Core *c);
/* Compiles a primitive as a value. */
void compile_prim(FunctionState *fn, const Core *c);
void compile_prim_call(FunctionState *fn, const Core *prim, Core *const *args,
                       uint32_t n, const Core *app);
/* Compiles a condition and a jump that is taken if it is false. */
void compile_cond(FunctionState *fn, const Core *cond, JumpPatch *out);

/* ---- compile_match.c ---- */

void compile_case(FunctionState *fn, const Core *c, bool tail);
void compile_global_pat(FunctionState *fn, const CorePat *pat, uint32_t slot);

/* ---- compile_tensor.c ---- */

void compile_dim(FunctionState *fn, Dim *dim);
void compile_size(FunctionState *fn, Dim *dim); /* CORE_DIM */
/* True if d can be computed at this place. */
bool dim_is_computable(FunctionState *fn, Dim *dim);
bool shape_is_computable(FunctionState *fn, const CoreShape *ref);
/* Pushes a shape as an implicit argument: unit if a part of it is unknown. */
void compile_shape_arg(FunctionState *fn, const ImplicitArg *h);
void compile_shape_ref(FunctionState *fn, const CoreShape *ref);
/* Compiles CORE_SHAPE_VALUE. */
void compile_shape_value(FunctionState *fn, const Core *c);
void compile_load_check(FunctionState *fn, const CoreShape *expected);
void compile_checks(FunctionState *fn, const Core *c);
void compile_unpack(FunctionState *fn, const Core *c);
void compile_tensor(FunctionState *fn, const Core *c);
void compile_shape(FunctionState *fn, const Core *c);
void compile_index(FunctionState *fn, const Core *c);
void compile_for(FunctionState *fn, const Core *c);
/* Compiles the result of a loop that has no iterations.  The function and its
 * top n values are on the stack.  Returns the jump at the end of this code,
 * which the caller patches; 0: no code was emitted. */
uint32_t compile_empty_loop(FunctionState *fn, const Core *c, uint32_t n,
                            LoopKind kind);

#endif
