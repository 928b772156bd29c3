/* What the files of eval/ tell one another.
 *
 * A builtin borrows its arguments, which stay on the machine's stack while it
 * runs, and returns an owned value.  Errors unwind: vm_fail emits a diagnostic
 * and raises, or gives a symbolic run up (symbolic.c); whatever must not leak
 * then hangs on the machine's stack or among its temporaries (vm_own). */
#ifndef AXON_EVAL_INTERNAL_H
#define AXON_EVAL_INTERNAL_H

#include "eval/eval.h"
#include "eval/value.h"
#include "tensor/size.h"

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

typedef struct Join { /* a conditional and where its sides meet */
  uint32_t at, join;  /* join 0: both sides return */
} Join;

struct Code {
  const Instr *at;
  const Span *spans;
  uint32_t count, arity, depth, number;
  const char *name; /* or NULL */
  const Join *joins;
  uint32_t join_count;
  const Value *consts; /* kept by the Eval */
  bool on_host;        /* a body of `for` or map that must see its index */
  bool no_formula;     /* of a loop: it is none of its state, */
  bool by_turns;       /* and turns cannot be run but by the host */
  bool builtin;        /* of a control primitive */
};

typedef enum GlobalState { GS_EMPTY, GS_LAZY, GS_RUNNING, GS_DONE } GlobalState;

typedef struct LazyDec {
  const CoreDec *dec;
  GlobalState state; /* GS_LAZY, GS_RUNNING, GS_DONE */
  Code *code;
} LazyDec;

typedef struct Global {
  Value value; /* V_NONE: not yet */
  Code *code;  /* when the value is a function that captures nothing */
  LazyDec *lazy;
  const char *name;
  struct Global *next; /* all globals of an Eval */
} Global;

typedef struct NumSite { /* a number, at every element type */
  Scalar at[DT_COUNT];
} NumSite;

typedef struct FieldSite {
  Sym *label;
  const Layout *layout; /* seen last, and where it had the label */
  uint32_t index;
} FieldSite;

typedef struct ItemSite { /* CORE_TENSOR, CORE_SHAPE */
  Dtype elem;
  bool dynamic; /* the element type lies under the items */
  uint32_t count;
  bool *splices;
  bool *holes;
} ItemSite;

typedef struct IndexSite { /* CORE_INDEX: bounds that are there, in order */
  uint32_t count, pushed;
  struct IndexItem {
    CoreSliceKind kind;
    bool from, to, from_end, to_end;
    Span span;
  } * items;
} IndexSite;

typedef struct Frame {
  const Instr *ret;
  const Code *code;
  Obj *env;          /* owned; or NULL */
  const Instr *join; /* a side of a symbolic conditional ends here; or NULL */
  size_t base;
} Frame;

typedef struct Attempt { /* a `for` or map being run symbolically */
  size_t frame, height, temps;
  const Instr *fallback;
  Node *guard;
  uint32_t depth, branches, first_node;
  uint32_t first_id, last_id; /* its indices */
  uint32_t facts; /* of sizes, while a function is traced, */
  uint32_t loops; /* and how deep in loops that is */
  bool hostable;  /* it can be run on the host, index by index */
  bool turns;     /* of a fold or scan */
  Code *body;                 /* or NULL */
} Attempt;

typedef struct Init { /* a lazy definition being run */
  LazyDec *lazy;
  size_t frame;
} Init;

enum {
  FRAME_LIMIT = 1200 * 1000, /* calls that wait: a second or so of recursing */
  SYMBOLIC_DEPTH = 64, /* conditionals within one another, both sides run */
  SYMBOLIC_BRANCHES = 1024,    /* of them in one attempt */
  SYMBOLIC_NODES = 100 * 1000, /* that an attempt may make */
  PENDING_NODES = 10 * 1000,
  TURN_NODES = 512, /* after a turn of a loop: plans of turns are kept, if they
                       are not too long */
};
#define STACK_LIMIT ((size_t)40 << 20)    /* values: 640 MiB */

struct Eval {
  Heap heap;
  /* sp, fp and pc as of the last instruction that may unwind.  They do not lie
   * side by side: a compiler would load them as a vector. */
  Value *stack, *sp, *stack_end;
  Frame *frames, *fp, *frames_end;
  Flag *interrupt;
  const Instr *pc;
  Graph graph;
  Arena *arena;
  DimCtx *dims;
  Interner *interner;
  const Sources *sources; /* or NULL */
  const EvalHost *host;
  Diags *diags;     /* of the run */
  Map size_globals; /* DimVar * to Global * */
  Global *globals;
  Code **code_at; /* by number */
  uint32_t code_count, code_cap;
  Layout *layouts;
  Code *control[PRIM_COUNT]; /* bodies of control primitives, made when used */
  Code *for_code[RANK_MAX + 1];
  Code *over; /* applies what is left */
  Value *temps;
  size_t temp_count, temp_cap;
  Value *kept; /* constants of code */
  size_t kept_count, kept_cap;
  Attempt *attempts;
  size_t attempt_count, attempt_cap;
  Init *inits;
  size_t init_count, init_cap;
  uint32_t depth, branches; /* of symbolic conditionals */
  bool abandoning;
  size_t abandon_to;
  bool stopping; /* one side of a conditional, in a function that is traced */
  size_t stopped_temps;
  bool running;
  bool forcing; /* an error is one of a deferred tensor, found now */
  uint32_t forced_node; /* next_node when something was last forced */
  int64_t force_at;     /* pending elements that call for a run */
  ValueHandle *held;
  bool exited;
  int status;
};

struct ValueHandle {
  Value value;
  ValueHandle *next, *prev;
};

/* ---- eval.c ---- */

void eval_enter(Eval *vm, Diags *diags); /* before anything is run */
/* What a failed run leaves is released; its error becomes a diagnostic. */
void eval_failed(Eval *vm, FailKind kind);
ValueHandle *eval_hold(Eval *vm, Value v); /* takes it */
Value eval_held(const ValueHandle *held);  /* borrowed */

/* ---- compile.c ---- */

Code *compile_expr(Eval *vm, const Core *core);
Code *compile_bind(Eval *vm, const CoreDec *dec, bool lazy);
void define_funs(Eval *vm, const CoreDec *dec);
Global *global_of(Eval *vm, Var *var);
const Layout *layout_of(Eval *vm, Sym *const *labels, uint32_t len);

/* ---- emit.c: code under construction ---- */

typedef struct Emit {
  Eval *vm;
  VEC(Instr) at;
  VEC(Span) spans;
  VEC(Join) joins;
  VEC(Value) consts;
  uint32_t depth, most; /* values on the stack; their most */
  Span span;            /* given to instructions */
} Emit;
uint32_t emit(Emit *e, Op op, uint32_t a, uint32_t b, int32_t c, int push);
uint32_t emit_ptr(Emit *e, Op op, uint32_t a, uint32_t b, int32_t c, int push,
                  const void *ptr);
void emit_patch(Emit *e, uint32_t at); /* the jump at `at` comes here */
uint32_t emit_keep(Emit *e, Value v);  /* takes it; a constant's number */
void emit_const(Emit *e, Value v);     /* takes it; pushes it */
Code *code_new(Eval *vm, uint32_t arity, const char *name);
void emit_end(Emit *e, Code *code); /* fills it in */

/* ---- vm.c ---- */

void vm_loop(Eval *vm); /* from vm->pc to OP_HALT */

/* ---- instructions.c: those that are functions ---- */

void vm_DIMOP(Eval *vm);
void vm_DIMPROD(Eval *vm);
void vm_SHAPEREF(Eval *vm);
void vm_CHECK(Eval *vm);
void vm_LOADED(Eval *vm);
void vm_OPENGET(Eval *vm);
void vm_OPENSAME(Eval *vm);
void vm_TENSOR(Eval *vm);
void vm_SHAPE(Eval *vm);
void vm_INDEX(Eval *vm);
void vm_FORCE_INT(Eval *vm);
void vm_TICK(Eval *vm);
void vm_FOR_END(Eval *vm);
void vm_MAP_END(Eval *vm);
void vm_HOST_BEGIN(Eval *vm);
void vm_HOST_DONE(Eval *vm);
void vm_TURNS_END(Eval *vm);
void vm_LEAD(Eval *vm);
void vm_SLICE(Eval *vm);
void vm_STACK(Eval *vm);
void vm_LIST_REV(Eval *vm);
void vm_PROGRESS(Eval *vm);
void vm_FILTER(Eval *vm);

/* ---- machine.c: what the machine does seldom ---- */

/* Borrows the arguments. */
Value vm_run(Eval *vm, const Code *code, uint32_t count, const Value *args);
NORETURN void vm_fail(Eval *vm, uint16_t code, const char *format, ...)
    PRINTF_LIKE(3, 4);
NORETURN void vm_fail_at(Eval *vm, Span span, uint16_t code, const char *help,
                         const char *format, ...) PRINTF_LIKE(5, 6);
NORETURN void vm_fault(Eval *vm, const Fault *fault);
NORETURN void vm_fault_at(Eval *vm, Span span, const Fault *fault);
/* at: left and right, then those of each condition. */
void vm_check(Eval *vm, const CoreCheck *check, const Value *at);
Span vm_span(Eval *vm, const char **inside); /* the user's place */
void vm_reset(Eval *vm, size_t frame, size_t height, size_t temps);
void vm_grow_frames(Eval *vm, Obj *env);   /* env is lost if it unwinds */
void vm_grow_stack(Eval *vm, size_t need); /* vm->sp counts */
/* Applies sp[-n-1] to n arguments; returns where to go on. */
const Instr *vm_apply(Eval *vm, uint32_t n, const Instr *ret, bool tail);
/* Runs a lazy definition: returns where to go on to come back to `again`. */
const Instr *vm_init(Eval *vm, Global *g, const Instr *again);
Value vm_prim(Eval *vm, const PrimSite *site, Value *args, uint32_t n);
void vm_own(Eval *vm, Value v);  /* takes it, as a temporary */
void vm_keep(Eval *vm, Value v); /* takes it, for as long as the Eval lives */
static inline Node *vm_temp(Eval *vm, Node *n) {
  vm_own(vm, value_node(n));
  return n;
}
void vm_drop_temps(Eval *vm, size_t mark);
/* A temporary whose parts are units at first; the caller fills them in. */
Value vm_new_tuple(Eval *vm, uint32_t len);
Value vm_new_record(Eval *vm, const Layout *layout);
void *vm_scratch(Eval *vm, size_t size); /* a temporary */
void vm_place(Eval *vm); /* gives the user's place to nodes made from now on */
void vm_poll(Eval *vm);

/* ---- symbolic.c: running with indices that have no value ---- */

/* `because`: what has no value; NULL: an error in the innermost attempt. */
NORETURN void vm_abandon(Eval *vm, const Node *because);
/* Where to go on after a condition (taken): one side, or both. */
const Instr *vm_branch(Eval *vm, Value cond, const Instr *site,
                       const Instr *yes, const Instr *no);
const Instr *vm_then_done(Eval *vm);
const Instr *vm_else_done(Eval *vm);
void vm_attempt(Eval *vm, size_t height, const Instr *fallback, Code *body,
                const IndexVar *first, const IndexVar *last, bool hostable);
void vm_attempt_end(Eval *vm);
void vm_resume(Eval *vm); /* after an attempt was given up */
/* While a function is traced: the compiled one fails where cond is false. */
void vm_traced_assert(Eval *vm, Node *cond, const char *message);
/* It fails where it gets here; false: that is where it begins. */
bool vm_traced_fail(Eval *vm, const char *message);
void vm_side_stopped(Eval *vm);
Value value_select(Eval *vm, Node *cond, Value a, Value b);
extern const Instr ret_instr[1], then_instr[1], else_instr[1];

/* ---- numeric.c: scalars and pointwise primitives ---- */

/* Borrows a and b. */
Value vm_binary(Eval *vm, PrimId op, Value a, Value b);
bool values_equal(Value a, Value b); /* not numbers, not tensors */
Value vm_dim_op(Eval *vm, DimOpKind kind, Value a, Value b);

/* ---- force.c: from nodes to what is known ---- */

/* Is a function being traced, for sizes and data that nobody knows yet? */
static inline bool vm_traces(const Eval *vm) {
  return vm->graph.sizes != NULL;
}

/* Takes the tensor; NULL: the fault. */
Value vm_data(Eval *vm, Tensor *t, const Fault *fault);
/* Takes the node: a scalar when it is known already. */
Value vm_node(Eval *vm, Node *node, const Fault *fault);
Node *vm_to_node(Eval *vm, Value v); /* borrowed, or a temporary */
void vm_force(Eval *vm, uint32_t count, Node *const *nodes);
void vm_force_value(Eval *vm, Value v); /* all leaves */
void vm_force_unseen(Eval *vm, Value v); /* but those that were inlined */
/* Is it being found out what a body does, so that nothing may be run? */
bool vm_in_attempt(const Eval *vm);
void vm_tick(Eval *vm, Value state, Value more);
/* Known scalars; raises or gives up when there is none. */
Value vm_known(Eval *vm, Value v); /* borrows; a number */
int64_t vm_int(Eval *vm, Value v);
/* An error if it has wrapped around.  While a function is traced it may be one
 * that is no number (tensor/size.h). */
int64_t vm_size(Eval *vm, Value v);
int64_t vm_index_size(Eval *vm, Value v); /* the same, but it may have */
Value vm_size_value(Eval *vm, int64_t size);
Value vm_product(Eval *vm, uint32_t count, const int64_t *sizes);
bool vm_bool(Eval *vm, Value v);
/* After its elements were read: an error where its file has changed. */
void vm_check_file(Eval *vm, const Tensor *t);
const Tensor *vm_tensor(Eval *vm, Value v); /* borrowed or temporary */
static inline int64_t node_size(const Node *n, uint32_t axis) {
  return n->extents[n->free_count + axis];
}
bool value_is_tensor(Value v);

typedef enum TurnsKind {
  TURNS_ITERATE,
  TURNS_FOLD,
  TURNS_REDUCE,
  TURNS_SCAN,
  TURNS_WHILE, /* of a function that is traced, */
  TURNS_TESTED /* and of any other */
} TurnsKind;

/* ---- inorder.c: loops of which one turn stands for all ---- */

/* Where to go on: with one turn for all of them, or as always. */
const Instr *vm_order_begin(Eval *vm, TurnsKind kind, const Instr *next,
                            const Instr *otherwise);
Value vm_order_end(Eval *vm, TurnsKind kind, Value result);
/* The function's, however many of its arguments are there; or NULL. */
Code *vm_body_code(Eval *vm, Value f);
/* The indices inside of which code runs now; false: there are too many. */
bool vm_open_indices(Eval *vm, IndexVar **out, uint32_t *count);

/* ---- turns.c: loops of a function that is traced ---- */

enum { LEAVES_MOST = 256 };
typedef struct Tensors { /* of a value, in order */
  Node *at[LEAVES_MOST];
  uint32_t count;
} Tensors;
/* False: it has others, or too many parts. */
bool vm_collect(Eval *vm, Value v, Tensors *out);
/* A value like v, of other tensors, which are taken. */
Value vm_rebuild(Eval *vm, Value v, Node *const **nodes);

/* Where to go on: with a turn that is traced, or as always. */
const Instr *vm_turns_begin(Eval *vm, TurnsKind kind, const Instr *next,
                            const Instr *otherwise);
Value vm_turns_end(Eval *vm, TurnsKind kind, Value result);

/* ---- loops.c ---- */

Code *control_code(Eval *vm, PrimId prim); /* NULL: not of class CONTROL */
Code *for_code(Eval *vm, uint32_t indices);
const Instr *vm_for_begin(Eval *vm, uint32_t k, bool map, const Instr *next,
                          const Instr *host);
Value vm_for_end(Eval *vm, uint32_t k, bool map, Value result);
void vm_host_begin(Eval *vm, uint32_t k, bool map);
bool vm_host_step(Eval *vm, uint32_t k, bool map);
Value vm_host_done(Eval *vm, uint32_t k, bool map);
typedef enum LoopKind { LOOP_FOR, LOOP_MAP, LOOP_SCAN } LoopKind;
/* Does a loop run at all, over the top k values? */
bool vm_runs(Eval *vm, uint32_t k, LoopKind kind);
int64_t vm_lead(Eval *vm, Value x);
/* Of the steps of a loop, which has to be a number. */
int64_t vm_loop_count(Eval *vm, int64_t count);
Value vm_slice(Eval *vm, Value x, Value i);
Value vm_stack_list(Eval *vm, Value reversed, uint32_t rank,
                    const int64_t *shape);
Value vm_stack_items(Eval *vm, uint32_t n, const Value *at); /* n >= 1 */
Value vm_filter(Eval *vm, Value rows, Value mask);

/* ---- tensors.c, index.c ---- */

Value vm_make_tensor(Eval *vm, const ItemSite *site, Dtype elem, Value *items);
Value vm_make_shape(Eval *vm, const ItemSite *site, Value *items);
/* `empty`: of a tensor without elements: unknown sizes are 0. */
typedef enum Unknowns { /* sizes that nothing decides, in a shape: */
  UNKNOWN_WRONG, /* are an error */
  UNKNOWN_EMPTY, /* may be any: it has no elements */
  UNKNOWN_STAYS, /* make it unknown */
} Unknowns;
Value vm_shape_ref(Eval *vm, const ShapeRef *ref, Value **at,
                   Unknowns unknown);
/* A size that nothing decides is needed; name: or NULL. */
NORETURN void vm_unknown(Eval *vm, const char *name);
Value vm_index(Eval *vm, const IndexSite *site, Value *at);
Value vm_open(Eval *vm, const CoreBind *bind, Value v);
/* An error unless this is what it finds, too. */
void vm_open_same(Eval *vm, const CoreBind *bind, Value v, Value known);
void vm_check_loaded(Eval *vm, const ShapeRef *want, Value v,
                     const Value *sizes);
void vm_shape(Eval *vm, Value v, uint32_t *rank, int64_t *shape,
              uint32_t *stars);
void vm_axis(Eval *vm, Value axis, uint32_t rank, uint32_t *first,
             uint32_t *count);

/* ---- print.c ---- */

void vm_print(Eval *vm, Buffer *out, Value v, bool nested);

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
B(prim_scatter);
B(prim_one_hot);
B(prim_sort);
B(prim_topk);
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
B(prim_str_compare);
B(prim_str_split);
B(prim_str_join);
B(prim_to_string);
B(prim_parse);
B(prim_print);
B(prim_write);
B(prim_show);
B(prim_load);
B(prim_save);
B(prim_save_all);
B(prim_args);
B(prim_clock);
B(prim_exit);
B(prim_fail);
B(prim_assert);
B(prim_trace);
#undef B

#endif
