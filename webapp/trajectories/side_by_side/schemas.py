"""A comparison of attempts as the API shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.common.query_params import LARGEST_ID
from webapp.common.rest.types import ShortText
from webapp.common.templatetags.show import plain
from webapp.trajectories.models import Trajectory
from webapp.trajectories.schemas import TrajectoryLine
from webapp.trajectories.side_by_side.check_grid import CheckCell, CheckLine
from webapp.trajectories.side_by_side.table import Comparison, StepCell

LikenessName = Literal["same", "words", "result", "state", "arguments", "missing"]


class ComparisonQuery(Schema):
    ids: Annotated[ShortText, Field(description="Two to four attempts at one task, such as 12,15.", examples=["12,15"])]
    start: Annotated[int, Field(0, ge=0, le=LARGEST_ID, description="The first line of the table that is wanted.")]


class ComparedStepOut(Schema):
    """A step of one attempt: its call or its message, shortened; for a run of equal steps `step` to `last`.

    `differs` are the parts of the call that differ in another attempt. `result` is given if results differ or the call
    failed. `rises` and `falls` are the numbers of the checks that begin, and cease, to hold. Control characters and
    lone surrogates are escaped in every text.
    """

    trajectory_id: Annotated[int, Field(validation_alias="trajectory")]
    step: int
    last: int
    kind: str
    by: Annotated[str, Field(description="Whose call it is: the agent's (`agent`) or the simulated user's (`user`).")]
    text: str
    differs: list[str]
    error: str
    result: str
    changes: int
    rises: list[int]
    falls: list[int]

    @staticmethod
    def resolve_text(cell: StepCell) -> str:
        return plain(cell.text)

    @staticmethod
    def resolve_result(cell: StepCell) -> str:
        return plain(cell.result)

    @staticmethod
    def resolve_differs(cell: StepCell) -> list[str]:
        return [plain(piece.text) for piece in cell.pieces if piece.differs]


class AlignedLineOut(Schema):
    """Corresponding steps, one for each attempt in the order of the ids, null if an attempt has no such step.

    `count` equal lines are folded into one that is the `same`. `parting`: the attempts part here.
    """

    likeness: LikenessName
    count: int
    parting: Annotated[bool, Field(validation_alias="first")]
    steps: Annotated[list[ComparedStepOut | None], Field(validation_alias="cells")]


class ComparedVerdictOut(Schema):
    """The verdict of a check on one attempt; `since` is the step since which it holds, null if that is unknown."""

    trajectory_id: Annotated[int, Field(validation_alias="trajectory")]
    says: Literal["holds", "does not hold", "raised an error", "not judged"]
    since: int | None

    @staticmethod
    def resolve_says(cell: CheckCell) -> str:
        return cell.word


class ComparedCheckOut(Schema):
    """One check and its verdict on every attempt."""

    number: int
    mark: str
    text: str
    differs: bool
    verdicts: Annotated[list[ComparedVerdictOut], Field(validation_alias="cells")]

    @staticmethod
    def resolve_number(line: CheckLine) -> int:
        return line.label.number

    @staticmethod
    def resolve_mark(line: CheckLine) -> str:
        return line.label.mark

    @staticmethod
    def resolve_text(line: CheckLine) -> str:
        return line.label.text


class ComparedAttemptOut(TrajectoryLine):
    """One of the attempts, with the answer that it gave."""

    revision_id: int | None
    answer: str


class TrajectoryComparisonOut(Schema):
    """Attempts side by side: at most 300 lines of the table, from `start` on.

    `hidden_lines` follow; `uncompared_steps` of long attempts are left out.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task_id": 3,
                    "sentence": "They part at step 4: attempt 15 calls list_rooms() where attempt 12 has ended.",
                    "attempts": [],
                    "lines": [],
                    "start": 0,
                    "hidden_lines": 0,
                    "uncompared_steps": 0,
                    "checks": [],
                }
            ]
        }
    )

    task_id: int
    sentence: str
    attempts: list[ComparedAttemptOut]
    lines: list[AlignedLineOut]
    start: int
    hidden_lines: Annotated[int, Field(validation_alias="hidden")]
    uncompared_steps: Annotated[int, Field(validation_alias="uncompared")]
    checks: list[ComparedCheckOut]

    @staticmethod
    def resolve_task_id(found: Comparison) -> int:
        return found.attempts[0].attempted_task.pk

    @staticmethod
    def resolve_sentence(found: Comparison) -> str:
        return plain("".join(part.text for part in found.sentence))

    @staticmethod
    def resolve_attempts(found: Comparison) -> list[Trajectory]:
        return list(found.attempts)

    @staticmethod
    def resolve_lines(found: Comparison) -> list[Any]:
        return list(found.lines)

    @staticmethod
    def resolve_checks(found: Comparison) -> list[CheckLine]:
        return [*found.checks.differing, *found.checks.equal]
