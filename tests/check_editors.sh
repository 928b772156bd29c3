#!/bin/bash
# The contents of editors/: the grammars, and Neovim (headless) with the
# language server.
set -u
. "$(dirname "$0")/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
if command -v python3 >/dev/null; then
  python3 "$here/tests/editors/grammars.py" || exit 1
fi
command -v nvim >/dev/null || {
  echo 'skipped: nvim is not installed (apt install neovim)'
  exit 0
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CONFIG_HOME=$work/config XDG_DATA_HOME=$work/data
export XDG_STATE_HOME=$work/state XDG_CACHE_HOME=$work/cache
export RESULT=$work/result AXON_ROOT=$here AXON
KEYWORDS=$(sed -n 's/^KEYWORD([A-Z]*, "\([a-z]*\)".*/\1/p' \
  "$here/lexer/keywords.def" | tr '\n' ' ')
export KEYWORDS=${KEYWORDS% }
cat >"$work/model.axn" <<'END'
(** The exponentials of x, divided by their sum. *)
fun softmax x =
  let val e = exp (x - max ~axis:-1 ~keep:true x)
  in e / sum ~axis:-1 ~keep:true e end

val y = softmax [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
val wrong = y @ y
val z = y
END
cd "$work" || exit 1
timeout 300 nvim --headless -u NONE -i NONE -n \
  -S "$here/tests/editors/nvim.lua" >"$work/log" 2>&1 || {
  cat "$work/log"
  exit 1
}
[ -e "$RESULT" ] || {
  echo 'nvim ended early:'
  cat "$work/log"
  exit 1
}
[ ! -s "$RESULT" ] || {
  cat "$RESULT" "$work/log"
  exit 1
}
