"""Junk in place of any reply, of any role: the item says what was wrong with it, and nothing of it becomes data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.contracts import Message, ToolCall
from tests.batches.engine.test_bad_input import require_kept_below, shown
from tests.batches.real import SHORT, Bad, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.models import BatchAttempt, BatchProduct, BatchStageCount
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

TASK, RUN = "scenario-0/task-0", "scenario-0/task-0/work-0"
QUESTIONS = {
    "plan_operations": ("author", ""),
    "code_attributes": ("author", ""),
    "code_method": ("author", ""),
    "test_state": ("author", ""),
    "test_call": ("tester", ""),
    "check_call": ("checker", ""),
    "initial_state": ("author", "scenario-0"),
    "instruction": ("author", TASK),
    "checklist": ("author", TASK),
    "check_function": ("author", TASK),
}
JUNK = (
    "".join(map(chr, range(1, 256))) * 20,
    '{"a":' * 20_000,
    "```python\n" + "(" * 20_000 + "\n```",
    "```python\ndef f(" + "a, " * 9_000 + "): pass\n```",
    json.dumps({"state": {"\ud800": "\x00"}, "name": 7, "operations": None, "items": [None], "verdict": []}),
    "",
)
ODD_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("__init__", {}),
    ("reset", {"state": {}}),
    ("no such tool", {"a": 1}),
    ("", {}),
    ("look_up\x00", {"\ud800": "\x00"}),
    ("find_badge", {"badge": "x" * 100_000}),
)


def test_junk_at_every_question_of_every_role() -> None:
    themes = {stage: theme_of(f"badge-desk__{stage}") for stage in QUESTIONS}
    bad = [
        Bad(themes[stage].key, stage, JUNK[place % len(JUNK)], below, role)
        for place, (stage, (role, below)) in enumerate(QUESTIONS.items())
    ]
    with real_pipeline(HostileModel(bad)):
        batch = work_off(real_batch(person("operator"), [*themes.values(), theme_of("radio-rundown")]))
    assert batch.state == "done"
    for stage, (_, below) in QUESTIONS.items():
        row = item(batch, "/".join(part for part in (themes[stage].key, below) if part))
        assert row.state in ("failed", "rejected"), shown(row)
        assert row.reason not in ("", "fault"), shown(row)
        assert 20 < len(row.message) < 2_000, shown(row)
        assert not BatchProduct.objects.filter(item=row).exists()
    assert not BatchStageCount.objects.filter(batch=batch, reason="fault").exists()
    require_kept_below(batch, "radio-rundown")


def test_a_teacher_who_calls_what_is_not_there() -> None:
    calls = tuple(
        ToolCall(id=f"id {number}", name=name, arguments=given) for number, (name, given) in enumerate(ODD_CALLS)
    )
    odd = Message(role="assistant", content="\x00\ud800", tool_calls=calls)
    unsolved = theme_of("badge-desk__unsolved")
    bad = [
        Bad(theme, stage, "", below, "teacher", message=odd)
        for theme, stage, below in ((unsolved.key, "solve", TASK), ("badge-desk", "rollout", RUN))
    ]
    themes = [theme_of("badge-desk"), unsolved, theme_of("radio-rundown")]
    with real_pipeline(HostileModel(bad)):
        batch = work_off(real_batch(person("operator"), themes, SHORT))
    assert item(batch, f"{unsolved.key}/{TASK}").state == "kept"
    assert not item(batch, f"{unsolved.key}/{TASK}").children.exists(), "nobody solved it"
    acted = item(batch, f"badge-desk/{RUN}")
    assert (acted.state, acted.stage, acted.reason) == ("rejected", "filter", "invalid_format"), shown(acted)
    assert "unknown tool" in acted.message
    assert not BatchStageCount.objects.filter(batch=batch, reason="fault").exists()
    require_kept_below(batch, "radio-rundown")
    assert Trajectory.objects.filter(rejected="").count() == 1
    assert Trajectory.objects.filter(solver=False).exclude(rejected="").get().rejected == "invalid_format"
    solver = BatchAttempt.objects.filter(item__batch=batch, role="solver").order_by("item")
    kept = {row.item.path.partition("/")[0]: (row.trajectory_id is not None, row.unkept) for row in solver}
    assert kept == {
        "badge-desk": (True, ""),
        unsolved.key: (False, "cannot_be_stored"),
        "radio-rundown": (True, ""),
    }
