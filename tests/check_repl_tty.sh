#!/bin/bash
# The REPL on a terminal: editing, pasting, completion, Ctrl-C, history.  tmux
# is the terminal; without it the test is skipped.
set -u
command -v tmux >/dev/null || exit 0
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
export TERM=xterm-256color
server=axon$$
bad=0
trap 'tmux -L $server kill-server 2>/dev/null; rm -rf "$work"' EXIT

tm() { tmux -L "$server" "$@"; }
screen() { tm capture-pane -p -t t; }

# Waits until the screen shows a line that matches.
see() {
  for _ in $(seq 100); do
    screen | grep -q -e "$1" && return
    sleep 0.1
  done
  echo "never seen: $1" && bad=1
  screen | grep . | sed 's/^/  | /'
}

keys() { tm send-keys -t t "$@"; }

tm -f /dev/null new-session -d -s t -x 90 -y 40 \
  "env LC_ALL=C NO_COLOR=1 XDG_STATE_HOME=$work/state '$AXON'; echo left \$?; sleep 60"
see '^Axon .*:help'
keys '20 + 3' Enter
see '^it : .* = 23$'
keys 'half of a li' C-c
keys '40 + 4' Enter
see '^it : .* = 44$'

# Wide characters, whatever the locale is.
keys '"日本" ^ "é"' Enter
see '^it : string = "日本é"$'

# An open input goes on; Ctrl-C forgets it.
keys '(1 +' Enter
see '^|$'
keys C-c
keys '50 + 5' Enter
see '^it : .* = 55$'

# Completion of a command, a name, a field.
keys ':hel' Tab Enter
see '^:browse'
keys 'val record = {alpha = 66, beta = 1}' Enter
see '^val record'
keys 'recor' Tab '.alp' Tab Enter
see '^it : .* = 66$'

# A pasted text is one input for each declaration, whatever its line breaks.
tm set-buffer -b p "$(printf 'val pasted =\n  70\n\n  + 7')"
tm paste-buffer -p -b p -t t
keys Enter
see '^val pasted : .* = 77$'

# An expression at the margin is an input of its own.
tm set-buffer -b p \
  "$(printf 'do print 1\npasted + 12\nfun f 0 = 1\n| f n =\n  n')"
tm paste-buffer -p -b p -t t
keys Enter
see '^it : .* = 89$'
see '^val f : '

# Names of files, also behind a dash; a directory goes on.
mkdir my-models
echo 'val loaded = 90' >my-models/first-one.axn
keys ':load my-' Tab 'first-' Tab Enter
see '^val loaded : .* = 90$'

# What was resized is known.
tm resize-window -t t -x 60 -y 40
keys ':doc sum' Enter
see "^    'a\[...s, ...r, ...t\] ->"
tm resize-window -t t -x 90 -y 40

# Ctrl-C while a value is computed that is to be shown: nothing is lost.
keys '(1, sum (for i < 300000, j < 300000 => sin (float i * float j)))' Enter
sleep 0.3
keys C-c
see '^interrupted$'
keys C-l it Enter
see '^val loaded\|^it : .* = 89$'

# Ctrl-C stops what runs, and nothing is lost.
keys 'while (fn x => x >= 0) (fn x => (x + 1) % 1000) 0' Enter
sleep 1
keys C-c
see '^interrupted$'
keys 'pasted + 11' Enter
see '^it : .* = 88$'

# The arrow brings the last input back.
keys Up Enter
see '^it : .* = 88$'
keys C-d
see '^left 0$'
grep -q '^val pasted = 70 + 7$' "$work/state/axon/history" || {
  echo 'the history lacks what was pasted' && bad=1
  cat "$work/state/axon/history"
}
exit "$bad"
