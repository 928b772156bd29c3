#!/bin/bash
# The cache of compiled kernels, as a user sees it: list, verify, clear; twenty
# processes at once; no home directory, no compiler, invalid settings.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
command -v cc >/dev/null || { echo 'no C compiler: skipped' >&2; exit 0; }
export XDG_CACHE_HOME="$work/cache" AXON_TARGET=cpu AXON_TINY=0 TMPDIR="$work"
unset AXON_CC AXON_CC_DEBUG AXON_CACHE_LIMIT AXON_THREADS
cat >"$work/a.axn" <<'END'
do print (sum (for i < 3000 => f32 i * 0.5))
do print (max (for i < 3000 => i * 7 % 1000))
END
wanted='2249250.0
999'

runs() { # runs WHAT: the program gives what it is to give; $said is the rest
  out=$("$AXON" run "$work/a.axn" 2>"$work/said") || wrong "$1: status $?"
  [ "$out" = "$wanted" ] || wrong "$1: $out"
  said=$(cat "$work/said")
}

quiet() { [ -z "$said" ] || wrong "$1: $said"; }

shows() { # shows WHAT PATTERN: axon cache $3
  # shellcheck disable=SC2086
  "$AXON" cache ${3-} >"$work/out" 2>&1
  grep -qE "$2" "$work/out" || {
    wrong "$1: no $2 in axon cache ${3-}"
    cat "$work/out"
  }
}

# Twenty at once, of which none is to see half of a kernel.
for n in $(seq 20); do
  "$AXON" run "$work/a.axn" >"$work/out$n" 2>&1 &
done
wait
for n in $(seq 20); do
  [ "$(cat "$work/out$n")" = "$wanted" ] || wrong "one of twenty: $n"
done
kernels=$(find "$XDG_CACHE_HOME/axon" -name '*.so' | wc -l)
[ "$kernels" -gt 0 ] || wrong 'nothing was kept'
shows kept "^$kernels kernels?, .*; limit 512.0 MiB$"
shows whole "^$kernels kernels?, .*: no damaged entries$" verify
mode=$(stat -c %a "$XDG_CACHE_HOME/axon")
[ "$mode" = 700 ] || wrong "the folder has mode $mode"

# Found again; and damaged.
before=$(find "$XDG_CACHE_HOME/axon" -name '*.so' -printf '%i %n\n' | sort)
runs again
quiet again
after=$(find "$XDG_CACHE_HOME/axon" -name '*.so' -printf '%i %n\n' | sort)
[ "$before" = "$after" ] || wrong 'kernels were compiled again'
for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do truncate -s 4000 "$file"; done
shows damaged ": $kernels damaged, removed$" verify
runs 'after damage'
quiet 'after damage'
for file in "$XDG_CACHE_HOME"/axon/cpu/*.so; do truncate -s 4000 "$file"; done
runs 'with damage'
quiet 'with damage'
shows cleared "^$kernels kernels?, .* removed$" clear
shows empty '^0 kernels, 0 bytes'

# Bounded.
AXON_CACHE_LIMIT=0 runs 'without room'
quiet 'without room'
shows empty '^0 kernels'

# Without a home, and with one that cannot be written.
XDG_CACHE_HOME= HOME= runs 'without a home'
quiet 'without a home'
XDG_CACHE_HOME=/proc/none runs 'where nothing can be written'
quiet 'where nothing can be written'
XDG_CACHE_HOME= HOME=/nowhere shows 'no home' '^the cache is disabled: .*HOME'

# Without a compiler: said once, and all is computed.
AXON_CC=/no/compiler runs 'without a compiler'
[ "$(grep -c 'W0512' <<<"$said")" = 1 ] || wrong "without a compiler: $said"
AXON_CC=false runs 'with a compiler that fails'
[ "$(grep -c 'W0513' <<<"$said")" = 1 ] || wrong "one that fails: $said"
grep -q '\]: a kernel was not compiled' <<<"$said" || wrong "whose bug: $said"
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
AXON_CC="$work/hangs" AXON_CC_SECONDS=1 runs 'with a compiler that hangs'
grep -q 'stopped after 1 s' <<<"$said" || wrong "one that hangs: $said"
AXON_CC="$work/strict" runs 'with a compiler that does not take the text'
grep -q 'internal error: a kernel' <<<"$said" || wrong "a refused text: $said"
for one in hangs strict false; do
  [ "$one" = false ] || one=$work/$one
  AXON_CC=$one AXON_CC_SECONDS=1 "$AXON" doctor >"$work/out" 2>&1
  [ $? = 1 ] && grep -A1 '^compiler' "$work/out" | grep -q '! ' ||
    wrong "the doctor says nothing of $one"
done
mkdir "$work/kept"
cat >"$work/full" <<'end'
#!/bin/sh
echo "ld: final link failed: No space left on device" >&2
exit 1
end
chmod +x "$work/full"
AXON_CC="$work/full" runs 'where the disk is full'
grep -q '\]: a kernel was not compiled' <<<"$said" || wrong "full: $said"
grep -q TMPDIR <<<"$said" || wrong "a full disk: $said"
AXON_CC=false AXON_CC_DEBUG="$work/kept" runs 'with what it was given kept'
grep -q "kept in $work/kept/axon-" <<<"$said" || wrong "not kept: $said"
ls "$work"/kept/*/kernel.c >/dev/null || wrong 'no source was kept'

# Settings that are none.
for setting in AXON_TARGET=abacus AXON_TINY=some AXON_TINY=-1 AXON_STREAM=far \
  AXON_KEEP=all AXON_POOL=none AXON_TF32=maybe AXON_TF32=2 AXON_THREADS=0 \
  AXON_THREADS=two AXON_CACHE_LIMIT=much AXON_CC_SECONDS=0 \
  AXON_CC_SECONDS=soon AXON_FILE_LIMIT=little; do
  env "$setting" "$AXON" -e 1 >"$work/out" 2>&1
  [ $? = 2 ] && grep -q "${setting%=*}" "$work/out" || wrong "$setting is taken"
done

# Ctrl-C while a compiler works; and nothing stays of it.
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
  wrong "interrupted: status $status after $took ms"
left=$(find "$work" -maxdepth 1 -name 'axon-*')
[ -z "$left" ] || wrong "left behind: $left"

# What is being compiled at the end of a small program is finished without it,
# and nobody waits for that: the next one finds it.
printf '#!/bin/sh\nsleep 1\nexec cc "$@"\n' >"$work/slow"
"$AXON" cache clear >"$work/out"
said=$(unset AXON_TINY && AXON_CC="$work/slow" "$AXON" -e \
  'max (for i < 100000 => i * 7 % 1000)')
[ "$said" = 999 ] || wrong "a small program: $said"
shows 'not waited for' '^0 kernels'
for _ in $(seq 100); do
  find "$XDG_CACHE_HOME/axon" -name '*.so' | grep -q . && break
  sleep 0.1
done
shows 'finished alone' '^1 kernel,'
left=$(find "$work" -maxdepth 1 -name 'axon-*')
[ -z "$left" ] || wrong "left behind by what finishes: $left"
shows 'counted' '^0 times found, 1 time compiled'

# A cache that others can change is not used, which is said once, and is not
# changed; the results are the same.
refused() { # refused WHAT FOLDER WHY
  runs "$1"
  [ "$(grep -c W0515 <<<"$said")" = 1 ] && grep -qF "$2: $3" <<<"$said" &&
    grep -q XDG_CACHE_HOME <<<"$said" || wrong "$1: $said"
}
export XDG_CACHE_HOME="$work/shared"
mkdir "$XDG_CACHE_HOME"
chmod 1777 "$XDG_CACHE_HOME"
runs 'in a folder as /tmp is'
quiet 'in a folder as /tmp is'
shows 'in a folder as /tmp is' '^[1-9][0-9]* kernels?, '
chmod 0777 "$XDG_CACHE_HOME"
refused 'below a folder of all' "$XDG_CACHE_HOME" 'other users can write to it'
shows 'below a folder of all' "^the cache is disabled: $XDG_CACHE_HOME: other"
"$AXON" doctor >"$work/out" 2>&1
grep -q "$XDG_CACHE_HOME: other" "$work/out" || wrong 'the doctor: a cache'
chmod 1777 "$XDG_CACHE_HOME"
chmod 0777 "$XDG_CACHE_HOME/axon"
refused 'open to all' "$XDG_CACHE_HOME/axon" 'other users can write to it'
chmod 0700 "$XDG_CACHE_HOME/axon"
mkdir "$work/own"
chmod 0755 "$work/own"
ln -s "$work/own" "$XDG_CACHE_HOME/link"
XDG_CACHE_HOME="$XDG_CACHE_HOME/link" runs 'by a link of its own'
quiet 'by a link of its own'
[ -d "$work/own/axon/cpu" ] || wrong 'nothing was kept behind a link'

# What another user (65534) put there.  Its library would say that it was run:
# each is under the name of one of ours.
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
  refused "by another's link" "$XDG_CACHE_HOME/axon" 'it belongs to another'
  rm "$XDG_CACHE_HOME/axon"
  cp -R "$work/theirs" "$XDG_CACHE_HOME/axon"
  chown 65534:65534 "$XDG_CACHE_HOME/axon"
  refused "another's folder" "$XDG_CACHE_HOME/axon" 'it belongs to another'
  chown 0:0 "$XDG_CACHE_HOME/axon"
  chown -R 65534:65534 "$XDG_CACHE_HOME/axon/cpu"
  refused "another's kernels" "$XDG_CACHE_HOME/axon/cpu" \
    'it belongs to another'
  rm -r "$XDG_CACHE_HOME/axon"
  # The link turns from our folder to theirs and back while programs start.
  chmod 0777 "$XDG_CACHE_HOME"
  setpriv --reuid 65534 --regid 65534 --clear-groups bash -c '
    while :; do
      ln -sfn "$1" "$3/next" && mv -T "$3/next" "$3/axon"
      ln -sfn "$2" "$3/next" && mv -T "$3/next" "$3/axon"
    done' turn "$work/ours" "$work/theirs" "$XDG_CACHE_HOME" 2>/dev/null &
  pid=$!
  for _ in $(seq 40); do
    [ "$("$AXON" run "$work/a.axn" 2>/dev/null)" = "$wanted" ] ||
      wrong 'while a link turns'
  done
  kill "$pid"
  wait "$pid" 2>/dev/null
  [ ! -e "$work/stolen" ] || wrong "another user's library was run"
  mode=$(stat -c %a "$work/ours")
  [ "$mode" = 755 ] || wrong "a folder behind a link has mode $mode now"
fi

# Folders for temporary files: not where others could exchange them.
export XDG_CACHE_HOME="$work/none"
mkdir "$work/tmp"
chmod 0777 "$work/tmp"
TMPDIR="$work/tmp" AXON_CACHE_LIMIT=0 runs 'with temporary files of all'
grep -qF "$work/tmp: other users can write to it" <<<"$said" ||
  wrong "temporary files of all: $said"
chmod 0700 "$work/tmp"

# One that was left by a process that was killed goes with the next one there;
# what is in use, new, kept, no folder or named otherwise stays.
printf '#!/bin/sh\nexec sleep 60\n' >"$work/slow"
TMPDIR="$work/tmp" AXON_CC="$work/slow" "$AXON" run "$work/a.axn" \
  >/dev/null 2>&1 &
pid=$!
for _ in $(seq 100); do
  ls "$work"/tmp/axon-job-*/log >/dev/null 2>&1 && break
  sleep 0.1
done
used=$(cd "$work/tmp" && echo axon-job-*)
there() { (cd "$work/tmp" && echo *); }
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
compile 'beside another'
for folder in $used $stay; do
  [ -e "$work/tmp/$folder" ] || wrong "a sweep removed $folder of $used"
done
for folder in axon-build-a1b2c3 axon-job-123456; do
  [ ! -e "$work/tmp/$folder" ] || wrong "not swept: $folder"
done
disown "$pid"
kill -KILL "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
compile 'after a process was killed'
[ "$(there)" = "$stay" ] || wrong "after a sweep: $(there)"
[ -e "$work/far/file" ] || wrong 'a sweep followed a link'
exit "$bad"
