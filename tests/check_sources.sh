#!/bin/sh
# sources.am lists the files that are there.
cd "$(dirname "$0")/.." || exit 1
exec tools/sources.sh --check
