"""Checks the grammars of the editors: they are well formed, highlight sample
programs correctly, and contain exactly the keywords of the lexer and the names
of the element types."""
import json
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
bad = []


def check(ok, *what):
    if not ok:
        bad.append(" ".join(str(w) for w in what))


def read(*path):
    with open(os.path.join(root, *path), encoding="utf-8") as f:
        return f.read()


KEYWORDS = set(re.findall(r'^KEYWORD\(\w+, "(\w+)"', read(
    "lexer", "keywords.def"), re.M))
DTYPES = set(re.findall(r'^D\(\w+, "(\w+)"', read(
    "primitives", "dtypes.def"), re.M))
assert len(KEYWORDS) > 20 and len(DTYPES) > 5

# ---- an engine for the used subset of TextMate grammars ----

GRAMMAR = json.loads(read("editors", "vscode", "syntaxes",
                          "axon.tmLanguage.json"))


class Rule:
    def __init__(self, rule):
        self.name = rule.get("name")
        self.captures = {int(k): v["name"]
                         for k, v in rule.get("captures", {}).items()}
        self.match = re.compile(rule["match"]) if "match" in rule else None
        self.begin = re.compile(rule["begin"]) if "begin" in rule else None
        self.end = re.compile(rule["end"]) if "end" in rule else None
        self.patterns = rule.get("patterns", [])
        check(set(rule) <= {"name", "match", "begin", "end", "captures",
                            "patterns"}, "unknown keys in", rule)


rules = {}


def expand(patterns):
    """The rules of a list of patterns, includes resolved."""
    out = []
    for p in patterns:
        if "include" in p:
            name = p["include"]
            assert name.startswith("#"), name
            entry = GRAMMAR["repository"][name[1:]]
            if "match" in entry or "begin" in entry:
                out.append(rules.setdefault(name, None) or Rule(entry))
                rules[name] = out[-1]
            else:
                out += expand(entry["patterns"])
        else:
            out.append(rules.setdefault(json.dumps(p), None) or Rule(p))
            rules[json.dumps(p)] = out[-1]
    return out


def tokens(text):
    """(text, scope) of each part with a scope, line by line, as in editors."""
    out = []
    stack = [(None, expand(GRAMMAR["patterns"]))]
    first = True
    for line in text.split("\n"):
        at = 0
        while True:
            rule, inner = stack[-1]
            best = None
            if rule:
                m = rule.end.search(line, at)
                if m:
                    best = (m.start(), -1, m, None)
            for i, r in enumerate(inner):
                pattern = r.match or r.begin
                if pattern.pattern.startswith("\\A") and not first:
                    continue
                m = pattern.search(line, at)
                if m and (not best or (m.start(), i) < best[:2]):
                    best = (m.start(), i, m, r)
            if not best or best[0] > len(line):
                if rule:
                    out.append((line[at:], rule.name))
                break
            m, r = best[2], best[3]
            if rule and m.start() > at:
                out.append((line[at:m.start()], rule.name))
            if r is None:
                out.append((m.group(), rule.name))
                stack.pop()
            elif r.begin:
                out.append((m.group(), r.name))
                stack.append((r, expand(r.patterns)))
            elif r.captures:
                for k, name in r.captures.items():
                    out.append((m.group(k), name))
            else:
                out.append((m.group(), r.name))
            if m.end() == at and m.end() == m.start():
                if r is None and at == len(line):
                    break
                if at >= len(line):
                    break
                at += r is not None
            else:
                at = m.end()
        first = False
    return [(t, s) for t, s in out if t]


def scope(text, part, nth=0):
    return [s for t, s in tokens(text) if t == part][nth]


def test_textmate():
    for name in sorted(KEYWORDS):
        for before, behind in (("", ""), ("(", ")"), (" ", "\t"), ("1 ", "[")):
            got = dict(tokens(before + name + behind)).get(name, "")
            check(got.startswith("keyword."), "no keyword:", name, got)
        for other in (name + "s", "x" + name, name + "'", name + "_",
                      name.upper()):
            got = dict(tokens(other)).get(other, "none")
            check(not got.startswith("keyword"), "a keyword:", other, got)
    named = set()
    for p in GRAMMAR["repository"]["keyword"]["patterns"]:
        if p["name"].startswith("keyword"):
            named |= set(re.search(r"\((\w+(\|\w+)*)\)", p["match"])
                         .group(1).split("|"))
    check(named == KEYWORDS, "words of the grammar:", named ^ KEYWORDS)
    for name in DTYPES:
        check(scope(name + "[n]", name) == "storage.type.axon", name)
    for text, part, wanted in (
            ("val x = 1.5e-3", "1.5e-3", "constant.numeric.float.axon"),
            ("x 0xff", "0xff", "constant.numeric.integer.axon"),
            ("x1 2", "2", "constant.numeric.integer.axon"),
            ("f ~axis:-1", "~axis:", "variable.parameter.axon"),
            ("f ~heads x", "~heads", "variable.parameter.axon"),
            ("'a[...s]", "'a", "storage.type.variable.axon"),
            ("Some x", "Some", "constant.other.constructor.axon"),
            ("fun softmax x =", "softmax", "entity.name.function.axon"),
            ("and odd n =", "odd", "entity.name.function.axon"),
            ("x |> f", "|>", "keyword.operator.axon"),
            ("f ->! g", "->!", "keyword.operator.axon"),
            ("x == true", "true", "constant.language.boolean.axon"),
            ('"a\\n"', "\\n", "constant.character.escape.axon"),
            ('"a\\q"', "\\q", "invalid.illegal.axon"),
            ("#!/usr/bin/axon\nval x", "#!/usr/bin/axon",
             "comment.line.axon"),
            ("(* let *) let", "let", "keyword.control.axon"),
            ('"let" in', "in", "keyword.control.axon"),
            ("(* a (* b *) let *) in", "in", "keyword.control.axon"),
            ("(* a \n let *) in", "in", "keyword.control.axon"),
            ("shape x", "shape", "variable.other.axon"),
            ("shape(s)", "shape", "support.type.axon"),
            ("x' let", "x'", "variable.other.axon")):
        got = dict(tokens(text)).get(part)
        check(got == wanted, text, part, got)
    for text in ("(* let (* val *) fun *)", '"let val (* "', "(** do *)"):
        got = {s for t, s in tokens(text)}
        check(not any(s.startswith("keyword") for s in got), text, got)
    # Whole programs: no scope stays open, and nothing is illegal.
    folder = os.path.join(root, "examples")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".axn"):
            text = read("examples", name)
            got = tokens(text + "\nlet")
            check(got[-1] == ("let", "keyword.control.axon"), name, got[-1])
            check(all(s != "invalid.illegal.axon" for _, s in got), name)


def test_vim():
    text = read("editors", "vim", "syntax", "axon.vim")
    words = {}
    for group, rest in re.findall(r"^syntax keyword (\w+) (.*)$", text, re.M):
        for word in rest.split():
            check(word not in words, "twice:", word)
            words[word] = group
    groups = {"axonDeclare", "axonKeyword", "axonConditional", "axonRepeat",
              "axonSpecial"}
    named = {w for w, g in words.items() if g in groups}
    check(named == KEYWORDS, "words of Vim:", named ^ KEYWORDS)
    types = {w for w, g in words.items() if g == "axonType"}
    check(DTYPES <= types, "types of Vim:", DTYPES - types)
    used = set(re.findall(r"^syntax \w+ (axon\w+)", text, re.M))
    linked = set(re.findall(r"^highlight default link (axon\w+)", text, re.M))
    check(used == linked, "no colour:", used ^ linked)


def test_json():
    package = json.loads(read("editors", "vscode", "package.json"))
    config = json.loads(read("editors", "vscode",
                             "language-configuration.json"))
    (language,) = package["contributes"]["languages"]
    (grammar,) = package["contributes"]["grammars"]
    for path in (language["configuration"], grammar["path"], package["main"]):
        check(os.path.exists(os.path.join(root, "editors", "vscode", path)),
              "no file", path)
    check(grammar["scopeName"] == GRAMMAR["scopeName"], "scope names")
    check(grammar["language"] == language["id"], "languages")
    version = re.search(r"AC_INIT\(\[\w+\], \[([\d.]+)\]",
                        read("configure.ac")).group(1)
    check(package["version"] == version, "version", package["version"])
    re.compile(language["firstLine"])
    re.compile(config["wordPattern"])
    for pattern in config["indentationRules"].values():
        re.compile(pattern)


test_textmate()
test_vim()
test_json()
print("\n".join(bad))
sys.exit(bool(bad))
