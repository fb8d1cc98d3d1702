"""Forks in requests and answers of the API."""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import ConfigDict, Field

from synthesis.contracts import ReferenceCall
from webapp.common.rest.types import BodyIn, CallArguments, Json, ShortText, Text
from webapp.trajectories.forks.services import MOST_CALLS


class ForkCallIn(BodyIn):
    """A call that is made after the parent's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tool": "open_box", "arguments": {"box_id": "B-1"}}]})

    tool: ShortText
    arguments: Annotated[CallArguments, Field(description="By the names of the tool's parameters.")] = Field(
        default_factory=dict
    )


class ForkIn(BodyIn):
    """A fork by hand. The parent's steps before `step` are executed again; then come the calls and the answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"step": 1, "calls": [{"tool": "open_box", "arguments": {"box_id": "B-1"}}], "answer": "Done."}
            ]
        }
    )

    step: Annotated[int, Field(ge=1, lt=2**31, description="The first step that is not the parent's.")]
    calls: Annotated[list[ForkCallIn], Field(max_length=MOST_CALLS)] = Field(default_factory=list)
    answer: Annotated[
        Text,
        Field(
            max_length=100_000,
            description="The last words; of a task with an answer form the submitted object as JSON, empty for none.",
        ),
    ] = ""

    def made(self) -> list[ReferenceCall]:
        return [ReferenceCall(tool=call.tool, arguments=call.arguments) for call in self.calls]


class PairOut(Schema):
    """Preference data in the format of TRL: `prompt` is what both begin with, `chosen` earned more than `rejected`."""

    prompt: Json
    chosen: Json
    rejected: Json
    tools: Json
