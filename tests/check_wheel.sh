#!/bin/bash
# `pip wheel python/` makes a wheel for this platform, without a network.
# Installed in a new virtual environment, it has the module with its library,
# and the program.  The wheel contains this build; tests/packages.sh also builds
# it from the sources.
set -u
. "$(dirname "$0")/lib.sh"
root=$here
BUILD=$(realpath "${BUILD:-$root}")
enter "$here/tests/data"
work=$PWD

find_python 'ensurepip, venv' 'venv and ensurepip (python3-venv)'

fail() {
  echo "$1"
  shift
  [ $# = 0 ] || "$@"
  exit 1
}

wheel_version=$(sed -n 's/^AC_INIT(\[Axon\], \[\([^]]*\)\].*/\1/p' \
  "$root/configure.ac")
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
export HOME="$work/home"
mkdir -p "$HOME"
"$python" -m venv "$work/venv" >"$work/log" 2>&1 ||
  fail 'no virtual environment:' cat "$work/log"
"$work/venv/bin/pip" wheel -q --no-index --wheel-dir "$work/wheels" \
  --config-settings build="$BUILD" "$root/python" >"$work/log" 2>&1 ||
  fail 'pip wheel failed:' cat "$work/log"
wheels=("$work"/wheels/*)
name=axon_tensor-$wheel_version-py3-none-linux_
[[ ${wheels[*]} == "$work/wheels/$name"* ]] ||
  fail "unexpected wheels: ${wheels[*]}"

"$work/venv/bin/pip" install -q --no-index "${wheels[0]}" >"$work/log" 2>&1 ||
  fail 'pip install failed:' cat "$work/log"

# Only the virtual environment and the system: no build folder, no settings.
clean=(env -i HOME="$HOME" LC_ALL=C.UTF-8 PATH="$work/venv/bin:/usr/bin:/bin")
[ "$("${clean[@]}" axon --version)" = "axon $wheel_version" ] ||
  fail 'axon --version is not the version of configure.ac'
[ "$("${clean[@]}" axon -e 'sum (iota 5)')" = 10.0 ] || fail 'axon -e'
"${clean[@]}" python - "$work/venv" >"$work/log" 2>&1 <<'END' || fail '' cat "$work/log"
import array
import importlib.metadata
import sys
import axon
from axon import _lib
assert _lib.lib._name.startswith(sys.argv[1]), _lib.lib._name
assert importlib.metadata.version("axon-tensor") == axon.version()
m = axon.compile("fun f x = sum (x * 2.0)", arrays=False)
assert m.f(array.array("f", [0.5, 1.5])) == 4.0
assert m["nn.relu"](-1.5) == 0.0
END
"${clean[@]}" axon jupyter --install 2>&1 |
  grep -q 'help: install it: .*/venv/bin/python.* ipykernel' ||
  fail 'axon jupyter'
"${clean[@]}" pip uninstall -q -y axon-tensor || fail 'pip uninstall'
left=$(find "$work/venv" -iname '*axon*')
[ -z "$left" ] || fail "pip uninstall left $left"
