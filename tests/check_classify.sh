#!/bin/bash
# examples/classify: EfficientNet-Lite0 gives for examples/data/china.png the
# image, the logits and the five classes of PyTorch
# (tests/oracle/efficientnet.py).  Skipped without the weights, which
# tools/models.sh installs; AXON_MODELS names its folder.
set -u
. "$(dirname "$0")/lib.sh"
weights=${AXON_MODELS:-$HOME/.cache/axon-models}/efficientnet-lite0.pth
if [ ! -e "$weights" ]; then
  echo "skipped: $weights is missing (tools/models.sh)"
  exit 0
fi
enter "$here/tests/data/classify"
cp "$here"/examples/classify/*.axn .
ln -s "$weights" weights.pth
ln -s "$here/examples/data/china.png" .

cat >main.axn <<'END'
import "./efficientnet" as net
val m = net.open_model "weights.pth"
val x = net.square_of (load "china.png")
val wanted : f32[3, 14, 14] = load "image.npy"
val part = for c y z => x.[0, c, 16 * y, 16 * z]
do print (max (abs (part - wanted)) < 1e-4)
val wanted : f32[1000] = load "logits.npy"
val y : f32[1, 1000] = net.logits m x
do print (max (abs (y.[0, :] - wanted)) < 1e-4)
do print (all (fst (net.classify m x) == snd (topk 5 wanted)))
val pixel : u8[1, 1, 3] = for y z c => 191
do print (all (net.square_of pixel == 0.5))
END
found=$("$AXON" run main.axn 2>&1)
[ "$found" = "true
true
true
true" ] || fail "$found"
found=$("$AXON" run classify.axn weights.pth china.png 2>&1)
[ "$(wc -l <<<"$found")" = 5 ] &&
  grep -q '^class 698: 0\.4' <<<"$found" || fail "$found"

# The header is read during checking: the message names the tensor.
cat >main.axn <<'END'
val w : f32[1280, 1000] = load ~name:"_fc.weight" "weights.pth"
END
"$AXON" check main.axn >found 2>&1 && fail 'a transposed tensor fits'
grep -q 'found f32\[1000, 1280\], expected f32\[1280, 1000\]' found ||
  fail "$(cat found)"
exit "$bad"
