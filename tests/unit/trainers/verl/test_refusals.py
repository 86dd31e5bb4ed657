import pytest

from gmts.config import ConfigError
from tests.support.sections import params

VERL = {"train__backend": "verl"}
# base.yaml: prompts of 64 and responses of 48 tokens, 8 x 16 responses per mini-batch.


def test_the_small_experiment_is_one_that_verl_takes():
    assert params(**VERL).train.backend == "verl"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__template": "plain"}, "model.template must be tokenizer with train.backend verl"),
        (
            {"objective__overlong_filter": True},
            "objective.overlong_filter must be false with train.backend verl, got true",
        ),
        ({"selection__scope": "micro_batch"}, "selection.scope must be batch or group"),
        (
            {"train__optimizer__warmup_steps": 3},
            "train.optimizer.warmup_steps must be 0 with train.backend verl, got 3",
        ),
        (
            {"train__dynamic_sampling__enabled": True},
            "train.dynamic_sampling.surplus must be discard with train.backend verl, got carry",
        ),
        ({"verl__ranks_per_node": 3}, "train.questions_per_mini_batch must be such that its 16"),
        ({"train__micro_batch_tokens": 111}, "train.micro_batch_tokens must be >= 112"),
        (
            {"verl__log_prob_micro_batch_tokens": 111},
            "verl.log_prob_micro_batch_tokens must be >= 112",
        ),
        (
            {"verl__tensor_parallel": 2},
            "verl.tensor_parallel must be a divisor of verl.ranks_per_node (1)",
        ),
        (
            {"verl__tensor_parallel": 2, "verl__ranks_per_node": 2},
            "verl.tensor_parallel must be 1 with verl.rollout_engine transformers",
        ),
        (
            {"verl__attention": "flash_attention_2"},
            "verl.attention must be sdpa with runtime.device cpu",
        ),
    ],
)
def test_what_verl_cannot_do_is_refused_by_name_and_only_there(changes, message):
    with pytest.raises(ConfigError) as caught:
        params(**(VERL | changes))
    assert message in str(caught.value)
    assert params(**(changes | {"train__backend": "standalone"})).train.backend == "standalone"


def test_a_fixed_micro_batch_size_needs_no_room_for_the_longest_response():
    small = {"train__micro_batch_tokens": 10, "verl__log_prob_micro_batch_tokens": 10}
    assert params(**VERL, **small, verl__micro_batch_size=4).verl.micro_batch_size == 4


def test_all_that_verl_does_not_take_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        params(**VERL, selection__scope="micro_batch", model__template="plain")
    assert len(str(caught.value).splitlines()) == 2
