"""Times matmuls and attention with one schedule after another on a GPU, and
compares the fastest schedule with the one that Axon chooses.

    python3 bench/gpu/sweep.py OUT [MINUTES [NAME...]]

OUT.txt has a line for each schedule.  OUT.json has all data (median of the
GPU's clock, in milliseconds).  Both are complete after each row.  NAME: only
workloads whose names contain it."""

import json
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import run          # noqa: E402
import workloads    # noqa: E402

WIDE = "way=wgmma m=128 n=256 warps_m=2 pingpong=0 persistent=1 "
STORE = "store=engine waiting=2 "
PRODUCTS = [("as chosen", "")] + [
    (f"128x256 stages=4 flight={f} stream={s} raster={r} cluster {c}",
     WIDE + STORE + f"stages=4 flight={f} stream={s} raster={r} "
     f"cluster_m={c[0]} cluster_n={c[2]}")
    for f, s, r, c in ((2, 0, 8, "2x1"), (2, 1, 8, "2x1"), (1, 0, 8, "2x1"),
                       (2, 0, 4, "2x1"), (2, 0, 16, "2x1"), (2, 0, 8, "1x2"),
                       (2, 0, 8, "1x1"), (2, 0, 16, "1x2"))] + [
    ("128x256 stages=3 store=shared", WIDE + "stages=3 flight=2 stream=0 "
     "store=shared cluster_m=2 cluster_n=1"),
    ("128x128 ping-pong", "way=wgmma m=128 n=128 warps_m=2 pingpong=1 stages=5 "
     "persistent=1 stream=0 cluster_m=2 cluster_n=1 " + STORE),
    ("64x256 ping-pong", "way=wgmma m=64 n=256 warps_m=2 pingpong=1 stages=4 "
     "persistent=1 stream=0 cluster_m=2 cluster_n=1 " + STORE),
    ("64x192 ping-pong", "way=wgmma m=64 n=192 warps_m=2 pingpong=1 stages=5 "
     "persistent=1 stream=0 cluster_m=2 cluster_n=1 " + STORE),
    ("192x128", "way=wgmma m=192 n=128 warps_m=3 pingpong=0 stages=4 "
     "persistent=1 stream=0 cluster_m=2 cluster_n=1 store=shared")]
FEW_ROWS = [("as chosen", "")] + [
    (f"64x{n} ping-pong stages=7 stream={s} cluster {c}",
     f"way=wgmma m=64 n={n} warps_m=2 pingpong=1 stages=7 persistent=1 "
     f"stream={s} cluster_m={c[0]} cluster_n={c[2]} " + STORE)
    for n, s, c in ((32, 0, "1x1"), (64, 0, "1x1"), (64, 0, "1x2"),
                    (64, 1, "1x1"), (96, 0, "1x1"), (128, 0, "1x1"),
                    (128, 0, "2x1"), (128, 1, "1x1"), (192, 1, "1x1"))] + [
    (f"64x{n} one group stages=7 cluster {c}",
     f"way=wgmma m=64 n={n} warps_m=1 pingpong=0 stages=7 persistent=1 "
     f"stream=0 cluster_m={c[0]} cluster_n={c[2]} " + STORE)
    for n, c in ((64, "1x1"), (128, "1x1"))] + [
    ("128x64 two groups stages=7", "way=wgmma m=128 n=64 warps_m=2 pingpong=0 "
     "stages=7 persistent=1 stream=0 cluster_m=1 cluster_n=1 " + STORE)]
ATTENTION = [("as chosen", "")] + [
    (f"m={64 * w} n={n} stages={s} persistent={p}",
     f"way=wgmma copy=engine m={64 * w} warps_m={w} n={n} stages={s} "
     f"persistent={p}")
    for w in (2, 3) for n in (64, 80, 96, 128, 160, 176) for s in (2,)
    for p in (0, 1)] + [
    (f"m={64 * w} n=128 stages=2 {store}",
     f"way=wgmma copy=engine m={64 * w} warps_m={w} n=128 stages=2 {store}")
    for w in (2, 3) for store in ("store=shared waiting=0",
                                  "store=engine waiting=1",
                                  "store=engine waiting=2")]
NAMES = ["gemm 4096x4096x4096", "gemm 8192x8192x8192", "gemm 2048x4096x4096",
         "gemm 64x10240x8192", "gemm 128x8192x8192", "gemm 128x4096x14336",
         "gelu 8192x8192x8192", "residual 4096x4096x4096",
         "attention plain 8x16x2048x128", "attention causal 1x16x16384x128",
         "attention plain 4x16x4096x64"]


def schedules(w):
    """Name and rule of a schedule file (AXON_SCHEDULES)."""
    if "attention" in w.program:
        return [(name, line and f"attention * * *x*x* {{{line}}}")
                for name, line in ATTENTION]
    few = w.program == "products" and w.inputs["x"][1][0] <= 128
    return [(name, line and f"gemm * bf16 *x*x* {{{line}}}")
            for name, line in (FEW_ROWS if few else PRODUCTS)]


def main(out, minutes="8", *names):
    end, rows, lines = time.monotonic() + 60 * float(minutes), [], []

    def say(text):
        lines.append(text)
        print(text, flush=True)
        for ending, body in ((".txt", "\n".join(lines) + "\n"),
                             (".json", json.dumps(rows, indent=1))):
            beside = pathlib.Path(out + ending + ".new")
            beside.write_text(body)
            beside.replace(out + ending)

    say(run.query_driver() or "no nvidia-smi")
    with tempfile.TemporaryDirectory() as scratch:
        axon = run.Axon(os.environ.get("AXON") or
                        str(HERE.parent.parent / "axon"), scratch)
        path = pathlib.Path(scratch) / "schedules"
        os.environ["AXON_SCHEDULES"] = str(path)
        for w in workloads.ALL:
            if not any(n in w.name for n in names or NAMES):
                continue
            plans = axon.prepare([(w, text + "\n") for _, text in schedules(w)])
            for (name, text), plan in zip(schedules(w), plans):
                if time.monotonic() > end:
                    return say("no time was left")
                path.write_text(text + "\n")
                row = {"workload": w.name, "schedule": name, "line": text}
                rows.append(row)
                refused = re.search(r"not used: ([^)]*)", " ".join(
                    (plan or "").split()))
                if refused:     # what would be timed is the chosen one
                    row["error"] = refused.group(1)
                    say(f"{w.name:36} {name:48} not used: {refused.group(1)}")
                    continue
                try:
                    row["ms"], _ = axon.time(w, 0.1, timeout=25)
                    say(f"{w.name:36} {name:48}{row['ms']:9.4f} ms"
                        f"{1e-9 * w.flops / row['ms']:8.1f} TFLOP/s")
                except run.Failed as error:
                    row["error"] = str(error)
                    say(f"{w.name:36} {name:48} {error}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
