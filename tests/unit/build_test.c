/* Tests functions that `axon build` writes against the interpreter.  Each case
 * of trace_cases.h is written as C, compiled with all warnings, and called at
 * its sizes.  All sources make one library, which is faster. */
#define _GNU_SOURCE
#include "aot/c_module.h"
#include "aot/trace.h"
#include "plan/execute.h"
#include "session/state.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct Case {
  const char *text, *entry;
  const char *sizes[6];
} Case;

#include "tests/unit/trace_cases.h"

static char folder[64];
static void *library;
static size_t first_case, last_case = ARRAY_LEN(cases);

static void quiet(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static void fail_diags(Session *s, const char *what) {
  Buffer out = {0};
  for (uint32_t i = 0; i < session_diags(s)->all.len; i++)
    buffer_printf(&out, "%s\n", session_diags(s)->all.at[i]->message);
  fail_msg("%s: %.*s", what, (int)out.len, out.text);
}

/* ---- making the library ---- */

static void write_text(size_t number, const char *end, const Buffer *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/case%zu.%s", folder, number, end);
  FILE *f = fopen(path, "we");
  assert_non_null(f);
  assert_int_equal(fwrite(text->text, 1, text->len, f), text->len);
  fclose(f);
}

static Session *open_case(const Case *c, SourceInput *text) {
  static const SessionHost host = {.eval = {.write = quiet, .trace = quiet}};
  Session *s = session_open(&host);
  assert_non_null(s);
  *text =
      (SourceInput){.name = "case", .text = c->text, .len = strlen(c->text)};
  return s;
}

static void write_case(size_t number) {
  const Case *c = &cases[number];
  SourceInput text;
  Session *s = open_case(c, &text);
  BuildFiles files, again;
  char module[32];
  snprintf(module, sizeof module, "case%zu", number);
  if (build_c_module(s, &text, module, 1, &c->entry, BUILD_PORTABLE, &files) !=
      SESSION_OK)
    fail_diags(s, c->text);
  write_text(number, "c", &files.source);
  write_text(number, "h", &files.header);
  Session *other = open_case(c, &text);
  if (build_c_module(other, &text, module, 1, &c->entry, BUILD_PORTABLE,
                     &again) != SESSION_OK)
    fail_diags(other, c->text);
  assert_string_equal(files.source.text, again.source.text);
  assert_string_equal(files.header.text, again.header.text);
  assert_string_equal(files.manifest.text, again.manifest.text);
  session_close(other);
  session_close(s);
}

static int make_library(void **state) {
  (void)state;
  const char *cc = getenv("CC");
  char command[512], path[128];
  snprintf(folder, sizeof folder, "/tmp/axon-build-test-XXXXXX");
  assert_non_null(mkdtemp(folder));
  for (size_t k = first_case; k < last_case; k++)
    write_case(k);
  snprintf(
      command, sizeof command,
      "cd %s && %s -std=c11 -pedantic -Wall -Wextra -Werror -Wno-psabi -O0 "
      "-shared -fPIC -fsanitize=undefined -fsanitize-undefined-trap-on-error "
      "case*.c -o all.so -lm",
      folder, cc && *cc ? cc : "cc");
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/all.so", folder);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail_msg("%s", dlerror());
  return 0;
}

static int drop_library(void **state) {
  (void)state;
  char command[128];
  dlclose(library);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

/* ---- calling ---- */

typedef struct Calling {
  Session *s;
  Trace *trace;
  const char *sizes; /* such as "n=3 k=5" */
  Tensor *args[64];
  Node *leaves[64], *results[64];
  uint32_t result_count;
} Calling;

static int64_t size_named(const Calling *c, const char *name) {
  size_t len = strlen(name);
  for (const char *p = c->sizes; *p; p += strcspn(p, " "), p += *p == ' ')
    if (strncmp(p, name, len) == 0 && p[len] == '=')
      return strtoll(p + len + 1, NULL, 10);
  fail_msg("no size %s in \"%s\"", name, c->sizes);
  return 0;
}

static int64_t value_of(void *arg, const DimVar *v) {
  Calling *c = arg;
  return size_named(c, dim_var_name(&c->s->dims, v));
}

static int64_t number(Calling *c, int64_t size) {
  int64_t out;
  assert_true(extent_evaluate(&c->trace->graph, size, value_of, c, &out));
  return out;
}

/* Returns false if an extent is negative. */
static bool make_arg(Calling *c, uint32_t k) {
  const TraceArg *a = &c->trace->args[k];
  int64_t shape[MAX_RANK];
  Fault fault = {0};
  for (uint32_t i = 0; i < a->rank; i++)
    if ((shape[i] = number(c, a->shape[i])) < 0)
      return false;
  Tensor *t = tensor_new(a->dtype, a->rank, shape, true, &fault);
  assert_non_null(t);
  t->broadcast_mask = a->broadcast_mask;
  bool sized =
      !a->rank && extent_table_arg_var(c->trace->graph.extent_table, k);
  for (int64_t i = 0; i < t->count; i++) {
    Scalar x = {.dtype = a->dtype};
    if (dtype_is_float(a->dtype))
      x.f = (double)((i * 7919 + 131 * k) % 1009 - 500) / 256;
    else
      x.i = a->is_size ? number(c, a->size)
            : sized    ? size_named(c, a->name)
                       : (i * 31 + k) % 2;
    scalar_store(x, tensor_at(t, i));
  }
  c->args[k] = t;
  c->leaves[k] = node_data(eval_graph(c->s->eval), t);
  return true;
}

static void add_result(void *arg, const char *name, Node *node) {
  Calling *c = arg;
  (void)name;
  assert_true(c->result_count < ARRAY_LEN(c->results));
  c->results[c->result_count++] = node_retain(node);
}

/* The result of the interpreter; false if it fails. */
static bool evaluate(Calling *c) {
  Span where;
  Fault fault = {0};
  session_clear_diags(c->s);
  ValueHandle *held =
      trace_apply(c->s, &c->trace->entry, c->leaves, value_of, c);
  bool good = held && eval_each_leaf(c->s->eval, held, add_result, c) &&
              graph_force(eval_graph(c->s->eval), c->result_count, c->results,
                          &where, &fault);
  value_handle_free(c->s->eval, held);
  return good;
}

typedef int BuiltCall(const int64_t *sizes, const void *const *args,
                      void *const *outs, const int64_t *const *strides);

/* Calls the function with that name.  strides may be NULL. */
static int call(Calling *c, size_t number_of_case, const char *suffix,
                void **data, void **outs, const int64_t *const *strides) {
  int64_t sizes[64];
  const void *args[64];
  uint32_t size_count = 0, arg_count = 0;
  char name[64];
  for (uint32_t k = 0; k < c->trace->size_count; k++) {
    if (trace_size_is_param(c->trace, k))
      sizes[size_count++] = size_named(c, c->trace->sizes[k].name);
  }
  for (uint32_t k = 0; k < c->trace->arg_count; k++)
    if (!c->trace->args[k].is_size)
      args[arg_count++] = data ? data[k] : c->args[k]->data;
  snprintf(name, sizeof name, "case%zu_%s%s", number_of_case, c->trace->name,
           suffix);
  BuiltCall *f;
  *(void **)&f = dlsym(library, name);
  if (!f)
    fail_msg("no function %s", name);
  return f(sizes, args, outs, strides);
}

static void same(const Calling *c, const char *text, const Tensor *x,
                 const char *y) {
  for (int64_t i = 0; i < x->count; i++) {
    Scalar a = scalar_load(x->dtype, tensor_at(x, i));
    Scalar b = scalar_load(x->dtype, y + i * dtype_info[x->dtype].bytes);
    double f = dtype_is_float(a.dtype) ? a.f : (double)a.i;
    double h = dtype_is_float(a.dtype) ? b.f : (double)b.i;
    double most = 1e-5 * (1 + (f < 0 ? -f : f));
    if (!(f == h || (f != f && h != h) || (f - h <= most && h - f <= most)))
      fail_msg("%s at %s: element %lld is %g, not %g", text, c->sizes,
               (long long)i, h, f);
  }
}

static int64_t result_bytes(Calling *c, uint32_t k) {
  const Node *n = c->trace->results[k].node;
  int64_t bytes = dtype_info[n->dtype].bytes;
  for (uint32_t i = 0; i < n->rank; i++) {
    int64_t extent;
    if (!extent_evaluate(&c->trace->graph, n->extents[i], value_of, c, &extent))
      extent = 0;
    bytes *= extent < 0 ? 0 : extent;
  }
  return bytes;
}

/* ---- non-contiguous arguments ---- */

enum { WAYS = 4, ARRAYS = 64 };

typedef struct Lying { /* memory layout of a tensor */
  char *memory, *first;
  int64_t strides[MAX_RANK];
} Lying;

/* way 0: rows with gaps; 1: axes from last to first; 2: backwards; 3: every
 * second element.  Each further tensor uses the next way. */
static Lying lay(const Tensor *t, uint32_t way) {
  Lying l = {0};
  int64_t span = 1, first = 0, bytes = dtype_info[t->dtype].bytes;
  if (way == 3)
    span = 2;
  for (uint32_t i = 0; i < t->rank; i++) {
    uint32_t axis = way == 1 ? i : t->rank - 1 - i;
    l.strides[axis] = span;
    span *= t->shape[axis] > 0 ? t->shape[axis] : 1;
    span += way == 0 ? 3 : 0;
    if (way == 2 && t->shape[axis] > 0) {
      l.strides[axis] = -l.strides[axis];
      first -= (t->shape[axis] - 1) * l.strides[axis];
    }
  }
  assert_non_null(l.memory = calloc((size_t)span + 1, (size_t)bytes));
  l.first = l.memory + first * bytes;
  return l;
}

static void move(const Tensor *t, const Lying *l, char *dense, bool out) {
  int64_t bytes = dtype_info[t->dtype].bytes;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t rest = i, at = 0;
    for (uint32_t axis = t->rank; axis-- > 0; rest /= t->shape[axis])
      at += rest % t->shape[axis] * l->strides[axis];
    char *x = l->first + at * bytes, *y = dense + i * bytes;
    memcpy(out ? y : x, out ? x : y, (size_t)bytes);
  }
}

/* The same with the function that takes strides. */
static void compare_strided(Calling *c, size_t number_of_case, uint32_t way) {
  Lying in[ARRAYS] = {0}, out[ARRAYS] = {0};
  void *args[ARRAYS] = {0}, *outs[ARRAYS] = {0};
  const int64_t *strides[2 * ARRAYS];
  const Trace *t = c->trace;
  uint32_t arrays = 0, count = 0;
  for (uint32_t k = 0; k < t->arg_count; k++) {
    in[k] = lay(c->args[k], (way + k) % WAYS);
    move(c->args[k], &in[k], c->args[k]->data, false);
    args[k] = in[k].first;
    if (!t->args[k].is_size)
      strides[count++] = in[k].strides;
    arrays += !t->args[k].is_size && t->args[k].rank;
  }
  for (uint32_t k = 0; k < t->result_count; k++) {
    out[k] = lay(c->results[k]->data, (way + k + 1) % WAYS);
    outs[k] = out[k].first;
    strides[count++] = out[k].strides;
    arrays += c->results[k]->data->rank > 0;
  }
  if (arrays)
    assert_int_equal(
        call(c, number_of_case, "_strided_call", args, outs, strides), 0);
  for (uint32_t k = 0; k < t->result_count; k++) {
    Tensor *r = c->results[k]->data;
    char *dense = malloc((size_t)(r->count * dtype_info[r->dtype].bytes) + 1);
    assert_non_null(dense);
    move(r, &out[k], dense, true);
    if (arrays)
      same(c, cases[number_of_case].text, r, dense);
    free(dense);
    free(out[k].memory);
  }
  for (uint32_t k = 0; k < t->arg_count; k++)
    free(in[k].memory);
}

static void compare_at(Session *s, Trace *t, size_t number_of_case,
                       const char *sizes) {
  const char *text = cases[number_of_case].text;
  Calling c = {.s = s, .trace = t, .sizes = sizes};
  void *outs[64];
  bool fits = true;
  for (uint32_t k = 0; fits && k < t->arg_count; k++)
    fits = make_arg(&c, k);
  bool good = fits && evaluate(&c);
  for (uint32_t k = 0; fits && k < t->result_count; k++)
    assert_non_null(outs[k] = malloc((size_t)result_bytes(&c, k) + 1));
  int code = fits ? call(&c, number_of_case, "_call", NULL, outs, NULL) : 1;
  /* the type may require more than the body */
  if (good && code) {
    BuildFiles files;
    SourceInput source;
    Session *other = open_case(&cases[number_of_case], &source);
    assert_int_equal(build_c_module(other, &source, "m", 1,
                                    &cases[number_of_case].entry, BUILD_NATIVE,
                                    &files),
                     SESSION_OK);
    if (!strstr(files.source.text, " requires "))
      fail_msg("%s at %s: refused in vain: %d", text, sizes, code);
    session_close(other);
  }
  if (fits && !good && !code)
    fail_msg("%s at %s: nothing refuses it", text, sizes);
  for (uint32_t k = 0; good && !code && k < t->result_count; k++)
    same(&c, text, c.results[k]->data, outs[k]);
  for (uint32_t way = 0; good && !code && way < WAYS; way++)
    compare_strided(&c, number_of_case, way);
  for (uint32_t k = 0; fits && k < t->result_count; k++)
    free(outs[k]);
  for (uint32_t k = 0; k < c.result_count; k++)
    node_release(c.results[k]);
  for (uint32_t k = 0; k < t->arg_count && c.args[k]; k++) {
    node_release(c.leaves[k]);
    tensor_release(c.args[k]);
  }
}

static void test_case(size_t number_of_case) {
  const Case *c = &cases[number_of_case];
  SourceInput text;
  Session *s = open_case(c, &text);
  Trace trace;
  if (session_check(s, &text) != SESSION_OK ||
      trace_function(s, c->entry, &trace) != SESSION_OK)
    fail_diags(s, c->text);
  for (uint32_t k = 0; k < ARRAY_LEN(c->sizes) && c->sizes[k]; k++)
    compare_at(s, &trace, number_of_case, c->sizes[k]);
  trace_free(s, &trace);
  session_close(s);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t k = first_case; k < last_case; k++)
    test_case(k);
}

/* build_test N: only case N */
int main(int argc, char **argv) {
  if (argc > 1) {
    first_case = strtoul(argv[1], NULL, 10);
    last_case = first_case + 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, make_library, drop_library);
}
