#!/usr/bin/env python3
"""Trains small tokenizers with the Python package tokenizers, and writes what
they make of some lines.

    tests/data/tokenizer/make.py

Writes tests/run/files/{wordpiece,bytes,unigram}.{json,gguf}, letters.json there
and the golden file of tests/run/tokenizer_models.axn.  Needs the package gguf
too."""
import json
import os

from gguf import GGUFWriter
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
TEXT = """the quick brown fox jumps over the lazy dog. the dog isn't quick!
tokens are made of parts; unbelievable parts, of believable tokens 1234 5678
naïve café ÉCOLE Straße Привет мир привет שלום עולם مرحبا بالعالم नमस्ते दुनिया
你好世界 こんにちは世界 안녕하세요 세계 สวัสดีชาวโลก ሰላም ልዑል გამარჯობა
def f(x): return x + 1    # four spaces""".split("\n")
LINES = TEXT + [
    "", " ", "   leading and trailing   ", "tab\tand\u3000wide\u00a0spaces",
    "I'll say we've don't THEY'RE it's", "e\u0301 = é, A\u030a = Å, ﬁ ½ Ⅷ ²",
    "😀 👩‍👩‍👧 🇩🇪 \ufe0f", "control \x01\x02\x7f \u200b\u200d \ufeff",
    "[CLS] inside [MASK] text [SEP]", "aaaa" * 40,
    "x" * 120, "İstanbul ıI ǅ ß", "?!...--(a){b}[c]<d>", "\ufffd \U0010fffd",
    "unknown: ☃ ⅞ 𝔘𝔫𝔦 𠀀"]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def template(t):
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(x, t.token_to_id(x)) for x in ("[CLS]", "[SEP]")])


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TEXT, trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=SPECIAL))
    template(t)
    return t


def byte_level():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
            "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens([AddedToken("quick", single_word=True, normalized=True),
                  AddedToken("lazy", lstrip=True, rstrip=True)])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Strip(),
        normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(
        vocab_size=250, special_tokens=SPECIAL, unk_token="[UNK]"))
    template(t)
    return t


def letters():
    """BPE with unknown tokens, a suffix and byte fallback off."""
    t = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True,
                             end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([
        normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation(),
        pre_tokenizers.Digits(individual_digits=True)])
    t.decoder = decoders.BPEDecoder()
    t.train_from_iterator(TEXT[:2], trainers.BpeTrainer(
        vocab_size=120, special_tokens=SPECIAL, end_of_word_suffix="</w>"))
    return t


def write_gguf(name, model, tokens, fields):
    """A .gguf file without tensors.  SPECIAL are control tokens."""
    w = GGUFWriter(f"{ROOT}/tests/run/files/{name}.gguf", "test")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types([3 if x in SPECIAL else 1 for x in tokens])
    for add, value in fields:
        getattr(w, add)(value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def vocabulary(t):
    return [t.id_to_token(i) for i in range(t.get_vocab_size())]


def bytes_gguf():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = json.loads(t.to_str())["model"]["merges"]
    write_gguf("bytes", "gpt2", vocabulary(t), [
        ("add_token_merges", [" ".join(x) for x in merges]),
        ("add_tokenizer_pre", "smollm"), ("add_bos_token_id", 1),
        ("add_add_bos_token", False)])
    return t


def wordpiece_gguf():
    t = wordpiece()
    write_gguf("wordpiece", "bert", [
        x if x in SPECIAL else x[2:] if x.startswith("##") else "\u2581" + x
        for x in vocabulary(t)], [
            ("add_bos_token_id", 1), ("add_sep_token_id", 2),
            ("add_unk_token_id", 0)])
    return t


def unigram_gguf():
    t = unigram()
    t.normalizer = None
    vocab = json.loads(t.to_str())["model"]["vocab"]
    t.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    t.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", 2)])
    write_gguf("unigram", "t5", [x for x, _ in vocab], [
        ("add_token_scores", [score for _, score in vocab]),
        ("add_unk_token_id", 0), ("add_eos_token_id", 2),
        ("add_add_eos_token", True)])
    return t


def main():
    out = ""
    with open(ROOT + "/tests/run/files/lines.txt", "w", newline="") as f:
        f.write("\n".join(LINES))
    for name, make in (("wordpiece.json", wordpiece),
                       ("bytes.json", byte_level), ("unigram.json", unigram),
                       ("letters.json", letters), ("bytes.gguf", bytes_gguf),
                       ("wordpiece.gguf", wordpiece_gguf),
                       ("unigram.gguf", unigram_gguf)):
        t = make()
        if name.endswith(".json"):
            t.save(f"{ROOT}/tests/run/files/{name}", pretty=False)
        out += name + "\n"
        for line in LINES:
            ids = t.encode(line).ids
            out += " ".join(map(str, ids)) + "\n"
            out += t.decode(ids) + "\n"
    with open(ROOT + "/tests/run/tokenizer_models.out", "w") as f:
        f.write(out)


main()
