"""Compares a GPU module of `axon build` with the same module for the CPU:

    python3 tests/cuda_module.py GPU.so GPU.json CPU.so CPU.json [MAX SIZE...]
        [unaligned | threads | short | default]

Calls each function with random arguments at several combinations of the sizes.
The product of the sizes is at most MAX.  Both modules must give the same
results, or fail with the same message.  GPU arrays are in memory of the driver,
usually a fake one (tests/unit/cuda_fake.h).

unaligned: arrays begin one element after the address that the driver returns.
threads: two threads call the functions concurrently.
short: one array at a time is one element too short; the access beyond its end
must be detected.
default: the functions run on the default stream, in a context that the module
creates.
"""
import array
import ctypes
import json
import math
import os
import random
import re
import struct
import sys
import threading

CODES = {"f32": "f", "f64": "d", "i64": "q", "i32": "i", "i8": "b", "u8": "B",
         "bool": "B", "f16": "H", "bf16": "H"}
OPTIONS = {"unaligned", "threads", "short", "default"} & set(sys.argv[5:])
NUMBERS = [int(x) for x in sys.argv[5:] if x not in OPTIONS]
SIZES = NUMBERS[1:] or [0, 1, 2, 7, 33, 70]
MAX_ELEMENTS = (NUMBERS or [70 ** 3])[0]


def element_count(text, sizes):
    """The number of elements of a type such as "f32[n, m - 1]"."""
    inner = re.search(r"\[(.*)\]", text)
    if not inner:
        return 1
    count = 1
    for part in inner.group(1).split(","):
        count *= max(0, eval(part.replace("^", "**").replace("/", "//"),
                             {"min": min, "max": max}, dict(sizes)))
    return count


def half_bits(dtype, x):
    """The bits of a 16-bit float; bf16 is truncated, not rounded."""
    if dtype == "f16":
        return struct.unpack("<H", struct.pack("<e", x))[0]
    return struct.unpack("<HH", struct.pack("<f", x))[1]


def half_value(dtype, bits):
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<HH", 0, bits))[0]


def values(random, dtype, count, max_index):
    code = CODES[dtype]
    if dtype == "i64":
        min_index = -1 if random.random() < 0.3 else 0
        return array.array(code, [
            random.randrange(min_index, max(max_index, 0) + 1)
            for _ in range(count)])
    if code in "fd":
        return array.array(code, [random.uniform(-2, 2) for _ in range(count)])
    if dtype == "bool":
        return array.array(code, [random.randrange(2) for _ in range(count)])
    if code == "H":
        return array.array(code, [half_bits(dtype, random.uniform(-2, 2))
                                  for _ in range(count)])
    return array.array(code, [random.randrange(100) for _ in range(count)])


class Gpu:
    def __init__(self, seed=1, unaligned=False):
        self.random = random.Random(seed)
        self.unaligned = unaligned
        self.api = ctypes.CDLL("libcuda.so.1")
        self.api.cuInit(0)
        context = ctypes.c_void_p()
        self.stream = ctypes.c_void_p()
        if "default" not in OPTIONS:
            self.api.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            self.api.cuCtxSetCurrent(context)
            self.api.cuStreamCreate(ctypes.byref(self.stream), 1)
        self.allocated = []
        self.short = None  # number of the array that is too short

    def copy_to_gpu(self, data):
        at = ctypes.c_uint64()
        before = data.itemsize * self.unaligned
        count = len(data) - (len(self.allocated) == self.short)
        size = max(1, before + count * data.itemsize)
        assert self.api.cuMemAlloc_v2(ctypes.byref(at),
                                      ctypes.c_size_t(size)) == 0
        self.allocated.append(at.value)
        ctypes.memmove(at.value + before, data.buffer_info()[0],
                       count * data.itemsize)
        return at.value + before

    def free_all(self):
        self.api.cuStreamSynchronize(self.stream)
        for at in self.allocated:
            self.api.cuMemFree_v2(ctypes.c_uint64(at))
        self.allocated = []


def pointers(list_of):
    return (ctypes.c_void_p * (len(list_of) + 1))(*list_of)


def message(library, module, code):
    f = getattr(library, module + "_message")
    f.restype = ctypes.c_char_p
    return f(code).decode()


def is_close(dtype, x, y):
    error = {"f32": 1e-4, "f64": 1e-4, "f16": 2 ** -9, "bf16": 2 ** -6}
    if dtype not in error or x == y:
        return x == y
    if CODES[dtype] == "H":
        x, y = half_value(dtype, x), half_value(dtype, y)
    if x != x or y != y:
        return x != x and y != y
    return x == y or abs(x - y) <= error[dtype] * (1 + abs(x) + abs(y))


def compare(gpu, device, host, f, g, sizes):
    named = {s["name"]: v for s, v in zip(f["sizes"], sizes)}
    smallest = min([v for v in sizes] or [5])
    for a in f["arguments"]:  # an i64 argument may be a size
        if a["type"] == "i64":
            named[a["name"]] = smallest
    args = [array.array("q", [smallest]) if a["type"] == "i64" else
            values(gpu.random, a["dtype"], element_count(a["type"], named),
                   smallest - 1)
            for a in f["arguments"]]
    outs = [array.array(CODES[r["dtype"]],
                        [0] * max(1, element_count(r["type"], named)))
            for r in f["results"]]
    z = (ctypes.c_int64 * (len(sizes) + 1))(*sizes)
    gpu_args = [a.buffer_info()[0] if d["pass"] == "value" else
                gpu.copy_to_gpu(a) for a, d in zip(args, f["arguments"])]
    gpu_outs = [gpu.copy_to_gpu(o) for o in outs]
    code = getattr(device[0], f["symbol"] + "_call")(
        gpu.stream, z, pointers(gpu_args), pointers(gpu_outs))
    gpu.api.cuStreamSynchronize(gpu.stream)
    got = []
    for o, at in zip(outs, gpu_outs):
        copy = array.array(o.typecode, o)
        if not code:
            ctypes.memmove(copy.buffer_info()[0], at, len(o) * o.itemsize)
        got.append(copy)
    expected = getattr(host[0], g["symbol"] + "_call")(
        z, pointers([a.buffer_info()[0] for a in args]),
        pointers([o.buffer_info()[0] for o in outs]))
    gpu.free_all()
    got_message = message(device[0], device[1]["module"], code)
    expected_message = message(host[0], host[1]["module"], expected)
    where = "%s at %s" % (f["name"], named)
    if got_message != expected_message:
        return "%s: `%s`, on the CPU `%s` (driver: %d)" % (
            where, got_message, expected_message,
            getattr(device[0], device[1]["module"] + "_driver_error")())
    for r, x, y in zip(f["results"], got, outs):
        if code:
            break
        for k in range(element_count(r["type"], named)):
            if not is_close(r["dtype"], x[k], y[k]):
                return "%s: %s[%d] is %s, on the CPU %s" % (
                    where, r["name"], k, x[k], y[k])
    return None


def sizes_of(round, count):
    """The sizes of a round.  Reduces the first ones if the product exceeds the
    maximum, which bounds the time in the simulator."""
    sizes = [SIZES[(round * (k + 1) + k) % len(SIZES)] for k in range(count)]
    for k in range(count):
        if math.prod(max(1, s) for s in sizes) > MAX_ELEMENTS:
            sizes[k] %= 3
    return sizes


def compare_all(gpu, device, host):
    others = {f["name"]: f for f in host[1]["functions"]}
    bad, calls = 0, 0
    for f in device[1]["functions"]:
        for round in range(len(SIZES)):
            sizes = sizes_of(round, len(f["sizes"]))
            error = compare(gpu, device, host, f, others[f["name"]], sizes)
            calls += 1
            if error:
                print(error)
                bad += 1
    print("%d calls, %d wrong" % (calls, bad))
    return bad


def compare_short(gpu, device, host):
    others = {f["name"]: f for f in host[1]["functions"]}
    bad = 0
    for f in device[1]["functions"]:
        arrays = len(f["results"]) + sum(a["pass"] != "value"
                                         for a in f["arguments"])
        for gpu.short in range(arrays):
            sizes = sizes_of(0, len(f["sizes"]))
            error = compare(gpu, device, host, f, others[f["name"]], sizes)
            if not error or "(driver: 719)" not in error:
                print("%s at %s: array %d is too short, not detected: %s" % (
                    f["name"], sizes, gpu.short, error))
                bad += 1
    return bad


def main():
    device = (ctypes.CDLL(os.path.abspath(sys.argv[1])), json.load(open(sys.argv[2])))
    host = (ctypes.CDLL(os.path.abspath(sys.argv[3])), json.load(open(sys.argv[4])))
    gpus = [Gpu(seed, "unaligned" in OPTIONS)
            for seed in range(1, 3 if "threads" in OPTIONS else 2)]
    bad = []
    run = compare_short if "short" in OPTIONS else compare_all
    threads = [threading.Thread(target=lambda gpu: bad.append(
        run(gpu, device, host)), args=(gpu,)) for gpu in gpus]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(bad) < len(threads) or any(bad)


if __name__ == "__main__":
    sys.exit(main())
