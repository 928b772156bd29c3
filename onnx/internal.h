/* onnx, internal: values of a graph, and the program under construction. */
#ifndef AXON_ONNX_INTERNAL_H
#define AXON_ONNX_INTERNAL_H

#include "onnx/import.h"
#include "onnx/messages.h"
#include "size/dim.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/intern.h"
#include "support/map.h"
#include "support/vec.h"

#include <setjmp.h>

typedef struct Shape {
  uint32_t rank;
  uint32_t stars; /* bit k: axis k is a * */
  Dim *dims[MAX_RANK];
} Shape;

/* A value of the graph.  It is a name of the program, a constant, or a tensor
   of integers that are known as polynomials, or several of these. */
typedef struct Value {
  const char *onnx_name;
  Dtype dtype;
  Shape shape;
  const char *text; /* an atomic expression; NULL until it is needed */
  Tensor *tensor;   /* the constant, or NULL */
  Dim **ints;       /* its elements, or NULL */
  bool is_initializer;
  bool is_size; /* a parameter that decides sizes */
} Value;

typedef struct Statement { /* val name = text */
  const char *name, *text;
  Value *value;     /* of the name; NULL if it is not known */
  bool is_in_use;   /* a load that functions mention */
  const Node *node; /* that it comes from, or NULL */
} Statement;
typedef VEC(Statement) Statements;

typedef struct Importer {
  Arena *arena;
  const ImportRequest *request;
  DimCtx dims;
  Interner *interner;
  Map values;     /* from the Sym of a name in the file to Value */
  Map sizes;      /* from the Sym of a size in the file to Dim */
  Map used_names; /* identifiers of the program */
  Map lists;      /* from the Sym of a list of numbers in the program to its
                     Dtype, or DT_COUNT: it has several */
  const Model *model;
  int64_t opset;
  size_t copied_parts; /* of functions of the model */
  const Node *node;    /* being imported, or NULL */
  Statements statements;
  Statements loads;        /* weights, at top level */
  Statements records;      /* weights of repeated blocks */
  Buffer functions;        /* of repeated blocks */
  VEC(Value *) parameters; /* of `model` */
  VEC(const char *) size_names;
  VEC(const char *) weight_names;
  VEC(Tensor *) weights;
  VEC(Tensor *) tensors; /* all constants, to be released */
  VEC(const char *) undetermined;
  uint32_t helpers;                       /* set of enum Helper */
  bool uses_nn, uses_linalg, uses_random; /* modules that it imports */
  const char *seed; /* the parameter with the seed; NULL: no random numbers */
  const char *keys; /* the key that gives the next ones */
  int depth;        /* of nested graphs */
  int nested;       /* functions around the statements: branches, loops */
  Fault *fault;
  jmp_buf failed;
} Importer;

/* ---- values.c ---- */

/* "the node `fc` (Gemm)" */
const char *node_label(Importer *im, const Node *node);
/* Ends the import with an error at the present node.  `help` may be NULL. */
NORETURN PRINTF_LIKE(3, 4) void import_fail(Importer *im, const char *help,
                                            const char *format, ...);

Value *find_value(Importer *im, const char *name); /* or NULL */
void bind_value(Importer *im, const char *name, Value *v);

/* ---- graph.c ---- */

void import_nodes(Importer *im, const Graph *graph);
/* The version of the core operators in a list of versions. */
int64_t find_opset(size_t count, Onnx__OperatorSetIdProto *const *sets);

/* ---- functions.c ---- */

/* Imports the nodes of a function of the model instead of a call.  Returns
   false if the model has no such function. */
bool import_call(Importer *im, const Node *node);

/* ---- blocks.c ---- */

/* Writes repeated blocks as functions.  result: the text of the results. */
void make_blocks(Importer *im, const char *result);

/* ---- names.c ---- */

/* A new identifier made from a name in the file, of about `limit` characters.
   Falls back to `other` if nothing of it can be used. */
const char *make_identifier(Importer *im, const char *name, const char *other,
                            size_t limit);
/* True for keywords, primitives, and names that programs use. */
bool is_reserved_name(const char *name);
/* An identifier for an index, which shadows no name so far. */
const char *index_name(Importer *im, const char *wish);

/* ---- constants.c ---- */

/* DT_NONE if Axon has no such element type. */
Dtype dtype_of_onnx(int32_t data_type);
/* The same; fails if Axon has no such type.  what: "tensor" or "input". */
Dtype require_dtype(Importer *im, int32_t type, const char *what,
                    const char *name);
const char *onnx_type_name(int32_t data_type);
Tensor *read_tensor(Importer *im, const TensorMessage *message,
                    const char *name);
/* A new tensor, which is released after the import. */
Tensor *constant_tensor(Importer *im, Dtype dtype, uint32_t rank,
                        const int64_t *sizes);
Value *constant_value(Importer *im, const char *name, Tensor *t);
/* The elements as polynomials, or NULL if they are not known. */
Dim **known_ints(Importer *im, Value *v);
int64_t value_count(Importer *im, const Value *v); /* -1: unknown */
Value *ints_value(Importer *im, Dtype dtype, int32_t count, Dim **ints);
/* The constant as text.  If `is_typed`, it has the right element type wherever
   it stands. */
const char *literal(Importer *im, Value *v, bool is_typed);
bool is_small_constant(const Value *v);

/* ---- fold.c ---- */

/* Computes the node if its operands are small constants. */
bool fold_constants(Importer *im);

/* ---- node.c: the node that is being imported ---- */

const Attribute *find_attribute(Importer *im, const char *name);
int64_t attr_int(Importer *im, const char *name, int64_t otherwise);
float attr_float(Importer *im, const char *name, float otherwise);
const char *attr_string(Importer *im, const char *name, const char *otherwise);
/* Returns the number of integers; 0 if there is no such attribute. */
uint32_t attr_ints(Importer *im, const char *name, const int64_t **out);

uint32_t input_count(Importer *im);
bool has_input(Importer *im, uint32_t i);
bool has_output(Importer *im, uint32_t i);
/* An input that may have axes *; it must be there. */
Value *raw_input(Importer *im, uint32_t i);
/* An input without axes *; it must be there. */
Value *input(Importer *im, uint32_t i);
Value *plain(Importer *im, Value *v); /* without axes * */
/* Integers from an input, from an attribute of the same meaning, or absent
   (then NULL and count 0).  They must be known when the model is imported. */
Dim **int_operand(Importer *im, uint32_t i, const char *attribute,
                  uint32_t *count);
/* The same of sizes, which may depend on data.  The operand must be there. */
Dim **size_operand(Importer *im, uint32_t i, const char *attribute,
                   uint32_t *count);
/* The same as numbers. */
int64_t *const_operand(Importer *im, uint32_t i, const char *attribute,
                       uint32_t *count);
int64_t dim_number(Importer *im, Dim *d, const char *what);
uint32_t normal_axis(Importer *im, int64_t axis, uint32_t rank);

/* An atomic expression. */
const char *ref(Importer *im, Value *v);
const char *scalar_text(Importer *im, Value *v); /* of its one element */
const char *extent_source(Importer *im, Dim *d);
const char *extent_atom(Importer *im, Dim *d);
const char *sizes_text(Importer *im, const Shape *s); /* [2, n] */
const char *float_text(Importer *im, double x);       /* atomic */
PRINTF_LIKE(2, 3)
const char *text(Importer *im, const char *format, ...);

/* Output i of the node is this expression. */
PRINTF_LIKE(5, 6)
Value *define(Importer *im, uint32_t i, Dtype dtype, const Shape *shape,
              const char *format, ...);
void define_alias(Importer *im, uint32_t i, Value *v);
void define_ints(Importer *im, uint32_t i, Dtype dtype, const Shape *shape,
                 Dim **ints);
/* Adds a statement for a value that is no output; returns its name. */
const char *local(Importer *im, const char *wish, const char *expression);
/* A size that depends on data: the value of an expression. */
Dim *data_size(Importer *im, const char *wish, const char *expression);
/* The smaller or the larger of two sizes. */
Dim *extreme_size(Importer *im, Dim *a, Dim *b, bool is_min);
/* A new name for a size, which a statement binds. */
Dim *new_size(Importer *im, const char *wish);

/* ---- shapes.c ---- */

Dim *num(Importer *im, int64_t n);
Shape scalar_shape(void);
bool is_one(const Dim *d);
/* True for two numbers that are not equal. */
bool dims_differ(const Dim *a, const Dim *b);
/* The shape that operands stretch to, and texts of them in which axes of size
   1 that stretch are written as *. */
Shape align(Importer *im, uint32_t count, Value **v, const char **texts);
/* The same for shapes alone. */
Shape broadcast_shapes(Importer *im, uint32_t count, const Shape *shapes);
Dim *dims_product(Importer *im, const Shape *s, uint32_t from, uint32_t to);
bool shapes_equal(const Shape *a, const Shape *b);
/* x.[:, 0, *]: the axes in `mask` are 1 and stretch. */
const char *star_axes(Importer *im, const char *x, uint32_t rank, uint32_t mask,
                      const char *kind);

/* x with an axis at another place. */
const char *move_axis(Importer *im, const char *x, uint32_t rank, uint32_t from,
                      uint32_t to);

enum Helper { /* numbers of the functions in helpers.def */
#define H(name, function, text) HELPER_##name,
#include "onnx/helpers.def"
#undef H
              HELPER_COUNT
};
/* The program needs this function. */
void use_helper(Importer *im, enum Helper helper);

#endif
