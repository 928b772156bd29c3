"""Of lines with a printed type, `name : type given what if conditions`: names
in the conditions that are none of the type."""
import re
import sys

NAME = re.compile(r"[A-Za-z_]\w*")
CALLS = {"prod", "min", "max"}


def conditions(given):
    """What stands between each ` if ` and the next comma that is outside of
    brackets."""
    depth, start = 0, 0
    for i, char in enumerate(given + ","):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield from given[start:i].split(" if ")[1:]
            start = i + 1


def unknown(line):
    """The names that the type lacks."""
    head, given = line.split(" given ", 1)
    kind = set(NAME.findall(head.split(" : ", 1)[1]))
    return set(NAME.findall(" ".join(conditions(given)))) - kind - CALLS


def main():
    lines = [line.rstrip("\n") for line in sys.stdin]
    # It finds what it is to find, and there is something to look at.
    sample = "f : 'a[n, ...s] given join(s, [3]) if 2 == i, 1 <= n"
    bad = [] if unknown(sample) == {"i"} else ["a name is not found"]
    bad += [] if len(lines) > 10 else [f"only {len(lines)} lines"]
    bad += [f"{' '.join(sorted(names))}: {line}" for line in lines
            if (names := unknown(line))]
    if bad:
        print("\n".join(bad))
    return bool(bad)


sys.exit(main())
