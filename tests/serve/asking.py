"""Asks the server at PORT, the first argument of the program, which has the
model MODEL, the second one.  `fail` prints what is wrong, and counts it."""
import http.client
import json
import sys
import time

PORT, MODEL = int(sys.argv[1]), sys.argv[2]
JSON = {"Content-Type": "application/json"}
failures = []


def fail(*what):
    failures.append(what)
    print(*what)


def ask(method, path, body=None, headers=None, timeout=120):
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=timeout)
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    c.request(method, path, body, JSON if headers is None else headers)
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, text


def metric(name):
    for line in ask("GET", "/metrics")[1].decode().split("\n"):
        if line.startswith("axon_" + name + " "):
            return float(line.split()[1])
    fail("no metric", name)


def wait_for(name, value):
    for _ in range(200):
        if metric(name) == value:
            return
        time.sleep(0.05)
    fail(name, "stays", metric(name), "instead of", value)


def check_error(what, status, text, wanted=None):
    try:
        error = json.loads(text)["error"]
        is_error = bool(error["message"]) and "type" in error
    except (ValueError, KeyError, TypeError):
        is_error = False
    if not 400 <= status < 500 or (wanted and status != wanted):
        fail(str(what)[:200], "has status", status, text[:200])
    elif not is_error:
        fail(str(what)[:200], "has the error", text[:200])
