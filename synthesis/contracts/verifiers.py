"""Verifiers: verdicts, frames, rewards, and references known to solve a task."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from synthesis.contracts.base import Frozen

ScoreRule = Literal["goals", "proportion", "all", "golden"]
"""`goals`: the share of goals, 0 if a guard is broken; `proportion`: the share of all checks; `all`: 1 if all of a
rubric's criteria or a script's assertions hold, else 0; `golden`: 1 if the end state equals the golden state, else
0."""
AllowanceSource = Literal["reference", "author", "run", "person"]
"""Who allows a change: the reference makes it, the author declares it free, another solved run makes it, a person."""
Mark = Literal["goal", "guard", "broken"]
"""What a check is on the initial state: a goal is false there, a guard true, a broken one raises."""
SAME_REWARD = 1e-9
"""Rewards that differ by no more are one and the same, summed in another order."""
SOLVED_AT = 1 - SAME_REWARD


def is_same_reward(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_REWARD


class Verdict(Frozen):
    """Verdict of one check or criterion on one end. `error` is set if a check raised or was stopped; then `passed` is
    false.

    For a criterion `reason` explains the verdict, and `quote` is the evidence on which a judge bases it.
    """

    passed: bool
    error: str = ""
    non_boolean: bool = False
    reason: str = ""
    quote: str = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_doubts(cls, given: Any) -> Any:
        """Drop the fields on doubts of verdicts that were stored by earlier versions."""
        if isinstance(given, dict) and given.keys() & {"uncertain", "judged"}:
            return {name: value for name, value in given.items() if name not in ("uncertain", "judged")}
        return given

    @property
    def has_raised(self) -> bool:
        """True if the check gave no verdict: it raised or was stopped."""
        return bool(self.error) and not self.non_boolean


class Allowance(Frozen):
    """Place in the state that a right way to do a task may change, with its allowed values.

    `path` is a JSON Pointer through keys and ids of records: `/orders/O-3/status` and all below it. `*` matches any one
    key. As the last part `+` means records added to a collection, `-` records removed, `#` their order; `most` of them
    (None: any number); `/orders/+/note` is that field of any added record. It may become one of `values`, or a number
    from `minimum` to `maximum`; added and removed records are among `records` (id, content). Without all of these
    anything is right. A widened frame needs the `reason`; `by` is a person's name.
    """

    path: str = Field(min_length=2, max_length=600, pattern=r"^/")
    most: int | None = Field(default=None, ge=1, le=1_000_000)
    values: tuple[Any, ...] = Field(default=(), max_length=1_000)
    minimum: float | None = Field(default=None, allow_inf_nan=False)
    maximum: float | None = Field(default=None, allow_inf_nan=False)
    records: tuple[tuple[str, Any], ...] = Field(default=(), max_length=10_000)
    source: AllowanceSource = "reference"
    reason: str = Field(default="", max_length=500)
    by: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _require_consistent(self) -> Allowance:
        last = self.path.rpartition("/")[2]
        if last not in ("+", "-") and (self.most is not None or self.records):
            raise ValueError("only what is added (/+) or removed (/-) can be counted by `most` or named by `records`")
        if last in ("+", "-", "#") and self.has_value:
            raise ValueError("`values`, `minimum` and `maximum` are for a field, not for whole records")
        if self.source != "reference" and not self.reason.strip():
            raise ValueError("say in `reason` why a right way may change this")
        return self

    @property
    def has_value(self) -> bool:
        """True if the allowed values of a field are given."""
        return bool(self.values) or self.minimum is not None or self.maximum is not None

    @property
    def is_pinned(self) -> bool:
        """True if the allowed values or records are given."""
        return bool(self.records) or self.has_value

    @property
    def is_free(self) -> bool:
        """True if any content is allowed, in any number."""
        return self.most is None and not self.is_pinned


class Frame(Frozen):
    """All changes that a right way to do a task may make; any other change of the state breaks the task."""

    allowances: tuple[Allowance, ...] = Field(default=(), max_length=20_000)


class OutsideChange(Frozen):
    """Change that a frame does not allow, or difference of an end state from a golden one.

    `path` is the record's field, or the collection that `count` records were `added` to, `removed` from or `reordered`
    in. A place of kind `value` may change, but not to what was `found`. For a golden state `missing` are records that
    should have been added.
    """

    path: str
    kind: Literal["changed", "added", "removed", "reordered", "value", "missing"]
    count: int = 1
    expected: str = Field(default="", exclude_if=lambda value: not value)
    found: str = Field(default="", exclude_if=lambda value: not value)


class Reward(Frozen):
    """Result of a verifier: `reward` in [0, 1], the passed and total counts that made it, check by check.

    If `outside` (the first of the changes outside the task's frame) is not empty, the reward is 0. If a model judged,
    `judge` is its name and `question` the SHA-256 of the messages sent to it.
    """

    reward: float
    passed: int
    total: int
    rule: ScoreRule
    verdicts: tuple[Verdict, ...]
    outside: tuple[OutsideChange, ...] = ()
    judge: str = ""
    question: str = ""

    @property
    def mean(self) -> float:
        """The share that passed."""
        return self.passed / self.total if self.total else 0.0


class ReferenceCall(Frozen):
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Reference(Frozen):
    """Call sequence known to solve a task, and the final answer."""

    calls: tuple[ReferenceCall, ...] = ()
    answer: str = ""


class Withheld(Frozen):
    """Tool, or one parameter of it, that a variant of a task withholds from the agent.

    `solution` solves the task with it: the calls and the answer of a careless agent.
    """

    tool: str = Field(min_length=1, max_length=200)
    parameter: str = Field(default="", max_length=200)
    solution: Reference = Reference()

    @property
    def name(self) -> str:
        """`move_appointment`, or `add_dish(swaps)` for a parameter."""
        return f"{self.tool}({self.parameter})" if self.parameter else self.tool
