#!/bin/sh
# Prints the groups of files with cyclic dependencies, from the symbols of the
# object files:  tools/links.sh [--edges] [BUILD]
#
# A file depends on another one if it uses a function or a variable that the
# other one defines.  A group is a strongly connected component of this graph
# (Tarjan, "Depth-first search and linear graph algorithms", 1972).  First
# prints each module (source folder), its number of files and the size of its
# largest group.  The exit status is 1 if a group spans two modules or has more
# than 15 files.  With --edges, prints the edges of each group and the symbols
# that cause them.
set -eu
edges=0
if [ "${1-}" = --edges ]; then
  edges=1
  shift
fi
root=$(cd "$(dirname "$0")/.." && pwd)
cd "${1:-$root}"

has_source() { # has_source OBJECT: false if its source was renamed or removed
  module=${1%/*}
  module=${module%/.libs}
  base=${1##*/}
  base=${base%.o}
  [ -e "$module/$base.c" ] || [ -e "$root/$module/$base.c" ]
}
objects=$(find . -name '*.o' ! -path './tests/*' ! -path './tools/*' | sort |
  while read -r object; do
    if has_source "$object"; then echo "$object"; fi
  done)
if [ -z "$objects" ]; then
  echo 'links.sh: no object files: build first, or name the build folder' >&2
  exit 2
fi
# shellcheck disable=SC2086
nm -A -g $objects 2>/dev/null | awk -v edges="$edges" -v largest=15 '
function module_of(file,  part, n) {
  n = split(file, part, "/")
  return n > 2 && part[1] == "backend" ? part[1] "/" part[2] : part[1]
}
{ # ./module/.libs/file.o:0000 T name
  colon = index($0, ":")
  file = substr($0, 3, colon - 3)
  sub(/\.libs\//, "", file)
  sub(/\.o$/, "", file)
  count = split(substr($0, colon + 1), word, " ")
  kind = word[count - 1]
  name = word[count]
  if (!(file in number)) {
    number[file] = ++files
    name_of[files] = file
  }
  if (kind == "U")
    used[file] = used[file] " " name
  else
    defined[name] = number[file]
}
function connect(v,  w, k, n, next_edge) { # recursive Tarjan
  order[v] = low[v] = ++clock
  stack[++top] = v
  on_stack[v] = 1
  n = split(successors[v], next_edge, " ")
  for (k = 1; k <= n; k++) {
    w = next_edge[k]
    if (!(w in order)) {
      connect(w)
      low[v] = low[v] < low[w] ? low[v] : low[w]
    } else if (w in on_stack) {
      low[v] = low[v] < order[w] ? low[v] : order[w]
    }
  }
  if (low[v] != order[v])
    return
  groups++
  do {
    w = stack[top--]
    delete on_stack[w]
    group[w] = groups
    size[groups]++
  } while (w != v)
}
END {
  for (v = 1; v <= files; v++) {
    n = split(used[name_of[v]], symbol, " ")
    for (k = 1; k <= n; k++) {
      w = defined[symbol[k]]
      if (!w || w == v)
        continue
      if (!((v, w) in why))
        successors[v] = successors[v] " " w
      why[v, w] = why[v, w] " " symbol[k]
    }
  }
  for (v = 1; v <= files; v++)
    if (!(v in order))
      connect(v)
  for (v = 1; v <= files; v++) {
    module = module_of(name_of[v])
    if (!(module in members))
      modules[++module_count] = module
    members[module]++
    if (size[group[v]] > biggest[module])
      biggest[module] = size[group[v]]
  }
  for (k = 1; k <= module_count; k++)
    printf "%-18s %3d files, largest group %d\n", modules[k],
      members[modules[k]], biggest[modules[k]]
  for (g = 1; g <= groups; g++) {
    if (size[g] == 1)
      continue
    text = ""
    spans = 0
    module = ""
    for (v = 1; v <= files; v++)
      if (group[v] == g) {
        text = text " " name_of[v]
        spans = spans || (module != "" && module != module_of(name_of[v]))
        module = module_of(name_of[v])
      }
    bad = spans ? " (spans modules)" : size[g] > largest ? " (too many)" : ""
    failed = failed || bad != ""
    printf "group of %d%s:%s\n", size[g], bad, text
    for (v = 1; v <= files && edges; v++)
      for (w = 1; w <= files; w++)
        if (group[v] == g && group[w] == g && (v, w) in why)
          printf "  %s -> %s:%s\n", name_of[v], name_of[w], why[v, w]
  }
  exit failed
}'
