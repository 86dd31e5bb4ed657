#!/usr/bin/env bash
# The committed experiment, five steps of it, on the GPUs of this machine: by the standalone trainer
# in bfloat16 on one of them, then by verl on all, whose collectives are NCCL's. Prints the selected
# fraction and the gap between the sampler's and the trainer's probabilities of every step.
# Needs both environments of docs/gpu.md; writes where `gmts run` writes.
set -euo pipefail
gpus=${GPUS:-$(nvidia-smi --list-gpus | wc -l)}
short=(runtime.device=cuda model.dtype=bfloat16 train.steps=5 train.validation_every=5
  train.checkpoint_every=5 evaluate.samples=4 'evaluate.pass_at=[1]')
for backend in standalone verl; do
  gmts run --preset smoke "${short[@]}" train.backend="$backend" verl.ranks_per_node="$gpus"
  python - "$backend" <<'PYTHON'
import json, sys
for line in open("reports/train/metrics.jsonl"):
    step = json.loads(line)
    if step["step"]:
        print(sys.argv[1], step["step"], "selected", step["selection/fraction"],
              "gap", step.get("rollout/probability_gap_max"))
PYTHON
done
