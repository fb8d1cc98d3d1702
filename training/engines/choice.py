"""Which engine draws a job's attempts, and whether it can."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthesis.errors import InfrastructureError, InputError
from training.config import EngineKind, Reinforcement
from training.engines import weights
from training.job import VllmServer


def require_engine(cfg: Reinforcement, engine: EngineKind, server: VllmServer | None) -> None:
    """Raises InputError: the engine cannot be used here, or not in this way."""
    installed = importlib.util.find_spec("vllm") is not None
    if engine == "vllm" and not installed:
        raise InputError("engine: vllm is not installed here; install it, or take `transformers`")
    if engine == "vllm_server":
        _require_server(cfg, server, installed)
    if cfg.attempts.ahead and (engine != "vllm_server" or server is None or server.sleep):
        raise InputError(
            "attempts.ahead: attempts are made while the model learns, so they need a vLLM server on GPUs of its own; "
            "take that engine, or leave them on-policy"
        )


def _require_server(cfg: Reinforcement, server: VllmServer | None, installed: bool) -> None:
    if server is None:
        raise InputError(
            "engine: no vLLM server is known here; start the worker with --vllm-server and its address, or "
            "take another engine"
        )
    if cfg.tuning.kind == "lora":
        return
    if not installed:
        raise InputError(
            "engine: all weights reach a vLLM server by vLLM's own weight transfer, and vllm is not installed here; "
            "install it, or train adapters (tuning.kind = lora), which are sent as files"
        )
    if server.sleep:
        raise InputError(
            "engine: a vLLM server that shares the trainer's GPUs and sleeps takes adapters alone (tuning.kind = "
            "lora), since NCCL joins no two processes on one GPU; for all weights take the engine `vllm`, or a server "
            "on GPUs of its own"
        )


@contextlib.contextmanager
def engine_errors(engine: EngineKind) -> Iterator[None]:
    """Around TRL's own connecting to a vLLM server. Raises InfrastructureError where it cannot be reached, InputError
    where it cannot do what is asked."""
    try:
        yield
    except (ConnectionError, TimeoutError) as error:
        if engine != "vllm_server":
            raise
        raise InfrastructureError(f"engine: the vLLM server cannot be reached: {error}") from error
    except (NotImplementedError, RuntimeError) as error:
        if engine != "vllm_server":
            raise
        raise InputError(f"engine: {error}") from error


def policy_engine(
    cfg: Reinforcement, engine: EngineKind, server: VllmServer | None, folder: Path, trainer: Any
) -> weights.PolicyEngine:
    """What draws the attempts of the policy that `trainer` trains. Raises what `training.engines.weights` does."""
    if engine == "vllm":
        return weights.InProcess(trainer)
    if engine == "vllm_server":
        assert server is not None
        if cfg.tuning.kind == "lora":
            return weights.AdapterServer(trainer, server, folder)
        return weights.FullServer(trainer, server)
    return weights.OwnModel(trainer)
