# Common functions of tests/*.sh: golden files and test directories.
#
#   NAME.axn with NAME.out    output of `axon run` (and NAME.err: stderr)
#            with NAME.err    diagnostics of `axon run`; exit status 1
#            with NAME.type   output of `axon check`
#            with NAME.fmt    output of `axon fmt`
#            with NAME.strict output of `axon check --strict`; no error
#            with NAME.plan   output of `axon plan --stable --dry`
#            with NAME.bug    output of `axon check`; each diagnostic is at a
#                             mark of the program (tests/marks.sh)
#   examples/models/NAME.axn
#            with NAME.types, output of `axon check --strict`; NAME.expected,
#            output of `axon run`; NAME.params, output of `axon shapes` for the
#            names in its own headings
#   NAME.repl                 a session: lines `> input` and `| more`, and
#                             between them the output of `axon repl --plain`
#
# Optional files: NAME.in (standard input), NAME.args (arguments of the
# program), NAME.opts (options of the verb).  Each test runs in a fresh
# directory with links to NAME.*, to the folders next to it, and to programs
# that are no tests.
export LC_ALL=C.UTF-8 TERM=dumb NO_COLOR=1 COLORTERM=truecolor
here=$(cd "$(dirname "$0")/.." && pwd)
AXON=$(realpath "${AXON:-$here/axon}")
limit=${LIMIT:-100} # timeout in seconds, for programs that hang

bad=0
fail() { # fail MESSAGE: reports a failed check; the test continues
  echo "$*"
  bad=1
}

# Skips the test if kernels cannot be compiled.
need_compiler() {
  command -v "${AXON_CC:-cc}" >/dev/null && return
  echo 'skipped: no C compiler'
  exit 0
}

# Sets `python` to a Python that can import the modules.  Without one, or with
# sanitizers, the test is skipped.  BUILD is the build folder.
find_python() { # find_python MODULES HINT
  if grep -q '^AXON_LDFLAGS = .*sanitize' "$BUILD/Makefile"; then
    echo 'skipped: Python cannot load a library with sanitizers'
    exit 0
  fi
  for python in python3 /usr/bin/python3; do
    "$python" -c "import $1" 2>/dev/null || continue
    python=$(command -v "$python")
    return
  done
  echo "skipped: no Python with $2"
  exit 0
}

# Prints the folders in DIRECTORY, and the programs that are no tests.
untested() { # untested DIRECTORY
  find "$1" -mindepth 1 -maxdepth 1 -printf '%Y %f\n' | awk -v folder="$1" '
    /^d/ { print folder "/" substr($0, 3); next }
    { name = stem = substr($0, 3); sub(/\.[^.]*$/, "", stem) }
    /\.axn$/ { program[stem] }
    /\.(out|err|type|fmt|strict|bug|plan)$/ { tested[stem] }
    END {
      for (stem in program)
        if (!(stem in tested)) print folder "/" stem ".axn"
    }'
}

# Adds the untested files of DIRECTORY other than NAME.axn to `files`.  A folder
# TEST_CACHE keeps the list for other tests.
add_untested() { # add_untested DIRECTORY NAME
  local list=${TEST_CACHE:-$work}/untested${1//\//_} file
  [ -e "$list" ] ||
    { untested "$1" >"$list.$BASHPID" && mv "$list.$BASHPID" "$list"; }
  while IFS= read -r file; do
    [ "$file" = "$1/$2.axn" ] || files+=("$file")
  done <"$list"
}

# Enters a fresh directory with links to the files of DIRECTORY that the test
# NAME may read (default: all files).  ../../examples are the examples, as in a
# folder of tests/.
enter() { # enter DIRECTORY [NAME]
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  export HOME="$work/.home" XDG_STATE_HOME="$work/.state"
  export XDG_CACHE_HOME="${TEST_CACHE:-$work/.cache}"
  export AXON_SIM_CACHE="${TEST_CACHE:-$work}/sim"
  mkdir -p "$work/tests/here" "$HOME"
  ln -s "$here/examples" "$work/examples"
  cd "$work/tests/here" || exit 1
  if [ $# -eq 1 ]; then
    files=("$1"/*)
  else
    files=("$1/$2".*)
    add_untested "$1" "$2"
  fi
  ln -s "${files[@]}" .
}

# Creates the data files for comments `(* file NAME.npy TYPE[SIZES] *)` of a
# program.  They are all zero and sparse, so that they may be large.
make_files() { # make_files PROGRAM
  sed -n 's/^(\* file \([^ ]*\) \([a-z0-9]*\)\[\(.*\)\] \*)$/\1 \2 \3/p' "$1" |
    while read -r file type sizes; do
      case $type in
      f32) code='<f4' bytes=4 ;;
      i64) code='<i8' bytes=8 ;;
      u8) code='|u1' bytes=1 ;;
      *) echo "$1: unknown type: $type" && return 1 ;;
      esac
      printf "\x93NUMPY\x01\x00v\x00%-117s\n" \
        "{'descr': '$code', 'fortran_order': False, 'shape': ($sizes,), }" \
        >"$file"
      truncate -s $((128 + bytes * ${sizes//,/ *})) "$file"
    done
}

# produce KIND NAME: writes $work/out and $work/status; for run also $work/err,
# for bug also $work/json.
produce() {
  input=/dev/null
  [ -e "$2.in" ] && input=$2.in
  opts='' args=''
  [ ! -e "$2.opts" ] || opts=$(<"$2.opts")
  [ ! -e "$2.args" ] || args=$(<"$2.args")
  status=0
  case $1 in
  run)
    # shellcheck disable=SC2086
    timeout "$limit" "$AXON" run $opts "$2.axn" $args \
      <"$input" >"$work/out" 2>"$work/err" || status=$?
    ;;
  type)
    # shellcheck disable=SC2086
    timeout "$limit" "$AXON" check $opts "$2.axn" \
      >"$work/out" 2>&1 || status=$?
    ;;
  strict)
    make_files "$2.axn"
    timeout "$limit" "$AXON" check --strict "$2.axn" \
      >"$work/out" 2>&1 || status=$?
    ;;
  plan)
    # Golden plans are those of the CPU backend with vectors that each
    # processor has.
    env AXON_TINY=100 AXON_TARGET=cpu AXON_VECTOR=16 \
      timeout "$limit" "$AXON" plan --stable --dry "$2.axn" \
      >"$work/out" 2>&1 || status=$?
    ;;
  bug)
    make_files "$2.axn"
    timeout "$limit" "$AXON" check "$2.axn" >"$work/out" 2>&1 || status=$?
    timeout "$limit" "$AXON" check --diagnostics json "$2.axn" \
      >/dev/null 2>"$work/json"
    ;;
  fmt)
    timeout "$limit" "$AXON" fmt - <"$2.axn" >"$work/out" 2>&1 || status=$?
    ;;
  repl)
    sed -n 's/^[>|] \{0,1\}//p' "$2.repl" >"$work/input"
    if grep -q '^> :plan' "$2.repl"; then
      unset AXON_TINY
      AXON_TARGET=cpu
    fi
    timeout "$limit" "$AXON" repl --plain \
      <"$work/input" >"$work/out" 2>&1 || status=$?
    ;;
  esac
  echo "$status" >"$work/status"
}

# model NAME: writes $work/types, $work/expected and $work/params, each with its
# errors.  Returns false after an error.
model() {
  status=0
  timeout "$limit" "$AXON" check --strict "$1.axn" >"$work/types" 2>&1 ||
    status=1
  timeout "$limit" "$AXON" run "$1.axn" >"$work/expected" 2>&1 || status=1
  names=()
  while IFS= read -r line; do
    case $line in ' '* | '') ;; *) names+=("$line") ;; esac
  done <"$1.params"
  timeout "$limit" "$AXON" shapes "$1.axn" "${names[@]}" \
    >"$work/params" 2>&1 || status=1
  return "$status"
}

# Prints the test cases for file $1, one `kind name` per line.
golden_cases() {
  case $1 in
  *.out | *.err) echo "run ${1%.*}" ;;
  *.type) echo "type ${1%.type}" ;;
  *.fmt) echo "fmt ${1%.fmt}" ;;
  *.strict) echo "strict ${1%.strict}" ;;
  *.plan) echo "plan ${1%.plan}" ;;
  *.bug) echo "bug ${1%.bug}" ;;
  *.repl) echo "repl ${1%.repl}" ;;
  esac
}

list_goldens() { # prints all golden cases of tests/, with paths from the root
  find tests -type f \( -name '*.out' -o -name '*.err' -o -name '*.type' \
    -o -name '*.fmt' -o -name '*.strict' -o -name '*.plan' -o -name '*.bug' \
    -o -name '*.repl' \) \
    ! -path 'tests/data/*' | sort |
    while read -r file; do golden_cases "$file"; done | uniq
}

# Runs the tests in FILE, one `KIND PATH` per line, in parallel.  Each process
# runs one slow test, or some golden ones, which are last.
run_cases() { # run_cases FILE [OPTION...]: options of tests/case.sh
  local list=$1 golden='^(run|type|strict|plan|bug|fmt|repl) '
  shift
  { grep -vE "$golden" "$list"; grep -E "$golden" "$list" | xargs -L 8; } |
    xargs -P "$(nproc)" -L 1 "$here/tests/case.sh" "$@"
}

# Runs a few mutants by tests/SCRIPT, or those that MUTANTS and a word select.
# MUTANTS=all runs all of them, MUTANTS=9 one in nine.
run_mutants() { # run_mutants SCRIPT [WORD]
  local script=$1 build=${BUILD:-$here} each=${MUTANTS:-15} program output
  shift
  [ "$each" = all ] && each=1
  for program in python3 cc; do
    command -v "$program" >/dev/null ||
      { echo "skipped: no $program"; exit 0; }
  done
  grep -q 'fsanitize' "$build/Makefile" && {
    echo 'skipped: a build with a sanitizer'
    exit 0
  }
  export PYTHONDONTWRITEBYTECODE=1
  mkdir "$work/mutants"
  output=$(python3 "$here/tests/$script" "$here" "$build" "$work/mutants" \
    "$each" "$@" 2>&1) || fail "$output"
  [ -z "${MUTANTS-}" ] || tail -n 1 <<<"$output"
}
