"""A workspace for the train stage whose model is so small that a run takes a second.

The task: say an even number of a's. A random model is right about half the time, so groups are
mixed from the first step.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from gmts.config import parse_params
from gmts.config.load import read_yaml
from gmts.data.rows import Row, write_rows
from gmts.files import file_sha256, new_folder, write_json
from gmts.models.folder import load_tokenizer, save_model
from gmts.models.identity import settings_sha256
from gmts.models.initial import InitialModel, write_initial
from gmts.models.template import PromptTemplate
from gmts.rewards.scorer import Scorer
from gmts.rewards.verdict import Verdict
from gmts.stages.workspace import Workspace
from gmts.trainers.standalone.rollouts import Questions
from gmts.trainers.standalone.trainer import Recipe, Trainer

ROOT = Path(__file__).parents[2]
LETTERS = "abcdefgh"
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}:{% endif %}"
)


def reward(response: str, ground_truth: str, meta: dict) -> float:
    """Return 1.0 for an even number of a's."""
    return float(response.count("a") % 2 == 0)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<eos>", ":", *LETTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        chat_template=TEMPLATE,
    )


def tiny_model(seed: int = 0) -> Qwen2ForCausalLM:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=3 + len(LETTERS),
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=32,
                tie_word_embeddings=True,
                eos_token_id=1,
                pad_token_id=0,
            )
        ).eval()


def tiny_rows(count: int, split: str) -> list[Row]:
    texts = [f"{LETTERS[i % 8]}{LETTERS[i // 8 % 8]}" for i in range(count)]
    return [
        Row(
            id=f"{split}-{number}",
            messages=({"role": "user", "content": text},),
            ground_truth="even",
            source="letters",
            meta={},
            solution=None,
        )
        for number, text in enumerate(texts)
    ]


def tiny_tree(**changes) -> dict:
    """Return params.yaml's tree for six small steps; `changes` are dotted keys with __ for dots."""
    tree = read_yaml(ROOT / "configs" / "base.yaml")
    changes = {
        "rewards__scorer": "custom",
        "rewards__custom": "tests.support.tiny_run:reward",
        "rollout__group_size": 4,
        "rollout__max_response_tokens": 6,
        "train__steps": 6,
        "train__questions_per_batch": 4,
        "train__questions_per_mini_batch": 2,
        "train__optimizer__lr": 0.01,
        "train__validation_every": 2,
        "train__validation_samples": 2,
        "train__checkpoint_every": 2,
        "train__checkpoints_kept": 2,
        "train__dump_every": 3,
        "train__dump_max_responses": 5,
        "tracking__tensorboard": False,
        "tracking__dvclive": False,
    } | changes
    for key, value in changes.items():
        *path, last = key.split("__")
        node = tree
        for name in path:
            node = node[name]
        assert last in node, key
        node[last] = value
    return tree


def tiny_params(**changes):
    return parse_params(tiny_tree(**changes))


def tiny_workspace(root: Path, *, num_train: int = 10, num_validation: int = 4) -> Workspace:
    """Write data/prepared and models/initial as prepare and warmstart would."""
    workspace = Workspace(root)
    workspace.prepared_dir.mkdir(parents=True)
    write_rows(workspace.prepared_dir / "train.parquet", tiny_rows(num_train, "train"))
    write_rows(workspace.prepared_dir / "validation.parquet", tiny_rows(num_validation, "val"))
    write_rows(workspace.prepared_dir / "test.parquet", tiny_rows(2, "test"))
    hashes = {
        split: {"sha256": file_sha256(workspace.prepared_dir / f"{split}.parquet")}
        for split in ("train", "validation", "test")
    }
    write_json(
        workspace.prepared_dir / "manifest.json",
        {"schema_version": 1, "rows_sha256": "0" * 64, "splits": hashes},
    )
    put_initial(workspace, tiny_model())
    return workspace


def put_initial(workspace: Workspace, model: Qwen2ForCausalLM, tokenizer=None) -> None:
    template = PromptTemplate.of(tokenizer or tiny_tokenizer(), "tokenizer")
    with new_folder(workspace.initial_dir) as folder:
        sha256 = save_model(folder, model, template.tokenizer, template, {"step": 0})
        # Loaded tokenizers may name their special tokens more fully than new ones.
        template = PromptTemplate.of(load_tokenizer(folder), "tokenizer")
        write_initial(
            folder,
            InitialModel(
                path=Path(),
                weights_sha256=sha256,
                settings_sha256=settings_sha256(folder),
                template_kind="tokenizer",
                template_sha256=template.sha256,
                built=True,
            ),
        )


def judged(function) -> Scorer:
    """Return a scorer from a function of the response that returns a score; 1 is correct."""

    def score(response, ground_truth, meta):
        value = float(function(response))
        return Verdict(correct=value >= 1, score=value, reason="", extracted=response, seconds=0.0)

    return score


def tiny_questions(split: str, count: int, function=lambda text: text.count("a") % 2 == 0):
    tokenizer = tiny_tokenizer()
    template = PromptTemplate.of(tokenizer, "tokenizer")
    rows = tiny_rows(count, split)
    return Questions(
        rows=rows,
        prompts=[tuple(template.encode(row.messages)) for row in rows],
        decode=lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
        decode_prompt=tokenizer.decode,
        scorer=judged(function),
    )


def tiny_trainer(*, function=None, model=None, eos_ids=(1,), **changes) -> Trainer:
    params = tiny_params(**changes)
    known = {} if function is None else {"function": function}
    return Trainer(
        tiny_model() if model is None else model,
        Recipe(
            seed=params.seed,
            rollout=params.rollout,
            overlong=params.rewards.overlong,
            objective=params.objective,
            selection=params.selection,
            train=params.train,
        ),
        questions=tiny_questions("train", 10, **known),
        validation=tiny_questions("validation", 4, **known),
        eos_ids=eos_ids,
    )
