#!/bin/bash
# `axon build`: gcc and clang compile the generated C source without warnings,
# and C programs can call it.  Functions that cannot be built are reported.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
data=$here/tests/data/build

build() { # build OUTPUT
  "$AXON" build --entry forward --entry scale --entry pick \
    --entry over --entry steps --entry four --entry area \
    --entry 'tail : f32[n] -> dim(k) -> _' -o "$work/$1" "$data/small.axn" ||
    fail "cannot build $1"
}

# Compiles and runs a program, and compares its output with small.expected.
program() { # program NAME COMPILER...
  name=$1
  shift
  if ! "$@" -I "$work" -o "$work/program" -lm -pthread ||
    ! "$work/program" >"$work/out" ||
    ! diff -u "$data/small.expected" "$work/out"; then
    fail "$name: $*"
  fi
}

sanitize=undefined # the address sanitizer needs unlimited memory
[ "$(ulimit -v)" = unlimited ] && sanitize=address,undefined
strict='-std=c11 -pedantic -Wall -Wextra -Werror -Wno-psabi'
build small.c
cp "$work/small.c" "$work/first.c"
build small.c
cmp "$work/small.c" "$work/first.c" || fail 'the source is not reproducible'
grep -q -e "$work" -e "$data" "$work/small.c" &&
  fail 'the source contains a path of this machine'
for cc in gcc clang; do
  command -v "$cc" >/dev/null || continue
  # shellcheck disable=SC2086
  program source "$cc" $strict -O3 "$data/small.c" "$work/small.c"
  # shellcheck disable=SC2086
  program portable "$cc" $strict -O1 -DAXON_PORTABLE "$data/small.c" \
    "$work/small.c"
done
# shellcheck disable=SC2086
program sanitized cc $strict -g -fsanitize="$sanitize" \
  -fno-sanitize-recover "$data/small.c" "$work/small.c"
grep -q '^  /\* line 5: x \* by : f32\[n\]' "$work/small.c" ||
  fail 'no comment with a line of the program'
grep -q '^  for (int64_t u = begin; u < end; u++) {$' "$work/small.c" ||
  fail 'kernels are not indented'
cc -ffast-math -fsyntax-only "$work/small.c" 2>/dev/null &&
  fail '-ffast-math is accepted'
for kind in o a so; do
  build "small.$kind"
  program "$kind" cc "$data/small.c" "$work/small.$kind" -Wl,-rpath,"$work"
  mkdir "$work/small.$kind.moved" # pkg-config finds it there, see below
  cp "$work/small."{h,pc,"$kind"} "$work/small.$kind.moved"
done
libc='malloc|calloc|free|memcpy|memset|[a-z0-9]+f?'
pool='pthread_[a-z_]+|sched_get(affinity|cpu)|clock_gettime'
pool="$pool|_?_?[a-z0-9_]*(strtol|fscanf)"
# Prints the undefined symbols that the pattern NAMES does not match.
extra_symbols() { # extra_symbols NAMES NM-ARGUMENT...
  names=$1
  shift
  nm "$@" | awk '{print $NF}' |
    grep -vE '^(_ITM_.*|__gmon_start__|__cxa_finalize)(@.*)?$' |
    grep -vE "^($names)(@.*)?\$"
}
extra_symbols "$libc|$pool|__sched_cpucount" -D --undefined-only \
  "$work/small.so" && fail 'the library needs more than libc and libm'
cc -Wno-psabi -c -I "$work" -o "$work/alone.o" "$work/small.c"
extra_symbols "$libc|_GLOBAL_OFFSET_TABLE_" --undefined-only "$work/alone.o" &&
  fail 'the source needs more than libc and libm'
if command -v c++ >/dev/null; then
  echo '#include "small.h"' >"$work/header.cc"
  c++ -Wall -Wextra -Werror -pedantic -I "$work" -fsyntax-only \
    "$work/header.cc" || fail 'the header does not compile in C++'
fi
if command -v python3 >/dev/null; then
  python3 - "$work/small.json" <<'END' || fail 'the manifest is wrong'
import json, sys
m = json.load(open(sys.argv[1]))
assert m["module"] == "small"
f = {f["name"]: f for f in m["functions"]}
assert f["scale"]["symbol"] == "small_scale"
assert [s["name"] for s in f["tail"]["sizes"]] == ["n", "k"]
assert f["forward"]["arguments"][0] == {
    "name": "p_w", "dtype": "f32", "type": "f32[m, n]", "pass": "pointer"}
assert f["scale"]["arguments"][1]["pass"] == "value"
assert len(f["pick"]["results"]) == 2
assert "an index is out of bounds" in " ".join(m["codes"])
END
fi

# Uses determine the element type of a global value.
cat >"$work/global.axn" <<'END'
val rate = 0.5
fun scale x = x * rate
fun use (x : f64[n]) = scale x
END
"$AXON" build --entry 'scale : f64[n] -> _' -o "$work/global.c" \
  "$work/global.axn" && grep -q 'double' "$work/global.h" ||
  fail 'the element type of a global value is not that of its use'

# With several threads, results are bit-identical to those of one thread.
# --wrap=pthread_create makes the program count the threads that it starts.
wrap=-Wl,--wrap=pthread_create
# Compares the results of one run with $work/bits, and sets $started to the
# number of started threads.
run_threads() { # run_threads NAME MODE THREADS
  AXON_THREADS=$3 "$work/$1" "$2" >"$work/out" 2>"$work/started" ||
    fail "$1 $2, $3 threads: $(head -20 "$work/started")"
  started=$(cat "$work/started")
  if [ "$2" = hosts ]; then
    cat "$work/bits" "$work/bits" "$work/bits" | cmp -s - "$work/out"
  else
    cmp -s "$work/bits" "$work/out"
  fi || fail "$1 $2, $3 threads: different results"
}
check_threads() { # check_threads NAME: runs all modes of threads.c
  run_threads "$1" '' 1
  [ "$started" = 0 ] || fail "$1: $started threads, although one is requested"
  run_threads "$1" '' 3
  [ "$started" -gt 0 ] || fail "$1: no thread was started"
  run_threads "$1" fail 3
  run_threads "$1" hosts 3
}
"$AXON" build -o "$work/threads.c" "$data/threads.axn" ||
  fail 'cannot build threads.c'
"$AXON" build -o "$work/threads.a" "$data/threads.axn" ||
  fail 'cannot build threads.a'
compile_threads() { # compile_threads NAME COMPILER...
  name=$1
  shift
  # shellcheck disable=SC2086
  "$@" $strict "$wrap" -pthread -I "$work" -o "$work/$name" \
    "$data/threads.c" "$work/threads.$kind" -lm || fail "$name: $*"
}
kind=c compile_threads serial cc -O2
"$work/serial" >"$work/bits" 2>"$work/started" ||
  fail 'the program without threads fails'
[ "$(cat "$work/started")" = 0 ] || fail 'threads without AXON_PTHREADS'
kind=c compile_threads pool cc -O2 -DAXON_PTHREADS
check_threads pool
kind=a compile_threads archive cc
AXON_THREADS=1 "$work/archive" >"$work/bits" 2>/dev/null
check_threads archive
echo 'int main(void) { return 0; }' >"$work/nothing.c"
for cc in gcc clang; do
  [ "$(ulimit -v)" = unlimited ] && command -v "$cc" >/dev/null &&
    "$cc" -fsanitize=thread -o "$work/nothing" "$work/nothing.c" 2>/dev/null &&
    "$work/nothing" 2>/dev/null || continue
  kind=c compile_threads "races.$cc" "$cc" -O1 -g -fsanitize=thread \
    -DAXON_PTHREADS
  AXON_THREADS=1 "$work/races.$cc" >"$work/bits" 2>/dev/null
  check_threads "races.$cc"
done

# Sizes that select different specializations of a kernel (multiversioning).
"$AXON" build -o "$work/versions.c" "$data/versions.axn" ||
  fail 'cannot build versions.c'
for flags in "-O0 -fsanitize=$sanitize -fno-sanitize-recover" \
  '-O2 -march=native' '-O1 -DAXON_PORTABLE'; do
  # shellcheck disable=SC2086
  cc $strict $flags -DAXON_PTHREADS -pthread -I "$work" -o "$work/program" \
    "$data/versions.c" "$work/versions.c" -lm && "$work/program" ||
    fail "versions: $flags"
done
# Convolution windows, bf16 dot products and one-pass reductions, at unusual
# sizes.  The library is compiled for this processor, without warnings.
"$AXON" build -o "$work/windows.c" "$data/windows.axn" ||
  fail 'cannot build windows.c'
AXON_CC='cc -pedantic -Wall -Wextra -Werror' "$AXON" build \
  -o "$work/windows.so" "$data/windows.axn" || fail 'cannot build windows.so'
# shellcheck disable=SC2086
cc $strict -O1 -DAXON_PORTABLE -I "$work" -o "$work/program" \
  "$data/windows.c" "$work/windows.c" -lm && "$work/program" ||
  fail 'windows: portable'
cc -O2 -I "$work" -o "$work/program" "$data/windows.c" "$work/windows.so" \
  -Wl,-rpath,"$work" && "$work/program" || fail 'windows.so fails'
grep -q 'a window that a cache holds' "$work/windows.json" ||
  fail 'no windows in the manifest'
grep -q '"versions":"n <= 1; ' "$work/versions.json" ||
  fail 'no versions in the manifest'

# Name clashes: the module has the name of an identifier of the generated code.
echo 'fun div (x : f32[n]) = x / 2.0' >"$work/size.axn"
"$AXON" build -o "$work/size.c" "$work/size.axn" || fail 'cannot build size.c'
# shellcheck disable=SC2086
cc $strict -fsyntax-only -I "$work" "$work/size.c" ||
  fail 'the module name clashes with the generated code'
echo 'fun x (x : f32[n]) (k : f32[n]) = x + k
fun out (x : f32[n]) = {rows = x + 1.0, most = x * 2.0}
fun n (k : dim(k)) (x : f32[k, m]) = sum ~axis:0 x' >"$work/own.axn"
for name in n o p s; do
  "$AXON" build -o "$work/$name.c" "$work/own.axn" ||
    fail "cannot build $name.c"
  # shellcheck disable=SC2086
  cc $strict -fsyntax-only -I "$work" "$work/$name.c" ||
    fail "module $name: parameter names clash with function names"
done
# Name clashes: functions have the names of generated declarations.
for name in f_call f f_strided f_strided_call f_rows message; do
  echo "fun $name (x : f32[n, m]) = x + 1.0"
done >"$work/same_names.axn"
"$AXON" build -o "$work/same_names.c" "$work/same_names.axn" ||
  fail 'cannot build same_names.c'
# shellcheck disable=SC2086
cc $strict -fsyntax-only -I "$work" "$work/same_names.c" ||
  fail 'function names clash with generated declarations'

# Parameter names that are keywords or macros of C and C++.
for word in int64_t typeof linux errno complex compl requires nullptr \
  static_cast char8_t and_eq; do
  echo "fun of_$word ($word : f32[n]) = $word * 2.0"
done >"$work/words.axn"
"$AXON" build -o "$work/words.c" "$work/words.axn" ||
  fail 'cannot build words.c'
for language in '-x c -std=gnu11' '-x c++ -std=gnu++20'; do
  head='#include <errno.h>\n#include <complex.h>\n#include "words.h"\n'
  # shellcheck disable=SC2086,SC2059
  printf "$head" | cc $language -I "$work" -fsyntax-only - ||
    fail "keywords as parameter names: $language"
done

# pkg-config finds the package after it was moved.
if command -v pkg-config >/dev/null; then
  build libsmall.so
  mkdir "$work/libsmall.so.moved"
  cp "$work/libsmall."{h,pc,so} "$work/libsmall.so.moved"
  rm "$work"/{,lib}small.{h,pc,so} "$work/small.a"
  for made in small.so small.a libsmall.so; do
    module=${made%.*} moved=$work/$made.moved
    sed "s/small\([_.][a-z]\)/$module\1/g" "$data/small.c" >"$work/call.c"
    flags=$(PKG_CONFIG_PATH=$moved pkg-config --cflags --libs "$module") ||
      fail "pkg-config does not find $made"
    # shellcheck disable=SC2086
    cc -Wno-psabi -o "$work/program" "$work/call.c" $flags &&
      LD_LIBRARY_PATH=$moved "$work/program" >"$work/out" &&
      diff -u "$data/small.expected" "$work/out" || fail "$made by pkg-config"
  done
fi

# Models: the built functions give the results of `axon run`.  clang takes half
# the time of gcc, with sanitizers.
sanitizing=cc
command -v clang >/dev/null && sanitizing=clang
"$AXON" build -o "$work/models.c" "$data/models.axn" ||
  fail 'cannot build models.c'
# shellcheck disable=SC2086
if "$sanitizing" $strict -fsanitize="$sanitize" \
  -fno-sanitize-recover=all -DAXON_PTHREADS -pthread -I "$work" \
  -o "$work/program" "$data/models.c" "$work/models.c" -lm; then
  "$work/program" >"$work/built" || fail 'models fail with sanitizers'
  "$AXON" run "$data/models_run.axn" | tail -54 >"$work/run"
  paste "$work/run" "$work/built" | awk '
    { d = $1 - $2; size = $1 < 0 ? -$1 : $1 }
    NF != 2 || d * d > 1e-8 * (1 + size) * (1 + size) { print; bad = 1 }
    END { exit bad || NR != 54 }' || fail 'models: axon run differs'
else
  fail 'models.c does not compile'
fi

# Programs: --help lists the arguments.  They read the arguments, and print or
# save the results.
entries=(--entry forward --entry scale --entry pick --entry over --entry
  halves --entry 'tail : f32[n] -> dim(k) -> _')
"$AXON" build "${entries[@]}" -o "$work/small" "$data/small.axn" ||
  fail 'cannot build a program'
"$AXON" build --entry double -o "$work/double" "$data/small.axn" ||
  fail 'cannot build a program of one function'
[ -e "$work/double.h" ] && fail 'a program has no header'
stdio='f(open|read|write|close|error|flush|printf|put[cs])|put[cs]|remove|exit'
stdio="$stdio|_?_?(v?f?|sn?)printf(_chk)?|std(out|err)|str[a-z]+|__errno_.*"
stdio="$stdio|l?stat|realpath|rename|fdopen|access|f?ch(mod|own)|getpid|free"
stdio="$stdio|__libc_start_main|__isoc23_.*|mem.*|__(f|v|s).*_chk|__stack_.*"
extra_symbols "$libc|$pool|__sched_cpucount|$stdio" -D --undefined-only \
  "$work/small" && fail 'the program needs more than libc and libm'
(
  cd "$work" || exit 1
  "$AXON" run "$data/files.axn" || exit 1
  { echo '== help'
    ./small --help
    ./small forward --help
    ./double --help
    for line in 'small forward w.npy b.npy x.npy' \
      'small forward x=x.npy p.w=w.npy b.npy' 'small scale b.npy -1.5' \
      'small pick b.npy i.npy -o 1=sum.npy -o y.npy' 'double y.npy' \
      'double -- y.npy' 'small tail b.npy 1' 'double sum.npy' 'small' \
      'small halves h.npy 0.1 true' 'small halves h.npy -inf false' \
      'small halves h.npy 0.1 2' 'small nothing' 'double' 'double y.npy y.npy' \
      'double b=y.npy' 'double --bad' 'double y.npy -o' 'double none.npy' \
      'double i.npy' 'double w.npy' 'double first.c' 'double y.npy -o none/y' \
      'double y.npy -o /dev/full' \
      'small forward w.npy y.npy w.npy' 'small forward w.npy b.npy y.npy' \
      'small scale b.npy x.npy' 'small scale b.npy s.npy' \
      'small scale b.npy 1,5' 'small pick b.npy i.npy x=b.npy' \
      'small tail b.npy 3' 'small pick b.npy far.npy' 'double cut.npy'
    do
      [ "$line" = 'double cut.npy' ] && head -c 132 b.npy >cut.npy
      echo "== $line"
      # shellcheck disable=SC2086
      ./$line 2>&1 || echo "status $?"
    done
  } >out
  sed 's/ *$//' out | diff -u "$data/program.expected" -
) || fail 'the output of programs differs'
[ -c /dev/full ] || fail 'a device was replaced by a file'
# The order of numbers in structures, with NaN and of sizes.
cat >"$work/orders.axn" <<'END'
fun orders (x : f32[n]) (y : f32[m]) =
  for i => for j => compare (x.[i], n, y.[j]) (y.[j], m, x.[i])
fun of_tensors (x : f32[n]) (y : f32[n]) = less x y
fun of_sizes (x : f32[?]) (y : f32[?]) = equal x y
END
cat >"$work/ordered.axn" <<'END'
import "./orders" as m
val (x, y) = ([1.0, 0.0 / 0.0, -0.0, 2.0], [0.0 / 0.0, 0.0, 1.0])
do save "x.npy" x
do save "y.npy" y
do print (m.orders x y)
END
(cd "$work" && "$AXON" ordered.axn >ordered.out &&
  "$AXON" build --entry orders -o orders orders.axn &&
  ./orders x.npy y.npy | diff -uw ordered.out - >&2) ||
  fail 'the order of numbers differs'
# Programs read and print 8-bit floats, and convert files of f32.
cat >"$work/octets.axn" <<'END'
fun octets (x : f8_e4m3[n]) (y : f8_e5m2[n]) (z : f8_e4m3) =
  (x, y, f32 (x * z), sum ~axis:0 (f8_e5m2 x + y))
END
echo 'do save "x.npy" (f32 [0.0, -0.0, 0.001, 1.0625, 500.0, -inf, nan, 464.0])
do save "y.npy" (f32 [1e-5, -0.0, 1.1, 7e4, 61439.0, -inf, nan, 1.0])' \
  >"$work/octets_files.axn"
(cd "$work" && "$AXON" run octets_files.axn &&
  "$AXON" build -o octets octets.axn && ./octets x.npy y.npy 0.5 >octets.out &&
  diff -u - octets.out >&2 <<'END'
0 = [0.0, -0.0, 0.00195312, 1.0, 448.0, -448.0, nan, 448.0]
1 = [1.52588e-05, -0.0, 1.0, inf, 57344.0, -inf, nan, 1.0]
2 = [0.0, -0.0, 0.0, 0.5, 224.0, -224.0, nan, 224.0]
3 = nan
END
) || fail '8-bit floats in a program'
cat >"$work/blocks.axn" <<'END'
fun blocks (x : f4_e2m1[n]) (y : f8_e8m0[n]) (z : f4_e2m1) (s : f8_e8m0) =
  (x, y, f32 x * f32 y, z, s, sort x)
END
echo 'do save "x.npy" (f32 [0.25, -0.0, 0.75, -5.0, 5.1, nan, -inf, -1.75])
do save "y.npy" (f32 [0.5, 1.5, 1.49, 0.25, -2.0, nan, inf, 1024.0])' \
  >"$work/blocks_files.axn"
(cd "$work" && "$AXON" run blocks_files.axn &&
  "$AXON" build -o blocks blocks.axn && ./blocks x.npy y.npy -3.5 96 \
    >blocks.out && diff -u - blocks.out >&2 <<'END'
0 = [0.0, -0.0, 1.0, -4.0, 6.0, 6.0, -6.0, -2.0]
1 = [0.5, 2.0, 1.0, 0.25, 5.87747175e-39, nan, 1.70141183e+38, 1024.0]
2 = [0.0, -0.0, 1.0, -1.0, 3.526483e-38, nan, -inf, -2048.0]
3 = -4.0
4 = 128.0
5 = [-6.0, -4.0, -2.0, 0.0, -0.0, 1.0, 6.0, 6.0]
END
) || fail 'elements of scaled blocks in a program'
# An index in a loop that does not run may be invalid.
cat >"$work/idle.axn" <<'END'
fun idle (x : f32[n]) (i : i64[1]) (y : f32[k]) =
  sum (for j < k => y.[j] * x.[i.[0]])
END
echo 'do save "three.npy" (f32 (iota 3))
do save "seven.npy" (iota 1 + 7)
do save "none.npy" (f32 (iota 0))' >"$work/idle_files.axn"
(cd "$work" && "$AXON" run idle_files.axn &&
  "$AXON" build -o idle idle.axn &&
  [ "$(./idle three.npy seven.npy none.npy)" = 0.0 ] &&
  ! ./idle three.npy seven.npy three.npy >idle.out 2>&1 &&
  grep -q 'out of bounds' idle.out) ||
  fail 'an index in a loop that does not run'

if command -v python3 >/dev/null; then # big-endian and Fortran-order files
  (cd "$work" && python3 - <<'END' && ./double turned.npy >out &&
import struct
def save(name, type, order, shape, data):
    head = str({"descr": type, "fortran_order": order, "shape": shape})
    head = head.ljust(117).encode() + b"\n"
    size = struct.pack("<H" if name != "two.npy" else "<I", len(head))
    version = b"\1\0" if name != "two.npy" else b"\2\0"
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY" + version + size + head + data)
save("turned.npy", ">f4", True, (3,), struct.pack(">3f", 1, 2, 3))
save("x.npy", ">f4", True, (4, 3), struct.pack(">12f", *range(12)))
save("huge.npy", "<f4", False, (1 << 40, ), b"")
save("two.npy", "<f4", False, (2, 3), struct.pack("<6f", *range(6)))
END
  [ "$(cat out)" = '[2.0, 4.0, 6.0]' ] &&
    [ "$(./small forward two.npy b.npy x.npy | tr -d ' \n')" = \
      '[[21.0,58.0],[24.0,70.0],[27.0,82.0],[30.0,94.0]]' ]) ||
    fail 'big-endian or Fortran-order files are read wrongly'
  (cd "$work" && ./double huge.npy 2>&1) |
    grep -q 'huge.npy is truncated: expected f32\[1099511627776\]' ||
    fail 'a file with a huge shape in its header is not rejected'
fi

refused() { # refused PATTERN ARGUMENT...: the error matches the pattern
  pattern=$1
  shift
  "$AXON" build "$@" >"$work/out" 2>&1 && fail "not refused: $*"
  grep -q -- "$pattern" "$work/out" ||
    { fail "no '$pattern' in the error of $*:"; cat "$work/out"; }
}
echo 'fun id x = x' >"$work/open.axn"
cat >"$work/kinds.axn" <<'END'
fun pair (x : f32[n]) = list [x, x]
fun says (x : f32[n]) = (print "so"; x)
fun three () = 3.0
(** Twice, */ with /* in it. *)
fun twice (x : f32[n]) = x * 2.0
END
echo 'fun f (x : f32[n]) = while (fn y => sum y > 1.0) (fn y => y * 0.5) x
fun g (x : f32[n, m]) = map f x' >"$work/while.axn"
refused 'no output given' "$data/small.axn"
refused 'ends in .c, .o, .a or .so, or' -o m.exe "$data/small.axn"
mkdir "$work/folder.so"
mkfifo "$work/fifo"
refused 'folder.so is not a regular file' -o "$work/folder.so" "$data/small.axn"
refused 'fifo is not a regular file' -o "$work/fifo" "$data/small.axn"
refused 'not a valid C name' -o "$work/a-b.c" "$data/small.axn"
echo 'do print 3
fun f (x : f32[n]) = x' >"$work/does.axn"
refused 'top-level effects cannot' -o "$work/m" "$work/does.axn"
echo 'fun main () = print 1' >"$work/prints.axn"
refused '`print` is not possible' -o "$work/m" "$work/prints.axn"
echo 'fun main () = sum (for i < 5 => f32 i)' >>"$work/does.axn"
"$AXON" build -o "$work/m" "$work/does.axn" && [ "$("$work/m")" = 10.0 ] ||
  fail 'a program with a function main fails'
refused 'help: order them by a number' --entry of_tensors -o "$work/m.c" \
  "$work/orders.axn"
refused 'help: give both tensors the same sizes' --entry of_sizes \
  -o "$work/m.c" "$work/orders.axn"
refused 'no function to build' -o "$work/open.c" "$work/open.axn"
refused 'note: id : ' -o "$work/open.c" "$work/open.axn"
refused 'no function `nothing`' --entry nothing -o "$work/m.c" "$data/small.axn"
refused "x : 'a\$" --entry id -o "$work/m.c" "$work/open.axn"
refused '^1 │ id : f32\[n$' --entry 'id : f32[n' -o "$work/m.c" "$work/open.axn"
refused '`\[` is not closed' --entry 'id : f32[n' -o "$work/m.c" \
  "$work/open.axn"
refused '^1 │ id : f64\[n\] -> foo$' --entry 'id : f64[n] -> foo' \
  -o "$work/m.c" "$work/open.axn"
refused "entry 'id : f32" --entry "id : 'a[n] -> _" -o "$work/m.c" \
  "$work/open.axn"
refused 'needs a function, as in' --entry ': f32[n]' -o "$work/m.c" \
  "$work/open.axn"
refused "note: pair : .* list" --entry pair -o "$work/m.c" "$work/kinds.axn"
refused "'three : unit -> f32'" --entry three -o "$work/m.c" "$work/kinds.axn"
"$AXON" build --entry 'nn.relu : f32[n] -> _' -o "$work/m.c" \
  "$work/open.axn" && grep -q '^int m_relu(' "$work/m.h" ||
  fail 'a function of a library module is not built'
"$AXON" build -o "$work/m.c" "$work/kinds.axn" &&
  grep -q '^ \* Twice, \* / with / \* in it\.$' "$work/m.h" &&
  [ "$(grep -cE '^ \*   (pair|says|three) : ' "$work/m.h")" = 3 ] &&
  cc $strict -fsyntax-only "$work/m.c" ||
  fail 'doc comments in the header are wrong'
for kind in c so; do
  refused "cannot write $work/none/m.$kind: No such" -o "$work/none/m.$kind" \
    "$data/small.axn"
done
refused "duplicate --entry 'scale'" --entry scale --entry scale \
  -o "$work/m.c" "$data/small.axn"
refused 'no data-dependent size at top level has the name `q`' -D q=3 \
  -o "$work/m.c" "$data/small.axn"
refused 'expected one file' -o "$work/m.c" "$data/small.axn" other.axn
refused 'cannot be built' --entry g -o "$work/m.c" "$work/while.axn"
cat >"$work/loops.axn" <<'END'
fun step w h x = tanh (dot w h + x)
fun f w xs = sum (square (fold (step w) (0.0 * xs.[0, :]) xs))
fun gradient (w : f64[m, m]) (xs : f64[n, m]) = grad (fn w => f w xs) w
fun second (w : f64[m, m]) (xs : f64[n, m]) = hvp (fn w => f w xs) w w
fun again (w : f64[m, m]) (n : int) =
  grad (fn w => sum (iterate n (checkpoint (dot w)) (ones [m]))) w
fun hand (w : f64[m, m]) (n : int) =
  grad (custom_vjp (fn w => (sum (w @ w), w)) (fn w ct => ct * float n * w)) w
fun halve (x : f64[]) = grad (while (fn y => y > 1.0) (fn y => 0.5 * y)) x
fun bounded (w : f64[m, m]) (x : f64[k, m]) =
  let fun next y = if sum y > 1.0 then 0.5 * y else y
  in grad (fn w => sum (square (iterate 40 next (w + x.[0, :])))) w end
fun read (x : f64[n]) (k : i64[m]) =
  grad (fn x => sum (iterate k.[0] square x)) x
END
cat >"$work/compare.axn" <<'END'
import "loops" as l
val w : f64[3, 3] = 0.3 * (for i < 3, j < 3 => sin (float (i + 2 * j)))
val xs : f64[40, 3] = for i < 40, j < 3 => cos (float (i * j))
fun same (built : string) x =
  if file_exists built
  then (if allclose ~atol:1e-12 (load built) x then () else print (built, x))
  else save built x
do save "w.npy" w
do save "xs.npy" xs
do save "x1.npy" xs.[:1, :]
do same "gradient.xs.npy" (l.gradient w xs)
do same "gradient.x1.npy" (l.gradient w xs.[:1, :])
do same "second.xs.npy" (l.second w xs)
do same "again.30.npy" (l.again w 30)
do same "hand.2.npy" (l.hand w 2)
do same "bounded.xs.npy" (l.bounded w xs)
END
(cd "$work" && "$AXON" run compare.axn && rm -f gradient.* second.* again.* \
  hand.* bounded.* && for call in gradient/xs.npy gradient/x1.npy \
  second/xs.npy again/30 hand/2 bounded/xs.npy; do
  name=${call%/*} argument=${call#*/}
  "$AXON" build --entry "$name" -o "$name" loops.axn &&
    "./$name" -o "$name.${argument%.npy}.npy" w.npy "$argument" ||
    echo "no $call"
done && "$AXON" run compare.axn) >"$work/out" 2>&1
[ -s "$work/out" ] && cat "$work/out" &&
  fail 'gradients of loops with a symbolic trip count'
refused 'loops.axn:9:25' --entry halve -o "$work/m.c" "$work/loops.axn"
refused 'no derivative of a `while`' --entry halve -o "$work/m.c" \
  "$work/loops.axn"
# The condition may decide within a bound, as the help of this error says.
refused 'iterate 100' --entry halve -o "$work/m.c" "$work/loops.axn"
refused 'loops.axn:14:30' --entry read -o "$work/m.c" "$work/loops.axn"
cat >"$work/seed.axn" <<'END'
fun noise (s : int) (x : f32[n]) =
  x + uniform (key s) [n]
fun turn (s : int) (x : f32[n]) = x + uniform (fold_key (key 1) s) [n]
END
refused 'seed.axn:2:15' --entry noise -o "$work/m.c" "$work/seed.axn"
refused 'literal seeds' --entry turn -o "$work/m.c" "$work/seed.axn"
AXON_CC=/nonexistent refused 'no C compiler' -o "$work/m.so" \
  "$data/small.axn"
AXON_CC=true refused 'true succeeded, but wrote no file' -o "$work/no.so" \
  "$data/small.axn"
ls "$work"/no.* >"$work/out" 2>&1 && fail 'files remain after a failed build'
exit "$bad"
