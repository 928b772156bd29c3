#!/usr/bin/env python3
"""Compares the tokenizers of Axon with the Python package tokenizers.

    PYTHON tests/oracle/tokens.py FOLDER [LINES [SEED]]

FOLDER comes from tools/models.sh.  Random lines mix words of 20 scripts,
combining marks, emoji, white space, control characters and added tokens.
Needs the packages tokenizers and gguf."""
import os
import random
import subprocess
import sys
import tempfile

from gguf import GGUFReader
from tokenizers import (AddedToken, Tokenizer, decoders, models,
                        pre_tokenizers)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
# Ranges of letters: Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic,
# Devanagari, Bengali, Gurmukhi, Gujarati, Tamil, Telugu, Thai, Lao, Tibetan,
# Georgian, Hangul, Ethiopic, Khmer, kana, Han.
SCRIPTS = [(0x41, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58A),
           (0x591, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FE),
           (0xA01, 0xA75), (0xA81, 0xAFF), (0xB82, 0xBFA), (0xC00, 0xC7F),
           (0xE01, 0xE5B), (0xE81, 0xEDF), (0xF00, 0xFDA), (0x10A0, 0x10FF),
           (0xAC00, 0xD7A3), (0x1200, 0x137C), (0x1780, 0x17F9),
           (0x3041, 0x30FF), (0x4E00, 0x9FFF)]
OTHERS = [(0x300, 0x36F), (0x1F300, 0x1F64F), (0x2000, 0x206F), (0x1, 0x9),
          (0xB, 0xC), (0xE, 0x1F), (0x7F, 0xA0), (0xFB00, 0xFB4F),
          (0xFF00, 0xFFEF), (0x20A0, 0x20BF), (0x2190, 0x22FF),
          (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF), (0xE000, 0xE010),
          (0xFE00, 0xFE0F), (0x1160, 0x11FF), (0x180B, 0x180E)]
WORDS = ("the quick brown fox isn't don't I'll we've they're it's 1234 3.14 "
         "Hello, world! tokenization unbelievable naïve Straße İstanbul "
         "https://example.org/a?b=c foo_bar __init__ C++ <|im_start|> "
         "<|im_end|> [MASK] [CLS] ... ?! -- (x) {y} e\u0301 A\u030a 👩‍👩‍👧 🇩🇪 "
         "½ Ⅷ ² ① ǅ ß ﬁ").split(" ")
SPACES = [" ", "  ", "   ", "\t", "\u00a0", "\u3000", "", " \t ", "\u2009"]


def word(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(WORDS)
    low, high = rng.choice(SCRIPTS if kind < 0.85 else OTHERS)
    return "".join(chr(rng.randint(low, high))
                   for _ in range(rng.randint(1, 8 if kind < 0.85 else 2)))


def line(rng):
    return "".join(word(rng) + rng.choice(SPACES)
                   for _ in range(rng.randint(0, 12)))


def of_gguf(path):
    """The tokenizer of SmolLM2, from its parts."""
    fields = GGUFReader(path).fields

    def get(name):
        return fields["tokenizer.ggml." + name].contents()

    tokens, types = get("tokens"), get("token_type")
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)},
                             [tuple(m.split(" ")) for m in get("merges")]))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(x, normalized=False)
                          for x, kind in zip(tokens, types) if kind == 3])
    return t


PROGRAM = '''import tokenizer
val t = tokenizer.load "%s"
fun show text =
  let val (ids : i64[n]) = tokenizer.encode t text
  in write (strings.join " " (lists.tabulate n (fn i => string ids.[i])) ^ "\\n");
     write (strings.replace "\\n" "<n>" (tokenizer.decode t ids) ^ "\\n") end
do lists.iter show (strings.split "\\n" (read_text "lines.txt"))
'''


def compare(name, t, path, lines):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/lines.txt", "w", newline="") as f:
            f.write("\n".join(lines))
        with open(folder + "/p.axn", "w") as f:
            f.write(PROGRAM % path)
        run = subprocess.run([ROOT + "/axon", "run", "p.axn"], cwd=folder,
                             stdout=subprocess.PIPE, check=False)
    found = run.stdout.decode().split("\n")
    bad = [0, 0]
    for i, text in enumerate(lines):
        ids = t.encode(text).ids
        expected = [" ".join(str(x) for x in ids),
                    t.decode(ids).replace("\n", "<n>")]
        for k in range(2):
            got = found[2 * i + k] if 2 * i + k < len(found) else None
            if got == expected[k]:
                continue
            bad[k] += 1
            if bad[k] <= 5:
                print(f"{name}: {text!r}\n  axon     {got!r}\n"
                      f"  expected {expected[k]!r}")
    print(f"{name}: {len(lines)} lines, {bad[0]} differ in tokens, "
          f"{bad[1]} in decoded text")
    return sum(bad)


def main():
    folder = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    lines = [line(rng) for _ in range(count)]
    bert = Tokenizer.from_file(folder + "/minilm/tokenizer.json")
    bert.no_padding()
    bert.no_truncation()
    bad = compare("minilm", bert, folder + "/minilm/tokenizer.json", lines)
    path = folder + "/smollm2.gguf"
    bad += compare("smollm2", of_gguf(path), path, lines)
    made = folder + "/smollm2.json"
    of_gguf(path).save(made)
    bad += compare("smollm2.json", of_gguf(path), made, lines)
    sys.exit(bad > 0)


main()
