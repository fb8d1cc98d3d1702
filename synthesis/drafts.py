"""Drafts that stages hand to each other: frozen, JSON-shaped, stored whole as a stage's output.

Nothing here has a database row yet. A draft becomes data only when its item has passed every stage.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    Allowance,
    AnswerField,
    Attempt,
    Blueprint,
    CheckRecord,
    ChecksVerifier,
    Consistency,
    Difficulty,
    Frame,
    Frozen,
    GoldenVerifier,
    Outcome,
    Reference,
    RubricVerifier,
    ScoreRule,
    ScriptVerifier,
    State,
    ToolKind,
    Usage,
)
from synthesis.formats.records import EnvironmentRecord, ToolSpec, Workflow

ThemeOrigin = Literal["tasks", "servers", "documents", "requirements", "typed", "scripted"]
CaseKind = Literal["positive", "negative"]
TesterKind = Literal["planned", "free"]
CallVerdict = Literal["pass", "warning", "fail"]


class ThemeDraft(Frozen):
    """A theme as environments are grown from it. `origin_text` is its source text (a task, a specification).

    `workflows` are those of product requirements, `tasks` those that came with a set of tools.
    """

    key: str
    name: str
    description: str
    category: str = ""
    origin: ThemeOrigin = "typed"
    origin_text: str = ""
    tools: tuple[ToolSpec, ...] = ()
    workflows: tuple[Workflow, ...] = Field(default=(), exclude_if=lambda value: not value)
    tasks: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)


class EntityPlan(Frozen):
    """One kind of record in the state (EnvScaler's level 1); `attributes` are its fields (level 2)."""

    entity: str
    attributes: tuple[str, ...]
    description: str = ""


class TimePlan(Frozen):
    """Time in a plan: the numbers of the `rules` that depend on the current day, the attribute that it is `kept_in`,
    when something falls `due`, and the query that returns that day (`told_by`). Empty if no rule depends on it.
    """

    rules: tuple[int, ...] = ()
    kept_in: str = ""
    due: str = ""
    told_by: str = ""


class OperationPlan(Frozen):
    """One tool as it is planned, before there is code. `rules` are the numbers, from 1, of those that it implements or
    shows. `parameters` is the schema of its arguments if a tool document fixes it (AutoForge 3.1).
    """

    name: str
    description: str
    kind: ToolKind
    rules: tuple[int, ...] = ()
    parameters: dict[str, Any] | None = None


class Plan(Frozen):
    """The logic plan of an environment (ES 3.2): description, state space, rules, operations.

    `dropped` are rules that were left out, because no operation could implement or show them.
    """

    name: str
    introduction: str
    category: str = ""
    entities: tuple[EntityPlan, ...]
    rules: tuple[str, ...]
    operations: tuple[OperationPlan, ...]
    time: TimePlan = Field(default_factory=TimePlan)
    dropped: tuple[str, ...] = ()


class CodeDraft(Frozen):
    """Fragments as the author wrote them: class attributes (imports and types included), one method per operation.

    `refused` are the faults of fragments that had to be requested again.
    """

    class_name: str
    attributes: str
    methods: tuple[str, ...]
    refused: tuple[str, ...] = ()


class AssembledProgram(Frozen):
    """A program that passed the static check. `invalid_before_repair` lists the faults of the first version,
    `disagreements` the names on which its methods still do not agree.
    """

    record: EnvironmentRecord
    invalid_before_repair: tuple[str, ...] = ()
    repairs: int = 0
    disagreements: tuple[str, ...] = ()


class ToolCase(Frozen):
    """One call of an assessment with its verdict; it re-runs without an LLM from `state` (encoded, before the call).

    `result` and `patch` are what the runtime gave (encoded; RFC 6902), `digest` their hash together with `ok` and
    `error`. With `cut` result or patch were too large to keep and are left out.
    """

    tool: str
    arguments: dict[str, Any]
    case: CaseKind
    expectation: str = ""
    """What the tester expected, in its own words."""
    state: State
    ok: bool
    result: Any = None
    error: str = ""
    patch: tuple[dict[str, Any], ...] = ()
    verdict: CallVerdict
    reason: str = ""
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW
    digest: str = ""
    cut: bool = False


class ToolRate(Frozen):
    """Verdicts on one tool; of its positive and negative calls `positive_sound` and `negative_sound` did not fail.

    `positive_done` of the positive calls succeeded (None: not counted). The others were refused, which may be sound,
    but does not show what the tool does when it works.
    """

    tool: str
    passed: int = 0
    warned: int = 0
    failed: int = 0
    positive: int = 0
    negative: int = 0
    positive_sound: int = 0
    positive_done: int | None = None
    negative_sound: int = 0


class FailedCall(Frozen):
    """A call that failed before its tool was repaired. With `cut` its result was too large to keep."""

    case: CaseKind
    expectation: str = ""
    arguments: dict[str, Any]
    ok: bool
    result: Any = None
    error: str = ""
    reason: str = ""
    cut: bool = False


class ToolRepair(Frozen):
    """Result of repairing a failed tool: `source` is the method as it is kept, `before` its verdicts when it first
    failed and `reason` the first of these, `after` its final verdicts (None: it was removed). A tool that is `cleared`
    stayed as it was: asked again, the checker withdrew the fail. `source_before` is the method when it first failed,
    `failed_before` are the calls that failed then.
    """

    tool: str
    outcome: Literal["repaired", "cleared", "removed", "broken"]
    tries: int = 0
    before: ToolRate
    after: ToolRate | None = None
    reason: str = ""
    source: str = ""
    source_before: str = ""
    failed_before: tuple[FailedCall, ...] = ()


class AssessmentDraft(Frozen):
    """The dual-agent assessment of a program (ES 3.3): `score` = (pass + warning) / N as released, `strict` = pass / N.

    N is the number of calls made. `planned` is what N would be without the sequential test, which decided at
    `confidence` (None: it was not used) and saved `saved` calls; `lost` rounds gave no usable reply. `notes` name what
    the calls do not show. `prompts` maps the prompts used to their SHA-256: `assessment/choose_call` if the tester
    chose tool and case itself, `assessment/test_call` if they were given. If tools failed, `repairs` are the results of
    their repairs and `first_score` is the score before; `program` is the program from then on, if it was changed.
    """

    cases: tuple[ToolCase, ...]
    rates: tuple[ToolRate, ...]
    score: float
    strict: float
    planned: int
    saved: int = 0
    lost: int = 0
    kept: bool
    threshold: float
    confidence: float | None = None
    notes: tuple[str, ...] = ()
    prompts: dict[str, str] = Field(default_factory=dict)
    repairs: tuple[ToolRepair, ...] = ()
    first_score: float | None = None
    program: AssembledProgram | None = None


class ScenarioDraft(Frozen):
    """An initial state from which the program was constructed, with a short name. `state` is plain JSON. With a
    `blueprint` it was made for the one task that is written from it.
    """

    name: str
    state: dict[str, Any]
    blueprint: Blueprint | None = None


UnkeptReason = Literal["over_the_most", "too_large", "cannot_be_stored"]
"""Why of a solver's run nothing but its outcome is kept: it was one more than are kept, too much text, or text that is
no Unicode."""


class SolverRun(Frozen):
    """One of the teacher's runs among which a task's reference was searched, as judged by the finished task.

    Without `attempt` only the outcome is kept, and `unkept` is the reason. Its times are left out: the same replies
    must give the same draft.
    """

    ordinal: int
    outcome: Outcome
    attempt: Attempt | None = None
    unkept: UnkeptReason | Literal[""] = ""


class ScriptRound(Frozen):
    """A round in which a script of a programmatic task was tried: with a `fault`, which was reported to the author, or
    without, if it was kept.
    """

    script: Literal["solution", "verification"]
    fault: str = ""


class StoredProgram(Frozen):
    """Part of a task's record about the program that it was made by: fields as in `TaskDraft`. Tasks from before rounds
    and siblings were kept have none, and their `consistency` is here as well.
    """

    model_config = ConfigDict(extra="ignore")

    solution: str
    rounds: tuple[ScriptRound, ...] = ()
    siblings: tuple[str, ...] = ()


class TaskDraft(Frozen):
    """A task on its way: fields are filled from stage to stage. `notes` are remarks for people, `runs` the teacher's
    runs known to the stage.

    With an `answer_form` the agent submits its fields; `expected_answer` holds their expected values, and `checks` hold
    those made from them too. A task that is written from a `blueprint` has a `golden` state in place of checks; its
    instruction was refined from the `intent`, and `leaked` are words of it that were refused as names of the system. A
    programmatic task has the `solution` whose calls are its reference and whose result is its expected answer, and a
    verification `script` in place of checks; `rounds` record how both were debugged, `siblings` are answers that are
    right in other states and that the script had to block. A task of a walk has a `rubric`; `derivation` is the code
    that computes its expected answer from the results of its blueprint's calls, and `intent` the draft of its words.
    """

    title: str
    instruction: str
    answer_form: tuple[AnswerField, ...] = ()
    expected_answer: dict[str, Any] = Field(default_factory=dict)
    checklist: tuple[str, ...] = ()
    checks: tuple[CheckRecord, ...] = ()
    rule: ScoreRule = "goals"
    reference: Reference | None = None
    free: tuple[Allowance, ...] = ()
    """What the author declares free to change."""
    other_ways: bool = False
    """Whether the author lets other solved runs widen the frame."""
    frame: Frame | None = None
    notes: tuple[str, ...] = ()
    runs: tuple[SolverRun, ...] = ()
    blueprint: Blueprint | None = None
    golden: GoldenVerifier | None = None
    intent: str = ""
    leaked: tuple[str, ...] = ()
    solution: str = ""
    script: ScriptVerifier | None = None
    rubric: RubricVerifier | None = None
    derivation: str = ""
    rounds: tuple[ScriptRound, ...] = ()
    siblings: tuple[str, ...] = ()
    consistency: Consistency | None = None
    difficulty: Difficulty | None = None
    """As it came out, whatever was asked for."""

    @property
    def verifier(self) -> ChecksVerifier | GoldenVerifier | RubricVerifier | ScriptVerifier:
        """The verifier as far as it is written."""
        if self.golden is not None:
            return self.golden
        if self.rubric is not None:
            return self.rubric
        if self.script is not None:
            return self.script.model_copy(update={"frame": self.frame})
        return ChecksVerifier(checks=self.checks, rule=self.rule, frame=self.frame)


class FilterCount(Frozen):
    """Number of trajectories that one filter saw and dropped."""

    name: str
    seen: int
    dropped: int


class StageUsage(Frozen):
    """Usage of a stage. `cost` is the known part: `unpriced` replies have an unknown cost."""

    usage: Usage = Field(default_factory=Usage)
    cost: float = 0.0
    unpriced: int = 0
    replayed: int = 0
    seconds: float = 0.0

    def __add__(self, other: StageUsage) -> StageUsage:
        return StageUsage(
            usage=self.usage + other.usage,
            cost=self.cost + other.cost,
            unpriced=self.unpriced + other.unpriced,
            replayed=self.replayed + other.replayed,
            seconds=self.seconds + other.seconds,
        )
