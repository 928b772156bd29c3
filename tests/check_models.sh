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
exit "$bad"
