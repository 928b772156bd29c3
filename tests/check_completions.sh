#!/bin/bash
# The completions for bash and zsh offer the options that --help lists.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
. completions/axon
bad=0
common='--color --diagnostics --help' # options of all verbs

completions_of() { # completions_of WORD...: completions of the last word
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _axon 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

options_of() { # options_of VERB: the options that --help lists
  "$AXON" help "$1" | sed '/^Examples/,$d' | grep -oE -e '^ .*--[a-z]+' |
    grep -oE -e '--[a-z]+'
}

# shellcheck disable=SC2086
for verb in run cache check shapes plan fmt test repl jupyter lsp dump \
  explain; do
  diff -u --label "axon $verb --help" --label completions/axon \
    <({ options_of "$verb"; printf '%s\n' $common; } | sort -u) \
    <(completions_of "$AXON" "$verb" --) || bad=1
  part=$(sed -n "/^    $verb)/,/;;/p; /program=(/,/^  )/p" completions/_axon)
  for option in $(options_of "$verb" | grep -v -e --color -e --diagnostics); do
    grep -qF -e "$option" <<<"$part" || {
      echo "completions/_axon: no option $option of $verb"
      bad=1
    }
  done
done
verbs=$("$AXON" help | grep -oE '^  axon [a-z]+ ' | awk '{ print $2 }')
for verb in $verbs repl; do
  completions_of "$AXON" "$verb" | grep -qx "$verb" || {
    echo "completions/axon: no verb $verb"
    bad=1
  }
done
completions_of "$AXON" explain E010 | grep -qx E0101 || {
  echo 'completions/axon: no codes for explain'
  bad=1
}
exit "$bad"
