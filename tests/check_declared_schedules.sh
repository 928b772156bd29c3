#!/bin/bash
# Schedules that a program declares, those of kernels for GPUs, and those of
# `axon build`: what is printed, read again, is the same; results do not change;
# an error has its place.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
unset AXON_SCHEDULES
export AXON_TARGET=cpu AXON_TINY=0
cd "$work" || exit 1

said() { # said TEXT ARGUMENT...
  text=$1
  shift
  "$AXON" "$@" >out 2>&1
  grep -qF -- "$text" out || fail "$*: expected \`$text\`: $(cat out)"
}

# ---- declarations ----
cat >head.axn <<'END'
val x : f32[70, 129] = normal (key 1) [70, 129]
val w : f32[129, 40] = normal (key 2) [129, 40]
fun rows x = map sum x
fun layer x =
  let
    val h = x @ w
  in
    h |> nn.gelu |> map sum
  end
fun twice 0 x = x * 2.0
  | twice n x = x * 3.0 + n
END
cat >body.axn <<'END'

schedule layer =
  (* the product has tiles in registers *)
  kernel h
    tasks i0 6, i1 16; width HALF
    1: tile i2 32; run i2.1; tile i1 HALF peel; tile i1.1 2 if; unroll i1.1;
       tile i0 6 if; unroll i0; order i0.1, i1.2, i2.1, i2, i0, i1.1, i1;
       lanes i1

schedule rows =
  tasks i0; width HALF
  1: tile i1 8; run i1.1; tile i1 HALF; lanes i1

do print (rows x, layer x)
do print (sum (grad (fn x => sum (layer x)) x))
END
sed '/^schedule/,/^$/d' body.axn | cat head.axn - >plain.axn
# Vectors of half as many lanes as the chosen ones are for each machine.
half=$(($("$AXON" plan --schedule plain.axn |
  grep -om1 'width [0-9]*' | cut -c7-) / 2))
sed -i "s/HALF/$half/" body.axn
cat head.axn body.axn >program.axn
"$AXON" plain.axn >expected || fail 'plain.axn'
"$AXON" program.axn >got 2>errors || fail "program.axn: $(cat errors)"
[ -s errors ] && fail "program.axn: $(cat errors)"
awk -f "$here/tests/close.awk" expected got || fail 'other results'
"$AXON" fmt - <program.axn >formatted
"$AXON" fmt - <formatted | cmp - formatted || fail 'fmt twice'
sed -n '/^schedule/,/^$/p' program.axn >declarations
sed -n '/^schedule/,/^$/p' formatted | cmp - declarations ||
  fail 'fmt changes the declarations'
"$AXON" plan --schedule program.axn >printed
for schedule in "tasks i0 6, i1 16; width $half" 'tile i1 8; run i1.1; tile'; do
  grep -qF "$schedule" printed || fail "not used: $schedule: $(cat printed)"
done
"$AXON" plan --schedule plain.axn | grep -q "i1 16; width $half" &&
  fail 'a schedule without a declaration'
"$AXON" check program.axn >out 2>&1 || fail "check: $(cat out)"
# A later declaration replaces an earlier one, also a wrong one.
cat >session <<'END'
fun f x = map sum x
schedule f = tasks i0; 1: lanes i0
f (ones [64, 300])
schedule f =
  tasks i0; width 1; 1: tile i1 32; run i1.1
f (ones [64, 300])
END
"$AXON" repl --plain <session >out 2>&1
[ "$(grep -c E0523 out)" = 1 ] && grep -q '300' out ||
  fail "a second declaration: $(cat out)"

# Accumulators of rows, and the ends of runs, in the rest behind the last tile;
# vectors of one lane; a head that ends before the number of a loop nest.
cat >rest.axn <<'END'
val x : f32[513, 16] = for i < 513, j < 16 => f32 ((i * 7 + j * 5) % 16)
val a : f32[20, 17] = for i < 20, j < 17 => f32 ((i + j) % 5)
val b = for i < 300, j < 50 => u8 (i * j % 11)
fun best x = map argmax x
schedule best =
  tasks i0 ROWS; width HALF
  1: tile i1 2 peel; unroll i1; order i1.1, i0; tile i0 HALF peel;
     order i1.1, i0.1, i1, i0; lanes i0; tile i0.1 4 peel; unroll i0.1
fun row x = map sum x
schedule row =
  tasks i0
  1: tile i1 4 peel; tile i1 2; run i1.1
fun cube x = pow x 3
schedule cube =
  tasks i0, i1 64; width 1
  1: tile i1 1 peel; lanes i1
do print (best x)
do print (row a)
do print (cube b)
END
sed -i "s/HALF/$half/g; s/ROWS/$((4 * half - 1))/" rest.axn
sed '/^schedule/d; /^  /d' rest.axn >chosen.axn
"$AXON" chosen.axn >expected && "$AXON" rest.axn >out 2>&1
cmp -s expected out || fail "rest: $(diff expected out | head -9)"
"$AXON" plan rest.axn 2>&1 | grep 'not used' && fail 'rest.axn has no schedule'

# Interleaved stores, with a rest of each vector.
cat >woven.axn <<'END'
val a : f32[64, 75] =
  cumsum ~axis:1 (for i < 64, j < 75 => f32 ((i + 2 * j) % 17))
fun two (a : f32[h, w]) = for y < h, x < w, c < 2 => f16 a.[y, x] + f16 c
fun bytes (a : f32[h, w]) = for y < h, x < w, c < 3 => u8 a.[y, x] + u8 c
fun four (a : f32[h, w]) = for y < h, x < w, c < 4 => f64 a.[y, x] - f64 c
schedule two =
  tasks i0 1000, i1 2; width HALF
  1: unroll i1; tile i0 HALF peel; order i0.1, i1, i0; lanes i0; interleave i1
schedule bytes =
  tasks i0 1000, i1 3; width HALF
  1: unroll i1; tile i0 HALF peel; order i0.1, i1, i0; lanes i0; interleave i1
schedule four =
  tasks i0 1000, i1 4; width HALF
  1: unroll i1; tile i0 HALF peel; order i0.1, i1, i0; lanes i0; interleave i1
do print (two a)
do print (bytes a)
do print (four a)
END
sed -i "s/HALF/$half/g" woven.axn
sed '/^schedule/d; /^  [t1]/d' woven.axn >chosen.axn
"$AXON" chosen.axn >expected && "$AXON" woven.axn >out 2>&1
cmp -s expected out || fail "woven: $(diff expected out | head -9)"
"$AXON" plan --code woven.axn >out 2>&1
for name in stw2_f16 stw3_u8 stw4_f64; do
  grep -q "$name" out || fail "no $name: $(grep 'not used' out)"
done

# Shuffled lanes, with a last block of fewer matrices, and shifted tiles.
cat >small.axn <<'END'
fun numbers n m k =
  cumsum ~axis:2 (for b < n, i < m, j < k => f32 ((b + 2 * i + 3 * j) % 7))
val x = numbers 1001 2 4
val y = numbers 1001 2 2
val v = numbers 1001 7 5
val w = numbers 1001 5 11
fun prod (y : f32[n, 2, 2]) = y @ y
fun flip (x : f32[n, 2, 4]) = for b < n, j < 4, i < 2 => x.[b, i, j] * 2.0
fun tall (v : f32[n, 7, 5]) (w : f32[n, 5, 11]) = v @ w
schedule prod =
  tasks i0 20; width HALF
  1: tile i0 3; flatten i0, i1, i2; tile i4 HALF mask; unroll i4.1; unroll i3;
     order i3, i4.1, i4; lanes i4 mask; shuffle i0; fma
schedule flip =
  tasks i0 20; width HALF
  1: flatten i1, i2; tile i3 HALF mask; unroll i3.1; lanes i3 mask; shuffle i0
schedule tall =
  tasks i0 20; width HALF
  1: tile i1 4 shift; unroll i1; tile i2 HALF mask; unroll i2.1;
     order i0, i1.1, i3, i1, i2.1, i2; lanes i2 mask; fma
do print (force (prod y))
do print (sum (force (prod y)))
do print (force (flip x))
do print (force (tall v w))
do print (sum (force (tall v w)))
END
sed -i "s/HALF/$half/g" small.axn
sed '/^schedule/d; /^  [t1]:*/d; /^     /d' small.axn >chosen.axn
"$AXON" chosen.axn >expected && "$AXON" small.axn >out 2>&1
cmp -s expected out || fail "small: $(diff expected out | head -9)"
"$AXON" plan --stage schedule small.axn >out 2>&1
[ "$(grep -c shuffle out)" -ge 2 ] && grep -q shift out ||
  fail "small: $(grep 'not used' out)"

# Wrong declarations: an error with its place.
while IFS='|' read -r line message; do
  { cat head.axn; printf '%b\n' "$line"; } >wrong.axn
  echo 'do print (rows x, layer x)' >>wrong.axn
  "$AXON" wrong.axn >out 2>&1 && fail "accepted: $line"
  grep -qF -- "$message" out && grep -q 'wrong.axn:1[2-9]:' out ||
    fail "\`$line\`: expected \`$message\`: $(head -5 out)"
done <"$here/tests/schedules/declared"
echo 'fun f (x : f32[n]) = let val a = x * 2.0 val b = x * 2.0 in a * b end' \
  >two.axn
printf 'schedule f =\n  kernel x * 2.0\n    1: lanes i0\n' >>two.axn
said '`f` computes `x * 2.0` 2 times' two.axn
printf 'fun f x = x * 2.0\nschedule f = tasks i0\n' >unused.axn
said 'a schedule was not used: unused.axn:2:13: no compiled kernel stores' \
  plan unused.axn
# A schedule for the CPU in a plan for a GPU: a message, unless another one is
# for GPUs; none beside an error.
echo 'fun f x = map sum (x * 2.0)
do print (sum (f (iota 40000 |> f32 |> reshape [200, 200])))' >rows.axn
printf 'schedule f =\n  kernel map sum (x * 2.0)\n    tasks i0; 1:\n' \
  >cpu.part
printf '  kernel map sum (x * 2.0) on cuda\n    1: threads i1\n' >gpu.part
cat rows.axn cpu.part >cpu.axn
said 'cpu.axn:4:27: it is for the CPU: for GPUs, write `on cuda`' \
  plan --target cuda:sm_90a cpu.axn
cat cpu.axn gpu.part >wrong.axn
"$AXON" plan --target cuda:sm_90a wrong.axn >out 2>&1
grep -q 'error.E0523' out || fail "$(cat out)"
grep 'not used' out && fail 'a message beside an error'
sed 's/threads i1/by rows/' wrong.axn >both.axn
"$AXON" plan --target cuda:sm_90a both.axn 2>&1 | grep 'error\|not used' &&
  fail 'a schedule for the CPU beside one for GPUs'

# Other runs may call other functions, or with small sizes.
"$AXON" unused.axn 2>&1 | grep 'not used' && fail 'a run tells of a schedule'
printf 'fun f schedule y = schedule + y\ndo print (f 1 2)\n' >name.axn
said 3 name.axn

# ---- values that are stored, and where kernels end ----
cat >soft.axn <<'END'
val x : f32[300, 200] =
  cumsum (for i < 300, k < 200 => f32 ((i * 3 + k) % 7) / 100.0)
fun soft (x : f32[n, k]) =
  let
    val m = map max x
    val e = for i < n, j < k => exp (x.[i, j] - m.[i])
    val s = map sum e
  in
    for i < n, j < k => e.[i, j] / s.[i]
  end
END
sed '/^val x/,/cumsum/d' soft.axn >fun.axn
echo 'do print (soft x)' >>soft.axn
"$AXON" soft.axn >expected
while IFS='|' read -r lines kernels reason; do
  printf "\nschedule soft =\n$lines\n" | cat soft.axn - >declared.axn
  "$AXON" declared.axn >got 2>&1 && cmp -s expected got ||
    fail "$lines: $(diff expected got | head -5)"
  "$AXON" plan --schedule declared.axn >printed 2>&1
  [ "$(grep -c '^kernel' printed)" = "$kernels" ] ||
    fail "$lines: not $kernels kernels: $(cat printed)"
  "$AXON" plan declared.axn >out 2>&1
  grep -qF "$reason" out || fail "$lines: no \`$reason\`: $(cat out)"
done <<'END'
  store e|2|the schedule stores it
  cut e|3|the schedule cuts after it
  cut e|3|the schedule cuts after the value that is read
  cut m\n  cut s|4|the schedule cuts after it
  store s\n  cut s|3|the schedule cuts after it
  cut e\n  kernel e\n    tasks i0; width 1; 1:|3|the schedule cuts after it
END
printf '\nschedule soft =\n  cut e\n' | cat fun.axn - >declared.axn
"$AXON" build --schedule -o built.c fun.axn | grep 'soft.*exp (x' &&
  fail 'a value that is fused has a kernel'
said 'exp (x.[i, j] - m.[i])' \
  build --schedule -o built.c declared.axn
said 'a schedule was not used: declared.axn:11:7' plan declared.axn -e '1 + 1'
said 'the value of its expression is not computed' plan declared.axn -e '1 + 1'

# ---- conditions that are known in parts of an axis ----
cat >parts.axn <<'END'
val a = for i < 5000 => u8 (i * i % 251)
do print (concat ~axis:0 (a, a, a))
END
said 'from 10000 to 15000' plan --stage lowered parts.axn
"$AXON" plan --schedule parts.axn | sed -n '/concat/,$p' >parts.axs
if grep -Eq 'width (32|64)' parts.axs; then # lanes of 8 bits
  sed -i 's/ peel//' parts.axs
  said 'cannot be lanes of 8 bits' plan --schedules parts.axs parts.axn
fi

# ---- GPUs ----
cat >gpu.axn <<'END'
val x = bf16 (normal (key 1) [512, 256] : f32[512, 256])
val w = bf16 (normal (key 2) [256, 384] : f32[256, 384])
val q = f16 (normal (key 3) [1, 8, 256, 64] : f32[1, 8, 256, 64])
fun attend q = nn.attention ~causal:true q q q
fun long x = sum (f32 x)
do print (sum (f32 (x @ w)), sum (nn.gelu (f32 (x @ w))))
do print (map sum (f32 x), nn.softmax (f32 x), transpose (f32 x) + 1.0)
do print (f32 x * 2.0, sum ~axis:0 (f32 x), long x, attend q)
END
# Only `axon build` needs NVRTC, which takes most of the time of a plan.
export AXON_NVRTC=/no/such/file
for arch in sm_80 sm_100a sm_90a; do # the last one: below
  plan() { AXON_VERIFY=1 "$AXON" plan --target "cuda:$arch" "$@" gpu.axn; }
  plan --schedule >gpu.axs
  [ "$(grep -c "^kernel .* on $arch" gpu.axs)" -ge 9 ] ||
    fail "$arch: too few kernels: $(cat gpu.axs)"
  plan --schedule --schedules gpu.axs | cmp -s - gpu.axs ||
    fail "$arch: other schedules"
  plan --code --stable >chosen 2>&1
  plan --code --stable --schedules gpu.axs >read 2>&1
  cmp -s chosen read || fail "$arch: $(diff chosen read | head)"
  for word in 'registers' 'by gemm {' 'by attention {' 'threads' 'shared'; do
    grep -q "$word" gpu.axs || fail "$arch: no schedule with $word"
  done
done
sed 's/1: .*shared.*/1: tile i0 64; blocks i0.1; threads i0/' gpu.axs >other.axs
"$AXON" plan --target cuda:sm_90a --code --schedules other.axs gpu.axn >out \
  2>&1 || fail "other kinds: $(grep -m3 error out)"
grep -q 'transposed tiles' out && fail 'there are transposed tiles'
cp "$here"/tests/schedules/refused_gpu*.axn .
refuse_gpu() { # refuse_gpu STEPS LIST: each schedule of the kernel with STEPS
  local program=${2%_on_*}.axn arch=sm_90a command=plan
  [ "${2#*_on_}" = "$2" ] || arch=${2#*_on_}
  [ "$2" = refused_gpu_build ] && command='build -o built.ptx' &&
    local -x AXON_NVRTC=
  # shellcheck disable=SC2086
  kernel=$("$AXON" $command --target "cuda:$arch" --schedule "$program" |
    grep -F -B2 "$1" | grep '^kernel' | tail -n 1)
  [ -n "$kernel" ] || fail "$2 has no kernel for a GPU"
  while IFS='|' read -r schedule message; do
    printf '%s\n%s\n' "$kernel" "$schedule" >refused.axs
    # shellcheck disable=SC2086
    "$AXON" $command --target "cuda:$arch" --schedules refused.axs "$program" \
      >out 2>&1
    status=$?
    [ $status = 1 ] || fail "\`$schedule\`: status $status: $(head -3 out)"
    grep -qF -- "$message" out && grep -q 'refused.axs:2:' out ||
      fail "\`$schedule\`: expected \`$message\`: $(head -3 out)"
  done <"$here/tests/schedules/$2"
}
refuse_gpu 'threads i1' refused_gpu
refuse_gpu registers refused_gpu_rows
for list in terms parts flat; do
  refuse_gpu flatten refused_gpu_$list
done
refuse_gpu '  2: ' refused_gpu_split
# An error of the second loop nest is at its line.
{
  "$AXON" plan --target cuda:sm_90a --schedule refused_gpu_rows.axn |
    grep -m1 '^kernel'
  echo '1: flatten i0, i1; tile i2 64; blocks i3; threads i2'
  echo '1.2: flatten i0, i1; tile i2 32; blocks i3; threads i2'
} >refused.axs
said 'refused.axs:3:6: i2 has groups of other threads' plan --target \
  cuda:sm_90a --schedules refused.axs refused_gpu_rows.axn
refuse_gpu shared refused_gpu_tiles
for list in attention attention_on_sm_75 attention_on_sm_100a query; do
  refuse_gpu 'by attention' refused_gpu_$list
done
refuse_gpu 'by attention {way=mma' refused_gpu_gradient
for list in product product_on_sm_75 product_on_sm_80 product_on_sm_100a \
  scaled_on_sm_100a f32 f64 f8 computed computed_on_sm_100a conv tile_count \
  build micro micro_warp
do
  refuse_gpu 'by gemm' refused_gpu_$list
done
cat >declared.axn <<'END'
val x : f32[64, 300] = for i < 64, j < 300 => f32 (i * j % 7)
fun f x = map sum x
fun turned x = transpose (force x) + 1.0
schedule f =
  kernel map sum x on cuda
    1: tile i0 8; tile i1 64; blocks i0.1; threads i0; threads i1
schedule turned =
  kernel transpose (force x) + 1.0 on cuda
    1: tile i0 16; tile i1 16; order i0.1, i1.1, i0, i1; blocks i0.1;
       blocks i1.1; tile i0 4; threads i0; threads i1; shared i0
do print (f x, turned x)
END
for text in 'thread groups of 64, blocks of 512' \
  'transposed tiles of 16 along i0, blocks of 64'; do
  said "$text" plan --target cuda:sm_90a --code declared.axn
done
"$AXON" declared.axn >out 2>&1
grep -q 'not used' out && fail 'a schedule for GPUs is missed on the CPU'

# ---- stages of a kernel ----
said 'out n' plan --stage specs refused_gpu.axn
said 'for i1.1 by' plan --stage nest refused_gpu.axn
"$AXON" plan --stage nest:0 refused_gpu.axn >out
[ "$(grep -c '^ *for' out)" = 3 ] && grep -qx '  for i1' out ||
  fail "nest:0: $(cat out)"
said 'for i1 times 32 threads' plan --target cuda:sm_90a --stage nest gpu.axn
said '--stage must be specs, facts' plan --stage nest:x refused_gpu.axn
said 'specs, facts, schedule, nest' dump --stage nest:x refused_gpu.axn
said '--entry is for --stage=graph' dump --stage facts --entry f refused_gpu.axn
cat >facts.axn <<'END'
val x : f32[70, 130] = normal (key 1) [70, 130]
val w : f32[130, 40] = normal (key 2) [130, 40]
do print (map (fn r => sum r + sum (r * r)) x)
do print (x @ w)
END
# `axon dump` runs no kernel, and prints the stages that `axon plan` prints.
for stage in specs facts schedule nest nest:1 lowered code; do
  "$AXON" plan --stage $stage facts.axn >planned
  "$AXON" dump --stage $stage facts.axn >out 2>&1 || fail "$stage: $(cat out)"
  cmp -s planned out || fail "dump $stage: $(diff planned out | head -5)"
done
"$AXON" plan --schedule facts.axn >planned
cmp -s planned <("$AXON" dump --stage schedule facts.axn) ||
  fail '--stage=schedule is not --schedule'
said 'matrix product: %0 (of i0, i2) * %1 (of i1, i2)' \
  dump --stage facts facts.axn
said 'reads in0: 130 along i0, 1 along i2' dump --stage facts facts.axn
said 'local0.0[0]: a vector' dump --stage lowered facts.axn
said '] = %1: a vector' dump --stage lowered facts.axn
said 'by gemm' dump --stage lowered facts.axn
cat >argmax.axn <<'END'
val x = for i < 300, j < 4000 => f32 (i * j % 1013)
do print x
do print (argmax ~axis:1 x)
END
said '= argmax %0: a function searches the row' plan --stage lowered argmax.axn
said 'int kernel(void *const *p' dump --stage code facts.axn
# Axes have the numbers of the program in each stage, also if a schedule
# reorders them.
cat >axes.axn <<'END'
fun f (x : f32[n, m]) = transpose x * 2.0 + 1.0
schedule f = tasks i1, i0; width 1; 1:
do print (f (for i < 30, j < 50 => f32 (i + 2 * j)))
END
for stage in specs lowered; do
  said '[i1 + 30*i0]' dump --stage $stage axes.axn
done

# ---- axon build ----
cat >build.axn <<'END'
fun rows (x : f32[n, k]) = map sum x
fun layer (x : f32[n, k]) (w : f32[k, m]) = nn.gelu (x @ w)
END
"$AXON" build --schedule -o one.c build.axn >one.axs || fail 'build --schedule'
grep -q '^kernel' one.axs || fail "build: no schedules: $(cat one.axs)"
lanes=$(grep -B9 parts one.axs | grep -o 'width [0-9]*' | tail -1 | cut -c7-)
steps="tile i1 128; run i1.1; tile i1 $lanes peel; lanes i1"
sed "/parts/s/1: .*/1: $steps/" one.axs >changed.axs
"$AXON" build --schedule --schedules changed.axs -o two.c build.axn >two.axs ||
  fail 'build --schedules'
sed 's/two_/one_/' two.axs | cmp -s - changed.axs ||
  fail "build: other schedules: $(cat two.axs)"
cmp -s <(sed 's/two/one/g' two.c) one.c && fail 'build: the code is the same'
sed 's/lanes i1/lanes i0/' one.axs >wrong.axs
"$AXON" build --schedules wrong.axs -o three.c build.axn >out 2>&1 &&
  fail 'build accepts a wrong schedule'
grep -q 'wrong.axs:[0-9]*:[0-9]*: i0 has no constant' out ||
  fail "build: $(cat out)"
[ ! -e three.c ] || fail 'build writes a file after an error'

# ---- sums over windows of at most 256 terms need no runs ----
for size in 16 17; do
  cat >windows.axn <<END
val image : f32[70, 90] = force (for i < 70, j < 90 => f32 (i * j % 7))
fun f (image : f32[70, 90]) =
  for y < 50, z < 70 => sum (for i < 16, j < $size => image.[y + i, z + j])
schedule f =
  tasks i0, i1 70; width $half
  1: tile i1 $half peel; order i2, i3, i1.1, i1; lanes i1
do print (force (f image))
END
  "$AXON" windows.axn >out 2>&1
  [ "$?,$size" = 0,16 ] || grep -q 'this many terms needs `run`' out ||
    fail "windows of 16 x $size terms: $(cat out)"
done

# ---- a session: a refusal ends one input, and has its place in the file ----
cat >session.axn <<'END'
fun rows (x : f32[n, m]) = map sum x
schedule rows = tasks i0
  1: tile i1 0
END
cat >inputs <<'END'
:load session.axn
sum (rows (force (for i < 300, j < 300 => f32 (i + j))))
sum (force (for i < 300, j < 30 => f32 (i * j)))
sum (rows (force (for i < 300, j < 300 => f32 (i + j))))
END
{
  cat inputs
  for ((wait = 0; wait < 300; wait++)); do
    [ "$(grep -c 'session.axn:3:6' out)" -ge 2 ] && break
    sleep 0.1
  done
  sed -i '1i\\' session.axn
  cat inputs
} | timeout 60 "$AXON" repl >out 2>&1
for line in 3 4; do
  [ "$(grep -c "session.axn:$line:6" out)" = 2 ] ||
    fail "a session: line $line: $(cat out)"
done
[ "$(grep -c '^it : f32' out)" = 2 ] || fail "a session: $(cat out)"
exit "$bad"
