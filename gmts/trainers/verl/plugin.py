"""What verl imports in every process (VERL_USE_EXTERNAL_MODULES): everything that we register."""

import importlib

# In this order: the platform must be known before verl asks which one it is on.
for _module in (
    "platform.cpu",
    "engine",
    "advantages",
    "platform.rollout",
    "platform.vllm",
    "trainer",
):
    importlib.import_module(f"gmts.trainers.verl.{_module}")
