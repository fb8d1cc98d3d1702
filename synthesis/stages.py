"""Inputs of every stage of the pipeline, and how it asks models.

A stage is `async def stage(kit, ...) -> draft`. It raises Rejected (a fact about the item), LLMError or another
InfrastructureError (try again later) or SpendCapReached, and returns a complete draft or nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field, model_validator

from synthesis.contracts import (
    MOST_LATENCY_S,
    Disturbance,
    Frozen,
    JudgedEdges,
    Message,
    ScoreRule,
    SentReasoning,
    UserKind,
)
from synthesis.drafts import TesterKind, ThemeDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.llm.asker import TRIES, Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.turn_gate import TurnGate, expecting_calls
from synthesis.runtime import Sandbox
from synthesis.variant_settings import GraphSettings, ProgrammaticSettings, WalkSettings

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
Level = Literal["theme", "scenario", "task", "trajectory"]
Variant = Literal["envscaler", "autoforge", "programmatic", "walk"]
"""Whose way to environments and tasks a pipeline goes: a row of `synthesis/pipeline.py`."""
LEVELS: tuple[Level, ...] = ("theme", "scenario", "task", "trajectory")


def _require_rising(pair: tuple[int, int]) -> tuple[int, int]:
    if not 0 <= pair[0] <= pair[1]:
        raise ValueError("a range goes from a lower to a higher number, and neither is below 0")
    return pair


ActionRange = Annotated[tuple[int, int], AfterValidator(_require_rising)] | Literal["released"] | None


class StageSettings(Frozen):
    """Every threshold and count of the pipeline. Values marked *published* are EnvScaler's."""

    stateful_only: bool = True
    """Keep only tasks that live in a stateful, domain-specific environment (published, 3.1)."""
    least_usefulness: int = Field(default=7, ge=0, le=10)
    """Published (released code)."""
    least_modelability: int = Field(default=7, ge=0, le=10)
    """Published (released code)."""
    duplicate_at: float = Field(default=0.85, gt=0, le=1)
    """Cosine similarity from which two themes are one, if no judge is asked (ours)."""
    duplicate_pairs: int = Field(default=12, ge=0, le=50)
    """Nearest themes that the judge compares each theme with; with 0 vectors alone decide (ours)."""
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
    reassess: bool = False
    """Assess also what was there before and has an assessment that reaches the threshold (ours)."""
    tool_repairs: int = Field(default=2, ge=0, le=5)
    """Repair rounds of a tool that fails its assessment, before it is taken out; 0 keeps it by the score (ours)."""
    tester: TesterKind = "planned"
    """Who chooses the tool and the case of each call: a plan that spreads them over all tools (ours), or the tester
    (`free`: published, Eq. 5)."""
    test_states: int = Field(default=3, ge=1, le=10)
    """Initial states that an assessment starts from (ours)."""
    scenarios: int = Field(default=2, ge=0, le=50)
    """Initial states an environment; with 0 nothing is made below one, which is then only assessed."""
    tasks: int = Field(default=2, ge=1, le=50)
    """Tasks a scenario."""
    rule: ScoreRule = "goals"
    frames: bool = True
    """A right way changes nothing but what the reference changes, or the author declares free (ours). With `proportion`
    and without frames a reward is the share of checks that hold, EnvScaler's Eq. 10 alone."""
    audit_rejects: bool = True
    """A task whose audit stays red after one repair is left out (ours). Otherwise the audit is stored and decides
    nothing, and no repair is asked for: ES has no audit. Without frames, what a frame alone would close never decides.
    """
    solver_runs: int = Field(default=3, ge=1, le=32)
    """k: the shortest run with reward 1 is the reference (ours)."""
    kept_runs: int = Field(default=32, ge=0, le=64)
    """So many solver runs at a task are kept as trajectories; of further ones the outcome alone is counted (ours)."""
    teacher_runs: int = Field(default=1, ge=0, le=32)
    """Trajectories a task and setting."""
    teach_unsolved: bool = False
    """Teachers also attempt tasks that no solver run solved (published: ES has no solver; ours leaves them out)."""
    conversational: bool = True
    """Teachers also act in conversations with a simulated user."""
    teacher_user: UserKind = "optimised"
    """Who speaks with teachers: `base` (ES Figure 24), or `optimised` after AutoForge A.2 (ours)."""
    teacher_user_tools: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=100
    )
    """Tools that the user who speaks with teachers alone may call, in environments that have them and others beside
    (AF 4.3; the mechanism is ours)."""
    withheld_runs: int = Field(default=0, ge=0, le=8)
    """Teacher runs at a variant of each solved task that withholds what it needs (ES 5.5; the number is ours)."""
    sent_reasoning: SentReasoning = "dropped"
    """What teachers see of their reasoning in earlier turns (AF 3.4)."""
    teacher_latency: float = Field(default=0.0, ge=0, le=1)
    """Share of teachers' calls before which time passes on the environment's clock (ES, limitation 3; rates are
    ours)."""
    teacher_latency_s: float = Field(default=30.0, ge=0, le=MOST_LATENCY_S)
    teacher_failures: float = Field(default=0.0, ge=0, le=1)
    """Share of teachers' calls that are refused before they reach the environment (ours)."""
    teacher_error_results: float = Field(default=0.0, ge=0, le=1)
    """Share of teachers' calls whose result is replaced by an error (ours)."""
    teacher_carried_out: float = Field(default=0.5, ge=0, le=1)
    """Share of those that were carried out (ours)."""
    filter_by_reward: bool = True
    """Drop trajectories that earned less than `least_reward` (ours). Without it they are dropped by format and
    impossibility alone (published, B.2)."""
    least_reward: float = Field(default=1.0, ge=0, le=1)
    """What a kept trajectory must have earned."""
    action_range: ActionRange = None
    """Actions (calls and messages, as EnvScaler counts) that a kept trajectory may have, both ends allowed;
    `released`: 3 to 29, and 5 to 39 in conversations."""
    state_bytes: int = Field(default=1_000_000, ge=1_000, le=1_000_000)
    """Of an initial state as JSON; no longer reply is read."""
    graph: GraphSettings = GraphSettings()
    programmatic: ProgrammaticSettings = ProgrammaticSettings()
    walk: WalkSettings = WalkSettings()

    @model_validator(mode="after")
    def _require_one_fault_per_call(self) -> Self:
        if self.teacher_failures + self.teacher_error_results > 1:
            raise ValueError("failures and error results: a call has one of both at most; make their sum at most 1")
        return self

    @property
    def disturbance(self) -> Disturbance:
        """Disturbance of the calls of teachers."""
        return Disturbance(
            latency=self.teacher_latency,
            latency_s=self.teacher_latency_s,
            failures=self.teacher_failures,
            error_results=self.teacher_error_results,
            carried_out=self.teacher_carried_out,
        )


@dataclass
class StageSources:
    """Sources of a stage, for provenance: the roles it asked, and its seeds by name."""

    roles: set[str] = field(default_factory=set)
    seeds: dict[str, int] = field(default_factory=dict)


def make_audit_gate() -> TurnGate:
    """Return a gate that lets in as many audits as there are processors."""
    return TurnGate(len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Kit:
    """Tools of a stage. `path` is the item's content path, `theme` its theme's key, `seed` the batch's.

    `threads` run blocking work (the sandbox), `audits` lets in that of audits; `check_stop` raises if a user asked to
    stop. `noted` fills by itself.
    """

    asker: Asker
    sandbox: Sandbox
    path: str
    theme: str
    threads: Executor
    settings: StageSettings = field(default_factory=StageSettings)
    seed: int = 0
    check_stop: Callable[[], None] = lambda: None
    audits: TurnGate = field(default_factory=make_audit_gate)
    noted: StageSources = field(default_factory=StageSources)

    def at(self, part: str) -> Kit:
        """Return the same kit for an item below this one (`scenario-0`)."""
        return replace(self, path=f"{self.path}/{part}")

    def draw_seed(self, stage: str) -> int:
        """Return a seed for this item and stage only: the same in every run of the batch."""
        drawn = int.from_bytes(hashlib.sha256(f"{self.seed}\0{self.path}\0{stage}".encode()).digest()[:6])
        self.noted.seeds[stage] = drawn
        return drawn

    def site(self, role: str, stage: str, sample: int = 0) -> Site:
        self.noted.roles.add(role)
        return Site(role=role, stage=stage, item=self.path, theme=self.theme, sample=sample)

    async def ask(
        self,
        role: str,
        stage: str,
        words: str,
        wanted: type[M],
        check: Callable[[M], Awaitable[None] | None] = lambda reply: None,
        sample: int = 0,
        tries: int = TRIES,
        **parameters: Any,
    ) -> M:
        """Ask one question for JSON of a shape. Raises MalformedReply and as `Asker.reply`.

        If `check` raises InputError (it may be async, for checks in the sandbox) the model is asked again; that error
        is the `__cause__` of the MalformedReply after the last try.
        """
        return await self.asker.structured(self._call(role, stage, words, sample, parameters), wanted, check, tries)

    async def ask_code(
        self,
        role: str,
        stage: str,
        words: str,
        check: Callable[[str], Awaitable[None] | None] = lambda code: None,
        sample: int = 0,
        tries: int = TRIES,
        **parameters: Any,
    ) -> str:
        """Ask one question for Python source. Raises MalformedReply and as `Asker.reply`."""
        return await self.asker.code(self._call(role, stage, words, sample, parameters), check, tries)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Run blocking work in a thread."""
        inside = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.threads, inside.run, work, *given)

    async def run_audit(self, calls_ahead: int, work: Callable[..., T], *given: Any) -> T:
        """Run the blocking work of an audit in a thread, if `calls_ahead` calls are expected to wait for it.

        An audit keeps a processor busy for seconds, and all tasks of a batch come to theirs at about the same time: as
        many run at once as there are processors, those with the most calls ahead first.
        """
        with expecting_calls(calls_ahead):
            async with self.audits.turn():
                return await self.run(work, *given)

    def _call(self, role: str, stage: str, words: str, sample: int, parameters: dict[str, Any]) -> StageCall:
        message = Message(role="user", content=words)
        return StageCall(site=self.site(role, stage, sample), messages=(message,), parameters=parameters)


class ItemSpec(Frozen):
    """Initial knowledge about an item, before any stage has worked on it.

    Of a theme: the `theme` if it is known, else the `text` of a task set (`source`) in which one is to be found, with
    the `key` that it will have. Of an existing environment: its record, the number of its `version` in its store, the
    `score` of its newest assessment, and the `edges` between its tools if they were judged. Below: `ordinal` among its
    siblings, and for a trajectory whether it is a conversation, and whether it is at a variant of the task that
    withholds something.
    """

    theme: ThemeDraft | None = None
    environment: EnvironmentRecord | None = None
    version: int = 0
    score: float | None = None
    edges: JudgedEdges | None = None
    text: str = ""
    source: str = ""
    key: str = ""
    ordinal: int = 0
    conversational: bool = False
    withheld: bool = False


@dataclass(frozen=True)
class Barrier:
    """Inputs of a barrier: the kit of each waiting item, by index, to which its requests are charged. Items of `apart`
    must not be merged.
    """

    settings: StageSettings
    kit_of: Callable[[int], Kit]
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True)
class BarrierGroups:
    """Lists of indices that are one item, the one that continues first; by index, the note about an item."""

    groups: Sequence[Sequence[int]]
    notes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A row of the pipeline: `run(kit, spec, *drafts)` returns a draft of the type `gives`.

    `takes` names the earlier stages, of the item or of those above it, whose drafts it receives. A stage with `group`
    is a barrier instead: once all items of the level have arrived, `group(barrier, drafts)` returns lists of indices
    that are one item, and the first of each list continues. If `given` finds the draft in the item's spec, the item
    begins here with it and no model is asked; if `skipped` is true the item passes by. With `amends` its draft may hold
    a `program`, which replaces that stage's draft from then on.
    """

    name: str
    level: Level
    roles: tuple[str, ...]
    takes: tuple[str, ...] = ()
    gives: type[BaseModel] | None = None
    run: Callable[..., Awaitable[Any]] | None = None
    group: Callable[[Barrier, Sequence[Any]], Awaitable[BarrierGroups]] | None = None
    given: Callable[[ItemSpec], Any] = lambda spec: None
    skipped: Callable[[StageSettings, ItemSpec], bool] = lambda settings, spec: False
    amends: str = ""

    def amendment(self, draft: Any) -> dict[str, Any]:
        """Return the earlier stage's draft as this one's amends it, by that stage's name; empty if it does not."""
        program = getattr(draft, "program", None) if self.amends else None
        return {} if program is None else {self.amends: program}


@dataclass(frozen=True)
class ItemPart:
    """An item below another: its level, its name in the path (`scenario-0`) and its spec."""

    level: Level
    name: str
    spec: ItemSpec


@dataclass(frozen=True)
class Pipeline:
    """The stages in order, and the items below an item that passed all of its level: `parts`, or `barren_parts` if its
    drafts, by stage, are `barren`.
    """

    stages: tuple[Stage, ...]
    parts: Callable[[Level, StageSettings], list[ItemPart]]
    barren: Callable[[Level, Mapping[str, Any]], bool] = lambda level, drafts: False
    barren_parts: Callable[[Level, StageSettings], list[ItemPart]] = lambda level, settings: []

    @property
    def first(self) -> dict[str, str]:
        """First stage of each level."""
        return {stage.level: stage.name for stage in reversed(self.stages)}

    def of(self, level: Level) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.level == level)

    def stage(self, name: str) -> Stage:
        """Return a stage by its name. Raises KeyError."""
        return {stage.name: stage for stage in self.stages}[name]

    def start(self, level: Level, spec: ItemSpec) -> str:
        """Return the stage with which an item begins: the last one whose draft its spec holds, else the first."""
        own = self.of(level)
        held = [stage for stage in own if stage.given(spec) is not None]
        return (held or own)[-1 if held else 0].name

    def path(self, level: Level, settings: StageSettings, spec: ItemSpec) -> list[Stage]:
        """Return the stages that an item goes through, in order."""
        own = self.of(level)
        begin = [stage.name for stage in own].index(self.start(level, spec))
        return [stage for stage in own[begin:] if not stage.skipped(settings, spec)]

    def after(self, name: str, settings: StageSettings, spec: ItemSpec) -> Stage | None:
        """Return the next stage of an item; None after its last."""
        left = [stage.name for stage in self.of(self.stage(name).level)]
        passed = left[: left.index(name) + 1]
        wanted = self.path(self.stage(name).level, settings, spec)
        return next((stage for stage in wanted if stage.name not in passed), None)
