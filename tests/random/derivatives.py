"""Random programs that mix derivatives, control flow and loops.  Each runs on
the reference backend and compiled, and the results must agree:

    python3 tests/random/derivatives.py [--axon PROGRAM] [--keep DIR] SEEDS...

SEEDS are numbers or ranges (7 100-199).  A program has several cases: tuples of
f64 tensors, which share nodes.  Their expressions nest grad, vjp, jvp, hvp,
checkpoint and custom_vjp with branches on values, loops, recursion, force,
updates and views.  Some programs read outside a tensor in the middle of a loop:
then all messages must be equal.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from seeds import seeds

FORMS = []
MODES = {
    "reference": {"AXON_TARGET": "reference"},
    "default": {},
    "compiled": {"AXON_TARGET": "cpu", "AXON_TINY": "0", "AXON_VERIFY": "1"},
    "two threads": {"AXON_TARGET": "cpu", "AXON_TINY": "0",
                    "AXON_THREADS": "2", "MALLOC_PERTURB_": "165"},
}
TOLERANCE = 1e-8  # relative to the largest element of a tensor, or to 1
HUGE = 1e280  # sums of larger numbers may overflow in one order only
CASES = 4  # of a program
FORMS_OF_CASE = 16
SHORT_LOOP = 5  # iterations
LIMIT = 200  # timeout of a program in seconds


def form(weight=1):
    """Registers a form: a function that makes an expression of a shape from
    smaller ones, or returns None if it cannot."""

    def enter(function):
        FORMS.extend([function] * weight)
        return function

    return enter


def typed(shape):
    return f"f64[{', '.join(map(str, shape))}]" if shape else "f64"


class Writer:
    """Writes expressions; `env` lists the names in scope and their shapes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.n, self.m = (self.pick(1, 2, 3, 3, 8, 8) for _ in range(2))
        n, m = self.n, self.m
        self.shapes = [(), (n, ), (m, ), (n, m), (m, n), (n, n)]
        self.has_faults = self.chance(.1)
        self.made = self.left = 0

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, *items):
        return self.random.choice(items)

    def shape(self):
        return self.random.choice(self.shapes)

    def number(self):
        return repr(round(self.random.uniform(-1, 1), 3))

    def fresh(self, letter):
        self.made += 1
        return f"{letter}{self.made}"

    def leaf(self, env, shape):
        known = [name for name, s in env if s == shape]
        if known and self.chance(.85):
            return self.random.choice(known[-5:])
        if not shape:
            larger = [name for name, s in env if s]
            if larger and self.chance(.7):
                return f"(sum (sin {self.random.choice(larger[-5:])}))"
            return f"({self.number()} : f64)"
        names = [self.fresh("i") for _ in shape]
        ranges = ", ".join(f"{i} < {n}" for i, n in zip(names, shape))
        at = " + ".join(f"{3 * k + 1} * {i}" for k, i in enumerate(names))
        text = (f"(for {ranges} => sin (float ({at}) * 0.7 + {self.number()})"
                f" : {typed(shape)})")
        return f"(force {text})" if self.chance(.4) else text

    def term(self, env, shape, depth):
        for _ in range(20 if depth > 0 and self.left > 0 else 0):
            make = self.random.choice(FORMS)
            text = make(self, env, shape, depth - 1)
            if text is not None:
                self.left -= 1
                return text
        return self.leaf(env, shape)

    def block(self, env, shapes, depth):
        """A let that binds values and returns some of them."""
        env, lines = list(env), []
        for _ in range(self.random.randint(1, 3)):
            shape = self.shape()
            name = self.fresh("v")
            text = self.term(env, shape, depth)
            lines.append(f"val {name} : {typed(shape)} = {text}")
            env.append((name, shape))
        results = ", ".join(self.term(env, s, depth - 1) for s in shapes)
        return f"let {' '.join(lines)} in ({results}) end"

    def body(self, env, shape, depth):
        """The bounded result of a function."""
        if self.chance(.4):
            text = f"({self.block(env, [shape], depth)})"
        else:
            text = self.term(env, shape, depth)
        name, last = env[-1]
        if self.chance(.5):
            text += f" + {name}" if last == shape else f" + sum (sin {name})"
        return f"{self.pick('tanh', 'sin', 'cos')} ({text})"

    def scalar(self, env, depth):
        """A loss: every name in scope at the end of `env` may matter."""
        name, shape = env[-1]
        text = self.term(env, self.pick(shape, self.shape()), depth)
        return f"sum (sin ({text})) + sum ({name} * {name} * cos {name})"

    def condition(self, env, depth):
        text = self.term(env, self.shape(), depth)
        return f"sum ({text}) {self.pick('>', '<')} {self.number()}"

    def case(self):
        self.left = FORMS_OF_CASE
        shapes = [self.shape() for _ in range(self.random.randint(1, 3))]
        return self.block([], shapes, 4)

    def program(self):
        lines = []
        for k in range(CASES):
            lines.append(f"val r{k} = {self.case()}")
            lines.append(f'do save_tree "{k}.safetensors" {{r = r{k}}}')
        return "\n".join(lines) + "\n"


# ---- pointwise, reductions, products ----


@form(3)
def mapped_once(w, env, shape, depth):
    e = w.term(env, shape, depth)
    y = w.fresh("y")
    return w.pick(f"(tanh {e})", f"(sin {e})", f"({w.number()} * {e})",
                  f"(let val {y} = {e} in 0.4 * {y} * {y} end)",
                  f"(let val {y} = {e} in sqrt ({y} * {y} + 0.3) end)",
                  f"(exp (tanh {e}))")


@form(4)
def combined(w, env, shape, depth):
    other = w.pick(shape, shape, ())
    a, b = w.term(env, shape, depth), w.term(env, other, depth)
    if w.chance(.2) and other == shape:
        return f"(select ({a} > {w.number()}) ({b}) ({w.leaf(env, shape)}))"
    return w.pick(f"({a} + {b})", f"({a} - 0.5 * {b})", f"(tanh {a} * {b})",
                  f"({b} + tanh {a})", f"({a} / (1.0 + {b} * {b}))")


@form(2)
def reduced(w, env, shape, depth):
    larger = [(s, k) for s in w.shapes for k in range(len(s))
              if s[:k] + s[k + 1:] == shape]
    if not larger:
        return None
    s, axis = w.random.choice(larger)
    return (f"({w.pick('sum', 'mean', 'max')} ~axis:{axis} "
            f"({w.term(env, s, depth)}))")


@form(2)
def product(w, env, shape, depth):
    if len(shape) == 2:
        k = w.pick(w.n, w.m)
        if (shape[0], k) in w.shapes and (k, shape[1]) in w.shapes:
            return (f"(0.3 * ({w.term(env, (shape[0], k), depth)} @ "
                    f"{w.term(env, (k, shape[1]), depth)}))")
        return (f"(outer ({w.term(env, shape[:1], depth)}) "
                f"({w.term(env, shape[1:], depth)}))")
    if len(shape) == 1:
        k = w.pick(w.n, w.m)
        if shape + (k, ) in w.shapes:
            return (f"(0.3 * dot ({w.term(env, shape + (k, ), depth)}) "
                    f"({w.term(env, (k, ), depth)}))")
    return None


@form(2)
def comprehension(w, env, shape, depth):
    if not shape:
        return None
    a, b = w.fresh("a"), w.fresh("b")
    names = [w.fresh("i") for _ in shape]
    other = shape[:1]
    ranges = ", ".join(f"{i} < {n}" for i, n in zip(names, shape))
    at = ", ".join(names)
    last = f"{shape[0] - 1} - {names[0]}"
    return (f"(let val {a} = {w.term(env, shape, depth)}"
            f" val {b} = {w.term(env, other, depth)} in"
            f" for {ranges} => {a}.[{at}] * {b}.[{last}] +"
            f" sum (for q < {other[0]} => {b}.[q] * {w.number()}) end)")


# ---- views and updates ----


@form(3)
def view(w, env, shape, depth):
    kind = w.random.randrange(6)
    if kind == 0 and len(shape) == 2:
        return f"(transpose ({w.term(env, shape[::-1], depth)}))"
    if kind == 1 and len(shape) == 1:
        n = w.pick(w.n, w.m)
        if (n, ) + shape in w.shapes:
            k = w.random.randrange(n)
            return f"({w.term(env, (n, ) + shape, depth)}).[{k}, ...]"
    if kind == 2 and len(shape) == 1:
        n = w.pick(w.n, w.m)
        if shape + (n, ) in w.shapes:
            k = w.random.randrange(n)
            return f"({w.term(env, shape + (n, ), depth)}).[:, {k}]"
    if not shape:
        return None
    x, n = w.fresh("x"), shape[0]
    text = w.term(env, shape, depth)
    if kind == 3:
        return f"({text}).[::-1, ...]"
    if kind == 4:
        k = w.random.randint(0, n)
        return (f"(let val {x} = {text} in"
                f" concat ~axis:0 ({x}.[{k}:, ...], {x}.[:{k}, ...]) end)")
    at = ", ".join(str(w.random.randrange(n)) for _ in range(n))
    return f"({text}).[[{at}], ...]"


@form(3)
def update(w, env, shape, depth):
    if not shape:
        return None
    n, rest = shape[0], shape[1:]
    text = w.term(env, shape, depth)
    if w.chance(.4):
        row = w.term(env, rest, depth)
        return f"(set {w.random.randrange(n)} ({row}) ({text}))"
    rows = w.random.randint(1, n)
    if (rows, ) + rest not in w.shapes:
        rows = n
    rows_text = w.term(env, (rows, ) + rest, depth)
    if w.chance(.5):
        at = w.random.sample(range(n), rows)
        return f"(put {at} ({rows_text}) ({text}))"
    if w.chance(.5):
        row = w.term(env, rest, depth)
        return f"(scatter ({text}) [{w.random.randrange(n)}] [{row}])"
    at = [w.random.randrange(n) for _ in range(rows)]
    return f"(scatter ({text}) {at} ({rows_text}))"


# ---- control flow ----


@form(3)
def forced(w, env, shape, depth):
    return f"(force ({w.term(env, shape, depth)}))"


@form(3)
def branch(w, env, shape, depth):
    return (f"(if {w.condition(env, depth)} then {w.term(env, shape, depth)}"
            f" else {w.term(env, shape, depth)})")


@form(2)
def shared(w, env, shape, depth):
    return f"({w.block(env, [shape], depth)})"


@form()
def recursion(w, env, shape, depth):
    go, k, v = w.fresh("go"), w.fresh("k"), w.fresh("v")
    inner = env + [(v, shape)]
    stop = f"{k} == 0"
    if w.chance(.3):
        stop += f" || {w.condition(inner, depth - 1)}"
    return (f"(let fun {go} ({k} : int) ({v} : {typed(shape)}) :"
            f" {typed(shape)} = if {stop} then {v} else"
            f" {go} ({k} - 1) ({w.body(inner, shape, depth - 1)}) in"
            f" {go} {w.random.randint(0, 3)} ({w.term(env, shape, depth)})"
            " end)")


def step(w, env, shape, depth, n):
    """The body of a loop of n iterations.  Long loops shrink differences: other
    loops may enlarge rounding errors until nothing is left to compare."""
    body = w.body(env, shape, depth)
    return body if n <= SHORT_LOOP else f"0.3 * {body}"


@form(2)
def iterated(w, env, shape, depth):
    v, n = w.fresh("v"), w.pick(0, 1, 2, 3, 5, 17, 34)
    start = w.term(env, shape, depth)
    if w.chance(.4):
        body = step(w, env + [(v, shape)], shape, depth - 1, n)
        return f"(iterate {n} (fn ({v} : {typed(shape)}) => {body}) ({start}))"
    u, other = w.fresh("u"), w.shape()
    inner = env + [(u, other), (v, shape)]
    if n <= SHORT_LOOP and w.chance(.3):
        body = w.block(inner, [shape, other], depth - 1)
    else:
        parts = [step(w, inner, s, depth - 1, n) for s in (shape, other)]
        if w.chance(.3) and other == shape:
            parts[0] = v
        body = f"({', '.join(parts)})"
    return (f"(fst (iterate {n} (fn ({v}, {u}) => {body})"
            f" ({start}, {w.term(env, other, depth)})))")


def rows(w, env, shape, depth):
    """A number, and a tensor with that number of rows of this shape."""
    n = w.pick(0, 1, 2, 3, w.n, w.m, 18)
    if (n, ) + shape in w.shapes and w.chance(.7):
        return n, w.term(env, (n, ) + shape, depth)
    names = [w.fresh("i") for _ in range(len(shape) + 1)]
    ranges = ", ".join(f"{i} < {k}" for i, k in zip(names, (n, ) + shape))
    at = " + ".join(f"{k + 1} * {i}" for k, i in enumerate(names))
    text = f"for {ranges} => cos (float ({at}) * 0.9)"
    known = [name for name, s in env if s == shape]
    if known and w.chance(.6):
        at = ", ".join(names[1:])
        name = w.random.choice(known[-5:])
        text += f" + {name}" + (f".[{at}]" if shape else "")
    return n, f"({text} : {typed((n, ) + shape)})"


@form(2)
def folded(w, env, shape, depth):
    c, r, other = w.fresh("c"), w.fresh("r"), w.pick(shape, w.shape())
    n, text = rows(w, env, other, depth)
    body = step(w, env + [(r, other), (c, shape)], shape, depth - 1, n)
    return (f"(fold (fn {c} {r} => {body}) ({w.term(env, shape, depth)})"
            f" {text})")


@form(2)
def scanned(w, env, shape, depth):
    c, r, out = w.fresh("c"), w.fresh("r"), w.fresh("s")
    other = w.shape()
    n, text = rows(w, env, other, depth)
    inner = env + [(r, other), (c, shape)]
    if n <= SHORT_LOOP and w.chance(.5):
        body = w.block(inner, [shape, other], depth - 1)
    else:
        body = (f"({step(w, inner, shape, depth - 1, n)},"
                f" {w.pick(r, w.body(inner, other, depth - 1))})")
    return (f"(let val ({c}, {out}) = scan (fn {c} {r} => {body})"
            f" ({w.term(env, shape, depth)}) {text}"
            f" in {c} + sum (sin {out}) end)")


@form()
def looped(w, env, shape, depth):
    """A `while` on a count and on values."""
    k, v = w.fresh("k"), w.fresh("v")
    inner = env + [(v, shape)]
    stop = f"{k} < {w.random.randint(0, 4)}"
    if w.chance(.7):
        stop += f" && {w.condition(inner, depth - 1)}"
    return (f"(snd (while (fn ({k}, {v}) => {stop}) (fn ({k}, {v}) =>"
            f" ({k} + 1, {w.body(inner, shape, depth - 1)}))"
            f" (0, {w.term(env, shape, depth)})))")


@form()
def indexed(w, env, shape, depth):
    """A loop whose indices are data; one may be outside the tensor."""
    c, i, x = w.fresh("c"), w.fresh("i"), w.fresh("x")
    n = w.pick(w.n, w.m)
    if (n, ) + shape not in w.shapes:
        return None
    at = [w.random.randrange(n) for _ in range(w.pick(1, 3, 6, 20))]
    if w.has_faults and w.chance(.5):
        at[w.random.randrange(len(at))] = w.pick(n, -1, 100)
    body = step(w, env + [(c, shape)], shape, depth - 1, len(at))
    use = w.pick(f"{x}.[{i}, ...] + {body}", f"tanh ({x}.[{i}, ...] * {c})")
    if shape and w.chance(.3):
        return (f"(let val {x} = {w.term(env, (n, ) + shape, depth)} in"
                f" (fold (fn {c} {i} => put [{i}] [sin {c}.[{i}, ...]] {c} +"
                f" 0.1 * {c}) {x} {at}).[0, ...] end)")
    return (f"(let val {x} = {w.term(env, (n, ) + shape, depth)} in"
            f" fold (fn {c} {i} => {use}) ({w.term(env, shape, depth)}) {at}"
            " end)")


@form()
def each_row(w, env, shape, depth):
    if not shape:
        return None
    r, rest = w.fresh("r"), shape[1:]
    text = w.term(env, shape, depth)
    if w.chance(.3):
        loss = w.scalar(env + [(r, rest)], depth - 1)
        return f"(map (grad (fn ({r} : {typed(rest)}) => {loss})) ({text}))"
    return (f"(map (fn {r} => {w.body(env + [(r, rest)], rest, depth - 1)})"
            f" ({text}))")


@form()
def listed(w, env, shape, depth):
    c, r, other = w.fresh("c"), w.fresh("r"), w.shape()
    parts = ", ".join(w.term(env, other, depth) for _ in range(3))
    body = w.body(env + [(r, other), (c, shape)], shape, depth - 1)
    return (f"(lists.fold (fn {c} {r} => {body}) ({w.term(env, shape, depth)})"
            f" (list [{parts}]))")


# ---- derivatives ----


@form(4)
def gradient(w, env, shape, depth):
    v = w.fresh("v")
    loss = w.scalar(env + [(v, shape)], depth)
    if w.chance(.5):
        return (f"(grad (fn ({v} : {typed(shape)}) => {loss})"
                f" ({w.term(env, shape, depth)}))")
    l, g = w.fresh("l"), w.fresh("g")
    return (f"(let val ({l}, {g}) = value_and_grad (fn ({v} : {typed(shape)})"
            f" => {loss}) ({w.term(env, shape, depth)}) in {g} + {l} end)")


@form(2)
def gradient_of_record(w, env, shape, depth):
    r, a, b, g = (w.fresh(letter) for letter in "rabg")
    other = w.shape()
    loss = w.scalar(env + [(a, shape), (b, other)], depth)
    made, part = w.pick(("({}, {})", "fst {}"),
                        ("{{p = {}, q = {}}}", "{}.p"),
                        ("({}, list [{}])", "fst {}"))
    value = made.format(w.term(env, shape, depth), w.term(env, other, depth))
    other_rules = " | _ => 0.0" if "list" in made else ""
    return (f"(let val {g} = grad (fn {r} => case {r} of {made.format(a, b)}"
            f" => {loss}{other_rules}) {value} in {part.format(g)} end)")


@form(2)
def pulled_back(w, env, shape, depth):
    """vjp, whose function may be called twice, or in a gradient."""
    v, y, back, other = w.fresh("v"), w.fresh("y"), w.fresh("back"), w.shape()
    body = w.body(env + [(v, shape)], other, depth)
    inner = env + [(y, other)]
    calls = f"{back} ({w.term(inner, other, depth - 1)})"
    if w.chance(.4):
        calls += f" + {back} ({w.term(inner, other, depth - 1)})"
    return (f"(let val ({y}, {back}) = vjp (fn ({v} : {typed(shape)}) =>"
            f" {body}) ({w.term(env, shape, depth)}) in {calls} end)")


@form(2)
def along(w, env, shape, depth):
    v = w.fresh("v")
    x, d = w.term(env, shape, depth), w.term(env, shape, depth)
    if w.chance(.5):
        loss = w.scalar(env + [(v, shape)], depth - 1)
        return f"(hvp (fn ({v} : {typed(shape)}) => {loss}) ({x}) ({d}))"
    body = w.body(env + [(v, shape)], shape, depth)
    return f"(snd (jvp (fn ({v} : {typed(shape)}) => {body}) ({x}) ({d})))"


@form()
def matrix(w, env, shape, depth):
    if len(shape) != 2:
        return None
    v = w.fresh("v")
    argument = shape[1:]
    x = w.term(env, argument, depth)
    inner = env + [(v, argument)]
    if shape[0] == shape[1] and w.chance(.5):
        return (f"(hessian (fn ({v} : {typed(argument)}) =>"
                f" {w.scalar(inner, depth - 1)}) ({x}))")
    return (f"(jacobian (fn ({v} : {typed(argument)}) =>"
            f" {w.body(inner, shape[:1], depth - 1)}) ({x}))")


@form(2)
def recomputed(w, env, shape, depth):
    v, other = w.fresh("v"), w.pick(shape, w.shape())
    body = w.body(env + [(v, other)], shape, depth)
    return f"(checkpoint (fn {v} => {body}) ({w.term(env, other, depth)}))"


@form()
def by_rule(w, env, shape, depth):
    v, r, ct = w.fresh("v"), w.fresh("r"), w.fresh("ct")
    residual = w.body([(v, shape)], shape, depth - 1)
    return (f"(custom_vjp (fn {v} => (sin {v}, {residual})) (fn {r} {ct} =>"
            f" {ct} * cos {r}) ({w.term(env, shape, depth)}))")


@form()
def constant(w, env, shape, depth):
    return f"(stop_gradient ({w.term(env, shape, depth)}))"


# ---- runs ----


def tensors(path):
    """The numbers of a .safetensors file by name."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    named = json.loads(data[8:8 + size])
    result = {}
    for name, entry in named.items():
        first, last = entry["data_offsets"]
        values = data[8 + size + first:8 + size + last]
        result[name] = struct.unpack(f"<{len(values) // 8}d", values)
    return result


def differ(got, want):
    """Describes the first difference of two cases; empty if there is none."""
    if got.keys() != want.keys():
        return "other names"
    for name, values in want.items():
        limit = TOLERANCE * max(
            [1, *(abs(x) for x in values if abs(x) < HUGE)])
        for k, (x, y) in enumerate(zip(got[name], values)):
            is_number = abs(x) < HUGE, abs(y) < HUGE
            if any(is_number) and not (all(is_number) and
                                       abs(x - y) <= limit):
                return f"{name} element {k}: {x!r}, not {y!r}"
    return ""


def outcome(axon, folder, settings):
    """Exit status, standard error, and the cases of a run."""
    for old in folder.glob("*.safetensors"):
        old.unlink()
    try:
        done = subprocess.run([axon, "program.axn"], cwd=folder, timeout=LIMIT,
                              capture_output=True, text=True, errors="replace",
                              env=os.environ | settings)
    except subprocess.TimeoutExpired:
        return "timeout", "", {}
    return done.returncode, done.stderr, {
        path.name: tensors(path) for path in folder.glob("*.safetensors")}


def check(axon, folder):
    """Describes what differs between the modes; empty if nothing does."""
    wanted = None
    for mode, settings in MODES.items():
        status, said, cases = outcome(axon, folder, settings)
        if wanted is None:
            wanted = status, said, cases
        if status not in (0, 1) or "internal" in said or "E0522" in said:
            return f"{mode}: status {status}: {said[-600:]}"
        if (status, said) != wanted[:2] or cases.keys() != wanted[2].keys():
            return (f"{mode}: status {status}: {said[-600:]}\nnot {wanted[0]}:"
                    f" {wanted[1][-600:]}")
        for name in sorted(cases):
            why = differ(cases[name], wanted[2][name])
            if why:
                return f"{mode}: {name}: {why}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--axon", default="./axon")
    parser.add_argument("--keep", default="")
    parser.add_argument("seeds", nargs="+")
    options = parser.parse_args()
    axon = os.path.abspath(options.axon)
    wrong = stopped = 0
    for i, seed in enumerate(seeds(options.seeds)):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="axon_derivatives_"))
        (folder / "program.axn").write_text(Writer(seed).program())
        why = check(axon, folder)
        stopped += len(list(folder.glob("*.safetensors"))) < CASES
        if why:
            wrong += 1
            print(f"seed {seed}: {why}", flush=True)
            if options.keep:
                shutil.copytree(folder, f"{options.keep}/{seed}",
                                dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{i + 1} programs, {stopped} of them stopped, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
