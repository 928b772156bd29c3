#!/bin/bash
# Mutation tests of kernels that programs launch (tests/unit/cuda_mutants.h).
# Each mutant is killed: the GPU simulator detects an error, or memory differs
# afterwards.  Surviving mutants are listed in tests/cuda/FAMILY.survivors, with
# the reason why they are correct.
#
#     tests/check_cudamutants.sh [FAMILY...]
#
# By default, a few mutants of some families run.  The other modes run all
# families with a reviewed list of survivors, or the named ones.  MUTANTS=all
# runs all mutants, MUTANTS=9 one in nine, and MUTANTS=calls those of calls and
# conditions.  MUTANTS=listed runs the listed survivors, and reports those that
# are killed now.
set -u
. "$(dirname "$0")/lib.sh"
selected=" $* "
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET
. "$here/tests/cuda_fakes.sh"
reviewed=" elementwise elementwise_line transpose rows rows_long columns \
scatter_begin scatter_added reduced_parts "
each=37 default=" elementwise rows columns scatter_added "
[ "${MUTANTS:-}" = all ] && each=1 default=$reviewed
[ "${MUTANTS:-}" = calls ] && each=0 default=$reviewed
[ "${MUTANTS:-}" = listed ] && each=1 default=$reviewed
[[ "${MUTANTS:-}" =~ ^[0-9]+$ ]] && each=$MUTANTS default=$reviewed
[ "$selected" = "  " ] && selected=$default
export FAKE_MUTANTS FAKE_MUTANTS_FILE="$work/output" TMPDIR="$work/tmp"
mkdir "$TMPDIR"

# Runs mutants of the first kernel with this schedule (see cuda_mutants.h) of
# the program on stdin.
family() { # family NAME SCHEDULE [PROCESSORS]
  name=$1 processors=${3:-4} FAKE_MUTANTS="$each $2"
  [[ $selected == *" $name "* ]] || return 0
  cat >"$name.axn"
  rm -f "$work/output"
  list=$here/tests/cuda/${name%_*}.survivors
  [ "${MUTANTS:-}" = listed ] && export FAKE_MUTANTS_LIST=$list
  on_gpu timeout 3000 "$AXON" run "$name.axn" >"$work/printed" 2>&1 ||
    { echo "$name: status $?"; tail -n 3 "$work/printed"; bad=1; }
  grep -q ' starts$' "$work/output" 2>/dev/null ||
    { echo "$name: no kernel with the schedule $2"; bad=1; return; }
  while IFS= read -r mutant; do
    case $mutant in
    *' found, in '*' starts') [ "$each" -gt 1 ] || echo "$name: $mutant" ;;
    'found: '*) echo "$name: $mutant" ;;
    *)
      grep -qxF -e "$mutant" "$list" 2>/dev/null ||
        { echo "$name survives: $mutant"; bad=1; }
      ;;
    esac
  done <"$work/output"
  rm -rf "${TMPDIR:?}"/*
}

# Each program runs at several sizes, since some mutants are equivalent at one
# size only.  The operands are materialized and not contiguous.
start='fun ones n = f32 (iota n * 7919 % 10007) / 4000.0 - 1.0
fun some m n =
  (sort ~axis:0 (reshape [m + 2, n + 4] (ones ((m + 2) * (n + 4))))).[2:, 4:]
fun line n = (sort (ones (n + 4))).[4:]'

family elementwise 'points, blocks of 128, 2|fabs' 1 <<END
$start
do print (abs (some 37 62) * 0.5 + line 62)
do print (abs (some 41 66) * 0.5 + line 66)
END
family elementwise_line 'points, blocks of 128, 2|fabs' 1 <<END
$start
do print (abs (line 4095) * 0.5)
do print (abs (line 3001) * 0.5)
END
family transpose 'transposed tiles' 1 <<END
$start
do print (some 37 70 + transpose (some 70 37))
do print (some 70 37 + transpose (some 37 70))
END
family rows 'thread groups of 32, blocks of 128, rows' <<END
$start
fun f x =
  let val d = x - sum ~axis:1 ~keep:true x * 0.02
  in d / sqrt (sum ~axis:1 ~keep:true (d * d)) end
do print (f (some 37 61))
do print (f (some 29 49))
END
family rows_long 'thread groups of' <<END
$start
fun f x = x - max ~axis:1 ~keep:true x
do print (f (some 1030 301))
END
family columns 'thread groups of' <<END
$start
fun f x = sum ~axis:0 (x * x)
do print (f (some 300 37))
do print (f (some 257 45))
do print (f (some 257 70))
END
summed='do print (let val x = some 3 70004 in sum ~axis:1 (x * x) end)
do print (let val x = some 2 98308 in sum ~axis:1 (x * x) end)'
family chunks 'thread groups of|parts4[part' 64 <<<"$start
$summed"
family chunks_added 'thread groups of|= (const float *)(scratch' 64 <<<"$start
$summed"
# Attention with a sliding window: a query attends to a number of keys up to its
# own.  The first sizes are small and kill most mutants.  In one batch, keys
# beyond all windows are not finite, so that the kernel repeats its rows without
# trimming.  The other sizes have windows that end next to the start of a key
# tile (for the last and for the first query), keys that end within a tile,
# tiles without a mask, and queries and thread blocks that attend to no key.
# The last size has more keys than queries, and first tiles without a mask.
attended='fun m n s by far =
  sort ~axis:0 (for b < 2, h < 2, i < n, j < 40 =>
    bf16 (by * float ((b * 911 + h * 313 + i * s + j * 5) * 7919 % 1009 % 13) -
      by * 6.0 +
      (if b == 1 && h == 0 && i == far then inf else 0.0) +
      (if j >= 37 then nan else 0.0)))
fun near some x =
  let
    val row = iota (dim -2 x)
    val column = iota (dim -1 x)
  in
    select (column.[*, :] > row.[:, *] - some && column.[*, :] <= row.[:, *]) x
      (-inf)
  end
fun f rows terms by far some d e =
  let
    val q = (m rows 7 by rows).[:, :, :, :d]
    val k = (m terms 3 1.0 far).[:, :, :, :d]
    val v = (m terms 9 1.0 far).[:, :, :, :e]
  in softmax (near some (q @ transpose k / 6.0)) @ v end
do print (f 116 130 1.0 129 98 37 29)
do print (f 129 162 0.0625 162 66 33 25)
do print (f 256 218 0.0625 218 223 33 25)
do print (f 416 32 0.0625 32 260 37 29)
do print (f 129 162 0.0625 162 95 33 25)
do print (f 141 141 0.0625 141 1 33 25)
do print (f 301 330 0.0625 330 290 33 25)
do print (f 257 290 0.0625 290 240 33 25)
do print (f 257 290 0.0625 290 223 33 25)'
export AXON_SCHEDULES="$work/schedules"
echo 'attention * * *x*x* {way=mma copy=async m=64 warps_m=4 n=32 stages=2}' \
  >"$work/schedules"
family attention_mma 'fused attention' 16 <<<"$attended"
echo 'attention * * *x*x* {way=wgmma copy=engine m=128 warps_m=2 n=32' \
  'stages=2}' >"$work/schedules"
family attention_wgmma 'fused attention' 16 <<<"$attended"
sed -i 's/}/ persistent=1}/' "$work/schedules"
family attention_persistent 'fused attention' 3 <<<"$attended"
echo 'attention * * *x*x* {way=tcgen05 copy=engine m=256 warps_m=2 n=32' \
  'stages=2}' >"$work/schedules"
FAKE_CAPABILITY=100 family attention_tcgen05 'fused attention' 3 <<<"$attended"
echo 'gemm * * *x*x* {way=wgmma m=64 warps_m=1 n=32 stages=3 pingpong=0' \
  'flight=2 persistent=1 store=engine waiting=2}' >"$work/schedules"
family conv 'tile for sm_90a: way=wgmma|ax_tma_pixels' 2 <<'END'
fun some n by = sort (bf16 (f32 (iota n * by % 13) - 6.0))
fun few n by = sort (bf16 (for i < n =>
  if i == n - 300 then inf else float (i * by % 13) - 6.0))
fun bordered x =
  x |> pad ~axis:1 ~before:1 ~after:1 |> pad ~axis:2 ~before:2 ~after:1
fun conv x w =
  for n, y < 5, z < 4, u =>
    float (n * 31 + y * 7 + z * 3 + u) +
    sum (for i < 3, j < 3, a =>
      f32 x.[n, 2 * y + i, 2 * z + j, a] * f32 w.[u, i, j, a])
val w = reshape [40, 3, 3, 64] (some 23040 5)
do print (conv (bordered (reshape [5, 9, 8, 64] (some 23040 7))) w)
do print (conv (bordered (reshape [13, 9, 8, 64] (some 59904 7))) w)
do print (conv (bordered (reshape [3, 9, 8, 128] (few 27648 7)))
  (reshape [100, 3, 3, 128] (some 115200 5)))
do print (conv (bordered (reshape [27, 9, 8, 64] (some 124416 7))) w)
END
# Matmuls with fused row reductions.  All rows and columns differ, and elements
# beyond the last row or column, or masked ones, would change the result.  Some
# rows begin with an infinity of either sign, or consist of it.
reduced='val inf = 1.0 / 0.0
fun made m k s =
  sort ~axis:0 (for b < 2, i < m, j < k =>
    bf16 (if j > 0
      then float ((b * 911 + i * s + j * 5) * 7919 % 1009 % 13) - 6.0
      else if s == 9 then (if i < 40 then 4.0 else 1.0)
      else if i == 2 then -inf
      else if i == 3 then -3.0e38
      else if i == 4 then inf
      else if i == 5 then 3.0e38
      else -1.0))
fun near y =
  let
    val most = max ~axis:2 ~keep:true y
    val top = select (abs most == inf) 0.0 most
  in sum ~axis:2 (exp (y - top)) end
fun product m n k = f32 (made m k 7 @ transpose (made n k 9))'
exponents="$reduced
fun f m n k =
  let val x = product m n k
  in (argmax ~axis:2 x, near (x * 0.0625), x - 1.0) end
do print (f 130 51 136)
do print (f 37 150 24)"
echo 'gemm * * *x*x* {way=mma copy=async m=64 warps_m=2 warps_n=2 n=32 k=32' \
  'raster=2}' \
  >"$work/schedules"
family reduced_mma 'tile for|parts' <<<"$exponents"
family reduced_parts 'thread groups of|(scratch' <<<"$exponents"
echo 'gemm * * *x*x* {way=fma m=16 n=256 k=8 thread_m=8 thread_n=4 stages=3' \
  'raster=2}' \
  >"$work/schedules"
family reduced_fma 'tile for|parts' <<END
fun made m k s =
  sort ~axis:0 (for b < 2, i < m, j < k =>
    float ((b * 911 + i * s + j * 5) * 7919 % 1009 % 13) - 6.0)
fun f m n k =
  let
    val bias = (made 1 n 3).[1, 0, :]
    val x = made m k 7 @ transpose (made n k 9) + bias
  in (sum ~axis:2 x, max ~axis:2 x, sqrt (sum ~axis:2 (x * x))) end
do print (f 19 290 37)
do print (f 37 150 13)
END
echo 'gemm * * *x*x* {way=wgmma m=64 warps_m=1 n=32 stages=2 pingpong=0' \
  'cluster_n=2 raster=2}' \
  >"$work/schedules"
family reduced_wgmma 'tile for|parts' 2 <<END
$reduced
fun f m n k =
  let
    val x = product m n k
    val y = for b < 2, i < m, j < n =>
      if j < i then 0.0 - abs x.[b, i, j] * 0.0625 else -inf
  in (argmin ~axis:2 x, near y) end
do print (f 70 67 72)
do print (f 150 96 40)
END
# Products of 4-bit floats with scales: packed elements, negative scales, and
# three steps of k, in two stages.
echo 'gemm * * *x*x* {way=tcgen05 n=32 stages=2 store=shared raster=1}' \
  >"$work/schedules"
four='fun elements n s = sort ~axis:0 (reshape [n, 544]
  (f4_e2m1 (f32 (iota (n * 544) * s % 15) * 0.5 - 3.5)))
fun scales n s = sort ~axis:0 (reshape [n, 34]
  (f8_e4m3 (f32 (iota (n * 34) * s % 9) * 0.5 - 2.0)))
fun powers n s = sort ~axis:0 (reshape [n, 17]
  (f8_e8m0 (pow 2.0 (f32 (iota (n * 17) * s % 5)))))'
export FAKE_CAPABILITY=100
family scaled_nv 'tile for sm_100a: way=tcgen05' 1 <<END
$four
val (x, y) = (elements 133 7, elements 43 11)
val (xs, ys) = (scales 133 5, scales 43 7)
do print (x, y, xs, ys)
do print (fp4.dequantize_nv x xs 1.0 @ transpose (fp4.dequantize_nv y ys 1.0))
END
family scaled_mx 'tile for sm_100a: way=tcgen05' 1 <<END
$four
val (x, y) = (elements 133 7, elements 43 11)
val (xs, ys) = (powers 133 5, powers 43 7)
do print (x, y, xs, ys)
do print (fp4.dequantize_mx x xs @ transpose (fp4.dequantize_mx y ys))
val zs = sort (reshape [17, 133] (powers 133 5))
do print zs
val z = fp4.dequantize_mx x (transpose zs)
do print (z @ transpose (fp4.dequantize_mx y ys))
END
unset AXON_SCHEDULES FAKE_CAPABILITY
scanned='do print (cumsum ~axis:1 (reshape [3, 3000] (ones 9000)))
do print (cumsum ~axis:1 (reshape [2, 2901] (ones 5802)))
do print (cumsum (ones 20011))'
family scan 'running sums' <<<"$start
$scanned"
family scan_lines 'running sums@ax_scan_lines' <<<"$start
$scanned"
long='do print (cumsum ~axis:1 (reshape [2, 26011] (ones 52022)))
do print (cumsum (ones 30013))
do print (cumsum (ones 17011))'
family scanparts_sums 'sums of parts@ax_scan_parts' 16 <<<"$start
$long"
family scanparts_total 'sums of parts@ax_total' 16 <<<"$start
$long"
family scanparts_lines 'running sums@ax_scan_lines' 16 <<<"$start
$long"
family scan_columns 'running sums across memory@ax_scan_columns' <<END
$start
do print (cumsum ~axis:0 (reshape [300, 37] (ones 11100)))
do print (cumsum ~axis:0 (reshape [2, 133, 19] (ones 5054)))
END
across='do print (cumsum ~axis:0 (reshape [300, 37] (ones 11100)))
do print (cumsum ~axis:0 (reshape [2, 277, 5] (ones 2770)))'
family scanparts_across 'sums of parts@ax_scan_columns' 64 <<<"$start
$across"
family scanparts_later 'running sums across@ax_scan_columns' 64 <<<"$start
$across"
sorted='do print (sort ~axis:1 (reshape [2, 8232] (ones 16464)))
do print (sort (ones 8803))'
family sort_counted 'digits counted' <<<"$start
$sorted"
family sort_count 'digits counted@ax_digit_count' <<<"$start
$sorted"
family sort_moved 'moved by digits' <<<"$start
$sorted"
family sort_move 'moved by digits@ax_digit_move' <<<"$start
$sorted"
lines='do print (argsort ~axis:1 (reshape [3, 70] (ones 210)))
do print (argsort ~axis:0 (reshape [61, 5] (ones 305)))
do print (argsort ~axis:1 (reshape [3, 130] (ones 390)))'
family sort_lines 'lines sorted' <<<"$start
$lines"
family sort_short 'lines sorted@ax_sort_short' <<<"$start
$lines"
family sort_order 'lines sorted@ax_order_items' <<<"$start
$lines"
family sorted_values 'lines sorted@ax_sort_short' <<END
$start
do print (sort ~axis:1 (reshape [3, 70] (ones 210)))
do print (sort ~axis:0 (reshape [61, 5] (ones 305)))
do print (sort ~axis:1 (reshape [3, 130] (ones 390)))
END
largest='do print (topk 40 (reshape [2, 9000] (ones 18000)))
do print (topk 40 (reshape [2, 9216] (ones 18432)))
do print (topk 40 (reshape [2, 9000] (f32 ((iota 18000 + 8961) % 9000))))
do print (topk 260 (reshape [3, 8803] (ones 26409)))'
family top 'the largest' <<<"$start
$largest"
family top_kept 'the largest@ax_top' <<<"$start
$largest"
scattered="$start
do print (scatter (ones 300) (iota 3000 % 299) (f32 (iota 3000)))
do print (scatter (ones 281) (iota 2901 % 277) (f32 (iota 2901)))
do print (scatter (reshape [30, 7] (ones 210)) (iota 600 * 7 % 29)
  (reshape [600, 7] (ones 4200)))"
family scatter_begin 'where rows begin' <<<"$scattered"
family scatter_added 'rows added up' <<<"$scattered"
family scatter_starts 'where rows begin@ax_row_starts' <<<"$scattered"
family scatter_rows 'rows added up@ax_add_rows' <<<"$scattered"
exit "$bad"
