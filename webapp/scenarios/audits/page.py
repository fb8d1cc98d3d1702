"""Page contents of an audit: the verdict in words, the probes, and what each check distinguishes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from synthesis.contracts import OutsideChange
from synthesis.verifiers.audit_report import GAPS, NOTES, is_full_reward
from synthesis.verifiers.frame_words import format_differences, format_outside_changes
from synthesis.verifiers.mutants import cut_around_difference
from webapp.common.templatetags.show import counted
from webapp.scenarios.audits.mutant_matrix import ANSWERS, build_matrix
from webapp.scenarios.audits.services import SUPERSEDED_REMEDY, find_open_audit, is_stale
from webapp.scenarios.models import Audit, AuditFault, Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.verifiers import name_verdict, read_criteria

SHOWN_CHARS = 400
"""Of the values that an alteration removed and added; of longer values, the text around the difference."""
PROBES_A_PAGE = 100
PROBES_ON_TASK = 25
FAULTS_ON_TASK = 20
FAULTS: dict[str, str] = {
    "noop_scores": "Doing nothing earns something",
    "no_goal": "There is no reward to earn",
    "reference_fails": "The reference does not earn 1",
    "mutant_passes": "A mutant earns the full reward",
    "mutant_lost": "A mutant could not be judged",
    "mutants_cut": "Not all mutants were tried",
    "unneeded_call": "The reference does more than the checks ask",
    "run_refused": "A solver's run meets all checks and earns less",
    "argument_unaltered": "An argument could not be altered",
    "values_unpinned": "The frame does not say which values its places may have",
    "unguarded_change": "An unrequested change earns the full reward",
    "reachable_wrong_end": "A wrong end that tools reach earns the full reward",
    "detour_fails": "A harmless detour earns less",
    "nondeterministic": "The same calls end differently",
    "judged_differently": "A check distinguishes the audit from a score",
    "depends_on_clock": "The reward depends on the clock",
    "depends_on_seed": "The reward depends on the seed",
    "volatile_unapproved": "There is no reason why a place is volatile",
    "volatile_undeclared": "A place that differs from run to run is not volatile",
    "check_raises": "A check raises",
    "check_raises_later": "A check raises on a mutant",
    "check_never_passes": "A check never passes",
    "check_never_fails": "A check never fails",
    "checks_contradict": "Two checks contradict",
    "answer_ignored": "The answer is not looked at",
    "weak_check": "A check looks for a text in what was said",
    "answer_too_loose": "A wrong answer earns the full reward",
    "answer_too_narrow": "A right answer spelled otherwise earns less",
    "claim_passes": "A mere claim fools the judge",
    "no_reference": "No reference is known",
    "no_judge": "No model plays the judge",
    "no_checks": "There are no checks",
    "start_fails": "The program does not start",
}
"""Every kind of fault, as people read it."""
PROBE_FAMILIES = {
    "own": "nothing and the reference",
    "call_removed": "a call left out",
    "argument_altered": "an argument altered",
    "call_added": "an unasked call",
    "record_swapped": "another record",
    "end_reached": "another end",
    "detour_made": "a detour to the same end",
    "solution_tried": "the solution tried all the same",
    "answer_altered": "another answer",
    "answer_respelled": "the right answer in another form",
    "answer_contrary": "a false claim",
}
"""Filters of probes in addition to `WRONG`: the verifier's own, and the kinds of mutants."""
WRONG = "wrong"
REACHED = {"end_reached": "Other calls", "detour_made": "A detour to the same end"}
OWN = {
    "nothing": "Doing nothing",
    "claim": "Only claiming success",
    "reference": "The reference",
    "other_clock": "The reference, at another moment",
    "other_seed": "The reference, with another seed",
}


@dataclass(frozen=True)
class ProbeRow:
    """One probe. `tone` is `good` if the verifier was right, `bad` if it was wrong, empty if the probe decides
    nothing."""

    name: str
    reward: float | None
    tone: str
    note: str = ""
    place: str = ""
    before: str = ""
    after: str = ""
    altered: bool = False
    added: bool = False
    """An unrequested call, with the arguments `after`; it changed `place`."""
    reached: bool = False
    """Calls that lead to another end, or by a detour to the same: `after`; they differ at `place`."""
    removed: bool = False
    equivalent: bool = False
    wanted: bool = False
    """It is right, so it is to earn everything."""
    noticed: list[int] = field(default_factory=list)
    outside: str = ""
    """What changed outside the task's frame, or is other than its golden state, in words."""
    family: str = "own"


def revision_audits(revision: TaskRevision) -> QuerySet[Audit]:
    return revision.audits.order_by("-id")


def current_audits(wanted: dict[str, Any]) -> QuerySet[Audit]:
    """Return the current audits of tasks without their probes: by task, environment, source, state and kind of
    fault."""
    tasks = Task.objects.filter(audit=OuterRef("pk"))
    lookups = {"task": "pk", "environment": "environment", "source": "source", "state": "audit_state"}
    for name, lookup in lookups.items():
        if wanted.get(name):
            tasks = tasks.filter(**{lookup: wanted[name]})
    rows = Audit.objects.filter(Exists(tasks)).select_related("revision").defer("probes", "revision__record")
    if wanted.get("fault"):
        rows = rows.filter(Exists(AuditFault.objects.filter(kind=wanted["fault"], audit=OuterRef("pk"))))
    return rows


def whole_audits() -> QuerySet[Audit]:
    """Return audits with everything that the API shows of them."""
    return Audit.objects.select_related("revision").defer("revision__record").prefetch_related("faults")


def build_audit_context(
    task: Task, revision: TaskRevision, *, start: int = 0, whole: bool = False, only: str = ""
) -> dict[str, Any]:
    """Build the context of the audit part of a task's page.

    With `whole` it is the page of the audit alone; `only` selects a family of its probes, or the `WRONG` ones.
    """
    if revision.scenario_id == task.scenario_id:
        revision.scenario = task.scenario
    row = revision_audits(revision).first()
    context: dict[str, Any] = {"audit": row, "audit_job": find_open_audit(task), "audit_whole": whole}
    context |= {"audit_remedy": SUPERSEDED_REMEDY, "audit_older": revision.pk != task.current_id}
    context["audit_possible"] = not revision.superseded and not context["audit_older"]
    if row is None:
        missing = find_reference(revision) is None
        return context | {"audit_no_reference": missing, "audit_before": task.audit_id is not None}
    faults = list(row.faults.all())
    probes = build_probe_rows(row)
    most = PROBES_A_PAGE if whole else PROBES_ON_TASK
    chosen = [probe for probe in probes if only in ("", probe.family) or (only == WRONG and probe.tone == "bad")]
    shown_probes = chosen[start : start + most]
    labels = list_check_labels(revision)
    most_faults = None if whole else FAULTS_ON_TASK
    return context | {
        "audit_stale": is_stale(row, revision),
        "audit_wrong": [fault for fault in faults if fault.kind not in NOTES | GAPS][:most_faults],
        "audit_gaps": [fault for fault in faults if fault.kind in GAPS][:most_faults],
        "audit_notes": [fault for fault in faults if fault.kind in NOTES][:most_faults],
        "audit_faults_total": len(faults),
        "audit_probes": shown_probes,
        "audit_probes_total": len(probes),
        "audit_choices": list_probe_choices(probes) if whole else [],
        "audit_only": only,
        "audit_next": start + most if start + most < len(chosen) else None,
        "audit_later": start > 0,
        "audit_matrix": build_matrix(row, labels, group_fault_words(faults)) if labels else None,
        "audit_words": describe_verdict(row, faults),
        "audit_tone": {"green": "good", "red": "bad"}.get(row.state, "warn"),
        "audit_unit": name_verdict(revision.verifier_kind),
    }


def list_check_labels(revision: TaskRevision) -> list[str]:
    if revision.verifier_kind == "rubric":
        return [criterion.text for criterion in read_criteria(revision.criteria)]
    return list(revision.checks.order_by("position").values_list("label", flat=True))


def group_fault_words(faults: Sequence[AuditFault]) -> dict[int, list[str]]:
    """Group the descriptions of faults by check."""
    flags: dict[int, list[str]] = {}
    for fault in faults:
        if fault.check_index is not None:
            flags.setdefault(fault.check_index, []).append(FAULTS.get(fault.kind, fault.kind))
    return flags


def describe_verdict(row: Audit, faults: Sequence[AuditFault]) -> str:
    """Describe the verdict in one or two sentences."""
    if row.state == "green":
        variants = _describe_tried_variants(row)
        return f"The verifier holds: doing nothing earns 0, the reference earns 1 twice in a row, and {variants}."
    if row.state == "incomplete":
        return f"Not decided. {row.why}"
    if row.state == "unproven":
        return f"It has not been shown that the task can be solved. {row.why}"
    kinds = list(dict.fromkeys(fault.kind for fault in faults if fault.kind not in NOTES | GAPS))
    sentences = [FAULTS.get(kind, kind) for kind in kinds]
    if not sentences:  # an audit whose faults are not stored
        return "The verifier does not hold. Audit the task again to see why."
    sentences = [sentences[0], *(f"{name[0].lower()}{name[1:]}" for name in sentences[1:])]
    return f"The verifier does not hold. {'; '.join(sentences)}."


def _describe_tried_variants(row: Audit) -> str:
    """Describe how many variants were tried: wrong ones, and right answers in another spelling."""
    mutants = row.probes.get("mutants", ())
    counted_mutants = [mutant for mutant in mutants if not mutant.get("equivalent")]
    right = [mutant["kind"] for mutant in counted_mutants if mutant.get("expects") == "full"]
    detours = right.count("detour_made")
    spelled = len(right) - detours
    wrong = row.mutants or 0
    tried = (
        f"all {wrong:,} mutants earn less"
        if wrong > 1
        else "the only mutant earns less"
        if wrong
        else "there was no mutant to try"
    )
    phrases = [tried]
    phrases += [f"the right answer earns 1 in {counted(spelled, 'other spelling')}"] if spelled else []
    phrases += [f"the right end earns 1 by {counted(detours, 'detour')}"] if detours else []
    return "; ".join(phrases)


def list_probe_choices(probes: Sequence[ProbeRow]) -> list[tuple[str, str, int]]:
    """Return (value, words, probes) of each choice that has probes; the wrong ones come first, and may be none."""
    counts = Counter(probe.family for probe in probes)
    wrong = sum(probe.tone == "bad" for probe in probes)
    families = [(name, text, counts[name]) for name, text in PROBE_FAMILIES.items() if counts[name]]
    return [(WRONG, "judged wrongly", wrong), *families]


def build_probe_rows(row: Audit) -> list[ProbeRow]:
    """Return the verifier's own probes, then the mutants in their order, those that were judged wrongly first."""
    own_rows = [_build_own_row(name, row.probes[name]) for name in OWN if isinstance(row.probes.get(name), dict)]
    is_golden = row.revision.verifier_kind == "golden"
    mutants = [_build_mutant_row(mutant, is_golden=is_golden) for mutant in row.probes.get("mutants", ())]
    return own_rows + sorted(mutants, key=lambda probe: probe.tone != "bad")


def _build_own_row(name: str, probe: dict[str, Any]) -> ProbeRow:
    reward = probe["reward"]
    if name in ("nothing", "claim"):
        tone = "" if reward is None else "bad" if reward > 0 else "good"
    elif name == "reference":
        tone = "good" if is_full_reward(reward) else "bad"
    else:
        tone = "good" if is_full_reward(reward) else "warn"
    return ProbeRow(OWN[name], reward, tone, probe["note"])


def _build_mutant_row(mutant: dict[str, Any], *, is_golden: bool) -> ProbeRow:
    reward = mutant["reward"]
    right = is_full_reward(reward) == (mutant.get("expects", "less") == "full")
    tone = "" if mutant["equivalent"] or reward is None else "good" if right else "bad"
    name = _name_mutant(mutant)
    before, after = cut_around_difference(_format_value(mutant["before"]), _format_value(mutant["after"]), SHOWN_CHARS)
    return ProbeRow(
        name=name,
        family=mutant["kind"],
        reward=reward,
        tone=tone,
        note=mutant["note"],
        place=mutant["place"],
        before=before,
        after=after,
        altered=mutant["kind"] in ("argument_altered", "record_swapped", "solution_tried", *ANSWERS),
        wanted=mutant.get("expects", "less") == "full",
        added=mutant["kind"] == "call_added",
        reached=mutant["kind"] in REACHED,
        outside=(format_differences if is_golden else format_outside_changes)(
            OutsideChange.model_validate(item) for item in mutant.get("outside", ())
        ),
        removed=mutant["kind"] == "call_removed",
        equivalent=mutant["equivalent"],
        noticed=[index + 1 for index in mutant["noticed_by"]],
    )


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _name_mutant(mutant: dict[str, Any]) -> str:
    if mutant["kind"] in ANSWERS:
        return ANSWERS[mutant["kind"]]
    if mutant["kind"] == "record_swapped":
        return "Every call, on another record"
    if mutant["kind"] in REACHED:
        return REACHED[mutant["kind"]]
    if mutant["kind"] == "solution_tried":
        return f"The solution, as far as it goes without {mutant['tool']}"
    if mutant["kind"] == "call_added":
        return f"{mutant['tool']} called {'after' if mutant['step'] else 'before'} the reference"
    if mutant["kind"] == "call_removed" and mutant["place"]:
        return f"Calls {mutant['place']}"
    return f"Call {mutant['step'] + 1} {mutant['tool']}"
