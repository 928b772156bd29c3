#!/bin/bash
# Micro-kernels of a program: they compute tiles of matrix products; a wrong one
# is an error before it runs.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
unset AXON_SCHEDULES
export AXON_TARGET=cpu AXON_TINY=0 XDG_CACHE_HOME=$work/cache
mkdir -p "$work/cache" && chmod 700 "$work/cache"
cd "$work" || exit 1

head='void tile(const float *a, long a_row, long a_term, const float *b,
    long b_term, long terms, float *c, long c_row, int add)'
program() { # program C-TEXT [SCHEDULE]: a program with this micro-kernel
  cat <<END
val x : f32[37, 300] = for i < 37, j < 300 => f32 (i * j % 7)
val w : f32[300, 53] = for i < 300, j < 53 => f32 (i * j % 5)
kernel tile : f32[3, k] @ f32[k, 16] = c
$(sed 's/^/  /' <<<"$1")

fun product x w = x @ w
schedule product =
  1: by gemm ${2:-{micro=tile\}}
val y = product (force x) (force w)
do print (map sum y, sum y)
END
}
loop() { # loop TERM STORE: the micro-kernel as loops
  printf '%s {
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 16; j++) {
      float sum = add ? c[i * c_row + j] : 0;
      for (long k = 0; k < terms; k++)
      {
        %s
      }
      %s
    }
}
' "$head" \
    "${1:-sum += a[i * a_row + k * a_term] * b[k * b_term + j];}" \
    "${2:-c[i * c_row + j] = sum;}"
}
refused() { # refused MESSAGE C-TEXT [SCHEDULE]
  program "$2" "${3-}" >wrong.axn
  "$AXON" wrong.axn >out 2>&1
  status=$?
  [ $status = 1 ] || fail "\`$1\`: status $status: $(head -5 out)"
  grep -qF -- "$1" out || fail "expected \`$1\`: $(head -8 out)"
}

# ---- a right one ----
program "$(loop)" >right.axn
sed '/^schedule/,/^  1:/d' right.axn >plain.axn # the micro-kernel stays
"$AXON" plain.axn >expected || fail 'plain.axn'
"$AXON" right.axn >got 2>&1 || fail "right.axn: $(cat got)"
cmp -s expected got || fail "$(diff expected got)"
"$AXON" plan right.axn >out
grep -q '3 × 16 in registers by tile' out || fail "plan: $(cat out)"
"$AXON" plan --schedule right.axn >right.axs
grep -q '{micro=tile mr=3 nr=16 ' right.axs || fail "$(cat right.axs)"
"$AXON" plan --schedule --schedules right.axs plain.axn >read.axs 2>&1
cmp -s <(grep -v '^(' read.axs) <(grep -v '^(' right.axs) ||
  fail "other schedules: $(diff read.axs right.axs)"
"$AXON" fmt - <right.axn >once
sed -n '/^kernel/,/^$/p' right.axn >declared
sed -n '/^kernel/,/^$/p' once | cmp - declared || fail 'fmt changes the C text'
"$AXON" check right.axn >out 2>&1 || fail "check: $(cat out)"
# The verdict is kept: the compiler does not run again.
ls cache/axon/micro/*.ok >/dev/null || fail 'the verdict is not kept'
# Macros of the text change no other code.
macros=$(printf '#define c2 3\n#define to 4\n#define x0 5\n')
program "$macros"$'\n'"$(loop)" >macros.axn
"$AXON" macros.axn >got 2>&1
cmp -s expected got || fail "macros: $(head -5 got)"
# One thread and three: the same bits.
AXON_THREADS=1 "$AXON" right.axn | cmp - expected || fail 'one thread'
AXON_THREADS=3 "$AXON" right.axn | cmp - expected || fail 'three threads'
# The columns of the left operand may be contiguous.
sed 's/(force x)/(transpose (force (transpose x)))/' right.axn \
  >columns.axn
"$AXON" columns.axn >got 2>&1
cmp -s expected got || fail "columns: $(head -5 got)"

# ---- wrong ones ----
refused 'it computes another c[0, 0]' "$(loop '' 'c[i * c_row + j] = sum + 1;')"
refused 'it computes another c[0, 0]' "$(loop '' 'c[i * c_row + j] += sum;')"
refused 'with terms=4' \
  "$(loop 'if (k != 3) sum += a[i * a_row + k * a_term] * b[k * b_term + j];')"
refused 'a_term' "$(loop 'sum += a[i * a_row + k] * b[k * b_term + j];')"
refused 'it computes another' "$(loop 'float x = a[i * a_row + k * a_term];
  if (x == x) sum += x * b[k * b_term + j];')"
refused 'it writes behind the columns of c' \
  "$(loop '' 'c[i * c_row + j] = sum; c[i * c_row + 16] = sum;')"
refused 'memory outside of its operands' \
  "$(loop '' 'c[i * c_row + j] = sum + 0 * a[i * a_row - 1];')"
refused 'it does not end' \
  "$(loop '' 'c[i * c_row + j] = sum; for (;;) if (add > 1) break;')"
refused 'it ends the process' \
  "$(loop '' 'c[i * c_row + j] = sum; __builtin_trap();')"
refused 'the C compiler failed (1): wrong.axn:' 'void tile(int a'
refused 'tile' 'void other(void) {}'

program 'void tile(int a' >'a"b\n.axn'
"$AXON" 'a"b\n.axn' >out 2>&1 && fail 'a file with quotes'
grep -qF 'a"b\n.axn:5: error' out || fail "a file with quotes: $(cat out)"

# ---- names ----
# Names of generated code are free for the micro-kernel, but not in its text.
for name in kernel tile0 edge0 rolled0 memcpy; do
  program "$(loop)" | sed "s/\btile\b/$name/g" >named.axn
  "$AXON" named.axn >got 2>&1
  cmp -s expected got || fail "kernel $name: $(head -5 got)"
done
refused 'wrong.axn:4:' 'typedef float vf __attribute__((vector_size(128)));
'"$(loop)"
refused "'kernel'" 'static int kernel(void) { return 0; }
'"$(loop)"

# ---- schedules ----
right=$(loop)
refused 'no micro-kernel of the program is named other' "$right" '{micro=other}'
refused 'micro=tile has mr=3' "$right" '{mr=4 micro=tile}'
refused 'mr is set twice' "$right" '{micro=tile mr=4}'
refused 'columns=24 is no multiple of the 16 of a tile' "$right" \
  '{micro=tile columns=24}'
sed 's/f32\[37/f64[37/; s/f32\[300/f64[300/; s/=> f32/=> f64/' right.axn \
  >other.axn
"$AXON" other.axn >out 2>&1 && fail 'a product of f64'
grep -q 'micro=tile is for products of f32' out || fail "f64: $(cat out)"
cat >image.axn <<'END'
kernel tile : f32[3, k] @ f32[k, 16] = c
  void tile(int a);
val x : f32[2, 6, 20, 30] = uniform (key 1) [2, 6, 20, 30]
val filter : f32[24, 6, 3, 3] = uniform (key 2) [24, 6, 3, 3]
fun f x = nn.conv2d {w = filter, b = zeros [24]} x
schedule f =
  1: by gemm {micro=tile}
do print (sum (f (force x)))
END
"$AXON" image.axn >out 2>&1 && fail 'a convolution'
grep -q 'a convolution has no micro-kernel' out || fail "image: $(cat out)"
cat >module.axn <<'END'
kernel tile : f32[3, k] @ f32[k, 16] = c
  void tile(int a);
fun f (x : f32[n, k]) (w : f32[k, m]) = x @ w
END
printf 'kernel 0 1: by gemm {micro=tile}\n' >module.axs
"$AXON" build --schedule -o module.c module.axn >chosen.axs
sed -i '/^ *pack /d; s/by gemm {.*/by gemm {micro=tile}/' chosen.axs
if grep -q 'by gemm' chosen.axs; then
  "$AXON" build --schedules chosen.axs -o module.c module.axn >out 2>&1 &&
    fail 'a module'
  grep -q 'micro=tile: ' out || fail "module: $(cat out)"
fi

# Another process kills the check: this is no verdict of the micro-kernel.
program "$head { while (terms + 1) c[0] = 0; }" >wrong.axn
"$AXON" wrong.axn >out 2>&1 &
program=$!
before=
while kill -0 "$program" 2>/dev/null; do
  check=$(pgrep -P "$program" axon)
  [ "$check" ] && [ "$check" = "$before" ] && kill -KILL "$check"
  before=$check
  sleep 0.5
done
wait "$program" && fail 'killed'
grep -q 'the process that checks it was killed' out || fail "killed: $(cat out)"

# ---- declarations ----
said() { # said MESSAGE DECLARATION
  printf '%s\n  void f(void);\n' "$2" >declared.axn
  "$AXON" check declared.axn >out 2>&1 && fail "accepted: $2"
  grep -qF -- "$1" out || fail "\`$2\`: expected \`$1\`: $(head -3 out)"
}
said 'this is not what a micro-kernel computes' 'kernel f : f32[6, k] = c'
said 'this is not what a micro-kernel computes' \
  'kernel f : f32[6, k] @ f32[m, 16] = c'
said 'this is not what a micro-kernel computes' \
  'kernel f : f32[6, k] @ f64[k, 16] = c'
said 'this is not what a micro-kernel computes' \
  'kernel f : i32[6, k] @ i32[k, 16] = c'
said 'this is not what a micro-kernel computes' \
  'kernel f : f32[n, k] @ f32[k, 16] = c'
for language in opencl 'c++' C '"c"' '"'; do
  said 'a micro-kernel is C or CUDA' \
    "kernel f : f32[6, k] @ f32[k, 16] = $language"
done
said 'this tile is too large' 'kernel f : f32[6, k] @ f32[k, 1024] = c'
said 'this tile is too large' 'kernel f : f32[0, k] @ f32[k, 16] = c'
said 'a micro-kernel is a function in C' \
  "kernel f' : f32[6, k] @ f32[k, 16] = c"
printf 'kernel f : f32[6, k] @ f32[k, 16] = c\n\ndo print 1\n' >declared.axn
"$AXON" check declared.axn >out 2>&1 && fail 'no code'
grep -q 'this micro-kernel has no code' out || fail "no code: $(cat out)"
# Other uses of the word.
printf 'fun f kernel = kernel + 1\nval kernel = f 1\n' >word.axn
echo 'do print kernel' >>word.axn
[ "$("$AXON" word.axn)" = 2 ] || fail 'a value named kernel'
exit "$bad"
