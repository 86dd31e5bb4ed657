"""Questions that need verl imported, answered in a process of their own as JSON.

verl warns at import of every engine that is not installed, and warnings are errors in tests.
"""

import importlib
import inspect
import json
import sys
from collections import Counter


def signatures():
    """Return the parameters of every private name that we rely on, as the installed verl has it."""
    from gmts.trainers.verl.internals import PRIVATE_NAMES

    found = {}
    for name in PRIVATE_NAMES:
        module, _, path = name.partition(":")
        owner = importlib.import_module(module)
        for part in path.split("."):
            owner = getattr(owner, part, None)
        found[name] = None if owner is None else list(inspect.signature(owner).parameters)
    return found


def registrations():
    """Return what verl finds under our names."""
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.device import get_device_name, get_torch_device
    from verl.workers.engine import EngineRegistry
    from verl.workers.rollout.base import get_rollout_class
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    return {
        "device": get_device_name(),
        "available": get_torch_device().is_available(),
        "trainer": get_trainer_cls("gmts").__name__,
        "mode": get_trainer_cls("gmts").trainer_mode.fget(None),
        "engine": EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__,
        "rollout": get_rollout_class("gmts").__name__,
        "replica": RolloutReplicaRegistry.get("gmts").__name__,
        "estimators": [
            get_adv_estimator_fn(name).__name__ for name in ("gmts_group", "gmts_group_population")
        ],
    }


def advantages():
    """Return advantages of two groups, one of them with equal rewards that float32 cannot hold."""
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    rewards = torch.zeros(5, 3)
    rewards[:, 0] = torch.tensor([0.1, 0.1, 0.1, 1.0, 0.0])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]])
    found = {}
    for name in ("gmts_group", "gmts_group_population"):
        values, _ = get_adv_estimator_fn(name)(
            token_level_rewards=rewards, response_mask=mask, index=["u", "u", "u", "v", "v"],
            config={"norm_adv_by_std_in_grpo": True},
        )  # fmt: skip
        found[name] = values.tolist()
    return found


def penalised():
    """Return advantages of one group of right answers and one mixed one, four tokens at most."""
    import torch
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from gmts.trainers.verl.advantages import PENALTY, penalty_node
    from tests.support.core import overlong

    mask = torch.arange(4) < torch.tensor([1, 2, 2, 4, 3, 4])[:, None]
    rewards = torch.zeros(6, 4)
    rewards[:, 0] = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    found = {}
    for name, buffer_tokens in (("off", None), ("on", 2)):
        node = {PENALTY: penalty_node(overlong(buffer_tokens, 0.5), 4)}
        values, _ = get_adv_estimator_fn("gmts_group")(
            token_level_rewards=rewards, response_mask=mask.long(), index=list("uuuvvv"),
            config=OmegaConf.create({"norm_adv_by_std_in_grpo": False} | node),
        )  # fmt: skip
        found[name] = values[:, 0].tolist()
    return found


def layout():
    """Return the rows of two ranks: four groups of two, two groups per mini-batch."""
    from gmts.trainers.verl.layout import rank_rows

    return rank_rows(
        ["c", "a", "b", "a", "d", "b", "c", "d"],
        [5, 1, 9, 2, 4, 8, 3, 7],
        group_size=2,
        groups_per_mini_batch=2,
        num_ranks=2,
    )


def torn():
    from gmts.trainers.verl.layout import rank_rows

    try:
        rank_rows(["a", "a", "b"], [1, 1, 1], group_size=2, groups_per_mini_batch=1, num_ranks=1)
    except ValueError as error:
        return str(error)


def refused():
    """Return what check_config says to a good configuration and to single bad values."""
    from gmts.trainers.verl.checks import check_config
    from gmts.trainers.verl.options import VerlOptions
    from tests.support.core import objective, overlong, selection

    def options(**changes):
        return VerlOptions(
            objective=objective(**changes), selection=selection(), overlong=overlong(), seed=0,
            max_response_tokens=8, skip_no_signal=True, max_batches=1, dump_dir=None,
        )  # fmt: skip

    good = {
        "algorithm.adv_estimator": "gmts_group",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "actor_rollout_ref.actor.entropy_coeff": 0,
        "actor_rollout_ref.actor.use_kl_loss": False,
        "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size": 1,
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.top_k": -1,
        "trainer.critic_warmup": 0,
    }
    bad = {
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.actor.entropy_coeff": 0.01,
        "actor_rollout_ref.actor.use_kl_loss": True,
        "actor_rollout_ref.actor.shuffle": True,
        "actor_rollout_ref.rollout.top_p": 0.9,
        "algorithm.rollout_correction.rollout_is": "token",
        "algorithm.rollout_correction.rollout_is_batch_normalize": True,
    }
    corrected = good | {
        "algorithm.rollout_correction.rollout_is": "token",
        "algorithm.rollout_correction.rollout_is_threshold": 2.0,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
    }
    unlike = {
        "algorithm.rollout_correction.rollout_is": None,
        "algorithm.rollout_correction.rollout_is_threshold": 3.0,
        "actor_rollout_ref.rollout.calculate_log_probs": False,
    }

    def said(config, **changes):
        try:
            check_config(config.get, options(**changes))
        except ValueError as error:
            return str(error)
        return None

    found = {key: said(good | {key: value}) for key, value in bad.items()}
    weighted = {
        key: said(corrected | {key: value}, rollout_is="token") for key, value in unlike.items()
    }
    return {
        "good": said(good),
        "corrected": said(corrected, rollout_is="token"),
        "overlong": said(good, overlong_filter=True),
        "weighted": weighted,
        **found,
    }


def buffer():
    """Return what a buffer with a limit of three batches of four submits and says."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    from gmts.trainers.verl.buffer import BoundedReplayBuffer, NoSignalError

    submitted = []
    plain = ReplayBuffer(
        trainer_mode="sync", trainer_config=OmegaConf.create(), max_off_policy_threshold=8,
        max_off_policy_strategy="drop", sampler_kwargs=OmegaConf.create(), train_batch_size=4,
        gen_batch_size=1, filter_groups_metric="acc", refill_fn=submitted.append,
    )  # fmt: skip
    bounded = BoundedReplayBuffer(plain, 3)
    bounded._num_submitted = 4  # as `sample` sets it for the trainer's own batch
    for asked in (3, 4, 5, 2):
        bounded.refill_fn(asked)
    bounded.on_filtered(Counter({0.0: 7, 1.0: 2}))
    bounded.on_wait(1)  # one is under way: it may be mixed
    try:
        bounded.on_wait(0)
    except NoSignalError as error:
        import pickle

        again = pickle.loads(pickle.dumps(error))
        return {"submitted": submitted, "said": str(again), "wrong": again.num_all_wrong}
    return None


if __name__ == "__main__":
    import verl

    probes = (signatures, registrations, advantages, penalised, layout, torn, refused, buffer)
    answers = {probe.__name__: probe() for probe in probes}
    answers["version"] = verl.__version__
    with open(sys.argv[1], "w") as file:
        json.dump(answers, file)
