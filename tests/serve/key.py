#!/usr/bin/env python3
"""Asks a server whose key is `secret`.

    tests/serve/key.py PORT [PATH]

An encoder has no page at PATH, which needs no key.
"""
import http.client
import sys


def status(path, key):
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    c.request("GET", path, headers={"Authorization": key} if key else {})
    return c.getresponse().status


wrong = [None, "secret", "Bearer ", "Bearer secre", "Bearer secretx", "Bearer x",
         "Basic secret"]
found = [status("/v1/models", key) for key in wrong]
good = [status("/v1/models", "Bearer secret"), status("/", None),
        status("/health", None)]
wanted = [200, 404 if len(sys.argv) > 2 else 200, 200]
if set(found) != {401} or good != wanted:
    print(found, good)
    sys.exit(1)
