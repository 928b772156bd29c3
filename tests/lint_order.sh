#!/bin/bash
# Arguments and initializers that name values or emit code are computed one
# after the other, so programs do not depend on the C compiler.
set -u
. "$(dirname "$0")/lib.sh"
find_python re 'the module re'
cd "$here" || exit 1
lists=$("$python" tests/evaluation_order.py onnx/*.c aot/*.c backend/*/*.c) ||
  fail "$lists: compute them before, in variables"
# The script finds such a list.
cat >"${TMPDIR:-/tmp}/order.$$.c" <<'C'
static const char *named(X *x) { return make_identifier(x); }
void f(X *x) { g(x, named(x), make_identifier(x)); }
void h(X *x) { g(x, named(x), named(x)); }
C
found=$("$python" tests/evaluation_order.py "${TMPDIR:-/tmp}/order.$$.c" |
  wc -l)
rm "${TMPDIR:-/tmp}/order.$$.c"
[ "$found" = 1 ] || fail "of one wrong list, the script finds $found"
exit "$bad"
