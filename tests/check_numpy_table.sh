#!/bin/bash
# The Axon column of each table in doc/numpy.md gives the values of the NumPy
# column, which `python3 tests/numpy_table.py expected` printed.  If NumPy is
# installed, the printed values are tested as well.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
cd "$here" || exit 1
expected=tests/data/numpy_table.txt
python3 tests/numpy_table.py axon >"$work/table.axn" || exit 1
"$AXON" run -q "$work/table.axn" >"$work/table.out" || exit 1
diff -u "$expected" "$work/table.out" || exit 1
if python3 -c 'import numpy' 2>/dev/null; then
  python3 tests/numpy_table.py expected | diff -u "$expected" - || exit 1
fi
