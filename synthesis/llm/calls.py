"""One call of a stage to an LLM, and the key that it is stored and replayed by."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import Field

from synthesis.contracts import Frozen, Message, Tool


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

    def key(self, model: str) -> str:
        """SHA-256 over model, messages, tools, parameters, item and sample: what the reply may depend on."""
        content = {
            "model": model,
            "messages": [message.model_dump(mode="json") for message in self.messages],
            "tools": [tool.model_dump(mode="json") for tool in self.tools],
            "parameters": self.parameters,
            "item": self.site.item,
            "sample": self.site.sample,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()
