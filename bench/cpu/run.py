"""Runs all workloads in Axon and in the peers.  bench/cpu.sh runs it."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import cold
import data
import memory
import peers
import report
import workloads
from axon import Axon
from peers import Failed
from quiet import Quiet

TAKE, TIME = 180, 120           # seconds that a peer may need


def options():
    text = argparse.ArgumentParser(
        prog="bench/cpu.sh", description=__doc__,
        epilog="Where AXON_BENCH_LOCK names a file, it is held locked while "
        "something is timed, so that others can wait.")
    text.add_argument("filter", nargs="*",
                      help="only workloads whose names have one of these")
    text.add_argument("--all", action="store_true",
                      help="also other sizes and chains")
    text.add_argument("--only-other", action="store_true")
    text.add_argument("--peers", default=",".join(peers.PEERS),
                      help="default: %(default)s")
    text.add_argument("--no-axon", action="store_true")
    text.add_argument("--axon", default=None, help="the program axon")
    text.add_argument("--target", default="cpu")
    text.add_argument("--threads", type=int,
                      default=len(os.sched_getaffinity(0)))
    text.add_argument("--rounds", type=int, default=5)
    text.add_argument("--seconds", type=float, default=0.2,
                      help="of each, in a round")
    text.add_argument("--memory", action="store_true",
                      help="compare the peak memory instead of the time")
    text.add_argument("--json", metavar="FILE", help="write all results")
    text.add_argument("--limits", metavar="FILE",
                      help="what `axon doctor --json` wrote")
    text.add_argument("--list", action="store_true")
    return text.parse_args()


def chosen(o):
    rows = workloads.ALL if o.all else \
        workloads.OTHERS if o.only_other else workloads.GOALS
    return [w for w in rows
            if not o.filter or any(part in w.name for part in o.filter)]


class Contest:
    """One workload: its peers, their times by round, their results."""

    def __init__(self, workload, all_peers, folder):
        self.workload, self.folder = workload, folder
        self.peers, self.times, self.errors = [], {}, {}
        self.first, self.results = {}, {}
        for peer in all_peers:
            self.attempt(peer, self.take)

    def attempt(self, peer, act):
        try:
            return act(peer)
        except Failed as why:
            self.errors[peer.name] = str(why)
            self.times.pop(peer.name, None)
            if peer in self.peers:
                self.peers.remove(peer)

    def take(self, peer):
        answer = peer.take(self.workload, self.folder, TAKE) or {}
        if answer.get("absent"):
            return
        if isinstance(peer, Axon):
            self.results["axon"] = peer.result(TAKE)
        if "first" in answer:
            self.first[peer.name] = answer["first"]
        self.peers.append(peer)
        self.times[peer.name] = []

    def round(self, seconds):
        for peer in list(self.peers):
            row = self.attempt(peer, lambda p: p.time(seconds, TIME))
            if row:
                self.times[peer.name].append(row)

    def fetch(self):
        for peer in list(self.peers):
            if not isinstance(peer, Axon):
                self.results[peer.name] = \
                    self.attempt(peer, lambda p: p.result(TIME))
            peer.drop()

    def check(self):
        """The peers whose results differ from the first one's, and how much."""
        names = [n for n in self.results if n != "axon"]
        if not names:
            return
        want = self.results[names[0]]
        if want is None:
            return
        scale = max(float(abs(want.astype("f8")).max()), 1e-30)
        for name, got in self.results.items():
            if got is None or name == names[0]:
                continue
            if got.shape != want.shape:
                self.errors[name] = f"shape {got.shape}, not {want.shape}"
                continue
            off = float(abs(got.astype("f8") - want).max()) / scale
            if not off <= self.workload.tolerance:
                self.errors[name] = f"off by {off:.2g} from {names[0]}"

    def run(self, o, quiet):
        for _ in range(o.rounds):
            with quiet:
                self.round(o.seconds)
        self.fetch()
        self.check()
        return self.summary()

    def summary(self):
        w, rows = self.workload, {}
        for name, times in self.times.items():
            if times:
                rows[name] = {
                    "seconds": statistics.median(t["median"] for t in times),
                    "least": min(t["least"] for t in times),
                    "rounds": [t["median"] for t in times]}
                if name in self.first:
                    rows[name]["first"] = self.first[name]
        return {"name": w.name, "kernel": w.kernel, "other": w.other,
                "flops": w.flops, "bytes": w.bytes, "goals": w.goals,
                "rows": rows, "errors": self.errors}


def machine_text():
    try:
        with open("/proc/cpuinfo") as file:
            lines = [x for x in file if x.startswith("model name")]
        return lines[0].split(":", 1)[1].strip()
    except (OSError, IndexError):
        return "unknown"


def commit():
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], text=True,
                         cwd=pathlib.Path(__file__).parent,
                         capture_output=True)
    return run.stdout.strip()


def find_limits(o, axon, quiet):
    if o.limits:
        return json.loads(pathlib.Path(o.limits).read_text())
    if not axon:
        return None
    with quiet:
        found = [axon.doctor() for _ in range(5)]
    limits = found[-1]
    for name, value in limits.items():
        if isinstance(value, list):     # median: other processes may run
            limits[name] = [statistics.median(x[name][k] for x in found)
                            for k in (0, 1)]
    for name in ("fma", "bf16"):
        limits[name] = [max(x[name][k] for x in found) for k in (0, 1)]
    return limits


def main():
    o = options()
    rows = chosen(o)
    if o.list:
        print("\n".join(w.name for w in rows))
        return 0
    root = pathlib.Path(os.environ["BENCH_ROOT"])
    scratch = root / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    quiet = Quiet()
    with quiet:
        core_type, _ = peers.best_core_type(sys.executable, o.threads, scratch)
    all_peers = peers.start_all([p for p in o.peers.split(",") if p],
                                o.threads, scratch, core_type)
    axon = None
    if not o.no_axon:
        program = o.axon or pathlib.Path(__file__).parents[2] / "axon"
        axon = Axon(program, o.threads, scratch, o.target)
    if o.memory:
        memory.run(axon, all_peers, rows, root)
        return 0
    limits = find_limits(o, axon, quiet)
    versions = {p.name: p.version() for p in all_peers}
    about = {"date": datetime.date.today().isoformat(), "commit": commit(),
             "command": " ".join(["bench/cpu.sh", *sys.argv[1:]]),
             "processor": machine_text(), "threads": o.threads,
             "versions": versions, "openblas_coretype": core_type,
             "limits": limits}
    report.heading(about)
    out = []
    contestants = ([axon] if axon else []) + all_peers
    for workload in rows:
        start = time.monotonic()
        folder = data.folder(root / "data", workload)
        found = Contest(workload, contestants, folder).run(o, quiet)
        report.judge(found, workload, limits)
        report.row(found)
        found["took"] = time.monotonic() - start
        out.append(found)
    if not o.filter or any("cold" in part for part in o.filter):
        out += cold.run(axon, all_peers, root, o, quiet)
    report.ending(out)
    if o.json:
        text = json.dumps(dict(about, workloads=out), indent=1)
        pathlib.Path(o.json).write_text(text + "\n")
    for peer in all_peers:
        peer.end()
    return 1 if any("axon" in x["errors"] for x in out) else 0


if __name__ == "__main__":
    sys.exit(main())
