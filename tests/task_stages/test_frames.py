"""Frames of drafted tasks: of the reference, what the author declares free, other runs where allowed."""

from __future__ import annotations

import pytest

from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import Rejected
from synthesis.runtime import Sandbox
from synthesis.tasks.checklist import write_checklist
from synthesis.tasks.reference_search import solve_task
from synthesis.verifiers.frame import format_place

from .support import (
    DONE,
    GIVE,
    GONE,
    HERS,
    INSTRUCTION,
    ITEMS,
    LOOK,
    RECORD,
    SCENARIO,
    STATE,
    Scripted,
    Turn,
    as_json,
    run,
    task,
)

RELEASE: Turn = ("release_locker", {"locker_id": "L-1"})
STRICT = ScenarioDraft(name="Strict", state=STATE | {"mode": "strict"})
FREE = {"path": "/lockers/*/floor", "reason": "A locker may stand on any floor."}


def solved(sandbox: Sandbox, draft: TaskDraft, *teacher: list[Turn], scenario: ScenarioDraft = SCENARIO) -> TaskDraft:
    model = Scripted(teacher=teacher)
    return run(lambda kit: solve_task(kit, RECORD, scenario, draft), model, sandbox, solver_runs=len(teacher))


def places(found: TaskDraft) -> list[str]:
    assert found.frame is not None
    return [format_place(item) for item in found.frame.allowances]


def test_a_solved_task_has_the_frame_of_its_reference(sandbox: Sandbox) -> None:
    assert places(solved(sandbox, task(), [LOOK, GIVE, DONE])) == ['/lockers/L-2/member_id = "M-1"']
    assert solved(sandbox, task(), [LOOK, DONE]).frame is None


def test_what_a_refused_call_leaves_behind_breaks_nothing(sandbox: Sandbox) -> None:
    found = solved(sandbox, task(), [GIVE, DONE], scenario=STRICT)
    assert places(found) == ['/lockers/L-2/member_id = "M-1"', "/refusals/+"]


def test_another_solved_run_widens_it_by_the_authors_leave_alone(sandbox: Sandbox) -> None:
    """By its checks alone this task pays for somebody else's locker being taken away."""
    runs: list[list[Turn]] = [[GIVE, DONE], [GIVE, RELEASE, DONE]]
    strict = solved(sandbox, task(HERS, GONE), *runs)
    assert places(strict) == ['/lockers/L-2/member_id = "M-1"']
    assert any("but changed /lockers/L-1/member_id" in note for note in strict.notes)
    wide = solved(sandbox, task(HERS, GONE, other_ways=True), *runs)
    assert places(wide) == ['/lockers/L-2/member_id = "M-1"', '/lockers/L-1/member_id = ""']
    assert wide.frame is not None
    assert (wide.frame.allowances[1].source, "allows other right ways" in wide.frame.allowances[1].reason) == (
        "run",
        True,
    )


def test_the_author_declares_what_is_free(sandbox: Sandbox) -> None:
    draft = TaskDraft(title="A locker for Ada", instruction=INSTRUCTION)
    nowhere = as_json(items=ITEMS, free=[FREE | {"path": "/cupboards/+"}])
    model = Scripted({"checklist": [nowhere, as_json(items=ITEMS, free=[FREE], other_ways=True)]})
    listed = run(lambda kit: write_checklist(kit, RECORD, SCENARIO, draft), model, sandbox)
    assert "does not have" in model.last_words()
    assert "there is a frame" in model.calls[0].messages[0].content
    assert ([item.path for item in listed.free], listed.other_ways) == (["/lockers/*/floor"], True)
    assert places(solved(sandbox, task(free=listed.free), [GIVE, DONE]))[-1] == "/lockers/*/floor"
    with pytest.raises(Rejected) as found:
        run(lambda kit: write_checklist(kit, RECORD, SCENARIO, draft), Scripted({"checklist": nowhere}), sandbox)
    assert found.value.reason == "frame_invalid"
