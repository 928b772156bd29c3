#!/usr/bin/env python3
"""Writes a small language model with random weights as a .gguf file: two layers,
a token for each byte, weights in F32, Q4_1 and Q8_0.  Needs no packages.

    tests/serve/model.py FILE.gguf [CONTEXT]
"""
import random
import struct
import sys

WIDTH, LAYERS, HEADS, GROUPS, HIDDEN = 64, 2, 4, 2, 96
CONTEXT = int(sys.argv[2]) if len(sys.argv) > 2 else 512
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{{ '<|im_start|>system\\nBe brief<|im_end|>\\n' }}"
            "{{ '<|im_start|>' + message['role'] }}")


def byte_letters():
    """The letters that stand for bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {b: chr(b) for b in plain}, 256
    for b in range(256):
        if b not in letters:
            letters[b], extra = chr(extra), extra + 1
    return [letters[b] for b in range(256)]


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def value(kind, x):
    codes = {4: "<I", 6: "<f"}
    return text(x) if kind == 8 else struct.pack(codes[kind], x)


def array(kind, items):
    codes = {5: "<i"}
    body = b"".join(text(x) if kind == 8 else struct.pack(codes[kind], x)
                    for x in items)
    return struct.pack("<IQ", kind, len(items)) + body


def f32(rows, columns, scale):
    return struct.pack(f"<{rows * columns}f",
                       *(random.gauss(0, scale) for _ in range(rows * columns)))


def q4_1(rows, columns, scale):
    block = lambda: struct.pack("<2e", scale / 4, -2 * scale) + bytes(
        random.randrange(256) for _ in range(16))
    return b"".join(block() for _ in range(rows * columns // 32))


def q8_0(rows, columns, scale):
    block = lambda: struct.pack("<e", scale / 60) + struct.pack(
        "<32b", *(random.randrange(-127, 128) for _ in range(32)))
    return b"".join(block() for _ in range(rows * columns // 32))


TYPES = {0: f32, 3: q4_1, 8: q8_0}


def tensors():
    head = WIDTH // HEADS
    yield "token_embd.weight", 8, VOCABULARY, WIDTH, 1.0
    for i in range(LAYERS):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", 0, 1, WIDTH, 1.0
        yield p + "attn_q.weight", 3, WIDTH, WIDTH, 0.2
        yield p + "attn_k.weight", 3, GROUPS * head, WIDTH, 0.2
        yield p + "attn_v.weight", 0, GROUPS * head, WIDTH, 0.2
        yield p + "attn_output.weight", 3, WIDTH, WIDTH, 0.2
        yield p + "ffn_norm.weight", 0, 1, WIDTH, 1.0
        yield p + "ffn_gate.weight", 0, HIDDEN, WIDTH, 0.2
        yield p + "ffn_up.weight", 8, HIDDEN, WIDTH, 0.2
        yield p + "ffn_down.weight", 3, WIDTH, HIDDEN, 0.2
    yield "output_norm.weight", 0, 1, WIDTH, 1.0


TOKENS = SPECIAL + byte_letters() + ["th", "in", "er"]
VOCABULARY = len(TOKENS)


def main():
    random.seed(7)
    p = "llama."
    values = [
        ("general.architecture", 8, value(8, "llama")),
        (p + "block_count", 4, value(4, LAYERS)),
        (p + "context_length", 4, value(4, CONTEXT)),
        (p + "embedding_length", 4, value(4, WIDTH)),
        (p + "attention.head_count", 4, value(4, HEADS)),
        (p + "attention.head_count_kv", 4, value(4, GROUPS)),
        (p + "attention.layer_norm_rms_epsilon", 6, value(6, 1e-5)),
        (p + "rope.freq_base", 6, value(6, 10000.0)),
        ("tokenizer.ggml.model", 8, value(8, "gpt2")),
        ("tokenizer.ggml.pre", 8, value(8, "gpt-2")),
        ("tokenizer.ggml.tokens", 9, array(8, TOKENS)),
        ("tokenizer.ggml.token_type", 9,
         array(5, [3 if x in SPECIAL else 1 for x in TOKENS])),
        ("tokenizer.ggml.merges", 9, array(8, ["t h", "i n", "e r"])),
        ("tokenizer.ggml.eos_token_id", 4, value(4, 0)),
        ("tokenizer.chat_template", 8, value(8, TEMPLATE))]
    all_tensors = list(tensors())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(values))
    for key, kind, content in values:
        head += text(key) + struct.pack("<I", kind) + content
    data = b""
    for name, kind, rows, columns, scale in all_tensors:
        data += bytes(-len(data) % 32)
        shape = (columns,) if rows == 1 else (columns, rows)
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, len(data))
        data += TYPES[kind](rows, columns, scale)
    head += bytes(-len(head) % 32)
    with open(sys.argv[1], "wb") as f:
        f.write(head + data)


main()
