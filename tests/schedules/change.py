"""Changes some fields of the schedules of GPU kernels, and of matrix products
on the CPU:
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
PRODUCT = {
    "mr": list(range(1, 15)),
    "nr": [4, 8, 12, 16, 24, 32, 48, 64],
    "kc": [1, 7, 16, 30, 36, 72, 100, 768],
    "rows": [1, 4, 5, 6, 8, 12, 16, 24, 32, 48, 60, 96],
    "span": [5, 16, 40, 96],
    "columns": [1, 7, 8, 16, 30, 32, 48, 64, 96, 128],
    "image_rows": [1, 2, 3, 7, 20],
    "along": ["channels", "positions"],
}
FIELDS = {"points": ["threads", "vector"], "transpose": ["threads", "tile"],
          "rows": ["threads", "group", "across", "vector", "registers"]}


def change_product(fields):
    """Sets few fields of few products: the others are chosen."""
    if random.random() < 0.7:
        return fields
    names = random.sample(sorted(fields), random.choice([1, 1, 2, 3]))
    return {name: random.choice(PRODUCT[name]) for name in names}


def change(match):
    kind, text = match.groups()
    if kind == "gemm" and "mr=" in text:
        fields = change_product(dict(x.split("=") for x in text.split()))
        return f"by gemm {{{' '.join(f'{k}={v}' for k, v in fields.items())}}}"
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
