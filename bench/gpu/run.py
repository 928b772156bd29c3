"""bench/gpu.sh: compares Axon's GPU kernels with those of peers, and with the peak
rates that this run measures.  Each result is compared with that of a peer
before anything is timed."""

import argparse
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import workloads    # noqa: E402


class Failed(Exception):
    pass


# ---- ours ----

class Axon:
    def __init__(self, program, scratch):
        self.program, self.scratch = program, pathlib.Path(scratch)

    def call(self, *arguments, timeout=120, **env):
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

    def write(self, w, more="", name="timed"):
        path = self.scratch / (name + ".axn")
        folder = os.path.relpath(HERE / "kernels", self.scratch)
        path.write_text(workloads.program(w, folder) + more)
        return str(path)

    def time(self, w, seconds, timeout=120):
        """Time in milliseconds, by the GPU's clock."""
        text = self.call("bench", "-q", "--json", "--target", "cuda",
                         "--seconds", str(seconds), self.write(w), "run",
                         timeout=timeout)
        row = json.loads(text)["results"][0]
        if "error" in row:
            raise Failed(row["error"])
        return 1e3 * row["median"], row["first"]

    def save(self, w):
        """Saves the result to a file."""
        path = self.scratch / "result.safetensors"
        path.unlink(missing_ok=True)
        self.call("run", "-q", "--target", "cuda",
                  self.write(w, f'do save "{path}" (run ())\n'))
        return str(path)

    def sums(self, w, target):
        text = self.call("run", "-q", "--target", target,
                         self.write(w, workloads.SUMS))
        return [float(x) for x in text.strip().strip("()").split(",")]

    def prepare(self, pairs, jobs=None):
        """Compiles kernels for later runs, as many at a time as there are
        processors: workloads, each with the lines of AXON_SCHEDULES or none.
        Returns the plan of each, or None where there is none."""
        def one(k, w, lines):
            more = {}
            if lines is not None:
                path = self.scratch / f"prepared{k}.schedules"
                path.write_text(lines)
                more["AXON_SCHEDULES"] = str(path)
            try:
                return self.call("plan", "-q", "--target", "cuda",
                                 self.write(w, name=f"prepared{k}"), "-e",
                                 "run ()", AXON_TINY="0", **more)
            except Failed:
                return None     # whoever runs it says why
        with concurrent.futures.ThreadPoolExecutor(
                jobs or os.cpu_count()) as pool:
            return list(pool.map(one, range(len(pairs)), *zip(*pairs)))

    def plan(self, w, arch):
        """Of the last run: predicted milliseconds, kernels, what they use.  What
        is run again and again has kernels for the least work, too."""
        text = self.call("plan", "-q", "--json", "--target", "cuda:" + arch,
                         self.write(w), "-e", "run ()", AXON_TINY="0")
        kernels = json.loads(text)["runs"][-1]["kernels"]
        for k in kernels:
            if k.get("interpreted"):
                raise Failed(f"no kernel: {k['interpreted']}")
            if "spilled" in (k.get("uses") or ""):
                raise Failed(f"registers: {k['uses']}")
        return 1e3 * sum(k.get("predicted_seconds", 0) for k in kernels), \
            len(kernels)


# ---- theirs ----

class Peers:
    """The process of worker.py; a new one starts if it ends."""

    def __init__(self, options):
        self.options, self.process, self.begun = options, None, None

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = self.begun = None

    def start(self):
        command = [sys.executable, str(HERE / "worker.py")]
        log = open(self.options.out + ".log", "a")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log,
                                        text=True, bufsize=1)
        log.close()

    def ask(self, do, timeout, **more):
        if not self.process:
            self.start()
        try:
            self.process.stdin.write(json.dumps(dict(more, do=do)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        there, _, _ = select.select([self.process.stdout], [], [], timeout)
        line = self.process.stdout.readline() if there else ""
        if not line:
            self.stop()
            raise Failed("its process ended" if there
                         else f"it took more than {timeout} s")
        said = json.loads(line)
        if "error" in said:
            self.stop()     # errors of a CUDA context are permanent
            raise Failed(said["error"])
        return said

    def begin(self, w):
        if self.begun != w.name:
            said = self.ask("begin", 60, name=w.name, small=self.options.small,
                            autotune=self.options.autotune)
            self.begun = w.name
            self.names = said["peers"]
        return self.names

    def time(self, w, name):
        self.begin(w)
        return self.ask("time", self.options.patience, peer=name,
                        seconds=self.options.seconds)["ms"]


# ---- a row ----

def bound(w, limits):
    """The minimal time in milliseconds."""
    if not limits:
        return 0.0
    return max(1e-9 * w.flops / limits["product"],
               1e-6 * w.bytes / limits["copy"])


def compare(w, axon, peers, row):
    """Compares the result with that of a peer; without a peer it is not checked."""
    file = axon.save(w)
    peers.begin(w)
    said = peers.ask("compare", peers.options.patience, file=file)
    os.unlink(file)
    row["compared"] = {k: said[k] for k in ("of", "off") if k in said}
    if "wrong" in said:
        raise Failed("WRONG: " + said["wrong"])


def time_all(w, axon, peers, row):
    """Peers before us, and the best of them behind us once more: clocks
    wander."""
    names = []
    try:
        names = peers.begin(w) if peers else []
    except Failed as error:
        row["failed"]["peers"] = str(error)
    for name in names:
        try:
            row["peers"][name] = peers.time(w, name)
        except Failed as error:
            row["failed"][name] = str(error)
    row["ms"], row["first"] = axon.time(w, axon.seconds)
    if row["peers"]:
        best = row["best"] = min(row["peers"], key=row["peers"].get)
        try:
            row["peers"][best] = statistics.mean(
                [row["peers"][best], peers.time(w, best)])
        except Failed as error:
            row["failed"][best] = str(error)


def measure(w, axon, peers, limits):
    row = {"name": w.name, "group": w.group, "peers": {}, "failed": {},
           "bound": bound(w, limits), "goal": w.goal, "share": w.share}
    try:
        if peers:
            try:
                compare(w, axon, peers, row)
            except Failed as error:
                if str(error).startswith("WRONG"):
                    raise
                row["failed"]["comparison"] = str(error)
        time_all(w, axon, peers, row)
    except Failed as error:
        row["failed"]["axon"] = str(error)
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
    if "off" not in row.get("compared", {}):
        text += "  (compared with none)"
    return text


def summary(rows):
    lines = []
    for group in dict.fromkeys(r["group"] for r in rows):
        ratios = [r["ratio"] for r in rows
                  if r["group"] == group and "ratio" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{group}: geometric mean {mean:.3f} of "
                         f"{len(ratios)}, least {min(ratios):.2f}")
    missed = sum(r.get("met") is not True for r in rows)
    lines.append(f"{len(rows) - missed} of {len(rows)} goals met")
    return lines


def started(axon):
    """Seconds of processes: with nothing compiled, with it, and of the driver
    alone."""
    path = axon.scratch / "start.axn"
    path.write_text("do print (sum (f32 (iota 3000000) * 2.0))\n")
    cache = str(axon.scratch / "cold")
    took = {}
    for name in ("cold", "cached"):
        start = time.perf_counter()
        axon.call("run", "--target", "cuda", str(path), XDG_CACHE_HOME=cache)
        took[name] = time.perf_counter() - start
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import ctypes as c\n"
                    "d = c.CDLL('libcuda.so.1'); x = c.c_void_p()\n"
                    "d.cuInit(0); d.cuDevicePrimaryCtxRetain("
                    "c.byref(x), 0)"], check=False, capture_output=True)
    took["driver"] = time.perf_counter() - start
    return took


# ---- without a GPU ----

def near(ours, theirs):
    return all(abs(a - b) <= 1e-2 * abs(b) for a, b in zip(ours, theirs))


def dry(chosen, axon, peers, options):
    """Is everything ready?  Plans each workload, and looks at the peers; with
    --small runs each at small sizes, beside the target cpu."""
    bad = 0
    for w in chosen:
        try:
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
    try:
        for text in peers.ask("about", 120)["missing"]:
            print(f"no {text}")
    except Failed as error:
        print(f"no peers: {error}")
    print(f"{len(chosen)} workloads, {bad} not ready")
    return 1 if bad else 0


# ---- with one ----

class Report:
    """The table and its JSON, which are whole after each row."""

    def __init__(self, options):
        self.out, self.lines, self.all = options.out, [], {"rows": []}

    def say(self, text):
        self.lines.append(text)
        print(text, flush=True)
        self.keep()

    def keep(self):
        for end, text in ((".txt", "\n".join(self.lines) + "\n"),
                          (".json", json.dumps(self.all, indent=1))):
            beside = pathlib.Path(self.out + end + ".new")
            beside.write_text(text)
            beside.replace(self.out + end)


def query_driver():
    try:
        run = subprocess.run(
            ["nvidia-smi", "--format=csv,noheader", "--query-gpu=name,"
             "driver_version,clocks.sm,power.limit,temperature.gpu"],
            capture_output=True, text=True, timeout=20)
        return run.stdout.strip().splitlines()[0]
    except (OSError, subprocess.TimeoutExpired, IndexError):
        return None


def begin(axon, peers, options, report):
    """Prints the machine.  Returns the peers, or None, and the machine's limits."""
    commit = HERE.parent.parent / "COMMIT"
    report.all["head"] = [
        f"{datetime.datetime.now():%Y-%m-%d %H:%M}  bench/gpu.sh " +
        " ".join(sys.argv[1:]),
        axon.call("--version").strip() +
        (f", {commit.read_text().strip()}" if commit.exists() else "")]
    said, limits = {"missing": []}, None
    if not options.no_peers:
        try:
            said = peers.ask("about", 120)
        except Failed as error:
            said["missing"].append(f"peers: {error}")
    there = "gpu" in said
    if there:
        report.all["head"].append(f"{said['gpu']}, PyTorch {said['torch']}, "
                                  f"CUDA {said['cuda']}")
    if query_driver():
        report.all["head"].append(query_driver())
    for text in report.all["head"] + [f"no {m}" for m in said["missing"]]:
        report.say(text)
    if there:
        try:
            limits = peers.ask("ceilings", 120, seconds=options.seconds)
            report.say(f"ceilings: copy {limits['copy']:.0f} GB/s, product "
                       f"{limits['product']:.0f} TFLOP/s (cuBLAS, 8192^3 of "
                       "bf16)")
        except Failed as error:
            report.say(f"no ceilings: {error}")
    report.all["ceilings"] = limits
    return peers if there else None, limits


def run_all(chosen, axon, peers, options):
    report, end = Report(options), time.monotonic() + 60 * options.minutes
    peers, limits = begin(axon, peers, options, report)
    try:
        took = report.all["processes"] = started(axon)
        report.say("a process: " + ", ".join(f"{k} {1e3 * v:.0f} ms"
                                             for k, v in took.items()))
    except Failed as error:
        report.say(f"a process: {error}")
    if chosen:
        axon.prepare([(w, None)
                      for w in chosen[:4 * int(options.minutes + 1)]])
    report.say(HEAD)
    rows, left = report.all["rows"], []
    for w in chosen:
        if time.monotonic() > end:
            left.append(w.name)
            continue
        rows.append(measure(w, axon, peers, limits))
        report.say(line(w, rows[-1]))
        for name, why in rows[-1]["failed"].items():
            if name != "axon":
                report.say(f"    {name}: {why}")
    for text in summary(rows):
        report.say(text)
    report.all["left"] = left
    if left:
        report.say(f"no time was left for {len(left)}: " + ", ".join(left))
    report.say(f"{options.out}.txt, {options.out}.json")
    return any("axon" in r["failed"] for r in rows)


def options_of(arguments):
    p = argparse.ArgumentParser(prog="bench/gpu.sh", description=__doc__)
    p.add_argument("names", nargs="*", help="only those with such in them")
    folder = HERE.parent / "results"
    p.add_argument("--out", default=str(
        folder / f"{datetime.date.today()}-gpu"),
        help="the table goes to OUT.txt, all numbers to OUT.json, what peers "
        "say to OUT.log; each is whole after each row")
    p.add_argument("--minutes", type=float, default=7, help="after which "
                   "nothing is begun; workloads come from all groups in turn")
    p.add_argument("--seconds", type=float, default=0.1, help="for each time")
    p.add_argument("--patience", type=float, default=60,
                   help="seconds until a peer is given up, with what it "
                   "compiles")
    p.add_argument("--axon", default=str(HERE.parent.parent / "axon"))
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--autotune", action="store_true", help="torch.compile in "
                   "its mode max-autotune, which takes minutes for a product")
    p.add_argument("--dry", action="store_true", help="run nothing on a GPU: "
                   "plan, compile, and see that all is there")
    p.add_argument("--small", action="store_true", help="small sizes, as a "
                   "simulator runs them; with --dry: beside the target cpu")
    p.add_argument("--arch", default="sm_90a", help="with --dry")
    return p.parse_args(arguments)


def main(arguments):
    options = options_of(arguments)
    chosen = [w for w in workloads.spread(workloads.ALL) if not options.names
              or any(n in w.name for n in options.names)]
    if options.small:
        chosen = [workloads.small(w) for w in chosen]
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    peers = Peers(options)
    with tempfile.TemporaryDirectory(dir=room) as scratch:
        axon = Axon(os.path.abspath(options.axon), scratch)
        axon.seconds = options.seconds
        if options.dry:
            options.out = scratch + "/dry"
        pathlib.Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        try:
            if options.dry:
                return dry(chosen, axon, peers, options)
            return 1 if run_all(chosen, axon, peers, options) else 0
        finally:
            peers.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
