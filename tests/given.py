"""Checks lines with printed types, `name : type given constraint if conditions`.
The conditions may use only names of the type."""
import re
import sys

NAME = re.compile(r"[A-Za-z_]\w*")
CALLS = {"prod", "min", "max"}


def conditions(given):
    """The text between each ` if ` and the next comma outside of brackets."""
    depth, start = 0, 0
    for i, char in enumerate(given + ","):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield from given[start:i].split(" if ")[1:]
            start = i + 1


def unknown(line):
    """The names in the conditions that do not occur in the type."""
    head, given = line.split(" given ", 1)
    kind = set(NAME.findall(head.split(" : ", 1)[1]))
    return set(NAME.findall(" ".join(conditions(given)))) - kind - CALLS


def main():
    lines = [line.rstrip("\n") for line in sys.stdin]
    # Checks that the function works, and that there is enough input.
    sample = "f : 'a[n, ...s] given join(s, [3]) if 2 == i, 1 <= n"
    bad = [] if unknown(sample) == {"i"} else ["a name is not found"]
    bad += [] if len(lines) > 10 else [f"only {len(lines)} lines"]
    bad += [f"{' '.join(sorted(names))}: {line}" for line in lines
            if (names := unknown(line))]
    if bad:
        print("\n".join(bad))
    return bool(bad)


sys.exit(main())
