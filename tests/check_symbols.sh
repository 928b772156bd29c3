#!/bin/bash
# No two files define the same name, even if each compiles alone.  The shared
# library exports axn_ names only.
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
strangers=$(nm -D --defined-only .libs/libaxon.so 2>/dev/null |
  awk '{ print $NF }' | grep -v '^axn_')
if [ -n "$strangers" ]; then
  echo "libaxon.so exports $strangers"
  status=1
fi
exit "$status"
