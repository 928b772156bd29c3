"""The protocol: initialization and shutdown, malformed messages, changes of
documents."""
import json
import os
import random
import signal
import subprocess
import time

from client import AXON, Client, Failed, WAIT, find, offset, position, uri_of

GOOD = "val x = 1\n"
BAD = "val x = 1 + true\n"


def codes(diagnostics):
    return [d["code"] for d in diagnostics]


def refused(code, f, *args):
    try:
        f(*args)
    except Failed as failed:
        assert failed.code == code, failed
        return str(failed)
    raise AssertionError("it was not refused")


# ---- initialization and shutdown ----

def test_order_of_life():
    c = Client(initialize=False)
    refused(-32002, c.ask, "textDocument/hover", {})
    c.tell("textDocument/didOpen", {})  # ignored, as the protocol requires
    answer = c.ask("initialize", {"capabilities": {}})
    assert answer["serverInfo"]["name"] == "axon"
    assert answer["capabilities"]["positionEncoding"] == "utf-16"
    refused(-32600, c.ask, "initialize", {"capabilities": {}})
    c.tell("initialized", {})
    refused(-32601, c.ask, "textDocument/levitate", {})
    refused(-32601, c.ask, "workspace/symbol")
    c.tell("$/levitate", {})
    c.tell("textDocument/levitate")
    refused(-32602, c.ask, "textDocument/hover",
            {"textDocument": {"uri": "file:///nowhere.axn"}})
    refused(-32602, c.ask, "textDocument/hover")
    assert c.ask("shutdown") is None
    refused(-32600, c.ask, "textDocument/hover", {})
    c.tell("exit")
    assert c.process.wait(timeout=WAIT) == 0


def test_exit_without_shutdown():
    c = Client()
    c.tell("exit")
    assert c.process.wait(timeout=WAIT) == 1
    c = Client(initialize=False)
    c.tell("exit")
    assert c.process.wait(timeout=WAIT) == 1


def test_editor_gone():
    c = Client()
    c.open(uri_of("a.axn"), GOOD)
    c.process.stdin.close()
    assert c.process.wait(timeout=WAIT) == 1
    c = Client()
    c.ask("shutdown")
    c.process.stdin.close()
    assert c.process.wait(timeout=WAIT) == 0


def test_nobody_listens():
    p = subprocess.Popen([AXON, "lsp"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    p.stdout.close()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize",
                       "params": {"capabilities": {}}}).encode()
    p.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    p.stdin.flush()
    assert p.wait(timeout=WAIT) == 1


def test_wrong_usage():
    for args in (["x.axn"], ["--plain"]):
        p = subprocess.run([AXON, "lsp", *args], capture_output=True)
        assert p.returncode == 2 and not p.stdout


# ---- malformed messages ----

def raw_error(c, data):
    c.raw(data)
    message = c.receive()
    assert message["id"] is None
    return message["error"]["code"]


def framed(body):
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_no_json():
    c = Client()
    for body in (b"", b"{", b"nonsense", b"{} {}", b'{"a": "\xff\xfe"}',
                 b"[" * 5000):
        assert raw_error(c, framed(body)) == -32700, body
    for body in (b"1", b"[]", b'"x"', b"{}", b'{"method": 1, "id": null}',
                 b"null"):
        # jansson rejects a bare value: both responses are correct
        assert raw_error(c, framed(body)) in (-32600, -32700), body
    # a response without a request is ignored
    c.raw(framed(b'{"jsonrpc": "2.0", "id": 7, "result": 1}'))
    assert raw_error(c, b"Content-Type: x\r\n\r\n") == -32700
    c.open(uri_of("a.axn"), GOOD)
    assert c.diagnostics(uri_of("a.axn")) == []
    assert c.end() == 0


def test_strange_ids():
    c = Client()
    c.send({"jsonrpc": "2.0", "id": "a \"b\" \u00e9", "method": "x/y"})
    assert c.receive()["id"] == "a \"b\" \u00e9"
    c.send({"jsonrpc": "2.0", "id": [1], "method": "x/y"})
    assert c.receive()["error"]["code"] == -32600
    c.send({"jsonrpc": "2.0", "id": -5, "method": "x/y"})
    assert c.receive()["id"] == -5
    assert c.end() == 0


def test_headers():
    c = Client()
    body = b'{"jsonrpc": "2.0", "id": "h", "method": "x/y"}'
    n = len(body)
    for head in (b"content-length:%d\r\n\r\n" % n,
                 b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
                 b"Content-Length: %d\r\n\r\n" % n,
                 b"Content-Length: %d\n\n" % n):
        for byte in head + body:  # one at a time
            c.raw(bytes([byte]))
        assert c.receive()["id"] == "h"
    c.raw(framed(body) * 3)
    for _ in range(3):
        assert c.receive()["id"] == "h"
    assert c.end() == 0
    for head in (b"x" * 100000, b"X: y\r\n" * 10000,
                 b"Content-Length: -1\r\n\r\n",
                 b"Content-Length: 99999999999999999999\r\n\r\n",
                 b"Content-Length: 999999999999\r\n\r\n",
                 b"Content-Length: ten\r\n\r\n"):
        c = Client(complains=True)
        try:
            c.raw(head)
        except BrokenPipeError:
            pass
        assert c.process.wait(timeout=WAIT) == 1, head[:40]
        assert c.process.stderr.read().startswith(b"axon lsp: ")


def test_strange_params():
    c = Client()
    u = uri_of("a.axn")
    c.open(u, GOOD)
    for params in (None, [], 1, {"textDocument": 1},
                   {"textDocument": {"uri": u}, "position": None},
                   {"textDocument": {"uri": u}, "position": {"line": "x"}},
                   {"textDocument": {"uri": u},
                    "position": {"line": 10**12, "character": 10**12}},
                   {"textDocument": {"uri": u},
                    "position": {"line": -1, "character": -1}}):
        for method in ("hover", "definition", "references", "rename",
                       "completion", "signatureHelp", "inlayHint",
                       "codeAction", "documentSymbol", "prepareRename",
                       "documentHighlight", "formatting"):
            try:
                c.ask("textDocument/" + method, params)
            except Failed:
                pass
        for method in ("didChange", "didOpen", "didClose", "didSave"):
            if not (isinstance(params, dict) and method == "didClose"):
                c.tell("textDocument/" + method, params)
    u = uri_of("b.axn")
    c.open(u, BAD)
    assert len(c.diagnostics(u)) == 1
    assert c.end() == 0


# ---- pending requests ----

def test_cancel():
    c = Client()
    u = uri_of("a.axn")
    c.open(u, slow_text(300))
    numbers = [c.request("textDocument/hover", {
        "textDocument": {"uri": u}, "position": {"line": 1, "character": 4}})
        for _ in range(20)]
    for n in numbers:
        c.tell("$/cancelRequest", {"id": n})
    c.tell("$/cancelRequest", {"id": 99999})
    c.tell("$/cancelRequest", {})
    for n in numbers:
        try:
            c.answer(n)
        except Failed as failed:
            assert failed.code == -32800
    assert not c.answers
    assert c.end() == 0


def slow_text(n):
    block = ("fun f%d {w : f32[d, d], b : f32[d]} x =\n"
             "  (x @ transpose w + b) |> nn.relu |> (fn y => y @ w + b)\n")
    return "".join(block % i for i in range(n))


def test_newer_text():
    """A newer text stops the check; pending requests are answered."""
    c = Client()
    u = uri_of("a.axn")
    text = slow_text(20000)
    t0 = time.monotonic()
    c.open(u, text)
    assert c.diagnostics(u) == []
    whole = time.monotonic() - t0
    c.change(u, text + "\n")
    n = c.request("textDocument/hover", {
        "textDocument": {"uri": u}, "position": {"line": 1, "character": 4}})
    t0 = time.monotonic()
    c.change(u, BAD)
    assert codes(c.diagnostics(u)) == ["E0308"]
    short = time.monotonic() - t0
    refused(-32801, c.answer, n)
    assert short < whole / 2, (short, whole)
    assert c.end() == 0


def children(pid):
    out = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except (OSError, NotADirectoryError):
            continue
        if int(fields[1]) == pid:
            out.append(int(name))
    return out


def test_checker_dies():
    """If the checking process of a document crashes, the server continues."""
    c = Client()
    u = uri_of("a.axn")
    c.open(u, GOOD)
    assert c.diagnostics(u) == []
    workers = children(c.process.pid)
    assert len(workers) == 1
    os.kill(workers[0], signal.SIGKILL)
    while children(c.process.pid):
        time.sleep(0.01)
    refused(-32603, c.at, "hover", u, (0, 4))
    for method in ("window/logMessage", "window/showMessage"):
        said = c.note(method)
        assert said["type"] == 1, said
        assert "a.axn was stopped by a signal (Killed)" in said["message"], said
    c.change(u, BAD)
    assert codes(c.diagnostics(u)) == ["E0308"]
    assert c.at("hover", u, (0, 8))
    c.close(u)
    assert c.end() == 0
    assert not children(os.getpid()) or all(
        p != c.process.pid for p in children(os.getpid()))


def test_checker_dies_early():
    """A worker crashes twice before it publishes anything: the user sees one
    message, and both crashes are logged."""
    c = Client()
    u = uri_of("b.axn")
    slow = "val x = 1\n" + "fun f x = (x @ x) @ (x @ x)\n" * 3000
    c.open(u, slow)
    for turn in range(2):
        while not children(c.process.pid):
            time.sleep(0.001)
        for worker in children(c.process.pid):
            os.kill(worker, signal.SIGSEGV)
        said = c.note("window/logMessage")["message"]
        assert "b.axn was stopped by a signal (Segm" in said, said
        if not turn:
            c.change(u, slow + "val y = 2\n")
    refused(-32603, c.at, "hover", u, (0, 4))
    shown = [n for n in c.notes if n["method"] == "window/showMessage"]
    assert len(shown) == 1, shown
    c.change(u, GOOD)
    assert c.diagnostics(u) == []
    assert c.end() == 0


# ---- documents ----

def test_diagnostics_come_and_go():
    c = Client()
    u = uri_of("a.axn")
    c.open(u, GOOD)
    assert c.diagnostics(u) == []
    c.change(u, BAD)
    (d,) = c.diagnostics(u)
    assert (d["code"], d["severity"], d["source"]) == ("E0308", 1, "axon")
    assert d["range"]["start"]["line"] == 0
    c.change(u, GOOD)
    assert c.diagnostics(u) == []
    c.change(u, BAD)
    assert len(c.diagnostics(u)) == 1
    assert c.end() == 0


def test_closing_clears():
    c = Client()
    u = uri_of("a.axn")
    c.open(u, BAD)
    assert c.diagnostics(u)
    c.close(u)
    c.open(u, GOOD)
    seen = [n["params"] for n in c.notes]
    assert c.diagnostics(u) == []
    message = [p for p in seen if p["uri"] == u and "version" not in p]
    assert all(p["diagnostics"] == [] for p in message)
    assert c.end() == 0


def edit_at(text, start, end, new):
    rng = {"start": dict(zip(("line", "character"), position(text, start))),
           "end": dict(zip(("line", "character"), position(text, end)))}
    return text[:start] + new + text[end:], (rng, new)


ASTRAL = """(* \U0001F600 \u00e9 \u4e2d *) val a = "\U0001F600\U0001F600" val b = 1
val c = b + (* \U0001F680 *) true
"""


def test_utf16():
    for utf8 in (False, True):
        c = Client(utf8=utf8)
        assert c.capabilities["positionEncoding"] == \
            ("utf-8" if utf8 else "utf-16")
        u = uri_of("a.axn")
        c.open(u, ASTRAL)
        (d,) = c.diagnostics(u)
        start = find(ASTRAL, "true", utf8=utf8)
        end = d["range"]["end"]
        assert (end["line"], end["character"]) == (1, start[1] + 4), d
        for name, nth in (("b", 0), ("b", 1)):
            line, character = find(ASTRAL, name, nth, utf8)
            r = c.at("hover", u, (line, character))["range"]
            assert r["start"] == {"line": line, "character": character}
            assert r["end"] == {"line": line, "character": character + 1}
        at = find(ASTRAL, "b", 1, utf8)
        target = c.at("definition", u, at)["range"]["start"]
        assert (target["line"], target["character"]) == \
            find(ASTRAL, "b", 0, utf8)
        # edits after and between astral characters
        text = ASTRAL
        for what, new in (("true", "2"), ("1", "\U0001F600"), ("\u4e2d", "x"),
                          ("\U0001F600 \u00e9", "\U0001F680"),
                          ("\U0001F600\n", "1\n")):
            at = text.index(what)
            line, character = position(text, at, utf8)
            to = position(text, at + len(what), utf8)
            text = text[:at] + new + text[at + len(what):]
            c.change(u, ({"start": {"line": line, "character": character},
                          "end": {"line": to[0], "character": to[1]}}, new))
        now = c.diagnostics(u)
        c.change(u, text)
        assert now == c.diagnostics(u)
        assert c.end() == 0


def test_half_characters():
    """An editor may send one half of a surrogate pair, and the other later."""
    c = Client()
    u = uri_of("half.axn")
    c.open(u, "val a = \"\U0001F600\"\nval b = \"\"\n")
    assert c.diagnostics(u) == []
    at = {"line": 1, "character": 9}
    c.change(u, ({"start": at, "end": at}, "\ud83d"))
    assert c.diagnostics(u) == []
    at = {"line": 1, "character": 10}
    c.change(u, ({"start": at, "end": at}, "\ude00 \U0001F600"))
    assert c.diagnostics(u) == []
    c.change(u, ({"start": at, "end": {"line": 1, "character": 15}}, "\" !"))
    (d,) = c.diagnostics(u)
    assert d["range"]["start"] == {"line": 1, "character": 12}, d
    c.change(u, ({"start": at, "end": {"line": 1, "character": 13}}, "\""))
    assert c.diagnostics(u) == []
    shown = c.at("hover", u, (1, 4))["contents"]["value"]
    assert "b : string" in shown, shown
    assert c.end() == 0


def test_line_ends():
    c = Client()
    u = uri_of("a.axn")
    for end in ("\n", "\r\n"):
        text = end.join(["val a = 1", "val b = a", "val c = b", ""])
        c.open(u, text)
        assert c.diagnostics(u) == []
        r = c.at("definition", u, (2, 8))["range"]
        assert r["start"] == {"line": 1, "character": 4}
        c.change(u, ({"start": {"line": 1, "character": 100},
                      "end": {"line": 2, "character": 0}}, end + "val d = 2" +
                     end))
        assert c.diagnostics(u) == []
        assert c.at("definition", u, (3, 8))["range"]["start"]["line"] == 1
    assert c.end() == 0


PIECES = ["val x = 1\n", "fun f x = x + 1\n", "(", ")", "let ", " in ", " end",
          "x", "y", " |> sum\n", "[", "]", "\U0001F600", "\u00e9", "\"", "(*",
          "*)", "\n", " ", "~axis:0 ", ".[", ": f32[n]", "if x then ", "=>",
          "case x of ", "| ", "fn ", "import nn\n", "nn.", "0", "-1", "...s",
          "'a", "\r\n", "\0", "datatype t = A | B of t\n", "given ", "@"]


def random_edit(rng, text):
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice([0, 0, 1, 2, 5, 30]))
    return edit_at(text, start, end, rng.choice(PIECES))


def test_random_edits():
    """After 200 incremental edits, the state is that of a new document."""
    example = os.environ["EXAMPLES"] + "/tour.axn"
    with open(example, encoding="utf-8") as f:
        begin = f.read()
    methods = ("hover", "definition", "references", "documentHighlight",
               "prepareRename", "completion", "signatureHelp")
    for seed in (1, 2):
        rng = random.Random(seed)
        c, fresh = Client(), Client()
        u = uri_of("random.axn")
        text = begin
        c.open(u, text)
        fresh.open(u, text)
        for i in range(100):
            edits = []
            for _ in range(rng.choice([1, 1, 1, 3])):
                text, e = random_edit(rng, text)
                edits.append(e)
            c.change(u, *edits)
            place = position(text, rng.randint(0, len(text)))
            method = rng.choice(methods)
            more = {"context": {"includeDeclaration": True}}
            try:
                c.at(method, u, place, **more)
            except Failed as failed:
                assert failed.code in (-32803, -32801), failed
            if i % 10 == 9 or len(text) < 100:
                got = c.diagnostics(u)
                fresh.versions[u] = c.versions[u] - 1
                fresh.change(u, text)
                assert got == fresh.diagnostics(u), text
                for m in ("inlayHint", "documentSymbol"):
                    assert c.of(m, u) == fresh.of(m, u)
            if len(text) < 100:
                text = begin
                c.change(u, text)
        assert c.end() == 0 and fresh.end() == 0


def test_as_the_command_line():
    """The diagnostics are those of `axon check`."""
    root = os.environ["ERRORS"]
    files = sorted(n for n in os.listdir(root) if n.endswith(".axn"))[::7]
    c = Client()
    for name in files:
        path = os.path.join(root, name)
        with open(path, encoding="utf-8", errors="strict", newline="") as f:
            try:
                text = f.read()
            except UnicodeDecodeError:
                continue
        u = uri_of(path)
        c.open(u, text)
        got = c.diagnostics(u)
        p = subprocess.run([AXON, "check", "-q", "--diagnostics", "json",
                            path], capture_output=True, text=True)
        wanted = [json.loads(line) for line in p.stderr.splitlines()]
        wanted = [w for w in wanted
                  if (w.get("place") or {}).get("file", path) == path]
        errors = [d for d in got if d["severity"] == 1]
        assert [w["code"] for w in wanted] == [d["code"] for d in errors], name
        for w, d in zip(wanted, errors):
            assert d["message"].startswith(w["message"])
            if "line" not in w:
                continue
            line = text.split("\n")[w["line"] - 1].encode()
            start = d["range"]["start"]
            before = line[:w["column"] - 1].decode(errors="replace")
            assert start["line"] == w["line"] - 1, name
            assert start["character"] == \
                len(before.encode("utf-16-le")) // 2, name
        c.close(u)
    assert c.end() == 0
