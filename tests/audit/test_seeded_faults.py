"""The audit measured: verifiers with one seeded fault, each shown by an executed way, and sound ones in other words."""

from __future__ import annotations

import io
import json
import random
from unittest import mock

import pytest
from django.core.management import CommandError, call_command

from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.seeded_faults.audit_measure import AuditMeasure, FaultCount, list_bundled_tasks, measure_audit
from synthesis.seeded_faults.sound_rewrites import REWRITES, rewrite_task
from synthesis.seeded_faults.sound_tasks import JudgedTask, build_subject, iter_starter_tasks
from synthesis.seeded_faults.verifier_faults import KINDS, draw_faults
from synthesis.tasks.minimal_reference import score_reference
from synthesis.verifiers.call_sequences import run_calls

FEW = ("school-drama-to-robotics", "tools-amina-longer")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


@pytest.fixture(scope="module")
def few() -> list[JudgedTask]:
    return [task for task in iter_starter_tasks() if task.name in FEW]


def earn(sandbox: Sandbox, task: JudgedTask, reference: object) -> float:
    subject = build_subject(task)
    start = run_calls(sandbox, subject, ()).state
    assert start is not None
    return score_reference(sandbox, subject, start, reference)[1]  # type: ignore[arg-type]


def test_a_seeded_fault_pays_a_wrong_way_or_refuses_a_right_one(sandbox: Sandbox, few: list[JudgedTask]) -> None:
    sound = {task.name: task for task in few}
    faults = draw_faults(sandbox, few, 9, seed=1, at_once=2)
    assert len({fault.kind for fault in faults}) >= 8
    assert draw_faults(sandbox, few[:1], 1)[0].about == draw_faults(sandbox, few[:1], 1)[0].about
    for fault in faults:
        way = fault.shown.way.reference
        right, given = (earn(sandbox, task, way) == 1 for task in (sound[fault.task.name], fault.task))
        assert (right, given) == ((False, True) if fault.shown.effect == "paid" else (True, False)), fault.about


def test_a_sound_verifier_in_other_words_earns_the_same(sandbox: Sandbox, few: list[JudgedTask]) -> None:
    for task in few:
        for kind in REWRITES:
            other = rewrite_task(task, kind, random.Random(0))
            assert earn(sandbox, other, other.reference) == 1
            shorter = other.reference.model_copy(update={"calls": other.reference.calls[:-1]})
            assert earn(sandbox, other, shorter) == earn(
                sandbox, task, shorter.model_copy(update={"answer": task.reference.answer})
            ) or kind in ("split", "joined")
            assert earn(sandbox, other, other.reference.model_copy(update={"answer": ""})) < 1


def test_a_few_faulty_verifiers_come_out_red_and_sound_ones_green(sandbox: Sandbox, few: list[JudgedTask]) -> None:
    found = measure_audit(sandbox, few, 6, 2, seed=1)
    assert (found.faulty, found.sound) == (6, 2)
    assert [(one.about, one.shown) for one in found.wrong] == []


@pytest.mark.slow
def test_of_a_part_of_the_verifiers_one_at_most_comes_out_wrong(sandbox: Sandbox) -> None:
    """Of so few one is more than the two per cent that the command allows of all."""
    known = random.Random(0).sample(list_bundled_tasks(sandbox), 24)
    found = measure_audit(sandbox, known, 12, 4)
    assert (found.faulty, found.sound, found.false_red) == (12, 4, 0), [(one.about, one.why) for one in found.wrong]
    assert all(found.by_kind[kind].seeded for kind in set(KINDS) - {"depends_on_run", "words_in_state"})
    assert len(found.wrong) <= 1, [(one.about, one.shown) for one in found.wrong]


def test_the_command_prints_the_measure_and_fails_if_too_many_came_out_wrong() -> None:
    counts = {"paid_wrong_ways": 2, "refused_right_ways": 0, "drawn_in_seconds": 1.0, "seconds": 2.0, "wrong": ()}
    found = AuditMeasure(
        faulty=2, sound=1, false_green=0.5, false_red=0.0, by_kind={"sleeper": FaultCount(seeded=2, red=1, green=1)},
        by_origin={}, sound_by_kind={}, **counts,
    )  # fmt: skip
    out = io.StringIO()
    command = "webapp.scenarios.management.commands.audit"
    with (
        mock.patch(f"{command}.measure_audit", return_value=found),
        mock.patch(f"{command}.list_bundled_tasks", return_value=[]),
        mock.patch(f"{command}.draw_sound_tasks", return_value=[]),
        pytest.raises(CommandError, match="More than 2%"),
    ):
        call_command("audit", "--seeded-faults", "--json", stdout=out, stderr=io.StringIO())
    printed = json.loads(out.getvalue().strip().splitlines()[-1])
    assert (printed["false_green"], printed["by_kind"]["sleeper"]["red"]) == (0.5, 1)
