"""A random well-typed program, and its results computed with NumPy.

A term is a pair of its source (a name or a parenthesized expression) and its
value (f64 if the program has a smaller float type).  A form makes a term of a
given shape from smaller terms, or returns None if that is impossible.  The
decorator `form` registers it, so that Twin.term may choose it.
"""

import random

import numpy as np

SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 40, 64, 65]
LARGE = [1, 2, 3, 7, 16, 31, 33, 64, 65, 100, 128, 130, 200, 257, 500, 1000]
# the program's elements, and those of its files
ELEMENTS = {
    "f32": "f4", "f64": "f8", "i64": "i8", "i32": "i4", "f16": "f4",
    "bf16": "f4"
}
WEIGHTS = [12, 4, 4, 2, 1, 1]
FORMS = []


def form(weight=1):
    """Registers a form, so that Twin.term may choose it."""

    def enter(function):
        FORMS.extend([function] * weight)
        return function

    return enter


def sizes(shape):
    return ", ".join(map(str, shape))


def count(*shapes):
    return int(np.prod([n for shape in shapes for n in shape], dtype=float))


class Twin:
    """One program: its declarations, its files, its results."""

    def __init__(self, seed, large=False):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.lines, self.files, self.results = [], {}, {}
        self.bound, self.made = [], 0
        self.element = self.random.choices(list(ELEMENTS), WEIGHTS)[0]
        self.is_float = "f" in self.element
        self.sizes = LARGE if large else SIZES
        self.most = 300000 if large else 20000
        self.has_empty = self.chance(.07)

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, *items):
        return self.random.choice(items)

    def size(self):
        if self.has_empty and self.chance(.15):
            return 0
        return self.random.choice(self.sizes)

    def fits(self, *shapes):
        return count(*shapes) <= self.most

    def axis(self, shape):
        """An axis and its source: counted from the front or from the back."""
        axis = self.random.randrange(len(shape))
        return axis, axis if self.chance(.5) else axis - len(shape)

    def fresh(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    def value(self, v):
        """An array with the types of the twin: integers wrap, floats are f64."""
        return np.asarray(v).astype("f8" if self.is_float else
                                    ELEMENTS[self.element])

    def literal(self, number):
        return repr(float(number)) if self.is_float else str(number)

    def load(self, letter, v):
        """A name for the array in a file."""
        name = self.fresh(letter)
        self.files[name] = v
        text = f'load "{name}.npy"'
        if letter == "x" and self.element in ("f16", "bf16"):
            text = f"{self.element} ({text})"
        self.lines.append(f"val {name} = {text}")
        return name

    def input(self, shape):
        if self.element in ("f16", "bf16"):
            v = self.numbers.integers(-64, 65, shape) / 32
        elif self.is_float:
            v = self.numbers.standard_normal(shape)
        else:
            v = self.numbers.integers(-9, 10, shape)
        v = np.asarray(v).astype(ELEMENTS[self.element])
        term = self.load("x", v), self.value(v)
        self.bound.append(term)
        return term

    def places(self, n, shape, types=("i8", )):
        """Integers from 0 below n, from a file."""
        v = self.numbers.integers(0, n, shape).astype(self.pick(*types))
        return self.load("g", v), v

    def bind(self, text, v):
        """A name for a term, so that it may be used again."""
        name = self.fresh("v")
        self.lines.append(
            f"val {name} : {self.element}[{sizes(v.shape)}] = {text}")
        self.bound.append((name, v))
        return name, v

    def leaf(self, shape):
        known = [term for term in self.bound if term[1].shape == shape]
        if known and self.chance(.6):
            return self.random.choice(known)
        if self.chance(.06):
            name, n = self.pick(("zeros", 0), ("ones", 1))
            return f"({name} [{sizes(shape)}])", self.value(np.full(shape, n))
        if len(shape) == 1 and self.chance(.04):
            n, = shape
            divisor = max(n, 1) if self.is_float else 1
            text = f"iota {n} / {divisor}.0" if self.is_float else f"iota {n}"
            return f"({text})", self.value(np.arange(n) / divisor)
        if not shape and self.chance(.4):
            n = self.pick(.5, 2, -1.5, 3) if self.is_float else \
                self.random.randint(-5, 5)
            return f"({self.literal(n)})", self.value(n)
        return self.input(shape)

    def tame(self, text, v):
        """The term, or a scaled one if its floats are large."""
        largest = np.abs(v).max(initial=0)
        if not self.is_float or not largest > 30:
            return text, v
        if self.chance(.3):
            return f"(tanh {text})", np.tanh(v)
        divisor = float(2**np.ceil(np.log2(largest / 4)))
        return f"({text} / {divisor!r})", v / divisor

    def term(self, shape, depth):
        """A term with this shape and this nesting depth of forms."""
        shape = tuple(shape)
        for _ in range(20 if depth > 0 else 0):
            make = self.random.choice(FORMS)
            term = make(self, shape, depth - 1)
            if term is None:
                continue
            assert term[1].shape == shape, (make.__name__, term, shape)
            term = self.tame(*term)
            return self.bind(*term) if self.chance(.12) else term
        return self.leaf(shape)

    def program(self):
        """Several results: declarations and values by name."""
        for i in range(self.random.randint(1, 3)):
            rank = self.pick(0, 1, 1, 2, 2, 2, 3, 3, 4)
            shape = [self.size() for _ in range(rank)]
            while count(shape) > self.most / 4:
                shape = [self.size() for _ in range(rank)]
            text, v = self.term(shape, self.random.randint(2, 5))
            self.lines.append(
                f"val o{i} : {self.element}[{sizes(v.shape)}] = {text}")
            self.results[f"o{i}"] = v
            if sum(map(len, self.lines)) > 12000:
                break
        return self

    def source(self):
        wide = "f32 " if self.element in ("f16", "bf16") else ""
        saves = [f'do save "{o}.npy" ({wide}{o})' for o in self.results]
        return "\n".join(self.lines + saves) + "\n"
