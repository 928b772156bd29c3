"""bench/gpu.sh: Axon's kernels for GPUs beside those of others, and beside what
the machine can do at all, as this run measures it."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import peers        # noqa: E402
import workloads    # noqa: E402


class Failed(Exception):
    pass


# ---- ours ----

class Axon:
    def __init__(self, program, scratch):
        self.program, self.scratch = program, pathlib.Path(scratch)

    def call(self, *arguments, timeout=900, **env):
        try:
            run = subprocess.run([self.program, *arguments],
                                 env=dict(os.environ, **env), timeout=timeout,
                                 capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            raise Failed(f"it took more than {timeout} s") from None
        if run.returncode:
            lines = (run.stderr or run.stdout).strip().splitlines()
            raise Failed(lines[0] if lines else f"status {run.returncode}")
        return run.stdout

    def write(self, w, sums=False):
        path = self.scratch / ("sums.axn" if sums else "timed.axn")
        folder = os.path.relpath(HERE / "kernels", self.scratch)
        path.write_text(workloads.program(w, folder) +
                        (workloads.SUMS if sums else ""))
        return str(path)

    def time(self, w, seconds):
        """Milliseconds, by the GPU's clock."""
        text = self.call("bench", "-q", "--json", "--target", "cuda",
                         "--seconds", str(seconds), self.write(w), "run")
        row = json.loads(text)["results"][0]
        if "error" in row:
            raise Failed(row["error"])
        return 1e3 * row["median"], row["first"]

    def sums(self, w, target):
        text = self.call("run", "-q", "--target", target, self.write(w, True))
        return [float(x) for x in text.strip().strip("()").split(",")]

    def plan(self, w, arch):
        """Of the last run: predicted milliseconds, kernels, what they use."""
        text = self.call("plan", "-q", "--json", "--target", "cuda:" + arch,
                         self.write(w), "-e", "run ()")
        kernels = json.loads(text)["runs"][-1]["kernels"]
        for k in kernels:
            if k.get("interpreted"):
                raise Failed(f"no kernel: {k['interpreted']}")
            if "spilled" in (k.get("uses") or ""):
                raise Failed(f"registers: {k['uses']}")
        return 1e3 * sum(k.get("predicted_seconds", 0) for k in kernels), \
            len(kernels)


# ---- theirs, and the machine ----

class Clock:
    """Median milliseconds by events, the second cache cold."""

    def __init__(self, seconds):
        self.seconds = seconds
        torch = peers.torch
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def time(self, f):
        torch = peers.torch
        for _ in range(3):
            f()
        torch.cuda.synchronize()
        times, spent = [], 0.0
        while len(times) < 10 or (spent < 1e3 * self.seconds and
                                  len(times) < 1000):
            first = torch.cuda.Event(enable_timing=True)
            last = torch.cuda.Event(enable_timing=True)
            self.flush.zero_()
            first.record()
            f()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last))
            spent += times[-1]
        return statistics.median(times)


def ceilings(clock):
    """GB/s of a large copy, TFLOP/s of a large product."""
    torch = peers.torch
    n = min(4 << 30, torch.cuda.get_device_properties(0).total_memory // 8)
    x = torch.empty(n, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    copy = 2e-6 * n / clock.time(lambda: y.copy_(x))
    del x, y
    a = torch.randn(8192, 8192, device="cuda").bfloat16()
    b = torch.randn(8192, 8192, device="cuda").bfloat16()
    product = 2e-9 * 8192 ** 3 / clock.time(lambda: torch.mm(a, b))
    return {"copy": copy, "product": product}


def bound(w, limits):
    """Milliseconds that it cannot do without."""
    if not limits:
        return 0.0
    return max(1e-9 * w.flops / limits["product"],
               1e-6 * w.bytes / limits["copy"])


def their_sums(w, x):
    x = peers.result(w, x).double().abs()
    weight = (peers.torch.arange(x.shape[-1], device="cuda") % 5).double()
    return [x.sum().item(), (x * weight).sum().item()]


def time_peers(w, clock, row):
    """Their times, and sums of what the first of them gives."""
    tensors = {name: peers.tensor(t, e, workloads.STEPS)
               for name, (t, e) in w.inputs.items()}
    sums = None
    for name, f in getattr(peers, w.group)(w, tensors).items():
        try:
            if sums is None:
                sums = their_sums(w, f())
            row["peers"][name] = clock.time(f)
        except Exception as error:      # one that cannot is none
            row["failed"][name] = f"{type(error).__name__}: {error}"[:200]
        peers.torch.cuda.empty_cache()
    return sums


def near(ours, theirs):
    return all(abs(a - b) <= 1e-2 * abs(b) for a, b in zip(ours, theirs))


# ---- a row ----

def measure(w, axon, clock, limits, seconds):
    row = {"name": w.name, "group": w.group, "peers": {}, "failed": {},
           "bound": bound(w, limits), "goal": w.goal, "share": w.share}
    theirs = time_peers(w, clock, row) if clock else None
    try:
        row["ms"], row["first"] = axon.time(w, seconds)
        if theirs:
            row["right"] = near(axon.sums(w, "cuda"), theirs)
    except Failed as error:
        row["failed"]["axon"] = str(error)
    if clock and "ms" in row and row["peers"]:    # once more: clocks wander
        again = axon.time(w, seconds)[0]
        row["ms"] = statistics.median([row["ms"], again])
    if row["peers"]:
        row["best"] = min(row["peers"], key=row["peers"].get)
    if "ms" in row and row.get("best"):
        row["ratio"] = row["peers"][row["best"]] / row["ms"]
    if "ms" in row and w.share and row["bound"]:
        row["met"] = row["bound"] / row["ms"] >= w.share
    elif "ratio" in row:
        row["met"] = row["ratio"] >= w.goal
    return row


def rate(w, ms):
    return (f"{1e-9 * w.flops / ms:8.1f} TFLOP/s" if w.flops else
            f"{1e-6 * w.bytes / ms:8.0f} GB/s   ")


HEAD = (f"{'workload':44}{'ms':>9}{'rate':>17}{'bound':>8}{'best peer':>20}"
        f"{'ms':>9}{'ratio':>7}  goal")


def line(w, row):
    if "ms" not in row:
        return f"{w.name:44} failed: {row['failed'].get('axon')}"
    text = f"{w.name:44}{row['ms']:9.4f}{rate(w, row['ms']):>17}"
    text += f"{100 * row['bound'] / row['ms']:6.0f} %" if row["bound"] else \
        f"{'':8}"
    if "ratio" in row:
        text += f"{row['best']:>20}{row['peers'][row['best']]:9.4f}"
        text += f"{row['ratio']:7.2f}"
    else:
        text += f"{'none':>20}{'':16}"
    goal = f"{100 * w.share:.0f} % of copy" if w.share else f"{w.goal:.2f}"
    met = {True: "met", False: "missed", None: "open"}[row.get("met")]
    text += f"  {goal} {met}"
    return text + ("" if row.get("right", True) else "  WRONG RESULT")


def summary(rows):
    lines = []
    for group in dict.fromkeys(r["group"] for r in rows):
        ratios = [r["ratio"] for r in rows
                  if r["group"] == group and "ratio" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{group}: geometric mean {mean:.3f} of "
                         f"{len(ratios)}, least {min(ratios):.2f}")
    return lines


def started(axon):
    """Seconds of processes: with nothing compiled, and with it."""
    path = axon.scratch / "start.axn"
    path.write_text("do print (sum (f32 (iota 3000000) * 2.0))\n")
    cache = str(axon.scratch / "cold")
    took = {}
    for name in ("cold", "cached"):
        start = time.perf_counter()
        axon.call("run", "--target", "cuda", str(path), XDG_CACHE_HOME=cache)
        took[name] = time.perf_counter() - start
    if peers.torch:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import ctypes as c\n"
                        "d = c.CDLL('libcuda.so.1'); x = c.c_void_p()\n"
                        "d.cuInit(0); d.cuDevicePrimaryCtxRetain("
                        "c.byref(x), 0)"], check=False)
        took["driver"] = time.perf_counter() - start
    return took


# ---- without a GPU ----

def dry(chosen, axon, options):
    """Is everything ready?  Plans each workload, and looks at the peers; with
    --small runs each at small sizes, beside the target cpu."""
    bad = 0
    for w in chosen:
        try:
            if not hasattr(peers, w.group):
                raise Failed(f"peers.py has no {w.group}")
            if options.small:
                ours, wanted = axon.sums(w, "cuda"), axon.sums(w, "cpu")
                if not near(ours, wanted):
                    raise Failed(f"{ours}, and on the CPU {wanted}")
                print(f"{w.name:44} the same")
            else:
                ms, count = axon.plan(w, options.arch)
                print(f"{w.name:44}{ms:9.4f} ms predicted, {count} kernel"
                      f"{'s' if count > 1 else ''}")
        except Failed as error:
            print(f"{w.name:44} failed: {error}")
            bad += 1
        sys.stdout.flush()
    for text in peers.missing:
        print(f"no {text}")
    print(f"{len(chosen)} workloads, {bad} not ready")
    return 1 if bad else 0


def options_of(arguments):
    p = argparse.ArgumentParser(prog="bench/gpu.sh", description=__doc__)
    p.add_argument("names", nargs="*", help="only those with such in them")
    p.add_argument("--out", default="bench-gpu",
                   help="the table goes to OUT.txt, all numbers to OUT.json")
    p.add_argument("--seconds", type=float, default=0.2, help="for each time")
    p.add_argument("--axon", default=str(HERE.parent.parent / "axon"))
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--dry", action="store_true", help="run nothing on a GPU: "
                   "plan, compile, and see that all is there")
    p.add_argument("--small", action="store_true", help="small sizes, as a "
                   "simulator runs them; with --dry: beside the target cpu")
    p.add_argument("--arch", default="sm_90a", help="with --dry")
    return p.parse_args(arguments)


def main(arguments):
    options = options_of(arguments)
    chosen = [w for w in workloads.ALL if not options.names or
              any(n in w.name for n in options.names)]
    if options.small:
        chosen = [workloads.small(w) for w in chosen]
    peers.find_missing()
    with tempfile.TemporaryDirectory() as scratch:
        axon = Axon(os.path.abspath(options.axon), scratch)
        if options.dry:
            return dry(chosen, axon, options)
        lines, rows = [], []

        def say(text):
            lines.append(text)
            print(text, flush=True)
        there = peers.torch and peers.torch.cuda.is_available()
        clock = Clock(options.seconds) if there and not options.no_peers \
            else None
        limits = ceilings(clock) if clock else None
        say(axon.call("--version").strip() + ", " + " ".join(sys.argv[1:]))
        if there:
            say(peers.torch.cuda.get_device_name(0) +
                f", PyTorch {peers.torch.__version__}, CUDA "
                f"{peers.torch.version.cuda}")
        for text in peers.missing:
            say(f"no {text}")
        if limits:
            say(f"ceilings: copy {limits['copy']:.0f} GB/s, product "
                f"{limits['product']:.0f} TFLOP/s (cuBLAS, 8192^3 of bf16)")
        say(HEAD)
        for w in chosen:
            row = measure(w, axon, clock, limits, options.seconds)
            rows.append(row)
            say(line(w, row))
            for name, why in row["failed"].items():
                if name != "axon":
                    say(f"    {name}: {why}")
        for text in summary(rows):
            say(text)
        took = started(axon)
        say("a process: " + ", ".join(f"{k} {1e3 * v:.0f} ms"
                                      for k, v in took.items()))
        missed = sum(r.get("met") is not True for r in rows)
        say(f"{len(rows) - missed} of {len(rows)} goals met")
        pathlib.Path(options.out + ".txt").write_text("\n".join(lines) + "\n")
        pathlib.Path(options.out + ".json").write_text(json.dumps(
            {"ceilings": limits, "processes": took, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
