/* Finds the tensors in the pickle of a file of torch.save.  A state_dict is a
 * dictionary of tensors; a checkpoint holds some of them beside numbers.  The
 * names of nested entries are joined by dots: model.layer.weight. */
#include "runtime/pth.h"
#include "support/buffer.h"
#include "support/mem.h"
#include "support/utf8.h"

#include <inttypes.h>
#include <string.h>

enum {
  MAX_DEPTH = 64,
  KEY_LIMIT_BYTES = 200, /* of storages, which are compared and looked up */
  /* All names may take this many bytes for each byte of the pickle. */
  NAME_BYTES_PER_VALUE = 64,
  HEADER_MEMORY = 16, /* bytes of memory for which input_check_header_size
                         counts a byte */
};

const char pth_wanted[] =
    "save only the tensors: torch.save(model.state_dict(), \"model.pth\")";

#define FUNCTIONS(F)                                               \
  F(ORDERED_DICT, "collections.OrderedDict")                       \
  F(DEFAULT_DICT, "collections.defaultdict")                       \
  F(TENSOR, "torch._utils._rebuild_tensor")                        \
  F(TENSOR_2, "torch._utils._rebuild_tensor_v2")                   \
  F(TENSOR_3, "torch._utils._rebuild_tensor_v3")                   \
  F(PARAMETER, "torch._utils._rebuild_parameter")                  \
  F(PARAMETER_STATE, "torch._utils._rebuild_parameter_with_state") \
  F(FROM_TYPE, "torch._tensor._rebuild_from_type")                 \
  F(FROM_TYPE_2, "torch._tensor._rebuild_from_type_v2")            \
  F(SPARSE, "torch._utils._rebuild_sparse_tensor")                 \
  F(SPARSE_CSR, "torch._utils._rebuild_sparse_csr_tensor")         \
  F(QUANTIZED, "torch._utils._rebuild_qtensor")                    \
  F(NESTED, "torch._utils._rebuild_nested_tensor")                 \
  F(META, "torch._utils._rebuild_meta_tensor_no_storage")          \
  F(SIZE, "torch.Size")                                            \
  F(UNTYPED, "torch.storage.UntypedStorage")                       \
  F(OLD_UNTYPED, "torch.UntypedStorage")

/* name, name of the storage ("": it has none), dtype, bytes, complex */
#define ELEMENTS(E)                                                     \
  E("torch.float64", "torch.DoubleStorage", DT_F64, 8, false)           \
  E("torch.float32", "torch.FloatStorage", DT_F32, 4, false)            \
  E("torch.float16", "torch.HalfStorage", DT_F16, 2, false)             \
  E("torch.bfloat16", "torch.BFloat16Storage", DT_BF16, 2, false)       \
  E("torch.float8_e4m3fn", "", DT_F8_E4M3, 1, false)                    \
  E("torch.float8_e5m2", "", DT_F8_E5M2, 1, false)                      \
  E("torch.float8_e4m3fnuz", "", DT_NONE, 1, false)                     \
  E("torch.float8_e5m2fnuz", "", DT_NONE, 1, false)                     \
  E("torch.float8_e8m0fnu", "", DT_F8_E8M0, 1, false)                   \
  E("torch.float4_e2m1fn_x2", "", DT_NONE, 1, false)                    \
  E("torch.int64", "torch.LongStorage", DT_I64, 8, false)               \
  E("torch.int32", "torch.IntStorage", DT_I32, 4, false)                \
  E("torch.int16", "torch.ShortStorage", DT_NONE, 2, false)             \
  E("torch.int8", "torch.CharStorage", DT_I8, 1, false)                 \
  E("torch.uint8", "torch.ByteStorage", DT_U8, 1, false)                \
  E("torch.uint16", "", DT_NONE, 2, false)                              \
  E("torch.uint32", "", DT_NONE, 4, false)                              \
  E("torch.uint64", "", DT_NONE, 8, false)                              \
  E("torch.bool", "torch.BoolStorage", DT_BOOL, 1, false)               \
  E("torch.complex32", "torch.ComplexHalfStorage", DT_F16, 4, true)     \
  E("torch.complex64", "torch.ComplexFloatStorage", DT_F32, 8, true)    \
  E("torch.complex128", "torch.ComplexDoubleStorage", DT_F64, 16, true) \
  E("torch.qint8", "torch.QInt8Storage", DT_NONE, 1, false)             \
  E("torch.quint8", "torch.QUInt8Storage", DT_NONE, 1, false)           \
  E("torch.qint32", "torch.QInt32Storage", DT_NONE, 4, false)           \
  E("torch.quint4x2", "torch.QUInt4x2Storage", DT_NONE, 1, false)       \
  E("torch.quint2x4", "torch.QUInt2x4Storage", DT_NONE, 1, false)

/* Values of checkpoints that are no tensors: settings, counters, states of
 * random generators. */
#define BUILTINS(module)                                                      \
  module ".set", module ".frozenset", module ".complex", module ".bytearray", \
      module ".slice", module ".list", module ".dict", module ".tuple",       \
      module ".int", module ".float", module ".bool", module ".str",          \
      module ".bytes", module ".object", module ".Ellipsis"
#define NUMPY(core)                                           \
  core ".multiarray.scalar", core ".multiarray._reconstruct", \
      core ".numeric._frombuffer"
#define SKIPPED                                                                \
  BUILTINS("__builtin__"), BUILTINS("builtins"), "__builtin__.xrange",         \
      "__builtin__.long", "__builtin__.unicode", "builtins.range",             \
      "_codecs.encode", "copy_reg._reconstructor", "copyreg._reconstructor",   \
      "collections.Counter", "collections.deque", "argparse.Namespace",        \
      "types.SimpleNamespace", "datetime.datetime", "datetime.date",           \
      "datetime.time", "datetime.timedelta", "datetime.timezone",              \
      "decimal.Decimal", "fractions.Fraction", "uuid.UUID", "pathlib.Path",    \
      "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath",     \
      "pathlib.PureWindowsPath", "pathlib._local.PosixPath",                   \
      "pathlib._local.WindowsPath", NUMPY("numpy.core"), NUMPY("numpy._core"), \
      "numpy.dtype", "numpy.ndarray", "numpy.bool_", "numpy.float16",          \
      "numpy.float32", "numpy.float64", "numpy.int8", "numpy.int16",           \
      "numpy.int32", "numpy.int64", "numpy.uint8", "torch.device",             \
      "torch.Tensor", "torch.nn.parameter.Parameter",                          \
      "torch.nn.parameter.Buffer", "torch._C.Generator",                       \
      "torch.serialization._get_layout", "torch.torch_version.TorchVersion",   \
      "torch.per_tensor_affine", "torch.per_channel_affine",                   \
      "torch.per_tensor_symmetric", "torch.per_channel_symmetric",             \
      "torch.per_channel_affine_float_qparams"

#define ROW(name, storage, dtype, bytes, pairs) \
  {name, dtype, bytes, pairs,                   \
   "convert it with PyTorch, for example to torch.float32 or torch.int32"},
static const PthElement elements[] = {ELEMENTS(ROW)};

#define FUNCTION_ID(id, name) NAME_##id,
enum {
  FUNCTIONS(FUNCTION_ID) FIRST_STORAGE,
  FIRST_DTYPE = FIRST_STORAGE + ARRAY_LEN(elements),
};

#define FUNCTION_NAME(id, name) name,
#define STORAGE_NAME(name, storage, dtype, bytes, pairs) storage,
#define DTYPE_NAME(name, storage, dtype, bytes, pairs) name,

const char *const *pth_names(size_t *count) {
  static const char *const names[] = {FUNCTIONS(FUNCTION_NAME) ELEMENTS(
      STORAGE_NAME) ELEMENTS(DTYPE_NAME) SKIPPED};
  *count = ARRAY_LEN(names);
  return names;
}

/* Tensors whose elements are no part of one storage. */
static const PthElement *layout_of(uint16_t function) {
  static const PthElement
      sparse = {.name = "sparse", .help = "save x.to_dense() instead of x"},
      quantized = {.name = "quantized",
                   .help = "save x.dequantize() instead of x"},
      nested = {.name = "nested",
                .help = "save the tensors in it: list(x.unbind())"},
      meta = {.name = "meta", .help = "save a tensor with elements"};
  switch (function) {
  case NAME_SPARSE:
  case NAME_SPARSE_CSR:
    return &sparse;
  case NAME_QUANTIZED:
    return &quantized;
  case NAME_NESTED:
    return &nested;
  case NAME_META:
    return &meta;
  }
  return NULL;
}

/* The element type of a name behind `first`, or NULL. */
static const PthElement *element_of(const PickleValue *v, uint32_t first) {
  if (v->kind != PICKLE_NAME || v->name < first ||
      v->name >= first + ARRAY_LEN(elements))
    return NULL;
  return &elements[v->name - first];
}

static bool damaged(const PthFile *file, Fault *fault) {
  return input_fault(&file->in, fault, "its pickle is no valid tensor");
}

/* ---- storages: ("storage", type, key, device, elements[, view]) ---- */

static bool get_count(const PickleValue *v, uint64_t *out) {
  *out = (uint64_t)v->integer;
  return v->kind == PICKLE_INT && v->integer >= 0;
}

/* A view of an old file: (key, first element, elements). */
static bool read_view(PthStorage *s, const PickleValue *view) {
  uint64_t width = s->element ? s->element->bytes : 1;
  if (view->kind == PICKLE_NONE)
    return true;
  return view->kind == PICKLE_TUPLE && view->items->len == 3 &&
         get_count(&view->items->at[1], &s->view_start) &&
         get_count(&view->items->at[2], &s->view_bytes) &&
         !__builtin_mul_overflow(s->view_start, width, &s->view_start) &&
         !__builtin_mul_overflow(s->view_bytes, width, &s->view_bytes);
}

static bool read_storage(PthStorage *s, const PickleItems *id) {
  if (id->len < 5 || !pickle_is_text(&id->at[0], "storage") ||
      id->at[1].kind != PICKLE_NAME || id->at[2].kind != PICKLE_TEXT ||
      id->at[2].len > KEY_LIMIT_BYTES)
    return false;
  s->element = element_of(&id->at[1], FIRST_STORAGE);
  if (!s->element && id->at[1].name != NAME_UNTYPED &&
      id->at[1].name != NAME_OLD_UNTYPED)
    return false;
  s->key = id->at[2].text;
  s->key_len = id->at[2].len;
  s->view_bytes = UINT64_MAX;
  return id->len < 6 || read_view(s, &id->at[5]);
}

bool pth_find_storages(PthFile *file, const Pickle *p, Fault *fault) {
  file->storages = NEW_ARRAY(file->arena, PthStorage, p->stored.len + 1);
  file->storage_count = p->stored.len;
  for (uint32_t i = 0; i < p->stored.len; i++)
    if (!read_storage(&file->storages[i], p->stored.at[i].items))
      return input_fault(&file->in, fault,
                         "its pickle has a storage that is none of torch.save");
  return true;
}

/* ---- tensors ---- */

/* A tuple of numbers, perhaps as torch.Size. */
static const PickleItems *numbers_of(const PickleValue *v) {
  if (v->kind == PICKLE_CALL && v->name == NAME_SIZE &&
      v->call->arguments.len == 1)
    v = &v->call->arguments.at[0];
  return v->kind == PICKLE_TUPLE || v->kind == PICKLE_LIST ? v->items : NULL;
}

/* There is room for one more axis. */
static bool read_shape(PthFile *file, PthTensor *t, const PickleItems *sizes,
                       const PickleItems *strides) {
  if (!sizes || !strides || sizes->len != strides->len || sizes->len > MAX_RANK)
    return false;
  t->rank = sizes->len;
  t->shape = NEW_ARRAY(file->arena, int64_t, t->rank + 1);
  t->strides = NEW_ARRAY(file->arena, uint64_t, t->rank + 1);
  for (uint32_t i = 0; i < sizes->len; i++) {
    if (sizes->at[i].kind != PICKLE_INT || sizes->at[i].integer < 0 ||
        !get_count(&strides->at[i], &t->strides[i]))
      return false;
    t->shape[i] = sizes->at[i].integer;
  }
  return true;
}

/* A complex number is two numbers along an added last axis. */
static bool split_pairs(PthTensor *t) {
  if (t->rank == MAX_RANK ||
      __builtin_mul_overflow(t->offset, (uint64_t)2, &t->offset))
    return false;
  for (uint32_t i = 0; i < t->rank; i++)
    if (__builtin_mul_overflow(t->strides[i], (uint64_t)2, &t->strides[i]))
      return false;
  t->shape[t->rank] = 2;
  t->strides[t->rank++] = 1;
  return true;
}

static bool is_true(const PickleValue *v) {
  return v->kind == PICKLE_BOOL && v->integer;
}

/* Lazy conjugates and negations: {'conj': True}, {'neg': True}. */
static bool read_metadata(const PthFile *file, PthTensor *t,
                          const PickleValue *metadata, Fault *fault) {
  if (metadata->kind != PICKLE_DICT)
    return damaged(file, fault);
  const PickleItems *a = metadata->items;
  for (uint32_t i = 0; i + 1 < a->len; i += 2) {
    if (pickle_is_text(&a->at[i], "conj")) {
      t->conjugated = is_true(&a->at[i + 1]);
    } else if (pickle_is_text(&a->at[i], "neg")) {
      t->negated = is_true(&a->at[i + 1]);
    } else {
      input_fault(&file->in, fault,
                  "a tensor in it has other metadata than conj and neg");
      fault_set_help(fault, "%s", pth_wanted);
      return false;
    }
  }
  return !t->conjugated || t->element->has_pairs || damaged(file, fault);
}

/* (storage, offset, sizes, strides, requires_grad, hooks[, metadata]); the
 * third version has the element type before the metadata. */
static bool read_tensor(PthFile *file, const PickleValue *v, PthTensor *t,
                        Fault *fault) {
  const PickleItems *a = &v->call->arguments;
  uint32_t metadata = v->name == NAME_TENSOR_3 ? 7 : 6;
  *t = (PthTensor){.element = layout_of(v->name)};
  if (t->element)
    return true;
  if (a->len < 4 || a->at[0].kind != PICKLE_STORED ||
      !get_count(&a->at[1], &t->offset) ||
      !read_shape(file, t, numbers_of(&a->at[2]), numbers_of(&a->at[3])))
    return damaged(file, fault);
  t->storage = a->at[0].len;
  t->element = file->storages[t->storage].element;
  if (v->name == NAME_TENSOR_3)
    t->element = a->len < 7 ? NULL : element_of(&a->at[6], FIRST_DTYPE);
  if (!t->element || (t->element->has_pairs && !split_pairs(t)))
    return damaged(file, fault);
  return a->len <= metadata || read_metadata(file, t, &a->at[metadata], fault);
}

/* ---- names ---- */

typedef struct Walk {
  PthFile *file;
  Buffer name;      /* of the value, NUL-terminated */
  uint32_t unnamed; /* keys of the value that no name may contain */
  size_t values, name_bytes, tensor_bytes, pickle_bytes;
} Walk;

/* Names are copied, also for values that are no tensors. */
static bool count_name(Walk *w, size_t len, Fault *fault) {
  w->name_bytes += len;
  return w->name_bytes <= NAME_BYTES_PER_VALUE * (w->pickle_bytes + 64) ||
         input_fault(&w->file->in, fault, "the names in it are too long");
}

/* Values may be shared, and contain one another: without a limit, a small file
 * has a walk without an end. */
static bool count_value(Walk *w, Fault *fault) {
  return w->values++ <= w->pickle_bytes ||
         input_fault(&w->file->in, fault,
                     "its containers contain one another too often");
}

/* Two bytes of a pickle suffice for a tensor that another place shares. */
static bool count_tensor(Walk *w, const PthTensor *t, Fault *fault) {
  w->tensor_bytes += sizeof *t + w->name.len +
                     (t->rank + 1) * (sizeof *t->shape + sizeof *t->strides);
  return input_check_header_size(&w->file->in, w->tensor_bytes / HEADER_MEMORY,
                                 fault);
}

static bool walk(Walk *w, const PickleValue *v, uint32_t depth, Fault *fault);

static bool add_tensor(Walk *w, const PickleValue *v, Fault *fault) {
  PthFile *file = w->file;
  const char *name = w->name.len ? w->name.text : "tensor";
  PthTensor t;
  if (!read_tensor(file, v, &t, fault))
    return false;
  if (w->unnamed) {
    input_fault(&file->in, fault,
                "the name of a tensor is empty or contains a NUL");
    fault_set_help(fault, "save it under another name");
    return false;
  }
  if (utf8_valid_prefix(name, strlen(name)) < strlen(name))
    return input_fault(&file->in, fault, "the name of a tensor is no UTF-8");
  VEC_PUSH(file->arena, file->tensors, t);
  return count_tensor(w, &t, fault) && count_name(w, w->name.len, fault) &&
         (names_add(&file->names, name) || input_no_memory(&file->in, fault));
}

/* Walks the value of a key, whose name is behind that of its container. */
static bool walk_entry(Walk *w, const PickleValue *key, const PickleValue *v,
                       uint32_t depth, Fault *fault) {
  size_t len = w->name.len;
  bool unnamed =
      key->kind == PICKLE_TEXT && (!key->len || memchr(key->text, 0, key->len));
  if (!count_name(w, key->len, fault))
    return false;
  if (len)
    buffer_putc(&w->name, '.');
  if (key->kind == PICKLE_TEXT)
    buffer_add(&w->name, key->text, key->len);
  else
    buffer_printf(&w->name, "%" PRId64, key->integer);
  w->unnamed += unnamed;
  bool ok = walk(w, v, depth, fault);
  w->unnamed -= unnamed;
  w->name.len = len;
  if (w->name.text)
    w->name.text[len] = 0;
  return ok;
}

static bool is_tensor(const PickleValue *v) {
  return v->kind == PICKLE_CALL && v->name >= NAME_TENSOR &&
         v->name <= NAME_META;
}

static bool walk_pairs(Walk *w, const PickleItems *items, uint32_t depth,
                       Fault *fault) {
  for (uint32_t i = 0; i + 1 < items->len; i += 2) {
    const PickleValue *key = &items->at[i];
    const PickleValue *v = &items->at[i + 1];
    bool is_name = key->kind == PICKLE_TEXT || key->kind == PICKLE_INT;
    w->file->others += !is_name && !is_tensor(v);
    w->file->unnamed += !is_name && is_tensor(v);
    if (is_name ? !walk_entry(w, key, v, depth, fault) : !count_value(w, fault))
      return false;
  }
  return true;
}

static bool walk_list(Walk *w, const PickleItems *items, uint32_t depth,
                      Fault *fault) {
  for (uint32_t i = 0; i < items->len; i++) {
    PickleValue key = {.kind = PICKLE_INT, .integer = i};
    if (!walk_entry(w, &key, &items->at[i], depth, fault))
      return false;
  }
  return true;
}

/* OrderedDict() with items, or OrderedDict([(key, value), ...]). */
static bool walk_ordered(Walk *w, const PickleCall *c, uint32_t depth,
                         Fault *fault) {
  const PickleItems *a = &c->arguments;
  const PickleItems *pairs =
      a->len && a->at[0].kind == PICKLE_LIST ? a->at[0].items : NULL;
  for (uint32_t i = 0; pairs && i < pairs->len; i++) {
    const PickleValue *pair = &pairs->at[i];
    if (!count_value(w, fault))
      return false;
    if ((pair->kind != PICKLE_TUPLE && pair->kind != PICKLE_LIST) ||
        pair->items->len != 2)
      return damaged(w->file, fault);
    if (!walk_pairs(w, pair->items, depth, fault))
      return false;
  }
  return walk_pairs(w, &c->items, depth, fault);
}

/* A tensor with attributes of its own: (function, type, arguments, ...). */
static bool walk_from_type(Walk *w, const PickleItems *a, uint32_t depth,
                           Fault *fault) {
  if (a->len < 3 || a->at[0].kind != PICKLE_NAME ||
      a->at[2].kind != PICKLE_TUPLE)
    return damaged(w->file, fault);
  PickleCall c = {.arguments = *a->at[2].items};
  PickleValue v = {.kind = PICKLE_CALL, .name = a->at[0].name, .call = &c};
  return walk(w, &v, depth, fault);
}

static bool walk_call(Walk *w, const PickleValue *v, uint32_t depth,
                      Fault *fault) {
  const PickleItems *a = &v->call->arguments;
  switch (v->name) {
  case NAME_TENSOR:
  case NAME_TENSOR_2:
  case NAME_TENSOR_3:
  case NAME_SPARSE:
  case NAME_SPARSE_CSR:
  case NAME_QUANTIZED:
  case NAME_NESTED:
  case NAME_META:
    return add_tensor(w, v, fault);
  case NAME_FROM_TYPE:
  case NAME_FROM_TYPE_2:
    return walk_from_type(w, a, depth, fault);
  case NAME_PARAMETER:
  case NAME_PARAMETER_STATE:
    return a->len ? walk(w, &a->at[0], depth, fault) : damaged(w->file, fault);
  case NAME_ORDERED_DICT:
  case NAME_DEFAULT_DICT:
    return walk_ordered(w, v->call, depth, fault);
  }
  w->file->others++;
  return true;
}

static bool walk(Walk *w, const PickleValue *v, uint32_t depth, Fault *fault) {
  if (depth > MAX_DEPTH)
    return input_fault(&w->file->in, fault, "its containers are too deep");
  if (!count_value(w, fault))
    return false;
  if (v->kind == PICKLE_DICT)
    return walk_pairs(w, v->items, depth + 1, fault);
  if (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE)
    return walk_list(w, v->items, depth + 1, fault);
  if (v->kind == PICKLE_CALL)
    return walk_call(w, v, depth + 1, fault);
  w->file->others++;
  return true;
}

bool pth_find_tensors(PthFile *file, const PickleValue *root,
                      size_t pickle_bytes, Fault *fault) {
  Walk w = {.file = file,
            .name = {.arena = file->arena},
            .pickle_bytes = pickle_bytes};
  return walk(&w, root, 0, fault);
}
