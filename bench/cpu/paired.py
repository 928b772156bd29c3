"""Times two builds of axon in turn, so that both see the same disturbances.

For each workload and round, both builds run `axon bench`, in changing order.
A row shows the medians and the median of the paired ratios, old time / new
time: above 1 the new build is faster.  Rows below LIMIT are repeated once,
and make the exit status 1 if they stay below.  Results are compared to the
bit.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

import data
import workloads
from axon import Axon
from peers import Failed

LIMIT = 0.97


def options():
    parser = argparse.ArgumentParser(
        prog="bench/paired.sh", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a program axon")
    parser.add_argument("new", help="another one")
    parser.add_argument("filter", nargs="*", help="parts of workloads' names")
    parser.add_argument("--all", action="store_true",
                        help="workloads without goals, too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=.2,
                        help="for each timing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300)
    return parser.parse_args()


def ratios(o, pair):
    """The medians of both builds in seconds, and the paired ratio."""
    times = [[], []]
    for k in range(o.rounds):
        for side in ((0, 1), (1, 0))[k % 2]:
            row = pair[side].time(o.seconds, o.timeout)
            times[side].append(row["median"])
    paired = statistics.median(a / b for a, b in zip(*times))
    return *map(statistics.median, times), paired


def row(o, w, folder):
    """A line of the table; whether the new build is fast enough."""
    pair = []
    for program in (o.old, o.new):
        axon = Axon(program, o.threads, folder, "cpu")
        axon.take(w, folder, o.timeout)
        pair.append(axon)
    results = [axon.result(o.timeout).tobytes() for axon in pair]
    note = "" if results[0] == results[1] else "  OTHER BITS"
    old, new, ratio = ratios(o, pair)
    if ratio < LIMIT:
        old, new, ratio = ratios(o, pair)
        note += "  SLOWER" if ratio < LIMIT else "  (repeated)"
    print(f"{w.name:40} {old * 1e3:9.3f} ms {new * 1e3:9.3f} ms "
          f"{ratio:6.3f}{note}", flush=True)
    return ratio, not note or note == "  (repeated)"


def main():
    o = options()
    rows = workloads.ALL if o.all else workloads.GOALS
    rows = [w for w in rows
            if not o.filter or any(part in w.name for part in o.filter)]
    good, all_ratios = True, []
    for w in rows:
        with tempfile.TemporaryDirectory() as scratch:
            folder = data.folder(pathlib.Path(scratch), w)
            try:
                ratio, fine = row(o, w, folder)
                all_ratios.append(ratio)
                good = good and fine
            except Failed as why:
                print(f"{w.name:40} {why}", flush=True)
                good = False
    if all_ratios:
        print(f"{len(all_ratios)} workloads, median ratio "
              f"{statistics.median(all_ratios):.3f}, least "
              f"{min(all_ratios):.3f}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
