#!/bin/bash
# Compares builds of axon on a language model:
#   bench/serve.sh MODEL.gguf AXON... [--requests 1,16] [--rounds 3]
# Requires python3.
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/bench/serve/paired.py" "$@"
