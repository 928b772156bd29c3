"""Forms that are elementwise, select, move elements, or bind names."""

import math

import numpy as np

from twin import form, sizes

FLOATS = [
    ("exp (minimum 3.0 %s)", lambda v: np.exp(np.minimum(v, 3))),
    ("tanh %s", np.tanh), ("abs %s", np.abs), ("sin %s", np.sin),
    ("negate %s", np.negative), ("square %s", np.square),
    ("nn.relu %s", lambda v: np.maximum(v, 0)),
    ("nn.sigmoid %s", lambda v: 1 / (1 + np.exp(-v))),
    ("sqrt (abs %s)", lambda v: np.sqrt(np.abs(v))),
    ("log1p (abs %s)", lambda v: np.log1p(np.abs(v))),
    ("erf %s", np.vectorize(math.erf, otypes="d")),
    ("atan2 1.5 %s", lambda v: np.arctan2(1.5, v)),
    ("cosh (tanh %s)", lambda v: np.cosh(np.tanh(v)))]
INTEGERS = [
    ("abs %s", np.abs), ("negate %s", np.negative), ("sign %s", np.sign),
    ("%s / 3", lambda v: v // 3), ("%s %% 5", lambda v: v % 5),
    ("%s / (-2)", lambda v: v // -2), ("%s * 7", lambda v: v * v.dtype.type(7)),
    ("maximum 2 %s", lambda v: np.maximum(2, v))]
PAIRS = [
    ("(%s + %s)", np.add), ("(%s - %s)", np.subtract),
    ("(%s * %s)", np.multiply), ("(maximum %s %s)", np.maximum),
    ("(minimum %s %s)", np.minimum)]
BODIES = [
    ("x * y - y", lambda x, y: x * y - y),
    ("maximum x y + x", lambda x, y: np.maximum(x, y) + x),
    ("x - (y - x)", lambda x, y: x - (y - x))]


@form(2)
def one(twin, shape, depth):
    text, v = twin.term(shape, depth)
    if twin.is_float:  # vectorize cannot infer the type of an empty result
        pattern, function = twin.pick(*FLOATS)
        return f"({pattern % text})", function(v) if v.size else v
    pattern, function = twin.pick(*INTEGERS)
    return f"({pattern % text})", twin.value(function(v))


@form(4)
def two(twin, shape, depth):
    """Operands with the same shape, with the last axes, or broadcast ones."""
    a, v = twin.term(shape, depth)
    kind = twin.random.random()
    if kind < .4 or not shape:
        b, w = twin.term(shape, depth - twin.random.randint(0, 1))
    elif kind < .7:
        b, w = twin.term(shape[twin.random.randint(1, len(shape)):], depth)
    else:
        stars = [twin.chance(.5) for _ in shape]
        b, w = twin.term([n for n, star in zip(shape, stars) if not star],
                         depth)
        b = f"({b}.[{', '.join('*' if star else ':' for star in stars)}])"
        w = w.reshape([1 if star else n for n, star in zip(shape, stars)])
    pattern, function = twin.pick(*PAIRS)
    if twin.chance(.5):
        a, b, v, w = b, a, w, v
    result = function(v, w)
    return (pattern % (a, b), result) if result.shape == shape else None


def condition(twin, shape):
    """A condition: booleans, or comparisons of integers or of indices."""
    if not shape:
        return twin.pick(("true", np.array(True)), ("false", np.array(False)))
    if twin.chance(.4):
        v = twin.numbers.random(shape) < .5
        return twin.load("b", v), v
    if twin.chance(.5):
        v = twin.numbers.integers(-3, 4, shape).astype("i4")
        name, n = twin.load("k", v), twin.random.randint(-2, 2)
        sign, function = twin.pick(("<", np.less), (">=", np.greater_equal),
                                   ("==", np.equal), ("!=", np.not_equal))
        return f"({name} {sign} {n})", function(v, n)
    a, b = (twin.random.randrange(len(shape)) for _ in "ab")
    ranges = ", ".join(f"i{axis} < {n}" for axis, n in enumerate(shape))
    places = np.indices(shape)
    if twin.chance(.5):
        n = twin.random.randint(0, max(shape[a], 1))
        return f"(for {ranges} => i{a} < {n})", places[a] < n
    return f"(for {ranges} => i{a} <= i{b})", places[a] <= places[b]


@form()
def choice(twin, shape, depth):
    of = shape if twin.chance(.7) else \
        shape[twin.random.randint(0, len(shape)):]
    test, c = condition(twin, of)
    (a, v), (b, w) = twin.term(shape, depth), twin.term(shape, depth)
    return f"(select {test} {a} {b})", np.where(c, v, w)


@form()
def triangle(twin, shape, depth):
    if len(shape) < 2:
        return None
    text, v = twin.term(shape, depth)
    name = twin.pick("tril", "triu")
    return f"({name} {text})", getattr(np, name)(v)


@form()
def defined(twin, shape, depth):
    """A function that is used twice."""
    name = twin.fresh("f")
    (a, v), (b, w) = twin.term(shape, depth), twin.term(shape, depth)
    body, function = twin.pick(*BODIES)
    twin.lines.append(f"fun {name} x y = {body}")
    return (f"({name} {a} ({name} {b} {a}))",
            twin.value(function(v, twin.value(function(w, v)))))


@form()
def permuted(twin, shape, depth):
    if len(shape) < 2:
        return None
    order = list(range(len(shape)))
    twin.random.shuffle(order)
    text, v = twin.term([shape[order.index(i)] for i in range(len(order))],
                        depth)
    letters = "abcdefg"[:len(shape)]
    left, right = " ".join(letters), " ".join(letters[i] for i in order)
    return f'(permute "{left} -> {right}" {text})', v.transpose(order)


@form()
def reshaped(twin, shape, depth):
    rest = int(np.prod(shape, dtype=int))
    if rest == 0:
        return None
    factors = []
    while rest > 1 and len(factors) < 4 and not (factors and twin.chance(.4)):
        factors.append(twin.pick(
            *[n for n in range(1, rest + 1) if rest % n == 0]))
        rest //= factors[-1]
    if rest > 1 or not factors and twin.chance(.5):
        factors.append(rest)
    text, v = twin.term(factors, depth)
    return f"(reshape [{sizes(shape)}] {text})", v.reshape(shape)


@form()
def sliced(twin, shape, depth):
    if not shape:
        return None
    items, whole, places = [], [], []
    for n in shape:
        if twin.chance(.15):
            m = twin.pick(1, 2, 5, 8)
            at = twin.random.randrange(m)
            items.append(str(at if twin.chance(.6) else at - m))
            whole.append(m)
            places.append(at)
        first, after = twin.pick(0, 0, 1, 2, 3), twin.pick(0, 0, 0, 1, 5)
        whole.append(first + n + after)
        places.append(slice(first, first + n))
        items.append((str(first) if first or twin.chance(.3) else "") + ":" +
                     (str(first + n) if after or twin.chance(.3) else ""))
    if not twin.fits(whole):
        return None
    text, v = twin.term(whole, depth)
    return f"({text}.[{', '.join(items)}])", v[tuple(places)]


def with_axis(shape, axis, *n):
    """The shape, with the size of an axis replaced by other sizes."""
    return shape[:axis] + n + shape[axis + 1:]


@form()
def joined(twin, shape, depth):
    if not shape:
        return None
    axis, written = twin.axis(shape)
    cuts = sorted(twin.random.randint(0, shape[axis])
                  for _ in range(twin.pick(1, 1, 2)))
    parts = [twin.term(with_axis(shape, axis, b - a), depth)
             for a, b in zip([0] + cuts, cuts + [shape[axis]])]
    texts, values = zip(*parts)
    return (f"(concat ~axis:{written} ({', '.join(texts)}))",
            np.concatenate(values, axis))


@form()
def stacked(twin, shape, depth):
    if not shape or not 0 < shape[0] < 5:
        return None
    texts, values = zip(*[twin.term(shape[1:], depth)
                          for _ in range(shape[0])])
    return f"([{', '.join(texts)}])", np.stack(values)


@form()
def padded(twin, shape, depth):
    if not shape:
        return None
    axis, written = twin.axis(shape)
    n = shape[axis]
    before = twin.random.randint(0, min(3, n))
    after = twin.random.randint(0, min(3, n - before))
    text, v = twin.term(with_axis(shape, axis, n - before - after), depth)
    around = [(0, 0)] * len(shape)
    around[axis] = before, after
    fill = twin.pick(0, 2)
    option = f" ~value:{twin.literal(fill)}" if fill else ""
    return (f"(pad ~axis:{written} ~before:{before} ~after:{after}{option}"
            f" {text})", np.pad(v, around, constant_values=fill))


@form(2)
def moved(twin, shape, depth):
    """Reversed, rolled or repeated along an axis."""
    if not shape:
        return None
    axis, written = twin.axis(shape)
    name = twin.pick("reverse", "roll", "tile", "repeat")
    if name == "reverse":
        text, v = twin.term(shape, depth)
        return f"(reverse ~axis:{written} {text})", np.flip(v, axis)
    if name == "roll":
        text, v = twin.term(shape, depth)
        by = twin.random.randint(-5, 5)
        return f"(roll ~axis:{written} ({by}) {text})", np.roll(v, by, axis)
    times = [k for k in range(1, shape[axis] + 1) if shape[axis] % k == 0]
    if not times:
        return None
    k = twin.pick(*times)
    text, v = twin.term(with_axis(shape, axis, shape[axis] // k), depth)
    v = np.repeat(v, k, axis) if name == "repeat" else \
        np.concatenate([v] * k, axis)
    return f"({name} ~axis:{written} {k} {text})", v


@form()
def gathered(twin, shape, depth):
    """A gather of rows."""
    if not shape:
        return None
    rank = twin.random.randint(1, min(2, len(shape)))
    n, rest = twin.pick(1, 2, 3, 7, 20, 64), shape[rank:]
    if not twin.fits((n, ), rest):
        return None
    text, v = twin.term((n, ) + rest, depth)
    name, at = twin.places(n, shape[:rank], ("i8", "i8", "i4", "u1"))
    if twin.chance(.5):
        return f"(gather {text} {name})", v[at]
    return f"({text}.[{', '.join([name] + [':' for _ in rest])}])", v[at]


@form()
def taken(twin, shape, depth):
    """A gather along an inner axis."""
    if len(shape) < 2:
        return None
    n, axis = twin.pick(1, 3, 17, 40), twin.random.randrange(1, len(shape))
    text, v = twin.term(with_axis(shape, axis, n), depth)
    name, at = twin.places(n, (shape[axis], ))
    items = [name if i == axis else ":" for i in range(len(shape))]
    return f"({text}.[{', '.join(items)}])", np.take(v, at, axis)


@form()
def scattered(twin, shape, depth):
    n = twin.pick(0, 1, 2, 5, 33, 100)
    if not shape or shape[0] == 0 or not twin.fits((n, ), shape[1:]):
        return None
    a, v = twin.term(shape, depth)
    b, w = twin.term((n, ) + shape[1:], depth)
    name, at = twin.places(shape[0], (n, ))
    sums = np.array(v)
    np.add.at(sums, at, w)
    return f"(scatter {a} {name} {b})", sums
