"""Changes some schedules of GPU kernels, and fields of matrix products on the
CPU:
    change.py SEED <chosen.axs >changed.axs"""
import random
import re
import sys

random.seed(int(sys.argv[1]))
SIZES = [1, 2, 3, 4, 8, 16, 30, 32, 64, 128, 256, 512]
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
    if kind == "gemm" and random.random() < 0.3:
        return "by rows"
    return match.group(0)


def random_rows(axes):
    """Steps of thread groups that share the last axis."""
    *points, row = axes
    point = points[0] if points else None
    made = f"i{len(axes)}"
    steps, lanes = [], random.choice([1, 1, 2, 4])
    group, width = random.choice([8, 32, 64, 256]), random.choice([1, 1, 2, 4, 32])
    across = bool(points) and width > 1 and random.random() < 0.3
    if lanes > 1:
        steps += [f"tile {row} {lanes}", f"lanes {row}"]
    if len(points) > 1:
        steps.append("flatten " + ", ".join(points))
        point = made
    if width > 1 and points:
        steps.append(f"tile {point} {width}")
    at = int(lanes > 1)
    steps.append(f"tile {row}.{at} {group}")
    ends = [f"threads {row}.{at}"]
    kind = random.choice(["", "", "run", "chunk", "registers"])
    if kind:
        steps.append(f"tile {row}.{at + 1} {random.choice(SIZES[:7])}")
    if kind == "registers":
        ends += [f"unroll {row}.{at + 1}", f"registers {row}.{at + 1}"]
    if kind == "run":
        ends.append(f"run {row}.{at + 2}")
    outer = [f"{point}.1" if width > 1 else point] if points else []
    pieces = [f"{row}.{k}" for k in range(at + 1 + bool(kind), -1, -1)]
    inner = [point] if width > 1 and points else []
    chunk = [pieces.pop(0)] if kind == "chunk" else []
    order = outer + chunk + (pieces + inner if across else inner + pieces)
    steps.append("order " + ", ".join(order))
    steps += [f"blocks {x}" for x in outer + chunk]
    if chunk and outer:
        steps.append("order " + ", ".join(chunk + outer))
    steps += [f"threads {x}" for x in inner]
    return "; ".join(steps + ends)


def random_steps(axes):
    """Steps of a pass without sums over axes i0, i1, ..."""
    lanes, row = random.choice(axes + [None]), random.choice(axes)
    steps, outer, inner, runs = [], [], [], {}
    for axis in random.sample(axes, len(axes)):
        tiles = [random.choice([32, 64, 96, 128])] if axis == row else []
        kinds = ["threads"] * len(tiles)
        while random.random() < 0.4:
            side = tiles[0] if tiles else 1
            tiles.insert(0, side * random.choice([2, 2, 3, 4, 8]))
            kinds.insert(0, random.choice(["threads", "unroll", "", ""]))
        if axis == lanes:
            width = random.choice([2, 2, 4])
            tiles = [width * n for n in tiles] + [width]
        steps += [f"tile {axis} {n}" for n in tiles]
        pieces = [f"{axis}.{k}" for k in range(len(tiles), -1, -1)]
        runs |= dict(zip(pieces[1:], kinds))
        outer.append(pieces[0])
        inner.append(pieces[1:len(pieces) - (axis == lanes)])
    order = outer[:]
    while any(inner):
        order.append(random.choice([x for x in inner if x]).pop(0))
    last = [f"{lanes}.0"] if lanes else []
    steps.append("order " + ", ".join(order + last))
    if len(outer) > 1 and random.random() < 0.3:
        steps += ["flatten " + ", ".join(outer), f"blocks i{len(axes)}"]
    else:
        count = random.choice([len(outer), random.randint(0, len(outer))])
        steps += [f"blocks {x}" for x in outer[:count]]
    steps += [f"lanes {lanes} mask"] if lanes else []
    steps += [f"{runs[x]} {x}" for x in order if runs.get(x)]
    return "; ".join(steps)


def change_steps(steps, has_sums):
    """Changes one number, or all steps, of few passes."""
    if random.random() < 0.6:
        return steps
    made = re.search(r"flatten [^;]*; tile (i\d+) ", steps)
    axes = sorted(set(re.findall(r"i\d+", steps)) - {made and made.group(1)})
    if random.random() < 0.7:
        return (random_rows if has_sums else random_steps)(axes)
    tile = random.choice(list(re.finditer(r"(tile \S+ )(\d+)", steps)))
    return steps.replace(tile.group(0),
                         tile.group(1) + str(random.choice(SIZES)), 1)


def change_packs(steps):
    """Changes how an operand is packed: tails, blocks of terms, unrolled
    vectors, and whether vectors are transposed."""
    panels = re.match(r"tile (i\d+) (\d+) peel; tile \1\.1 (\d+); "
                      r"order \1\.2, (i\d+), \1\.1, \1; lanes", steps)
    transposed = re.match(r"tile (i\d+) (\d+); tile \1\.1 (\d+); tile (i\d+) ",
                          steps)
    if panels and random.random() < 0.5:
        a, width, vectors, k = panels.groups()
        steps = (f"tile {a} {width}; tile {a}.1 {vectors}; tile {k} {width}; "
                 f"order {a}.2, {a}.1, {k}.1, {a}, {k}; unroll {a}; "
                 f"lanes {k}; transpose {a}")
    elif transposed and random.random() < 0.5:
        a, width, vectors, k = transposed.groups()
        steps = (f"tile {a} {width} peel; tile {a}.1 {vectors}; "
                 f"order {a}.2, {k}, {a}.1, {a}; lanes {a}")
    tails = ["", " less", " peel", " if"]
    steps = re.sub(" peel", lambda _: random.choice(tails), steps)
    lanes = re.search(r"lanes (i\d+)", steps).group(1)
    if "transpose" not in steps and random.random() < 0.5:
        more = f"tile {lanes}.1 {random.choice([1, 2, 3])}"
        steps = steps.replace("lanes", more + random.choice(tails) + random.choice(
            ["; lanes", f"; unroll {lanes}.1; lanes"]))
    if random.random() < 0.3:
        steps = f"tile i2 {random.choice([5, 8, 32])}; " + steps
    return steps


keeps = True
has_sums = False
for line in sys.stdin:
    if line.startswith("(*"):
        has_sums = bool(re.search(r"\b(sum|softmax)\b", line))
    # Steps that pack operands are those of the chosen tile.
    if line.startswith("     pack "):
        if keeps and random.random() < 0.7:
            line = re.sub(r"\{(.*)\}", lambda x: "{" + change_packs(x[1]) + "}",
                          line)
        if keeps:
            sys.stdout.write(line)
        continue
    chosen = line
    found = re.match(r"(  1: )((?:tile|flatten|order).*(?:blocks|threads).*)",
                     line)
    if found:
        line = found.group(1) + change_steps(found.group(2), has_sums) + "\n"
    # A second pass depends on the first one.
    is_second = re.match(r"  [2-9]:", line)
    if not is_second:
        line = re.sub(r"by (\w+) \{(.*)\}", change, line)
        sys.stdout.write(line)
    keeps = line == chosen and not is_second
