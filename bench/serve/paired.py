#!/usr/bin/env python3
"""Compares builds of axon on `axon serve` and `axon generate`, in turn.

    bench/serve.sh MODEL.gguf AXON... [--requests 1,16] [--rounds 3]

Prints for each build the tokens a second, and the processor seconds for each
token, as medians of the rounds.  The second number depends less on what else
the machine does.  AXON_THREADS sets the number of threads.
"""
import argparse
import http.client
import json
import re
import resource
import statistics
import subprocess
import threading
import time

TOKENS = 48


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def prompt(k):
    return "Write a long story. Once upon a time, %d ships sailed" % (k + 2)


def ask(port, name, k, counts):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST", "/v1/completions", json.dumps({
        "model": name, "prompt": prompt(k),
        "max_tokens": TOKENS, "temperature": 0}),
        {"Content-Type": "application/json"})
    counts.append(json.loads(c.getresponse().read())
                  ["usage"]["completion_tokens"])


def serve(axon, model, requests):
    """Tokens a second of the second of two equal runs; seconds for a token."""
    before = used()
    server = subprocess.Popen([axon, "serve", "--port", "0", model],
                              stderr=subprocess.PIPE, text=True)
    ready = re.search(r"axon: (\S+) is ready at .*:(\d+)/",
                      server.stderr.readline())
    name, port = ready.group(1), int(ready.group(2))
    total = 0
    for _ in range(2):  # the first one plans each kind of step
        counts, start = [], time.monotonic()
        threads = [threading.Thread(target=ask, args=(port, name, k, counts))
                   for k in range(requests)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        seconds = time.monotonic() - start
        total += sum(counts)
    server.terminate()
    server.wait()
    return sum(counts) / seconds, (used() - before) / total


def generate(axon, model):
    """The same for `axon generate`, with the time to load the model."""
    before, start = used(), time.monotonic()
    subprocess.run([axon, "generate", "--max", str(TOKENS), model, "Once"],
                   stdout=subprocess.DEVNULL, check=True)
    return (TOKENS / (time.monotonic() - start), (used() - before) / TOKENS)


def first(axon, model):
    """Seconds to the first token of a cold process, and processor seconds."""
    before, start = used(), time.monotonic()
    subprocess.run([axon, "generate", "--max", "1", model, "Once"],
                   stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - start, used() - before


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("model")
    p.add_argument("axon", nargs="+")
    p.add_argument("--requests", default="1,16")
    p.add_argument("--rounds", type=int, default=3)
    o = p.parse_args()
    kinds = [("first token, s", first), ("generate, tokens/s", generate)]
    for n in map(int, o.requests.split(",")):
        kinds.append(("serve %d, tokens/s" % n,
                      lambda axon, model, n=n: serve(axon, model, n)))
    for title, run in kinds:
        found = {axon: [] for axon in o.axon}
        for axon in o.axon:
            run(axon, o.model)  # compiles the kernels
        for _ in range(o.rounds):
            for axon in o.axon:
                found[axon].append(run(axon, o.model))
        for axon in o.axon:
            rate, cpu = (statistics.median(x) for x in zip(*found[axon]))
            print("%-22s %9.2f   %7.4f s of processor time   %s"
                  % (title, rate, cpu, axon), flush=True)


if __name__ == "__main__":
    main()
