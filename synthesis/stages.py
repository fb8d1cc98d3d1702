"""What every stage of the pipeline is given, and how it asks.

A stage is `async def stage(kit, ...) -> draft`. It raises Rejected (a fact about the item), LLMError or another
InfrastructureError (try again later) or SpendCapReached, and gives a whole draft or nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from synthesis.contracts import Frozen, Message, ScoreRule
from synthesis.llm.asker import TRIES, Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.runtime import Sandbox

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class StageSettings(Frozen):
    """Every threshold and count of the pipeline. Values marked *published* are EnvScaler's."""

    stateful_only: bool = True
    """Keep only tasks that live in a stateful, domain-specific environment (published, 3.1)."""
    least_usefulness: int = Field(default=7, ge=0, le=10)
    """Published (released code)."""
    least_modelability: int = Field(default=7, ge=0, le=10)
    """Published (released code)."""
    duplicate_at: float = Field(default=0.85, gt=0, le=1)
    """Cosine similarity from which two themes are one (ours)."""
    least_tools: int = Field(default=8, ge=1)
    most_tools: int = Field(default=30, ge=1, le=60)
    repairs: int = Field(default=3, ge=0, le=10)
    """Static check and repair rounds (ours; released code discards)."""
    assessment_calls: int = Field(default=100, ge=1, le=1_000)
    """N (published, 3.4)."""
    assessment_threshold: float = Field(default=0.85, ge=0, le=1)
    """Published, 3.4."""
    assessment_confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """At which the sequential test stops early (ours)."""
    sequential: bool = True
    scenarios: int = Field(default=2, ge=1, le=50)
    """Initial states an environment."""
    tasks: int = Field(default=2, ge=1, le=50)
    """Tasks a scenario."""
    rule: ScoreRule = "goals"
    solver_runs: int = Field(default=3, ge=1, le=32)
    """k: the shortest run with reward 1 is the reference (ours)."""
    teacher_runs: int = Field(default=1, ge=0, le=32)
    """Trajectories a task and setting."""
    conversational: bool = True
    """Teachers also act in conversations with a simulated user."""
    action_range: tuple[int, int] | None = None
    """Calls that a kept trajectory may have; released: (3, 29), and (5, 39) in conversations."""
    state_bytes: int = Field(default=1_000_000, ge=1_000, le=4_000_000)
    """Of an initial state as JSON."""


@dataclass(frozen=True)
class Kit:
    """What a stage works with. `path` is the item's content path, `theme` its theme's key, `seed` the batch's.

    `threads` run what blocks (the sandbox); `check_stop` raises where a person asked to stop.
    """

    asker: Asker
    sandbox: Sandbox
    path: str
    theme: str
    threads: Executor
    settings: StageSettings = field(default_factory=StageSettings)
    seed: int = 0
    check_stop: Callable[[], None] = lambda: None

    def at(self, part: str) -> Kit:
        """The same for what lies below this item (`scenario-0`)."""
        return replace(self, path=f"{self.path}/{part}")

    def luck(self, stage: str) -> int:
        """A seed of this item and stage alone: the same in every run of the batch."""
        return int.from_bytes(hashlib.sha256(f"{self.seed}\0{self.path}\0{stage}".encode()).digest()[:6])

    def site(self, role: str, stage: str, sample: int = 0) -> Site:
        return Site(role=role, stage=stage, item=self.path, theme=self.theme, sample=sample)

    async def ask(
        self,
        role: str,
        stage: str,
        words: str,
        wanted: type[M],
        check: Callable[[M], None] = lambda found: None,
        sample: int = 0,
        tries: int = TRIES,
        **parameters: Any,
    ) -> M:
        """Ask one question for JSON of a shape. Raises MalformedReply and what `Asker.reply` raises."""
        return await self.asker.structured(self._call(role, stage, words, sample, parameters), wanted, check, tries)

    async def ask_code(
        self,
        role: str,
        stage: str,
        words: str,
        check: Callable[[str], None] = lambda code: None,
        sample: int = 0,
        tries: int = TRIES,
        **parameters: Any,
    ) -> str:
        """Ask one question for Python source. Raises MalformedReply and what `Asker.reply` raises."""
        return await self.asker.code(self._call(role, stage, words, sample, parameters), check, tries)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Do what blocks in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *given)

    def _call(self, role: str, stage: str, words: str, sample: int, parameters: dict[str, Any]) -> StageCall:
        message = Message(role="user", content=words)
        return StageCall(site=self.site(role, stage, sample), messages=(message,), parameters=parameters)
