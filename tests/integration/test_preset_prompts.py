"""The presets' prompts on real rows of their sets."""

import json

import pytest

from gmts.config import parse_params
from gmts.config.load import parse_yaml
from gmts.config.presets import render_preset
from gmts.data.sources import make_source
from gmts.data.splits import build_messages
from tests.support.shared import shared_file


def first_prompt(repository, preset, file, folder):
    text = render_preset(repository, preset, [f"data.files.train={file}"])
    data = parse_params(parse_yaml(text)).data
    question = next(iter(make_source(data, folder)("train")))
    return question, build_messages(data, question)


@pytest.mark.parametrize(
    ("preset", "file"),
    [
        ("qwen2.5-math-1.5b", "data/math12k_rebuilt/train.jsonl"),
        pytest.param("qwen3-8b", "data/dapo17k/dapo_math_17k.parquet", marks=pytest.mark.slow),
        ("qwen2.5-7b", "data/csqa/train_rand_split.jsonl"),
    ],
)
def test_the_user_message_is_the_question_and_the_system_message_asks_for_a_box(
    repository, tmp_path, preset, file
):
    question, (system, user) = first_prompt(repository, preset, shared_file(file), tmp_path)
    assert system["role"] == "system"
    assert system["content"].endswith(r"put your final answer within \boxed{}.")
    assert user == {"role": "user", "content": question.question}


def test_a_code_prompt_holds_the_problem_and_its_starter_code_in_a_fence(repository, tmp_path):
    rows = tmp_path / "kodcode.jsonl"
    row = {
        "question_id": "a",
        "question": "Add two numbers.",
        "solution": "def add(a, b):\n    return a + b",
        "test": "from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3",
        "test_info": [{"function_name": "add", "function_declaration": "def add(a, b):"}],
        "style": "instruct",
        "subset": "Prefill",
    }
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    _, (system, user) = first_prompt(repository, "qwen2.5-coder-7b", rows, tmp_path)
    assert system["content"] == (
        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    )
    assert "\n\nAdd two numbers.\n\n" in user["content"]
    assert "```python\ndef add(a, b):\n    pass\n```" in user["content"]
