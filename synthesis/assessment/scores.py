"""Scores of an assessment: when it is decided, what its calls came to, and what they do not show."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from synthesis.assessment import call_plan, sequential_test
from synthesis.assessment.cases import turned_down
from synthesis.drafts import AssessmentDraft, ToolCase, ToolRate
from synthesis.prompts import hashes, prompt
from synthesis.stages import StageSettings


def decided(cases: Sequence[ToolCase], tools: int, settings: StageSettings, lost: int = 0) -> bool | None:
    """Whether the environment is kept, None while that is open. It is kept early only after as many calls as try every
    tool both ways, which by the plan they do; that it is dropped needs no more calls. A round that was `lost` is one of
    the planned ones."""
    failed = sum(case.verdict == "fail" for case in cases)
    return _decided(len(cases) - failed, failed, tools, settings, lost)


def rounds_left(cases: Sequence[ToolCase], tools: int, settings: StageSettings, lost: int = 0) -> int:
    """Return the least number of further calls after which the decision can be certain; 0 if it is."""
    failed = sum(case.verdict == "fail" for case in cases)
    sound = len(cases) - failed
    for more in range(settings.assessment_calls + 1):
        ends = ((sound + more, failed), (sound, failed + more))
        if any(_decided(*end, tools, settings, lost) is not None for end in ends):
            return more
    return 1


def _decided(sound: int, failed: int, tools: int, settings: StageSettings, lost: int) -> bool | None:
    made = sound + failed
    confidence = settings.assessment_confidence if settings.sequential else None
    planned, threshold = max(settings.assessment_calls - lost, made), settings.assessment_threshold
    if not planned:
        return None
    decision = sequential_test.decide(sound, failed, planned, threshold, confidence)
    return None if decision and made < min(call_plan.lap(tools) - lost, planned) else decision


def summary(
    cases: Sequence[ToolCase],
    tools: Sequence[str],
    settings: StageSettings,
    lost: Sequence[str] = (),
    testers: Collection[str] = ("test_call",),
) -> AssessmentDraft:
    """The scores of the calls that were made, and the rates of every tool, untried ones included. `testers` are the
    prompts by which testers were asked."""
    passed = sum(case.verdict == "pass" for case in cases)
    score = score_of(cases)
    used = [prompt("assessment", name) for name in ("test_state", *sorted(testers), "check_call")]
    return AssessmentDraft(
        cases=tuple(cases),
        rates=tuple(rate_of(tool, [case for case in cases if case.tool == tool]) for tool in tools),
        score=score,
        strict=passed / len(cases) if cases else 0.0,
        planned=settings.assessment_calls,
        lost=len(lost),
        saved=max(0, settings.assessment_calls - len(cases) - len(lost)),
        kept=score >= settings.assessment_threshold,
        threshold=settings.assessment_threshold,
        confidence=settings.assessment_confidence if settings.sequential else None,
        notes=tuple(notes_of(cases, tools, lost)),
        prompts=hashes(*used),
    )


def score_of(cases: Sequence[ToolCase]) -> float:
    """The share of calls without a fail."""
    return sum(case.verdict != "fail" for case in cases) / len(cases) if cases else 0.0


def rate_of(tool: str, cases: Sequence[ToolCase]) -> ToolRate:
    verdicts = [case.verdict for case in cases]
    ways = [case.case for case in cases]
    sound = [case.case for case in cases if case.verdict != "fail"]
    done = [case.case for case in cases if not turned_down(case.ok, case.result, case.patch)]
    return ToolRate(
        tool=tool,
        passed=verdicts.count("pass"),
        warned=verdicts.count("warning"),
        failed=verdicts.count("fail"),
        positive=ways.count("positive"),
        negative=ways.count("negative"),
        positive_sound=sound.count("positive"),
        positive_done=done.count("positive"),
        negative_sound=sound.count("negative"),
    )


def notes_of(cases: Sequence[ToolCase], tools: Sequence[str], lost: Sequence[str]) -> list[str]:
    """What a person should know before trusting the score."""
    notes: list[str] = []
    wrong_ones = [case for case in cases if case.case == "negative"]
    if not any(turned_down(case.ok, case.result, case.patch) for case in wrong_ones):
        notes.append("No call that should be refused was refused: nothing shows that the tools say no.")
    tried = {case.tool for case in cases}
    if len(tried) * 2 <= len(tools) and all(case.verdict == "pass" for case in cases):
        notes.append(f"Every verdict is a pass, and the calls try {len(tried)} of {len(tools)} tools.")
    if lost:
        rounds = f"{len(lost)} round{'s' * (len(lost) != 1)}"
        notes.append(f"{rounds} came to nothing, for want of a usable reply. The last: {lost[-1][:300]}")
    return notes
