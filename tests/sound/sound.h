/* A generator of random programs with the checker in the loop.
 *
 * Each program comes with what it is: the shapes of its values, or the first
 * operation that cannot be, for the sizes of each of its calls.  That is
 * worked out here, from the language's reference and with known numbers alone:
 * nothing of typecheck/ is used.  script.c compares it with what Axon says and
 * does.  See run.sh. */
#ifndef SOUND_H
#define SOUND_H

#include "support/buffer.h"
#include "typecheck/typecheck.h"

typedef struct Arena Arena;

/* ---- chance: everything follows from the seed of a program ---- */

typedef struct Gen {
  uint64_t state;
  Arena *arena;
  uint32_t
      dropped_parts; /* shrinking: what is left out of the text, a bit each */
} Gen;

uint64_t gen_next(Gen *g);
int random_below(Gen *g, int n); /* 0 ... n - 1 */
int random_between(Gen *g, int lo, int hi);
bool random_percent(Gen *g, int percent);

/* ---- shapes ---- */

enum { BROADCAST_AXIS = -1, MAX_AXES = 7, MAX_VARS = 14 };

typedef struct Extents { /* sizes; STAR is an axis that stretches */
  int rank;
  int64_t at[MAX_AXES];
} Extents;

typedef enum Truth {
  TRUTH_WRONG,
  TRUTH_RIGHT,
  TRUTH_UNKNOWN, /* the reference does not say, or it is of no interest */
} Truth;

typedef struct Env { /* the shapes of the variables v0, v1, ... */
  Extents var[MAX_VARS];
  int count;
  bool ranks_known; /* all ranks are known where operations are checked */
  bool *unknown;    /* set where the reference does not say */
  bool *skipped;    /* set where a condition keeps a part from being run */
} Env;

int64_t axes_prod(const Extents *s);
bool axes_equal(const Extents *a, const Extents *b);
bool axes_has_star(const Extents *s);
Truth axes_join(const Extents *a, const Extents *b, Extents *out);
void axes_type(Buffer *out, const Extents *s);     /* f32[2, *] */
void axes_brackets(Buffer *out, const Extents *s); /* [2, *] */

/* ---- sizes as expressions of the program ---- */

typedef enum SizeKind {
  SZ_INT,
  SZ_DIM,
  SZ_ADD,
  SZ_SUB,
  SZ_MUL,
  SZ_DIV,
  SZ_MOD,
  SZ_MIN,
  SZ_MAX,
  SZ_PROD,
} SizeKind;

typedef struct Size {
  SizeKind kind;
  int64_t n; /* SZ_INT; SZ_DIM: the axis */
  int var;   /* SZ_DIM, SZ_PROD */
  struct Size *a, *b;
} Size;

Size *size_int(Gen *g, int64_t n);
/* Some expression whose value is n where the variables are as in env. */
Size *size_for(Gen *g, const Env *env, int64_t n);
Truth size_value(const Size *s, const Env *env, int64_t *out);
void size_print(Buffer *out, const Size *s); /* in brackets unless an atom */
bool size_mentions(const Size *s, int var);
bool size_has_axes(const Size *s, const Env *env); /* that it speaks of */

/* ---- operations ---- */

typedef enum IndexItemKind {
  IT_ALL,
  IT_FROM,
  IT_TO,
  IT_FROM_TO,
  IT_AT,
  IT_BACK,
  IT_NEW,
  IT_STRETCH,
  IT_REST,
} IndexItemKind;

typedef struct IndexItem { /* of an index: x.[1:, ...] */
  IndexItemKind kind;
  Size *from, *to;
  int64_t back;
} IndexItem;

typedef struct Op Op;
enum { MAX_SIZES = 8, MAX_ITEMS = 9, MAX_OPERANDS = 3 };

typedef struct GenStep { /* val vN = ... */
  const Op *op;
  int operands[MAX_OPERANDS], operand_count;
  Size *size[MAX_SIZES];
  int sizes;
  int axis;    /* as it is written: a negative one counts from the end */
  int variant; /* which variant; each operation has its own */
  bool keep_axes;
  IndexItem item[MAX_ITEMS];
  int items;
} GenStep;

struct Op {
  const char *name;
  int weight;
  /* Chooses operands for which it is right in env.  False: try another. */
  bool (*make)(Gen *g, const Env *env, GenStep *s);
  Truth (*shape)(const Env *env, const GenStep *s, Extents *out);
  void (*print)(Buffer *out, const GenStep *s);
  int right_variants; /* right ones: 0 ... forms - 1 (0: `form` is no choice) */
  int wrong_variants; /* those behind them, which never check */
  ConstraintClass row;       /* what a wrong form breaks */
  bool takes_keep;           /* takes ~keep */
  bool size_depends_on_data; /* the size of its result is known when it runs */
};

/* Definitions of the functions that the text calls. */
void put_helpers(Buffer *out, const char *text);
extern const Op move_ops[], math_ops[], loop_ops[], call_ops[], library_ops[];

/* A variable of so many axes that no star is among; -1: there is none. */
int pick_var(Gen *g, const Env *env, int min, int max, bool stars);
/* A literal axis of it. */
int pick_axis(Gen *g, const Extents *s);
bool axis_of(const Extents *s, int literal, int *axis);
/* The text, with its operands where $0, $1 and $2 stand. */
void put_template(Buffer *out, const char *form, const GenStep *s);
#define PUT(out, ...) buffer_printf((out), __VA_ARGS__)

/* ---- programs with what is expected of them ---- */

typedef struct Call {
  Buffer text;   /* declares r0, r1, ... */
  Buffer type;   /* of its result, where it is right; empty: not compared */
  Buffer output; /* what it prints, likewise */
  Truth truth;
  bool vacuous; /* right, but some of it is never run and may be wrong */
  bool empty;   /* right, but some size is 0, by which equations are divided */
} Call;

enum { MAX_CALLS = 5 };

typedef struct Script {
  const char *family;
  Buffer defs; /* definitions, checked and run before the calls */
  Call call[MAX_CALLS];
  int calls;
  bool sizes_depend_on_data; /* its sizes are unknown before it runs, on purpose
                              */
  bool is_single_call; /* a call is all there is, not a use of a definition */
  bool is_annotated;   /* annotated: what is refuted has a witness */
  ConstraintClass
      broken; /* what the wrong operation is about; CONSTRAINT_NONE: not told */
  uint32_t parts; /* bits that may be dropped */
  /* The truth at the sizes of a witness: "n0 = 2, n1 = 3". */
  Truth (*at)(void *arg, const char *witness);
  void *at_arg;
} Script;

void pipeline_script(Gen *g, Script *out);
void loop_script(Gen *g, Script *out);

/* ---- what came of it ---- */

typedef enum Finding {
  FOUND_NOTHING,
  FOUND_UNSOUND,   /* proved, but wrong */
  FOUND_RUN_FAILS, /* right, but running it fails */
  FOUND_RAN,       /* wrong and open, but it runs through */
  FOUND_REFUTED,   /* right, but refuted */
  FOUND_WITNESS,   /* refuted with a witness at which it is right */
  FOUND_TYPE,      /* the type inferred is another */
  FOUND_VALUE,     /* what it prints is another */
  FOUND_BUG,       /* an error that no such program should have */
  FOUND_CRASH,
  FOUND_HANG,
  FOUND_COUNT,
} Finding;

typedef enum CheckVerdict {
  VERDICT_PROVED,
  VERDICT_REFUTED,
  VERDICT_OPEN,
  VERDICT_COUNT
} CheckVerdict;

typedef struct Tally { /* of many programs */
  uint64_t programs, families[8];
  uint64_t row[CONSTRAINT_CLASS_COUNT][VERDICT_COUNT];
  uint64_t right[VERDICT_COUNT], wrong[VERDICT_COUNT]; /* calls, sizes known */
  uint64_t data_right[VERDICT_COUNT], data_wrong[VERDICT_COUNT];
  uint64_t found[FOUND_COUNT];
  uint64_t witnesses; /* that were tried, and are wrong there */
  uint64_t wrong_ran; /* calls that were run and failed, as they should */
} Tally;

/* Counts into the tally, if there is one; says why in `why`. */
Finding script_check(const Script *script, Tally *tally, Buffer *why);
void script_print(Buffer *out, const Script *script);
void script_free(Script *script);

#endif
