#!/usr/bin/env python3
"""Asks `axon serve` over 32 connections at once.

    tests/serve/load.py PORT MODEL [REQUESTS]

Each connection stays open for REQUESTS requests (default 6), in turn whole
answers and streams.  Prints what is wrong: an error, a wrong number of tokens,
or pages that no text gives back.
"""
import http.client
import json
import sys
import threading
import time

CONNECTIONS = 32
PORT, MODEL = int(sys.argv[1]), sys.argv[2]
REQUESTS = int(sys.argv[3]) if len(sys.argv) > 3 else 6
failures = []


def ask(connection, k, n):
    body = {"model": MODEL, "prompt": "A common beginning of texts, " * (k % 3)
            + str(k * n), "max_tokens": 4 + n, "temperature": 0,
            "stream": n % 2 == 1, "stream_options": {"include_usage": True}}
    if not body["stream"]:
        del body["stream_options"]
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    r = connection.getresponse()
    text = r.read().decode()
    if r.status != 200:
        failures.append((k, n, r.status, text))
        return
    if body["stream"]:
        text = text.split("\n\n")[-3][len("data: "):]
    tokens = json.loads(text)["usage"]["completion_tokens"]
    if not 0 <= tokens <= 4 + n:
        failures.append((k, n, "tokens:", tokens))


def run(k):
    try:
        c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        for n in range(REQUESTS):
            ask(c, k, n)
        c.close()
    except Exception as e:
        failures.append((k, repr(e)))


def metrics():
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    c.request("GET", "/metrics")
    lines = c.getresponse().read().decode().split("\n")
    return {p[0]: float(p[1]) for p in map(str.split, lines)
            if len(p) == 2 and p[0] != "#"}


threads = [threading.Thread(target=run, args=(k,)) for k in range(CONNECTIONS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for _ in range(100):
    m = metrics()
    if m["axon_pages_free"] == m["axon_pages"]:
        break
    time.sleep(0.05)
if m["axon_pages_free"] != m["axon_pages"]:
    failures.append(("pages", m))
if m["axon_answers_total"] != CONNECTIONS * REQUESTS:
    failures.append(("answers", m))
if m["axon_shared_tokens_total"] == 0:
    failures.append("no text shares the beginning of another")
print(*failures[:9], sep="\n", file=sys.stderr)
sys.exit(bool(failures))
