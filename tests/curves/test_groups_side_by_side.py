"""The attempts of one group side by side, and one task over training: as the trainer wrote it, folded, bounded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import markup, words
from tests.rollouts_web.support import make_task
from webapp.accounts.models import Role
from webapp.runs.models import RolloutFile, TrainingJob
from webapp.runs.rollouts import group, step_summary
from webapp.scenarios.models import TaskRevision

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    made = Client()
    made.force_login(pages_seed.person(Role.RESEARCHER))
    return made


def call(tool: str, ok: bool = True, turn: int = 1, **arguments: Any) -> dict[str, Any]:
    error = None if ok else {"kind": "raised", "message": "not allowed"}
    return {"kind": "call", "turn": turn, "tool": tool, "arguments": arguments, "result": {"ok": ok, "error": error}}


def line(ordinal: int, steps: list[dict[str, Any]], passed: list[bool], advantage: float) -> dict[str, Any]:
    verdicts = [{"passed": one} for one in passed]
    reward = {"reward": sum(passed) / len(passed), "passed": sum(passed), "total": len(passed), "rule": "proportion"}
    attempt = {
        "policy": "model",
        "ending": "answered",
        "outcome": "solved" if all(passed) else "failed",
        "steps": steps,
        "reward": reward | {"verdicts": verdicts},
    }
    return {
        "row": "r1", "environment": "desk", "setting": "task", "verifier": "0" * 64, "ordinal": ordinal, "masked": "",
        "reward": reward["reward"], "advantage": advantage, "tokens": 9, "policy_step": 1, "horizon": 8,
        "attempt": attempt,
    }  # fmt: skip


@pytest.fixture
def step(db: None) -> tuple[TrainingJob, RolloutFile]:
    job = runs_seed.training_job(steps=3, environments=0)
    task = make_task()
    assert task.current is not None
    begin = [call("find", name="Ada"), call("list")]
    lines = [
        line(0, [*begin, call("move", to="<b>noon</b>")], [True, True], 1.0),
        line(1, [*begin, *[call("list", at=number) for number in range(5)]], [True, False], -0.5),
        line(2, [*begin, call("move", ok=False, to="dusk")], [False, False], -0.5),
    ]
    revision: TaskRevision = task.current
    for at in (2, 3):
        runs_seed.rollouts(job, at, [(revision, one) for one in lines])
    return job, RolloutFile.objects.get(job=job, step=3)


def test_what_is_the_same_is_folded_and_the_rest_stands_beside(step: tuple[TrainingJob, RolloutFile]) -> None:
    shown = group.build_group(step[1], "r1", "task")
    assert shown is not None
    assert [one.words for one in shown.attempts] == [
        "both checks passed, 1 turn", "check 2 failed, 1 turn", "checks 1, 2 failed, 1 turn",
    ]  # fmt: skip
    assert shown.lines[0].same == ("find", "list")
    assert [(cell.first, cell.last) for cell in shown.lines[0].cells if cell] == [(1, 2)] * 3
    cells = [cell for told in shown.lines[1:] for cell in told.cells if cell]
    again = next(cell for cell in cells if cell.text.startswith("list"))
    assert (again.first, again.last, again.times) == (3, 7, 5)
    assert [cell.refused for cell in cells if cell.text.startswith("move")] == ["", "not allowed"]
    assert [(check.verdicts, check.parts_them) for check in shown.checks] == [
        ((True, True, False), True), ((True, False, False), True),
    ]  # fmt: skip
    assert shown.mean == pytest.approx(0.5)
    assert shown.attempts[0].width == 46
    assert shown.attempts[1].left == 27


@pytest.mark.parametrize(
    ("kind", "said", "head"),
    [
        ("script", ["both assertions passed", "assertion 2 failed", "assertions 1, 2 failed"], "Assertions at the end"),
        ("rubric", ["both criteria met", "criterion 2 not met", "criteria 1, 2 not met"], "Criteria at the end"),
        ("golden", ["both checks passed", "check 2 failed", "checks 1, 2 failed"], "Checks at the end"),
    ],
)
def test_verdicts_are_named_by_the_kind_of_verifier(
    client: Client, step: tuple[TrainingJob, RolloutFile], kind: str, said: list[str], head: str
) -> None:
    TaskRevision.objects.update(verifier_kind=kind)
    page = words(markup(client.get(reverse("runs:group", args=[step[0].public_id, 3]) + "?row=r1&setting=task")))
    assert head in page
    assert [one for one in said if f"{one}, 1 turn" not in page] == []


def test_pages_show_the_group_and_the_tasks_course(client: Client, step: tuple[TrainingJob, RolloutFile]) -> None:
    job = step[0]
    of_step = markup(client.get(reverse("runs:step", args=[job.public_id, 3]) + "?by=task"))
    assert f"{reverse('runs:group', args=[job.public_id, 3])}?row=r1" in of_step
    page = markup(client.get(reverse("runs:group", args=[job.public_id, 3]) + "?row=r1&setting=task"))
    assert "the same in all" in page
    assert "5 times" in page
    assert "<b>noon" not in page
    course = client.get(reverse("runs:task_course", args=[job.public_id]) + "?row=r1")
    numbers = re.compile(r'<t[hd][^>]* class="num">(.*?)</t[hd]>')
    rows = [list(map(words, numbers.findall(row)[:3])) for row in markup(course).split("<tr data-row>")[1:]]
    assert rows == [["3", "3", "1"], ["2", "3", "1"]]
    drawing = re.search(r'id="course-data"[^>]*>(.*?)</script>', markup(course))
    assert drawing
    assert json.loads(drawing[1])["line"]["y"] == [pytest.approx(0.5)] * 2
    for name, args, query in (("group", [job.public_id, 3], "?row=no"), ("task_course", [job.public_id], "?row=no")):
        assert client.get(reverse(f"runs:{name}", args=args) + query).status_code == 404


def test_a_group_whose_file_is_gone_says_so(client: Client, step: tuple[TrainingJob, RolloutFile]) -> None:
    job, file = step
    RolloutFile.objects.filter(pk=file.pk).update(stored="")
    page = markup(client.get(reverse("runs:group", args=[job.public_id, 3]) + "?row=r1"))
    assert "were deleted when their retention period ended" in page


def test_groups_of_a_step_stand_by_the_deviation_that_is_shown(step: tuple[TrainingJob, RolloutFile]) -> None:
    job, revision = step[0], TaskRevision.objects.get()
    told = {"one apart": [1.0, *[0.0] * 7], "flat": [1.0] * 4, "two apart": [0.9, 0.9, 0.1, 0.1], "alone": [1.0]}
    lines = [
        line(ordinal, [], [True], 0.0) | {"row": row, "reward": reward}
        for row, rewards in told.items()
        for ordinal, reward in enumerate(rewards)
    ]
    runs_seed.rollouts(job, 1, [(revision, one) for one in lines])
    rows, _ = step_summary.list_groups(RolloutFile.objects.get(job=job, step=1), step_summary.AttemptFilter())
    assert [(row.row, row.deviation and round(row.deviation, 3)) for row in rows] == [
        ("two apart", 0.462), ("one apart", 0.354), ("flat", 0.0), ("alone", None),
    ]  # fmt: skip
