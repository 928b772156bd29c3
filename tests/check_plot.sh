#!/bin/bash
# Figures: files in SVG and PNG, in ASCII, in colour, and wrong input.
# tests/check_plot.sh --bless writes the golden files in tests/data/plot.
set -u
bless=${1-}
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
cd "$work" || exit 1
ln -s "$here/tests/data/plot.axn" .

# check NAME COMMAND...: its output is in tests/data/plot/NAME.
check() {
  local name=$1
  shift
  "$@" >"$name" 2>&1
  [ "$bless" != --bless ] || cp "$name" "$here/tests/data/plot/$name"
  diff -u "$here/tests/data/plot/$name" "$name" || fail "$name differs"
}

cat >svg.axn <<'END'
import "./plot" as p
do plot.save ~width:400 ~height:300 "w.svg" p.waves
do plot.save ~width:300 ~height:200 "b.svg" p.bars
do plot.save ~width:300 ~height:200 "c.SVG" p.colours
END
"$AXON" run svg.axn || fail 'the SVG files are not written'
check waves.svg cat w.svg
check bars.svg cat b.svg
check colours.svg cat c.SVG
for file in w.svg b.svg c.SVG; do
  python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$file" ||
    fail "$file is no XML"
done

# On a terminal.
cat >print.axn <<'END'
import "./plot" as p
do (print p.waves; print p.bars; print p.colours)
END
check ascii.txt env LC_ALL=C "$AXON" run print.axn
check colours_256.txt env COLORTERM= "$AXON" run --color=always print.axn
check colours_rgb.txt "$AXON" run --color=always print.axn
LC_ALL=C "$AXON" run print.axn | LC_ALL=C grep -q '[^ -~]' && fail 'not ASCII'
env -u LC_ALL -u LANG -u LC_CTYPE "$AXON" run print.axn | grep -q '┤' ||
  fail 'no UTF-8 without a locale'

# A PNG file, if there is cairo: its size and some pixels.
cat >png.axn <<'END'
import "./plot" as p
do plot.save "heat.png" p.colours
do plot.save ~width:400 ~height:300 ~scale:1.5 "scaled.png" p.waves
END
if "$AXON" run png.axn 2>err.txt; then
  cat >pixels.axn <<'END'
val heat : u8[500, 800, 3] = load "heat.png"
val scaled : u8[450, 600, 3] = load "scaled.png"
(* The centres of the four elements: the colours of viridis. *)
do print (heat.[100, 200, :], heat.[100, 500, :], heat.[350, 200, :])
do print (heat.[350, 500, :], heat.[0, 0, :])
(* The colours of the series occur. *)
fun has (c : i64[3]) =
  any (all ~axis:-1 (abs (i64 scaled - c) <= 12))
do print (has [31, 119, 180], has [255, 127, 14], has [44, 160, 44])
(* There is text: dark pixels above the area. *)
do print (any (scaled.[:36, :, :] < 100))
END
  "$AXON" run pixels.axn >pixels.txt || fail 'the PNG files are not as expected'
  diff - pixels.txt <<'END' || fail 'other pixels'
([68,  1, 84], [ 49, 104, 142], [ 53, 183, 121])
([253, 231,  37], [255, 255, 255])
(true, true, true)
true
END
else
  grep -q 'apt install libcairo2' err.txt || fail "PNG: $(cat err.txt)"
fi

# Wrong input.  An existing file stays.
rejects() { # rejects PATTERN TEXT
  "$AXON" -e "$2" >out.txt 2>&1 && fail "accepted: $2"
  grep -q -e "$1" out.txt || fail "$2: $(cat out.txt)"
}
rejects '3 and 2' 'plot.line [1, 2] [1, 2, 3]'
rejects '2 and 3' 'plot.area [1, 2, 3] [1, 2, 3] [1, 2]'
rejects 'expected plot.figure' 'plot.save "x.svg" [1.0]'
rejects 'must be .png or .svg' 'plot.save "x.pdf" (plot.line [1] [2])'
rejects 'cannot have 10 by 500 px' \
  'plot.save ~width:10 "x.svg" (plot.line [1] [2])'
rejects 'at the scale -1' 'plot.save ~scale:-1 "x.png" (plot.line [1] [2])'
rejects 'at the scale nan' 'plot.save ~scale:nan "x.png" (plot.line [1] [2])'
rejects 'at most 10000 pixels' \
  'plot.save ~width:9000 ~scale:2 "x.png" (plot.line [1] [2])'
rejects 'limits of the y axis cannot be 1 and 1' \
  'plot.axes ~y_limits:(1, 1) (list [plot.line [1] [2]])'
rejects 'logarithmic axis must be positive' \
  'plot.axes ~log_x:true ~x_limits:(0, 1) (list [plot.line [1] [2]])'
rejects 'a heat map needs linear axes' \
  'plot.axes ~log_x:true (list [plot.heatmap [[1, 2]]])'
rejects 'bins must be at least 1' 'plot.histogram ~bins:0 [1, 2]'
rejects 'functions of module plot' \
  'print (case plot.line [1] [2] of plot.Figure f => plot.Figure {f with
     layers = lists.map (fn l => {l with y = f64 [1, 2]}) f.layers})'
rejects 'print (plot.sequence x)' 'show [1.0, 2.0]'
rejects 'No such file or directory' \
  'plot.save "none/x.svg" (plot.line [1] [2])'
cp waves.svg before.svg
rejects 'linear axes' \
  'plot.save "waves.svg" (plot.axes ~log_y:true (list [plot.heatmap [[1]]]))'
cmp waves.svg before.svg || fail 'a failed save changes the file'

# dlopen finds no cairo.
grep -q 'fsanitize' "${BUILD:-$here}/Makefile" && exit "$bad"
cat >hide.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags) {
  void *(*open_it)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
  return name && strstr(name, "cairo") ? NULL : open_it(name, flags);
}
END
cc -shared -fPIC hide.c -o hide.so -ldl || exit 1
out=$(LD_PRELOAD=$PWD/hide.so "$AXON" -e \
  'plot.save "x.png" (plot.line [1] [2])' 2>&1)
grep -q 'apt install libcairo2' <<<"$out" || fail "no library: $out"
exit "$bad"
