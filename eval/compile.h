/* What the files that compile (compile.c, match.c, shapes.c) share. */
#ifndef AXON_EVAL_COMPILE_H
#define AXON_EVAL_COMPILE_H

#include "eval/internal.h"

typedef VEC(const void *) KeyVec;

typedef struct Group { /* functions that share an environment */
  Var **vars;
  Code **codes;
  uint32_t count;
} Group;

/* A function being compiled.  Keys are addresses: of Vars, DimVars, ElemVars
 * and ShapeVars. */
typedef struct Fn {
  struct Fn *outer;
  Emit e;
  Map slots;          /* key to its place on the stack, plus 1 */
  KeyVec *captures;   /* what the environment holds, in order */
  Group *group;       /* it is one of these; or NULL */
  const Core *lam;    /* whose parameters it has; or NULL */
  uint32_t open_next; /* the next place for CORE_OPEN */
  bool top;           /* the code of a declaration itself */
} Fn;

typedef struct CondJump {
  uint32_t at; /* to be patched */
} CondJump;

void compile(Fn *fn, const Core *c, bool tail);
void compile_closure(Fn *fn, const Core *c, uint32_t arity);
void compile_bug(Fn *fn, const char *what);
bool fn_load(Fn *fn, const void *key);
bool fn_knows(const Fn *fn, const void *key);
bool fn_slot(const Fn *fn, const void *key, uint32_t *slot);
void fn_bind(Fn *fn, const void *key, uint32_t slot);
NumSite *num_site(Eval *vm, const char *text);
Dtype num_dtype(const Core *c);

/* ---- match.c ---- */

void compile_case(Fn *fn, const Core *c, bool tail);
void compile_global_pat(Fn *fn, const CorePat *pat, uint32_t slot);

/* ---- shapes.c ---- */

void compile_dim(Fn *fn, Dim *dim);
void compile_size(Fn *fn, Dim *dim); /* CORE_DIM */
bool dim_known(Fn *fn, Dim *dim); /* can it be computed here? */
bool shape_known(Fn *fn, const ShapeRef *ref);
/* As a hidden argument: unit where a part of it is not known. */
void compile_shape_arg(Fn *fn, const Hidden *h);
void compile_shape_ref(Fn *fn, const ShapeRef *ref);
void compile_shape_value(Fn *fn, const Core *c); /* CORE_SHAPEVAL */
void compile_loaded(Fn *fn, const ShapeRef *want);
void compile_checks(Fn *fn, const Core *c);
void compile_open(Fn *fn, const Core *c);
void compile_tensor(Fn *fn, const Core *c);
void compile_shape(Fn *fn, const Core *c);
void compile_index(Fn *fn, const Core *c);
void compile_for(Fn *fn, const Core *c);
/* With the function and its top n values pushed: code for the case that the
 * loop runs over nothing.  The jump at its end is to be patched; 0: none. */
uint32_t compile_nothing(Fn *fn, const Core *c, uint32_t n, LoopKind kind);

#endif
