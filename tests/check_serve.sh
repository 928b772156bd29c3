#!/bin/bash
# axon serve, with a small random model (tests/serve/model.py): answers,
# streams, batch invariance, errors, closed connections, signals.  Also axon
# generate, with the same model.  Skipped without python3 or libmicrohttpd.
set -u
. "$(dirname "$0")/lib.sh"
need_compiler
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }
export PYTHONDONTWRITEBYTECODE=1
enter "$here/tests/serve"
python3 model.py tiny.gguf 2048 || fail 'model.py fails'

. "$here/tests/serve/server.sh"

start tiny.gguf --slots 12 --queue 8 --cache 2048 --context 512
python3 client.py "$port" tiny 2>errors ||
  fail "client.py fails: $(tail -3 errors; cat log)"
# The same tokens as axon generate.
python3 same.py "$port" "$AXON" || fail 'axon generate writes other texts'
if command -v chromium >/dev/null; then
  # A browser reserves more addresses than the runner allows.
  (ulimit -S -v unlimited && python3 page.py "$port" tiny chromium) ||
    fail 'the page fails'
else
  echo 'skipped: the page (no chromium)'
fi
python3 fuzz.py "$port" tiny || fail "damaged requests: $(cat log)"
ended TERM 0

# Many connections, and no error.
start tiny.gguf --slots 16 --queue 32 --cache 4096 --context 256
python3 load.py "$port" tiny 2>errors || fail "load.py fails: $(cat errors log)"
ended TERM 0

# A running answer may end after a signal, for thirty seconds.
start tiny.gguf
python3 stop.py "$port" "$server" || fail 'the answer is cut'
for _ in {1..400}; do
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
wait "$server" || fail 'the server does not end with 0 after an answer'

AXON_API_KEY=secret start tiny.gguf
python3 key.py "$port" || fail 'the key is not asked for'
ended INT 0

# Signals while the model loads, missing files, ports in use.
start tiny.gguf
timeout 60 "$AXON" serve --port "$port" tiny.gguf >other 2>&1
[ $? = 1 ] || fail "two have one port: $(cat other)"
grep -q 'cannot listen at 127.0.0.1' other || fail "a used port: $(cat other)"
ended INT 0
"$AXON" serve nothing.gguf >other 2>&1 && fail 'a missing model is served'
grep -q '^axon serve: .*nothing.gguf' other || fail "no model: $(cat other)"
"$AXON" serve --port x tiny.gguf >other 2>&1
[ $? = 2 ] || fail "--port x: $(cat other)"

# The logits of a text do not depend on others, to the last bit.
for width in 16 32 64; do # bytes of a vector; the widest one of this processor
  AXON_VECTOR=$width "$AXON" run bits.axn >found 2>&1
  [ "$(sort -u found)" = true ] || fail "$width: other bits: $(cat found)"
done

# Pages are cleared of numbers that are not finite, and no other pages.
"$AXON" run clear.axn >found 2>&1
pages='[ true, false,  true, false]'
[ "$(cat found)" = "($pages, $pages)" ] ||
  fail "cleared pages: $(cat found)"

# axon generate: errors without lines of its program; Ctrl-C.
"$AXON" generate nothing.gguf x >other 2>&1 && fail 'a missing model writes'
grep -q 'nothing.gguf' other || fail "no model: $(cat other)"
grep -q 'open_model\|val \|do ' other && fail "its own program: $(cat other)"
python3 interrupt.py "$AXON" || fail 'Ctrl-C does not end axon generate'
exit "$bad"
