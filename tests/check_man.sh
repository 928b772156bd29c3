#!/bin/bash
# The manual page is well formed.  The page, --help and the verbs have the same
# options: those of the table in cli/options.c that a verb does not reject.
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
[ "$(wc -w <<<"$table")" -gt 9 ] || { echo 'no table of options' && bad=1; }

taken() { # taken VERB: options that it does not refuse
  for option in $table; do
    timeout 60 "$AXON" "$1" "--$option" 2>&1 </dev/null |
      grep -q 'there is no option' || echo "$option"
  done | sort
}

helped() { # helped VERB: what --help names, and what every verb takes
  { "$AXON" help "$1" | sed '/^Examples/,$d' |
    sed -n 's/^  .*--\([a-z]*\) .*/\1/p' && echo "$common"; } | sort -u
}

long() { # letters as the words that they stand for
  sed 's/^q$/quiet/; s/^D$/define/; s/^e$/expr/; s/^o$/output/'
}

synopsis() { # synopsis VERB: what the manual page gives it, without common
  awk -v verb="$1" '
    /^\.Sh/ { here = /SYNOPSIS/; next }
    here && /^\.Nm/ { mine = 0 }
    here && ($0 ~ "Cm " verb "$") { mine = 1 }
    here && mine' doc/axon.1 |
    sed -n 's/^\.\(Op \)*Fl -*\([A-Za-z]*\).*/\2/p' | long
}

same() { # same WHAT WANTED FOUND
  [ "$2" = "$3" ] && return
  printf '%s:\n' "$1"
  diff <(echo "$2") <(echo "$3")
  bad=1
}

verbs=$("$AXON" help | sed -n 's/^  axon \([a-z]*\) .*/\1/p')
for verb in run $verbs repl; do
  grep -q "^\.Cm $verb\|Cm $verb$" doc/axon.1 || {
    echo "doc/axon.1 does not name $verb"
    bad=1
  }
  [ "$verb" = help ] && continue
  options=$(taken "$verb")
  same "axon $verb, and its --help" "$options" "$(helped "$verb")"
  [ "$verb" = run ] && options=$(grep -vx expr <<<"$options") # axon -e
  same "axon $verb, and the synopsis of doc/axon.1" "$options" \
    "$({ synopsis "$verb" && echo "$common"; } | sort -u)"
done
for option in $table; do
  grep -q "^\.It.* Fl -$option" doc/axon.1 || {
    echo "doc/axon.1 does not explain --$option"
    bad=1
  }
done
exit "$bad"
