#!/bin/bash
# Matmuls with fused row reductions on the target cuda with a fake driver
# (tests/cuda_fakes.sh): sum, maximum, argmax and logsumexp, with all matmul
# instructions.  Tests the default schedules and schedule files.  The matmul
# itself is never stored.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"

cat >start.axn <<'END'
fun ones s m (n : dim(n)) =
  sort (for i < m, j < n => f32 ((i * 7 + j * s) % 11 - 5))
fun look (a, b) =
  let
    val x = a @ b
    val y = f32 x * 0.0625
  in
    print (sum ~axis:1 (f32 x), max ~axis:1 (x * x), argmax ~axis:1 (nn.relu x),
      any ~axis:1 (y > 2.0),
      floor (logsumexp ~axis:1 y * 1000.0 + 0.5))
  end
(* the elements of the matmul are results, too, and have several readers *)
fun both x = print (sum ~axis:1 x, max ~axis:1 (x * x), i32 x, x > 2.0)
fun capped x =
  let val y = tanh (x * 0.03125) * 3.0
  in floor (logsumexp ~axis:1 y * 1000.0 + 0.5) end
(* partial maxima that are not finite *)
val inf = 1.0 / 0.0
fun odd a b =
  let
    fun at i (j : i64) =
      if i == 0 then -inf
      else if i == 1 then select (j < 40) (-inf) (-2000.0)
      else if i == 2 then select (j == 3) inf 1.0
      else if i == 3 then select (j == 70) (0.0 / 0.0) 0.0
      else if i == 4 then select (j < 40) (-3.0e38) 88.0
      else 0.0
    val x = for i, j => f32 (a @ b).[i, j] * 0.01 + at i j
    val m = max ~axis:1 ~keep:true x
  in
    (floor (logsumexp ~axis:1 x * 1000.0 + 0.5),
     floor (sum ~axis:1 (exp (x - m)) * 1000.0 + 0.5))
  end
END
{
  cat start.axn
  cat <<'END'
do look (ones 3 37 19, ones 5 19 150)
do look (ones 3 1 19, ones 5 19 1)
do look (ones 3 131 64, ones 5 64 257)
do look (f64 (ones 3 64 40), f64 (ones 5 40 129))
do look (f16 (ones 3 64 40), f16 (ones 5 40 129))
val q = bf16 (reshape [6, 20, 32] (f32 ((iota 3840 * 3) % 7)) - 3.0)
val k = bf16 (reshape [6, 25, 32] (f32 ((iota 4800 * 5) % 9)) - 4.0)
do print (sum ~axis:2 (einsum "b i k, b j k -> b i j" q k))
do print (max ~axis:0 (einsum "b i k, b j k -> b j i" q k))
val x = ones 3 40 24 @ ones 5 24 50
do print (sum ~axis:1 x, x.[3, ...])
do print (odd (ones 3 37 19) (ones 5 19 150))
do both (ones 3 37 19 @ ones 5 19 50)
(* v is not the largest, which is infinite *)
val y = for i < 7, j < 100 =>
  if j == 5 then inf else (ones 3 7 19 @ ones 5 19 100).[i, j]
val v = minimum (max ~axis:1 ~keep:true y) 200.0
do print (sum ~axis:1 (exp (y - v)))
(* a chain of operations, each result of which is used twice *)
fun sq z = z * z - 0.5 * z
fun deep z = sq (sq (sq (sq (sq (sq (sq (sq z)))))))
val z = logsumexp ~axis:1 (deep (deep (ones 3 37 19 @ ones 5 19 50 * 0.01)))
do print (floor (z * 1000.0 + 0.5))
(* the loops over a row are split among blocks; the row is divided by a sum *)
fun parts x =
  let val c = x - mean ~axis:1 ~keep:true x
  in max ~axis:1 (c * c / sum ~axis:1 ~keep:true (c * c)) end
do print (floor (parts (ones 3 1 20000) * 1.0e7))
do print (capped (ones 3 37 19 @ ones 5 19 50))
END
} >any.axn
{
  cat start.axn
  cat <<'END'
(* operands in memory, as TMA needs them: top-level values stay referenced *)
val (a, b) = (bf16 (ones 3 136 200), bf16 (ones 5 200 264))
val (c, d) = (f16 (ones 3 70 64), f16 (ones 5 64 72))
val (e, f) = (bf16 (ones 3 72 64), bf16 (ones 5 64 152))
val g = bf16 (ones 5 64 72)
do look (a, b)
do look (c, d)
do print (odd e f)
do both (f32 (e @ g))
END
} >group.axn

# Compares a program with the reference backend.  For each matmul instruction in
# MMA_KINDS, a matmul kernel must write partial row reductions.
check_tiles() { # check_tiles NAME CAPABILITY MMA_KINDS [SCHEDULE]
  export FAKE_CAPABILITY=$2
  mkdir "$work/sources"
  unset AXON_SCHEDULES
  if [ -n "${4:-}" ]; then
    printf '%s\n' "$4" >"$work/schedules"
    export AXON_SCHEDULES="$work/schedules"
  fi
  AXON_CC_DEBUG="$work/sources" same "$1"
  for mma_kind in $3; do
    tiles=$(grep -l "tile for.* way=$mma_kind " "$work"/sources/*.cu)
    # shellcheck disable=SC2086
    [ -n "$tiles" ] && grep -q 'parts[0-9]*\[part \* ' $tiles ||
      fail "$1, sm_$2: no partial row reductions with $mma_kind ${4:-}"
  done
  rm -rf "$work/sources"
}
check_tiles any 80 'mma fma'
check_tiles any 75 fma
any='gemm * * *x*x* {way'
wgmma="$any=wgmma m=64 warps_m=1 n=32 pingpong=0"
check_tiles group 90 wgmma "$wgmma cluster_n=2}"
check_tiles group 90 wgmma \
  "$any=wgmma m=128 warps_m=2 n=64 pingpong=0 stream=1}"
check_tiles group 90 wgmma \
  "$any=wgmma m=64 warps_m=2 n=32 pingpong=1 cluster_m=2}"
check_tiles group 80 mma "$any=mma split=3}"

# Random graphs.
test=$build/tests/unit/reduced_test
random() { # random CAPABILITY SEED COUNT
  export FAKE_CAPABILITY=$1
  on_gpu timeout 1000 "$test" "$2" "$3" >"$work/output" 2>&1 || {
    fail "reduced_test on sm_$1, $2 $3: status $?"
    grep -v 'RUN\|OK' "$work/output" | head -n 40
  }
}
unset AXON_SCHEDULES
if [ -x "$test" ]; then
  random 80 100 3
  random 75 300 1
  random 120 800 1
  echo "$wgmma}" >"$work/schedules"
  export AXON_SCHEDULES="$work/schedules"
  random 90 400 2
fi
exit "$bad"
