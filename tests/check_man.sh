#!/bin/sh
# The manual page is well formed and names every verb and option.
cd "$(dirname "$0")/.." || exit 1
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning doc/axon.1 || exit 1
fi
status=0
for verb in run check shapes dump explain fmt test repl lsp help; do
  grep -q "Cm $verb" doc/axon.1 || {
    echo "doc/axon.1 does not name $verb"
    status=1
  }
  "${AXON:-./axon}" "$verb" --help >/dev/null || {
    echo "axon $verb --help fails"
    status=1
  }
done
exit "$status"
