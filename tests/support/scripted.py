"""A model whose responses are written down, through the whole benchmark stage."""

from gmts.evaluation.results import read_results
from gmts.models.folder import load_tokenizer
from gmts.rollout.sampler import Sample, Sampler
from gmts.stages.benchmark import benchmark
from tests.support.exams import entry, exam_params, text_workspace


def fenced(program):
    """Return a response that ends with a program."""
    return f"First I think.\n```python\n{program}```\n"


class ScriptedSampler(Sampler):
    """A model whose greedy responses are written down, in the order of asking."""

    tokenizer = None
    script = ()
    cut = ()
    asked = 0

    def greedy(self, prompts, **_):
        samples = []
        for _ in prompts:
            ids = self.tokenizer.encode(self.script[type(self).asked])
            finished = type(self).asked not in self.cut
            samples.append(Sample(token_ids=tuple(ids), finished=finished, log_probs=()))
            type(self).asked += 1
        return samples


def run(root, name, path, script, monkeypatch, *, cut=(), **settings):
    """Score a model that answers with `script`; return the scores and the stored responses."""
    workspace = text_workspace(root, [*script, "a system and a user message"])
    tokenizer = load_tokenizer(workspace.initial_dir)
    made = {"tokenizer": tokenizer, "script": script, "cut": cut}
    monkeypatch.setattr("gmts.rollout.sampler.Sampler", type("S", (ScriptedSampler,), made))
    params = exam_params({name: entry(str(path), greedy=None, custom=None)}, **settings)
    result = benchmark(params, workspace, name, "initial")
    folder = workspace.benchmarks_dir / name / "initial"
    return result, folder, *read_results(folder)
