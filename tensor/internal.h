/* tensor, for its own files: building bodies, and the planner. */
#ifndef AXON_TENSOR_INTERNAL_H
#define AXON_TENSOR_INTERNAL_H

#include "tensor/scalar.h"
#include "tensor/size.h"
#include "tensor/tensor.h"

/* ---- node.c ---- */

/* What a node is to be, before it is made: everything but its body.  Lives on
 * the stack and borrows what it points to. */
typedef struct Form {
  Dtype dtype;
  uint32_t free_count, rank, reduce_count, stars;
  PrimId reduce;
  IndexVar *free[RANK_MAX];
  int64_t own[RANK_MAX], reduced[RANK_MAX];
} Form;

/* Makes free the union of the free indices of the nodes, ascending. */
bool form_free(Form *form, uint32_t count, Node *const *nodes, Fault *fault);
void form_free_add(Form *form, IndexVar *v);
/* The axis number of a free index in the form; UINT32_MAX: not there. */
uint32_t form_axis_of(const Form *form, const IndexVar *v);

Node *node_alloc(Graph *g, NodeKind kind, const Form *form);
Node *node_try_alloc(Graph *g, NodeKind kind, const Form *form);
/* The last steps of making a node that is to be run. */
void node_set_guard(Graph *g, Node *n, const Form *form);
void node_count_pending(Graph *g, const Node *n);
int64_t *node_own(const Node *n); /* extents of the own axes */
int64_t extents_product(uint32_t count, const int64_t *extents); /* saturates */
bool node_is_star(const Node *n, uint32_t axis);
/* guard.c: what a node with these free indices has to record, or NULL; one
 * that is safe does without where the guard speaks of other indices too. */
Node *guard_for(Graph *g, const Form *form, bool safe);

/* n reads x. */
static inline void node_needs(Node *n, const Node *x) {
  n->open |= x->open;
  n->loops = x->loops > n->loops ? x->loops : n->loops;
}
/* Everything that a node reads; some are NULL. */
uint32_t node_child_count(const Node *n);
Node *node_child(const Node *n, uint32_t k);

/* "f32[3, 4]" in a buffer of the caller's */
typedef struct TypeText {
  char text[400];
} TypeText;
TypeText form_text(const Graph *g, Dtype dtype, uint32_t rank,
                   const int64_t *extents, uint32_t stars);
TypeText node_text(const Graph *g, const Node *n);

/* ---- body.c: a body under construction ---- */

enum { BODY_CELLS = 40, BODY_ARGS = 160 };

typedef struct Body {
  Graph *graph;
  const Form *form;
  Span span;
  Cell *cells;
  uint32_t *args;
  uint32_t count, cap, arg_count, arg_cap;
  uint32_t axis_cell[3 * RANK_MAX]; /* 1 + the cell of an axis, or 0 */
  Cell first_cells[BODY_CELLS];
  uint32_t first_args[BODY_ARGS];
} Body;

/* No reference is taken before body_node: up to there a body can be dropped
 * by body_drop alone. */
void body_init(Body *b, Graph *g, const Form *form);
void body_drop(Body *b);
/* The node; drops the body. */
Node *body_node(Body *b, Graph *g, Fault *fault);

uint32_t body_const(Body *b, Scalar x);
uint32_t body_int(Body *b, int64_t x);   /* or a size */
uint32_t body_free(Body *b, uint32_t k); /* axis: the k-th free one */
uint32_t body_own(Body *b, uint32_t k);
uint32_t body_reduced(Body *b, uint32_t k);
uint32_t body_op(Body *b, PrimId op, Dtype result, uint32_t count,
                 const uint32_t *args);
uint32_t body_op2(Body *b, PrimId op, Dtype result, uint32_t x, uint32_t y);
/* i64 arithmetic with a size; nothing is made where nothing is to do */
uint32_t body_plus(Body *b, uint32_t x, int64_t k);
uint32_t body_times(Body *b, uint32_t x, int64_t k);
uint32_t body_over(Body *b, uint32_t x, int64_t k);
uint32_t body_modulo(Body *b, uint32_t x, int64_t k);
uint32_t body_select(Body *b, uint32_t c, uint32_t x, uint32_t y);
uint32_t body_convert(Body *b, uint32_t x, Dtype to);
/* args: one per own axis; free indices are found in the form.  A known scalar
 * becomes a constant. */
uint32_t body_read(Body *b, Node *x, const uint32_t *own);
/* The same where free index v is to stand for another cell. */
typedef struct IndexBinding {
  const IndexVar *var;
  uint32_t cell;
} IndexBinding;
uint32_t body_read_bound(Body *b, Node *x, const uint32_t *own,
                         uint32_t bound_count, const IndexBinding *bound);
/* x at the own axes first .. first + x->rank - 1 of the form, where stars of x
 * stretch */
uint32_t body_read_axes(Body *b, Node *x, uint32_t first);
uint32_t body_random(Body *b, PrimId op, Key key, Dtype dtype, uint32_t n);

/* A node that is x read at `own` for each element of the form. */
Node *body_move(Body *b, Graph *g, Node *x, const uint32_t *own, Fault *fault);

/* ---- factor.c: products that are summed, a part of them first ---- */

enum { TERMS_MOST = 16 };

/* A sum over axes of a product of factors. */
typedef struct Factors {
  uint32_t count, axes;
  const double *extents;   /* of the axes */
  const uint64_t *depends; /* of each factor: bit k: on axis k */
  uint64_t summed;
} Factors;

/* Factors to be multiplied, and the axes that are to be summed then. */
typedef struct Split {
  uint64_t factors, summed;
} Split;

/* False: there is nothing to gain. */
bool factors_split(const Factors *f, Split *best);
/* The size of an axis, where it is not known yet a guess. */
double factor_extent(const Graph *g, int64_t size);
/* The sum of x over `count` own axes; *apart: where x is a product that is
 * better summed in parts.  Otherwise NULL without a fault. */
Node *sum_apart(Graph *g, const Node *x, uint32_t first, uint32_t count,
                bool *apart, Fault *fault);
/* What a sum of x adds up: where x is a product of 16-bit floats that is not
 * computed yet, the product in f32, as that of matrices is, which the caller
 * lets go of; or x. */
Node *sum_wide(Graph *g, Node *x, Fault *fault);

/* ---- opaque.c ---- */

/* A FOLD or a SCAN, as its node has it. */
typedef struct FoldLoop {
  int64_t turns;
  uint32_t states, output;
  uint64_t turning;
  uint32_t cell_count;
  Cell *cells; /* taken */
} FoldLoop;
/* all: a SCAN, of what is kept of all turns.  shape: of a state. */
Node *node_in_order(Graph *g, const FoldLoop *loop, bool all, const Node *shape,
                    uint32_t count, Node *const *inputs, Dtype dtype,
                    Fault *fault);

/* ---- fold.c ---- */

/* Of what is just element after element of a tensor, one at each index: that;
 * else NULL. */
Node *node_row_of(const Node *n, const IndexVar *at);

/* ---- moments.c: variances and the like in one pass ---- */

/* The sum of x over `count` own axes, of the form; NULL: as any other. */
Node *moments_sum(Graph *g, Node *x, uint32_t first, uint32_t count, bool keep,
                  const Form *form, Fault *fault);

/* ---- plan.c ---- */

/* A read, in a group, of a node that is to be decided about. */
typedef struct Instance {
  struct Group *group;
  uint32_t cell;
} Instance;

/* A set of nodes that are to run, in order, with fused bodies. */
typedef struct Plan {
  Arena *arena;
  Graph *graph;
  VEC(struct PlanNode *) nodes;  /* inputs before readers */
  VEC(struct PlanNode *) stored; /* those that run, in order */
  VEC(Cluster *) clusters; /* of these, in order: what runs at once */
  const struct Params *params; /* floats that it is not to depend on: while it
                                  is made they are marks in bodies; or NULL */
} Plan;

typedef struct PlanNode {
  Node *node;    /* a counted reference until it was let go */
  bool root;     /* the caller wants its data */
  bool required; /* something needs its data as such: guards, opaque nodes */
  bool stored, needed;
  bool of_indices;     /* made of indices and numbers alone, by little; */
  bool of_few;         /* or of these and of what has far fewer elements */
  bool of_data;        /* made of what is there, element by element */
  uint32_t position;   /* among the stored ones */
  uint32_t inner_refs; /* references from nodes of the plan */
  double work;      /* of one element, with all that it needs and is pending */
  double chain;     /* likewise, without reductions and what is behind them */
  uint32_t readers; /* stored nodes not yet run that read it */
  const struct PlanNode *last_reader; /* so that each is counted once */
  const char *why;     /* of a stored node: why it was not fused */
  struct Group *group; /* of a stored node: its body under construction */
  VEC(Instance) instances;
  VEC(struct PlanNode *) inputs; /* of a stored node, after fusion */
} PlanNode;

/* Collects what the roots need, decides, and gives every stored node its
 * fused body.  May raise: plan_end must run in any case. */
void plan_make(Plan *plan, uint32_t count, Node *const *roots);
/* cluster.c: puts stored nodes together; kernels: and finds their kernels. */
void plan_cluster(Plan *plan, bool kernels);
/* watch.c: tells the one who watches of a plan that is about to run. */
void watch_planned(Graph *g, const Plan *plan);
/* Lets go of its nodes.  What a stored node reads it holds itself. */
void plan_end(Plan *plan);

#endif
