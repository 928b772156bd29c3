#!/usr/bin/env python3
"""Tests of `axon serve` with an encoder: embeddings, as a client of OpenAI's
interface gets them, errors, limits.

    tests/serve/embeddings.py PORT MODEL AXON FOLDER

prints what is wrong.  The server has the model of encoder.py, in FOLDER, whose
context is 80, or less by `--context`.
"""
import base64
import json
import random
import struct
import subprocess
import sys
import urllib.request

from asking import (MODEL, PORT, ask, at_once, check_cancelled, check_error,
                    check_queue, fail, failures, metric)

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


def embed(texts):
    """What axon embed writes, as bits."""
    out = subprocess.run([AXON, "embed", "--json", FOLDER, *texts], text=True,
                         capture_output=True, check=True).stdout
    return [bits(json.loads(line)) for line in out.splitlines()]


def check_lists():
    """A list has the bits of axon embed for this list, whatever else there
    is: lists of one padded length or many, in any order, and of one text."""
    lists = [TEXTS, TEXTS[::-1], TEXTS[:7], ["cat"], ["cat"] * 5,
             TEXTS[:1], ["dog", "the cat", "a dog"],
             ["abc"[k % 3] * (2 * k + 5) for k in range(32)]]
    wanted = [embed(texts) for texts in lists]
    if len(wanted[0]) != len(TEXTS) or len(set(wanted[0])) < 25:
        fail("axon embed writes", len(wanted[0]), "lines, other:",
             len(set(wanted[0])))
    for k, texts in enumerate(lists):
        if [bits(r) for r in rows(texts)] != wanted[k]:
            fail("alone,", texts, "has other bits than axon embed")
    found = at_once(lambda k: rows(lists[k % len(lists)]), 3 * len(lists))
    for k, x in enumerate(found):
        if [bits(r) for r in x] != wanted[k % len(lists)]:
            fail("at once,", lists[k % len(lists)],
                 "has other bits than axon embed")


def check_steps():
    """A step has texts of one padded length, as many as a power of two."""
    steps, texts = metric("steps_total"), metric("texts_total")
    rows(["cat", "x" * 20] * 20)
    if metric("steps_total") - steps != 4:
        fail("two lengths take", metric("steps_total") - steps, "steps")
    if metric("texts_total") - texts != 40:
        fail("40 texts are counted as", metric("texts_total") - texts)


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
    if two != rows(["cat", ""]):
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


MESSAGES = [
    ([[CLS, SEP], [-1]], "item 0 of item 1 of `input` is no token"),
    ([CLS, -1], "item 1 of `input` is no token"),
    ([[CLS], []], "item 1 of `input` has no tokens"),
    ("x " * 100, "`input` has 102 tokens; there is room for"),
    (["cat", "x " * 100], "item 1 of `input` has 102 tokens"),
    ([1.5], "item 0 of `input` is no text and no list of tokens"),
    ("a\0b", ": texts cannot contain \\u0000")]


def check_messages():
    for value, wanted in MESSAGES:
        text = ask("POST", PATH, good(input=value))[1]
        if wanted not in json.loads(text)["error"]["message"]:
            fail(value, "has the message", text)


def check_errors():
    check_messages()
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


def main():
    if ask("GET", "/health")[0] != 200:
        fail("/health gives", ask("GET", "/health"))
    models = json.loads(ask("GET", "/v1/models")[1])["data"]
    if [m["id"] for m in models] != [MODEL]:
        fail("/v1/models gives", models)
    check_forms()
    check_lists()
    check_steps()
    check_errors()
    check_cancelled(PATH, [good(input=TEXTS * 60)] * 4, "steps_total")
    rows("cat")
    check_queue(PATH, good(input=TEXTS), 60)
    return bool(failures)


sys.exit(main())
