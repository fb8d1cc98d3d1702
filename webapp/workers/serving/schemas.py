"""Schemas of deployments: for people and programs, and for the workers that serve."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from webapp.common.rest.types import BodyIn, ShortText, Text
from webapp.workers.assignment import FileToFetch
from webapp.workers.schemas import ChatIn
from webapp.workers.serving.deployments import MOST_AT_ONCE, MOST_CONTEXT, ServeWish

RequestId = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
MOST_TAKEN = 64


class DeploymentIn(BodyIn):
    """Checkpoint to serve, and how. `step` null: the finished model. `context` bounds a conversation in tokens, 0: the
    model's own limit; `memory_share` is vLLM's share of a GPU."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"step": 40, "at_once": 32}]})

    step: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    context: Annotated[int, Field(ge=0, le=MOST_CONTEXT)] = 0
    at_once: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 32
    memory_share: Annotated[float, Field(ge=0.05, le=0.98, allow_inf_nan=False)] = 0.85

    def wish(self) -> ServeWish:
        return ServeWish(self.context, self.at_once, self.memory_share)


class DeploymentLine(Schema):
    """`state` is starting, ready, failed or stopped; `worker_name` is the last worker, `requests` what it answered."""

    id: str = Field(validation_alias="public_id")
    model: str
    state: str
    reason: str
    engine: str
    worker_name: str
    attempt: int
    context: int
    at_once: int
    memory_share: float
    requests: int
    failures: int
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None


class DeploymentOut(DeploymentLine):
    """Deployment with the end of its server's output."""

    log: str


class ServedChatIn(ChatIn):
    """A request of OpenAI's chat API to a served model. Answers come whole: `stream` is refused."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "ft:ftjob-1", "messages": [{"role": "user", "content": "Hello"}]}]}
    )

    model: Annotated[Text, Field(min_length=1, max_length=200)]
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    stream: Literal[False] | None = None


class ServedModel(Schema):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "training"


class ServedModelList(Schema):
    """OpenAI's list of models: what is served, or was and is about to be again."""

    object: Literal["list"] = "list"
    data: list[ServedModel]


class ToServe(Schema):
    """Claimed deployment. Every later request of its worker names `attempt`."""

    deployment: str
    attempt: int
    model: str
    context: int
    at_once: int
    memory_share: float
    files: list[FileToFetch]


class BeatIn(BodyIn):
    """Report of a worker on what it serves. `holding` are the requests that it works on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ready": True, "engine": "vllm 0.25.0"}]})

    ready: bool = False
    engine: Annotated[ShortText, Field(max_length=40)] = ""
    log: Annotated[Text, Field(max_length=16_000)] = ""
    holding: Annotated[list[RequestId], Field(max_length=1_000)] = []


class ServedFileQuery(Schema):
    path: Annotated[ShortText, Field(min_length=1, description="As the claim names it.")]


class TakeQuery(Schema):
    wait_s: Annotated[float, Field(ge=0, le=30, description="How long to wait for a request.")] = 0.0
    most: Annotated[int, Field(ge=1, le=MOST_TAKEN, description="Maximum number of requests.")] = 1


class TakenRequest(Schema):
    id: str
    body: dict[str, Any]


class TakenOut(Schema):
    requests: list[TakenRequest]


class AnswerIn(BodyIn):
    """Answer of the model's server: its status and its object, unchanged."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": 200, "body": {"choices": []}}]})

    status: Annotated[int, Field(ge=200, le=599)]
    body: dict[str, Any]

    @model_validator(mode="after")
    def _require_final_status(self) -> AnswerIn:
        if 201 <= self.status <= 399:
            raise ValueError("an answer has the status 200, or one of 400 to 599")
        return self


class AnsweredOut(Schema):
    """`waited_for`: whether a client still waited for the answer."""

    waited_for: bool


class ServingEndIn(BodyIn):
    """`failed`: it cannot be served; `crashed`: its server died; `released`: the worker ends."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ending": "failed", "message": "Out of memory."}]})

    ending: Literal["failed", "crashed", "released"]
    message: Text = ""
    log: Annotated[Text, Field(max_length=16_000)] = ""
