/* Infeasibility of linear constraints over the integers.  Main entry point:
 * fm_infeasible.
 *
 * Equations with a coefficient +-1 are eliminated by substitution.  Other
 * equations are tested by the gcd of their coefficients.  Then Fourier-Motzkin
 * elimination removes the unknowns.  Each row is divided by the gcd of its
 * coefficients, and its constant is rounded down.  This is the real shadow of
 * the Omega test (Pugh, 1991).  It is exact in one direction, the one used
 * here.  A row whose coefficients overflow is left out. */
#include "solver.h"
#include "support/arena.h"
#include "support/int_math.h"

#include <string.h>

/* ---- scratch memory ---- */

void *scratch_alloc(Scratch *scratch, size_t size) {
  size = (size + 15) & ~(size_t)15;
  ScratchBlock *block = scratch->current;
  while (block && block->size - block->used < size) {
    block = block->next;
    if (block)
      block->used = 0;
  }
  if (!block) {
    size_t capacity = size > 32 * 1024 ? size : 32 * 1024;
    block = arena_alloc(scratch->arena, sizeof *block + capacity);
    block->size = capacity;
    if (scratch->current) { /* later chunks were too small: keep them behind */
      block->next = scratch->current->next;
      scratch->current->next = block;
    } else {
      scratch->first = block;
    }
  }
  scratch->current = block;
  void *p = (char *)(block + 1) + block->used;
  block->used += size;
  return p;
}

ScratchMark scratch_mark(Scratch *scratch) {
  return (ScratchMark){scratch->current,
                       scratch->current ? scratch->current->used : 0};
}

void scratch_release(Scratch *scratch, ScratchMark mark) {
  scratch->current = mark.block ? mark.block : scratch->first;
  if (scratch->current)
    scratch->current->used = mark.used;
}

/* ---- rows ---- */

typedef struct Row { /* sum of entries + constant >= 0 */
  uint64_t hash;     /* of the entries */
  int64_t constant;
  uint32_t count;
  RowEntry entries[]; /* sorted by column; nonzero */
} Row;

typedef struct FourierMotzkin {
  uint32_t columns, count;
  bool infeasible, gave_up;
  const Row **rows; /* a row is replaced if only its constant changes */
  Row *spare_row;   /* a row under construction, with space for all columns */
  uint64_t factors[MAX_QUERY_MONOMIALS]; /* of the columns, in hashes */
  /* maps a hash of coefficients to 1 + index; 0 is empty */
  uint16_t *hash_table;
  Scratch *scratch;
} FourierMotzkin;

enum { FM_HASH_SLOTS = 1024 };
_Static_assert((int)FM_HASH_SLOTS > (int)MAX_ELIMINATION_ROWS,
               "the table never fills up");

static size_t row_size(uint32_t count) {
  return sizeof(Row) + count * sizeof(RowEntry);
}

static void init_factors(FourierMotzkin *fm) {
  uint64_t factor = 1;
  for (uint32_t i = 0; i < fm->columns; i++)
    fm->factors[i] = factor *= 0x9E3779B97F4A7C15u;
}

/* A linear hash, so that the opposite row has the opposite hash. */
static uint64_t row_hash(const FourierMotzkin *fm, const Row *row) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < row->count; i++)
    h += (uint64_t)row->entries[i].coef * fm->factors[row->entries[i].column];
  return h;
}

static bool rows_agree(const Row *a, const Row *b, int sign) {
  if (a->count != b->count)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (a->entries[i].column != b->entries[i].column ||
        a->entries[i].coef != sign * b->entries[i].coef)
      return false;
  return true;
}

/* The index of the row whose coefficients are sign*row's.  If there is none,
   UINT32_MAX and the slot where it would be. */
static uint32_t row_find(const FourierMotzkin *fm, const Row *row, int sign,
                         uint32_t *slot) {
  uint64_t hash = sign < 0 ? -row->hash : row->hash;
  for (uint32_t i = (hash >> 32) % FM_HASH_SLOTS;;
       i = (i + 1) % FM_HASH_SLOTS) {
    *slot = i;
    if (!fm->hash_table[i])
      return UINT32_MAX;
    uint32_t index = fm->hash_table[i] - 1u;
    if (fm->rows[index]->hash == hash && rows_agree(fm->rows[index], row, sign))
      return index;
  }
}

static uint64_t entries_gcd(const Row *row) {
  uint64_t g = 0;
  for (uint32_t i = 0; i < row->count && g != 1; i++)
    g = uint_gcd(int_magnitude(row->entries[i].coef), g);
  return g;
}

/* Divides the spare row by the gcd of its coefficients.  Returns false if it
   has none, or too large numbers: a change of sign must not overflow. */
static bool normalize_spare_row(FourierMotzkin *fm) {
  Row *row = fm->spare_row;
  uint64_t g = entries_gcd(row);
  if (!g)
    fm->infeasible |= row->constant < 0;
  if (!g || g > INT64_MAX)
    return false;
  bool fits = true;
  for (uint32_t i = 0; i < row->count; i++) {
    if (g > 1)
      row->entries[i].coef /= (int64_t)g;
    fits &= row->entries[i].coef != INT64_MIN;
  }
  if (g > 1)
    row->constant = int_floor_div(row->constant, (int64_t)g);
  return fits && row->constant != INT64_MIN;
}

static const Row *row_copy(FourierMotzkin *fm, const Row *row) {
  size_t size = row_size(row->count);
  return memcpy(scratch_alloc(fm->scratch, size), row, size);
}

static void insert_row(FourierMotzkin *fm, const Row *row, uint32_t slot) {
  fm->hash_table[slot] = (uint16_t)(fm->count + 1);
  fm->rows[fm->count++] = row;
}

/* Adds the spare row.  If two rows differ only in the constant, the stronger
   one stays.  Two opposite rows may contradict each other. */
static void row_add(FourierMotzkin *fm) {
  if (!normalize_spare_row(fm))
    return;
  Row *row = fm->spare_row;
  row->hash = row_hash(fm, row);
  uint32_t slot, opposite = row_find(fm, row, -1, &slot);
  int64_t sum;
  if (opposite != UINT32_MAX &&
      !__builtin_add_overflow(fm->rows[opposite]->constant, row->constant,
                              &sum) &&
      sum < 0) {
    fm->infeasible = true;
    return;
  }
  uint32_t other = row_find(fm, row, 1, &slot);
  if (other == UINT32_MAX && fm->count == MAX_ELIMINATION_ROWS)
    fm->gave_up = true;
  else if (other == UINT32_MAX)
    insert_row(fm, row_copy(fm, row), slot);
  else if (row->constant < fm->rows[other]->constant)
    fm->rows[other] = row_copy(fm, row);
}

/* out = p*a + q*b; false on overflow. */
static bool combine_rows(Row *out, int64_t p, const Row *a, int64_t q,
                         const Row *b) {
  int64_t x, y;
  out->count = 0;
  for (uint32_t i = 0, j = 0; i < a->count || j < b->count;) {
    bool left = j == b->count ||
                (i < a->count && a->entries[i].column <= b->entries[j].column);
    bool right = i == a->count ||
                 (j < b->count && b->entries[j].column <= a->entries[i].column);
    RowEntry *sum = &out->entries[out->count];
    sum->column = left ? a->entries[i].column : b->entries[j].column;
    if (__builtin_mul_overflow(p, left ? a->entries[i].coef : 0, &x) ||
        __builtin_mul_overflow(q, right ? b->entries[j].coef : 0, &y) ||
        __builtin_add_overflow(x, y, &sum->coef) || sum->coef == INT64_MIN)
      return false;
    out->count += sum->coef != 0;
    i += left, j += right;
  }
  return !__builtin_mul_overflow(p, a->constant, &x) &&
         !__builtin_mul_overflow(q, b->constant, &y) &&
         !__builtin_add_overflow(x, y, &out->constant) &&
         out->constant != INT64_MIN;
}

/* ---- equations ---- */

static void densify(int64_t *out, const SparseRow *row, uint32_t columns) {
  memset(out, 0, sizeof *out * (columns + 1));
  for (uint32_t i = 0; i < row->count; i++)
    out[row->entries[i].column] = row->entries[i].coef;
  out[columns] = row->constant;
}

static void row_clear(int64_t *row, uint32_t columns) {
  memset(row, 0, sizeof *row * (columns + 1));
}

static uint32_t unit_pivot(const int64_t *eq, uint32_t columns) {
  for (uint32_t i = 0; i < columns; i++)
    if (eq[i] == 1 || eq[i] == -1)
      return i;
  return UINT32_MAX;
}

/* Eliminates the equations among rows[0..count).  The remaining ones become two
   inequalities each.  A row that overflows is left out. */
static bool eliminate_equations(const FourierMotzkin *fm, int64_t **rows,
                                bool *eqs, uint32_t count) {
  uint32_t columns = fm->columns;
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < count; i++) {
      if (!eqs[i])
        continue;
      if (!row_normalize_equation(rows[i], columns))
        return false;
      uint32_t column = unit_pivot(rows[i], columns);
      if (column == UINT32_MAX)
        continue;
      scratch_spend_effort(fm->scratch, count * 4);
      for (uint32_t j = 0; j < count; j++)
        if (j != i && !row_eliminate(rows[j], rows[i], column, columns))
          row_clear(rows[j], columns);
      eqs[i] = false;
      row_clear(rows[i], columns);
      again = true;
    }
  }
  return true;
}

/* ---- inequalities ---- */

/* The unknown whose elimination adds the fewest rows; UINT32_MAX if none is
   left. */
static uint32_t cheapest_column(const FourierMotzkin *fm) {
  uint16_t above[MAX_QUERY_MONOMIALS] = {0}, below[MAX_QUERY_MONOMIALS] = {0};
  for (uint32_t i = 0; i < fm->count; i++)
    for (uint32_t k = 0; k < fm->rows[i]->count; k++) {
      RowEntry entry = fm->rows[i]->entries[k];
      ++(entry.coef < 0 ? above : below)[entry.column];
    }
  uint32_t best = UINT32_MAX;
  int64_t best_cost = INT64_MAX;
  for (uint32_t c = 0; c < fm->columns; c++) {
    int64_t cost = (int64_t)above[c] * below[c] - above[c] - below[c];
    if (above[c] + below[c] && cost < best_cost) {
      best = c;
      best_cost = cost;
    }
  }
  return best;
}

static void fm_clear(FourierMotzkin *fm) {
  fm->count = 0;
  memset(fm->hash_table, 0, sizeof *fm->hash_table * FM_HASH_SLOTS);
}

static int64_t coef_of(const Row *row, uint32_t column) {
  for (uint32_t i = 0; i < row->count && row->entries[i].column <= column; i++)
    if (row->entries[i].column == column)
      return row->entries[i].coef;
  return 0;
}

static void eliminate_pair(FourierMotzkin *fm, const Row *below, int64_t q,
                           const Row *above, int64_t p) {
  int64_t g = int_gcd(p, q);
  if (!scratch_spend_effort(fm->scratch, fm->columns + 10))
    fm->gave_up = true;
  else if (combine_rows(fm->spare_row, -p / g, below, q / g, above))
    row_add(fm);
}

static void eliminate_column(FourierMotzkin *fm, uint32_t column) {
  uint32_t count = fm->count, above_count = 0, slot;
  const Row **old = scratch_alloc(fm->scratch, sizeof *old * (count + 1));
  uint32_t *above = scratch_alloc(fm->scratch, sizeof *above * (count + 1));
  int64_t *coefs = scratch_alloc(fm->scratch, sizeof *coefs * (count + 1));
  memcpy(old, fm->rows, sizeof *old * count);
  fm_clear(fm);
  for (uint32_t i = 0; i < count; i++) {
    coefs[i] = coef_of(old[i], column);
    if (coefs[i] < 0)
      above[above_count++] = i;
    if (!coefs[i] && row_find(fm, old[i], 1, &slot) == UINT32_MAX)
      insert_row(fm, old[i], slot);
  }
  for (uint32_t i = 0; i < count && !fm->infeasible && !fm->gave_up; i++)
    for (uint32_t k = 0;
         coefs[i] > 0 && k < above_count && !fm->infeasible && !fm->gave_up;
         k++)
      eliminate_pair(fm, old[i], coefs[i], old[above[k]], coefs[above[k]]);
}

static bool fm_run(FourierMotzkin *fm) {
  while (!fm->infeasible && !fm->gave_up) {
    uint32_t column = cheapest_column(fm);
    if (column == UINT32_MAX ||
        !scratch_spend_effort(fm->scratch, fm->count * fm->columns))
      break;
    eliminate_column(fm, column);
  }
  return fm->infeasible;
}

/* Adds sign times a dense row. */
static void add_dense(FourierMotzkin *fm, const int64_t *dense, int sign) {
  Row *row = fm->spare_row;
  row->count = 0;
  row->constant = sign * dense[fm->columns];
  for (uint32_t i = 0; i < fm->columns; i++)
    if (dense[i])
      row->entries[row->count++] = (RowEntry){i, sign * dense[i]};
  row_add(fm);
}

/* Adds an inequality.  Its entries are few, and in any order. */
static void add_sparse(FourierMotzkin *fm, const SparseRow *from) {
  Row *row = fm->spare_row;
  row->constant = from->constant;
  row->count = from->count;
  for (uint32_t i = 0; i < from->count; i++) {
    RowEntry entry = from->entries[i];
    uint32_t at = i;
    for (; at && row->entries[at - 1].column > entry.column; at--)
      row->entries[at] = row->entries[at - 1];
    row->entries[at] = entry;
  }
  row_add(fm);
}

/* Rows with equations: these are eliminated in dense rows. */
static bool fm_solve_equations(FourierMotzkin *fm, const SparseRow *const *rows,
                               uint32_t count) {
  int64_t **dense = scratch_alloc(fm->scratch, sizeof *dense * count);
  bool *eqs = scratch_alloc(fm->scratch, sizeof *eqs * count);
  for (uint32_t i = 0; i < count; i++) {
    dense[i] = scratch_alloc(fm->scratch, sizeof **dense * (fm->columns + 1));
    densify(dense[i], rows[i], fm->columns);
    eqs[i] = rows[i]->eq;
  }
  if (!eliminate_equations(fm, dense, eqs, count))
    return true;
  for (uint32_t i = 0; i < count && !fm->infeasible; i++)
    for (int sign = 1; sign >= (eqs[i] ? -1 : 1); sign -= 2)
      add_dense(fm, dense[i], sign);
  return fm_run(fm);
}

static bool fm_solve_inequalities(FourierMotzkin *fm,
                                  const SparseRow *const *rows,
                                  uint32_t count) {
  for (uint32_t i = 0; i < count && !fm->infeasible; i++)
    add_sparse(fm, rows[i]);
  return fm_run(fm);
}

bool fm_infeasible(Scratch *scratch, uint32_t columns,
                   const SparseRow *const *rows, uint32_t count) {
  if (!scratch_spend_effort(scratch, count * columns + FM_HASH_SLOTS / 8))
    return false;
  ScratchMark mark = scratch_mark(scratch);
  FourierMotzkin fm = {.columns = columns, .scratch = scratch};
  init_factors(&fm);
  fm.rows = scratch_alloc(scratch, sizeof *fm.rows * MAX_ELIMINATION_ROWS);
  fm.hash_table = scratch_alloc(scratch, sizeof *fm.hash_table * FM_HASH_SLOTS);
  fm.spare_row = scratch_alloc(scratch, row_size(columns));
  fm_clear(&fm);
  bool any_equation = false;
  for (uint32_t i = 0; i < count; i++)
    any_equation |= rows[i]->eq;
  bool infeasible = any_equation ? fm_solve_equations(&fm, rows, count)
                                 : fm_solve_inequalities(&fm, rows, count);
  scratch_release(scratch, mark);
  return infeasible;
}
