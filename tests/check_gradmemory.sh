#!/bin/bash
# Peak memory of gradients of long loops, of checkpoints and of attention.  The
# limits are about twice the measured peaks, or a little less.  Without kept
# states, segments or recomputed scores, each program would need several times
# its limit.
set -u
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

peak() { # peak NAME LIMIT-IN-MB, the program on standard input
  cat >"$work/program.axn"
  mb=$(python3 - "$AXON" run "$work/program.axn" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
END
) || { echo "$1 failed" && status=1; }
  [ "${mb:-0}" -le "$2" ] || { echo "$1: $mb MB, limit $2" && status=1; }
  [ -z "${GRADMEMORY_SHOW-}" ] || echo "$1: $mb MB"
}

# 100,000 states of 256 bytes: 26 MB.
peak 'iterate 100000' 170 <<'END'
val w : f32[64, 64] = 0.05 * normal (key 1) [64, 64]
fun run w = sum (iterate 100000 (fn h => tanh (dot w h + 1.0)) (zeros [64]))
do print (sum (grad run w))
END

# The state decides what is computed: the host runs each iteration.
peak 'iterate 20000 on the host' 120 <<'END'
fun step s (y, k) = (if y > 2.0 then y * 0.5 else y * s, fold_key k 1)
do print (grad (fn s => fst (iterate 20000 (step s) (1.0, key 1))) 1.1)
END

peak 'while, 7000 iterations' 60 <<'END'
do print (grad (fn x => while (fn y => y < 1e4) (fn y => y * 1.0001 + x) x) 1.0)
END

# 12 states of 2 MB; all values of all layers are 200 MB.
peak 'checkpoint' 130 <<'END'
fun layer w x = x + tanh (x @ w)
fun block w x = x |> layer w |> layer w |> layer w |> layer w
val w : f32[128, 128] = 0.05 * normal (key 1) [128, 128]
val x : f32[4096, 128] = normal (key 2) [4096, 128]
do print (sum (grad (fn w => sum (iterate 12 (checkpoint (block w)) x)) w))
END
# Gradients of 4 MB each; the scores of all heads are 134 MB.
peak 'attention' 100 <<'END'
import nn
val q : f32[8, 2048, 64] = normal (key 1) [8, 2048, 64]
val k : f32[8, 2048, 64] = normal (key 2) [8, 2048, 64]
val v : f32[8, 2048, 64] = normal (key 3) [8, 2048, 64]
fun loss (q, k, v) = sum (square (nn.attention ~causal:true q k v))
val (a, b, c) = grad loss (q, k, v)
do print (sum (abs a) + sum (abs b) + sum (abs c))
END
# Scores of 67 MB, and sums of 4 MB for each head.
peak 'attention with shared keys, 16 bits' 120 <<'END'
import nn
val q = f16 (uniform (key 1) [1, 8, 2048, 64])
val k = f16 (uniform (key 2) [1, 2, 2048, 64])
val v = f16 (uniform (key 3) [1, 2, 2048, 64])
fun loss (q, k, v) = sum (f32 (square (nn.grouped_attention q k v)))
val (a, b, c) = grad loss (q, k, v)
do print (sum (abs (f32 a)) + sum (abs (f32 b)) + sum (abs (f32 c)))
END

# Training stores each result of a step over a tensor that the step reads for
# the last time.  So a run needs parameters, two moments and the gradient, 33.5
# MB each, besides the initial parameters; and more steps need no more.
megabytes() { # megabytes, the program on standard input: prints its peak
  cat - >"$work/program.axn"
  python3 - "$AXON" run "$work/program.axn" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
END
}
trained() { # trained STEPS, the definition of `fit` on standard input
  {
    cat <<'END'
val start =
  {a = 0.02 * normal (key 1) [2048, 2048],
   b = 0.02 * normal (key 2) [2048, 2048]}
val x = normal (key 3) [64, 2048]
fun loss rows p = mean (square (tanh (gather x rows @ p.a) @ p.b - 1.0))
END
    cat -
    echo "do print (sum (force start).a, sum (fit $1 start).b)"
  } | megabytes
}
copies() { # copies NAME, the definition of `fit` on standard input
  cat >"$work/fit"
  {
    echo 'fun fit _ p = p' | trained 0
    trained 4 <"$work/fit"
    trained 24 <"$work/fit"
  } |
    awk -v name="$1" -v show="${GRADMEMORY_SHOW-}" '
      { mb[NR] = $1 }
      END {
        copies = (mb[2] - mb[1]) / (2 * 2048 * 2048 * 4 / 1048576)
        text = sprintf("%s: %.2f times the parameters", name, copies)
        wrong = NR < 3 || copies > 4.6 || mb[3] > mb[2] + 8
        if (wrong)
          printf "%s, limit 4.6; %d MB after 4 steps, %d after 24\n", text,
            mb[2], mb[3]
        else if (show)
          print text
        exit wrong
      }' || status=1
}
copies 'train.run' <<'END'
fun fit steps start =
  train.run ~steps ~batch:16 ~rows:64 ~report:0
    (train.adamw (const 0.001) |> train.clip 1.0) (fn _ => loss) start
END
# The update is a kernel with three results, of one run.
copies 'a loop' <<'END'
fun step t (p, m, v) =
  let val g = force (grad (loss (iota 16)) p)
  in force (optim.adam (t + 1) (p, m, v) g) end
fun fit steps start =
  let
    val zero = optim.zeros_like start
    val (p, _, _) = progress steps step (start, zero, zero)
  in
    p
  end
END
exit "$status"
