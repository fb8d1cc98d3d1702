"""Judge of pairs of themes: two themes are one if environments grown from them would be the same (ours)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StrictBool, StringConstraints

from synthesis.contracts import Message
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt

STAGE = "same_theme"
SHOWN = 2_500
"""Characters of a theme that the judge is shown."""


class SameThemeVerdict(BaseModel):
    """Reply to the prompt "same_theme"."""

    model_config = ConfigDict(extra="ignore")

    reason: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
    same: StrictBool


async def judge_pair(asker: Asker, site: Site, first: str, second: str) -> SameThemeVerdict:
    """Return the judge's verdict on two texts of themes. Raise MalformedReply and the errors of `Asker.reply`.

    The texts are sorted, so that the same two themes make one question in either order.
    """
    left, right = sorted((first[:SHOWN], second[:SHOWN]))
    words = get_prompt("themes", "same_theme").render(
        first=fence_text("theme", left), second=fence_text("theme", right)
    )
    call = StageCall(site=site, messages=(Message(role="user", content=words),))
    return await asker.structured(call, SameThemeVerdict)
