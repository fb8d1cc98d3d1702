"""API schemas of edits and forecasts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from synthesis.contracts import AnswerType, Equality
from synthesis.contracts.verifier_kinds import MOST_ASSERTIONS, SCRIPT_CHARS
from synthesis.formats.answer_form import MOST_FIELDS
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, CallArguments, Id, Json, ShortText, Text
from webapp.edits.draft_body import (
    ANSWER_CHARS,
    CHECK_CHARS,
    INSTRUCTION_CHARS,
    LABEL_CHARS,
    MOST_CALLS,
    MOST_CHECKS,
    WHY_CHARS,
)


class EditOut(Schema):
    """A draft of a change, or a saved edit. `body` is what was typed."""

    id: int
    kind: Annotated[str, Field(description="program or task.")]
    state: Annotated[str, Field(description="draft, saved or dropped.")]
    environment_id: int
    version_id: Annotated[int, Field(description="The version that it is based on.")]
    tool: str
    task_id: int | None
    revision_id: Annotated[int | None, Field(description="The revision of a task that it is based on.")]
    body: Json
    serial: Annotated[int, Field(description="Grows with every write.")]
    why: str
    author: str
    by_model: Annotated[str, Field(description="The model that wrote it; empty if a person did.")]
    saved_version_id: int | None
    saved_revision_id: int | None
    updated_at: datetime

    @staticmethod
    def resolve_author(edit: Any) -> str:
        return edit.author if isinstance(edit.author, str) else str(edit.author.username)


class EditStart(BodyIn):
    """Object to edit: one of a tool, a version (its whole program) or a task."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"task": 1}]})

    tool: Id | None = None
    version: Id | None = None
    task: Id | None = None


class EditQuery(PageQuery):
    state: Annotated[Literal["", "draft", "saved", "dropped"], Field(description="Only in this state.")] = ""
    mine: Annotated[bool, Field(description="Only the caller's own.")] = False


class EditCheck(BodyIn):
    """A check that a person writes. Those of the answer form follow from it, and may be sent or left out."""

    label: Annotated[Text, Field(max_length=LABEL_CHARS)] = ""
    source: Annotated[Text, Field(max_length=CHECK_CHARS)]


class EditAnswerField(BodyIn):
    """One field of an answer form. Properties of other types are left out: `choices` belong to an enumeration, `items`
    and `ordered` to a list, `fields` to a record, `unit` and `tolerance` to numbers, amounts and durations (a time has
    a tolerance in minutes)."""

    name: Annotated[ShortText, Field(pattern=r"^[a-z][a-z0-9_]{0,49}$")]
    type: AnswerType = "text"
    description: Annotated[Text, Field(max_length=300, description="The description of it that the agent sees.")] = ""
    unit: Annotated[ShortText, Field(max_length=40)] = ""
    tolerance: Annotated[float, Field(ge=0, le=1e9)] = 0
    choices: Annotated[list[ShortText], Field(max_length=100)] = []
    items: EditAnswerField | None = None
    ordered: bool = False
    fields: Annotated[list[EditAnswerField], Field(max_length=MOST_FIELDS)] = []
    required: bool = True


class EditReferenceCall(BodyIn):
    tool: ShortText
    arguments: CallArguments = {}


class EditReference(BodyIn):
    """A call sequence that solves the task, and the answer that ends it."""

    calls: Annotated[list[EditReferenceCall], Field(max_length=MOST_CALLS)] = []
    answer: Annotated[
        Text,
        Field(max_length=ANSWER_CHARS, description="Words, or of a task with an answer form its fields as JSON."),
    ] = ""


class EditScript(BodyIn):
    """A verification script: `verify(answer, expected, initial_state, final_state)` returns a dict of its assertions,
    each true or false. The reward is 1 if all of them hold."""

    kind: Literal["script"]
    source: Annotated[Text, Field(max_length=SCRIPT_CHARS)]
    assertions: Annotated[list[ShortText], Field(min_length=1, max_length=MOST_ASSERTIONS)]


class EditChecks(BodyIn):
    """The checks in `checks`, scored by goals."""

    kind: Literal["checks"]


class EditBody(BodyIn):
    """The changed parts; parts that are left out do not change. `state` is an encoded initial state."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"instruction": "Lend four packets.", "why": "Clearer."}]}
    )

    tool_source: Annotated[Text | None, Field(description="Of one tool's draft: its source.")] = None
    source: Annotated[Text | None, Field(description="Of a whole program's draft.")] = None
    title: ShortText | None = None
    instruction: Annotated[Text, Field(max_length=INSTRUCTION_CHARS)] | None = None
    checks: Annotated[list[EditCheck], Field(max_length=MOST_CHECKS)] | None = None
    criteria: Annotated[
        list[Text] | None,
        Field(
            max_length=MOST_CHECKS,
            description="A line each: a fact for the judge, or what code decides, as `tolerance total: It is right.`",
        ),
    ] = None
    verifier: Annotated[
        EditChecks | EditScript | None,
        Field(discriminator="kind", description="Of a task that checks or a script judge: one of the two."),
    ] = None
    equality: Annotated[
        Equality | None,
        Field(description="Of a task that a golden state judges: how ends are compared with it. It is made anew."),
    ] = None
    answer_form: Annotated[
        list[EditAnswerField] | None,
        Field(max_length=MOST_FIELDS, description="The whole form: the checks that are made from it follow."),
    ] = None
    expected_answer: Annotated[
        dict[str, Json] | None,
        Field(description="The expected value of each field that is compared; a check of the task reads the others."),
    ] = None
    reference: EditReference | None = None
    state: dict[str, Json] | None = None
    why: Annotated[Text, Field(max_length=WHY_CHARS)] | None = None


class EditCaseOut(Schema):
    """A case of a tool, run on the draft."""

    case_id: int
    position: int
    verdict: Annotated[str, Field(description="What a checker said of it before: pass, warning or fail.")]
    counts_as: Annotated[str, Field(description="What it counted as before: by what people said, else by its checker.")]
    became: Annotated[str, Field(description="as before, as expected now, ..., in words.")]
    changed: bool
    expected: str


class EditCasesOut(Schema):
    """Results of running the cases of a tool on a draft; `not_run` had not begun when the time was over."""

    mended: int
    broken: int
    other: int
    same: int
    not_run: int
    seconds: float
    cases: list[EditCaseOut]


class ForecastRunOut(Schema):
    """An attempt with another reward; `after` is null if it could not be executed."""

    trajectory_id: int
    before: float | None
    after: float | None
    why: str


class ForecastTaskOut(Schema):
    """Effect of saving on one task. Unchanged attempts are not listed."""

    task_id: int
    audit_before: str
    audit_after: str
    audit_words: Annotated[str, Field(description="The first faults that the audit would find.")]
    approved: bool
    approval: Annotated[str, Field(description="carries, reopens, or empty if there is no decision on it.")]
    approval_why: str
    stored: int
    executed: int
    flips_up: int
    flips_down: int
    failure: str
    runs: list[ForecastRunOut]

    @staticmethod
    def resolve_runs(line: Any) -> Any:
        return line.runs if isinstance(line.runs, list) else list(line.runs.all())


class ForecastOut(Schema):
    """Effects of saving an edit. `holds` is true if draft, tasks and attempts are unchanged since."""

    edit_id: int
    state: Annotated[str, Field(description="working, ready or failed.")]
    why: str
    holds: bool
    tasks: int
    stored: int
    executed: int
    sampled: bool
    seconds: float | None
    golden_states: Annotated[int, Field(description="Golden states that are made anew by a changed program.")]
    datasets: Json
    lines: list[ForecastTaskOut]
