#!/usr/bin/env python3
"""Times a language model in Axon and llama.cpp, in turn.

    PYTHON bench/generate/compare.py MODEL.gguf [--axon ./axon] [--threads N]
        [--prompt N] [--tokens N] [--rounds N]

Both systems read the same file, so the weights have the same quantization, and
continue the same prompt, always with the likeliest token.  Each round runs each
system twice in a new process: the first run gives the seconds from loading the
model to the first token, the second one the rates.  Prints medians over the
rounds; a ratio above 1 says that Axon is faster.  Needs llama-cpp-python."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TEXT = ("The river rises in the hills north of the town, and turns east where "
        "the old road crosses it. In spring, 24 mills once ran on its water. ")
KINDS = [("first token, s", "first", False),
         ("prompt, tokens/s", "prompt", True),
         ("answer, tokens/s", "answer", True)]

PROMPT = """
val t = tokenizer.load "{model}"
val (ids : i64[?]) = tokenizer.encode t (read_text "prompt.txt")
do save "prompt.npy" (force ids.[:{prompt}])
"""

AXON = """
val start = clock ()
val m = llama.open_model "{model}"
val prompt : i64[{prompt}] = load "prompt.npy"
fun step_of (ids : i64[n]) (s : llama.state) =
  let val ((y : f32[?]), s) = force (llama.step m s ids)
  in (force (argmax y), s) end
fun next ((id : i64), s, found) =
  let val (id, s) = step_of (forget [id]) s in (id, s, id :: found) end
fun run since =
  let
    val (id, s) = step_of prompt (llama.empty m {room})
    val prompt_time = clock () - since
    val t = clock ()
    val (_, _, found) = iterate {more} next (id, s, list [id])
  in
    (prompt_time, clock () - t, lists.reverse found)
  end
val (loaded, _, _) = run start
val (once, more, found) = run (clock ())
val numbers = lists.map (fn x => format "%.9g" x) (list [loaded, once, more])
val ids = lists.map (fn id => format "%d" id) found
do write (format "[%s, [%s]]" (strings.join ", " numbers) (strings.join ", " ids))
"""

# Without the time to import the module: `axon` is a program of its own.
PEER = """
import json, sys, time
import llama_cpp
model, ids, more, room, threads = json.load(sys.stdin)
start = time.perf_counter()
m = llama_cpp.Llama(model, n_ctx=room, n_threads=threads,
                    n_threads_batch=threads, verbose=False)
def run(since):
    m.reset()
    tokens = m.generate(ids, temp=0.0, repeat_penalty=1.0)
    found = [next(tokens)]
    t = time.perf_counter()
    found += [next(tokens) for _ in range(more)]
    return t - since, time.perf_counter() - t, found
first, _, _ = run(start)
print(json.dumps([first, *run(time.perf_counter())]))
"""


def run_axon(o, folder, program):
    with open(os.path.join(folder, "p.axn"), "w") as f:
        f.write(program)
    env = dict(os.environ, AXON_THREADS=str(o.threads))
    return subprocess.run(
        [os.path.realpath(o.axon), "run", "p.axn"], cwd=folder, env=env,
        text=True, check=True, stdout=subprocess.PIPE).stdout


def axon(o, folder):
    return json.loads(run_axon(o, folder, AXON.format(
        model=o.model, prompt=o.prompt, room=room(o), more=o.tokens)))


def peer(o, ids):
    job = [o.model, ids, o.tokens, room(o), o.threads]
    return json.loads(subprocess.run(
        [sys.executable, "-c", PEER], input=json.dumps(job), text=True,
        check=True, stdout=subprocess.PIPE).stdout)


def room(o):
    return -(-(o.prompt + o.tokens + 1) // 256) * 256


def prompt_of(o, folder):
    """Writes the tokens of a text to prompt.npy, and returns them."""
    with open(os.path.join(folder, "prompt.txt"), "w") as f:
        f.write(TEXT * (o.prompt // 20 + 1))
    run_axon(o, folder, PROMPT.format(model=o.model, prompt=o.prompt))
    return np.load(os.path.join(folder, "prompt.npy")).tolist()


def measures(o, result):
    first, prompt, answer, _ = result
    return {"first": first, "prompt": o.prompt / prompt,
            "answer": o.tokens / answer}


def equal_start(left, right):
    count = 0
    for x, y in zip(left, right):
        if x != y:
            break
        count += 1
    return count


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("model", help="a .gguf file")
    p.add_argument("--axon", default=os.path.join(ROOT, "axon"),
                   help="the program to time")
    p.add_argument("--threads", type=int, default=os.cpu_count(),
                   help="threads of both systems")
    p.add_argument("--prompt", type=int, default=128,
                   help="tokens of the prompt")
    p.add_argument("--tokens", type=int, default=64,
                   help="tokens to generate after the first one")
    p.add_argument("--rounds", type=int, default=5,
                   help="repetitions; medians are printed")
    o = p.parse_args()
    o.model = os.path.realpath(o.model)
    with tempfile.TemporaryDirectory() as folder:
        ids = prompt_of(o, folder)
        same = equal_start(axon(o, folder)[3], peer(o, ids)[3])
        rounds = [(measures(o, axon(o, folder)), measures(o, peer(o, ids)))
                  for _ in range(o.rounds)]
    print(f"the first {same} of {o.tokens + 1} tokens are equal")
    for title, key, is_rate in KINDS:
        ours, theirs = (statistics.median(r[k][key] for r in rounds)
                        for k in (0, 1))
        ratio = statistics.median(
            r[0][key] / r[1][key] if is_rate else r[1][key] / r[0][key]
            for r in rounds)
        print(f"{title:18} Axon {ours:9.3f}   llama.cpp {theirs:9.3f}   "
              f"ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
