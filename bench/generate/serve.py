#!/usr/bin/env python3
"""Times many answers at once in Axon and llama.cpp, in turn.

    PYTHON bench/generate/serve.py MODEL.gguf [--axon ./axon] [--threads N]
        [--requests 16] [--rounds 3]

`axon serve` answers the requests by HTTP.  llama.cpp has their prompts in one
batch, and then a batch of one token of each sequence for each step, by the
functions of its C library, without a server.  Both always take the likeliest
token.  Each round runs each system in a new process, on the same requests
twice; the second run counts.  Prints medians of the tokens a second; a ratio
above 1 says that Axon is faster.  Needs llama-cpp-python."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "serve"))
sys.dont_write_bytecode = True
import paired  # noqa: E402

PEER = """
import ctypes, json, sys, time
import numpy as np
import llama_cpp as L
path, texts, tokens, threads = json.load(sys.stdin)
quiet = L.llama_log_callback(lambda level, text, data: None)
L.llama_log_set(quiet, None)
L.llama_backend_init()
model = L.llama_model_load_from_file(
    path.encode(), L.llama_model_default_params())
p = L.llama_context_default_params()
p.n_seq_max, p.n_ctx = len(texts), 128 * len(texts)
p.n_batch = p.n_ubatch = 512
p.n_threads = p.n_threads_batch = threads
p.kv_unified = len(texts) > 1
context = L.llama_init_from_model(model, p)
vocabulary = L.llama_model_get_vocab(model)
width = L.llama_vocab_n_tokens(vocabulary)
batch = L.llama_batch_init(1024, 0, 1)
def ids_of(text):
    ids = (L.llama_token * 64)()
    n = L.llama_tokenize(vocabulary, text.encode(), len(text.encode()), ids,
                         64, False, True)
    return list(ids[:n])
def step(parts):
    # The likeliest token behind each part: (sequence, position, tokens).
    n, last = 0, []
    for sequence, at, ids in parts:
        for k, token in enumerate(ids):
            batch.token[n], batch.pos[n] = token, at + k
            batch.n_seq_id[n], batch.seq_id[n][0] = 1, sequence
            batch.logits[n] = k + 1 == len(ids)
            n += 1
        last.append(n - 1)
    batch.n_tokens = n
    assert L.llama_decode(context, batch) == 0
    return [int(np.ctypeslib.as_array(L.llama_get_logits_ith(context, k),
                                      (width,)).argmax()) for k in last]
def run():
    L.llama_memory_clear(L.llama_get_memory(context), True)
    start = time.perf_counter()
    parts = [(k, 0, ids_of(text)) for k, text in enumerate(texts)]
    count = 0
    for _ in range(tokens):
        found = step(parts)
        parts = [(k, at + len(ids), [id])
                 for (k, at, ids), id in zip(parts, found)
                 if not L.llama_vocab_is_eog(vocabulary, id)]
        count += len(parts)
        if not parts:
            break
    return count / (time.perf_counter() - start)
run()
print(run())
"""


def peer(o):
    job = [o.model, [paired.prompt(k) for k in range(o.requests)],
           paired.TOKENS, o.threads]
    return float(subprocess.run(
        [sys.executable, "-c", PEER], input=json.dumps(job), text=True,
        check=True, stdout=subprocess.PIPE).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("model", help="a .gguf file")
    p.add_argument("--axon", default=os.path.join(HERE, "..", "..", "axon"),
                   help="the program to time")
    p.add_argument("--threads", type=int, default=os.cpu_count(),
                   help="threads of both systems")
    p.add_argument("--requests", type=int, default=16, help="texts at once")
    p.add_argument("--rounds", type=int, default=3,
                   help="repetitions; medians are printed")
    o = p.parse_args()
    os.environ["AXON_THREADS"] = str(o.threads)
    o.axon = os.path.realpath(o.axon)
    paired.serve(o.axon, o.model, o.requests)  # compiles the kernels
    rounds = [(paired.serve(o.axon, o.model, o.requests)[0], peer(o))
              for _ in range(o.rounds)]
    ours, theirs = (statistics.median(r[k] for r in rounds) for k in (0, 1))
    ratio = statistics.median(r[0] / r[1] for r in rounds)
    print(f"{o.requests} answers, tokens/s   Axon {ours:9.3f}   "
          f"llama.cpp {theirs:9.3f}   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
