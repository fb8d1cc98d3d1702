"""Schemas of the workers' API, with bounds on everything that a worker sends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from training.config import EngineKind
from training.metrics import Record
from webapp.common.rest.types import BodyIn, ShortText, Text
from webapp.workers.claims import LONGEST_WAIT_SECONDS

Step = Annotated[int, Field(ge=0, le=2**31 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
MiB = Annotated[int, Field(ge=0, le=2**40)]
Exit = Literal[
    "done", "stopped", "out_of_time", "input", "diverged", "memory", "fault", "infrastructure", "too_many_lost",
    "program_errors", "crashed",
]  # fmt: skip
RECORD: JsonDict = {"kind": "values", "seq": 1, "time": 1_764_000_000.0, "step": 1, "values": {"reward": 0.5}}
Word = Annotated[ShortText, Field(min_length=1)]


class DeviceIn(BodyIn):
    name: ShortText
    memory_mib: MiB = 0


class WorkerIn(BodyIn):
    """Worker that begins to work. `models` are names of those it can load, `*` if it may fetch any; `main_memory_mib`:
    what it may use of the computer's memory (0: unknown); `software`: versions by name (empty: unknown); `beside`:
    this site's own queue runs it; `serves`: so many models it serves at once, and trains nothing; `was`: the id that
    it had when it last worked in the same folder; `store`: the place of its shards of checkpoints."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "box", "devices": [{"name": "H100", "memory_mib": 81559}]}]}
    )

    name: Word
    host: ShortText = ""
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    version: Annotated[ShortText, Field(max_length=40)] = ""
    devices: Annotated[list[DeviceIn], Field(max_length=64)] = []
    main_memory_mib: MiB = 0
    software: Annotated[dict[ShortText, ShortText], Field(max_length=50)] = {}
    engines: Annotated[list[EngineKind], Field(min_length=1, max_length=3)] = ["transformers"]
    models: Annotated[list[Annotated[ShortText, Field(min_length=1)]], Field(max_length=200)] = []
    beside: bool = False
    serves: Annotated[int, Field(ge=0, le=64)] = 0
    store: Annotated[str, Field(max_length=500)] = ""
    was: Annotated[ShortText, Field(max_length=48)] = ""


class WorkerOut(Schema):
    """Id of the worker, and how often it sends heartbeats; after `lease_s` of silence its job goes to another."""

    id: str
    heartbeat_s: float
    lease_s: float
    poll_s: float


class GpuUsage(BodyIn):
    name: ShortText = ""
    used_mib: MiB = 0
    total_mib: MiB = 0
    utilisation: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class UsageIn(BodyIn):
    memory_mib: MiB = 0
    gpus: Annotated[list[GpuUsage], Field(max_length=64)] = []


class ClaimQuery(Schema):
    wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS, description="How long to wait for a job.")] = 0.0


class HeartbeatIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"usage": {"memory_mib": 2048}, "job": "ftjob-1", "attempt": 1, "step": 12}]}
    )

    usage: UsageIn = UsageIn()
    job: Annotated[ShortText, Field(max_length=48)] | None = None
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    step: Step | None = None


class HeartbeatOut(Schema):
    """`wish` of a person: empty, `pause` or `cancel`. `stale`: the attempt has lost its job."""

    wish: str
    stale: bool


class RecordsIn(BodyIn):
    """Records as the trainer's file has them, in their order."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"records": [RECORD]}]})

    records: Annotated[list[Annotated[Record, Field(discriminator="kind")]], Field(max_length=1_000)]


class RecordsOut(Schema):
    next_seq: int


class CheckpointFileIn(BodyIn):
    path: Annotated[ShortText, Field(min_length=1)]
    bytes: Annotated[int, Field(ge=0, le=2**50)]
    sha256: Sha256


class CheckpointIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"step": 10, "files": [{"path": "model.safetensors", "bytes": 4096, "sha256": "0" * 64}]}]
        }
    )

    step: Step
    final: bool = False
    files: Annotated[list[CheckpointFileIn], Field(min_length=1, max_length=1_000)]


class ReceivedOut(Schema):
    """Number of bytes of a file that are here."""

    path: str
    received: int


class UploadOut(Schema):
    """`state` is `uploading`, or `ready` if it was complete before."""

    id: str
    state: str
    files: list[ReceivedOut]


class PieceQuery(Schema):
    """File of the checkpoint, and how many of its bytes come before these."""

    path: Annotated[ShortText, Field(min_length=1, description="As the checkpoint announced it.")]
    offset: Annotated[int, Field(ge=0, le=2**50, description="How many bytes of the file came before these.")]


class DownloadQuery(Schema):
    what: Annotated[
        str,
        Field(pattern=r"^(dataset|evaluation|resume|model(-[1-9])?)$", description="Part of the assignment."),
    ]
    path: Annotated[ShortText, Field(min_length=1, description="As the assignment names it.")]


class RolloutsOut(Schema):
    """Number of attempts in the file."""

    count: int


class EndIn(BodyIn):
    """End of an attempt: the name of the trainer's exit status, or `crashed` if it has none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"exit": "stopped", "message": "The job was stopped."}]})

    exit: Exit
    message: Text = ""
    code: Annotated[ShortText, Field(max_length=40)] = ""
    result: dict[str, Any] | None = None
    log: Text = ""


class EndOut(Schema):
    """State of the job after the attempt."""

    job: str
    state: str


class ChatIn(BodyIn):
    """A request of OpenAI's chat API. The model is the job's, whatever name is given."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "Hello"}]}]})

    model: Text = ""
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10_000)]
    tools: Annotated[list[dict[str, Any]], Field(max_length=1_000)] | None = None
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: int | None = None
    chat_template_kwargs: Annotated[dict[str, Any], Field(max_length=50)] | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
