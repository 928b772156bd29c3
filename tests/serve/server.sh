# Servers of tests, in the present folder: sourced by tests/check_serve*.sh.
server= port=
start() { # start MODEL ARGUMENT...: sets `server` and `port`
  : >log # the port of an earlier server is gone
  "$AXON" serve --port 0 "$@" >>log 2>&1 &
  server=$!
  for _ in {1..400}; do
    port=$(sed -n 's|.* ready at http://.*:\([0-9]*\)/.*|\1|p' log)
    [ "$port" ] && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  if grep -q 'libmicrohttpd.so.* is required' log; then
    echo 'skipped: no libmicrohttpd'
    exit 0
  fi
  fail "axon serve does not start: $(cat log)"
  exit "$bad"
}
ended() { # ended SIGNAL STATUS: the server ends after the signal
  kill -s "$1" "$server"
  for _ in {1..200}; do
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  kill -s KILL "$server" 2>/dev/null && fail "SIG$1 does not end the server"
  wait "$server"
  status=$?
  [ "$status" = "$2" ] || fail "after SIG$1, the status is $status: $(cat log)"
}
