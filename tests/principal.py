"""Checks that inferred types are principal:  principal.py AXON OPEN FILE...

For each function f with the printed type f : A -> B given G, checks the program

    fun again_f (x0 : A) : B given G = f x0

If it is accepted, the printed type is not more general than that of f.  If its
inferred type is the same, the printed type is not less general.  Prints the
differences and the number of functions.  The exit status is 1 if there is a
difference that OPEN does not list (as `FILE: NAME`, or `FILE: *`)."""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile


def parts_of(text, separator):
    """Splits a text at the separators outside of brackets."""
    depth, parts, start = 0, [], 0
    for m in re.finditer(rf"[(\[{{]|[)\]}}]|{separator}", text):
        if m[0] in "([{":
            depth += 1
        elif m[0] in ")]}":
            depth -= 1
        elif not depth:
            parts.append(text[start:m.start()])
            start = m.end()
    return parts + [text[start:]]


def again(name, shown):
    """The definition of an annotated copy; None if the type is no function."""
    plain, *given = parts_of(shown, " given ")
    *params, result = parts_of(plain, " ->!? ")
    if not params:
        return None
    patterns, args = [], []
    for i, param in enumerate(params):
        label = re.match(r"[~?](\w+):", param)
        if label:
            inner = param[label.end():]
            patterns.append(f"~{label[1]}:(x{i} : {inner})")
            args.append(f"~{label[1]}:x{i}")
        else:
            patterns.append(f"(x{i} : {param})")
            args.append(f"x{i}")
    facts = f" given {given[0]}" if given else ""
    return (f"fun again_{name} {' '.join(patterns)} : {result}{facts} =\n"
            f"  {name} {' '.join(args)}\n")


def types_of(axon, text, folder):
    """The types that `axon check` prints, and its error output."""
    file = folder / "again.axn"
    file.write_text(text)
    run = subprocess.run([axon, "check", file], capture_output=True, text=True)
    lines = [line.split(" : ", 1) for line in run.stdout.splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}, run.stderr


def words(shown):
    """The tokens of a type, as a multiset: ignores the order of terms and
    conditions.  Optional labels count as required ones."""
    return collections.Counter(re.findall(r"[\w'.]+|[^\w\s]",
                                          shown.replace("?", "~")))


def differing(axon, path, folder):
    """Yields the number of functions, then those whose annotated copies are
    rejected or have another type."""
    text = pathlib.Path(path).read_text()
    types, _ = types_of(axon, text, folder)
    copies = {name: again(name, shown) for name, shown in types.items()}
    copies = {name: copy for name, copy in copies.items() if copy}
    got, _ = types_of(axon, text + "\n" + "\n".join(copies.values()), folder)
    yield len(copies)
    for name, copy in copies.items():
        shown = got.get(f"again_{name}")
        if shown and words(shown) == words(types[name]):
            continue
        alone, errors = types_of(axon, text + "\n" + copy, folder)
        shown = alone.get(f"again_{name}", "")
        if errors.count("error[") or words(shown) != words(types[name]):
            yield name, types[name], shown, errors


def main():
    axon, known, *files = sys.argv[1:]
    known = set(pathlib.Path(known).read_text().splitlines())
    functions = differences = 0
    unused = set()
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if f"{file}: *" in known:
                continue
            found = differing(axon, file, pathlib.Path(folder))
            functions += next(found)
            unused |= {line for line in known if line.startswith(f"{file}: ")}
            for name, expected, got, errors in found:
                unused.discard(f"{file}: {name}")
                if f"{file}: {name}" in known:
                    continue
                differences += 1
                print(f"{file}: {name} : {expected}\n    again : {got}")
                print("".join(f"    {line}\n"
                              for line in errors.splitlines()[:6]), end="")
    for line in sorted(unused):
        print(f"no longer differs: {line}")
    print(f"{functions} functions, {differences} differ")
    return 1 if differences or not functions else 0


if __name__ == "__main__":
    sys.exit(main())
