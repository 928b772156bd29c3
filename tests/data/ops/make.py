#!/usr/bin/python3
"""Generates tests/ops/*.axn and *.out, and the data of tests/run/files,
tests/shape/files and tests/error/files, with NumPy:

    /usr/bin/python3 tests/data/ops/make.py       (from the root; NumPy 1.24)

NumPy and `math` compute the expected output of the programs, never Axon.
"""
import math
import os
import struct
import zlib

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPS = os.path.join(ROOT, "ops")
FILES = os.path.join(ROOT, "run", "files")
TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64",
         "int32": "i32", "int8": "i8", "uint8": "u8", "bool": "bool"}


# ---- values as Axon prints them ----

def literal(x):
    """An array as source text."""
    if x.ndim:
        return "[" + ", ".join(literal(row) for row in x) + "]"
    if x.dtype == bool:
        return "true" if x else "false"
    if x.dtype.kind in "iu":
        return str(int(x))
    if np.isnan(x):
        return "nan"
    if np.isinf(x):
        return "inf" if x > 0 else "-inf"
    return np.format_float_positional(x, unique=True, trim="0")


def typed(name, x):
    """A declaration with its type."""
    axes = ", ".join(str(n) for n in x.shape)
    of = TYPES[x.dtype.name] + ("[" + axes + "]" if axes else "")
    return f"val {name} : {of} = {literal(x)}\n"


def decimals(v):
    text = np.format_float_positional(v, unique=True, trim="0")
    return len(text.split(".")[1])


def printed(x):
    """An array as `print` writes it."""
    x = np.asarray(x)
    if x.dtype.kind == "f" and x.ndim:
        places = [decimals(v) for v in x.flat if np.isfinite(v)]
        d = min(4, max(places, default=1))
        cells = [literal(v) if not np.isfinite(v) else "%.*f" % (d, v)
                 for v in x.flat]
    else:
        cells = [literal(v) for v in x.flat]
    if not x.ndim:
        return cells[0]
    width = max((len(c) for c in cells), default=0)
    cells = iter(c.rjust(width) for c in cells)

    def rows(shape, depth):
        if len(shape) == 1:
            return "[" + ", ".join(next(cells) for _ in range(shape[0])) + "]"
        gap = ",\n" + "\n" * (len(shape) - 2) + " " * (depth + 1)
        return "[" + gap.join(rows(shape[1:], depth + 1)
                              for _ in range(shape[0])) + "]"
    return rows(x.shape, 0)


# ---- tests ----

def write(name, comment, program, *results):
    """Writes a test whose program prints these results."""
    with open(os.path.join(OPS, name + ".axn"), "w") as f:
        f.write(f"(* {comment}; by NumPy: tests/data/ops/make.py *)\n")
        f.write(program)
    with open(os.path.join(OPS, name + ".out"), "w") as f:
        for x in results:
            f.write((x if isinstance(x, str) else printed(x)) + "\n")


def exact(name, comment, inputs, *cases):
    """Writes a test of expressions with exact values."""
    program = "".join(typed(k, np.asarray(v)) for k, v in inputs.items())
    for text, _ in cases:
        program += f"do print ({text})\n"
    write(name, comment, program, *(x for _, x in cases))


def near(name, comment, inputs, expr, want, rtol="1e-6"):
    """Compares an expression in f32 and f64 with values in f64."""
    program = ""
    for t, tol in (("float32", rtol), ("float64", "1e-13")):
        s = TYPES[t]
        for k, v in inputs.items():
            program += typed(k + s, np.asarray(v, dtype=t))
        program += typed("want" + s, np.asarray(want(
            *(np.asarray(v, dtype=t).astype("float64")
              for v in inputs.values())), dtype=t))
        call = expr
        for k in inputs:
            call = call.replace("$" + k, k + s)
        program += (f"do print (allclose ~rtol:{tol} ~atol:0.0 ({call}) "
                    f"want{s})\n")
    write(name, comment, program, "true", "true")


def arrays():
    r = np.random.default_rng(11)
    x = r.integers(-9, 10, (2, 5, 3))
    i = r.integers(0, 5, (2, 4, 3))
    exact("take_along_axis", "take_along_axis", {"x": x, "i": i},
          ("take_along_axis ~axis:1 i x", np.take_along_axis(x, i, 1)),
          ("take_along_axis (argsort x) x", np.sort(x, axis=-1)),
          ("take_along_axis ~axis:0 [[[1], [0]]] [[[7], [8]], [[5], [6]]]",
           np.array([[[5], [8]]])))
    y, z = x.copy(), x.copy()
    y[:, 1:3, :] = 0
    z[:, :, 2] = 50
    w = np.array([1, 2, 3, 4])
    w[[2, 0, 2]] = [7, 8, 9]
    v = x[0].copy()
    v[[4, 0]] = [[1, 2, 3], [4, 5, 6]]
    exact("set_put", "set, set_slice, put", {"x": x},
          ("set_slice ~axis:1 1 (zeros [2, 2, 3]) x", y),
          ("set ~axis:2 2 (full [2, 5] 50) x", z),
          ("set_slice ~axis:1 5 (zeros [2, 0, 3]) x", x),
          ("put [2, 0, 2] [7, 8, 9] [1, 2, 3, 4]", w),
          ("put [4, 0] [[1, 2, 3], [4, 5, 6]] x.[0, ...]", v),
          ("put ([] : i64[0]) ([] : i64[0]) [1, 2]", np.array([1, 2])),
          ("put [1, 1, 1] [true, true, false] [true, true]",
           np.array([True, False])))
    s = np.lib.stride_tricks.sliding_window_view
    exact("unfold_diff", "unfold, diff", {"x": x},
          ("unfold ~axis:1 4 x", np.moveaxis(s(x, 4, axis=1), -1, 2)),
          ("unfold ~axis:1 ~step:2 2 x",
           np.moveaxis(s(x, 2, axis=1), -1, 2)[:, ::2]),
          ("unfold 3 [1, 2, 3]", np.array([[1, 2, 3]])),
          ("dim 0 (unfold 0 [1, 2])", np.array(3)),
          ("diff x", np.diff(x)), ("diff ~axis:1 x", np.diff(x, axis=1)),
          ("diff [7]", np.zeros(0, int)))
    e = np.array([-3, -1, 0, 0, 4, 8])
    q = np.arange(-4, 10)
    f = np.float32([0, 1, np.inf, np.nan])
    n = np.float32([-np.inf, 0.5, 1, np.inf, np.nan])
    exact("searchsorted", "searchsorted, bincount, histogram",
          {"e": e, "q": q, "f": f, "n": n, "x": x},
          ("searchsorted e q", np.searchsorted(e, q)),
          ("searchsorted ~right:true e q", np.searchsorted(e, q, "right")),
          ("searchsorted f n", np.searchsorted(f, n)),
          ("searchsorted ~right:true f n", np.searchsorted(f, n, "right")),
          ("searchsorted ([] : i64[0]) [1, 2]", np.array([0, 0])),
          ("searchsorted [5] [[4, 5, 6]]", np.array([[0, 0, 1]])),
          ("bincount 5 [3, 1, 3, 0]", np.bincount([3, 1, 3, 0], minlength=5)),
          ("histogram [-9, -3, 0, 1, 7] x",
           np.histogram(x, [-9, -3, 0, 1, 7])[0]),
          ("histogram [0.0, 1.0, 2.0] n",
           np.histogram([0.5, 1.0], [0, 1, 2])[0]),
          ("histogram [1.0] n", np.zeros(0, int)))
    u = np.round(r.standard_normal((3, 8, 2)), 2)
    for t in (0.0, 0.1, 0.5, 0.87, 1.0):
        near(f"quantile_{int(100 * t)}", f"quantile {t}", {"x": u},
             f"quantile ~axis:1 {t} $x",
             lambda v, t=t: np.quantile(v, t, axis=1))
    near("median_axis", "median along an axis", {"x": u}, "median ~axis:0 $x",
         lambda v: np.median(v, axis=0))
    near("interp", "interp", {"x": [-1.0, 0.0, 0.3, 1.0, 2.9, 4.0, 9.0]},
         "interp [0.0, 1.0, 3.0, 4.0] [2.0, -1.0, 5.0, 0.5] $x",
         lambda v: np.interp(v, [0, 1, 3, 4], [2, -1, 5, 0.5]))
    near("trapz", "trapz", {"x": [0.0, 0.5, 2.0], "y": u[0, :, :].T[:, :3]},
         "trapz $x $y", lambda a, b: np.trapezoid(b, a))
    near("cross", "cross", {"x": u.reshape(16, 3), "y": u[::-1].reshape(16, 3)},
         "cross $x $y", np.cross, rtol="1e-4")
    exact("quantile_ends", "quantiles of infinite elements and NaN",
          {"x": np.float32([[1, np.nan, 2], [1, np.inf, 2], [3, 1, 2]])},
          ("quantile 0.5 x", np.float32([np.nan, 2, 2])),
          ("quantile 1.0 x", np.float32([np.nan, np.inf, 3])),
          ("quantile 0.0 [5.0]", np.float32(5)))


def linear_algebra():
    r = np.random.default_rng(7)

    def square(n, *batch):
        return r.standard_normal((*batch, n, n)) + 2 * np.eye(n)

    def definite(n, *batch):
        a = r.standard_normal((*batch, n, n))
        return a @ np.swapaxes(a, -1, -2) + np.eye(n)

    def check(name, cases):
        """Compares expressions of $a and $b in f32 and f64 with NumPy."""
        program = ""
        count = 0
        for expr, want, *inputs in cases:
            for t, tol in (("float32", "1e-4"), ("float64", "1e-11")):
                values = [np.round(v, 3).astype(t) for v in inputs]
                result = want(*(v.astype("float64") for v in values))
                call = expr
                for k, v in zip("ab", values):
                    program += typed(f"{k}{count}", v)
                    call = call.replace("$" + k, f"{k}{count}")
                program += typed(f"want{count}", np.asarray(result, dtype=t))
                program += (f"do print (allclose ~rtol:{tol} ~atol:{tol} "
                            f"({call}) want{count})\n")
                count += 1
        write(name, f"{name} in f32 and f64", program, *["true"] * count)

    la = np.linalg
    tall, wide = r.standard_normal((7, 3)), r.standard_normal((2, 5))
    low = r.integers(-5, 6, (6, 2)) @ r.integers(-3, 4, (2, 5)) + 0.0
    check("linalg_solve", [
        ("linalg.solve $a $b", la.solve, square(5), r.standard_normal((5, 3))),
        ("linalg.solve $a $b", la.solve, square(1), r.standard_normal((1, 1))),
        ("linalg.solve $a $b", la.solve, square(7), r.standard_normal(7)),
        ("linalg.solve $a $b", la.solve, square(3, 2),
         r.standard_normal((2, 3, 2))),
        ("linalg.inv $a", la.inv, square(3, 2, 2)),
        ("linalg.solve_triangular $a $b", lambda a, b: la.solve(np.triu(a), b),
         square(5) + 2 * np.eye(5), r.standard_normal((5, 2))),
        ("linalg.solve_triangular ~lower:true $a $b",
         lambda a, b: la.solve(np.tril(a), b), square(5) + 2 * np.eye(5),
         r.standard_normal(5)),
        ("linalg.lstsq $a $b", lambda a, b: la.lstsq(a, b, rcond=None)[0],
         tall, r.standard_normal(7)),
        ("linalg.lstsq $a $b", lambda a, b: la.lstsq(a, b, rcond=None)[0],
         wide, r.standard_normal((2, 3))),
        ("linalg.pinv $a", la.pinv, tall), ("linalg.pinv $a", la.pinv, wide),
        ("linalg.pinv $a", la.pinv, low)])
    check("linalg_numbers", [
        ("linalg.det $a", la.det, square(5)),
        ("linalg.det $a", la.det, square(2, 3)),
        ("fst (linalg.slogdet $a)", lambda a: la.slogdet(a)[0], square(4, 3)),
        ("snd (linalg.slogdet $a)", lambda a: la.slogdet(a)[1], square(4, 3)),
        ("snd (linalg.slogdet (sum $a * eye 400))",
         lambda a: 400 * np.log(a.sum()), np.array([0.125])),
        ("float (linalg.matrix_rank $a)", la.matrix_rank, low),
        ("float (linalg.matrix_rank $a)", la.matrix_rank, tall),
        ("linalg.trace $a", lambda a: np.trace(a, axis1=1, axis2=2),
         square(3, 2)),
        ("linalg.spectral_norm $a", lambda a: la.norm(a, 2), tall),
        ("linalg.nuclear_norm $a", lambda a: la.norm(a, "nuc"), wide),
        ("linalg.cond $a", la.cond, square(4))])
    check("linalg_decompositions", [
        ("linalg.cholesky $a", la.cholesky, definite(6)),
        ("linalg.cholesky $a", la.cholesky, definite(2, 3)),
        ("abs (fst (linalg.qr $a))", lambda a: abs(la.qr(a)[0]), tall),
        ("abs (snd (linalg.qr $a))", lambda a: abs(la.qr(a)[1]), wide),
        ("uncurry (op @) (linalg.qr $a)", lambda a: a, tall),
        ("uncurry (op @) (linalg.qr $a)", lambda a: a, wide),
        ("linalg.singular_values $a", lambda a: la.svd(a)[1], tall),
        ("linalg.singular_values $a", lambda a: la.svd(a)[1], square(3, 2)),
        ("(case linalg.svd $a of (u, s, vt) => u @ (s.[:, *] * vt))",
         lambda a: a, wide),
        ("(case linalg.svd $a of (u, _, _) => transpose u @ u)",
         lambda a: np.eye(3), tall),
        ("fst (linalg.eigh $a)", la.eigvalsh, definite(6)),
        ("(case linalg.eigh $a of (w, v) => v @ (w.[:, *] * transpose v))",
         lambda a: a, definite(5)),
        ("sort (fst (linalg.eig_vals $a))",
         lambda a: np.sort(la.eigvals(a).real), square(6)),
        ("sort (snd (linalg.eig_vals $a))",
         lambda a: np.sort(la.eigvals(a).imag), square(6)),
        ("(case linalg.eig $a of (re, im, vre, vim) => "
         "$a @ vre - vre * re + vim * im)", lambda a: 0 * a, square(5)),
        ("(case linalg.eig $a of (re, im, vre, vim) => "
         "$a @ vim - vim * re - vre * im)", lambda a: 0 * a, square(5))])


def pointwise():
    x = [-2.5, -1.0, -0.25, 0.5, 1.0, 3.0]
    p = [0.001, 0.25, 1.0, 2.0, 10.0, 12345.0]
    erf = np.vectorize(math.erf)
    for name, points, f in (
            ("exp", x, np.exp), ("expm1", x + [1e-5], np.expm1),
            ("log", p, np.log), ("sqrt", p, np.sqrt),
            ("log1p", [-0.5, 1e-5, 0.5, 3.0], np.log1p),
            ("rsqrt", p, lambda v: 1 / np.sqrt(v)),
            ("sin", x + [100.0], np.sin), ("cos", x + [100.0], np.cos),
            ("tan", x, np.tan), ("sinh", x, np.sinh), ("cosh", x, np.cosh),
            ("tanh", x + [20.0], np.tanh), ("erf", x + [0.01], erf),
            ("asin", [-1.0, -0.3, 1e-5, 0.5, 1.0], np.arcsin),
            ("acos", [-1.0, -0.3, 1e-5, 0.5, 1.0], np.arccos),
            ("atan", x + [1e-5, 1e8], np.arctan),
            ("asinh", x + [1e-5, 1e8], np.arcsinh),
            ("acosh", [1.0, 1.001, 2.0, 1e8], np.arccosh),
            ("atanh", [-0.9, 1e-5, 0.5, 0.999], np.arctanh),
            ("log2", p + [1.001], np.log2), ("log10", p + [1.001], np.log10),
            ("cbrt", x + [1e-8, 1e8], np.cbrt)):
        near(name, f"{name} in f32 and f64", {"x": points}, f"{name} $x", f)
    near("atan2", "atan2 in all four quadrants",
         {"y": [1.0, 1.0, -1.0, -1.0], "x": [2.0, -2.0, 2.0, -2.0]},
         "atan2 $y $x", np.arctan2)
    near("hypot", "hypot without overflow",
         {"y": [3.0, -1e30, 1e-30, 0.0, 2.0],
          "x": [4.0, 1e30, 1e-30, 0.0, -0.5]}, "hypot $x $y", np.hypot)
    near("pow", "pow of floats", {"x": p, "y": [2.0, 0.5, 7.0, -1.5, 3.0, 0.0]},
         "pow $x $y", np.power)
    h = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6])
    exact("rounding", "floor, ceil, round (ties to even), trunc", {"x": h},
          ("floor x", np.floor(h)), ("ceil x", np.ceil(h)),
          ("round x + 0.0", np.round(h) + 0), ("trunc x + 0.0", np.trunc(h) + 0))
    i = np.array([-3, 0, 5])
    exact("abs_sign", "abs, sign, negate of integers", {"x": i},
          ("abs x", abs(i)), ("sign x", np.sign(i)), ("negate x", -i))
    f = np.float32([-1.5, 0.0, 2.25])
    exact("abs_sign_float", "abs and sign of floats", {"x": f},
          ("abs x", abs(f)), ("sign x", np.sign(f)))
    n = np.float32([1.0, np.nan, np.inf])
    exact("isnan", "isnan, isinf, isfinite", {"x": n},
          ("isnan x", np.isnan(n)), ("isinf x", np.isinf(n)),
          ("isfinite x", np.isfinite(n)))
    z = np.float32([-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        exact("inverse_ends", "inverse functions at and beyond their ends",
              {"x": z},
              *((f"isnan ({f} x)", np.isnan(g(z))) for f, g in (
                  ("asin", np.arcsin), ("acos", np.arccos),
                  ("acosh", np.arccosh), ("atanh", np.arctanh),
                  ("log2", np.log2), ("log10", np.log10))),
              *((f"1.0 / {f} [-0.0, 0.0]", [-np.inf, np.inf]) for f in (
                  "asin", "atan", "asinh", "atanh", "cbrt")),
              ("log2 [0.0, 1.0, 8.0, 1024.0, inf]", [-np.inf, 0, 3, 10, np.inf]),
              ("log10 [0.0, 1.0, 1000.0, inf]", [-np.inf, 0, 3, np.inf]),
              ("asinh [-inf, inf]", [-np.inf, np.inf]),
              ("acosh [1.0, inf]", [0, np.inf]),
              ("atanh [-1.0, 1.0]", [-np.inf, np.inf]),
              ("cbrt [-inf, -27.0, 8.0, inf]", [-np.inf, -3, 2, np.inf]),
              ("hypot [nan, inf, -inf, nan] [inf, nan, 1.0, 1.0]",
               np.hypot([np.nan, np.inf, -np.inf, np.nan],
                        [np.inf, np.nan, 1, 1])))
    for t in ("uint8", "int8", "int32", "int64"):
        info = np.iinfo(t)
        q = np.array([info.min, info.max, 1, 100, 37, 85, 0, 2], dtype=t)
        r = np.array([3, 5, info.max, info.min, 12, 51, 7, 1], dtype=t)
        k = np.array([0, 1, info.bits - 1, 2, 3, 4, 5, 6], dtype=t)
        far = np.array([info.bits, info.bits + 1, 64, 100] * 2, dtype=t)
        fit = {"int64": 3, "int32": 6}.get(t, 8) # in a line
        q, r, k, far = q[:fit], r[:fit], k[:fit], far[:fit]
        minus = [int(v < 0) * -1 for v in q]
        exact(f"bits_{TYPES[t]}", f"bit operations of {TYPES[t]}; a count "
              "beyond the width moves all bits out",
              {"a": q, "b": r, "k": k, "far": far},
              ("bit_and a b", q & r), ("bit_or a b", q | r),
              ("bit_xor a b", q ^ r), ("bit_not a", ~q),
              ("shift_left a k", q << k), ("shift_right a k", q >> k),
              ("shift_left a far", q * 0), ("shift_right a far", minus))
    x = np.array([1.0, -0.0, 3.5, 0.25, -1.5], dtype=np.float32)
    y = np.array([1.0, -0.0, -1.5])
    exact("bit_casts", "the bits of floats as integers, and back",
          {"x": x, "y": y, "i": x.view(np.int32), "j": y.view(np.int64)},
          ("bits_of_f32 x", x.view(np.int32)),
          ("bits_of_f64 y", y.view(np.int64)),
          ("bits_of_f32 (f32_of_bits (i + 1))", x.view(np.int32) + 1),
          ("f64_of_bits j == y", np.array([True] * 3)))
    a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -3, 5])
    exact("arith_i64", "+ - * / % of integers", {"a": a, "b": b},
          ("a + b", a + b), ("a - b", a - b), ("a * b", a * b),
          ("a / b", a // b), ("a % b", a % b))
    u, v = np.uint8([250, 3, 128]), np.uint8([10, 5, 2])
    exact("arith_u8", "u8 wraps around", {"a": u, "b": v},
          ("a + b", u + v), ("a - b", u - v), ("a * b", u * v),
          ("a / b", u // v), ("a % b", u % v))
    c, d = np.int32([2147483647, -2147483648]), np.int32([1, 1])
    exact("arith_i32", "i32 wraps around", {"a": c, "b": d},
          ("a + b", c + d), ("a - b", c - d), ("a * a", c * c))
    e, g = np.float32([5.5, -5.5, 5.5]), np.float32([2.0, 2.0, -2.0])
    exact("mod_float", "% of floats has the sign of the divisor",
          {"a": e, "b": g}, ("a % b", np.mod(e, g)), ("a / b", e / g))
    exact("pow_int", "pow of integers", {"a": np.array([2, 3, -2])},
          ("pow a [10, 3, 3]", np.power([2, 3, -2], [10, 3, 3])))
    s, t = np.float32([1.0, np.nan, 3.0]), np.float32([2.0, 0.0, np.nan])
    exact("maximum", "maximum and minimum; NaN propagates", {"a": s, "b": t},
          ("maximum a b", np.maximum(s, t)), ("minimum a b", np.minimum(s, t)))
    w, z = np.array([1, 2, 3]), np.array([3, 2, 1])
    exact("compare", "comparisons", {"a": w, "b": z},
          ("a == b", w == z), ("a != b", w != z), ("a < b", w < z),
          ("a <= b", w <= z), ("a > b", w > z), ("a >= b", w >= z))
    p, q = np.array([True, True, False, False]), np.array([True, False] * 2)
    exact("logic", "&& || not of tensors", {"p": p, "q": q},
          ("p && q", p & q), ("p || q", p | q), ("not p", ~p))
    exact("select", "select with a row and a scalar",
          {"c": np.array([[True, False], [False, True]]),
           "a": np.array([1, 2])},
          ("select c a (-1)", np.where([[True, False], [False, True]],
                                       [1, 2], -1)))
    hh = np.float16([2049, 1, 10])
    exact("f16_arith", "f16 rounds after every operation", {"x": hh},
          ("f32 (x + x)", (hh + hh).astype("float32")),
          ("f32 (x / 3.0)", (hh / np.float16(3)).astype("float32")))


def reductions():
    x = np.arange(24).reshape(2, 3, 4) * 7 % 11
    for name, f in (("sum", np.sum), ("prod", np.prod), ("max", np.max),
                    ("min", np.min)):
        y = x % 3 + 1 if name == "prod" else x
        exact(name, f"{name} over each axis, several, all, with ~keep",
              {"x": y},
              (f"{name} x", f(y)),
              (f"{name} ~axis:0 x", f(y, axis=0)),
              (f"{name} ~axis:1 x", f(y, axis=1)),
              (f"{name} ~axis:-1 x", f(y, axis=-1)),
              (f"{name} ~axis:(0, 1) x", f(y, axis=(0, 1))),
              (f"{name} ~axis:(-2, -1) x", f(y, axis=(-2, -1))),
              (f"{name} ~axis:1 ~keep:true x", f(y, axis=1, keepdims=True)),
              (f"{name} ~keep:true x", f(y, keepdims=True)))
    for name, f in (("argmax", np.argmax), ("argmin", np.argmin)):
        exact(name, f"{name}: the first of equal elements; the last axis by default",
              {"x": x},
              (f"{name} x", f(x, axis=-1)),
              (f"{name} ~axis:0 x", f(x, axis=0)),
              (f"{name} ~axis:1 ~keep:true x",
               np.expand_dims(f(x, axis=1), 1)))
    b = x > 3
    exact("any_all", "any and all over axes", {"b": b},
          ("any b", b.any()), ("all b", b.all()),
          ("any ~axis:0 b", b.any(axis=0)), ("all ~axis:-1 b", b.all(axis=-1)))
    f = np.float32([[1, 2, 6], [4, 4, 4.5]])
    near("mean_var", "mean, var and std over axes", {"x": f},
         "concat ~axis:0 (mean ~axis:0 $x, var ~axis:1 $x, std ~axis:0 $x)",
         lambda v: np.concatenate([v.mean(0), v.var(1), v.std(0)]))
    exact("sum_bool_count", "count", {"b": b},
          ("count b", b.sum()), ("count ~axis:0 b", b.sum(axis=0)))
    exact("cumsum", "prefix sums along axes", {"x": x[0]},
          ("cumsum x", np.cumsum(x[0], axis=-1)),
          ("cumsum ~axis:0 x", np.cumsum(x[0], axis=0)))
    fourier()
    exact("sum_u8", "a sum has the type of its elements, and wraps",
          {"x": np.uint8([200, 100])}, ("sum x", np.uint8(44)))
    write("sum_float_accuracy", "a sum of a million f32 stays accurate",
          "val x : f32[1000000] = full [1000000] 0.1\n"
          "do print (abs (sum x - 100000.0) < 1.0)\n", "true")
    near("logsumexp", "logsumexp without overflow",
         {"x": [[1000.0, 1001.0], [-5.0, 2.0]]}, "logsumexp ~axis:1 $x",
         lambda v: np.log(np.exp(v - v.max(1, keepdims=True)).sum(1))
         + v.max(1))
    near("softmax", "softmax along the last and the first axis",
         {"x": [[1.0, 2.0, 3.0], [0.0, -1.0, 5.0]]},
         "softmax $x + softmax ~axis:0 $x",
         lambda v: np.exp(v) / np.exp(v).sum(1, keepdims=True)
         + np.exp(v) / np.exp(v).sum(0, keepdims=True))


def fourier():
    """Fourier transforms along each axis, and of long vectors."""
    rng = np.random.default_rng(5)
    program, results = "", []

    def case(text, x):
        nonlocal program
        program += f"do print ({text})\n"
        results.append(x)

    def parts(text, z):
        case(f"({text}).re", z.real)
        case(f"({text}).im", z.imag)
    for n in (1, 2, 3, 5, 7, 8):
        x = rng.standard_normal((2, n)).round(2)
        y = rng.standard_normal((2, n)).round(2)
        program += typed(f"x{n}", x) + typed(f"y{n}", y)
        z, name = x + 1j * y, f"{{re = x{n}, im = y{n}}}"
        parts(f"fft.fft {name}", np.fft.fft(z))
        parts(f"fft.ifft {name}", np.fft.ifft(z))
        parts(f"fft.fft ~axis:all {name}", np.fft.fft2(z))
        parts(f"fft.ifft ~axis:0 {name}", np.fft.ifft(z, axis=0))
        parts(f"fft.rfft x{n}", np.fft.rfft(x))
        parts(f"fft.rfft ~axis:0 x{n}", np.fft.rfft(x, axis=0))
        parts(f"fft.rfft2 x{n}", np.fft.rfft2(x))
        for m in (2 * n - 2, 2 * n - 1):
            if 0 < m < 9:
                case(f"fft.irfft {m} {name}", np.fft.irfft(z, m))
                case(f"fft.irfft2 {m} {name}", np.fft.irfft2(z, (2, m)))
        case(f"fft.freq ~step:2.0 {n}", np.fft.fftfreq(n, 2.0))
        case(f"fft.rfreq {n}", np.fft.rfftfreq(n))
        case(f"fft.shift x{n}", np.fft.fftshift(x, axes=-1))
        case(f"fft.unshift x{n}", np.fft.ifftshift(x, axes=-1))
    for n, t in ((13, "float64"), (127, "float32"), (127, "float64")):
        x = rng.standard_normal(n).round(2).astype(t)
        want = np.fft.rfft(x)
        tol = "1e-4" if t == "float32" else "1e-12"
        s = f"{n}{TYPES[t]}"
        program += typed(f"x{s}", x)
        for part in ("real", "imag"):
            program += typed(f"{part}{s}", getattr(want, part).astype(t))
        program += (
            f"do print (allclose ~rtol:0.0 ~atol:{tol} (fft.rfft x{s}).re real{s}, "
            f"allclose ~rtol:0.0 ~atol:{tol} (fft.rfft x{s}).im imag{s})\n")
        results.append("(true, true)")
    write("fourier", "Fourier transforms of lengths 1 to 127", program, *results)


def shared_rows():
    """Separate rows and one shared row, which prefix sums materialize.  The
    elements are integers, whose sums are exact in any order."""
    def ours(name, t, n, m, seed):
        i, j = np.arange(n)[:, None], np.arange(m)
        x = np.cumsum((i * 7 + j * 3 + seed) % 5 - 2, 1).astype(t)
        text = (f"val {name} = cumsum ~axis:1 (for i < {n}, j < {m} => "
                f"{TYPES[t]} ((i * 7 + j * 3 + {seed}) % 5 - 2))\n")
        return x, text
    program, results = "", []

    def case(text, x):
        nonlocal program
        program += f"do print ({text})\n"
        results.append(x)
    sizes = ((1, 64), (3, 37), (4, 128), (9, 100), (7, 2500), (6, 16))
    for t in ("float32", "float64"):
        for n, m in sizes:
            a, name = f"a{n}{TYPES[t]}", f"v{n}{TYPES[t]}"
            x, text = ours(a, t, n, m, 1)
            y, more = ours(name, t, 1, m, 3)
            program += text + more
            v = f"{name}.[0, :]"
            case(f"dot {a} {v}", (x * y[0]).sum(1))
            case(f"maximum 1.0 (dot {a} {v} + 3.0)",
                 np.maximum((x * y[0]).sum(1) + 3, 1))
            case(f"sum ~axis:1 ({a} - {v}) + sum ~axis:1 ({a} * {v})",
                 (x - y[0]).sum(1) + (x * y[0]).sum(1))
            case(f"sum ~axis:2 (for b < 2 => f64 (b + 1) * {a} * {v})"
                 if t == "float64" else f"{a} @ transpose {name}",
                 np.stack([(x * y[0]).sum(1), 2 * (x * y[0]).sum(1)])
                 if t == "float64" else x @ y.T)
    write("shared_rows", "reductions that share a row", program, *results)


def products():
    a = np.arange(6).reshape(2, 3) - 2
    b = np.arange(12).reshape(3, 4) % 5
    exact("matmul", "matrix product", {"a": a, "b": b}, ("a @ b", a @ b))
    c = np.arange(12).reshape(2, 2, 3)
    exact("matmul_batch", "a batch of matrices with one matrix",
          {"c": c, "b": b}, ("c @ b", c @ b))
    d = np.arange(24).reshape(2, 3, 4) % 7
    exact("matmul_batches", "two batches of matrices", {"c": c, "d": d},
          ("c @ d", c @ d))
    exact("matmul_empty", "an empty inner axis gives zeros",
          {"x": np.zeros((2, 3), dtype="int64")},
          ("x.[:, :0] @ zeros [0, 2]", np.zeros((2, 2), dtype="int64")))
    v, w = np.array([1, 2, 3]), np.array([4, 5, 6])
    exact("dot_outer", "dot, also of rows, and outer", {"v": v, "w": w, "a": a},
          ("dot v w", v @ w), ("dot a v", a @ v), ("outer v w", np.outer(v, w)))
    shared_rows()
    x = np.arange(8).reshape(2, 2, 2)
    m = np.arange(9).reshape(3, 3)
    exact("einsum", "einsum: products, traces, transposes, batches",
          {"a": a, "b": b, "x": x, "m": m, "v": v},
          ('einsum "i j, j k -> i k" a b', a @ b),
          ('einsum "i j -> j i" a', a.T),
          ('einsum "i j -> i" a', a.sum(1)),
          ('einsum "i j ->" a', a.sum()),
          ('einsum "i i ->" m', np.trace(m)),
          ('einsum "i i -> i" m', np.diag(m)),
          ('einsum "i, j -> i j" v v', np.outer(v, v)),
          ('einsum "b i j, b j k -> b i k" x x', x @ x),
          ('einsum "i, i, i ->" v v v', (v ** 3).sum()))
    exact("einsum_ellipsis", "... stands for any axes", {"x": x},
          ('einsum "... i j -> ... j i" x', x.swapaxes(1, 2)))
    near("matmul_float", "matrix product of floats",
         {"a": np.linspace(-1, 1, 12).reshape(3, 4),
          "b": np.linspace(2, 3, 8).reshape(4, 2)}, "$a @ $b",
         lambda a, b: a @ b, rtol="1e-5")


def moves():
    x = np.arange(6).reshape(2, 3)
    y = np.arange(12).reshape(2, 3, 2)
    exact("reshape", "reshape, with _ solved for", {"x": x},
          ("reshape [3, 2] x", x.reshape(3, 2)),
          ("reshape [_] x", x.ravel()), ("reshape [_, 2] x", x.reshape(-1, 2)),
          ("reshape [1, 6] x", x.reshape(1, 6)))
    exact("flatten", "flatten keeps the leading axis", {"y": y},
          ("flatten y", y.reshape(2, 6)))
    exact("transpose", "transpose exchanges the last two axes",
          {"x": x, "y": y}, ("transpose x", x.T),
          ("transpose y", y.swapaxes(1, 2)))
    exact("permute", "permute by names", {"y": y},
          ('permute "a b c -> c a b" y', y.transpose(2, 0, 1)))
    exact("concat", "concat along both axes, of three", {"x": x},
          ("concat ~axis:0 (x, x + 10)", np.concatenate([x, x + 10])),
          ("concat ~axis:-1 (x, x.[:, :1], x)",
           np.concatenate([x, x[:, :1], x], axis=1)))
    exact("stack", "stack of a list", {"x": x},
          ("stack (list [x, x + 10])", np.stack([x, x + 10])))
    write("split", "split into pieces of given sizes, one of them _",
          "val x = [0, 1, 2, 3, 4, 5]\n"
          "val (a, b, c) = split ~axis:0 [1, _, 2] x\ndo print a\ndo print b\n"
          "do print c\n", np.arange(1), np.arange(1, 4), np.arange(4, 6))
    exact("pad", "pad before and after, with a value", {"x": x},
          ("pad ~axis:0 ~before:1 x", np.pad(x, [(1, 0), (0, 0)])),
          ("pad ~axis:1 ~before:1 ~after:2 ~value:9 x",
           np.pad(x, [(0, 0), (1, 2)], constant_values=9)))
    exact("reverse", "reverse along axes", {"x": x},
          ("reverse ~axis:0 x", x[::-1]), ("reverse ~axis:-1 x", x[:, ::-1]))
    exact("roll", "roll forwards, backwards, by more than the axis size",
          {"x": x}, ("roll ~axis:1 1 x", np.roll(x, 1, axis=1)),
          ("roll ~axis:1 (-1) x", np.roll(x, -1, axis=1)),
          ("roll ~axis:0 5 x", np.roll(x, 5, axis=0)))
    exact("tile_repeat", "tile repeats the tensor, repeat each element",
          {"x": x}, ("tile ~axis:1 2 x", np.tile(x, (1, 2))),
          ("repeat ~axis:0 2 x", np.repeat(x, 2, axis=0)))
    exact("squeeze", "squeeze removes axes of one",
          {"x": np.array([[[1], [2]]])},
          ("squeeze ~axis:0 x", np.array([[1], [2]])),
          ("squeeze ~axis:-1 x", np.array([[1, 2]])))
    exact("broadcast", "broadcast to a shape", {"x": np.array([1, 2])},
          ("broadcast [2, 2] x", np.broadcast_to([1, 2], (2, 2))))
    i = np.array([[2, 0], [1, 1]])
    g = np.array([[1, 2], [3, 4], [5, 6]])
    exact("gather", "gather rows by a matrix of indices", {"x": g, "i": i},
          ("gather x i", g[i]))
    s = np.zeros(4, dtype="int64")
    np.add.at(s, [1, 3, 1], [10, 20, 30])
    exact("scatter", "scatter adds, also several elements at one index",
          {"x": np.zeros(4, dtype="int64")},
          ("scatter x [1, 3, 1] [10, 20, 30]", s))
    exact("one_hot", "one_hot of a matrix", {"i": np.array([[0, 2], [1, 0]])},
          ("i64 (one_hot 3 i)", np.eye(3, dtype="int64")[[[0, 2], [1, 0]]]))
    u = np.array([[3, 1, 2], [9, 9, 0]])
    exact("sort", "sort and argsort along axes; stable", {"x": u},
          ("sort x", np.sort(u)), ("sort ~axis:0 x", np.sort(u, axis=0)),
          ("argsort x", np.argsort(u, kind="stable")))
    n = np.float32([2.0, np.nan, -1.0, np.inf])
    exact("sort_nan", "NaN comes last", {"x": n}, ("sort x", np.sort(n)))
    write("topk", "topk: the largest elements first, and their indices",
          "val (v, i) = topk 2 [[3, 1, 2], [7, 9, 8]]\ndo print v\n"
          "do print i\n", np.array([[3, 2], [9, 8]]), np.array([[0, 2], [1, 2]]))
    q = np.arange(1, 10).reshape(3, 3)
    exact("tril_triu", "tril and triu", {"x": q},
          ("tril x", np.tril(q)), ("triu x", np.triu(q)))
    exact("unique", "unique", {"x": np.array([5, 1, 5, 3])},
          ("unique x", np.array([1, 3, 5])))
    exact("filter", "filter rows", {"x": q},
          ("filter (fn r => sum r % 2 == 1) x", q[q.sum(1) % 2 == 1]))


def making():
    exact("make", "zeros, ones, full, iota, eye", {"k": np.array(2)},
          ("zeros [2, 2] + 0", np.zeros((2, 2), dtype="int64")),
          ("ones [2] + 0.5", np.ones(2, dtype="float32") + np.float32(0.5)),
          ("full [2, 1] k", np.full((2, 1), 2)),
          ("iota 4 * 2", np.arange(4) * 2),
          ("eye 3 * 5", np.eye(3, dtype="int64") * 5))
    exact("ranges", "linspace and arange", {"k": np.array(2)},
          ("linspace 0.0 1.0 5", np.linspace(0, 1, 5, dtype="float32")),
          ("arange 2 6", np.arange(2, 6)))
    a, b = np.array([[1, 2], [3, 4]]), np.array([[0, 1], [1, 0]])
    exact("matrices", "diagonal, diag, diag_sum, kron, matrix_power, diff",
          {"a": a, "b": b},
          ("diagonal a", np.diag(a)), ("diag [1, 2]", np.diag([1, 2])),
          ("diag_sum a", np.trace(a)), ("kron a b", np.kron(a, b)),
          ("matrix_power 5 a", np.linalg.matrix_power(a, 5)),
          ("diff [1, 4, 9]", np.diff([1, 4, 9])),
          ("convolve [1, 2] [1, 2, 3]",
           np.convolve([1, 2, 3], [1, 2], mode="valid")),
          ("correlate [1, 2] [1, 2, 3]",
           np.correlate([1, 2, 3], [1, 2], mode="valid")),
          ("cumprod [1, 2, 3]", np.cumprod([1, 2, 3])))
    near("statistics", "median, cov, corr, norm",
         {"x": [5.0, 1.0, 2.0, 4.0], "y": [1.0, 0.0, 2.0, 8.0]},
         "stack (list [median $x, cov $x $y, corr $x $y, norm $x])",
         lambda x, y: np.array([np.median(x), np.cov(x, y, bias=True)[0, 1],
                                np.corrcoef(x, y)[0, 1],
                                np.linalg.norm(x)]))


# ---- files to load ----

def png(path, x):
    """An 8-bit PNG, gray or RGB, without NumPy."""
    h, w, c = x.shape
    raw = b"".join(b"\0" + row.tobytes() for row in x)

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n"
                + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8,
                                             {1: 0, 3: 2}[c], 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def files():
    os.makedirs(FILES, exist_ok=True)
    at = lambda name: os.path.join(FILES, name)
    m = np.float32([[1, 2, 3], [4, 5, 6]])
    np.save(at("matrix.npy"), m)
    for folder in "shape", "error":
        other = os.path.join(ROOT, folder, "files")
        os.makedirs(other, exist_ok=True)
        np.save(os.path.join(other, "matrix.npy"), m)
    np.savez(os.path.join(other, "two.npz"), images=m)
    np.save(at("fortran.npy"), np.asfortranarray(m))
    np.save(at("ints.npy"), np.array([3, 1, 2]))
    np.save(at("doubles.npy"), np.array([0.5, 0.25]))
    np.save(at("bools.npy"), np.array([True, False]))
    np.save(at("scalar.npy"), np.float32(2.5))
    np.save(at("complex.npy"), np.complex64([[1 + 2j, 3 - 4j]]))
    np.savez(at("two.npz"), images=np.uint8([[1, 2], [3, 4]]),
             labels=np.array([7, 9]))
    with open(at("table.csv"), "w") as f:
        f.write("1,2\n3,4\n5,6\n")
    with open(at("header.csv"), "w") as f:
        f.write("width,height\n1.5,2\n3,4e1\n")
    png(at("gray.png"), np.uint8([[[0], [128]], [[255], [7]]]))
    png(at("rgb.png"), np.arange(18, dtype="uint8").reshape(2, 3, 3))
    with open(at("tiny.pgm"), "wb") as f:
        f.write(b"P5\n2 2\n255\n" + bytes([1, 2, 3, 4]))
    w = np.float32([[1.5, -2.0]]).tobytes()
    head = b'{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},'
    head += b'"n":{"dtype":"I64","shape":[2],"data_offsets":[8,24]}}'
    head += b" " * (-len(head) % 8)
    with open(at("weights.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + w
                + np.array([4, 2]).tobytes())


os.makedirs(OPS, exist_ok=True)
np.seterr(all="ignore")
pointwise()
linear_algebra()
arrays()
reductions()
products()
moves()
making()
files()
