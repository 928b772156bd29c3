"""Peak memory of the workloads in Axon and in the peers: run.py --memory.

The peak resident size of a process, less its size before it has read the data:
after the libraries of a peer are loaded, or in Axon, that of an empty program.
"""

import pathlib
import resource
import subprocess
import sys

import data
from peers import Failed

# Starts a program, so that the peak of its children is that of this program.
CHILD = ("import resource, subprocess, sys\n"
         "run = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
         "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
         "sys.exit(run.returncode)\n")


def status_bytes(key):
    """A size of this process, in bytes: VmRSS or its peak, VmHWM."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def axon_peak(axon, *arguments, cwd=None):
    run = subprocess.run([sys.executable, "-c", CHILD, axon.program,
                          *arguments], cwd=cwd, env=axon.env, timeout=180,
                         capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"status {run.returncode}")
    return int(run.stdout) * 1024


def axon_memory(axon, workload, folder):
    axon.take(workload, folder, 0)
    empty = axon_peak(axon, "-e", "1")
    return axon_peak(axon, "bench", "-q", "--seconds", "0.1",
                     str(axon.kernel), "result", cwd=folder) - empty


def run(axon, all_peers, rows, root):
    """Prints a line per workload: MB, and Axon's part of the least peer."""
    print("peak memory, MB")
    for workload in rows:
        folder = data.folder(root / "data", workload)
        found = {"axon": axon_memory(axon, workload, folder)} if axon else {}
        for peer in all_peers:
            answer = peer.ask("memory", 180, name=workload.name,
                              folder=str(folder))
            peer.end()          # the next workload has a fresh process
            if "bytes" in answer:
                found[peer.name] = answer["bytes"]
        line = ", ".join(f"{k} {v / 1e6:.1f}" for k, v in found.items())
        others = [v for k, v in found.items() if k != "axon"]
        if axon and others:
            line += f": {found['axon'] / min(others):.2f} of the least peer"
        print(f"{workload.name:33} {line}", flush=True)
