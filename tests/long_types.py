"""Lists long inferred types:  long_types.py AXON KNOWN FILE...

Measures each type as a reader sees it who knows the records: a record within a
type counts as {...}.  Prints the types of more than LIMIT characters.  The exit
status is 1 if one is not in KNOWN (as `FILE: NAME`, or `FILE: *`), or is there
without being long.  The comments of KNOWN say why a type is long."""

import pathlib
import subprocess
import sys

LIMIT = 200


def fold_records(text):
    """The text with {...} for each outermost record."""
    parts, depth = [], 0
    for c in text:
        depth -= c == "}"
        if not depth:
            parts.append("{...}" if c == "}" else "" if c == "{" else c)
        depth += c == "{"
    return "".join(parts)


def long_types(axon, path):
    """Yields the names and folded types of a file that are too long."""
    run = subprocess.run([axon, "check", path], capture_output=True, text=True)
    for line in run.stdout.splitlines():
        name, found, shown = line.partition(" : ")
        folded = fold_records(shown)
        if found and len(folded) > LIMIT:
            yield name, folded


def main():
    axon, known, *files = sys.argv[1:]
    lines = pathlib.Path(known).read_text().splitlines()
    known = {line for line in lines if line and not line.startswith("#")}
    unused, bad = set(known), 0
    for file in files:
        for name, folded in long_types(axon, file):
            entries = {f"{file}: {name}", f"{file}: *"} & known
            unused -= entries
            if not entries:
                bad += 1
                print(f"{file}: {name}: {len(folded)} characters\n    {folded}")
    for line in sorted(unused):
        print(f"no longer above {LIMIT} characters: {line}")
    return 1 if bad or unused or not files else 0


if __name__ == "__main__":
    sys.exit(main())
