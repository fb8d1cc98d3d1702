"""A judge that says of two themes whether they are one: would environments grown from them be the same (ours)?"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StrictBool, StringConstraints

from synthesis.contracts import Message
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fenced, prompt

STAGE = "same_theme"
SHOWN = 2_500
"""Characters of a theme that the judge is shown."""


class SameThemeVerdict(BaseModel):
    """The reply to `same_theme`."""

    model_config = ConfigDict(extra="ignore")

    reason: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    same: StrictBool


async def same_theme(asker: Asker, site: Site, first: str, second: str) -> SameThemeVerdict:
    """The judge's verdict on two texts of themes. Raises MalformedReply and what `Asker.reply` raises.

    The texts are put in one order, so that the same two themes are one question whichever came first.
    """
    left, right = sorted((first[:SHOWN], second[:SHOWN]))
    words = prompt("themes", "same_theme").render(first=fenced("theme", left), second=fenced("theme", right))
    call = StageCall(site=site, messages=(Message(role="user", content=words),))
    return await asker.structured(call, SameThemeVerdict)
