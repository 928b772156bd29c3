#!/bin/bash
# Every C file is formatted by clang-format (.clang-format).
set -u
cd "$(dirname "$0")/.." || exit 1
if ! command -v clang-format >/dev/null || ! git ls-files >/dev/null 2>&1; then
  echo 'skipped: requires clang-format and a git checkout'
  exit 0
fi
bad=$(git ls-files '*.c' '*.h' | xargs clang-format --dry-run 2>&1 |
  sed -n 's/:.*clang-format-violations.*//p' | sort -u)
[ -z "$bad" ] || echo "not formatted: clang-format -i $bad"
[ -z "$bad" ]
