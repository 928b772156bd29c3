#!/bin/bash
# The compiler can report missing cases of a switch only if it covers an enum.
# So there is no `switch ((int)...)` over one of our enums, and no `default:`.
# The names of reductions occur only in primitives/.  The lists below are the
# exceptions.
set -u
cd "$(dirname "$0")/.." || exit 1
files=$(git ls-files '*.c' '*.h' 2>/dev/null | grep -vE '^tests/') || exit 0
[ -n "$files" ] || exit 0
bad=0
# Reports lines that match PATTERN, except in the files EXCEPTIONS.
complain() { # complain NAME PATTERN EXCEPTIONS
  local found
  found=$(grep -nE "$2" $files | grep -vE "^($3):")
  [ -z "$found" ] || {
    sed "s|^|$1: |" <<<"$found"
    bad=1
  }
  for file in $(tr '|' ' ' <<<"$3"); do
    grep -qE "$2" "$file" && continue
    echo "unused exception ($1): $file"
    bad=1
  done
}

# These files switch over a subset of the primitives: library operations, or
# operations with symbolic sizes or with known properties.
opaque='backend/reference/opaque.c|backend/cpu/library_ops.c'
opaque+='|backend/cuda/library_kernels.c|aot/library_ops.c'
some='tensor/extent_node.c|eval/pointwise_prims.c|kernel/online_reduction.c'
some+='|backend/cuda/attention_analysis.c|typecheck/special_prims.c'
complain 'a switch over a cast enum' 'switch \(\(int\)' \
  "$opaque|$some"

# Tokens of the parser and characters are not our enums.  The files in `rest`
# still have a `default:`.
tokens='parser/bracket_recovery.c|parser/syntax_errors.c'
tokens+='|backend/emit/params.c'
rest='backend/cuda/sim/warp_collectives.c'
rest+='|typecheck/path_conditions.c|typecheck/infer.c|typecheck/annotation.c'
rest+='|typecheck/prim_scheme.c|eval/aot_trace.c'
rest+='|eval/host_call.c|eval/higher_order_prims.c|eval/force.c'
rest+='|eval/pointwise_prims.c'
complain 'a default label' '^ *default:' "$tokens|$rest"

# The row maximum in attention; conjunctions, of the conditions of a `for` and
# of equal elements; a test of all elements of a state.
complain 'a reduction by name' \
  'PRIM_(PROD|MAX|MIN|ANY|ALL|XOR|ARGMAX|ARGMIN)\b' \
  'backend/cuda/match_exp_sum.c|backend/cuda/attention_analysis.c|'\
'backend/cuda/attention_pass.c|kernel/match_attention.c|tensor/guard.c|'\
'eval/compare_prims.c|kernel/online_states.c'

# Contractions, moments and attention are sums of products.
sums='backend/cuda/emit_kernel.c|backend/cuda/match_exp_sum.c'
sums+='|kernel/byte_dot.c|kernel/nest_steps.c|backend/cpu/unroll_and_jam.c'
sums+='|plan/fusion.c|kernel/match_contraction.c|kernel/online_reduction.c'
sums+='|kernel/trim_no_ops.c|kernel/match_attention.c|tensor/build_compute.c'
sums+='|tensor/moments.c|tensor/build_contraction.c|tensor/contraction_order.c'
# The adjoint of a read is a sum over the axes that the read does not use.
sums+='|tensor/adjoint_body.c|tensor/adjoint_comprehension.c'
sums+='|tensor/adjoint_rules.c|tensor/adjoint_quotient.c|tensor/adjoint_split.c'
sums+='|eval/derive.c|tensor/loop_sums.c|tensor/loop_kept.c|onnx/contract.c'
complain 'a sum by name' 'PRIM_SUM\b' "$sums"
exit $bad
