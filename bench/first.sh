#!/bin/bash
# Compares the first call of a function with the following ones, when all its
# kernels are in the kernel cache:
#   bench/first.sh                  all rows: some minutes
#   bench/first.sh softmax conv     rows whose names contain these words
#   bench/first.sh --rounds 5 conv  5 processes for each row (default 2)
#   bench/first.sh --cold           an empty kernel cache: whole programs
#   bench/first.sh --help
# Each round is a new process.  Columns: the fastest first call, the fastest
# median of the following calls (ms), and the ratio.  The goal is 1.2 for calls
# of over 100 ms.  `!` marks rows that miss it.
. "$(dirname "$0")/lib.sh"
rounds=2 cold='' words=()
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;;
    --rounds) rounds=${2:?--rounds needs a number}; shift ;;
    --cold) cold=1 ;;
    -*) echo "bench/first.sh: unknown option $1; see --help" >&2; exit 2 ;;
    *) words+=("$1") ;;
  esac
  shift
done
work=$(mktemp -d)
# A detached compiler may still write there.
trap 'rm -rf "$work" 2>/dev/null || { sleep 3; rm -rf "$work"; }' EXIT

wanted() { # wanted NAME
  local word
  [ ${#words[@]} = 0 ] && return
  for word in "${words[@]}"; do
    case $1 in *"$word"*) return ;; esac
  done
  return 1
}

# call: the first and the median seconds of a new process.
call() {
  "$AXON" bench --json --quiet --seconds 0.1 "$work/row.axn" result |
    sed -E 's/.*"median":([0-9.e-]+).*"first":([0-9.e-]+).*/\2 \1/'
}

# row NAME EXPRESSION: the definitions are on stdin.
row() {
  wanted "$1" || return
  { cat; echo "fun result () = $2"; } >"$work/row.axn"
  call >/dev/null # compiles the kernels
  for ((i = 0; i < rounds; i++)); do call; done | awk -v name="$1" '
    !f || $1 < f { f = $1 }
    !s || $2 < s { s = $2 }
    END {
      if (!s) { printf "%-34s failed\n", name; exit }
      miss = f > 0.1 && f > 1.2 * s ? "!" : ""
      printf "%-34s %9.1f %9.1f %6.2f %s\n", name, f * 1e3, s * 1e3, f / s, miss
    }'
}

numbers() { echo "val $1 : $2$3 = ${4:-f32} (normal (key ${#1}) $3)"; }

softmax() { # softmax N
  numbers x f32 "[$1, $1]" |
    row "softmax (x xT / 90) x, $1" \
      'nn.softmax (x @ transpose x / 90.0) @ x'
}

product() { # product TYPE M K N
  { numbers x "$1" "[$2, $3]" "$1"; numbers ww "$1" "[$3, $4]" "$1"; } |
    row "x w, $1 $2 x $3 x $4" 'x @ ww'
}

gram() { # gram N
  numbers x f32 "[$1, $1]" | row "x xT, $1" 'x @ transpose x'
}

batched() { # batched COUNT N
  { numbers x f32 "[$1, $2, $2]"; numbers ww f32 "[$1, $2, $2]"; } |
    row "batched x w, $1 of $2" 'x @ ww'
}

shared() { # shared COUNT N
  { numbers x f32 "[$1, $2, $2]"; numbers ww f32 "[$2, $2]"; } |
    row "batched x w, same w, $1 of $2" 'x @ ww'
}

conv() { # conv IMAGES IN OUT SIDE
  {
    numbers x f32 "[$1, $2, $4, $4]"
    numbers ww f32 "[$3, $2, 3, 3]"
  } | row "conv 3x3, $1 x $2 x $4 x $4 to $3" \
    "nn.conv2d ~padding:1 {w = ww, b = zeros [$3]} x"
}

attention() { # attention BATCH HEADS LENGTH WIDTH
  {
    numbers q f32 "[$1, $2, $3, $4]"
    numbers kk f32 "[$1, $2, $3, $4]"
    numbers vvv f32 "[$1, $2, $3, $4]"
  } | row "attention, $1 x $2 x $3 x $4" 'nn.attention q kk vvv'
}

mlp() { # mlp ROWS WIDTH LAYERS
  { numbers x f32 "[$1, $2]"; numbers ww f32 "[$3, $2, $2]"; } |
    row "mlp, $1 x $2, $3 layers" \
      'nn.through (fn w x => nn.relu (x @ w * 0.03)) ww x'
}

resnet18() { # resnet18 IMAGES
  {
    echo "import \"$here/examples/models/resnet\" as model"
    numbers x f32 "[$1, 3, 224, 224]"
    echo 'val p = model.imagenet18 (key 2)'
    echo 'val s = model.resnet18_stats 64'
  } | row "resnet18, batch $1" 'model.resnet18 p s x'
}

mlp_gradient() { # mlp_gradient ROWS WIDTH
  {
    numbers x f32 "[$1, $2]"
    numbers a f32 "[$2, $2]"
    numbers bb f32 "[$2, $2]"
    echo 'fun loss (a, b) = mean (nn.relu (x @ a * 0.03) @ b)'
  } | row "mlp gradient, $1 x $2" \
    'case grad loss (a, bb) of (a, b) => sum a + sum b'
}

attention_gradient() { # attention_gradient BATCH HEADS LENGTH WIDTH
  {
    numbers q f32 "[$1, $2, $3, $4]"
    numbers kk f32 "[$1, $2, $3, $4]"
    numbers vvv f32 "[$1, $2, $3, $4]"
    echo 'fun loss (q, k, v) = sum (nn.attention q k v)'
  } | row "attention gradient, $1 x $2 x $3 x $4" \
    'case grad loss (q, kk, vvv) of (a, b, c) => sum a + sum b + sum c'
}

all_rows() {
  local n
  for n in 1024 2048 3072 4096; do softmax "$n"; done
  for n in 512 1024 2048 4096; do product f32 "$n" "$n" "$n"; done
  product f64 2048 2048 2048
  product bf16 2048 2048 2048
  product f16 2048 2048 2048
  product f32 96 8192 8192
  product f32 60000 256 256
  for n in 1024 2048 4096; do gram "$n"; done
  batched 64 512
  shared 64 512
  conv 8 64 64 112
  conv 8 256 256 56
  conv 32 512 512 14
  conv 16 3 64 224
  attention 4 8 1024 64
  attention 1 16 4096 64
  mlp 512 2048 6
  mlp 4096 1024 6
  resnet18 1
  resnet18 8
  mlp_gradient 2048 2048
  attention_gradient 2 8 1024 64
}

# cold NAME COMMAND...: seconds of a run with an empty cache, and of the second
# one.
cold() {
  local name=$1 first second start
  shift
  wanted "$name" || return
  export XDG_CACHE_HOME="$work/cache-$RANDOM"
  start=${EPOCHREALTIME/./}
  "$@" >/dev/null 2>"$work/err" </dev/null || cat "$work/err"
  first=$((${EPOCHREALTIME/./} - start)) start=${EPOCHREALTIME/./}
  "$@" >/dev/null 2>&1 </dev/null
  second=$((${EPOCHREALTIME/./} - start))
  printf '%-34s %9d %9d  kernels: %s\n' "$name" $((first / 1000)) \
    $((second / 1000)) "$(find "$XDG_CACHE_HOME" -name '*.so' | wc -l)"
}

all_cold() {
  cat >"$work/resnet18.axn" <<END
import "$here/examples/models/resnet" as model
do print (sum (model.classify18 (key 2) (normal (key 1) [1, 3, 224, 224])))
END
  cd "$here" || exit
  cold 'a small expression' "$AXON" -e \
    'nn.softmax (uniform (key 1) [400, 400] @ uniform (key 2) [400, 400])'
  cold 'resnet18' "$AXON" run "$work/resnet18.axn"
  cold 'a step of char_gpt' "$AXON" run examples/train/char_gpt.axn 1
}

if [ "$cold" ]; then
  printf '%-34s %9s %9s\n' 'empty cache, ms' first second
  all_cold
else
  printf '%-34s %9s %9s %6s\n' 'warm cache, ms' first steady ratio
  all_rows
fi
