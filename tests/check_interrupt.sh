#!/bin/bash
# Ctrl-C ends long operations within 1.5 seconds.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
pid=
trap 'kill -KILL $pid 2>/dev/null; rm -rf "$work"' EXIT
bad=0

stops() { # stops NAME: interrupts the program on stdin
  cat >"$work/$1.axn"
  interrupted "$1" run "$work/$1.axn"
}

# Runs axon, sends SIGINT after half a second, and expects status 130.
interrupted() { # interrupted NAME ARGUMENT...
  # Background processes of a shell ignore SIGINT by default.
  env --default-signal=INT setsid "$AXON" "${@:2}" >"$work/out" 2>&1 &
  pid=$!
  sleep 0.5
  before=$(date +%s%N)
  kill -INT "$pid"
  wait "$pid"
  status=$? pid= took=$((($(date +%s%N) - before) / 1000000))
  if [ "$status" != 130 ] || [ "$took" -gt 1500 ]; then
    echo "$1: status $status after $took ms" && bad=1
    sed 's/^/  /' "$work/out"
  fi
}

# Without a trap, children of a non-interactive shell ignore SIGINT.
trap : INT
stops sort <<'END'
do print (sum (sort (uniform (key 1) [40000000] : f32[40000000])))
END
stops unique <<'END'
do print (sum (unique (uniform (key 1) [20000000] : f32[20000000])))
END
stops permutation <<'END'
do print (sum (permutation (key 1) 40000000))
END
stops save <<'END'
do save "big.csv" (uniform (key 1) [4000000, 10] : f32[4000000, 10])
END
stops loop <<'END'
fun f n = if n < 0 then n else f (n + 1)
do print (f 0)
END
stops fold <<'END'
fun f x = tanh (sin (tanh (sin (tanh (sin x)))))
val xs : f32[60000000] = iota 60000000
do print (fold (fn s x => f (f (s * 0.5 + x))) 0.0 xs)
END
[ -e big.csv ] && echo "big.csv was written" && bad=1

# `axon build` ends its compiler with all child processes, and removes its
# temporary files.
cat >"$work/slow" <<'END'
#!/bin/sh
sleep 77.123
END
chmod +x "$work/slow"
echo 'fun f (x : f32[n]) = x * 2.0' >"$work/f.axn"
mkdir "$work/tmp" "$work/made"
AXON_CC=$work/slow TMPDIR=$work/tmp interrupted build \
  build -o "$work/made/f.so" "$work/f.axn"
[ -z "$(ls -A "$work/tmp" "$work/made" | grep -v :)" ] ||
  { echo 'axon build leaves files:' && ls -AR "$work"/{tmp,made} && bad=1; }
pgrep -f 'sleep 77.123' >/dev/null &&
  echo 'the compiler of axon build still runs' && bad=1
exit $bad
