"""float32 steps against float64 autograd on full logits, per parameter tensor."""

import copy
import dataclasses

import pytest
import torch

from gmts.trainers.standalone.forward import response_stats
from gmts.trainers.standalone.step import update_step
from tests.support.policies import mini_batch, policy, step_settings

ADVANTAGES = (1.0, -1.0, 0.7, -0.7, 0.0, 0.0)
LENGTHS = (60, 47, 31, 52, 40, 9)
RATIO = 0.2


class Gradients(torch.optim.SGD):
    """Keeps the gradients by name and moves nothing."""

    def __init__(self, model):
        super().__init__(model.parameters(), lr=1.0)
        self.model = model

    def step(self, closure=None):
        self.kept = {name: p.grad.clone() for name, p in self.model.named_parameters()}


def plain_gradients(model, batch, prompts, temperature):
    """Return the float64 gradient of DAPO over the top tokens by |A| E at r = 1, by one pass."""
    model = copy.deepcopy(model).double()
    log_probs, scores = [], []
    for row, prompt in enumerate(prompts):
        ids = batch.response_ids[row, batch.response_mask[row]]
        sequence = torch.cat([torch.tensor(prompt), ids])[None]
        log_p = (model(sequence).logits[0, len(prompt) - 1 : -1] / temperature).log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1).detach()
        advantage = batch.advantages[row].double()
        log_probs.append(log_p[torch.arange(len(ids)), ids] * advantage)
        scores.append(entropy * advantage.abs())
    count = -(-len(torch.cat(scores)) // 5)
    top = torch.cat(scores).topk(count).indices
    loss = -torch.cat(log_probs)[top].sum() / count
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    return dict(zip(parameters, gradients, strict=True)), count


@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_float32_gradients_lie_within_1e_5_of_float64_in_every_tensor(kind, temperature):
    model = policy(kind, dtype=torch.float32)
    with torch.no_grad():  # milder than the other tests' policies: attention is not one-hot
        for parameter in model.parameters():
            parameter.mul_(0.5 if parameter.dim() > 1 else 1.0)
    batch, prompts, _ = mini_batch(model, ADVANTAGES, lengths=LENGTHS)
    expected, count = plain_gradients(model, batch, prompts, temperature)
    settings = dataclasses.replace(step_settings(ratio=RATIO), temperature=temperature)
    for budget in (70, 5000):
        stats = response_stats(
            model, prompts, batch, temperature=temperature, micro_batch_tokens=5000
        )
        own = dataclasses.replace(
            batch, old_log_probs=stats.log_probs, advantages=batch.advantages.float()
        )
        optimizer = Gradients(model)
        metrics = update_step(
            model, optimizer, own, prompts, stats,
            dataclasses.replace(settings, micro_batch_tokens=budget), step=0, moved=False,
        )  # fmt: skip
        assert metrics["selection/fraction"] == pytest.approx(count / sum(LENGTHS))
        for name, value in expected.items():
            distance = (optimizer.kept[name].double() - value).norm()
            assert distance <= 1e-5 * value.norm() + 1e-12, name
