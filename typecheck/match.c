/* Warnings about pattern matches: values that no rule takes, and rules that
 * are never reached.
 *
 * Maranget, "Warnings for pattern matching" (JFP 2007), done as one walk of
 * the matrix of patterns: a column is chosen in which the first row has a
 * constructor; for each constructor there, and for one that is missing, the
 * rows that may still match are looked at in turn.  Where no row is left, a
 * value is not matched: the constructors on the way are the example.  Where
 * the first row asks nothing more, it is reached.
 *
 * Parts of the example are Holes, filled in on the way down and emptied on the
 * way up; a column of the matrix knows the hole and the type of its values. */
#include "typecheck/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
  STEPS_MOST = 500000, /* cells of matrices, after which all is silence */
  DEPTH_MOST = 2000,
  EXAMPLE_MOST = 200, /* bytes, beyond which it explains nothing */
};

typedef struct Hole { /* CP_WILD: anything */
  CorePatKind kind;
  bool other;       /* CP_BOOL: false; CP_RECORD, CP_SHAPE: there is more */
  const char *text; /* of a number or string, or the name of a constructor */
  Sym **labels;
  uint32_t count, front; /* front: as in Head */
  struct Hole **parts;
} Hole;

typedef struct Cell {
  const CorePat *pat; /* NULL: everything matches */
  uint32_t from;      /* CP_LIST: what is left of it begins here */
} Cell;

typedef struct Column {
  Type *type; /* NULL: not known */
  Hole *hole;
} Column;

typedef struct Matrix {
  uint32_t rows, cols;
  uint32_t *rules; /* of which each row is what is left */
  Column *columns;
  Cell *cells;
} Matrix;

typedef struct Match {
  Checker *c;
  Arena *arena;
  uint32_t steps, depth;
  bool gave_up;
  bool *reached;
  Hole *root;
  bool curried;  /* the root is the parameters of a function */
  bool missing;  /* a value that is not matched was found */
  Buffer example, scratch;
  Map con_types; /* Type -> Type *[con_count] */
} Match;

/* A constructor that stands in a column. */
typedef struct Entry {
  uint32_t row;
  Cell cell;
  int64_t key;
  double number;
} Entry;

typedef struct Head { /* of the values in one branch */
  CorePatKind kind;
  uint32_t count; /* parts */
  Type **types;
  Sym **labels;
  uint32_t front, back; /* CP_SHAPE: items at its ends */
  bool other;           /* as in Hole */
} Head;

static void solve(Match *m, const Matrix *x);

static Cell cell_of(const CorePat *pat) {
  while (pat && pat->kind == CP_AS)
    pat = pat->args[0];
  if (pat && (pat->kind == CP_WILD || pat->kind == CP_VAR))
    pat = NULL;
  return (Cell){.pat = pat};
}

static Cell *cell_at(const Matrix *x, uint32_t row, uint32_t col) {
  return &x->cells[(size_t)row * x->cols + col];
}

static bool is_nil(const Cell *cell) {
  return cell->pat->kind == CP_LIST && cell->from == cell->pat->arg_count;
}

/* ---- the example as text ---- */

typedef enum HolePlace { PLACE_ANY, PLACE_LEFT_OF_CONS, PLACE_ATOM } HolePlace;

static void print_hole(Buffer *b, const Hole *h, HolePlace place);

static void print_parts(Buffer *b, const Hole *h) {
  for (uint32_t i = 0; i < h->count; i++) {
    if (i)
      buffer_puts(b, ", ");
    print_hole(b, h->parts[i], PLACE_ANY);
  }
}

static void print_record(Buffer *b, const Hole *h) {
  uint32_t shown = 0;
  buffer_putc(b, '{');
  for (uint32_t i = 0; i < h->count; i++) {
    if (h->parts[i]->kind == CP_WILD)
      continue;
    buffer_printf(b, "%s%s = ", shown++ ? ", " : "", h->labels[i]->text);
    print_hole(b, h->parts[i], PLACE_ANY);
  }
  if (h->other || shown < h->count)
    buffer_puts(b, shown ? ", ..." : "...");
  buffer_putc(b, '}');
}

static bool ends_in_nil(const Hole *h) {
  while (h->kind == CP_CONS)
    h = h->parts[1];
  return h->kind == CP_LIST;
}

static void print_cons(Buffer *b, const Hole *h, HolePlace place) {
  if (ends_in_nil(h)) {
    buffer_puts(b, "list [");
    for (const Hole *at = h; at->kind == CP_CONS; at = at->parts[1]) {
      if (at != h)
        buffer_puts(b, ", ");
      print_hole(b, at->parts[0], PLACE_ANY);
    }
    buffer_putc(b, ']');
    return;
  }
  if (place != PLACE_ANY)
    buffer_putc(b, '(');
  for (; h->kind == CP_CONS; h = h->parts[1]) {
    print_hole(b, h->parts[0], PLACE_LEFT_OF_CONS);
    buffer_puts(b, " :: ");
  }
  print_hole(b, h, PLACE_ANY);
  if (place != PLACE_ANY)
    buffer_putc(b, ')');
}

static void print_con(Buffer *b, const Hole *h, HolePlace place) {
  bool paren = h->count && place == PLACE_ATOM;
  if (paren)
    buffer_putc(b, '(');
  buffer_puts(b, h->text);
  if (h->count) {
    buffer_putc(b, ' ');
    print_hole(b, h->parts[0], PLACE_ATOM);
  }
  if (paren)
    buffer_putc(b, ')');
}

static void print_shape(Buffer *b, const Hole *h) {
  const char *between = "";
  buffer_putc(b, '[');
  for (uint32_t i = 0; i <= h->count; i++) {
    if (h->other && i == h->front) {
      buffer_printf(b, "%s...", between);
      between = ", ";
    }
    if (i == h->count)
      break;
    buffer_puts(b, between);
    print_hole(b, h->parts[i], PLACE_ANY);
    between = ", ";
  }
  buffer_putc(b, ']');
}

static void print_hole(Buffer *b, const Hole *h, HolePlace place) {
  switch (h->kind) {
  case CP_NUM:
  case CP_STRING:
    buffer_puts(b, h->text);
    return;
  case CP_BOOL:
    buffer_puts(b, h->other ? "false" : "true");
    return;
  case CP_CON:
    print_con(b, h, place);
    return;
  case CP_TUPLE:
    buffer_putc(b, '(');
    print_parts(b, h);
    buffer_putc(b, ')');
    return;
  case CP_RECORD:
    print_record(b, h);
    return;
  case CP_LIST:
    buffer_puts(b, "list []");
    return;
  case CP_CONS:
    print_cons(b, h, place);
    return;
  case CP_SHAPE:
    print_shape(b, h);
    return;
  case CP_WILD:
  case CP_VAR:
  case CP_AS:
    break;
  }
  buffer_putc(b, '_');
}

/* Keeps the first value that no row matches. */
static void found_missing(Match *m) {
  if (m->missing)
    return;
  m->missing = true;
  if (!m->curried || m->root->kind != CP_TUPLE) {
    print_hole(&m->example, m->root, PLACE_ANY);
    return;
  }
  for (uint32_t i = 0; i < m->root->count; i++) {
    if (i)
      buffer_putc(&m->example, ' ');
    print_hole(&m->example, m->root->parts[i], PLACE_ATOM);
  }
}

/* ---- matrices ---- */

static Matrix matrix_new(Match *m, uint32_t rows, uint32_t cols) {
  uint64_t cells = (uint64_t)rows * cols;
  if (m->gave_up || cells + rows + 1 > STEPS_MOST - m->steps) {
    m->gave_up = true;
    return (Matrix){0};
  }
  m->steps += (uint32_t)cells + rows + 1;
  Matrix x = {.cols = cols};
  x.rules = NEW_ARRAY(m->arena, uint32_t, rows);
  x.columns = NEW_ARRAY(m->arena, Column, cols);
  x.cells = NEW_ARRAY(m->arena, Cell, cells);
  return x;
}

/* Does the last row ask for nothing?  Then those after it are not reached. */
static bool last_takes_all(const Matrix *x) {
  for (uint32_t k = 0; k < x->cols; k++)
    if (cell_at(x, x->rows - 1, k)->pat)
      return false;
  return true;
}

/* Leaves out the columns in which no row asks for anything. */
static void compact(Match *m, Matrix *x) {
  bool *used = NEW_ARRAY(m->arena, bool, x->cols);
  for (uint32_t i = 0; i < x->rows; i++)
    for (uint32_t k = 0; k < x->cols; k++)
      used[k] |= cell_at(x, i, k)->pat != NULL;
  uint32_t cols = 0;
  for (uint32_t k = 0; k < x->cols; k++)
    if (used[k])
      x->columns[cols++] = x->columns[k];
  Cell *to = x->cells;
  for (uint32_t i = 0; i < x->rows; i++)
    for (uint32_t k = 0; k < x->cols; k++)
      if (used[k])
        *to++ = *cell_at(x, i, k);
  x->cols = cols;
}

/* The column in which the first row has a constructor and the fewest others
 * have none; cols when the first row takes everything. */
static uint32_t choose(const Matrix *x) {
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

static bool column_is_float(const Column *column, const Entry *entries,
                            uint32_t count) {
  Type *t = column->type;
  if (t && t->tag == TY_TENSOR &&
      !(elem_root(t->elem)->classes & ~(uint32_t)CLASS_FLOAT))
    return true;
  for (uint32_t i = 0; i < count; i++)
    if (entries[i].cell.pat->is_float)
      return true;
  return false;
}

static void number_key(Match *m, Entry *e, bool is_float) {
  const char *text = e->cell.pat->num;
  char *end = NULL;
  if (is_float) {
    e->number = strtod(text, &end) + 0.0; /* -0.0 is 0.0 */
  } else {
    e->key = strtoll(text, &end, strpbrk(text, "xX") ? 16 : 10);
    m->gave_up |= e->key == INT64_MAX || e->key == INT64_MIN;
  }
  m->gave_up |= *end != 0;
}

static CorePatKind family(CorePatKind kind) {
  return kind == CP_LIST ? CP_CONS : kind;
}

static void set_keys(Match *m, const Column *column, Entry *entries,
                     uint32_t count) {
  CorePatKind kind = family(entries[0].cell.pat->kind);
  bool is_float = kind == CP_NUM && column_is_float(column, entries, count);
  for (uint32_t i = 0; i < count; i++) {
    const CorePat *pat = entries[i].cell.pat;
    if (family(pat->kind) != kind) /* an error was told */
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

static int entry_order(const Entry *a, const Entry *b) {
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

static int entry_compare(const void *a0, const void *b0) {
  const Entry *a = a0, *b = b0;
  int order = entry_order(a, b);
  return order ? order : a->row < b->row ? -1 : a->row > b->row;
}

/* The cells of a column that have a constructor, equal ones together. */
static Entry *collect(Match *m, const Matrix *x, uint32_t col,
                      uint32_t *count) {
  Entry *entries = NEW_ARRAY(m->arena, Entry, x->rows);
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->rows; i++)
    if (cell_at(x, i, col)->pat)
      entries[n++] = (Entry){.row = i, .cell = *cell_at(x, i, col)};
  set_keys(m, &x->columns[col], entries, n);
  if (!m->gave_up)
    qsort(entries, n, sizeof *entries, entry_compare);
  *count = n;
  return entries;
}

/* ---- the parts of a constructor ---- */

static Type *for_param(Copy *copy, TyVar *v) { return map_get(&copy->map, v); }

/* The type of a constructor's argument where its datatype is t. */
static Type *con_arg_type(Match *m, Type *t, const struct DataCon *con) {
  Type **types = map_get(&m->con_types, t);
  if (!types) {
    types = NEW_ARRAY(m->arena, Type *, t->data->con_count);
    map_put(&m->con_types, t, types);
  }
  Type *fun = con->scheme->type;
  uint32_t tag = con->con.tag;
  if (!types[tag] && fun->tag == TY_FUN) {
    Copy copy = {.c = m->c, .ty = for_param};
    map_init(&copy.map, m->arena);
    Type *result = fun->arg[1];
    for (uint32_t i = 0; i < result->count && i < t->count; i++) {
      Type *param = ty_root(result->args[i]);
      if (param->tag == TY_VAR)
        map_put(&copy.map, param->var, t->args[i]);
    }
    types[tag] = ty_copy(&copy, fun->arg[0]);
  }
  return types[tag];
}

static void head_con(Match *m, Head *head, Type *t, uint32_t tag) {
  if (!t || t->tag != TY_DATA || tag >= t->data->con_count) {
    m->gave_up = true;
    return;
  }
  const struct DataCon *con = &t->data->cons[tag];
  head->count = con->con.has_arg;
  head->types = NEW(m->arena, Type *);
  if (con->con.has_arg)
    head->types[0] = con_arg_type(m, t, con);
}

static void head_tuple(Match *m, Head *head, Type *t, uint32_t count) {
  head->count = count;
  head->types = NEW_ARRAY(m->arena, Type *, count);
  for (uint32_t i = 0; i < count; i++)
    if (t && t->tag == TY_TUPLE && i < t->count)
      head->types[i] = t->args[i];
}

static Type *row_rest(Match *m, Type *t) {
  return t->arg[0] ? ty_norm(m->c, t->arg[0]) : NULL;
}

static Type *field_type(Match *m, Type *t, const Sym *label) {
  for (; t && t->tag == TY_RECORD; t = row_rest(m, t))
    for (uint32_t i = 0; i < t->count; i++)
      if (t->labels[i] == label)
        return t->args[i];
  return NULL;
}

/* Does a record have exactly so many fields? */
static bool has_fields(Match *m, Type *t, uint32_t count) {
  uint32_t fields = 0;
  for (; t && t->tag == TY_RECORD; t = row_rest(m, t)) {
    fields += t->count;
    if (!t->arg[0])
      return fields == count;
  }
  return false;
}

/* All fields that some pattern names. */
static void head_record(Match *m, Head *head, Type *t, const Entry *entries,
                        uint32_t count) {
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
  head->other = !has_fields(m, t, labels.len);
  head->labels = labels.at;
  head->count = labels.len;
  head->types = NEW_ARRAY(m->arena, Type *, labels.len);
  for (uint32_t k = 0; k < labels.len; k++)
    head->types[k] = field_type(m, t, labels.at[k]);
}

/* What is known of a shape's items: all, or those at its ends.  A pattern that
 * asks for more can only be decided when running. */
static void head_shape(Match *m, Head *head, Type *t, const Entry *entries,
                       uint32_t count) {
  if (!t || t->tag != TY_SHAPE) {
    m->gave_up = true;
    return;
  }
  Shape *s = shape_norm(m->c, t->shape);
  bool known = shape_known_rank(s);
  while (head->front < s->len && s->at[head->front].tag != IT_SPLICE)
    head->front++;
  while (head->back < s->len - head->front &&
         s->at[s->len - 1 - head->back].tag != IT_SPLICE)
    head->back++;
  if (known)
    head->front = s->len, head->back = 0;
  head->other = !known;
  for (uint32_t i = 0; i < count; i++) {
    const CorePat *pat = entries[i].cell.pat;
    uint32_t before = pat->rest < 0 ? pat->arg_count : (uint32_t)pat->rest;
    uint32_t after = pat->rest < 0 ? 0 : pat->arg_count - 1 - before;
    bool fits = known ? pat->rest < 0 ? before == head->front
                                      : before + after <= head->front
                      : pat->rest >= 0 && before <= head->front &&
                            after <= head->back;
    m->gave_up |= !fits;
  }
  head->count = head->front + head->back;
  head->types = NEW_ARRAY(m->arena, Type *, head->count);
}

static void head_list(Match *m, Head *head, Type *t) {
  head->count = 2;
  head->types = NEW_ARRAY(m->arena, Type *, 2);
  if (t && t->tag == TY_DATA && t->data == m->c->data_list)
    head->types[0] = t->args[0];
  head->types[1] = t;
}

/* The head that the entries, equal ones, have. */
static Head head_of(Match *m, const Column *column, const Entry *entries,
                    uint32_t count) {
  const CorePat *pat = entries[0].cell.pat;
  Head head = {.kind = pat->kind};
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
    head.other = !pat->flag;
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

static Cell shape_part(const Head *head, const CorePat *pat, uint32_t k) {
  uint32_t before = pat->rest < 0 ? pat->arg_count : (uint32_t)pat->rest;
  if (k < before)
    return k < head->front ? cell_of(pat->args[k]) : (Cell){0};
  uint32_t from_end = head->count - 1 - k; /* counted from the end */
  uint32_t after = pat->rest < 0 ? 0 : pat->arg_count - 1 - before;
  return from_end < after ? cell_of(pat->args[pat->arg_count - 1 - from_end])
                          : (Cell){0};
}

static Cell record_part(const CorePat *pat, const Sym *label) {
  for (uint32_t i = 0; i < pat->arg_count; i++)
    if (pat->labels[i] == label)
      return cell_of(pat->args[i]);
  return (Cell){0};
}

/* Part k of a cell that has the head's constructor. */
static Cell part_of(const Head *head, Cell cell, uint32_t k) {
  const CorePat *pat = cell.pat;
  if (!pat)
    return cell;
  if (pat->kind == CP_SHAPE)
    return shape_part(head, pat, k);
  if (pat->kind == CP_RECORD)
    return record_part(pat, head->labels[k]);
  if (pat->kind != CP_LIST)
    return k < pat->arg_count ? cell_of(pat->args[k]) : (Cell){0};
  if (k == 0)
    return cell_of(pat->args[cell.from]);
  return (Cell){.pat = pat, .from = cell.from + 1};
}

/* ---- the walk ---- */

/* Fills a hole with a constructor whose parts are anything. */
static void fill_hole(Match *m, Hole *hole, const Head *head) {
  hole->kind = head->kind;
  hole->other = head->other;
  hole->count = head->count;
  hole->front = head->front;
  hole->labels = head->labels;
  hole->parts = NEW_ARRAY(m->arena, Hole *, head->count);
  for (uint32_t k = 0; k < head->count; k++)
    hole->parts[k] = NEW(m->arena, Hole);
}

static const char *quoted(Match *m, const CorePat *pat) {
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
  return arena_text(m->arena, b->text, b->len);
}

static void name_hole(Match *m, Hole *hole, const CorePat *pat) {
  if (pat->kind == CP_NUM)
    hole->text = pat->num;
  else if (pat->kind == CP_STRING)
    hole->text = quoted(m, pat);
  else if (pat->kind == CP_CON)
    hole->text = pat->con->name->text;
}

/* Adds row i without column col, with the parts of its cell there instead. */
static void add_row(Matrix *to, const Matrix *x, uint32_t i, uint32_t col,
                    const Head *head) {
  uint32_t k = 0;
  Cell *cells = cell_at(to, to->rows, 0);
  Cell cell = *cell_at(x, i, col);
  for (; k < head->count; k++)
    cells[k] = part_of(head, cell, k);
  for (uint32_t j = 0; j < x->cols; j++)
    if (j != col)
      cells[k++] = *cell_at(x, i, j);
  to->rules[to->rows++] = x->rules[i];
}

static void set_columns(Match *m, Matrix *to, const Matrix *x, uint32_t col,
                        const Head *head) {
  uint32_t k = 0;
  Hole *hole = x->columns[col].hole;
  for (; k < head->count; k++) {
    Type *t = head->types[k];
    to->columns[k].type = t ? ty_norm(m->c, t) : NULL;
    to->columns[k].hole = hole->parts[k];
  }
  for (uint32_t j = 0; j < x->cols; j++)
    if (j != col)
      to->columns[k++] = x->columns[j];
}

typedef struct Split { /* a matrix by the constructors of one column */
  const Matrix *x;
  uint32_t col;
  Entry *entries;
  uint32_t entry_count;
  uint32_t *wild; /* rows without a constructor there */
  uint32_t wild_count;
} Split;

/* The rows that match where the column has the head: those of the entries and
 * the wild ones, in order.  (No entries: a constructor that is missing.) */
static void branch(Match *m, const Split *s, const Head *head,
                   const Entry *entries, uint32_t count) {
  Matrix to = matrix_new(m, count + s->wild_count,
                         s->x->cols - 1 + head->count);
  if (m->gave_up)
    return;
  uint32_t e = 0, w = 0;
  while (e < count || w < s->wild_count) {
    bool entry = w == s->wild_count ||
                 (e < count && entries[e].row < s->wild[w]);
    add_row(&to, s->x, entry ? entries[e++].row : s->wild[w++], s->col, head);
    if (last_takes_all(&to))
      break;
  }
  set_columns(m, &to, s->x, s->col, head);
  compact(m, &to);
  solve(m, &to);
}

static void branches(Match *m, const Split *s) {
  const Column *column = &s->x->columns[s->col];
  for (uint32_t i = 0, end; i < s->entry_count && !m->gave_up; i = end) {
    for (end = i + 1; end < s->entry_count; end++)
      if (entry_order(&s->entries[i], &s->entries[end]) != 0)
        break;
    Head head = head_of(m, column, &s->entries[i], end - i);
    if (m->gave_up)
      return;
    fill_hole(m, column->hole, &head);
    name_hole(m, column->hole, s->entries[i].cell.pat);
    branch(m, s, &head, &s->entries[i], end - i);
    *column->hole = (Hole){0};
  }
}

/* ---- constructors that are missing ---- */

static bool missing_con(Match *m, const Split *s, Hole *hole) {
  Type *t = s->x->columns[s->col].type;
  if (!t || t->tag != TY_DATA) {
    m->gave_up = true;
    return false;
  }
  uint32_t tag = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    tag += s->entries[i].key == tag;
  if (tag >= t->data->con_count)
    return false;
  const Con *con = &t->data->cons[tag].con;
  Head head = {.kind = CP_CON, .count = con->has_arg};
  fill_hole(m, hole, &head);
  hole->text = con->name->text;
  return true;
}

/* A float that is not there: the first of 0.0, 1.0, ... */
static bool missing_float(Match *m, const Split *s, Hole *hole) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    n += s->entries[i].number == n;
  hole->text = arena_printf(m->arena, "%u.0", n);
  return true;
}

static bool missing_number(Match *m, const Split *s, Hole *hole) {
  const Column *column = &s->x->columns[s->col];
  hole->kind = CP_NUM;
  if (column_is_float(column, s->entries, s->entry_count))
    return missing_float(m, s, hole);
  Type *t = column->type;
  Dtype dtype = t && t->tag == TY_TENSOR ? elem_root(t->elem)->dtype : DT_NONE;
  int64_t most = dtype == DT_U8 ? 255 : dtype == DT_I8 ? 127 : INT64_MAX;
  int64_t n = 0;
  for (uint32_t i = 0; i < s->entry_count; i++)
    n += s->entries[i].key == n;
  if (n > most) {
    if (dtype != DT_I8)
      return false;
    n = -1;
    for (uint32_t i = s->entry_count; i-- > 0;)
      n -= s->entries[i].key == n;
    if (n < -128)
      return false;
  }
  hole->text = arena_printf(m->arena, "%lld", (long long)n);
  return true;
}

/* "other", "other1", ...: not there, as so many cannot all be. */
static void missing_string(Match *m, const Split *s, Hole *hole) {
  CorePat pat = {.kind = CP_STRING};
  for (uint32_t n = 0;; n++) {
    pat.text = n ? arena_printf(m->arena, "other%u", n) : "other";
    pat.text_len = (uint32_t)strlen(pat.text);
    Entry key = {.cell.pat = &pat};
    uint32_t i = 0;
    while (i < s->entry_count && entry_order(&s->entries[i], &key) != 0)
      i++;
    if (i == s->entry_count)
      break;
  }
  hole->kind = CP_STRING;
  hole->text = quoted(m, &pat);
}

/* Fills the hole with a constructor that the column lacks; false if it has
 * them all. */
static bool missing_head(Match *m, const Split *s, Hole *hole) {
  const Entry *first = &s->entries[0], *last = first + s->entry_count - 1;
  switch (first->cell.pat->kind) {
  case CP_CON:
    return missing_con(m, s, hole);
  case CP_NUM:
    return missing_number(m, s, hole);
  case CP_STRING:
    missing_string(m, s, hole);
    return true;
  case CP_BOOL:
    hole->kind = CP_BOOL;
    hole->other = first->key != 0;
    return first->key == last->key;
  case CP_LIST:
  case CP_CONS: {
    Head head = {.kind = first->key ? CP_LIST : CP_CONS,
                 .count = first->key ? 0 : 2};
    fill_hole(m, hole, &head);
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

static void other_branch(Match *m, const Split *s) {
  Hole *hole = s->x->columns[s->col].hole;
  if (missing_head(m, s, hole) && !m->gave_up) {
    Head none = {0};
    branch(m, s, &none, NULL, 0);
  }
  *hole = (Hole){0};
}

static Split split(Match *m, const Matrix *x, uint32_t col) {
  Split s = {.x = x, .col = col};
  s.entries = collect(m, x, col, &s.entry_count);
  s.wild = NEW_ARRAY(m->arena, uint32_t, x->rows - s.entry_count);
  for (uint32_t i = 0; i < x->rows; i++)
    if (!cell_at(x, i, col)->pat)
      s.wild[s.wild_count++] = i;
  return s;
}

/* Marks the rules that the rows of the matrix are reached by, and finds out
 * whether there are values that none of them takes. */
static void solve(Match *m, const Matrix *x) {
  if (m->gave_up)
    return;
  if (!x->rows) {
    found_missing(m);
    return;
  }
  uint32_t col = choose(x);
  if (col == x->cols) {
    m->reached[x->rules[0]] = true;
    return;
  }
  if (++m->depth > DEPTH_MOST)
    m->gave_up = true;
  Split s = split(m, x, col);
  if (!m->gave_up) {
    branches(m, &s);
    other_branch(m, &s);
  }
  m->depth--;
}

/* ---- what is said ---- */

static bool begins_with(const Source *source, uint32_t at, const char *word) {
  size_t n = strlen(word);
  return source && at <= source->len && source->len - at >= n &&
         memcmp(source->text + at, word, n) == 0;
}

/* Are the patterns the parameters of a function's clauses?  Then their tuple
 * spans the whole clause, `=` and body too, which no tuple contains. */
static bool is_clause(const Source *source, const CorePat *pat) {
  if (!source || pat->kind != CP_TUPLE || !pat->arg_count)
    return false;
  const CorePat *last = pat->args[pat->arg_count - 1];
  uint32_t from = last->span.end, to = pat->span.end;
  if (last->span.file != pat->span.file || from > to || to > source->len)
    return false;
  return memchr(source->text + from, '=', to - from) != NULL;
}

/* `case x of`, or the first line of a function. */
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

/* True if the text in front is `val`. */
static bool follows_val(const Source *source, uint32_t at) {
  while (at && strchr(" \t\r\n(", source->text[at - 1]))
    at--;
  return at >= 3 && memcmp(source->text + at - 3, "val", 3) == 0;
}

static void say(const Match *m, uint32_t rules, CorePat **pats, Span span) {
  Checker *c = m->c;
  const Source *source = span.file ? sources_get(c->sources, span.file) : NULL;
  if (m->missing) {
    bool show = m->example.len && m->example.len <= EXAMPLE_MOST;
    Diag *d = warning_at(c, 401, heading(source, span, pats[0]),
                         "this match is not exhaustive%s%s%s",
                         show ? ": for example `" : "",
                         show ? m->example.text : "",
                         show ? "` is not matched" : "");
    if (source && follows_val(source, span.start))
      d->help = "take the value apart with `case`, which has a rule for each";
    else if (source && !begins_with(source, span.start, "case"))
      d->help = "add a clause for what is missing";
    else
      d->help = "add a rule, or a final `_ => ...`";
  }
  for (uint32_t i = 0; i < rules; i++) {
    if (m->reached[i])
      continue;
    Diag *d = warning_at(c, 402, pats[i]->span, "this rule is never reached");
    d->help = "the rules before it match all that it does";
  }
}

/* Where there were errors, patterns may not be what they seem. */
static bool has_errors(const Checker *c, Span span) {
  for (uint32_t i = 0; i < c->diags->all.len; i++) {
    const Diag *d = c->diags->all.at[i];
    if (d->severity == SEV_ERROR && d->span.file == span.file &&
        d->span.start >= span.start)
      return true;
  }
  return false;
}

static void run(Match *m, uint32_t rules, CorePat **pats, Type *type) {
  map_init(&m->con_types, m->arena);
  m->reached = NEW_ARRAY(m->arena, bool, rules);
  m->root = NEW(m->arena, Hole);
  Matrix x = matrix_new(m, rules, 1);
  if (m->gave_up)
    return;
  x.columns[0] = (Column){type ? ty_norm(m->c, type) : NULL, m->root};
  for (; x.rows < rules; x.rows++) {
    x.rules[x.rows] = x.rows;
    x.cells[x.rows] = cell_of(pats[x.rows]);
  }
  solve(m, &x);
}

static bool all_there(uint32_t rules, CorePat **pats) {
  for (uint32_t i = 0; i < rules; i++)
    if (!pats[i])
      return false;
  return true;
}

static void match_free(Match *m) {
  buffer_free(&m->example);
  buffer_free(&m->scratch);
  arena_free(m->arena);
  mem_free(m);
}

void match_check(Checker *c, uint32_t rules, CorePat **pats, Type *type,
                 Span span) {
  if (!rules || !all_there(rules, pats) || has_errors(c, span))
    return;
  Match *m = mem_alloc(sizeof *m);
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    m->c = c;
    m->arena = arena_new();
    m->curried = is_clause(sources_get(c->sources, span.file), pats[0]);
    run(m, rules, pats, type);
    if (!m->gave_up)
      say(m, rules, pats, span);
    trap_end(&trap);
    match_free(m);
    return;
  }
  match_free(m);
  trap_raise(trap.kind);
}
