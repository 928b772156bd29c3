#!/usr/bin/env python3
"""Adds rows of primitives.def that are missing in doc/language.md, each after
its predecessor:  tools/document_primitives.py  (tests/doc_snippets.sh compares)."""
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(
    rf"P\(\w+, {STRING}, \w+, [\w|]+, \w+, {STRING}, {STRING}, ")
WIDTH = 100


def entry(name, scheme, doc):
    line = f"{name} : {scheme} -- {doc}"
    if len(line) <= WIDTH:
        return [line]
    lines = []
    for part in re.split(r" (?=given )", f"{name} : {scheme}") + [f"-- {doc}"]:
        lines += textwrap.wrap(part, WIDTH, subsequent_indent="    ",
                               initial_indent="    " if lines else "")
    return lines


def main():
    path = ROOT / "doc" / "language.md"
    lines = path.read_text().split("\n")
    before = None
    for row in (ROOT / "primitives/primitives.def").read_text().split("\n"):
        m = ROW.match(row)
        if not m:
            continue
        name, scheme, doc = (s.replace('\\"', '"') for s in m.groups())
        name = name.removeprefix("op ")
        if not any(line.startswith(f"{name} : ") for line in lines):
            at = next(k for k, line in enumerate(lines)
                      if line.startswith(f"{before} : ")) + 1
            while lines[at].startswith("    "):
                at += 1
            lines[at:at] = entry(name, scheme, doc)
            print(f"doc/language.md: {name}")
        before = name
    path.write_text("\n".join(lines))


main()
