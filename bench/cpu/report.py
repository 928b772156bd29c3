"""Prints the results of each workload, and the goals that are missed."""


def rate(seconds, found):
    if found["flops"] > 10 * found["bytes"] or not found["bytes"]:
        return found["flops"] / seconds / 1e9, "GF/s"
    return found["bytes"] / seconds / 1e9, "GB/s"


def bound(w, limits):
    """The minimal time in seconds, and the rate that bounds it."""
    if not limits:
        return None, None
    times = {}
    if w.flops:
        peak = limits["bf16" if w.peak == "bf16" and limits["bf16"][1] else
                      "fma"][1]
        times[w.peak] = w.flops / peak
    if w.bytes:
        times["memory"] = w.bytes / bandwidth(w, limits)
    return max((t, what) for what, t in times.items()) if times \
        else (None, None)


CACHE = 24 << 20                # bytes that may stay in caches


def bandwidth(w, limits):
    written = w.bytes - sum(x.bytes for x in w.inputs.values())
    reads = written < 0.1 * w.bytes
    if w.bytes < CACHE:
        return limits["read_3" if reads else "copy_3"][1]
    if reads:
        return limits["read_memory"][1]
    return max(limits["copy_memory"][1], limits["stream"][1])


def judge(found, w, limits):
    """Adds the best peer, ratios to all, the share of the limit, and whether
    goals are met.  Ratios are of paired rounds."""
    rows = found["rows"]
    others = {n: r for n, r in rows.items()
              if n != "axon" and n not in found["errors"]}
    found["best"] = min(others, key=lambda n: others[n]["seconds"],
                        default=None)
    found["bound"], found["bound_by"] = bound(w, limits) if w else (None, None)
    mine = rows.get("axon")
    found["ratios"] = {}
    if mine and "axon" not in found["errors"]:
        for name, row in others.items():
            pairs = sorted(b / a for a, b in zip(mine["rounds"],
                                                 row["rounds"]))
            found["ratios"][name] = pairs[len(pairs) // 2] if len(pairs) % 2 \
                else (pairs[len(pairs) // 2 - 1] + pairs[len(pairs) // 2]) / 2
    found["share"] = {n: found["bound"] / r["seconds"]
                      for n, r in rows.items()} if found["bound"] else {}
    found["goals"] = [reached(found, *goal) for goal in found["goals"]]


def reached(found, factor, against):
    if against == "limit":
        value = found["share"].get("axon")
    elif against == "seconds":
        row = found["rows"].get("axon")
        value = factor and row and factor / row["seconds"]
        return {"goal": factor, "against": against,
                "value": row and row["seconds"],
                "met": bool(value and value >= 1)}
    else:
        name = found["best"] if against == "best" else against
        value = found["ratios"].get(name)
    return {"goal": factor, "against": against, "value": value,
            "met": value is not None and value >= factor}


def duration(seconds):
    for unit, name in ((1, "s "), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit * 0.9995:
            break
    x = seconds / unit
    return f"{x:.{2 if x < 9.995 else 1 if x < 99.95 else 0}f} {name}"


def time_of(r):
    """Marked with ~ if other processes disturbed the measurement."""
    noisy = r["seconds"] > 1.5 * r["least"]
    return duration(r["seconds"]).rstrip() + ("~" if noisy else "")


LINE = "{:36} {:>9} {:>11} {:>6} {:>14} {:>9} {:>6}  {}"


def heading(about):
    print(f"{about['processor']}, {about['threads']} threads, "
          f"{about['date']}, commit {about['commit']}")
    print(", ".join(about["versions"].values())
          + f"; OPENBLAS_CORETYPE={about['openblas_coretype']}")
    limits = about["limits"]
    if limits:
        print(f"limits: {limits['fma'][1] / 1e9:.0f} GF/s f32, "
              f"{limits['bf16'][1] / 1e9:.0f} bf16; memory "
              f"{limits['read_memory'][1] / 1e9:.0f} GB/s read, "
              f"{limits['stream'][1] / 1e9:.0f} copied")
    print("weights are prepared before (peers), or kept as products want them "
          "(Axon); of rows without weights nothing is")
    print()
    print(LINE.format("", "axon", "rate", "share", "best peer", "its time",
                      "ratio", "goals"), flush=True)


def goal_text(goal):
    mark = "ok" if goal["met"] else "--"
    if goal["against"] == "seconds":
        return f"{mark} {duration(goal['goal'])}"
    return f"{mark} {goal['goal']:g} {goal['against']}"


def row(found):
    rows, errors = found["rows"], found["errors"]
    cells = [found["name"], "", "", "", "", "", ""]
    mine = rows.get("axon")
    if mine:
        speed = rate(mine["seconds"], found) \
            if found["flops"] or found["bytes"] else None
        cells[1] = time_of(mine)
        cells[2] = f"{speed[0]:.0f} {speed[1]}" if speed else ""
        if found["share"]:
            cells[3] = f"{found['share']['axon']:.2f}"
    best = found["best"]
    if best:
        cells[4], cells[5] = best, time_of(rows[best])
        if best in found["ratios"]:
            cells[6] = f"{found['ratios'][best]:.2f}"
    print(LINE.format(*cells, ", ".join(map(goal_text, found["goals"]))))
    rest = sorted((r["seconds"], n) for n, r in rows.items()
                  if n not in ("axon", best))
    if rest:
        print("    " + ", ".join(f"{n} {time_of(rows[n])}" for _, n in rest))
    for name, why in errors.items():
        print(f"    {name}: {why}")
    print(end="", flush=True)


def ending(out):
    goals = [g for found in out for g in found["goals"]]
    met = sum(g["met"] for g in goals)
    print(f"\n{met} of {len(goals)} goals are met.")
    if any(r["seconds"] > 1.5 * r["least"]
           for found in out for r in found["rows"].values()):
        print("~: the fastest call took less than two thirds of that: other "
              "work may have\ndisturbed it.")
