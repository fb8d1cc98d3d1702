"""Choice of the engine that draws a job's attempts, and its requirements."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from synthesis.errors import InfrastructureError, InputError
from training.config import EngineKind, Reinforcement
from training.engines import weights
from training.job import VllmServer


def require_engine(cfg: Reinforcement, engine: EngineKind, server: VllmServer | None) -> None:
    """Raise InputError if the engine cannot be used here, or not with these settings."""
    if engine == "vllm" and importlib.util.find_spec("vllm") is None:
        raise InputError("engine: vllm is not installed here; install it, or take `transformers`")
    if engine == "vllm_server" and server is None:
        raise InputError(
            "engine: no vLLM server is known here; start the worker with --vllm-server and its address, or "
            "take another engine"
        )
    if cfg.attempts.ahead and (engine != "vllm_server" or server is None or server.sleep):
        raise InputError(
            "attempts.ahead: attempts are made while the model learns, so they need a vLLM server on GPUs of its own; "
            "take that engine, or leave them on-policy"
        )


def is_copied_by_trl(cfg: Reinforcement, engine: EngineKind, server: VllmServer | None) -> bool:
    """Return whether TRL copies all weights to the engine: into this process, or by NCCL to a server. NCCL joins no two
    processes on one GPU, and the client is vLLM's own, so that vLLM must be installed here.
    """
    if engine != "vllm_server":
        return engine == "vllm"
    here = importlib.util.find_spec("vllm") is not None and torch.cuda.is_available()
    return cfg.tuning.kind != "lora" and here and server is not None and not server.sleep


@contextlib.contextmanager
def translate_engine_errors(engine: EngineKind) -> Iterator[None]:
    """Translate errors of TRL's own connection to a vLLM server: InfrastructureError if it cannot be reached,
    InputError if it cannot fulfil the request.
    """
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


def make_policy_engine(
    cfg: Reinforcement, engine: EngineKind, server: VllmServer | None, folder: Path, trainer: Any
) -> weights.PolicyEngine:
    """Return the engine that draws the attempts of the policy that `trainer` trains. Raises as
    `training.engines.weights`.
    """
    if engine == "vllm":
        return weights.InProcess(trainer)
    if engine == "vllm_server":
        assert server is not None
        if cfg.tuning.kind == "lora":
            return weights.AdapterServer(trainer, server, folder)
        if is_copied_by_trl(cfg, engine, server):
            return weights.FullServer(trainer, server)
        return weights.WeightServer(trainer, server, folder)
    return weights.OwnModel(trainer)
