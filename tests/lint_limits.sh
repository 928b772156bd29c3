#!/bin/bash
# Checks the tables of tuning constants (machine/limits/*.def).  Every row has a
# unit.  Its source is "estimate", names an existing path or a command, or cites
# a publication.  At least one C file uses the constant.  Names are unique in a
# table, and no backend has a name of planner.def: a file may include both.
# Prints the number of rows of each table.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0

complain() { # complain TABLE NAME MESSAGE
  echo "$1: $2: $3"
  bad=1
}

# A row as `NAME|UNIT|SOURCE`; the C preprocessor joins the parts of strings.
rows() { # rows TABLE
  printf '%s\n' '#define LIMIT(name, value, unit, source) @name|unit|source@' \
    '#define RATIO LIMIT' "#include \"$1\"" |
    ${CC:-gcc} -E -P -I. -x c - | tr '\n' ' ' | grep -o '@[^@]*@' |
    sed -E 's/^@ *|[ "]*@$//g; s/" *"//g; s/ *\| */|/g; s/"//g'
}

# True if the text has the path of an existing file or folder.
has_path() {
  local word
  for word in $1; do
    word=${word%[:;,.]}
    [[ $word = */* && -e $word ]] && return
  done
  return 1
}

is_source() {
  [ "$1" = estimate ] && return
  [[ $1 =~ (^|[ :])(axon\ (doctor|bench|plan)|ptxas\ -v)($|[ ,;]) ]] && return
  # a publication: arXiv number, address, or author and year
  [[ $1 =~ arXiv:[0-9]{4}\.[0-9]{4,5}|https?:// ]] && return
  [[ $1 =~ [A-Z][a-z]+.*,\ (19|20)[0-9][0-9]($|[^0-9]) ]] && return
  [[ $1 =~ (Manual|Guide|ISA|Handbook|Documentation)($|[ ,:;]) ]] && return
  has_path "$1"
}

all=$(mktemp)
trap 'rm -f "$all"' EXIT
for table in machine/limits/*.def; do
  count=0
  while IFS='|' read -r name unit source; do
    count=$((count + 1))
    echo "$name $table" >>"$all"
    [ -n "$unit" ] || complain "$table" "$name" 'no unit'
    is_source "$source" ||
      complain "$table" "$name" "not a source: \"$source\""
  done < <(rows "$table")
  [ "$count" = "$(grep -cE '^(LIMIT|RATIO)\(' "$table")" ] ||
    complain "$table" "$count rows" 'the table cannot be read'
  echo "$table: $count rows"
done

used=$(cut -d ' ' -f 1 "$all" |
  grep -rhowF -f - --include='*.[ch]' --include='*.def' --exclude-dir=limits \
  ./*/ | sort -u)
while read -r name table; do
  grep -qx "$name" <<<"$used" || complain "$table" "$name" 'no source uses it'
done <"$all"
for table in cpu cuda; do
  for name in $(grep -E "/(planner|$table)\.def$" "$all" | cut -d ' ' -f 1 |
    sort | uniq -d); do
    complain "planner.def and $table.def" "$name" 'two rows have this name'
  done
done
exit "$bad"
