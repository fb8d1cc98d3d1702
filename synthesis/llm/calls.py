"""One call of a stage to an LLM, and the key that it is stored and replayed by."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from synthesis.contracts import Frozen, Message, Tool
from synthesis.errors import InputError
from synthesis.llm.wire import request_messages, request_tools


class Site(Frozen):
    """Where a call is made: by which role, in which stage, for which item.

    `item` is the item's content path (`hotel-desk/scenario-0/task-1`), never the number of a row: the same work in
    another batch finds the same stored replies. `sample` tells repeated samples of one request apart.
    """

    role: str
    stage: str
    item: str
    theme: str = ""
    sample: int = 0


class StageCall(Frozen):
    """A request as a stage makes it. `parameters` go to the endpoint (`temperature`, `max_tokens`, ...)."""

    site: Site
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """What of this call travels, without the model's name: plain JSON, no key, no reasoning of earlier turns."""
        sent: dict[str, Any] = {"messages": request_messages(self.messages)}
        if self.tools:
            sent["tools"] = request_tools(self.tools)
        return sent | self.parameters

    def key(self, model: str) -> str:
        """SHA-256 over model, messages, tools, parameters, role, stage, item and sample: what the reply may depend on.

        Role and stage are in it though a model does not see them: a tester and a checker that happen to be asked the
        same words give two replies. Raises InputError for parameters that are no JSON.
        """
        site = self.site.model_dump(include={"role", "stage", "item", "sample"})
        content = {"model": model, "body": self.body(), **site}
        try:
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"The parameters of a call must be plain JSON ({error}).") from None
        return hashlib.sha256(text.encode()).hexdigest()
