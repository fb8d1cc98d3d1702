"""Batches of the real pipeline in this process: the scripted provider plays, and where a test says so, badly.

The key of a theme is that of a bundled one, or has a name of its own after two underscores (`badge-desk__hangs`):
the provider answers as for the bundled theme, and a test may give one of them replies that no other gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

from synthesis.contracts import Limits, Message
from synthesis.drafts import ThemeDraft
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.runtime import Sandbox
from synthesis.scripted import ScriptedModel, list_bundled_themes
from synthesis.stages import StageSettings
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.models import Batch, BatchItem
from webapp.batches.queries import get_pipeline
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.jobs.context import JobContext
from webapp.jobs.registry import KINDS, JobKind

APART = "__"
SHORT = StageSettings(
    scenarios=1,
    tasks=1,
    teacher_runs=1,
    conversational=False,
    assessment_calls=12,
    solver_runs=1,
    repairs=1,
    duplicate_pairs=0,  # themes of a test are one bundled theme under several names
)
_SUBJECTS = ("harbour", "orchard", "museum", "bakery", "theatre", "garage", "vineyard", "clinic", "printer", "zoo")


@dataclass(frozen=True)
class Bad:
    """What is said to one question of one theme in place of the scripted reply; of every sample where that is None."""

    theme: str
    stage: str
    text: str
    below: str = ""
    role: str = "author"
    sample: int | None = None
    message: Message | None = None
    """Said in place of the text."""

    def meets(self, call: StageCall) -> bool:
        site = call.site
        here = (site.theme, site.item.partition("/")[2], site.role, site.stage)
        return here == (self.theme, self.below, self.role, self.stage) and self.sample in (None, site.sample)


@dataclass
class HostileModel:
    """The scripted provider, but for some replies. `bad` may change while a batch runs."""

    bad: list[Bad] = field(default_factory=list)
    asked: list[StageCall] = field(default_factory=list)
    scripted: ScriptedModel = field(default_factory=ScriptedModel)
    name: str = SCRIPTED

    async def answer(self, call: StageCall) -> Reply:
        self.asked.append(call)
        for one in self.bad:
            if one.meets(call):
                said = one.message or Message(role="assistant", content=one.text)
                return Reply(message=said, finish_reason="stop")
        return await self.scripted.answer(bundled(call))


def bundled(call: StageCall) -> StageCall:
    """The same call as if it were asked for the bundled theme."""
    _, _, rest = call.site.item.partition("/")
    plain = call.site.theme.partition(APART)[0]
    site = call.site.model_copy(update={"theme": plain, "item": f"{plain}/{rest}" if rest else plain})
    return call.model_copy(update={"site": site})


def theme_of(key: str, **changes: Any) -> ThemeDraft:
    """A theme that is near to no other one of a test."""
    plain = next(one for one in list_bundled_themes() if one.key == key.partition(APART)[0])
    own = key.partition(APART)[2]
    if not own:
        return plain.model_copy(update=changes)
    words = f"{own} {_SUBJECTS[sum(own.encode()) % len(_SUBJECTS)]} "
    about = {"key": key, "name": f"{plain.name} {own}", "description": f"{words * 40}{plain.description}"}
    return plain.model_copy(update=about | changes)


@cache
def _sandbox(limits: Limits) -> Sandbox:
    """One for all tests of the process: a start takes a second."""
    return Sandbox(limits=limits)


@contextmanager
def real_pipeline(model: HostileModel, limits: Limits | None = None) -> Iterator[HostileModel]:
    """Jobs of batches run the real pipeline with this model, in this process."""
    sandbox = _sandbox(limits or Limits(memory_mib=128, call_seconds=2.0))
    before = KINDS["run_batch"]

    def work(context: JobContext) -> dict[str, Any]:
        return run_lane(sandbox, context, get_pipeline(context.payload["batch"]))

    KINDS["run_batch"] = JobKind("run_batch", "llm", work, close_lane)
    try:
        with mock.patch("webapp.batches.engine.cast.ScriptedModel", return_value=model):
            yield model
    finally:
        KINDS["run_batch"] = before


def real_batch(user: Any, drafts: Sequence[ThemeDraft], stages: StageSettings = SHORT, **changes: Any) -> Batch:
    settings = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=stages, **changes)
    return create_batch(user, "Real", [build_theme_spec(draft) for draft in drafts], settings, settings.pipeline)


def item(batch: Batch, path: str) -> BatchItem:
    return BatchItem.objects.get(batch=batch, path=path)
