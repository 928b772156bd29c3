"""The schedules that `axon plan --schedule` prints, read again, give the same
kernels: those of the benchmarks, at full size, and of the test programs.

    AXON=./axon python3 tests/schedule_texts.py [WORD...]

No kernel runs, and none is compiled.  Words select programs.
Prints a line for each target.  NumPy writes the data of the benchmarks.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ["cpu", "cuda:sm_80", "cuda:sm_90a"]
FOLDERS = ["tests/ops", "tests/gpu", "tests/run", "tests/schedules",
           "examples", "examples/models", "examples/schedules"]
SECONDS = 300   # only a program that does not end takes so long


class Failed(Exception):
    pass


def plan(program, target, *options):
    folder, arguments = program
    run = subprocess.run(
        [os.environ.get("AXON", HERE / "axon"), "plan", "-q", "--dry",
         "--target", target, *options, *arguments], cwd=folder,
        env=dict(os.environ, AXON_TINY="0", AXON_NVRTC="/none"),
        capture_output=True, text=True, timeout=SECONDS, errors="replace")
    return run.returncode, run.stdout, run.stderr


def check(program, target, scratch):
    """The number of kernels whose schedule, read again, gives their code."""
    status, text, _ = plan(program, target, "--schedule")
    count = text.count("\nkernel ") + text.startswith("kernel ")
    if status or not count:
        return 0    # the program cannot be planned, or has no kernel
    path = scratch / "schedules.axs"
    path.write_text(text)
    chosen = plan(program, target, "--code", "--stable")
    read = plan(program, target, "--code", "--stable", "--schedules", str(path))
    if read != chosen:
        lines = read[2].splitlines() or ["other code"]
        raise Failed(lines[0])
    _, again, _ = plan(program, target, "--schedule", "--schedules", str(path))
    if again != text:
        raise Failed("other schedules")
    return count


def benchmarks(scratch):
    """Names and programs: a folder and arguments of `axon plan`."""
    sys.path.insert(0, str(HERE / "bench" / "cpu"))
    import data
    import workloads
    for w in workloads.ALL:
        kernel = HERE / "bench" / "cpu" / "kernels" / f"{w.kernel}.axn"
        yield w.name, lambda kernel=kernel, w=w: (
            data.folder(scratch, w), [str(kernel), "-e", "result ()"])


def programs():
    for folder in FOLDERS:
        for file in sorted((HERE / folder).glob("*.axn")):
            program = file.parent, [file.name]
            yield f"{folder}/{file.stem}", lambda program=program: program


def main(words):
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        rows = list(programs())
        try:
            rows += benchmarks(scratch)
        except ImportError:
            if not words:
                print("no benchmarks: NumPy is not installed")
        rows = [row for row in rows
                if not words or any(word in row[0] for word in words)]
        for target in TARGETS:
            kernels = 0
            for name, make in rows:
                try:
                    kernels += check(make(), target, scratch)
                except (Failed, subprocess.TimeoutExpired) as why:
                    bad += 1
                    print(f"{name}, {target}: {why}", flush=True)
            print(f"{target}: {kernels} kernels of {len(rows)} programs",
                  flush=True)
            bad += not kernels
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
