"""The paper's choices in a real batch, played by the scripted provider: frames off, then all of them."""

from __future__ import annotations

from collections import Counter
from statistics import mean
from typing import Any

import pytest

from synthesis.contracts import Message, ToolCall
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.scripted import list_bundled_themes
from synthesis.stages import StageSettings
from tests.batches.pages.test_batch_pages import client, page
from tests.batches.real import SHORT, HostileModel, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.management.command_run import build_planted_report
from webapp.batches.models import Batch, BatchAttempt, BatchItem, BatchProduct, LLMCall, StageRun
from webapp.batches.presets import AS_PUBLISHED, list_preset_values
from webapp.batches.yields import services
from webapp.environments.models import ToolCase
from webapp.scenarios.models import TaskReference, TaskRevision
from webapp.trajectories.models import Score, Trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


class Meddler(HostileModel):
    """The teacher suspends somebody of whom nobody spoke, before it does what it was asked to do."""

    async def answer(self, call: StageCall) -> Reply:
        if call.site.role == "teacher" and call.site.stage == "rollout":
            made = next((at for at, turn in enumerate(call.messages) if turn.role == "tool"), None)
            if made is None:
                asked = ToolCall(id="extra", name="set_suspended", arguments={"person_id": "P-6", "suspended": True})
                return Reply(message=Message(role="assistant", tool_calls=(asked,)), finish_reason="tool_calls")
            kept = (*call.messages[: made - 1], *call.messages[made + 1 :])
            call = call.model_copy(update={"messages": kept})
        return await super().answer(call)


def figures(batch: Batch) -> dict[str, Any]:
    read = services.get_yield(batch).figures
    assert read is not None
    return {figure["key"]: figure for figure in read["choices"]}


def test_without_frames_a_change_that_nobody_asked_for_costs_nothing() -> None:
    user = person("operator")
    found = []
    for frames in (True, False):
        stages = SHORT.model_copy(update={"frames": frames, "rule": "proportion"})
        with real_pipeline(Meddler()):
            batch = work_off(real_batch(user, [theme_of("badge-desk")], stages))
        found.append(batch)
        revision = TaskRevision.objects.get(pk=batch.items.get(level="task").product.revision_id)
        run = BatchAttempt.objects.get(item__batch=batch, role="teacher").trajectory
        assert run is not None
        assert run.steps.filter(tool="set_suspended", ok=True).exists()
        score = Score.objects.filter(trajectory=run).latest("pk")
        assert all(verdict["passed"] for verdict in score.verdicts), "by proportion nothing guards the others"
        item = BatchItem.objects.get(batch=batch, level="trajectory")
        assert (revision.frame is not None, revision.score_rule) == (frames, "proportion")
        if frames:
            assert (run.reward, bool(score.outside), item.state, item.reason) == (0, True, "rejected", "not_solved")
            assert "/persons/P-6/suspended" in item.message
        else:
            assert (run.reward, score.outside, item.state) == (1, [], "kept"), "Eq. 10: the share of checks, no more"
    framed, free = map(figures, found)
    assert [framed[key]["value"] for key in ("tasks_framed", "frame_zeroed", "frame_alone", "frame_tasks")] == [1] * 4
    assert (framed["reward_scored"]["value"], framed["reward_eq10"]["value"]) == (0, 1)
    assert (framed["reward_dropped"]["value"], free["reward_dropped"]["value"]) == (1, 0)
    assert free["tasks_framed"]["value"] == 0
    assert free["frame_alone"]["value"] is None
    assert "nothing says what one would make 0" in free["frame_alone"]["note"]
    text = page(client(), "yield", found[0].pk, query=f"?with={found[1].pk}")
    assert "yes here, no there" in text
    assert "nothing says what one would make 0" in text


def test_a_batch_as_published_from_themes_to_trajectories() -> None:
    stages = StageSettings(**list_preset_values(AS_PUBLISHED), scenarios=2, tasks=2)
    with real_pipeline(HostileModel()):
        batch = work_off(real_batch(person("operator"), list_bundled_themes(), stages, preset=AS_PUBLISHED))
    assert batch.state == "done"
    found = build_planted_report(batch)
    assert (found["planted_failures"], found["planted_missed"]) == (13, [])
    ended = Counter(batch.items.exclude(state="kept").values_list("level", "reason"))
    assert ended == {
        ("theme", "invalid_program"): 1,  # discarded, not repaired (ES 3.2)
        ("task", "names_a_tool"): 1,
        ("task", "malformed"): 1,
        ("trajectory", "user_fault"): 1,
    }
    assert not LLMCall.objects.filter(batch=batch, stage__in=["test_call", "repair", "repair_tool", "repair_task"])
    made = BatchProduct.objects.filter(item__batch=batch, item__level="theme")
    for product in made.select_related("assessment"):
        assert product.assessment is not None
        assert (product.assessment.made, product.assessment.saved) == (100, 0), "all N rounds (Eq. 7)"
        assert "assessment/choose_call" in product.assessment.prompts
        cases = ToolCase.objects.filter(assessment=product.assessment)
        assert product.assessment.score == pytest.approx(1 - cases.filter(verdict="fail").count() / 100)
    revisions = TaskRevision.objects.filter(pk__in=BatchProduct.objects.filter(
        item__batch=batch, item__level="task").values("revision"))  # fmt: skip
    assert {(one.frame, one.score_rule) for one in revisions} == {(None, "proportion")}
    runs = Trajectory.objects.filter(batch_attempts__item__batch=batch, solver=False)
    users = {run.provenance["user"] for run in runs if run.conversational}
    assert users == {"base (scripted)"}
    _require_figures(batch, list(runs), list(revisions))


def _require_figures(batch: Batch, runs: list[Trajectory], revisions: list[TaskRevision]) -> None:
    """The figures of choices, counted once more from the rows, one by one."""
    read = {key: figure["value"] for key, figure in figures(batch).items()}
    solved = set(TaskReference.objects.values_list("revision", flat=True))
    unsolved = [revision.pk for revision in revisions if revision.pk not in solved]
    at_unsolved = [run for run in runs if run.revision_id in unsolved]
    assert unsolved, "one task has a check that nothing passes"
    assert (read["tasks_unsolved"], read["unsolved_tried"]) == (len(unsolved), len(at_unsolved))
    assert read["unsolved_kept"] == sum(not run.rejected for run in at_unsolved) > 0
    assert read["unsolved_solved"] == sum(run.outcome == "solved" for run in at_unsolved) == 0
    assert read["unsolved_missed"] == 0
    assert read["reward_low_kept"] == sum(not run.rejected and (run.reward or 0) < 1 for run in runs) > 0
    shares = []
    for run in runs:
        verdicts = Score.objects.filter(trajectory=run).latest("pk").verdicts
        shares.append(mean(verdict["passed"] for verdict in verdicts))
    assert read["reward_eq10"] == pytest.approx(mean(shares))
    assert read["reward_scored"] == pytest.approx(mean(run.reward or 0 for run in runs)) == read["reward_eq10"]
    talks = [run for run in runs if run.conversational]
    assert (read["talks"], read["talks_erred"]) == (len(talks), sum(run.rejected == "user_fault" for run in talks))
    keys = [
        key for calls in StageRun.objects.filter(item__batch=batch).values_list("calls", flat=True) for key in calls
    ]
    tester = LLMCall.objects.filter(key__in=keys, role="tester")
    assert read["choose_call_replies"] == tester.count() == 500
    assert read["choose_call_tokens"] == sum(call.prompt_tokens + call.completion_tokens for call in tester)
    assert (read["test_call_replies"], read["calls_saved"], read["tasks_framed"]) == (0, 0, 0)
    assert read["tools_both_ways"] == 1
    assert read["audit_red"] > 10, "what a frame would close stays open, and decides nothing"
