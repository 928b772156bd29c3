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

/* A dense row holds one coefficient per column, then the constant. */
typedef struct FourierMotzkin {
  uint32_t columns, count;
  bool infeasible, gave_up;
  int64_t **rows;
  uint64_t *hashes;
  int64_t *spare_row; /* a row under construction */
  /* maps a hash of coefficients to 1 + index; 0 is empty */
  uint16_t *hash_table;
  Scratch *scratch;
} FourierMotzkin;

enum { FM_HASH_SLOTS = 1024 };
_Static_assert((int)FM_HASH_SLOTS > (int)MAX_ELIMINATION_ROWS,
               "the table never fills up");

/* A linear hash, so that the opposite row has the opposite hash. */
static uint64_t row_hash(const int64_t *row, uint32_t columns) {
  uint64_t h = 0, factor = 1;
  for (uint32_t i = 0; i < columns; i++) {
    factor *= 0x9E3779B97F4A7C15u;
    h += (uint64_t)row[i] * factor;
  }
  return h;
}

/* The index of the row whose coefficients are sign*row's.  If there is none,
   UINT32_MAX and the slot where it would be. */
static uint32_t row_find(FourierMotzkin *fm, const int64_t *row, int sign,
                         uint64_t hash, uint32_t *slot) {
  if (sign < 0)
    hash = -hash;
  for (uint32_t i = (hash >> 32) % FM_HASH_SLOTS;;
       i = (i + 1) % FM_HASH_SLOTS) {
    *slot = i;
    if (!fm->hash_table[i])
      return UINT32_MAX;
    uint32_t index = fm->hash_table[i] - 1u;
    if (fm->hashes[index] != hash)
      continue;
    uint32_t j = 0;
    while (j < fm->columns && fm->rows[index][j] == sign * row[j])
      j++;
    if (j == fm->columns)
      return index;
  }
}

/* Adds the spare row.  If two rows differ only in the constant, the stronger
   one stays.  Two opposite rows may contradict each other. */
static void row_add(FourierMotzkin *fm) {
  int64_t *row = fm->spare_row;
  uint32_t columns = fm->columns;
  uint64_t g = row_gcd(row, columns);
  if (!g) {
    fm->infeasible |= row[columns] < 0;
    return;
  }
  if (g > INT64_MAX)
    return;
  if (g > 1)
    for (uint32_t i = 0; i <= columns; i++)
      row[i] = int_floor_div(row[i], (int64_t)g);
  for (uint32_t i = 0; i <= columns; i++)
    if (row[i] == INT64_MIN)
      return; /* a change of sign must not overflow */
  uint32_t slot, other;
  uint64_t hash = row_hash(row, columns);
  uint32_t opposite = row_find(fm, row, -1, hash, &slot);
  int64_t sum;
  if (opposite != UINT32_MAX &&
      !__builtin_add_overflow(fm->rows[opposite][columns], row[columns],
                              &sum) &&
      sum < 0) {
    fm->infeasible = true;
    return;
  }
  other = row_find(fm, row, 1, hash, &slot);
  if (other != UINT32_MAX) {
    if (row[columns] < fm->rows[other][columns])
      fm->rows[other][columns] = row[columns];
    return;
  }
  if (fm->count == MAX_ELIMINATION_ROWS) {
    fm->gave_up = true;
    return;
  }
  fm->hash_table[slot] = (uint16_t)(fm->count + 1);
  fm->hashes[fm->count] = hash;
  fm->rows[fm->count++] = row;
  fm->spare_row = scratch_alloc(fm->scratch, sizeof *row * (columns + 1));
}

/* out = p*a + q*b; false on overflow. */
static bool combine_rows(int64_t *out, int64_t p, const int64_t *a, int64_t q,
                         const int64_t *b, uint32_t columns) {
  for (uint32_t i = 0; i <= columns; i++) {
    int64_t x, y;
    if (__builtin_mul_overflow(p, a[i], &x) ||
        __builtin_mul_overflow(q, b[i], &y) ||
        __builtin_add_overflow(x, y, &out[i]) || out[i] == INT64_MIN)
      return false;
  }
  return true;
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
  uint32_t best = UINT32_MAX;
  int64_t best_cost = INT64_MAX;
  for (uint32_t c = 0; c < fm->columns; c++) {
    int64_t above = 0, below = 0;
    for (uint32_t i = 0; i < fm->count; i++) {
      above += fm->rows[i][c] < 0;
      below += fm->rows[i][c] > 0;
    }
    int64_t cost = above * below - above - below;
    if (above + below && cost < best_cost) {
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

static void eliminate_pair(FourierMotzkin *fm, const int64_t *below,
                           const int64_t *above, uint32_t column) {
  int64_t p = -above[column], q = below[column];
  int64_t g = int_gcd(p, q);
  if (!scratch_spend_effort(fm->scratch, fm->columns + 10))
    fm->gave_up = true;
  else if (combine_rows(fm->spare_row, p / g, below, q / g, above, fm->columns))
    row_add(fm);
}

static void eliminate_column(FourierMotzkin *fm, uint32_t column) {
  uint32_t count = fm->count;
  int64_t **old = scratch_alloc(fm->scratch, sizeof *old * (count + 1));
  memcpy(old, fm->rows, sizeof *old * count);
  fm_clear(fm);
  for (uint32_t i = 0; i < count; i++)
    if (!old[i][column]) {
      memcpy(fm->spare_row, old[i], sizeof **old * (fm->columns + 1));
      row_add(fm);
    }
  for (uint32_t i = 0; i < count && !fm->infeasible && !fm->gave_up; i++)
    for (uint32_t j = 0; j < count && !fm->infeasible && !fm->gave_up; j++)
      if (old[i][column] > 0 && old[j][column] < 0)
        eliminate_pair(fm, old[i], old[j], column);
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

static bool fm_solve(FourierMotzkin *fm, int64_t **rows, bool *eqs,
                     uint32_t count) {
  if (!eliminate_equations(fm, rows, eqs, count))
    return true;
  for (uint32_t i = 0; i < count && !fm->infeasible; i++)
    for (int sign = 1; sign >= (eqs[i] ? -1 : 1); sign -= 2) {
      for (uint32_t c = 0; c <= fm->columns; c++)
        fm->spare_row[c] = sign * rows[i][c];
      row_add(fm);
    }
  return fm_run(fm);
}

bool fm_infeasible(Scratch *scratch, uint32_t columns,
                   const SparseRow *const *rows, uint32_t count) {
  if (!scratch_spend_effort(scratch, count * columns + FM_HASH_SLOTS / 8))
    return false;
  ScratchMark mark = scratch_mark(scratch);
  FourierMotzkin fm = {.columns = columns, .scratch = scratch};
  fm.rows = scratch_alloc(scratch, sizeof *fm.rows * MAX_ELIMINATION_ROWS);
  fm.hashes = scratch_alloc(scratch, sizeof *fm.hashes * MAX_ELIMINATION_ROWS);
  fm.hash_table = scratch_alloc(scratch, sizeof *fm.hash_table * FM_HASH_SLOTS);
  fm.spare_row = scratch_alloc(scratch, sizeof *fm.spare_row * (columns + 1));
  fm_clear(&fm);
  int64_t **dense = scratch_alloc(scratch, sizeof *dense * (count + 1));
  bool *eqs = scratch_alloc(scratch, sizeof *eqs * (count + 1));
  for (uint32_t i = 0; i < count; i++) {
    dense[i] = scratch_alloc(scratch, sizeof **dense * (columns + 1));
    densify(dense[i], rows[i], columns);
    eqs[i] = rows[i]->eq;
  }
  bool infeasible = fm_solve(&fm, dense, eqs, count);
  scratch_release(scratch, mark);
  return infeasible;
}
