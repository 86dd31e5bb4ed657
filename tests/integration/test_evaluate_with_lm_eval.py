"""Scores through lm-eval: by hand, against lm-eval's own model, and across weights and crashes."""

import gzip
import json
import logging
import shutil
import socket
import threading
from dataclasses import replace
from itertools import cycle

import pytest
import torch
from lm_eval.api.instance import Instance
from tokenizers.processors import TemplateProcessing

from gmts.evaluation.benchmarks import read_rows_of
from gmts.evaluation.cache import SampleCache, SamplingIdentity
from gmts.evaluation.config import BenchmarkConfig
from gmts.evaluation.lm import PolicyLM
from gmts.evaluation.run import evaluate_policy, summarize
from gmts.files import new_folder
from gmts.models.folder import load_tokenizer, save_model
from gmts.models.template import PromptTemplate
from gmts.rollout.sampler import Sample, Sampler
from gmts.stages.evaluate import evaluate
from tests.support.exams import entry, own_file
from tests.support.tiny_run import (
    judged,
    tiny_model,
    tiny_params,
    tiny_rows,
    tiny_tokenizer,
    tiny_workspace,
)

RIGHT, WRONG, END = 3, 4, 1  # the tokens a, b and <eos>
SMALL = {
    "evaluate__samples": 4,
    "evaluate__pass_at": [1, 4],
    "evaluate__max_response_tokens": 6,
    "evaluate__batch_size": 4,
    "evaluate__bootstrap_samples": 200,
}


class ScriptedSampler(Sampler):
    """A model whose responses are written down: prompt by prompt, in the order of asking."""

    def __init__(self, script):
        super().__init__(
            tiny_model(), eos_ids=[END], temperature=1.0, max_response_tokens=2, batch_size=64
        )
        self.script = iter(script)
        self.prompts = []

    def sample(self, prompts, num_samples, generator, *, progress=None):
        self.prompts += [tuple(prompt) for prompt in prompts]
        return [next(self.script) for _ in range(len(prompts) * num_samples)]


class InterruptedSampler(Sampler):
    """A model that is stopped at its third call."""

    calls = 0

    def sample(self, *args, **kwargs):
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().sample(*args, **kwargs)


def response(token, *, finished=True):
    ids = (token, END) if finished else (token, token)
    return Sample(token_ids=ids, finished=finished, log_probs=(0.0, 0.0))


def identity(**changes):
    fields = dict.fromkeys(
        ("weights_sha256", "config_sha256", "template_sha256", "code_sha256", "versions"), "x"
    )
    return SamplingIdentity(
        **(fields | changes),
        dtype="float32",
        device="cpu",
        threads=1,
        batch_size=64,
        temperature=1.0,
        max_response_tokens=6,
        samples=16,
        seed=0,
    )


def policy_lm(sampler, folder, *, samples, chunk=1, template=None):
    return PolicyLM(
        sampler,
        template or PromptTemplate.of(tiny_tokenizer(), "tokenizer"),
        SampleCache(folder, identity()),
        samples=samples,
        questions_per_chunk=chunk,
        seed=0,
    )


def lively_model():
    """A random model with weights large enough to say something else to each prompt."""
    model = tiny_model()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6, generator=generator)
    return model


def tiny_sampler(kind=Sampler, *, model=None, temperature=1.0, limit=6):
    return kind(
        model or tiny_model(),
        eos_ids=[END],
        temperature=temperature,
        max_response_tokens=limit,
        batch_size=64,
    )


def requests(prompts, samples=1, **kwargs):
    return [
        Instance("generate_until", {}, (prompt, dict(kwargs)), number)
        for number, prompt in enumerate(prompts)
        for _ in range(samples)
    ]


def put_model(folder, seed):
    template = PromptTemplate.of(tiny_tokenizer(), "tokenizer")
    with new_folder(folder) as new:
        save_model(new, tiny_model(seed), template.tokenizer, template, {})


def scores(workspace, model="initial"):
    return json.loads((workspace.evaluation_dir(model) / "scores.json").read_text())


def texts(workspace, model="initial"):
    data = gzip.decompress((workspace.evaluation_dir(model) / "responses.jsonl.gz").read_bytes())
    return [
        [response["text"] for response in json.loads(line)["responses"]]
        for line in data.splitlines()
    ]


def test_scores_of_scripted_responses_are_those_computed_by_hand(tmp_path):
    correct = (16, 8, 1, 0)
    script = [
        response(RIGHT if number < count else WRONG, finished=number != 15)
        for count in correct
        for number in range(16)
    ]
    config = replace(tiny_params().evaluate, samples=16, pass_at=(1, 2, 8, 16))
    rows = tiny_rows(3, "test")
    rows.append(replace(rows[0], id="the same question again"))
    lm = policy_lm(ScriptedSampler(script), tmp_path, samples=16, chunk=2)
    template = PromptTemplate.of(tiny_tokenizer(), "tokenizer")
    found = evaluate_policy(lm, template, judged(lambda text: "a" in text), rows, config)
    assert [sum(v.correct for v in verdicts) for verdicts in found.verdicts] == list(correct)
    for responses, verdicts in zip(found.responses, found.verdicts, strict=True):
        assert ["a" in r.text for r in responses] == [v.correct for v in verdicts]
    summary = summarize(found, config)
    assert (summary["questions"], summary["samples"]) == (4, 16)
    assert summary["average"]["value"] == summary["lm_eval_average"] == 25 / 64
    values = {k: estimate["value"] for k, estimate in summary["pass_at"].items()}
    assert values == {
        "1": 25 / 64,
        "2": (1 + 92 / 120 + 1 / 8 + 0)
        / 4,  # 8 wrong: 28 of 120 pairs miss; 1 right: 15 of 120 hit
        "8": (1 + 12869 / 12870 + 1 / 2 + 0) / 4,
        "16": 3 / 4,
    }
    assert summary["truncated"] == 4 / 64
    assert summary["no_answer"] == 0
    assert summary["mean_tokens"] == 2


def test_average_at_16_of_a_benchmark_is_the_one_computed_by_hand(tmp_path):
    correct = (16, 4, 0)
    script = [
        response(RIGHT if number < count else WRONG) for count in correct for number in range(16)
    ]
    given = BenchmarkConfig(**entry(own_file(tmp_path, 3)))
    rows = read_rows_of("amc23", given, tmp_path).rows
    lm = policy_lm(ScriptedSampler(script), tmp_path, samples=16, chunk=2)
    template = PromptTemplate.of(tiny_tokenizer(), "tokenizer")
    config = replace(tiny_params().evaluate, samples=16, pass_at=(1, 4, 8, 16))
    scorer = judged(lambda text: "a" in text)
    found = evaluate_policy(lm, template, scorer, rows, config, task="gmts_amc23")
    summary = summarize(found, config)
    assert summary["average"]["value"] == pytest.approx(20 / 48)
    assert summary["lm_eval_average"] == pytest.approx(20 / 48)
    values = {k: estimate["value"] for k, estimate in summary["pass_at"].items()}
    assert values == {
        "1": pytest.approx(20 / 48),
        "4": pytest.approx((1 + 265 / 364) / 3),  # 495 of 1820 draws of 4 miss all 4 right ones
        "8": pytest.approx((1 + 25 / 26) / 3),  # 495 of 12870 draws of 8 do
        "16": pytest.approx(2 / 3),
    }


def test_near_temperature_zero_responses_are_the_greedy_ones_of_lm_evals_own_model(tmp_path):
    from lm_eval.models.huggingface import HFLM

    prompts = [f"{text}:" for text in ("a", "bc", "defgh", "hhgg", "cab", "fedcba")]
    sampler = tiny_sampler(model=lively_model(), temperature=1e-6, limit=12)
    lm = policy_lm(sampler, tmp_path, samples=1, chunk=4)
    theirs = HFLM(
        pretrained=lively_model(), tokenizer=tiny_tokenizer(), batch_size=3, max_length=32
    ).generate_until(
        requests(prompts, until=[], do_sample=False, max_gen_toks=12), disable_tqdm=True
    )
    ours = lm.generate_until(requests(prompts))
    assert ours == theirs
    assert len(set(ours)) > 3
    assert {r.finished for group in lm.responses for r in group} == {True, False}


def test_repeats_that_do_not_follow_one_another_are_refused(tmp_path):
    lm = policy_lm(tiny_sampler(), tmp_path, samples=2)
    with pytest.raises(ValueError, match="must be requested 2 times in a row"):
        lm.generate_until(requests(["a:", "b:"] * 2))


def test_prompts_in_evaluation_have_the_token_ids_of_training_and_one_bos(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = "h"
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="h $A", special_tokens=[("h", bos)]
    )
    tokenizer.chat_template = "{{ bos_token }}" + tokenizer.chat_template
    template = PromptTemplate.of(tokenizer, "tokenizer")
    rows = tiny_rows(5, "test")
    assert tokenizer(template.render(rows[0].messages))["input_ids"][:2] == [bos, bos]
    sampler = ScriptedSampler(cycle([response(RIGHT)]))
    lm = policy_lm(sampler, tmp_path, samples=2, chunk=2, template=template)
    config = replace(tiny_params().evaluate, samples=2, pass_at=(1,))
    evaluate_policy(lm, template, judged(lambda text: True), rows, config)
    assert sampler.prompts == [tuple(template.encode(row.messages)) for row in rows]
    assert all(prompt.count(bos) == 1 for prompt in sampler.prompts)


def test_an_evaluation_stopped_half_way_samples_only_the_rest(tmp_path):
    prompts = [f"{letter}:" for letter in "abcdefgh"]
    whole = policy_lm(tiny_sampler(), tmp_path / "whole", samples=4, chunk=2)
    expected = whole.generate_until(requests(prompts, 4))
    assert whole.num_sampled == 32
    stopped = policy_lm(tiny_sampler(InterruptedSampler), tmp_path / "again", samples=4, chunk=2)
    with pytest.raises(KeyboardInterrupt):
        stopped.generate_until(requests(prompts, 4))
    rest = policy_lm(tiny_sampler(), tmp_path / "again", samples=4, chunk=2)
    assert rest.generate_until(requests(prompts, 4)) == expected
    assert rest.num_sampled == 16
    assert len(set(expected[:4])) > 1  # repeats of a prompt are not one response four times


@pytest.mark.parametrize("damage", [b"", b"garbage", b"half"])
def test_a_damaged_cache_file_is_sampled_again(tmp_path, caplog, damage):
    first = policy_lm(tiny_sampler(), tmp_path, samples=4)
    expected = first.generate_until(requests(["ab:"], 4))
    (file,) = tmp_path.rglob("*.json.gz")
    file.write_bytes(file.read_bytes()[:40] if damage == b"half" else damage)
    again = policy_lm(tiny_sampler(), tmp_path, samples=4)
    assert again.generate_until(requests(["ab:"], 4)) == expected
    assert again.num_sampled == 4
    assert f"{file} cannot be read" in caplog.text


def test_a_failing_scorer_stops_the_evaluation_and_names_the_row(tmp_path):
    lm = policy_lm(tiny_sampler(), tmp_path, samples=2)
    config = replace(tiny_params().evaluate, samples=2, pass_at=(1,))
    template = PromptTemplate.of(tiny_tokenizer(), "tokenizer")
    with pytest.raises(ZeroDivisionError) as caught:
        evaluate_policy(lm, template, judged(lambda text: 1 / 0), tiny_rows(2, "test"), config)
    assert caught.value.__notes__ == ["while judging a response to row test-0"]


class LockedScorer:
    """A scorer that no copy can be made of, as one with processes."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, response, ground_truth, meta):
        with self.lock:
            return judged(lambda text: "a" in text)(response, ground_truth, meta)


def test_a_scorer_that_cannot_be_copied_judges_like_any_other(tmp_path):
    script = [response(RIGHT), response(WRONG)] * 2
    lm = policy_lm(ScriptedSampler(script), tmp_path, samples=2)
    config = replace(tiny_params().evaluate, samples=2, pass_at=(1,))
    template = PromptTemplate.of(tiny_tokenizer(), "tokenizer")
    found = evaluate_policy(lm, template, LockedScorer(), tiny_rows(2, "test"), config)
    assert [[v.correct for v in group] for group in found.verdicts] == [[True, False]] * 2


def test_scores_are_never_served_across_models_that_share_a_cache(tmp_path):
    workspace = tiny_workspace(tmp_path)
    params = tiny_params(**SMALL)
    put_model(workspace.last_dir, seed=1)
    put_model(workspace.best_dir, seed=1)
    sampled = {
        model: evaluate(params, workspace, model).values["sampled"]
        for model in ("initial", "last", "best")
    }
    assert sampled == {"initial": 8, "last": 8, "best": 0}
    assert texts(workspace, "initial") != texts(workspace, "last") == texts(workspace, "best")
    hashes = {model: scores(workspace, model)["weights_sha256"] for model in sampled}
    assert hashes["initial"] != hashes["last"] == hashes["best"]
    put_model(workspace.last_dir, seed=2)
    assert evaluate(params, workspace, "last").values["sampled"] == 8
    assert scores(workspace, "last")["weights_sha256"] != hashes["last"]
    assert texts(workspace, "last") != texts(workspace, "best")


def test_a_checkpoint_whose_chat_template_was_changed_is_not_scored(tmp_path):
    workspace = tiny_workspace(tmp_path)
    put_model(workspace.last_dir, seed=1)
    file = workspace.last_dir / "chat_template.jinja"
    file.write_text("Please: " + file.read_text())
    trained = PromptTemplate.of(load_tokenizer(workspace.initial_dir), "tokenizer").sha256
    changed = PromptTemplate.of(load_tokenizer(workspace.last_dir), "tokenizer").sha256
    with pytest.raises(ValueError, match=rf"\({trained}\), got {changed}"):
        evaluate(tiny_params(**SMALL), workspace, "last")
    assert not workspace.evaluation_dir("last").exists()
    assert not workspace.stage_file("evaluate-last").exists()


def test_a_test_split_that_is_not_the_manifests_is_not_scored(tmp_path):
    workspace = tiny_workspace(tmp_path)
    file = workspace.prepared_dir / "test.parquet"
    shutil.copy(workspace.prepared_dir / "validation.parquet", file)
    with pytest.raises(ValueError, match=r"test\.parquet must have the sha256 .* got [0-9a-f]{64}"):
        evaluate(tiny_params(**SMALL), workspace, "initial")
    assert not workspace.evaluation_dir("initial").exists()


def test_an_evaluation_asks_no_host_says_nothing_of_lm_eval_and_records_its_settings(
    tmp_path, monkeypatch, caplog, capfd
):
    asked = []

    def refuse(*args, **kwargs):
        asked.append(args)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    workspace = tiny_workspace(tmp_path)
    capfd.readouterr()
    with caplog.at_level(logging.INFO):
        evaluate(tiny_params(**SMALL), workspace, "initial")
    assert asked == []
    assert [r for r in caplog.records if r.name.startswith("lm_eval")] == []
    assert capfd.readouterr() == ("", "")
    found = scores(workspace)
    assert found["sampling"]["weights_sha256"] == found["weights_sha256"]
    assert found["sampling_sha256"] == SamplingIdentity(**found["sampling"]).sha256()
    assert found["rewards"]["custom"] == "tests.support.tiny_run:reward"
