#!/bin/bash
# Runs fuzz tests:  tests/fuzz/run.sh [SECONDS [NAME...]]
#
# Builds the fuzz targets with clang, its sanitizers and libFuzzer in the folder
# FUZZ_BUILD (default: a temporary one), and runs each from its seeds for
# SECONDS (default: 5).  Inputs that fail are stored in FUZZ_FOUND (default: the
# current folder), and their paths are printed.
#
# With FUZZ_COUNT, each target runs its seeds and FUZZ_COUNT mutations of them
# instead, with a fixed random seed.  The target check then uses one in five of
# its seeds.  Targets of file formats, which are faster, run 20 times as many
# mutations.
#
# FUZZ_OPT=-O0 builds faster.  BUILD is the build folder of Axon, for the
# generated sources.  FUZZ_LIBRARIES is a build folder of tests/sanitized.sh.
# Its libraries are linked, and only the targets are compiled.  Status 77:
# libFuzzer is missing.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-5}
shift $(($# > 0))
names=${*:-check parse csv npy npz png safetensors gguf pth tokenizer onnx}
found=${FUZZ_FOUND:-$PWD}
made=${BUILD:-$root}
build=${FUZZ_BUILD:-}
if [ -z "$build" ]; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
fi
mkdir -p "$build"
build=$(realpath "$build") found=$(realpath "$found")

flags=(-std=gnu11 "${FUZZ_OPT:--O1}" -g -fno-omit-frame-pointer
  -fno-sanitize-recover=all -ffp-contract=off "-I$root" "-I$made")

printf 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n);\n%s\n' \
  'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) {
     return p && n > 9; }' >"$build/probe.c"
if ! clang -fsanitize=fuzzer,address,undefined "$build/probe.c" \
  -o "$build/probe" 2>/dev/null; then
  echo 'fuzzing needs clang and its runtime:' \
    'apt install clang libclang-rt-14-dev'
  exit 77
fi

linker=()
! clang "${flags[@]}" -fsanitize=fuzzer -fuse-ld=lld "$build/probe.c" \
  -o "$build/probe" 2>/dev/null || linker=(-fuse-ld=lld) # it is faster

objects=$build/objects
mkdir -p "$objects"

sources() { # prints the sources of all modules except cli/, also generated ones
  for tree in "$root" "$made"; do
    (cd "$tree" && find support primitives runtime show figure machine lexer \
      parser size typecheck diagnose tensor kernel plan backend eval session \
      aot onnx editor plan_report repl \
      -name '*.c' ! -name '*.pb-c.c' 2>/dev/null) # onnx/messages.c includes it
  done | sort -u
}

compile() { # compile FILE: if it or a header is newer than its object
  object=$objects/$(tr '/' '_' <<<"${1%.c}").o
  file=$made/$1
  [ -e "$file" ] || file=$root/$1
  if [ ! -e "$object" ] ||
    [ -n "$(find "$file" "$newest" -newer "$object")" ]; then
    clang "${flags[@]}" -fsanitize=fuzzer-no-link,address,undefined \
      -DAXON_VERSION='"fuzz"' -DEDIT_SONAME='""' -w -c "$file" \
      -o "$object" || return 255
  fi
}

compile_all() { # sets `linked` to the objects of existing sources
  newest=$(find "$root" \( -name '*.h' -o -name '*.def' \) \
    -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
  export root made objects newest build
  export -f compile
  declare -p flags >"$build/flags"
  sources | xargs -P "$(nproc)" -I{} \
    bash -c '. "$build/flags" && compile {}' || return 1
  mapfile -t linked < <(sources | sed "s/\\.c\$/.o/; y|/|_|; s|^|$objects/|")
}

linked=("${FUZZ_LIBRARIES-}/.libs/libcore.a")
[ -e "${linked[0]}" ] || compile_all || exit 1

seeds() { # seeds NAME: prints the folder with the seeds of a target
  if [ "$1" = check ]; then
    rm -rf "$build/seeds"
    mkdir -p "$build/seeds"
    # With FUZZ_COUNT one in five; tests/fuzz/changes uses all programs.
    (cd "$root" && find tests examples -name '*.axn' -size -3k) |
      LC_ALL=C sort | awk -v n="${FUZZ_COUNT:+5}" 'NR % (n + !n) == 0' |
      while read -r file; do
        cp "$root/$file" "$build/seeds/$(tr '/' '_' <<<"$file")"
      done
    echo "$build/seeds"
  else
    echo "$root/tests/fuzz/seeds/$1"
  fi
}

limit() { # limit NAME: prints the libFuzzer options that limit a run
  if [ -z "${FUZZ_COUNT-}" ]; then
    echo "-max_total_time=$seconds"
    return
  fi
  local count=$FUZZ_COUNT seed_count
  seed_count=$(find "$(seeds "$1")" -type f | wc -l)
  [ "$1" = check ] || [ "$1" = parse ] || count=$((20 * count))
  echo "-runs=$((seed_count + count)) -seed=1"
}

bad=0
ulimit -S -s 524288 2>/dev/null # KiB: the stack size of axon
for name in $names; do
  main=("$root/tests/fuzz/fuzz_$name.c")
  [ "$name" = check ] || [ "$name" = parse ] &&
    main+=("$root/tests/fuzz/grammar.c")
  if ! clang "${flags[@]}" -fsanitize=fuzzer,address,undefined \
    "${linker[@]}" "${main[@]}" "${linked[@]}" -o "$build/fuzz_$name" \
    -lgmp -lm -ldl -lpthread; then
    bad=1
    continue
  fi
  corpus=$build/corpus_$name
  [ -z "${FUZZ_COUNT-}" ] || corpus=$build/counted_$name
  [ -z "${FUZZ_COUNT-}" ] || rm -rf "$corpus"
  mkdir -p "$corpus"
  read -ra limits <<<"$(limit "$name")"
  length=()
  [ -d "$root/tests/fuzz/seeds/$name" ] || length=(-max_len=1200)
  # Runs in a folder with files that programs may load.  Entropic scheduling is
  # disabled, since it would take most of the time: the targets are fast.  The
  # timeout of 25 s per input is only for a busy machine.
  (cd "$root/tests/fuzz/seeds/npy" &&
    exec "$build/fuzz_$name" "${limits[@]}" "${length[@]}" \
      -timeout=25 -rss_limit_mb=2000 -detect_leaks=1 -print_final_stats=1 \
      -entropic=0 -artifact_prefix="$found/fuzz_$name-" \
      "$corpus" "$(seeds "$name")") >"$build/$name.log" 2>&1 || {
    bad=1
    echo "fuzz_$name failed:"
    tail -n 60 "$build/$name.log"
    continue
  }
  echo "fuzz_$name: $(sed -n 's/.*number_of_executed_units: *//p' \
    "$build/$name.log") inputs"
done
exit "$bad"
