#!/bin/bash
# Sums of products of bytes are dot products of four terms (kernel/byte_dot.c):
# the same numbers as the reference backend, for all that has them and for what
# looks similar.
set -u
. "$(dirname "$0")/lib.sh"
need_compiler
enter "$(mktemp -d)"
unset AXON_CC AXON_THREADS
cat >head.axn <<'END2'
fun bits n = force (for i < n => u8 ((i * 37 + i / 7 * 11) % 256))
fun signs n = force (for i < n => i8 ((i * 91 + i / 5 * 13) % 256 - 128))
END2

# Compares a program with the reference.  dots: how many loops have some.
dots() { # dots NAME COUNT PROGRAM
  printf '%s\n' "$(cat head.axn)" "$3" >"$1.axn"
  AXON_TARGET=reference "$AXON" run "$1.axn" >expected 2>&1 ||
    fail "$1: the reference fails: $(head -3 expected)"
  AXON_TARGET=cpu AXON_TINY=0 AXON_VERIFY=1 "$AXON" run "$1.axn" >found 2>&1
  cmp -s expected found || fail "$1: $(diff expected found | head -4)"
  AXON_TARGET=cpu AXON_TINY=0 "$AXON" plan --stage specs "$1.axn" >specs 2>&1
  count=$(grep -c 'i32 = dot' specs)
  [ "$count" = "$2" ] || fail "$1: $count dot products, not $2"
}

dots rows 1 '
val q = reshape [3, 5, 40, 4] (bits 2400)
val x = reshape [5, 4] (signs 20)
do print (for i l => sum (for k t => i32 q.[i, k, l, t] * i32 x.[k, t]))'
dots swapped 1 '
val q = reshape [3, 5, 17, 4] (bits 1020)
val x = reshape [5, 4] (signs 20)
do print (for i l => sum (for k t => i32 x.[k, t] * i32 q.[i, k, l, t]))'
# A shift and a mask; each byte of a word has its own bits.
dots nibbles 1 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [2, 5, 4] (signs 40)
do print (for l => sum (for k h t =>
  i32 (bit_and (shift_right q.[k, l, t] (u8 (4 * h))) (u8 15))
  * i32 x.[h, k, t]))'
AXON_TARGET=cpu AXON_TINY=0 "$AXON" plan --schedule nibbles.axn |
  grep -q 'lanes i0; unroll i2' || fail 'nibbles: the shift is no constant'
dots low 1 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t =>
  i32 (bit_and q.[k, l, t] (u8 199)) * i32 x.[k, t]))'
# All rows use a tile of a large matrix, one after the other.
dots tiles 1 '
val q = reshape [16, 72, 64, 4] (bits 294912)
val x = reshape [4, 72, 4] (signs 1152)
val y = force (for r i l =>
  sum (for k t => i32 q.[i, k, l, t] * i32 x.[r, k, t]))
do print y.[3, 15, ...]'
AXON_TARGET=cpu AXON_TINY=0 "$AXON" plan --schedule tiles.axn |
  grep -q 'tasks i1, i0, i2 64;' || fail 'tiles: each row reads all tiles'
# Words that are not neighbours in the lanes, and rows of words.
dots columns 1 '
val q = reshape [40, 5, 4] (bits 800)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t => i32 q.[l, k, t] * i32 x.[k, t]))'
dots row 1 '
val q = reshape [90, 4] (bits 360)
val x = reshape [90, 4] (signs 360)
do print (sum (for k t => i32 q.[k, t] * i32 x.[k, t]))'
dots both 1 '
val q = reshape [7, 9, 4] (bits 252)
val x = reshape [11, 9, 4] (signs 396)
do print (for i j => sum (for k t => i32 q.[i, k, t] * i32 x.[j, k, t]))'
# Only the four terms.
dots single 1 '
val q = reshape [33, 4] (bits 132)
val x = signs 4
do print (for l => sum (for t => i32 q.[l, t] * i32 x.[t]))'
# Words that do not begin at a multiple of four bytes of their tensor.
dots offset 0 '
val q = reshape [5, 33, 4] (bits 661).[1:]
val x = reshape [5, 4] (signs 23).[3:]
do print (for l => sum (for k t => i32 q.[k, l, t] * i32 x.[k, t]))'
# Bits of a neighbour would reach the mask; a shift of eight bits is zero.
dots foreign 0 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t =>
  i32 (bit_and (shift_right q.[k, l, t] (u8 4)) (u8 31)) * i32 x.[k, t]))'
dots bytes 0 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [3, 5, 4] (signs 60)
do print (for l => sum (for k h t =>
  i32 (bit_and (shift_right q.[k, l, t] (u8 (4 * h))) (u8 15))
  * i32 x.[h, k, t]))'
# Two signed bytes, two unsigned ones, three or strided terms, a product with a
# float, another reduction, and a shift for each term.
dots signed 0 '
val q = reshape [5, 33, 4] (signs 660)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t => i32 q.[k, l, t] * i32 x.[k, t]))'
dots unsigned 0 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [5, 4] (bits 20)
do print (for l => sum (for k t => i32 q.[k, l, t] * i32 x.[k, t]))'
dots three 0 '
val q = reshape [5, 33, 3] (bits 495)
val x = reshape [5, 3] (signs 15)
do print (for l => sum (for k t => i32 q.[k, l, t] * i32 x.[k, t]))'
dots strided 0 '
val q = reshape [5, 4, 33] (bits 660)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t => i32 q.[k, t, l] * i32 x.[k, t]))'
dots odd 0 '
val q = reshape [5, 33, 5] (bits 825)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k, t < 4 => i32 q.[k, l, t] * i32 x.[k, t]))'
dots greatest 0 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [5, 4] (signs 20)
do print (for l => max (for k t => i32 q.[k, l, t] * i32 x.[k, t]))'
dots shifts 0 '
val q = reshape [5, 33, 4] (bits 660)
val x = reshape [5, 4] (signs 20)
do print (for l => sum (for k t =>
  i32 (bit_and (shift_right q.[k, l, t] (u8 t)) (u8 15)) * i32 x.[k, t]))'

# The same in a module, for all processors.
cat >module.axn <<'END2'
fun f (q : u8[3, 5, 40, 4]) (x : i8[5, 4]) =
  for i l => sum (for k t => i32 q.[i, k, l, t] * i32 x.[k, t])
END2
"$AXON" build module.axn -o module.c --entry f || fail 'axon build'
grep -q 'dot_bytes(' module.c || fail 'the module has no dot product'
cc -O1 -Wall -Wextra -Werror -c module.c || fail 'cc module.c'
exit "$bad"
