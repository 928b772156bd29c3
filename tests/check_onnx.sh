#!/bin/bash
# axon import: the models of tests/data/onnx compute what the reference
# evaluator of onnx computes (tests/oracle/onnx_models.py).  Files that are
# damaged at any place end with a message.
set -u
. "$(dirname "$0")/lib.sh"
AXON=$(realpath "${AXON:-$here/axon}")
data=$here/tests/data/onnx
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export NO_COLOR=1
status=0

fail() {
  echo "$1"
  status=1
}

for model in mlp heads cnn stretch old layers external control blocks stages \
  functions doubles halves resize quantized signal norms rotary selection \
  images states opset6 computed rolled averages \
  mel ngrams bits batches blocks4; do
  "$AXON" import -q "$data/$model.onnx" -o "$model" ||
    { fail "$model is not imported" && continue; }
  # Sizes that depend on data are checked at run time.
  [ "$model" = images ] && strict= || strict=--strict
  # shellcheck disable=SC2086
  "$AXON" check $strict "$model/$model.axn" >"$model.types" 2>&1 ||
    fail "$model: $(cat "$model.types")"
  diff -u "$data/$model.expected" "$model/$model.axn" || status=1
  inputs=
  for file in "$data/$model".in?.npy; do
    inputs+=" (load \"$file\")"
  done
  cat >main.axn <<END
import "./$model/$model" as m
val wanted = load "$data/$model.out0.npy"
do print (allclose ~rtol:1e-4 wanted (m.model$inputs))
END
  [ "$("$AXON" run main.axn 2>&1)" = true ] ||
    fail "$model: $("$AXON" run main.axn 2>&1)"
done

# Random numbers: their means; another seed gives others.
"$AXON" import -q "$data/noise.onnx" -o noise && cat >main.axn <<'END'
import "./noise/noise" as m
fun near y x = abs (mean x - y) < 0.1
val x : f32[3000] = ones [3000]
val (a, b, c, d, e) = m.model ~seed_2:3 x
val (a', _, _, _, _) = m.model x
do print (all [near 1.0 a, near 0.25 (square ((a - 1.0) / 4.0)), any (a != a'),
  near 1.0 b, near 2.333 (square b), near 0.5 c, all (square c == c),
  near 1.5 d, near 3.0 (square d), near 1.0 e, near 1.333 (square e)])
END
[ "$("$AXON" run main.axn 2>&1)" = true ] &&
  "$AXON" check --strict noise/noise.axn >/dev/null ||
  fail "noise: $("$AXON" run main.axn 2>&1)"

refused() { # refused MODEL TEXT OPTION...
  local model=$1 wanted=$2 out
  shift 2
  out=$("$AXON" import -q "$data/$model.onnx" -o refused "$@" 2>&1)
  [ $? = 1 ] || fail "$model: the exit status is not 1"
  grep -qF -- "$wanted" <<<"$out" || fail "$model: $out"
}
refused unknown 'the node `odd` (NoSuchOp): this operator is not supported'
refused undecided 'they may be equal, or one may be 1 and stretch'
refused branches 'its branches have results of different types'
refused undecided 'no such input or size' --set n=1 --set typo=1
refused shape '--set target=1,2'
refused huge 'too complicated'
refused calls 'graphs are nested too deeply'
"$AXON" import -q "$data/undecided.onnx" -o set --set n=1 ||
  fail 'undecided, with --set'
"$AXON" import -q "$data/shape.onnx" -o set --set target=2,3 ||
  fail 'shape, with --set'
"$AXON" import -q "$data/shape.onnx" -o set --set target=x 2>/dev/null
[ $? = 2 ] || fail '--set target=x'

# axon check: shapes of a model, without files beside it
checked() { # checked MODEL STATUS TEXT OPTION...
  local model=$1 wanted=$2 text=$3 out got
  shift 3
  out=$("$AXON" check "$@" "$data/$model.onnx" 2>&1)
  got=$?
  [ "$got" = "$wanted" ] || fail "check $model: the exit status is $got"
  grep -qF -- "$text" <<<"$out" || fail "check $model: $out"
}
checked cnn 0 'model : f32[batch, 3, 9, 9] -> f32[batch, 4]'
checked cnn 0 'model : f32[2, 3, 9, 9] -> f32[2, 4]' --set batch=2
checked inner 1 '`product` (MatMul): inner dimensions of a matrix product'
checked stated 1 'the file says that `y` has the size 7 at axis 1, but it has 3'
checked open 0 'undetermined: the input `x` has no size at axis 0'
checked shape 1 '--set target=1,2'

# Models with one mistake (tests/oracle/onnx_broken.py): the error names the
# node; neither a check nor an import accepts them.
(cd "$data/broken" && for file in *.onnx; do
  "$AXON" check "$file" 2>&1
  echo "status $?"
done) >broken.txt
diff -u "$data/broken/check.txt" broken.txt || status=1
for file in "$data"/broken/*.onnx; do
  out=$("$AXON" import -q "$file" -o broken 2>&1)
  [ $? = 1 ] || fail "$file is imported"
  grep -qF 'the node `' <<<"$out" || fail "$file: $out"
done

# Data of a model in a pipe or a directory.
cp "$data/external.onnx" .
for make in mkfifo mkdir; do
  rm -rf external.bin
  $make external.bin
  out=$(timeout 20 "$AXON" import -q external.onnx -o refused 2>&1)
  [ $? = 1 ] && grep -q 'it is not a regular file\|it is a directory' \
    <<<"$out" ||
    fail "external data, $make: $out"
done

# Damaged files: cut off, and with another byte at some places.
damage() { # damage MODEL STEP
  local size at file got
  size=$(wc -c <"$data/$1.onnx")
  for ((at = 0; at < size; at += $2)); do
    head -c "$at" "$data/$1.onnx" >cut.onnx
    { head -c "$at" "$data/$1.onnx" && printf '\xff' &&
      tail -c "+$((at + 2))" "$data/$1.onnx"; } >changed.onnx
    for file in cut changed; do
      (ulimit -v 4000000 && "$AXON" import -q "$file.onnx" -o damaged) \
        >out 2>&1
      got=$?
      [ "$got" -le 1 ] || fail "$1, $file at $at: status $got: $(cat out)"
    done
  done
}
damage cnn 47
damage control 31
exit "$status"
