#!/bin/bash
# The completions for bash and zsh offer the options that --help lists.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
. completions/axon
bad=0
common='--color --diagnostics --help' # of all verbs

offered() { # offered WORD...: what completes the last one
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _axon 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

helped() { # helped VERB: its options
  "$AXON" help "$1" | sed '/^Examples/,$d' | grep -oE -e '^ .*--[a-z]+' |
    grep -oE -e '--[a-z]+'
}

# shellcheck disable=SC2086
for verb in run cache check shapes plan fmt test repl lsp dump explain; do
  diff -u --label "axon $verb --help" --label completions/axon \
    <({ helped "$verb"; printf '%s\n' $common; } | sort -u) \
    <(offered "$AXON" "$verb" --) || bad=1
  part=$(sed -n "/^    $verb)/,/;;/p; /program=(/,/^  )/p" completions/_axon)
  for option in $(helped "$verb" | grep -v -e --color -e --diagnostics); do
    grep -qF -e "$option" <<<"$part" || {
      echo "completions/_axon: no $option of $verb"
      bad=1
    }
  done
done
verbs=$("$AXON" help | grep -oE '^  axon [a-z]+ ' | awk '{ print $2 }')
for verb in $verbs repl; do
  offered "$AXON" "$verb" | grep -qx "$verb" || {
    echo "completions/axon: no verb $verb"
    bad=1
  }
done
offered "$AXON" explain E010 | grep -qx E0101 || {
  echo 'completions/axon: no codes for explain'
  bad=1
}
exit "$bad"
