"""libaxon by ctypes: handles, memory and errors.  __init__.py is the surface.

The structs are those of axon.h, and of DLPack as axon_dlpack.h has them.
ctypes lets other threads of Python run while a function of the library does.
"""
import ctypes
import ctypes.util
import glob
import json
import math
import os
import struct
import subprocess
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p,
                    c_double, c_int, c_int32, c_int64, c_size_t, c_void_p,
                    py_object, string_at)

# ---- finding it ----


def _places():
    """AXON_LIBRARY alone if it is set; else in this folder, as a wheel installs
    it; in a build of the sources; where the linker looks; where pkg-config
    says."""
    if os.environ.get("AXON_LIBRARY"):
        yield os.environ["AXON_LIBRARY"]
        return
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "libaxon.so.0")
    yield os.path.join(here, "..", "..", ".libs", "libaxon.so.0")
    yield "libaxon.so.0"
    try:
        found = subprocess.run(["pkg-config", "--variable=libdir", "axon"],
                               capture_output=True, text=True, check=True)
        yield os.path.join(found.stdout.strip(), "libaxon.so.0")
    except (OSError, subprocess.CalledProcessError):
        pass
    for prefix in ("/usr/local/lib", os.path.expanduser("~/.local/lib")):
        yield os.path.join(prefix, "libaxon.so.0")


def _load():
    tried = []
    here = os.path.dirname(os.path.abspath(__file__))
    for gmp in glob.glob(os.path.join(here, "libgmp.so.*")):
        ctypes.CDLL(gmp)  # of the wheel: libaxon then uses it
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(str(error))
    raise ImportError("libaxon is not found: set AXON_LIBRARY to the path of "
                      "libaxon.so.0\n  " + "\n  ".join(tried))


lib = _load()

# ---- what it has ----

OK, ERROR, INCOMPLETE, INTERRUPTED, EXITED, BUSY = range(6)
UNIT, NUMBER, TENSOR, STRING, TUPLE, RECORD, LIST, CON, KEY, OTHER = range(
    1, 11)
_DTYPES = ["", "bool", "u8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64",
           "f8_e4m3", "f8_e5m2", "f4_e2m1", "f8_e8m0"]
_TYPESTRS = ["", "|b1", "|u1", "|i1", "<i4", "<i8", "<f2", None, "<f4", "<f8",
             None, None, None, None]
# Types that the package ml_dtypes adds to NumPy.
_ML_DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3",
              "float8_e5m2": "f8_e5m2", "float4_e2m1fn": "f4_e2m1",
              "float8_e8m0fnu": "f8_e8m0"}
_DTYPE_OF = {text: i for i, text in enumerate(_TYPESTRS) if text}
_FORMATS = {"?": 1, "B": 2, "b": 3, "e": 6, "f": 8, "d": 9}  # and ints by size


class _AxnTensor(Structure):
    _fields_ = [("dtype", c_int), ("rank", c_int32),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("data", c_void_p), ("readonly", c_bool)]


_SIZES = [c_int64 * rank for rank in range(33)]  # AXN_RANK_MAX and 1


class _AxnArg(Structure):
    _fields_ = [("value", c_void_p), ("label", c_char_p)]


class _AxnParam(Structure):
    _fields_ = [("name", c_char_p), ("label", c_char_p),
                ("optional", c_bool), ("type", c_char_p), ("dtype", c_int),
                ("rank", c_int32)]


_WRITE = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
_NAME = CFUNCTYPE(None, c_void_p, c_char_p)
_RELEASE = CFUNCTYPE(None, c_void_p)
_RESULT = CFUNCTYPE(None, c_void_p, c_char_p, c_void_p, c_size_t)
_PICTURE = CFUNCTYPE(None, c_void_p, POINTER(_AxnTensor))


class _AxnDisplay(Structure):
    _fields_ = [("result", _RESULT), ("picture", _PICTURE),
                ("columns", c_int32), ("colours", c_bool)]



def _declare(name, result, *arguments):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


_P = c_void_p
_declare("axn_version", c_char_p)
_declare("axn_abi", c_int)
_declare("axn_session_new", _P)
_declare("axn_session_free", None, _P)
_declare("axn_session_output", None, _P, _WRITE, _P)
_declare("axn_session_run", c_int, _P, c_char_p, c_char_p, c_size_t)
_declare("axn_session_display", c_int, _P, POINTER(_AxnDisplay), _P)
_declare("axn_session_input", c_int, _P, c_char_p, c_char_p, c_size_t)
_declare("axn_input_status", c_int, _P, c_char_p, c_size_t)
_declare("axn_complete", c_size_t, _P, c_char_p, c_size_t, c_size_t, _NAME, _P)
_declare("axn_session_png", c_void_p, _P, c_char_p, POINTER(c_size_t))
_declare("axn_describe", c_char_p, _P, c_char_p, c_size_t, c_size_t)
_declare("axn_exit_status", c_int, _P)
_declare("axn_session_type", c_char_p, _P, c_char_p)
_declare("axn_session_doc", c_char_p, _P, c_char_p)
_declare("axn_each_name", None, _P, _NAME, _P)
_declare("axn_diag_count", c_size_t, _P)
_declare("axn_diag_text", c_char_p, _P, c_size_t)
_declare("axn_diag_json", c_char_p, _P)
_declare("axn_interrupt", None, _P)
_declare("axn_session_signal", None, _P, c_int)
_declare("axn_value_tensor", _P, _P, POINTER(_AxnTensor), _P, _P)
_declare("axn_value_int", _P, _P, c_int64)
_declare("axn_value_float", _P, _P, c_double)
_declare("axn_value_bool", _P, _P, c_bool)
_declare("axn_value_string", _P, _P, c_char_p, c_size_t)
_declare("axn_value_unit", _P, _P)
_declare("axn_value_tuple", _P, _P, c_size_t, POINTER(_P))
_declare("axn_value_list", _P, _P, c_size_t, POINTER(_P))
_declare("axn_value_record", _P, _P, c_size_t, POINTER(c_char_p), POINTER(_P))
_declare("axn_value_retain", _P, _P)
_declare("axn_value_free", None, _P)
_declare("axn_value_kind", c_int, _P)
_declare("axn_value_count", c_size_t, _P)
_declare("axn_value_item", _P, _P, c_size_t)
_declare("axn_value_name", c_char_p, _P, c_size_t)
_declare("axn_value_text", _P, _P, POINTER(c_size_t))
_declare("axn_value_get", c_bool, _P, POINTER(_AxnTensor))
_declare("axn_value_as_int", c_bool, _P, POINTER(c_int64))
_declare("axn_value_as_float", c_bool, _P, POINTER(c_double))
_declare("axn_value_from_dlpack", _P, _P, _P)
_declare("axn_value_from_dlpack_old", _P, _P, _P)
_declare("axn_value_to_dlpack", _P, _P, _P)
_declare("axn_value_to_dlpack_old", _P, _P, _P)
_declare("axn_function", _P, _P, c_char_p)
_declare("axn_function_params", c_size_t, _P, POINTER(_AxnParam), c_size_t,
         POINTER(_AxnParam))
_declare("axn_call", c_int, _P, _P, POINTER(_AxnArg), c_size_t, POINTER(_P))
_declare("axn_session_value", c_int, _P, c_char_p, POINTER(_P))

if lib.axn_abi() != 1:
    raise ImportError("libaxon %s has another interface than this module "
                      "knows: install the two together"
                      % lib.axn_version().decode())


class Error(Exception):
    """What Axon said, as a person reads it; diagnostics: the same as a list of
    dicts, as doc/diagnostics.md describes them."""

    __module__ = "axon"

    def __init__(self, text, diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)


# ---- values that came out ----


class Value:
    """A value that Python only holds: a key, or a function inside a value."""

    def __init__(self, handle):
        self._handle = lib.axn_value_retain(handle)

    def __del__(self):
        if lib:
            lib.axn_value_free(self._handle)

    def __repr__(self):
        kind = lib.axn_value_kind(self._handle)
        return "<axon %s>" % ("key" if kind == KEY else text(self._handle))


class Tensor(Value):
    """A tensor, in memory of Axon's: numpy.asarray and from_dlpack of other
    libraries see it without a copy."""

    def __init__(self, handle):
        super().__init__(handle)
        self._tensor = _AxnTensor()
        lib.axn_value_get(handle, byref(self._tensor))
        self.shape = tuple(self._tensor.shape[:self._tensor.rank])
        self.dtype = _DTYPES[self._tensor.dtype]

    @property
    def __array_interface__(self):
        typestr = _TYPESTRS[self._tensor.dtype]
        if typestr is None:
            raise AttributeError("NumPy has no " + self.dtype)
        return {"shape": self.shape, "typestr": typestr, "version": 3,
                "data": (self._tensor.data or 0, self._tensor.readonly)}

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return "<axon %s[%s]>" % (self.dtype, ", ".join(map(str, self.shape)))

    def tolist(self):
        """Its elements, as lists of lists."""
        code = {1: "?", 2: "B", 3: "b", 4: "i", 5: "q", 6: "e", 7: "H",
                8: "f", 9: "d"}.get(self._tensor.dtype, "B")
        data = string_at(self._tensor.data, _count(self.shape) * _size(code))
        flat = memoryview(data).cast(code).tolist()
        if self.dtype == "bf16":  # the upper half of an f32
            flat = [struct.unpack("=f", struct.pack("=I", bits << 16))[0]
                    for bits in flat]
        if self.dtype == "f8_e5m2":  # the upper half of an f16
            flat = [struct.unpack("=e", struct.pack("=H", bits << 8))[0]
                    for bits in flat]
        if self.dtype == "f8_e4m3":
            flat = [_from_e4m3(bits) for bits in flat]
        if self.dtype == "f4_e2m1":
            flat = [_from_e2m1(bits) for bits in flat]
        if self.dtype == "f8_e8m0":
            flat = [math.nan if bits == 255 else math.ldexp(1.0, bits - 127)
                    for bits in flat]
        return _nested(flat, self.shape)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None,
                   copy=None):
        if dl_device not in (None, (1, 0)):
            raise BufferError("Axon's tensors are in the memory of the CPU")
        if copy:
            raise BufferError("Axon gives its tensors without a copy")
        new = max_version is not None and max_version[0] >= 1
        if self.dtype == "f4_e2m1" and not new:
            raise BufferError("f4_e2m1 needs version 1 of DLPack, which says "
                              "that each element has a byte of its own")
        give = lib.axn_value_to_dlpack if new else lib.axn_value_to_dlpack_old
        struct = give(_spare(), self._handle)
        if not struct:
            raise MemoryError
        return _new_capsule(struct, b"dltensor_versioned" if new
                            else b"dltensor", _capsule_end)


def _from_e4m3(bits):
    size, sign = bits & 0x7f, -1.0 if bits & 0x80 else 1.0
    if size == 0x7f:
        return math.nan
    exponent = max(size >> 3, 1)
    return sign * math.ldexp(size - ((exponent - 1) << 3), exponent - 10)


def _from_e2m1(bits):
    size = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)[bits & 7]
    return -size if bits & 8 else size


def _count(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def _nested(flat, shape):
    if len(shape) < 2:
        return flat
    size = _count(shape[1:])
    return [_nested(flat[i * size:(i + 1) * size], shape[1:])
            for i in range(shape[0])]


def _size(code):
    return memoryview(bytes(8)).cast(code).itemsize


def number(handle):
    tensor = _AxnTensor()
    lib.axn_value_get(handle, byref(tensor))
    whole, real = c_int64(), c_double()
    if lib.axn_value_as_int(handle, byref(whole)):
        return bool(whole.value) if tensor.dtype == 1 else whole.value
    lib.axn_value_as_float(handle, byref(real))
    return real.value


def text(handle):
    size = c_size_t()
    return string_at(lib.axn_value_text(handle, byref(size)),
                     size.value).decode()


def items(handle):
    return [lib.axn_value_item(handle, i)
            for i in range(lib.axn_value_count(handle))]


def names(handle):
    return [lib.axn_value_name(handle, i).decode()
            for i in range(lib.axn_value_count(handle))]


# ---- DLPack's capsules ----

_api = ctypes.pythonapi
_new_capsule = _api.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = py_object, [_P, c_char_p, _P]
_capsule_pointer = _api.PyCapsule_GetPointer
_capsule_pointer.restype = _P
_capsule_pointer.argtypes = [_P, c_char_p]
_capsule_valid = _api.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = c_int, [_P, c_char_p]
_capsule_rename = _api.PyCapsule_SetName
_capsule_rename.argtypes = [py_object, c_char_p]
# What a struct's deleter lies at.
_DELETER = {b"dltensor_versioned": 16, b"dltensor": 56}
_USED = {b"dltensor_versioned": b"used_dltensor_versioned",
         b"dltensor": b"used_dltensor"}


@CFUNCTYPE(None, c_void_p)
def _capsule_end(capsule):
    """Of a capsule that nobody took: one that was taken has another name."""
    for name, at in _DELETER.items():
        if _capsule_valid(capsule, name):
            struct = _capsule_pointer(capsule, name)
            _RELEASE.from_address(struct + at)(struct)


_no_session = []


def _spare():
    """A session for errors of what needs none."""
    if not _no_session:
        _no_session.append(lib.axn_session_new())
    return _no_session[0]


# ---- sessions ----


class Session:
    """What makes values gives handles that the caller frees."""

    def __init__(self):
        self.handle = lib.axn_session_new()
        if not self.handle:
            raise MemoryError

    def __del__(self):
        if lib and getattr(self, "handle", None):
            lib.axn_session_free(self.handle)

    def output(self, write):
        self._write = _WRITE(lambda _, at, size: write(
            string_at(at, size).decode("utf-8", "replace")))
        lib.axn_session_output(self.handle, self._write, None)

    def diagnostics(self):
        count = lib.axn_diag_count(self.handle)
        told = [lib.axn_diag_text(self.handle, i) for i in range(count)]
        return [t.decode() for t in told if t]

    def diagnostic_objects(self):
        return json.loads(lib.axn_diag_json(self.handle) or b"[]")

    def error(self):
        return Error("".join(self.diagnostics()).rstrip("\n"),
                     self.diagnostic_objects())

    def made(self, handle):
        if not handle:
            raise self.error()
        return handle

    def _ended(self, status):
        if status == OK:
            return
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status == EXITED:
            raise SystemExit(lib.axn_exit_status(self.handle))
        if status == BUSY:
            raise RuntimeError("the module is running: what it prints to must "
                               "not call it")
        raise self.error()

    def run(self, name, source):
        self._ended(lib.axn_session_run(self.handle, os.fsencode(name), source,
                                        len(source)))

    # ---- inputs of a prompt or a notebook ----

    def display(self, result, picture, columns=80, colours=False):
        """result(name, text); picture(shape, pixels)."""
        def take_picture(_, tensor):
            shape = tuple(tensor[0].shape[:tensor[0].rank])
            picture(shape, string_at(tensor[0].data, _count(shape)))
        self._display = _AxnDisplay(
            _RESULT(lambda _, name, at, size: result(
                name.decode(), string_at(at, size).decode("utf-8", "replace"))),
            _PICTURE(take_picture), columns, colours)
        self._ended(lib.axn_session_display(self.handle, byref(self._display),
                                            None))

    def png(self, name):
        """A PNG file of the figure that is the value of a name, or None."""
        size = c_size_t()
        at = lib.axn_session_png(self.handle, name.encode(), byref(size))
        return string_at(at, size.value) if at else None

    def input(self, name, source):
        """Returns the status; diagnostics() are errors and warnings."""
        data = source.encode()
        return lib.axn_session_input(self.handle, os.fsencode(name), data,
                                     len(data))

    def input_status(self, source):
        data = source.encode()
        return lib.axn_input_status(self.handle, data, len(data))

    def complete(self, source, at):
        """The words, and where they begin; places count characters."""
        data, offset = source.encode(), len(source[:at].encode())
        words = []
        start = lib.axn_complete(
            self.handle, data, len(data), offset,
            _NAME(lambda _, word: words.append(word.decode())), None)
        return sorted(set(words)), len(data[:start].decode())

    def describe(self, source, at):
        data, offset = source.encode(), len(source[:at].encode())
        found = lib.axn_describe(self.handle, data, len(data), offset)
        return found.decode() if found else None

    def interrupt(self):
        lib.axn_interrupt(self.handle)

    def signal(self, number):
        lib.axn_session_signal(self.handle, number)

    def type(self, name):
        found = lib.axn_session_type(self.handle, name.encode())
        return found.decode() if found else None

    def doc(self, name):
        found = lib.axn_session_doc(self.handle, name.encode())
        return found.decode() if found else None

    def names(self):
        found = []
        lib.axn_each_name(
            self.handle, _NAME(lambda _, name: found.append(name.decode())),
            None)
        return sorted(set(found))

    def function(self, name):
        return lib.axn_function(self.handle, name.encode())

    def params(self, function):
        count = lib.axn_function_params(function, None, 0, None)
        params, result = (_AxnParam * count)(), _AxnParam()
        lib.axn_function_params(function, params, count, byref(result))
        return [_param(p) for p in params], _param(result)

    def value(self, name):
        result = _P()
        self._ended(lib.axn_session_value(self.handle, name.encode(),
                                          byref(result)))
        return result.value

    def call(self, function, values):
        count = len(values)
        args = (_AxnArg * count)()
        for arg, (label, value) in zip(args, values):
            arg.value = value
            arg.label = label.encode() if label else None
        result = _P()
        self._ended(lib.axn_call(self.handle, function, args, count,
                                 byref(result)))
        return result.value

    def bool(self, x):
        return self.made(lib.axn_value_bool(self.handle, x))

    def int(self, x):
        if not -2**63 <= x < 2**63:
            raise OverflowError("%d does not fit in 64 bits" % x)
        return self.made(lib.axn_value_int(self.handle, x))

    def float(self, x):
        return self.made(lib.axn_value_float(self.handle, x))

    def unit(self):
        return self.made(lib.axn_value_unit(self.handle))

    def string(self, x):
        data = x.encode()
        return self.made(lib.axn_value_string(self.handle, data, len(data)))

    def tensor(self, dtype, shape, strides, data):
        rank = len(shape)
        if rank >= len(_SIZES):
            raise TypeError("a tensor has at most 32 axes, not %d" % rank)
        tensor = _AxnTensor(dtype, rank, _SIZES[rank](*shape), None, data)
        if strides is not None:
            tensor.strides = _SIZES[rank](*strides)
        return self.made(lib.axn_value_tensor(self.handle, byref(tensor), None,
                                              None))

    def array(self, about, x, kept):
        """NumPy's __array_interface__, version 3."""
        typestr, data = about["typestr"], about.get("data")
        dtype = _DTYPE_OF.get(typestr)
        added = _ML_DTYPES.get(str(getattr(x, "dtype", "")))
        if typestr[1:2] == "V" and added:
            dtype = _DTYPES.index(added)
        if dtype is None or about.get("mask") is not None:
            raise TypeError("Axon has no tensors of %s: convert it"
                            % getattr(x, "dtype", typestr))
        hidden = getattr(x, "mask", None)
        if hasattr(hidden, "any") and hidden.any():
            raise TypeError("an array has masked elements, which Axon would "
                            "take for others: fill them, as by x.filled(0)")
        if not isinstance(data, tuple):
            return self.buffer(memoryview(x if data is None else data), kept)
        strides = about.get("strides")
        if strides is not None:
            size = int(typestr[2:])
            if any(s % size for s in strides):
                raise TypeError("the strides of an array are no multiples of "
                                "its elements: copy it")
            strides = [s // size for s in strides]
        kept.append((x, about))
        return self.tensor(dtype, about["shape"], strides, data[0])

    def buffer(self, view, kept):
        """array.array, bytes and the like; one that cannot be written to is
        copied, because ctypes does not tell its address."""
        code = view.format.lstrip("@=<")
        dtype = _FORMATS.get(code)
        if code and code in "ilq":
            dtype = {4: 4, 8: 5}[view.itemsize]
        if dtype is None:
            raise TypeError("Axon has no tensors of format " + view.format)
        if view.readonly or not view.c_contiguous:
            data = ctypes.create_string_buffer(view.tobytes(), view.nbytes)
        else:
            data = (ctypes.c_char * view.nbytes).from_buffer(view)
        kept.append(data)
        return self.tensor(dtype, view.shape, None, ctypes.addressof(data))

    def dlpack_in(self, x):
        if x.__dlpack_device__()[0] != 1:
            raise TypeError("a tensor lies on device %s: copy it to the "
                            "memory of the CPU first"
                            % (x.__dlpack_device__(),))
        try:
            capsule = x.__dlpack__(max_version=(1, 1))
        except TypeError:  # of a library before version 1
            capsule = x.__dlpack__()
        at = id(capsule)
        for name, used in _USED.items():
            if _capsule_valid(at, name):
                take = (lib.axn_value_from_dlpack_old if name == b"dltensor"
                        else lib.axn_value_from_dlpack)
                handle = self.made(take(self.handle,
                                        _capsule_pointer(at, name)))
                _capsule_rename(capsule, used)
                return handle
        raise TypeError("__dlpack__ gave no capsule of a tensor")

    def many(self, kind, handles):
        """A tuple or a list, of items that it takes over."""
        make = lib.axn_value_tuple if kind == "tuple" else lib.axn_value_list
        return self._of(handles, lambda n, at: make(self.handle, n, at))

    def record(self, names, handles):
        texts = (c_char_p * len(names))(*[n.encode() for n in names])
        return self._of(handles, lambda n, at: lib.axn_value_record(
            self.handle, n, texts, at))

    def _of(self, handles, make):
        try:
            return self.made(make(len(handles), (_P * len(handles))(*handles)))
        finally:
            for handle in handles:
                lib.axn_value_free(handle)


def _param(p):
    return {"name": p.name.decode() if p.name else None,
            "label": p.label.decode() if p.label else None,
            "optional": p.optional, "type": p.type.decode(),
            "dtype": _DTYPES[p.dtype] or None,
            "rank": p.rank if p.rank >= 0 else None}
