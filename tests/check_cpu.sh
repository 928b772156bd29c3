#!/bin/bash
# Every program of tests/ops by compiled kernels, however small its work: what
# it prints is what the reference backend prints.
set -u
AXON=$(realpath "${AXON:-$(dirname "$0")/../axon}")
cd "$(dirname "$0")/ops" || exit 1
command -v cc >/dev/null || { echo "no C compiler: skipped" >&2; exit 0; }
XDG_CACHE_HOME=$(mktemp -d)
export XDG_CACHE_HOME AXON_TARGET=cpu AXON_TINY=0
trap 'rm -rf "$XDG_CACHE_HOME"' EXIT
one() {
  diff -u "${1%.axn}.out" <("$AXON" run "$1" 2>/dev/null) >"$2" || cat "$2"
}
export -f one
export AXON
# those that end in an error are the reference backend's own
wrong=$(for f in *.axn; do
  [ -e "${f%.axn}.err" ] || echo "$f"
done | xargs -P 2 -I{} bash -c 'one {} "$XDG_CACHE_HOME/{}.diff"')
made=$(find "$XDG_CACHE_HOME" -name '*.so' | head -n 1)
[ -z "$wrong" ] && [ -n "$made" ] && exit 0
echo "${wrong:-no kernel was compiled}"
exit 1
