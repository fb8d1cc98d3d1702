"""Transfer of the weights of the trained policy to the engine that draws its attempts.

`transformers` needs none: the engine is the model. In process, and for full weights on a server with GPUs of its own,
TRL copies them (`VLLMGeneration.sync_weights`, over vLLM's weight transfer); if NCCL cannot, a server reads them from
files. Adapters go to a server as adapters, as in TRL's asynchronous trainer: saved to a folder that the server sees,
loaded under a new name for each policy, since vLLM keys its prefix cache by that name; the one before last is unloaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from accelerate.utils import broadcast_object_list
from trl.models.utils import unwrap_model_for_generation

from synthesis.errors import InfrastructureError, InputError
from synthesis.llm import Endpoint
from training.config import Decoding
from training.engines.served import ServedEngine
from training.job import VllmServer
from training.placement.model_placement import gather_whole_weights, save_whole_model
from training.policy import EngineSource, GenerationEngine

RETRIES = 2


class PolicyEngine(Protocol):
    """Engine that draws the attempts of the policy under training. Every process calls it alike."""

    @property
    def source(self) -> EngineSource | None:
        """Source of the engine; None for the model itself."""
        ...

    def publish(self, step: int) -> None:
        """Transfer the weights as they are after `step` updates. Nothing is generated meanwhile."""
        ...

    def using(self) -> contextlib.AbstractContextManager[Any]:
        """Keep the engine ready to generate in the block; yield the model, for inspection or generation."""
        ...


class OwnModel:
    """The model itself."""

    source: EngineSource | None = None

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def publish(self, step: int) -> None:
        """Do nothing: the engine is the model."""

    @contextlib.contextmanager
    def using(self) -> Iterator[Any]:
        """Yield the model, whole on each rank."""
        unwrapped = unwrap_model_for_generation(self.trainer.model_wrapped, self.trainer.accelerator)
        with unwrapped as model, gather_whole_weights(model):
            yield model


class _OfTrl:
    """An engine to which TRL's `VLLMGeneration` copies the weights; the trainer does so before each step's attempts."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.generation = trainer, trainer.vllm_generation

    def publish(self, step: int) -> None:
        if self.trainer._last_loaded_step != step:
            self.generation.sync_weights()
            self.trainer._last_loaded_step = step


class InProcess(_OfTrl):
    """vLLM in this process (TRL's `colocate`), which may sleep while the model learns."""

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        from vllm import SamplingParams

        self.params = SamplingParams

    @property
    def source(self) -> EngineSource | None:
        return self._engine

    def using(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(self.trainer.accelerator.unwrap_model(self.trainer.model))

    def _engine(self, decoding: Decoding, ends: frozenset[int], name: str, policy_step: int) -> GenerationEngine:
        from training.engines.in_process import InProcessEngine

        parallel, rank = self.generation.tensor_parallel_size, self.trainer.accelerator.process_index
        return InProcessEngine(
            self.generation.llm,
            self.params,
            name=name,
            ends=ends,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            policy_step=policy_step,
            awake=partial(keep_engine_awake, self.generation),
            exchange=partial(_gather_objects, self.generation.tp_group, parallel) if parallel > 1 else None,
            rank=rank % parallel,
        )


def _gather_objects(group: Any, count: int, told: Any) -> list[Any]:
    import torch.distributed

    every: list[Any] = [None] * count
    torch.distributed.all_gather_object(every, told, group=group)
    return every


@contextlib.contextmanager
def keep_engine_awake(generation: Any) -> Iterator[None]:
    """Keep TRL's engine awake, with its memory, in the block. At sleep level 2 the weights are lost and are copied
    again.
    """
    if not generation.enable_sleep_mode:
        yield
        return
    if generation._llm_weights_sleeping:
        generation.sync_weights()
    generation.llm.wake_up(tags=["kv_cache"])
    try:
        yield
    finally:
        generation.llm.sleep(level=2)
        generation._llm_weights_sleeping = True


class _Served:
    """A vLLM server at an address, and the name of the policy on it."""

    def __init__(self, trainer: Any, server: VllmServer) -> None:
        from trl.experimental.async_grpo.vllm_client import VLLMClient

        self.trainer, self.server = trainer, server
        self.client = VLLMClient(server.url, server_timeout=server.patience_s)
        self.endpoint = Endpoint(name="vllm", base_url=f"{server.url}/v1", max_retries=RETRIES)
        try:
            self.client.wait_for_server_ready()
        except TimeoutError as error:
            raise InfrastructureError(f"engine: no vLLM server answers at {server.url}: {error}") from error
        self.model = self._send_request("GET", "/v1/models").json()["data"][0]["id"]

    @property
    def source(self) -> EngineSource | None:
        return self._engine

    def using(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(self.trainer.accelerator.unwrap_model(self.trainer.model))

    def _engine(self, decoding: Decoding, ends: frozenset[int], name: str, policy_step: int) -> GenerationEngine:
        return ServedEngine(
            self.endpoint,
            self.model,
            ends=ends,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            policy_step=policy_step,
            name=name,
        )

    def _send_request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        import httpx

        options = {"params": query, "json": body, "timeout": self.server.patience_s}
        try:
            reply = httpx.request(method, f"{self.server.url}{path}", **options)
        except httpx.HTTPError as error:
            raise InfrastructureError(f"engine: {self.server.url}{path} gave no answer: {error}") from error
        if reply.status_code == 404 and path in ("/sleep", "/wake_up", "/server_info"):
            raise self._build_sleep_error()
        if reply.status_code == 404 and path == "/collective_rpc":
            raise InputError(
                f"engine: the vLLM server at {self.server.url} takes no new weights; start it with "
                "VLLM_SERVER_DEV_MODE=1 in its environment, or train adapters (tuning.kind = lora)"
            )
        if reply.status_code != 200:
            raise InfrastructureError(
                f"engine: {self.server.url}{path} answered {reply.status_code}: {reply.text[:500]}"
            )
        return reply

    def _build_sleep_error(self) -> InputError:
        return InputError(
            f"engine: the vLLM server at {self.server.url} cannot sleep; start it with --enable-sleep-mode and "
            "VLLM_SERVER_DEV_MODE=1 in its environment (on a GPU), or do not ask it to"
        )


class FullServer(_OfTrl, _Served):
    """A server that gets all weights, on GPUs of its own. The trainer connected to it when it was created."""

    def __init__(self, trainer: Any, server: VllmServer) -> None:
        _Served.__init__(self, trainer, server)
        _OfTrl.__init__(self, trainer)


class _ByFiles(_Served):
    """A server that sees a folder of the job and loads weights from it; it may share the trainer's GPUs, and then
    sleeps while the model learns.
    """

    def __init__(self, trainer: Any, server: VllmServer, folder: Path) -> None:
        super().__init__(trainer, server)
        self.folder, self.accelerator = folder, trainer.accelerator
        self._asleep = False
        if server.sleep:
            self._require_sleep()
            self._sleep(True)

    def _require_sleep(self) -> None:
        """Raise InputError if the server cannot sleep: it would answer `/sleep` as if it slept, and keep its memory."""
        told = self._send_request("GET", "/server_info", config_format="json").json()
        if not told.get("vllm_config", {}).get("model_config", {}).get("enable_sleep_mode"):
            raise self._build_sleep_error()

    @contextlib.contextmanager
    def using(self) -> Iterator[Any]:
        self._sleep(False)
        try:
            yield self.accelerator.unwrap_model(self.trainer.model)
        finally:
            self._sleep(True)

    def _sleep(self, asleep: bool) -> None:
        if not self.server.sleep or asleep == self._asleep:
            return
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self._send_request("POST", "/sleep", level=1) if asleep else self._send_request("POST", "/wake_up")
        self.accelerator.wait_for_everyone()
        self._asleep = asleep


class AdapterServer(_ByFiles):
    """A server that gets adapters."""

    def __init__(self, trainer: Any, server: VllmServer, folder: Path) -> None:
        from trl.experimental.async_grpo.async_grpo_trainer import validate_lora_for_vllm_sync

        super().__init__(trainer, server, folder / "adapters")
        try:
            validate_lora_for_vllm_sync(self.accelerator.unwrap_model(trainer.model))
        except ValueError as error:
            raise InputError(f"engine: vLLM cannot serve these adapters: {error}") from error
        # A name is never used twice, since the server caches computed prefixes by name.
        (self._run,) = broadcast_object_list([os.urandom(4).hex()], from_process=0)
        self._published: list[str] = []

    def publish(self, step: int) -> None:
        from trl.experimental.async_grpo.async_grpo_trainer import save_lora_adapter

        name = f"policy-{self._run}-{step}"
        if name in self._published:
            return
        model = self.accelerator.unwrap_model(self.trainer.model)
        save_lora_adapter(model, self.accelerator, model.active_adapters[0], str(self.folder / name))
        self.accelerator.wait_for_everyone()
        self._sleep(False)
        if self.accelerator.is_main_process:
            self._load(name)
        self.accelerator.wait_for_everyone()
        self._published.append(name)
        self.model = name
        # Files are kept for one more policy than the adapter: vLLM may read them late.
        while len(self._published) > 2:
            removed_name = self._published.pop(0)
            if self.accelerator.is_main_process:
                shutil.rmtree(self.folder / removed_name, ignore_errors=True)

    def _load(self, name: str) -> None:
        try:
            self.client.load_lora_adapter(name, str(self.folder / name))
        except RuntimeError as error:
            raise InputError(f"engine: {error}") from error
        except Exception as error:
            # Boundary: TRL's client raises plain exceptions for errors of the server, and those of requests.
            raise InfrastructureError(
                f"engine: the vLLM server did not take the adapter of a policy (it needs --enable-lora, "
                f"--max-loras 2, --max-lora-rank, and to see {self.folder}): {str(error)[:500]}"
            ) from error
        if self._published:
            self.client.unload_lora_adapter(self._published[-1])


class WeightServer(_ByFiles):
    """A server that reads all weights from files between steps, if NCCL cannot transfer them: it sleeps on the
    trainer's GPUs, vLLM is not installed beside the trainer, or there is no GPU.
    """

    def __init__(self, trainer: Any, server: VllmServer, folder: Path) -> None:
        super().__init__(trainer, server, folder / "weights")
        self._published = -1

    def publish(self, step: int) -> None:
        if step == self._published:
            return
        place = self.folder / f"policy-{step}"
        save_whole_model(self.trainer, place)
        self.accelerator.wait_for_everyone()
        self._sleep(False)
        if self.accelerator.is_main_process:
            self._load(place)
        self.accelerator.wait_for_everyone()
        self._published = step

    def _load(self, place: Path) -> None:
        """Make the server load weights. Raises InputError: it has no such endpoint; InfrastructureError: it could not
        read them.
        """
        order = {"method": "reload_weights", "kwargs": {"weights_path": str(place.resolve())}}
        self._send_request("POST", "/collective_rpc", order)
        # The prefix cache was computed with the previous weights.
        self._send_request("POST", "/reset_prefix_cache")
        for old_folder in self.folder.iterdir():
            if old_folder != place:
                shutil.rmtree(old_folder, ignore_errors=True)
