/* Warnings about pattern matches: values that no rule matches, and rules that
 * are never reached.  Main entry point: check_exhaustiveness.
 *
 * Maranget, "Warnings for pattern matching" (JFP 2007), as one walk of the
 * pattern matrix.  It selects a column in which the first row has a
 * constructor.  For each constructor in it, and for one that is missing, it
 * continues with the rows that may still match.  If no row is left, some value
 * is unmatched: the constructors on the path are the witness pattern.  If the
 * first row has only wildcards, its rule is reached.
 *
 * Parts of the witness are holes, filled on the way down and emptied on the way
 * up.  A column of the matrix knows the hole and the type of its values. */
#include "typecheck/exhaustiveness_witness.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/mem.h"
#include "support/source.h"
#include "support/trap.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_STEPS = 500000, /* matrix cells; beyond this no warnings are given */
  MAX_DEPTH = 2000,
  MAX_EXAMPLE_BYTES = 200, /* bytes; longer witnesses explain nothing */
};

typedef struct PatternCell {
  const CorePat *pat; /* NULL: a wildcard */
  uint32_t from;      /* CP_LIST: first item of the rest */
} PatternCell;

typedef struct Column {
  Type *type; /* NULL if unknown */
  WitnessPattern *witness;
} Column;

typedef struct PatternMatrix {
  uint32_t rows, cols;
  uint32_t *row_rules; /* the rule of each row */
  Column *columns;
  PatternCell *cells;
} PatternMatrix;

typedef struct ExhaustivenessCheck {
  Checker *c;
  Arena *arena;
  uint32_t steps, depth;
  bool gave_up;
  bool *reached;
  WitnessPattern *root;
  bool curried; /* the root is the parameters of a function */
  bool missing; /* an unmatched value was found */
  Buffer example, scratch;
  Map con_types; /* Type -> Type *[con_count] */
} ExhaustivenessCheck;

/* A constructor that occurs in a column. */
typedef struct ColumnConstructor {
  uint32_t row;
  PatternCell cell;
  int64_t key;
  double number;
} ColumnConstructor;

typedef struct HeadConstructor { /* constructor of all values in one branch */
  CorePatKind kind;
  uint32_t count; /* number of parts */
  Type **types;
  Sym **labels;
  uint32_t front, back; /* CP_SHAPE: number of items at each end */
  bool has_more;        /* as in WitnessPattern */
} HeadConstructor;

static void check_matrix(ExhaustivenessCheck *m, const PatternMatrix *x);

static PatternCell cell_of(const CorePat *pat) {
  while (pat && pat->kind == CP_AS)
    pat = pat->args[0];
  if (pat && (pat->kind == CP_WILD || pat->kind == CP_VAR))
    pat = NULL;
  return (PatternCell){.pat = pat};
}

static PatternCell *cell_at(const PatternMatrix *x, uint32_t row,
                            uint32_t col) {
  return &x->cells[(size_t)row * x->cols + col];
}

static bool is_nil(const PatternCell *cell) {
  return cell->pat->kind == CP_LIST && cell->from == cell->pat->arg_count;
}

/* Stores the first value that no row matches. */
static void record_missing(ExhaustivenessCheck *m) {
  if (m->missing)
    return;
  m->missing = true;
  witness_print(&m->example, m->root, m->curried);
}

/* ---- matrices ---- */

static PatternMatrix matrix_new(ExhaustivenessCheck *m, uint32_t rows,
                                uint32_t cols) {
  uint64_t cells = (uint64_t)rows * cols;
  if (m->gave_up || cells + rows + 1 > MAX_STEPS - m->steps) {
    m->gave_up = true;
    return (PatternMatrix){0};
  }
  m->steps += (uint32_t)cells + rows + 1;
  PatternMatrix x = {.cols = cols};
  x.row_rules = NEW_ARRAY(m->arena, uint32_t, rows);
  x.columns = NEW_ARRAY(m->arena, Column, cols);
  x.cells = NEW_ARRAY(m->arena, PatternCell, cells);
  return x;
}

/* True if the last row has only wildcards.  Later rows are then unreachable. */
static bool last_row_is_wildcards(const PatternMatrix *x) {
  for (uint32_t k = 0; k < x->cols; k++)
    if (cell_at(x, x->rows - 1, k)->pat)
      return false;
  return true;
}

/* Drops columns that contain only wildcards. */
static void drop_wildcard_columns(ExhaustivenessCheck *m, PatternMatrix *x) {
  bool *used = NEW_ARRAY(m->arena, bool, x->cols);
  for (uint32_t i = 0; i < x->rows; i++)
    for (uint32_t k = 0; k < x->cols; k++)
      used[k] |= cell_at(x, i, k)->pat != NULL;
  uint32_t cols = 0;
  for (uint32_t k = 0; k < x->cols; k++)
    if (used[k])
      x->columns[cols++] = x->columns[k];
  PatternCell *to = x->cells;
  for (uint32_t i = 0; i < x->rows; i++)
    for (uint32_t k = 0; k < x->cols; k++)
      if (used[k])
        *to++ = *cell_at(x, i, k);
  x->cols = cols;
}

/* The column in which the first row has a constructor and the fewest others
   have wildcards.  Returns cols if the first row has only wildcards. */
static uint32_t choose_column(const PatternMatrix *x) {
  uint32_t best = x->cols, fewest = UINT32_MAX;
  for (uint32_t k = 0; k < x->cols; k++) {
    if (!x->cells[k].pat)
      continue;
    uint32_t wild = 0;
    for (uint32_t i = 0; i < x->rows; i++)
      wild += !cell_at(x, i, k)->pat;
    if (wild < fewest)
      best = k, fewest = wild;
  }
  return best;
}

/* ---- the constructors of a column ---- */

static bool column_is_float(const Column *column,
                            const ColumnConstructor *entries, uint32_t count) {
  Type *t = column->type;
  if (t && t->tag == TY_TENSOR &&
      !(elem_root(t->tensor.elem)->classes & ~(uint32_t)CLASS_FLOAT))
    return true;
  for (uint32_t i = 0; i < count; i++)
    if (entries[i].cell.pat->is_float)
      return true;
  return false;
}

static void number_key(ExhaustivenessCheck *m, ColumnConstructor *e,
                       bool is_float) {
  const char *text = e->cell.pat->num;
  char *end = NULL;
  if (is_float) {
    e->number = strtod(text, &end) + 0.0; /* changes -0.0 to 0.0 */
  } else {
    e->key = strtoll(text, &end, strpbrk(text, "xX") ? 16 : 10);
    m->gave_up |= e->key == INT64_MAX || e->key == INT64_MIN;
  }
  m->gave_up |= *end != 0;
}

static CorePatKind constructor_family(CorePatKind kind) {
  return kind == CP_LIST ? CP_CONS : kind;
}

static void set_keys(ExhaustivenessCheck *m, const Column *column,
                     ColumnConstructor *entries, uint32_t count) {
  CorePatKind kind = constructor_family(entries[0].cell.pat->kind);
  bool is_float = kind == CP_NUM && column_is_float(column, entries, count);
  for (uint32_t i = 0; i < count; i++) {
    const CorePat *pat = entries[i].cell.pat;
    /* an error was already reported */
    if (constructor_family(pat->kind) != kind)
      m->gave_up = true;
    else if (kind == CP_NUM)
      number_key(m, &entries[i], is_float);
    else if (kind == CP_CON)
      entries[i].key = pat->con->tag;
    else if (kind == CP_BOOL)
      entries[i].key = pat->flag;
    else if (kind == CP_CONS)
      entries[i].key = !is_nil(&entries[i].cell);
  }
}

static int constructor_cmp(const ColumnConstructor *a,
                           const ColumnConstructor *b) {
  if (a->key != b->key)
    return a->key < b->key ? -1 : 1;
  if (a->number != b->number)
    return a->number < b->number ? -1 : 1;
  const CorePat *p = a->cell.pat, *q = b->cell.pat;
  if (p->kind != CP_STRING)
    return 0;
  if (p->text_len != q->text_len)
    return p->text_len < q->text_len ? -1 : 1;
  return p->text_len ? memcmp(p->text, q->text, p->text_len) : 0;
}

static int constructor_row_cmp(const void *a0, const void *b0) {
  const ColumnConstructor *a = a0, *b = b0;
  int order = constructor_cmp(a, b);
  return order ? order : a->row < b->row ? -1 : a->row > b->row;
}

/* Collects the constructors of a column, equal ones together. */
static ColumnConstructor *collect_constructors(ExhaustivenessCheck *m,
                                               const PatternMatrix *x,
                                               uint32_t col, uint32_t *count) {
  ColumnConstructor *entries = NEW_ARRAY(m->arena, ColumnConstructor, x->rows);
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->rows; i++)
    if (cell_at(x, i, col)->pat)
      entries[n++] = (ColumnConstructor){.row = i, .cell = *cell_at(x, i, col)};
  set_keys(m, &x->columns[col], entries, n);
  if (!m->gave_up)
    qsort(entries, n, sizeof *entries, constructor_row_cmp);
  *count = n;
  return entries;
}

/* ---- the parts of a constructor ---- */

static Type *substitute_param(TypeMapper *copy, TyVar *v) {
  return map_get(&copy->map, v);
}

/* The type of a constructor's argument if its datatype is t. */
static Type *con_arg_type(ExhaustivenessCheck *m, Type *t,
                          const struct DataCon *con) {
  Type **types = map_get(&m->con_types, t);
  if (!types) {
    types = NEW_ARRAY(m->arena, Type *, t->data.type->con_count);
    map_put(&m->con_types, t, types);
  }
  Type *fun = con->scheme->type;
  uint32_t tag = con->con.tag;
  if (!types[tag] && fun->tag == TY_FUN) {
    TypeMapper copy = {.c = m->c, .ty = substitute_param};
    map_init(&copy.map, m->arena);
    Type *result = fun->fun.result;
    for (uint32_t i = 0; i < result->count && i < t->count; i++) {
      Type *param = ty_root(result->args[i]);
      if (param->tag == TY_VAR)
        map_put(&copy.map, param->var, t->args[i]);
    }
    types[tag] = ty_copy(&copy, fun->fun.param);
  }
  return types[tag];
}

static void head_con(ExhaustivenessCheck *m, HeadConstructor *head, Type *t,
                     uint32_t tag) {
  if (!t || t->tag != TY_DATATYPE || tag >= t->data.type->con_count) {
    m->gave_up = true;
    return;
  }
  const struct DataCon *con = &t->data.type->cons[tag];
  head->count = con->con.has_arg;
  head->types = NEW(m->arena, Type *);
  if (con->con.has_arg)
    head->types[0] = con_arg_type(m, t, con);
}

static void head_tuple(ExhaustivenessCheck *m, HeadConstructor *head, Type *t,
                       uint32_t count) {
  head->count = count;
  head->types = NEW_ARRAY(m->arena, Type *, count);
  for (uint32_t i = 0; i < count; i++)
    if (t && t->tag == TY_TUPLE && i < t->count)
      head->types[i] = t->args[i];
}

static Type *row_rest(ExhaustivenessCheck *m, Type *t) {
  return t->record.rest ? ty_norm(m->c, t->record.rest) : NULL;
}

static Type *field_type(ExhaustivenessCheck *m, Type *t, const Sym *label) {
  for (; t && t->tag == TY_RECORD; t = row_rest(m, t))
    for (uint32_t i = 0; i < t->count; i++)
      if (t->record.labels[i] == label)
        return t->args[i];
  return NULL;
}

/* True if a record has exactly this number of fields. */
static bool has_fields(ExhaustivenessCheck *m, Type *t, uint32_t count) {
  uint32_t fields = 0;
  for (; t && t->tag == TY_RECORD; t = row_rest(m, t)) {
    fields += t->count;
    if (!t->record.rest)
      return fields == count;
  }
  return false;
}

/* Head with all fields that some pattern names. */
static void head_record(ExhaustivenessCheck *m, HeadConstructor *head, Type *t,
                        const ColumnConstructor *entries, uint32_t count) {
  VEC(Sym *) labels = {0};
  Map seen;
  map_init(&seen, m->arena);
  for (uint32_t i = 0; i < count; i++) {
    const CorePat *pat = entries[i].cell.pat;
    for (uint32_t k = 0; k < pat->arg_count; k++)
      if (!map_get(&seen, pat->labels[k])) {
        map_put(&seen, pat->labels[k], pat->labels[k]);
        VEC_PUSH(m->arena, labels, pat->labels[k]);
      }
  }
  head->has_more = !has_fields(m, t, labels.len);
  head->labels = labels.at;
  head->count = labels.len;
  head->types = NEW_ARRAY(m->arena, Type *, labels.len);
  for (uint32_t k = 0; k < labels.len; k++)
    head->types[k] = field_type(m, t, labels.at[k]);
}

/* Head with the known items of a shape: all, or those at its ends.  A pattern
   that requires more is only decidable at run time. */
static void head_shape(ExhaustivenessCheck *m, HeadConstructor *head, Type *t,
                       const ColumnConstructor *entries, uint32_t count) {
  if (!t || t->tag != TY_SHAPE) {
    m->gave_up = true;
    return;
  }
  Shape *s = shape_norm(m->c, t->shape);
  bool known = shape_has_known_rank(s);
  while (head->front < s->len && s->axes[head->front].tag != SHAPE_SPLICE)
    head->front++;
  while (head->back < s->len - head->front &&
         s->axes[s->len - 1 - head->back].tag != SHAPE_SPLICE)
    head->back++;
  if (known)
    head->front = s->len, head->back = 0;
  head->has_more = !known;
  for (uint32_t i = 0; i < count; i++) {
    const CorePat *pat = entries[i].cell.pat;
    uint32_t before = pat->rest < 0 ? pat->arg_count : (uint32_t)pat->rest;
    uint32_t after = pat->rest < 0 ? 0 : pat->arg_count - 1 - before;
    bool fits =
        known ? pat->rest < 0 ? before == head->front
                              : before + after <= head->front
              : pat->rest >= 0 && before <= head->front && after <= head->back;
    m->gave_up |= !fits;
  }
  head->count = head->front + head->back;
  head->types = NEW_ARRAY(m->arena, Type *, head->count);
}

static void head_list(ExhaustivenessCheck *m, HeadConstructor *head, Type *t) {
  head->count = 2;
  head->types = NEW_ARRAY(m->arena, Type *, 2);
  if (t && t->tag == TY_DATATYPE &&
      t->data.type == m->c->builtins.list_datatype)
    head->types[0] = t->args[0];
  head->types[1] = t;
}

/* The head of a group of equal entries. */
static HeadConstructor head_of(ExhaustivenessCheck *m, const Column *column,
                               const ColumnConstructor *entries,
                               uint32_t count) {
  const CorePat *pat = entries[0].cell.pat;
  HeadConstructor head = {.kind = pat->kind};
  Type *t = column->type;
  switch (pat->kind) {
  case CP_CON:
    head_con(m, &head, t, pat->con->tag);
    break;
  case CP_TUPLE:
    head_tuple(m, &head, t, pat->arg_count);
    break;
  case CP_RECORD:
    head_record(m, &head, t, entries, count);
    break;
  case CP_SHAPE:
    head_shape(m, &head, t, entries, count);
    break;
  case CP_LIST:
  case CP_CONS:
    head.kind = is_nil(&entries[0].cell) ? CP_LIST : CP_CONS;
    if (head.kind == CP_CONS)
      head_list(m, &head, t);
    break;
  case CP_BOOL:
    head.has_more = !pat->flag;
    break;
  case CP_NUM:
  case CP_STRING:
  case CP_WILD:
  case CP_VAR:
  case CP_AS:
    break;
  }
  return head;
}

static PatternCell shape_sub_pattern(const HeadConstructor *head,
                                     const CorePat *pat, uint32_t k) {
  uint32_t before = pat->rest < 0 ? pat->arg_count : (uint32_t)pat->rest;
  if (k < before)
    return k < head->front ? cell_of(pat->args[k]) : (PatternCell){0};
  uint32_t from_end = head->count - 1 - k; /* counted from the end */
  uint32_t after = pat->rest < 0 ? 0 : pat->arg_count - 1 - before;
  return from_end < after ? cell_of(pat->args[pat->arg_count - 1 - from_end])
                          : (PatternCell){0};
}

static PatternCell record_sub_pattern(const CorePat *pat, const Sym *label) {
  for (uint32_t i = 0; i < pat->arg_count; i++)
    if (pat->labels[i] == label)
      return cell_of(pat->args[i]);
  return (PatternCell){0};
}

/* Part k of a cell with the head's constructor. */
static PatternCell sub_pattern(const HeadConstructor *head, PatternCell cell,
                               uint32_t k) {
  const CorePat *pat = cell.pat;
  if (!pat)
    return cell;
  if (pat->kind == CP_SHAPE)
    return shape_sub_pattern(head, pat, k);
  if (pat->kind == CP_RECORD)
    return record_sub_pattern(pat, head->labels[k]);
  if (pat->kind != CP_LIST)
    return k < pat->arg_count ? cell_of(pat->args[k]) : (PatternCell){0};
  if (k == 0)
    return cell_of(pat->args[cell.from]);
  return (PatternCell){.pat = pat, .from = cell.from + 1};
}

/* ---- the walk ---- */

/* Fills a hole with a constructor whose parts are wildcards. */
static void fill_witness(ExhaustivenessCheck *m, WitnessPattern *witness,
                         const HeadConstructor *head) {
  witness->kind = head->kind;
  witness->has_more = head->has_more;
  witness->count = head->count;
  witness->front = head->front;
  witness->labels = head->labels;
  witness->parts = NEW_ARRAY(m->arena, WitnessPattern *, head->count);
  for (uint32_t k = 0; k < head->count; k++)
    witness->parts[k] = NEW(m->arena, WitnessPattern);
}

static const char *quoted(ExhaustivenessCheck *m, const CorePat *pat) {
  Buffer *b = &m->scratch;
  b->len = 0;
  buffer_putc(b, '"');
  for (uint32_t i = 0; i < pat->text_len; i++) {
    unsigned char ch = (unsigned char)pat->text[i];
    if (ch == '"' || ch == '\\')
      buffer_putc(b, '\\');
    if (ch < ' ' || ch == 127)
      buffer_printf(b, "\\x%02x", ch);
    else
      buffer_putc(b, (char)ch);
  }
  buffer_putc(b, '"');
  return arena_strndup(m->arena, b->text, b->len);
}

static void name_witness(ExhaustivenessCheck *m, WitnessPattern *witness,
                         const CorePat *pat) {
  if (pat->kind == CP_NUM)
    witness->text = pat->num;
  else if (pat->kind == CP_STRING)
    witness->text = quoted(m, pat);
  else if (pat->kind == CP_CON)
    witness->text = pat->con->name->text;
}

/* Adds row i.  The parts of its cell replace column col. */
static void add_row(PatternMatrix *to, const PatternMatrix *x, uint32_t i,
                    uint32_t col, const HeadConstructor *head) {
  uint32_t k = 0;
  PatternCell *cells = cell_at(to, to->rows, 0);
  PatternCell cell = *cell_at(x, i, col);
  for (; k < head->count; k++)
    cells[k] = sub_pattern(head, cell, k);
  for (uint32_t j = 0; j < x->cols; j++)
    if (j != col)
      cells[k++] = *cell_at(x, i, j);
  to->row_rules[to->rows++] = x->row_rules[i];
}

static void set_columns(ExhaustivenessCheck *m, PatternMatrix *to,
                        const PatternMatrix *x, uint32_t col,
                        const HeadConstructor *head) {
  uint32_t k = 0;
  WitnessPattern *witness = x->columns[col].witness;
  for (; k < head->count; k++) {
    Type *t = head->types[k];
    to->columns[k].type = t ? ty_norm(m->c, t) : NULL;
    to->columns[k].witness = witness->parts[k];
  }
  for (uint32_t j = 0; j < x->cols; j++)
    if (j != col)
      to->columns[k++] = x->columns[j];
}

typedef struct ColumnSplit { /* a matrix, split by the constructors of one
                                column */
  const PatternMatrix *matrix;
  uint32_t col;
  ColumnConstructor *entries;
  uint32_t entry_count;
  uint32_t *wildcard_rows; /* rows without a constructor there */
  uint32_t wildcard_row_count;
} ColumnSplit;

/* The rows that match values with this head, in order: the entries and the
   wildcard rows.  Without entries the constructor is a missing one. */
static void specialize(ExhaustivenessCheck *m, const ColumnSplit *s,
                       const HeadConstructor *head,
                       const ColumnConstructor *entries, uint32_t count) {
  PatternMatrix to = matrix_new(m, count + s->wildcard_row_count,
                                s->matrix->cols - 1 + head->count);
  if (m->gave_up)
    return;
  uint32_t e = 0, w = 0;
  while (e < count || w < s->wildcard_row_count) {
    bool entry = w == s->wildcard_row_count ||
                 (e < count && entries[e].row < s->wildcard_rows[w]);
    add_row(&to, s->matrix, entry ? entries[e++].row : s->wildcard_rows[w++],
            s->col, head);
    if (last_row_is_wildcards(&to))
      break;
  }
  set_columns(m, &to, s->matrix, s->col, head);
  drop_wildcard_columns(m, &to);
  check_matrix(m, &to);
}

static void specialize_all(ExhaustivenessCheck *m, const ColumnSplit *s) {
  const Column *column = &s->matrix->columns[s->col];
  for (uint32_t i = 0, end; i < s->entry_count && !m->gave_up; i = end) {
    for (end = i + 1; end < s->entry_count; end++)
      if (constructor_cmp(&s->entries[i], &s->entries[end]) != 0)
        break;
    HeadConstructor head = head_of(m, column, &s->entries[i], end - i);
    if (m->gave_up)
      return;
    fill_witness(m, column->witness, &head);
    name_witness(m, column->witness, s->entries[i].cell.pat);
    specialize(m, s, &head, &s->entries[i], end - i);
    *column->witness = (WitnessPattern){0};
  }
}

/* ---- constructors that are missing ---- */

static bool missing_con(ExhaustivenessCheck *m, const ColumnSplit *s,
                        WitnessPattern *witness) {
  Type *t = s->matrix->columns[s->col].type;
  if (!t || t->tag != TY_DATATYPE) {
    m->gave_up = true;
    return false;
  }
  uint32_t tag = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    tag += s->entries[i].key == tag;
  if (tag >= t->data.type->con_count)
    return false;
  const Con *con = &t->data.type->cons[tag].con;
  HeadConstructor head = {.kind = CP_CON, .count = con->has_arg};
  fill_witness(m, witness, &head);
  witness->text = con->name->text;
  return true;
}

/* Finds a float that no pattern has: the first of 0.0, 1.0, ... */
static bool missing_float(ExhaustivenessCheck *m, const ColumnSplit *s,
                          WitnessPattern *witness) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    n += s->entries[i].number == n;
  witness->text = arena_printf(m->arena, "%u.0", n);
  return true;
}

static bool missing_number(ExhaustivenessCheck *m, const ColumnSplit *s,
                           WitnessPattern *witness) {
  const Column *column = &s->matrix->columns[s->col];
  witness->kind = CP_NUM;
  if (column_is_float(column, s->entries, s->entry_count))
    return missing_float(m, s, witness);
  Type *t = column->type;
  Dtype dtype =
      t && t->tag == TY_TENSOR ? elem_root(t->tensor.elem)->dtype : DT_NONE;
  int64_t max = dtype == DT_U8 ? 255 : dtype == DT_I8 ? 127 : INT64_MAX;
  int64_t n = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    n += s->entries[i].key == n;
  if (n > max) {
    if (dtype != DT_I8)
      return false;
    n = -1;
    for (uint32_t i = s->entry_count; i-- > 0;)
      n -= s->entries[i].key == n;
    if (n < -128)
      return false;
  }
  witness->text = arena_printf(m->arena, "%lld", (long long)n);
  return true;
}

/* "other", "other1", ...: not all of them can occur. */
static void missing_string(ExhaustivenessCheck *m, const ColumnSplit *s,
                           WitnessPattern *witness) {
  CorePat pat = {.kind = CP_STRING};
  for (uint32_t n = 0;; n++) {
    pat.text = n ? arena_printf(m->arena, "other%u", n) : "other";
    pat.text_len = (uint32_t)strlen(pat.text);
    ColumnConstructor key = {.cell.pat = &pat};
    uint32_t i = 0;
    while (i < s->entry_count && constructor_cmp(&s->entries[i], &key) != 0)
      i++;
    if (i == s->entry_count)
      break;
  }
  witness->kind = CP_STRING;
  witness->text = quoted(m, &pat);
}

/* Fills the hole with a constructor that the column does not have.  Returns
   false if it has all. */
static bool find_missing_constructor(ExhaustivenessCheck *m,
                                     const ColumnSplit *s,
                                     WitnessPattern *witness) {
  const ColumnConstructor *first = &s->entries[0],
                          *last = first + s->entry_count - 1;
  switch (first->cell.pat->kind) {
  case CP_CON:
    return missing_con(m, s, witness);
  case CP_NUM:
    return missing_number(m, s, witness);
  case CP_STRING:
    missing_string(m, s, witness);
    return true;
  case CP_BOOL:
    witness->kind = CP_BOOL;
    witness->has_more = first->key != 0;
    return first->key == last->key;
  case CP_LIST:
  case CP_CONS: {
    HeadConstructor head = {.kind = first->key ? CP_LIST : CP_CONS,
                            .count = first->key ? 0 : 2};
    fill_witness(m, witness, &head);
    return first->key == last->key;
  }
  case CP_TUPLE:
  case CP_RECORD:
  case CP_SHAPE:
  case CP_WILD:
  case CP_VAR:
  case CP_AS:
    break;
  }
  return false;
}

static void check_default_matrix(ExhaustivenessCheck *m, const ColumnSplit *s) {
  WitnessPattern *witness = s->matrix->columns[s->col].witness;
  if (find_missing_constructor(m, s, witness) && !m->gave_up) {
    HeadConstructor none = {0};
    specialize(m, s, &none, NULL, 0);
  }
  *witness = (WitnessPattern){0};
}

static ColumnSplit split_column(ExhaustivenessCheck *m, const PatternMatrix *x,
                                uint32_t col) {
  ColumnSplit s = {.matrix = x, .col = col};
  s.entries = collect_constructors(m, x, col, &s.entry_count);
  s.wildcard_rows = NEW_ARRAY(m->arena, uint32_t, x->rows - s.entry_count);
  for (uint32_t i = 0; i < x->rows; i++)
    if (!cell_at(x, i, col)->pat)
      s.wildcard_rows[s.wildcard_row_count++] = i;
  return s;
}

/* Marks the rules that the rows of the matrix can reach, and detects unmatched
   values. */
static void check_matrix(ExhaustivenessCheck *m, const PatternMatrix *x) {
  if (m->gave_up)
    return;
  if (!x->rows) {
    record_missing(m);
    return;
  }
  uint32_t col = choose_column(x);
  if (col == x->cols) {
    m->reached[x->row_rules[0]] = true;
    return;
  }
  if (++m->depth > MAX_DEPTH)
    m->gave_up = true;
  ColumnSplit s = split_column(m, x, col);
  if (!m->gave_up) {
    specialize_all(m, &s);
    check_default_matrix(m, &s);
  }
  m->depth--;
}

/* ---- what is said ---- */

static bool begins_with(const Source *source, uint32_t at, const char *word) {
  size_t n = strlen(word);
  return source && at <= source->len && source->len - at >= n &&
         memcmp(source->text + at, word, n) == 0;
}

/* True if the patterns are the parameters of a function's clauses.  Then their
   tuple spans the whole clause with `=` and body, unlike a real tuple. */
static bool is_clause(const Source *source, const CorePat *pat) {
  if (!source || pat->kind != CP_TUPLE || !pat->arg_count)
    return false;
  const CorePat *last = pat->args[pat->arg_count - 1];
  uint32_t from = last->span.end, to = pat->span.end;
  if (last->span.file != pat->span.file || from > to || to > source->len)
    return false;
  return memchr(source->text + from, '=', to - from) != NULL;
}

/* The span of `case x of`, or of the first line of a function. */
static Span heading(const Source *source, Span span, const CorePat *first) {
  Span at = first->span;
  if (!source || span.end > source->len)
    return span;
  if (at.file == span.file && at.start > span.start && at.start < span.end)
    span.end = at.start;
  const char *text = source->text + span.start;
  const char *line = memchr(text, '\n', span.end - span.start);
  if (line)
    span.end = span.start + (uint32_t)(line - text);
  while (span.end > span.start + 1 &&
         strchr(" \t\r|(", source->text[span.end - 1]))
    span.end--;
  return span;
}

/* True if the text before it is `val`. */
static bool follows_val(const Source *source, uint32_t at) {
  while (at && strchr(" \t\r\n(", source->text[at - 1]))
    at--;
  return at >= 3 && memcmp(source->text + at - 3, "val", 3) == 0;
}

static void report_warnings(const ExhaustivenessCheck *m, uint32_t rules,
                            CorePat **pats, Span span) {
  Checker *c = m->c;
  const Source *source = span.file ? sources_get(c->sources, span.file) : NULL;
  if (m->missing) {
    bool show = m->example.len && m->example.len <= MAX_EXAMPLE_BYTES;
    Diag *d = warning_at(
        c, 401, heading(source, span, pats[0]),
        "this match is not exhaustive%s%s%s", show ? ": for example `" : "",
        show ? m->example.text : "", show ? "` is not matched" : "");
    if (source && follows_val(source, span.start))
      d->help = "use `case` with one rule for each constructor";
    else if (source && !begins_with(source, span.start, "case"))
      d->help = "add a clause for the missing values";
    else
      d->help = "add a rule, or a final `_ => ...`";
  }
  for (uint32_t i = 0; i < rules; i++) {
    if (m->reached[i])
      continue;
    Diag *d = warning_at(c, 402, pats[i]->span, "this rule is never reached");
    d->help = "earlier rules match all values of this rule";
  }
}

/* True if there were errors here, so that patterns may be incomplete. */
static bool has_errors(const Checker *c, Span span) {
  for (uint32_t i = 0; i < c->diags->all.len; i++) {
    const Diag *d = c->diags->all.at[i];
    if (d->severity == SEV_ERROR && d->span.file == span.file &&
        d->span.start >= span.start)
      return true;
  }
  return false;
}

static void run_check(ExhaustivenessCheck *m, uint32_t rules, CorePat **pats,
                      Type *type) {
  map_init(&m->con_types, m->arena);
  m->reached = NEW_ARRAY(m->arena, bool, rules);
  m->root = NEW(m->arena, WitnessPattern);
  PatternMatrix x = matrix_new(m, rules, 1);
  if (m->gave_up)
    return;
  x.columns[0] = (Column){type ? ty_norm(m->c, type) : NULL, m->root};
  for (; x.rows < rules; x.rows++) {
    x.row_rules[x.rows] = x.rows;
    x.cells[x.rows] = cell_of(pats[x.rows]);
  }
  check_matrix(m, &x);
}

static bool all_patterns_valid(uint32_t rules, CorePat **pats) {
  for (uint32_t i = 0; i < rules; i++)
    if (!pats[i])
      return false;
  return true;
}

static void match_free(ExhaustivenessCheck *m) {
  buffer_free(&m->example);
  buffer_free(&m->scratch);
  arena_free(m->arena);
  mem_free(m);
}

void check_exhaustiveness(Checker *c, uint32_t rules, CorePat **pats,
                          Type *type, Span span) {
  if (!rules || !all_patterns_valid(rules, pats) || has_errors(c, span))
    return;
  ExhaustivenessCheck *m = mem_alloc(sizeof *m);
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    m->c = c;
    m->arena = arena_new();
    m->curried = is_clause(sources_get(c->sources, span.file), pats[0]);
    run_check(m, rules, pats, type);
    if (!m->gave_up)
      report_warnings(m, rules, pats, span);
    trap_end(&trap);
    match_free(m);
    return;
  }
  match_free(m);
  trap_raise(trap.kind);
}
