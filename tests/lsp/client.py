"""A language client for tests: starts `axon lsp` and exchanges messages with it
like an editor.  Uses only the standard library."""
import json
import os
import queue
import subprocess
import threading
import urllib.parse

AXON = os.environ.get("AXON", "axon")
WAIT = 20  # timeout of a response in seconds, for slow machines


class Failed(Exception):
    """The error response to a request: .code and the message."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


def uri_of(path):
    return "file://" + urllib.parse.quote(os.path.abspath(path))


class Client:
    def __init__(self, utf8=False, initialize=True, options=(),
                 complains=False):
        self.process = subprocess.Popen(
            [AXON, "lsp", *options], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if complains else None)
        self.incoming = queue.Queue()
        self.notes = []          # received notifications that were not read yet
        self.answers = {}
        self.last = 0
        self.versions = {}
        threading.Thread(target=self._read, daemon=True).start()
        if initialize:
            encodings = ["utf-8", "utf-16"] if utf8 else ["utf-16"]
            self.capabilities = self.ask("initialize", {
                "processId": None,
                "rootUri": uri_of("."),
                "capabilities": {
                    "general": {"positionEncodings": encodings},
                    "textDocument": {
                        "hover": {"contentFormat": ["markdown"]},
                        "publishDiagnostics": {"relatedInformation": True},
                    }}})["capabilities"]
            self.tell("initialized", {})

    # ---- transport ----

    def _read(self):
        out = self.process.stdout
        while True:
            length = None
            while True:
                line = out.readline()
                if not line:
                    self.incoming.put(None)
                    return
                if line in (b"\r\n", b"\n"):
                    break
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            self.incoming.put(json.loads(out.read(length)))

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def receive(self):
        message = self.incoming.get(timeout=WAIT)
        assert message is not None, "the server has ended"
        assert message["jsonrpc"] == "2.0", message
        return message

    # ---- requests ----

    def request(self, method, params=None):
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self.last

    def answer(self, number):
        while number not in self.answers:
            message = self.receive()
            if "method" in message:
                self.notes.append(message)
            else:
                self.answers[message["id"]] = message
        message = self.answers.pop(number)
        if "error" in message:
            raise Failed(message["error"])
        return message["result"]

    def ask(self, method, params=None):
        return self.answer(self.request(method, params))

    def tell(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    # ---- documents ----

    def open(self, uri, text):
        self.versions[uri] = 1
        self.tell("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "axon", "version": 1, "text": text}})

    def change(self, uri, *changes):
        """Each change is a full text, or (range, text)."""
        self.versions[uri] += 1
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": uri, "version": self.versions[uri]},
            "contentChanges": [
                {"text": c} if isinstance(c, str)
                else {"range": c[0], "text": c[1]} for c in changes]})

    def close(self, uri):
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def diagnostics(self, uri, version=None):
        """The diagnostics of this version (default: the newest)."""
        if version is None:
            version = self.versions.get(uri)
        while True:
            for i, note in enumerate(self.notes):
                p = note.get("params", {})
                if (note["method"] == "textDocument/publishDiagnostics"
                        and p["uri"] == uri and p.get("version") == version):
                    del self.notes[:i + 1]
                    return p["diagnostics"]
            message = self.receive()
            if "method" in message:
                self.notes.append(message)
            else:
                self.answers[message["id"]] = message

    def note(self, method):
        """The parameters of the first notification of this kind."""
        while True:
            for i, note in enumerate(self.notes):
                if note["method"] == method:
                    del self.notes[i]
                    return note["params"]
            message = self.receive()
            if "method" in message:
                self.notes.append(message)
            else:
                self.answers[message["id"]] = message

    def at(self, method, uri, position, **more):
        line, character = position
        return self.ask("textDocument/" + method, {
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": character}, **more})

    def of(self, method, uri, **more):
        return self.ask("textDocument/" + method,
                        {"textDocument": {"uri": uri}, **more})

    # ---- shutdown ----

    def end(self):
        self.ask("shutdown")
        self.tell("exit")
        return self.process.wait(timeout=WAIT)


# ---- positions in UTF-16 code units ----

def units(text, utf8=False):
    return len(text.encode()) if utf8 else len(text.encode("utf-16-le")) // 2


def position(text, offset, utf8=False):
    """(line, character) of an offset in characters."""
    before = text[:offset]
    line = before.count("\n")
    return line, units(before[before.rfind("\n") + 1:], utf8)


def find(text, what, nth=0, utf8=False, inside=0):
    """The position of the nth occurrence of a part of the text."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(what, at + 1)
    return position(text, at + inside, utf8)


def offset(text, place, utf8=False):
    lines = text.split("\n")
    line, rest = place["line"], place["character"]
    at = sum(len(l) + 1 for l in lines[:line])
    for c in lines[line] if line < len(lines) else "":
        if rest <= 0:
            break
        rest -= units(c, utf8)
        at += 1
    return at


def apply(text, edits, utf8=False):
    """Applies text edits like an editor: all ranges refer to the old text, and
    inserts at one position keep their order."""
    placed = [(offset(text, e["range"]["start"], utf8),
               offset(text, e["range"]["end"], utf8), i, e["newText"])
              for i, e in enumerate(edits)]
    for start, end, _, new in sorted(placed, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def part(text, rng, utf8=False):
    return text[offset(text, rng["start"], utf8):
                offset(text, rng["end"], utf8)]
