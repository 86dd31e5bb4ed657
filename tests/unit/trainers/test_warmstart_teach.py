"""The warm start's supervised steps against loops that are written out."""

import random
from dataclasses import replace

import pytest
import torch

from gmts.data.rows import Row
from gmts.data.solutions import worked_solution
from gmts.models.build_tokenizer import build_tokenizer
from gmts.models.template import PromptTemplate
from gmts.trainers.config import WarmstartConfig
from gmts.trainers.warmstart.model import build_model
from gmts.trainers.warmstart.teach import teach

CONFIG = WarmstartConfig(
    hidden_size=16,
    intermediate_size=24,
    num_layers=1,
    num_heads=2,
    num_key_value_heads=1,
    batch_size=3,
    clean_steps=4,
    noisy_steps=0,
    slip_probability=1.0,
    lr=0.01,
)


def row(terms):
    meta = {"metadata": {"source_dataset": "chain_sum", "expression": terms}}
    return Row(
        id=terms,
        messages=({"role": "user", "content": f"{terms} ="},),
        ground_truth="",
        source="chain_sum",
        meta=meta,
        solution=worked_solution(meta, slip_probability=0.0, rng=random.Random(0)),
    )


ROWS = [row(terms) for terms in ("3 - 5 + 2", "1 + 1 + 1", "9 - 9 - 4", "8 + 7 - 2")]


@pytest.fixture
def tokenizer():
    texts = [f"{r.messages[0]['content']}\n{r.solution}" for r in ROWS]
    return build_tokenizer([*texts, "0123456789"], 64)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def taught(tokenizer, config=CONFIG, rows=ROWS, seed=0):
    model = build_model(config, tokenizer, 0)
    loss = teach(model, PromptTemplate.of(tokenizer, "tokenizer"), rows, config, seed=seed)
    return model, loss


def test_steps_equal_adamw_on_single_unpadded_rows(tokenizer):
    # A batch holds all rows, so its order, and with it the drawing, does not matter.
    config = replace(CONFIG, batch_size=len(ROWS), clean_steps=10)
    template = PromptTemplate.of(tokenizer, "tokenizer")
    expected = build_model(config, tokenizer, 0).double()
    optimizer = torch.optim.AdamW(
        expected.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.01
    )
    last = []
    for step in range(10):
        # up by a thirtieth of the rate a step; down over the last three of ten
        decay = {8: 2 / 3, 9: 1 / 3}.get(step, 1.0)
        optimizer.param_groups[0]["lr"] = 0.01 * (step + 1) / 30 * decay
        total, count = 0.0, 0
        for r in ROWS:
            prompt = template.encode(r.messages)
            answer = [*tokenizer(r.solution)["input_ids"], tokenizer.eos_token_id]
            ids = [*prompt, *answer]
            logits = expected(torch.tensor([ids])).logits[0].log_softmax(-1)
            for position in range(len(prompt), len(ids)):
                total = total - logits[position - 1, ids[position]]
                count += 1
        optimizer.zero_grad()
        (total / count).backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        optimizer.step()
        last.append((total / count).item())
    model, loss = taught(tokenizer, config)
    assert loss == pytest.approx(sum(last) / 10, rel=1e-5)
    moved = weights(model) - weights(build_model(config, tokenizer, 0))
    reference = weights(expected).float() - weights(build_model(config, tokenizer, 0))
    # Adam turns gradients near zero into steps of either sign: compare the moves as a whole.
    assert (moved - reference).norm() < 0.01 * reference.norm()


def test_the_same_seed_teaches_the_same_and_leaves_the_global_generators_alone(tokenizer):
    random.seed(5)
    torch.manual_seed(5)
    states = random.getstate(), torch.get_rng_state()
    first, _ = taught(tokenizer)
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    random.seed(6)
    torch.manual_seed(6)
    assert torch.equal(weights(first), weights(taught(tokenizer)[0]))
    assert not torch.equal(weights(first), weights(taught(tokenizer, seed=1)[0]))


def test_slips_begin_after_the_clean_steps(tokenizer):
    clean, _ = taught(tokenizer, replace(CONFIG, slip_probability=0.0))
    assert torch.equal(weights(taught(tokenizer)[0]), weights(clean))
    mixed = replace(CONFIG, clean_steps=3, noisy_steps=1)
    assert not torch.equal(weights(taught(tokenizer, mixed)[0]), weights(clean))


def test_a_taught_model_repeats_what_it_was_shown_and_stops(tokenizer):
    config = replace(CONFIG, clean_steps=150, batch_size=4, lr=0.02)
    model, loss = taught(tokenizer, config)
    assert loss < 1.5
    assert not model.training
    template = PromptTemplate.of(tokenizer, "tokenizer")
    for r in ROWS:
        prompt = torch.tensor([template.encode(r.messages)])
        output = model.generate(prompt, max_new_tokens=40, do_sample=False)[0, prompt.shape[1] :]
        assert output[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(output[:-1]) == r.solution


def test_a_task_without_worked_solutions_needs_a_model(tokenizer):
    rows = [*ROWS, replace(ROWS[0], solution=None)]
    with pytest.raises(ValueError, match=r"model\.path must name a model .* teach 'chain_sum'"):
        taught(tokenizer, rows=rows)


def test_a_rate_that_breaks_the_model_is_named_with_the_step(tokenizer):
    with pytest.raises(ValueError, match=r"warmstart\.lr must be low enough .* got 1e\+30: .*step"):
        taught(tokenizer, replace(CONFIG, lr=1e30))


def test_the_built_model_ties_its_head_and_knows_its_end_token(tokenizer):
    model = build_model(CONFIG, tokenizer, 0)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert not torch.equal(weights(model), weights(build_model(CONFIG, tokenizer, 1)))
