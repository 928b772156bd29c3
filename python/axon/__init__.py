"""Axon, a functional tensor language, called from Python.

    import axon
    m = axon.load("model.axn")
    y = m.forward({"w": w, "b": b}, x)

Arrays go in without a copy where they are contiguous, and come out without
one.  doc/embedding.md in Axon's sources is the guide.
"""
import array
import collections
import os
import signal
import sys
import threading
import types

from . import _lib
from ._lib import Error, Tensor, Value

try:
    import numpy
except ImportError:  # then results are axon.Tensors
    numpy = None

__all__ = ["load", "compile", "version", "Module", "Function", "Error",
           "Tensor", "Value", "Record", "Con"]

Con = collections.namedtuple("Con", ["name", "value"])
Con.__doc__ = "What a constructor of a datatype made; value is None if of none."


class Record(dict):
    """A record: its fields are items, and attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def version():
    """The version of the library that was found."""
    return _lib.lib.axn_version().decode()


def load(path, **options):
    """Runs a file of Axon; its functions are those of the Module returned."""
    path = os.fspath(path)
    with open(path, "rb") as file:
        text = file.read()
    return Module(text, path, **options)


def compile(source, name="source", **options):
    """Runs a text of Axon; its functions are those of the Module returned."""
    return Module(source.encode(), name, **options)


class Function:
    """A function of a module; keywords are its labelled arguments."""

    def __init__(self, module, name, handle):
        self._module, self._handle = module, handle
        self.__name__ = self.__qualname__ = name

    @property
    def type(self):
        """Its type, as Axon prints it."""
        return self._module.type(self.__name__)

    @property
    def params(self):
        """A list of Records: name, label, optional, type, dtype, rank."""
        return self._module._params(self._handle)[0]

    @property
    def result(self):
        """The same of what it comes to."""
        return self._module._params(self._handle)[1]

    @property
    def __doc__(self):
        doc = self._module._doc(self.__name__)
        return repr(self) + ("\n\n" + doc if doc else "")

    def __repr__(self):
        return "%s : %s" % (self.__name__, self.type)

    def __call__(self, *args, **labels):
        return self._module._call(self._handle, args, labels)


class Module:
    """What a text of Axon defines: functions and values, as attributes; or as
    items, m["nn.relu"], where a method or a dot is in the way.

    write: is given what the program prints; sys.stdout.write if it is None.
    arrays: whether tensors come out as NumPy arrays, else as axon.Tensor; None:
    if there is NumPy.

    One thread calls at a time, others wait; meanwhile Python goes on."""

    def __init__(self, source, name, write=None, arrays=None):
        self._names = {}  # handles: functions would keep the module alive
        self._lock = threading.RLock()
        self._arrays = numpy is not None if arrays is None else arrays
        self._session = _lib.Session()
        self._signal = 0
        taken = callable(signal.getsignal(signal.SIGINT))
        self._wanted = int(signal.SIGINT) if taken else 0
        self._file = name
        self._session.output(write or (lambda text: sys.stdout.write(text)))
        self.run(source, name)

    def run(self, source, name="source"):
        """Runs more text: what it defines is added."""
        if isinstance(source, str):
            source = source.encode()
        with self._lock:
            self._catch()
            self._session.run(name, source)
            self._names.clear()

    def type(self, name):
        """The type of a name, as Axon prints it; None if it is unknown."""
        with self._lock:
            return self._session.type(name)

    def interrupt(self):
        """From another thread: stops what runs, which raises
        KeyboardInterrupt."""
        self._session.interrupt()

    def __getitem__(self, name):
        with self._lock:
            handle = self._names.get(name)
            if handle is None:
                handle = self._session.function(name)
                if handle is None:
                    raise KeyError(name)
                if not self._session.params(handle)[0]:
                    self._catch()
                    return self._out(self._session.value(name))
                self._names[name] = handle
            return Function(self, name, handle)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError("%s defines no %s"
                                 % (self._file, name)) from None

    def __dir__(self):
        with self._lock:
            return sorted(set(super().__dir__()) | set(self._session.names()))

    def __repr__(self):
        with self._lock:
            names = self._session.names()
            return "\n".join(["<axon %s>" % self._file] + [
                "%s : %s" % (n, self._session.type(n)) for n in names])

    # ---- what functions use ----

    def _doc(self, name):
        with self._lock:
            return self._session.doc(name)

    def _params(self, handle):
        with self._lock:
            params, result = self._session.params(handle)
        return [Record(p) for p in params], Record(result)

    def _catch(self):
        """Ctrl-C is for the main thread, if Python took it at first."""
        wanted = self._wanted
        if threading.get_ident() != threading.main_thread().ident:
            wanted = 0
        if wanted != self._signal:
            self._session.signal(wanted)
            self._signal = wanted

    def _call(self, handle, args, labels):
        with self._lock:
            kept = []  # what lends its memory
            values = []
            try:
                for arg in args:
                    values.append((None, self._in(arg, kept)))
                for label, arg in labels.items():
                    values.append((label, self._in(arg, kept)))
                self._catch()
                return self._out(self._session.call(handle, values))
            finally:
                for _, value in values:
                    _lib.lib.axn_value_free(value)

    # ---- in: handles of values, to be freed ----

    def _in(self, x, kept):
        s = self._session
        kind = type(x)
        if kind is bool:
            return s.bool(x)
        if kind is float:
            return s.float(x)
        if kind is int:
            return s.int(x)
        if isinstance(x, Value):
            return _lib.lib.axn_value_retain(x._handle)
        if isinstance(x, type):  # it has its instances' attributes
            raise TypeError("the type %s is no value of Axon's" % x.__name__)
        if hasattr(x, "__array_interface__"):
            return s.array(x.__array_interface__, x, kept)
        if isinstance(x, str):
            return s.string(x)
        if x is None:
            return s.unit()
        if isinstance(x, Con):
            raise TypeError("what a constructor made cannot go into a "
                            "function from outside")
        if isinstance(x, dict):
            return self._record(list(x), list(x.values()), kept)
        if isinstance(x, types.SimpleNamespace):
            return self._record(list(vars(x)), list(vars(x).values()), kept)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return self._record(list(x._fields), list(x), kept)
        if isinstance(x, tuple):
            return self._many("tuple", x, kept)
        if isinstance(x, list):
            return self._many("list", x, kept)
        if hasattr(x, "__dlpack__"):
            return s.dlpack_in(x)
        if isinstance(x, (array.array, memoryview, bytes, bytearray)):
            return s.buffer(memoryview(x), kept)
        raise TypeError("%s is no value of Axon's" % kind.__name__)

    def _items(self, items, kept):
        handles = []
        try:
            for item in items:
                handles.append(self._in(item, kept))
        except BaseException:
            for handle in handles:
                _lib.lib.axn_value_free(handle)
            raise
        return handles

    def _many(self, kind, items, kept):
        return self._session.many(kind, self._items(items, kept))

    def _record(self, names, items, kept):
        if not all(isinstance(name, str) for name in names):
            raise TypeError("the names of a record's fields are strings")
        return self._session.record(names, self._items(items, kept))

    # ---- out: takes the handle ----

    def _out(self, handle):
        try:
            return self._item(handle)
        finally:
            _lib.lib.axn_value_free(handle)

    def _item(self, handle):
        kind = _lib.lib.axn_value_kind(handle)
        if kind == _lib.TENSOR:
            tensor = Tensor(handle)
            if self._arrays and hasattr(tensor, "__array_interface__"):
                return numpy.asarray(tensor)
            return tensor
        if kind == _lib.NUMBER:
            return _lib.number(handle)
        if kind == _lib.STRING:
            return _lib.text(handle)
        if kind == _lib.UNIT:
            return None
        if kind in (_lib.KEY, _lib.OTHER):
            return Value(handle)
        items = [self._item(h) for h in _lib.items(handle)]
        if kind == _lib.TUPLE:
            return tuple(items)
        if kind == _lib.LIST:
            return items
        if kind == _lib.CON:
            return Con(_lib.text(handle), items[0] if items else None)
        return Record(zip(_lib.names(handle), items))

