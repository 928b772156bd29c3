#!/bin/bash
# The schedules of loop nests without matmul: the chosen ones, that the choice
# follows the costs of the candidates, and that each candidate gives the same
# results.  Mutants of the choosers choose other schedules; MUTANTS=all runs all
# of them (tests/choicemutants.py).
#
#     [MUTANTS=all] tests/check_choices.sh [WORD]
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
need_compiler
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }
grep -q avx2 /proc/cpuinfo || { echo 'skipped: no AVX2'; exit 0; }
unset AXON_SCHEDULES
export AXON_TARGET=cpu AXON_TINY=0 AXON_OPTIMIZE=always AXON_VECTOR=32 \
  AXON_CACHES=32768,1048576,33554432 AXON_VERIFY=1
cd "$work" || exit 1
cp "$here/tests/schedules/choices.axn" .
"$AXON" plan --dry --stable --schedule -q choices.axn >chosen.axs ||
  fail "$(cat chosen.axs)"
diff "$here/tests/schedules/choices" chosen.axs ||
  fail 'other schedules: if they are better, store them as' \
    'tests/schedules/choices'
"$AXON" choices.axn >expected || fail 'choices.axn'
"$AXON" plan --dry --json -q choices.axn >plan.json || fail 'no plan'

# Writes a schedule file for the first candidate of each loop nest, for the
# second one, and so on.  Prints what contradicts the rule of the choice.
python3 - <<'END' >wrong 2>&1 || fail 'the candidates'
import itertools
import json
import re

kernels = [k for run in json.load(open("plan.json"))["runs"]
           for k in run["kernels"]]
blocks = {int(b[3:b.index(":")]): b
          for b in open("chosen.axs").read().strip().split("\n\n")}
texts = {}
for k in kernels:
    of = itertools.groupby(k.get("candidates", []), lambda c: c["nest"])
    for nest, all in of:
        all = list(all)
        best = all[0]
        for c in all[1:]:
            if c["cycles"] < 0.5 * best["cycles"]:
                best = c
        if [c for c in all if c["chosen"]] != [best]:
            print("kernel", k["number"], "chooses another candidate")
        line = re.compile(rf"^  {nest}: .*$", re.M)
        for j, c in enumerate(all):
            old = texts.setdefault(j, {}).get(k["number"],
                                              blocks[k["number"]])
            texts[j][k["number"]] = line.sub(
                lambda _: f"  {nest}: {c['schedule']}", old)
if len(texts) < 2:
    print("there are few candidates")
for j, by_kernel in texts.items():
    open(f"{j}.axs", "w").write("\n\n".join(by_kernel.values()) + "\n")
END
[ -s wrong ] && fail "$(cat wrong)"
for file in [0-9].axs; do
  "$AXON" run --schedules "$file" choices.axn >found 2>&1
  cmp -s expected found ||
    fail "other results with $file: $(diff expected found | head -4)"
done
"$AXON" plan -q choices.axn >plan
grep -q 'compared  *2 schedules of loop nest 2; by' plan ||
  fail 'the plan does not say what was compared'
# ---- mutants of the choosers ----
run_mutants choicemutants.py "$@"
exit "$bad"
