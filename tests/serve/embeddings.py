#!/usr/bin/env python3
"""Tests of `axon serve` with an encoder: embeddings, as a client of OpenAI's
interface gets them, errors, limits.

    tests/serve/embeddings.py PORT MODEL AXON FOLDER

prints what is wrong.  The server has the model of encoder.py, in FOLDER.
"""
import base64
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

from asking import (MODEL, PORT, ask, check_error, fail, failures, metric,
                    wait_for)

PATH = "/v1/embeddings"
AXON, FOLDER = sys.argv[3], sys.argv[4]
CLS, SEP, CAT, TOKEN_COUNT = 2, 3, 4, 59
with open(FOLDER + "/config.json") as f:
    WIDTH = json.load(f)["hidden_size"]


def embeddings(texts, **more):
    """What a plain client does."""
    body = json.dumps({"model": MODEL, "input": texts, **more}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{PATH}", body,
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def bits(row):
    return struct.pack(f"<{len(row)}f", *row)


def rows(texts, **more):
    answer = embeddings(texts, **more)
    if [x["index"] for x in answer["data"]] != list(range(
            len(answer["data"]))) or answer["object"] != "list" or {
            x["object"] for x in answer["data"]} != {"embedding"}:
        fail("an answer is", str(answer)[:300])
    if answer["model"] != MODEL:
        fail("the model is", answer["model"])
    return [x["embedding"] for x in answer["data"]]


def some_texts(count):
    rng = random.Random(1)
    words = ["cat", "dog", "the", "a", "Xyz", "tree", "be", "?!", "\u00e9"]
    return [" ".join(rng.choice(words) for _ in range(rng.randrange(1, 30)))
            for _ in range(count)]


TEXTS = some_texts(32)


def check_bits():
    """The bits of axon embed, alone and together."""
    out = subprocess.run([AXON, "embed", "--json", FOLDER, *TEXTS], text=True,
                         capture_output=True, check=True).stdout
    wanted = [bits(json.loads(line)) for line in out.splitlines()]
    if len(wanted) != len(TEXTS) or len(set(wanted)) < 25:
        fail("axon embed writes", len(wanted), "lines, other:",
             len(set(wanted)))
    alone = [bits(rows(t)[0]) for t in TEXTS]
    steps = metric("steps_total")
    together = [bits(r) for r in rows(TEXTS)]
    if metric("steps_total") - steps >= len(TEXTS) / 2:
        fail("32 texts take", metric("steps_total") - steps, "steps")
    at_once = [None] * len(TEXTS)

    def run(k):
        at_once[k] = bits(rows(TEXTS[k])[0])
    threads = [threading.Thread(target=run, args=(k,))
               for k in range(len(TEXTS))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, found in (("alone", alone), ("in a list", together),
                        ("at once", at_once)):
        for text, a, b in zip(TEXTS, wanted, found):
            if a != b:
                fail(name, repr(text), "has other bits than axon embed")


def check_forms():
    text = rows("cat")[0]
    if len(text) != WIDTH or abs(sum(x * x for x in text) - 1) > 1e-5:
        fail("an embedding has", len(text), "numbers", sum(x * x for x in text))
    for form in (["cat"], [CLS, CAT, SEP], [[CLS, CAT, SEP]]):
        if rows(form) != [text]:
            fail(form, "differs from its text")
    if rows("cat", dimensions=WIDTH, encoding_format="float",
            user="x") != [text]:
        fail("the fields of OpenAI change the answer")
    encoded = rows(["cat", "dog"], encoding_format="base64")
    if [base64.b64decode(x) for x in encoded] != [
            bits(x) for x in rows(["cat", "dog"])]:
        fail("base64 has other numbers")
    two = rows([[CLS, CAT, SEP], [CLS, SEP]])
    if two != [text, rows("")[0]]:
        fail("lists of tokens differ from their texts")
    usage = embeddings(["cat", "the dog", ""])["usage"]
    if usage != {"prompt_tokens": 9, "total_tokens": 9}:
        fail("the usage is", usage)


def good(**more):
    return {"model": MODEL, "input": "cat", **more}


BAD = [b"", b"{", b"[]", b"3", {}, {"input": "cat"}, {"model": MODEL},
       good(model="other"), good(model=3)] + [
    good(input=x) for x in (
        None, 3, 1.5, True, {}, [], [[]], [3.5], ["cat", 3], [3, "cat"],
        [[CLS], "cat"], ["cat", [CLS]], [[CLS], []], [[CLS, -1]], [-1], [{}],
        [TOKEN_COUNT], [10 ** 30], [[CLS, "x"]], [[[CLS]]], [None], [True],
        ["cat"] * 2049, "x " * 100, ["cat", "x " * 100], [CLS] * 81)] + [
    good(encoding_format="hex"), good(encoding_format=3),
    good(dimensions=WIDTH - 1), good(dimensions=0), good(dimensions=str(WIDTH)),
    good(dimensions=[])]


def check_errors():
    for body in BAD:
        check_error(body, *ask("POST", PATH, body))
    if ask("POST", PATH, good(model="other"))[0] != 404:
        fail("another model is not 404")
    long = json.loads(ask("POST", PATH, good(input=["cat", "x " * 100]))[1])
    if long["error"]["code"] != "context_length_exceeded":
        fail("a long input is", long)
    check_error("GET", *ask("GET", PATH), 405)
    check_error("a long body", *ask("POST", PATH, good(input="x" * 200000)), 413)
    check_error("a form", *ask("POST", PATH, good(), {}), 415)
    for method, path in (("POST", "/v1/completions"),
                         ("POST", "/v1/chat/completions"), ("GET", "/")):
        body = good(prompt="x") if method == "POST" else None
        status, text = ask(method, path, body)
        check_error(path, status, text, 404)
        if PATH.encode() not in text:
            fail(path, "does not say what to use:", text)
    if rows("cat") != rows("cat"):
        fail("the server does not go on after errors")


def open_request():
    body = json.dumps(good(input=TEXTS * 60)).encode()
    s = socket.create_connection(("127.0.0.1", PORT))
    s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: "
              b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
              + body)
    return s


def check_cancelled():
    before = metric("cancelled_total")
    sockets = [open_request() for _ in range(4)]
    steps = metric("steps_total")
    for _ in range(200):
        if metric("steps_total") > steps:
            break
        time.sleep(0.01)
    for s in sockets:
        s.close()
    wait_for("requests_running", 0)
    wait_for("requests_waiting", 0)
    if metric("cancelled_total") <= before:
        fail("no request was cancelled")
    rows("cat")


def check_queue():
    """More requests than slots and places in the queue: some get 429."""
    statuses = []

    def run():
        statuses.append(ask("POST", PATH, good(input=TEXTS))[0])
    threads = [threading.Thread(target=run) for _ in range(60)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if not set(statuses) <= {200, 429} or 200 not in statuses:
        fail("60 requests at once have", statuses)


def main():
    if ask("GET", "/health")[0] != 200:
        fail("/health gives", ask("GET", "/health"))
    models = json.loads(ask("GET", "/v1/models")[1])["data"]
    if [m["id"] for m in models] != [MODEL]:
        fail("/v1/models gives", models)
    check_forms()
    check_bits()
    texts = metric("texts_total")
    rows(["cat", "dog"])
    if metric("texts_total") - texts != 2:
        fail("two texts are counted as", metric("texts_total") - texts)
    check_errors()
    check_cancelled()
    check_queue()
    return bool(failures)


sys.exit(main())
