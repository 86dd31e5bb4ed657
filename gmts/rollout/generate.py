"""Asking a checkpoint a question."""

from pathlib import Path

import torch

from gmts.models.card import read_model_card
from gmts.models.folder import end_token_ids, load_model, load_tokenizer
from gmts.models.template import PromptTemplate
from gmts.rollout.sampler import Sampler


def ask(
    model_folder: Path,
    question: str,
    *,
    num_samples: int,
    temperature: float,
    max_response_tokens: int,
    seed: int,
) -> list[str]:
    """Return responses to `question`, with the prompt template that the model was trained with.

    Args:
        model_folder: A folder that gmts wrote.
        question: The user's message.
        num_samples: Responses to draw.
        temperature: 0 is greedy.
        max_response_tokens: Length limit.
        seed: Of the samples.

    Raises:
        ValueError: If the folder is not a model folder of gmts.
    """
    card = read_model_card(model_folder)
    tokenizer = load_tokenizer(model_folder)
    template = PromptTemplate.of(tokenizer, card["template_kind"])
    model = load_model(model_folder, card["dtype"], "cpu")
    sampler = Sampler(
        model,
        eos_ids=end_token_ids(model, tokenizer),
        temperature=temperature or 1.0,
        max_response_tokens=max_response_tokens,
        batch_size=num_samples,
    )
    prompts = [template.encode([{"role": "user", "content": question}])]
    if temperature == 0:
        samples = sampler.greedy(prompts) * num_samples
    else:
        samples = sampler.sample(prompts, num_samples, torch.Generator().manual_seed(seed))
    return [tokenizer.decode(sample.token_ids, skip_special_tokens=True) for sample in samples]
