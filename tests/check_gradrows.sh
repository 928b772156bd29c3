#!/bin/bash
# The derivative of each primitive, in f64:
#   - <jvp f x u, v> = <u, vjp f x v>, to 1e-12,
#   - first and second derivatives are central differences, to 1e-6.
# Vectors and matrices have 0, 1, 2 or a prime number of elements along an axis,
# or stretched axes (*).
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/grad"

# ID | arguments | function of x, or of x and y:
#   a    x: a vector, a matrix, a stretched axis
#   +    the same, of positive numbers
#   aa   x, y: two of equal shapes, or a stretched axis in one or both
#   +a   the same, and x is positive
#   m m1 x: a matrix of n rows and 3 columns; m1: n > 0
#   mm   x, y: matrices of n by 3 and 3 by n
#   s    x: a square matrix
#   v v1 x: a vector; v1: of at least one element
#   vv   x, y: vectors of equal sizes
rows='ADD|aa|x + y
SUB|aa|x - y
MUL|aa|x * y
DIV|aa|x / (y + 3.0)
MOD|aa|x % (y + 3.0)
NEG|a|negate x
MUL_NO_NAN|aa|multiply_no_nan x y
POW|+a|pow x y
MAXIMUM|aa|maximum x y
MINIMUM|aa|minimum x y
ABS|a|abs x
SQRT|+|sqrt x
RSQRT|+|rsqrt x
EXP|a|exp x
EXPM1|a|expm1 x
LOG|+|log x
LOG1P|+|log1p x
SIN|a|sin x
COS|a|cos x
TAN|a|tan x
ATAN2|aa|atan2 x y
SINH|a|sinh x
COSH|a|cosh x
TANH|a|tanh x
ERF|a|erf x
SOFTSIGN|a|softsign x
CBRT|+|cbrt x
LOG2|+|log2 x
LOG10|+|log10 x
ASIN|a|asin (0.9 * tanh x)
ACOS|a|acos (0.9 * tanh x)
ATAN|a|atan x
HYPOT|+a|hypot x y
ASINH|a|asinh x
ACOSH|+|acosh (x + 1.5)
ATANH|a|atanh (0.9 * tanh x)
SELECT|aa|select (x > y) (x * x) (sin y)
CONVERT|a|float x
SUM|m|sum ~axis:0 x
SUM|m|sum ~axis:1 ~keep:true x
PROD|m|prod ~axis:0 x
PROD|m|prod x
MAX|m1|max ~axis:0 x
MAX|m|max ~axis:1 x
MIN|m1|min ~axis:0 x
MATMUL|mm|x @ y
MATMUL|mm|y @ x
DOT|m|dot x [0.5, -1.5, 2.0]
DOT|vv|dot x y
OUTER|vv|outer x y
EINSUM|mm|einsum "i k, k j, i k -> j i" x y x
RESHAPE|m|reshape [3, _] x
FLATTEN|m|flatten (x.[:, :, *] * [1.0, 2.0])
TRANSPOSE|m|transpose x
PERMUTE|mm|permute "i j k -> k i j" (x.[:, *, :] * transpose y)
CONCAT|m|concat ~axis:0 (x, sin x, x)
STACK|vv|stack (list [x, y, x * y])
UNSTACK|m|lists.fold (fn a b => sin (a * b)) x.[:, 1] (unstack (transpose x))
SPLIT|m|case split ~axis:1 [1, 2] x of (a, b) => a.[:, 0] * b.[:, 1]
PAD|m|pad ~axis:0 ~before:2 ~after:1 ~value:0.5 x
REVERSE|m|reverse ~axis:0 x * x
ROLL|m|roll ~axis:0 2 x * x
TILE|v|tile ~axis:0 3 x
REPEAT|m|repeat ~axis:1 2 x
SQUEEZE|m|squeeze ~axis:1 (x.[:, [0]] * x.[:, [1]])
BROADCAST|m|broadcast [2, _, 3] x
FORGET|v|forget x
GATHER|v1|gather x ([0, 0, 0] : i64[3])
GATHER|m|transpose (gather (transpose x) ([2, 0, 2, 1] : i64[4]))
SCATTER|m|scatter ([0.5, 1.5].[:, *] * [1.0, 1.0, 1.0]) (iota (dim 0 x) % 2) x
SCATTER|m1|scatter x [0, 0] ([2.0, 1.0].[:, *] * x.[0, :] * x.[0, :])
SORT|m|sort ~axis:0 x * x
TOPK|m|case topk 2 x of (v, _) => v * v
FILTER|m|filter (fn r => sum r > 0.1) x
UNIQUE|v|unique x
CUMSUM|m|cumsum ~axis:0 (x * x)
DFT|mm|dft ~axis:0 x (transpose y) * sin x
DFT|m|dft ~axis:(0, 1) ~inverse:true x (sin x)
REAL_DFT|v|real_dft x * real_dft x
REAL_DFT|m|real_dft ~axis:0 (x * x)
INVERSE_REAL_DFT|v|fft.irfft (dim 0 x) (fft.rfft (x * x))
INVERSE_REAL_DFT|m|inverse_real_dft ~axis:1 5 x (sin x)
TRIL|m|tril x
TRIU|s|triu x'

# Primitives of the classes CONTROL and HOST are not in the table: their
# derivatives are those of the code that they run (loops.axn, control.axn,
# checkpoint.axn, custom_vjp.axn, structures.axn).
while read -r id; do
  grep -q "^$id|" <<<"$rows" || fail "no check of the derivative of $id"
done < <(grep -E '", (MAP|REDUCE|MOVE|OPAQUE), [^,]*, (PARTIALS|LINEAR|RULE),' \
  "$here/primitives/primitives.def" | sed -n 's/^P(\([A-Z0-9_]*\),.*/\1/p')

echo 'import "row" as r' >rows.axn
count=0
add() { # add MAKE... : a check of the function for these arguments
  if [ $# = 1 ]; then
    echo "do r.row \"$id, $*: $count\" (fn x => $body) ($1)"
  else
    echo "do r.row \"$id, $*: $count\" (fn (x, y) => $body) ($1, $2)"
  fi >>rows.axn
  count=$((count + 1))
}
both() { # both MAKE SHAPE SHAPE: two arguments; MAKE makes the first
  add "$1 1 $2" "r.noise 2 $3"
}
while IFS='|' read -r id kind body; do
  make=r.noise
  [[ $kind == +* ]] && make=r.positive
  case $kind in
  a | +)
    for shape in '[0]' '[1]' '[2]' '[7]' '[2, 3]'; do add "$make 1 $shape"; done
    add "($make 1 [3]).[:, *]"
    add "($make 1 []).[*]"
    ;;
  aa | +a)
    for shape in '[0]' '[1]' '[2]' '[7]' '[2, 3]'; do
      both "$make" "$shape" "$shape"
    done
    add "($make 1 []).[*]" 'r.noise 2 [5]'
    add "$make 1 [5]" '(r.noise 2 []).[*]'
    add "($make 1 [2]).[:, *]" '(r.noise 2 [3]).[*, :]'
    add "($make 1 [2]).[:, *]" '(r.noise 2 []).[*, *]'
    add "$make 1 []" 'r.noise 2 [0, 2]'
    ;;
  m | m1)
    for n in 0 1 2 5; do
      [ "$kind$n" = m10 ] || add "r.noise 1 [$n, 3]"
    done
    ;;
  mm) for n in 0 1 2 5; do both r.noise "[$n, 3]" "[3, $n]"; done ;;
  s) for n in 0 1 2 5; do add "r.noise 1 [$n, $n]"; done ;;
  v | v1)
    for n in 0 1 2 7; do [ "$kind$n" = v10 ] || add "r.noise 1 [$n]"; done
    ;;
  vv) for n in 0 1 2 7; do both r.noise "[$n]" "[$n]"; done ;;
  *) fail "unknown arguments: $kind" ;;
  esac
done <<<"$rows"
[ "$count" -gt 300 ] || fail "only $count checks"
export AXON_TARGET=reference
output=$(timeout "$limit" "$AXON" run rows.axn 2>rows.err) &&
  [ -z "$output" ] && ! grep -q '^error' rows.err ||
  fail "$(head -n 40 <<<"$output"; grep -A9 '^error' rows.err | head -n 60)"
exit "$bad"
