"""Forms that reduce, normalize, sort, scan or fold along an axis."""

import numpy as np

from twin import form, sizes
from points import with_axis


@form(2)
def reduced(twin, shape, depth):
    n, axis = twin.size(), twin.random.randint(0, len(shape))
    if not twin.fits((n, ), shape):
        return None
    text, v = twin.term(shape[:axis] + (n, ) + shape[axis:], depth)
    written = axis if twin.chance(.5) else axis - v.ndim
    name = twin.pick("sum", "sum", "max", "min",
                     *(["mean"] if twin.is_float else []))
    if n == 0 and name != "sum":
        return None
    text = f"({name} ~axis:{written} {text})"
    if name != "sum":
        return text, getattr(np, name)(v, axis)
    v = v.sum(axis, dtype=v.dtype)
    if twin.is_float and n > 4:
        return f"({text} / {n}.0)", v / n
    return text, v


@form()
def reduced_twice(twin, shape, depth):
    n, m = twin.size(), twin.size()
    if n * m == 0 or not twin.fits((n, m), shape):
        return None
    axis = twin.random.randint(0, len(shape))
    text, v = twin.term(shape[:axis] + (n, m) + shape[axis:], depth)
    axes = axis, axis + 1
    if twin.is_float:
        return f"(mean ~axis:{axes} {text})", v.mean(axes)
    return f"(sum ~axis:{axes} {text})", v.sum(axes, dtype=v.dtype)


def softmax(v, axis):
    v = np.exp(v - v.max(axis, keepdims=True))
    return v / v.sum(axis, keepdims=True)


@form(2)
def normalised(twin, shape, depth):
    if not shape or not twin.is_float or 0 in shape:
        return None
    text, v = twin.term(shape, depth)
    axis, written = twin.axis(shape)
    y, keep = twin.fresh("y"), f"~axis:{written} ~keep:true"
    kind = twin.pick("softmax", "mean", "max", "norm")
    if kind == "softmax":
        return f"(softmax ~axis:{written} {text})", softmax(v, axis)
    centred = v - v.mean(axis, keepdims=True)
    if kind == "mean":
        return f"(let val {y} = {text} in {y} - mean {keep} {y} end)", centred
    if kind == "max":
        return (f"(let val {y} = {text} in"
                f" {y} / (1.0 + max {keep} (abs {y})) end)",
                v / (1 + np.abs(v).max(axis, keepdims=True)))
    return (f"(let val {y} = {text} val c = {y} - mean {keep} {y} in"
            f" c / sqrt (mean {keep} (c * c) + 0.1) end)",
            centred / np.sqrt((centred**2).mean(axis, keepdims=True) + .1))


@form()
def run_along(twin, shape, depth):
    """Prefix sums, and sorted elements."""
    if not shape:
        return None
    axis, written = twin.axis(shape)
    text, v = twin.term(shape, depth)
    if twin.chance(.5):
        return f"(sort ~axis:{written} {text})", np.sort(v, axis)
    n = max(shape[axis], 1)
    text, v = f"cumsum ~axis:{written} {text}", v.cumsum(axis, dtype=v.dtype)
    return (f"({text} / {n}.0)", v / n) if twin.is_float else (f"({text})", v)


@form()
def largest(twin, shape, depth):
    if not shape or 0 in shape:
        return None
    k = shape[-1]
    whole = with_axis(shape, len(shape) - 1, k + twin.pick(0, 1, 10))
    if not twin.fits(whole):
        return None
    text, v = twin.term(whole, depth)
    return f"(fst (topk {k} {text}))", -np.sort(-v)[..., :k]


@form()
def mapped(twin, shape, depth):
    """Any function of each row."""
    if not shape or shape[0] == 0:
        return None
    p = twin.fresh("p")
    if twin.chance(.4):
        if len(shape) < 2:
            return None
        text, v = twin.term(shape, depth)
        if twin.is_float:
            body = f"{p} - max ~axis:-1 ~keep:true {p}"
            v = v - v.max(-1, keepdims=True) if v.size else v
        else:
            body = f"{p} * 2 + cumsum ~axis:-1 {p}"
            v = v * 2 + v.cumsum(-1, dtype=v.dtype)
        return f"(map (fn {p} => {body}) {text})", twin.value(v)
    n = twin.size()
    if not twin.fits(shape, (n, )):
        return None
    text, v = twin.term(shape + (n, ), depth)
    name, w = twin.bind(*twin.term((n, ), depth))
    return f"(map (fn {p} => dot {p} {name}) {text})", twin.value(v @ w)


@form()
def iterated(twin, shape, depth):
    a, v = twin.term(shape, depth)
    b, w = twin.bind(*twin.term(shape, depth))
    p, turns = twin.fresh("p"), twin.random.randint(0, 4)
    body = f"tanh ({p} + {b})" if twin.is_float else f"{p} % 7 + {b}"
    for _ in range(turns):
        v = np.tanh(v + w) if twin.is_float else twin.value(v % 7 + w)
    return f"(iterate {turns} (fn {p} => {body}) {a})", v


@form()
def turned(twin, shape, depth):
    """A loop whose body is not elementwise: it has two states and reads loop
    invariants.  The trip count is high enough that the loop is planned."""
    if not shape or not twin.is_float or 0 in shape:
        return None
    (a, v), (b, w) = twin.term(shape, depth), twin.term(shape, depth)
    axis, written = twin.axis(shape)
    p, q, turns = twin.fresh("p"), twin.fresh("q"), twin.pick(33, 40)
    mean = f"mean ~axis:{written} ~keep:true"
    body = f"tanh (reverse ~axis:{written} {p} - {mean} {q} + {mean} {b})"
    old, mean_w = v, w.mean(axis, keepdims=True)
    for _ in range(turns):
        v, old = np.tanh(
            np.flip(v, axis) - old.mean(axis, keepdims=True) + mean_w), v
    turn = f"(fn ({p}, {q}) => ({body}, {p}))"
    return f"(fst (iterate {turns} {turn} ({a}, {a})))", v


def step(twin, p, q):
    """The function of a fold."""
    if twin.is_float:
        return f"0.5 * {p} + sin {q}", lambda v, w: .5 * v + np.sin(w)
    return f"{p} * 3 - {q}", lambda v, w: twin.value(v * 3 - w)


@form()
def folded(twin, shape, depth):
    n = twin.pick(1, 2, 3, 9)
    if not twin.fits((n, ), shape):
        return None
    p, q = twin.fresh("p"), twin.fresh("q")
    (a, v), (b, w) = twin.term(shape, depth), twin.term((n, ) + shape, depth)
    body, function = step(twin, p, q)
    for row in w:
        v = function(v, row)
    return f"(fold (fn {p} {q} => {body}) {a} {b})", v


@form()
def scanned(twin, shape, depth):
    if not shape or shape[0] == 0:
        return None
    p, q, z = (twin.fresh(letter) for letter in "pqz")
    (a, v), (b, w) = twin.term(shape[1:], depth), twin.term(shape, depth)
    body, function = step(twin, p, q)
    rows = []
    for row in w:
        v = function(v, row)
        rows.append(v * 2)
    return (f"(snd (scan (fn {p} {q} => let val {z} = {body} in"
            f" ({z}, {z} * {twin.literal(2)}) end) {a} {b}))",
            twin.value(np.stack(rows)))


@form()
def reduced_by(twin, shape, depth):
    """A reduction with a function of two arguments."""
    n = twin.pick(0, 1, 2, 5, 17)
    if not twin.fits((n, ), shape):
        return None
    p, q = twin.fresh("p"), twin.fresh("q")
    text, v = twin.term((n, ) + shape, depth)
    return (f"(reduce (fn {p} {q} => maximum {p} {q}) (zeros [{sizes(shape)}])"
            f" {text})", v.max(0, initial=0))
