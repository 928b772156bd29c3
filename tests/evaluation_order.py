#!/usr/bin/env python3
"""Finds calls whose order C leaves open, and whose order changes the output.

  evaluation_order.py FILE...

C evaluates arguments of a call and initializers in any order, and compilers
choose differently.  If two of them name a value or append an operation, the
text of the program depends on the compiler.  SEEDS are the functions that do
so; the script also counts each function that calls one of them.  Prints a line
for each list with two such calls that are not the same text."""
import collections, re, sys

SEEDS = """make_identifier put_tensor op_output host_emit_line
  host_emit_fresh_name host_emit_open_block emit_int emit_plain_int emit_key
  emit_float emit_scratch int_param add_step""".split()
TOKEN = re.compile(r"[A-Za-z_]\w*|->|\S")
HIDDEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\""
                    r"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
                    re.S | re.M)
NAME = re.compile(r"[A-Za-z_]\w*$")
KEYWORDS = {"if", "while", "for", "switch", "sizeof", "return"}


def without_text(m):
    """Blanks for a comment, string or directive; a string keeps its quotes."""
    blanks = re.sub(r"[^\n]", " ", m[0])
    return '"' + blanks[2:] + '"' if m[0][0] == '"' else blanks


class Source:
    def __init__(self, path):
        text = HIDDEN.sub(without_text, open(path, encoding="utf-8").read())
        self.path, self.tokens, self.lines, self.end_of = path, [], [], {}
        line, at, opened = 1, 0, []
        for m in TOKEN.finditer(text):
            line += text.count("\n", at, m.start())
            at = m.start()
            if m[0] in "([{":
                opened.append(len(self.tokens))
            elif m[0] in ")]}" and opened:
                self.end_of[opened.pop()] = len(self.tokens)
            self.tokens.append(m[0])
            self.lines.append(line)

    def functions(self):
        """The name, whether it is static, and the first and last token."""
        start_of = {end: at for at, end in self.end_of.items()}
        i, start = 0, 0
        while i < len(self.tokens):
            if self.tokens[i] == ";":
                start = i + 1
            if self.tokens[i] == "{" and i in self.end_of:
                k = start_of.get(i - 1)
                if k and NAME.match(self.tokens[k - 1]):
                    yield (self.tokens[k - 1], "static" in self.tokens[start:k],
                           i, self.end_of[i])
                i = self.end_of[i]
                start = i + 1
            i += 1

    def calls(self, first, last):
        for i in range(first, last):
            if (self.tokens[i + 1] == "(" and NAME.match(self.tokens[i])
                    and self.tokens[i] not in KEYWORDS):
                yield i, self.tokens[i]

    def is_list(self, i):
        before = self.tokens[i - 1]
        if self.tokens[i] == "(":
            return NAME.match(before) and before not in KEYWORDS
        return (self.tokens[i] == "{" and before in "=),{"
                and ";" not in self.tokens[i:self.end_of[i]])

    def parts(self, start):
        i = begin = start + 1
        while i < self.end_of[start]:
            if self.tokens[i] == ",":
                yield begin, i
                begin = i + 1
            i = self.end_of.get(i, i) + 1
        yield begin, i


def main():
    sources = [Source(path) for path in sys.argv[1:]]
    callers, bodies, known = collections.defaultdict(set), [], set()
    for s in sources:
        for name, is_static, first, last in s.functions():
            key = s.path + ":" + name if is_static else name
            known.add(key)
            bodies.append((s, key, first, last))

    def key_of(s, name):
        own = s.path + ":" + name
        return own if own in known else name

    for s, key, first, last in bodies:
        for _, name in s.calls(first, last):
            callers[key_of(s, name)].add(key)
    ordered, work = set(), list(SEEDS)
    while work:
        key = work.pop()
        if key not in ordered:
            ordered.add(key)
            work += callers[key]

    found = set()
    for s, _, first, last in bodies:
        marks = [i for i, name in s.calls(first, last)
                 if key_of(s, name) in ordered]
        for start in range(first + 1, last):
            if start not in s.end_of or not s.is_list(start):
                continue
            texts = {}
            for begin, end in s.parts(start):
                inside = [i for i in marks if begin <= i < end]
                if inside:
                    texts[tuple(s.tokens[begin:end])] = s.tokens[inside[0]]
            if len(texts) > 1:
                found.add(f"{s.path}:{s.lines[start]}: the order of these calls"
                          f" is open: {', '.join(texts.values())}")
    for line in sorted(found):
        print(line)
    return len(found) > 0


sys.exit(main())
