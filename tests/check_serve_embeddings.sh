#!/bin/bash
# axon serve with an encoder, a small random one (tests/serve/encoder.py):
# lists with the bits of axon embed, alone and at once, errors, closed
# connections, many connections, damaged requests, signals, the key.  Skipped
# without python3 or libmicrohttpd.
set -u
. "$(dirname "$0")/lib.sh"
need_compiler
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }
export PYTHONDONTWRITEBYTECODE=1
enter "$here/tests/serve"
. "$here/tests/serve/server.sh"
python3 encoder.py small 384 1536 12 && python3 encoder.py narrow 64 96 4 ||
  fail 'encoder.py fails'

start small/ --slots 32 --queue 8 --body 150000
python3 embeddings.py "$port" small "$AXON" small 2>errors ||
  fail "embeddings.py fails: $(tail -3 errors; cat log)"
python3 fuzz.py "$port" small 300 ||
  fail "damaged requests: $(cat log)"
ended TERM 0
start narrow --slots 32 --queue 8 --body 150000
python3 embeddings.py "$port" narrow "$AXON" narrow 2>errors ||
  fail "a narrow model: $(tail -3 errors; cat log)"
ended TERM 0
# Texts of 64 to 70 tokens are padded as the model permits.
start narrow --context 70 --slots 32 --queue 8 --body 150000
python3 embeddings.py "$port" narrow "$AXON" narrow 2>errors ||
  fail "--context 70: $(tail -3 errors; cat log)"
ended TERM 0

# Many connections, fewer slots, and no error.
start small --slots 4 --queue 32
python3 load.py "$port" small 2>errors ||
  fail "load.py fails: $(cat errors log)"
ended INT 0

AXON_API_KEY=secret start small --context 20
python3 key.py "$port" / || fail 'the key is not asked for'
ended TERM 0

# Options and folders that do not fit.
"$AXON" serve small --cache 100 >other 2>&1
[ $? = 2 ] || fail "--cache: $(cat other)"
refused() { # refused MESSAGE: the folder `broken` is no model
  "$AXON" serve --port 0 broken >other 2>&1
  [ $? = 1 ] || fail "$1: it is served: $(cat other)"
  grep -qF "$1" other || fail "not '$1': $(cat other)"
}
mkdir broken
refused 'broken/config.json'
cp small/* broken
sed -i 's/"hidden_size": 384/"hidden_size": "x"/' broken/config.json
refused 'broken/config.json has no number "hidden_size"'
cp small/config.json broken
sed -i 's/"model_type": "bert"/"model_type": "roberta"/' broken/config.json
refused '"model_type" is "roberta"; Axon runs "bert"'
cp small/config.json broken
sed -i 's/"max_position_embeddings": 80/"max_position_embeddings": 90/' \
  broken/config.json
refused 'max_position_embeddings is 90, and'
cp small/config.json broken
rm broken/tokenizer.json
refused 'broken/tokenizer.json'
exit "$bad"
