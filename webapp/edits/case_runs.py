"""Runs of a tool's cases on a drafted program, without a model: which come out otherwise, and which are flaky."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from synthesis.assessment.case_words import EXPECTED
from synthesis.assessment.cases import CallSetting, Outcome, execute
from synthesis.contracts import Program, is_refusal
from synthesis.errors import ProgramError, StateError
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE, OTHER_NOW
from webapp.content_store import load
from webapp.environments.case_groups import COMPARISONS, compare_outcome
from webapp.environments.models import Assessment, CaseState, Tool, ToolCase, Version
from webapp.review.tools.person_verdicts import PersonVerdict, counts_as, person_verdicts

SECONDS = 4.5
"""So long cases are run for a page; what was not begun by then is said."""
MOST_CASES = 200
REPEATS = 3
OTHER_SEEDS = range(1_000_003, 1_000_009)
"""Added to a case's seed. One other seed would miss every second tool that tosses a coin, six miss one in 64."""
OTHER_MOMENTS = (OTHER_NOW, "2024-02-29T23:59:00+00:00")


People = Mapping[str, PersonVerdict]
"""What people settled, by the name of a tool."""
NOBODY: People = {}


@dataclass(frozen=True)
class CaseRun:
    """A case on the draft. `word` and `tone` say what became of it; `outcome` is None where it was not run.

    `counts` is what the case counted as before: what people made of it, else its checker; `said` is their word for it.
    """

    case: ToolCase
    outcome: Outcome | None
    word: str
    tone: str
    sign: str
    failure: str = ""
    counts: str = ""
    said: str = ""

    @property
    def expected(self) -> str:
        return EXPECTED[self.case.case]

    @property
    def changed(self) -> bool:
        return self.sign in ("→ ✓", "→ ✕", "≠")


@dataclass(frozen=True)
class CaseRuns:
    """What running cases came to."""

    runs: tuple[CaseRun, ...]
    seconds: float

    def _count(self, *signs: str) -> int:
        return sum(run.sign in signs for run in self.runs)

    @property
    def mended(self) -> int:
        return self._count("→ ✓")

    @property
    def broken(self) -> int:
        return self._count("→ ✕")

    @property
    def other(self) -> int:
        return self._count("≠")

    @property
    def same(self) -> int:
        return self._count("=")

    @property
    def not_run(self) -> int:
        return self._count("…")

    @property
    def cases(self) -> frozenset[int]:
        """Primary keys of the cases that were to run."""
        return frozenset(run.case.pk for run in self.runs)

    @property
    def ran(self) -> int:
        return len(self.runs) - self.not_run


def assessment_of(version: Version) -> Assessment | None:
    """The newest assessment of a version, else of the newest earlier one that was assessed: its cases say what to call,
    also where the program was changed since."""
    rows = Assessment.objects.filter(version__environment=version.environment_id, version__number__lte=version.number)
    return rows.select_related("version").order_by("-version__number", "-id").first()


def people_of(version: int, tool: str = "") -> People:
    """What people settled about the tools of a version, or about one of them."""
    rows = Tool.objects.filter(version=version, **({"name": tool} if tool else {}))
    names = dict(rows.values_list("pk", "name"))
    return {names[pk]: said for pk, said in person_verdicts(list(names)).items()}


def cases_of(
    assessment: Assessment | None, tool: str, people: People = NOBODY, *, failing: bool = False
) -> list[ToolCase]:
    """Cases of a tool (of all tools without one) in an assessment, those that failed first; people's word counts."""
    if assessment is None:
        return []
    rows = assessment.cases.filter(tool=tool) if tool else assessment.cases.all()
    rows = rows.exclude(verdict="pass") if failing else rows
    counts = [(counts_as(row, people.get(row.tool)), row) for row in rows.order_by("position")[:MOST_CASES]]
    kept = [pair for pair in counts if not failing or pair[0] != "pass"]
    return [row for _, row in sorted(kept, key=lambda pair: ("fail", "warning", "pass").index(pair[0]))]


def run_cases(
    sandbox: Sandbox,
    program: Program,
    cases: Sequence[ToolCase],
    people: People = NOBODY,
    seconds: float = SECONDS,
) -> CaseRuns:
    """Make each case's call on the draft. Raises SandboxUnavailable and SandboxLost."""
    began = time.monotonic()
    threads, pending = ThreadPoolExecutor(AT_ONCE), []
    try:
        for row in cases:
            if time.monotonic() - began > seconds:
                break
            state = load(CaseState, row.state_id)
            setting = CallSetting(state, row.seed, row.now)
            pending.append(threads.submit(_one, sandbox, program, setting, row, began + seconds))
        runs = [_run(row, future, people) for row, future in zip(cases, pending, strict=False)]
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
    runs += [_not_run(row) for row in cases[len(runs) :]]
    return CaseRuns(tuple(_with_people(run, people) for run in runs), time.monotonic() - began)


def _with_people(run: CaseRun, people: People) -> CaseRun:
    said = people.get(run.case.tool)
    words = said.label_of(run.case) if said is not None and run.case.verdict != "pass" else ""
    return replace(run, counts=counts_as(run.case, said), said=words)


def _one(sandbox: Sandbox, program: Program, setting: CallSetting, row: ToolCase, until: float) -> Outcome | None:
    if time.monotonic() > until:
        return None
    return execute(sandbox, program, setting, row.tool, row.arguments)


def _run(row: ToolCase, future: Future[Outcome | None], people: People) -> CaseRun:
    try:
        outcome = future.result()
    except (ProgramError, StateError) as error:
        unbuilt = COMPARISONS["unbuilt"]
        return CaseRun(row, None, unbuilt.word, unbuilt.tone, unbuilt.sign, str(error)[:500])
    return _judged(row, outcome, people) if outcome is not None else _not_run(row)


def _not_run(row: ToolCase) -> CaseRun:
    return CaseRun(row, None, "not run yet: the time was over", "warn", "…")


def _judged(row: ToolCase, outcome: Outcome, people: People) -> CaseRun:
    """A verdict holds for what it was given on. Of another outcome only the tester's expectation is known, and not
    even that where people said that the tester or the checker was wrong."""
    name = compare_outcome(row, outcome)
    if name != "same" and row.verdict != "pass" and counts_as(row, people.get(row.tool)) == "pass":
        return CaseRun(row, outcome, "people took the result before for right; this is another", "warn", "≠")
    found = COMPARISONS[name]
    return CaseRun(row, outcome, found.word, found.tone, found.sign)


@dataclass(frozen=True)
class Flakiness:
    """A case that is not the same each time, and how."""

    case: ToolCase
    why: str


def flaky_cases(
    sandbox: Sandbox, program: Program, cases: Sequence[ToolCase], seconds: float = SECONDS
) -> tuple[list[Flakiness], int]:
    """(the cases that differ between runs, how many were run): several times the same, at other moments, with other
    seeds. Raises SandboxUnavailable and SandboxLost."""
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pending = []
        for row in cases:
            if time.monotonic() > until:
                break
            state = load(CaseState, row.state_id)
            pending.append(threads.submit(_flaky, sandbox, program, row, state, until))
        found = [future.result() for future in pending]
    differing = [Flakiness(row, why) for row, why in zip(cases, found, strict=False) if why]
    return differing, sum(why is not None for why in found)


def _flaky(sandbox: Sandbox, program: Program, row: ToolCase, state: Any, until: float) -> str | None:
    """How runs of a case differ; empty where they do not, None where the time was over before it was begun."""
    if time.monotonic() > until:
        return None

    def made(seed: int, now: str) -> Outcome:
        return execute(sandbox, program, CallSetting(state, seed, now), row.tool, row.arguments)

    def refused(outcome: Outcome) -> bool:
        return is_refusal(outcome.ok, outcome.result)

    try:
        first = made(row.seed, row.now)
        if any(made(row.seed, row.now).digest != first.digest for _ in range(REPEATS - 1)):
            return f"{REPEATS} runs with the same seed and clock differ"
        if any(refused(made(row.seed, now)) != refused(first) for now in OTHER_MOMENTS):
            return "refused at one moment, carried out at another"
        if any(refused(made(row.seed + more, row.now)) != refused(first) for more in OTHER_SEEDS):
            return "refused with one seed, carried out with another"
    except (ProgramError, StateError):
        return ""
    return ""
