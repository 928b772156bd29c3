"""Contractions: `@`, `einsum`, and `for` with index arithmetic."""

import numpy as np

from twin import count, form


@form(2)
def product(twin, shape, depth):
    if len(shape) < 2:
        return None
    k, (n, m), batch = twin.size(), shape[-2:], shape[:-2]
    if not twin.fits(batch, [max(n * k, k * m, n * m * k // 8)]):
        return None
    batches = [batch, batch[twin.random.randint(0, len(batch)):]]
    twin.random.shuffle(batches)

    def factor(of, rows, columns, depth):
        turned = twin.chance(.4)
        inner = (columns, rows) if turned else (rows, columns)
        text, v = twin.term(of + inner, depth)
        return (f"(transpose {text})", np.swapaxes(v, -1, -2)) if turned else \
            (text, v)

    a, v = factor(batches[0], n, k, depth)
    b, w = factor(batches[1], k, m, depth - twin.random.randint(0, 1))
    return f"({a} @ {b})", v @ w


@form()
def einsum(twin, shape, depth):
    out = "abcdefg"[:len(shape)]
    size = dict(zip(out, shape))
    for letter in "uvw"[:twin.random.randint(0, 3)]:
        size[letter] = twin.pick(1, 2, 3, 5, 8, 17)
    if count(size.values()) > 4 * twin.most:
        return None
    labels = [[] for _ in range(twin.pick(1, 2, 2, 2, 3))]
    for letter in size:
        for of in ([of for of in labels if twin.chance(.6)] or
                   [twin.pick(*labels)]):
            of.append(letter)
    if not all(labels):
        return None
    texts, values = [], []
    for of in labels:
        twin.random.shuffle(of)
        inner = [size[letter] for letter in of]
        if not twin.fits(inner):
            return None
        text, v = twin.term(inner, depth)
        texts.append(text)
        values.append(v)
    spec = f"{', '.join(map(' '.join, labels))} -> {' '.join(out)}"
    numpy_spec = f"{','.join(map(''.join, labels))}->{out}"
    return (f'(einsum "{spec}" {" ".join(texts)})',
            twin.value(np.einsum(numpy_spec, *values)))


class Indices:
    """The indices of a `for`: names, extents, and values that broadcast."""

    def __init__(self, twin, shape, depth):
        self.twin, self.depth = twin, depth
        self.extent = dict(zip("ijk", shape))
        self.inner = None
        if twin.chance(.6):
            self.inner = twin.pick(1, 2, 3, 4, 5, 8, 17)
            self.extent["q"] = self.inner
        self.at = {}
        for axis, (name, n) in enumerate(self.extent.items()):
            ones = [1] * (len(shape) + 1)
            ones[-1 if name == "q" else axis] = n
            self.at[name] = np.arange(n).reshape(ones)

    def any(self):
        return self.twin.pick(*self.extent)

    def place(self):
        """Index arithmetic: its source, its values, and their bound."""
        twin, a = self.twin, self.any()
        x, n = self.at[a], self.extent[a]
        more = twin.random.randint(0, 2)
        kind = twin.random.randrange(8)
        if kind == 2:
            c = twin.random.randint(1, 3)
            return f"{a} + {c}", x + c, n + c + more
        if kind == 3:
            c, first = twin.random.randint(2, 3), twin.random.randint(0, 2)
            return (f"{c} * {a} + {first}", x * c + first,
                    c * (n - 1) + first + 1 + more)
        if kind == 4:
            return f"{n - 1} - {a}", n - 1 - x, n
        if kind == 5:
            c = twin.pick(2, 3, 4)
            return f"{a} / {c}", x // c, (n - 1) // c + 1
        if kind == 6:
            c, by = twin.random.randint(1, n), twin.random.randint(0, 3)
            return f"({a} + {by}) % {c}", (x + by) % c, c
        b = self.any()
        if kind == 7 and b != a:
            return f"{a} + {b}", x + self.at[b], n + self.extent[b] - 1
        return a, x, n

    def read(self):
        twin = self.twin
        for _ in range(9):
            places = [self.place() for _ in range(twin.pick(1, 2, 2, 3))]
            texts, values, bounds = zip(*places)
            if twin.fits(bounds):
                name, v = twin.term(bounds, self.depth - 1)
                if not name.isalnum():
                    name, v = twin.bind(name, v)
                return (f"{name}.[{', '.join(texts)}]",
                        v[tuple(np.broadcast_arrays(*values))])
        return twin.literal(3), twin.value(3)

    def body(self, depth):
        twin, kind = self.twin, self.twin.random.random()
        if depth == 0 or kind < .2:
            return self.read()
        (a, v), (b, w) = self.body(depth - 1), self.body(depth - 1)
        if kind < .5:
            return f"({a} * {b})", v * w
        if kind < .7:
            return f"({a} + {b})", v + w
        if kind < .8:
            return f"({a} - {b})", v - w
        if kind < .9:
            return f"(maximum {a} {b})", np.maximum(v, w)
        p, q, n = self.any(), self.any(), twin.random.randint(0, 6)
        if twin.chance(.5):
            return (f"(if {p} < {q} + {n} then {a} else {b})",
                    np.where(self.at[p] < self.at[q] + n, v, w))
        return (f"(if {p} == {n} || {q} > {n} then {a} else {b})",
                np.where((self.at[p] == n) | (self.at[q] > n), v, w))


@form(3)
def comprehension(twin, shape, depth):
    """A `for` with a sum or a maximum inside, possibly over a triangle."""
    if len(shape) > 3 or 0 in shape:
        return None
    indices = Indices(twin, shape, depth)
    inner = indices.inner
    if not indices.extent or inner and not twin.fits([inner], shape):
        return None
    text, v = indices.body(2)
    v = np.broadcast_to(twin.value(v), shape + (inner or 1, ))
    if inner:
        name, limit = twin.pick("sum", "sum", "max", "min"), str(inner)
        if shape and inner >= shape[0] and twin.chance(.2) and \
                (twin.is_float or name == "sum"):
            limit = "i + 1"
            nothing = {"sum": 0, "max": -np.inf, "min": np.inf}[name]
            v = np.where(indices.at["q"] <= indices.at["i"], v, nothing)
        text = f"{name} (for q < {limit} => {text})"
        v = twin.value(getattr(np, name)(v, -1))
    else:
        v = v[..., 0]
    if not shape:
        return f"({text})", v
    ranges = ", ".join(f"{name} < {n}" for name, n in zip("ijk", shape))
    return f"(for {ranges} => {text})", v
