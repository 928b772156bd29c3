#!/bin/bash
# Makefile.am: in a clean tree, without dependency files, each object whose
# source includes a generated header depends on the header (order-only).  Each
# other generated file has prerequisites.  The test reads the rules of make.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cd "${BUILD:-$here}" || exit 1
[ -f Makefile ] || { echo 'not configured: skipped' >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
sed '/am--include-marker/d' Makefile >"$work/rules"
make -f "$work/rules" -pnq axon >"$work/all" 2>/dev/null

# Prints the C files that include one of the files, directly or indirectly.
includers() { # includers FILE...
  local names more name
  names=$(printf '%s\n' "$@")
  while :; do
    more=$({
      echo "$names"
      for name in $names; do
        grep -rlF "#include \"$name\"" --include='*.[hylc]' support lexer \
          parser primitives runtime show machine size typecheck diagnose \
          tensor kernel plan backend eval session aot onnx editor \
          plan_report repl serve \
          cli tools tests --exclude=parse.c --exclude=scan.c
      done
    } | sort -u)
    [ "$more" = "$names" ] && break
    names=$more
  done
  grep '\.[cyl]$' <<<"$names"
}

for header in $(sed -n 's/^BUILT_SOURCES = //p' Makefile); do
  for source in $(cd "$here" && includers "$header"); do
    object=${source%.*}.lo
    grep -q "^$object:.*| .*$header" "$work/all" || {
      echo "Makefile.am: $object does not depend on $header"
      status=1
    }
  done
done
for file in $(sed -n '/^CLEANFILES = /,/[^\\]$/p' Makefile |
  sed -e 's/^CLEANFILES =//' -e 's/\\$//'); do
  grep -q "^$file: ." "$work/all" || {
    echo "Makefile.am: $file has no prerequisites"
    status=1
  }
done
exit "$status"
