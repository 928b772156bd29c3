#!/bin/bash
# examples/embed: its programs in C, C++ and Python print the same output, with
# the library in the build folder and after `make install` elsewhere.  Also
# tests the Python module (tests/embed/).
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
BUILD=$(realpath "${BUILD:-$root}")
[ -e "$BUILD/.libs/libaxon.so.0" ] || { echo "no libaxon.so" >&2; exit 1; }
setting() { sed -n "s/^$1 = //p" "$BUILD/Makefile"; }
CC=$(setting CC)
sanitizers=$(setting AXON_LDFLAGS)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

same() { # same NAME COMMAND...: the output is examples/embed/expected
  name=$1
  shift
  if ! "$@" "$root/examples/embed/model.axn" >"$work/out" 2>&1 ||
    ! diff -u "$root/examples/embed/expected" "$work/out"; then
    echo "$name: $(cat "$work/out")"
    status=1
  fi
}

programs() { # programs WHERE FLAGS...: compiles and runs the C and C++ programs
  where=$1
  shift
  strict='-Wall -Wextra -Werror -pedantic'
  # shellcheck disable=SC2086
  if $CC -std=c11 $strict $sanitizers examples/embed/embed.c "$@" \
    -o "$work/c"; then
    same "C, $where" "$work/c"
  else
    status=1
  fi
  command -v c++ >/dev/null || return
  # shellcheck disable=SC2086
  if c++ -std=c++17 $strict $sanitizers examples/embed/embed.cc "$@" \
    -o "$work/cc"; then
    same "C++, $where" "$work/cc"
  else
    status=1
  fi
}

# The library in the build folder.  The headers are copied, since their source
# folder also contains private headers.
mkdir "$work/include"
cp session/axon.h session/axon_dlpack.h "$work/include"
export LD_LIBRARY_PATH="$BUILD/.libs"
programs built -I"$work/include" -L"$BUILD/.libs" -laxon

# Calls leak no memory.  (Sanitizers replace the allocator.)
if [ -x "$BUILD/tests/embed/cost" ] && [ -z "$sanitizers" ]; then
  "$BUILD/tests/embed/cost" >"$work/out" || { cat "$work/out" && status=1; }
fi

# The installed library, found by pkg-config.
unset MAKEFLAGS MAKELEVEL MFLAGS
if make -s -C "$BUILD" install DESTDIR="$work/root" >"$work/log" 2>&1; then
  prefix=$(setting prefix)
  export PKG_CONFIG_PATH="$work/root$prefix/lib/pkgconfig"
  flags=$(pkg-config --define-variable=prefix="$work/root$prefix" \
    --cflags --libs axon)
  LD_LIBRARY_PATH="$work/root$prefix/lib"
  # shellcheck disable=SC2086
  programs installed $flags
  expected=$(setting VERSION)
  found=$(pkg-config --modversion axon)
  [ "$found" = "$expected" ] || {
    echo "axon.pc: version $found, expected $expected"
    status=1
  }
else
  cat "$work/log"
  status=1
fi

# The same functions, built by `axon build` and called from C and C++ (from
# Python below).
AXON=${AXON:-$BUILD/axon}
mkdir "$work/made"
built() { # built NAME COMMAND...: the output is built.expected
  "${@:2}" >"$work/out" 2>&1 &&
    diff -u "$root/examples/embed/built.expected" "$work/out" || {
    echo "built, $1: $(head -20 "$work/out")"
    status=1
  }
}
if "$AXON" build -o "$work/made/model.so" \
  --entry "$(cat examples/embed/forward.type)" \
  --entry 'describe : f32[b, n] -> _' examples/embed/model.axn; then
  flags=$(PKG_CONFIG_PATH="$work/made" pkg-config --cflags --libs model)
  strict='-Wall -Wextra -Werror -pedantic'
  # shellcheck disable=SC2086
  cc -std=c11 $strict examples/embed/built.c $flags -o "$work/made/c" &&
    LD_LIBRARY_PATH="$work/made" built C "$work/made/c" || status=1
  # shellcheck disable=SC2086
  if command -v c++ >/dev/null; then
    c++ -std=c++17 $strict examples/embed/built.cc $flags -o "$work/made/cc" &&
      LD_LIBRARY_PATH="$work/made" built C++ "$work/made/cc" || status=1
  fi
else
  status=1
fi

# Python, preferably one with NumPy.
python=
for candidate in python3 /usr/bin/python3; do
  command -v "$candidate" >/dev/null || continue
  python=${python:-$candidate}
  "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate && break
done
# The runtime library of the sanitizer (clang's or gcc's) must be preloaded.
case $sanitizers in
*address*)
  for runtime in "libclang_rt.asan-$(uname -m).so" libasan.so none; do
    runtime=$($CC -print-file-name=$runtime)
    case $runtime in /*) break ;; esac
  done
  case $runtime in
  /*) ;;
  *) echo "no sanitizer runtime: Python is skipped" >&2 && python= ;;
  esac
  ;;
esac
if [ -n "$python" ]; then
  case $sanitizers in
  *address*)
    export LD_PRELOAD="$runtime" \
      ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8
    ;;
  esac
  export PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1
  if "$python" -c 'import numpy' 2>/dev/null; then
    AXON_LIBRARY="$work/root$prefix/lib/libaxon.so.0" \
      same 'Python, installed' "$python" examples/embed/embed.py
    built Python "$python" examples/embed/built.py "$work/made/model.so"
  else
    echo "no NumPy: the tests that need it are skipped" >&2
  fi
  if "$python" -c 'import numpy' 2>/dev/null; then
    (cd examples/embed && AXON_LIBRARY="$BUILD/.libs/libaxon.so.0" \
      "$python" "$root/tests/embed/doc_test.py" "$root/doc/embedding.md") \
      >"$work/out" 2>&1 || { cat "$work/out" && status=1; }
  fi
  if "$python" -c 'import torch' 2>/dev/null; then
    AXON_LIBRARY="$BUILD/.libs/libaxon.so.0" \
      "$python" examples/embed/embed_torch.py examples/embed/model.axn \
      >"$work/out" 2>&1 || { cat "$work/out" && status=1; }
  fi
  AXON_LIBRARY="$BUILD/.libs/libaxon.so.0" "$python" \
    tests/embed/python_test.py >"$work/out" 2>&1 ||
    { cat "$work/out" && status=1; }
else
  echo "no python3: the Python tests are skipped" >&2
fi
exit "$status"
