"""Each value of params.yaml arrives in verl's own composed configuration, or is refused by name."""

from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
from omegaconf import OmegaConf
from pydantic import TypeAdapter

from gmts.config import STAGE_SECTIONS, Params
from gmts.rewards.config import RewardsConfig
from gmts.trainers.verl.compose import composed
from gmts.trainers.verl.config import REFUSALS, Experiment
from gmts.trainers.verl.mapping import Places, hydra_overrides
from gmts.trainers.verl.options import from_config
from tests.support.sections import params

PLACES = Places(
    run_name="it's a run",
    model=Path("/models/{c},[d]=1/a b\\c'd"),
    train_file=Path("/data/$x/{y}/train.parquet"),
    validation_file=Path("/data/validation.parquet"),
)
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
OWN = "actor_rollout_ref.gmts"

CHANGED = {
    "seed": (7, {"data.seed": 7, f"{ACTOR}.data_loader_seed": 7, f"{ROLLOUT}.seed": 7}),
    "model.dtype": (
        "bfloat16",
        {
            f"{ROLLOUT}.dtype": "bfloat16",
            f"{ACTOR}.fsdp_config.mixed_precision.param_dtype": "bf16",
            f"{REF}.fsdp_config.mixed_precision.param_dtype": "bf16",
            f"{REF}.fsdp_config.model_dtype": "bf16",
        },
    ),
    "rollout.group_size": (8, {f"{ROLLOUT}.n": 8}),
    "rollout.temperature": (
        0.9,
        {f"{ROLLOUT}.temperature": 0.9, f"{ROLLOUT}.val_kwargs.temperature": 0.9},
    ),
    "rollout.max_response_tokens": (
        500,
        {"data.max_response_length": 500, f"{ROLLOUT}.max_model_len": 600},
    ),
    "rollout.batch_size": (100, {f"{ROLLOUT}.max_num_seqs": 100}),
    "objective.algorithm": (
        "gspo",
        {f"{ACTOR}.policy_loss.loss_mode": "gspo", f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean"},
    ),
    "objective.clip_ratio_low": (0.11, {f"{ACTOR}.clip_ratio_low": 0.11}),
    "objective.clip_ratio_high": (0.33, {f"{ACTOR}.clip_ratio_high": 0.33}),
    "objective.beta": (0.002, {f"{ACTOR}.use_kl_loss": True, f"{ACTOR}.kl_loss_coef": 0.002}),
    "objective.normalize_by_std": (False, {"algorithm.norm_adv_by_std_in_grpo": False}),
    "objective.std_ddof": (0, {"algorithm.adv_estimator": "gmts_group_population"}),
    "objective.denominator": ("eligible", {f"{OWN}.objective.denominator": "eligible"}),
    "objective.mask_kl": (False, {f"{OWN}.objective.mask_kl": False}),
    "objective.kl_zero_tolerance": (0.25, {f"{OWN}.objective.kl_zero_tolerance": 0.25}),
    "objective.rollout_is": (
        "token",
        {
            "algorithm.rollout_correction.rollout_is": "token",
            f"{OWN}.objective.rollout_is": "token",
        },
    ),
    "objective.rollout_is_threshold": (
        3.5,
        {
            "algorithm.rollout_correction.rollout_is_threshold": 3.5,
            f"{OWN}.objective.rollout_is_threshold": 3.5,
        },
    ),
    "selection.score": ("custom", {f"{OWN}.selection.score": "custom"}),
    "selection.ratio": (0.3, {f"{OWN}.selection.ratio": 0.3}),
    "selection.side": ("bottom", {f"{OWN}.selection.side": "bottom"}),
    "selection.scope": ("group", {f"{OWN}.selection.scope": "group"}),
    "selection.score_policy": ("old", {f"{OWN}.selection.score_policy": "old"}),
    "selection.custom": (
        "examples.surprise:score",
        {f"{OWN}.selection.custom": "examples.surprise:score"},
    ),
    "train.steps": (9, {"trainer.total_training_steps": 9, "trainer.total_epochs": 9}),
    "train.questions_per_batch": (32, {"data.train_batch_size": 32}),
    "train.questions_per_mini_batch": (4, {f"{ACTOR}.ppo_mini_batch_size": 4}),
    "train.micro_batch_tokens": (4096, {f"{ACTOR}.ppo_max_token_len_per_gpu": 4096}),
    "train.optimizer.lr": (3e-05, {f"{ACTOR}.optim.lr": 3e-05}),
    "train.optimizer.beta1": (0.8, {f"{ACTOR}.optim.betas": [0.8, 0.7]}),
    "train.optimizer.beta2": (0.7, {f"{ACTOR}.optim.betas": [0.8, 0.7]}),
    "train.optimizer.eps": (1e-06, {f"{ACTOR}.optim.override_optimizer_config.eps": 1e-06}),
    "train.optimizer.weight_decay": (0.01, {f"{ACTOR}.optim.weight_decay": 0.01}),
    "train.optimizer.max_grad_norm": (0.5, {f"{ACTOR}.optim.clip_grad": 0.5}),
    "train.skip_no_signal": (False, {f"{OWN}.skip_no_signal": False}),
    "train.dynamic_sampling.enabled": (True, {"algorithm.filter_groups.enable": True}),
    "train.dynamic_sampling.max_batches": (6, {f"{OWN}.max_batches": 6}),
    "train.dynamic_sampling.informative_on": (
        "grade",
        {"algorithm.filter_groups.metric": "reward"},
    ),
    "train.validation_every": (10, {"trainer.test_freq": 10}),
    "train.validation_samples": (2, {f"{ROLLOUT}.val_kwargs.n": 2}),
    "train.checkpoint_every": (5, {"trainer.save_freq": 5}),
    "runtime.device": ("cuda", {"trainer.device": "cuda", f"{ACTOR}.use_torch_compile": True}),
    "runtime.train_python": (
        "/envs/b/bin/python",
        {"ray_kwargs.ray_init.runtime_env.py_executable": "/envs/b/bin/python"},
    ),
    "verl.nodes": (2, {"trainer.nnodes": 2}),
    "verl.ranks_per_node": (4, {"trainer.n_gpus_per_node": 4}),
    "verl.rollout_engine": ("vllm", {f"{ROLLOUT}.name": "vllm"}),
    "verl.tensor_parallel": (2, {f"{ROLLOUT}.tensor_model_parallel_size": 2}),
    "verl.gpu_memory_share": (0.4, {f"{ROLLOUT}.gpu_memory_utilization": 0.4}),
    "verl.micro_batch_size": (
        2,
        {
            f"{ACTOR}.use_dynamic_bsz": False,
            f"{ACTOR}.ppo_micro_batch_size_per_gpu": 2,
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": 2,
            f"{REF}.log_prob_micro_batch_size_per_gpu": 2,
        },
    ),
    "verl.log_prob_micro_batch_tokens": (
        8192,
        {
            f"{ROLLOUT}.log_prob_max_token_len_per_gpu": 8192,
            f"{REF}.log_prob_max_token_len_per_gpu": 8192,
        },
    ),
    "verl.weights_dtype": ("bfloat16", {f"{ACTOR}.fsdp_config.model_dtype": "bf16"}),
    "verl.attention": (
        "flash_attention_2",
        {
            "actor_rollout_ref.model.override_config.attn_implementation": "flash_attention_2",
            "actor_rollout_ref.model.use_remove_padding": True,
        },
    ),
    "verl.gradient_checkpointing": (
        True,
        {"actor_rollout_ref.model.enable_gradient_checkpointing": True},
    ),
    "verl.offload_weights": (
        True,
        {f"{ACTOR}.fsdp_config.param_offload": True, f"{REF}.fsdp_config.param_offload": True},
    ),
    "verl.offload_optimizer": (True, {f"{ACTOR}.fsdp_config.optimizer_offload": True}),
    "verl.overrides": (
        {"actor_rollout_ref.model.use_liger": True, "+trainer.extra": ["a b", 1.5, None]},
        {"actor_rollout_ref.model.use_liger": True, "trainer.extra": ["a b", 1.5, None]},
    ),
}
"""Key -> another value than the small experiment's, and where verl must then have what."""

ELSEWHERE = {
    "model.path": "arrives as Places.model, which a built model has as well",
    "train.backend": "chooses verl",
    "rollout.top_p": "has one valid value",
    "rollout.top_k": "has one valid value",
    "train.checkpoints_kept": "is the launcher's",
    "tracking.tensorboard": "is the launcher's",
    "tracking.dvclive": "is the launcher's",
    "tracking.wandb": "is the launcher's",
    "tracking.mlflow": "is the launcher's",
    "tracking.project": "is the launcher's",
    "runtime.threads": "is the launcher's",
    "verl.ray_address": "is the launcher's",
    "train.dump_every": "is the launcher's: verl writes all rollouts or none",
    "train.dump_max_responses": "is the launcher's: verl writes all rollouts or none",
    "objective.dual_clip": "null with the gspo of CHANGED; has a test of its own",
}
BASE = {
    "train__backend": "verl",
    "train__dynamic_sampling__surplus": "discard",
}


def experiment(**changes) -> Experiment:
    return Experiment.of(params(**(BASE | changes)), 100)


def configuration(**changes):
    return composed(hydra_overrides(experiment(**changes), PLACES))


@pytest.fixture(scope="module")
def before():
    return configuration()


def changes():
    """Return every change, with an own scorer, which alone grades."""
    own = {"rewards__scorer": "custom", "rewards__custom": "examples.parity:reward"}
    return own | {key.replace(".", "__"): value for key, (value, _) in CHANGED.items()}


@pytest.fixture(scope="module")
def after():
    return configuration(**changes())


def leaves(section, prefix=""):
    for name, annotation in get_type_hints(section, include_extras=True).items():
        bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
        if is_dataclass(bare):
            yield from leaves(bare, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def plain(value):
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def test_every_key_that_training_reads_has_a_place_here():
    sections = set(STAGE_SECTIONS["train"]) - {"schema_version"}
    keys = {key for key in leaves(Params) if key.split(".")[0] in sections}
    refused_whatever_else = {"model.template", "objective.overlong_filter"}
    refused_whatever_else |= {"train.optimizer.warmup_steps"}
    refused_whatever_else |= {"train.dynamic_sampling.surplus"}
    assert refused_whatever_else <= {refusal.key for refusal in REFUSALS}
    rewards = {key for key in keys if key.startswith("rewards.")}  # one text, tested below
    assert keys - rewards == CHANGED.keys() | ELSEWHERE.keys() | refused_whatever_else


@pytest.mark.parametrize("key", CHANGED)
def test_a_changed_value_arrives_where_verl_reads_it(before, after, key):
    _, expected = CHANGED[key]
    for path, value in expected.items():
        assert plain(OmegaConf.select(after, path)) == value
        assert plain(OmegaConf.select(before, path)) != value


def test_vllm_on_a_cpu_has_a_name_and_settings_of_its_own_which_can_be_changed():
    vllm = {"verl__rollout_engine": "vllm"}
    rollout = configuration(**vllm).actor_rollout_ref.rollout
    assert (rollout.name, rollout.enforce_eager, rollout.enable_sleep_mode) == (
        "vllm_cpu",
        True,
        False,
    )
    changed = configuration(**vllm, verl__overrides={f"{ROLLOUT}.enforce_eager": False})
    assert changed.actor_rollout_ref.rollout.enforce_eager is False


def test_places_arrive_unchanged_whatever_characters_they_hold(before):
    assert before.actor_rollout_ref.model.path == str(PLACES.model)
    assert before.data.train_files == str(PLACES.train_file)
    assert before.data.val_files == str(PLACES.validation_file)
    assert before.trainer.experiment_name == PLACES.run_name
    assert before.data.max_prompt_length == 100


def test_text_arrives_as_it_is():
    texts = ["$", "$(a)", "a'b\"c", "end\\", "\\'", "null", "1", "", " a, b ", "{a: [b]}"]
    config = configuration(verl__overrides={"+trainer.texts": texts})
    assert plain(config.trainer.texts) == texts


def test_text_that_hydra_would_read_as_a_reference_is_refused():
    with pytest.raises(ValueError, match=r"trainer\.experiment_name must be text without \$\{"):
        hydra_overrides(experiment(), replace(PLACES, run_name="a${b}"))


def test_the_dual_clip_arrives_and_off_is_where_verl_never_clips(before):
    assert configuration(objective__dual_clip=3.5).actor_rollout_ref.actor.clip_ratio_c == 3.5
    assert before.actor_rollout_ref.actor.clip_ratio_c > 485165195.4  # e^20, verl's ratio at most


def test_plain_dr_grpo_divides_by_the_length_limit_and_the_others_do_not(before):
    plain = {"objective__algorithm": "dr_grpo", "selection__score": "none"}
    actor = configuration(**plain).actor_rollout_ref.actor
    assert (actor.loss_agg_mode, actor.loss_scale_factor) == ("seq-mean-token-sum-norm", 48)
    assert before.actor_rollout_ref.actor.loss_agg_mode == "token-mean"
    assert before.actor_rollout_ref.actor.loss_scale_factor is None
    with_selection = configuration(objective__algorithm="dr_grpo")
    assert with_selection.actor_rollout_ref.actor.loss_scale_factor is None  # weights are final


def test_own_options_come_back_as_the_sections_that_were_sent(after):
    sent = experiment(**changes())
    options = from_config(OmegaConf.to_container(after.actor_rollout_ref.gmts))
    assert options.objective == sent.objective
    assert options.selection == sent.selection
    assert (options.seed, options.max_batches, options.max_response_tokens) == (7, 6, 500)
    assert (options.skip_no_signal, options.dump_dir) == (False, None)


def test_the_rewards_come_back_as_the_section_that_was_sent():
    math = {"rewards__scorer": "math", "rewards__math__require_box": True}
    reward = configuration(**math).reward.custom_reward_function
    assert reward.path == "pkg://gmts.trainers.verl.questions"
    found = TypeAdapter(RewardsConfig).validate_json(reward.reward_kwargs.rewards)
    assert found == experiment(**math).rewards
    assert (found.scorer, found.math.require_box) == ("math", True)


def test_the_overlong_penalty_arrives_for_the_advantages_and_leaves_the_rewards_alone():
    on = {"rewards__overlong__buffer_tokens": 16, "rewards__overlong__factor": 0.5}
    config = configuration(**on)
    options = from_config(OmegaConf.to_container(config.actor_rollout_ref.gmts))
    assert options.overlong == experiment(**on).rewards.overlong
    assert config.reward.reward_manager.name == "naive"  # verl's dapo manager would shape rewards


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"trainer.nope": 1}, "Could not override 'trainer.nope'. To append to your config use +"),
        ({"trainer.nope": 1}, "Key 'nope' is not in struct"),
        ({"+trainer.nnodes_min": 1, "trainer.[": 1}, "in Hydra's words:"),
    ],
)
def test_an_override_that_verl_does_not_know_is_refused_in_hydras_words(overrides, message):
    with pytest.raises(ValueError, match="verl's configuration refuses an override") as caught:
        configuration(verl__overrides=overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("actor_rollout_ref.actor.optim.lr", "train.optimizer.lr decides"),
        ("++actor_rollout_ref.actor.optim", "gmts decides actor_rollout_ref.actor.optim.lr_sch"),
        ("+actor_rollout_ref.gmts.selection.ratio", "selection.ratio decides"),
        (
            "actor_rollout_ref.actor.optim.betas.0",
            "train.optimizer.beta1 and train.optimizer.beta2",
        ),
        ("trainer.use_v1", "gmts decides trainer.use_v1"),
        ("data.train_files", "gmts decides data.train_files"),
    ],
)
def test_an_override_of_what_our_own_keys_decide_is_refused(name, owner):
    with pytest.raises(ValueError, match=r"verl\.overrides must not hold") as caught:
        hydra_overrides(experiment(verl__overrides={name: 1}), PLACES)
    assert owner in str(caught.value)
