"""Measures the time of a whole process, for a chain of pointwise operations on
a small file."""

import os
import statistics
import subprocess
import sys
import time

import numpy as np

import report
from peers import Failed

AXON = """\
val x : f32[n] = load "x.npy"
do save "y.npy" (tanh (1.5 * x + 0.5) * x)
"""

PEERS = {
    "numpy": "import numpy as np\n"
             "x = np.load('x.npy')\n"
             "y = np.tanh(1.5 * x + 0.5) * x\n",
    "torch": "import numpy as np, torch\n"
             "x = torch.from_numpy(np.load('x.npy'))\n"
             "y = (torch.tanh(1.5 * x + 0.5) * x).numpy()\n",
    "jax": "import numpy as np, jax, jax.numpy as jnp\n"
           "f = jax.jit(lambda x: jnp.tanh(1.5 * x + 0.5) * x)\n"
           "y = np.asarray(f(np.load('x.npy')))\n",
}
SAVE = "np.save('y.npy', y)\n"
GOALS = {False: 0.060, True: 0.008}


def timed(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def measure(act, rounds, before=lambda: None):
    times = []
    for _ in range(rounds):
        before()
        times.append(timed(act))
    return {"seconds": statistics.median(times), "least": min(times),
            "rounds": times}


def run(axon, peers, root, o, quiet):
    folder = root / "data" / "cold"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", np.linspace(-3, 3, 100000, dtype=np.float32))
    (folder / "cold.axn").write_text(AXON)
    others = {}
    for peer in peers:
        if peer.name in PEERS:
            command = [sys.executable, "-c", PEERS[peer.name] + SAVE]
            env = dict(peer.env, PYTHONDONTWRITEBYTECODE="")
            with quiet:
                others[peer.name] = measure(
                    lambda: subprocess.run(command, cwd=folder, env=env,
                                           check=True), o.rounds)
    out = []
    for cached in (False, True):
        name = "cold process, " + ("cached" if cached else "nothing cached")
        found = {"name": name, "kernel": "cold", "other": False, "flops": 0,
                 "bytes": 0, "rows": dict(others), "errors": {},
                 "goals": [(GOALS[cached], "seconds")]}
        if axon:
            try:
                with quiet:
                    found["rows"]["axon"] = measure(
                        lambda: axon.cold("cold.axn", folder),
                        o.rounds + 2, lambda: axon.cold_before(cached))
            except Failed as why:
                found["errors"]["axon"] = str(why)
        report.judge(found, None, None)
        report.row(found)
        out.append(found)
    return out
