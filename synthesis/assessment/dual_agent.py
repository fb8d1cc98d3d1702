"""Dual-agent assessment (EnvScaler 3.3): a tester calls, a checker judges, the state goes on evolving.

The tester never sees the program. Free, it is shown all tools and the state, and chooses a tool, a case and arguments
(Eq. 5); by the plan (ours) it is handed tool and case, sees that tool and the rules beside the state, and writes the
arguments. The call is executed and the checker sees the tool's source, the call, its result and the change of the state
(Eq. 6). The score is the share of calls without a fail (Eq. 7, as released). Ours: several lines of states that go on
side by side, `call_plan.spread`, `sequential_test`, `repairs`, and what the checker sees beside Eq. 6: what the tool
uses of its program, the state that it may have read, the tester's expectation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from synthesis.assessment import call_plan
from synthesis.assessment.agent_brief import brief_of
from synthesis.assessment.initial_states import starting_states
from synthesis.assessment.repairs import repaired_until_decided, repairs_of
from synthesis.assessment.rounds import FREE, Aim, RunningAssessment, spread_lines, until_decided
from synthesis.assessment.scores import summary
from synthesis.drafts import AssembledProgram, AssessmentDraft, ToolRepair
from synthesis.errors import Rejected
from synthesis.stages import Kit, StageSettings

OUTCOMES = {
    "repaired": "was repaired",
    "cleared": "was found sound",
    "removed": "was taken out",
    "broken": "still fails",
}


async def assess(kit: Kit, assembled: AssembledProgram, *, mend: bool = False) -> AssessmentDraft:
    """Try the tools of a program until N calls are made, or the decision is certain.

    With `mend` tools that fail are repaired or taken out (`repairs.py`); the program is then that of the draft. Raises
    Rejected (`no_tools`, `test_state_invalid`, `state_not_restorable`, `assessment_below_threshold` and `tools_fail`
    with the whole draft as evidence) and what `Kit.ask` raises.
    """
    brief = brief_of(assembled.record)
    if not brief.names:
        raise Rejected("no_tools", "The environment has no tools, so there is nothing to try.")
    worlds = spread_lines(await starting_states(kit, brief), kit.settings.assessment_calls)
    seed = kit.luck("assess")
    aims = _list_aims(brief.names, kit.settings, seed)
    run = RunningAssessment(brief, worlds, aims, seed)
    if not mend or not kit.settings.tool_repairs:
        await until_decided(kit, run)
        draft = summary(run.cases, run.brief.names, kit.settings, run.lost, run.testers)
        return _kept(draft, kit.settings)
    log = await repaired_until_decided(kit, run)
    draft = summary(run.cases, run.brief.names, kit.settings, run.lost, run.testers)
    repairs = repairs_of(run, log)
    before, after = assembled.record, run.brief.record
    changed = (before.source, before.tools) != (after.source, after.tools)
    more = {
        "repairs": repairs,
        "first_score": log.first_score,
        "kept": draft.kept and all(repair.outcome != "broken" for repair in repairs),
        "notes": (*draft.notes, *map(_told, repairs)),
        "program": assembled.model_copy(update={"record": after}) if changed else None,
    }
    return _kept(draft.model_copy(update=more), kit.settings)


def _list_aims(tools: Sequence[str], settings: StageSettings, seed: int) -> deque[Aim]:
    """What each round tries: by the plan, or what the tester chooses."""
    if settings.tester == FREE:
        return deque([FREE] * settings.assessment_calls)
    return deque(call_plan.spread(tools, settings.assessment_calls, seed))


def _told(repair: ToolRepair) -> str:
    what = OUTCOMES[repair.outcome]
    calls = repair.before.positive + repair.before.negative
    rounds = f"{repair.tries} round{'s' * (repair.tries != 1)} of repair"
    return f"{repair.tool} {what} after {rounds}: {repair.before.failed} of {calls} calls had failed. {repair.reason}"


def _kept(draft: AssessmentDraft, settings: StageSettings) -> AssessmentDraft:
    """The draft. Raises Rejected where it is not kept."""
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
