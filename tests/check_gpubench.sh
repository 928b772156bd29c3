#!/bin/bash
# bench/gpu.sh without a GPU.  `--dry` plans the workloads.  At small sizes, the
# simulator gives the results of the target cpu.  The script writes a table and
# JSON, and lists the workloads that it had no time for.  The worker process of
# the peer libraries continues after an invalid request.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/tests/data"
unset AXON_NVRTC LD_LIBRARY_PATH AXON_TARGET

bench() { "$here/bench/gpu.sh" --axon "$AXON" "$@"; }

command -v python3 >/dev/null || {
  echo 'no python3: skipped'
  exit 0
}
output=$(bench --dry 'rows ' 'gemm 32x6144' 2>&1) || fail "dry: $output"
grep -q '^gemm 32x6144x4096 .* ms predicted, 1 kernel' <<<"$output" &&
  grep -q '^2 workloads, 0 not ready' <<<"$output" || fail "dry: $output"
bench --dry --axon false rows >output 2>&1 &&
  fail 'a failing program is not reported'

# counts.py finds loops by all forms of branches: one that BRA.U ends, one with
# an end in its middle, and one whose branch has several targets.
cat >listing <<'END'
  .section .text.kernel,"ax",@progbits
.L_x_0:
  /*0010*/  HGMMA.64x8x16.F32 R24, gdesc[UR4], R24 ;
  /*0020*/  @P0 BRA `(.L_x_1) ;
  /*0030*/  FADD R1, R1, R1 ;
.L_x_1:
  /*0040*/  BRA.U !UP0, `(.L_x_0) ;
.L_x_2:
  /*0050*/  @P1 EXIT ;
  /*0060*/  FMUL R1, R1, R1 ;
  /*0070*/  @!P2 BRA `(.L_x_2) ;
.L_x_3:
  /*0080*/  BRA.DIV UR4, `(.L_x_5) ;
.L_x_4:
  /*0090*/  BRX R2 -0x90 (*"BRANCH_TARGETS .L_x_3,.L_x_6"*);
  /*00a0*/  EXIT ;
.L_x_5:
  /*00b0*/  BRA `(.L_x_4) ;
.L_x_6:
  /*00c0*/  EXIT ;
END
output=$(PYTHONPATH="$here/bench/gpu" python3 -c '
import counts
code, labels = counts.functions(open("listing").read())["kernel"]
for begin, end in counts.loops(code, labels):
    print(begin, end, counts.shortest(code, labels, begin, end))')
[ "$output" = $'0 3 3\n4 6 3\n7 8 2' ] || fail "counts.py: $output"

. "$here/tests/cuda_fakes.sh"
export LD_LIBRARY_PATH="$work" AXON_NVRTC="$work/libnvrtc.so.13"
export FAKE_MEMORY=2000 FAKE_PROCESSORS=4 AXON_TINY=0
output=$(bench --dry --small '32x6144x4096' ' 1x16x16384x128' chain softmax \
  layernorm 'rows ' columns 'x64 to 64' 'x128 to 128, stride 2' 2>&1) ||
  fail "$(grep -v ' the same$' <<<"$output")"
[ "$(grep -c ' the same$' <<<"$output")" = 16 ] ||
  fail "the number of equal results is not 16: $output"
bench --small --seconds 0.01 --out table 'rows ' >output 2>&1 &&
  grep -q '^rows 8192x8192  *2.5000 .* open ' table.txt &&
  grep -q '"ms": 2.5' table.json ||
  fail "the table is wrong: $(cat output)"
bench --small --minutes 0 --out table 'rows ' >output 2>&1 &&
  grep -q '^no time was left for 1: rows 8192x8192' table.txt ||
  fail "time limit: $(cat output)"
output=$(printf '{"do": "%s"}\n' none about | python3 \
  "$here/bench/gpu/worker.py" 2>/dev/null)
[[ $output == *'"error": '*'"missing": '* ]] || fail "worker.py: $output"
exit "$bad"
