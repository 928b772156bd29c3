#!/usr/bin/env python3
"""Signals a server while it answers: the answer must come.

    tests/serve/stop.py PORT PROCESS
"""
import http.client
import json
import os
import signal
import sys

c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
body = {"model": "tiny", "prompt": "Hello", "max_tokens": 12, "temperature": 0,
        "stream": True}
headers = {"Content-Type": "application/json"}
c.request("POST", "/v1/completions", json.dumps(body), headers)
answer = c.getresponse()
answer.readline()
os.kill(int(sys.argv[2]), signal.SIGTERM)
later = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
try:
    later.request("POST", "/v1/completions", json.dumps(body), headers)
    refused = later.getresponse().status == 503
except OSError:
    refused = True  # it has ended already
sys.exit(b"[DONE]" not in answer.read() or not refused)
