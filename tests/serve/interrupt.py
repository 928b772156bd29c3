#!/usr/bin/env python3
"""Interrupts `axon generate` in a long text: it ends the line, and with 0.

    tests/serve/interrupt.py AXON
"""
import os
import signal
import subprocess
import sys

p = subprocess.Popen([sys.argv[1], "generate", "--max", "2000", "--temperature",
                      "1.5", "tiny.gguf", "Hello"], stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
first = os.read(p.stdout.fileno(), 1)
p.send_signal(signal.SIGINT)
try:
    rest, errors = p.communicate(timeout=60)
except subprocess.TimeoutExpired:
    p.kill()
    print("it goes on")
    sys.exit(1)
if p.returncode != 0 or errors or not (first + rest).endswith(b"\n"):
    print(p.returncode, errors, rest[-100:])
    sys.exit(1)
