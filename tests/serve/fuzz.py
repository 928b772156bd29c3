#!/usr/bin/env python3
"""Sends damaged requests to `axon serve`.

    tests/serve/fuzz.py PORT MODEL [COUNT [SEED]]

Each of COUNT requests is a good one, of any route, after some changes: other
values in the JSON, other bytes, a part only.  Each must have an answer of
status 200 or 400 to 499, and then a good request must have one of 200.
"""
import copy
import json
import random
import sys

from asking import MODEL, ask, check_error, fail, failures

COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 200
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)

GOOD = [
    ("/v1/completions", {"model": MODEL, "prompt": "ab", "max_tokens": 1,
                         "temperature": 0, "stop": ["x"], "seed": 3}),
    ("/v1/chat/completions", {
        "model": MODEL, "max_tokens": 1,
        "messages": [{"role": "user", "content": "a"}]}),
    ("/v1/embeddings", {"model": MODEL, "input": ["cat", "dog"],
                        "encoding_format": "float", "dimensions": 384}),
    ("/v1/embeddings", {"model": MODEL, "input": [[2, 4, 3], [2, 3]]}),
    ("/v1/embeddings", {"model": MODEL, "input": "cat",
                        "encoding_format": "base64"})]
VALUES = [None, True, False, 0, -1, 1, 2 ** 31, 2 ** 63, 10 ** 40, 1.5, -0.0,
          1e308, "", "x", "\0", "\ud83d\ude00", "a" * 3000, [], [[]], [0], {},
          {"a": 1}, [None], [[[]]], ["x"] * 70, [3] * 300]


def places(x, path=()):
    yield path
    items = x.items() if isinstance(x, dict) else (
        enumerate(x) if isinstance(x, list) else ())
    for key, y in items:
        yield from places(y, path + (key,))


def changed(body):
    """Puts another value at a place, or removes it."""
    body = copy.deepcopy(body)
    *path, last = rng.choice([p for p in places(body) if p])
    at = body
    for key in path:
        at = at[key]
    if rng.random() < 0.2:
        del at[last]
    else:
        at[last] = copy.deepcopy(rng.choice(VALUES))
    if rng.random() < 0.2:
        body[rng.choice(["n", "stream", "tools", "user", "input", "prompt",
                         "messages", "max_tokens"])] = rng.choice(VALUES)
    return body


def damaged(text):
    text = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text))
        kind = rng.randrange(4)
        if kind == 0:
            text[at] = rng.randrange(256)
        elif kind == 1:
            del text[at:at + rng.randrange(1, 9)]
        elif kind == 2:
            text[at:at] = rng.choice([b"[", b"{", b'"', b"\\u", b"\xff", b"1e9",
                                      b",", b"null"]) * rng.randrange(1, 50)
        else:
            del text[at:]
        text = text or bytearray(b"x")
    return bytes(text)


def one():
    path, body = rng.choice(GOOD)
    for _ in range(rng.randrange(1, 3)):
        if isinstance(body, dict) and len(list(places(body))) > 1:
            body = changed(body)
    text = json.dumps(body).encode()
    if rng.random() < 0.4:
        text = damaged(text)
    status, answer = ask("POST", path, text)
    if status != 200:
        check_error((path, text), status, answer)


def main():
    for _ in range(COUNT):
        one()
    statuses = [ask("POST", path, body)[0] for path, body in GOOD]
    if statuses.count(200) not in (2, 3):
        fail("good requests have", statuses)
    return bool(failures)


sys.exit(main())
