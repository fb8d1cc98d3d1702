"""A job as a trainer finds it: the files of its folder, what `job.json` says, and how it may end. No torch."""

from __future__ import annotations

import importlib.util
import os
import re
from enum import IntEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config import TrainingConfig

JOB, RECORD, STOP, MODEL, RESULT = "job.json", "record.jsonl", "stop", "model", "result.json"
CHECKPOINTS = "checkpoints"
"""Folder of a job's checkpoints, `checkpoint-STEP` each, as transformers names them."""
MANIFEST = "shards.json"
"""In a checkpoint whose weights and optimiser are kept in shards near the worker: what they are, and where."""
EXIT = "exit"
"""The file with the name of the trainer's exit status: what starts several processes gives one of its own."""
ANY_MODEL = "*"
"""Among the models that a worker says it can load: it may fetch any that Hugging Face has."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}(/[A-Za-z0-9._-]{1,100})?")
LLM_KEY = "ENVARIUM_LLM_KEY"
"""The environment variable with the key of the endpoints that play the user and judge; job files hold no keys."""
THREADS_WAIT = ("OMP_WAIT_POLICY", "passive")
"""For the trainer's environment, before torch is loaded: its threads sleep while they wait. Those that spin take the
processor from the sandbox, and where anything else runs they wait for one another twice as long."""


class Exit(IntEnum):
    """Exit statuses. What is not among them is a crash of the process itself (a signal, say)."""

    DONE = 0
    FAULT = 1
    """A fault of ours: the traceback is on stderr."""
    STOPPED = 10
    OUT_OF_TIME = 11
    INPUT = 20
    """The configuration, model or dataset cannot be used; trying again will not help."""
    DIVERGED = 21
    MEMORY = 22
    INFRASTRUCTURE = 30
    """A full disk, no sandbox: the job may be resumed once that is mended."""
    TOO_MANY_LOST = 31
    """`limits.infra_error_share` was passed: the job pauses."""
    PROGRAM_ERRORS = 32
    """`limits.program_error_share` was passed: the job pauses."""


class AskedModelFile(Frozen):
    """A model that plays a role beside the one that is trained: the user in conversations, or the judge of answers."""

    base_url: str
    model: str
    temperature: float = Field(default=1.0, ge=0, le=5)


class JobFile(Frozen):
    """What a job is made of. Paths are absolute, or relative to the job's folder.

    `model` is a folder with a model of transformers, `dataset` a frozen dataset; `evaluation` one of tasks, whose held-
    out side is evaluated (RL: by default the dataset's own). With `resume` the last whole checkpoint is gone on from.
    `threads` bounds what the CPU computes with; 0 leaves that to torch. `engine` draws RL's tokens: the model itself,
    or vLLM on the same GPU.
    """

    config: TrainingConfig
    model: str
    dataset: str
    evaluation: str = ""
    resume: bool = False
    threads: int = Field(default=0, ge=0, le=4096)
    engine: Literal["transformers", "vllm"] = "transformers"
    user: AskedModelFile | None = None
    judge: AskedModelFile | None = None


def is_model_name(name: str) -> bool:
    """Whether it names a model (NAME or OWNER/NAME), and no other place of the file system."""
    return bool(_NAME.fullmatch(name)) and not any(set(part) <= {"."} for part in name.split("/"))


def may_fetch() -> bool:
    """Whether a worker of this Python may ask Hugging Face for models: HF_HUB_OFFLINE forbids it."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE")
    return not offline and importlib.util.find_spec("huggingface_hub") is not None


def read_job(folder: Path) -> JobFile:
    """Raises InputError that names each field that does not fit."""
    try:
        return JobFile.model_validate_json((folder / JOB).read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{folder / JOB} is missing: there is no job here") from error
    except ValidationError as error:
        told = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_url=False)[:20]
        )
        raise InputError("; ".join(told)) from error
