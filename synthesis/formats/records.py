"""Records that importers pass to the web app, common to all file formats.

A record is parsed strictly in meaning and leniently in form; `raw` is the record as read (without the data that has a
column of its own), so that an export equals the import.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    Actor,
    AnswerField,
    CallError,
    ChecksVerifier,
    Consistency,
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
    """Tool of an environment. `raw_schema` is the parameter schema as imported; None if the file had none for this
    tool.
    """

    name: str
    description: str = ""
    kind: ToolKind = "query"
    raw_schema: dict[str, Any] | None = None


SourceName = Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9_.-]*$")]
VariantName = Annotated[str, Field(max_length=20, pattern=r"^[a-z_]*$")]


class EnvironmentParts(Frozen):
    """Additional data of an environment in exports of this site: see `own_parts.py`."""

    source: SourceName = ""
    key: str = Field(default="", max_length=200)
    name: str = ""
    tools: tuple[ToolRecord, ...] = ()
    current: bool = True
    variant: VariantName = ""


class TaskParts(Frozen):
    """Additional data of a task in exports of this site.

    `version` and `revision` are content hashes; with `state_apart` the task's is that of the record without the initial
    state. `variant` is the pipeline that made it.
    """

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
    variant: VariantName = ""
    consistency: Consistency | None = None


class RefusedStep(Frozen):
    """Call of an attempt made here that never reached the environment; `index` counts all steps of the run."""

    index: int = Field(ge=0)
    turn: int = Field(ge=0)
    content: str = ""
    reasoning: str = ""
    tool: str = Field(default="", max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)
    observation: str = ""
    error: CallError
    by: Actor = Field(default="agent", exclude_if=lambda value: value == "agent")


class RunParts(Frozen):
    """Additional data of a run in exports of this site.

    `identity` distinguishes attempts with equal records. `revision` is the content hash of the attempted task. Without
    `judged` the run was not judged and is not judged on import: a lost attempt has no reward. `score` has the verdicts
    of a judge, who is not asked again. `turns` are those of all steps, if the format numbers them differently.
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
    """EnvScaler "scenario": our scenario (initial state) and task (instruction, verifier) in one.

    The content excludes the reference, the `variant` of the pipeline that made the task and the `consistency` of the
    solver's runs; it includes the frame that was derived from the reference. Without a frame anything that no check
    reads may change. A task with an `answer_form` requires its fields to be submitted; `expected_answer` holds their
    expected values, and its verifier includes the checks made from them. With `withheld` it is a variant of a task that
    needs the parts removed here.
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
    variant: VariantName = ""
    consistency: Consistency | None = None
    raw: dict[str, Any] = Field(default_factory=dict)
    parts: TaskParts = Field(default=TaskParts(), exclude=True)


class RunStep(Frozen):
    """One step of a recorded run. `recorded` is the observation text that the agent saw after a call.

    `turn` numbers the assistant's turns: calls of one parallel turn share it. `problem` is the reason why the agent's
    text is not a readable call: it never reached the environment, and a replay skips it. A replay also skips a
    submitted answer, a call that is not `executed`. `cut` is the reason why an attempt made here was aborted in that
    turn; no format of runs has it. `injected` is the disturbance of the call, which a replay repeats.
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
    by: Actor = Field(default="agent", exclude_if=lambda value: value == "agent")
    """Whose call it is. One of the simulated user's is executed by a replay as any other."""
    refused: CallError | None = Field(default=None, exclude=True)
    """Why this site refused the call when the attempt was made; a replay says the same again."""


class RunRecord(Frozen):
    """Recorded attempt. `recorded_reward` is the reward of its own system; None if it gave none."""

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
    """One step of a run that has no environment here: a message of the system, the user or the agent, or one call.

    `recorded` is the result of a call; a `system` step that is an observation has its text in `content`. `details` are
    further data of the record: its number, time, model, metrics, and the parts omitted from it.
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
    """Run recorded elsewhere, in an environment that does not exist here: it can be read, but not executed.

    `about` holds the metadata of its record: format, agent, offered tools, metrics, omitted parts.
    """

    title: str
    policy: str = ""
    conversational: bool = False
    steps: tuple[ForeignStep, ...]
    answer: str = ""
    about: dict[str, Any] = Field(default_factory=dict)
    raw: dict[str, Any] = Field(default_factory=dict)


class ToolSpec(Frozen):
    """Tool as a specification describes it, without code. `parameters` is a JSON schema, a list of `{name, type,
    required}`, or None if the file had neither.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] | list[Any] | None = None


class Workflow(Frozen):
    """Workflow that requirements describe: its steps in order, and further text about it."""

    name: str
    about: str = ""
    steps: tuple[str, ...] = ()


class ThemeRecord(Frozen):
    """Source of an environment: an MCP server's specification with its labels, a tool document, or product requirements
    with their `workflows`. `tasks` are texts that came with a set of tools.

    `primary` is the label of the first level (empty if unknown), `secondary` are further labels of that level, the most
    fitting first; `custom` is a label of its own. `usage` counts calls, None if it is not known.
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
    """Content of a document about one theme, before it has a key and labels."""

    title: str
    about: str
    tools: tuple[ToolSpec, ...]
    workflows: tuple[Workflow, ...] = ()
    tasks: tuple[str, ...] = ()


class Failure(Frozen):
    """Record that was not imported: its place and the reason."""

    place: str
    reason: str
