import pytest
import torch

from gmts.objective.signal import signal_of
from gmts.objective.terms import objective_terms
from tests.support.core import objective, token_batch


def signal(advantages, *, ref=None, selected=None, **changes):
    mask = torch.ones(len(advantages), 2, dtype=torch.bool)
    config = objective(**changes)
    batch = token_batch(mask, ref=ref, advantages=torch.tensor(advantages, dtype=torch.float64))
    terms = objective_terms(torch.zeros(mask.shape, dtype=torch.float64), batch, config)
    return signal_of(batch, terms, mask if selected is None else selected, config)


REF = torch.full((2, 2), 0.5, dtype=torch.float64)
NOTHING = torch.zeros(2, 2, dtype=torch.bool)


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("reward", {"advantages": [1.0, -1.0]}),
        ("none", {"advantages": [0.0, 0.0]}),
        ("none", {"advantages": [1.0, -1.0], "selected": NOTHING}),
        ("kl_only", {"advantages": [0.0, 0.0], "ref": REF, "beta": 0.1}),
        ("none", {"advantages": [0.0, 0.0], "ref": REF, "beta": 0.1, "selected": NOTHING}),
        ("kl_only", {"advantages": [0.0, 0.0], "ref": REF, "beta": 0.1, "selected": NOTHING,
                     "mask_kl": False}),
        ("none", {"advantages": [0.0, 0.0], "ref": 0 * REF, "beta": 0.1}),
    ],
)  # fmt: skip
def test_a_step_has_reward_signal_kl_signal_or_none(expected, arguments):
    assert signal(**arguments) == expected
