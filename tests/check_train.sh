#!/bin/bash
# Kills a training run at 20 moments.  Each time, no checkpoint or a whole one
# is there.  The resumed run ends with the same bits as an undisturbed one, also
# after Ctrl-C, which saves the current step.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
cat >train.axn <<'E2'
val data : f32[n, 65] = load "../../examples/data/digits.csv"
val (x, y) = (data.[:, :64] / 16.0, i64 data.[:, 64])
fun net k p x =
  x |> nn.linear p.a |> nn.relu |> nn.dropout ~rate:0.2 k |> nn.linear p.b
fun loss k rows p = nn.cross_entropy (net k p (gather x rows)) (gather y rows)
fun score p = nn.cross_entropy (nn.linear p.b (nn.relu (nn.linear p.a x))) y
val start =
  let val (k, l) = split_key (key 1)
  in {a = nn.layer k [16, 64], b = nn.layer l [10, 16]} end
val trained =
  train.run ~steps:3000 ~batch:32 ~rows:(dim 0 x) ~validate:(Some score)
    ~checkpoint:"run.safetensors" ~every:10
    (train.adamw (optim.warmup 10 (optim.cosine ~steps:2990 0.01))) loss start
do save_tree "trained.safetensors" trained
E2
train() { timeout "$limit" "$AXON" run train.axn >out 2>err; }

train || fail "the undisturbed run fails: $(head -n 3 err)"
mv run.safetensors whole.safetensors
mv trained.safetensors wanted.safetensors

# The length of a header is in the first 8 bytes, the ends of the tensors in the
# header.
is_whole() {
  local header end
  header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
  end=$(head -c $((8 + header)) "$1" |
    grep -ao 'data_offsets":\[[0-9]*,[0-9]*' |
    sed 's/.*,//' | sort -n | tail -n 1)
  [ "$(stat -c %s "$1")" = $((8 + header + end)) ]
}

set -m # otherwise a program in the background ignores SIGINT
interrupted=0
for moment in $(seq 21); do
  signal=KILL
  [ "$moment" = 21 ] && signal=INT
  # Waits for another checkpoint, then for some steps.
  before=$(stat -c %i run.safetensors 2>/dev/null)
  "$AXON" run train.axn >out 2>err &
  pid=$!
  for _ in $(seq 500); do
    [ "$(stat -c %i run.safetensors 2>/dev/null)" != "$before" ] && break
    sleep 0.01
  done
  sleep "0.00$((RANDOM % 10))"
  kill -s $signal $pid 2>/dev/null && interrupted=$((interrupted + 1))
  wait $pid 2>/dev/null
  [ ! -e run.safetensors ] || is_whole run.safetensors ||
    fail "SIG$signal leaves a damaged checkpoint"
done
[ $interrupted = 21 ] || fail "only $interrupted runs were interrupted"
train || fail "the resumed run fails: $(head -n 3 err)"
cmp trained.safetensors wanted.safetensors ||
  fail 'other parameters after interruptions'
cmp run.safetensors whole.safetensors ||
  fail 'another checkpoint after interruptions'

# Ctrl-C between two periodic checkpoints saves the current step.
rm -f run.safetensors trained.safetensors
sed -i 's/~every:10/~every:300/' train.axn
inode() { stat -c %i run.safetensors 2>/dev/null; }
for moment in $(seq 6); do
  before=$(inode)
  "$AXON" run train.axn >out 2>err &
  pid=$!
  for _ in $(seq 1000); do
    [ "$(inode)" != "$before" ] && break
    sleep 0.01
  done
  sleep "0.0$((RANDOM % 3))"
  before=$(inode)
  kill -s INT $pid
  wait $pid 2>/dev/null
  status=$?
  [ $status = 130 ] || fail "status $status after SIGINT: $(head -n 3 err)"
  [ "$(inode)" != "$before" ] || fail "SIGINT $moment saves no checkpoint"
  is_whole run.safetensors || fail 'SIGINT leaves a damaged checkpoint'
done
train || fail "the run after SIGINT fails: $(head -n 3 err)"
cmp trained.safetensors wanted.safetensors ||
  fail 'other parameters after SIGINT'
cmp run.safetensors whole.safetensors || fail 'another checkpoint after SIGINT'
exit $bad
