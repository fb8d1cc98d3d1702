"""Runs of a tool's cases on a drafted program, without a model: which results differ, and which are flaky."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from synthesis.assessment.case_words import EXPECTED
from synthesis.assessment.cases import CallSetting, Outcome, execute_call
from synthesis.contracts import Program, is_refusal
from synthesis.errors import ProgramError, StateError
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import AT_ONCE, OTHER_NOW
from webapp.common.content_store import load_value
from webapp.environments.case_groups import COMPARISONS, compare_outcome
from webapp.environments.models import Assessment, CaseState, Tool, ToolCase, Version
from webapp.review.tools.person_verdicts import PersonVerdict, classify_case, find_person_verdicts

SECONDS = 4.5
"""Seconds for which cases are run for a page; cases not begun by then are reported."""
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
    """A case on the draft. `word` and `tone` describe its result; `outcome` is None if it was not run.

    `counts` is what the case counted as before: by the verdict of people, else by its checker; `said` is the people's
    label for it.
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
    """Results of running cases."""

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


def find_assessment(version: Version) -> Assessment | None:
    """Return the newest assessment of a version or else of an earlier one.

    Its cases name the calls to make, also if the program was changed since.
    """
    rows = Assessment.objects.filter(version__environment=version.environment_id, version__number__lte=version.number)
    return rows.select_related("version").order_by("-version__number", "-id").first()


def load_person_verdicts(version: int, tool: str = "") -> People:
    """Return the verdicts of people on the tools of a version, or on one of them."""
    rows = Tool.objects.filter(version=version, **({"name": tool} if tool else {}))
    names = dict(rows.values_list("pk", "name"))
    return {names[pk]: said for pk, said in find_person_verdicts(list(names)).items()}


def list_cases(
    assessment: Assessment | None, tool: str, people: People = NOBODY, *, failing: bool = False
) -> list[ToolCase]:
    """Return cases of a tool (of all tools without one) in an assessment, failed ones first; verdicts of people
    count."""
    if assessment is None:
        return []
    rows = assessment.cases.filter(tool=tool) if tool else assessment.cases.all()
    rows = rows.exclude(verdict="pass") if failing else rows
    counts = [(classify_case(row, people.get(row.tool)), row) for row in rows.order_by("position")[:MOST_CASES]]
    kept_pairs = [pair for pair in counts if not failing or pair[0] != "pass"]
    return [row for _, row in sorted(kept_pairs, key=lambda pair: ("fail", "warning", "pass").index(pair[0]))]


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
            state = load_value(CaseState, row.state_id)
            setting = CallSetting(state, row.seed, row.now)
            pending.append(threads.submit(_execute_case, sandbox, program, setting, row, began + seconds))
        runs = [_build_case_run(row, future, people) for row, future in zip(cases, pending, strict=False)]
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
    runs += [_build_unrun_case(row) for row in cases[len(runs) :]]
    return CaseRuns(tuple(_add_person_label(run, people) for run in runs), time.monotonic() - began)


def _add_person_label(run: CaseRun, people: People) -> CaseRun:
    person_verdict = people.get(run.case.tool)
    words = person_verdict.get_case_label(run.case) if person_verdict is not None and run.case.verdict != "pass" else ""
    return replace(run, counts=classify_case(run.case, person_verdict), said=words)


def _execute_case(
    sandbox: Sandbox, program: Program, setting: CallSetting, row: ToolCase, until: float
) -> Outcome | None:
    if time.monotonic() > until:
        return None
    return execute_call(sandbox, program, setting, row.tool, row.arguments)


def _build_case_run(row: ToolCase, future: Future[Outcome | None], people: People) -> CaseRun:
    try:
        outcome = future.result()
    except (ProgramError, StateError) as error:
        unbuilt = COMPARISONS["unbuilt"]
        return CaseRun(row, None, unbuilt.word, unbuilt.tone, unbuilt.sign, str(error)[:500])
    return _judge_outcome(row, outcome, people) if outcome is not None else _build_unrun_case(row)


def _build_unrun_case(row: ToolCase) -> CaseRun:
    return CaseRun(row, None, "not run yet: the time was over", "warn", "…")


def _judge_outcome(row: ToolCase, outcome: Outcome, people: People) -> CaseRun:
    """Compare an outcome with the one that the case's verdict was given on.

    A verdict holds only for that outcome. For another one only the tester's expectation is known, and not even that if
    people decided that the tester or the checker was wrong.
    """
    name = compare_outcome(row, outcome)
    if name != "same" and row.verdict != "pass" and classify_case(row, people.get(row.tool)) == "pass":
        return CaseRun(row, outcome, "people took the result before for right; this is another", "warn", "≠")
    comparison = COMPARISONS[name]
    return CaseRun(row, outcome, comparison.word, comparison.tone, comparison.sign)


@dataclass(frozen=True)
class Flakiness:
    """A case whose outcome differs between runs, and how."""

    case: ToolCase
    why: str


def find_flaky_cases(
    sandbox: Sandbox, program: Program, cases: Sequence[ToolCase], seconds: float = SECONDS
) -> tuple[list[Flakiness], int]:
    """Return (the cases that differ between runs, how many were run).

    Each runs several times in the same way, then at other moments and with other seeds. Raises SandboxUnavailable and
    SandboxLost.
    """
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pending = []
        for row in cases:
            if time.monotonic() > until:
                break
            state = load_value(CaseState, row.state_id)
            pending.append(threads.submit(_describe_flakiness, sandbox, program, row, state, until))
        reasons = [future.result() for future in pending]
    differing = [Flakiness(row, why) for row, why in zip(cases, reasons, strict=False) if why]
    return differing, sum(why is not None for why in reasons)


def _describe_flakiness(sandbox: Sandbox, program: Program, row: ToolCase, state: Any, until: float) -> str | None:
    """Return how runs of a case differ; empty if they do not, None if the time was over before it began."""
    if time.monotonic() > until:
        return None

    def run_case(seed: int, now: str) -> Outcome:
        return execute_call(sandbox, program, CallSetting(state, seed, now), row.tool, row.arguments)

    def is_refused(outcome: Outcome) -> bool:
        return is_refusal(outcome.ok, outcome.result)

    try:
        first = run_case(row.seed, row.now)
        if any(run_case(row.seed, row.now).digest != first.digest for _ in range(REPEATS - 1)):
            return f"{REPEATS} runs with the same seed and clock differ"
        if any(is_refused(run_case(row.seed, now)) != is_refused(first) for now in OTHER_MOMENTS):
            return "refused at one moment, carried out at another"
        if any(is_refused(run_case(row.seed + more, row.now)) != is_refused(first) for more in OTHER_SEEDS):
            return "refused with one seed, carried out with another"
    except (ProgramError, StateError):
        return ""
    return ""
