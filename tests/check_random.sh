#!/bin/bash
# Some fixed random programs, compared with NumPy (tests/random/run.py generates
# others, in any number).  They run on the reference backend, compiled with one
# and two threads, and some with `axon build`.  Others run with an empty and
# with a full kernel cache, and must give the same bits.
set -u
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
export PYTHONDONTWRITEBYTECODE=1
for python in python3 /usr/bin/python3 none; do
  "$python" -c 'import numpy' 2>/dev/null && break
done
if [ "$python" = none ]; then
  echo 'skipped: there is no NumPy'
  exit 0
fi
said=$("$python" tests/random/run.py --axon "$AXON" --built 2 1-16 2>&1) ||
  { printf '%s\n' "$said" && exit 1; }
# not all were refused: of eight, some could be built
case $said in
'16 programs, '[3-8]' of them built, 0 wrong') ;;
*) printf '%s\n' "$said" && exit 1 ;;
esac
said=$("$python" tests/random/run.py --axon "$AXON" --cold 201-212 2>&1) ||
  { printf '%s\n' "$said" && exit 1; }
