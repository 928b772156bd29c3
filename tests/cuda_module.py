"""A module that `axon build` made for GPUs beside the same made for the CPU:

    python3 tests/cuda_module.py GPU.so GPU.json CPU.so CPU.json [MOST SIZE...]
        [apart | threads | short | default]

Each function is called at some sizes, whose product is MOST at most where it
has several, with random arguments, the ones in the memory of the driver that is
found (tests/unit/cuda_fake.h), and gives the same, or fails with the same
message.  apart: arrays begin an element behind where the driver puts them.
threads: two call at a time.  short: each array in turn is an element shorter
than it should be, which is to be seen.  default: on the default stream, in a
context that the module makes.
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
HOW = {"apart", "threads", "short", "default"} & set(sys.argv[5:])
NUMBERS = [int(x) for x in sys.argv[5:] if x not in HOW]
SIZES = NUMBERS[1:] or [0, 1, 2, 7, 33, 70]
MOST = (NUMBERS or [70 ** 3])[0]


def extents(text, sizes):
    """Of "f32[n, m - 1]"."""
    inner = re.search(r"\[(.*)\]", text)
    if not inner:
        return 1
    count = 1
    for part in inner.group(1).split(","):
        count *= max(0, eval(part.replace("^", "**").replace("/", "//"),
                             {"min": min, "max": max}, dict(sizes)))
    return count


def half(dtype, x):
    """The bits of a number of 16 bits; those of bf16 are cut off."""
    if dtype == "f16":
        return struct.unpack("<H", struct.pack("<e", x))[0]
    return struct.unpack("<HH", struct.pack("<f", x))[1]


def number(dtype, bits):
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<HH", 0, bits))[0]


def values(random, dtype, count, most):
    code = CODES[dtype]
    if dtype == "i64":
        least = -1 if random.random() < 0.3 else 0
        return array.array(code, [random.randrange(least, max(most, 0) + 1)
                                  for _ in range(count)])
    if code in "fd":
        return array.array(code, [random.uniform(-2, 2) for _ in range(count)])
    if dtype == "bool":
        return array.array(code, [random.randrange(2) for _ in range(count)])
    if code == "H":
        return array.array(code, [half(dtype, random.uniform(-2, 2))
                                  for _ in range(count)])
    return array.array(code, [random.randrange(100) for _ in range(count)])


class Gpu:
    def __init__(self, seed=1, apart=False):
        self.random = random.Random(seed)
        self.apart = apart
        self.api = ctypes.CDLL("libcuda.so.1")
        self.api.cuInit(0)
        context = ctypes.c_void_p()
        self.stream = ctypes.c_void_p()
        if "default" not in HOW:
            self.api.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            self.api.cuCtxSetCurrent(context)
            self.api.cuStreamCreate(ctypes.byref(self.stream), 1)
        self.taken = []
        self.short = None  # the number of the array that is

    def room(self, data):
        at = ctypes.c_uint64()
        before = data.itemsize * self.apart
        count = len(data) - (len(self.taken) == self.short)
        size = max(1, before + count * data.itemsize)
        assert self.api.cuMemAlloc_v2(ctypes.byref(at),
                                      ctypes.c_size_t(size)) == 0
        self.taken.append(at.value)
        ctypes.memmove(at.value + before, data.buffer_info()[0],
                       count * data.itemsize)
        return at.value + before

    def end(self):
        self.api.cuStreamSynchronize(self.stream)
        for at in self.taken:
            self.api.cuMemFree_v2(ctypes.c_uint64(at))
        self.taken = []


def pointers(list_of):
    return (ctypes.c_void_p * (len(list_of) + 1))(*list_of)


def message(library, module, code):
    f = getattr(library, module + "_message")
    f.restype = ctypes.c_char_p
    return f(code).decode()


def near(dtype, x, y):
    error = {"f32": 1e-4, "f64": 1e-4, "f16": 2 ** -9, "bf16": 2 ** -6}
    if dtype not in error or x == y:
        return x == y
    if CODES[dtype] == "H":
        x, y = number(dtype, x), number(dtype, y)
    if x != x or y != y:
        return x != x and y != y
    return x == y or abs(x - y) <= error[dtype] * (1 + abs(x) + abs(y))


def compare(gpu, device, host, f, g, sizes):
    named = {s["name"]: v for s, v in zip(f["sizes"], sizes)}
    most = min([v for v in sizes] or [5])
    for a in f["arguments"]:  # numbers are sizes too
        if a["type"] == "i64":
            named[a["name"]] = most
    args = [array.array("q", [most]) if a["type"] == "i64" else
            values(gpu.random, a["dtype"], extents(a["type"], named), most - 1)
            for a in f["arguments"]]
    outs = [array.array(CODES[r["dtype"]],
                        [0] * max(1, extents(r["type"], named)))
            for r in f["results"]]
    z = (ctypes.c_int64 * (len(sizes) + 1))(*sizes)
    there = [a.buffer_info()[0] if d["pass"] == "value" else gpu.room(a)
             for a, d in zip(args, f["arguments"])]
    places = [gpu.room(o) for o in outs]
    code = getattr(device[0], f["symbol"] + "_call")(
        gpu.stream, z, pointers(there), pointers(places))
    gpu.api.cuStreamSynchronize(gpu.stream)
    got = []
    for o, at in zip(outs, places):
        copy = array.array(o.typecode, o)
        if not code:
            ctypes.memmove(copy.buffer_info()[0], at, len(o) * o.itemsize)
        got.append(copy)
    want = getattr(host[0], g["symbol"] + "_call")(
        z, pointers([a.buffer_info()[0] for a in args]),
        pointers([o.buffer_info()[0] for o in outs]))
    gpu.end()
    said = message(device[0], device[1]["module"], code)
    wanted = message(host[0], host[1]["module"], want)
    where = "%s at %s" % (f["name"], named)
    if said != wanted:
        return "%s: `%s`, and on the CPU `%s` (driver: %d)" % (
            where, said, wanted,
            getattr(device[0], device[1]["module"] + "_driver_error")())
    for r, x, y in zip(f["results"], got, outs):
        if code:
            break
        for k in range(extents(r["type"], named)):
            if not near(r["dtype"], x[k], y[k]):
                return "%s: %s[%d] is %s, and on the CPU %s" % (
                    where, r["name"], k, x[k], y[k])
    return None


def sizes_of(turn, count):
    """So many as the simulator has done soon: of many the first are few."""
    sizes = [SIZES[(turn * (k + 1) + k) % len(SIZES)] for k in range(count)]
    for k in range(count):
        if math.prod(max(1, s) for s in sizes) > MOST:
            sizes[k] %= 3
    return sizes


def compare_all(gpu, device, host):
    others = {f["name"]: f for f in host[1]["functions"]}
    bad, calls = 0, 0
    for f in device[1]["functions"]:
        for turn in range(len(SIZES)):
            sizes = sizes_of(turn, len(f["sizes"]))
            wrong = compare(gpu, device, host, f, others[f["name"]], sizes)
            calls += 1
            if wrong:
                print(wrong)
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
            wrong = compare(gpu, device, host, f, others[f["name"]], sizes)
            if not wrong or "(driver: 719)" not in wrong:
                print("%s at %s: array %d is short, and nobody sees it: %s" % (
                    f["name"], sizes, gpu.short, wrong))
                bad += 1
    return bad


def main():
    device = (ctypes.CDLL(os.path.abspath(sys.argv[1])), json.load(open(sys.argv[2])))
    host = (ctypes.CDLL(os.path.abspath(sys.argv[3])), json.load(open(sys.argv[4])))
    gpus = [Gpu(seed, "apart" in HOW)
            for seed in range(1, 3 if "threads" in HOW else 2)]
    bad = []
    run = compare_short if "short" in HOW else compare_all
    threads = [threading.Thread(target=lambda gpu: bad.append(
        run(gpu, device, host)), args=(gpu,)) for gpu in gpus]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return len(bad) < len(threads) or any(bad)


if __name__ == "__main__":
    sys.exit(main())
