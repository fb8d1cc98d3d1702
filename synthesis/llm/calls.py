"""One call of a stage to an LLM, and the key by which it is stored and replayed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from synthesis.contracts import Frozen, Message, Tool
from synthesis.errors import InputError
from synthesis.llm.turn_gate import UNKNOWN
from synthesis.llm.wire import build_request_messages, build_request_tools

Effort = Literal["none", "minimal", "low", "medium", "high"]


class Sampling(Frozen):
    """Parameters of a role's requests. None is left to the server. With a `seed` each sample has its own."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reasoning_effort: Effort | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None

    def parameters(self, sample: int = 0) -> dict[str, Any]:
        """Return the parameters of a request. Samples of one question differ by their seed, if there is one."""
        chosen = self.model_dump(exclude_none=True)
        if self.seed is not None:
            chosen["seed"] = (self.seed + sample) % 2**31
        return chosen


DEFAULTS: Mapping[str, Sampling] = {
    "tester": Sampling(temperature=1.0),
    "teacher": Sampling(temperature=1.0),
    "checker": Sampling(temperature=0.0),
    "judge": Sampling(temperature=0.0),
}
"""Who tries is sampled, so that k runs differ; who judges is not. Ours; of other roles the server decides."""


def get_sampling(role: str, chosen: Mapping[str, Sampling]) -> Sampling:
    """Return the chosen sampling of a role, else its default."""
    return chosen.get(role) or DEFAULTS.get(role) or Sampling()


class Site(Frozen):
    """The origin of a call: its role, stage and item.

    `item` is the item's content path (`hotel-desk/scenario-0/task-1`), never the number of a row: the same work in
    another batch finds the same stored replies. `sample` distinguishes repeated samples of one request.
    """

    role: str
    stage: str
    item: str
    theme: str = ""
    sample: int = 0


class StageCall(Frozen):
    """A request as a stage makes it. `parameters` go to the endpoint (`temperature`, `max_tokens`, ...).

    `calls_ahead` is how many calls are expected to follow this one, each waiting for the one before it. No reply
    depends on it.
    """

    site: Site
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)
    calls_ahead: int = Field(default=UNKNOWN, exclude=True)

    def body(self) -> dict[str, Any]:
        """Return the request body of this call, without the model's name: plain JSON, no key, no earlier reasoning."""
        sent: dict[str, Any] = {"messages": build_request_messages(self.messages)}
        if self.tools:
            sent["tools"] = build_request_tools(self.tools)
        return sent | self.parameters

    def key(self, model: str) -> str:
        """Return the SHA-256 over all that the reply may depend on.

        That is model, messages, tools, parameters, role, stage, item and sample. Role and stage are included though a
        model does not see them: a tester and a checker that happen to send the same words get two replies. Raise
        InputError for parameters that are not JSON.
        """
        site = self.site.model_dump(include={"role", "stage", "item", "sample"})
        content = {"model": model, "body": self.body(), **site}
        try:
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"The parameters of a call must be plain JSON ({error}).") from None
        return hashlib.sha256(text.encode()).hexdigest()
