#!/bin/bash
# A condition of a printed type (`given ... if ...`) is one of sizes of that
# type: no golden has another name there, of an index, say.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
grep -rhE '^([^a-z]*note: )?[a-z_0-9]+ : .* given .* if ' \
  tests examples doc README.md --include='*.type' --include='*.types' \
  --include='*.err' --include='*.out' --include='*.bug' --include='*.md' |
  python3 tests/given.py
