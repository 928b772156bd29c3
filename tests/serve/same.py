#!/usr/bin/env python3
"""Compares a server's texts with those of `axon generate`.

    tests/serve/same.py PORT AXON
"""
import http.client
import json
import subprocess
import sys

CASES = [("Hello", {}), ("A longer beginning of a text, 123", {}),
         ("x", {"temperature": 0.8, "seed": 5}),
         ("Once upon", {"temperature": 1.1, "top_k": 20, "top_p": 0.9,
                        "min_p": 0.01, "repetition_penalty": 1.3, "seed": 9})]
OPTIONS = {"temperature": "--temperature", "seed": "--seed", "top_k": "--topk",
           "top_p": "--topp", "min_p": "--minp",
           "repetition_penalty": "--penalty"}
bad = False
for prompt, choice in CASES:
    command = [sys.argv[2], "generate", "--max", "40"]
    for name, value in choice.items():
        command += [OPTIONS[name], str(value)]
    wanted = subprocess.run(command + ["tiny.gguf", prompt],
                            capture_output=True, check=True).stdout
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    c.request("POST", "/v1/completions", json.dumps({
        "model": "tiny", "prompt": prompt, "max_tokens": 40, "temperature": 0,
        **choice}), {"Content-Type": "application/json"})
    found = json.loads(c.getresponse().read())["choices"][0]["text"]
    # generate does not hold back the last newline
    if wanted.decode() != found + "\n":
        print(prompt, choice, repr(found), "generate:", wanted)
        bad = True
sys.exit(bad)
