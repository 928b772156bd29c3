#!/usr/bin/env python3
"""Tests of `axon serve` that need a server: answers, streams, errors, limits.

    tests/serve/client.py PORT MODEL LOG

prints what is wrong.  The server has the model of model.py.
"""
import http.client
import json
import socket
import sys
import time

from asking import (MODEL, PORT, ask, at_once, check_cancelled, check_error,
                    check_queue, fail, failures, metric, wait_for)

def complete(prompt, **more):
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 12,
            "temperature": 0, **more}
    status, text = ask("POST", "/v1/completions", body)
    if status != 200:
        fail("completion of", prompt, "has status", status, text)
        return None
    return json.loads(text)


def stream(path, body):
    status, text = ask("POST", path, {**body, "stream": True})
    lines = [x for x in text.decode().split("\n") if x]
    if status != 200 or lines[-1] != "data: [DONE]":
        fail("a stream ends with", status, text[-200:])
        return "", None, []
    events = [json.loads(x[len("data: "):]) for x in lines[:-1]]
    choices = [e["choices"][0] for e in events if e["choices"]]
    parts = [c.get("text", c.get("delta", {}).get("content")) or ""
             for c in choices]
    return "".join(parts), choices[-1]["finish_reason"], events


# ---- answers ----

def check_answers():
    whole = complete("Hello")
    choice, usage = whole["choices"][0], whole["usage"]
    if usage["prompt_tokens"] != 5 or usage["total_tokens"] != 5 + usage[
            "completion_tokens"] or choice["finish_reason"] not in (
            "stop", "length"):
        fail("a completion is", whole)
    body = {"model": MODEL, "prompt": "Hello", "max_tokens": 12,
            "temperature": 0, "stream_options": {"include_usage": True}}
    text, reason, events = stream("/v1/completions", body)
    if (text, reason) != (choice["text"], choice["finish_reason"]):
        fail("the stream gives", text, reason, "instead of", choice)
    if events[-1].get("usage") != usage:
        fail("the stream's usage is", events[-1])
    chat = {"model": MODEL, "max_tokens": 9, "temperature": 0,
            "messages": [{"role": "user", "content": "Hi"}]}
    status, answer = ask("POST", "/v1/chat/completions", chat)
    message = json.loads(answer)["choices"][0]["message"]
    text, _, events = stream("/v1/chat/completions", chat)
    if status != 200 or message != {"role": "assistant", "content": text}:
        fail("a chat gives", status, message, "and its stream", text)
    if events[0]["choices"][0]["delta"].get("role") != "assistant":
        fail("the first event of a chat is", events[0])
    # the template's own system message, and a conversation as one text
    spelled = ("<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi"
               "<|im_end|>\n<|im_start|>assistant\n")
    if complete(spelled, max_tokens=9)["choices"][0]["text"] != text:
        fail("a chat differs from its text")
    # Special tokens in a message are text: as many tokens as letters.
    counts = [json.loads(ask("POST", "/v1/chat/completions", {
        **chat, "messages": [{"role": "user", "content": content}]})[1])
        ["usage"]["prompt_tokens"] for content in ("x", "x<|im_end|>")]
    if counts[1] - counts[0] != len("<|im_end|>"):
        fail("a special token in a message makes these tokens:", counts)
    parts = [{"role": "user", "content": [{"type": "text", "text": "H"},
                                          {"type": "text", "text": "i"}]}]
    if stream("/v1/chat/completions", {**chat, "messages": parts})[0] != text:
        fail("a message of parts differs")
    tokens = complete([4 + 40, 4 + 60])
    if tokens["usage"]["prompt_tokens"] != 2:
        fail("a prompt of tokens is", tokens)


def check_stops():
    text = complete("Hello", max_tokens=30)["choices"][0]["text"]
    for stop in (text[4:6], [text[7:9], text[5:8]], text[-1:]):
        stops = stop if isinstance(stop, list) else [stop]
        at = min(text.find(s) for s in stops)
        choice = complete("Hello", max_tokens=30, stop=stop)["choices"][0]
        if choice["text"] != text[:at] or choice["finish_reason"] != "stop":
            fail("stop", stop, "gives", choice, "instead of", text[:at])
        body = {"model": MODEL, "prompt": "Hello", "max_tokens": 30,
                "temperature": 0, "stop": stop}
        if stream("/v1/completions", body)[0] != text[:at]:
            fail("stop", stop, "differs in a stream")


# ---- alone, and among others ----

CASES = [(("Once upon a time " * 8)[:1 + 11 * k], {
    "max_tokens": 5 + 3 * k, "seed": k, "temperature": [0, 0.9][k % 2],
    "top_k": [0, 0, 40, 9][k % 4], "top_p": [1, 0.9][k // 2 % 2],
    "min_p": [0, 0.02][k // 4 % 2],
    "repetition_penalty": [1, 1.2][k % 3 == 2]}) for k in range(12)]


def check_batches():
    alone = [complete(prompt, **more) for prompt, more in CASES]
    for delay in (0, 0.01, 0.05):
        def run(k):
            time.sleep(delay * (k * 5 % 12))
            return complete(CASES[k][0], **CASES[k][1])
        together = at_once(run, len(CASES))
        for a, b, case in zip(alone, together, CASES):
            if a["choices"] != b["choices"]:
                fail("alone:", a["choices"], "together:", b["choices"], case)


def check_sharing():
    """A text takes pages that another one has computed, and stays the same."""
    prompt = "This beginning is longer than three pages of sixteen tokens. "
    before, first = metric("shared_tokens_total"), complete(prompt + "One")
    again, other = complete(prompt + "One"), complete(prompt + "Two")
    shared = metric("shared_tokens_total") - before
    if first["choices"] != again["choices"] or shared != 2 * 48:
        fail("shared pages:", shared, first, again)
    if other["choices"] != complete(prompt + "Two")["choices"]:
        fail("a shared beginning changes", other)


# ---- errors ----

def good(**more):
    return {"model": MODEL, "prompt": "x", "max_tokens": 2, **more}


def chat(messages, **more):
    return {"model": MODEL, "max_tokens": 2, "messages": messages, **more}


def user(content):
    return [{"role": "user", "content": content}]


COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
BAD = [(COMPLETIONS, body) for body in [
    b"", b"{", b"nonsense", b"[1, 2", b"null", b"[]", b"3", b'"text"',
    b'{"model": "%s", "prompt": "x"} more' % MODEL.encode(),
    b'{"model": "%s", "prompt": "\xff\xfe"}' % MODEL.encode(),
    b'{"model": "%s", "prompt": "\xed\xa0\x80"}' % MODEL.encode(),
    b'{"model": "%s", "prompt": "\\ud800"}' % MODEL.encode(),
    b'{"model": "%s", "prompt": "a\\u0000b"}' % MODEL.encode(),
    b'{"model": "%s", "prompt": "x", "seed": 99999999999999999999999}'
    % MODEL.encode(),
    b'{"model": "%s", "prompt": "x", "top_p": 1e999}' % MODEL.encode(),
    b'{"model": "%s", "prompt": "x", "prompt": "y"}' % MODEL.encode(),
    b"[" * 100000, b'{"a":' * 5000,
    {}, {"model": MODEL}, {"prompt": "x"}, {"model": 3, "prompt": "x"},
    {"model": None, "prompt": "x"}, good(model="another"), good(prompt=None),
    good(prompt=3), good(prompt={}), good(prompt=[]), good(prompt=""),
    good(prompt=["a", "b"]), good(prompt=[1.5]), good(prompt=[-1]),
    good(prompt=[10 ** 9]), good(prompt=[1, "a"]), good(prompt="x" * 5000),
    good(max_tokens=0), good(max_tokens=-1), good(max_tokens=1.5),
    good(max_tokens="2"), good(max_tokens=10 ** 12), good(max_tokens=True),
    good(temperature=-0.1), good(temperature="hot"), good(temperature=1e9),
    good(temperature=[]), good(top_p=2), good(top_p=-1), good(top_k=-1),
    good(top_k=2.5), good(min_p=7), good(repetition_penalty=0),
    good(repetition_penalty={}), good(seed=-1), good(seed="a"), good(stop=3),
    good(stop=""), good(stop=["a"] * 5), good(stop=[3]), good(stop="x" * 300),
    good(n=2), good(n=0), good(best_of=3), good(stream="yes"), good(stream=1),
    good(stream_options=[]), good(stream_options={"include_usage": 3}),
    good(logprobs=3), good(echo=True), good(suffix="end"),
    good(frequency_penalty=0.5), good(logit_bias={"3": 1}),
    good(response_format={"type": "json_object"}), good(response_format=3),
]] + [(CHAT, body) for body in [
    {"model": MODEL}, chat(None), chat([]), chat("Hi"), chat([3]), chat([{}]),
    chat([{"role": "user"}]), chat([{"content": "x"}]),
    chat([{"role": "robot", "content": "x"}]), chat([{"role": 3, "content": ""}]),
    chat(user(None)), chat(user(3)), chat(user([])), chat(user([3])),
    chat(user([{"type": "image_url", "image_url": {"url": "x"}}])),
    chat(user([{"type": "text"}])), chat(user("x"), tools=[{"type": "f"}]),
    chat(user("x" * 5000)), chat(user("x"), max_completion_tokens=0),
]]


def check_errors():
    for path, body in BAD:
        check_error(body, *ask("POST", path, body))
    for method, path, body, wanted in [
            ("GET", "/v1/completions", None, 405),
            ("DELETE", "/v1/chat/completions", None, 405),
            ("PUT", "/", b"x", 405), ("POST", "/health", b"", 405),
            ("GET", "/nothing", None, 404), ("POST", "/v1/", b"{}", 404),
            ("GET", "/v1/models/another", None, 404),
            ("POST", "/v1/embeddings", {"model": MODEL, "input": "x"}, 404),
            ("GET", "/../etc/passwd", None, 404),
            ("POST", "/v1/completions", b"x" * 3000000, 413)]:
        try:
            check_error((method, path), *ask(method, path, body), wanted)
        except (ConnectionError, http.client.HTTPException) as e:
            if wanted != 413:  # the server may close before it has all
                fail(method, path, e)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    check_error("a form", *ask("POST", COMPLETIONS, json.dumps(good()), form),
                415)
    for junk in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"x" * 70000 + b"\r\n\r\n",
                 b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", PORT), timeout=3) as s:
            try:
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                s.recv(1000)
            except OSError:  # closed, or the server waits for more
                pass
    print(len(BAD), "bad bodies", file=sys.stderr)
    if complete("Hello") is None:
        fail("the server does not go on after errors")


# ---- connections that close ----

def check_closed():
    all_pages = metric("pages")
    for is_stream in (False, True):
        body = good(max_tokens=400, temperature=0, stream=is_stream)
        check_cancelled(COMPLETIONS, [body] * 4, "steps_total")
        wait_for("pages_free", all_pages)
    if complete("Hello") is None:
        fail("the server does not go on after closed connections")


def main():
    status, text = ask("GET", "/health")
    if status != 200 or json.loads(text) != {"status": "ok"}:
        fail("/health gives", status, text)
    status, text = ask("GET", "/v1/models")
    if status != 200 or json.loads(text)["data"][0]["id"] != MODEL:
        fail("/v1/models gives", status, text)
    if ask("GET", "/v1/models/" + MODEL)[0] != 200:
        fail("the model has no page")
    status, text = ask("GET", "/")
    if status != 200 or b"</html>" not in text:
        fail("/ gives", status, text[:100])
    check_answers()
    check_stops()
    check_errors()
    check_closed()
    check_batches()
    check_sharing()
    check_queue(COMPLETIONS, good(max_tokens=60), 24)
    return bool(failures)


sys.exit(main())
