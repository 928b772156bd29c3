#!/bin/bash
# Micro-kernels in CUDA C++: they compute tiles of threads or warps.  The
# simulator checks them before they run; a wrong one is an error.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
command -v "${AXON_SIM_CXX:-g++}" >/dev/null || {
  echo 'no C++ compiler: skipped'
  exit 0
}
unset AXON_SCHEDULES
export AXON_TINY=0 XDG_CACHE_HOME=$work/cache
mkdir -p "$work/cache" && chmod 700 "$work/cache"
cd "$work" || exit 1

head='template <class A, class B>
AX_DEVICE void tile(A a, B b, int terms, float (&c)[2][4])'
program() { # program CUDA-TEXT [SCHEDULE [SPEC]]
  cat <<END
val x : f32[37, 30] = for i < 37, j < 30 => f32 (i * j % 7)
val w : f32[30, 53] = for i < 30, j < 53 => f32 (i * j % 5)
kernel tile : ${3:-f32[2, k] @ f32[k, 4]} = cuda
$(sed 's/^/  /' <<<"$1")

fun product x w = x @ w
schedule product =
  kernel x @ w on cuda
    1: by gemm ${2:-{micro=tile\}}
val y = product (force x) (force w)
do print (map sum y, sum y)
END
}
loop() { # loop TERM [END]: the micro-kernel as loops
  printf '%s {
  for (int k = 0; k < terms; k++)
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 4; j++)
        %s
  %s
}
' "$head" "${1:-c[i][j] = fmaf(a(i, k), b(k, j), c[i][j]);}" "${2-}"
}
plan() { # plan PROGRAM [ARCHITECTURE]
  AXON_TARGET='' "$AXON" plan --schedule --target "cuda:${2:-sm_90a}" "$1"
}
refused() { # refused MESSAGE CUDA-TEXT [SCHEDULE [SPEC]]
  program "$2" "${3-}" "${4-}" >wrong.axn
  plan wrong.axn >out 2>&1
  status=$?
  [ $status = 1 ] || fail "\`$1\`: status $status: $(head -5 out)"
  grep -qF -- "$1" out || fail "expected \`$1\`: $(head -8 out)"
}

# ---- right ones ----
program "$(loop)" >right.axn
plan right.axn >right.axs 2>&1 || fail "right.axn: $(cat right.axs)"
grep -q '{micro=tile way=fma .* m=32 n=64 k=8 thread_m=2 thread_n=4 ' \
  right.axs || fail "$(cat right.axs)"
# The printed schedule, read again, is the same.
sed '/^schedule/,/^    1:/d' right.axn >plain.axn
"$AXON" plan --schedule --schedules right.axs --target cuda:sm_90a plain.axn \
  >read.axs 2>&1
cmp -s <(grep -v '^(' read.axs) <(grep -v '^(' right.axs) ||
  fail "other schedules: $(diff read.axs right.axs)"
"$AXON" plan --stage=code --target cuda:sm_90a right.axn >code 2>&1
grep -q 'axn_micro_tile::axn_call(' code || fail "code: $(grep -c . code)"
grep -q 'tile for sm_90a: micro=tile way=fma' code || fail 'plan: no name'
# Other architectures, types, layouts and splits.
for arch in sm_75 sm_80 sm_90a sm_100a; do
  plan right.axn $arch >out 2>&1 || fail "$arch: $(cat out)"
done
program "$(loop)" '{micro=tile split=3 k=16 m=16 n=32}' >split.axn
plan split.axn >out 2>&1 || fail "split: $(cat out)"
sed 's/(force x)/(transpose (force (transpose x)))/' right.axn >columns.axn
plan columns.axn >out 2>&1 || fail "columns: $(cat out)"
sed 's/fun product x w = x @ w/fun product x w = map exp x @ w/
  s/kernel x @ w/kernel map exp x @ w/' right.axn >computed.axn
plan computed.axn >out 2>&1 || fail "computed: $(cat out)"
program "$(loop | sed 's/float/double/; s/fmaf/fma/')" '' \
  'f64[2, k] @ f64[k, 4]' | sed 's/f32/f64/g' >double.axn
plan double.axn >out 2>&1 || fail "f64: $(cat out)"
# Elements of 16 bits: the tile of a warp.
warp='template <class A, class B>
AX_DEVICE void tile(A a, B b, int terms, float (&c)[2][4][4]) {
#pragma unroll
  for (int k = 0; k < terms; k += 16) {
    unsigned x[2][4], y[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      a.load(x[i], 16 * i, k);
      b.load(y[i], k, 16 * i);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        ax_mma_m16n8k16_bf16(c[i][j], x[i], y[j / 2] + j % 2 * 2);
  }
}'
narrow() { # narrow CUDA-TEXT [SCHEDULE]
  program "$1" "${2-}" 'bf16[32, k] @ bf16[k, 32]' |
    sed 's/f32\[/bf16[/; s/=> f32/=> bf16/'
}
narrow "$warp" >narrow.axn
plan narrow.axn >out 2>&1 || fail "bf16: $(cat out)"
grep -q '{micro=tile way=mma .*warps_m=2 warps_n=2 ' out ||
  fail "bf16: $(cat out)"
sed 's/fun product x w = x @ w/fun product x w = transpose x @ w/
  s/kernel x @ w/kernel transpose x @ w/; s/(force x)/(transpose x)/' \
  narrow.axn >columns.axn
plan columns.axn >out 2>&1 || fail "bf16, columns: $(cat out)"
# The text stays as it is, and the CPU does not need it.
"$AXON" fmt - <right.axn >once
sed -n '/^kernel/,/^$/p' right.axn >declared
sed -n '/^kernel/,/^$/p' once | cmp - declared || fail 'fmt changes the text'
"$AXON" check right.axn >out 2>&1 || fail "check: $(cat out)"
AXON_TARGET=cpu "$AXON" plain.axn >expected 2>&1
AXON_TARGET=cpu "$AXON" right.axn >got 2>&1
cmp -s expected got || fail "cpu: $(diff expected got)"
# The verdict is kept: no compiler of the host runs again.
ls cache/axon/micro/*.ok >/dev/null || fail 'the verdict is not kept'

# ---- wrong ones ----
refused 'it computes another c[0, 0]: ' "$(loop 'c[i][j] += 1;')"
refused 'it computes another c[' \
  "$(loop 'if (k != 3) c[i][j] = fmaf(a(i, k), b(k, j), c[i][j]);')"
refused 'it computes another c[0, 0]: ' \
  "$(loop 'if (b(k, j) != 0) c[i][j] = fmaf(a(i, k), b(k, j), c[i][j]);')"
refused 'it computes another c[' "$(loop '' 'c[1][3] += 1;')"
refused 'wrong.axn:9: an index of a beyond the tile' \
  "$(loop 'c[i][j] = fmaf(a(i + 1, k), b(k, j), c[i][j]);')"
refused 'wrong.axn:9: an index that is not within its array' \
  "$(loop 'c[i][j + 1] = fmaf(a(i, k), b(k, j), c[i][j]);')"
refused 'in the simulator: block (' \
  "$(loop 'c[i][j] = fmaf(*((&a(i, k)) + 100000), b(k, j), c[i][j]);')"
refused 'wrong.axn:9: ' "$(loop \
  '*(float *)&a(i, k) = a(i, k), c[i][j] = fmaf(a(i, k), b(k, j), c[i][j]);')"
refused 'is private within this context' \
  "$(loop 'a.memory[a.at] = 0, c[i][j] = fmaf(a(i, k), b(k, j), c[i][j]);')"
refused 'it does not end' "$(loop '' 'while (terms) c[0][0] += 1;')"
refused 'wrong.axn:5:' 'template <class A, class B>
AX_DEVICE void tile(A a, B b, int terms, float (&c)[2][4]) { foo(; }'
refused "wrong.axn:10:13: error: 'foo' was not declared" \
  "$(loop '' 'int x = foo;')"
refused 'it does not define this function: template <class A, class B> ' \
  "$(loop | sed 's/\[4\])/[8])/')"
refused 'AX_DEVICE void tile(A a, B b, int terms, float (&c)[2][4])' \
  "$(loop | sed 's/\[4\])/[8])/')"
refused 'it does not define this function' "$(loop | sed 's/tile/other/')"
# The word is in the name of the file, too.
program "$(loop '' 'int x = foo;')" >terror.axn
plan terror.axn >out 2>&1 && fail 'terror.axn'
grep -qF "terror.axn:10:13: error: 'foo' was not declared" out ||
  fail "terror.axn: $(cat out)"
# A name of a file with a quote.
cp right.axn 'a"b.axn'
sed -i 's/terms; k++/terms; ++k/' 'a"b.axn'
plan 'a"b.axn' >out 2>&1 || fail "a quote: $(cat out)"
# Threads of a warp that do not all multiply.
load='a.load(x[i], 16 * i, k);'
wide=${warp/"$load"/"if (ax_lane() < 16) $load"}
narrow "$wide" >wrong.axn
plan wrong.axn >out 2>&1 && fail 'half a warp'
grep -q 'in the simulator: ' out || fail "half a warp: $(cat out)"
narrow "${warp/'16 * i, k);'/'16 * i + 8, k);'}" >wrong.axn
plan wrong.axn >out 2>&1 && fail 'rows beyond the tile'
grep -q 'wrong.axn:11: an index of a beyond the tile' out ||
  fail "rows beyond the tile: $(cat out)"

# ---- schedules ----
right=$(loop)
refused 'no micro-kernel of the program is named other' "$right" '{micro=other}'
refused 'micro=tile has thread_m=2: leave out thread_m' "$right" \
  '{micro=tile thread_m=4}'
refused 'micro=tile needs way=fma' "$right" '{micro=tile way=wgmma}'
refused 'micro is set twice' "$right" '{micro=tile micro=tile}'
refused 'micro needs the name of a micro-kernel' "$right" '{micro}'
echo 'gemm sm_90a f32 *x*x* {micro=tile micro=other}' >twice.axs
AXON_SCHEDULES=twice.axs plan plain.axn >out 2>&1 && fail 'micro twice'
grep -q 'twice.axs:1:22: micro is set twice' out || fail "twice: $(cat out)"
refused 'm=30' "$right" '{micro=tile m=30}'
program "$(loop)" >other.axn
sed -i 's/f32\[37/f64[37/; s/f32\[30,/f64[30,/; s/=> f32/=> f64/' other.axn
plan other.axn >out 2>&1 && fail 'a product of f64'
grep -q 'micro=tile is for products of f32' out || fail "f64: $(cat out)"
narrow "$warp" '{micro=tile m=48}' >wrong.axn
plan wrong.axn >out 2>&1 && fail 'm=48'
grep -q 'm=48 n=64: micro=tile needs multiples of 32 rows' out ||
  fail "m=48: $(cat out)"
# A schedule names a micro-kernel of the other language.
sed 's/kernel x @ w on cuda/kernel x @ w/' right.axn >wrong.axn
AXON_TARGET=cpu "$AXON" wrong.axn >out 2>&1 && fail 'CUDA on the CPU'
grep -q 'micro=tile is a micro-kernel in CUDA C++, for GPUs' out ||
  fail "CUDA on the CPU: $(cat out)"
program 'void tile(int a);' | sed 's/= cuda/= c/' >wrong.axn
plan wrong.axn >out 2>&1 && fail 'C on the GPU'
grep -q 'micro=tile is a micro-kernel in C, for the CPU' out ||
  fail "C on the GPU: $(cat out)"
# No schedule names it.
"$AXON" plan --target cuda:sm_90a plain.axn >out 2>&1 || fail "$(cat out)"
grep -q 'a micro-kernel was not used: plain.axn:3: write' out ||
  fail "unused: $(cat out)"
"$AXON" plan --target cuda:sm_90a right.axn >out 2>&1 || fail "$(cat out)"
grep -q 'a micro-kernel was not used' out && fail 'used, but named'
# Without a compiler of the host.
program "$right"$'\n''// other text' >right.axn
for setting in PATH=/nowhere AXON_SIM_CXX=/no/compiler AXON_SIM_CXX=false; do
  (export AXON_SIM_CXX='' "${setting?}" && plan right.axn) >out 2>&1 &&
    fail "no compiler: $setting"
  grep -q 'there is no C++ compiler to check it: install g++' out ||
    fail "no compiler: $setting: $(cat out)"
done

# The compiler of the host has a limit of time and memory, and says that it
# reached it.
cat >slow.sh <<END
#!/bin/sh
case \$1 in --version) exec g++ --version ;; esac
echo "limits \$(ulimit -t) \$(ulimit -v)" >>'$work/limits'
echo 'slow: fatal error: CPU time limit exceeded signal terminated cc1plus'
exit 1
END
chmod +x slow.sh
program "$right"$'\n''// slow' >wrong.axn
AXON_SIM_CXX=$PWD/slow.sh plan wrong.axn >out 2>&1 && fail 'a slow compiler'
grep -q 'the C++ compiler needs more than 60 seconds or 4096 MiB' out ||
  fail "a slow compiler: $(cat out)"
grep -qx 'limits 60 4194304' limits || fail "limits: $(cat limits)"

# clang++, too, with a folder that processes share.
if command -v clang++ >clang; then
  mkdir -m 700 shared
  program "$right"$'\n''// clang' >right.axn
  AXON_SIM_CXX=clang++ AXON_SIM_CACHE=$PWD/shared plan right.axn >out 2>&1 ||
    fail "clang++: $(cat out)"
fi
program "$right"$'\n''// no runtime' >wrong.axn
mkdir -m 700 empty
AXON_SIM_CXX=$PWD/slow.sh AXON_SIM_CACHE=$PWD/empty plan wrong.axn >out 2>&1 &&
  fail 'no runtime'
[ -z "$(ls empty)" ] || fail "files stay: $(ls empty)"

# ---- declarations ----
said() { # said MESSAGE DECLARATION [TEXT]
  printf '%s\n%s\n' "$2" "$(sed 's/^/  /' <<<"${3-$right}")" >declared.axn
  "$AXON" check declared.axn >out 2>&1 && fail "accepted: $2 ${3-}"
  grep -qF -- "$1" out || fail "\`$2\`: expected \`$1\`: $(head -3 out)"
}
spec='kernel tile : f32[2, k] @ f32[k, 4] = cuda'
said 'a thread has no such tile' 'kernel t : f32[16, k] @ f32[k, 4] = cuda'
said 'a thread has no such tile' 'kernel t : f64[2, k] @ f64[k, 2] = cuda'
said 'a warp has no such tile' 'kernel t : f16[8, k] @ f16[k, 16] = cuda'
said 'a warp has no such tile' 'kernel t : bf16[64, k] @ bf16[k, 128] = cuda'
said 'a micro-kernel in C has elements of f32 or f64' \
  'kernel t : bf16[16, k] @ bf16[k, 16] = c'
said 'this is not what a micro-kernel computes' \
  'kernel t : i32[2, k] @ i32[k, 4] = cuda'
said 'a micro-kernel has no assembler' "$spec" 'void f() { asm(0); }'
said 'a micro-kernel has no assembler' "$spec" 'void f() { __asm__(0); }'
said 'no directives but #pragma unroll' "$spec" '#include <stdio.h>'
said 'no directives but #pragma unroll' "$spec" '#define x 1'
said 'no directives but #pragma unroll' "$spec" '#pragma once'
said 'a micro-kernel has no digraphs' "$spec" '%:include <stdio.h>'
said 'CUDA C++ does not have this character' "$spec" 'as\
m();'
said 'calls only functions that it defines' "$spec" 'extern int x;'
said 'keeps nothing between its calls' "$spec" 'static int x;'
said '`ax_sync` is no wrapper of micro-kernels' "$spec" \
  'void f() { ax_sync(); }'
said '`ax_copy_commit` is no wrapper of micro-kernels' "$spec" \
  'void f() { ax_copy_commit(); }'
said 'a micro-kernel does not use `__syncthreads`' "$spec" \
  'void f() { __syncthreads(); }'
said 'a tile does not depend on its place' "$spec" \
  'int f() { return blockIdx.x; }'
said 'only reads its operands' "$spec" 'void f() { atomicAdd(0, 0); }'
said 'no strings or characters' "$spec" 'const char *f() { return "asm"; }'
said 'this brace closes nothing' "$spec" 'void f() { } } namespace x {'
said 'this brace is not closed' "$spec" 'void f() { {'
said 'this comment is not closed' "$spec" 'void f() {} /* asm'
said 'is a name of generated code' "$spec" 'void axn_call();'
said 'this micro-kernel has no code' "$spec" ''
# A comment that the compiler ends elsewhere.
said 'a comment does not have this character' "$spec" '// \
/*
asm volatile("");
// */'
said 'a comment does not have this character' "$spec" '/* *\
/ asm volatile(""); /* */'
said 'a comment does not have this character' "$spec" \
  $'// \r asm volatile("");'
said 'no trigraphs' "$spec" 'int a ??( 3 ??) = f();'
said 'no attributes' "$spec" '[[gnu::constructor]] void f() {}'
said 'no attributes' "$spec" '[ /* */ [gnu::constructor]] void f() {}'
# Variables outside of functions.
for variable in 'int n;' '__device__ int n;' 'int n = f();' 'int n(f());' \
  'int n{f()};' 'int (n){f()};' 'int n alignas(16){f()};' 'int n[2];' \
  'struct S { int x; } n;' 'struct S; struct S n{f()};' 'enum { A } n;' \
  'template <class T> int n = f();' \
  'int n = []() constexpr { return f(); }();' \
  'struct S n;' 'int S::n = f();' 'void f() {} int n{f()}, m;' \
  'constexpr bool operator==(S a, S b) { return true; } int n = f();' \
  'constexpr int f() { return 1; } int n = f();' 'void f();' \
  'struct final { int x; }; struct final x{f()};' 'int f() {};'; do
  said 'outside of its functions, a micro-kernel has only types' "$spec" \
    "$variable"
done
said 'the parameters of a template have no <' "$spec" \
  'template <template <class> class T> void f() {}'
said 'this declaration has no end' "$spec" 'void f() {} int n = 3'
printf '%s\n' "$spec" '  struct S { float x[2]; S() : x{1, 2} {} };' \
  '  struct alignas(16) T : S { float y; };' '  struct U;' \
  '  enum class E : int { A = 1, B };' '  enum { N = 3 };' \
  '  constexpr int width = 3, table[2] = {1, 2};' '  typedef float real;' \
  '  static_assert(width == 3);' \
  '  constexpr int twice(int x) { return 2 * x; }' \
  '  inline constexpr real third = 1.0f / 3;' \
  '  struct S make(int x = 3) { struct S s; return s; }' \
  '  template <int N = (3 > 2)> AX_DEVICE auto f() -> int { return N; }' \
  '  constexpr bool operator==(E a, S b) { return true; }' \
  '  template <class A, class B> struct Pair { A a; B b; };' >declared.axn
"$AXON" check declared.axn >out 2>&1 || fail "declarations: $(cat out)"
# The place is that of the word, in long texts, too.
long=$(for _ in $(seq 2000); do echo '// a "line" with asm'; done)
said ' declared.axn:2003:14' "$spec" "$long"$'\n\n''void f() { asm; }'
exit "$bad"
