#!/bin/bash
# A file that a verb writes has the permissions of the file that it replaces,
# and a symbolic link stays.  A new file follows the umask
# (tests/unit/replace_test.c tests owners, access control lists and each
# format).
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data/build"
echo 'fun twice (x : f32[n]) = x * 2.0' >f.axn

rights() { # rights NAME MODE FILE
  [ "$(stat -c %a "$3")" = "$2" ] ||
    wrong "$1: $3 has the mode $(stat -c %a "$3"), not $2"
}

keeps() { # keeps NAME FILE MODE COMMAND...: of a file that a link leads to
  mkdir -p far
  mv "$2" far/kept
  ln -s far/kept "$2"
  chmod "$3" far/kept
  before=$(stat -c %i far/kept)
  "${@:4}" >out 2>&1 || wrong "$1: $(cat out)"
  [ -L "$2" ] || wrong "$1: the link has gone"
  [ "$before" != "$(stat -c %i far/kept)" ] || wrong "$1: it was not replaced"
  rights "$1" "$3" far/kept
  mv far/kept "$2"
}

unformatted() { echo 'val   x=1' >x.axn; }
for mask in 022 077; do
  umask "$mask"
  text=$(printf %o $((0666 & ~mask))) run=$(printf %o $((0777 & ~mask)))
  unformatted
  keeps fmt x.axn 640 "$AXON" fmt x.axn
  echo 'do save "s.npy" [1.0, 2.0]' >s.axn
  rm -f s.npy
  "$AXON" run s.axn
  rights save "$text" s.npy
  keeps save s.npy 600 "$AXON" run s.axn
  for kind in c so a o; do
    rm -f "m.$kind" m.h
    "$AXON" build -o "m.$kind" f.axn >out 2>&1 || wrong "build: $(cat out)"
    rights "build .$kind" "$([ $kind = so ] && echo "$run" || echo "$text")" \
      "m.$kind"
    rights 'build .h' "$text" m.h
    keeps "build .$kind" "m.$kind" 700 "$AXON" build -o "m.$kind" f.axn
  done
  rm -f command
  "$AXON" build -o command f.axn || wrong 'no program'
  rights 'a program' "$run" command
  keeps 'a program' command 750 "$AXON" build -o command f.axn
  rm -f t.npy
  ./command s.npy -o t.npy || wrong 'a program fails'
  rights "a program's result" "$text" t.npy
  keeps "a program's result" t.npy 600 ./command s.npy -o t.npy
  ln -sf nowhere.npy dangling.npy
  ./command s.npy -o dangling.npy && [ -L dangling.npy ] &&
    [ -s nowhere.npy ] || wrong "a program's link that leads nowhere"
  rm -f nowhere.npy dangling.npy
done
[ -z "$(find . -name '*.tmp' -o -name '.axon-*')" ] || wrong 'something is left'
exit "$bad"
