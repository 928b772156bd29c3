/* What all file formats share: reading a file's bytes, replacing a file
 * safely, choosing among the tensors of a file, and the table of formats. */
#define _GNU_SOURCE
#include "runtime/internal.h"
#include "runtime/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Smaller files are copied: a mapped one changes under the program when
 * someone writes to it, which is an error.  Larger ones are worth it. */
enum { MAP_LEAST = 64 * 1024 * 1024 };

static const Format *const formats[] = {
    &npy_format, &npz_format, &safetensors_format, &csv_format,
    &tsv_format, &png_format, &pgm_format,         &ppm_format};

static const Format *format_of(const char *path, Fault *fault) {
  const char *slash = strrchr(path, '/');
  const char *dot = strrchr(slash ? slash : path, '.');
  for (size_t i = 0; dot && i < ARRAY_LEN(formats); i++)
    if (strcasecmp(dot, formats[i]->extension) == 0)
      return formats[i];
  fault_set(fault, "\"%.400s\" does not say by its ending what it holds", path);
  fault_help(fault, "it must end in .npy, .npz, .safetensors, .csv, .tsv, "
                    ".png, .pgm or .ppm");
  return NULL;
}

/* ---- reading ---- */

bool input_fault(const Input *in, Fault *fault, const char *format, ...) {
  char why[sizeof fault->message];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  if (in->entry)
    fault_set(fault, "cannot read %.60s of \"%.160s\": %.250s", in->entry,
              in->path, why);
  else
    fault_set(fault, "cannot read \"%.200s\": %.280s", in->path, why);
  return false;
}

bool input_no_memory(const Input *in, Fault *fault) {
  return input_fault(in, fault, "out of memory");
}

static bool read_all(Input *in, int fd, Fault *fault) {
  in->heap = mem_try_alloc(in->size);
  if (!in->heap)
    return input_no_memory(in, fault);
  size_t done = 0;
  while (done < in->size) {
    ssize_t got = read(fd, (char *)in->heap + done, in->size - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return input_fault(in, fault, "%s", strerror(errno));
    if (got == 0)
      return input_fault(in, fault, "it is being written to");
    done += (size_t)got;
  }
  in->bytes = in->heap;
  return true;
}

static bool map_all(Input *in, int fd, Fault *fault) {
  void *at;
  in->mapped = mapped_open(fd, in->path, in->size, &at);
  if (!in->mapped)
    return input_fault(in, fault, "%s", strerror(errno));
  in->bytes = at;
  return true;
}

static bool read_open(Input *in, int fd, Fault *fault) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return input_fault(in, fault, "%s", strerror(errno));
  if (S_ISDIR(info.st_mode))
    return input_fault(in, fault, "it is a directory");
  if (!S_ISREG(info.st_mode))
    return input_fault(in, fault, "it is not a regular file");
  in->size = (size_t)info.st_size;
  if (in->size >= MAP_LEAST)
    return map_all(in, fd, fault);
  return read_all(in, fd, fault);
}

bool input_open(Input *in, const char *path, Fault *fault) {
  *in = (Input){.path = path};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return input_fault(in, fault, "%s", strerror(errno));
  bool ok = read_open(in, fd, fault);
  close(fd);
  if (!ok)
    input_close(in);
  return ok;
}

void input_close(Input *in) {
  if (in->mapped)
    mapped_close(in->mapped);
  mem_free(in->heap);
  in->mapped = NULL;
  in->heap = NULL;
  in->bytes = NULL;
}

bool input_holds(const Input *in, const Header *is, size_t left, Fault *fault) {
  char type[160];
  type_text(type, sizeof type, is->dtype, is->rank, is->shape, 0);
  int64_t count;
  size_t bytes;
  if (!shape_size(is->dtype, is->rank, is->shape, &count, &bytes))
    return input_fault(in, fault, "%s is larger than any file", type);
  if (bytes > left)
    return input_fault(in, fault,
                       "it is cut short: %s takes %zu bytes, %zu are there",
                       type, bytes, left);
  if (bytes < left)
    return input_fault(in, fault, "%s takes %zu bytes, but %zu are there", type,
                       bytes, left);
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

/* What is small is not worth a file that stays in memory. */
enum { ALIGN = 64, STAYS_LEAST = 64 * 1024 };

static bool may_stay(const Input *in, size_t offset, const Header *is) {
  int64_t count;
  size_t bytes;
  return in->mapped && is->dtype != DT_BOOL &&
         (uintptr_t)(in->bytes + offset) % ALIGN == 0 &&
         shape_size(is->dtype, is->rank, is->shape, &count, &bytes) &&
         bytes >= STAYS_LEAST;
}

Tensor *input_tensor(Input *in, size_t offset, const Header *is, Fault *fault) {
  if (may_stay(in, offset, is)) {
    Tensor *t =
        tensor_over(is, (uint8_t *)(uintptr_t)in->bytes + offset, in->mapped);
    if (t)
      in->mapped = NULL;
    else
      input_no_memory(in, fault);
    return t;
  }
  Tensor *t = tensor_new(is->dtype, is->rank, is->shape, false, fault);
  if (t)
    copy_elements(t->data, in->bytes + offset, (size_t)t->count, t->dtype,
                  false);
  return t;
}

/* ---- several tensors in a file ---- */

bool names_add(Names *names, const char *name) {
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

void names_free(Names *names) {
  mem_free(names->text);
  *names = (Names){0};
}

/* "a, b, c, ..." */
static void names_list(const Names *names, char *out, size_t size) {
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

bool names_choose(const Names *names, const Input *in,
                  const LoadOptions *options, uint32_t *number, Fault *fault) {
  const char *want = options ? options->name : NULL, *name = names->text;
  uint32_t found = 0, there = 0;
  for (uint32_t i = 0; i < names->count; i++, name += strlen(name) + 1) {
    there += *name != 0;
    if (*name && (!want || strcmp(name, want) == 0)) {
      found++;
      *number = i;
    }
  }
  if (found == 1)
    return true;
  if (!there)
    return input_fault(in, fault, "it holds no tensor");
  if (want && found > 1)
    return input_fault(in, fault, "it holds more than one tensor \"%.80s\"",
                       want);
  char list[160];
  names_list(names, list, sizeof list);
  if (want)
    input_fault(in, fault, "it holds no tensor \"%.80s\"", want);
  else
    input_fault(in, fault, "it holds %u tensors", there);
  fault_help(fault,
             want ? "it holds %s"
                  : "name one with load ~name:\"...\": it holds %s",
             list);
  return false;
}

static bool no_name(const Format *format, const Input *in,
                    const LoadOptions *options, Fault *fault) {
  if (format->names || !options || !options->name)
    return true;
  input_fault(in, fault, "a %s file holds one tensor, without a name",
              format->extension);
  fault_help(fault, "leave out ~name:\"%.100s\"", options->name);
  return false;
}

/* What was read of a file that changed meanwhile is not used, nor is what was
 * said of it. */
static bool is_whole(const Input *in, Fault *fault) {
  return !in->mapped || mapped_check(in->mapped, fault);
}

/* ---- entry points ---- */

bool file_known(const char *path, Fault *fault) {
  return format_of(path, fault) != NULL;
}

bool file_header(const char *path, const LoadOptions *options, Header *out,
                 Fault *fault) {
  static const LoadOptions none;
  const Format *format = format_of(path, fault);
  Input in;
  options = options ? options : &none;
  if (!format || !input_open(&in, path, fault))
    return false;
  bool ok = no_name(format, &in, options, fault) &&
            format->header(&in, options, out, fault);
  ok = is_whole(&in, fault) && ok;
  input_close(&in);
  return ok;
}

Tensor *file_load(const char *path, const LoadOptions *options, Fault *fault) {
  static const LoadOptions none;
  const Format *format = format_of(path, fault);
  Input in;
  options = options ? options : &none;
  if (!format || !input_open(&in, path, fault))
    return NULL;
  Tensor *t = NULL;
  if (no_name(format, &in, options, fault))
    t = format->load(&in, options, fault);
  if (!is_whole(&in, fault) || (t && !tensor_check(t, fault))) {
    tensor_release(t);
    t = NULL;
  }
  input_close(&in);
  return t;
}

static const char **copy_names(const Names *names, Arena *arena,
                               uint32_t *count) {
  const char **out = NEW_ARRAY(arena, const char *, names->count + 1);
  const char *name = names->text;
  *count = 0;
  for (uint32_t i = 0; i < names->count; i++, name += strlen(name) + 1)
    if (*name)
      out[(*count)++] = arena_text(arena, name, strlen(name));
  return out;
}

const char **file_names(const char *path, Arena *arena, uint32_t *count,
                        Fault *fault) {
  const Format *format = format_of(path, fault);
  Input in;
  Names names = {0};
  *count = 0;
  if (!format || !input_open(&in, path, fault))
    return NULL;
  bool ok = !format->names || format->names(&in, &names, fault);
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

bool output_fault(const Output *out, Fault *fault, const char *format, ...) {
  char why[sizeof fault->message];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  fault_set(fault, "cannot write \"%.200s\": %.280s", out->path, why);
  return false;
}

static bool output_open(Output *out, Replacement *r, Fault *fault) {
  if (!replace_begin(r, out->path, 0666))
    return output_fault(out, fault, "%s",
                        errno == EINVAL ? "it is not a regular file"
                                        : strerror(errno));
  int fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
  out->file = fd < 0 ? NULL : fdopen(fd, "wb");
  out->temp = r->temp;
  if (out->file)
    return true;
  output_fault(out, fault, "%s", strerror(errno));
  if (fd >= 0)
    close(fd);
  replace_drop(r);
  return false;
}

/* Elements that were read of a file which has changed are not to be kept. */
static bool are_whole(uint32_t count, Tensor *const *tensors, Fault *fault) {
  for (uint32_t i = 0; i < count; i++)
    if (!tensor_check(tensors[i], fault))
      return false;
  return true;
}

static bool finish(Output *out, Replacement *r, Fault *fault) {
  bool ok = !ferror(out->file);
  int error = ok ? 0 : errno ? errno : EIO; /* of the write that failed */
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

static bool save(Output *out, Replacement *r, const Format *format,
                 uint32_t count, const char *const *names,
                 Tensor *const *tensors, Fault *fault) {
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
  ok = ok && finish(out, r, fault);
  if (out->file)
    fclose(out->file);
  replace_drop(r);
  buffer_free(&out->text);
  if (kind != FAIL_NONE && kind != FAIL_MEMORY)
    trap_raise(kind);
  return ok;
}

bool file_save(const char *path, uint32_t count, const char *const *names,
               Tensor *const *tensors, Fault *fault) {
  Output out = {.path = path};
  Replacement r;
  const Format *format = format_of(path, fault);
  if (!format)
    return false;
  if (!format->names && count != 1) {
    output_fault(&out, fault, "a %s file holds one tensor, not %u",
                 format->extension, count);
    fault_help(fault, ".npz and .safetensors hold several");
    return false;
  }
  static const char *const unnamed[] = {"arr_0"}; /* as numpy.savez does */
  if (!names && format->names && count == 1)
    names = unnamed;
  return output_open(&out, &r, fault) &&
         save(&out, &r, format, count, names, tensors, fault);
}
