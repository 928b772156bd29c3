/* backend/cpu, for its own files: kernels as generated C. */
#ifndef AXON_CPU_H
#define AXON_CPU_H

#include "backend/cpu/compiler.h"
#include "runtime/artifact.h"
#include "tensor/kernel.h"

enum {
  KERNEL_LOOPS = 64, /* more than these are left to the reference backend */
  RESULTS_MOST = 16, /* likewise, of one loop */
};

static inline int64_t divide_up(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}
static inline int64_t round_up(int64_t x, int64_t to) {
  return divide_up(x, to) * to;
}

/* What one call of a unit works on. */
typedef enum UnitShape {
  UNIT_POINT,   /* one point of the outer axes: lanes lie along inner axes */
  UNIT_ROWS,    /* a span of the last outer axis, lo .. hi at a time; lanes
                   likewise */
  UNIT_COLUMNS, /* lo .. hi of the last outer axis, along which lanes lie */
  UNIT_TILE,    /* that, and top .. bottom of the axis before it; perhaps
                   above .. below of the one before that */
  UNIT_MEMBERS, /* lo .. hi of the last outer axis, a batch's; lanes along both
                   axes before it */
} UnitShape;

/* What a kernel leaves open, chosen from its sizes and from this machine; the
 * result of a sum depends on it, and so on the sizes, but never on how many
 * threads there are. */
typedef struct Schedule {
  uint32_t bytes; /* of a vector register */
  UnitShape shape;
  uint32_t width;        /* lanes */
  uint32_t *lanes;       /* of each loop: the axis along which they lie */
  int64_t block;         /* points of the last outer axis in a unit; ROWS: at a
                            time */
  int64_t span;          /* ROWS: in a unit */
  int64_t height;        /* TILE: points of the axis before it, */
  int64_t bands;         /* at most, in so many parts, a size (tensor/size.h);
                            0: each of so many */
  int64_t strip;         /* TILE: and of the one before that, whose points are
                            positions between those of the last one, too; 0:
                            they are not */
  int64_t pitch;         /* positions from one to the next, and */
  int64_t places;        /* of a whole unit, with what may be stored behind the
                            last; 0: those of the last axis */
  bool turned;           /* TILE: of vectors that are turned in registers */
  int64_t chunk;         /* 0, or: the first axis that the one loop reduces is
                            cut into parts of so many, each with its own sum */
  int64_t terms;         /* COLUMNS: of sums, that are read at a time */
  double streamed;       /* bytes from which on a result is stored past the
                            caches */
  int64_t portion;       /* ROWS: of the axis that some loops go along in
                            portions; 0: there are none */
  struct Tiling *tiling; /* of the products, by loop; NULL: there are none */
  struct Members *members; /* of UNIT_MEMBERS */
} Schedule;

/* The arguments of a generated function: pointers (results, then inputs),
 * integers, scalars.  Integers are sizes (tensor/size.h): numbers where the
 * kernel's extents are. */
typedef struct KeyWord { /* an integer that is part of a key */
  uint32_t at, key, word;
} KeyWord;

/* An operand that may be there in the form in which it is wanted, from a call
 * before: keeping.c. */
typedef struct Keeping {
  uint32_t loop, input;
  ArtifactKey form; /* all that it depends on beside the tensor */
  int64_t from; /* where in it: elements */
  int64_t bytes, panels;
  bool pays;
  const char *type, *columns, *extent, *depth; /* as C */
  const char *marks; /* where panels' marks begin; NULL: they have none */
  const char *passes, *pass; /* of each panel, and how many terms one has */
} Keeping;

typedef struct Call {
  VEC(int64_t) ints;
  VEC(KeyWord) keys; /* of marks: what they stand for is put there */
  VEC(double) floats;
  VEC(Result *) outs;
  VEC(Keeping)
  keepings;       /* pointers behind those of the inputs: NULL where it
                     is not there */
  int64_t units;  /* independent pieces */
  int64_t chunks; /* of each element of the result */
  Dtype accumulator;
  bool places;  /* chunks leave the places they found, and behind all of these
                   the values there: twice as many numbers */
  int64_t room; /* bytes of scratch memory that a call needs */
  VEC(const Step *) checks;
} Call;

/* What a kernel looks at before it uses an element: k, and it gives bit k of
 * its result where that is wrong (the last bit is that of all that follow). */
enum { CHECK_BITS = 30 };

typedef struct Emitted {
  Buffer text; /* of the kernel, in the arena */
  Call call;   /* what this one wants */
} Emitted;

/* Bytes of a vector register of this machine that generated code is for. */
uint32_t target_vector_bytes(void);

/* The set of inputs whose place in memory the kernel's one result may take:
 * each element is read just before that of the result is stored there, and
 * nothing can fail in between. */
uint64_t kernel_over(const Kernel *k);

/* May put the outer axes of the kernel into another order. */
void schedule_choose(Kernel *k, uint32_t vector_bytes, Schedule *s);
/* Does it reduce so few terms that they are better written out? */
bool sums_are_short(const Loop *loop);
/* Rows of such sums as units; false: there are others, or too few rows. */
bool sums_choose(const Kernel *k, Schedule *s);
/* Lanes that many elements apart, at most, are loaded next to each other, and
 * then taken apart. */
enum { NEAR_STEPS = 4 };
/* How many sums stay in registers of so many bytes. */
uint32_t schedule_held(uint32_t vector_bytes);
/* Is a result stored past the caches, where its vectors are whole? */
bool schedule_streams(const Schedule *s, const Graph *g, const Result *r);
enum {
  SCHEDULE_LARGE = 32 << 20, /* bytes of the last cache, of open sizes */
  SCHEDULE_STREAM_ROW = 512, /* that results past the caches are long */
};
/* The same, of rows along an axis of a loop. */
bool schedule_streams_along(const Schedule *s, const Loop *loop,
                            const Result *r, uint32_t lane);
/* False: there is something in the body that it cannot emit.  notes: comments,
 * one for each loop; NULL: none, and only such texts are compiled, since equal
 * ones are compiled once.  number: "", and its functions are `kernel` and
 * `fold` of an object of their own; else they are kernel12 and so on of a text
 * that has others. */
bool emit_kernel(const Kernel *k, const Schedule *s, const char *const *notes,
                 const char *number, Emitted *out);

/* describe.c: see Backend. */
bool cpu_describe(const Cluster *c, Arena *arena, const char *const *notes,
                  KernelAbout *about);

/* What the text of a kernel of so many lanes uses of prelude/, to stand between
 * its `#define W` and the rest.  False: there is no memory; it does not raise.
 */
bool prelude_write(Buffer *out, uint32_t width, const char *text, size_t len);
/* The same of another text of sections (backend/cuda/wrappers.c). */
void sections_write(Buffer *out, Arena *arena, const char *from,
                    const char *text, size_t len);
/* The same of a text whose sections come first, and, of the names that it does
 * not define, those of prelude/ for kernels of one lane. */
void sections_write_both(Buffer *out, Arena *arena, const char *first,
                         const char *text, size_t len);
/* The text with all that it uses, W and that alone defined while it lasts: the
 * names of its functions and types end in the suffix. */
void prelude_part(Arena *arena, uint32_t width, const Buffer *text,
                  const char *suffix, Buffer *out);

#endif
