#!/bin/bash
# The Jupyter kernel: `axon jupyter`, a notebook with nbconvert, and requests of
# a client (tests/embed/jupyter_test.py).
set -u
. "$(dirname "$0")/lib.sh"
root=$here
BUILD=$(realpath "${BUILD:-$root}")
enter "$here/tests/data"
work=$PWD

find_python 'ipykernel, nbconvert' 'ipykernel and nbconvert'

bad=0
export AXON_LIBRARY="$BUILD/.libs/libaxon.so.0" PYTHONDONTWRITEBYTECODE=1
export PYDEVD_DISABLE_FILE_VALIDATION=1
export PATH="${python%/*}:$PATH" HOME="$work/home" PYTHONPATH="$root/python"
mkdir -p "$HOME" "$work/none"

says() { # says STATUS PATTERN COMMAND...
  local expected=$1 pattern=$2 got=0 output
  shift 2
  output=$("$@" 2>&1) || got=$?
  [ "$got" = "$expected" ] && grep -q -e "$pattern" <<<"$output" && return
  echo "status $got of: $*" && printf '%s\n' "$output"
  bad=1
}

says 2 'give --install or --uninstall' "$AXON" jupyter
says 2 'not both' "$AXON" jupyter --install --user --prefix "$work"
says 1 'cannot run python3' env PATH="$work/none" "$AXON" jupyter --install
echo 'raise ImportError("no such package")' >"$work/none/ipykernel.py"
says 1 'help: install it: .* ipykernel' \
  env PYTHONPATH="$work/none:$PYTHONPATH" "$AXON" jupyter --install
says 1 'no kernel is installed in' \
  "$AXON" jupyter --uninstall --prefix "$work/prefix"
says 0 'installed the kernel in' \
  "$AXON" jupyter --install --prefix "$work/prefix"
export JUPYTER_PATH="$work/prefix/share/jupyter"
says 0 '"language": "axon"' cat "$JUPYTER_PATH/kernels/axon/kernel.json"
"$python" "$root/tests/embed/jupyter_test.py" >"$work/log" 2>&1 ||
  { cat "$work/log" && bad=1; }
says 0 '^removed' "$AXON" jupyter --uninstall --prefix "$work/prefix"
[ ! -e "$JUPYTER_PATH/kernels/axon" ] || { echo 'not removed' && bad=1; }
exit "$bad"
