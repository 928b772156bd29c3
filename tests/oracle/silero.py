#!/usr/bin/env python3
"""Computes with ONNX Runtime what Silero VAD says about 60 s of sound.

    PYTHON tests/oracle/silero.py FOLDER [--time]

FOLDER comes from tools/models.sh.  Makes tests/data/silero/expected.npy, for
tests/check_silero.sh, whose program makes the same sound.  --time prints the
seconds of the fastest of ten runs with one thread, instead.  Needs numpy and
onnxruntime."""
import os
import sys
import time

import numpy as np
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
RATE, SECONDS, CHUNK, CONTEXT = 16000, 60, 512, 64


def sound():
    """Vowels of five seconds with breaks, and a hiss."""
    t = np.arange(RATE * SECONDS) / RATE
    pitch = 2 * np.pi * (120 * t + 4 * np.sin(2 * np.pi * 2.5 * t))
    voice = np.zeros_like(t)
    for k in range(1, 25):
        f = 120 * k
        weight = sum(np.exp(-((f - c) / w) ** 2)
                     for c, w in ((700, 250), (1200, 300), (2600, 400)))
        voice += weight * np.sin(k * pitch)
    syllables = np.maximum(0, np.sin(2 * np.pi * 3 * t))
    is_on = (t % 10 < 5)
    noise = np.sin(np.arange(len(t)) ** 2 % 65537 * 1.0)
    return (0.2 * voice * syllables * is_on + 0.003 * noise).astype(np.float32)


def frames(x):
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), x])
    return np.stack([padded[CHUNK * k:CHUNK * k + CHUNK + CONTEXT]
                     for k in range(len(x) // CHUNK)])


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnxruntime.InferenceSession(
        os.path.join(sys.argv[1], "silero.onnx"), options,
        providers=["CPUExecutionProvider"])
    zeros = np.zeros((1, 1, 128), np.float32)
    inputs = {"input": frames(sound()), "h": zeros, "c": zeros}
    if "--time" in sys.argv:
        times = []
        for _ in range(10):
            start = time.perf_counter()
            model.run(None, inputs)
            times.append(time.perf_counter() - start)
        print(min(times))
        return
    np.save(os.path.join(HERE, "..", "data", "silero", "expected.npy"),
            model.run(None, inputs)[0])


if __name__ == "__main__":
    main()
