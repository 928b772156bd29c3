#!/bin/bash
# gguf.tiles and gguf.layers refuse what they cannot put in tiles, and name it.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/run"
head -c 4000 files/blocks.gguf >cut.gguf
: >empty.gguf

refused() { # refused MESSAGE EXPRESSION
  local output status
  cat >p.axn <<END
fun tiles file names : f16[?, ?, 64] * f16[?, ?, 64] * u8[?, ?, ?, 64, 4] =
  gguf.tiles file names
fun layers depth : f16[?, ?, ?, 64] * f16[?, ?, ?, 64] * u8[?, ?, ?, ?, 64, 4] =
  gguf.layers "files/blocks.gguf" depth (list ["q4_1"])
do print ($2)
END
  output=$("$AXON" run p.axn 2>&1)
  status=$?
  [ $status = 1 ] || fail "$2: status $status"
  grep -qF -- "$1" <<<"$output" || fail "$2: $output"
}
file='tiles "files/blocks.gguf"'
refused 'contains no tensor "nope"' "$file (list [\"nope\"])"
refused 'half of "files/blocks.gguf": it is no matrix of blocks' \
  "$file (list [\"half\"])"
refused 'q4_0 and q8_0 differ in the type or length of rows' \
  "$file (list [\"q4_0\", \"q8_0\"])"
refused 'the scales of Q4_K are f32, not f16' "$file (list [\"q4_k\"])"
refused 'there are no matrices' "$file (list [])"
refused 'a model has at least one layer' 'layers 0'
refused 'a model has at least one layer' 'layers (-1)'
refused '3 rows are no tiles of 2 layers' 'layers 2'
refused 'No such file' 'tiles "none.gguf" (list ["q4_1"])'
refused 'cut.gguf' 'tiles "cut.gguf" (list ["q4_1"])'
refused 'empty.gguf' 'tiles "empty.gguf" (list ["q4_1"])'
refused 'files' 'tiles "files" (list ["q4_1"])'
exit "$bad"
