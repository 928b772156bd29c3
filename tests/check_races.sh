#!/bin/bash
# Tests under the thread sanitizer: the thread pool, tensor memory, caches,
# compiler processes, interrupted sessions in several threads, and generated
# kernels.
#
#     tests/check_races.sh            # about a minute
#     tests/check_races.sh all        # more tests and graphs, all files
#
# By default, only files that share data with other threads are compiled with
# the sanitizer.  The other object files come from this build, unless it uses
# another sanitizer.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
BUILD=$(realpath "${BUILD:-$root}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
flags='-std=gnu11 -g1 -O1 -fsanitize=thread -ffp-contract=off'
echo 'int main(void) { return 0; }' >"$work/none.c"
# shellcheck disable=SC2086
$cc $flags "$work/none.c" -o "$work/none" 2>/dev/null && "$work/none" || {
  echo 'the thread sanitizer does not work: skipped' >&2
  exit 0
}
echo '#include <cmocka.h>' >"$work/has.c"
$cc -include setjmp.h -include stdarg.h -include stddef.h \
  -include stdint.h -fsyntax-only \
  "$work/has.c" 2>/dev/null || exit 0
setting() { sed -n "s/^$1 = //p" "$BUILD/Makefile"; }

modules='support runtime machine tensor kernel plan eval session aot editor'
modules="$modules repl backend backend/reference backend/cpu"
tests='pool block kept artifact compiler memo races call'
kernels='1 1'
# Words that occur in files that share data with other threads.
shares='_Atomic|atomic_|pthread_|flag_|_Thread_local|pool_|kept_'
shares="$shares|memo_|interrupt"
if [ "${1:-}" = all ]; then
  tests="$tests api routines mapped replace"
  modules="$modules lexer parser primitives size typecheck diagnose"
  modules="$modules backend/cuda"
  kernels='1 40' shares=.
fi
sources=$(for module in $modules; do ls "$module"/*.c; done 2>/dev/null |
  sort -u | xargs grep -lE "$shares")
# If the build uses another sanitizer, its object files cannot be linked.  Then
# only the tests of these files run.
rest=$BUILD/.libs/libcore.a
if [ -n "$(setting AXON_LDFLAGS)" ] || [ ! -e "$rest" ]; then
  rest='' tests='pool block'
  sources='runtime/thread_pool.c runtime/cpu_quota.c runtime/caching_allocator.c
    runtime/derived_cache.c runtime/tensor.c runtime/mapped.c runtime/dtype.c \
      support/mem.c support/trap.c support/interrupt.c
    support/arena.c support/buffer.c support/utf8.c'
fi

compile() { # compile SOURCE
  # shellcheck disable=SC2086
  $cc $flags -I. -I"$BUILD" -DAXON_VERSION='"0"' -DSIM_SOURCE="\"$root\"" \
    -c "$1" -o "$work/${1//\//_}.o"
}
export -f compile
export cc flags BUILD root work
# shellcheck disable=SC2086
printf '%s\n' $sources | xargs -P "${JOBS:-2}" -I{} bash -c 'compile {}' \
  >"$work/output" 2>&1 || {
  head -n 40 "$work/output"
  exit 1
}
objects=("$work"/*.o)

# Kernels are compiled with the sanitizer.  The compiler itself runs without it.
cat >"$work/cc" <<END
#!/bin/bash
TSAN_OPTIONS= exec $cc "\$@" -O1 -g -fsanitize=thread
END
chmod +x "$work/cc"
export AXON_CC=$work/cc XDG_CACHE_HOME=$work/cache AXON_THREADS=3
# Child processes start threads after fork; the sanitizer forbids this by
# default.
export TSAN_OPTIONS="die_after_fork=0:halt_on_error=1:exitcode=66"
bad=0

check() { # check NAME ARGUMENT...: builds and runs tests/unit/NAME_test.c
  compile "tests/unit/$1_test.c" &&
    # shellcheck disable=SC2046,SC2086
    $cc $flags "$work/tests_unit_$1_test.c.o" "${objects[@]}" $rest \
      $(setting CMOCKA_LIBS) -lcmocka $(setting LIBS) -lpthread -ldl -lm \
      -o "$work/$1" || exit 1
  timeout 600 "$work/$1" "${@:2}" >"$work/output" 2>&1 || {
    echo "$1_test: status $?"
    grep -v 'RUN\|OK' "$work/output" | head -n 60
    bad=1
  }
}

for test in $tests; do
  check "$test"
done
# shellcheck disable=SC2086
[ -z "$rest" ] || check kernels $kernels
exit "$bad"
