#!/bin/sh
# sources.am lists the existing files.
cd "$(dirname "$0")/.." || exit 1
exec tools/sources.sh --check
