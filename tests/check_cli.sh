#!/bin/bash
# The command line: exit statuses, messages, output streams.
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
  if [ "$got" != "$expected" ]; then
    echo "status $got, expected $expected: $*" && bad=1
    printf '%s\n' "$output" | head -n 5
  elif ! grep -q -e "$pattern" <<<"$output"; then
    echo "no '$pattern' in the output of $*" && bad=1
    printf '%s\n' "$output" | head -n 5
  fi
}

echo 'do print (1 + 1)' >good.axn
echo 'val x = 1 +' >bad.axn
echo 'val  x=1' >ugly.axn
echo 'do print (strings.join "," (args ()))' >args.axn

cat >params.axn <<'END'
fun part n k = {w = normal k [n, 3], at = [1, 2]}
fun whole k = {a = part 4 k, rest = for i < 5 => part 2 k, key = k}
val pair = ([1.0, 2.0], 3)
fun wild r = (r, fn x => x)
END

expect 0 '^axon [0-9]' "$AXON" --version
expect 0 'axon check' "$AXON" --help
expect 0 'Examples' "$AXON" help run
expect 2 'no verb `nothing`' "$AXON" help nothing
expect 2 'did you mean `check`' "$AXON" chek
expect 2 'no verb or file' "$AXON" qwertyuiop
expect 2 'no option `--nothing`' "$AXON" run --nothing
expect 2 'no option `-z`' "$AXON" check -z
expect 2 'takes no value' "$AXON" fmt --check=3 good.axn
expect 2 'needs a value' "$AXON" run -e
expect 2 'auto, always or never' "$AXON" run --color=red good.axn
expect 2 'needs a size' "$AXON" check -D n good.axn
echo 'val x : f32[n, 3] = load "nowhere.npy"' >open.axn
expect 0 'x : f32.5, 3.' "$AXON" check -D n=5 good.axn open.axn
expect 1 'no data-dependent size .* `q`' "$AXON" check -D q=5 good.axn open.axn
expect 1 'no data-dependent size .* `q`' "$AXON" run -D q=5 good.axn
expect 2 'duplicate -D n' "$AXON" check -D n=5 -D n=6 open.axn
for n in x -1 3.5 '' 99999999999999999999; do
  expect 2 'needs a size' "$AXON" check -D n=$n open.axn
done
echo 'do print (input_line ())' >line.axn
expect 0 '^list ..$' "$AXON" run line.axn
expect 1 'standard input cannot be read' sh -c "'$AXON' run line.axn <."
expect 1 'standard input cannot be read' sh -c "'$AXON' run line.axn <&-"
expect 2 'quote its words' "$AXON" generate good.axn two words
expect 2 '[.] is a folder;' "$AXON" generate . text
expect 2 'good.axn is a file;' "$AXON" embed good.axn text
expect 2 'from 1 to 2147483647; found' "$AXON" generate good.axn text --max -1
expect 2 'write `-o q`' "$AXON" import good.axn -o q.axn
expect 1 '^help: the path' "$AXON" serve no_model
expect 1 'did you mean "good.axn"' "$AXON" run goood.axn

# Which file a wrong path means.
expect_load() { # expect_load PATTERN PATH
  echo "val x : f32[n] = load \"$2\" do print x" >load.axn
  expect 1 "$1" "$AXON" run load.axn
}
none='help: the path starts'
long=$(printf '%0230d' 0)
mkdir folder1.csv "$long"
touch tie_d.csv tie_b.csv tie_a.csv ab.npy $'escape\e.csv' $'invalid\xff.csv' \
  $'control\xc2\x9b.csv' model-00001-of-00002.safetensors READ.csv \
  "$long/similar1.csv"
expect_load 'did you mean "tie_a.csv"' tie_c.csv
expect_load 'did you mean "ab.npy"' ab.npz
expect_load 'did you mean "READ.csv"' read.csv
expect_load 'model-00001-of-00002' model-00001-of-00003.safetensors
expect_load "$none" xy.npy
expect_load "$none" folder2.csv
expect_load "$none" escape1.csv
expect_load "$none" invalid1.csv
expect_load "$none" control1.csv
expect_load "$none" "$long/similar2.csv"
rmdir folder1.csv
rm -r "$long" ./*.csv ./*.npy ./*.safetensors
expect 2 'no file given' "$AXON" check
expect 2 'no file given' "$AXON" dump
expect 2 'tree, core or graph' "$AXON" dump --stage=leaf good.axn
expect 1 'E0' "$AXON" dump --stage=tree bad.axn
expect 1 'E0' "$AXON" dump bad.axn
expect 2 'no file given' "$AXON" fmt
expect 2 'no file given' "$AXON" shapes
expect 1 'cannot read none.axn' "$AXON" shapes none.axn
expect 1 'error\[E0312\]' "$AXON" shapes params.axn nothing
expect 1 'error\[E0605\]' "$AXON" shapes params.axn 'val x = 1'
expect 1 'bad.axn:' "$AXON" shapes bad.axn
"$AXON" shapes params.axn part 'part 7' whole wild >shapes.out
cat >shapes.expected <<'END'
part
  w      f32[n, 3]      3*n
  at     i64[2]           2
  total             3*n + 2
part 7
  w      f32[7, 3]  21
  at     i64[2]      2
  total             23
whole
  a.w      f32[4, 3]     12
  a.at     i64[2]         2
  rest.w   f32[5, 2, 3]  30
  rest.at  i64[5, 2]     10
  key      key            -
  total                  54
wild
  0      'a        -
  1      'b -> 'b  -
  total            0
END
diff -u shapes.expected shapes.out || bad=1
expect 0 '^2$' "$AXON" run good.axn
expect 0 '^2$' "$AXON" good.axn
expect 0 '^3$' "$AXON" -e '1 + 2'
expect 0 '^4$' "$AXON" -e 'val x = 2' -e 'x * 2'
expect 1 'error\[E' "$AXON" -e '1 +'
expect 1 'cannot read none.axn' "$AXON" run none.axn
expect 1 'is a directory' "$AXON" run .
expect 1 'cannot read none.axn' "$AXON" check none.axn
expect 1 'cannot read none.axn' "$AXON" fmt none.axn
expect 1 'bad.axn:' "$AXON" run bad.axn
expect 0 '^a,b,--c$' "$AXON" run args.axn a b --c
expect 0 '^a,b$' "$AXON" run args.axn -- a b
expect 3 '' "$AXON" -e 'exit 3'
expect 0 '^x : ' "$AXON" check ugly.axn
expect 0 '^good.axn: [0-9]* constraints proved, 0 deferred to callers, 0' \
  "$AXON" check --stats good.axn
expect 1 'ugly.axn' "$AXON" fmt --check ugly.axn
expect 0 'formatted ugly.axn' "$AXON" fmt ugly.axn
expect 0 '' "$AXON" fmt --check ugly.axn
expect 0 '^val x = 1$' cat ugly.axn
expect 1 'bad.axn' "$AXON" fmt bad.axn
expect 0 '^val x = 1 +$' cat bad.axn
expect 1 'cannot write the output' sh -c "'$AXON' -e 1 >/dev/full"
# A device is never replaced by a file.
ln -s /dev/full full.c; echo 'fun two (x : f32[3]) = x + x' >two.axn
expect 2 'full.c is not a regular file' "$AXON" build -o full.c two.axn
expect 0 '' test -c /dev/full
expect 0 '^6$' sh -c "echo 'sum [1, 2, 3]' | '$AXON'"
expect 0 '^42$' sh -c "printf 'val x = 2\nx * 21\n' | '$AXON'"
expect 0 '^2$' sh -c "'$AXON' run - <good.axn"
expect 0 '^val x = 1$' sh -c "echo 'val x=1' | '$AXON' fmt -"

# Diagnostics as JSON and SARIF.
expect 2 'text, json or sarif' "$AXON" check --diagnostics xml good.axn
cat >tool.axn <<'END'
val a = ("é", x)
fun f 0 = 1
val b = [1, 2] + [1, 2, 3]
END
"$AXON" check -q --diagnostics json tool.axn 2>json
"$AXON" check --diagnostics sarif tool.axn good.axn >out 2>sarif
if command -v python3 >/dev/null; then
  python3 - <<'END' || bad=1
import json
found = [json.loads(line) for line in open("json")]
codes = [d["code"] for d in found]
assert codes == ["E0312", "E0303"], codes
place = found[0]["place"]
assert (place["line"], place["column"]) == (1, 15), found[0]
assert place["file"] == "tool.axn"
results = json.load(open("sarif"))["runs"][0]["results"]
assert len(results) == 3, results
region = results[0]["locations"][0]["physicalLocation"]["region"]
assert (region["startLine"], region["startColumn"]) == (1, 15), region
END
fi

# A closed stream is an error when it is used.  A file that is opened later does
# not get its descriptor.
expect 1 'cannot write the output' sh -c "'$AXON' -e 1 >&-"
expect 1 'cannot read the standard input' sh -c "'$AXON' run - <&-"
echo 'do save "saved.npy" [1.0] do print "into the file"' >save.axn
"$AXON" run save.axn >&- 2>&-
expect 0 '^\[1.0\]$' "$AXON" -e '(load "saved.npy" : f32[1])'

# SIGPIPE ends the program without a message.
"$AXON" -e 'iterate 100000 (fn i => (print i; i + 1)) 0' 2>err | head -n 1 >out
[ -s err ] && echo 'a broken pipe is reported' && bad=1

# Messages go to stderr, values to stdout.
"$AXON" -e '1 +' >out 2>err
[ -s out ] && echo 'a diagnostic on stdout' && bad=1
grep -q error err || { echo 'no diagnostic on stderr' && bad=1; }
"$AXON" --color=always -e 1 >out 2>&1
"$AXON" run --color=always bad.axn 2>err
grep -q "$(printf '\033')" err || { echo 'no color with --color' && bad=1; }

# Examples in doc comments.
cat >doc.axn <<'END'
(** twice a number
    >>> twice 2
    4
    >>> twice 3 == 6
    >>> twice 4
    9 *)
fun twice x = 2 * x
END
expect 1 'doc.axn: 2 passed, 1 failed' "$AXON" test doc.axn
expect 1 'expected' "$AXON" test -q doc.axn
expect 1 '^FAIL  doc.axn:5  twice$' "$AXON" test doc.axn
expect 1 '^stdin: 2 passed, 1 failed$' sh -c "'$AXON' test - <doc.axn"
echo 'do exit 3' >exits.axn
expect 1 'exits.axn: the program calls exit' "$AXON" test exits.axn
expect 1 'cannot read none.axn' "$AXON" test none.axn

# Ctrl-C ends a program.
echo 'do print (while (fn x => x >= 0) (fn x => (x + 1) % 1000) 0)' >loop.axn
env --default-signal=INT timeout -k 5 -s INT 1 "$AXON" run loop.axn >out 2>&1
[ $? = 124 ] || { echo 'Ctrl-C did not end a loop' && bad=1; }
grep -q interrupted out || { echo 'Ctrl-C: no message' && bad=1; }
exit "$bad"
