"""Checks of an experiment's inputs that need no engine: model folder, template, prompts."""

import json
from pathlib import Path

from gmts.config import Params
from gmts.data.manifest import MANIFEST, TOKENIZER_DIR, check_split, read_manifest
from gmts.data.questions import SPLITS
from gmts.data.rows import read_rows
from gmts.models.shape import ModelShape
from gmts.stages.findings import Findings
from gmts.stages.workspace import Workspace

_BUILT_POSITIONS = 4096
"""Of the model that the warm start builds."""


def check_model(params: Params, workspace: Workspace) -> tuple[ModelShape | None, Findings]:
    """Read the model's sizes; None where its config.json is not there or not usable."""
    if params.model.path is None:
        warm = params.warmstart
        shape = ModelShape(
            vocab_size=params.data.vocabulary_size,
            hidden_size=warm.hidden_size,
            intermediate_size=warm.intermediate_size,
            num_layers=warm.num_layers,
            num_heads=warm.num_heads,
            num_kv_heads=warm.num_key_value_heads,
            head_dim=warm.hidden_size // warm.num_heads,
            tied=True,
            max_positions=_BUILT_POSITIONS,
        )
        return shape, Findings(lines=[("model", f"built: at most {shape.num_params} parameters")])
    try:
        folder = workspace.given_model(params.model.path)
    except ValueError as error:
        return None, Findings(problems=[str(error)])
    if not (folder / "config.json").is_file():
        unchecked = f"{folder}/config.json: memory, disk and positions are not checked without it"
        return None, Findings(lines=[("model", params.model.path)], missing=[unchecked])
    try:
        shape = ModelShape.read(folder)
    except ValueError as error:
        return None, Findings(problems=[str(error)])
    line = ("model", f"{params.model.path}: {shape.num_params / 1e9:.2f} billion parameters")
    has_weights = any(folder.glob("*.safetensors"))
    missing = [] if has_weights else [f"{folder}/*.safetensors: the weights"]
    return shape, Findings(lines=[line], missing=missing)


def check_template(params: Params, workspace: Workspace) -> Findings:
    """Look for a chat template in the tokenizer's files, without loading the tokenizer."""
    if params.model.template == "plain":
        return Findings(lines=[("template", "plain: message contents one after another")])
    if params.model.path is None:
        return Findings(lines=[("template", "that of the tokenizer that prepare builds")])
    folder = workspace.root / params.model.path
    config = folder / "tokenizer_config.json"
    if not config.is_file():
        return Findings(missing=[f"{config}: the chat template is not checked without it"])
    try:
        inside = json.loads(config.read_text(encoding="utf-8")).get("chat_template")
    except (ValueError, AttributeError) as error:
        return Findings(problems=[f"{config} must be a JSON object: {error}"])
    files = [name for name in ("chat_template.jinja",) if (folder / name).is_file()]
    if not inside and not files:
        return Findings(
            problems=[
                f"model.template must be plain for a tokenizer without a chat template, got "
                f"tokenizer: neither {config} nor chat_template.jinja beside it has one"
            ]
        )
    return Findings(lines=[("template", f"the tokenizer's, from {files[0] if files else config}")])


def check_prompts(params: Params, workspace: Workspace) -> tuple[int | None, Findings]:
    """Measure the prepared prompts; None where they or the tokenizer are not there."""
    folder = workspace.prepared_dir
    limit = params.data.max_prompt_tokens
    assumed = f"prompt lengths are not measured, up to data.max_prompt_tokens ({limit}) assumed"
    if not (folder / MANIFEST).is_file():
        return None, Findings(missing=[f"{folder}: {assumed}; `gmts prepare` makes it"])
    manifest = read_manifest(folder)
    data = params.data
    wanted = {"source": data.source, "set": data.set, "task": data.task, "max_prompt_tokens": limit}
    other = [key for key, value in wanted.items() if manifest.get(key) != value]
    if other:
        missing = f"{folder}: {assumed}; what is there has another data.{other[0]}"
        return None, Findings(missing=[missing])
    tokenizer = folder / TOKENIZER_DIR
    if params.model.path is not None:
        tokenizer = workspace.root / params.model.path
    if not any(
        (tokenizer / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")
    ):
        return None, Findings(missing=[f"{tokenizer}/tokenizer.json: {assumed}"])
    return _measured(params, workspace, tokenizer)


def _measured(params: Params, workspace: Workspace, tokenizer: Path) -> tuple[int | None, Findings]:
    from gmts.models.folder import load_tokenizer
    from gmts.models.template import PromptTemplate

    try:
        template = PromptTemplate.of(load_tokenizer(tokenizer), params.model.template)
        lengths = {
            split: [
                len(template.encode(row.messages))
                for row in read_rows(check_split(workspace.prepared_dir, split))
            ]
            for split in reversed(SPLITS)
        }
    except ValueError as error:
        return None, Findings(problems=[str(error)])
    text = "; ".join(
        f"{split} {len(found)} of {min(found)} to {max(found)} tokens"
        for split, found in lengths.items()
    )
    longest = max(max(found) for found in lengths.values())
    line = ("prompts", text)
    limit = params.data.max_prompt_tokens
    if longest <= limit:
        return longest, Findings(lines=[line])
    problem = (
        f"data.max_prompt_tokens must be >= {longest}, the longest prepared prompt, got {limit}: "
        "run the prepare stage again"
    )
    return longest, Findings(lines=[line], problems=[problem])
