"""Scores of an assessment: its decision, the summary of its calls, and the limits of their evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from synthesis.assessment import call_plan, sequential_test
from synthesis.assessment.cases import is_refused_call
from synthesis.drafts import AssessmentDraft, ToolCase, ToolRate
from synthesis.prompts import get_prompt, map_prompt_hashes
from synthesis.stages import StageSettings


def decide_assessment(cases: Sequence[ToolCase], tools: int, settings: StageSettings, lost: int = 0) -> bool | None:
    """Return whether the environment is kept, None while that is open.

    It is kept early only after as many calls as try every tool both ways, which they do by the plan; a drop needs no
    more calls. A `lost` round counts as a planned one.
    """
    failed = sum(case.verdict == "fail" for case in cases)
    return _decide_counts(len(cases) - failed, failed, tools, settings, lost)


def count_rounds_left(cases: Sequence[ToolCase], tools: int, settings: StageSettings, lost: int = 0) -> int:
    """Return the least number of further calls after which the decision can be certain; 0 if it is."""
    failed = sum(case.verdict == "fail" for case in cases)
    sound = len(cases) - failed
    for further_calls in range(settings.assessment_calls + 1):
        ends = ((sound + further_calls, failed), (sound, failed + further_calls))
        if any(_decide_counts(*end, tools, settings, lost) is not None for end in ends):
            return further_calls
    return 1


def _decide_counts(sound: int, failed: int, tools: int, settings: StageSettings, lost: int) -> bool | None:
    call_count = sound + failed
    confidence = settings.assessment_confidence if settings.sequential else None
    planned, threshold = max(settings.assessment_calls - lost, call_count), settings.assessment_threshold
    if not planned:
        return None
    decision = sequential_test.decide_by_counts(sound, failed, planned, threshold, confidence)
    return None if decision and call_count < min(call_plan.count_lap_calls(tools) - lost, planned) else decision


def summarize_assessment(
    cases: Sequence[ToolCase],
    tools: Sequence[str],
    settings: StageSettings,
    lost: Sequence[str] = (),
    testers: Collection[str] = ("test_call",),
) -> AssessmentDraft:
    """Return the scores of the calls that were made, and the rates of every tool, including untried ones.

    `testers` are the prompts by which testers were asked.
    """
    passed = sum(case.verdict == "pass" for case in cases)
    score = compute_score(cases)
    used = [get_prompt("assessment", name) for name in ("test_state", *sorted(testers), "check_call")]
    return AssessmentDraft(
        cases=tuple(cases),
        rates=tuple(compute_tool_rate(tool, [case for case in cases if case.tool == tool]) for tool in tools),
        score=score,
        strict=passed / len(cases) if cases else 0.0,
        planned=settings.assessment_calls,
        lost=len(lost),
        saved=max(0, settings.assessment_calls - len(cases) - len(lost)),
        kept=score >= settings.assessment_threshold,
        threshold=settings.assessment_threshold,
        confidence=settings.assessment_confidence if settings.sequential else None,
        notes=tuple(build_notes(cases, tools, lost)),
        prompts=map_prompt_hashes(*used),
    )


def compute_score(cases: Sequence[ToolCase]) -> float:
    """Return the share of calls without a fail."""
    return sum(case.verdict != "fail" for case in cases) / len(cases) if cases else 0.0


def compute_tool_rate(tool: str, cases: Sequence[ToolCase]) -> ToolRate:
    verdicts = [case.verdict for case in cases]
    case_kinds = [case.case for case in cases]
    sound = [case.case for case in cases if case.verdict != "fail"]
    accepted_kinds = [case.case for case in cases if not is_refused_call(case.ok, case.result, case.patch)]
    return ToolRate(
        tool=tool,
        passed=verdicts.count("pass"),
        warned=verdicts.count("warning"),
        failed=verdicts.count("fail"),
        positive=case_kinds.count("positive"),
        negative=case_kinds.count("negative"),
        positive_sound=sound.count("positive"),
        positive_done=accepted_kinds.count("positive"),
        negative_sound=sound.count("negative"),
    )


def build_notes(cases: Sequence[ToolCase], tools: Sequence[str], lost: Sequence[str]) -> list[str]:
    """Return warnings to read before trusting the score."""
    notes: list[str] = []
    wrong_ones = [case for case in cases if case.case == "negative"]
    if not any(is_refused_call(case.ok, case.result, case.patch) for case in wrong_ones):
        notes.append("No call that should be refused was refused: nothing shows that the tools say no.")
    tried_tools = {case.tool for case in cases}
    if len(tried_tools) * 2 <= len(tools) and all(case.verdict == "pass" for case in cases):
        notes.append(f"Every verdict is a pass, and the calls try {len(tried_tools)} of {len(tools)} tools.")
    if lost:
        rounds = f"{len(lost)} round{'s' * (len(lost) != 1)}"
        notes.append(f"{rounds} came to nothing, for want of a usable reply. The last: {lost[-1][:300]}")
    return notes
