#!/usr/bin/env python3
"""Signals a server while it answers: the answer must come.

    tests/serve/stop.py PORT PROCESS
"""
import http.client
import json
import os
import signal
import sys
import time

c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
body = {"model": "tiny", "prompt": "Hello", "max_tokens": 12, "temperature": 0,
        "stream": True}
headers = {"Content-Type": "application/json"}
c.request("POST", "/v1/completions", json.dumps(body), headers)
answer = c.getresponse()
answer.readline()
os.kill(int(sys.argv[2]), signal.SIGTERM)


def status(method, path, *more):
    later = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    try:
        later.request(method, path, *more)
        return later.getresponse().status
    except OSError:
        return 503  # it has ended already


while status("GET", "/health") == 200:
    time.sleep(0.01)
refused = status("POST", "/v1/completions", json.dumps(body), headers) == 503
sys.exit(b"[DONE]" not in answer.read() or not refused)
