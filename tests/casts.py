"""Checks random programs with `each` and casts:  casts.py AXON SEED COUNT

A program defines functions without annotations that change the float types of
any structure, and applies them to random structures.  The expected types and
values are computed here.  Every fourth program is wrong: it asks for another
float type.  Prints the programs whose result differs."""
import random
import subprocess
import sys
import tempfile

FLOATS = ["f16", "bf16", "f32", "f64"]
FUNCTIONS = 6
HELPERS = """\
datatype 'x tree = Leaf | Node of 'x tree * 'x * 'x tree
datatype 'a layer[n] = Layer of {w : 'a[n], steps : i32}
fun id x = x
fun pick c a b = if c then a else b
fun pair a b = (a, b)
fun annotated (x : 'x) : 'x = x
"""


class Kind:
    """A type: its text with any float type, the text of a value, whether the
    value has floats, and whether a loop can stack such values."""

    def __init__(self, kind, value, has_floats, stacks=False):
        self.kind, self.value = kind, value
        self.has_floats, self.stacks = has_floats, stacks


def tensor(rng):
    rank = rng.randint(0, 2)

    def digits(n):
        if not n:
            return f"{rng.randint(0, 9)}.5"
        return f"[{digits(n - 1)}, {digits(n - 1)}]"
    text = digits(rank)
    axes = ", ".join(["2"] * rank)
    return Kind(lambda t: f"{t}[{axes}]", lambda t: f"({t} {text})", True,
                True)


def constant(kind, value):
    return Kind(lambda t: kind, lambda t: value, False, kind != "string")


def parts_of(rng, depth, count):
    parts = [structure(rng, depth - 1) for _ in range(count)]
    return (parts, any(p.has_floats for p in parts),
            all(p.stacks for p in parts))


def tuple_of(rng, depth):
    parts, floats, stacks = parts_of(rng, depth, rng.randint(2, 4))
    return Kind(lambda t: f"({' * '.join(p.kind(t) for p in parts)})",
                lambda t: f"({', '.join(p.value(t) for p in parts)})", floats,
                stacks)


def record_of(rng, depth):
    parts, floats, stacks = parts_of(rng, depth, rng.randint(1, 3))
    named = [(f"f{i}", p) for i, p in enumerate(parts)]
    return Kind(
        lambda t: f"{{{', '.join(f'{n} : {p.kind(t)}' for n, p in named)}}}",
        lambda t: f"{{{', '.join(f'{n} = {p.value(t)}' for n, p in named)}}}",
        floats, stacks)


def list_of(rng, depth):
    item, count = structure(rng, depth - 1), rng.randint(0, 2)
    return Kind(lambda t: f"({item.kind(t)}) list",
                lambda t: f"(list [{', '.join([item.value(t)] * count)}])",
                item.has_floats and count > 0)


def tree_of(rng, depth):
    item, leaf = structure(rng, depth - 1), rng.random() < 0.3
    return Kind(lambda t: f"({item.kind(t)}) tree",
                lambda t: "Leaf" if leaf
                else f"(Node (Leaf, {item.value(t)}, Leaf))",
                item.has_floats and not leaf)


def layer():
    return Kind(lambda t: f"{t} layer[2]",
                lambda t: f"(Layer {{w = {t} [1.5, 2.5], steps = i32 3}})",
                True)


def structure(rng, depth):
    chance = rng.random()
    if not depth or chance < 0.35:
        return rng.choice([
            tensor(rng), tensor(rng), layer(), constant("i32", "(i32 7)"),
            constant("bool[1]", "[true]"), constant("string", '"s"')])
    make = [tuple_of, record_of, list_of, tree_of][int((chance - 0.35) / 0.1625)]
    return make(rng, depth)


def expression(rng, depth, own):
    """Of p, whose float type is `own`: its text, and the float type of its
    value."""
    if not depth:
        return "p", own
    x, t = expression(rng, depth - 1, own)
    form = rng.randrange(11)
    to = rng.choice(FLOATS)
    if form < 4:
        return f"each {to} ({x})", to
    if form < 6:
        y, _ = expression(rng, depth - 1, own)
        return f"each2 (fn a b => {to} a + {to} b) ({x}) ({y})", to
    if form == 6:
        y, _ = expression(rng, depth - 1, own)
        return f"(if true then {x} else each {t} ({y}))", t
    if form == 7:
        return f"(case list [{x}] of y :: _ => y | _ => {x})", t
    if form == 8:
        return f"fst (pair (annotated (id ({x}))) 1)", t
    if form == 9:  # a cotangent
        return f"snd (vjp (fn q => each {to} q) ({x})) (each {to} ({x}))", t
    return ("stop_gradient (let val {a, b} = {a = " + x + ", b = " + x +
            "} in pick true a b end)"), t


def program(rng, wrong):
    lines = [HELPERS]
    for i in range(FUNCTIONS):
        own = rng.choice(FLOATS)
        p = structure(rng, 3)
        while not p.has_floats:
            p = structure(rng, 3)
        body, to = expression(rng, rng.randint(1, 4), own)
        if wrong and i == FUNCTIONS - 1:
            to = rng.choice([t for t in FLOATS if t != to])
        kind, call = p.kind(to), f"g{i} {p.value(own)}"
        if p.stacks and rng.random() < 0.6:
            kind = f"lift(2, {kind})"
            call = f"map g{i} (for i < 2 => {p.value(own)})"
        lines.append(f"fun g{i} p = {body}\n"
                     f"val r{i} : {kind} = {call}\n"
                     f"do print (equal r{i} (each {to} r{i}))\n")
    return "".join(lines)


def fails(axon, seed):
    """The text of the program and its output, if this is not as expected."""
    wrong = seed % 4 == 3
    text = program(random.Random(seed), wrong)
    with tempfile.NamedTemporaryFile("w", suffix=".axn") as file:
        file.write(text)
        file.flush()
        ran = subprocess.run([axon, "run", file.name], capture_output=True,
                             text=True)
    if wrong:
        good = ran.returncode == 1 and ran.stderr.count("error[") == 1
    else:
        good = ran.returncode == 0 and ran.stdout == "true\n" * FUNCTIONS
    return None if good else f"seed {seed}:\n{text}{ran.stdout}{ran.stderr}"


def main():
    axon, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = [f for s in range(seed, seed + count) if (f := fails(axon, s))]
    print("\n".join(found[:3]), end="")
    print(f"{count} programs, {len(found)} not as expected")
    return bool(found)


sys.exit(main())
