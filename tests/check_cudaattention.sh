#!/bin/bash
# GPU plans of attention, in many variants, with the sizes of models.  Each is
# one fused kernel, and the scores are never stored.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export AXON_NVRTC=/no/such/file
unset AXON_TARGET
bad=0

cat >forms.axn <<'END'
fun scores (q : bf16[b, h, n, d]) (k : bf16[b, h, m, d]) =
  einsum "b h i d, b h j d -> b h i j" (f32 q) (f32 k) / sqrt (float (dim -1 q))
fun weigh e (v : bf16[b, h, m, c]) =
  einsum "b h i j, b h j d -> b h i d" (f32 (bf16 e)) (f32 v)
(* the division by the sum follows the matmul *)
fun soft s v =
  let val e = exp (s - max ~axis:3 ~keep:true s)
  in bf16 (weigh e v / sum ~axis:3 ~keep:true e) end
(* softcapping, a distance bias and a mask, in bf16 *)
val seen = for i < 100, j < 100 => i * j % 3 != 0
fun far s =
  let val by = for i < dim -2 s, j < dim -1 s => bf16 (abs (i - j)) * 0.0625
  in f32 (select seen (bf16 (30.0 * tanh (s / 30.0)) + by) (-inf)) end
fun row s = (iota (dim -2 s)).[:, *]
fun column s = (iota (dim -1 s)).[*, :]
END

tensor() { # tensor NAME EXTENTS: the definition of a tensor with four axes
  read -r b h n d <<<"$2"
  echo "val $1 = for b < $b, h < $h, i < $n, j < $d =>"
  echo "  bf16 ((b + h + i + j) % 7)"
}

# Plans an expression for three architectures.  The kernel must use wgmma on
# sm_90a, tcgen05 on sm_100a and mma on sm_80, or WAY if it is given.
form() { # form NAME Q K V EXPRESSION [WAY]
  {
    echo 'import "forms" as it'
    echo 'open it'
    tensor q "$2"
    tensor k "$3"
    tensor v "$4"
    echo "fun run () = $5"
  } >"$1.axn"
  for of in sm_90a:wgmma ${sm_100a-sm_100a:tcgen05} sm_80:mma; do
    mkdir -p "$work/${of%:*}"
    output=$(AXON_CC_DEBUG=$work/${of%:*} "$AXON" plan -q \
      --target "cuda:${of%:*}" "$1.axn" -e 'run ()' 2>&1 | tr -s ' \n' ' ')
    grep -q "fused attention,.*way=${6:-${of#*:}}" <<<"$output" ||
      fail "$1 on ${of%:*}: no fused attention"
    grep -q 'stored [a-z0-9]*\[[0-9, ]*, [0-9]\{3,\}, [0-9]\{4,\}\]' \
      <<<"$output" && fail "$1 on ${of%:*}: scores are stored"
  done
}

long='1 32 16384 128'
# The scores take 4 TiB, which no GPU has.  axon plan must not allocate them.
vast='1 1 1048576 64'
form vast "$vast" "$vast" "$vast" 'soft (nn.causal_mask (scores q k)) v'
grep -q 'error' <<<"$output" && fail "vast: $output"
form long "$long" "$long" "$long" 'soft (nn.causal_mask (scores q k)) v'
form narrow '2 16 8192 64' '2 16 8192 64' '2 16 8192 64' 'soft (scores q k) v'
form sigmoid "$long" "$long" "$long" \
  'bf16 (weigh (nn.sigmoid (scores q k - log 16384.0)) v)'
form capped "$long" "$long" "$long" 'soft (30.0 * tanh (scores q k / 30.0)) v'
form window "$long" "$long" "$long" 'let val s = scores q k in
  soft (select ((column s <= row s) && (row s - column s < 1024)) s (-inf)) v
  end'
form alibi '4 16 4096 128' '4 16 4096 128' '4 16 4096 128' 'let
    val s = scores q k
    val slope = exp (-5.545177444 * float (iota 16 + 1) / 16.0)
    val far = float (row s - column s)
  in soft (nn.causal_mask (s - slope.[:, *, *] * far)) v end'
# The scores need many registers, which limits the tile size.
form far '2 2 100 16' '2 2 100 16' '2 2 100 32' 'soft (far (scores q k)) v' mma
form grouped '2 32 4096 128' '2 8 4096 128' '2 8 4096 128' \
  'nn.grouped_attention ~causal:true q k v'
form cross '2 16 1000 64' '2 16 1500 64' '2 16 1500 128' 'soft (scores q k) v'
form wide '2 16 4096 256' '2 16 4096 256' '2 16 4096 256' 'nn.attention q k v'
# On sm_100a, two products are predicted to be faster.
sm_100a='' form decoding '16 32 1 128' '16 8 4096 128' '16 8 4096 128' \
  'nn.grouped_attention q k v' '[a-z]*'

# The gradients of attention are three more kernels that store no scores.
gradient() { # gradient NAME Q K V EXPRESSION
  {
    for of in "q $2" "k $3" "v $4"; do
      extents=${of#* }
      echo "val ${of%% *} : bf16[${extents// /, }] ="
      echo "  bf16 (uniform (key 1) [${extents// /, }])"
    done
    echo "fun f (q, k, v) = sum (f32 (square ($5)))"
  } >"$1.axn"
  for of in sm_90a sm_80; do
    output=$(AXON_CC_DEBUG=$work/$of "$AXON" plan -q --target "cuda:$of" \
      "$1.axn" -e 'grad f (q, k, v)' 2>&1 | tr -s ' \n' ' ')
    [ "$(grep -o 'fused attention, tile' <<<"$output" | wc -l)" = 4 ] ||
      fail "$1 on $of: not 4 kernels"
    grep -q 'stored [a-z0-9]*\[[0-9, ]*, [0-9]\{3,\}, [0-9]\{4,\}\]' \
      <<<"$output" && fail "$1 on $of: scores are stored"
  done
}
gradient plain_gradient "$long" "$long" "$long" 'nn.attention q k v'
gradient causal_gradient "$long" "$long" "$long" \
  'nn.attention ~causal:true q k v'
gradient capped_gradient "$long" "$long" "$long" \
  'nn.softmax (30.0 * tanh (q @ transpose k / 240.0)) @ v'
gradient narrow_gradient '2 16 8192 64' '2 16 4096 64' '2 16 4096 128' \
  'nn.softmax (q @ transpose k + for i < 8192, j < 4096 =>
    bf16 (i - j) * -0.01) @ v'
# Each head has sums of its own, which another kernel adds.
gradient grouped_gradient '2 32 4096 128' '2 8 4096 128' '2 8 4096 128' \
  'nn.grouped_attention ~causal:true q k v'

# NVRTC, if installed, compiles the kernels for sm_90a and sm_100a without
# register spills, and without serialized wgmma instructions.
unset AXON_NVRTC
texts=${BUILD:-$here}/tests/unit/cudatexts_test
for of in sm_90a sm_100a; do
  [ -x "$texts" ] || break
  timeout 1500 "$texts" "$work/$of" >"$work/output" 2>&1 || {
    fail "kernels for $of through NVRTC"
    head -n 40 "$work/output"
  }
  grep '^skipped' "$work/output"
done
exit "$bad"
