"""A lock between benchmarks on one machine: AXON_BENCH_LOCK names its file."""

import fcntl
import os


class Quiet:
    """While it is held, other users of the lock wait."""

    def __init__(self):
        path = os.environ.get("AXON_BENCH_LOCK")
        self.file = open(path, "a") if path else None

    def __enter__(self):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_UN)
