"""Checks the effect of annotations:  stripped.py AXON NARROWED FILE...

For each function with annotations on its parameters or its result, checks a
copy without them.  The inferred type of the copy must be at least as general as
the annotated type.  If it is more general, NARROWED must give the reason for
the annotation, in a line `FILE: NAME: reason`.  If the body uses sizes that an
annotation names, the copy binds them from the shape of the argument.  If that
is impossible because the parameter is not a name, or its shape has several
splices, NARROWED must list the function too; likewise if its type would be less
general without the annotation.  The exit status is 1 if there is any other difference."""

import pathlib
import re
import sys
import tempfile

from principal import again, types_of, words

TOKEN = re.compile(r"""\(\*|"(?:\\.|[^"\\])*"|[~?][a-z]\w*:|==|!=|<=|>=|=>|->!?
                       |::|\.\.\.|'[a-z]\w*|[A-Za-z_][\w']*|\d[\w.]*|\s+|.""",
                   re.S | re.X)


def tokens(text):
    """(token, start, end) of all tokens except blanks and comments."""
    at, out = 0, []
    while at < len(text):
        m = TOKEN.match(text, at)
        at = m.end()
        if m[0] == "(*":
            depth = 1
            while depth:
                mark = re.compile(r"\(\*|\*\)").search(text, at)
                depth += 1 if mark[0] == "(*" else -1
                at = mark.end()
        elif not m[0].isspace():
            out.append((m[0], m.start(), m.end()))
    return out


def annotations(toks, i):
    """The annotations of the parameters that begin at token i, each as
    (pattern, first token, last token), and the index of the `=` after them."""
    found, open_ones = [], []
    while toks[i][0] != "=" or open_ones:
        token = toks[i][0]
        if token in "([{":
            open_ones.append(token)
        elif token in ")]}":
            open_ones.pop()
        elif token in (":", "given") and "[" not in open_ones:
            last, depth = i, 0
            while True:
                last += 1
                token = toks[last][0]
                if not depth and (token in (")", "}", "=") or
                                  token == "," and open_ones):
                    break
                depth += (token in "([{") - (token in ")]}")
            found.append((toks[i - 1][0], i, last))
            i = last
            continue
        i += 1
    return found, i


def named_axes(toks, first, last):
    """The axes of a type such as 'a[n, _, ...s] (each a name, a splice or _),
    and the names."""
    inner = [t[0] for t in toks[first + 3:last - 1]]
    if toks[first + 2][0] != "[" or toks[last - 1][0] != "]" or \
            not inner or "]" in inner or not toks[first - 1][0].isidentifier():
        return None, []
    axes, names, axis = [], [], []
    for token in inner + [","]:
        if token != ",":
            axis.append(token)
            continue
        plain = axis[-1] if len(axis) == 1 or axis[0] == "..." else "_"
        if not re.match(r"[a-z]", plain) or plain in names:
            plain = "_"
        names += [plain] if plain != "_" else []
        axes.append(("..." if axis[0] == "..." else "") + plain)
        axis = []
    return axes, names


def without(text, toks, i):
    """Two versions of the program without the annotations of the function whose
    parameters begin at token i; the second one binds the named sizes.  None if
    there are no annotations."""
    found, equals = annotations(toks, i)
    if not found:
        return None
    body = equals + 1
    while body < len(toks) and text[toks[body][1] - 1] != "\n":
        body += 1
    known, sizes = set(), []
    for pattern, first, last in found:
        axes, names = named_axes(toks, first, last)
        if axes and not known.issuperset(names):
            axes = [a if a.strip("._") not in known else
                    "..." if a.startswith("...") else "_" for a in axes]
            sizes.append(f"val [{', '.join(axes)}] = shape {pattern}")
            known |= set(names)
    new, at = "", 0
    for _, first, last in found:
        new += text[at:toks[first][1]].rstrip()
        new += " " if toks[last][0] == "=" else ""
        at = toks[last][1]
    new += text[at:toks[equals][2]]
    plain = new + text[toks[equals][2]:]
    named = (new + f" let {' '.join(sizes)} in\n " +
             text[toks[equals][2]:toks[body - 1][2]] + "\n end\n" +
             text[toks[body - 1][2]:])
    return plain, named


def holds(axon, text, name, shown, folder):
    """True if the function has the printed type."""
    copy = again(name, shown)
    types, errors = types_of(axon, text + "\n" + copy, folder)
    got = types.get(f"again_{name}", "")
    return not errors.count("error[") and words(got) == words(shown)


def verdict(axon, text, name, shown, copies, folder):
    """equal, narrowed, named (the body needs the size names), or an error."""
    for copy in copies:
        types, errors = types_of(axon, copy, folder)
        if name not in types:
            continue
        if not holds(axon, copy, name, shown, folder):
            return f"less general without annotations: {types[name]}"
        return ("equal" if holds(axon, text, name, types[name], folder)
                else "narrowed")
    unbound = "E0312" in errors or "E0346" in errors
    return "named" if unbound else errors


def main():
    axon, listed, *files = sys.argv[1:]
    lines = pathlib.Path(listed).read_text().splitlines()
    reasons = {line.rsplit(": ", 1)[0] for line in lines
               if line and line[0] != "#"}
    count, unexpected = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in files:
            text = pathlib.Path(file).read_text()
            toks = tokens(text)
            types = None
            for i, (token, start, _) in enumerate(toks):
                if token not in ("fun", "and") or text[start - 1:start] > "\n":
                    continue
                copies = without(text, toks, i + 2)
                if not copies:
                    continue
                types = types or types_of(axon, text, folder)[0]
                name = toks[i + 1][0]
                result = verdict(axon, text, name, types[name], copies, folder)
                count += 1
                reason = f"{file}: {name}" in reasons
                reasons.discard(f"{file}: {name}")
                needed = result in ("narrowed", "named") or \
                    result.startswith("less general")
                if reason != needed or not reason and result != "equal":
                    unexpected += 1
                    print(f"{file}: {name}: {result}")
    for line in sorted(reasons):
        print(f"unused reason: {line}")
    print(f"{count} annotated functions, {unexpected} unexpected")
    return 1 if unexpected or reasons or not count else 0


if __name__ == "__main__":
    sys.exit(main())
