#!/bin/bash
# examples/voice: Silero VAD, imported from ONNX, gives for 60 s of sound what
# ONNX Runtime gives (tests/oracle/silero.py).  Skipped without the model, which
# tools/models.sh installs; AXON_MODELS names its folder.
set -u
. "$(dirname "$0")/lib.sh"
models=${AXON_MODELS:-$HOME/.cache/axon-models}
if [ ! -e "$models/silero.onnx" ]; then
  echo "skipped: $models/silero.onnx is missing (tools/models.sh)"
  exit 0
fi
enter "$here/tests/data/silero"
cp "$here/examples/voice/voice.axn" .
"$AXON" import -q "$models/silero.onnx" -o silero || fail 'it is not imported'
"$AXON" check --strict silero/silero.axn >types 2>&1 || fail "$(cat types)"
grep -q 'model : f32\[sequence_length, 576\] -> f32\[1, 1, 128\] -> ' types ||
  fail "$(tail -n 1 types)"

# The sound of tests/oracle/silero.py
cat >main.axn <<'END'
import "./voice" as voice
val n = 960000
val t : f64[n] = for i < n => f64 i / 16000.0
val pitch = 2.0 * pi * (120.0 * t + 4.0 * sin (2.0 * pi * 2.5 * t))
fun bump f c w : f64[] = exp (-square ((f - c) / w))
fun weight f = bump f 700.0 250.0 + bump f 1200.0 300.0 + bump f 2600.0 400.0
val weights : f64[24] = for k < 24 => weight (120.0 * f64 (k + 1))
val voiced =
  for i < n => sum (for k < 24 => weights.[k] * sin (f64 (k + 1) * pitch.[i]))
val syllables = maximum 0.0 (sin (2.0 * pi * 3.0 * t))
val noise : f64[n] = for i < n => sin (f64 (i * i % 65537))
val on : f64[n] = for i < n => if i % 160000 < 80000 then 1.0 else 0.0
val sound = f32 (0.2 * voiced * syllables * on + 0.003 * noise)
val wanted : f32[k] = load "expected.npy"
val found = voice.probabilities sound
do print (dim 0 found, max (abs (found - wanted)) < 1e-4)
do save "sound.npy" sound
END
found=$("$AXON" run main.axn 2>&1)
[ "$found" = '(1875, true)' ] || fail "$found"
"$AXON" run voice.axn sound.npy >parts 2>&1 || fail "$(cat parts)"
grep -q '^[0-9.]* s to [0-9.]* s$' parts || fail "no speech: $(cat parts)"
exit "$bad"
