#!/bin/bash
# The compiler should report missing cases of a switch or a comparison.  So
# there is no `switch ((int)...)` over one of our enums, no `default:` in one,
# and the names of reductions occur only in primitives/.  Exceptions: files that
# still have some, and patterns of mathematics that are about sums.
set -u
cd "$(dirname "$0")/.." || exit 1
files=$(git ls-files '*.c' '*.h' 2>/dev/null | grep -vE '^tests/') || exit 0
[ -n "$files" ] || exit 0
bad=0
# complain WHAT PATTERN EXCEPTIONS: lines outside the files that are excepted
complain() {
  local found
  found=$(grep -nE "$2" $files | grep -vE "^($3):")
  [ -z "$found" ] || {
    sed "s|^|$1: |" <<<"$found"
    bad=1
  }
  for file in $(tr '|' ' ' <<<"$3"); do
    grep -qE "$2" "$file" && continue
    echo "no exception any more ($1): $file"
    bad=1
  done
}

# Kinds of opaque nodes are some ids of primitives; symbolic sizes, facts of
# a proof and the like are known of some operations, and of no other.
opaque='backend/reference/opaque.c|backend/cpu/library_ops.c'
opaque+='|backend/cuda/library_kernels.c|aot/library_ops.c'
some='tensor/extent_node.c|eval/pointwise_prims.c|kernel/online_reduction.c'
some+='|backend/cuda/attention_analysis.c|typecheck/special_prims.c'
complain 'a switch that hides what it leaves out' 'switch \(\(int\)' \
  "$opaque|$some"

# Tokens of the parser and characters, no enums of ours; and some that are
# still to be written out.
tokens='parser/bracket_recovery.c|parser/syntax_errors.c'
tokens+='|backend/emit/params.c'
rest='backend/cuda/sim/warp_collectives.c'
rest+='|typecheck/path_conditions.c|typecheck/infer.c|typecheck/annotation.c'
rest+='|typecheck/prim_scheme.c|size/counterexample.c|eval/aot_trace.c'
rest+='|eval/host_call.c|eval/higher_order_prims.c|eval/force.c'
rest+='|eval/pointwise_prims.c'
complain 'a default' '^ *default:' "$tokens|$rest"

# The greatest of a row is subtracted from it (attention); conditions of a
# `for` are joined.
complain 'a reduction by name' \
  'PRIM_(PROD|MAX|MIN|ANY|ALL|XOR|ARGMAX|ARGMIN)\b' \
  'backend/cuda/match_exp_sum.c|backend/cuda/attention_analysis.c|'\
'backend/cuda/attention_pass.c|kernel/match_attention.c|tensor/guard.c'

# Products of matrices, moments and attention are sums of products.
sums='backend/cuda/emit_kernel.c|backend/cuda/match_exp_sum.c'
sums+='|backend/cpu/unrolled_reduction.c|backend/cpu/unroll_and_jam.c'
sums+='|plan/fusion.c|kernel/match_contraction.c|kernel/online_reduction.c'
sums+='|kernel/trim_no_ops.c|kernel/match_attention.c|tensor/build_compute.c'
sums+='|tensor/moments.c|tensor/build_contraction.c|tensor/contraction_order.c'
# Adjoints sum over what a read leaves out.
sums+='|tensor/adjoint_body.c|tensor/adjoint_comprehension.c'
sums+='|tensor/adjoint_rules.c|eval/derive.c|tensor/loop_sums.c'
complain 'a sum by name' 'PRIM_SUM\b' "$sums"
exit $bad
