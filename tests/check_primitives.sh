#!/bin/bash
# The example of each row of primitives.def is true, on the reference backend
# and on the CPU.  Skips examples without a result of type bool.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
sed -n 's/\\"/\x01/g; s/^P([A-Z0-9_]*, .*, "\([^"]*\)")$/\1/p' \
  "$here/primitives/primitives.def" | tr '\001' '"' | grep -v '^$' |
  grep -vE '^(assert|print|write|show|track|save|save_all|save_tree) ' |
  grep -v '^plot.save ' |
  sed 's/^.*$/do assert (all (&))/' >examples.axn
[ "$(wc -l <examples.axn)" -gt 100 ] || fail 'at most 100 rows have an example'
for target in reference cpu; do
  AXON_TINY=0 AXON_TARGET=$target timeout "$limit" "$AXON" run examples.axn \
    >"$work/output" 2>&1 || {
    fail "$target: an example is false"
    head -n 20 "$work/output"
  }
done
exit $bad
