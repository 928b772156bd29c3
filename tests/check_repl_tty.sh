#!/bin/bash
# The REPL on a terminal: editing, pasting, completion, Ctrl-C, history.  tmux
# provides the terminal; without it the test is skipped.
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

# Waits at most 10 s for a line on the screen that matches the pattern.
see() { # see PATTERN
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

# Wide characters work in any locale.
keys '"日本" ^ "é"' Enter
see '^it : string = "日本é"$'

# An incomplete input continues on the next line; Ctrl-C discards it.
keys '(1 +' Enter
see '^|$'
keys C-c
keys '50 + 5' Enter
see '^it : .* = 55$'

# Tab completes a command, a name, a field.
keys ':hel' Tab Enter
see '^:browse'
keys 'val record = {alpha = 66, beta = 1}' Enter
see '^val record'
keys 'recor' Tab '.alp' Tab Enter
see '^it : .* = 66$'

# A pasted text is split into declarations, independent of its line breaks.
tm set-buffer -b p "$(printf 'val pasted =\n  70\n\n  + 7')"
tm paste-buffer -p -b p -t t
keys Enter
see '^val pasted : .* = 77$'

# A pasted expression that starts in column 1 is a separate input.
tm set-buffer -b p \
  "$(printf 'do print 1\npasted + 12\nfun f 0 = 1\n| f n =\n  n')"
tm paste-buffer -p -b p -t t
keys Enter
see '^it : .* = 89$'
see '^val f : '

# Tab completes file names, also after a dash, and inside directories.
mkdir my-models
echo 'val loaded = 90' >my-models/first-one.axn
keys ':load my-' Tab 'first-' Tab Enter
see '^val loaded : .* = 90$'

# The output follows the size of the terminal.
tm resize-window -t t -x 60 -y 40
keys ':doc sum' Enter
see "^    'a\[...s, ...r, ...t\] ->"
tm resize-window -t t -x 90 -y 40

# Ctrl-C interrupts the evaluation of a value before it is printed.  The session
# keeps its state.
keys '(1, sum (for i < 300000, j < 300000 => sin (float i * float j)))' Enter
sleep 0.3
keys C-c
see '^interrupted$'
keys C-l it Enter
see '^val loaded\|^it : .* = 89$'

# Ctrl-C interrupts a loop.  The session keeps its state.
keys 'while (fn x => x >= 0) (fn x => (x + 1) % 1000) 0' Enter
sleep 1
keys C-c
see '^interrupted$'
keys 'pasted + 11' Enter
see '^it : .* = 88$'

# The up arrow recalls the last input.
keys Up Enter
see '^it : .* = 88$'
keys C-d
see '^left 0$'
grep -q '^val pasted = 70 + 7$' "$work/state/axon/history" || {
  echo 'the pasted text is not in the history' && bad=1
  cat "$work/state/axon/history"
}
exit "$bad"
