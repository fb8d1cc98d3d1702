"""Audits as rows: computed once, copied where nothing they depend on differs, stale when something does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.errors import InfrastructureError, SandboxLost
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.seeded_faults.audit_measure import measure_audit
from tests.fixtures.llm import Request, llm_server, say
from tests.verifiers.shop import ANSWER, OTHERS, check
from tests.verifiers.test_rubric import judge_of, shown
from webapp.environments.models import Environment
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext
from webapp.jobs.registry import KINDS
from webapp.scenarios.audits import audit_job, services
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.services import (
    NamedJudge,
    start_environment_audit,
    start_filter_audit,
    start_task_audit,
)
from webapp.scenarios.audits.sound_tasks import draw_sound_tasks
from webapp.scenarios.models import Audit, AuditFault, Task, TaskReference
from webapp.scenarios.references import save_reference

from .support import EVIL, WEAK, make_task, other_reference

pytestmark = pytest.mark.django_db


class NoSandbox:
    """Whoever touches it does new sandbox work."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"sandbox.{name} was used")


def no_sandbox() -> Sandbox:
    return NoSandbox()  # type: ignore[return-value]


def audited(*tasks: Task, **options: Any) -> dict[str, Any]:
    return audit_tasks(get_default_sandbox(), [task.pk for task in tasks], **options)


def test_faults_are_seeded_into_green_tasks_that_are_stored_here() -> None:
    sound, weak = make_task(), make_task(WEAK, OTHERS, ANSWER, key="weak")
    audited(sound, weak)
    (known,) = draw_sound_tasks()
    assert (known.name, known.origin, len(known.checks)) == (sound.key, "stored", 2), "the answer form makes the third"
    found = measure_audit(get_default_sandbox(), [known], faulty=2, sound=1)
    assert (found.by_origin, found.false_red) == ({"stored": 2}, 0)


def test_a_green_and_a_red_task_with_what_lists_copy() -> None:
    sound, weak = make_task(), make_task(WEAK, OTHERS, ANSWER, key="weak")
    done = audited(sound, weak)
    assert (done["audited"], done["cached"], done["green"], done["red"], done["failed"]) == (2, 0, 1, 1, [])
    sound.refresh_from_db()
    weak.refresh_from_db()
    assert (sound.audit_state, weak.audit_state) == ("green", "red")
    row = Audit.objects.get(pk=sound.audit_id)
    assert (row.do_nothing, row.reference_reward, row.nondeterministic) == (0, 1, False)
    assert row.below == row.mutants
    assert row.reference == sound.current.references.get()
    assert AuditFault.objects.filter(audit=weak.audit_id, kind="mutant_passes").exists()
    environment = Environment.objects.get()
    assert (environment.green_count, environment.red_count) == (1, 1)


def test_a_repeated_audit_makes_no_sandbox_work() -> None:
    task = make_task()
    audited(task)
    before = list(Audit.objects.values())
    done = audit_tasks(no_sandbox(), [task.pk])
    assert (done["audited"], done["cached"], done["green"]) == (0, 1, 1)
    assert list(Audit.objects.values()) == before
    with pytest.raises(AssertionError, match="was used"):
        audit_tasks(no_sandbox(), [task.pk], fresh=True)


def test_another_revision_with_the_same_verifier_copies_the_audit() -> None:
    task = make_task()
    audited(task)
    task = make_task(instruction="Please order three teas.")
    assert (task.current.number, Task.objects.get().audit_state) == (2, "stale")
    assert audit_tasks(no_sandbox(), [task.pk])["cached"] == 1
    task.refresh_from_db()
    assert (task.audit_state, task.audit.revision_id) == ("green", task.current_id)
    assert Audit.objects.count() == 2


def test_a_changed_check_is_audited_anew_and_the_old_revision_keeps_its_audit() -> None:
    audited(make_task())
    task = make_task(WEAK, OTHERS, ANSWER)
    task.refresh_from_db()
    assert task.audit_state == "stale"
    assert Environment.objects.get().green_count == 0
    assert audited(task)["audited"] == 1
    back = make_task()
    back.refresh_from_db()
    assert (back.current.number, back.audit_state) == (1, "green")
    assert (Environment.objects.get().green_count, Environment.objects.get().red_count) == (1, 0)


def test_another_reference_makes_the_audit_stale() -> None:
    task = make_task()
    audited(task)
    save_reference(task.current, other_reference(), "solver")
    task.refresh_from_db()
    assert task.audit_state == "stale"
    assert audited(task)["audited"] == 1
    task.refresh_from_db()
    assert (task.audit_state, task.audit.reference.source) == ("green", "solver")
    save_reference(task.current, other_reference(), "solver")
    assert TaskReference.objects.count() == 2
    task.refresh_from_db()
    assert task.audit_state == "green"


def test_an_audit_version_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()
    audited(task)
    monkeypatch.setattr(services, "AUDIT_VERSION", 999)
    task.refresh_from_db()
    assert services.is_stale(task.audit, task.current)
    assert audited(task)["audited"] == 1


def test_without_reference_it_is_unproven_and_without_checks_incomplete_with_the_reason() -> None:
    tasks = [make_task(key="a", reference=None), make_task(key="b", checks=())]
    done = audited(*tasks)
    assert (done["unproven"], done["incomplete"]) == (1, 1)
    whys = list(Audit.objects.order_by("revision__task_id").values_list("why", flat=True))
    assert "No reference is known" in whys[0]
    assert "no checks" in whys[1]
    assert list(Audit.objects.values_list("mutants", flat=True)) == [None, None]


def test_a_rubric_without_a_judge_is_incomplete() -> None:
    task = make_task(key="r", checks=(), criteria=("Three teas are ordered.",))
    assert (task.current.verifier_kind, task.current.criteria) == ("rubric", ["Three teas are ordered."])
    assert not task.current.findings.filter(kind="no_checks").exists()
    assert audited(task)["incomplete"] == 1
    assert "No model plays the judge" in Audit.objects.get().why


def test_the_judge_is_part_of_the_key_of_a_rubric_that_needs_one() -> None:
    plain, rubric = make_task(), make_task(key="r", checks=(), criteria=("Three teas are ordered.",))
    audited(plain, rubric)
    told = {"criterion": 1, "passed": False}
    with llm_server(lambda request: say(json.dumps({"verdicts": [told | {"quote": quotable(request)}]}))) as server:
        judge = NamedJudge("judges: one", judge_of(server))
        assert audited(plain, judge=judge)["cached"] == 1
        assert audited(rubric, judge=judge)["audited"] == 1
    rubric.refresh_from_db()
    assert (rubric.audit.judge, rubric.audit.state) == ("judges: one", "red")
    assert not services.is_stale(rubric.audit, rubric.current)


def quotable(request: Request) -> str:
    """What the judge may quote: the beginning of the calls that it is shown."""
    return shown(request).calls[:60]


class Dying:
    """A sandbox whose second episode of each task dies under it, for tasks named so."""

    def __init__(self, deadly: int) -> None:
        self.resets = 0
        self.deadly = deadly

    def __getattr__(self, name: str) -> Any:
        return getattr(get_default_sandbox(), name)

    def reset(self, *given: Any, **options: Any) -> Any:
        self.resets += 1
        if self.resets == self.deadly:
            raise SandboxLost("sandbox", "its process ended")
        return get_default_sandbox().reset(*given, **options)


def test_an_infrastructure_failure_leaves_no_audit_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()
    with pytest.raises(InfrastructureError, match="Nothing could be audited"):
        audit_tasks(Dying(5), [task.pk])  # type: ignore[arg-type]
    task.refresh_from_db()
    assert (task.audit_state, Audit.objects.count()) == ("", 0)
    monkeypatch.setattr(audit_job, "AT_ONCE", 1)
    others = [task, make_task(WEAK, OTHERS, ANSWER, key="weak")]
    done = audit_tasks(Dying(5), [one.pk for one in others])  # type: ignore[arg-type]
    assert (done["audited"], len(done["failed"])) == (1, 1)
    assert "nothing was stored" in done["failed"][0]["reason"]
    assert list(Audit.objects.values_list("state", flat=True)) == ["red"]


@pytest.mark.slow
def test_a_run_that_is_stopped_keeps_what_it_had() -> None:
    tasks = [make_task(key=f"t{n}", initial_state={"orders": {"soap": n}, "log": []}) for n in range(9)]

    def progress(done: int, total: int, note: str) -> None:
        if done >= 3:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        audit_tasks(get_default_sandbox(), [task.pk for task in tasks], progress)
    kept = Audit.objects.count()
    assert 3 <= kept < 9
    done = audited(*tasks)
    assert (done["cached"], done["audited"], done["green"]) == (kept, 9 - kept, 9)


def test_hostile_text_is_stored_and_bounded() -> None:
    loud = check(f"final_state[{EVIL * 500!r}]")
    task = make_task(WEAK, OTHERS, ANSWER, loud)
    audited(task)
    fault = AuditFault.objects.get(kind="check_raises")
    assert EVIL in fault.message
    assert len(fault.message) <= 2_000


def run_job(payload: dict[str, Any]) -> dict[str, Any]:
    from webapp.jobs.models import Job, JobState

    job = Job.objects.create(kind="audit", queue="llm", title="t", payload=payload, attempt=1, state=JobState.RUNNING)
    return KINDS["audit"].handler(JobContext.of(job))


def test_the_job_audits_one_an_environment_or_what_a_filter_leaves() -> None:
    task, other = make_task(), make_task(WEAK, OTHERS, ANSWER, key="weak", environment="shop2")
    one = start_task_audit(None, task)
    assert start_task_audit(None, task).pk == one.pk
    assert run_job(one.payload)["audited"] == 1
    assert run_job(start_environment_audit(None, other.environment).payload)["red"] == 1
    assert run_job(start_filter_audit(None, {"q": "three"}).payload) == {
        "audited": 0, "cached": 2, "skipped": 0, "green": 1, "red": 1, "incomplete": 0, "unproven": 0, "failed": []
    }  # fmt: skip
