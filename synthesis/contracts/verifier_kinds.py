"""The four kinds of verifiers, distinguished by `kind`: checks, a golden state, a rubric, a verification script.

Each judges one end of an attempt: its final state and its answer. The answer form belongs to the task, not to its
verifier. `synthesis.verifiers.rewards` turns an end into a reward; a rubric also needs a judge.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from synthesis.contracts.base import Frozen, State
from synthesis.contracts.verifiers import Frame, Mark, ScoreRule

VerifierKind = Literal["checks", "golden", "rubric", "script"]
VolatileRole = Literal["id", "timestamp", "token", "counter"]
"""`id`: names a record, and is renamed everywhere it is referred to; `timestamp`: a moment, compared by presence and
type; `token`: a generated text or number, likewise; `counter`: a number that counts the records that were made."""
Dimension = Literal["completeness", "schema", "tolerance", "fact"]
"""What a criterion looks at. Code decides the first three over the answer form: whether the field was given, has its
type, is within its tolerance of the expected value. A judge decides facts."""
Equality = Literal["roles", "plain"]
"""How an end state is compared with the golden one: `roles` leaves volatile places out by their role, `plain` is
AutoForge's Eq. 1 as it is printed."""
MOST_ASSERTIONS = 50
SCRIPT_CHARS = 20_000
"""A longer verification script is refused."""
_ASSERTION = """\
{source}


def check_func(initial_state, final_state, answer):
    found = verify(read_answer(answer), {expected}, initial_state, final_state)
    names = {names}
    if not isinstance(found, dict) or sorted(found) != names:
        raise ValueError(f"verify must return a dict with the assertions {{names}}, not {{found!r:.300}}")
    return {decided}
"""


class CheckRecord(Frozen):
    """One check: a boolean function of the states and the answer. `label` describes it in words."""

    label: str = ""
    source: str


class Criterion(Frozen):
    """One criterion of a rubric. `field` is the field of the answer form that code reads; a fact has none."""

    text: str = Field(min_length=1, max_length=2_000)
    dimension: Dimension = "fact"
    field: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        """Read plain text, as records spell a fact."""
        return {"text": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _require_consistent(self) -> Criterion:
        if (self.dimension == "fact") == bool(self.field):
            raise ValueError("`field` names a field of the answer form for every dimension but `fact`")
        return self

    @property
    def record(self) -> str | dict[str, str]:
        """The criterion as spelled in records: plain text for a fact."""
        return self.text if self.dimension == "fact" else self.model_dump()


class Volatile(Frozen):
    """Place whose value may differ between two right runs, with the role that defines its comparison.

    `path` has the syntax of an `Allowance`'s: a JSON Pointer through keys and ids of records, `*` for any one key,
    `/orders/+/made_at` for a field of any added record, `/orders/+` with the role `id` for their ids. A place on a
    record that existed at the start must be added by a person, whose name is `by`.
    """

    path: str = Field(min_length=2, max_length=600, pattern=r"^/")
    role: VolatileRole
    reason: str = Field(default="", max_length=500)
    by: str = Field(default="", max_length=200)


class ChecksVerifier(Frozen):
    """Boolean checks over the end, scored by a rule, and a frame of allowed changes.

    `marks` are the roles of the checks at the start, None if they are still to be determined. Every kind has `checks`
    (evaluated in a sandbox), `marks`, `rule`, `frame` and `criteria`; those without use for a kind are constants.
    """

    kind: Literal["checks"] = "checks"
    checks: tuple[CheckRecord, ...] = ()
    marks: tuple[Mark, ...] | None = None
    rule: ScoreRule = "goals"
    frame: Frame | None = None
    criteria: ClassVar[tuple[Criterion, ...]] = ()


class GoldenVerifier(Frozen):
    """AutoForge's verifier (Eq. 1): 1 if and only if the end state equals the golden state, else 0.

    With `equality` `roles` the places in `volatile` are compared by role; ids are matched by one bijection that also
    renames references to them. `checks` are those made from the task's answer form, which must all hold as well.
    """

    kind: Literal["golden"] = "golden"
    state: State
    equality: Equality = "roles"
    volatile: tuple[Volatile, ...] = Field(default=(), max_length=2_000)
    checks: tuple[CheckRecord, ...] = ()
    marks: ClassVar[None] = None
    rule: ClassVar[ScoreRule] = "golden"
    frame: ClassVar[None] = None
    criteria: ClassVar[tuple[Criterion, ...]] = ()


class RubricVerifier(Frozen):
    """Agent-World's rubric (3.2.1 i): 1 if and only if all criteria are met; the mean is stored in addition."""

    kind: Literal["rubric"] = "rubric"
    criteria: tuple[Criterion, ...] = Field(min_length=1)
    expected_answer: dict[str, Any] = Field(default_factory=dict)
    checks: ClassVar[tuple[CheckRecord, ...]] = ()
    marks: ClassVar[None] = None
    rule: ClassVar[ScoreRule] = "all"
    frame: ClassVar[None] = None


class ScriptVerifier(Frozen):
    """Agent-World's verification script (3.1.1).

    `verify(answer, expected, initial_state, final_state)` returns named assertions as a dict of booleans; 1 if and only
    if all hold. A change outside `frame`, if there is one, earns 0. `assertions` are the names that it must return,
    each time.
    """

    kind: Literal["script"] = "script"
    source: str = Field(min_length=1, max_length=SCRIPT_CHARS)
    assertions: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        min_length=1, max_length=MOST_ASSERTIONS
    )
    expected_answer: dict[str, Any] = Field(default_factory=dict)
    frame: Frame | None = None
    marks: ClassVar[None] = None
    rule: ClassVar[ScoreRule] = "all"
    criteria: ClassVar[tuple[Criterion, ...]] = ()

    @property
    def checks(self) -> tuple[CheckRecord, ...]:
        """A check for each assertion, in their order."""
        sources = {name: self._spell(f"found[{name!r}]") for name in self.assertions}
        return tuple(CheckRecord(label=name, source=source) for name, source in sources.items())

    @property
    def joint_check(self) -> str:
        """The source of one check that holds if all assertions do."""
        return self._spell("all(held is True for held in found.values())")

    def _spell(self, decided: str) -> str:
        names = repr(sorted(self.assertions))
        parts = {"source": self.source, "expected": repr(self.expected_answer), "names": names, "decided": decided}
        return _ASSERTION.format_map(parts)

    @model_validator(mode="after")
    def _require_consistent(self) -> ScriptVerifier:
        if len(set(self.assertions)) < len(self.assertions):
            raise ValueError("two of its `assertions` have the same name")
        return self


Verifier = Annotated[ChecksVerifier | GoldenVerifier | RubricVerifier | ScriptVerifier, Field(discriminator="kind")]
