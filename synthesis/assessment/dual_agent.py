"""Dual-agent assessment (EnvScaler 3.3): a tester calls, a checker judges, the state goes on evolving.

The tester never sees the program. In free mode it sees all tools and the state, and chooses a tool, a case and
arguments (Eq. 5); by the plan (ours) it is given tool and case, sees that tool, the rules and the state, and writes the
arguments. The call is executed and the checker sees the tool's source, the call, its result and the change of the state
(Eq. 6). The score is the share of calls without a fail (Eq. 7, as released). Ours: several lines of states that go on
side by side, `call_plan`, `sequential_test`, `repairs`, and the checker's data in addition to Eq. 6: the parts of the
program that the tool uses, the state that it may have read, the tester's expectation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from synthesis.assessment import call_plan
from synthesis.assessment.agent_brief import build_agent_brief
from synthesis.assessment.initial_states import write_starting_states
from synthesis.assessment.repairs import assess_with_repairs, list_repairs
from synthesis.assessment.rounds import FREE, Aim, RunningAssessment, run_until_decided, spread_lines
from synthesis.assessment.scores import summarize_assessment
from synthesis.drafts import AssembledProgram, AssessmentDraft, ToolRepair
from synthesis.errors import Rejected
from synthesis.stages import Kit, StageSettings

OUTCOMES = {
    "repaired": "was repaired",
    "cleared": "was found sound",
    "removed": "was taken out",
    "broken": "still fails",
}


async def assess_program(kit: Kit, assembled: AssembledProgram, *, mend: bool = False) -> AssessmentDraft:
    """Try the tools of a program until N calls are made, or the decision is certain.

    With `mend` failing tools are repaired or removed (`repairs.py`); the draft then has the changed program. Raise
    Rejected (`no_tools`, `test_state_invalid`, `state_not_restorable`, `assessment_below_threshold` and `tools_fail`
    with the whole draft as evidence) and the errors of `Kit.ask`.
    """
    brief = build_agent_brief(assembled.record)
    if not brief.names:
        raise Rejected("no_tools", "The environment has no tools, so there is nothing to try.")
    worlds = spread_lines(await write_starting_states(kit, brief), kit.settings.assessment_calls)
    seed = kit.draw_seed("assess")
    aims = _list_aims(brief.names, kit.settings, seed)
    run = RunningAssessment(brief, worlds, aims, seed)
    if not mend or not kit.settings.tool_repairs:
        await run_until_decided(kit, run)
        draft = summarize_assessment(run.cases, run.brief.names, kit.settings, run.lost, run.testers)
        return _require_kept(draft, kit.settings)
    log = await assess_with_repairs(kit, run)
    draft = summarize_assessment(run.cases, run.brief.names, kit.settings, run.lost, run.testers)
    repairs = list_repairs(run, log)
    before, after = assembled.record, run.brief.record
    changed = (before.source, before.tools) != (after.source, after.tools)
    repair_fields = {
        "repairs": repairs,
        "first_score": log.first_score,
        "kept": draft.kept and all(repair.outcome != "broken" for repair in repairs),
        "notes": (*draft.notes, *map(_describe_repair, repairs)),
        "program": assembled.model_copy(update={"record": after}) if changed else None,
    }
    return _require_kept(draft.model_copy(update=repair_fields), kit.settings)


def _list_aims(tools: Sequence[str], settings: StageSettings, seed: int) -> deque[Aim]:
    """Return the aim of each round: by the plan, or the tester's choice."""
    if settings.tester == FREE:
        return deque([FREE] * settings.assessment_calls)
    return deque(call_plan.draw_call_plan(tools, settings.assessment_calls, seed))


def _describe_repair(repair: ToolRepair) -> str:
    what = OUTCOMES[repair.outcome]
    calls = repair.before.positive + repair.before.negative
    rounds = f"{repair.tries} round{'s' * (repair.tries != 1)} of repair"
    return f"{repair.tool} {what} after {rounds}: {repair.before.failed} of {calls} calls had failed. {repair.reason}"


def _require_kept(draft: AssessmentDraft, settings: StageSettings) -> AssessmentDraft:
    """Return the draft. Raise Rejected if it is not kept."""
    if draft.kept:
        return draft
    failed = sum(rate.failed for rate in draft.rates)
    broken = [repair.tool for repair in draft.repairs if repair.outcome == "broken"]
    if draft.score < draft.threshold:
        reason = "assessment_below_threshold"
        message = (
            f"{failed} of {len(draft.cases)} calls failed: the score of {draft.score:.2f} stays below "
            f"{draft.threshold:g}. The cases say which tools."
        )
    else:
        reason = "tools_fail"
        message = (
            f"{', '.join(broken)} still fail{'s' * (len(broken) == 1)} after repair, and cannot be taken out: at least "
            f"{settings.least_tools} tools are wanted, and no other method may use what is taken out."
        )
    raise Rejected(reason, message, evidence=draft.model_dump(mode="json"))
