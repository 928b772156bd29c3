"""Inferred types are principal:  principal.py AXON OPEN FILE...

Of each function f of a file that prints as f : A -> B given G there is one more,

    fun again_f (x0 : A) : B given G = f x0

which has to be accepted, so that A -> B is no more than what f has, and whose
inferred type has to be the same, so that it is no less.  What differs is
printed, and at the end how many functions there were; the exit status is 1 if
anything differs that OPEN does not list (as `FILE: NAME`, or `FILE: *`)."""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile


def parts_of(text, separator):
    """The parts of a text between separators that stand in no bracket."""
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
    """The definition of another that is annotated; None if it is not a function."""
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
    """The types that `axon check` prints, and what it says beside."""
    file = folder / "again.axn"
    file.write_text(text)
    run = subprocess.run([axon, "check", file], capture_output=True, text=True)
    lines = [line.split(" : ", 1) for line in run.stdout.splitlines()]
    return {line[0]: line[1] for line in lines if len(line) == 2}, run.stderr


def words(shown):
    """What a type says, whatever the order of its terms and conditions; with a
    label that optional as one that may not."""
    return collections.Counter(re.findall(r"[\w'.]+|[^\w\s]",
                                          shown.replace("?", "~")))


def differing(axon, path, folder):
    """How many functions there are; then those whose annotated copies are
    refused or of another type."""
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
    functions = faults = 0
    mended = set()
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            if f"{file}: *" in known:
                continue
            found = differing(axon, file, pathlib.Path(folder))
            functions += next(found)
            mended |= {line for line in known if line.startswith(f"{file}: ")}
            for name, want, got, errors in found:
                mended.discard(f"{file}: {name}")
                if f"{file}: {name}" in known:
                    continue
                faults += 1
                print(f"{file}: {name} : {want}\n    again : {got}")
                print("".join(f"    {line}\n"
                              for line in errors.splitlines()[:6]), end="")
    for line in sorted(mended):
        print(f"no longer differs: {line}")
    print(f"{functions} functions, {faults} differ")
    return 1 if faults or not functions else 0


if __name__ == "__main__":
    sys.exit(main())
