"""Asks the server at PORT, the first argument of the program, which has the
model MODEL, the second one.  `fail` prints what is wrong, and counts it."""
import http.client
import json
import socket
import sys
import threading
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


def open_post(path, body):
    """A connection with a request whose answer nobody has read."""
    body = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", PORT))
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
              b"\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body))
              + body)
    return s


def at_once(run, count):
    """[run(0), run(1), ...], each in a thread of its own."""
    results = [None] * count

    def put(k):
        results[k] = run(k)
    threads = [threading.Thread(target=put, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


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


def check_queue(path, body, count):
    """More requests than slots and places in the queue: some get 429."""
    statuses = at_once(lambda k: ask("POST", path, body)[0], count)
    if not set(statuses) <= {200, 429} or 200 not in statuses:
        fail(count, "requests at once have", statuses)


def check_cancelled(path, bodies, metric_begun):
    """Requests whose connections close end."""
    before, begun = metric("cancelled_total"), metric(metric_begun)
    sockets = [open_post(path, body) for body in bodies]
    for _ in range(200):
        if metric(metric_begun) > begun:
            break
        time.sleep(0.01)
    for s in sockets:
        s.close()
    wait_for("requests_running", 0)
    wait_for("requests_waiting", 0)
    if metric("cancelled_total") <= before:
        fail("no request was cancelled")
