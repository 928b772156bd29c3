#!/bin/bash
# `axon bench` reports plausible times, sizes and errors.  Only `axon doctor`
# measures the machine.  The programs of bench/cpu pass the type checker.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
bad=0

# Checks the exit status of a command, and that its output (stdout and stderr)
# contains a pattern.
expect() { # expect STATUS PATTERN COMMAND...
  expected=$1 pattern=$2
  shift 2
  got=0
  output=$("$@" 2>&1 </dev/null) || got=$?
  if [ "$got" != "$expected" ] || ! grep -q -e "$pattern" <<<"$output"; then
    echo "status $got, expected $expected and '$pattern': $*" && bad=1
    printf '%s\n' "$output" | head -n 5
  fi
}

cat >timed.axn <<'END'
val x : f32[8000000] = uniform (key 1) [8000000]
val slow = sum ~axis:0 (exp (x.[:, *] * [0.1, 0.2, 0.3, 0.4]))
do print "not this"
fun large () = exp x
fun small () = exp x.[:1000]
fun settled () = slow.[0]
fun loud () = print "nor this"
fun other y = y + 1.0
END

quick='--seconds 0.02'
expect 0 'large .* [0-9]' "$AXON" bench $quick timed.axn
expect 0 'large .* [0-9.]* *[0-9.]* *[0-9]* %$' "$AXON" bench $quick timed.axn
expect 0 'loud' "$AXON" bench $quick timed.axn
"$AXON" bench $quick timed.axn | grep -E 'this|other' && bad=1
expect 0 '^sum x .* [0-9]' "$AXON" bench $quick timed.axn -e 'sum x'
expect 0 '^1 + 1 .* [0-9]' "$AXON" bench $quick -e '1 + 1'
expect 0 '"name":"1 + 1"' "$AXON" bench $quick -e '1 + 1' --json
expect 0 'large' "$AXON" bench $quick timed.axn large
"$AXON" bench $quick timed.axn large | grep -q small && bad=1
expect 1 'E0501' "$AXON" bench $quick timed.axn -e 'fail "no"' -e 1
expect 1 '^1 .* [0-9]' "$AXON" bench $quick timed.axn -e 'fail "no"' -e 1
expect 1 'the program calls exit' "$AXON" bench $quick timed.axn -e 'exit 3'
expect 1 'exactly one expression' "$AXON" bench $quick timed.axn -e 'val y = 1'
expect 2 'no file given' "$AXON" bench
expect 2 'has no `nothing`' "$AXON" bench timed.axn nothing
expect 2 'not a function of ().*float' "$AXON" bench timed.axn other
expect 2 'cpu, cuda or reference' "$AXON" bench --target moon timed.axn
for n in 0 -1 x '' 1e9; do
  expect 2 'needs a number' "$AXON" bench --seconds "$n" timed.axn
done
echo 'val y = 1' >none.axn
expect 2 'nothing to benchmark' "$AXON" bench none.axn
expect 1 'no data-dependent size .* `q`' "$AXON" bench -D q=5 timed.axn
echo 'val y = 1 +' >wrong.axn
expect 1 'wrong.axn:' "$AXON" bench wrong.axn
expect 1 'cannot read' "$AXON" bench nowhere.axn
expect 0 'two ()' sh -c "echo 'fun two () = 2' |
  '$AXON' bench $quick - -e 'two ()'"

expect 124 'large .*interrupted' timeout -s INT 2 \
  "$AXON" bench --seconds 100 timed.axn large small

# The JSON results are consistent.  A benchmarked result is fully evaluated, and
# its memory is freed.
if command -v python3 >/dev/null; then
  python3 - "$AXON" <<'END' || bad=1
import json, resource, subprocess, sys
def bench(*arguments):
    run = subprocess.run([sys.argv[1], "bench", "--json", "timed.axn",
                          *arguments], capture_output=True, text=True)
    found = json.loads(run.stdout)
    return run.returncode, {r["name"]: r for r in found["results"]}
status, rows = bench("--seconds", "0.2")
assert status == 0 and set(rows) == {"large", "small", "settled", "loud"}, rows
for r in rows.values():
    assert 0 < r["least"] <= r["lower_quartile"] <= r["median"], r
    assert r["median"] <= r["upper_quartile"] and r["runs"] > 0, r
assert 4e7 < rows["large"]["bytes"] < 9e7, rows
assert 8e6 <= rows["large"]["operations"] < 5e8, rows
assert 0 < rows["large"]["limit"] < 10 * rows["large"]["median"], rows
assert "limit" not in rows["settled"], rows
large, small = rows["large"]["median"], rows["small"]["median"]
assert large > 20 * small, ("the result is not fully evaluated", rows)
assert rows["settled"]["median"] < large / 4, ("slow is evaluated again", rows)
status, rows = bench("-e", "x * 2.0", "-e", "fail \"no\"", "--seconds", "1")
assert status == 1 and rows["fail \"no\""]["error"] == "no", rows
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
assert peak < 1 << 20, f"{peak} KiB, {rows}"
END
fi

# `axon doctor` measures the machine, `axon run` does not.
has_measurements() {
  find "$XDG_CACHE_HOME" -name 'machine-*' 2>/dev/null | grep -q .
}
export XDG_CACHE_HOME=$work/cache
mkdir "$XDG_CACHE_HOME"
expect 0 '^1$' "$AXON" run -e 1
has_measurements && echo 'axon run measures the machine' && bad=1
status=0
"$AXON" doctor >doctor.out || status=$?
if grep -q '^ *! ' doctor.out; then
  [ "$status" = 1 ] || { echo "a problem, but status $status" && bad=1; }
else
  [ "$status" = 0 ] || { echo "no problem, but status $status" && bad=1; }
fi
for line in processor memory threads compiler cache '  multiply-add'; do
  grep -q "^$line" doctor.out || { echo "doctor: no line $line" && bad=1; }
done
expect 1 'apt install gcc' env AXON_CC=/nowhere/cc "$AXON" doctor
expect 1 'wrote no file: it printed nothing' env AXON_CC=true "$AXON" doctor
expect 1 'set HOME' env -u HOME -u XDG_CACHE_HOME "$AXON" doctor
expect 1 'cannot create this' env XDG_CACHE_HOME=/dev/null/sub "$AXON" doctor
mkdir in; : >in/axon
expect 1 'is not a folder' env XDG_CACHE_HOME="$PWD/in" "$AXON" doctor
expect 2 'no arguments' "$AXON" doctor me
if command -v python3 >/dev/null; then
  "$AXON" doctor --json | python3 -c '
import json, sys
found = json.load(sys.stdin)
for name in ("fma", "read_1", "copy_memory", "stream"):
    assert all(x > 1e6 for x in found[name]), (name, found)
assert 0 < found["fork"] < 1 and found["threads"] >= 1, found
' || bad=1
fi

# bench/cpu
for file in "$here"/bench/cpu/kernels/*.axn; do
  cp "$file" . && file=${file##*/}
  sed -i "s|\"../../../examples|\"$here/examples|" "$file"
  expect 0 '^result : unit -> ' "$AXON" check "$file"
done
if command -v python3 >/dev/null; then
  python3 - "$here/bench/cpu" <<'END' || bad=1
import ast, pathlib, sys
for path in pathlib.Path(sys.argv[1]).glob("*.py"):
    text = path.read_text()
    ast.parse(text, str(path))
    assert all(len(line) <= 80 for line in text.splitlines()), path
END
fi
exit "$bad"
