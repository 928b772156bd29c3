"""The workloads of the GPU compiler's goals: program and function, inputs, minimal
operations and bytes, and goal.  A goal is a speedup over the best peer, or a
share of the copy bandwidth."""

from dataclasses import dataclass, field, replace


@dataclass
class Workload:
    name: str
    group: str                  # of goals, and of peers: functions in peers.py
    program: str                # kernels/PROGRAM.axn
    function: str
    inputs: dict                # name: (type, extents)
    flops: float = 0
    bytes: float = 0
    goal: float = 1.0           # best peer's time / ours, at least;
    share: float = 0            # or of the measured bandwidth
    causal: bool = False
    more: dict = field(default_factory=dict)


BYTES = {"bf16": 2, "f32": 4}


def size(extents):
    count = 1
    for n in extents:
        count *= n
    return count


def moved(inputs, out):
    return sum(BYTES[t] * size(e) for t, e in inputs.values()) + out


def product(m, n, k, kind="gemm", goal=1.03):
    inputs = {"x": ("bf16", (m, k)), "w": ("bf16", (k, n))}
    if kind == "gelu":
        inputs["b"] = ("bf16", (n,))
    if kind == "residual":
        inputs["r"] = ("bf16", (m, n))
    return Workload(f"{kind} {m}x{n}x{k}", kind, "products", kind, inputs,
                    2.0 * m * n * k, moved(inputs, 2 * m * n), goal)


def losses(m, n, k):
    """The loss of a language model with a vocabulary of n words."""
    inputs = {"x": ("bf16", (m, k)), "w": ("bf16", (k, n))}
    return Workload(f"logsumexp {m}x{n}x{k}", "losses", "products", "losses",
                    inputs, 2.0 * m * n * k, moved(inputs, 4 * m))


SQUARES = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 16384)]
LAYERS = [(6144, 4096), (4096, 14336), (14336, 4096), (4096, 4096),
          (10240, 8192), (8192, 28672), (28672, 8192), (8192, 8192)]
SHAPES = SQUARES + [(m, n, k) for m in (32, 64, 128, 2048, 4096)
                    for n, k in LAYERS if (m, n, k) not in SQUARES]


def attention(n, heads, d, kind="plain", goal=1.0):
    extents = (max(1, 16384 // n), heads, n, d)
    inputs = {x: ("bf16", extents) for x in "qkv"}
    b = extents[0]
    pairs = n * n / 2 if kind in ("causal", "alibi") else n * n
    if kind == "window":
        pairs = n * min(n, 1024)
    group = "attention" if kind in ("plain", "causal") else "variants"
    return Workload(f"attention {kind} {b}x{heads}x{n}x{d}", group,
                    "attention", kind, inputs, 4.0 * b * heads * pairs * d,
                    moved(inputs, 2 * size(extents)), goal,
                    causal=kind == "causal")


def stream(function, inputs, out):
    at = "x".join(str(n) for n in inputs["x"][1])
    return Workload(f"{function} {at}", function, "streams", function, inputs,
                    bytes=moved(inputs, out), share=0.92)


def conv(c, o, h, stride=1, batch=64):
    inputs = {"x": ("bf16", (batch, h, h, c)), "w": ("bf16", (o, 3, 3, c))}
    side = h // stride
    return Workload(f"conv3x3 {batch}x{h}x{h}x{c} to {o}, stride {stride}",
                    "conv", "convolution", "conv" if stride == 1 else "strided",
                    inputs, 2.0 * batch * side * side * o * c * 9,
                    moved(inputs, 2 * batch * side * side * o),
                    more={"stride": stride})


MATRIX = ("f32", (8192, 8192))
ALL = (
    [product(*s, goal=1.05 if s == (4096,) * 3 else 1.03) for s in SHAPES] +
    [product(*s, kind=kind, goal=1.1) for kind in ("gelu", "residual")
     for s in SHAPES] +
    [losses(4096, 32000, 4096)] +
    [attention(n, heads, d, kind)
     for d in (64, 128) for heads in (16, 32)
     for n in (2048, 4096, 8192, 16384) for kind in ("plain", "causal")] +
    [attention(n, 16, 128, kind, 1.2) for n in (4096, 16384)
     for kind in ("softcap", "window", "alibi", "sigmoid")] +
    [stream("chain", {"x": ("f32", (256 << 20,))}, 1 << 30),
     stream("softmax", {"x": MATRIX}, 4 << 26),
     stream("layernorm", {"x": MATRIX, "w": ("f32", (8192,)),
                          "b": ("f32", (8192,))}, 4 << 26),
     stream("rows", {"x": MATRIX}, 4 * 8192),
     stream("columns", {"x": MATRIX}, 4 * 8192)] +
    [conv(64, 64, 56), conv(128, 128, 56, 2), conv(128, 128, 28),
     conv(256, 256, 28, 2), conv(256, 256, 14), conv(512, 512, 14, 2),
     conv(512, 512, 7)])


def small(w):
    """The same workload at sizes for the simulator."""
    def less(n):
        return n if n <= 8 else 16 + n % 2 if n < 256 else 24
    inputs = {name: (t, tuple(less(n) for n in e))
              for name, (t, e) in w.inputs.items()}
    return replace(w, inputs=inputs)


STEPS = (3571, 1103, 7919, 10007)   # of numbers, along each axis
PRIME = 65521


def program(w, folder):
    """Its program as text: what it takes is made there, of numbers that bf16 has
    exactly and that look like any, and `run ()` is what is timed."""
    lines = [f'import "{folder}/{w.program}" as it',
             f"fun next x = (x * x + 7 * x) % {PRIME}"]
    for name, (t, e) in w.inputs.items():
        axes = ", ".join(f"i{k} < {n}" for k, n in enumerate(e))
        terms = " + ".join(f"i{k} * {STEPS[k]}" for k in range(len(e)))
        lines.append(f"val {name} : {t}{list(e)} = for {axes} => {t} "
                     f"(next (next (({terms}) % {PRIME})) % 255 - 127) / 64.0")
    call = " ".join(["it." + w.function, *w.inputs])
    lines.append(f"fun run () = {call}")
    return "\n".join(lines) + "\n"


def spread(all_of):
    """One of each group in turn, and within a group from everywhere: who has no
    time for all of them has seen some of each."""
    groups = {}
    for w in all_of:
        groups.setdefault(w.group, []).append(w)
    for of in groups.values():
        first = of[:3]          # the squares
        of[:] = first + sorted(of[3:], key=lambda w: of.index(w) * .618 % 1)
    turns = max(map(len, groups.values()), default=0)
    return [of[k] for k in range(turns) for of in groups.values()
            if k < len(of)]


SUMS = """fun weight r = float (iota (dim -1 r) % 5)
fun sums r = (sum (abs r), sum (abs r * weight r))
do print (sums (f32 (run ())))
"""                             # behind the program: what another target gives
