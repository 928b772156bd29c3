#!/usr/bin/env python3
"""Tests the page for conversations in a browser without a window, through the
DevTools protocol.

    tests/serve/page.py PORT MODEL BROWSER
"""
import base64
import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

PORT, MODEL, BROWSER = int(sys.argv[1]), sys.argv[2], sys.argv[3]
SECONDS = 60


class WebSocket:
    """Text frames only, which is all that the protocol needs."""

    def __init__(self, url):
        host, path = url[len("ws://"):].split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.bytes += self.socket.recv(4096)
        self.bytes = self.bytes.split(b"\r\n\r\n", 1)[1]
        self.last = 0

    def take(self, n):
        while len(self.bytes) < n:
            self.bytes += self.socket.recv(65536)
        part, self.bytes = self.bytes[:n], self.bytes[n:]
        return part

    def receive(self):
        _, n = self.take(2)
        n &= 127
        if n >= 126:
            code = ">H" if n == 126 else ">Q"
            n, = struct.unpack(code, self.take(struct.calcsize(code)))
        return json.loads(self.take(n))

    def send(self, text):
        mask, n = os.urandom(4), len(text)
        head = struct.pack(">BB", 0x81, 0x80 | n) if n < 126 else struct.pack(
            ">BBH", 0x81, 0x80 | 126, n)
        self.socket.sendall(head + mask + bytes(
            b ^ mask[i % 4] for i, b in enumerate(text)))

    def evaluate(self, code):
        self.last += 1
        self.send(json.dumps({"id": self.last, "method": "Runtime.evaluate",
                              "params": {"expression": code}}).encode())
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                return answer["result"]["result"].get("value")

    def wait(self, code):
        end = time.time() + SECONDS
        while time.time() < end:
            if self.evaluate(code):
                return
            time.sleep(0.1)
        sys.exit("not so after a minute: " + code)


def get(port, path, method="GET", body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    c.request(method, path, body, {"Content-Type": "application/json"})
    return c.getresponse().read().decode()


def cancelled():
    lines = get(PORT, "/metrics").split("\n")
    return [x for x in lines if x.startswith("axon_cancelled_total")][0]


def talk(page):
    page.wait(f"$('model').textContent === '{MODEL}'")
    page.evaluate("$('temperature').value = 0; $('max_tokens').value = 8;"
                  "$('text').value = 'Hi'; $('form').requestSubmit()")
    page.wait("document.querySelector('.note') && $('send').textContent === "
              "'Send'")
    found = page.evaluate("document.querySelectorAll('.message')[1].textContent")
    wanted = json.loads(get(PORT, "/v1/chat/completions", "POST", json.dumps({
        "model": MODEL, "temperature": 0, "max_tokens": 8,
        "messages": [{"role": "user", "content": "Hi"}]})))
    wanted = wanted["choices"][0]["message"]["content"]
    if found != wanted:
        sys.exit(f"the page has {found!r} instead of {wanted!r}")
    before = cancelled()
    page.evaluate("$('temperature').value = 1.5; $('max_tokens').value = 1000;"
                  "$('text').value = 'More'; $('form').requestSubmit()")
    page.wait("document.querySelectorAll('.message')[3]?.textContent.length > 1")
    page.evaluate("$('send').click()")
    page.wait("$('send').textContent === 'Send'")
    if page.evaluate("document.querySelector('.error')?.textContent"):
        sys.exit("the stop button makes an error")
    end = time.time() + SECONDS
    while cancelled() == before:
        if time.time() > end:
            sys.exit("the stop button does not cancel the request")
        time.sleep(0.1)


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        said = open(folder + "/said", "w")
        browser = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--remote-debugging-port=0",
             "--user-data-dir=" + folder, f"http://127.0.0.1:{PORT}/"],
            stdout=subprocess.DEVNULL, stderr=said)
        try:
            end = time.time() + SECONDS
            while not os.path.exists(folder + "/DevToolsActivePort"):
                if time.time() > end:
                    with open(said.name, errors="replace") as f:
                        sys.exit("the browser does not start: " + f.read())
                time.sleep(0.1)
            with open(folder + "/DevToolsActivePort") as f:
                port = int(f.readline())
            pages = [x for x in json.loads(get(port, "/json"))
                     if x["type"] == "page"]
            talk(WebSocket(pages[0]["webSocketDebuggerUrl"]))
        finally:
            browser.terminate()
            browser.wait()


main()
