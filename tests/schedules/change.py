"""Changes some fields of the schedules of GPU kernels:
    change.py SEED <chosen.axs >changed.axs"""
import random
import re
import sys

random.seed(int(sys.argv[1]))
VALUES = {
    "threads": [32, 64, 128, 256, 512, 1024],
    "group": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "across": [0, 1],
    "vector": [1, 2, 4],
    "registers": [0, 1, 2, 4, 8],
    "chunk": [0, 128, 1024, 4096],
    "tile": [16, 32],
    "last": ["i0", "i1"],
}
FIELDS = {"points": ["threads", "vector"], "transpose": ["threads", "tile"],
          "rows": ["threads", "group", "across", "vector", "registers"]}


def change(match):
    kind, text = match.groups()
    if kind == "transpose" and random.random() < 0.2:
        return "by points {}"
    if kind == "gemm" and random.random() < 0.3:
        return "by rows {}"
    if kind not in FIELDS or random.random() < 0.85:
        return match.group(0)
    fields = dict(x.split("=") for x in text.split())
    names = FIELDS[kind] + [x for x in ("chunk", "last") if x in fields]
    count = min(len(names), random.choice([1, 1, 2, 3]))
    for name in random.sample(names, count):
        fields[name] = random.choice(VALUES[name])
    return f"by {kind} {{{' '.join(f'{k}={v}' for k, v in fields.items())}}}"


for line in sys.stdin:
    # A second pass depends on the first one.
    if not re.match(r"  [2-9]:", line):
        line = re.sub(r"by (\w+) \{(.*)\}", change, line)
        sys.stdout.write(line)
