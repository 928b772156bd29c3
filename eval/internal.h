/* Declarations shared by the files of eval/.
 *
 * A builtin borrows its arguments, which stay on the machine's stack while it
 * runs.  It returns an owned value.
 *
 * Errors unwind the C stack: vm_fail emits a diagnostic and raises an
 * exception, or it bails out of a symbolic run (symbolic.c).  So everything
 * that must be released lies on the machine's stack or among its temporaries
 * (vm_push_temp). */
#ifndef AXON_EVAL_INTERNAL_H
#define AXON_EVAL_INTERNAL_H

#include "eval/eval.h"
#include "eval/value.h"
#include "plan/execute.h"
#include "support/compiler.h"
#include "support/flag.h"
#include "support/map.h"
#include "support/span.h"
#include "support/trap.h"
#include "support/vec.h"
#include "tensor/extent.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Diag Diag;
typedef struct Diags Diags;
typedef struct Interner Interner;
typedef struct Sources Sources;
typedef struct Sym Sym;

typedef enum Op {
#define O(name) OP_##name,
#include "eval/ops.def"
#undef O
  OP_COUNT
} Op;

typedef union Instr {
  struct {
    uint8_t op, a;
    uint16_t b;
    int32_t c;
  };
  const void *ptr;
} Instr;

/* a conditional, and the instruction where its sides meet. */
typedef struct JoinPoint {
  uint32_t branch, join; /* join 0: both sides return */
} JoinPoint;

struct Code {
  const Instr *instrs;
  const Span *spans;
  uint32_t instr_count, arity, stack_depth, id;
  const char *name; /* may be NULL */
  const JoinPoint *joins;
  uint32_t join_count;
  const Value *constants; /* owned by the Eval */
  bool needs_index_value; /* a body of `for` or map that needs the value of its
                             index */
  bool is_recurrence;     /* a loop body that is a recurrence formula */
  bool is_not_recurrence; /* a loop body that is no recurrence formula */
  bool needs_carry_value; /* a loop body that needs the value of its carry: only
                             the host runs it */
  bool is_builtin;        /* the code of a higher-order primitive */
  bool is_user;           /* not of the library */
};

typedef enum GlobalState {
  GLOBAL_EMPTY,
  GLOBAL_LAZY,
  GLOBAL_RUNNING,
  GLOBAL_DONE
} GlobalState;

typedef struct LazyDec {
  const CoreDec *dec;
  GlobalState state; /* GLOBAL_LAZY, GLOBAL_RUNNING, GLOBAL_DONE */
  Code *code;
} LazyDec;

typedef struct Global {
  Value value; /* V_NONE: no value yet */
  Code *code;  /* set if the value is a function without captures */
  LazyDec *lazy;
  const char *name;
  struct Global *next; /* list of all globals of an Eval */
} Global;

typedef struct NumLiteral { /* a number, converted to every element type */
  Scalar by_dtype[DT_COUNT];
} NumLiteral;

typedef struct FieldInlineCache {
  Sym *label;
  /* Layout of the last record, and the index of the label in it. */
  const RecordLayout *layout;
  uint32_t index;
} FieldInlineCache;

typedef struct LiteralSite { /* for CORE_TENSOR and CORE_SHAPE */
  Dtype elem;
  bool is_dtype_dynamic; /* the element type is under the items on the stack */
  uint32_t count;
  bool *splices;
  bool *holes;
} LiteralSite;

/* For CORE_INDEX; the stack holds the given bounds, in order. */
typedef struct SubscriptSite {
  uint32_t count, bound_count;
  struct SubscriptForm {
    CoreSliceKind kind;
    bool has_start, has_stop, has_step, start_from_end, stop_from_end;
    Span span;
  } * subscripts;
} SubscriptSite;

typedef struct Frame {
  const Instr *ret;
  const Code *code;
  Obj *env;          /* owned; or NULL */
  const Instr *join; /* end of one side of a symbolic branch; or NULL */
  size_t base;
  /* The last tail call by code of the user that replaced this frame, for
   * messages; or NULL. */
  const Code *tail_caller;
  const Instr *tail_call;
  uint32_t first_node; /* next_node_id at its start, or at a forced tail call */
} Frame;

/* One symbolic run of the body of a `for`, map or traced loop. */
enum { MAX_KNOWN_ROW_LENGTHS = 8 };

typedef struct RowLength {
  Node *length, *values; /* the scalar, and its values for all indices */
} RowLength;

typedef struct SymbolicRun {
  size_t frame, stack_height, temp_count;
  const Instr *fallback;
  Node *guard;
  uint32_t branch_depth, branch_count, first_node;
  uint32_t first_index_id, last_index_id; /* range of the ids of its indices */
  uint32_t assumption_mark; /* mark of the assumptions on sizes, during AOT
                               tracing */
  uint32_t loop_depth; /* depth of loops at its start, during AOT tracing */
  uint32_t replay_depth;
  /* Of a ragged loop: a row length, borrowed; or NULL.  To bail out, the host
   * runs the loop whose index it depends on. */
  const Node *row_length;
  bool can_bail_out;   /* the host can run the loop instead, index by index */
  bool is_traced_loop; /* the loop is a fold, scan, iterate or while */
  Code *body;          /* may be NULL */
} SymbolicRun;

typedef struct LazyInit { /* a lazy definition that is running */
  LazyDec *lazy;
  size_t frame;
} LazyInit;

enum {
  MAX_FRAMES = 1200 * 1000, /* depth of calls: about one second of recursion */
  MAX_SYMBOLIC_BRANCH_DEPTH = 64,  /* nesting depth of symbolic branches */
  MAX_SYMBOLIC_BRANCHES = 1024,    /* symbolic branches in one symbolic run */
  MAX_SYMBOLIC_NODES = 100 * 1000, /* nodes that one symbolic run may create */
  MAX_PENDING_NODES = 10 * 1000,
  /* Pending nodes after an iteration of a loop or a call of a recursive
   * function; small, so that their plans fit the plan cache. */
  MAX_PENDING_NODES_IN_LOOP = 512,
  /* Values of callers that are forced then: elements of one, and the number of
   * values that are looked at. */
  MAX_CALLER_ELEMENTS = 1 << 20,
  MAX_CALLER_VALUES = 4096,
  /* Frames in which a recursive call is looked for. */
  MAX_RECURSION_PERIOD = 16,
  /* Both limits are larger while a tape records: a plan that contains the
   * reverse pass can keep in memory only what that needs. */
  RECORDING_PENDING_FACTOR = 40,
};
#define MAX_STACK_VALUES ((size_t)40 << 20) /* 640 MiB */

/* Codes of derivatives that several builtins call (derivative_prims.c). */
typedef enum DerivativeCode {
  CODE_PULLBACK,      /* tape, argument, result, cotangent: a reverse pass */
  CODE_REPLAY,        /* rule, cotangents: what a checkpoint contributes */
  CODE_CUSTOM,        /* the same of a custom_vjp */
  CODE_SCAN_RULE,     /* the same of a scan */
  CODE_SCAN,          /* f c x: a scan that is being differentiated */
  CODE_STATES,        /* f c x: a traced scan; unit if it cannot be traced */
  CODE_SEGMENTS,      /* f c x: a scan in segments, each one a checkpoint */
  CODE_HOST_SCAN,     /* f c x: a scan, one iteration after the other */
  CODE_SCAN_PAIR,     /* f (c, x) */
  CODE_SCAN_STEP,     /* f keeps c x, for a scan f: outputs include the state,
                         and what else an iteration keeps if `keeps` */
  CODE_FOLD_STEP,     /* f c x, for a fold f: outputs unit */
  CODE_REPEAT_STEP,   /* f c x: f c, for an iterate f: outputs unit */
  CODE_ADJOINT_STEP,  /* one iteration of the reverse pass of a scan */
  CODE_BOUNDED_WHILE, /* p f x: a part of a `while` */
  CODE_WHILE,         /* p f x: a `while` that is being differentiated */
  DERIVATIVE_CODE_COUNT
} DerivativeCode;

struct Eval {
  Heap heap;
  /* sp, fp and pc are those of the last instruction that may unwind.  They are
   * not adjacent: otherwise a compiler would load them as one vector. */
  Value *stack, *sp, *stack_end;
  Frame *frames, *fp, *frames_end;
  Flag *interrupt;
  const Instr *pc;
  Graph graph;
  Arena *arena;
  DimCtx *dims;
  Interner *interner;
  const Sources *sources; /* may be NULL */
  const EvalHost *host;
  Diags *diags;     /* diagnostics of the current run */
  Map size_globals; /* from DimVar * to Global * */
  Global *globals;
  Code **codes; /* indexed by Code.id */
  uint32_t code_count, code_cap;
  RecordLayout *layouts;
  /* Code of higher-order primitives, created at first use. */
  Code *higher_order_codes[PRIM_COUNT];
  Code *for_codes[MAX_RANK + 1];
  Code *apply_rest_code; /* applies a result to the remaining arguments */
  Code *derivative_codes[DERIVATIVE_CODE_COUNT]; /* created at first use */
  Value *temps;
  size_t temp_count, temp_cap;
  Value *constants; /* constants of all codes */
  size_t constant_count, constant_cap;
  SymbolicRun *symbolic_runs;
  size_t symbolic_run_count, symbolic_run_cap;
  /* Recent row lengths of the outermost symbolic run; counted (ragged.c). */
  RowLength row_lengths[MAX_KNOWN_ROW_LENGTHS];
  uint32_t next_row_length;
  LazyInit *lazy_inits;
  size_t lazy_init_count, lazy_init_cap;
  uint32_t branch_depth, branch_count; /* of symbolic branches */
  bool is_bailing_out;
  size_t bailout_run;
  bool is_branch_failing; /* one side of a symbolic branch failed, during AOT
                             tracing */
  size_t failed_branch_temps;
  uint32_t replay_depth; /* calls that run again for their derivatives: they
                            write nothing */
  bool is_running;
  bool is_forcing; /* true while deferred tensors run: errors are theirs */
  uint32_t last_forced_node; /* next_node_id at the last force */
  int64_t force_threshold; /* number of pending elements that triggers a run */
  ValueHandle *handles;
  bool exited;
  int status;
};

struct ValueHandle {
  Value value;
  ValueHandle *next, *prev;
};

/* ---- eval.c ---- */

void eval_enter(Eval *vm, Diags *diags); /* call before each run */
/* Releases what a failed run left behind.  Turns its error into a
 * diagnostic. */
void eval_recover(Eval *vm, FailKind kind);
ValueHandle *value_handle_new(Eval *vm, Value v); /* takes v */
/* Returns a borrowed value. */
Value value_handle_get(const ValueHandle *handle);

/* ---- compile.c ---- */

Code *compile_expr(Eval *vm, const Core *core);
Code *compile_bind(Eval *vm, const CoreDec *dec, bool lazy);
void define_functions(Eval *vm, const CoreDec *dec);
Global *global_of(Eval *vm, Var *var);
const RecordLayout *record_layout_intern(Eval *vm, Sym *const *labels,
                                         uint32_t len);

/* ---- bytecode_emit.c ---- */

typedef struct InstrStart {
  uint32_t at; /* its first word */
  /* Values on the stack before and after it. */
  uint32_t depth, depth_after;
} InstrStart;

typedef struct JumpTarget {
  uint32_t from, to;
} JumpTarget;

typedef struct BytecodeEmitter {
  Eval *vm;
  VEC(Instr) instrs;
  VEC(Span) spans;
  VEC(JoinPoint) joins;
  VEC(InstrStart) starts; /* of the instructions, in order */
  VEC(JumpTarget) jumps;  /* forward */
  VEC(Value) constants;
  /* Values on the stack now, and at most. */
  uint32_t stack_depth, max_stack_depth;
  Span span; /* source span of the next instructions */
} BytecodeEmitter;
uint32_t emit(BytecodeEmitter *e, Op op, uint32_t a, uint32_t b, int32_t c,
              int push);
uint32_t emit_ptr(BytecodeEmitter *e, Op op, uint32_t a, uint32_t b, int32_t c,
                  int push, const void *ptr);
/* The jump at `at` targets the next instruction. */
void emit_patch_jump(BytecodeEmitter *e, uint32_t at);
/* Takes v; returns the index of the constant. */
uint32_t emit_add_constant(BytecodeEmitter *e, Value v);
void emit_push_constant(BytecodeEmitter *e, Value v); /* takes v; pushes it */
Code *code_new(Eval *vm, uint32_t arity, const char *name);
void emit_finish(BytecodeEmitter *e, Code *code); /* fills in code */
/* last_use.c: converts loads to last uses; for code without backward jumps. */
void emit_last_uses(BytecodeEmitter *e);

/* ---- vm.c ---- */

void vm_interpret(Eval *vm); /* runs from vm->pc to OP_HALT */

/* ---- vm_tensor_ops.c: instructions that are functions ---- */

void vm_SIZE_OP(Eval *vm);
void vm_SIZE_PRODUCT(Eval *vm);
void vm_BUILD_SHAPE(Eval *vm);
void vm_CHECK(Eval *vm);
void vm_CHECK_LOADED(Eval *vm);
void vm_UNPACK_SIZE(Eval *vm);
void vm_CHECK_UNPACKED(Eval *vm);
void vm_TENSOR_LITERAL(Eval *vm);
void vm_SHAPE_LITERAL(Eval *vm);
void vm_SUBSCRIPT(Eval *vm);
void vm_FORCE_INT(Eval *vm);
void vm_FORCE_IF_PENDING(Eval *vm);
void vm_FOR_END(Eval *vm);
void vm_MAP_END(Eval *vm);
void vm_HOST_LOOP_BEGIN(Eval *vm);
void vm_HOST_LOOP_END(Eval *vm);
void vm_TRACED_LOOP_END(Eval *vm);
void vm_LEADING_SIZE(Eval *vm);
void vm_SLICE(Eval *vm);
void vm_STACK_LIST(Eval *vm);
void vm_LIST_REVERSE(Eval *vm);
void vm_PROGRESS(Eval *vm);
void vm_DEFER_BEGIN(Eval *vm);
void vm_DEFER_END(Eval *vm);
void vm_FILTER(Eval *vm);
void vm_VJP_BEGIN(Eval *vm);
void vm_VJP_END(Eval *vm);
void vm_PULLBACK_BEGIN(Eval *vm);
void vm_PULLBACK_CONTRIBUTE(Eval *vm);
void vm_PULLBACK_END(Eval *vm);
void vm_RULE_BEGIN(Eval *vm);
void vm_RULE_END(Eval *vm);
void vm_REPLAY_BEGIN(Eval *vm);
void vm_REPLAY_END(Eval *vm);
void vm_CUSTOM_PULLBACK(Eval *vm);
void vm_CUSTOM_END(Eval *vm);
void vm_PUSH_SCAN(Eval *vm);
void vm_WHILE_SEGMENT(Eval *vm);
void vm_SEGMENT(Eval *vm);
void vm_SEGMENTS_END(Eval *vm);
void vm_SCAN_ADJOINT(Eval *vm);
void vm_SCAN_CONTRIBUTIONS(Eval *vm);
void vm_ADJOINT_STEP_BEGIN(Eval *vm);
void vm_KEPT_VALUES(Eval *vm);
void vm_ADJOINT_STEP_VALUES(Eval *vm);
void vm_ADJOINT_STEP_COTANGENT(Eval *vm);
void vm_ADJOINT_STEP_END(Eval *vm);
void vm_EACH_BEGIN(Eval *vm);
void vm_EACH_END(Eval *vm);

/* ---- vm_error.c: errors of the running program ---- */

/* Returns the source span of an instruction of `code`.  File 0: pc does not
 * belong to `code`. */
Span vm_span_of_instr(const Code *code, const Instr *pc);
/* True for spans of the library, and for no span. */
bool vm_is_library_span(const Eval *vm, Span span);
/* Returns the innermost span outside the library.  *library_function gets the
 * name of the library function that is called there, or NULL. */
Span vm_user_span(Eval *vm, const char **library_function);
/* Nodes created from now on get the user's span. */
void vm_set_node_span(Eval *vm);
/* Reports an error at `span`, with the calls that led there.  If `span` is in
 * the library, the error is at the user's span. */
Diag *vm_report_error(Eval *vm, Span span, uint16_t code, const char *message);
NORETURN void vm_fail(Eval *vm, uint16_t code, const char *format, ...)
    PRINTF_LIKE(3, 4);
NORETURN void vm_fail_at(Eval *vm, Span span, uint16_t code, const char *help,
                         const char *format, ...) PRINTF_LIKE(5, 6);
NORETURN void vm_fault(Eval *vm, const Fault *fault);
NORETURN void vm_fault_at(Eval *vm, Span span, const Fault *fault);
/* Fails because a size is needed that nothing determines.  name may be NULL. */
NORETURN void vm_fail_unknown_size(Eval *vm, const char *name);
/* Bails out of a symbolic run.  `reason` is the node that has no value; NULL:
 * an error in the innermost run. */
NORETURN void vm_bail_out(Eval *vm, const Node *reason);
/* Call this before an error is reported.  Bails out of the innermost symbolic
 * run, if the host can run its loop.  The error may not occur there. */
void vm_bail_out_if_possible(Eval *vm);
void vm_poll_interrupt(Eval *vm);
/* Is an interrupt deferred until the end of `defer_interrupt`? */
bool vm_interrupt_waits(const Eval *vm);

/* ---- vm_check.c ---- */

/* at: the left and right side, then the sides of each condition. */
void vm_check(Eval *vm, const CoreCheck *check, const Value *at);

/* ---- derive.c: structures ---- */

/* Replaces the leaves of a structure, in order.  A structure is a tuple, a
 * record, a list or a datatype.  Other values stay. */
typedef struct LeafMap {
  Eval *vm;
  /* NULL: tensors of floats are leaves. */
  bool (*is_leaf)(const struct LeafMap *map, Value v);
  Value (*leaf)(struct LeafMap *map, Value v); /* returns an owned value */
  bool in_functions; /* what functions have captured counts as a part of them */
  Tape *tape;        /* for new leaves */
  Node **nodes;      /* the next leaves */
  uint32_t next;     /* number of leaves so far */
  int64_t rank, start, stop;
  uint32_t count, segments;
  VjpRule *rule;       /* for its outputs */
  uint32_t id;         /* of the holes of an open function */
  const Value *values; /* borrowed: values for the leaves */
  bool keeps_temps;    /* nodes of numbers live as long as the caller's temps */
} LeafMap;
Value map_leaves(LeafMap *map, Value v); /* returns an owned value */
bool value_is_float_tensor(Value v);
/* The tensors of floats of a value, in memory of the machine's scratch. */
Node **vm_float_tensors(Eval *vm, Value v, uint32_t *count);
/* Fails at `span` unless both lists of tensors have equal shapes.  (Sizes that
 * are unknown (`?`) can differ between structures of one type, and so can the
 * lengths of lists.) */
void vm_require_same_shapes(Eval *vm, Span span, uint32_t count,
                            Node *const *xs, uint32_t like_count,
                            Node *const *like, const char *x_name,
                            const char *like_name);

/* ---- io_prims.c ---- */

/* During AOT tracing, only the definition of a top-level value may have
 * effects: it runs now. */
void vm_check_effect_allowed(Eval *vm, const char *what);
/* The same.  Returns false if the code runs again, for derivatives: then it has
 * written already. */
bool vm_may_write(Eval *vm, const char *what);
/* Returns false in a dry run, whose values are zeros. */
bool vm_writes_files(const Eval *vm);
/* Writes the tensors of a file; a dry run checks its name. */
void vm_save(Eval *vm, const char *path, uint32_t count,
             const char *const *names, Tensor *const *tensors);
void vm_check_no_nul(Eval *vm, Value path);
/* Returns the text of a buffer as a value.  Frees the buffer, even if it
 * raises. */
Value vm_string_from_buffer(Eval *vm, Buffer *text);

/* ---- string_list_prims.c ---- */

/* Adds an item in front of a list.  Takes both. */
Value vm_cons(Eval *vm, Value item, Value list);
/* The same for a text of `len` bytes. */
Value vm_cons_text(Eval *vm, const char *text, size_t len, Value list);
/* The list in reverse order.  Takes it. */
Value vm_reversed(Eval *vm, Value list);
NORETURN void vm_fail_file(Eval *vm, const Fault *fault);

/* ---- vm_stack.c: values, frames, temporaries ---- */

/* The instructions that frames return to. */
extern const Instr ret_instr[1], then_instr[1], else_instr[1];
void vm_unwind(Eval *vm, size_t frame, size_t height, size_t temps);
void vm_grow_frames(Eval *vm, Obj *env);   /* env is lost if this unwinds */
void vm_grow_stack(Eval *vm, size_t need); /* vm->sp must be current */
void vm_push_temp(Eval *vm, Value v);      /* takes v, as a temporary */
/* Takes v.  It lives as long as the Eval. */
void vm_add_constant(Eval *vm, Value v);
static inline Node *vm_temp_node(Eval *vm, Node *n) {
  vm_push_temp(vm, value_node(n));
  return n;
}
void vm_drop_temps(Eval *vm, size_t mark);
/* Returns a temporary whose parts are unit.  The caller sets them. */
Value vm_new_tuple(Eval *vm, uint32_t len);
Value vm_new_keys(Eval *vm, int64_t len);
Value vm_new_record(Eval *vm, const RecordLayout *layout);
void *vm_scratch(Eval *vm, size_t size); /* a temporary */

/* ---- vm_slow_path.c: runs, and calls that are not inlined ---- */

/* Borrows the arguments. */
Value vm_run(Eval *vm, const Code *code, uint32_t count, const Value *args);
/* Applies sp[-n-1] to n arguments.  Returns the next instruction. */
const Instr *vm_apply(Eval *vm, uint32_t n, const Instr *ret, bool tail);
/* Runs a lazy definition.  Returns its first instruction; at its end, execution
 * continues at `resume_at`. */
const Instr *vm_run_lazy_init(Eval *vm, Global *g, const Instr *resume_at);
Value vm_call_prim(Eval *vm, const PrimSite *site, Value *args, uint32_t n);

/* ---- symbolic.c: symbolic runs, with indices that have no value ---- */

/* Takes the condition of a branch.  Returns the next instruction: of one side,
 * or of the first of both. */
/* Returns outer_guard && (side == cond).  The caller owns it. */
Node *vm_branch_guard(Eval *vm, Node *cond, Node *outer_guard, bool side);
const Instr *vm_symbolic_branch(Eval *vm, Value cond, const Instr *site,
                                const Instr *yes, const Instr *no);
const Instr *vm_then_done(Eval *vm);
const Instr *vm_else_done(Eval *vm);
void vm_symbolic_run_begin(Eval *vm, size_t height, const Instr *fallback,
                           Code *body, const IndexVar *first,
                           const IndexVar *last, bool can_bail_out);
void vm_symbolic_run_end(Eval *vm);
void vm_resume_after_bailout(Eval *vm); /* after a bailout */
/* AOT tracing: the compiled function fails if cond is false. */
void vm_aot_assert(Eval *vm, Node *cond, const char *message);
/* AOT tracing: the compiled function fails if it takes this side of a symbolic
 * branch.  Returns false outside such a branch and inside a loop. */
bool vm_aot_fail(Eval *vm, const char *message);
void vm_branch_failed(Eval *vm);
Value value_select(Eval *vm, Node *cond, Value a, Value b);

/* ---- ragged.c: loops whose range depends on an outer index ---- */

/* Lets the host run the loop on whose index the row lengths of x depend. */
NORETURN void vm_bail_out_of_rows(Eval *vm, const Node *x);
/* True if a range depends on an outer index, and its values can be computed. */
bool vm_is_row_length(const Eval *vm, Value v);
/* Computes these values.  Returns the row length, or a number if they are
 * equal; the caller owns it.  *longest: the largest of them. */
Value vm_row_length(Eval *vm, Value v, int64_t *longest);
/* Call this when no symbolic run is active. */
void vm_forget_row_lengths(Eval *vm);
/* True if two integers, of which one is as above, are equal for all indices. */
bool vm_is_equal_in_rows(Eval *vm, Value x, Value y);
/* The row length of the leading axis of a value; NULL: it is not ragged. */
Node *vm_leading_row_length(Value x);
/* Bails out unless two axes have equal row lengths; NULL: not ragged. */
void vm_require_equal_rows(Eval *vm, const Node *x, const Node *y);
static inline bool vm_is_ragged(Value v) {
  return v.tag == V_NODE && v.node->row_lengths;
}
/* The number of elements along own axes first .. first + count - 1. */
Value vm_ragged_size(Eval *vm, const Node *x, uint32_t first, uint32_t count);
/* Gives the result of an elementwise operation the row lengths of its
 * arguments, and returns it.  Bails out if they differ. */
Node *vm_broadcast_row_lengths(Eval *vm, uint32_t count, Node *const *args,
                               Node *result);
/* Bails out if a row is empty and the reduction needs an element. */
void vm_require_reducible_rows(Eval *vm, PrimId op, const Node *x,
                               uint32_t first, uint32_t count);
/* The factors of a product of matrices or vectors.  Padding is 0. */
void vm_factors_of_product(Eval *vm, const Value *args, Node *factors[2]);
/* A slice whose bounds depend on an outer index.  Temporaries hold the nodes.
 */
typedef struct RaggedSlice {
  Subscript *item;          /* its subscript: the first index */
  Node *start, *row_length; /* row_length: NULL if all rows have one size */
  int64_t longest;
} RaggedSlice;
/* Bails out if a slice is out of bounds, so that the host reports it. */
RaggedSlice vm_ragged_slice(Eval *vm, Value start, Value stop, Value size);
/* The part of x with one ragged slice; the caller owns it. */
Node *vm_subscript_ragged(Eval *vm, Node *x, uint32_t count, Subscript *items,
                          const RaggedSlice *slice, Fault *fault);
/* Gives a part of x its row lengths. */
void vm_subscript_row_lengths(Eval *vm, const Node *x, uint32_t count,
                              const Subscript *items, Node *result);
/* outer && index < row length, for each ragged index.  outer: borrowed, or
 * NULL.  Returns `outer` or a temporary. */
Node *vm_row_guard(Eval *vm, uint32_t count, IndexVar *const *indices,
                   Node *outer);
/* node_close for indices that may be ragged. */
Node *vm_close_rows(Eval *vm, Node *x, uint32_t count, IndexVar *const *vars,
                    Fault *fault);

/* ---- pointwise_prims.c: scalars and pointwise primitives ---- */

/* Borrows a and b. */
Value vm_binary(Eval *vm, PrimId op, Value a, Value b);
/* For values that are neither numbers nor tensors. */
bool values_equal(Value a, Value b);
Value vm_dim_op(Eval *vm, DimOpKind kind, Value a, Value b);

/* ---- force.c: from nodes to known values ---- */

/* True during AOT tracing: sizes and data of arguments are not known yet. */
static inline bool vm_is_aot_tracing(const Eval *vm) {
  return vm->graph.extent_table != NULL;
}

/* Takes t.  If t is NULL, raises the fault. */
Value vm_value_of_tensor(Eval *vm, Tensor *t, const Fault *fault);
/* Takes the node.  Returns a scalar if its value is known already. */
Value vm_value_of_node(Eval *vm, Node *node, const Fault *fault);
/* Borrowed, or a temporary.  Bails out if the tensor is ragged. */
Node *vm_to_node(Eval *vm, Value v);
/* The same for operations that accept ragged tensors (ragged.c). */
Node *vm_to_ragged_node(Eval *vm, Value v);
void vm_force(Eval *vm, uint32_t count, Node *const *nodes);
void vm_force_value(Eval *vm, Value v); /* forces all leaves */
/* Forces all leaves except inlined nodes. */
void vm_force_not_inlined(Eval *vm, Value v);
/* True during a symbolic run of a body: nothing may run. */
static inline bool vm_must_defer(const Eval *vm) {
  return vm->symbolic_run_count || vm->graph.guard || vm_is_aot_tracing(vm);
}
void vm_force_in_loop(Eval *vm, Value v);
void vm_force_if_pending(Eval *vm, Value state, Value condition);
/* Called after the end of a call, and at a function's tail call of itself, if
 * that frame made many nodes.  Force the values on the stack if the function is
 * recursive and many nodes are pending. */
void vm_force_after_call(Eval *vm, const Frame *ended);
void vm_force_after_iteration(Eval *vm);
/* Return known scalars.  If there is none, they fail or bail out. */
Value vm_concrete_scalar(Eval *vm, Value v); /* borrows v; returns a number */
int64_t vm_int(Eval *vm, Value v);
/* Fails if the integer has wrapped around.  During AOT tracing the size may be
 * symbolic (tensor/extent.h). */
int64_t vm_size(Eval *vm, Value v);
/* The same, but allows a wrapped integer. */
int64_t vm_size_maybe_wrapped(Eval *vm, Value v);
Value vm_value_of_size(Eval *vm, int64_t size);
Value vm_product(Eval *vm, uint32_t count, const int64_t *sizes);
bool vm_bool(Eval *vm, Value v);
/* Fails if the file of the tensor has changed.  Call it after a read of its
 * elements. */
void vm_check_file(Eval *vm, const Tensor *t);
const Tensor *vm_tensor(Eval *vm, Value v); /* borrowed or a temporary */
static inline int64_t node_size(const Node *n, uint32_t axis) {
  return n->extents[n->free_count + axis];
}
bool value_is_tensor(Value v);

typedef enum RuleKind { RULE_CHECKPOINT, RULE_CUSTOM, RULE_SCAN } RuleKind;

typedef enum TracedLoopKind {
  TRACED_LOOP_ITERATE,
  TRACED_LOOP_FOLD,
  TRACED_LOOP_REDUCE,
  TRACED_LOOP_SCAN,
  TRACED_LOOP_WHILE,        /* during AOT tracing */
  TRACED_LOOP_BOTTOM_TESTED /* in an ordinary run */
} TracedLoopKind;

/* ---- trace_loop.c: one iteration stands for all ---- */

/* Returns the next instruction: of one traced iteration, or of the ordinary
 * loop. */
const Instr *vm_eager_loop_begin(Eval *vm, TracedLoopKind kind,
                                 const Instr *next, const Instr *fallback);
Value vm_eager_loop_end(Eval *vm, TracedLoopKind kind, Value result);
/* Returns the code of a function, even if it is partially applied; or NULL. */
Code *vm_body_code(Eval *vm, Value f);
/* Returns the indices of the enclosing loops.  Returns false if there are too
 * many. */
bool vm_enclosing_indices(Eval *vm, IndexVar **out, uint32_t *count);

/* ---- trace_dynamic_loop.c: loops during AOT tracing ---- */

enum { MAX_LEAVES = 256 };
typedef struct FlatLeaves { /* tensors of a value, in order */
  Node *leaves[MAX_LEAVES];
  uint32_t count;
} FlatLeaves;
/* Returns false if the value has leaves other than tensors, or too many
 * parts. */
bool vm_flatten(Eval *vm, Value v, FlatLeaves *out);
/* Builds a value like v from other tensors.  Takes the tensors. */
Value vm_unflatten(Eval *vm, Value v, Node *const **nodes);

/* Returns the next instruction: of one traced iteration, or of the ordinary
 * loop. */
const Instr *vm_traced_loop_begin(Eval *vm, TracedLoopKind kind,
                                  const Instr *next, const Instr *fallback);
Value vm_traced_loop_end(Eval *vm, TracedLoopKind kind, Value result);

/* ---- higher_order_prims.c ---- */

/* NULL if prim is not of class CONTROL. */
Code *derivative_code(Eval *vm, DerivativeCode which);
Code *higher_order_code(Eval *vm, PrimId prim);
Code *for_code(Eval *vm, uint32_t indices);
const Instr *vm_for_begin(Eval *vm, uint32_t k, bool map, const Instr *next,
                          const Instr *host_loop);
Value vm_for_end(Eval *vm, uint32_t k, bool map, Value result);
void vm_host_loop_begin(Eval *vm, uint32_t k, bool map);
bool vm_host_loop_step(Eval *vm, uint32_t k, bool map);
Value vm_host_loop_end(Eval *vm, uint32_t k, bool map);
typedef enum LoopKind { LOOP_FOR, LOOP_MAP, LOOP_SCAN } LoopKind;
/* True if a loop over the top k values runs at least once. */
bool vm_loop_runs(Eval *vm, uint32_t k, LoopKind kind);
int64_t vm_leading_size(Eval *vm, Value x);
/* Returns the trip count of a loop.  Fails if it is not a number. */
int64_t vm_static_trip_count(Eval *vm, int64_t count);
Value vm_slice(Eval *vm, Value x, Value i);
Value vm_stack_list(Eval *vm, Value reversed_list, uint32_t rank,
                    const int64_t *shape);
Value vm_stack_items(Eval *vm, uint32_t n, const Value *at); /* n >= 1 */
/* The rows of x, which has data, at the indices; takes them.  NULL: raises the
 * fault. */
Value vm_take_rows(Eval *vm, Node *x, Tensor *rows, const Fault *fault);
Value vm_filter(Eval *vm, Value rows, Value mask);

/* ---- tensor_prims.c, shape_ops.c ---- */

Value vm_make_tensor(Eval *vm, const LiteralSite *site, Dtype elem,
                     Value *items);
Value vm_make_shape(Eval *vm, const LiteralSite *site, Value *items);
/* What to do with a size that nothing determines, in a shape. */
typedef enum UnknownSizePolicy {
  UNKNOWN_SIZE_FAILS, /* fail */
  /* Use 0: the tensor has no elements. */
  UNKNOWN_SIZE_IS_ZERO,
  /* Make the whole shape unknown. */
  UNKNOWN_SIZE_PROPAGATES,
} UnknownSizePolicy;
Value vm_build_shape(Eval *vm, const CoreShape *ref, Value **at,
                     UnknownSizePolicy unknown_policy);
Value vm_subscript(Eval *vm, const SubscriptSite *site, Value *at);
Value vm_unpack_size(Eval *vm, const SizePath *bind, Value v);
/* Fails unless `known` equals the size that `bind` finds. */
void vm_check_unpacked_size(Eval *vm, const SizePath *bind, Value v,
                            Value known);
void vm_check_loaded_shape(Eval *vm, const CoreShape *expected, Value v,
                           const Value *sizes);
void vm_shape_of(Eval *vm, Value v, uint32_t *rank, int64_t *shape,
                 uint32_t *broadcast_mask);
void vm_axis_range(Eval *vm, Value axis, uint32_t rank, uint32_t *first,
                   uint32_t *count);

/* ---- derive.c ---- */

/* Pushes a tape, and a copy of v in which every tensor of floats is a leaf. */
void vm_vjp_begin(Eval *vm, Value v);
/* Pushes a tape whose leaves are those of the current iterations of all
 * comprehensions. */
Tape *vm_push_tape(Eval *vm);
/* args: tape, argument with leaves, result, cotangent of the result.  Returns
 * a reverse pass. */
Value vm_pullback_begin(Eval *vm, const Value *args);
/* The cotangent of the argument, at the end of the pass. */
Value vm_pullback_end(Eval *vm, Value pass, Value argument);

/* ---- vjp_rule.c: checkpoint and custom_vjp ---- */

/* Pushes a rule, and the function and its argument without recorded tensors.
 * Without derivatives, the rule is unit.  at: the arguments of the
 * primitive. */
void vm_rule_begin(Eval *vm, RuleKind kind, const Value *at);
/* Returns the result of the primitive for the result of the function. */
Value vm_rule_end(Eval *vm, Value rule, RuleKind kind, Value result);
/* Runs the pass up to its end or up to the next rule.  Then pushes a function
 * and its arguments, whose result is for vm_pullback_contribute. */
const Instr *vm_pullback_step(Eval *vm, Value pass, const Instr *next,
                              const Instr *done);
void vm_pullback_contribute(Eval *vm, Value pass);
/* checkpoint: pushes a tape, a tuple of its leaves, and the function and the
 * argument with these leaves. */
void vm_replay_begin(Eval *vm, Value rule);
void vm_replay_end(Eval *vm, Value contributions);
/* Pushes what the call kept for its pullback, and jumps.  If that is to be
 * differentiated, pushes a function and its arguments instead. */
const Instr *vm_rule_residual(Eval *vm, Value rule, const Instr *next,
                              const Instr *kept);
/* Pushes the pullback, the residual, and the cotangent of the result. */
void vm_custom_pullback(Eval *vm, Value rule, Value residual, Value cotangents);
/* Returns a tuple of contributions for the result of the pullback. */
Value vm_custom_end(Eval *vm, Value rule, Value result);
/* Number of floats that are being differentiated, in a value and in what its
 * functions captured.  Sets *has_tape if a function is a pullback. */
uint32_t vm_recorded_count(Eval *vm, Value v, bool *has_tape);
/* A new function: code applied to `count` arguments.  A temporary. */
Value vm_partial(Eval *vm, Code *code, uint32_t count, const Value *args);

/* A call whose derivative is not that of its operations. */
typedef struct CallRule {
  VjpRule base;
  Heap *heap;
  RuleKind kind;
  uint32_t id; /* unique */
  Span span;   /* of the call */
  /* The argument of a scan: the initial state and the elements. */
  Value function, argument;
  Value pullback; /* of a custom_vjp */
  Value residual; /* of a scan: the states before each iteration and the kept
                     values, stacked */
  Value result;   /* with V_RAW, the number of the output, at floats */
  Value zeros;    /* a tuple of cotangents of the outputs */
  /* of a scan: number of inputs that the function captured; the elements are
   * inputs too */
  uint32_t captured_count;
  bool has_element_inputs;
  Node *guard; /* the condition under which it was called; or NULL */
  /* The indices of the comprehensions in whose bodies it was called;
   * counted. */
  uint32_t enclosing_count;
  IndexVar *enclosing[MAX_RANK];
} CallRule;
static inline CallRule *rule_of(Value rule) {
  return (CallRule *)AS_RULE(rule)->rule;
}

/* ---- loop_rule.c: loops that are being differentiated ---- */

/* Pushes f, c and x of an equivalent scan (while: nothing).  Jumps if the loop
 * is not being differentiated, or is short. */
const Instr *vm_recorded_loop(Eval *vm, TracedLoopKind kind, const Instr *next,
                              const Instr *skip);
/* True if an argument of the loop in the current frame is being
 * differentiated. */
bool vm_is_recorded_loop(Eval *vm);
/* Jumps if the states of a scan, c and x on the stack, are too large or no
 * tensors. */
const Instr *vm_states_fit(Eval *vm, const Instr *next, const Instr *no);
/* Locals: f c x.  Pushes counter, end, length of a segment and the outputs so
 * far, or jumps if the loop is short. */
const Instr *vm_segments_begin(Eval *vm, const Instr *next, const Instr *few);
/* Pushes a function and its argument, for the next segment. */
void vm_segment(Eval *vm);
/* The outputs of all segments, from a reversed list. */
Value vm_segments_end(Eval *vm, Value outputs);
/* Pushes `scan` and its arguments: the reverse pass over the states. */
void vm_scan_adjoint(Eval *vm, Value rule, Value states, Value cotangents);
/* A tuple of contributions, from the result of that. */
Value vm_scan_contributions(Eval *vm, Value result);
/* One iteration of it.  at: the locals of CODE_ADJOINT_STEP.  Pushes a tape, a
 * tuple of its leaves, and the function with its arguments. */
void vm_adjoint_step_begin(Eval *vm, const Value *at);
/* The values that an iteration keeps besides its state, or unit.  at: the
 * locals of CODE_SCAN_STEP, to the result of f. */
Value vm_kept_values(Eval *vm, const Value *at);
/* The nodes that compute these values again; a tuple.  at: the locals of
 * CODE_ADJOINT_STEP, to the result of f. */
Value vm_adjoint_step_values(Eval *vm, const Value *at);
/* The result of the iteration.  gradients: a tuple with one part per leaf. */
Value vm_adjoint_step_end(Eval *vm, const Value *at, Value gradients);

/* The floats of `count` values of one structure: a list of tuples of vectors,
 * one tuple per tensor. */
Value vm_collect_floats(Eval *vm, const Value *values, uint32_t count);
/* A value like v with the floats of a list of vectors. */
Value vm_replace_floats(Eval *vm, Value v, Value list);
/* The sum of the elements of a list of vectors.  like: a value with a float. */
Value vm_sum_floats(Eval *vm, Value like, Value list);

/* ---- compare_prims.c ---- */

/* Parts of a node of a dictionary (stdlib/dicts.axn). */
enum { DICT_LEFT, DICT_KEY, DICT_VALUE, DICT_RIGHT };
/* The nodes of a dictionary in the order of its keys, in memory of the
 * machine's scratch: each is an array of the parts above. */
const Value *const *vm_dict_items(Eval *vm, Value dict, uint32_t *count);

/* ---- print.c ---- */

void vm_print(Eval *vm, Buffer *out, Value v, bool nested);
/* The same, but a figure is drawn for the terminal. */
void vm_print_or_draw(Eval *vm, Buffer *out, Value v, bool nested);

/* ---- figure_value.c ---- */

/* Draws a figure, without a newline at the end. */
void vm_draw_figure(Eval *vm, Buffer *out, Value v);
/* Returns false if v is not a figure; fails if it cannot be drawn. */
bool vm_figure_png(Eval *vm, Value v, FigureSize size, void **bytes,
                   size_t *len);

/* ---- builtins ---- */

typedef Value (*PrimFn)(Eval *vm, const PrimSite *site, Value *args,
                        uint32_t n);
PrimFn prim_function(PrimId prim);
#define B(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
B(prim_map);
B(prim_reduce);
B(prim_matmul);
B(prim_dot);
B(prim_outer);
B(prim_einsum);
B(prim_dim);
B(prim_shape);
B(prim_prod_of);
B(prim_rank);
B(prim_reshape);
B(prim_flatten);
B(prim_transpose);
B(prim_permute);
B(prim_concat);
B(prim_stack);
B(prim_unstack);
B(prim_split);
B(prim_pad);
B(prim_reverse);
B(prim_roll);
B(prim_tile);
B(prim_squeeze);
B(prim_broadcast);
B(prim_forget);
B(prim_gather);
B(prim_opaque);
B(prim_trtrs);
B(prim_one_hot);
B(prim_sort);
B(prim_topk);
B(prim_dft);
B(prim_real_dft);
B(prim_inverse_real_dft);
B(prim_nonzero);
B(prim_unique);
B(prim_triangle);
B(prim_full);
B(prim_iota);
B(prim_key);
B(prim_split_key);
B(prim_fold_key);
B(prim_random);
B(prim_permutation);
B(prim_list_length);
B(prim_list_reverse);
B(prim_append);
B(prim_format);
B(prim_str_length);
B(prim_regex_matches);
B(prim_regex_first);
B(prim_regex_split);
B(prim_regex_replace);
B(prim_gguf_keys);
B(prim_gguf_values);
B(prim_gguf_type);
B(prim_gguf_tiles);
B(prim_gguf_layers);
B(prim_tokenizer_open);
B(prim_tokenizer_ids);
B(prim_tokenizer_text);
B(prim_tokenizer_token);
B(prim_tokenizer_find);
B(prim_tokenizer_count);
B(prim_str_slice);
B(prim_str_chars);
B(prim_str_codes);
B(prim_str_of_codes);
B(prim_str_trim);
B(prim_str_words);
B(prim_str_case);
B(prim_read_text);
B(prim_input_line);
B(prim_write_text);
B(prim_append_text);
B(prim_is_number);
B(prim_equal);
B(prim_compare);
B(prim_str_split);
B(prim_str_join);
B(prim_str_bytes);
B(prim_str_of_bytes);
B(prim_to_string);
B(prim_parse);
B(prim_print);
B(prim_write);
B(prim_show);
B(prim_plot_save);
B(prim_load);
B(prim_save);
B(prim_save_all);
B(prim_save_tree);
B(prim_load_tree);
B(prim_file_exists);
B(prim_args);
B(prim_track);
B(prim_clock);
B(prim_is_interrupted);
B(prim_serve_next);
B(prim_serve_next_texts);
B(prim_exit);
B(prim_fail);
B(prim_assert);
B(prim_trace);
B(prim_force);
B(prim_stop_gradient);
B(prim_by_rank);
#undef B

#endif
