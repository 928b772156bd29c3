#!/bin/bash
# The curves of a training run above the progress bar: they are drawn in a
# terminal, removed before other output and at the end, and Ctrl-C leaves a
# checkpoint and a prompt.  tmux provides the terminal; without it the test is
# skipped.
set -u
command -v tmux >/dev/null || exit 0
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export TERM=xterm-256color
server=axoncurves$$
trap 'tmux -L $server kill-server 2>/dev/null; rm -rf "$work"' EXIT

cat >"$work/curves.axn" <<'END'
fun wait t = while (fn () => clock () < t) id ()
val x : f32[64, 2] = for i < 64, j < 2 => sin (float (i + 3 * j))
fun loss _ rows p = nn.mse (gather x rows @ p) (ones [2, 1])
val start : f32[2, 1] = zeros [2, 1]
val steps = case args () of list [n] => parse_int n | _ => 60
fun score p =
  let val _ = wait (clock () + f64 0.2)
  in nn.mse (x @ p) (ones [64, 1]) end
val trained =
  train.run ~steps ~batch:2 ~rows:64 ~report:2 ~every:2
    ~checkpoint:(if steps > 100 then "curves.safetensors" else "")
    ~validate:(Some score) (train.sgd (const 0.05)) loss start
do print "trained"
END
begin() { # begin COMMAND: in a new terminal
  tmux -L "$server" kill-server 2>/dev/null
  server=${server}x
  tmux -L "$server" -f /dev/null new-session -d -s t -x 90 -y 40 \
    "env NO_COLOR=1 $1; echo left \$?; sleep 60"
}
screen() { tmux -L "$server" capture-pane -p -t t >"$work/screen" 2>&1; }
wait_for() { # wait_for PATTERN: false if it does not appear on the screen
  for _ in $(seq 200); do
    screen
    grep -q "$1" "$work/screen" && return 0
    sleep 0.05
  done
  return 1
}

names='^ *\* loss [0-9.]* *+ validation [0-9.]*$'
begin "'$AXON' run '$work/curves.axn' 20"
wait_for "$names" || fail 'no names of the curves'
screen
grep -q '│ *[^ ]' "$work/screen" || fail 'no curve'
grep -q '█.*/20' "$work/screen" || fail 'no bar'
wait_for '^left 0' || fail 'the run does not end'
grep -v '^step .* loss .* validation' "$work/screen" | grep . >"$work/lines"
printf '%s\n' trained 'left 0' | diff - "$work/lines" ||
  fail 'the curves remain'
begin "'$AXON' run '$work/curves.axn' 1000"
wait_for "$names" || fail 'no names before Ctrl-C'
tmux -L "$server" send-keys -t t C-c
wait_for '^left 130' || fail 'Ctrl-C does not end the run'
grep -v '^step .* loss .* validation' "$work/screen" | grep . >"$work/lines"
grep -q '█\|┤\|└' "$work/lines" && fail 'the curves remain after Ctrl-C'
[ -s curves.safetensors ] || fail 'Ctrl-C leaves no checkpoint'
begin "'$AXON' repl"
wait_for '^>$' || fail 'no prompt'
tmux -L "$server" send-keys -t t \
  'val t = progress 999999999 (fn i n => (track "loss" i 0.5; n)) 0' Enter
wait_for '^ *── loss ' || fail 'no curve in the REPL'
tmux -L "$server" send-keys -t t C-c
wait_for '^>$' || fail 'no prompt after Ctrl-C'
screen
grep -q '█\|┤\|└' "$work/screen" && fail 'the curve remains in the REPL'

# A pipe gets no curves.
"$AXON" run "$work/curves.axn" 4 2>&1 | grep -v '^step' >"$work/piped"
echo trained | diff - "$work/piped" || fail 'curves in a pipe'
exit "$bad"
