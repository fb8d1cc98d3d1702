"""What every importer hands to the web app, whatever the file looked like.

A record is parsed strictly in meaning and leniently in form; `raw` is the record as read (without what has a
column of its own), so that an export equals the import.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    AnswerField,
    CallError,
    ChecksVerifier,
    Frozen,
    Injection,
    Reference,
    Reward,
    State,
    ToolKind,
    Validation,
    Verifier,
    Withheld,
)


class ToolRecord(Frozen):
    """`raw_schema` is the parameter schema as imported; None where the file had none for this tool."""

    name: str
    description: str = ""
    kind: ToolKind = "query"
    raw_schema: dict[str, Any] | None = None


SourceName = Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9_.-]*$")]


class EnvironmentParts(Frozen):
    """What an export of this site says of an environment besides: see `own_parts.py`."""

    source: SourceName = ""
    key: str = Field(default="", max_length=200)
    name: str = ""
    tools: tuple[ToolRecord, ...] = ()
    current: bool = True


class TaskParts(Frozen):
    """What an export of this site says of a task besides. `version` and `revision` are content hashes; with
    `state_apart` the task's is of the record without the initial state."""

    source: SourceName = ""
    environment_source: SourceName = ""
    version: str = Field(default="", max_length=64)
    revision: str = Field(default="", max_length=64)
    current: bool = True
    title: str = ""
    scenario: str = ""
    score_rule: Literal["goals", "proportion"] = "proportion"
    state_apart: bool = False
    reference: Reference | None = None


class RefusedStep(Frozen):
    """A call of an attempt made here that never reached the environment; its place is among all steps of the run."""

    index: int = Field(ge=0)
    turn: int = Field(ge=0)
    content: str = ""
    reasoning: str = ""
    tool: str = Field(default="", max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation: str = ""
    error: CallError


class RunParts(Frozen):
    """What an export of this site says of a run besides.

    `identity` tells attempts apart whose records are the same. `revision` is the content hash of what was attempted.
    Without `judged` nothing judged it, and nothing does on import: an attempt that was lost has no reward. `score` has
    the verdicts of a judge, who is not asked again. `turns` are those of all steps, where the format numbers them
    otherwise.
    """

    identity: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    source: SourceName = ""
    environment_source: SourceName = ""
    task_source: SourceName = ""
    revision: str = Field(default="", max_length=64)
    seed: int = Field(default=DEFAULT_SEED, ge=-(2**63), lt=2**63)
    now: str = Field(default=DEFAULT_NOW, max_length=40)
    validation: Validation = "source"
    conversational: bool | None = None
    answer: str | None = None
    refused: tuple[RefusedStep, ...] = ()
    turns: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = ()
    judged: bool = True
    score: Reward | None = None
    outcome: Literal["", "agent_error", "program_error", "infra_error", "truncated", "cancelled"] = ""
    note: str = Field(default="", max_length=10_000)
    user_error: bool = False
    user_fault: Literal["", "fault", "none", "unknown"] = ""
    rejected: str = Field(default="", max_length=60)
    solver: bool = False
    provenance: dict[str, Any] = Field(default_factory=dict)


class EnvironmentRecord(Frozen):
    key: str
    name: str
    summary: str = ""
    introduction: str = ""
    category: str = ""
    rules: tuple[str, ...] = ()
    state_schema: tuple[dict[str, Any], ...] = ()
    class_name: str
    source: str
    tools: tuple[ToolRecord, ...]
    raw: dict[str, Any] = Field(default_factory=dict)
    parts: EnvironmentParts = Field(default=EnvironmentParts(), exclude=True)


class TaskRecord(Frozen):
    """An EnvScaler "scenario": our scenario (initial state) and task (instruction, verifier) in one.

    A reference is no part of the content; the frame that was made of it is. Without a frame anything that no check
    looks at may change. A task with an `answer_form` wants its fields submitted; `expected_answer` holds their expected
    values, and the checks of its verifier those made from them. With `withheld` it is a variant of a task that needs
    what is taken away here.
    """

    environment_key: str
    key: str
    title: str = ""
    scenario_name: str = ""
    instruction: str
    answer_form: tuple[AnswerField, ...] = ()
    expected_answer: dict[str, Any] = Field(default_factory=dict)
    initial_state: State
    verifier: Verifier = ChecksVerifier(rule="proportion")
    reference: Reference | None = None
    withheld: Withheld | None = None
    raw: dict[str, Any] = Field(default_factory=dict)
    parts: TaskParts = Field(default=TaskParts(), exclude=True)


class RunStep(Frozen):
    """One step of a recorded run. `recorded` is the observation text that the agent saw after a call.

    `turn` numbers the assistant's turns: calls of one parallel turn share it. `problem` says why what the agent wrote
    is no call that can be read: it never reached the environment, and a replay leaves it out. So it does with an answer
    that was submitted, a call that is not `executed`. `cut` is why an attempt made here was broken off in that turn; no
    format of runs has it. `injected` is what a disturbance did to the call, which a replay does to it again.
    """

    kind: Literal["user", "message", "call"]
    turn: int = 0
    content: str = ""
    reasoning: str = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    recorded: str | None = None
    problem: str = ""
    executed: bool = Field(default=True, exclude_if=lambda value: value)
    cut: str = Field(default="", exclude=True)
    injected: Injection | None = Field(default=None, exclude_if=lambda value: value is None)
    refused: CallError | None = Field(default=None, exclude=True)
    """Why this site refused the call when the attempt was made; a replay says the same again."""


class RunRecord(Frozen):
    """A recorded attempt. `recorded_reward` is what its own system gave; None where it gave none."""

    environment_key: str
    task_key: str
    policy: str = ""
    conversational: bool = False
    steps: tuple[RunStep, ...]
    answer: str = ""
    recorded_reward: float | None = None
    terminated: bool = True
    truncated: bool = False
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW
    validation: Validation = "source"
    raw: dict[str, Any] = Field(default_factory=dict)
    parts: RunParts = Field(default=RunParts(), exclude=True)


class ForeignStep(Frozen):
    """One step of a run that has no environment here: what the system said, the user or the agent, or one call.

    `recorded` is what came of a call; of a `system` step that is an observation it is the text itself, in `content`.
    `details` is what the record says besides: its number, time, model, metrics, and what was left out of it.
    """

    kind: Literal["system", "user", "message", "call"]
    turn: int = 0
    content: str = ""
    reasoning: str = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    recorded: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class ForeignRun(Frozen):
    """A run that was recorded elsewhere, in an environment that is not here: it can be read, and not executed.

    `about` is what its record says of itself: format, agent, tools that were offered, metrics, what was left out.
    """

    title: str
    policy: str = ""
    conversational: bool = False
    steps: tuple[ForeignStep, ...]
    answer: str = ""
    about: dict[str, Any] = Field(default_factory=dict)
    raw: dict[str, Any] = Field(default_factory=dict)


class ToolSpec(Frozen):
    """A tool as a specification describes it: nothing runs. `parameters` is a JSON schema, a list of
    `{name, type, required}`, or None where the file had neither."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | list[Any] | None = None


class Workflow(Frozen):
    """A piece of work that requirements describe: its steps in order, and what else they say of it."""

    name: str
    about: str = ""
    steps: tuple[str, ...] = ()


class ThemeRecord(Frozen):
    """What an environment can be grown from: an MCP server's specification with its labels, a tool document, product
    requirements with their `workflows`. `tasks` are texts that came with a set of tools.

    `primary` is the label of the first level (empty where there is none), `secondary` are further labels of that
    level, the most fitting first; `custom` is a label of its own. `usage` counts calls, None where it is not known.
    """

    key: str
    name: str
    description: str = ""
    primary: str = ""
    secondary: tuple[str, ...] = ()
    custom: str = ""
    usage: int | None = None
    tools: tuple[ToolSpec, ...]
    workflows: tuple[Workflow, ...] = Field(default=(), exclude_if=lambda value: not value)
    tasks: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label once, the primary first."""
        return tuple(dict.fromkeys(label for label in (self.primary, *self.secondary, self.custom) if label))


class DocumentText(NamedTuple):
    """What a document says of one theme, before it has a key and labels."""

    title: str
    about: str
    tools: tuple[ToolSpec, ...]
    workflows: tuple[Workflow, ...] = ()
    tasks: tuple[str, ...] = ()


class Failure(Frozen):
    """A record that did not go in: where it stood and why."""

    place: str
    reason: str
