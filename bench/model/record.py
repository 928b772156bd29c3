"""Records tables for the cost model: for random legal schedules of a kernel, the
measured time, and the counts of the model.

A table has the rates of the machine, so that the model can be evaluated on any
other one.  Its name is that of the space and of the processor, by vendor,
family and model: blur.amd25_17.csv.  All schedules of a space are timed in
turn, in one thread; the fastest call of all rounds counts.  A space is refused
if the fastest calls of even and odd rounds differ too much.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SPACES = pathlib.Path(os.environ.get("TABLES")
                      or pathlib.Path(__file__).parent)
PRODUCT = """val x : {t}[{m}, {k}] = normal (key 1) [{m}, {k}]
val y : {t}[{k}, {n}] = normal (key 2) [{k}, {n}]
fun result () = x @ y
"""
CONV = """val x : f32[{b}, {c}, {h}, {h}] = normal (key 1) [{b}, {c}, {h}, {h}]
val w : f32[{o}, {c}, 3, 3] = normal (key 2) [{o}, {c}, 3, 3]
val b : f32[{o}] = zeros [{o}]
fun result () = nn.conv2d ~padding:1 {{w, b}} x
"""
COLUMNS = """val x : f32[1024, 1024] = normal (key 1) [1024, 1024]
fun result () = sum ~axis:0 x
"""
BLUR = """val x : f32[256, 1024] = normal (key 1) [256, 1024]
fun result () = for y < 254, z < 1022 =>
  sum (for i < 3, j < 3 => x.[y + i, z + j]) / 9.0
"""
DEPTHWISE = """val x : f32[32, 64, 64] = normal (key 1) [32, 64, 64]
val w : f32[32, 3, 3] = normal (key 2) [32, 3, 3]
fun result () = for c < 32, y < 62, z < 62 =>
  sum (for i < 3, j < 3 => x.[c, y + i, z + j] * w.[c, i, j])
"""
ROWS = """val x : f32[1024, 1024] = normal (key 1) [1024, 1024]
fun result () = sum ~axis:1 (x * x)
"""


def some(r, *values):
    return r.choice(values)


def tile(r, lanes):
    """Rows and vectors of a tile that fits in 32 registers."""
    vectors = some(r, 1, 2, 3, 4)
    return r.randint(1, min(24, (31 - vectors) // vectors)), vectors * lanes


def product(lanes):
    def schedule(r):
        mr, nr = tile(r, lanes)
        fields = [f"mr={mr} nr={nr}"]
        if r.random() < .7:
            fields.append(f"kc={some(r, 32, 64, 128, 256, 384, 768)}")
        if r.random() < .7:
            fields.append(f"rows={mr * some(r, 1, 2, 4, 8, 16, 32)}")
        if r.random() < .7:
            fields.append(f"columns={nr * some(r, 1, 2, 3, 4, 8)}")
        return "1: by gemm {" + " ".join(fields) + "}"
    return schedule


def conv(size):
    def schedule(r):
        along = some(r, "channels", "positions")
        mr, nr = tile(r, 16)
        fields = [f"along={along}"]
        if r.random() < .8:
            fields.append(f"mr={mr} nr={nr}")
            if r.random() < .4:
                unit = nr if along == "channels" else mr
                fields.append(f"rows={unit * some(r, 1, 2, 4)}")
        if r.random() < .6:
            fields.append(f"image_rows={some(r, 1, 2, 4, 7, 14, 28)}")
        if r.random() < .2:
            fields.append(f"columns={size // 2}")
        return "1: by gemm {" + " ".join(fields) + "}"
    return schedule


def columns(r):
    vectors, terms = some(r, 1, 2, 4, 8, 16, 64), some(r, 1, 2, 4, 8)
    head = f"tasks i0 {some(r, 64, 128, 256, 512, 1024)}; width 16"
    run = some(r, 8, 32, 128)
    if vectors <= 8 and r.random() < .6:
        return (f"{head}\n1: tile i0 16 peel; tile i0.1 {vectors} if; "
                f"unroll i0.1; tile i1 {terms} peel; tile i1.1 {run}; "
                "run i1.2; order i0.2, i1.2, i1.1, i1, i0.1, i0; lanes i0; "
                "unroll i1")
    return (f"{head}\n1: tile i0 16 peel; tile i0.1 {vectors}; "
            f"tile i1 {terms} peel; tile i1.1 {run}; run i1.2; "
            "order i0.2, i1.2, i1.1, i0.1, i1, i0; lanes i0; unroll i1")


def blur(r):
    rows, vectors = some(r, 1, 2, 4), some(r, 1, 2, 4)
    tail = some(r, "mask", "peel")
    steps = [f"tile i1 16 {tail}", f"tile i1.1 {vectors} if", "unroll i1.1"]
    if r.random() < .6:
        steps.append("unroll i3")
    steps += [f"tile i0 {rows} peel", "unroll i0"]
    if rows > 1 and r.random() < .7:
        steps += ["stream i0, i2", "order i0.1, i1.2, i4, i3, i0, i1.1, i1"]
    else:
        steps.append("order i0.1, i1.2, i2, i3, i0, i1.1, i1")
    steps.append("lanes i1" + (" mask" if tail == "mask" else ""))
    if r.random() < .5:
        steps.append("broadcast")
    steps.append("epilogue")
    return (f"tasks i0 {rows * some(r, 1, 2, 4, 8)}, "
            f"i1 {some(r, 256, 512, 1024)}; width 16\n1: " + "; ".join(steps))


def depthwise(r):
    """As a blur of each channel: the axes follow that of the channels."""
    head, steps = blur(r).split("\n")
    steps = re.sub(r"\bi(\d)", lambda m: f"i{int(m[1]) + 1}", steps)
    rows = re.search("tile i1 ([0-9]+) peel", steps)[1]
    return (f"tasks i0, i1 {int(rows) * some(r, 1, 4, 16)}, i2 64; width 16\n"
            + steps.replace("epilogue", some(r, "fma", "")).rstrip("; "))


def rows(r):
    parts, jam = some(r, 1, 2, 4, 8, 16), some(r, 1, 1, 2, 4)
    steps = ["tile i1 16 peel", f"tile i1.1 {parts} peel", "unroll i1.1",
             "parts i1.1"]
    if jam > 1:
        steps += [f"tile i0 {jam} peel", "unroll i0",
                  "order i0.1, i1.2, i1.1, i0, i1"]
    steps.append("lanes i1")
    return f"tasks i0 {jam * some(r, 1, 8, 64)}; width 16\n1: " + "; ".join(steps)


# Calls of less than about a millisecond: a longer one is seldom undisturbed on a
# busy machine.
SPACE = {
    "product_256": (PRODUCT.format(t="f32", m=256, k=256, n=256), product(16)),
    "product_wide": (PRODUCT.format(t="f32", m=48, k=300, n=1536),
                     product(16)),
    "product_deep": (PRODUCT.format(t="f32", m=100, k=2000, n=96),
                     product(16)),
    "product_f64": (PRODUCT.format(t="f64", m=200, k=200, n=200), product(8)),
    "conv_28": (CONV.format(b=1, c=32, o=64, h=28), conv(28)),
    "conv_14": (CONV.format(b=2, c=64, o=64, h=14), conv(14)),
    "columns": (COLUMNS, columns),
    "blur": (BLUR, blur),
    # No constant of the model was fitted to these.
    "product_tall": (PRODUCT.format(t="f32", m=2000, k=64, n=64),
                     product(16)),
    "conv_56": (CONV.format(b=1, c=16, o=32, h=56), conv(56)),
    "depthwise": (DEPTHWISE, depthwise),
    "rows": (ROWS, rows),
}


def options():
    parser = argparse.ArgumentParser(prog="bench/record_model.sh",
                                     description=__doc__)
    parser.add_argument("spaces", nargs="*", metavar="SPACE")
    parser.add_argument("--axon", required=True)
    parser.add_argument("--points", type=int, default=30,
                        help="schedules of each space")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=.03,
                        help="of each timing")
    parser.add_argument("--seed", type=int, default=1)
    counts = parser.add_mutually_exclusive_group()
    counts.add_argument("--counts", action="store_true",
                        help="count again; keep the times of the tables")
    counts.add_argument("--compare", action="store_true",
                        help="only compare the counts of the tables with those "
                        "of this build")
    return parser.parse_args()


def axon(o, *arguments):
    run = subprocess.run([o.axon, *arguments], capture_output=True, text=True,
                         timeout=500)
    return run.stdout if run.returncode == 0 else None


def plan(o, program, schedule):
    """The only kernel with a schedule; None: it is refused."""
    more = ["--schedules", schedule] if schedule else []
    text = axon(o, "plan", "--dry", "--json", "--schedule", *more, "-e",
                "result ()", program)
    if text is None:
        return None
    kernels = [k for run in json.loads(text)["runs"] for k in run["kernels"]
               if "model_counts" in k]
    return max(kernels, key=lambda k: k["operations"], default=None)


def numbers(counts):
    of = [counts["type"], counts["tasks"], counts["packed"], counts["calls"],
          counts["pages"],
          *counts["bytes"], *counts["copied_bytes"], len(counts["bodies"]),
          *(x for body in counts["bodies"] for x in body)]
    return " ".join(f"{x:.12g}" for x in of)


class Space:
    def __init__(self, o, name, folder):
        self.o, self.name, self.folder = o, name, folder
        text, self.random = SPACE[name]
        self.program = folder / f"{name}.axn"
        self.program.write_text(text)
        chosen = plan(o, self.program, None)
        if not chosen:
            sys.exit(f"{name}: no kernel")
        self.head = chosen["schedule"].split("\n")[0]
        self.first = chosen["schedule"].split("\n", 1)[1]

    def file(self, schedule):
        path = self.folder / f"{self.name}.axs"
        path.write_text(f"{self.head}\n{schedule}\n")
        return path

    def points(self):
        """Different schedules that are legal, the chosen one first."""
        r, found = random.Random(f"{self.o.seed} {self.name}"), {}
        for k in range(20 * self.o.points):
            text = self.random(r) if k else self.first
            kernel = plan(self.o, self.program, self.file(text))
            if kernel:
                found[kernel["schedule"].split("\n", 1)[1]] = kernel
            if len(found) == self.o.points:
                break
        return found

    def time(self, schedule):
        text = axon(self.o, "bench", "--json", "--seconds",
                    str(self.o.seconds), "--schedules", self.file(schedule),
                    self.program, "result")
        return json.loads(text)["results"][0]["least"] if text else None

    def record(self):
        points = self.points()
        best = [dict.fromkeys(points), dict.fromkeys(points)]
        for k in range(self.o.rounds + 2):
            for text in points:
                t = self.time(text)
                old = best[k % 2][text]
                # the first two rounds compile
                if t and k >= 2 and (old is None or t < old):
                    best[k % 2][text] = t
        rows, worst = [], []
        for text, kernel in points.items():
            a, b = best[0][text], best[1][text]
            if a and b:
                worst.append(abs(a - b) / min(a, b))
                rows.append((min(a, b), numbers(kernel["model_counts"]), text))
        worst.sort()
        repeats = worst[int(.9 * len(worst))] if worst else 1
        print(f"{self.name}: {len(rows)} schedules; 90 % repeat within "
              f"{100 * repeats:.1f} %", flush=True)
        return rows, repeats


def put(path, title, machine, rows):
    lines = [f"# {title}", *machine]
    for seconds, counts, text in rows:
        schedule = " | ".join(x.strip() for x in text.strip().split("\n"))
        lines.append(f"point {seconds:.6g} {counts} ; {schedule}")
    path.write_text("\n".join(lines) + "\n")


def disturbed(core):
    """Comments that name the rates which this run could not measure."""
    reasons = {"kept": "disturbed, measured before or typical",
               "typical": "typical, not measured on this machine"}
    return [f"# {reasons[key]}: {', '.join(core[key])}"
            for key in reasons if core.get(key)]


def processor():
    """Lines of the first processor in /proc/cpuinfo."""
    text = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    fields = (line.split(":", 1) for line in text.split("\n") if ":" in line)
    return {key.strip(): value.strip() for key, value in fields}


def processor_label():
    """Vendor, family and model, as a part of file names."""
    of = processor()
    vendor = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(
        of.get("vendor_id"), "other")
    family, model = (  # on x86, and on ARM
        of.get(x86) or of.get(arm) or "0" for x86, arm in
        (("cpu family", "CPU implementer"), ("model", "CPU part")))
    return f"{vendor}{family}_{model}"


def machine_lines(o):
    core = json.loads(axon(o, "doctor", "--measure", "--json"))["core"]
    cache = core.pop("cache_bytes")
    comments = disturbed(core)
    for line in comments:
        print(f"rates {line[2:]}", file=sys.stderr)
    return [f"# processor {processor().get('model name', 'unknown')}", *comments,
            *(f"rate {k} {v:.6g}" for k, v in core.items()
              if not isinstance(v, (bool, list))),
            "cache " + " ".join(f"{x:.0f}" for x in cache)]


def is_wide():
    """True if the processor has the vectors of the tables."""
    return "avx512vl" in pathlib.Path("/proc/cpuinfo").read_text()


def counted(o, path, folder):
    """A table as it is, and with the counts of this build.  Its caches are those
    of its machine."""
    lines = path.read_text().splitlines()
    caches = next(x.split()[1:] for x in lines if x.startswith("cache "))
    os.environ["AXON_CACHES"] = ",".join(caches)
    space, new = Space(o, path.name.split(".")[0], folder), []
    for line in lines:
        if line.startswith("point "):
            seconds, text = line.split()[1], line.split(" ; ")[1]
            kernel = plan(o, space.program,
                          space.file(text.replace(" | ", "\n")))
            if not kernel:
                sys.exit(f"{path.name}: this schedule is refused: {text}")
            counts = numbers(kernel["model_counts"])
            line = f"point {seconds} {counts} ; {text}"
        new.append(line)
    return lines, new


def count_all(o, folder):
    """Replaces the counts of tables, or only compares them."""
    differ = []
    tables = (path for name in o.spaces or SPACE
              for path in sorted(SPACES.glob(f"{name}.*.csv")))
    for path in tables:
        old, new = counted(o, path, folder)
        if old != new:
            differ.append(path.name)
        if not o.compare:
            path.write_text("\n".join(new) + "\n")
    if o.compare and differ:
        sys.exit("other counts than those of this build: " +
                 ", ".join(differ) +
                 "; bench/record_model.sh --counts replaces them")


def main():
    o = options()
    os.environ |= {"AXON_THREADS": "1", "AXON_TINY": "0",
                   "AXON_OPTIMIZE": "always", "AXON_TARGET": "cpu"}
    for name in "AXON_CACHES", "AXON_VECTOR":
        os.environ.pop(name, None)
    if not is_wide():
        sys.exit("the tables need a processor with AVX-512")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder)
        if o.counts or o.compare:
            count_all(o, folder)
            return
        machine = machine_lines(o)
        for name in o.spaces or SPACE:
            rows, repeats = Space(o, name, folder).record()
            title = (f"{name}: {len(rows)} schedules, one thread; 90 % repeat "
                     f"within {100 * repeats:.1f} %")
            put(SPACES / f"{name}.{processor_label()}.csv", title, machine,
                rows)


main()
