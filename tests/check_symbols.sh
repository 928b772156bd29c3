#!/bin/bash
# Each global symbol has one definition.  The shared library exports only axn_
# names.
set -u
cd "${BUILD:-$(dirname "$0")/..}" || exit 1
status=0
twice=$(nm -A -g --defined-only .libs/libcore.a 2>/dev/null |
  awk '$2 ~ /^[TDBR]$/ || $3 ~ /^[TDBR]$/ { print $NF }' | sort | uniq -d)
for name in $twice; do
  echo "defined twice: $name, in"
  nm -A -g --defined-only .libs/libcore.a | grep " $name\$" | cut -d: -f2 |
    sed 's/^/  /'
  status=1
done
unprefixed=$(nm -D --defined-only .libs/libaxon.so 2>/dev/null |
  awk '{ print $NF }' | grep -v '^axn_')
if [ -n "$unprefixed" ]; then
  echo "libaxon.so exports $unprefixed"
  status=1
fi
exit "$status"
