#!/bin/bash
# eval/ holds no tensor arithmetic: no loop in it reads elements of a tensor,
# and nothing in it takes the data of one for an array of C numbers.
cd "$(dirname "$0")/.." || exit 1
awk '
  FNR == 1 { loop = 0 }
  /^ *(for|while) \(/ { loop = 4 }
  loop-- > 0 && /scalar_load *\(/ {
    print FILENAME ":" FNR ": " $0; bad = 1
  }
  /\((float|double|u?int[0-9]+_t) \*\)[^;]*data/ {
    print FILENAME ":" FNR ": " $0; bad = 1
  }
  END { exit bad }
' eval/*.[ch]
