#!/bin/bash
# eval/ contains no tensor arithmetic: no loop reads elements of a tensor, and
# no code accesses the data of a tensor as a C array of numbers.
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
