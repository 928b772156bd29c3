#!/bin/bash
# Every error code has exactly one page for `axon explain`.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
pages=$(grep -oE '^E\([0-9]+' support/catalog.def | tr -dc '0-9\n' | sort -n)
twice=$(uniq -d <<<"$pages")
[ -z "$twice" ] || { echo "two pages explain $twice" && status=1; }
used=$(cat lexer/*.[chl] parser/*.[chy] typecheck/*.c diagnose/*.c \
  tensor/*.c kernel/*.c plan/*.c eval/*.c session/*.c aot/*.c editor/*.c \
  repl/*.c cli/*.c 2>/dev/null | tr '\n' ' ' |
  grep -oE '(error|warning)(_at)?\((\*?[a-zA-Z>.&-]+, *)[0-9]{3},' |
  grep -oE '[0-9]{3},' | tr -d , | sort -nu)
for code in $used; do
  grep -qx "$code" <<<"$pages" || {
    echo "no page explains $code: support/catalog.def"
    status=1
  }
done
exit "$status"
