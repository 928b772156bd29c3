#!/bin/bash
# The kernel cache: list, verify and clear; 20 concurrent processes; no home
# directory, no compiler, invalid settings; caches of other users.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
command -v cc >/dev/null || { echo 'no C compiler: skipped' >&2; exit 0; }
export XDG_CACHE_HOME="$work/cache" AXON_TARGET=cpu AXON_TINY=0 TMPDIR="$work"
export AXON_OPTIMIZE=always # no kernel is compiled again later
unset AXON_CC AXON_CC_DEBUG AXON_CACHE_LIMIT AXON_THREADS
cat >"$work/a.axn" <<'END'
do print (sum (for i < 3000 => f32 i * 0.5))
do print (max (for i < 3000 => i * 7 % 1000))
END
expected='2249250.0
999'

# Runs the program and checks its results.  $messages is its stderr.
runs() { # runs CASE
  out=$("$AXON" run "$work/a.axn" 2>"$work/messages") ||
    fail "$1: status $?"
  [ "$out" = "$expected" ] || fail "$1: $out"
  messages=$(cat "$work/messages")
}

no_message() { [ -z "$messages" ] || fail "$1: $messages"; } # no_message CASE

# Checks that the output of `axon cache VERB` matches the pattern.
shows() { # shows CASE PATTERN [VERB]
  # shellcheck disable=SC2086
  "$AXON" cache ${3-} >"$work/out" 2>&1
  grep -qE "$2" "$work/out" || {
    fail "$1: no $2 in the output of axon cache ${3-}"
    cat "$work/out"
  }
}

# Of 20 concurrent processes, none loads an incomplete kernel.
for n in $(seq 20); do
  "$AXON" run "$work/a.axn" >"$work/out$n" 2>&1 &
done
wait
for n in $(seq 20); do
  [ "$(cat "$work/out$n")" = "$expected" ] || fail "concurrent process $n"
done
kernels=$(find "$XDG_CACHE_HOME/axon" -name '*.so' | wc -l)
[ "$kernels" -gt 0 ] || fail 'the cache is empty'
shows list "^$kernels kernels?, .*; limit 512.0 MiB$"
shows intact "^$kernels kernels?, .*: no damaged entries$" verify
# The constants of a kernel are in the same mapping as its code
# (backend/cpu/toolchain.c).
for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do
  readelf -lW "$file" | grep -Eq '^ *LOAD.* R +0x' &&
    fail "$file: a segment is neither code nor data"
done
mode=$(stat -c %a "$XDG_CACHE_HOME/axon")
[ "$mode" = 700 ] || fail "the folder has mode $mode"

# A second run uses the cached kernels.  Damaged entries are detected.
before=$(find "$XDG_CACHE_HOME/axon" -name '*.so' -printf '%i %n\n' | sort)
runs 'a second run'
no_message 'a second run'
after=$(find "$XDG_CACHE_HOME/axon" -name '*.so' -printf '%i %n\n' | sort)
[ "$before" = "$after" ] || fail 'kernels were compiled again'
for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do truncate -s 4000 "$file"; done
shows damaged ": $kernels damaged, removed$" verify
runs 'after damage'
no_message 'after damage'
for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do truncate -s 4000 "$file"; done
runs 'with damage'
no_message 'with damage'
shows cleared "^$kernels kernels?, .* removed$" clear
shows empty '^0 kernels, 0 bytes'

# The limit bounds the size of the cache.
AXON_CACHE_LIMIT=0 runs 'limit 0'
no_message 'limit 0'
shows empty '^0 kernels'

# No home directory, and one that is not writable.
XDG_CACHE_HOME= HOME= runs 'no home directory'
no_message 'no home directory'
XDG_CACHE_HOME=/proc/none runs 'read-only cache directory'
no_message 'read-only cache directory'
XDG_CACHE_HOME= HOME=/nowhere shows 'no home directory' \
  '^the cache is disabled: .*HOME'

# Without a working compiler there is one warning, and the results are correct.
AXON_CC=/no/compiler runs 'no compiler'
[ "$(grep -c 'W0512' <<<"$messages")" = 1 ] || fail "no compiler: $messages"
AXON_CC=false runs 'the compiler fails'
[ "$(grep -c 'W0513' <<<"$messages")" = 1 ] ||
  fail "the compiler fails: $messages"
grep -q '\]: a kernel was not compiled' <<<"$messages" ||
  fail "the compiler fails, wrong message: $messages"
cat >"$work/hangs" <<'end'
#!/bin/sh
exec sleep 300
end
cat >"$work/strict" <<'end'
#!/bin/sh
for last; do case $last in *kernel.c) at=$last ;; esac; done
echo "$at:3:1: error: unknown type name" >&2
exit 1
end
chmod +x "$work/hangs" "$work/strict"
AXON_CC="$work/hangs" AXON_CC_SECONDS=1 runs 'the compiler hangs'
grep -q 'stopped after 1 s' <<<"$messages" ||
  fail "the compiler hangs: $messages"
AXON_CC="$work/strict" runs 'the compiler rejects the source'
grep -q 'internal error: a kernel' <<<"$messages" ||
  fail "the compiler rejects the source: $messages"
for compiler in hangs strict false; do
  [ "$compiler" = false ] || compiler=$work/$compiler
  AXON_CC=$compiler AXON_CC_SECONDS=1 "$AXON" doctor >"$work/out" 2>&1
  [ $? = 1 ] && grep -A1 '^compiler' "$work/out" | grep -q '! ' ||
    fail "axon doctor does not report the compiler $compiler"
done
# A compiler that cannot link without libraries: the first kernel fails once
# without them, and later ones have them at once.  The process in the background
# that optimizes kernels adds them, too.
cat >"$work/linker" <<'end'
#!/bin/sh
case " $* " in
*' -lm '*) echo with >>"$LOG" ;;
*)
  echo without >>"$LOG"
  echo 'undefined reference to pow' >&2
  exit 1
  ;;
esac
exec cc "$@"
end
chmod +x "$work/linker"
links() { # links CASE SETTING: runs with it
  XDG_CACHE_HOME="$work/linked-$2" LOG="$work/links" AXON_CC="$work/linker" \
    AXON_OPTIMIZE=$2 AXON_THREADS=1 runs "$1"
  no_message "$1"
}
links 'needs libraries' always
[ "$(uniq -c "$work/links" | tr -s ' \n' ' ')" = ' 1 without 2 with ' ] ||
  fail "needs libraries: $(cat "$work/links")"
for round in 1 2; do links "needs libraries, later, $round" later; done
for _ in $(seq 100); do
  [ "$(find "$work/linked-later" -name '*.so' | wc -l)" -lt 3 ] || break
  sleep 0.1
done
[ "$(find "$work/linked-later" -name '*.so' | wc -l)" -ge 3 ] ||
  fail 'needs libraries: the background process compiled no kernel'
# gcc gets its own flags if another program starts it.
mkdir "$work/bin"
printf '#!/bin/sh\necho "$*" >>"$LOG"\nexec cc "$@"\n' >"$work/bin/gcc"
chmod +x "$work/bin/gcc"
PATH="$work/bin:$PATH" LOG="$work/flags" AXON_CC='env gcc' AXON_OPTIMIZE=later \
  XDG_CACHE_HOME="$work/flagged" runs 'env gcc'
no_message 'env gcc'
grep -q -e ' -fno-forward-propagate ' "$work/flags" ||
  fail "env gcc: $(head -1 "$work/flags")"
mkdir "$work/kept"
cat >"$work/full" <<'end'
#!/bin/sh
echo "ld: final link failed: No space left on device" >&2
exit 1
end
chmod +x "$work/full"
AXON_CC="$work/full" runs 'disk full'
grep -q '\]: a kernel was not compiled' <<<"$messages" ||
  fail "disk full, wrong message: $messages"
grep -q TMPDIR <<<"$messages" || fail "disk full, no hint: $messages"
AXON_CC=false AXON_CC_DEBUG="$work/kept" runs 'AXON_CC_DEBUG'
grep -q "kept in $work/kept/axon-" <<<"$messages" ||
  fail "AXON_CC_DEBUG: $messages"
ls "$work"/kept/*/kernel.c >/dev/null || fail 'AXON_CC_DEBUG: no source'

# Invalid settings.
for setting in AXON_TARGET=abacus AXON_TINY=some AXON_TINY=-1 AXON_STREAM=far \
  AXON_VECTOR=8 AXON_VECTOR=wide AXON_CACHES=1,2 AXON_CACHES=2,1,3 \
  AXON_CACHES=1,2,-3 AXON_KEEP=all AXON_POOL=none \
  AXON_TF32=maybe AXON_TF32=2 AXON_THREADS=0 \
  AXON_THREADS=two AXON_CACHE_LIMIT=much AXON_CC_SECONDS=0 \
  AXON_CC_SECONDS=soon AXON_OPTIMIZE=soon AXON_FILE_LIMIT=little; do
  env "$setting" "$AXON" -e 1 >"$work/out" 2>&1
  [ $? = 2 ] && grep -q "${setting%=*}" "$work/out" ||
    fail "$setting is accepted"
done

# Ctrl-C while a compiler runs ends the program and removes its files.
printf '#!/bin/sh\nsleep 5\nexec cc "$@"\n' >"$work/slow"
chmod +x "$work/slow"
trap : INT
AXON_CC="$work/slow" env --default-signal=INT setsid "$AXON" run \
  "$work/a.axn" >"$work/out" 2>&1 &
pid=$!
sleep 0.4
kill -INT "$pid"
before=$(date +%s%N)
wait "$pid"
status=$? took=$((($(date +%s%N) - before) / 1000000))
[ "$status" = 130 ] && [ "$took" -lt 1500 ] ||
  fail "interrupted: status $status after $took ms"
left=$(find "$work" -maxdepth 1 -name 'axon-*')
[ -z "$left" ] || fail "files remain after Ctrl-C: $left"

# A small program ends while a kernel is still being compiled.  The compilation
# continues in the background, and the next program finds the kernel.
printf '#!/bin/sh\nsleep 1\nexec cc "$@"\n' >"$work/slow"
"$AXON" cache clear >"$work/out"
out=$(unset AXON_TINY && AXON_CC="$work/slow" "$AXON" -e \
  'max (for i < 100000 => i * 7 % 1000)')
[ "$out" = 999 ] || fail "a small program: $out"
shows 'background compilation, running' '^0 kernels'
for _ in $(seq 100); do
  find "$XDG_CACHE_HOME/axon" -name '*.so' | grep -q . && break
  sleep 0.1
done
shows 'background compilation, finished' '^1 kernel,'
left=$(find "$work" -maxdepth 1 -name 'axon-*')
[ -z "$left" ] || fail "files remain after background compilation: $left"
shows statistics '^0 times found, 1 time compiled'

# A cache that other users can change is neither used nor changed.  There is one
# warning, and the results are correct.
refused() { # refused CASE FOLDER REASON
  runs "$1"
  [ "$(grep -c W0515 <<<"$messages")" = 1 ] &&
    grep -qF "$2: $3" <<<"$messages" &&
    grep -q XDG_CACHE_HOME <<<"$messages" || fail "$1: $messages"
}
export XDG_CACHE_HOME="$work/shared"
mkdir "$XDG_CACHE_HOME"
chmod 1777 "$XDG_CACHE_HOME"
runs 'sticky parent folder'
no_message 'sticky parent folder'
shows 'sticky parent folder' '^[1-9][0-9]* kernels?, '
chmod 0777 "$XDG_CACHE_HOME"
refused 'world-writable parent folder' "$XDG_CACHE_HOME" \
  'other users can write to it'
shows 'world-writable parent folder' \
  "^the cache is disabled: $XDG_CACHE_HOME: other"
"$AXON" doctor >"$work/out" 2>&1
grep -q "$XDG_CACHE_HOME: other" "$work/out" ||
  fail 'axon doctor does not report the world-writable folder'
chmod 1777 "$XDG_CACHE_HOME"
chmod 0777 "$XDG_CACHE_HOME/axon"
refused 'world-writable folder' "$XDG_CACHE_HOME/axon" \
  'other users can write to it'
chmod 0700 "$XDG_CACHE_HOME/axon"
mkdir "$work/own"
chmod 0755 "$work/own"
ln -s "$work/own" "$XDG_CACHE_HOME/link"
XDG_CACHE_HOME="$XDG_CACHE_HOME/link" runs "the user's own link"
no_message "the user's own link"
[ -d "$work/own/axon/cpu" ] || fail 'the cache does not follow a link'

# Another user (65534) places libraries with the names of our kernels into the
# cache.  They would create the file "stolen" if they were loaded.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 711 "$work"
  cat >"$work/evil.c" <<end
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
  close(open("$work/stolen", O_CREAT | O_WRONLY, 0600));
}
end
  cc -shared -fPIC -o "$work/evil.so" "$work/evil.c"
  mkdir "$work/theirs" "$work/theirs/cpu"
  for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do
    cp "$work/evil.so" "$work/theirs/cpu/${file##*/}"
  done
  chown -R 65534:65534 "$work/theirs"
  mv "$XDG_CACHE_HOME/axon" "$work/ours"
  chmod 0755 "$work/ours"
  ln -s "$work/ours" "$XDG_CACHE_HOME/axon"
  chown -h 65534:65534 "$XDG_CACHE_HOME/axon"
  refused "another user's link" "$XDG_CACHE_HOME/axon" 'it belongs to another'
  rm "$XDG_CACHE_HOME/axon"
  cp -R "$work/theirs" "$XDG_CACHE_HOME/axon"
  chown 65534:65534 "$XDG_CACHE_HOME/axon"
  refused "another user's folder" "$XDG_CACHE_HOME/axon" \
    'it belongs to another'
  chown 0:0 "$XDG_CACHE_HOME/axon"
  chown -R 65534:65534 "$XDG_CACHE_HOME/axon/cpu"
  refused "another user's kernels" "$XDG_CACHE_HOME/axon/cpu" \
    'it belongs to another'
  rm -r "$XDG_CACHE_HOME/axon"
  # While programs start, the link alternates between our folder and theirs.
  chmod 0777 "$XDG_CACHE_HOME"
  setpriv --reuid 65534 --regid 65534 --clear-groups bash -c '
    while :; do
      ln -sfn "$1" "$3/next" && mv -T "$3/next" "$3/axon"
      ln -sfn "$2" "$3/next" && mv -T "$3/next" "$3/axon"
    done' swap "$work/ours" "$work/theirs" "$XDG_CACHE_HOME" 2>/dev/null &
  pid=$!
  for _ in $(seq 40); do
    [ "$("$AXON" run "$work/a.axn" 2>/dev/null)" = "$expected" ] ||
      fail 'wrong results while a link changes'
  done
  kill "$pid"
  wait "$pid" 2>/dev/null
  [ ! -e "$work/stolen" ] || fail "another user's library was loaded"
  mode=$(stat -c %a "$work/ours")
  [ "$mode" = 755 ] || fail "the target of a link has mode $mode now"
fi

# A world-writable folder for temporary files is refused.
export XDG_CACHE_HOME="$work/none"
mkdir "$work/tmp"
chmod 0777 "$work/tmp"
TMPDIR="$work/tmp" AXON_CACHE_LIMIT=0 runs 'world-writable TMPDIR'
grep -qF "$work/tmp: other users can write to it" <<<"$messages" ||
  fail "world-writable TMPDIR: $messages"
chmod 0700 "$work/tmp"

# The next compilation removes the temporary folders of killed processes.  It
# keeps folders that are in use, recent, or for AXON_CC_DEBUG, and files with
# other types or names.
printf '#!/bin/sh\nexec sleep 60\n' >"$work/slow"
TMPDIR="$work/tmp" AXON_CC="$work/slow" "$AXON" run "$work/a.axn" \
  >/dev/null 2>&1 &
pid=$!
for _ in $(seq 100); do
  ls "$work"/tmp/axon-job-*/log >/dev/null 2>&1 && break
  sleep 0.1
done
used=$(cd "$work/tmp" && echo axon-job-*)
remaining() { (cd "$work/tmp" && echo *); }
compile() { TMPDIR="$work/tmp" AXON_CACHE_LIMIT=0 runs "$1"; }
mkdir "$work/far" "$work/tmp/axon-job-abcde" "$work/tmp/axon-job-123456" \
  "$work/tmp/axon-kept-123456" "$work/tmp/axon-other-123456" \
  "$work/tmp/axon-build-a1b2c3"
touch "$work/far/file" "$work/tmp/axon-build-a1b2c3/m.c"
touch -d '10 minutes ago' "$work"/tmp/* "$work/far"
ln -s "$work/far" "$work/tmp/axon-job-linked"
mkdir "$work/tmp/axon-job-ABCDEF"
stay='axon-job-ABCDEF axon-job-abcde axon-job-linked axon-kept-123456'
stay+=' axon-other-123456'
compile 'concurrent compilation'
for folder in $used $stay; do
  [ -e "$work/tmp/$folder" ] || fail "cleanup removed $folder of $used"
done
for folder in axon-build-a1b2c3 axon-job-123456; do
  [ ! -e "$work/tmp/$folder" ] || fail "cleanup did not remove $folder"
done
disown "$pid"
kill -KILL "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
compile 'after a process was killed'
[ "$(remaining)" = "$stay" ] || fail "after cleanup: $(remaining)"
[ -e "$work/far/file" ] || fail 'cleanup followed a link'
exit "$bad"
