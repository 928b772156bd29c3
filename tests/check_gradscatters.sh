#!/bin/bash
# `axon plan` of the gradient of each model of examples/models.  Only rows at
# indices from data scatter: embeddings, and gathers of gcn and t5.  All other
# kernels are loop nests, which gather.
set -u
. "$(dirname "$0")/lib.sh"
enter "$here/examples/models"
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 0; }

# MODEL | loss, or a tensor whose squares are summed | parameters p
models='
alexnet|alexnet p (normal (key 2) [2, 3, 67, 67])|small
bert|fst (bert ~heads:2 p [[3, 1], [9, 2]] [[0, 1], [0, 0]])|tiny
char_rnn|loss p (start_states 2 4) text|tiny
dcgan|judge small_d (generate p (normal (key 3) [2, 3]))|small_g
dcgan|judge p faked|small_d
convnext|convnext p (normal (key 2) [2, 3, 16, 24])|tiny
ddpm|loss (unet ~groups:2 p) (key 2) (zeros [1, 1, 8, 8]) [9]|small_unet
densenet|densenet p (densenet_stats 1) images|small
gcn|gcn p square (normal (key 2) [4, 3])|tiny
gpt2|gpt2 ~heads:2 p [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]|tiny
inception|inception p (normal (key 2) [1, 6, 5, 7])|small
lenet5|lenet5 p (normal (key 2) [2, 1, 28, 28])|small
llama|llama ~heads:4 ~groups:2 p [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]|tiny
mamba|mamba p [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]|tiny
mixer|mixer p (normal (key 2) [2, 3, 8, 12])|tiny
mlp|mlp p (normal (key 2) [2, 3, 4])|small
mobilenet|mobilenet p (mobilenet_stats 1 5) images|small
moe|mixtral ~heads:2 ~groups:1 p [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]|tiny
nerf|(nerf p (uniform (key 2) [5, 3]) (uniform (key 3) [5, 3])).colour|tiny
pointnet|pointnet p (pointnet_stats 2) points|small
resnet|resnet18 p (resnet18_stats 4) images|small18
resnet|resnet50 p (resnet50_stats 2) images|small50
seq2seq|translate p [[1, 2], [3, 4], [5, 6]] [[0, 0], [7, 8]]|tiny
swin|swin ~window:2 ~heads:(1, 2, 2, 4) p (normal (key 2) [2, 3, 32, 64])|tiny
t5|t5 ~heads:2 p [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]] [[0, 7], [0, 8]]|tiny
tcn|tcn p (normal (key 2) [2, 1, 30])|small
unet|unet p (normal (key 2) [1, 1, 188, 204])|small
vae|loss p (key 2) (uniform (key 3) [4, 6])|small
vgg|vgg p (normal (key 2) [2, 3, 39, 39])|small
vit|vit ~heads:2 p (normal (key 2) [2, 3, 8, 12])|tiny
wavenet|loss p samples|small
whisper|whisper ~heads:2 p (normal (key 2) [2, 5, 16]) [[3, 1], [9, 2]]|tiny
yolo|features p (yolo_stats 1) image|small
'
# The kernels that are no loop nests.  scatter and topk are operations of the
# models.
expected='bert: embedding p.sentences sentences
bert: embedding p.tokens tokens
gcn: gather y from
gcn: scatter (ones [n]) to (ones [dim 0 to])
gcn: scatter y to (gather y from)
gpt2: embedding p.tokens tokens
llama: embedding p.tokens tokens
mamba: embedding p.tokens text
moe: embedding p.tokens tokens
moe: topk best
seq2seq: embedding p.target_words translations
seq2seq: embedding p.words texts
t5: embedding p.tokens answers
t5: embedding p.tokens texts
t5: gather p class
whisper: embedding p.tokens texts'

small_unet='unet_params ~width:2 ~colours:1 (key 1)'
count=0
while IFS='|' read -r model body parameters; do
  [ "$model" ] || continue
  parameters=${parameters/#small_unet/$small_unet}
  count=$((count + 1))
  timeout "$limit" "$AXON" plan --dry --stable --json --quiet "$model.axn" -e \
    "grad (fn p => sum (let val y = $body in y * y end)) ($parameters)" \
    >"$work/$model.$count" 2>"$work/messages" ||
    fail "$model: $(head -n 20 "$work/messages")"
done <<<"$models"
for model in *.axn; do
  grep -q "^${model%.axn}|" <<<"$models" || fail "no gradient of $model"
done
python3 - "$work"/*.[0-9]* >"$work/found" <<'END'
import json, os, sys
found = set()
for path in sys.argv[1:]:
    model = os.path.basename(path).split(".")[0]
    kernels = [k for run in json.load(open(path))["runs"]
               for k in run["kernels"]]
    assert len(kernels) > 3, model
    found |= {f"{model}: {v['text']}" for k in kernels if k["routine"]
              for v in k["values"]}
print("\n".join(sorted(found)))
END
diff <(echo "$expected") "$work/found" || fail 'other kernels that scatter'
exit "$bad"
