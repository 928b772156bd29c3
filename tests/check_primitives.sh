#!/bin/bash
# The example of each row of primitives.def holds, on the reference backend and
# compiled, if it is an expression of type bool that needs no file.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
sed -n 's/\\"/\x01/g; s/^P([A-Z0-9_]*, .*, "\([^"]*\)")$/\1/p' \
  "$here/primitives/primitives.def" | tr '\001' '"' | grep -v '^$' |
  grep -vE '^(assert|print|write|show|save|save_all|save_tree) ' |
  sed 's/^.*$/do assert (all (&))/' >examples.axn
[ "$(wc -l <examples.axn)" -gt 100 ] || wrong 'few rows have an example'
for target in reference cpu; do
  AXON_TINY=0 AXON_TARGET=$target timeout "$limit" "$AXON" run examples.axn \
    >"$work/said" 2>&1 || {
    wrong "$target: an example does not hold"
    head -n 20 "$work/said"
  }
done
exit $bad
