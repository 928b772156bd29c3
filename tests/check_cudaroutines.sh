#!/bin/bash
# Library operations (sort, scan, scatter, ...) on the target cuda with a fake
# driver and a fake NVRTC, as in check_cudarun.sh.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

. "$here/tests/cuda_fakes.sh"

test=$build/tests/unit/routines_test
if [ -x "$test" ]; then
  on_gpu timeout 1000 "$test" >"$work/output" 2>&1 || {
    fail "routines_test on the target cuda: status $?"
    grep -v 'RUN\|OK' "$work/output" | head -n 40
  }
fi

# Random keys that differ between calls, and operations that run on the host.
cat >routines.axn <<'END'
val x = reshape [70, 90] (f32 ((iota 6300 * 7) % 61)) - 30.0
do print (sum (transpose (bf16 x) * transpose (bf16 x)))
do print (sort (sum ~axis:1 x), argsort ~axis:0 x)
do print (iterate 3 (fn s => cumsum s * 0.5) x)
do print (topk 3 (cumsum ~axis:0 x))
do print (scatter (zeros [10]) (iota 6000 % 10) (f32 (iota 6000)))
fun draw (k : int) = permutation (fold_key (key 3) k) 10
fun some (k : int) : f32[3] = uniform (fold_key (key 4) k) [3] + 1.0
do print (draw 1, some 1)
do print (draw 2, some 2)
do print (for i < 5 => if i > 2 then sum (sort (x.[i, ...])) else 0.0)
END
cat >added.axn <<'END'
do print (scatter (zeros [10]) (iota 6000 % 11) (f32 (iota 6000)))
END
export AXON_CC_DEBUG="$work/sources"
mkdir "$work/sources"
same routines
same added 1
unset AXON_CC_DEBUG

test=$build/tests/unit/cudatexts_test
if [ -x "$test" ]; then
  timeout 1000 "$test" "$work/sources" >"$work/output" 2>&1 || {
    fail 'NVRTC compiles the library operations with messages or spills'
    head -n 40 "$work/output"
  }
fi

output=$(on_gpu "$AXON" plan routines.axn 2>&1)
grep -q 'lines sorted in shared memory' <<<"$output" ||
  fail "axon plan: no sort in shared memory: $output"
exit "$bad"
