"""Tests the Python module: arguments, results and errors."""
import array
import ctypes
import gc
import os
import signal
import sys
import tempfile
import threading
import time
import types
import unittest

import axon
from axon import _lib

try:
    import numpy as np
except ImportError:
    np = None
try:
    import resource
except ImportError:
    resource = None

SOURCE = """
(** An affine map. *)
fun forward (p : {w : 'a[n, m], b : 'a[m]}) x = x @ p.w + p.b
fun same x = x
fun double x = x * 2
fun total ~axis x = sum ~axis:axis x
fun heads h x =
  let val [b, n, _] = shape x
  in x |> reshape [b, n, h, _] |> permute "b n h d -> b h n d" end
fun loop x = while (fn v => v >= 0) (fn v => (v + 1) % 1000) x
fun shapes x = shape x
fun greet name = "hello " ^ name
fun draw k = (uniform k [3] : f32[3])
fun nothing () = 7
fun say x = print x
datatype found = None | Some of int
fun find x = if x > 0 then Some x else None
fun small x = (bf16 x)
fun small_all p = each bf16 p
fun octets x = (f8_e4m3 x, f8_e5m2 x)
fun blocks x = (f4_e2m1 x, f8_e8m0 x)
val weights = (ones [2, 3] : f32[2, 3])
fun step (lr : f32) (n : int) x = (x * lr, n)
"""


class Given:
    """Exports a tensor like libraries before version 1 of DLPack."""

    def __init__(self, tensor, device=(1, 0)):
        self.tensor, self.device = tensor, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        return self.tensor.__dlpack__()


class Versioned(Given):
    def __dlpack__(self, max_version=None):
        return self.tensor.__dlpack__(max_version=max_version)


class Plain(unittest.TestCase):
    """Without NumPy."""

    def setUp(self):
        self.said = []
        self.m = axon.compile(SOURCE, write=self.said.append, arrays=False)

    def test_scalars(self):
        m = self.m
        self.assertEqual(m.double(3), 6)
        self.assertIs(type(m.double(3)), int)
        self.assertEqual(m.double(1.5), 3.0)
        self.assertIs(m.same(True), True)
        self.assertIsNone(m.same(None))
        self.assertEqual(m.same("ab\u00e9"), "ab\u00e9")
        self.assertEqual(m.nothing(), 7)
        self.assertEqual(m.greet("you"), "hello you")
        with self.assertRaises(OverflowError):
            m.double(2**63)

    def test_number_takes_the_type_asked_for(self):
        x = array.array("d", [1.0])
        self.assertEqual(self.m.step(2, 3, array.array("f", [1.0]))[0].dtype,
                         "f32")
        with self.assertRaises(axon.Error):
            self.m.step(2, 3, x)
        with self.assertRaises(axon.Error):
            self.m.step(1.0, 2.5, array.array("f", [1.0]))
        m = axon.compile("fun f k (x : 'a[n]) = x * k", arrays=False)
        self.assertEqual(m.f(3, x).dtype, "f64")
        self.assertEqual(m.f(0.1, x).tolist(), [0.1])

    def test_numbers_inside(self):
        m = axon.compile("fun f p = p.x * p.k", arrays=False)
        f32, f64 = array.array("f", [1]), array.array("d", [1])
        typed = self.m.same(array.array("f", [2]))
        one = axon.compile("fun f x = x.[0]\nval k = (2.0 : f32)")
        self.assertEqual(one.k, 2.0)
        self.assertEqual(m.f({"x": f64, "k": 0.1}).tolist(), [0.1])
        self.assertEqual(m.f({"x": f32, "k": 2}).dtype, "f32")
        with self.assertRaises(axon.Error):
            m.f({"x": f64, "k": typed})
        m = axon.compile("fun g p q = p.x * p.k + q")
        with self.assertRaises(axon.Error) as caught:
            m.g({"x": array.array("d", [1, 2]), "k": 0.1},
                array.array("d", [1, 2, 3]))
        self.assertIn("2 and 3 differ", str(caught.exception))

    def test_structures(self):
        value = (1, [2.0, 3.0], {"a": "b", "c": (True, None)})
        self.assertEqual(self.m.same(value), value)
        self.assertEqual(self.m.same(types.SimpleNamespace(x=1)), {"x": 1})
        self.assertEqual(self.m.same({"x": 1}).x, 1)
        self.assertEqual(self.m.same([]), [])
        self.assertEqual(self.m.shapes(array.array("f", [1, 2])), (2,))
        self.assertEqual(self.m.find(2), axon.Con("Some", 2))
        self.assertEqual(self.m.find(0), axon.Con("None", None))
        for wrong in ({"end": 1}, {"a b": 1}, [1, "a"], axon.Con("None", None),
                      {1: 2}, object(), 1j):
            with self.assertRaises((axon.Error, TypeError)):
                self.m.same(wrong)

    def test_buffers(self):
        for code in "bBilqfd":
            y = self.m.double(array.array(code, [1, 2, 3]))
            self.assertEqual(y.tolist(), [2, 4, 6])
        y = self.m.same(b"ab")
        self.assertEqual((y.dtype, y.tolist()), ("u8", [97, 98]))
        view = memoryview(array.array("f", range(6)))
        self.assertEqual(self.m.same(view[::2]).tolist(), [0, 2, 4])
        y = self.m.same(view.cast("B").cast("f", (2, 3)))
        self.assertEqual((y.shape, y.tolist()), ((2, 3), [[0, 1, 2],
                                                          [3, 4, 5]]))
        with self.assertRaises(TypeError):
            self.m.same(array.array("H", [1]))

    def test_dlpack(self):
        x = self.m.same(array.array("f", [1, 2, 3]))
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        for kind in Given, Versioned:
            y = self.m.double(kind(x))
            self.assertEqual(y.tolist(), [2, 4, 6])
        with self.assertRaises(TypeError):
            self.m.double(Given(x, (2, 0)))
        x.__dlpack__(), x.__dlpack__(max_version=(1, 0))  # nobody takes them
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))
        y = self.m.small(array.array("f", [1, 2]))
        self.assertEqual(y.dtype, "bf16")
        self.assertFalse(hasattr(y, "__array_interface__"))
        self.assertEqual(self.m.same(Versioned(y)).dtype, "bf16")

    def test_octets(self):
        x = array.array("f", [0.1, 500, -2.0**-9, 0, float("inf"), -1.25])
        four, five = self.m.octets(x)
        self.assertEqual((four.dtype, five.dtype), ("f8_e4m3", "f8_e5m2"))
        self.assertEqual(four.tolist(),
                         [0.1015625, 448, -2.0**-9, 0, 448, -1.25])
        self.assertEqual(five.tolist(), [0.09375, 512, -2.0**-9, 0,
                                         float("inf"), -1.25])
        self.assertEqual(self.m.same(Versioned(four)).dtype, "f8_e4m3")
        self.assertEqual(self.m.same(Versioned(five)).dtype, "f8_e5m2")
        four, _ = self.m.octets(array.array("f", [float("nan")]))
        self.assertNotEqual(four.tolist()[0], four.tolist()[0])

    def test_types_of_blocks(self):
        x = array.array("f", [0.3, 500, -0.6, 0.75])
        four, eight = self.m.blocks(x)
        self.assertEqual((four.dtype, eight.dtype), ("f4_e2m1", "f8_e8m0"))
        self.assertEqual(four.tolist(), [0.5, 6, -0.5, 1])
        self.assertEqual(eight.tolist(), [0.25, 512, 2.0**-127, 1])
        for y in (four, eight):
            same = self.m.same(Versioned(y))
            self.assertEqual((same.dtype, same.tolist()),
                             (y.dtype, y.tolist()))
        with self.assertRaises(BufferError):  # it would be packed
            four.__dlpack__()

    def test_float_types_of_structures(self):
        x = array.array("f", [1.5, 2.0])
        y = self.m.small_all({"w": x, "b": (x, True), "n": 3, "s": "a"})
        self.assertEqual((y["w"].dtype, y["w"].tolist()), ("bf16", [1.5, 2.0]))
        self.assertEqual((y["b"][0].dtype, y["b"][1]), ("bf16", True))
        self.assertEqual((y["n"], y["s"]), (3, "a"))

    def test_keys(self):
        key = self.m["key"](4)
        self.assertIn("key", repr(key))
        self.assertEqual(self.m.draw(key).tolist(), self.m.draw(key).tolist())

    def test_labels(self):
        x = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
        self.assertEqual(self.m.total(x, axis=0).tolist(), [3, 5, 7])
        self.assertEqual(self.m.total(x, axis=-1).tolist(), [3, 12])
        with self.assertRaises(axon.Error):
            self.m.total(x, axes=0)
        y = memoryview(array.array("f", range(8))).cast("B").cast("f",
                                                                  (1, 2, 4))
        for h in 1, 2, 4:
            self.assertEqual(self.m.heads(h, y).shape, (1, h, 2, 4 // h))
        with self.assertRaises(axon.Error) as caught:
            self.m.heads(3, y)
        self.assertIn("3", str(caught.exception))

    def test_about(self):
        f = self.m.forward
        self.assertIn("An affine map.", f.__doc__)
        self.assertEqual(repr(f), "forward : " + f.type)
        self.assertEqual([p.name for p in f.params], ["p", "x"])
        self.assertEqual(self.m.step.params[0].dtype, "f32")
        self.assertEqual(self.m.step.params[0].rank, 0)
        self.assertIn("forward", dir(self.m))
        self.assertIn("weights : f32[2, 3]", repr(self.m))
        self.assertEqual(self.m.weights.shape, (2, 3))
        self.assertEqual(self.m["nn.relu"](-1.0), 0.0)
        self.assertEqual(axon.version(), "0.1.0")
        with self.assertRaises(AttributeError):
            self.m.no_such

    def test_errors(self):
        with self.assertRaises(axon.Error) as caught:
            axon.compile("val = 3")
        self.assertIn("E0110", str(caught.exception))
        self.assertEqual(caught.exception.diagnostics[0]["code"], "E0110")
        with self.assertRaises(axon.Error) as caught:
            self.m.forward(1)
        self.assertIn("takes 2 arguments; found 1", str(caught.exception))
        x = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
        p = {"w": x, "b": array.array("f", [0, 0, 0])}
        for _ in range(2):
            with self.assertRaises(axon.Error) as caught:
                self.m.forward(p, x)
            told = caught.exception.diagnostics[0]
            self.assertEqual(told["code"], "E0301")
            self.assertIn("3 and 2", told["message"])
        with self.assertRaises(SystemExit) as caught:
            axon.compile("do exit 3")
        self.assertEqual(caught.exception.code, 3)

    def test_output(self):
        self.m.say("yes")
        self.assertEqual("".join(self.said), "yes\n")
        told, double = [], self.m.double

        def again(text):
            try:
                double(1)
            except RuntimeError as error:
                told.append(str(error))
        self.m._session.output(again)
        self.m.say(1)
        self.assertIn("running", told[0])

    def test_more(self):
        double = self.m.double
        self.m.run("fun double x = x * 20")
        self.assertEqual(double(1), 20)
        self.assertEqual(self.m.double(1), 20)

    def test_threads(self):
        wrong = []

        def work():
            for i in range(200):
                if self.m.double(i) != 2 * i:
                    wrong.append(i)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_interrupt(self):
        start = time.time()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.m.loop(0)
        threading.Timer(0.2, self.m.interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            self.m.loop(0)
        self.assertLess(time.time() - start, 10)
        self.assertEqual(self.m.double(1), 2)

    def test_cut_short(self):
        """A truncated large file is an error, and the host continues."""
        count = 17 << 20
        shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "large.npy")
            with open(path, "wb") as f:
                f.write(b"\x93NUMPY\1\0v\0")
                f.write((shape % count).ljust(117).encode() + b"\n")
                f.truncate(128 + 4 * count)
            m = axon.compile('val x = (load "%s" : f32[%d])\n'
                             "fun itself () = x\n"
                             "fun total () = sum (x * 2.0)" % (path, count))
            self.assertEqual(m.total(), 0)
            before = m.itself()
            os.truncate(path, 4096)
            for call in m.total, m.itself, lambda: m.x:
                with self.assertRaises(axon.Error) as caught:
                    call()
                self.assertIn("large.npy", str(caught.exception))
            at = before.__array_interface__["data"][0] + 4 * (count - 1)
            self.assertEqual(ctypes.c_float.from_address(at).value, 0)
        self.assertEqual(self.m.double(1), 2)

    @unittest.skipUnless(resource, "no module resource")
    def test_no_leak(self):
        x = array.array("f", [0.0]) * (1 << 18)

        def most():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20):
            self.m.same((x, {"y": x}))
        gc.collect()
        before = most()
        for _ in range(500):  # of a GiB in all
            self.m.same((x, {"y": x}))
            self.m.double(Versioned(self.m.double(x)))
        self.assertLess(most() - before, 64 << 10)


@unittest.skipUnless(np, "no NumPy")
class Inputs(unittest.TestCase):
    """The inputs of a prompt or a notebook."""

    def setUp(self):
        self.shown = []
        self.s = _lib.Session()
        self.s.output(self.shown.append)
        self.s.display(
            lambda name, text: self.shown.append((name, text)),
            lambda shape, pixels: self.shown.append((shape, len(pixels))))

    def gives(self, source, *shown, status=_lib.OK):
        self.shown.clear()
        self.assertEqual(self.s.input("cell 1", source), status)
        self.assertEqual(self.shown, list(shown))
        return "".join(self.s.diagnostics())

    def test_results_in_order(self):
        self.gives("val x = [1, 2]\nprint 5\nsum x\nfun f (y : f32[n]) = y",
                   ("x", "val x : i64[2] = [1, 2]\n"), "5\n",
                   ("it", "it : int = 3\n"),
                   ("f", "val f : f32[n] -> f32[n]\n"))
        self.gives("|> fn v => v * 2", ("it", "it : int = 6\n"))

    def test_commands(self):
        self.gives("val x = [1]\n:type x + 1\n:quit\nprint 1",
                   ("x", "val x : i64[1] = [1]\n"), "x + 1 : i64[1]\n",
                   status=_lib.EXITED)
        self.gives("(* not a command:\n:quit\n*)\ntrue",
                   ("it", "it : bool = true\n"))
        self.assertIn("`nope` is not defined",
                      self.gives(":type nope", status=_lib.ERROR))
        self.assertEqual(self.s.input("cell 1", ":plan exp [1.0]"), _lib.OK)
        self.assertIn("1 kernel", self.shown[-1])

    def test_errors_name_the_line_and_keep_what_ran(self):
        told = self.gives("val kept = true\n:type kept\n1 + ()\nprint 1",
                          ("kept", "val kept : bool = true\n"),
                          "kept : bool\n",
                          "1 declaration after it was not run\n",
                          status=_lib.ERROR)
        self.assertIn("cell 1:3:", told)
        self.gives("kept", ("it", "it : bool = true\n"))
        self.assertIn("error", self.gives("1\0 + 2", status=_lib.ERROR))

    def test_pictures(self):
        self.gives("show (zeros [300, 400, 3] : f32[300, 400, 3])",
                   ((300, 400, 3), 360000))
        self.gives("show (zeros [3, 5] : f32[3, 5])",
                   ((153, 255), 153 * 255))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pgm")
            self.gives('show ~file:"%s" [[1.0, 2.0]]' % path)
            with open(path, "rb") as file:
                self.assertEqual(file.read(2), b"P5")
        with self.assertRaisesRegex(axon.Error, "no terminal"):
            axon.compile("do show [[1.0, 2.0]]")

    def test_complete(self):
        self.s.input("cell 1", "val point = {left = 1, top = 2}")
        self.assertEqual(self.s.complete("poin", 4), (["point"], 0))
        self.assertEqual(self.s.complete('"é" ^ point.l + 1', 13),
                         (["point.left"], 6))
        self.assertEqual(self.s.complete("1\n:ty", 5), (["type"], 3))
        self.assertEqual(self.s.complete("", 0), ([], 0))

    def test_describe(self):
        self.s.input("cell 1", "(** Adds one. *)\nfun next x = x + 1\n1 + ()")
        errors = self.s.diagnostics()
        for source, at in ("next", 2), ("next", 4), ("next (", 6):
            self.assertIn("Adds one.", self.s.describe(source, at))
        self.assertIsNone(self.s.describe("unknown", 3))
        self.assertIsNone(self.s.describe("", 0))
        self.assertEqual(self.s.diagnostics(), errors)

    def test_status(self):
        for source, status in [("1 + 2", _lib.OK), ("", _lib.OK),
                               ("fun f x =", _lib.INCOMPLETE),
                               ("(* a", _lib.INCOMPLETE),
                               ("1 + )", _lib.ERROR)]:
            self.assertEqual(self.s.input_status(source), status, source)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.m = axon.compile(SOURCE)

    def test_all_types(self):
        for dtype in ("?", "u1", "i1", "i4", "i8", "f2", "f4", "f8"):
            x = np.array([[0, 1, 1]]).astype(dtype)
            y = self.m.same(x)
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(x, y)
        for dtype in ("i2", "u4", "c8", ">f4", "U3"):
            with self.assertRaises(TypeError):
                self.m.same(np.zeros(2).astype(dtype))

    def test_what_can_be_done_is_done_to_what_is_passed(self):
        p = {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
        for x, help in (np.ones((4, 2)), "pass an array with another element type"), \
                ([[1, 2]], "pass an array: a list is not a tensor"):
            with self.assertRaisesRegex(axon.Error, help) as caught:
                self.m.forward(p, x)
            for d in caught.exception.diagnostics:
                self.assertEqual(d["fixes"], [])
        self.assertEqual(axon.Error.__module__, "axon")
        with self.assertRaisesRegex(TypeError, "the type float32"):
            self.m.same(np.float32)

    def test_lists_of_what_is_empty(self):
        m = axon.compile(SOURCE, arrays=False)
        for shape in (0,), (0, 3), (3, 0), (2, 0, 4), (2, 3, 0), (2, 1, 3):
            x = np.ones(shape, "f4")
            self.assertEqual(m.same(x).tolist(), x.tolist())

    def test_masked_elements_stay_out(self):
        x = np.ma.array([1.0, 2.0], mask=[False, True])
        with self.assertRaisesRegex(TypeError, "masked"):
            self.m.same(x)
        np.testing.assert_array_equal(self.m.same(x.filled(0)), [1, 0])
        whole = np.ma.array([1.0, 2.0])
        np.testing.assert_array_equal(self.m.same(whole), [1, 2])

    def test_bf16_as_ml_dtypes_has_it(self):
        bits = np.array([0x3f80, 0xc000], "<u2")
        about = dict(bits.__array_interface__, typestr="<V2")
        x = types.SimpleNamespace(dtype="bfloat16", kept=bits)
        x.__array_interface__ = about
        y = axon.compile(SOURCE, arrays=False).same(x)
        self.assertEqual((y.dtype, y.tolist()), ("bf16", [1.0, -2.0]))
        x.dtype = "void16"
        with self.assertRaises(TypeError):
            self.m.same(x)

    def test_octets_as_ml_dtypes_has_them(self):
        bits = np.array([0x38, 0xc0], "u1")
        about = dict(bits.__array_interface__, typestr="|V1")
        x = types.SimpleNamespace(dtype="float8_e4m3fn", kept=bits)
        x.__array_interface__ = about
        same = axon.compile(SOURCE, arrays=False).same
        self.assertEqual((same(x).dtype, same(x).tolist()),
                         ("f8_e4m3", [1.0, -2.0]))
        x.dtype = "float8_e5m2"
        self.assertEqual((same(x).dtype, same(x).tolist()),
                         ("f8_e5m2", [0.5, -2.0]))
        bits[:] = [0x05, 0x0a]
        x.dtype = "float4_e2m1fn"
        self.assertEqual((same(x).dtype, same(x).tolist()),
                         ("f4_e2m1", [3.0, -1.0]))
        x.dtype = "float8_e8m0fnu"
        self.assertEqual((same(x).dtype, same(x).tolist()),
                         ("f8_e8m0", [2.0**-122, 2.0**-117]))

    def test_layouts(self):
        x = np.arange(24, dtype="f4").reshape(2, 3, 4)
        for y in (x, x.T, x[::-1], x[:, ::2], x[..., 1], np.asfortranarray(x),
                  np.broadcast_to(x[0], (5, 3, 4)), x[:0], x[None],
                  np.frombuffer(b"xx" + x.tobytes(), "f4", offset=4, count=2),
                  np.ndarray((3,), "f4", b"x" * 16, 1)):
            np.testing.assert_array_equal(self.m.same(y), y)
        self.assertEqual(self.m.same(np.float32(2)), 2.0)
        self.assertEqual(self.m.double(np.array(3)), 6)

    def test_owned(self):
        x = np.ones(1000, "f4")
        y = self.m.same(x)
        x[:] = 5
        self.assertEqual(y.sum(), 1000)
        self.assertTrue(y.flags.writeable)
        self.assertFalse(self.m.weights.flags.writeable)
        m = self.m
        z = m.double(x)
        del m, self.m, x
        gc.collect()
        self.assertEqual(z.sum(), 10000)

    def test_readonly_goes_in(self):
        x = np.ones(3, "f4")
        x.flags.writeable = False
        np.testing.assert_array_equal(self.m.double(x), [2, 2, 2])

    def test_dlpack(self):
        m = axon.compile(SOURCE, arrays=False)
        y = m.double(np.arange(3, dtype="f4"))
        z = np.from_dlpack(y)
        del y
        gc.collect()
        np.testing.assert_array_equal(z, [0, 2, 4])
        np.testing.assert_array_equal(
            self.m.double(Given(np.arange(6.0).reshape(2, 3).T)),
            2 * np.arange(6.0).reshape(2, 3).T)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
