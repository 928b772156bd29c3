#!/usr/bin/env python3
"""Asks `axon serve` over 32 connections at once.

    tests/serve/load.py PORT MODEL [REQUESTS | --seconds N]

Each connection stays open for REQUESTS requests (default 6), or for N seconds:
in turn whole answers and streams, or embeddings if the model is an encoder.
Prints what is wrong: an error, a wrong number of tokens, or pages that no text
gives back; with --seconds, also how many requests there were.
"""
import http.client
import json
import sys
import threading
import time

CONNECTIONS = 32
PORT, MODEL = int(sys.argv[1]), sys.argv[2]
IS_TIMED = "--seconds" in sys.argv
REQUESTS = int(sys.argv[3]) if len(sys.argv) == 4 else 6
END = time.monotonic() + int(sys.argv[4]) if IS_TIMED else None
failures, counts = [], [0] * CONNECTIONS


def post(connection, path, body):
    connection.request("POST", path, json.dumps(body),
                       {"Content-Type": "application/json"})
    r = connection.getresponse()
    text = r.read().decode()
    if r.status != 200:
        failures.append((path, body, r.status, text))
    return r.status == 200, text


def embed(connection, k, n):
    words = "the cat " * (1 + (k * n) % 30)
    count = 1 + (k + n) % 5
    ok, text = post(connection, "/v1/embeddings", {
        "model": MODEL, "input": [words + str(i) for i in range(count)]})
    if ok and len(json.loads(text)["data"]) != count:
        failures.append((k, n, "embeddings:", text[:100]))


def complete(connection, k, n):
    body = {"model": MODEL, "prompt": "A common beginning of texts, " * (k % 3)
            + str(k * n), "max_tokens": 4 + n % 9, "temperature": 0,
            "stream": n % 2 == 1, "stream_options": {"include_usage": True}}
    if not body["stream"]:
        del body["stream_options"]
    ok, text = post(connection, "/v1/completions", body)
    if not ok:
        return
    if body["stream"]:
        text = text.split("\n\n")[-3][len("data: "):]
    tokens = json.loads(text)["usage"]["completion_tokens"]
    if not 0 <= tokens <= 4 + n % 9:
        failures.append((k, n, "tokens:", tokens))


def run(k):
    try:
        c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        n = 0
        while time.monotonic() < END if IS_TIMED else n < REQUESTS:
            (embed if IS_ENCODER else complete)(c, k, n)
            counts[k] = n = n + 1
        c.close()
    except Exception as e:
        failures.append((k, repr(e)))


def metrics():
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    c.request("GET", "/metrics")
    lines = c.getresponse().read().decode().split("\n")
    return {p[0]: float(p[1]) for p in map(str.split, lines)
            if len(p) == 2 and p[0] != "#"}


IS_ENCODER = "axon_texts_total" in metrics()
threads = [threading.Thread(target=run, args=(k,)) for k in range(CONNECTIONS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for _ in range(100):
    m = metrics()
    if m.get("axon_pages_free") == m.get("axon_pages"):
        break
    time.sleep(0.05)
if m.get("axon_pages_free") != m.get("axon_pages"):
    failures.append(("pages", m))
if m["axon_answers_total"] != sum(counts) or not all(counts):
    failures.append(("answers", counts, m))
if m.get("axon_shared_tokens_total") == 0:
    failures.append("no text shares the beginning of another")
if IS_TIMED:
    print(sum(counts), "requests,", len(failures), "failures")
print(*failures[:9], sep="\n", file=sys.stderr)
sys.exit(bool(failures))
