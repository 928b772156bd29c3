#!/bin/bash
# Builds the wheel and the Debian packages from a copy of the tracked files, and
# tries them: some minutes.  Needs python3-venv, debhelper and dh-python; checks
# the packages with lintian if it is installed.
#
#     tests/packages.sh [wheel] [debian]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/axon"
cd "$here"
git ls-files -z | tar c --null -T - | tar x -C "$work/axon"
cd "$work"
python=${PYTHON:-/usr/bin/python3}
program='import axon; f = axon.compile("fun f x = x * 2").f; assert f(21) == 42'
clean() { env -i HOME="$work" LC_ALL=C.UTF-8 "$@"; }

# Tries a program and the Python module with these settings.
try() { # try SETTING...
  [ "$(clean "$@" axon -e 'sum (iota 5)')" = 10.0 ]
  clean "$@" axon run axon/examples/life.axn >/dev/null
  clean "$@" python3 -c "$program"
}

try_wheel() {
  "$python" -m venv venv
  venv/bin/pip wheel -q --no-index --wheel-dir wheels axon/python
  venv/bin/pip install -q --no-index wheels/*.whl
  try PATH="$work/venv/bin:$(getconf PATH)"
  if ldd venv/bin/axon | grep libgmp; then
    echo 'the program needs GMP' >&2
    return 1
  fi
}

try_debian() {
  (cd axon && dpkg-buildpackage -us -uc -b) >log 2>&1 ||
    { tail -n 50 log >&2 && return 1; }
  for package in ./*.deb; do
    dpkg-deb -x "$package" root
  done
  bin=$(dirname "$(find "$work/root" -path '*/bin/axon')")
  libraries=$(dirname "$(find "$work/root" -name libaxon.so.0)")
  try PATH="$bin:$(getconf PATH)" \
    LD_LIBRARY_PATH="$libraries" \
    PYTHONPATH="$(find "$work/root" -name dist-packages)"
  flags=$(PKG_CONFIG_SYSROOT_DIR="$work/root" \
    PKG_CONFIG_PATH="$libraries/pkgconfig" pkg-config --cflags --libs axon)
  # shellcheck disable=SC2086
  cc axon/examples/embed/embed.c -o embed $flags
  LD_LIBRARY_PATH="$libraries" ./embed axon/examples/embed/model.axn |
    diff axon/examples/embed/expected -
  if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error ./*.changes
  fi
}

for kind in "${@:-wheel debian}"; do
  for name in $kind; do
    "try_$name"
    echo "$name: passed"
  done
done
