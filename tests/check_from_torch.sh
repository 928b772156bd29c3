#!/bin/bash
# python -m axon.from_torch: modules of PyTorch become programs with the same
# results.  Skipped without torch and onnxscript in $AXON_TORCH_PYTHON (or
# python3).
set -u
. "$(dirname "$0")/lib.sh"
python=${AXON_TORCH_PYTHON:-python3}
if ! "$python" -c 'import torch, onnx, onnxscript, numpy' 2>/dev/null; then
  echo "skipped: $python has no torch, onnx and onnxscript"
  exit 0
fi
enter "$here/tests/data"
mkdir axon
cp "$here/python/axon/from_torch.py" axon # without libaxon
: >axon/__init__.py
export AXON

cat >make.py <<'END'
import numpy as np
import torch
from torch import nn
from torch.export import Dim, export, save

torch.manual_seed(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 5)

    def forward(self, ids):
        b, n = ids.shape
        x = self.embedding(ids)

        def heads(f):
            return f(x).reshape(b, n, 4, 4).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(
            heads(self.q), heads(self.k), heads(self.v))
        x = self.norm(x + y.transpose(1, 2).reshape(b, n, 16))
        return self.out(nn.functional.gelu(x)).softmax(-1)


cnn = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU6(),
    nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.MaxPool2d(2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
cnn[1].running_mean.uniform_(-1, 1)
cnn[1].running_var.uniform_(0.5, 2)
batch, n = Dim("batch", min=2, max=64), Dim("n", min=2, max=64)
for name, module, x, sizes in [
        ("encoder", Encoder(), torch.randint(0, 20, (3, 7)),
         {0: batch, 1: n}),
        ("cnn", cnn, torch.randn(2, 3, 16, 16), {0: batch})]:
    module.eval()
    save(export(module, (x,), dynamic_shapes=(sizes,)), name + ".pt2")
    np.save(name + ".in.npy", x.numpy())
    np.save(name + ".out.npy", module(x).detach().numpy())
END
"$python" make.py >log 2>&1 || fail "$(cat log)"
for name in encoder cnn; do
  "$python" -m axon.from_torch "$name.pt2" -o out >log 2>&1 ||
    fail "$name: $(cat log)"
  "$AXON" check --strict "out/$name.axn" >types 2>&1 ||
    fail "$name: $(cat types)"
  cat >main.axn <<END
import "./out/$name" as m
val wanted = load "$name.out.npy"
do print (allclose ~rtol:1e-4 ~atol:1e-5 wanted (m.model (load "$name.in.npy")))
END
  [ "$("$AXON" run main.axn 2>&1)" = true ] ||
    fail "$name: $("$AXON" run main.axn 2>&1)"
done
tail -n 1 types | grep -q 'model : f32\[[a-z0-9_]*, 3, 16, 16\] ->' ||
  fail "the size of the batch is no name: $(tail -n 1 types)"

refused() { # refused TEXT ARGUMENT...
  local wanted=$1 status
  shift
  "$python" -m axon.from_torch "$@" >log 2>&1
  status=$?
  [ $status = 1 ] || fail "$*: the exit status is $status"
  grep -qF -- "$wanted" log || fail "$*: $(cat log)"
}
echo text >text.pt2
refused 'nothing.pt2 cannot be read' nothing.pt2
refused 'text.pt2 cannot be read' text.pt2
refused 'no such input or size' cnn.pt2 --set typo=1
AXON=nothing refused 'axon is not in PATH' cnn.pt2
exit "$bad"
