"""`manage.py audit`: numbers and faults as one JSON object, and an exit code."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from synthesis import starter
from tests.verifiers.shop import ANSWER, OTHERS, check
from webapp.scenarios.models import Audit, Task, TaskRevision

from .support import WEAK, make_task

pytestmark = pytest.mark.django_db


def run(*given: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command("audit", *given, "--json", stdout=out, stderr=io.StringIO())
    found: dict[str, Any] = json.loads(out.getvalue().strip().splitlines()[-1])
    return found


def test_a_source_and_one_task_in_numbers() -> None:
    make_task()
    make_task(WEAK, OTHERS, ANSWER, key="weak")
    found = run("--source", "test")
    assert (found["tasks"], found["green"], found["red"], found["noop_max"], found["reference_min"]) == (2, 1, 1, 0, 1)
    assert 0 < found["mutants_below_reference"] < found["mutants"]
    assert found["nondeterministic"] == 0
    kinds = {fault["kind"] for fault in found["faults"]["weak"]}
    assert kinds == {"mutant_passes", "unguarded_change", "reachable_wrong_end"}
    one = run("--task", "three-teas")
    assert (one["tasks"], one["mutants_below_reference"], one["cached"]) == (1, one["mutants"], 1)
    assert run("--environment", "shop")["tasks"] == 2
    assert (found["audited"], found["cached"], one["audited"]) == (2, 0, 0), "of this run, not of the selection"


def test_a_rubric_without_a_judge_has_no_numbers() -> None:
    task = make_task()
    TaskRevision.objects.filter(pk=task.current_id).update(verifier_kind="rubric", criteria=["Three teas are ordered."])
    said = io.StringIO()
    call_command("audit", "--all", "--json", stdout=(out := io.StringIO()), stderr=said)
    found = json.loads(out.getvalue())["sources"]["test"]
    names = ("noop_max", "reference_min", "mutants", "mutants_below_reference", "nondeterministic")
    assert [found[name] for name in names] == [None] * 5
    assert "test: 1 task, 0 green, 0 red, 1 incomplete, 0 unproven\n" in said.getvalue()


def test_ctrl_c_is_one_line_and_keeps_what_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    make_task()
    monkeypatch.setattr("webapp.scenarios.management.commands.audit.audit_tasks", stopped)
    with pytest.raises(CommandError, match="What was stored by then stays") as caught:
        run("--all")
    assert caught.value.returncode == 130


def test_all_is_reported_by_source_with_null_where_there_is_no_reference() -> None:
    make_task(reference=None)
    found = run("--all")["sources"]["test"]
    assert (found["tasks"], found["unproven"], found["noop_max"]) == (1, 1, 0)
    names = ("reference_min", "mutants", "mutants_below_reference", "nondeterministic")
    assert [found[name] for name in names] == [None] * 4


def test_superseded_tasks_are_skipped_with_their_reason() -> None:
    task, gone = make_task(), make_task(check("says_number(answer, 3)"), key="gone")
    TaskRevision.objects.filter(pk=gone.current_id).update(superseded="Its checks read words.")
    Task.objects.filter(pk=gone.pk).update(superseded=True)
    said = io.StringIO()
    call_command("audit", "--all", "--json", stdout=(out := io.StringIO()), stderr=said)
    found = json.loads(out.getvalue())
    assert (found["audited"], found["failed"], found["faults"]) == (1, [], {})
    assert found["skipped"] == [{"place": "gone", "reason": "Its checks read words."}]
    assert "skipped: gone: superseded: Its checks read words." in said.getvalue()
    assert list(Audit.objects.values_list("revision__task", flat=True)) == [task.pk]


def test_nothing_chosen_is_said() -> None:
    with pytest.raises(CommandError, match="No task is chosen"):
        run("--task", "absent")


@pytest.mark.slow
def test_a_starter_task_that_is_not_green_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundled environment's first task, weakened to its first check, and anything may change besides."""
    environment = next(folder for folder in starter.list_folders() if folder.name == "rail_booking")
    task = starter.read_tasks(environment)[0]
    verifier = task.verifier.model_copy(update={"checks": task.verifier.checks[:1], "frame": None})
    spoiled = task.model_copy(update={"verifier": verifier, "raw": {"spoiled": True}})
    every = ([starter.read_environment(environment)], [spoiled], [])
    monkeypatch.setattr("webapp.scenarios.management.commands.audit.load_bundle", lambda: every)
    with pytest.raises(CommandError, match="not green") as caught:
        run("--source", "starter")
    assert caught.value.returncode == 1
    row = Task.objects.get()
    assert row.audit_state == "red"
    assert row.current is not None
    assert row.current.references.exists()


def test_hidden_characters_of_an_import_do_not_reach_the_terminal() -> None:
    source = "def check(initial_state, final_state):\n    raise ValueError('\\x1b[2J')\n"
    make_task(source, key="raises\u202e")
    said = io.StringIO()
    call_command("audit", "--all", stdout=io.StringIO(), stderr=said)
    assert "raises\\u202e: check_raises: Check 1" in said.getvalue()
    assert not {"\x1b", "\u202e"} & set(said.getvalue())
