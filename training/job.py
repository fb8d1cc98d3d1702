"""A job as a trainer finds it: the files of its folder, the contents of `job.json`, and its exit statuses. No torch."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import re
import time
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from pydantic import Field, ValidationError, field_validator

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config import EngineKind, TrainingConfig

JOB, RECORD, STOP, MODEL, RESULT = "job.json", "record.jsonl", "stop", "model", "result.json"
CHECKPOINTS = "checkpoints"
"""Folder of a job's checkpoints, `checkpoint-STEP` each, as transformers names them."""
MANIFEST = "shards.json"
"""In a checkpoint whose weights and optimiser are kept in shards near the worker: what they are, and where."""
EXIT = "exit"
"""The file with the name of the trainer's exit status: what starts several processes gives one of its own."""
SPENT = "spent.json"
"""The file with the seconds that attempts in this folder took of `limits.hours`."""
KEEP_EVERY_S = 10.0
OPTIONAL_PACKAGES = ("trackio", "wandb", "tensorboard", "torchao", "flash-attn")
"""What only some settings need; a worker that reports its packages without one of these lacks it."""
ANY_MODEL = "*"
"""Among the models that a worker says it can load: it may fetch any that Hugging Face has."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}(/[A-Za-z0-9._-]{1,100})?")
LLM_KEY = "ENVARIUM_LLM_KEY"
"""The environment variable with the key of the endpoints that a job asks; job files hold no keys."""
SERVING_KEY = "ENVARIUM_SERVING_KEY"
"""The environment variable with the key that a worker asks its own model server with."""
THREADS_WAIT = ("OMP_WAIT_POLICY", "passive")
"""For the trainer's environment, before torch is loaded: its threads sleep while they wait. Those that spin take the
processor from the sandbox, and where anything else runs they wait for one another twice as long."""


class Exit(IntEnum):
    """Exit statuses. Any other status is a crash of the process itself (a signal, for example)."""

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
    """A model behind an address that plays the user in conversations, judges answers, or is evaluated."""

    base_url: str
    model: str
    temperature: float = Field(default=1.0, ge=0, le=5)


class VllmServer(Frozen):
    """A vLLM server that draws a job's tokens. `url` ends before `/v1`. With `sleep` it uses the trainer's GPUs and
    frees their memory while the model learns. `patience_s`: how long it may take to start, or to fall asleep.
    """

    url: str = Field(pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$", max_length=2_000)
    sleep: bool = False
    patience_s: float = Field(default=240.0, gt=0, le=86_400)

    @field_validator("url")
    @classmethod
    def _strip_api_version(cls, value: str) -> str:
        return value.rstrip("/").removesuffix("/v1")


class JobFile(Frozen):
    """Parts of a job. Paths are absolute, or relative to the job's folder.

    `model` is a folder with a model of transformers; `adapters` are those of steps of earlier jobs, merged into it one
    after the other; `dataset` is a frozen dataset; `evaluation` is one of tasks, whose held-out side is evaluated (RL:
    by default the dataset's own). With `resume` the job continues from the last complete checkpoint. `threads` limits
    the threads of CPU computations; 0 leaves that to torch. `engine` draws RL's tokens: the model itself, vLLM in the
    trainer's process, or the vLLM `server`. `spent_s` are the seconds that earlier attempts in other folders took of
    `limits.hours`.

    An evaluation may ask a `policy` instead of a `model`, and continues after the first `reported` reports.
    """

    config: TrainingConfig
    model: str = ""
    adapters: tuple[str, ...] = ()
    dataset: str
    evaluation: str = ""
    resume: bool = False
    threads: int = Field(default=0, ge=0, le=4096)
    engine: EngineKind = "transformers"
    server: VllmServer | None = None
    spent_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    user: AskedModelFile | None = None
    judge: AskedModelFile | None = None
    policy: AskedModelFile | None = None
    reported: int = Field(default=0, ge=0)


def is_model_name(name: str) -> bool:
    """Return whether it names a model (NAME or OWNER/NAME), and no other place of the file system."""
    return bool(_NAME.fullmatch(name)) and not any(set(part) <= {"."} for part in name.split("/"))


def can_fetch_models() -> bool:
    """Return whether a worker of this Python may fetch models from Hugging Face: HF_HUB_OFFLINE forbids it."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE")
    return not offline and importlib.util.find_spec("huggingface_hub") is not None


def read_job(folder: Path) -> JobFile:
    """Return the job of a folder. Raises InputError that names each field that does not fit."""
    try:
        return JobFile.model_validate_json((folder / JOB).read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{folder / JOB} is missing: there is no job here") from error
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_url=False)[:20]
        )
        raise InputError("; ".join(problems)) from error


@dataclass
class WallTime:
    """Wall time of a job over all its attempts.

    `elsewhere` are seconds of attempts in other folders (a site adds up its rows of attempts), `here` those of earlier
    attempts in this folder, read from `spent.json`: that is written every few seconds, so that a trainer that was
    killed and is started again continues the count. `file` is None if another process writes it (of several ranks, the
    first).
    """

    elsewhere: float = 0.0
    here: float = 0.0
    file: Path | None = None
    begun: float = field(default_factory=lambda: time.monotonic())
    _kept: float = -math.inf

    @property
    def started_at(self) -> float:
        """Start of the job (`time.monotonic`) as if it had run without a break."""
        return self.begun - self.here - self.elsewhere

    def keep(self) -> None:
        """Write the time of this folder's attempts, at most every `KEEP_EVERY_S`. Best effort: on a full disk the last
        file stays.
        """
        now = time.monotonic()
        if self.file is None or now - self._kept < KEEP_EVERY_S:
            return
        self._kept = now
        pending = self.file.with_suffix(".new")
        with contextlib.suppress(OSError):
            pending.write_text(json.dumps({"seconds": self.here + now - self.begun}), encoding="utf-8")
            os.replace(pending, self.file)


def load_wall_time(folder: Path, elsewhere: float, first: bool) -> WallTime:
    """Return the wall time of a job whose trainer begins now; `first` is whether this process writes it."""
    here = 0.0
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        seconds = float(json.loads((folder / SPENT).read_bytes())["seconds"])
        here = seconds if 0 <= seconds < math.inf else 0.0
    return WallTime(elsewhere, here, folder / SPENT if first else None)
