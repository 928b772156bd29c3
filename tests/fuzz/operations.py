"""The operations of random programs: each adds a step to a program."""
import math

import numpy as np

from values import (FLOATS, INTS, NP, Skip, convert, exact, fit, is_float,
                    joined, lit, num, partner, small, wide)


OPS = []


def op(weight=1):
    def register(f):
        OPS.extend([f] * weight)
        return f
    return register


def arith(dt, f):
    """An elementwise function, computed in the compute type and rounded."""
    return lambda *xs: fit(dt, f(*[wide(dt, np.asarray(x)) for x in xs]))


@op(4)
def op_arith(p):
    a = p.pick(num)
    b = partner(p, a)
    sym, f = p.rng.choice([("+", np.add), ("-", np.subtract),
                           ("*", np.multiply)])
    p.add(f"{a.name} {sym} {b.name}", arith(a.dt, f), a.dt, [a, b],
          joined(a, b))


@op(2)
def op_const(p):
    a = p.pick(num)
    c = small(p, a.dt)
    cc = fit(a.dt, c)
    sym, f = p.rng.choice([("+", np.add), ("-", np.subtract),
                           ("*", np.multiply)])
    if p.rng.random() < 0.5:
        p.add(f"{a.name} {sym} {lit(a.dt, c)}",
              arith(a.dt, lambda x: f(x, wide(a.dt, cc))), a.dt, [a], a.stars)
    else:
        p.add(f"{lit(a.dt, c)} {sym} {a.name}",
              arith(a.dt, lambda x: f(wide(a.dt, cc), x)), a.dt, [a], a.stars)


def int_div(x, y):
    return np.where(y == -1, (0 * x - x).astype(x.dtype),
                    np.floor_divide(x, np.where(y == 0, 1, y)))


def int_mod(x, y):
    return np.where(y == -1, np.zeros_like(x),
                    np.remainder(x, np.where(y == 0, 1, y)))


@op(2)
def op_div(p):
    a = p.pick(num)
    b = partner(p, a)
    sym = p.rng.choice("/%")
    if is_float(a.dt):
        if sym == "%" and not (a.exact and b.exact):
            raise Skip
        f = np.divide if sym == "/" else np.remainder
        p.add(f"{a.name} {sym} {b.name}", arith(a.dt, f), a.dt, [a, b],
              joined(a, b))
        return
    g = int_div if sym == "/" else int_mod

    def f(x, y):
        return g(x, np.where(y == 0, np.ones_like(y), y)).astype(x.dtype)
    p.add(f"{a.name} {sym} select ({b.name} == 0) 1 {b.name}", f, a.dt,
          [a, b], joined(a, b))


@op(2)
def op_minmax(p):
    a = p.pick(num)
    b = partner(p, a)
    name, f = p.rng.choice([("maximum", np.maximum), ("minimum", np.minimum)])
    # either zero may be the result: + 0 removes the sign
    z = "0.0" if is_float(a.dt) else "0"
    p.add(f"{name} {a.name} {b.name} + {z}",
          lambda x, y: f(x, y) + np.zeros((), x.dtype), a.dt, [a, b],
          joined(a, b))


@op(2)
def op_compare(p):
    a = p.pick(lambda v: exact(v))
    b = partner(p, a)
    if not b.exact:
        raise Skip
    syms = [("==", np.equal), ("!=", np.not_equal)]
    if num(a):
        syms += [("<", np.less), ("<=", np.less_equal), (">", np.greater),
                 (">=", np.greater_equal)]
    sym, f = p.rng.choice(syms)
    p.add(f"{a.name} {sym} {b.name}", f, "bool", [a, b], joined(a, b))


@op(2)
def op_select(p):
    a = p.pick()
    b = partner(p, a)
    s = joined(a, b)
    shape = tuple(n if not st else 1 for n, st in zip(
        np.broadcast_shapes(a.shape, b.shape), s))
    if any(s):
        raise Skip
    c = p.input("bool", shape[p.rng.randint(0, len(shape)):])
    p.add(f"select {c.name} {a.name} {b.name}", np.where, a.dt, [c, a, b], s)


@op(2)
def op_unary(p):
    a = p.pick()
    if not num(a):
        p.add(f"not {a.name}", np.logical_not, "bool", [a], a.stars)
        return
    if is_float(a.dt):
        names = [("abs", np.abs), ("negate", np.negative), ("sqrt", np.sqrt),
                 ("sign", lambda x: np.sign(x) + 0.0)]
        if a.exact:
            names += [("floor", np.floor), ("ceil", np.ceil),
                      ("round", np.rint), ("trunc", np.trunc)]
        name, f = p.rng.choice(names)
        z = " + 0.0" if name == "sign" else ""
        p.add(f"{name} {a.name}{z}", arith(a.dt, f), a.dt, [a], a.stars)
        return
    name, f = p.rng.choice([("abs", np.abs), ("sign", np.sign),
                            ("negate", lambda x: (0 * x - x))])
    p.add(f"{name} {a.name}", lambda x: f(x).astype(x.dtype), a.dt, [a],
          a.stars)


@op(1)
def op_inexact(p):
    a = p.pick(exact, FLOATS)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    name, f = p.rng.choice([
        ("exp", np.exp), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos),
        ("log", np.log), ("erf", erf), ("expm1", np.expm1),
        ("log1p", np.log1p), ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("cosh", np.cosh), ("sinh", np.sinh)])
    p.loose += 4
    p.add(f"{name} {a.name}",
          lambda x: fit(a.dt, f(x.astype(np.float64))), a.dt, [a], a.stars,
          exact=False)


@op(2)
def op_convert(p):
    a = p.pick()
    dt = p.rng.choice(INTS + FLOATS + ["bool"])
    if not is_float(dt) and not a.exact:
        raise Skip
    p.add(f"{dt} {a.name}", lambda x: convert(x, a.dt, dt), dt, [a], a.stars)


def axis_choice(p, a, many=True):
    """One axis or several adjacent ones: source and tuple."""
    n = a.arr.ndim
    r = p.rng
    if n == 0:
        raise Skip
    i = r.randrange(n)
    if any(a.stars) and p.mode == "function" or a.stars[i]:
        raise Skip
    if many and n > 1 and r.random() < 0.3:
        j = r.randint(i, n - 1)
        axes = tuple(range(i, j + 1))
        if any(a.stars[k] for k in axes):
            raise Skip
        if len(axes) > 1:
            shift = n if r.random() < 0.5 else 0
            return "(" + ", ".join(str(k - shift) for k in axes) + ")", axes
    return str(i - (n if r.random() < 0.5 else 0)), (i,)


def least(dt):
    return -np.inf if is_float(dt) else np.iinfo(NP[dt]).min


def greatest(dt):
    return np.inf if is_float(dt) else np.iinfo(NP[dt]).max


@op(5)
def op_reduce(p):
    a = p.pick()
    r = p.rng
    keep = r.random() < 0.4
    args = ""
    if a.arr.ndim and r.random() < 0.75:
        text, axes = axis_choice(p, a)
        args += f" ~axis:{text}"
    else:
        axes = tuple(range(a.arr.ndim))
    if keep:
        args += " ~keep:true"
    stars = [True if i in axes else s for i, s in enumerate(a.stars)
             if keep or i not in axes]
    kw = {"axis": axes, "keepdims": keep}
    dt = a.dt
    if dt == "bool":
        name, f = r.choice([("any", np.any), ("all", np.all)])
        p.add(f"{name}{args} {a.name}", lambda x: f(x, **kw), dt, [a], stars)
        return
    kind = r.choice(["sum", "sum", "prod", "max", "min", "mean", "var"])
    if kind in ("mean", "var") and not is_float(dt):
        kind = "sum"
    acc = np.float64 if dt in ("f32", "f64") else np.float32 \
        if is_float(dt) else NP[dt]
    count = int(np.prod([a.shape[i] for i in axes]))
    if kind in ("sum", "prod"):
        p.zeros = False         # of a scalar: NumPy adds 0.0
        f = np.sum if kind == "sum" else np.prod
        if kind == "prod" and is_float(dt):
            p.loose += 4
        same = kind == "sum" or not is_float(dt) or dt == "f64"
        p.add(f"{kind}{args} {a.name}",
              lambda x: fit(dt, f(x.astype(acc), dtype=acc, **kw)), dt, [a],
              stars, exact=(same or not is_float(dt)) and
              (dt != "f64" or kind == "sum"))
    elif kind in ("max", "min"):
        f = np.max if kind == "max" else np.min
        first = least(dt) if kind == "max" else greatest(dt)
        z = "0.0" if is_float(dt) else "0"
        p.add(f"{kind}{args} {a.name} + {z}",
              lambda x: fit(dt, f(x, initial=first, **kw)
                            + np.zeros((), NP[dt])), dt, [a], stars)
    else:
        p.loose += 8

        def mean(x):
            s = fit(dt, np.sum(x.astype(acc), dtype=acc, **kw))
            n = wide(dt, fit(dt, count))
            return fit(dt, wide(dt, s) / n)

        def var(x):
            s = fit(dt, np.sum(x.astype(acc), dtype=acc, axis=axes,
                               keepdims=True))
            m = fit(dt, wide(dt, s) / wide(dt, fit(dt, count)))
            d = fit(dt, wide(dt, x) - wide(dt, m))
            return mean(fit(dt, wide(dt, d) * wide(dt, d)))
        p.add(f"{kind}{args} {a.name}", mean if kind == "mean" else var, dt,
              [a], stars, exact=kind == "mean")


@op(2)
def op_arg(p):
    a = p.pick(lambda v: num(v) and v.exact and v.arr.ndim > 0)
    text, axes = axis_choice(p, a, many=False)
    if a.shape[axes[0]] == 0:
        raise Skip
    name, f = p.rng.choice([("argmax", np.argmax), ("argmin", np.argmin)])
    keep = p.rng.random() < 0.3
    stars = [True if i in axes else s for i, s in enumerate(a.stars)
             if keep or i not in axes]
    p.add(f"{name} ~axis:{text}{' ~keep:true' if keep else ''} {a.name}",
          lambda x: f(x, axis=axes[0], keepdims=keep), "i64", [a], stars)


def product(dt, f):
    acc = np.float64 if dt in ("f32", "f64") else np.float32 \
        if is_float(dt) else NP[dt]
    return lambda *xs: fit(dt, f(*[x.astype(acc) for x in xs]))


def plain(v):
    return not any(v.stars)


@op(2)
def op_matmul(p):
    a = p.pick(lambda v: num(v) and v.arr.ndim >= 2 and plain(v))
    r = p.rng
    if r.random() < 0.3:
        b = p.input(a.dt, (a.shape[-1],))
        p.add(f"dot {a.name} {b.name}",
              product(a.dt, lambda x, y: np.einsum("...k,k->...", x, y)),
              a.dt, [a, b])
        return
    front = a.shape[:-2][r.randint(0, a.arr.ndim - 2):]
    fits = [v for v in p.values if v.dt == a.dt and v.arr.ndim >= 2
            and plain(v) and v.shape[-2] == a.shape[-1]
            and (v.arr.ndim == 2 or v.shape[:-2] == a.shape[:-2])]
    b = r.choice(fits) if fits else p.input(
        a.dt, front + (a.shape[-1], r.randint(0, 4)))
    p.add(f"{a.name} @ {b.name}", product(a.dt, np.matmul), a.dt, [a, b])


@op(2)
def op_einsum(p):
    r = p.rng
    a = p.pick(lambda v: num(v) and 1 <= v.arr.ndim <= 3 and plain(v))
    letters, sizes, la = "ijklm", {}, []
    for n in a.shape:
        same = [c for c in sizes if sizes[c] == n]
        c = r.choice(same) if same and r.random() < 0.4 else \
            letters[len(sizes)]
        sizes[c] = n
        la.append(c)
    args, labels = [a], [la]
    if r.random() < 0.7:
        lb = []
        for _ in range(r.randint(1, 3)):
            c = r.choice(letters[:len(sizes) + 1])
            sizes.setdefault(c, r.randint(0, 4))
            lb.append(c)
        b = p.input(a.dt, tuple(sizes[c] for c in lb))
        args.append(b)
        labels.append(lb)
    used = sorted({c for row in labels for c in row})
    out = r.sample(used, r.randint(0, len(used)))
    text = ", ".join(" ".join(row) for row in labels) + " -> " + " ".join(out)
    p.zeros = False             # sums of NumPy begin with 0.0
    spec = ",".join("".join(row) for row in labels) + "->" + "".join(out)
    p.add(f'einsum "{text.strip()}" ' + " ".join(v.name for v in args),
          product(a.dt, lambda *xs: np.einsum(spec, *xs)), a.dt, args)


@op(3)
def op_layout(p):
    r = p.rng
    a = p.pick(lambda v: plain(v) and v.arr.ndim > 0)
    n, x = a.arr.ndim, a.arr
    text, axes = axis_choice(p, a, many=False)
    k = axes[0]
    kind = r.choice(["reshape", "transpose", "permute", "reverse", "roll",
                     "tile", "repeat", "pad", "concat", "stack", "split",
                     "flatten", "squeeze", "broadcast", "tri", "unstack"])
    if kind == "reshape":
        size = x.size
        if size == 0:
            shape = [0, r.randint(1, 4)]
            t = shape
        else:
            shape, rest = [], size
            for _ in range(r.randint(0, 3)):
                d = r.choice([d for d in range(1, rest + 1) if rest % d == 0])
                shape.append(d)
                rest //= d
            shape.append(rest)
            r.shuffle(shape)
            t = list(shape)
            if r.random() < 0.5:
                t[r.randrange(len(t))] = "_"
        p.add(f"reshape [{', '.join(map(str, t))}] {a.name}",
              lambda x: x.reshape(shape), a.dt, [a])
    elif kind == "flatten":
        p.add(f"flatten {a.name}",
              lambda x: x.reshape(x.shape[0], int(np.prod(x.shape[1:]))),
              a.dt, [a])
    elif kind == "transpose" and n >= 2:
        p.add(f"transpose {a.name}", lambda x: np.swapaxes(x, -1, -2), a.dt,
              [a])
    elif kind == "permute":
        names = "abcdef"[:n]
        order = r.sample(range(n), n)
        to = " ".join(names[i] for i in order)
        p.add(f'permute "{" ".join(names)} -> {to}" {a.name}',
              lambda x: np.transpose(x, order), a.dt, [a])
    elif kind == "reverse":
        p.add(f"reverse ~axis:{text} {a.name}", lambda x: np.flip(x, k), a.dt,
              [a])
    elif kind == "roll":
        if x.shape[k] == 0:
            raise Skip
        s = r.randint(-7, 7)
        p.add(f"roll ~axis:{text} ({s}) {a.name}",
              lambda x: np.roll(x, s, k), a.dt, [a])
    elif kind == "tile":
        c = r.randint(0, 3)
        p.add(f"tile ~axis:{text} {c} {a.name}",
              lambda x: np.concatenate([x] * c, k) if c
              else np.take(x, [], k), a.dt, [a])
    elif kind == "repeat":
        c = r.randint(0, 3)
        p.add(f"repeat ~axis:{text} {c} {a.name}",
              lambda x: np.repeat(x, c, k), a.dt, [a])
    elif kind == "pad":
        b, e = r.randint(0, 2), r.randint(0, 2)
        v = small(p, a.dt) if a.dt == "bool" or r.random() < 0.5 else 0
        width = [(b, e) if i == k else (0, 0) for i in range(n)]
        opts = "".join([f" ~before:{b}" if b or r.random() < 0.5 else "",
                        f" ~after:{e}" if e or r.random() < 0.5 else "",
                        f" ~value:{lit(a.dt, v)}" if v or a.dt == "bool"
                        else ""])
        p.add(f"pad ~axis:{text}{opts} {a.name}",
              lambda x: np.pad(x, width, constant_values=v), a.dt, [a])
    elif kind == "concat":
        shape = list(a.shape)
        shape[k] = r.randint(0, 3)
        b = p.input(a.dt, tuple(shape))
        args = r.choice([[a, b], [b, a], [a, b, a]])
        p.add(f"concat ~axis:{text} ({', '.join(v.name for v in args)})",
              lambda *xs: np.concatenate(xs, k), a.dt, args)
    elif kind == "stack":
        b = p.input(a.dt, a.shape)
        if r.random() < 0.5:
            p.add(f"stack (list [{a.name}, {b.name}])",
                  lambda *xs: np.stack(xs), a.dt, [a, b])
        else:
            p.add(f"[{a.name}, {b.name}, {a.name}]",
                  lambda x, y: np.stack([x, y, x]), a.dt, [a, b])
    elif kind == "split":
        c = r.randint(0, x.shape[k])
        which = r.randint(0, 1)
        rest = x.shape[k] - c
        sizes = r.choice([f"[{c}, {rest}]"] + [f"[{c}, _]"] * (c > 0)
                         + [f"[_, {rest}]"] * (rest > 0))
        p.add(f"{('fst', 'snd')[which]} (split ~axis:{text} {sizes} {a.name})",
              lambda x: np.split(x, [c], k)[which], a.dt, [a])
    elif kind == "squeeze" and x.shape[k] == 1 and p.mode != "forget":
        p.add(f"squeeze ~axis:{text} {a.name}", lambda x: x.squeeze(k), a.dt,
              [a])
    elif kind == "broadcast":
        d = r.randint(0, 3)
        p.add(f"broadcast [{d}, ...(shape {a.name})] {a.name}",
              lambda x: np.broadcast_to(x, (d,) + x.shape), a.dt, [a])
    elif kind == "tri" and n >= 2 and num(a):
        name, f = r.choice([("tril", np.tril), ("triu", np.triu)])
        p.add(f"{name} {a.name}", lambda x: f(x).astype(x.dtype), a.dt, [a])
    elif kind == "unstack" and n >= 2 and x.shape[0] > 0:
        p.add(f"stack (lists.reverse (unstack {a.name}))",
              lambda x: x[::-1], a.dt, [a])
    else:
        raise Skip


@op(4)
def op_index(p):
    r = p.rng
    a = p.pick(lambda v: v.arr.ndim > 0 and
               (p.mode != "function" or plain(v)))
    items, py, stars = [], [], []
    dots = r.randrange(a.arr.ndim) if r.random() < 0.25 else None
    axis = 0
    while axis < a.arr.ndim:
        if r.random() < 0.12:
            kind = r.choice(["new", "*"])
            items.append(kind)
            py.append(None)
            stars.append(kind == "*")
        if dots == axis:
            count = r.randint(0, a.arr.ndim - axis)
            items.append("...")
            py.append(Ellipsis)
            stars += a.stars[axis:axis + count]
            axis += count
            dots = -1
            continue
        n, star = a.shape[axis], a.stars[axis]
        kind = r.random()
        if star:
            items.append(":")
            py.append(slice(None))
            stars.append(True)
        elif kind < 0.3 and n > 0:
            i = r.randrange(n)
            j = i - n if r.random() < 0.4 else i
            items.append(str(j))
            py.append(i)
        elif kind < 0.5:
            items.append(":")
            py.append(slice(None))
            stars.append(False)
        else:
            lo = r.randint(0, n)
            hi = r.randint(lo, n)
            tl, th = str(lo), str(hi)
            if r.random() < 0.3 and lo < n:
                tl = str(lo - n)
            if r.random() < 0.3 and hi < n:
                th = str(hi - n)
            if lo == 0 and r.random() < 0.5:
                tl = ""
            if hi == n and r.random() < 0.5:
                th = ""
            items.append(f"{tl}:{th}")
            py.append(slice(lo, hi))
            stars.append(False)
        axis += 1
    key = tuple(py)
    p.add(f"{a.name}.[{', '.join(items)}]", lambda x: x[key], a.dt, [a],
          stars)


@op(2)
def op_gather(p):
    r = p.rng
    a = p.pick(lambda v: v.arr.ndim > 0 and plain(v) and v.shape[0] > 0)
    n = a.shape[0]
    shape = p.shape(r.choice([0, 1, 1, 2]))
    ints = INTS if n < 128 else ["i32", "i64"]
    i = p.input(r.choice(ints), shape)
    fixed = f"({i.name} % {n})"

    def at(i):
        return np.remainder(i, np.asarray(n, i.dtype)).astype(np.int64)
    kind = r.random()
    if kind < 0.4:
        p.add(f"gather {a.name} {fixed}", lambda x, i: x[at(i)], a.dt, [a, i])
    elif kind < 0.6 and a.arr.ndim == 1 and p.mode != "function":
        p.add(f"{a.name}.[{fixed}]", lambda x, i: x[at(i)], a.dt, [a, i])
    elif kind < 0.75 and a.arr.ndim == 2 and i.arr.ndim < 2 and \
            p.mode != "function":
        p.add(f"{a.name}.[{fixed}, :]", lambda x, i: x[at(i)], a.dt, [a, i])
    elif kind < 0.85:
        dt = r.choice(INTS + FLOATS)

        def hot(i):
            return (at(i)[..., None] == np.arange(n)).astype(NP[dt])
        p.add(f"({dt} (one_hot {n} {fixed} : i64{axes(i, n)}))"
              if r.random() < 0.5 else
              f"(one_hot {n} {fixed} : {dt}{axes(i, n)})", hot, dt, [i])
    elif num(a):
        m = r.randint(0, 5)
        i = p.input(r.choice(ints), (m,))
        y = p.input(a.dt, (m,) + a.shape[1:])
        dt = a.dt

        def scatter(x, i, y):
            out = np.array(x)
            for k, j in enumerate(at(i)):
                out[j] = fit(dt, wide(dt, out[j]) + wide(dt, y[k]))
            return out
        p.add(f"scatter {a.name} ({i.name} % {n}) {y.name}", scatter, dt,
              [a, i, y], exact=dt not in ("f16", "bf16"))
        if dt in ("f16", "bf16"):
            p.loose += 4
    else:
        raise Skip


def axes(i, n):
    return "[" + ", ".join(str(s) for s in i.shape + (n,)) + "]"


@op(3)
def op_order(p):
    r = p.rng
    a = p.pick(lambda v: num(v) and v.exact and v.arr.ndim > 0 and plain(v))
    text, (k,) = axis_choice(p, a, many=False)
    kind = r.choice(["sort", "argsort", "topk", "cumsum", "unique", "nonzero",
                     "filter", "median"])
    if kind == "sort":
        # equal zeros keep their order: a stable sort
        p.add(f"sort ~axis:{text} {a.name}",
              lambda x: np.take_along_axis(
                  x, np.argsort(x, k, kind="stable"), k), a.dt, [a])
    elif kind == "argsort":
        p.add(f"argsort ~axis:{text} {a.name}",
              lambda x: np.argsort(x, k, kind="stable"), "i64", [a])
    elif kind == "topk":
        m = r.randint(0, a.shape[-1])
        if is_float(a.dt) and np.isnan(a.arr).any() or p.batch > 1:
            raise Skip
        which = r.randint(0, 1)

        def topk(x):
            key = x.astype(np.float64) if is_float(a.dt) else \
                x.astype(object) if a.dt == "i64" else x.astype(np.int64)
            i = np.argsort(-key, -1, kind="stable")[..., :m]
            return i if which else np.take_along_axis(x, i, -1)
        p.add(f"{('fst', 'snd')[which]} (topk {m} {a.name})", topk,
              "i64" if which else a.dt, [a])
    elif kind == "cumsum":
        if a.dt in ("f16", "bf16", "f32"):
            p.loose += 2 * a.shape[k]
        acc = np.float64 if is_float(a.dt) else NP[a.dt]
        p.zeros = False         # sums of Axon begin with 0.0
        p.add(f"cumsum ~axis:{text} {a.name}",
              lambda x: fit(a.dt, np.cumsum(x.astype(acc), k, dtype=acc)),
              a.dt, [a], exact=a.dt not in ("f16", "bf16"))
    elif kind == "median":
        if not is_float(a.dt) or a.shape[-1] == 0 or \
                not np.isfinite(a.arr).all() or p.batch > 1:
            raise Skip

        def median(x):
            y = np.sort(x, -1)
            n = x.shape[-1]
            s = fit(a.dt, wide(a.dt, y[..., (n - 1) // 2])
                    + wide(a.dt, y[..., n // 2]))
            return fit(a.dt, wide(a.dt, s) / wide(a.dt, s).dtype.type(2))
        p.add(f"median {a.name}", median, a.dt, [a])
    elif p.batch > 1 or p.mode == "for":
        raise Skip
    elif kind == "unique" and a.arr.ndim == 1:
        if is_float(a.dt) and (np.isnan(a.arr).any() or
                               (a.arr == 0).any()):
            raise Skip
        p.add(f"unique {a.name}", np.unique, a.dt, [a])
    elif kind == "nonzero" and a.arr.ndim == 1:
        p.add(f"nonzero ({a.name} > {lit(a.dt, 0)})",
              lambda x: np.nonzero(x > 0)[0], "i64", [a])
    elif kind == "filter" and 0 not in a.shape:
        z = lit(a.dt, 0)
        if a.arr.ndim == 1:
            p.add(f"filter (fn x => x > {z}) {a.name}",
                  lambda x: x[x > 0], a.dt, [a])
        elif a.arr.ndim == 2:
            p.add(f"filter (fn x => any (x > {z})) {a.name}",
                  lambda x: x[np.any(x > 0, 1)], a.dt, [a])
        else:
            raise Skip
    else:
        raise Skip


@op(3)
def op_loop(p):
    r = p.rng
    a = p.pick(lambda v: num(v) and v.arr.ndim in (1, 2) and plain(v)
               and v.shape[0] > 0)
    dt = a.dt
    f = arith(dt, np.add)
    kind = r.choice(["fold", "reduce", "scan", "scan2", "map", "iterate",
                     "map2", "while"])
    z = lit(dt, 0)
    zero = f"(zeros [{a.shape[1]}] : {dt}[{a.shape[1]}])" \
        if a.arr.ndim == 2 else f"({z} : {dt})"
    start = np.zeros(a.shape[1:], NP[dt])
    times = NP[dt](0.5 if is_float(dt) else 2)
    two = f"c * {times} + x"

    def mul2(c, x):
        return f(arith(dt, np.multiply)(c, times), x)

    def fold(x):
        c = start
        for row in x:
            c = mul2(c, row)
        return np.asarray(c, NP[dt])

    def scan(x):
        c, out = start, []
        for row in x:
            c = mul2(c, row)
            out.append(c)
        return np.stack(out)
    if kind == "fold":
        p.add(f"fold (fn c x => {two}) {zero} {a.name}", fold, dt, [a])
    elif kind == "scan":
        p.add(f"snd (scan (fn c x => let val d = {two} in (d, d) end) {zero} "
              f"{a.name})", scan, dt, [a])
    elif kind == "scan2":
        p.add(f"(case scan (fn (c, d) x => let val c = {two} in ((c, x), "
              f"(c, d)) end) ({zero}, {zero}) {a.name} of (_, (u, v)) => "
              f"u + v)",
              lambda x: f(scan(x), np.concatenate([start[None], x[:-1]])),
              dt, [a])
    elif kind == "reduce":
        g, text = r.choice([(np.maximum, "maximum"), (np.minimum, "minimum")])

        def red(x):
            c = start
            for row in x:
                c = g(c, row)
            return np.asarray(c + start, NP[dt])
        tail = "0.0" if is_float(dt) else "0"
        p.add(f"reduce {text} {zero} {a.name} + {tail}", red, dt, [a])
    elif kind == "map":
        p.add(f"map (fn x => x + sum x) {a.name}",
              lambda x: np.stack([f(row, fit(dt, np.sum(
                  row.astype(np.float64) if is_float(dt) else row,
                  dtype=np.float64 if is_float(dt) else NP[dt])))
                  for row in x]), dt, [a],
              exact=dt not in ("f16", "bf16"))
        if dt in ("f16", "bf16"):
            p.loose += 4
    elif kind == "map2":
        b = p.input(dt, (a.shape[0],))
        p.add(f"map2 (fn x y => x - y) {a.name} {b.name}",
              lambda x, y: fit(dt, wide(dt, x) - wide(dt, y).reshape(
                  (-1,) + (1,) * (x.ndim - 1))), dt, [a, b])
    elif kind == "iterate":
        k = r.randint(0, 4)

        def it(x):
            for _ in range(k):
                x = f(x, np.ones((), NP[dt]))
            return x
        one = "1.0" if is_float(dt) else "1"
        p.add(f"iterate {k} (fn x => x + {one}) {a.name}", it, dt, [a])
    else:
        raise Skip


@op(5)
def op_for(p):
    r = p.rng
    a = p.pick(lambda v: num(v) and v.arr.ndim in (1, 2) and plain(v)
               and all(n > 0 for n in v.shape))
    dt, t = a.dt, a.name
    n = a.shape[0]
    z = lit(dt, 0)
    add = arith(dt, np.add)

    def sums(x, axis):
        acc = np.float64 if dt in ("f32", "f64") else np.float32 \
            if is_float(dt) else NP[dt]
        return fit(dt, np.sum(x.astype(acc), axis=axis, dtype=acc))

    def mul(x, y):
        acc = np.float64 if dt in ("f32", "f64") else np.float32 \
            if is_float(dt) else NP[dt]
        return x.astype(acc) * y.astype(acc)
    i = np.arange(n)
    if a.arr.ndim == 1:
        k = r.randint(1, n)
        s = r.randint(1, 3)
        c = r.randint(0, 5)
        w = None
        kind = r.choice(["conv", "stride", "pool", "wrap", "up", "rev",
                         "guard", "prefix", "outer", "index", "gather",
                         "div", "inner", "dilate"])
        if kind == "conv":
            w = p.input(dt, (k,))
            p.add(f"for i => sum (for k => {w.name}.[k] * {t}.[i + k])",
                  lambda x, w: sums(np.stack(
                      [fit(dt, mul(w, x[j:j + len(w)]))
                       for j in range(n - k + 1)]), 1) if not is_float(dt)
                  else sums(np.stack([mul(w, x[j:j + k]) for j in
                                      range(n - k + 1)]), 1), dt, [a, w],
                  exact=dt not in ("f16", "bf16"))
            p.loose += 4 + k
        elif kind == "stride":
            m = (n - k) // s + 1
            p.add(f"for i => sum (for k < {k} => {t}.[{s} * i + k])",
                  lambda x: sums(np.stack([x[s * j:s * j + k]
                                           for j in range(m)]), 1), dt, [a])
        elif kind == "pool":
            m = (n - k) // s + 1
            zz = "0.0" if is_float(dt) else "0"
            p.add(f"for i => max (for k < {k} => {t}.[{s} * i + k]) + {zz}",
                  lambda x: np.stack([x[s * j:s * j + k].max()
                                      for j in range(m)])
                  + np.zeros((), NP[dt]), dt, [a])
        elif kind == "dilate":
            m = n - (k - 1) * s
            if m < 1:
                raise Skip
            p.add(f"for i < {m} => sum (for k < {k} => {t}.[i + {s} * k])",
                  lambda x: sums(np.stack([x[j:j + s * (k - 1) + 1:s]
                                           for j in range(m)]), 1), dt, [a])
        elif kind == "wrap":
            p.add(f"for i < dim 0 {t} => {t}.[(i + {c}) % dim 0 {t}] - "
                  f"{t}.[(i - {c}) % dim 0 {t}]",
                  lambda x: fit(dt, wide(dt, x[(i + c) % n])
                                - wide(dt, x[(i - c) % n])), dt, [a])
        elif kind == "up":
            p.add(f"for i < {s} * dim 0 {t} => {t}.[i / {s}]",
                  lambda x: np.repeat(x, s), dt, [a])
        elif kind == "rev":
            p.add(f"for i => {t}.[dim 0 {t} - 1 - i] + {t}.[i]",
                  lambda x: add(x[::-1], x), dt, [a])
        elif kind == "guard" and k < n:
            p.add(f"for i < dim 0 {t} => if i < {k} then {z} else "
                  f"{t}.[i - {k}]",
                  lambda x: np.concatenate([np.zeros(k, NP[dt]), x])[:n],
                  dt, [a])
        elif kind == "prefix":
            p.add(f"for i < dim 0 {t} => sum (for j < i + 1 => {t}.[j])",
                  lambda x: np.stack([sums(x[:j + 1], 0) for j in range(n)]),
                  dt, [a])
        elif kind == "outer":
            b = p.input(dt, (r.randint(0, 3),))
            p.add(f"for i j => {t}.[i] + {b.name}.[j]",
                  lambda x, y: add(x[:, None], y[None, :]), dt, [a, b])
        elif kind == "index":
            p.add(f"for i < dim 0 {t}, j < {s} => {dt} (i * {s} + j) + "
                  f"{t}.[i]",
                  lambda x: add(fit(dt, i[:, None] * s + np.arange(s)),
                                x[:, None]), dt, [a])
        elif kind == "gather":
            g = p.input("i64", (n,))
            p.add(f"for i => {t}.[{g.name}.[i] % dim 0 {t}]",
                  lambda x, g: x[g % n], dt, [a, g])
        elif kind == "div":
            p.add(f"for i < {c} => {t}.[(i * {s} + {k}) / 2 % dim 0 {t}]",
                  lambda x: x[(np.arange(c) * s + k) // 2 % n], dt, [a])
        elif kind == "inner":
            p.add(f"for i < {s} => sum {t} + {dt} i",
                  lambda x: add(sums(x, 0), fit(dt, np.arange(s))), dt, [a])
        return
    m = a.shape[1]
    j = np.arange(m)
    kind = r.choice(["tr", "rowsum", "stencil", "sort", "row", "cumsum",
                     "matmul", "argmax", "scanrow", "diag", "if"])
    if kind == "tr":
        p.add(f"for i j => {t}.[j, i]", lambda x: x.T, dt, [a])
    elif kind == "rowsum":
        p.add(f"for i => sum (for j => {t}.[i, j])", lambda x: sums(x, 1), dt,
              [a])
    elif kind == "stencil":
        p.add(f"for i < {n}, j < {m} => sum (for a < 3, b < 3 => {t}.[(i + a - "
              f"1) % dim 0 {t}, (j + b - 1) % dim 1 {t}])",
              lambda x: sums(np.stack([np.roll(np.roll(x, -u, 0), -v, 1)
                                       for u in (-1, 0, 1)
                                       for v in (-1, 0, 1)]), 0), dt, [a])
    elif kind == "sort" and a.exact:
        p.add(f"for i => sort {t}.[i, :]",
              lambda x: np.take_along_axis(
                  x, np.argsort(x, 1, kind="stable"), 1), dt, [a])
    elif kind == "row":
        k = r.randint(0, m)
        p.add(f"for i => {t}.[i, {k}:]", lambda x: x[:, k:], dt, [a])
    elif kind == "cumsum":
        p.loose += 2 * m
        p.add(f"for i => cumsum {t}.[i, :]",
              lambda x: fit(dt, np.cumsum(x.astype(
                  np.float64 if is_float(dt) else NP[dt]), 1,
                  dtype=np.float64 if is_float(dt) else NP[dt])), dt, [a],
              exact=dt not in ("f16", "bf16"))
    elif kind == "matmul":
        b = p.input(dt, (m, r.randint(0, 3)))
        p.add(f"for i j => sum (for k => {t}.[i, k] * {b.name}.[k, j])",
              lambda x, y: sums(mul(x[:, :, None], y[None]), 1)
              if is_float(dt) else (x @ y).astype(NP[dt]), dt, [a, b],
              exact=dt not in ("f16", "bf16"))
        p.loose += 4 + m
    elif kind == "argmax" and a.exact:
        p.add(f"for i => argmax {t}.[i, :]", lambda x: np.argmax(x, 1),
              "i64", [a])
    elif kind == "scanrow":
        p.add(f"for i => fold (fn c x => c + x) {z} {t}.[i, :]",
              lambda x: np.stack([foldsum(row, add, dt) for row in x]), dt,
              [a])
    elif kind == "diag":
        q = min(n, m)
        p.add(f"for i < {q} => {t}.[i, i]", lambda x: np.diag(x[:q, :q]), dt,
              [a])
    elif kind == "if":
        p.add(f"for i < dim 0 {t}, j < dim 1 {t} => if i == j || j == 0 then "
              f"{t}.[i, j] else {z} - {t}.[i, j]",
              lambda x: np.where((i[:, None] == j) | (j == 0), x,
                                 fit(dt, wide(dt, np.zeros((), NP[dt]))
                                     - wide(dt, x))), dt, [a])
    else:
        raise Skip


def foldsum(row, add, dt):
    c = np.zeros((), NP[dt])
    for x in row:
        c = add(c, x)
    return np.asarray(c, NP[dt])
