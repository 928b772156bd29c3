"""Random programs under construction: element types, and values with their
NumPy arrays."""
import math

import numpy as np

np.seterr(all="ignore")
INTS = ["u8", "i8", "i32", "i64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
NP = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i32": np.int32,
      "i64": np.int64, "f16": np.float16, "bf16": np.float32,
      "f32": np.float32, "f64": np.float64}
SAFE = {"bool": "BOOL", "u8": "U8", "i8": "I8", "i32": "I32", "i64": "I64",
        "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"}
EPS = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22, "f64": 2.0**-50}


# ---- element types ----

def bf16(x):
    """Rounds float64 (or float32) to bfloat16, once, held in float32."""
    x = np.asarray(x, np.float64)
    m, e = np.frexp(x)
    shift = np.maximum(e, -125) - 8
    y = np.ldexp(np.rint(np.ldexp(x, -shift)), shift)
    y = np.where(np.isfinite(x), y, x)
    y = np.where(np.abs(y) >= 2.0**128, np.copysign(np.inf, y), y)
    return y.astype(np.float32)


def is_float(dt):
    return dt in FLOATS


def fit(dt, x):
    """Rounds a value of a wider type."""
    if dt == "bf16":
        return bf16(x)
    return np.asarray(x).astype(NP[dt])


def wide(dt, x):
    """The type in which elements are computed."""
    return x.astype(np.float32) if dt in ("f16", "bf16") else x


def convert(x, a, b):
    """Axon's conversion from type a to b."""
    if b == "bool":
        return x != 0
    if is_float(a) and not is_float(b):
        info = np.iinfo(NP[b])
        v = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0,
                                   posinf=1e300, neginf=-1e300))
        flat = [min(max(int(t), int(info.min)), int(info.max))
                for t in v.ravel()]
        return np.array(flat, NP[b]).reshape(x.shape)
    if b == "bf16":
        return bf16(x)
    return x.astype(NP[b])


# ---- values of a program ----

class Value:
    """A name, its element type, its broadcast axes, whether it is exact, and
    its array for the first element of the batch."""

    def __init__(self, name, dt, arr, stars=None, exact=True):
        self.name, self.dt, self.arr, self.exact = name, dt, arr, exact
        self.stars = tuple(stars) if stars is not None \
            else (False,) * arr.ndim
        assert len(self.stars) == arr.ndim, name

    @property
    def shape(self):
        return self.arr.shape


class Skip(Exception):
    pass


class Program:
    def __init__(self, rng, mode):
        self.rng, self.mode = rng, mode
        self.batch = rng.randint(1, 3) if mode == "for" else 1
        self.inputs = []        # (name, dt, [arrays])
        self.steps = []         # (name, text, function of env, value)
        self.values = []
        self.loose = 1          # allowed rounding errors of the result
        self.zeros = True       # whether signs of zeros are compared

    # -- inputs --
    def data(self, dt, shape):
        r, n = self.rng, int(np.prod(shape))
        if dt == "bool":
            v = [r.random() < 0.5 for _ in range(n)]
        elif not is_float(dt):
            info = np.iinfo(NP[dt])
            style = r.random()
            if style < 0.25:
                v = [r.randint(int(info.min), int(info.max)) for _ in range(n)]
            elif style < 0.5:
                v = [r.choice([0, 1, 2, 3, int(info.min), int(info.max)])
                     for _ in range(n)]
            else:
                v = [r.randint(0 if dt == "u8" else -5, 6) for _ in range(n)]
        else:
            special = r.random() < 0.25
            v = []
            for _ in range(n):
                if special and r.random() < 0.3:
                    v.append(r.choice([math.nan, math.inf, -math.inf, -0.0,
                                       0.0, 1e-7, 65504.0]))
                else:
                    v.append(r.randint(-12, 12) / 4)
        return fit(dt, np.array(v, np.float64).reshape(shape)) \
            if is_float(dt) else np.array(v, NP[dt]).reshape(shape)

    def input(self, dt, shape):
        name = f"x{len(self.inputs)}"
        arrays = [self.data(dt, shape) for _ in range(self.batch)]
        self.inputs.append((name, dt, arrays))
        v = Value(name, dt, arrays[0])
        self.values.append(v)
        return v

    def shape(self, rank=None):
        r = self.rng
        rank = r.choice([0, 1, 1, 2, 2, 3]) if rank is None else rank
        if rank == 1 and r.random() < 0.1:
            return (r.randint(6, 700),)
        # the type checker does not assume that an unknown size is 0
        few = [1, 2] if self.mode == "forget" else [0, 1, 2]
        return tuple(r.choice(few + [3, 3, 4, 5]) for _ in range(rank))

    def pick(self, want=lambda v: True, dts=None, rank=None):
        """A suitable value, or a new input."""
        r = self.rng
        fits = [v for v in self.values if want(v)
                and (dts is None or v.dt in dts)
                and (rank is None or v.arr.ndim == rank)]
        if fits and r.random() < 0.85:
            return fits[-1] if r.random() < 0.6 else r.choice(fits)
        for _ in range(20):
            v = self.input(r.choice(dts or INTS + FLOATS + ["bool"]),
                           self.shape(rank))
            if want(v):
                return v
            self.inputs.pop()
            self.values.pop()
        raise Skip

    def add(self, text, fn, dt, args, stars=None, exact=True):
        """Adds a step; fn computes its arrays from those of args."""
        name = f"t{len(self.steps)}"
        arr = np.asarray(fn(*[a.arr for a in args]))
        if arr.size > 4000:
            raise Skip
        if dt != "bf16" and arr.dtype != NP[dt]:
            raise AssertionError((text, arr.dtype, dt))
        v = Value(name, dt, arr, stars,
                  exact and all(a.exact for a in args))
        self.steps.append((name, text, fn, [a.name for a in args]))
        self.values.append(v)
        return v

    def expected(self, b):
        env = {name: arrays[b] for name, _, arrays in self.inputs}
        for name, _, fn, args in self.steps:
            env[name] = np.asarray(fn(*[env[a] for a in args]))
        return env[self.steps[-1][0]]


def num(v):
    return v.dt != "bool"


def exact(v):
    return v.exact


def lit(dt, x):
    """A literal, for use as an argument."""
    if dt == "bool":
        return "true" if x else "false"
    text = repr(float(x)) if is_float(dt) else str(int(x))
    return f"({text})"


def small(p, dt):
    if dt == "bool":
        return p.rng.random() < 0.5
    x = p.rng.randint(0 if dt == "u8" else -4, 5)
    return x / 2 if is_float(dt) else x


def joined(a, b):
    """The broadcast axes of a join, or None if the shapes do not broadcast."""
    n = max(a.arr.ndim, b.arr.ndim)
    out = []
    for i in range(-n, 0):
        axes = [(v.shape[i], v.stars[i]) for v in (a, b) if -i <= v.arr.ndim]
        sizes = {s for s, star in axes if not star}
        if len(sizes) > 1:
            return None
        out.append(not sizes)
    return out


def partner(p, a, dt=None):
    """A second operand that broadcasts with a."""
    r, dt = p.rng, dt or a.dt
    fits = [v for v in p.values if v.dt == dt and joined(a, v) is not None]
    if fits and r.random() < 0.6:
        return r.choice(fits)
    if any(a.stars):
        shape = a.shape
        return p.input(dt, tuple(r.randint(1, 3) if s else n
                                 for n, s in zip(shape, a.stars)))
    return p.input(dt, a.shape[r.randint(0, a.arr.ndim):])
