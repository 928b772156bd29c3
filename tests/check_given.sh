#!/bin/bash
# In each golden file, a condition of a printed type (`given ... if ...`)
# mentions only sizes of that type, never the index of a loop.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
grep -rhE '^([^a-z]*note: )?[a-z_0-9]+ : .* given .* if ' \
  tests examples doc README.md --include='*.type' --include='*.types' \
  --include='*.err' --include='*.out' --include='*.bug' --include='*.md' |
  python3 tests/given.py
