"""What an edit does to one task: the audit its verifier would have, its stored attempts, and its approval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from synthesis.contracts import ChecksVerifier, RubricVerifier, Verifier
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.formats.criteria import asks_judge
from synthesis.runtime import Sandbox
from synthesis.runtime.encoding import decode_state
from synthesis.verifiers.audit_report import TaskAudit, untried
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.frame import widen
from synthesis.verifiers.reference_frame import reference_frame
from synthesis.verifiers.rubric_audit import RubricSubject
from webapp.edits.effects.golden_effects import prepare_golden, remakes_golden
from webapp.edits.effects.run_effects import RunEffect
from webapp.edits.models import Approval, EditKind
from webapp.edits.proposals import ProposedTask
from webapp.review.carry_over import is_decided
from webapp.scenarios.audits.services import Case, NamedJudge, compute
from webapp.scenarios.importer import look_at_start
from webapp.scenarios.models import Audit, AuditState
from webapp.scenarios.services import Start
from webapp.trajectories.reproduction import ReplaySetting
from webapp.trajectories.services import setting_of


@dataclass
class TaskEffect:
    """A task as it would be, its start and audit, and what its executed attempts would earn."""

    proposed: ProposedTask
    start: Start
    audit: TaskAudit | None = None
    judge: str = ""
    failure: str = ""
    stored: int = 0
    runs: list[RunEffect] = field(default_factory=list)


def prepared(sandbox: Sandbox, proposed: ProposedTask) -> tuple[ProposedTask, Start]:
    """The task with the frame that its new reference spans, if the edit brings one, or the golden state that its
    reference leaves, if that is another one now, and what holds at its start.

    Of an earlier frame everything stays that a person or a judge allowed. Raises InfrastructureError.
    """
    if proposed.new_frame and proposed.frame is not None:
        added = tuple(place for place in proposed.frame.allowances if place.source != "reference")
        try:
            frame = widen(reference_frame(sandbox, subject_of(proposed)), added)
        except (InputError, ProgramError, StateError):
            frame = proposed.frame
        raw = {**proposed.record.raw, "frame": frame.model_dump(mode="json", exclude_defaults=True)}
        verifier = proposed.record.verifier.model_copy(update={"frame": frame})
        record = proposed.record.model_copy(update={"verifier": verifier, "raw": raw})
        proposed = replace(proposed, frame=frame, record=record)
    proposed, findings = prepare_golden(sandbox, proposed, subject_of(proposed))
    spelled = proposed.record.model_copy(update={"initial_state": decode_state(proposed.initial)})
    start = look_at_start(sandbox, spelled, proposed.program, proposed.initial)
    return proposed, replace(start, findings=[*start.findings, *findings])


def subject_of(proposed: ProposedTask) -> Subject:
    """What an audit needs of the task as it would be."""
    record = proposed.record
    kind = RubricSubject if isinstance(record.verifier, RubricVerifier) else Subject
    return kind(
        program=proposed.program,
        initial=proposed.initial,
        instruction=record.instruction,
        answer_form=record.answer_form,
        verifier=record.verifier,
        withheld=record.withheld,
        reference=proposed.reference,
    )


def judge_for(proposed: ProposedTask, judge: NamedJudge | None) -> NamedJudge | None:
    """The judge, where the verifier as it would be asks one."""
    return judge if asks_judge(proposed.record.verifier.criteria) else None


def audit_of(
    sandbox: Sandbox, proposed: ProposedTask, judge: NamedJudge | None, check_stop: Callable[[], None]
) -> TaskAudit:
    """The audit of the task as it would be. Raises InfrastructureError."""
    case = Case(proposed.revision, proposed.stored, "", judge_for(proposed, judge))
    try:
        return compute(sandbox, case, subject_of(proposed), check_stop, 1)
    except StateError as error:
        return untried("start_fails", f"The program does not start: {error}")


def settings_of(proposed: ProposedTask, start: Start) -> tuple[ReplaySetting | None, ReplaySetting]:
    """How attempts are executed as things are, and as they would be; no state of theirs is stored.

    The checks of a superseded revision cannot be run: then what is stored says how things are.
    """
    revision = proposed.revision
    before = None if revision.superseded else replace(setting_of(revision), keeps_states=False)
    record = proposed.record
    after = ReplaySetting(
        program=proposed.program,
        initial=proposed.initial,
        verifier=_marked_verifier(record.verifier, start),
        answer_form=record.answer_form,
        instruction=record.instruction,
        keeps_states=False,
    )
    return before, after


def _marked_verifier(verifier: Verifier, start: Start) -> Verifier:
    """The verifier with what its checks are at the start, if all of them are known."""
    marks = tuple(mark for mark in start.marks if mark)
    if not isinstance(verifier, ChecksVerifier) or len(marks) != len(verifier.checks):
        return verifier
    return verifier.model_copy(update={"marks": marks})


def approval_of(kind: str, effect: TaskEffect) -> tuple[Approval, str]:
    """What becomes of what people decided on the task, and why.

    It carries over only if instruction, checks, audit and the score of every stored attempt are unchanged.
    """
    task = effect.proposed.task
    if not is_decided(task):
        return Approval.NONE, ""
    if kind == EditKind.TASK:
        return Approval.REOPENS, "The task itself is edited."
    if remakes_golden(kind, effect.proposed):
        return Approval.REOPENS, "Its reference ends elsewhere, so its golden state is another one."
    if effect.audit is None:
        return Approval.REOPENS, f"It could not be audited: {effect.failure}"
    changed = audit_change(effect)
    if changed:
        return Approval.REOPENS, changed
    lost = [run.pk for run in effect.runs if not run.known]
    other = [run.pk for run in effect.runs if run.known and not run.same]
    if other:
        return Approval.REOPENS, f"Attempt {other[0]} comes out otherwise{_more(other)}."
    if lost:
        return Approval.REOPENS, f"Attempt {lost[0]} could not be executed again{_more(lost)}."
    if len(effect.runs) < effect.stored:
        left = effect.stored - len(effect.runs)
        return Approval.REOPENS, f"{left:,} of its {effect.stored:,} attempts were not executed again: too many."
    return Approval.CARRIES, "Instruction, checks, audit and every attempt's score stay the same."


def _more(pks: Sequence[int]) -> str:
    return f", and {len(pks) - 1:,} more" if len(pks) > 1 else ""


def audit_change(effect: TaskEffect) -> str:
    """What an audit finds that the task's audit did not, or the reverse; empty where both say the same."""
    found, task = effect.audit, effect.proposed.task
    known = Audit.objects.filter(pk=task.audit_id or 0).defer("probes").first()
    if known is None or task.audit_state == AuditState.STALE:
        return "" if found is None else "Its audit is not up to date, so nothing says that it stays the same."
    if found is None:
        return "It could not be audited."
    if found.state != known.state:
        return f"Its audit turns {found.state}."
    before = sorted(known.faults.values_list("kind", "message"))
    after = sorted((fault.kind, fault.message) for fault in found.faults)
    earned = found.reference.reward if found.reference is not None else None
    if earned != known.reference_reward or found.nothing.reward != known.do_nothing:
        return "Its audit measures other rewards."
    if before != after:
        return "Its audit finds other faults."
    counts = (len(found.counted), found.below) if found.reference is not None else (None, None)
    if counts != (known.mutants, known.below):
        return "Its audit judges other variants."
    return ""
