"""Requests about a document, compared with expected responses."""
import os
import re
import subprocess

from client import (AXON, Client, Failed, apply, find, part, position, uri_of,
                    WAIT)

MODEL = '''(** The part of each in the whole.
    >>> sum (softmax [1.0, 2.0]) > 0.99 *)
fun softmax x =
  let val e = exp (x - max ~axis:-1 ~keep:true x)
  in e / sum ~axis:-1 ~keep:true e end

fun linear {w : f32[m, n], b : f32[m]} x = x @ transpose w + b

fun scale ~by:(k = 2.0) ~offset x = x * k + offset

fun net layer x =
  x
  |> linear layer
  |> softmax
  |> scale ~offset:1.0

datatype shade = Dark | Light of int
type pair = {left : int, right : int}

fun level s = case s of Dark => 0 | Light n => n
val p : pair = {left = 1, right = level (Light 2)}
val q = p.left + p.right
val layer = {w = ones [3, 4], b = zeros [3]}
val y = net layer (ones [2, 4])
'''


def begin(text=MODEL, name="model.axn", **more):
    c = Client(**more)
    u = uri_of(name)
    c.open(u, text)
    return c, u


def code(hover):
    """The first line of the code in a hover."""
    return hover["contents"]["value"].split("\n")[1]


# ---- hover ----

def test_hover():
    c, u = begin()
    assert c.diagnostics(u) == []
    for what, nth, inside, wanted in (
            ("softmax", 1, 0, "softmax : 'a[...s, n] -> 'a[...s, n] "
                              "given 'a : float"),
            ("x =", 0, 0, "x : 'a[...s, n]"),
            ("e =", 0, 0, "e : 'a[...s, n]"),
            ("e /", 0, 0, "e : 'a[...s, n]"),
            ("~keep", 1, 2, "~keep : keep(u, r)"),
            ("x -", 0, 2, "'a[...s, n]"),           # of the difference
            ("@", 0, 0, "f32[...s, k, m]"),
            ("w +", 0, 0, "w : f32[m, n]"),
            ("m,", 0, 0, "m  (a size)"),
            ("offset", 0, 0, "offset : 'a[...s]"),
            ("offset:", 0, 0, "~offset : 'a[...s]"),
            ("Light", 1, 0, "Light : int -> shade"),
            ("n =>", 0, 0, "n : int"),
            ("pair", 1, 0, "type pair = {left : int, right : int}"),
            ("left", 2, 0, "left : int"),
            ("p.left", 0, 0, "p : pair"),
            ("q", 0, 0, "q : int"),
            ("layer =", 0, 0, "layer : {w : f32[3, 4], b : f32[3]}"),
            ("2, 4", 0, 0, "dim(2)"),
            ("y =", 0, 0, "y : f32[2, 3]")):
        h = c.at("hover", u, find(MODEL, what, nth, inside=inside))
        assert h and code(h) == wanted, (what, h)
    h = c.at("hover", u, find(MODEL, "softmax", 1))["contents"]["value"]
    assert "The part of each in the whole." in h
    assert "```axon\n>>> sum (softmax [1.0, 2.0]) > 0.99" in h
    h = c.at("hover", u, find(MODEL, "|> linear", inside=4))
    assert "(* here *) {w : f32[n, m], b : f32[n]} -> " in \
        h["contents"]["value"]
    h = c.at("hover", u, find(MODEL, "exp"))
    assert "e to the power x" in h["contents"]["value"]
    assert c.at("hover", u, (5, 0)) is None
    assert c.at("hover", u, (999, 0)) is None
    assert c.end() == 0


def test_hover_of_global_elements():
    """The uses in the whole text, after each change."""
    text = "val p = 0.5\nfun scale (x : f64[n]) = x * p\n"
    c, u = begin(text)
    for now, wanted in ((text, "f64"), (text.replace("f64", "f16"), "f16"),
                        ("val p = 0.5\n", "f32")):
        c.change(u, now)
        assert c.diagnostics(u) == []
        assert code(c.at("hover", u, find(now, "p "))) == f"p : {wanted}"
    assert c.end() == 0


def test_hover_of_the_library():
    text = "val t = train.run_with\nval u = train.run\nval v = optim.adamw\n"
    c, u = begin(text)
    for name, wanted in (
            ("t =", "t : ~steps:dim(n) -> ~batch:dim(m) -> "),
            ("run_with", "run_with : ~steps:dim(steps) -> ~batch:dim(batch)"),
            ("u =", "u : ~steps:dim(n) -> ~batch:dim(m) -> "),
            ("v =", "v : ?rate:'a[] -> ?beta1:'a[] -> "),
            ("adamw", "adamw : ?rate:'a[] -> ?beta1:'a[] -> ")):
        h = c.at("hover", u, find(text, name))
        assert h and code(h).startswith(wanted), (name, h)
    assert c.end() == 0


def test_hover_after_an_error():
    text = MODEL + "val bad = y @ y\nval after = softmax y\n"
    c, u = begin(text)
    assert [d["code"] for d in c.diagnostics(u)] == ["E0301"]
    h = c.at("hover", u, find(text, "after"))
    assert code(h) == "after : f32[2, 3]"
    h = c.at("hover", u, find(text, "y @ y", inside=4))
    assert code(h) == "y : f32[2, 3]"
    assert c.end() == 0


# ---- definitions and references ----

def target(c, u, place):
    d = c.at("definition", u, place)
    return d and (d["uri"], (d["range"]["start"]["line"],
                             d["range"]["start"]["character"]))


def test_definition():
    c, u = begin()
    for what, nth, inside, wanted, wanted_nth in (
            ("softmax", 2, 0, "softmax", 1),
            ("x -", 0, 0, "x =", 0),
            ("e /", 0, 0, "e =", 0),
            ("w +", 0, 0, "w :", 0),
            ("k +", 0, 0, "k =", 0),
            ("offset\n", 0, 0, "offset", 0),
            ("offset:", 0, 0, "offset", 0),
            ("Light 2", 0, 0, "Light", 0),
            ("n\n", 0, 0, "n =>", 0),
            ("pair", 1, 0, "pair", 0),
            ("m]}", 0, 0, "m,", 0),
            ("layer (", 0, 0, "layer =", 0),
            ("layer\n", 0, 0, "layer x", 0)):
        got = target(c, u, find(MODEL, what, nth, inside=inside))
        assert got == (u, find(MODEL, wanted, wanted_nth)), what
    assert target(c, u, find(MODEL, "ones")) is None  # built in
    assert target(c, u, (5, 0)) is None
    assert c.end() == 0


def test_definition_in_the_library():
    text = "import nn\nval x = nn.softmax (lists.head (list [ones [3]]))\n" \
           "val y = nn.relu x\n"
    c, u = begin(text)
    d = c.at("definition", u, find(text, "relu"))
    path = d["uri"].removeprefix("file://")
    with open(path, encoding="utf-8") as f:
        line = f.read().split("\n")[d["range"]["start"]["line"]]
    assert line.startswith("fun relu")
    assert part(line, {"start": {**d["range"]["start"], "line": 0},
                       "end": {**d["range"]["end"], "line": 0}}) == "relu"
    assert os.stat(path).st_mode & 0o777 == 0o444
    d = c.at("definition", u, find(text, "nn"))
    assert d["uri"].endswith("/nn.axn")
    assert c.end() == 0


def test_uses():
    c, u = begin()
    for what, nth, count in (("softmax", 1, 2), ("x -", 0, 3), ("layer", 0, 2),
                             ("k =", 0, 2), ("Light", 0, 3), ("pair", 0, 2),
                             ("m,", 0, 2), ("offset", 0, 2), ("layer =", 0, 2)):
        place = find(MODEL, what, nth)
        uses = c.at("references", u, place,
                    context={"includeDeclaration": True})
        name = re.match(r"\w+", what).group()
        assert {part(MODEL, r["range"]) for r in uses} == {name}, (what, uses)
        assert len(uses) == count, (what, uses)
        fewer = c.at("references", u, place,
                     context={"includeDeclaration": False})
        assert len(fewer) == count - 1, what
        marks = c.at("documentHighlight", u, place)
        assert [m["range"] for m in marks] == [r["range"] for r in uses]
        assert [m["kind"] for m in marks].count(3) == 1
    assert c.at("references", u, (5, 0),
                context={"includeDeclaration": True}) == []
    assert c.end() == 0


def test_symbols():
    c, u = begin()
    symbols = c.of("documentSymbol", u)
    assert [s["name"] for s in symbols] == [
        "softmax", "linear", "scale", "net", "shade", "pair", "level", "p",
        "q", "layer", "y"]
    by_name = {s["name"]: s for s in symbols}
    assert [k["name"] for k in by_name["shade"]["children"]] == \
        ["Dark", "Light"]
    assert by_name["y"]["detail"] == "f32[2, 3]"
    assert by_name["net"]["kind"] == 12 and by_name["y"]["kind"] == 13
    for s in symbols:
        assert part(MODEL, s["selectionRange"]) == s["name"]
    assert c.end() == 0


# ---- renaming ----

# @ before a name marks the position.  Each row has the renamed program, or a
# word of the error.
RENAMES = (
    ("val @x = 1\nval y = x + x\n", "z", "val z = 1\nval y = z + z\n"),
    ("val x = 1\nval y = @x + x\n", "z", "val z = 1\nval y = z + z\n"),
    # shadowing: the inner x is a different variable
    ("val @x = 1\nfun f x = x\nval y = f x\n", "z",
     "val z = 1\nfun f x = x\nval y = f z\n"),
    ("val x = 1\nfun f @x = x\nval y = f x\n", "z",
     "val x = 1\nfun f z = z\nval y = f x\n"),
    ("val x = 1\nval @x = x + 1\nval y = x\n", "z",
     "val x = 1\nval z = x + 1\nval y = z\n"),
    # variable capture is an error, in both directions
    ("val @x = 1\nfun f y = x + y\n", "y", "change the meaning"),
    ("val x = 1\nfun f @y = x + y\n", "x", "change the meaning"),
    ("val @x = 1\nval y = 2\nval z = x + y\n", "y", "change the meaning"),
    ("fun f x = let val @a = x in a + x end\n", "x",
     "change the meaning"),
    # labels and puns
    ("fun f ~heads x = x * heads\nval y = f ~@heads:2 3\n", "h",
     "fun f ~h:heads x = x * heads\nval y = f ~h:2 3\n"),
    ("fun f ~heads x = x * @heads\nval y = f ~heads:2 3\n", "h",
     "fun f ~heads:h x = x * h\nval y = f ~heads:2 3\n"),
    ("fun f ~n x = x * n\nval @n = 2\nval y = f ~n 3\n", "m",
     "fun f ~n x = x * n\nval m = 2\nval y = f ~n:m 3\n"),
    ("fun f ~n x = x * n\nval n = 2\nval y = f ~@n:n 3\n", "k",
     "fun f ~k:n x = x * n\nval n = 2\nval y = f ~k:n 3\n"),
    ("fun f ~by:(@k = 2) x = x * k\nval y = f 3\n", "m",
     "fun f ~by:(m = 2) x = x * m\nval y = f 3\n"),
    ("fun f ~@by:(k = 2) x = x * k\nval y = f ~by:4 3 + f 1\n", "of_",
     "fun f ~of_:(k = 2) x = x * k\nval y = f ~of_:4 3 + f 1\n"),
    ("fun f ~@by:k x = x * k\nfun g h = h ~by:1 2\nval y = g f\n", "of_",
     "change the meaning"),
    ("fun f ~by x = x * by\nfun g h = h ~@by:1 2\nval y = g f\n", "k",
     "not known"),
    # fields and their puns
    ("fun f {w, b} x = x * @w + b\n", "v",
     "fun f {w = v, b} x = x * v + b\n"),
    ("fun f {w : f32[n], b} x = x * @w + b\n", "v",
     "fun f {w = (v : f32[n]), b} x = x * v + b\n"),
    ("val @w = 1\nval r = {w, b = 2}\n", "v",
     "val v = 1\nval r = {w = v, b = 2}\n"),
    ("val r = {@w = 1}\nval x = r.w\n", "v", "fields cannot be renamed"),
    ("val r = {w = 1}\nval x = r.@w\n", "v", "fields cannot be renamed"),
    # constructors, types, sizes
    ("datatype t = @A | B\nval x = case B of A => 1 | B => 2\n", "C",
     "datatype t = C | B\nval x = case B of C => 1 | B => 2\n"),
    ("datatype t = @A | B\n", "c", "capital"),
    ("datatype @t = A | B of t\nval x : t = A\n", "u",
     "datatype u = A | B of u\nval x : u = A\n"),
    ("fun f (x : f32[@n, m]) (y : f32[n]) = zeros [n, m]\n", "k",
     "fun f (x : f32[k, m]) (y : f32[k]) = zeros [k, m]\n"),
    ("fun f (x : f32[@n, m]) (y : f32[n]) = zeros [n, m]\n", "m",
     "change the meaning"),
    ("fun f (x : '@a[n]) (y : 'a[n]) = x\n", "'b",
     "fun f (x : 'b[n]) (y : 'b[n]) = x\n"),
    ("fun f (x : f32[...@s]) (y : f32[...s, n]) = x\n", "t",
     "fun f (x : f32[...t]) (y : f32[...t, n]) = x\n"),
    ("val s = sum (for @i < 3, j < 4 => i + j)\n", "k",
     "val s = sum (for k < 3, j < 4 => k + j)\n"),
    ("fun @even n = n == 0 || odd (n - 1)\nand odd n = n != 0 && even (n - 1)"
     "\n", "e",
     "fun e n = n == 0 || odd (n - 1)\nand odd n = n != 0 && e (n - 1)\n"),
    ("fun @f 0 = 1\n  | f n = n * f (n - 1)\n", "g",
     "fun g 0 = 1\n  | g n = n * g (n - 1)\n"),
    ("val a as_ = 1\n", None, None),
    # invalid renamings
    ("val x = @sum [1, 2]\n", "add", "built in"),
    ("import nn\nval x = nn.@relu 1.0\n", "r", "library"),
    ("import nn\nval x = @nn.relu 1.0\n", "n", "module"),
    ("val @x = 1\n", "let", "keyword"),
    ("val @x = 1\n", "1x", "small letter"),
    ("val @x = 1\n", "x-y", "not a name"),
    ("val @x = 1\n", "X", "small letter"),
    ("val x = @missing\n", "y", "not known"),
)


def test_rename():
    c = Client()
    for i, (marked, new, wanted) in enumerate(RENAMES):
        if new is None:
            continue
        at = marked.index("@")
        text = marked[:at] + marked[at + 1:]
        u = uri_of(f"r{i}.axn")
        c.open(u, text)
        place = position(text, at)
        try:
            edit = c.at("rename", u, place, newName=new)
            got = apply(text, edit["changes"].get(u, []))
            assert got == wanted, (marked, got)
            ready = c.at("prepareRename", u, place)
            assert ready["placeholder"].strip("'") in marked[at + 1:]
        except Failed as failed:
            assert wanted.count("\n") == 0 and wanted in str(failed), \
                (marked, str(failed))
    refused = c.at("prepareRename", u, (0, 3))
    assert refused is None
    assert c.end() == 0


def test_renaming_changes_nothing():
    """Renames every name of a program; the types stay the same."""
    c, u = begin()
    before = types_of(c, u)
    names = sorted({(s, i) for i, s in
                    ((m.start(), m.group()) for m in
                     re.finditer(r"(?<![\w.~'])[a-z_]+\b", MODEL))})
    done = 0
    for name, at in names:
        try:
            edit = c.at("rename", u, position(MODEL, at), newName=name + "_z")
        except Failed:
            continue
        text = apply(MODEL, edit["changes"].get(u, []))
        c.change(u, text)
        assert c.diagnostics(u) == [], text
        after = types_of(c, u)
        shown = name in ("pair", "shade", "m", "n", "offset", "by")
        assert shown or [t for _, t in before] == [t for _, t in after], name
        c.change(u, MODEL)
        done += 1
    assert done > 40
    assert c.end() == 0


def types_of(c, u):
    return [(s["name"], s.get("detail", "")) for s in
            c.of("documentSymbol", u)]


# ---- several files ----

LIB = "(** twice *)\nfun double ~by x = x * by\nval limit = 10\n"
MAIN = 'import "./lib" as l\nval a = l.double ~by:2 l.limit\n'
OTHER = 'import "./lib"\nopen lib\nval b = double ~by:3 limit\n'


def write(name, text):
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)


def until(c, u, codes):
    """Waits until these diagnostics are published."""
    while [d["code"] for d in c.diagnostics(u)] != codes:
        pass


def test_imports():
    write("lib.axn", LIB)
    write("main.axn", MAIN)
    write("other.axn", OTHER)
    c = Client()
    m, l, o = uri_of("main.axn"), uri_of("lib.axn"), uri_of("other.axn")
    c.open(m, MAIN)
    assert c.diagnostics(m) == []
    assert target(c, m, find(MAIN, "double")) == (l, find(LIB, "double"))
    assert target(c, m, find(MAIN, "by")) == (l, find(LIB, "by"))
    assert target(c, m, find(MAIN, "l.double")) == (l, (0, 0))
    h = c.at("hover", m, find(MAIN, "double"))["contents"]["value"]
    assert "double : ~by:" in h and "twice" in h
    where = {(r["uri"], r["range"]["start"]["line"]) for r in
             c.at("references", m, find(MAIN, "double"),
                  context={"includeDeclaration": True})}
    assert where == {(m, 1), (l, 1), (o, 2)}
    # also at its definition
    c.open(l, LIB)
    for name in ("double", "by", "limit"):
        file, text = (m, MAIN) if name == "by" else (l, LIB)
        edit = c.at("rename", file, find(text, name), newName="zz")["changes"]
        texts = {m: MAIN, l: LIB, o: OTHER}
        assert set(edit) == set(texts), name
        for uri, text in texts.items():
            new = apply(text, edit[uri])
            if name == "by":
                assert new == {m: MAIN.replace("~by", "~zz"),
                               o: OTHER.replace("~by", "~zz"),
                               l: LIB.replace("~by", "~zz:by")}[uri]
            else:
                assert new == text.replace(name, "zz")
    # an unsaved document has the content of the editor
    c.change(l, LIB.replace("limit", "bound"))
    until(c, m, ["E0312"])
    c.close(l)
    until(c, m, [])
    assert c.end() == 0


# Files of a folder.  The first one is open; @ marks the position in it.
ELSEWHERE = (
    # the bindings of names in other files do not change
    (("val @limit = 10\n",
      'import "./f0"\nopen f0\nval bound = 3\nval b = limit + bound\n'),
     "bound", None),
    (('import "./f1"\nval b = f1.@limit\n',
      "val limit = 10\nfun f bound = limit + bound\n"), "bound", None),
    # a local name, and a qualified one, do not conflict
    (("val @limit = 10\n",
      'import "./f0"\nopen f0\nval limit = 3\nval b = limit\n'), "bound",
     ("val bound = 10\n",
      'import "./f0"\nopen f0\nval limit = 3\nval b = limit\n')),
    (("val @limit = 10\n",
      'import "./f0"\nval bound = 3\nopen f0\nval b = f0.limit + bound\n'),
     "bound",
     ("val bound = 10\n",
      'import "./f0"\nval bound = 3\nopen f0\nval b = f0.bound + bound\n')),
    # puns
    (("val @w = 1\n",
      'import "./f0"\nopen f0\nval r = {w}\nval z = sum ~axis:w [r]\n'), "v",
     ("val v = 1\n",
      'import "./f0"\nopen f0\nval r = {w = v}\nval z = sum ~axis:v [r]\n')),
    # an indirect import
    (('import "./f1"\nval m = f1.@limit\n', "val limit = 10\n",
      'import "./f0"\nimport "./f1"\nval t = f0.m + f1.limit\n'), "bound",
     ('import "./f1"\nval m = f1.bound\n', "val bound = 10\n",
      'import "./f0"\nimport "./f1"\nval t = f0.m + f1.bound\n')),
)


def test_rename_elsewhere():
    for marked, new, wanted in ELSEWHERE:
        at = marked[0].index("@")
        texts = (marked[0].replace("@", ""),) + marked[1:]
        os.makedirs("elsewhere", exist_ok=True)
        for i in range(3):
            write(f"elsewhere/f{i}.axn", texts[i] if i < len(texts) else "")
        c = Client()
        u = uri_of("elsewhere/f0.axn")
        c.open(u, texts[0])
        try:
            edit = c.at("rename", u, position(texts[0], at), newName=new)
        except Failed as failed:
            assert wanted is None and "change the meaning" in str(failed), \
                (marked, str(failed))
        else:
            got = tuple(apply(t, edit["changes"].get(
                uri_of(f"elsewhere/f{i}.axn"), []))
                        for i, t in enumerate(texts))
            assert got == wanted, (marked, got)
        assert c.end() == 0


def test_errors_of_imports():
    write("lib.axn", "val x = 1 + true\n")
    c = Client()
    m, l = uri_of("main.axn"), uri_of("lib.axn")
    text = 'import "./lib"\nval y = 1\n'
    c.open(m, text)
    assert c.diagnostics(m) == []
    (d,) = c.diagnostics(l, None)
    assert d["code"] == "E0308"
    write("lib.axn", "val x = 1\n")
    c.tell("workspace/didChangeWatchedFiles", {"changes": []})
    assert c.diagnostics(m) == []
    assert c.diagnostics(l, None) == []
    c.change(m, 'import "./nowhere"\n')
    assert [d["code"] for d in c.diagnostics(m)] == ["E0601"]
    assert c.end() == 0


# ---- completion and signature help ----

# ? is the cursor; names that must be completed, and names that must not.
OFFERS = (
    ("val y = nn.re?", "relu relu6?", "sum y"),
    ("val y = ?", "softmax sum nn lists let if", "y"),
    ("val y = lay?", "layer", "level"),
    ("fun f long_name = lo?", "long_name log", "f"),
    ("fun f a = let val inner = a in inn? end", "inner", ""),
    ("fun f a = let val inner = a in inn?", "inner", ""),
    ("fun f a = let val inner = a val b = in?", "inner", ""),
    ("val y = (sum (max [1, le?", "level", ""),
    ("val y = if true then lev?", "level", ""),
    ("val y = case Dark of Dark => le?", "level", ""),
    ("val y = for i < 3 => i + ?", "i", "y"),
    ("val y = layer.?", "w b", "sum left"),
    ("val y = p.?", "left right", "w"),
    ("val y = p.le?", "left", "right"),
    ("val y = Li?", "Light", "Dark"),
    ("fun f x = case x of Li?", "Light", ""),
    ("val y = sum ~?", "axis keep", "by"),
    ("val y = scale ~o?", "offset", "by"),
    ("val y = layer |> scale ~?", "offset by", "axis"),
    ("val y = scale ~by:2.0 ~off?", "offset", ""),
    ("val y = scale ~by:2.0 ~?", "offset", "by"),
    ("val y = {layer with ?}", "w b", "left"),
    ("val y = {layer with w = 1, ?}", "b", ""),
    ("val y = case p of {?", "left right", "w"),
    ("val y = case p of {left, ri?} => left", "right", ""),
    ("val {le?} = p", "left", "right"),
    ("fun f q = let val {w, ?} = layer in w end", "b", "left"),
    ("val y : f3?", "f32", "sum"),
    ("val y : pa?", "pair", ""),
    ("import n?", "nn", ""),
    ("fun f ~heads x = f ~he?", "heads", ""),
    ("val y = ? + 1", "softmax", ""),
    ("(* a comment: so? *)", "", ""),
)


def test_completion():
    c, u = begin()
    for line, wanted, not_wanted in OFFERS:
        text = MODEL + line.replace("?", "") + "\n"
        c.change(u, text)
        place = position(text, len(MODEL) + line.index("?"))
        items = c.at("completion", u, place)["items"]
        names = [i["label"] for i in items]
        assert len(set(names)) == len(names), line
        for name in wanted.split():
            if not name.endswith("?"):
                assert name in names, (line, names[:20])
        for name in not_wanted.split():
            assert name not in names, (line, name)
    c.change(u, MODEL + "val z = soft")
    (item,) = [i for i in c.at("completion", u, position(
        MODEL + "val z = soft", len(MODEL) + 12))["items"]
        if i["label"] == "softmax"]
    assert item["detail"].startswith("'a[...s, n] -> ")
    assert "The part of each" in item["documentation"]["value"]
    # the request does not change the state of the document
    assert code(c.at("hover", u, find(MODEL, "y ="))) == "y : f32[2, 3]"
    assert c.end() == 0


def test_signature():
    c, u = begin()
    for line, name, active in (
            ("val z = scale ?", "scale", "'a[...t]"),
            ("val z = scale ~by:?", "scale", "?by:'a[]"),
            ("val z = scale ~by:2.0 ~offset:? 1", "scale", "~offset:'a[...s]"),
            ("val z = linear layer ?", "linear", "f32[...s, k, n]"),
            ("val z = linear ?", "linear", "{w : f32[m, n], b : f32[m]}"),
            ("val z = softmax (linear layer ?)", "linear", "f32[...s, k, n]"),
            ("val z = 1.0 |> scale ~offset:?", "scale", "~offset:'a[...s]"),
            ("val z = let val a = softmax ?", "softmax", "'a[...s, n]"),
            ("val z = iterate ?", "iterate", None)):
        text = MODEL + line.replace("?", "", 1) + "\n"
        c.change(u, text)
        s = c.at("signatureHelp", u,
                 position(text, len(MODEL) + line.index("?")))
        assert s, line
        (sig,) = s["signatures"]
        assert sig["label"].startswith(name + " : "), (line, sig)
        start, end = sig["parameters"][s["activeParameter"]]["label"]
        assert active in (None, sig["label"][start:end]), (line, sig, s)
    c.change(u, MODEL + "val z = ")
    assert c.at("signatureHelp", u, position(MODEL + "val z = ",
                                             len(MODEL) + 8)) is None
    assert c.end() == 0


# ---- inlay hints ----

def test_hints():
    c, u = begin()
    hints = c.of("inlayHint", u)
    got = {}
    for h in hints:
        line = MODEL.split("\n")[h["position"]["line"]]
        before = line[:h["position"]["character"]]
        got.setdefault(before.strip(), []).append(h["label"])
    for before, label in (
            ("fun softmax x", ": 'a[...s, n]"),
            ("let val e", ": 'a[...s, n]"),
            ("fun net layer", ": {w : f32[n, m], b : f32[n]}"),
            ("x", "f32[...s, k, m]"),
            ("|> linear layer", "f32[...s, k, n]"),
            ("|> softmax", "f32[...s, k, n]"),
            ("|> scale ~offset:1.0", "f32[...s, k, n]"),
            ("val y", ": f32[2, 3]"),
            ("val q", ": int")):
        assert label in got.get(before, []), (before, got.get(before))
    assert "val p" not in got  # its type is annotated
    some = c.of("inlayHint", u, range={"start": {"line": 20, "character": 0},
                                       "end": {"line": 21, "character": 99}})
    assert {h["position"]["line"] for h in some} == {20} or \
        {h["position"]["line"] for h in some} <= {20, 21}
    assert c.end() == 0


def test_hints_can_be_written():
    """Inserts each hint that can be inserted; the types stay the same."""
    root = os.environ["EXAMPLES"]
    c = Client()
    written = 0
    for name in ("tour.axn", "lenet.axn", "life.axn"):
        with open(os.path.join(root, name), encoding="utf-8") as f:
            text = f.read()
        u = uri_of(os.path.join(root, name))
        c.open(u, text)
        before = [d for d in c.diagnostics(u) if d["severity"] == 1]
        assert before == []
        types = [t for _, t in types_of(c, u)]
        hints = c.of("inlayHint", u)
        for h in hints[::3]:
            c.change(u, text)
            whole = c.ask("inlayHint/resolve", h)
            assert whole["label"] == h["label"], (h, whole)
            if "textEdits" not in whole:
                continue
            c.change(u, apply(text, whole["textEdits"]))
            errors = [d for d in c.diagnostics(u) if d["severity"] == 1]
            assert errors == [], (name, h, errors)
            assert len(types_of(c, u)) == len(types)
            written += 1
        c.close(u)
    assert written > 10
    assert c.end() == 0


# ---- code actions ----

def actions(c, u, text, what, only=None, inside=0):
    line, character = find(text, what, inside=inside)
    place = {"line": line, "character": character}
    context = {"diagnostics": []}
    if only:
        context["only"] = [only]
    return c.of("codeAction", u, range={"start": place, "end": place},
                context=context)


def test_quick_fixes():
    for text, what in (
            ("val total = 1\nval x = totl + 1\n", "totl"),
            ("fun f ~by x = x * by\nval y = f ~bt:2 3\n", "bt"),
            ("import nn\nval y = nn.rleu 1.0\n", "rleu")):
        c, u = begin(text)
        (d,) = c.diagnostics(u)
        fixes = actions(c, u, text, what, "quickfix")
        assert len(fixes) == 1, (text, fixes)
        assert fixes[0]["kind"] == "quickfix"
        assert fixes[0]["diagnostics"][0]["code"] == d["code"]
        fixed = apply(text, fixes[0]["edit"]["changes"][u])
        c.change(u, fixed)
        assert c.diagnostics(u) == [], fixed
        assert c.end() == 0


def test_recursion_fixes():
    """The annotation of a recursive function mends it."""
    c, u = begin("")
    for text, place in (
            ("fun total x = if dim 0 x == 0 then 0.0\n"
             "  else x.[0] + total x.[1:]\n", "x.[1"),
            ("fun halves f x =\n  if dim 0 x <= 1 then x else\n"
             "    concat ~axis:0 (halves f x.[0::2], halves f x.[1::2])\n",
             "x.[0"),
            ("fun grow (x : f32[n]) = if dim 0 x > 9 then x\n"
             "  else grow (concat ~axis:0 (x, [1.0]))\n", "concat")):
        c.change(u, text)
        (d,) = c.diagnostics(u)
        assert d["code"] == "E0302", d
        fix, = actions(c, u, text, place, "quickfix")
        fixed = apply(text, fix["edit"]["changes"][u])
        c.change(u, fixed)
        assert c.diagnostics(u) == [], fixed
    assert c.end() == 0


def test_write_the_type():
    c, u = begin()
    for what, wanted in (
            ("y =", "val y : f32[2, 3] ="),
            ("q =", "val q : int ="),
            ("e =", "val e : 'a[...s, n] ="),
            ("x =\n  let", "fun softmax (x : 'a[...s, n]) =")):
        found = actions(c, u, MODEL, what, "refactor.rewrite")
        (a,) = [a for a in found if a["title"].startswith("add the type")]
        assert wanted in apply(MODEL, a["edit"]["changes"][u]), a
        assert not actions(c, u, MODEL, what, "quickfix")
        assert actions(c, u, MODEL, what, "refactor")
    assert c.end() == 0


def test_write_types_of_all():
    """For a whole document there are few actions: each one checks its users."""
    path = os.path.join(os.environ["EXAMPLES"], "models", "resnet.axn")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    c = Client()
    u = uri_of("resnet.axn")
    c.open(u, text)
    found = c.of("codeAction", u, context={"diagnostics": []}, range={
        "start": {"line": 0, "character": 0},
        "end": {"line": 9999, "character": 0}})
    assert 1 <= len(found) <= 8, len(found)
    assert c.end() == 0


# ---- formatting ----

def test_formatting():
    text = "val  x=1\n\n\n\nfun f   x=x+1   (* why *)\nval y = [1,2]\n"
    c, u = begin(text)
    edits = c.of("formatting", u, options={"tabSize": 2, "insertSpaces": True})
    p = subprocess.run([AXON, "fmt", "-"], input=text, capture_output=True,
                       text=True)
    new = apply(text, edits)
    assert new == p.stdout and new != text
    c.change(u, new)
    assert c.of("formatting", u, options={}) == []
    c.change(u, "val x = (\n")
    try:
        c.of("formatting", u, options={})
        raise AssertionError("a text with errors was laid out")
    except Failed as failed:
        assert "it is not formatted" in str(failed)
    # edits contain only lines that change
    many = "".join(f"val x{i} = {i}\n" for i in range(100))
    odd = many.replace("val x50 = 50", "val  x50=50")
    c.change(u, odd)
    (e,) = c.of("formatting", u, options={})
    assert e["range"]["start"]["line"] == 50 == e["range"]["end"]["line"] - 1 \
        or e["range"]["end"]["line"] == 50
    assert apply(odd, [e]) == many
    assert c.end() == 0


# ---- related locations ----

def test_related():
    text = ("fun linear {w : f32[m, n], b : f32[m]} x = x @ transpose w + b\n"
            "fun net c x =\n  x\n  |> flatten\n  |> linear c\n"
            "val c = {w = ones [10, 100], b = ones [10]}\n"
            "val y = ones [2, 3, 30]\n  |> flatten\n  |> linear c\n")
    c, u = begin(text)
    (d,) = c.diagnostics(u)
    assert part(text, d["range"]) == "linear c"
    told = [r["message"] for r in d["relatedInformation"]]
    assert any("f32[2, 90]" in m and "3*30 = 90" in m for m in told), d
    assert all(r["location"]["uri"] == u for r in d["relatedInformation"])
    assert c.end() == 0


def test_sizes_from_the_command_line():
    text = "val x : f32[n] = zeros [3]\n"
    for n, count in ((3, 0), (4, 1)):
        c = Client(options=["-D", f"n={n}"])
        u = uri_of("a.axn")
        c.open(u, text)
        assert len(c.diagnostics(u)) == count
        assert c.end() == 0
