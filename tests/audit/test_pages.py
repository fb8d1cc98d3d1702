"""The audit on the task's page, on its own and in the list: verdict first, hostile text stays text."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.runtime import get_default_sandbox
from synthesis.verifiers.audit_report import GAPS, NOTES, FaultKind
from tests.fixtures.api import problem, program
from tests.fixtures.markup import markup
from tests.fixtures.pages_seed import person
from tests.verifiers.shop import ANSWER, OTHERS, TEA, check, reference
from webapp.jobs.models import Job, JobState
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.page import FAULTS, PROBE_FAMILIES, build_probe_rows
from webapp.scenarios.audits.remedies import REMEDIES, find_remedy
from webapp.scenarios.models import Audit, Task, TaskReference, TaskRevision
from webapp.scenarios.references import save_reference

from .support import EVIL, WEAK, make_task, other_reference

pytestmark = pytest.mark.django_db
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;"


def browser(role: str = "annotator") -> Client:
    client = Client()
    client.force_login(person(role))
    return client


def shown(client: Client, task: Task, name: str = "scenarios:task", **query: str) -> str:
    """A page of a task; the task's own shows its audit."""
    tab = {"tab": "audit"} if name == "scenarios:task" else {}
    answer = client.get(reverse(name, args=[task.pk]), tab | query)
    assert answer.status_code == 200
    return markup(answer)


def audited(task: Task) -> Task:
    audit_tasks(get_default_sandbox(), [task.pk])
    task.refresh_from_db()
    return task


def test_before_an_audit_the_page_says_why_there_is_none() -> None:
    task = make_task(reference=None)
    text = shown(browser(), task)
    assert "Not audited yet" in text
    assert "No reference" in text
    assert "Not audited yet" in shown(browser("viewer"), make_task(), "scenarios:audit")


def test_a_superseded_task_is_not_audited_and_says_why() -> None:
    task = make_task()
    TaskRevision.objects.filter(pk=task.current_id).update(superseded=f"Its checks read words. {EVIL}")
    Task.objects.filter(pk=task.pk).update(superseded=True)
    client = browser()
    text = shown(client, task)
    assert "This revision is superseded, so it is not audited." in text
    assert "audit-start" not in text
    assert f"Its checks read words. {SHOWN}" in text
    answer = client.post(reverse("scenarios:start_audit", args=[task.pk]), follow=True)
    assert "This task is superseded. Its checks read words." in markup(answer)
    told = problem(program(person("operator"), "synthesise").post("/audits", {"task": task.pk}), 409)
    assert "Edit the task and give it an answer form" in told["detail"]
    assert not Job.objects.exists()
    assert "1 of them is superseded" in " ".join(markup(client.get(reverse("scenarios:audit_preview"))).split())
    result = audit_tasks(get_default_sandbox(), [task.pk])
    assert (result["audited"], result["skipped"], result["failed"]) == (0, 1, [])


def test_a_green_verdict_comes_first() -> None:
    text = shown(browser(), audited(make_task()))
    assert "The verifier holds: doing nothing earns 0, the reference earns 1 twice in a row" in text
    assert text.index("The verifier holds") < text.index("Probes")


def test_a_red_audit_shows_what_was_altered_and_who_noticed() -> None:
    task = audited(make_task(WEAK, OTHERS, ANSWER, check("True")))
    text = shown(browser(), task, "scenarios:audit")
    assert "The verifier does not hold. A mutant earns the full reward; an unrequested change" in text
    assert "became:</span> 4 </span>" in text
    assert ">nothing</span>" in text
    assert "A check never fails" in text
    assert "Which check notices what" in text


def test_what_to_do_depends_on_what_judges_the_task() -> None:
    client, task = browser(), audited(make_task(WEAK, OTHERS, ANSWER))
    text = shown(client, task, "scenarios:audit")
    assert "The frame of this task allows this change" in text
    assert "witch on the frame" not in text
    TaskRevision.objects.filter(pk=task.current_id).update(frame=None)
    assert "Switch on the frame of the reference" in shown(client, task, "scenarios:audit")
    TaskRevision.objects.filter(pk=task.current_id).update(verifier_kind="golden")
    text = shown(client, task, "scenarios:audit")
    assert "in places that are declared volatile" in text
    assert "add a check" not in text
    TaskRevision.objects.filter(pk=task.current_id).update(verifier_kind="rubric")
    text = shown(client, task, "scenarios:audit")
    assert "add a criterion that this wrong way does not meet" in text
    revision = TaskRevision(verifier_kind="script")
    assert "is_expected(answer," in find_remedy("answer_too_loose", revision)
    kinds = set(get_args(FaultKind)) - NOTES - GAPS
    assert [kind for kind in kinds if kind not in REMEDIES] == []


def test_a_rubric_is_not_told_to_switch_on_a_frame() -> None:
    judged = TaskRevision(verifier_kind="rubric")
    assert find_remedy("unguarded_change", judged).startswith("Add a criterion that nothing was changed but")


def test_what_was_not_tried_is_no_fault() -> None:
    text = shown(browser(), audited(make_task(check("True"), score_rule="proportion", reference=None)))
    assert "Doing nothing earns 1; it must earn 0." in text.split('aria-label="Not tried"')[0]
    assert "No reference is known" in text.split('aria-label="Not tried"')[1]


def test_hostile_labels_arguments_and_answers_stay_text() -> None:
    hostile = reference(answer=f"3 {EVIL}")
    loud = check(f"final_state[{EVIL!r}]")
    task = audited(make_task(TEA, OTHERS, ANSWER, loud, reference=hostile))
    client = browser()
    for name in ("scenarios:task", "scenarios:audit"):
        text = shown(client, task, name)
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert SHOWN in text


def test_a_stale_audit_says_so() -> None:
    client = browser()
    task = audited(make_task())
    save_reference(task.current, other_reference(), "solver")
    assert "This audit is stale" in shown(client, task)
    changed = make_task(WEAK, OTHERS, ANSWER)
    assert "Not audited in this revision" in shown(client, changed)
    older = shown(client, changed, revision="1")
    assert "The verifier holds" in older
    assert "audit-start" not in older, "it would audit the current revision"
    Audit.objects.all().delete()
    TaskRevision.objects.filter(pk=changed.current_id).update(superseded="Its checks read words.")
    Task.objects.filter(pk=changed.pk).update(superseded=True)
    older = shown(client, changed, revision="1")
    assert "Restore this one as a draft: the effects of saving it include its audit." in older


def test_the_list_is_filtered_by_state_and_kind_of_fault() -> None:
    sound, weak, never = make_task(), make_task(WEAK, OTHERS, ANSWER, key="weak"), make_task(key="never", title="Idle")
    audited(sound)
    audited(weak)
    client = browser()

    def found(**query: str) -> set[int]:
        answer = client.get(reverse("scenarios:tasks"), query)
        assert answer.status_code == 200
        return {row.pk for row in answer.context["page"].rows}

    assert found(audit="green") == {sound.pk}
    assert found(audit="red") == {weak.pk}
    assert found(audit="none") == {never.pk}
    assert found(fault="mutant_passes") == {weak.pk}
    assert found(fault="claim_passes") == set()
    assert found(sort="-audit_state") == {sound.pk, weak.pk, never.pk}
    assert found(audit="nonsense") == {sound.pk, weak.pk, never.pk}


def test_starting_needs_the_right_and_is_done_once() -> None:
    task = make_task()
    addresses = [
        reverse("scenarios:start_audit", args=[task.pk]),
        reverse("scenarios:start_environment_audit", args=[task.environment_id]),
        reverse("scenarios:start_these_audits"),
    ]
    viewer = browser("viewer")
    assert [viewer.post(address).status_code for address in addresses] == [403] * 3
    assert not Job.objects.exists()
    client = browser()
    for _ in range(2):
        assert client.post(addresses[0])["Location"].endswith("?tab=audit")
    job = Job.objects.get()
    assert (job.kind, job.queue, job.payload) == ("audit", "llm", {"tasks": [task.pk]})
    text = shown(client, task)
    assert "The audit is in progress" in text
    assert 'hx-trigger="every 2s"' in text
    Job.objects.update(state=JobState.SUCCEEDED)
    assert 'hx-trigger="every 2s"' not in shown(client, task)
    client.post(addresses[1])
    client.post(f"{addresses[2]}?audit=red&q=tea&low=x")
    payloads = list(Job.objects.order_by("id").values_list("payload", flat=True))[1:]
    assert payloads == [{"environment": task.environment_id}, {"filter": {"q": "tea", "audit": "red"}}]


def test_the_fragment_is_the_part_alone() -> None:
    task = audited(make_task())
    headers = {"HX-Request": "true", "HX-Target": "audit"}
    text = browser().get(reverse("scenarios:audit", args=[task.pk]), headers=headers).content.decode()
    assert text.lstrip().startswith("<section")


def test_many_probes_are_paged_and_cost_no_more_queries(django_assert_max_num_queries: Any) -> None:
    task = audited(make_task())
    row = task.audit
    row.probes["mutants"] = row.probes["mutants"] * 100
    row.save()
    client = browser()
    with django_assert_max_num_queries(20):
        text = shown(client, task, "scenarios:audit")
    assert "Next probes" in text
    assert "First probes" in shown(client, task, "scenarios:audit", **{"from": "100"})
    assert "All " in shown(client, task)
    assert TaskReference.objects.count() == 1


def test_probes_are_chosen_by_sort_or_by_being_wrong() -> None:
    task = audited(make_task(TEA, ANSWER, WEAK, frame=None))
    client = browser()
    counts = Counter(probe.family for probe in build_probe_rows(task.audit))
    whole = shown(client, task, "scenarios:audit")
    assert f"all {sum(counts.values())}" in whole
    for family, count in counts.items():
        text = shown(client, task, "scenarios:audit", only=family)
        assert (text.count("<tr data-row"), f"{PROBE_FAMILIES[family]} {count}" in text) == (
            count + len(task.current.checks.all()),
            True,
        )
    headers = {"HX-Request": "true", "HX-Target": "probes"}
    part = client.get(reverse("scenarios:audit", args=[task.pk]), {"only": "wrong"}, headers=headers)
    text = markup(part)
    assert text.lstrip().startswith("<details")
    wrong = sum(probe.tone == "bad" for probe in build_probe_rows(task.audit))
    assert wrong
    assert text.count("<tr data-row") == text.count('class="wrong"') == wrong
    assert shown(client, task, "scenarios:audit", only="nonsense").count("<tr data-row") == whole.count("<tr data-row")


def test_every_kind_of_fault_has_words() -> None:
    assert set(get_args(FaultKind)) == set(FAULTS)


def test_auditing_again_says_whether_anything_has_changed() -> None:
    task, client = audited(make_task()), browser("operator")
    again = client.post(reverse("scenarios:start_audit", args=[task.pk]), follow=True).content.decode()
    assert "Nothing that it depends on has changed" in again
    Job.objects.all().delete()
    save_reference(task.current, other_reference(), "test")
    fresh = client.post(reverse("scenarios:start_audit", args=[task.pk]), follow=True).content.decode()
    assert "The audit is queued." in fresh
    assert "Nothing that it depends on" not in fresh
