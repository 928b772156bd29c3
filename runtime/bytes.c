/* .txt and .bin: the bytes of a file, as they are. */
#include "runtime/internal.h"

static bool read_header(InputFile *in, const LoadOptions *options,
                        TensorHeader *header, Fault *fault) {
  (void)options, (void)fault;
  *header =
      (TensorHeader){.dtype = DT_U8, .rank = 1, .shape = {(int64_t)in->size}};
  return true;
}

static Tensor *load(InputFile *in, const LoadOptions *options, Fault *fault) {
  TensorHeader header;
  return read_header(in, options, &header, fault)
             ? input_read_tensor(in, 0, &header, fault)
             : NULL;
}

static bool save(OutputFile *out, uint32_t count, const char *const *names,
                 Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  const Tensor *t = tensors[0];
  if (t->dtype != DT_U8 || t->rank != 1)
    return output_fault(out, fault, "the bytes of a file are u8[n], not %s[%s]",
                        dtype_info[t->dtype].name, t->rank == 1 ? "n" : "...");
  fwrite(t->data, 1, (size_t)t->count, out->file);
  return true;
}

const FileFormat txt_format = {".txt", read_header, load, NULL, NULL, save};
const FileFormat bin_format = {".bin", read_header, load, NULL, NULL, save};
