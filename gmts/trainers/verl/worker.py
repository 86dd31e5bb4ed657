"""verl's training worker, which selects over the whole mini-batch and all ranks."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor
from torch.distributed import ProcessGroup
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_name
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine.utils import prepare_micro_batches
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.padding import response_from_nested

from gmts.batch import TokenBatch, TokenStats
from gmts.selection.config import ScoreName
from gmts.tensors import global_sum
from gmts.trainers.update.metrics import over_mini_batches
from gmts.trainers.update.plan import Plan, needs_present_stats, plan_metrics, plan_update
from gmts.trainers.verl.dumps import write_dump
from gmts.trainers.verl.engine import WITH_NORM, StatsEngine
from gmts.trainers.verl.loss import SelectedLoss, attach
from gmts.trainers.verl.metrics import PREFIX
from gmts.trainers.verl.options import VerlOptions, from_config
from gmts.trainers.verl.rows import any_tokens, listed, token_batch, token_stats

_NEED_NORM: tuple[ScoreName, ...] = ("logit_gradient", "custom")
"""Scores that read the logit-gradient norm, which verl's old-log-prob pass does not keep."""


class GlooTrainingWorker(TrainingWorker):
    """verl's worker; on a CPU it names one collective backend, where verl names gloo twice."""

    def __init__(self, config: Any) -> None:
        if get_device_name() == "cpu":
            initialize_global_process_group_ray(backend="cpu:gloo")
        super().__init__(config)


class SelectingWorker(GlooTrainingWorker):
    """Trains on the selected tokens once it has been given options; before, and with score none,
    it is verl's worker with verl's loss.
    """

    options: VerlOptions | None = None

    def configure(self, options: VerlOptions) -> None:
        """Select from now on.

        Raises:
            ValueError: If an own score cannot be imported, or the engine is not ours.
        """
        if options.selection.score == "none":
            return
        if not isinstance(self.engine, StatsEngine):
            raise ValueError(
                "actor_rollout_ref.actor.strategy must be fsdp2 (on CUDA also fsdp) with selection,"
                f" got the engine {type(self.engine).__name__}"
            )
        self.options = options
        self._settings = options.settings()
        self._step, self._moved = 0, False
        self._results: list[dict[str, float]] = []

    def train_mini_batch(self, data: Any) -> Any:
        """Train on a rollout batch, mini-batch by mini-batch; see verl.

        Raises:
            FloatingPointError: If a log-prob or gradient is not finite; that update is refused.
            ValueError: If the batch breaks a rule of selection.
        """
        if self.options is None:
            return super().train_mini_batch(data)
        per_rank = tu.get(data, "mini_batch_size") // self.engine.get_data_parallel_size()
        updates = len(data) // per_rank * tu.get(data, "epochs", default=1)
        self._step = (_global_step(data) - 1) * updates
        self._moved = False
        self._results = []
        output = super().train_mini_batch(data)
        if output is not None:
            metrics = tu.get(output, "metrics")
            merged = over_mini_batches(self._results)
            metrics |= {f"{PREFIX}{name}": [value] for name, value in merged.items()}
            tu.assign_non_tensor(output, metrics=metrics)
        return output

    def train_batch(self, data: Any) -> Any:
        """Train on one mini-batch, of which this is the rank's share; see verl."""
        if self.options is None:
            return super().train_batch(data)
        group = self.engine.get_data_parallel_group()
        if not any_tokens(data["response_mask"].values() != 0, group):
            return self._skipped(data, {"train/no_signal": 1.0, "train/kl_only": 0.0})
        self._inject_defaults(data)
        batch, plan, metrics = self._planned(data, group)
        if plan.signal == "none" and self.options.skip_no_signal:
            return self._skipped(data, metrics)
        attach(data, batch, plan)
        live = torch.zeros((), dtype=torch.long, device=batch.response_mask.device)
        loss = SelectedLoss(objective=self.options.objective, exact=plan.exact, live=live)
        output = self._stepped(data, loss, group)
        moved = bool(self._gate_open)
        self._moved = self._moved or moved
        if not moved:
            metrics |= {"train/no_signal": 1.0, "train/kl_only": 0.0}
        if output is not None:
            norm = float(tu.get(output, "metrics")["grad_norm"])
            if not math.isfinite(norm):
                raise FloatingPointError(
                    f"optimizer step {self._step} is refused: the gradient norm is {norm}"
                )
            metrics["train/grad_norm"] = norm
        self._results.append(metrics)
        self._step += 1
        return output

    def _stepped(self, data: Any, loss: SelectedLoss, group: ProcessGroup) -> Any:
        """Run verl's step with our loss, and without the optimizer if nothing turns out live."""
        assert self.options is not None
        skip = self.options.skip_no_signal and not loss.exact
        self._gate_open = True

        def gate() -> bool:
            # Scored by an earlier policy; under the present one the selection may move nothing.
            self._gate_open = not skip or bool(global_sum(loss.live, group))
            return self._gate_open

        with _replaced(self, "loss_fn", loss), _replaced(self.engine, "step_gate", gate):
            return super().train_batch(data)

    def _inject_defaults(self, data: Any) -> None:
        """Set what verl sets itself before it splits, so that we see the same micro-batches."""
        for key, value in {
            "use_dynamic_bsz": self.engine_config.use_dynamic_bsz,
            "max_token_len_per_gpu": self.engine_config.max_token_len_per_gpu,
            "micro_batch_size_per_gpu": self.engine_config.micro_batch_size_per_gpu,
        }.items():
            if key not in data.keys():  # noqa: SIM118  a TensorDict iterates over rows
                tu.assign_non_tensor(data, **{key: value})

    def _planned(self, data: Any, group: ProcessGroup) -> tuple[TokenBatch, Plan, dict[str, float]]:
        assert self.options is not None
        settings, score = self._settings, self._settings.selection.score
        batch = token_batch(data, group)
        needs_norm = score in _NEED_NORM
        present = None
        if needs_present_stats(settings, moved=self._moved) or (needs_norm and not self._moved):
            present = self._present_stats(data, needs_norm)
        old = self._old_stats(data, present, needs_norm)
        ids = self._micro_batch_ids(data, group)
        plan = plan_update(
            batch,
            old,
            present if self._moved else None,
            settings,
            step=self._step,
            moved=self._moved,
            micro_batch_ids=ids,
            process_group=group,
        )
        write_dump(self.options, self._step, batch, plan, (self, self.engine))
        metrics = plan_metrics(
            plan, batch, settings, step=self._step, micro_batch_ids=ids, process_group=group
        )
        return batch, plan, metrics

    def _old_stats(self, data: Any, present: TokenStats | None, needs_norm: bool) -> TokenStats:
        """Return statistics of the policy behind the old log-probs, from verl's pass.

        Raises:
            ValueError: If the score needs a norm that only the present policy can give.
        """
        old = token_stats(data["old_log_probs"], data["entropy"], None)
        if not needs_norm:
            return old
        if self._moved and self._settings.selection.score_policy == "old":
            raise ValueError(
                "selection.score_policy must be current with selection.score "
                f"{self._settings.selection.score} and several optimizer steps per batch, got old"
            )
        assert present is not None
        return TokenStats(
            log_probs=old.log_probs, entropy=old.entropy, logit_grad_norm=present.logit_grad_norm
        )

    def _present_stats(self, data: Any, needs_norm: bool) -> TokenStats:
        """Return statistics of the present policy: one pass without gradient."""
        probe = data.copy()
        tu.assign_non_tensor(
            probe,
            calculate_entropy=True,
            use_remove_padding=self.model_config.get("use_remove_padding", False),
            use_fused_kernels=False,
            **{WITH_NORM: needs_norm},
        )
        with self.engine.eval_mode(disable_auto_offload=True):
            output = self.engine.infer_batch(probe, loss_function=None)["model_output"]
        mask = data["response_mask"]
        names = ("log_probs", "entropy", *(("logit_grad_norm",) if needs_norm else ()))
        found = {name: response_from_nested(output[name], mask) for name in names}
        return token_stats(found["log_probs"], found["entropy"], found.get("logit_grad_norm"))

    def _micro_batch_ids(self, data: Any, group: ProcessGroup) -> Tensor:
        """Return the micro-batch of each row as verl's engine will split them."""
        parts, rows = prepare_micro_batches(data.copy(), dp_group=group, same_micro_num_in_dp=True)
        if rows is None:
            sizes = torch.tensor([len(part) for part in parts])
            return torch.arange(len(parts)).repeat_interleave(sizes)
        ids = torch.zeros(len(data), dtype=torch.long)
        for number, own in enumerate(rows):
            ids[torch.as_tensor(own)] = number
        return ids

    def _skipped(self, data: Any, metrics: dict[str, float]) -> Any:
        """Leave weights and moments alone; the schedule goes on."""
        self._results.append(metrics | {"train/grad_norm": 0.0})
        self._step += 1
        reported: dict[str, Any] = {"loss": 0.0, "grad_norm": 0.0, "mfu": 0.0}
        if tu.get(data, "update_lr_scheduler", default=False):
            reported["lr"] = self.engine.lr_scheduler_step()
        if not self.engine.is_mp_src_rank_with_outputs():
            return None
        return tu.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": reported})


class SelectingActorWorker(ActorRolloutRefWorker):
    """Policy, reference and rollout of a rank; the policy trains on the selected tokens."""

    actor_worker_cls = SelectingWorker
    ref_worker_cls = GlooTrainingWorker

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """Build the models; see verl."""
        super().init_model()
        if self.actor is not None:
            self.actor.configure(
                from_config(OmegaConf.to_container(self.config, resolve=True).get("gmts"))
            )


def _global_step(data: Any) -> int:
    """Return the training step that a batch belongs to, from 1: it numbers optimizer steps."""
    steps = data["global_steps"]
    return int(max(listed(steps)))


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
