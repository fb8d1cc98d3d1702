"""Effects of an edit on one task: the audit of its verifier, its stored attempts, and its approval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from synthesis.contracts import ChecksVerifier, RubricVerifier, Verifier
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.formats.criteria import needs_fact_judge
from synthesis.runtime import Sandbox
from synthesis.runtime.encoding import decode_state
from synthesis.verifiers.audit_report import TaskAudit, build_untried_audit
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.frame import widen_frame
from synthesis.verifiers.reference_frame import build_reference_frame
from synthesis.verifiers.rubric_audit import RubricSubject
from webapp.edits.effects.golden_effects import prepare_golden, remakes_golden
from webapp.edits.effects.run_effects import RunEffect
from webapp.edits.models import Approval, EditKind
from webapp.edits.proposals import ProposedTask
from webapp.review.carry_over import is_decided
from webapp.scenarios.audits.services import Case, NamedJudge, compute_audit
from webapp.scenarios.importer import evaluate_start
from webapp.scenarios.models import Audit, AuditState
from webapp.scenarios.services import Start
from webapp.trajectories.reproduction import ReplaySetting
from webapp.trajectories.services import build_replay_setting


@dataclass
class TaskEffect:
    """A task after the edit, its start and audit, and the effects on its attempts."""

    proposed: ProposedTask
    start: Start
    audit: TaskAudit | None = None
    judge: str = ""
    failure: str = ""
    stored: int = 0
    runs: list[RunEffect] = field(default_factory=list)


def prepare_task(sandbox: Sandbox, proposed: ProposedTask) -> tuple[ProposedTask, Start]:
    """Return the task with its new frame or golden state, if the edit changes these, and the results at its start.

    The frame is the one that a new reference spans, with everything in the earlier frame that a person or a judge
    allowed; the golden state is the one that the reference leaves. Raises InfrastructureError.
    """
    if proposed.new_frame and proposed.frame is not None:
        added = tuple(place for place in proposed.frame.allowances if place.source != "reference")
        try:
            frame = widen_frame(build_reference_frame(sandbox, build_subject(proposed)), added)
        except (InputError, ProgramError, StateError):
            frame = proposed.frame
        raw = {**proposed.record.raw, "frame": frame.model_dump(mode="json", exclude_defaults=True)}
        verifier = proposed.record.verifier.model_copy(update={"frame": frame})
        record = proposed.record.model_copy(update={"verifier": verifier, "raw": raw})
        proposed = replace(proposed, frame=frame, record=record)
    proposed, findings = prepare_golden(sandbox, proposed, build_subject(proposed))
    spelled = proposed.record.model_copy(update={"initial_state": decode_state(proposed.initial)})
    start = evaluate_start(sandbox, spelled, proposed.program, proposed.initial)
    return proposed, replace(start, findings=[*start.findings, *findings])


def build_subject(proposed: ProposedTask) -> Subject:
    """Return what an audit needs of the task after the edit."""
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


def select_judge(proposed: ProposedTask, judge: NamedJudge | None) -> NamedJudge | None:
    """Return the judge if the verifier after the edit asks one."""
    return judge if needs_fact_judge(proposed.record.verifier.criteria) else None


def compute_task_audit(
    sandbox: Sandbox, proposed: ProposedTask, judge: NamedJudge | None, check_stop: Callable[[], None]
) -> TaskAudit:
    """Return the audit of the task after the edit. Raises InfrastructureError."""
    case = Case(proposed.revision, proposed.stored, "", select_judge(proposed, judge))
    try:
        return compute_audit(sandbox, case, build_subject(proposed), check_stop, 1)
    except StateError as error:
        return build_untried_audit("start_fails", f"The program does not start: {error}")


def build_settings(proposed: ProposedTask, start: Start) -> tuple[ReplaySetting | None, ReplaySetting]:
    """Return the settings of attempts before and after the edit; none of their states is stored.

    The checks of a superseded revision cannot be run: then there is no setting before, and the stored results count.
    """
    revision = proposed.revision
    before = None if revision.superseded else replace(build_replay_setting(revision), keeps_states=False)
    record = proposed.record
    after = ReplaySetting(
        program=proposed.program,
        initial=proposed.initial,
        verifier=_add_marks(record.verifier, start),
        answer_form=record.answer_form,
        instruction=record.instruction,
        keeps_states=False,
    )
    return before, after


def _add_marks(verifier: Verifier, start: Start) -> Verifier:
    """Return the verifier with the results of its checks at the start, if all of them are known."""
    marks = tuple(mark for mark in start.marks if mark)
    if not isinstance(verifier, ChecksVerifier) or len(marks) != len(verifier.checks):
        return verifier
    return verifier.model_copy(update={"marks": marks})


def decide_approval(kind: str, effect: TaskEffect) -> tuple[Approval, str]:
    """Return what becomes of the decision of people on the task, and why.

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
    changed = describe_audit_change(effect)
    if changed:
        return Approval.REOPENS, changed
    lost = [run.pk for run in effect.runs if not run.known]
    other = [run.pk for run in effect.runs if run.known and not run.same]
    if other:
        return Approval.REOPENS, f"Attempt {other[0]} comes out otherwise{_format_more(other)}."
    if lost:
        return Approval.REOPENS, f"Attempt {lost[0]} could not be executed again{_format_more(lost)}."
    if len(effect.runs) < effect.stored:
        unexecuted_count = effect.stored - len(effect.runs)
        return (
            Approval.REOPENS,
            f"{unexecuted_count:,} of its {effect.stored:,} attempts were not executed again: too many.",
        )
    return Approval.CARRIES, "Instruction, checks, audit and every attempt's score stay the same."


def _format_more(pks: Sequence[int]) -> str:
    return f", and {len(pks) - 1:,} more" if len(pks) > 1 else ""


def describe_audit_change(effect: TaskEffect) -> str:
    """Describe how the audit differs from the task's present one; empty if both agree."""
    new_audit, task = effect.audit, effect.proposed.task
    current_audit = Audit.objects.filter(pk=task.audit_id or 0).defer("probes").first()
    if current_audit is None or task.audit_state == AuditState.STALE:
        return "" if new_audit is None else "Its audit is not up to date, so nothing says that it stays the same."
    if new_audit is None:
        return "It could not be audited."
    if new_audit.state != current_audit.state:
        return f"Its audit turns {new_audit.state}."
    before = sorted(current_audit.faults.values_list("kind", "message"))
    after = sorted((fault.kind, fault.message) for fault in new_audit.faults)
    earned = new_audit.reference.reward if new_audit.reference is not None else None
    if earned != current_audit.reference_reward or new_audit.nothing.reward != current_audit.do_nothing:
        return "Its audit measures other rewards."
    if before != after:
        return "Its audit finds other faults."
    counts = (len(new_audit.counted), new_audit.below) if new_audit.reference is not None else (None, None)
    if counts != (current_audit.mutants, current_audit.below):
        return "Its audit judges other variants."
    return ""
