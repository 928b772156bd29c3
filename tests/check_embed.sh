#!/bin/bash
# axon embed with MiniLM, which tools/models.sh installs: the embeddings of
# tests/data/embed are those of NumPy (tests/oracle/minilm.py).  Skipped where
# the model is missing.  AXON_MODELS names its folder.
set -u
. "$(dirname "$0")/lib.sh"
models=${AXON_MODELS:-$HOME/.cache/axon-models}
enter "$here/tests/data/embed"

# Misuse needs no model.
misused() { # misused TEXT ARGUMENT...
  local wanted=$1 status
  shift
  "$AXON" embed "$@" >found 2>&1
  status=$?
  [ $status = 2 ] || fail "axon embed $*: the exit status is $status"
  grep -qF -- "$wanted" found || fail "axon embed $*: $(cat found)"
}
misused 'no model given'
misused '--search needs files' m --search x
misused '--passages needs --search' m --passages 3 x
misused '--json does not go with -o' m --json -o x.npy x
misused '--search does not go with' m --search x --json y
"$AXON" embed nothing x >found 2>&1
[ $? = 1 ] || fail 'a missing model is no error'
grep -q 'nothing/config.json cannot be read' found || fail "$(cat found)"
mkdir other
echo '{"model_type": "roberta"}' >other/config.json
"$AXON" embed other x >found 2>&1
[ $? = 1 ] || fail 'another architecture is no error'
grep -q '"model_type" is "roberta"; Axon runs "bert"' found ||
  fail "$(cat found)"

for file in model.safetensors tokenizer.json config.json; do
  [ -e "$models/minilm/$file" ] && continue
  echo "skipped: $models/minilm/$file is missing (tools/models.sh)"
  exit "$bad"
done
ln -s "$models/minilm" .

# Sizes of config.json that do not fit each other or the weights.
ln -s "$models"/minilm/{model.safetensors,tokenizer.json} other
refused() { # refused EDIT MESSAGE
  sed "$1" minilm/config.json >other/config.json
  "$AXON" embed other x >found 2>&1
  [ $? = 1 ] || fail "$1 is no error"
  grep -qF "$2" found || fail "$1: $(cat found)"
}
refused '/hidden_size/s/384/385/' 'hidden_size is 385, and'
refused '/attention_heads/s/12/0/' '0 heads cannot share 384 numbers'
refused '/attention_heads/s/12/7/' '7 heads cannot share 384 numbers'
refused '/hidden_layers/s/6/60/' 'it contains no tensor "encoder.layer.6.'

"$AXON" embed minilm -o x.npy <texts.txt || fail 'a matrix is not saved'
"$AXON" embed minilm <texts.txt >x.txt || fail 'numbers are not written'
"$AXON" embed minilm --json <texts.txt >x.json || fail 'JSON is not written'
head -n 1 texts.txt | tr -d '\n' >one
"$AXON" embed minilm "$(cat one)" "$(sed -n 4p texts.txt)" >two.txt ||
  fail 'arguments are no texts'
tr -d '[],' <x.json | cmp - x.txt || fail 'JSON has other numbers'
[ "$(grep -c '^\[.*\]$' x.json)" = 7 ] || fail 'JSON has other lines'
cat >p.axn <<'END'
val wanted : f32[n, d] = load "expected.npy"
val found : f32[n, d] = load "x.npy"
fun row text =
  stack (lists.map (fn x => (parse_float x : f32[])) (strings.words text))
fun rows file : f32[?, ?] = stack (lists.map row (read_lines file))
val two = rows "two.txt"
do print (max (abs (wanted - found)) < 1e-5)
do print (allclose ~rtol:0.0 ~atol:1e-5 (rows "x.txt") found)
do print (max (abs (two.[0, :] - found.[0, :])) < 1e-5)
do print (max (abs (two.[1, :] - found.[3, :])) < 1e-5)
END
[ "$("$AXON" run p.axn 2>&1 | sort | uniq -c | tr -s ' ')" = ' 4 true' ] ||
  fail "$("$AXON" run p.axn 2>&1)"
: >empty
[ -z "$("$AXON" embed minilm <empty 2>&1)" ] || fail 'no text has embeddings'

# The passage that means the same comes first.
cat >pets.txt <<'END'
The stock market fell
by two percent.

A kitten lies
on a rug.

Rain is expected in the north.
END
"$AXON" embed minilm --search 'a cat on a mat' --passages 1 pets.txt texts.txt \
  >found 2>&1 || fail 'a search fails'
grep -q 'texts.txt:1$' found || fail "$(cat found)"
"$AXON" embed minilm --search 'a small cat' --passages 2 pets.txt >found 2>&1
head -n 1 found | grep -q 'pets.txt:4$' || fail "$(cat found)"
[ "$(wc -l <found)" = 4 ] || fail 'other than two passages'
exit "$bad"
