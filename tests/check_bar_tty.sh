#!/bin/bash
# Output while a progress bar is shown: each line is printed alone, and no part
# of the bar remains.  tmux provides the terminal; without it the test is
# skipped.
set -u
command -v tmux >/dev/null || exit 0
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export TERM=xterm-256color
server=axonbar$$
trap 'tmux -L $server kill-server 2>/dev/null; rm -rf "$work"' EXIT

cat >"$work/bar.axn" <<'END'
fun wait t = while (fn () => clock () < t) id ()
fun step i n = (wait (clock () + f64 0.04);
                if i % 10 == 0 then print (format "step %d" i) else ();
                if i == 25 then write "part" else ();
                if i == 27 then write "ial\n" else ();
                n + 1)
do print (progress 40 step 0)
END
tmux -L "$server" -f /dev/null new-session -d -s t -x 90 -y 40 \
  "env NO_COLOR=1 '$AXON' run '$work/bar.axn'; echo left \$?; sleep 60"
screen() { tmux -L "$server" capture-pane -p -t t; }
seen=no
for _ in $(seq 150); do
  screen >"$work/screen"
  grep -q '█.*/40' "$work/screen" && seen=yes
  grep -q '^left' "$work/screen" && break
  sleep 0.05
done
grep . "$work/screen" >"$work/lines"
printf '%s\n' 'step 0' 'step 10' 'step 20' partial 'step 30' 40 'left 0' |
  diff - "$work/lines" && [ $seen = yes ]
