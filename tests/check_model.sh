#!/bin/bash
# The cost model orders the schedules of the recorded tables as well as
# bench/model/floors says, and a table that it orders worse is found.  So are
# counts of another build, a table without a floor, and a floor without a table.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
build=${BUILD:-$here}
[ -x "$build/bench/model/check" ] ||
  { echo 'skipped: bench/model/check is not built' && exit 0; }
export BUILD=$build
"$here/bench/check_model.sh" >"$work/out" 2>&1 ||
  fail "the tables: $(grep -v schedules "$work/out")" \
    "$(grep '[A-Z][A-Z]' "$work/out")"
tail -1 "$work/out"
[ "$(grep -c schedules "$work/out")" -ge 16 ] ||
  fail "tables: $(cat "$work/out")"

# times in the opposite order
awk '/^point/ { $2 = 1 / $2 } { print }' \
  "$here/bench/model/product_256.intel6_85.csv" \
  >"$work/turned.csv"
share=$("$build/bench/model/check" "$work/turned.csv" | awk '{ print $6 }')
awk -v s="$share" 'BEGIN { exit !(s < 0.3) }' ||
  fail "a table with inverse times is ordered: $share"
echo 'point 1 0' >"$work/short.csv"
"$build/bench/model/check" "$work/short.csv" >/dev/null 2>&1
[ $? = 2 ] || fail 'a line without counts is no error'

# A task of a convolution counts the input that its window is copied from as
# data that L2 holds: 14 image rows, not 19.
cat >"$work/conv.axn" <<'END'
val g = normal (key 1) [8, 64, 56, 56]
val x = normal (key 2) [8, 64, 56, 56]
val w = normal (key 3) [64, 64, 3, 3]
fun convolved x = nn.conv2d ~padding:1 {w, b = zeros [64]} x
fun result () = case vjp convolved x of (_, pullback) => pullback g
END
if grep -q avx512vl /proc/cpuinfo; then
  AXON_CACHES=32768,1048576,33554432 AXON_THREADS=8 AXON_TARGET=cpu \
    XDG_CACHE_HOME=$work "$AXON" plan --dry --schedule -e 'result ()' \
    "$work/conv.axn" >"$work/out" 2>&1
  grep -q 'image_rows=14 ' "$work/out" ||
    fail "the task of a convolution: $(grep gemm "$work/out")"
fi

# Options that exclude each other, and rates that were not measured.
"$here/bench/record_model.sh" --counts --compare >"$work/out" 2>&1
[ $? = 2 ] && grep -q 'not allowed with' "$work/out" ||
  fail "--counts --compare: $(cat "$work/out")"
cat >"$work/fake" <<'END'
#!/bin/sh
[ "$1" = doctor ] || exit 1
echo '{"core": {"measured": true, "clock_hz": 3e9, "cache_bytes": [1, 2, 3],
  "typical": ["fma_bf16"], "kept": ["loads", "l2"]}}'
END
chmod +x "$work/fake"
if command -v python3 >/dev/null && grep -q avx512vl /proc/cpuinfo; then
  AXON=$work/fake TABLES=$work "$here/bench/record_model.sh" blur \
    >"$work/out" 2>&1 && fail 'a table without kernels'
  grep -q 'rates disturbed.*: loads, l2' "$work/out" &&
    grep -q 'rates typical.*: fma_bf16' "$work/out" ||
    fail "rates that were not measured: $(cat "$work/out")"
fi

faulty() { # faulty WHAT WORDS: the tables of $work/tables have this fault
  TABLES=$work/tables "$here/bench/check_model.sh" >"$work/out" 2>&1 &&
    fail "$1 is accepted"
  grep -q -- "$2" "$work/out" || fail "$1: $(cat "$work/out")"
}
copy() {
  rm -rf "$work/tables"
  mkdir "$work/tables"
  cp "$here"/bench/model/*.csv "$here/bench/model/floors" "$work/tables"
}
copy
rm "$work/tables/blur.amd25_17.csv"
faulty 'a floor without a table' 'blur.amd25_17.csv  NO TABLE'
copy
sed -i '/^blur.amd/d' "$work/tables/floors"
faulty 'a table without a floor' 'blur.amd25_17.csv .*NO FLOOR'
if ! grep -q 'not compared' "$work/out"; then
  copy
  # the third number counts tasks
  sed -i 's/^\(point [^ ]* [^ ]*\) [^ ]*/\1 77/' \
    "$work/tables/conv_28.amd25_17.csv"
  faulty 'a table with other counts' 'other counts.*: conv_28.amd25_17.csv;'
fi
exit "$bad"
