/* Structures in files: save_tree and load_tree.
 *
 * Each leaf is a tensor whose name is its path: field names, numbers in tuples
 * and lists, and constructors, joined by dots.  A key is an i64[2], a string is
 * a u8[n].  A constructor without an argument is a u8[0]. */
#include "eval/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAME_BYTES = 1024, MAX_NESTING = 200 };

/* ---- the leaves of a structure ---- */

typedef struct Leaf {
  const char *name;
  Value value; /* borrowed */
  TensorHeader header;
} Leaf;

typedef struct LeafList {
  Eval *vm;
  Leaf *leaves; /* NULL while they are counted */
  uint32_t count;
  uint32_t nesting;
  size_t len;                /* length of the name */
  char name[MAX_NAME_BYTES]; /* the path of the value */
} LeafList;

static bool is_packed(Value v) {
  return v.tag == V_STRING || v.tag == V_KEY || v.tag == V_NULLARY_CON;
}

static bool is_leaf(const LeafMap *map, Value v) {
  (void)map;
  return is_packed(v) || v.tag == V_NODE || value_is_num(v);
}

static TensorHeader leaf_header(Eval *vm, Value v) {
  TensorHeader h = {.rank = 1};
  if (v.tag == V_KEY) {
    h.dtype = DT_I64;
    h.shape[0] = 2;
  } else if (is_packed(v)) {
    h.dtype = DT_U8;
    h.shape[0] = v.tag == V_STRING ? (int64_t)v.obj->len : 0;
  } else {
    const Node *n = vm_to_node(vm, v);
    h.dtype = n->dtype;
    h.rank = n->rank;
    for (uint32_t k = 0; k < n->rank; k++)
      h.shape[k] = node_size(n, k);
  }
  return h;
}

static void collect(LeafList *list, Value v);

static void collect_part(LeafList *list, const char *part, Value v) {
  size_t before = list->len;
  int more = snprintf(list->name + before, sizeof list->name - before, "%s%s",
                      before ? "." : "", part);
  if ((size_t)more >= sizeof list->name - before ||
      ++list->nesting > MAX_NESTING)
    vm_fail(list->vm, 508, "the structure is nested too deeply for a file");
  list->len += (size_t)more;
  collect(list, v);
  list->nesting--;
  list->len = before;
  list->name[before] = 0;
}

static void collect_numbered(LeafList *list, uint32_t i, Value v) {
  char part[16];
  snprintf(part, sizeof part, "%u", i);
  collect_part(list, part, v);
}

static void add_leaf(LeafList *list, Value v) {
  uint32_t i = list->count++;
  if (!list->leaves)
    return;
  const char *name = list->len ? list->name : "value";
  char *copy = vm_scratch(list->vm, strlen(name) + 1);
  list->leaves[i] = (Leaf){.name = strcpy(copy, name),
                           .value = v,
                           .header = leaf_header(list->vm, v)};
}

static void collect(LeafList *list, Value v) {
  if (v.tag == V_TUPLE || v.tag == V_KEYS) {
    for (uint32_t i = 0; i < v.obj->len; i++)
      collect_numbered(list, i, AS_ARRAY(v)->at[i]);
  } else if (v.tag == V_RECORD) {
    const RecordLayout *layout = AS_RECORD(v)->layout;
    for (uint32_t i = 0; i < v.obj->len; i++)
      collect_part(list, layout->labels[i]->text, AS_RECORD(v)->at[i]);
  } else if (v.tag == V_CONS) {
    for (uint32_t i = 0; v.tag == V_CONS; v = AS_CONS(v)->tail, i++)
      collect_numbered(list, i, AS_CONS(v)->head);
  } else if (v.tag == V_CON) {
    collect_part(list, AS_CON(v)->con->name->text, AS_CON(v)->arg);
  } else if (v.tag == V_NULLARY_CON) {
    size_t before = list->len;
    snprintf(list->name + before, sizeof list->name - before, "%s%s",
             before ? "." : "", v.con->name->text);
    list->len = strlen(list->name);
    add_leaf(list, v);
    list->len = before;
    list->name[before] = 0;
  } else if (is_leaf(NULL, v)) {
    add_leaf(list, v);
  }
}

/* The leaves, in memory of the machine's scratch. */
static Leaf *leaves_of(Eval *vm, Value v, uint32_t *count) {
  LeafList list = {.vm = vm};
  collect(&list, v);
  list.leaves = vm_scratch(vm, (list.count + 1) * sizeof *list.leaves);
  list.count = 0;
  collect(&list, v);
  *count = list.count;
  return list.leaves;
}

static const char *path_of(Eval *vm, Value v) {
  vm_check_no_nul(vm, v);
  return AS_STRING(v)->text;
}

/* ---- save_tree ---- */

/* The tensor of a string, a key or a constructor, as a temporary. */
static Tensor *pack_leaf(Eval *vm, const Leaf *leaf) {
  Fault fault = {0};
  Tensor *t =
      tensor_new(leaf->header.dtype, 1, leaf->header.shape, false, &fault);
  Value v = leaf->value;
  vm_push_temp(vm, vm_value_of_tensor(vm, t, &fault));
  if (v.tag == V_STRING)
    memcpy(t->data, AS_STRING(v)->text, v.obj->len);
  if (v.tag == V_KEY)
    memcpy(t->data, &AS_KEY(v)->key, sizeof AS_KEY(v)->key);
  return t;
}

Value prim_save_tree(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  (void)site, (void)n;
  if (!vm_may_write(vm, "save_tree"))
    return value_unit();
  size_t mark = vm->temp_count;
  const char *path = path_of(vm, args[0]);
  Fault fault = {0};
  if (!file_has_structures(path, &fault))
    vm_fail_file(vm, &fault);
  vm_force_value(vm, args[1]);
  uint32_t count;
  const Leaf *leaves = leaves_of(vm, args[1], &count);
  const char **names = vm_scratch(vm, (count + 1) * sizeof *names);
  Tensor **tensors = vm_scratch(vm, (count + 1) * sizeof *tensors);
  for (uint32_t i = 0; i < count; i++) {
    names[i] = leaves[i].name;
    tensors[i] = is_packed(leaves[i].value)
                     ? pack_leaf(vm, &leaves[i])
                     : (Tensor *)(uintptr_t)vm_tensor(vm, leaves[i].value);
  }
  vm_save(vm, path, count, names, tensors);
  vm_drop_temps(vm, mark);
  return value_unit();
}

/* ---- load_tree ---- */

static bool is_same_shape(const Leaf *leaf, const TensorHeader *h) {
  if (leaf->header.rank != h->rank)
    return false;
  for (uint32_t k = 0; k < h->rank; k++)
    if (leaf->header.shape[k] != h->shape[k] && leaf->value.tag != V_STRING)
      return false;
  return true;
}

static void put_type(Buffer *out, const char *dtype, const TensorHeader *h) {
  buffer_puts(out, dtype);
  for (uint32_t k = 0; k < h->rank; k++)
    buffer_printf(out, k ? ", %lld" : "[%lld", (long long)h->shape[k]);
  if (h->rank)
    buffer_putc(out, ']');
}

static void put_file_type(Buffer *out, const NamedTensor *t) {
  Dtype dtype = t->header.dtype;
  put_type(out, dtype ? dtype_info[dtype].name : t->dtype_name, &t->header);
}

static void put_leaf_type(Buffer *out, const Leaf *leaf) {
  put_type(out, dtype_info[leaf->header.dtype].name, &leaf->header);
}

static int by_name(const void *a, const void *b) {
  const NamedTensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static NamedTensor *find_tensor(const NamedTensors *file, const char *name) {
  NamedTensor wanted = {.name = name};
  return file->count ? bsearch(&wanted, file->all, file->count,
                               sizeof *file->all, by_name)
                     : NULL;
}

/* Compares one leaf.  Writes a line if it does not match. */
static bool match_leaf(Buffer *out, const Leaf *leaf, const NamedTensor *t) {
  const char *what = NULL;
  if (!t)
    what = "missing";
  else if (t->header.dtype != leaf->header.dtype)
    what = "other element type";
  else if (!is_same_shape(leaf, &t->header))
    what = "other shape";
  if (!what)
    return true;
  buffer_printf(out, "%s%s: %s, ", out->len ? "\n" : "", what, leaf->name);
  if (!t) {
    put_leaf_type(out, leaf);
    return false;
  }
  put_file_type(out, t);
  buffer_puts(out, " in the file, expected ");
  put_leaf_type(out, leaf);
  return false;
}

/* Takes the tensors of the file into `to`, one for each leaf.  Returns the
 * number of mismatches, which are listed in `out`. */
static uint32_t match_file(Buffer *out, const NamedTensors *file,
                           const Leaf *leaves, uint32_t count, Tensor **to) {
  uint32_t mismatches = 0, found = 0;
  for (uint32_t i = 0; i < count; i++) {
    NamedTensor *t = find_tensor(file, leaves[i].name);
    found += t != NULL;
    if (!match_leaf(out, &leaves[i], t))
      mismatches++;
    else
      to[i] = tensor_retain(t->tensor);
  }
  if (found == file->count)
    return mismatches;
  uint8_t *wanted = mem_alloc(file->count);
  memset(wanted, 0, file->count);
  for (uint32_t i = 0; i < count; i++) {
    const NamedTensor *t = find_tensor(file, leaves[i].name);
    if (t)
      wanted[t - file->all] = 1;
  }
  for (uint32_t i = 0; i < file->count; i++)
    if (!wanted[i]) {
      mismatches++;
      buffer_printf(out, "%sadditional: %s, ", out->len ? "\n" : "",
                    file->all[i].name);
      put_file_type(out, &file->all[i]);
    }
  mem_free(wanted);
  return mismatches;
}

NORETURN static void fail_mismatch(Eval *vm, const char *path, uint32_t count,
                                   const char *list) {
  vm_bail_out_if_possible(vm);
  Arena *arena = vm->diags->arena;
  Span span = vm_span_of_instr(vm->fp->code, vm->pc);
  Diag *diag = vm_report_error(
      vm, span, 508,
      arena_printf(arena,
                   "\"%s\" does not match the structure: %u difference%s", path,
                   count, count == 1 ? "" : "s"));
  diag->note =
      diag->note ? arena_printf(arena, "%s\n%s", list, diag->note) : list;
  trap_raise(FAIL_ERROR);
}

/* Reads the file.  Sets one tensor for each leaf, or reports an error. */
static void read_leaves(Eval *vm, const char *path, const Leaf *leaves,
                        uint32_t count, Tensor **to) {
  NamedTensors file;
  Fault fault = {0};
  if (!file_load_all(path, &file, &fault))
    vm_fail_file(vm, &fault);
  Buffer list = {.arena = vm->diags->arena};
  uint32_t mismatches = 0;
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    mismatches = match_file(&list, &file, leaves, count, to);
    trap_end(&trap);
  }
  named_tensors_free(&file);
  for (uint32_t i = 0; i < count && (mismatches || trap.kind); i++)
    tensor_release(to[i]);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
  if (mismatches)
    fail_mismatch(vm, path, mismatches, list.text);
}

/* Takes t.  Returns an owned value of the leaf's kind. */
static Value unpack_leaf(Eval *vm, const Leaf *leaf, Tensor *t) {
  Value v = leaf->value, r = v;
  Fault fault = {0};
  if (v.tag == V_NODE)
    t->broadcast_mask = (uint32_t)v.node->broadcast_mask;
  if (!is_packed(v))
    return vm_value_of_tensor(vm, t, &fault);
  if (v.tag == V_STRING)
    r = value_string(&vm->heap, t->data, (size_t)t->count);
  if (v.tag == V_KEY) {
    PrngKey key;
    memcpy(&key, t->data, sizeof key);
    r = value_key(&vm->heap, key);
  }
  tensor_release(t);
  return r;
}

static Value next_value(LeafMap *map, Value v) {
  (void)v;
  return value_retain(map->values[map->next++]);
}

Value prim_load_tree(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  (void)site, (void)n;
  vm_check_effect_allowed(vm, "load_tree");
  size_t mark = vm->temp_count;
  const char *path = path_of(vm, args[0]);
  uint32_t count;
  const Leaf *leaves = leaves_of(vm, args[1], &count);
  Tensor **tensors = vm_scratch(vm, (count + 1) * sizeof(Tensor *));
  Value *values = vm_scratch(vm, (count + 1) * sizeof *values);
  memset(tensors, 0, (count + 1) * sizeof *tensors);
  read_leaves(vm, path, leaves, count, tensors);
  for (uint32_t i = 0; i < count; i++) {
    values[i] = unpack_leaf(vm, &leaves[i], tensors[i]);
    vm_push_temp(vm, values[i]);
  }
  LeafMap map = {
      .vm = vm, .is_leaf = is_leaf, .leaf = next_value, .values = values};
  Value r = map_leaves(&map, args[1]);
  vm_drop_temps(vm, mark);
  return r;
}

Value prim_file_exists(Eval *vm, const PrimSite *site, Value *args,
                       uint32_t n) {
  (void)site, (void)n;
  vm_check_effect_allowed(vm, "file_exists");
  return value_scalar(
      (Scalar){DT_BOOL, {.i = access(path_of(vm, args[0]), F_OK) == 0}});
}
