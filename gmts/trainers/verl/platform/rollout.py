"""Our sampler as a rollout server of verl: `actor_rollout_ref.rollout.name=gmts`.

It takes any causal language model of transformers and needs no inference engine. Requests that
wait together become one batch of the sampler.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import TokenOutput

from gmts.models.folder import end_token_ids
from gmts.rollout.sampler import Sample, Sampler
from gmts.trainers.verl.internals import HookedReplica, register_rollout

NAME = "gmts"
_GATHER_SECONDS = 0.05
"""For so long a batch waits for more requests: an agent loop sends a group's one after another."""
_SEED_STRIDE = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    prompt: tuple[int, ...]
    max_new: int
    temperature: float
    answer: "asyncio.Future[Sample]"

    @property
    def kind(self) -> tuple[int, float]:
        """What the requests of one batch have in common."""
        return self.max_new, self.temperature


class SamplerServer:
    """A Ray actor with a copy of the policy, whose weights come from the trainer."""

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self._config = omega_conf_to_dataclass(config)
        folder = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        dtype = getattr(torch, self._config.dtype)
        hf_config = AutoConfig.from_pretrained(folder.local_path, attn_implementation="sdpa")
        self._model = AutoModelForCausalLM.from_config(hf_config, dtype=dtype).eval()
        if folder.generation_config is not None:
            self._model.generation_config = GenerationConfig.from_dict(
                folder.generation_config.to_dict()
            )
        self._eos_ids = end_token_ids(self._model, folder.tokenizer)
        self._replica_rank = replica_rank
        self._global_step = 0
        self._num_batches = 0
        self._waiting: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None

    async def generate(
        self, prompt_ids: list[int], sampling_params: Mapping[str, Any], **_: Any
    ) -> TokenOutput:
        """Return a response to a prompt.

        Raises:
            ValueError: If a sampling parameter asks for what the sampler has not, or there is no
                room for a response.
        """
        temperature = float(sampling_params.get("temperature", 1.0))
        for name, off in (("top_p", (1, 1.0)), ("top_k", (-1, 0)), ("repetition_penalty", (1.0,))):
            value = sampling_params.get(name, off[0])
            if value not in off and temperature > 0:
                raise ValueError(f"{name} must be {off[0]} with the rollout {NAME}, got {value}")
        limit = self._config.prompt_length + self._config.response_length - len(prompt_ids)
        max_new = int(
            sampling_params.get("max_tokens")
            or sampling_params.get("max_new_tokens")
            or min(self._config.response_length, limit)
        )
        request = _Request(
            prompt=tuple(prompt_ids),
            max_new=max_new,
            temperature=temperature,
            answer=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(request)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._drain())
        sample = await request.answer
        return TokenOutput(
            token_ids=list(sample.token_ids),
            log_probs=list(sample.log_probs),
            stop_reason="completed",
            extra_fields={"global_steps": self._global_step},
        )

    async def _drain(self) -> None:
        while self._waiting:
            await asyncio.sleep(_GATHER_SECONDS)
            kind = self._waiting[0].kind
            batch = [request for request in self._waiting if request.kind == kind]
            self._waiting = [request for request in self._waiting if request.kind != kind]
            samples = await asyncio.gather(
                asyncio.to_thread(self._sample, batch), return_exceptions=True
            )
            for number, request in enumerate(batch):
                if request.answer.done():  # cancelled
                    continue
                if isinstance(samples[0], BaseException):
                    request.answer.set_exception(samples[0])
                else:
                    request.answer.set_result(samples[0][number])

    def _sample(self, batch: list[_Request]) -> list[Sample]:
        max_new, temperature = batch[0].kind
        sampler = Sampler(
            self._model,
            eos_ids=self._eos_ids,
            temperature=temperature or 1.0,
            max_response_tokens=max_new,
            batch_size=self._config.max_num_seqs,
        )
        prompts = [request.prompt for request in batch]
        if temperature == 0:
            return sampler.greedy(prompts)
        return sampler.sample(prompts, 1, self._generator())

    def _generator(self) -> torch.Generator:
        """Return a generator of its own for each batch of each step and replica."""
        seed = int(self._config.seed)
        for part in (self._replica_rank, self._global_step, self._num_batches):
            seed = (seed * _SEED_STRIDE + part + 1) % 2**63
        self._num_batches += 1
        return torch.Generator().manual_seed(seed)

    async def update_weights(self, weights: Mapping[str, Tensor], global_step: int | None) -> None:
        """Take the policy's weights.

        Raises:
            RuntimeError: If they are not exactly those of the model.
        """
        self._model.load_state_dict(weights)
        self._num_batches = 0
        if global_step is not None:
            self._global_step = global_step

    async def wait_for_requests_to_drain(self) -> None:
        """Return when no request is under way."""
        while self._worker is not None and not self._worker.done():
            await asyncio.sleep(_GATHER_SECONDS)

    async def _nothing(self, *_: Any, **__: Any) -> None:
        """Memory is neither freed nor profiled here."""

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing
    start_profile = stop_profile = abort_all_requests = resume_generation = _nothing


class WeightSender(BaseRollout):
    """Lives in the trainer's worker and sends the policy's weights to the server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        size = (
            self.config.tensor_model_parallel_size
            * self.config.data_parallel_size
            * self.config.pipeline_model_parallel_size
        )
        self._replica_rank = rank // size if replica_rank == -1 else replica_rank
        self._sends = rank % size == 0

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: nothing has been freed."""

    async def release(self) -> None:
        """Do nothing: the server keeps its memory."""

    async def update_weights(
        self,
        weights: Any,
        wire_format: str = "named_tensors",
        *,
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Send full tensors.

        Raises:
            ValueError: If asked to send differences.
        """
        if wire_format != "named_tensors":
            raise ValueError(
                f"the rollout {NAME} takes named_tensors only, got {wire_format}: "
                "actor_rollout_ref.rollout.checkpoint_engine.backend must be naive"
            )
        # Every rank has to draw from the generator: it gathers.
        named = {name: weight.detach().to("cpu", copy=True) for name, weight in weights}
        if self._sends:
            server = ray.get_actor(_server_name(self._replica_rank))
            await server.update_weights.remote(named, global_steps)


class SamplerReplica(HookedReplica):
    """One server per replica."""

    async def start_server(self) -> tuple[str, Any]:
        """Return the server's name and its actor, ready to generate."""
        name = _server_name(self.replica_rank)
        actor = ray.remote(SamplerServer).options(
            name=name, max_concurrency=self.max_concurrency, num_cpus=1
        )
        server = actor.remote(self.config, self.model_config, self.replica_rank)
        await server.wait_for_requests_to_drain.remote()
        return name, server

    async def sleep(self) -> None:
        """Wait for the requests under way."""
        await self.servers[0].wait_for_requests_to_drain.remote()


def _server_name(replica_rank: int) -> str:
    return f"gmts_sampler_{replica_rank}"


register_rollout(NAME, lambda: SamplerReplica, f"{__name__}.{WeightSender.__name__}")
