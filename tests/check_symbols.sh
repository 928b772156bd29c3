#!/bin/bash
# Each global symbol has one definition.  The shared library exports only axn_
# names.
set -u
cd "${BUILD:-$(dirname "$0")/..}" || exit 1
status=0
# The objects of the library and of the program.
objects() {
  nm -A -g --defined-only .libs/libcore.a cli/*.o cli/*/*.o serve/*.o
}
twice=$(objects 2>/dev/null |
  awk '$2 ~ /^[TDBR]$/ || $3 ~ /^[TDBR]$/ { print $NF }' | sort | uniq -d)
for name in $twice; do
  echo "defined twice: $name, in"
  objects 2>/dev/null | grep " $name\$" | sed 's/:[0-9a-f]* .*//; s/^/  /'
  status=1
done
unprefixed=$(nm -D --defined-only .libs/libaxon.so 2>/dev/null |
  awk '{ print $NF }' | grep -v '^axn_')
if [ -n "$unprefixed" ]; then
  echo "libaxon.so exports $unprefixed"
  status=1
fi
exit "$status"
