#!/bin/bash
# axon export: what tests/data/onnx/exported.txt lists computes the same in ONNX
# Runtime as in Axon, and so do the programs that axon import makes of it.
# Without ONNX Runtime in $AXON_ONNX_PYTHON (or python3), only the latter is
# tested.  `all` takes every model; otherwise some.
set -u
. "$(dirname "$0")/lib.sh"
AXON=$(realpath "${AXON:-$here/axon}")
data=$here/tests/data/onnx
python=${AXON_ONNX_PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export NO_COLOR=1
status=0
some='^(bert|char_rnn|gcn|lenet5|llama|mamba|swin|exported)\|'
[ "${1:-}" = all ] && some=.
runtime=yes
"$python" -c 'import onnxruntime' 2>/dev/null || runtime=
[ "$runtime" ] || echo "ONNX Runtime: skipped, $python has no onnxruntime"
# Operators that axon import does not have
one_way='^(exported (opaques|shifts))'

fail() {
  echo "$1: $2"
  status=1
}

# A program that saves the inputs, and the results of the function.
write_program() { # write_program PROGRAM COUNT PARAMETERS EXPRESSION INPUT...
  local program=$1 count=$2 params=$3 body=$4 i=0 names='' outs=''
  shift 4
  grep -v '^do ' "$program" >model.axn
  echo "fun exported $params = $body" >>model.axn
  cp model.axn run.axn
  for e in "$@"; do
    echo "val input$i = $e"
    echo "do save \"in$i.npy\" input$i"
    names+=" input$((i++))"
  done >>run.axn
  for ((k = 0; k < count; k++)); do outs+="${outs:+, }out$k"; done
  echo "val ($outs) = exported$names" >>run.axn
  for ((k = 0; k < count; k++)); do
    echo "do save \"out$k.npy\" out$k"
  done >>run.axn
}

# Imports the model again, and compares the results.
import_again() { # import_again COUNT INPUTS
  local outs='' all='true' args='' k
  for ((k = 0; k < $1; k++)); do
    outs+="${outs:+, }y$k"
    all+=" && same y$k (load \"out$k.npy\")"
  done
  for ((k = 0; k < $2; k++)); do args+=" (load \"in$k.npy\")"; done
  rm -rf again && "$AXON" import -q model.onnx -o again || return
  cat >again.axn <<END
import "./again/model" as m
fun same x y = allclose ~rtol:1e-4 ~atol:1e-5 (f64 x) (f64 y)
val ($outs) = m.model$args
do print ($all)
END
  [ "$("$AXON" run again.axn 2>&1)" = true ] || "$AXON" run again.axn
}

while IFS='|' read -r name count params body type rest; do
  IFS='|' read -ra inputs <<<"$rest"
  program=$here/examples/models/$name.axn
  [ "$name" = exported ] && program=$data/exported.axn && name="exported $body"
  rm -f ./*.npy ./*.onnx ./*.data
  write_program "$program" "$count" "$params" "$body" "${inputs[@]}"
  "$AXON" run run.axn >out 2>&1 || { fail "$name" "$(cat out)" && continue; }
  "$AXON" export model.axn --entry "exported : $type -> _" -o model.onnx \
    >out 2>&1 || { fail "$name" "$(cat out)" && continue; }
  if [ "$runtime" ]; then
    "$python" "$here/tests/oracle/onnx_export.py" model.onnx \
      "${#inputs[@]}" "$count" >out 2>&1 || fail "$name" "$(cat out)"
    [ "${1:-}" = all ] && echo "$name: $(cat out)"
  fi
  [[ $name =~ groups|grouped|one_output ]] && grep -q Einsum model.onnx &&
    fail "$name" 'a convolution in groups is an Einsum'
  [[ $name =~ $one_way ]] && continue
  import_again "$count" "${#inputs[@]}" >out 2>&1
  [ -s out ] && fail "$name, imported again" "$(cat out)"
done < <(grep -v '^#' "$data/exported.txt" | grep -E "$some")

# Weights in a file of their own
grep -v '^do ' "$here/examples/models/vit.axn" >model.axn
echo 'fun exported (x : f32[n, 3, 8, 12]) = vit ~heads:2 tiny x' >>model.axn
"$AXON" export model.axn --entry exported -o big.onnx --external || status=1
[ -s big.onnx.data ] || fail external 'no file with weights'
"$AXON" import -q big.onnx -o again || fail external 'is not imported'

# The operators of models are those of opset 18, and with 8-bit floats of 19.
opset() { # opset FUNCTION NUMBER
  "$AXON" export "$data/exported.axn" --entry "$1" -o model.onnx || status=1
  got=$(tail -c 1 model.onnx | od -An -tu1)
  [ "$((got))" = "$2" ] || fail "$1" "opset $got"
}
opset parities 18
opset octets 19

# What ONNX cannot express names the operation and its place.
refused() { # refused FUNCTION TEXT
  local out
  out=$("$AXON" export "$data/exported.axn" --entry "$1" -o no.onnx 2>&1)
  [ $? = 1 ] || fail "$1" 'the exit status is not 1'
  grep -qF -- "$2" <<<"$out" || fail "$1" "$out"
}
refused lin 'ONNX has no operator for `linalg.gesv`'
refused lin 'exported.axn:'
refused ran '`uniform` of an argument'
refused halves_of_bytes 'models of opset 19 have no element type f4_e2m1'
refused nothing 'nothing'
"$AXON" export "$data/exported.axn" 2>/dev/null
[ $? = 2 ] || fail usage 'the exit status without -o is not 2'
exit "$status"
