#!/bin/bash
# The manual page is well formed.  For each verb, the page and --help list the
# options that the verb accepts, of those in the table in cli/options.c.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning doc/axon.1 || exit 1
fi
bad=0
table=$(sed -n 's/.*{"\([a-z]*\)", [a-z]*_argument,.*/\1/p' cli/options.c)
common='color
diagnostics
help'
[ "$(wc -w <<<"$table")" -gt 9 ] ||
  { echo 'cannot read the table of options' && bad=1; }

accepted_options() { # accepted_options VERB: options that the verb accepts
  for option in $table; do
    # the option after it keeps the verb from running
    timeout 60 "$AXON" "$1" "--$option" --nothing 2>&1 </dev/null |
      grep -q "there is no option .--$option." || echo "$option"
  done | sort
}

help_options() { # help_options VERB: options in --help, and common options
  { "$AXON" help "$1" | sed '/^Examples/,$d' |
    sed -n 's/^  .*--\([a-z]*\) .*/\1/p' && echo "$common"; } | sort -u
}

long_names() { # replaces one-letter options by their long names
  sed 's/^q$/quiet/; s/^D$/define/; s/^e$/expr/; s/^o$/output/'
}

synopsis() { # synopsis VERB: options in the manual page, without common ones
  awk -v verb="$1" '
    /^\.Sh/ { here = /SYNOPSIS/; next }
    here && /^\.Nm/ { mine = 0 }
    here && ($0 ~ "Cm " verb "$") { mine = 1 }
    here && mine' doc/axon.1 |
    sed -n 's/^\.\(Op \)*Fl -*\([A-Za-z]*\).*/\2/p' | long_names
}

same() { # same NAME EXPECTED FOUND
  [ "$2" = "$3" ] && return
  printf '%s:\n' "$1"
  diff <(echo "$2") <(echo "$3")
  bad=1
}

verbs=$("$AXON" help | sed -n 's/^  axon \([a-z]*\) .*/\1/p')
for verb in run $verbs repl; do
  grep -q "^\.Cm $verb\|Cm $verb$" doc/axon.1 || {
    echo "doc/axon.1 does not mention $verb"
    bad=1
  }
  [ "$verb" = help ] && continue
  options=$(accepted_options "$verb")
  same "axon $verb and its --help differ" "$options" "$(help_options "$verb")"
  [ "$verb" = run ] && options=$(grep -vx expr <<<"$options") # axon -e
  same "axon $verb and the synopsis in doc/axon.1 differ" "$options" \
    "$({ synopsis "$verb" && echo "$common"; } | sort -u)"
done
for option in $table; do
  grep -q "^\.It.* Fl -$option" doc/axon.1 || {
    echo "doc/axon.1 does not describe --$option"
    bad=1
  }
done
exit "$bad"
