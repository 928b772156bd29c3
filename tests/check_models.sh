#!/bin/bash
# The pretrained models that tools/models.sh installs: tokenizers, mapped
# weights, blocks of 4 bits.  Skipped where they are missing.  AXON_MODELS names
# the folder.  tests/oracle/tokens.py compares tokens of many random lines.
set -u
. "$(dirname "$0")/lib.sh"
models=${AXON_MODELS:-$HOME/.cache/axon-models}
for file in minilm/tokenizer.json minilm/model.safetensors smollm2.gguf; do
  [ -e "$models/$file" ] && continue
  echo "skipped: $models/$file is missing (tools/models.sh)"
  exit 0
done
enter "$here/tests/data"
ln -s "$models/minilm" "$models/smollm2.gguf" .

cat >p.axn <<'END'
val bert = tokenizer.load "minilm/tokenizer.json"
do print (tokenizer.encode bert "Hello, world! Ünïcödé 你好 isn't")
do print (tokenizer.decode bert (tokenizer.encode bert "Hello, world!"))
val chat = tokenizer.load "smollm2.gguf"
do print (tokenizer.encode chat (tokenizer.chatml (list [("user", "Hi 12")])))
val w : f32[30522, 384] =
  load ~name:"embeddings.word_embeddings.weight" "minilm/model.safetensors"
val x : f32[n, 576] =
  gguf.q4_1 (load ~name:"blk.0.attn_q.weight" "smollm2.gguf")
do print (shape w, shape x, gguf.integer "smollm2.gguf" "llama.block_count")
END
cat >expected <<'END'
[  101,  7592,  1010,  2088,   999, 27260,   100,   100,  3475,  1005,  1056,
   102]
hello, world!
[    1,  4093,   198, 26843,   216,    33,    34,     2,   198,     1,   520,
  9531,   198]
([30522, 384], [576, 576], 30)
END
"$AXON" run p.axn >found 2>&1
diff expected found || fail 'the models give other results'

# 64 greedy tokens: tests/oracle/smollm2.py computed the expected ones.
cat >greedy.axn <<'END'
val m = llama.open_model "smollm2.gguf"
fun tokens prompt =
  llama.tokens m (tokenizer.encode m.tokenizer prompt) 64
  |> lists.map string |> strings.join " " |> print
do lists.iter tokens (list ["The capital of France is", "Once upon a time"])
END
{
  echo 7042 30 198 198 504 2988 314 42 216 34 32 33 40 29 32 33 \
    29 34 34 216 33 34 42 33 34 42 37 35 30 2 198 1 \
    520 9531 198 504 2988 314 42 216 34 32 33 40 29 32 33 29 \
    34 34 216 33 34 42 33 34 42 37 35 2 198 2 1 9690
  echo 28 260 2240 282 23324 27108 436 253 15114 39228 28 351 25854 41658 \
    284 14055 9018 30 1249 347 260 929 3514 411 28 260 2240 2585 288 5946 624 \
    2798 9615 30 378 2268 29 16591 20215 282 260 3925 2591 2585 288 25858 28 \
    284 260 2268 29 16591 10959 282 260 5065 2585 288 25858 30 378 2268 29 16591
} >expected
"$AXON" run greedy.axn >found 2>&1
diff expected found || fail 'SmolLM2 writes other tokens than NumPy'
expected=" Paris."
found=$("$AXON" generate --max 2 smollm2.gguf 'The capital of France is')
[ "$found" = "$expected" ] || fail "axon generate writes $found"
exit "$bad"
