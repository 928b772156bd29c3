/* Kernels to programs.  To choose a schedule and to write a kernel's text
 * takes as long as many a kernel runs, so what came of it is kept, under a
 * hash of the kernel with all its numbers. */
#include "backend/cpu/program.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 1024, PROGRAMS_MOST = 8192 };

typedef struct Entry {
  struct Entry *next;
  ArtifactKey key;
  Program program;
} Entry;

static struct {
  pthread_mutex_t lock;
  Entry *buckets[BUCKETS];
  uint32_t count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- a kernel as bytes ---- */

static void put_number(Buffer *b, int64_t x) {
  buffer_add(b, (const char *)&x, sizeof x);
}

static void put_quasi(Buffer *b, const Quasi *q) {
  put_number(b, q != NULL);
  if (!q)
    return;
  put_number(b, q->constant);
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (q->times[v]) {
      put_number(b, v);
      put_number(b, q->times[v]);
    }
  put_number(b, -1);
}

static void put_step(Buffer *b, const Step *s) {
  put_number(b, (int64_t)s->kind << 32 | s->dtype);
  put_number(b, (int64_t)s->op << 32 | s->arg_count);
  for (uint32_t k = 0; k < s->arg_count; k++)
    put_number(b, s->args[k]);
  put_number(b, s->low);
  put_number(b, s->high);
  switch (s->kind) {
  case STEP_CONST:
    put_number(b, s->value.i);
    break;
  case STEP_INDEX:
    put_quasi(b, s->index);
    break;
  case STEP_READ:
    put_number(b, s->input);
    put_quasi(b, s->address);
    for (uint32_t k = 0; k < s->index_count; k++) {
      put_number(b, s->indices[k].step);
      put_number(b, s->indices[k].stride);
      put_number(b, s->indices[k].extent);
    }
    put_number(b, -1);
    break;
  case STEP_LOCAL:
    put_number(b, (int64_t)s->loop << 32 | s->result);
    put_quasi(b, s->address);
    break;
  case STEP_RANDOM:
    buffer_add(b, (const char *)&s->key, sizeof s->key);
    break;
  case STEP_OP:
  case STEP_SELECT:
  case STEP_CONVERT:
  case STEP_PAIR:
    break;
  }
}

/* Where a result's node stands in the cluster. */
static uint32_t place_of(const Cluster *c, const Node *n) {
  uint32_t k = 0;
  while (c->nodes.at[k] != n)
    k++;
  return k;
}

static void put_loop(Buffer *b, const Cluster *c, const Loop *loop) {
  put_number(b, loop->outer);
  put_number(b, (int64_t)loop->kept << 32 | loop->axes);
  for (uint32_t v = 0; v < loop->axes; v++)
    put_number(b, loop->extents[v]);
  put_number(b, loop->quotient_count);
  for (uint32_t k = 0; k < loop->quotient_count; k++) {
    put_quasi(b, &loop->quotients[k].of);
    put_number(b, loop->quotients[k].by);
  }
  put_number(b, loop->steps.len);
  for (uint32_t k = 0; k < loop->steps.len; k++)
    put_step(b, &loop->steps.at[k]);
  put_number(b, loop->results.len);
  for (uint32_t k = 0; k < loop->results.len; k++) {
    const Result *r = &loop->results.at[k];
    put_number(b, (int64_t)r->reduce << 32 | r->dtype);
    put_number(b, (int64_t)place_of(c, r->node) << 32 | r->step);
    put_quasi(b, r->out);
    put_quasi(b, r->local);
  }
}

ArtifactKey kernel_key(const Cluster *c) {
  const Kernel *k = c->kernel;
  Buffer b = {.arena = k->arena};
  for (uint32_t j = 0; j < k->inputs.len; j++)
    put_number(&b, k->inputs.at[j]->dtype);
  for (uint32_t j = 0; j < k->loops.len; j++)
    put_loop(&b, c, k->loops.at[j]);
  return artifact_key(1, &(ArtifactPart){b.text, b.len});
}

/* ---- making one ---- */

/* ---- in place ---- */

static bool can_fail(const Step *s) {
  return (s->kind == STEP_READ && s->index_count > 0) ||
         (s->kind == STEP_OP && !dtype_is_float(s->dtype) &&
          (s->op == PRIM_DIV || s->op == PRIM_MOD || s->op == PRIM_POW));
}

static bool is_plain(const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  bool plain = k->loops.len == 1 && loop->kept == loop->axes;
  for (uint32_t j = 0; plain && j < loop->steps.len; j++)
    plain = !can_fail(&loop->steps.at[j]);
  return plain;
}

/* Is it read at the place of the result alone? */
static bool is_read_there(const Loop *loop, uint32_t input, const Quasi *at) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_READ && s->input == input &&
        !quasi_equal(s->address, at))
      return false;
  }
  return true;
}

uint64_t kernel_over(const Kernel *k) {
  const Loop *loop = k->loops.at[0];
  uint64_t over = 0;
  if (!is_plain(k) || loop->results.len != 1 || !loop->results.at[0].out)
    return 0;
  const Result *r = &loop->results.at[0];
  for (uint32_t j = 0; j < k->inputs.len && j < 64; j++) {
    const Node *x = k->inputs.at[j];
    if (dtype_info[x->dtype].bytes == dtype_info[r->dtype].bytes &&
        node_count(x) == node_count(r->node) && is_read_there(loop, j, r->out))
      over |= UINT64_C(1) << j;
  }
  return over;
}

/* Several bands of one product, which copy the same. */
static bool has_shared(const Kernel *k, const Schedule *s) {
  return s->shape == UNIT_TILE && s->tiling &&
         k->loops.at[0]->extents[k->outer - 2] > s->height;
}

static void make(const Cluster *c, Program *p) {
  Kernel *k = c->kernel;
  Schedule s;
  Emitted e;
  p->work = kernel_work(k);
  p->exact = cluster_is_exact(c);
  schedule_choose(k, target_vector_bytes(), &s);
  if (!emit_kernel(k, &s, NULL, "", &e) ||
      k->inputs.len + e.call.outs.len + e.call.keepings.len > POINTERS)
    return;
  p->ints = e.call.ints.at;
  p->floats = e.call.floats.at;
  p->keys = e.call.keys.at;
  p->key_count = e.call.keys.len;
  p->keepings = e.call.keepings.at;
  p->keeping_count = e.call.keepings.len;
  p->int_count = e.call.ints.len;
  p->float_count = e.call.floats.len;
  p->out_count = e.call.outs.len;
  for (uint32_t j = 0; j < p->out_count; j++)
    p->outs[j] = place_of(c, e.call.outs.at[j]->node);
  p->over = e.call.room == 0 ? kernel_over(k) : 0;
  p->chunked = s.chunk > 0;
  p->shared = has_shared(k, &s);
  p->units = e.call.units;
  p->chunks = e.call.chunks;
  p->accumulator = e.call.accumulator;
  p->places = e.call.places;
  p->room = e.call.room;
  p->object = object_request(e.text.text, e.text.len);
}

/* ---- keeping it ---- */

const Program *program_kept(ArtifactKey key) {
  const Program *found = NULL;
  pthread_mutex_lock(&table.lock);
  for (const Entry *e = table.buckets[key.word[0] % BUCKETS]; e; e = e->next)
    if (memcmp(&e->key, &key, sizeof key) == 0)
      found = &e->program;
  pthread_mutex_unlock(&table.lock);
  return found;
}

static Entry *entry_new(ArtifactKey key, const Program *p) {
  uint32_t ints = p->int_count, floats = p->float_count, keys = p->key_count;
  uint32_t keepings = p->keeping_count;
  Entry *e = mem_try_alloc(sizeof *e + ints * sizeof(int64_t) +
                           floats * sizeof(double) + keys * sizeof(KeyWord) +
                           keepings * sizeof(Keeping));
  if (!e)
    return NULL;
  Keeping *to_keepings = (Keeping *)(e + 1);
  int64_t *to_ints = (int64_t *)(to_keepings + keepings);
  double *to_floats = (double *)(to_ints + ints);
  KeyWord *to_keys = (KeyWord *)(to_floats + floats);
  e->key = key;
  e->program = *p;
  if (ints)
    memcpy(to_ints, p->ints, ints * sizeof *to_ints);
  if (floats)
    memcpy(to_floats, p->floats, floats * sizeof *to_floats);
  if (keys)
    memcpy(to_keys, p->keys, keys * sizeof *to_keys);
  if (keepings)
    memcpy(to_keepings, p->keepings, keepings * sizeof *to_keepings);
  e->program.keepings = to_keepings;
  e->program.ints = to_ints;
  e->program.floats = to_floats;
  e->program.keys = to_keys;
  return e;
}

static bool keep(Entry *e) {
  Entry **bucket = &table.buckets[e->key.word[0] % BUCKETS];
  pthread_mutex_lock(&table.lock);
  bool fits = table.count < PROGRAMS_MOST;
  if (fits) {
    e->next = *bucket;
    *bucket = e;
    table.count++;
  }
  pthread_mutex_unlock(&table.lock);
  if (!fits)
    mem_free(e);
  return fits;
}

const Program *program_keep(ArtifactKey key, const Program *p) {
  Entry *e = entry_new(key, p);
  return e && keep(e) ? &e->program : NULL;
}

const Program *program_of(Cluster *c) {
  ArtifactKey key = kernel_key(c);
  const Program *found = program_kept(key);
  if (found)
    return found->object ? found : NULL;
  Program *p = NEW(c->kernel->arena, Program);
  make(c, p);
  const Program *kept = program_keep(key, p);
  c->passing = !kept;
  return p->object ? (kept ? kept : p) : NULL;
}
