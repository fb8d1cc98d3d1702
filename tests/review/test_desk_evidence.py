"""What a desk shows beside the decision: the mutants each check notices, the attempts, and two of them compared."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.template import engines
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures.markup import markup
from tests.fixtures.pages_seed import EVIL
from tests.review import seed
from tests.review.test_pages import DESK_QUERIES, client_of
from webapp.review.desk import choose_pair
from webapp.scenarios.audits.mutant_matrix import LINE_COLUMNS, attach_noticed_mutants
from webapp.scenarios.models import Audit, Check, Task
from webapp.trajectories.models import Step, Trajectory

COMPARE = "/trajectories/compare/"
PART = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "compare"}


def mutant(
    kind: str, step: int = 0, tool: str = "tidy", noticed: tuple[int, ...] = (), **fields: Any
) -> dict[str, Any]:
    return {"kind": kind, "step": step, "tool": tool, "equivalent": False, "noticed_by": list(noticed)} | fields


def attempt(task: Task, outcome: str, **fields: Any) -> Trajectory:
    number = Trajectory.objects.count()
    row = Trajectory.objects.create(
        environment=task.environment, task=task, revision=task.current, source="made", content_hash=f"{number}",
        outcome=outcome, reward=float(outcome == "solved"), now="2025-01-01T09:00:00+00:00", **fields,
    )  # fmt: skip
    Step.objects.create(trajectory=row, index=0, kind="query", tool="look", arguments={EVIL: number}, ok=True, result=1)
    return row


def cells(check: Check) -> list[tuple[str, int, int]]:
    return [(cell.head, cell.count, cell.tried) for cell in check.mutants.cells]  # type: ignore[attr-defined]


def test_each_check_is_told_which_wrong_mutants_it_notices() -> None:
    probes = [
        mutant("call_removed", 2, noticed=(0,)),
        mutant("argument_altered", 2, noticed=(0, 1)),
        mutant("argument_altered", 2, noticed=(0,), equivalent=True),
        mutant("answer_altered", noticed=(1,)),
        mutant("answer_respelled", noticed=(1,), expects="full"),
        mutant("call_added", 1),
    ]
    checks = [Check(position=0), Check(position=1), Check(position=2)]
    places = attach_noticed_mutants(checks, Audit(probes={"mutants": probes}))
    assert [(place.name, place.tried) for place in places] == [("3 tidy", 2), ("answer", 1), ("unasked call", 1)]
    assert cells(checks[0]) == [("3", 2, 2), ("end", 0, 1), ("+", 0, 1)]
    assert [check.mutants.words for check in checks] == [  # type: ignore[attr-defined]
        "notices 3: 2 of 2", "notices 3: 1 of 2, end: 1 of 1", "notices none",
    ]  # fmt: skip
    for nothing in (None, Audit(probes={}), Audit(probes={"mutants": [probes[2]]})):
        assert attach_noticed_mutants(checks, nothing) == []


def test_what_has_no_room_beside_a_check_is_counted_together() -> None:
    probes = [mutant("call_removed", step, noticed=(0,) if step % 2 else ()) for step in range(12)]
    check = Check(position=0)
    places = attach_noticed_mutants([check], Audit(probes={"mutants": probes}))
    assert len(places) == len(cells(check)) == LINE_COLUMNS
    assert (places[-1].name, cells(check)[-1]) == ("5 more places", ("…", 3, 5))


def test_a_cell_is_a_number_with_its_shade() -> None:
    check = Check(position=0)
    attach_noticed_mutants(
        [check], Audit(probes={"mutants": [mutant("call_removed", noticed=(0,)), mutant("call_added")]})
    )
    html = engines["django"].from_string("{% load audits %}{% mutant_cells line %}").render({"line": check.mutants})  # type: ignore[attr-defined]
    assert 'aria-label="notices 1: 1 of 1"' in html
    assert '<i class="heat heat-4" data-of="1">1</i><i class="heat heat-0" data-of="+"></i>' in html


def test_one_that_solved_is_compared_with_one_that_did_not() -> None:
    def rows(*outcomes: str) -> list[Trajectory]:
        return [Trajectory(pk=9 - place, outcome=outcome) for place, outcome in enumerate(outcomes)]

    assert choose_pair(rows("failed", "failed", "solved", "solved")) == [7, 9]
    assert choose_pair(rows("failed", "truncated", "failed")) == [9, 8]
    assert choose_pair(rows("solved")) == choose_pair([]) == []


@pytest.mark.django_db
def test_the_desk_has_mutants_beside_checks_and_attempts_beside_the_decision() -> None:
    ann, maker = seed.people("annotator", "operator")
    task = seed.task("a")
    found = mutant("argument_altered", 0, EVIL, noticed=(1,))
    Audit.objects.filter(pk=task.audit_id).update(probes={"mutants": [found, mutant("call_removed", 1)]})
    solved, failed = attempt(task, "solved", policy=EVIL[:60]), attempt(task, "failed")
    client = client_of(ann)
    queue = seed.queue(maker)
    address = client.post(f"/review/{queue.pk}/next/")["Location"]
    client.get(address)
    with CaptureQueriesContext(connection) as asked:
        page = markup(client.get(address))
    assert len(asked) <= DESK_QUERIES + 3, "scores, marks and matrices of its attempts"
    assert "Mutants, by call" in page
    assert page.count('aria-label="notices 1: 1 of 1"') == page.count('aria-label="notices none"') == 1
    decide = page[page.index('id="decision"') :]
    assert decide.index('id="attempts"') < decide.index('id="compare"')
    assert f'{COMPARE}?ids={solved.pk},{failed.pk}"' in decide
    assert decide[: decide.index('id="compare"')].count(" checked") == 2
    assert "<script>window.hit" not in page
    assert "<img src=x" not in page


@pytest.mark.django_db
def test_a_comparison_is_a_part_of_the_desk(client: Client) -> None:
    client.force_login(seed.named("vic", "viewer"))
    task = seed.task("a", title=f"Tidy {EVIL}")
    solved, failed = attempt(task, "solved"), attempt(task, "failed")
    for query in (f"ids={solved.pk},{failed.pk}", f"ids={solved.pk}&ids={failed.pk}", f"ids={solved.pk}"):
        part = markup(client.get(f"{COMPARE}?{query}", **PART))
        assert part.lstrip().startswith('<section class="card compare-part" id="compare"'), query
        assert "They part at step 0: attempt" in part
        assert f'href="/trajectories/{failed.pk}/fork/?step=0"' in part
        assert part.count('scope="row">Attempt ') == 2
        assert f'{COMPARE}?ids={solved.pk},{failed.pk}"' in part
        assert "<img src=x" not in part
        assert "autofocus" not in part
    for query in ("task=1&focus=1", "ids=1,2,3,4,5&focus=1", "ids=99999999,99999998&focus=1"):
        part = markup(client.get(f"{COMPARE}?{query}", **PART))
        assert ('role="status"' in part, " autofocus" in part) == (True, True), query
    assert "<html" in client.get(f"{COMPARE}?ids={solved.pk},{failed.pk}").content.decode()
