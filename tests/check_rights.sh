#!/bin/bash
# Verbs that replace a file keep its permissions and follow symbolic links.
# A new file follows the umask.  (tests/unit/replace_test.c tests owners, access
# control lists and each format.)
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data/build"
echo 'fun twice (x : f32[n]) = x * 2.0' >f.axn

check_mode() { # check_mode NAME MODE FILE
  [ "$(stat -c %a "$3")" = "$2" ] ||
    fail "$1: $3 has mode $(stat -c %a "$3"), expected $2"
}

# Replaces FILE by a link to a file with MODE, and runs the command.  It must
# keep the link, and replace the target by a file with the same mode.
keeps_mode() { # keeps_mode NAME FILE MODE COMMAND...
  mkdir -p far
  mv "$2" far/kept
  ln -s far/kept "$2"
  chmod "$3" far/kept
  before=$(stat -c %i far/kept)
  "${@:4}" >out 2>&1 || fail "$1: $(cat out)"
  [ -L "$2" ] || fail "$1: the link was replaced"
  [ "$before" != "$(stat -c %i far/kept)" ] ||
    fail "$1: the file was not replaced"
  check_mode "$1" "$3" far/kept
  mv far/kept "$2"
}

unformatted() { echo 'val   x=1' >x.axn; }
for mask in 022 077; do
  umask "$mask"
  plain=$(printf %o $((0666 & ~mask))) executable=$(printf %o $((0777 & ~mask)))
  unformatted
  keeps_mode fmt x.axn 640 "$AXON" fmt x.axn
  echo 'do save "s.npy" [1.0, 2.0]' >s.axn
  rm -f s.npy
  "$AXON" run s.axn
  check_mode save "$plain" s.npy
  keeps_mode save s.npy 600 "$AXON" run s.axn
  for kind in c so a o; do
    rm -f "m.$kind" m.h
    "$AXON" build -o "m.$kind" f.axn >out 2>&1 || fail "build: $(cat out)"
    check_mode "build .$kind" \
      "$([ $kind = so ] && echo "$executable" || echo "$plain")" "m.$kind"
    check_mode 'build .h' "$plain" m.h
    keeps_mode "build .$kind" "m.$kind" 700 "$AXON" build -o "m.$kind" f.axn
  done
  rm -f command
  "$AXON" build -o command f.axn || fail 'cannot build a program'
  check_mode 'a program' "$executable" command
  keeps_mode 'a program' command 750 "$AXON" build -o command f.axn
  rm -f t.npy
  ./command s.npy -o t.npy || fail 'a program fails'
  check_mode "the result of a program" "$plain" t.npy
  keeps_mode "the result of a program" t.npy 600 ./command s.npy -o t.npy
  ln -sf nowhere.npy dangling.npy
  ./command s.npy -o dangling.npy && [ -L dangling.npy ] &&
    [ -s nowhere.npy ] || fail "a program does not follow a dangling link"
  rm -f nowhere.npy dangling.npy
done
[ -z "$(find . -name '*.tmp' -o -name '.axon-*')" ] ||
  fail 'temporary files remain'
exit "$bad"
