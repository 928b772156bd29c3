/* Common parts of all file formats: reads the bytes of a file, replaces files
 * safely, selects tensors of a file, and has the table of formats. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include "runtime/replace.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/file_open.h"
#include "support/mem.h"
#include "support/similar_file.h"
#include "support/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Tensors of smaller files are copied.  A mapped file changes when another
 * program writes to it, which is an error; only larger files are worth that.
 * Files with several tensors are mapped while they are read, so that a reader
 * of one tensor does not read the others. */
enum { MIN_MMAP_BYTES = 64 * 1024 * 1024, MIN_READ_MAPPED_BYTES = 1024 * 1024 };

static const FileFormat *const formats[] = {
    &npy_format, &npz_format, &safetensors_format, &gguf_format, &pth_format,
    &pt_format,  &csv_format, &tsv_format,         &txt_format,  &bin_format,
    &png_format, &pgm_format, &ppm_format};

static const FileFormat *format_of(const char *path, Fault *fault) {
  const char *slash = strrchr(path, '/');
  const char *dot = strrchr(slash ? slash : path, '.');
  for (size_t i = 0; dot && i < ARRAY_LEN(formats); i++)
    if (strcasecmp(dot, formats[i]->extension) == 0)
      return formats[i];
  fault_set(fault, "\"%.400s\" has no known file extension", path);
  fault_set_help(
      fault, "the extension must be .npy, .npz, .safetensors, "
             ".gguf, .pth, .pt, .csv, .tsv, .txt, .bin, .png, .pgm or .ppm");
  return NULL;
}

/* ---- reading ---- */

bool input_fault(const InputFile *in, Fault *fault, const char *format, ...) {
  char why[sizeof fault->message];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  if (in->entry_name)
    fault_set(fault, "cannot read %.60s of \"%.160s\": %.250s", in->entry_name,
              in->path, why);
  else
    fault_set(fault, "cannot read \"%.200s\": %.280s", in->path, why);
  return false;
}

bool input_no_memory(const InputFile *in, Fault *fault) {
  return input_fault(in, fault, "out of memory");
}

static bool read_all(InputFile *in, int fd, Fault *fault) {
  in->heap = mem_try_alloc(in->size);
  if (!in->heap)
    return input_no_memory(in, fault);
  size_t done = 0;
  while (done < in->size) {
    ssize_t bytes_read = read(fd, (char *)in->heap + done, in->size - done);
    if (bytes_read < 0 && errno == EINTR)
      continue;
    if (bytes_read < 0)
      return input_fault(in, fault, "%s", strerror(errno));
    if (bytes_read == 0)
      return input_fault(in, fault, "it is being written to");
    done += (size_t)bytes_read;
  }
  in->bytes = in->heap;
  return true;
}

static bool map_all(InputFile *in, int fd, Fault *fault) {
  void *at;
  in->mapped = mapped_open(fd, in->path, in->size, &at);
  if (!in->mapped)
    return input_fault(in, fault, "%s", strerror(errno));
  in->bytes = at;
  return true;
}

static bool read_or_map(InputFile *in, int fd, size_t least_mapped,
                        Fault *fault) {
  in->stays = in->size >= MIN_MMAP_BYTES;
  if (in->size >= least_mapped)
    return map_all(in, fd, fault);
  return read_all(in, fd, fault);
}

static bool open_input(InputFile *in, const char *path, size_t least_mapped,
                       Fault *fault) {
  *in = (InputFile){.path = path};
  int fd = file_open_regular(path, &in->size);
  if (fd < 0) {
    bool is_missing = errno == ENOENT;
    char help[sizeof fault->help];
    input_fault(in, fault, "%s", file_open_error(errno));
    if (is_missing && similar_file_help(path, help, sizeof help))
      fault_set_help(fault, "%s", help);
    else if (is_missing && path[0] != '/')
      fault_set_help(fault, "the path starts at the working directory, which "
                            "may differ from the folder of the program");
    return false;
  }
  bool ok = read_or_map(in, fd, least_mapped, fault);
  close(fd);
  if (!ok)
    input_close(in);
  return ok;
}

bool input_open(InputFile *in, const char *path, Fault *fault) {
  return open_input(in, path, MIN_MMAP_BYTES, fault);
}

static bool open_tensors(InputFile *in, const FileFormat *format,
                         const char *path, Fault *fault) {
  return open_input(in, path,
                    format->list_names ? MIN_READ_MAPPED_BYTES : MIN_MMAP_BYTES,
                    fault);
}

void input_close(InputFile *in) {
  if (in->mapped)
    mapped_close(in->mapped);
  mem_free(in->heap);
  in->mapped = NULL;
  in->heap = NULL;
  in->bytes = NULL;
}

bool input_check_data_size(const InputFile *in, const TensorHeader *header,
                           size_t available, Fault *fault) {
  char type[160];
  format_tensor_type(type, sizeof type, header->dtype, header->rank,
                     header->shape, 0);
  int64_t count;
  size_t bytes;
  if (!shape_count_and_bytes(header->dtype, header->rank, header->shape, &count,
                             &bytes))
    return input_fault(in, fault, "%s exceeds the size of any file", type);
  if (bytes > available)
    return input_fault(in, fault,
                       "the file is truncated: %s needs %zu bytes, found %zu",
                       type, bytes, available);
  if (bytes < available)
    return input_fault(in, fault, "%s needs %zu bytes, found %zu", type, bytes,
                       available);
  return true;
}

void copy_elements(void *to, const void *from, size_t count, Dtype dtype,
                   bool swap) {
  size_t size = dtype_info[dtype].bytes;
  unsigned char *out = to;
  const unsigned char *in = from;
  if (dtype == DT_BOOL) {
    for (size_t i = 0; i < count; i++)
      out[i] = in[i] != 0;
  } else if (!swap || size == 1) {
    if (count)
      memcpy(to, from, count * size);
  } else {
    for (size_t i = 0; i < count; i++, out += size, in += size)
      for (size_t k = 0; k < size; k++)
        out[k] = in[size - 1 - k];
  }
}

/* Small data are copied, so that the file need not stay in memory. */
enum { STAYS_LEAST = 64 * 1024 };

/* Kernels load vectors from addresses that are aligned to the elements, and to
 * nothing more. */
static bool may_stay(const InputFile *in, size_t offset,
                     const TensorHeader *header) {
  int64_t count;
  size_t bytes;
  return in->mapped && in->stays && header->dtype != DT_BOOL &&
         (uintptr_t)(in->bytes + offset) % dtype_info[header->dtype].bytes ==
             0 &&
         shape_count_and_bytes(header->dtype, header->rank, header->shape,
                               &count, &bytes) &&
         bytes >= STAYS_LEAST;
}

static Tensor *copy_tensor(const InputFile *in, size_t offset,
                           const TensorHeader *header, Fault *fault) {
  Tensor *t =
      tensor_new(header->dtype, header->rank, header->shape, false, fault);
  if (t)
    copy_elements(t->data, in->bytes + offset, (size_t)t->count, t->dtype,
                  false);
  return t;
}

Tensor *input_read_tensor(const InputFile *in, size_t offset,
                          const TensorHeader *header, Fault *fault) {
  if (!may_stay(in, offset, header))
    return copy_tensor(in, offset, header, fault);
  Tensor *t = tensor_from_mapping(
      header, (uint8_t *)(uintptr_t)in->bytes + offset, in->mapped);
  if (!t)
    input_no_memory(in, fault);
  return t;
}

/* ---- several tensors in a file ---- */

bool names_add(EntryNames *names, const char *name) {
  size_t len = strlen(name) + 1;
  if (names->cap - names->len < len) {
    size_t cap = names->cap * 2 + len + 256;
    char *text = mem_try_alloc(cap);
    if (!text)
      return false;
    if (names->len)
      memcpy(text, names->text, names->len);
    mem_free(names->text);
    names->text = text;
    names->cap = cap;
  }
  memcpy(names->text + names->len, name, len);
  names->len += len;
  names->count++;
  return true;
}

void names_free(EntryNames *names) {
  mem_free(names->text);
  *names = (EntryNames){0};
}

/* Formats "a, b, c, ...". */
static void names_list(const EntryNames *names, char *out, size_t size) {
  size_t len = 0;
  const char *name = names->text;
  out[0] = 0;
  for (uint32_t i = 0; i < names->count; i++, name += strlen(name) + 1) {
    if (!*name)
      continue;
    size_t more = strlen(name) + 2;
    if (len + more + 4 > size) {
      snprintf(out + len, size - len, "%s...", len ? ", " : "");
      return;
    }
    len +=
        (size_t)snprintf(out + len, size - len, "%s%s", len ? ", " : "", name);
  }
}

static bool several_of_name(const InputFile *in, const char *name,
                            Fault *fault) {
  input_fault(in, fault, "it contains more than one tensor \"%.80s\"", name);
  fault_set_help(fault, "save each tensor under a name of its own");
  return false;
}

bool names_select(const EntryNames *names, const InputFile *in,
                  const LoadOptions *options, uint32_t *entry_index,
                  Fault *fault) {
  const char *wanted_name = options ? options->name : NULL, *name = names->text;
  uint32_t found = 0, named_count = 0;
  for (uint32_t i = 0; i < names->count; i++, name += strlen(name) + 1) {
    named_count += *name != 0;
    if (*name && (!wanted_name || strcmp(name, wanted_name) == 0)) {
      found++;
      *entry_index = i;
    }
  }
  if (found == 1)
    return true;
  if (!named_count)
    return input_fault(in, fault, "it contains no tensor");
  if (wanted_name && found > 1)
    return several_of_name(in, wanted_name, fault);
  char list[160];
  names_list(names, list, sizeof list);
  if (wanted_name)
    input_fault(in, fault, "it contains no tensor \"%.80s\"", wanted_name);
  else
    input_fault(in, fault, "it contains %u tensors", named_count);
  fault_set_help(fault,
                 wanted_name
                     ? "it contains %s"
                     : "select one with load ~name:\"...\": it contains %s",
                 list);
  return false;
}

static bool check_no_name(const FileFormat *format, const InputFile *in,
                          const LoadOptions *options, Fault *fault) {
  if (format->list_names || !options || !options->name)
    return true;
  input_fault(in, fault, "a %s file contains one tensor without a name",
              format->extension);
  fault_set_help(fault, "omit ~name:\"%.100s\"", options->name);
  return false;
}

/* If a file changed while it was read, its data and its errors are
 * discarded. */
static bool is_whole(const InputFile *in, Fault *fault) {
  return !in->mapped || mapped_check(in->mapped, fault);
}

/* ---- entry points ---- */

bool file_has_known_extension(const char *path, Fault *fault) {
  return format_of(path, fault) != NULL;
}

bool file_read_header(const char *path, const LoadOptions *options,
                      TensorHeader *out, Fault *fault) {
  static const LoadOptions default_options;
  const FileFormat *format = format_of(path, fault);
  InputFile in;
  options = options ? options : &default_options;
  if (!format || !open_tensors(&in, format, path, fault))
    return false;
  bool ok = check_no_name(format, &in, options, fault) &&
            format->read_header(&in, options, out, fault);
  ok = is_whole(&in, fault) && ok;
  input_close(&in);
  return ok;
}

Tensor *file_load(const char *path, const LoadOptions *options, Fault *fault) {
  static const LoadOptions default_options;
  const FileFormat *format = format_of(path, fault);
  InputFile in;
  options = options ? options : &default_options;
  if (!format || !open_tensors(&in, format, path, fault))
    return NULL;
  Tensor *t = NULL;
  if (check_no_name(format, &in, options, fault))
    t = format->load(&in, options, fault);
  if (!is_whole(&in, fault) || (t && !tensor_check(t, fault))) {
    tensor_release(t);
    t = NULL;
  }
  input_close(&in);
  return t;
}

static int by_name(const void *a, const void *b) {
  const NamedTensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

void named_tensors_free(NamedTensors *tensors) {
  for (uint32_t i = 0; i < tensors->count; i++)
    tensor_release(tensors->all[i].tensor);
  mem_free(tensors->all);
  mem_free(tensors->text);
  *tensors = (NamedTensors){0};
}

bool file_has_structures(const char *path, Fault *fault) {
  const FileFormat *format = format_of(path, fault);
  if (format && format->load_all)
    return true;
  fault_set(fault, "\"%.400s\" cannot contain a structure", path);
  fault_set_help(fault,
                 "the extension must be .safetensors, .gguf, .pth or .pt");
  return false;
}

/* The tensors are ordered by name. */
static bool have_different_names(const InputFile *in, const NamedTensors *t,
                                 Fault *fault) {
  for (uint32_t i = 1; i < t->count; i++)
    if (by_name(&t->all[i - 1], &t->all[i]) == 0)
      return several_of_name(in, t->all[i].name, fault);
  return true;
}

bool file_load_all(const char *path, NamedTensors *out, Fault *fault) {
  *out = (NamedTensors){0};
  const FileFormat *format = format_of(path, fault);
  InputFile in;
  if (!file_has_structures(path, fault) ||
      !open_tensors(&in, format, path, fault))
    return false;
  bool ok = format->load_all(&in, out, fault);
  ok = is_whole(&in, fault) && ok;
  if (ok && out->count)
    qsort(out->all, out->count, sizeof *out->all, by_name);
  ok = ok && have_different_names(&in, out, fault);
  input_close(&in);
  if (!ok)
    named_tensors_free(out);
  return ok;
}

static const char **copy_names(const EntryNames *names, Arena *arena,
                               uint32_t *count) {
  const char **out = NEW_ARRAY(arena, const char *, names->count + 1);
  const char *name = names->text;
  *count = 0;
  for (uint32_t i = 0; i < names->count; i++, name += strlen(name) + 1)
    if (*name)
      out[(*count)++] = arena_strndup(arena, name, strlen(name));
  return out;
}

const char **file_names(const char *path, Arena *arena, uint32_t *count,
                        Fault *fault) {
  const FileFormat *format = format_of(path, fault);
  InputFile in;
  EntryNames names = {0};
  *count = 0;
  if (!format || !open_tensors(&in, format, path, fault))
    return NULL;
  bool ok = !format->list_names || format->list_names(&in, &names, fault);
  ok = is_whole(&in, fault) && ok;
  input_close(&in);
  const char **out = NULL;
  Trap trap;
  if (!ok) {
    names_free(&names);
    return NULL;
  }
  if (TRAP_SET(trap) != FAIL_NONE) {
    names_free(&names);
    trap_raise(trap.kind);
  }
  out = copy_names(&names, arena, count);
  trap_end(&trap);
  names_free(&names);
  return out;
}

/* ---- writing ---- */

bool output_fault(const OutputFile *out, Fault *fault, const char *format,
                  ...) {
  char why[sizeof fault->message];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  fault_set(fault, "cannot write \"%.200s\": %.280s", out->path, why);
  return false;
}

bool output_unsupported(OutputFile *out, uint32_t count,
                        const char *const *names, Tensor *const *tensors,
                        Fault *fault) {
  (void)count, (void)names, (void)tensors;
  output_fault(out, fault, "Axon does not write this format");
  fault_set_help(fault, "write .safetensors");
  return false;
}

static bool output_open(OutputFile *out, Replacement *r, Fault *fault) {
  if (!replace_begin(r, out->path, 0666))
    return output_fault(out, fault, "%s", file_open_error(errno));
  int fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
  out->file = fd < 0 ? NULL : fdopen(fd, "wb");
  out->temp_path = r->temp;
  if (out->file)
    return true;
  output_fault(out, fault, "%s", strerror(errno));
  if (fd >= 0)
    close(fd);
  replace_drop(r);
  return false;
}

/* Tensors whose mapped file has changed must not be saved. */
static bool are_whole(uint32_t count, Tensor *const *tensors, Fault *fault) {
  for (uint32_t i = 0; i < count; i++)
    if (!tensor_check(tensors[i], fault))
      return false;
  return true;
}

static bool commit_file(OutputFile *out, Replacement *r, Fault *fault) {
  bool ok = !ferror(out->file);
  int error = ok ? 0 : errno ? errno : EIO; /* errno of the failed write */
  if (fclose(out->file) != 0) {
    ok = false;
    error = errno;
  }
  out->file = NULL;
  if (ok && !replace_finish(r)) {
    ok = false;
    error = errno;
  }
  return ok || output_fault(out, fault, "%s", strerror(error));
}

static bool write_and_commit(OutputFile *out, Replacement *r,
                             const FileFormat *format, uint32_t count,
                             const char *const *names, Tensor *const *tensors,
                             Fault *fault) {
  Trap trap;
  volatile bool ok = false;
  FailKind kind = TRAP_SET(trap);
  if (kind == FAIL_NONE) {
    errno = 0;
    ok = format->save(out, count, names, tensors, fault);
    ok = are_whole(count, tensors, fault) && ok;
    trap_end(&trap);
  } else if (kind == FAIL_MEMORY) {
    output_fault(out, fault, "out of memory");
  }
  ok = ok && commit_file(out, r, fault);
  if (out->file)
    fclose(out->file);
  replace_drop(r);
  buffer_free(&out->scratch);
  if (kind != FAIL_NONE && kind != FAIL_MEMORY)
    trap_raise(kind);
  return ok;
}

/* The format of the name.  NULL, with a fault: there is none, or its files
 * cannot have `count` tensors. */
static const FileFormat *format_for(const char *path, uint32_t count,
                                    Fault *fault) {
  OutputFile out = {.path = path};
  const FileFormat *format = format_of(path, fault);
  if (!format) {
    fault_set_help(fault, "the extension must be .npy, .npz, .safetensors, "
                          ".csv, .tsv, .txt, .bin, .png, .pgm or .ppm");
    return NULL;
  }
  if (!format->list_names && count != 1) {
    output_fault(&out, fault, "a %s file contains one tensor; found %u",
                 format->extension, count);
    fault_set_help(fault, ".npz and .safetensors can contain several");
    return NULL;
  }
  return format;
}

bool file_can_save(const char *path, uint32_t count, Fault *fault) {
  return format_for(path, count, fault) != NULL;
}

bool file_save(const char *path, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault) {
  OutputFile out = {.path = path};
  Replacement r;
  const FileFormat *format = format_for(path, count, fault);
  if (!format)
    return false;
  static const char *const default_names[] = {
      "arr_0"}; /* the default name of numpy.savez */
  if (!names && format->list_names && count == 1)
    names = default_names;
  return output_open(&out, &r, fault) &&
         write_and_commit(&out, &r, format, count, names, tensors, fault);
}
