#!/bin/bash
# In a clean tree, without lists of dependencies, every file that includes a
# generated header waits for it.  The test uses make's own rules.  Each other
# generated file names its sources.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cd "${BUILD:-$here}" || exit 1
[ -f Makefile ] || { echo 'not configured here: skipped' >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
sed '/am--include-marker/d' Makefile >"$work/rules"
make -f "$work/rules" -pnq axon >"$work/all" 2>/dev/null

readers() { # of files: they themselves, and what includes them
  local names more name
  names=$(printf '%s\n' "$@")
  while :; do
    more=$({
      echo "$names"
      for name in $names; do
        grep -rlF "#include \"$name\"" --include='*.[hylc]' support lexer \
          parser primitives runtime machine size typecheck diagnose tensor \
          kernel plan backend eval session aot editor cli tools tests \
          --exclude=parse.c --exclude=scan.c
      done
    } | sort -u)
    [ "$more" = "$names" ] && break
    names=$more
  done
  grep '\.[cyl]$' <<<"$names"
}

for header in $(sed -n 's/^BUILT_SOURCES = //p' Makefile); do
  for source in $(cd "$here" && readers "$header"); do
    object=${source%.*}.lo
    grep -q "^$object:.*| .*$header" "$work/all" || {
      echo "Makefile.am: $object does not wait for $header"
      status=1
    }
  done
done
for file in $(sed -n '/^CLEANFILES = /,/[^\\]$/p' Makefile |
  sed -e 's/^CLEANFILES =//' -e 's/\\$//'); do
  grep -q "^$file: ." "$work/all" || {
    echo "Makefile.am: $file does not say what it is made of"
    status=1
  }
done
exit "$status"
