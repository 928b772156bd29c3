/* Tests file formats: files of other programs, files that we write, and
 * malicious files. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"
#include "support/arena.h"
#include "support/mem_inject.h"

static char dir[] = "/tmp/axon-runtime-XXXXXX";

/* The source tree, if tests run elsewhere (set by Automake). */
static const char *data_path(const char *name) {
  static char path[512];
  const char *top = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/runtime/%s", top ? top : ".",
           name);
  return path;
}

static const char *temp_path(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static const char *write_file(const char *name, const void *bytes,
                              size_t size) {
  const char *path = temp_path(name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  fclose(f);
  return path;
}

static size_t read_file(const char *path, char *out, size_t size) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t len = fread(out, 1, size, f);
  fclose(f);
  return len;
}

/* ---- the array of runtime_numpy.py ---- */

static Scalar reference_at(Dtype t, int64_t i) {
  if (t == DT_BOOL)
    return (Scalar){.dtype = t, .i = i % 3 == 0};
  if (t == DT_U8)
    return (Scalar){.dtype = t, .i = i * 10};
  if (dtype_is_int(t))
    return (Scalar){.dtype = t, .i = (i - 12) * 9};
  return (Scalar){.dtype = t, .f = dtype_round(t, (double)(i - 12) / 8)};
}

static Tensor *reference(Dtype t) {
  Fault fault;
  Tensor *x = tensor_new(t, 3, (int64_t[]){2, 3, 4}, false, &fault);
  assert_non_null(x);
  for (int64_t i = 0; i < 24; i++)
    scalar_store(reference_at(t, i), tensor_at(x, i));
  return x;
}

static void check_reference(const Tensor *t, Dtype dtype, uint32_t rank) {
  assert_int_equal(t->dtype, dtype);
  assert_int_equal(t->rank, rank);
  assert_int_equal(t->count, 24);
  assert_int_equal((uintptr_t)t->data % 64, 0);
  for (int64_t i = 0; i < 24; i++) {
    Scalar want = reference_at(dtype, i);
    Scalar have = scalar_load(dtype, tensor_at(t, i));
    assert_int_equal(have.i, want.i);
  }
}

static void check_file(const char *path, const char *name, Dtype dtype) {
  Fault fault = {0};
  LoadOptions options = {.name = name};
  TensorHeader is;
  if (!file_read_header(path, &options, &is, &fault))
    fail_msg("%s", fault.message);
  assert_int_equal(is.dtype, dtype);
  assert_int_equal(is.rank, 3);
  assert_int_equal(is.shape[0], 2);
  assert_int_equal(is.shape[1], 3);
  assert_int_equal(is.shape[2], 4);
  Tensor *t = file_load(path, &options, &fault);
  if (!t)
    fail_msg("%s", fault.message);
  check_reference(t, dtype, 3);
  tensor_release(t);
}

static void check_fault(const char *path, const LoadOptions *options,
                        const char *message) {
  Fault fault = {0};
  Tensor *t = file_load(path, options, &fault);
  if (t || !strstr(fault.message, message))
    fail_msg("%s: \"%s\", not \"%s\"", path, fault.message, message);
}

/* The header must report the same fault. */
static void check_fault_twice(const char *path, const LoadOptions *options,
                              const char *message) {
  Fault fault = {0};
  TensorHeader is;
  if (file_read_header(path, options, &is, &fault) ||
      !strstr(fault.message, message))
    fail_msg("%s: \"%s\", not \"%s\"", path, fault.message, message);
  check_fault(path, options, message);
}

/* ---- what NumPy wrote ---- */

static bool numpy_has(Dtype t) {
  return t != DT_BF16 && t != DT_F8_E4M3 && t != DT_F8_E5M2 &&
         t != DT_F4_E2M1 && t != DT_F8_E8M0;
}

static void test_numpy_files(void **state) {
  (void)state;
  static const char *const forms[] = {"", "_fortran", "_big", "_both"};
  char name[64];
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++) {
    if (!numpy_has(t))
      continue;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
      snprintf(name, sizeof name, "%s%s.npy", dtype_info[t].name, forms[i]);
      check_file(data_path(name), NULL, t);
    }
    check_file(data_path("stored.npz"), dtype_info[t].name, t);
    check_file(data_path("deflated.npz"), dtype_info[t].name, t);
  }
  check_file(data_path("version2.npy"), NULL, DT_F32);
  check_file(data_path("version3.npy"), NULL, DT_F32);
  check_file(data_path("one.npz"), NULL, DT_F32);
  check_file(data_path("deflated.npz"), "fortran", DT_F64);
  check_file(data_path("one.safetensors"), NULL, DT_F32);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    check_file(data_path("all.safetensors"), dtype_info[t].name, t);
  Fault fault;
  Tensor *t = file_load(data_path("savetxt.csv"),
                        &(LoadOptions){.dtype = DT_F64}, &fault);
  assert_non_null(t);
  check_reference(t, DT_F64, 2);
  tensor_release(t);
}

static void test_numpy_others(void **state) {
  (void)state;
  Fault fault = {0};
  Tensor *t = file_load(data_path("scalar.npy"), NULL, &fault);
  assert_int_equal(t->rank, 0);
  assert_true(*(double *)t->data == 2.5);
  tensor_release(t);
  t = file_load(data_path("vector.npy"), NULL, &fault);
  assert_int_equal(t->rank, 1);
  assert_int_equal(t->shape[0], 3);
  tensor_release(t);
  t = file_load(data_path("empty.npy"), NULL, &fault);
  assert_int_equal(t->rank, 2);
  assert_int_equal(t->count, 0);
  tensor_release(t);
  assert_null(file_load(data_path("uint16.npy"), NULL, &fault));
  assert_non_null(strstr(fault.message, "'<u2'"));
  assert_non_null(strstr(fault.help, "astype(\"int32\")"));
  t = file_load(data_path("complex.npy"), NULL, &fault); /* pairs */
  assert_int_equal(t->dtype, DT_F64);
  assert_int_equal(t->rank, 2);
  assert_int_equal(t->shape[1], 2);
  assert_true(((double *)t->data)[0] == 0 && ((double *)t->data)[1] == 1);
  tensor_release(t);
  check_fault_twice(data_path("complex_fortran.npy"), NULL, "Fortran order");
  check_fault_twice(data_path("text.npy"), NULL, "'<U2'");
  check_fault_twice(data_path("object.npy"), NULL, "'|O'");
  check_fault_twice(data_path("struct.npy"), NULL, "structures");
}

static void test_names(void **state) {
  (void)state;
  Fault fault = {0};
  Arena *arena = arena_new();
  uint32_t count;
  const char **names =
      file_names(data_path("all.safetensors"), arena, &count, &fault);
  assert_int_equal(count, 14);
  assert_string_equal(names[0], "bool");
  assert_string_equal(names[13], "i16");
  names = file_names(data_path("stored.npz"), arena, &count, &fault);
  assert_int_equal(count, 9);
  assert_string_equal(names[8], "fortran");
  assert_non_null(file_names(data_path("f32.npy"), arena, &count, &fault));
  assert_int_equal(count, 0);
  assert_null(file_names(temp_path("none.npz"), arena, &count, &fault));
  arena_free(arena);
  check_fault_twice(data_path("stored.npz"), NULL, "it contains 9 tensors");
  check_fault_twice(data_path("stored.npz"), &(LoadOptions){.name = "x"},
                    "it contains no tensor \"x\"");
  check_fault_twice(data_path("all.safetensors"), &(LoadOptions){.name = "x"},
                    "it contains no tensor \"x\"");
  check_fault_twice(data_path("all.safetensors"), &(LoadOptions){.name = "i16"},
                    "its element type I16 has no Axon type");
  check_fault_twice(data_path("f32.npy"), &(LoadOptions){.name = "x"},
                    "without a name");
}

static void test_paths(void **state) {
  (void)state;
  check_fault_twice("nowhere.npy", NULL,
                    "cannot read \"nowhere.npy\": No such file");
  check_fault_twice("a.b/nothing", NULL, "has no known file extension");
  check_fault_twice("x.xyz", NULL, "has no known file extension");
  assert_int_equal(mkdir(temp_path("d.npy"), 0777), 0);
  check_fault_twice(temp_path("d.npy"), NULL, "it is a directory");
  assert_int_equal(mkfifo(temp_path("f.npy"), 0666), 0);
  check_fault_twice(temp_path("f.npy"), NULL, "not a regular file");
  write_file("E.NPY", "", 0);
  check_fault_twice(temp_path("E.NPY"), NULL, "it is not a .npy file");
}

/* A large file is mapped; writes to the tensor do not change it. */
static void test_mapped(void **state) {
  (void)state;
  Fault fault = {0};
  int64_t n = 20 * 1024 * 1024;
  Tensor *t = tensor_new(DT_F32, 1, &n, true, &fault);
  ((float *)t->data)[n - 1] = 3;
  char path[512];
  snprintf(path, sizeof path, "%s", temp_path("large.npy"));
  assert_true(file_save(path, 1, NULL, &t, &fault));
  tensor_release(t);
  for (int i = 0; i < 2; i++) {
    t = file_load(path, NULL, &fault);
    assert_non_null(tensor_mapped(t));
    assert_true(((float *)t->data)[n - 1] == 3);
    ((float *)t->data)[n - 1] = 4;
    tensor_release(t);
  }
  unlink(path);
}

/* ---- PNG, PGM, PPM ---- */

static void check_picture(const char *path, int64_t h, int64_t w, int64_t c,
                          const void *want) {
  Fault fault = {0};
  TensorHeader is;
  if (!file_read_header(path, NULL, &is, &fault))
    fail_msg("%s", fault.message);
  assert_int_equal(is.shape[2], c);
  Tensor *t = file_load(path, NULL, &fault);
  if (!t)
    fail_msg("%s", fault.message);
  assert_int_equal(t->dtype, DT_U8);
  assert_int_equal(t->rank, 3);
  assert_int_equal(t->shape[0], h);
  assert_int_equal(t->shape[1], w);
  assert_int_equal(t->shape[2], c);
  assert_memory_equal(t->data, want, (size_t)t->count);
  tensor_release(t);
}

static void test_pictures(void **state) {
  (void)state;
  check_picture(data_path("grey.png"), 2, 3, 1, "\0\1\2\xfd\xfe\xff");
  check_picture(data_path("grey16.png"), 1, 2, 1, "\x80\xff");
  check_picture(data_path("grey1.png"), 1, 3, 1, "\xff\0\xff");
  check_picture(data_path("alpha.png"), 1, 1, 2, "\7\11");
  check_picture(data_path("colour.png"), 1, 2, 3, "\1\2\3\4\5\6");
  check_picture(data_path("rgba.png"), 1, 1, 4, "\1\2\3\4");
  check_picture(data_path("palette.png"), 1, 2, 3, "\xfa\xfb\xfc\1\2\3");
  check_picture(data_path("gamma.png"), 1, 2, 1, "\12\144");
#define PICTURE(name, text, h, w, c, want) \
  check_picture(write_file(name, text, sizeof text - 1), h, w, c, want)
  PICTURE("a.pgm", "P2 # grey\n2 1 # wide\n# c\n255\n7 255", 1, 2, 1, "\7\xff");
  PICTURE("b.pgm", "P5\n2 1\n255\n\n ", 1, 2, 1, "\n ");
  PICTURE("c.pgm", "P5 1 2 65535 \x80\xff\xff\xff", 2, 1, 1, "\x80\xff");
  PICTURE("d.pgm", "P2 3 1 4 0 1 4", 1, 3, 1, "\0\x40\xff");
  PICTURE("e.ppm", "P3 1 1 255 1 2 3\n", 1, 1, 3, "\1\2\3");
  PICTURE("f.ppm", "P6 1 1 255\n\1\2\3", 1, 1, 3, "\1\2\3");
#define BAD(name, text, message) \
  check_fault(write_file(name, text, sizeof text - 1), NULL, message)
  BAD("g.pgm", "", "must start with");
  BAD("g.pgm", "P", "must start with");
  BAD("g.pgm", "P4\n1 1\n", "must start with");
  BAD("g.pgm", "P5", "must start with");
  BAD("g.pgm", "P5 1 1 255", "damaged");
  BAD("g.pgm", "P5 1 1 255 ", "truncated");
  BAD("g.pgm", "P5 0 1 255 x", "damaged");
  BAD("g.pgm", "P5 -1 1 255 x", "damaged");
  BAD("g.pgm", "P5 1 1 0 x", "damaged");
  BAD("g.pgm", "P5 1 1 65536 xx", "damaged");
  BAD("g.pgm", "P5 2000000000 2000000000 255 x", "truncated");
  BAD("g.pgm", "P5 99999999999999999999 1 255 x", "damaged");
  BAD("g.pgm", "P2 2 1 255 1", "truncated");
  BAD("g.pgm", "P2 2 1 255 1 x", "sample 2");
  BAD("g.pgm", "P2 2 1 9 1 10", "sample 2 is not from 0 to 9");
}

static void test_bad_png(void **state) {
  (void)state;
  char bytes[1024];
  size_t size = read_file(data_path("grey.png"), bytes, sizeof bytes);
  for (size_t i = 0; i < size; i++) { /* cut at every byte */
    Fault fault = {0};
    assert_null(file_load(write_file("x.png", bytes, i), NULL, &fault));
    assert_true(fault.message[0]);
  }
  for (size_t i = 0; i < size; i++) { /* every byte changed */
    Fault fault = {0};
    bytes[i] ^= 0x55;
    tensor_release(file_load(write_file("x.png", bytes, size), NULL, &fault));
    bytes[i] ^= 0x55;
  }
  BAD("x.png", "P5 1 1 255 x", "it is not a PNG file");
}

static long most_memory(void) { /* peak memory in KiB */
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* Many texts, each of which would inflate to a megabyte. */
static void test_png_memory(void **state) {
  (void)state;
  enum { HEAD = 33, TAIL = 34, TIMES = 400, LITTLE = 64 * 1024 };
  char bytes[4096];
  size_t size = read_file(data_path("text.png"), bytes, sizeof bytes);
  assert_in_range(size, HEAD + TAIL + 1, sizeof bytes - 1);
  size_t each = size - HEAD - TAIL, len = HEAD;
  char *many = malloc(size + TIMES * each);
  memcpy(many, bytes, HEAD);
  for (int i = 0; i < TIMES; i++, len += each)
    memcpy(many + len, bytes + HEAD, each);
  memcpy(many + len, bytes + size - TAIL, TAIL);
  long before = most_memory();
  check_picture(write_file("x.png", many, len + TAIL), 1, 1, 1, "\5");
  assert_in_range(most_memory() - before, 0, LITTLE);
  free(many);
}

/* ---- .npy from strangers ---- */

static const char *npy_file(const char *dict, size_t data) {
  char bytes[1024] = "\x93NUMPY\1\0";
  size_t len = strlen(dict);
  bytes[8] = (char)(len & 0xff);
  bytes[9] = (char)(len >> 8);
  memcpy(bytes + 10, dict, len);
  return write_file("x.npy", bytes, 10 + len + data);
}

#define DICT(descr, shape) \
  "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }\n"

static void test_bad_npy(void **state) {
  (void)state;
  static const struct {
    const char *dict, *message;
  } bad[] = {
      {DICT("<f4", "(4,)"), "f32[4] needs 16 bytes, found 8"},
      {DICT("<f4", "(1,)"), "f32[1] needs 4 bytes, found 8"},
      {DICT("<f4", "(-2,)"), "no valid shape"},
      {DICT("<f4", "(9223372036854775807, 9223372036854775807)"),
       "exceeds the size of any file"},
      {DICT("<f4", "(0, 9223372036854775807)"), "exceeds the size of any file"},
      {DICT("<f4", "(4611686018427387904,)"), "exceeds the size of any file"},
      {DICT("<f4", "(1000000000, 1000)"), "truncated"},
      {DICT("<f4", "(99999999999999999999,)"), "no valid shape"},
      {DICT("<f4", "(2"), "no valid shape"},
      {DICT("<f4", "2"), "no shape"},
      {DICT("<f4", "(1 2)"), "no valid shape"},
      {DICT("<f4", "(,)"), "no valid shape"},
      {DICT("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                   "1,1,1,1,1)"),
       "rank is more than 32"},
      {DICT("", "(2,)"), "''"},
      {DICT("<", "(2,)"), "'<'"},
      {DICT("<f", "(2,)"), "'<f'"},
      {DICT("<f4x", "(2,)"), "'<f4x'"},
      {DICT("<f999999999999", "(2,)"), "'<f9"},
      {"", "damaged"},
      {"{}", "damaged"},
      {"{'descr': '<f4', 'shape': (2,)}", "damaged"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,)} x", "damaged"},
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,)", "damaged"},
      {"{'descr", "damaged"},
      {"{'descr': '<f4", "structures"},
      {"{'other': 1}", "damaged"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++)
    check_fault_twice(npy_file(bad[i].dict, 8), NULL, bad[i].message);
  check_fault(npy_file(DICT("<f4", "(2,)"), 0), NULL, "found 0");
  BAD("x.npy", "\x93NUMPY\4\0\0\0", "version 4");
  BAD("x.npy", "\x93NUMPY\2\0\0\0", "truncated");
  BAD("x.npy", "\x93NUMPY\1\0\xff\xff{", "truncated");
  BAD("x.npy", "\x93NUMPY\2\0\xff\xff\xff\xff{", "too long");
  BAD("x.npy", "\x93NUMPX\1\0\0\0", "not a .npy file");
  /* These files are valid, but unusual. */
  Fault fault = {0};
  Tensor *t = file_load(npy_file("{\"shape\":(2L,),\"fortran_order\":True,"
                                 "\"descr\":\"=f4\"}",
                                 8),
                        NULL, &fault);
  assert_non_null(t);
  assert_int_equal(t->count, 2);
  tensor_release(t);
}

/* ---- .npz from strangers ---- */

static void test_bad_npz(void **state) {
  (void)state;
  static const char *const files[] = {"one.npz", "deflated.npz"};
  static char bytes[16384];
  for (size_t k = 0; k < ARRAY_LEN(files); k++) {
    LoadOptions options = {.name = k ? "f32" : "only"};
    size_t size = read_file(data_path(files[k]), bytes, sizeof bytes);
    for (size_t i = 0; i < size; i += 1 + i / 64) {
      Fault fault = {0};
      assert_null(file_load(write_file("x.npz", bytes, i), &options, &fault));
      assert_true(fault.message[0]);
    }
    for (size_t i = 0; i < size; i += 1 + i / 128) {
      Fault fault = {0};
      bytes[i] ^= 0x55;
      tensor_release(
          file_load(write_file("x.npz", bytes, size), &options, &fault));
      bytes[i] ^= 0x55;
    }
    /* The entry claims 4 GiB: sizes stand in the central directory. */
    char *central = memmem(bytes, size, "PK\1\2", 4);
    assert_non_null(central);
    memset(central + 24, 0xfe, 4);
    check_fault_twice(write_file("x.npz", bytes, size), NULL, "");
  }
  size_t size = read_file(data_path("one.npz"), bytes, sizeof bytes);
  bytes[220] ^= 1; /* the checksum detects a changed element */
  check_fault(write_file("x.npz", bytes, size), NULL, "damaged");
  check_fault(write_file("x.npz", bytes, size - 22), NULL,
              "the file is truncated");
  BAD("x.npz", "not a zip file", "it is no zip archive");
  BAD("x.npz", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      "it contains no tensor");
}

/* ---- .safetensors from strangers ---- */

static const char *st_file(const char *json, size_t data) {
  char bytes[2048] = {0};
  size_t len = strlen(json);
  memcpy(bytes, &len, 8);
  memcpy(bytes + 8, json, len);
  return write_file("x.safetensors", bytes, 8 + len + data);
}

typedef struct GgufPlace {
  const char *name;
  uint32_t type; /* 0: f32 */
  uint64_t elements, offset;
} GgufPlace;

/* Writes two tensors; 64 bytes of data are at byte 96. */
static const char *gguf_file(const GgufPlace places[2]) {
  char bytes[160] = "GGUF";
  size_t at = 4;
#define PUT(type, value)                              \
  do {                                                \
    memcpy(bytes + at, &(type){value}, sizeof(type)); \
    at += sizeof(type);                               \
  } while (0)
  PUT(uint32_t, 3);
  PUT(uint64_t, 2);
  PUT(uint64_t, 0);
  for (int i = 0; i < 2; i++) {
    PUT(uint64_t, 1);
    bytes[at++] = places[i].name[0];
    PUT(uint32_t, 1);
    PUT(uint64_t, places[i].elements);
    PUT(uint32_t, places[i].type);
    PUT(uint64_t, places[i].offset);
  }
#undef PUT
  return write_file("x.gguf", bytes, sizeof bytes);
}

static void test_bad_gguf(void **state) {
  (void)state;
  static const struct {
    GgufPlace places[2];
    const char *message;
  } bad[] = {
      {{{"a", 0, 16, 0}, {"b", 0, 4, 32}},
       "\"a\" and \"b\" overlap at byte 128"},
      {{{"a", 0, 4, 0}, {"b", 0, 4, 0}}, "overlap at byte 96"},
      {{{"a", 0, 4, 0}, {"b", 0, 16, 32}}, "b of"},
      {{{"a", 0, 4, 0}, {"b", 0, 4, UINT64_MAX - 31}}, "truncated"},
      {{{"a", 0, 4, 0}, {"b", 99, 4, 64}}, "truncated"},
      {{{"a", 0, 4, 0}, {"b", 99, 4, 0}}, "overlap"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++)
    check_fault_twice(gguf_file(bad[i].places), &(LoadOptions){.name = "a"},
                      bad[i].message);
  const char *path = gguf_file((GgufPlace[]){{"a", 0, 0, 32}, {"b", 0, 16, 0}});
  Fault fault = {0};
  Tensor *x = file_load(path, &(LoadOptions){.name = "b"}, &fault);
  assert_non_null(x);
  tensor_release(x);
}

#define ENTRY(kind, shape, offsets) \
  "{\"dtype\":\"" kind "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(kind, shape, offsets) "{\"a\":" ENTRY(kind, shape, offsets) "}"

static void test_bad_safetensors(void **state) {
  (void)state;
  static const struct {
    const char *json, *message;
  } bad[] = {
      {ONE("F32", "[3]", "[0,12]"), "truncated"},
      {ONE("F32", "[1]", "[0,8]"), "f32[1] needs 4 bytes, found 8"},
      {ONE("F32", "[4]", "[0,8]"), "f32[4] needs 16 bytes"},
      {ONE("F4", "[15]", "[0,8]"), "its number of elements of F4 is odd"},
      {ONE("F4", "[14]", "[0,8]"), "14 elements of F4 need 7 bytes, found 8"},
      {ONE("F4", "[4294967296, 4294967296]", "[0,8]"), "exceeds the size"},
      {ONE("F32", "[-2]", "[0,8]"), "no valid \"shape\""},
      {ONE("F32", "[2.0]", "[0,8]"), "no valid \"shape\""},
      {ONE("F32", "[9223372036854775807]", "[0,8]"),
       "exceeds the size of any file"},
      {ONE("F32", "[99999999999999999999]", "[0,8]"), "damaged"},
      {ONE("F32", "[2]", "[8,0]"), "data_offsets"},
      {ONE("F32", "[2]", "[-8,0]"), "data_offsets"},
      {ONE("F32", "[2]", "[0]"), "data_offsets"},
      {ONE("F32", "[2]", "[0,9223372036854775807]"), "truncated"},
      {ONE("F32", "[2]", "8"), "data_offsets"},
      {ONE("F32", "2", "[0,8]"), "no \"shape\""},
      {ONE("F32", "[1]", "[0,4]"), "not part of a tensor"},
      {ONE("F32", "[1]", "[4,8]"), "not part of a tensor"},
      {ONE("QQ", "[1]", "[0,8]"), "its element type QQ has no Axon type"},
      {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,8]}}", "no \"dtype\""},
      {"{\"a\":1}", "no object"},
      {"{\"__metadata__\":{}}", "not part of a tensor"},
      {"[]", "no object"},
      {"{", "damaged"},
      {"{} {}", "damaged"},
      {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"a\":" ENTRY("F32", "[2]",
                                                              "[0,8]") "}",
       "damaged"},
      {"{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("F32", "[1]",
                                                              "[4,8]") "}",
       "overlap"},
      {"{\"\\u0000\":" ENTRY("F32", "[2]", "[0,8]") "}", "damaged"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++)
    check_fault_twice(st_file(bad[i].json, 8), NULL, bad[i].message);
  BAD("x.safetensors", "", "truncated");
  BAD("x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", "header length");
  BAD("x.safetensors", "\3\0\0\0\0\0\0\0{}", "header length");
  BAD("x.safetensors", "\2\0\0\0\0\0\0\0{}", "it contains no tensor");
  Fault fault = {0};
  Tensor *t =
      file_load(st_file("{\"z\":" ENTRY("F32", "[0]", "[0,0]") ",\"a\":" ENTRY(
                            "F32", "[]", "[0,4]") "}",
                        4),
                &(LoadOptions){.name = "a"}, &fault);
  assert_non_null(t);
  assert_int_equal(t->rank, 0);
  tensor_release(t);
}

/* ---- .csv ---- */

#define CSV(text) write_file("x.csv", text, sizeof text - 1)

static void check_csv(const char *path, const LoadOptions *options,
                      const char *want) {
  Fault fault = {0};
  TensorHeader is;
  if (!file_read_header(path, options, &is, &fault))
    fail_msg("%s", fault.message);
  Tensor *t = file_load(path, options, &fault);
  if (!t)
    fail_msg("%s", fault.message);
  assert_int_equal(is.dtype, DT_NONE);
  assert_int_equal(is.rank, 2);
  assert_int_equal(is.shape[0], t->shape[0]);
  assert_int_equal(is.shape[1], t->shape[1]);
  Buffer b = {0};
  tensor_print_type(&b, t);
  buffer_putc(&b, ' ');
  for (int64_t i = 0; i < t->count; i++) {
    buffer_puts(&b, i ? " " : "");
    scalar_print(&b, scalar_load(t->dtype, tensor_at(t, i)));
  }
  assert_string_equal(b.text, want);
  buffer_free(&b);
  tensor_release(t);
}

static void test_csv(void **state) {
  (void)state;
  const LoadOptions header = {.skip_header = true}, i64 = {.dtype = DT_I64},
                    f64 = {.dtype = DT_F64}, u8 = {.dtype = DT_U8},
                    boolean = {.dtype = DT_BOOL}, i8 = {.dtype = DT_I8};
  check_csv(CSV("1,2\n3,4\n"), NULL, "f32[2, 2] 1.0 2.0 3.0 4.0");
  check_csv(CSV("1,2\n3,4"), &i64, "i64[2, 2] 1 2 3 4");
  check_csv(CSV("\xef\xbb\xbf"
                "1;2\r\n\r\n \n3;4\r\n"),
            &u8, "u8[2, 2] 1 2 3 4");
  check_csv(CSV("1\t2\n3\t4\n"), &f64, "f64[2, 2] 1.0 2.0 3.0 4.0");
  check_csv(CSV("a,\"b c\"\n1, 2 \n\"3\",\" -4.5 \"\n"), &header,
            "f32[2, 2] 1.0 2.0 3.0 -4.5");
  check_csv(CSV("\n1\n2\n"), NULL, "f32[2, 1] 1.0 2.0");
  check_csv(CSV("0.1,1e-3,+.5,5.,1E3,0.30000000000000004,123456789012345678901"
                ",nan,-inf,Infinity,1e400,-0"),
            &f64,
            "f64[1, 12] 0.1 0.001 0.5 5.0 1000.0 0.30000000000000004 "
            "1.2345678901234568e20 nan -inf inf inf -0.0");
  check_csv(CSV("1.00000005960464477539062500000000000000001,16777217,"
                "1.000000059604644775390625,1e-45,3.4028236e38\n"),
            NULL, "f32[1, 5] 1.0000001 16777216.0 1.0 1e-45 inf");
  check_csv(CSV("9223372036854775807,-9223372036854775808,1.0,2e2,00012\n"),
            &i64,
            "i64[1, 5] 9223372036854775807 -9223372036854775808 1 200 "
            "12");
  check_csv(CSV("0,1,true,FALSE\n"), &boolean,
            "bool[1, 4] false true true false");
  check_csv(CSV("-128,127,-0\n"), &i8, "i8[1, 3] -128 127 0");
  check_csv(write_file("x.tsv", "1\t2\n", 4), NULL, "f32[1, 2] 1.0 2.0");
}

static void test_bad_csv(void **state) {
  (void)state;
  const LoadOptions i64 = {.dtype = DT_I64}, u8 = {.dtype = DT_U8},
                    header = {.skip_header = true},
                    boolean = {.dtype = DT_BOOL};
  check_fault(CSV("1,2\n3\n"), NULL, "line 2 has 1 field; the first row has 2");
  check_fault(CSV("1,2\n\n3,4,5\n"), NULL,
              "line 3 has 3 fields; the first row has 2");
  check_fault(CSV("1,2\n3,x\n"), NULL, "line 2, column 2: \"x\" is not a num");
  check_fault(CSV("1,\n"), NULL, "line 1, column 2 is empty");
  check_fault(CSV("1,,2\n"), &i64, "line 1, column 2 is empty");
  check_fault(CSV("1,\" \"\n"), NULL, "line 1, column 2 is empty");
  check_fault(CSV("1,1.5\n"), &i64, "\"1.5\" is not a whole number");
  check_fault(CSV("1,nan\n"), &i64, "\"nan\" is not a number");
  check_fault(CSV("1,1e30\n"), &i64, "\"1e30\" is not a whole number");
  check_fault(CSV("9223372036854775808\n"), &i64, "does not fit i64");
  check_fault(CSV("99999999999999999999\n"), &i64, "does not fit i64");
  check_fault(CSV("256\n"), &u8, "\"256\" does not fit u8");
  check_fault(CSV("-1\n"), &u8, "\"-1\" does not fit u8");
  check_fault(CSV("2\n"), &boolean, "\"2\" does not fit bool");
  check_fault(CSV("0x10\n"), NULL, "\"0x10\" is not a number");
  check_fault(CSV("1e\n"), NULL, "\"1e\" is not a number");
  check_fault(CSV(".\n"), NULL, "\".\" is not a number");
  check_fault(CSV("-\n"), NULL, "\"-\" is not a number");
  check_fault(CSV("1 2\n"), NULL, "\"1 2\" is not a number");
  check_fault(CSV("1;2,5\n"), NULL, "\"2,5\" is not a number");
  check_fault(CSV("nan(1)\n"), NULL, "is not a number");
  check_fault(CSV("1\0\n"), NULL, "is not a number");
  check_fault_twice(CSV(""), NULL, "it has no rows");
  check_fault_twice(CSV(" \n\n"), NULL, "it has no rows");
  check_fault_twice(CSV("a,b\n"), &header, "it has no rows");
  Fault fault = {0};
  assert_null(file_load(CSV("a,b\n1,2\n"), NULL, &fault));
  assert_non_null(strstr(fault.message, "line 1, column 1: \"a\" is not a"));
  assert_non_null(strstr(fault.help, "~header:true"));
  check_fault(CSV("\033[31m\n"), NULL, "\"?[31m\" is not a number");
  /* A wide row and many short ones would make a huge table. */
  static char wide[200000];
  memset(wide, ',', 100000);
  memset(wide + 100000, '\n', 100000);
  for (size_t i = 100001; i < sizeof wide; i += 2)
    wide[i] = '1';
  wide[0] = '1';
  check_fault(write_file("x.csv", wide, sizeof wide), NULL, "is empty");
}

/* ---- writing ---- */

static void save_ok(const char *path, Tensor *t) {
  Fault fault = {0};
  if (!file_save(path, 1, NULL, &t, &fault))
    fail_msg("%s", fault.message);
}

static void test_save_all(void **state) {
  (void)state;
  const char *names[DT_COUNT];
  Tensor *all[DT_COUNT];
  uint32_t count = 0;
  char name[64];
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++) {
    if (!numpy_has(t))
      continue;
    names[count] = dtype_info[t].name;
    all[count] = reference(t);
    snprintf(name, sizeof name, "%s.npy", names[count]);
    save_ok(temp_path(name), all[count]);
    check_file(temp_path(name), NULL, t);
    count++;
  }
  Fault fault = {0};
  if (!file_save(temp_path("all.npz"), count, names, all, &fault))
    fail_msg("%s", fault.message);
  uint32_t in_numpy = count;
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    if (!numpy_has(t)) {
      names[count] = dtype_info[t].name;
      all[count++] = reference(t);
    }
  assert_true(
      file_save(temp_path("all.safetensors"), count, names, all, &fault));
  for (uint32_t i = 0; i < count; i++) {
    if (i < in_numpy)
      check_file(temp_path("all.npz"), names[i], all[i]->dtype);
    check_file(temp_path("all.safetensors"), names[i], all[i]->dtype);
    tensor_release(all[i]);
  }
  Tensor *t = tensor_new(DT_F32, 2, (int64_t[]){0, 3}, true, &fault);
  save_ok(temp_path("empty.npy"), t);
  tensor_release(t);
  t = tensor_scalar((Scalar){.dtype = DT_F64, .f = 2.5});
  save_ok(temp_path("scalar.npy"), t);
  tensor_release(t);
  t = tensor_new(DT_I64, 1, (int64_t[]){3}, true, &fault);
  save_ok(temp_path("vector.npy"), t);
  tensor_release(t);
}

static void test_save_csv(void **state) {
  (void)state;
  Fault fault = {0};
  char text[64];
  Tensor *t = reference(DT_F64);
  t->rank = 2;
  t->shape[0] = 6, t->shape[1] = 4;
  save_ok(temp_path("f64.csv"), t);
  Tensor *u =
      file_load(temp_path("f64.csv"), &(LoadOptions){.dtype = DT_F64}, &fault);
  check_reference(u, DT_F64, 2);
  tensor_release(u);
  tensor_release(t);
  t = tensor_new(DT_BOOL, 1, (int64_t[]){2}, true, &fault);
  *(uint8_t *)t->data = 1;
  save_ok(temp_path("b.csv"), t);
  assert_int_equal(read_file(temp_path("b.csv"), text, sizeof text), 4);
  assert_memory_equal(text, "1\n0\n", 4);
  tensor_release(t);
  t = tensor_new(DT_F32, 2, (int64_t[]){1, 2}, true, &fault);
  *(float *)t->data = 0.1f;
  save_ok(temp_path("c.tsv"), t);
  assert_int_equal(read_file(temp_path("c.tsv"), text, sizeof text), 8);
  assert_memory_equal(text, "0.1\t0.0\n", 8);
  tensor_release(t);
}

static void test_save_pictures(void **state) {
  (void)state;
  Fault fault = {0};
  for (int64_t c = 1; c <= 4; c++) {
    int64_t shape[] = {2, 3, c};
    Tensor *t = tensor_new(DT_U8, 3, shape, true, &fault);
    for (int64_t i = 0; i < t->count; i++)
      ((uint8_t *)t->data)[i] = (uint8_t)(i * 37 + 3);
    save_ok(temp_path("x.png"), t);
    check_picture(temp_path("x.png"), 2, 3, c, t->data);
    if (c == 1 || c == 3) {
      const char *path = temp_path(c == 1 ? "x.pgm" : "x.ppm");
      save_ok(path, t);
      check_picture(path, 2, 3, c, t->data);
    }
    if (c == 1) {
      t->rank = 2;
      save_ok(temp_path("x.png"), t);
      check_picture(temp_path("x.png"), 2, 3, 1, t->data);
    }
    tensor_release(t);
  }
}

static void check_save_fault(const char *name, uint32_t count,
                             const char *const *names, Tensor *t,
                             const char *message) {
  Fault fault = {0};
  Tensor *all[] = {t, t, t};
  char path[600];
  snprintf(path, sizeof path, "%s", temp_path(name));
  if (file_save(path, count, names, all, &fault) ||
      !strstr(fault.message, message))
    fail_msg("%s: \"%s\", not \"%s\"", name, fault.message, message);
}

static void test_save_faults(void **state) {
  (void)state;
  Fault fault = {0};
  const char *const same[] = {"a", "a"};
  const char *const meta[] = {"__metadata__"};
  const char *const empty[] = {""};
  Tensor *bf16 = reference(DT_BF16), *u8 = reference(DT_U8);
  Tensor *f8 = reference(DT_F8_E4M3);
  check_save_fault("x.npy", 1, NULL, f8, "NumPy has no type for f8_e4m3");
  tensor_release(f8);
  Tensor *odd = tensor_new(DT_F4_E2M1, 1, (int64_t[]){3}, true, &fault);
  check_save_fault("x.safetensors", 1, NULL, odd, "an odd number of elements");
  tensor_release(odd);
  check_save_fault("x.npy", 1, NULL, bf16, "NumPy has no type for bf16");
  check_save_fault("x.npz", 1, same, bf16, "NumPy has no type for bf16");
  check_save_fault("x.npy", 2, same, u8, "contains one tensor; found 2");
  check_save_fault("x.npz", 2, same, u8, "cannot write");
  check_save_fault("x.npz", 1, empty, u8, "cannot be the name");
  check_save_fault("x.npz", 0, NULL, u8, "nothing to save");
  check_save_fault("x.safetensors", 2, same, u8, "two tensors have the name");
  check_save_fault("x.safetensors", 1, meta, u8, "is not a valid tensor name");
  check_save_fault("x.csv", 1, NULL, u8, "a table has 2 axes, not 3");
  check_save_fault("x.png", 1, NULL, bf16, "is not an image of this kind");
  check_save_fault("x.ppm", 1, NULL, u8,
                   "u8[2, 3, 4] is not an image of this kind");
  check_save_fault("x.pgm", 1, NULL, u8, "is not an image of this kind");
  check_save_fault("x.foo", 1, NULL, u8, "has no known file extension");
  check_save_fault("no/x.npy", 1, NULL, u8, "No such file");
  check_save_fault("dd.npy/", 1, NULL, u8, "has no known file extension");
  assert_int_equal(mkdir(temp_path("dd.npy"), 0777), 0);
  check_save_fault("dd.npy", 1, NULL, u8, "it is a directory");
  /* If writing fails, the old file stays and no other file remains. */
  save_ok(temp_path("keep.npy"), u8);
  check_save_fault("keep.npy", 1, NULL, bf16, "no type");
  check_file(temp_path("keep.npy"), NULL, DT_U8);
  struct rlimit old, tiny = {100, 100};
  getrlimit(RLIMIT_FSIZE, &old);
  tiny.rlim_max = old.rlim_max;
  setrlimit(RLIMIT_FSIZE, &tiny);
  check_save_fault("keep.npy", 1, NULL, u8, "cannot write");
  setrlimit(RLIMIT_FSIZE, &old);
  check_file(temp_path("keep.npy"), NULL, DT_U8);
  /* A link stays one, and the mode is that of any new file. */
  assert_int_equal(symlink("keep.npy", temp_path("link.npy")), 0);
  save_ok(temp_path("link.npy"), u8);
  struct stat info;
  assert_int_equal(lstat(temp_path("link.npy"), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_int_equal(stat(temp_path("link.npy"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0644);
  assert_true(file_save(temp_path("mode.npz"), 1, same, &u8, &fault));
  assert_int_equal(stat(temp_path("mode.npz"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0644);
  tensor_release(bf16);
  tensor_release(u8);
  char command[600];
  snprintf(command, sizeof command, "test -z \"$(find %s -name '.axon*')\"",
           dir);
  assert_int_equal(system(command), 0);
}

static void test_missing_library(void **state) {
  (void)state;
  static const char *const symbols[] = {"f", NULL};
  static const char *const sonames[] = {"libnowhere.so.9", "libm.so.6"};
  void *table[1] = {NULL};
  for (size_t i = 0; i < ARRAY_LEN(sonames); i++) {
    DynLib library = {sonames[i], "libnowhere9", symbols, table};
    Fault fault = {0};
    assert_false(dynlib_load(&library, &fault));
    assert_null(table[0]);
    assert_non_null(strstr(fault.message, sonames[i]));
    assert_non_null(strstr(fault.help, "apt install libnowhere9"));
  }
}

/* ---- out of memory, at every place ---- */

static void test_memory(void **state) {
  (void)state;
  static const char *const files[] = {"f32.npy",     "f32_both.npy",
                                      "one.npz",     "one.safetensors",
                                      "savetxt.csv", "colour.png"};
  static const char *const names[] = {"a"};
  static const char *const saves[] = {"m.npy", "m.npz", "m.safetensors",
                                      "m.csv"};
  Tensor *t = reference(DT_F32);
  t->rank = 2;
  t->shape[0] = 6, t->shape[1] = 4;
  for (size_t i = 0; i < ARRAY_LEN(files); i++)
    for (uint64_t n = 1, ok = 0; !ok; n++) {
      Fault fault = {0};
      mem_inject_failure_at(n);
      Tensor *u = file_load(data_path(files[i]), NULL, &fault);
      mem_inject_failure_at(0);
      ok = u != NULL;
      assert_true(ok || strstr(fault.message, "memory"));
      tensor_release(u);
    }
  for (size_t i = 0; i < ARRAY_LEN(saves); i++)
    for (uint64_t n = 1, ok = 0; !ok; n++) {
      Fault fault = {0};
      mem_inject_failure_at(n);
      ok = file_save(temp_path(saves[i]), 1, names, &t, &fault);
      mem_inject_failure_at(0);
      assert_true(ok || strstr(fault.message, "memory"));
    }
  tensor_release(t);
}

/* NumPy reads what test_save_* wrote; runs only where there is NumPy. */
static void test_numpy_reads(void **state) {
  (void)state;
  const char *top = getenv("srcdir");
  char command[1200];
  if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    skip();
  snprintf(command, sizeof command,
           "/usr/bin/python3 %s/tests/unit/runtime_numpy.py check %s "
           ">/dev/null",
           top ? top : ".", dir);
  assert_int_equal(system(command), 0);
}

static int group_setup(void **state) {
  (void)state;
  umask(022);
  signal(SIGXFSZ, SIG_IGN);
  return mkdtemp(dir) ? 0 : -1;
}

static int group_teardown(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numpy_files),
      cmocka_unit_test(test_numpy_others),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_mapped),
      cmocka_unit_test(test_pictures),
      cmocka_unit_test(test_bad_png),
      cmocka_unit_test(test_png_memory),
      cmocka_unit_test(test_bad_npy),
      cmocka_unit_test(test_bad_npz),
      cmocka_unit_test(test_bad_gguf),
      cmocka_unit_test(test_bad_safetensors),
      cmocka_unit_test(test_csv),
      cmocka_unit_test(test_bad_csv),
      cmocka_unit_test(test_save_all),
      cmocka_unit_test(test_save_csv),
      cmocka_unit_test(test_save_pictures),
      cmocka_unit_test(test_save_faults),
      cmocka_unit_test(test_numpy_reads),
      cmocka_unit_test(test_missing_library),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
