"""Faults that are seeded into sound tools, and what a checker is worth by them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from synthesis import starter
from synthesis.llm.calls import StageCall
from synthesis.runtime import Sandbox
from synthesis.seeded_faults.faulty_calls import FaultyCall, draw_faulty_calls, has_relevant_difference
from synthesis.seeded_faults.measure import CheckerMeasure, JudgedFault, measure_checker, summarize_faults
from synthesis.seeded_faults.program_mutants import KINDS, apply_mutation, list_mutations, normalize_method
from synthesis.syntax import parse_module
from tests.assessment.support import bench, fences
from webapp.environments import models

SOURCE = '''
def lend(self, key, days):
    """Lend it."""
    if key not in self.rows:  # nobody has it
        return {"success": False, "error": "unknown"}
    row = self.rows[key]
    if row["status"] == "lent" and days < 3 or days >= 30:
        return {"success": False, "error": "lent"}
    row["status"], row["fee"] = "lent", days * 2 + 1
    row["late"] = False
    row["count"] += 1
    self.log.append(key)
    others = [other["name"] for other in self.rows.values()]
    others.sort()
    for other in others:
        self.seen[other] = row["name"]
    return {"success": True, "names": others, "fee": row["fee"]}
'''


def test_every_kind_of_fault_can_be_seeded_and_changes_the_source_alone_there() -> None:
    found = list_mutations(SOURCE)
    assert {mutation.kind for mutation in found} == set(KINDS)
    plain = normalize_method(SOURCE)
    sources = [apply_mutation(SOURCE, mutation) for mutation in found]
    assert len(set(sources)) == len(sources)
    for source in sources:
        parse_module(source)
        assert source != plain
        assert "Lend it." in source
    about = {mutation.about.partition(": ")[2] for mutation in found}
    assert {"without: key not in self.rows", "without: row['count'] += 1", "4 instead of 3"} <= about


@pytest.fixture(scope="module")
def few_programs() -> Iterator[None]:
    """Two of the bundled environments are enough here."""
    with mock.patch.object(starter, "list_folders", return_value=starter.list_folders()[1:3]):
        yield


@pytest.fixture(scope="module")
def calls(few_programs: None, sandbox: Sandbox) -> list[FaultyCall]:
    return list(draw_faulty_calls(sandbox, len(KINDS)))


@pytest.mark.slow
def test_a_fault_of_each_kind_shows_on_a_call(calls: list[FaultyCall]) -> None:
    assert [call.kind for call in calls] == list(KINDS)
    for call in calls:
        assert has_relevant_difference(call.right, call.wrong)
        assert call.sound.source != call.faulty.source
        tools = [tool.name for tool in call.sound.tools]
        assert call.call.tool in tools


def measured(
    sandbox: Sandbox, threads: ThreadPoolExecutor, calls: list[FaultyCall], say: Callable[[StageCall], Any]
) -> CheckerMeasure:
    return asyncio.run(measure_checker(bench(sandbox, threads, checker=say).kit, calls))


@pytest.mark.slow
def test_a_checker_is_measured_on_calls_that_went_wrong_and_on_the_same_that_did_not(
    sandbox: Sandbox, threads: ThreadPoolExecutor, calls: list[FaultyCall]
) -> None:
    wrong = {call.faulty.source for call in calls}

    def knowing(call: StageCall) -> Any:
        told = fences(call)
        lines = [line.strip() for line in told["source"].splitlines()]
        found = any(all(line in source for line in lines) for source in wrong)
        return {"verdict": "fail" if found else "pass", "reason": f"It is about {json.loads(told['call'])['tool']}."}

    best = measured(sandbox, threads, calls, knowing)
    assert (best.mutants, best.found, best.alarms, best.precision, best.recall) == (10, 10, 0, 1.0, 1.0)
    assert all(count.mutants == count.found == 1 for count in best.by_kind.values())
    assert "It is about" in best.faults[0].reason
    silent = measured(sandbox, threads, calls, lambda call: "Well …")
    assert (silent.unusable, silent.precision, silent.recall) == (20, None, None)


def test_warnings_are_no_fails_and_false_alarms_cost_precision() -> None:
    def fault(verdict: Any, sound: Any) -> JudgedFault:
        return JudgedFault(kind="constant", environment="e", tool="t", about="a", verdict=verdict, sound_verdict=sound)

    found = summarize_faults(
        [fault("fail", "pass"), fault("fail", "fail"), fault("warning", "pass"), fault("pass", None)]
    )
    assert (found.mutants, found.found, found.warned, found.sound, found.alarms, found.unusable) == (4, 2, 1, 3, 1, 1)
    assert (found.precision, found.recall) == (2 / 3, 0.5)
    assert (found.by_kind["constant"].found, found.by_kind["wrong_sort"].mutants) == (2, 0)


@pytest.mark.django_db
@pytest.mark.slow
def test_the_command_stores_a_measure_and_pages_show_it(few_programs: None, page: Client) -> None:
    assert "No checker was measured" in page.get("/environments/checkers/").content.decode()
    out = io.StringIO()
    call_command("measure_checker", "--scripted", "--count", "4", "--json", stdout=out, stderr=io.StringIO())
    found = json.loads(out.getvalue().strip().splitlines()[-1])
    assert (found["model"], found["mutants"], found["cost"]) == ("scripted", 4, 0.0)
    assert {"precision", "recall", "by_kind", "seconds"} <= set(found)
    row = models.CheckerMeasure.objects.get()
    assert f"/environments/checkers/{row.pk}/" in page.get("/environments/checkers/").content.decode()
    shown = page.get(f"/environments/checkers/{row.pk}/").content.decode()
    assert "By kind of fault" in shown
    assert row.faults[0]["tool"] in shown or not row.found < row.mutants


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "said"), [(("--endpoint", "nobody"), "no endpoint"), (("--scripted", "--count", "0"), "1 to 2000")]
)
def test_what_cannot_be_measured_is_said(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("measure_checker", *given, stderr=io.StringIO())
