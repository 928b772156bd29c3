#!/bin/bash
# Generated kernels compile without warnings in gcc and clang:
#
#     tests/check_warnings.sh [COUNT [SEED]]
#
# Compiles the kernels that kernels_test generates for COUNT random graphs.
set -u
cd "$(dirname "$0")/.." || exit 1
test=${BUILD:-.}/tests/unit/kernels_test
[ -x "$test" ] || { echo 'kernels_test was not built: skipped' >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/cc" <<'END'
#!/bin/bash
warn=(-O1 -Wall -Wextra -Wno-psabi)
for arg in "$@"; do
  case $arg in
  -fno-use-linker-plugin) ;;
  -std=* | -m* | -f* | *.c) args+=("$arg") ;;
  esac
  [ "$arg" = -w ] || all+=("$arg")
done
log=$(mktemp)
compile() { # compile CC ARGUMENT...: keeps the warnings
  "$@" >"$log" 2>&1
  status=$?
  sed "s|.*/kernel.c|$1: kernel.c|" "$log" >>"$WARNINGS"
}
if command -v clang >/dev/null; then
  compile clang "${args[@]}" "${warn[@]}" -fsyntax-only # it warns early
fi
if command -v gcc >/dev/null; then
  compile gcc "${all[@]}" "${warn[@]}" # kernels_test compares the results
else
  cc "$@"
  status=$?
fi
rm "$log"
exit "$status"
END
chmod +x "$work/cc"
: >"$work/warnings"
WARNINGS=$work/warnings AXON_CC=$work/cc XDG_CACHE_HOME=$work/cache \
  "$test" "${2:-1}" "${1:-8}" >"$work/output" 2>&1 ||
  { cat "$work/output" && exit 1; }
[ -s "$work/warnings" ] || exit 0
grep -E 'warning|error' "$work/warnings" | sed 's/[0-9][0-9]*/N/g' | sort |
  uniq -c | sort -rn | head -n 20
head -n 20 "$work/warnings"
exit 1
