/* onnx, internal: a model that is being written.
 *
 * Each value of the model is a tensor that is named, and has a set of *axes*:
 * the axes of the node of Axon's graph on which it depends, in ascending order.
 * Operands whose sets differ are aligned with Unsqueeze. */
#ifndef AXON_ONNX_EMIT_H
#define AXON_ONNX_EMIT_H

#include "aot/trace.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/map.h"
#include "support/vec.h"

#include "onnx/memory.h"
#include "onnx/onnx.pb-c.h"

#include <setjmp.h>

typedef Onnx__NodeProto OpMessage;

typedef struct ExportRequest ExportRequest;

typedef struct Labeled { /* a value and its axes */
  const char *name;
  uint32_t axes; /* bit k: axis k */
} Labeled;

typedef struct ModelGraph { /* the model, or the body of a Loop */
  VEC(OpMessage *) ops;
} ModelGraph;

/* Where nodes are lowered.  A loop has one for each iteration that is written:
 * the body, and the condition before and after it. */
typedef struct Scope {
  ModelGraph *graph;
  struct Scope *parent;
  uint32_t depth; /* loop_depth of its nodes */
  Map values;     /* from Node to Labeled */
  Map sizes;      /* from Dim to names, in the outermost scope */
  Map loops;      /* from LoopBody to names of its outputs */
} Scope;

/* The versions of operators in a model, and those with 8-bit floats. */
enum { ONNX_OPSET = 18, ONNX_OPSET_WITH_F8 = 19 };

typedef struct Exporter {
  Session *session;
  Arena *arena;
  const ExportRequest *request;
  Trace *trace;
  Graph *graph; /* of the trace, with its sizes */
  DimCtx *dims;
  DimVar *axis_vars[MAX_RANK];
  Scope *scope;
  Scope main;
  VEC(Onnx__TensorProto *) initializers;
  VEC(Tensor *) tensors; /* their elements, to be released */
  VEC(Node *) nodes;     /* that were forced, to be released */
  Map constants;         /* texts of scalars and lists to names */
  Map transposes;        /* outputs of Transpose, as Sym, to Transposed */
  Interner *interner;
  uint32_t name_count;
  int64_t opset; /* which has all element types */
  Span span;     /* of the node that is being lowered */
  jmp_buf failed;
} Exporter;

/* Ends the export with an error at x->span. */
NORETURN PRINTF_LIKE(3, 4) void export_fail(Exporter *x, const char *help,
                                            const char *format, ...);

/* ---- emit.c: operators and constants ---- */

OpMessage *op_new(Exporter *x, const char *op_type);
void op_input(Exporter *x, OpMessage *op, const char *name);
void op_int(Exporter *x, OpMessage *op, const char *name, int64_t value);
void op_ints(Exporter *x, OpMessage *op, const char *name, uint32_t count,
             const int64_t *values);
void op_string(Exporter *x, OpMessage *op, const char *name, const char *value);
void op_graph(Exporter *x, OpMessage *op, const char *name,
              Onnx__GraphProto *graph);
const char *op_output(Exporter *x, OpMessage *op); /* a new name */
/* An operator with up to three inputs and one output. */
const char *put_op(Exporter *x, const char *op_type, const char *a,
                   const char *b, const char *c);

/* The value with axis perm[k] as axis k.  A transposed value is transposed from
 * what it comes from. */
const char *put_transpose(Exporter *x, const char *name, uint32_t count,
                          const int64_t *perm);
/* Removes the operators of a graph without a use. */
void graph_drop_unused(Exporter *x, Onnx__GraphProto *g);

int32_t onnx_type_of(Exporter *x, Dtype dtype);
const char *put_tensor(Exporter *x, Tensor *t); /* retains it */
const char *put_scalar(Exporter *x, Scalar value);
const char *put_int(Exporter *x, int64_t value);
/* An i64 list. */
const char *put_list(Exporter *x, uint32_t count, const int64_t *values);
const char *put_cast(Exporter *x, const char *value, Dtype to);
/* Integers of a type as unsigned ones of the same size. */
const char *put_unsigned(Exporter *x, const char *value, Dtype dtype);
Onnx__ValueInfoProto *value_info(Exporter *x, const char *name, Dtype dtype,
                                 uint32_t rank, const int64_t *extents);
Onnx__GraphProto *graph_message(Exporter *x, const ModelGraph *graph,
                                const char *name);

/* ---- sizes.c ---- */

int64_t known_extent(Exporter *x, int64_t extent);   /* -1: symbolic */
const char *put_extent(Exporter *x, int64_t extent); /* a scalar */
/* A list of sizes, for Reshape and Expand. */
const char *put_shape(Exporter *x, uint32_t count, const int64_t *extents);

/* ---- axes.c: values with axes ---- */

/* What `axis k` means, while a node is lowered. */
typedef struct AxisSizes {
  uint32_t count;
  int64_t extents[MAX_RANK];
  bool is_guarded; /* indices may be invalid where the value is not used */
} AxisSizes;

uint32_t lower_axes(uint32_t axes, uint32_t k); /* number of axes below k */
/* The value with all of these axes, of size 1 where it does not depend on
 * them. */
const char *unsqueeze_to(Exporter *x, Labeled v, uint32_t axes);
/* The same with the sizes of the axes. */
const char *expand_to(Exporter *x, const AxisSizes *a, Labeled v,
                      uint32_t axes);
/* Names that broadcast against each other; returns the union of the axes. */
uint32_t align_axes(Exporter *x, uint32_t count, const Labeled *v,
                    const char **names);
/* The polynomial over axis variables and sizes. */
Labeled put_dim(Exporter *x, const AxisSizes *a, Dim *d);
/* The set of axes that a polynomial mentions. */
uint32_t dim_axes(Exporter *x, Dim *d);

/* ---- formula.c: the body of a node, with views substituted ---- */

typedef struct Formula Formula;
struct Formula {
  BodyOpKind kind;
  Dtype dtype;
  PrimId op;
  uint32_t arg_count;
  Formula **args;
  Span span;
  Dim *dim; /* an i64 as a polynomial over axis variables and sizes; or NULL */
  union {
    Scalar value;
    Node *node; /* BODY_READ: a node with a value of its own */
  };
  bool has_result;
  Labeled result;
};

/* If `splits_product`, a product that the last operation reads is substituted
 * too. */
Formula *node_formula(Exporter *x, const Node *n, bool splits_product);
Formula *input_formula(Exporter *x, Node *n); /* reads all of an input */
/* What a loop of elements computes: argument k is inputs[k]. */
Formula **fold_formulas(Exporter *x, const Node *n, const Labeled *inputs);
/* n with a constant if it depends on no argument. */
Node *settled_node(Exporter *x, Node *n);

/* ---- read.c, lower.c, contract.c, opaque_ops.c ---- */

Labeled lower_read(Exporter *x, const AxisSizes *a, Formula *f);
Labeled lower_formula(Exporter *x, const AxisSizes *a, Formula *f);
Labeled lower_select(Exporter *x, const AxisSizes *a, Formula *f);
bool is_contraction(const Node *n); /* may be one: */
/* A sum of products over the axes of the node behind its own; false if it is
 * none. */
bool lower_contraction(Exporter *x, const AxisSizes *a, uint32_t result_axes,
                       Formula *f, Labeled *out);
Labeled lower_opaque(Exporter *x, Node *n);
Labeled lower_loop(Exporter *x, Node *n);
Labeled node_value(Exporter *x, Node *n); /* axis k: free axes, own axes */
AxisSizes node_axes(const Node *n);
const char *node_whole(Exporter *x, Node *n); /* with all its axes */
/* An expression of map.def. */
Labeled put_expression(Exporter *x, const char *text, Dtype dtype,
                       uint32_t count, const Labeled *args);

#endif
