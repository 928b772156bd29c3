#!/bin/bash
# Fuzzes:  tests/fuzz/run.sh [SECONDS [NAME...]]   e.g. run.sh 600 check
#
# Builds the fuzzers with clang, its sanitizers and libFuzzer, in $FUZZ_BUILD
# (a folder that lasts saves the second build; unless given, one that does not),
# and runs each from its seeds for SECONDS, unless given 5.  What they find
# stays in the folder FUZZ_FOUND (unless given, the current one) and its path
# is shown.  With FUZZ_COUNT each runs, in place of so long, its seeds and so
# many changes of them, always the same ones; of the checker's seeds it takes
# one in five, and of files, which take less time, twenty times as many changes.
# FUZZ_OPT=-O0 builds faster.  BUILD is the folder in which Axon was
# made, for the generated sources.  Status 77: there is no libFuzzer here.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-5}
shift $(($# > 0))
names=${*:-check parse csv npy npz png safetensors}
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

objects=$build/objects
mkdir -p "$objects"

sources() { # those of all modules but cli/, the generated ones included
  for tree in "$root" "$made"; do
    (cd "$tree" && find support primitives runtime machine lexer parser \
      size typecheck diagnose tensor kernel plan backend eval session aot \
      editor -name '*.c' 2>/dev/null)
  done | sort -u
}

compile() { # compile FILE: into the objects, if it or a header is newer
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

newest=$(find "$root" \( -name '*.h' -o -name '*.def' \) -printf '%T@ %p\n' |
  sort -n | tail -n 1 | cut -d' ' -f2-)
export root made objects newest
export -f compile
declare -p flags >"$build/flags"
export build
sources | xargs -P "$(nproc)" -I{} bash -c '. "$build/flags" && compile {}' ||
  exit 1

# Not what is left of files that are no more.
mapfile -t linked < <(sources | sed "s/\\.c\$/.o/; y|/|_|; s|^|$objects/|")

seeds() { # the folder with the seeds of a fuzzer
  if [ "$1" = check ]; then
    rm -rf "$build/seeds"
    mkdir -p "$build/seeds"
    # counted: some of them; tests/fuzz/changes has all
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

limit() { # NAME: how long it runs, or how much
  if [ -z "${FUZZ_COUNT-}" ]; then
    echo "-max_total_time=$seconds"
    return
  fi
  local count=$FUZZ_COUNT there
  there=$(find "$(seeds "$1")" -type f | wc -l)
  [ "$1" = check ] || [ "$1" = parse ] || count=$((20 * count))
  echo "-runs=$((there + count)) -seed=1"
}

bad=0
ulimit -S -s 524288 2>/dev/null # as large as the program's own
for name in $names; do
  main=("$root/tests/fuzz/fuzz_$name.c")
  [ "$name" = check ] || [ "$name" = parse ] &&
    main+=("$root/tests/fuzz/grammar.c")
  if ! clang "${flags[@]}" -fsanitize=fuzzer,address,undefined \
    "${main[@]}" "${linked[@]}" -o "$build/fuzz_$name" \
    -lgmp -lm -ldl -lpthread; then
    bad=1
    continue
  fi
  corpus=$build/corpus_$name
  [ -z "${FUZZ_COUNT-}" ] || corpus=$build/counted_$name
  [ -z "${FUZZ_COUNT-}" ] || rm -rf "$corpus"
  mkdir -p "$corpus"
  read -ra limits <<<"$(limit "$name")"
  # The limit of time is for a busy machine; the check itself has none.
  length=()
  [ -d "$root/tests/fuzz/seeds/$name" ] || length=(-max_len=1200)
  # In a folder that programs may load from.  Entropic scheduling would take
  # most of the time: what is fuzzed is fast.
  (cd "$root/tests/fuzz/seeds/npy" &&
    exec "$build/fuzz_$name" "${limits[@]}" "${length[@]}" \
      -timeout=25 -rss_limit_mb=2000 -detect_leaks=1 -print_final_stats=1 \
      -entropic=0 -artifact_prefix="$found/fuzz_$name-" \
      "$corpus" "$(seeds "$name")") >"$build/$name.log" 2>&1 || {
    bad=1
    echo "fuzz_$name found something:"
    tail -n 60 "$build/$name.log"
    continue
  }
  echo "fuzz_$name: $(sed -n 's/.*number_of_executed_units: *//p' \
    "$build/$name.log") inputs"
done
exit "$bad"
