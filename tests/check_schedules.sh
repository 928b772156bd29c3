#!/bin/bash
# Schedules of kernels: those that `axon plan --schedule` prints give the same
# code when --schedules reads them; others give the same results; what cannot be
# applied is an error with its place.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
export AXON_TARGET=cpu AXON_TINY=0
cat >"$work/a.axn" <<'END'
val x : f32[70, 129] = normal (key 1) [70, 129]
val w : f32[129, 40] = normal (key 2) [129, 40]
val image : f32[3, 40, 50] = normal (key 3) [3, 40, 50]
val long : f64[5000] = normal (key 4) [5000]
val bits = for i < 70, j < 129 => x.[i, j] > 0.0
val results =
  { softmax = nn.softmax x,
    columns = sum ~axis:0 x,
    turned = transpose x * 2.0,
    best = map argmax x,
    product = nn.gelu (x @ w),
    vector = map (fn r => dot r w.[:, 0]) x,
    blur = for c < 3, y < 38, z < 48 =>
      sum (for i < 3, j < 3 => image.[c, y + i, z + j]),
    pool = nn.maxpool (reshape [1, 3, 40, 50] image),
    total = sum (long * long),
    running = cumsum x,
    any = map any bits,
    half = map sum (f16 x) }
END
cp "$work/a.axn" "$work/c.axn"
cat >>"$work/c.axn" <<'END'
do print results
END
cd "$work" || exit 1

code() { # code FILE [OPTION...]: the generated code, without times
  file=$1
  shift
  "$AXON" plan --code --stable "$@" "$file" 2>&1
}

# ---- what is printed, read again, is the same ----
"$AXON" plan --schedule c.axn >c.axs || fail 'no schedules'
[ "$(grep -c '^kernel' c.axs)" -ge 8 ] || fail "too few kernels: $(cat c.axs)"
code c.axn >chosen
code c.axn --schedules c.axs >read
cmp -s chosen read || fail "other code: $(diff chosen read | head -20)"
"$AXON" plan --schedule --schedules c.axs c.axn >again
cmp -s c.axs again || fail "other schedules: $(diff c.axs again | head -20)"

# ---- each chosen schedule has code, also if inner axes were parallel ----
AXON_VERIFY=1 "$AXON" plan "$here/tests/ops/filter_gradient.axn" >out 2>&1 ||
  fail "filter_gradient: $(head -5 out)"
grep 'no C code' out && fail 'filter_gradient: a kernel has no code'

# Windows of many terms, kernels with declared schedules, integers of few bits,
# folds.  `make check-schedules` checks all programs.
python3 "$here/tests/schedule_texts.py" ops/filter_gradient ops/schedule_tiles \
  ops/schedule_rest \
  run/ragged run/recurrences || fail 'other kernels'

# ---- another schedule of each kernel: no vectors ----
"$AXON" c.axn >expected
awk '/^kernel/ { print; print "  width 1" } /^ *[0-9]+: by/' c.axs |
  awk '{ if (/by gemm/) sub(/.*/, "  (* by gemm *)"); print }' >plain.axs
"$AXON" --schedules plain.axs c.axn >plain 2>errors
python3 - expected plain <<'END' || fail 'other results without vectors'
import re, sys
number = r"-?\d+\.?\d*(?:e-?\d+)?"
a, b = (re.findall(number, open(f).read()) for f in sys.argv[1:])
sys.exit(len(a) != len(b) or
         any(abs(float(x) - float(y)) > 2e-3 * max(1, abs(float(x)))
             for x, y in zip(a, b)))
END
[ -s errors ] && fail "errors: $(cat errors)"

# ---- argmax of a row has the steps of its schedule ----
cat >best.axn <<'END'
val x = force (for i < 70, j < 1300 => f32 (i * j % 701))
do print (map argmax x)
END
"$AXON" plan --schedule best.axn >best.axs
code best.axn | grep -q first_more_f32 || fail 'argmax does not search its row'
sed '/parts/s/; tile i1.1 .*//' best.axs >lanes.axs
code best.axn --schedules lanes.axs | grep first_more_f32 &&
  fail 'argmax without parts searches its row'
cmp <("$AXON" best.axn) <("$AXON" --schedules lanes.axs best.axn 2>&1) ||
  fail 'argmax without parts has other results'

# ---- refusals ----
cp "$here/tests/schedules/refused.axn" b.axn
kernel=$("$AXON" plan --schedule b.axn | grep -om1 '^kernel .*')
[ -n "$kernel" ] || fail 'map sum x has no kernel'
while IFS='|' read -r schedule message; do
  printf '%s\n%s\n' "$kernel" "$schedule" >refused.axs
  "$AXON" plan --schedules refused.axs b.axn >out 2>&1
  status=$?
  [ $status = 1 ] || fail "\`$schedule\`: status $status: $(head -3 out)"
  grep -qF -- "$message" out ||
    fail "\`$schedule\`: expected \`$message\`: $(head -3 out)"
  grep -q 'refused.axs:2:' out ||
    fail "\`$schedule\` has no place: $(head -3 out)"
done <"$here/tests/schedules/refused"

# ---- files ----
said() { # said TEXT ARGUMENT...
  text=$1
  shift
  "$AXON" "$@" >out 2>&1
  grep -qF -- "$text" out || fail "expected \`$text\`: $(cat out)"
}
said 'cannot read "none.axs": No such file' --schedules none.axs b.axn
echo '(* open' >file.axs
said 'file.axs:1:1: this comment has no end: write *)' \
  --schedules file.axs b.axn
echo 'tasks i0' >file.axs
said 'file.axs:1:1: expected `kernel`' --schedules file.axs b.axn
echo 'kernel x' >file.axs
said 'expected `kernel` and its number' --schedules file.axs b.axn
printf 'kernel 1f\n 1: \nkernel 1f\n 1: \n' >file.axs
said 'this kernel has a schedule already' --schedules file.axs b.axn
printf 'kernel 1f (* of another (* program *) *)\n 1: \n' >file.axs
said 'a schedule was not used: file.axs:1:10: no kernel of this run has' \
  --schedules file.axs b.axn
printf '\nkernel 1f\n 1: \nkernel 2f\n 1: \n' >file.axs
said '2:10: no kernel of this run has the number 000000000000001f, nor that' \
  --schedules file.axs b.axn
"$AXON" --schedules file.axs b.axn >out 2>&1 ||
  fail "a schedule that is not used is an error: $(cat out)"
# A file that cannot be read ends a session at its start; a refused schedule
# ends the inputs that run its kernel.
echo 'kernel x' >file.axs
echo '1 + 1' | AXON_SCHEDULES=file.axs "$AXON" repl --plain >out 2>&1 &&
  fail 'a session with an invalid file'
grep -q '^axon: file.axs:1:1: expected `kernel`' out || fail "$(cat out)"
cat >session <<'END'
val x = for i < 70, j < 129 => f32 (i * j)
sum (for i < 70, j < 129 => f32 (i + j))
val x = for i < 70, j < 129 => f32 (i * j)
END
sed '2,$d; s/^val x = \(.*\)/do print (\1)/' session >session.axn
"$AXON" plan --schedule session.axn | sed 's/lanes i1$/& often/' >file.axs
AXON_SCHEDULES=file.axs "$AXON" repl --plain <session >out 2>&1
[ "$(grep -c 'file.axs:.* expected lanes' out)" = 2 ] &&
  grep -q '^it : f32' out || fail "a session: $(cat out)"
head -c 5000000 /dev/zero | tr '\0' ' ' >file.axs
said 'is no text, or has more than' --schedules file.axs b.axn
# ---- kernels that do not run ----
echo "$kernel 1: tile i1 0" >file.axs
"$AXON" plan --dry --schedules file.axs b.axn >out 2>&1 &&
  fail 'a dry run ignores a refused schedule'
grep -q 'file.axs:1:.*at least one iteration' out || fail "dry: $(cat out)"
said 'no kernel of the program was compiled' plan --schedule -e '1 + 1'
said '`--schedules` was given twice' --schedules c.axs --schedules c.axs b.axn
exit "$bad"
