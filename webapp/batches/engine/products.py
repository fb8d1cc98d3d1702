"""Saving of an item's product, through the services that imports use. Saving it twice changes nothing.

The sandbox is done before any transaction; the item itself is ended afterwards, so that a crash in between only makes
the next try find its rows unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Attempt, State, UserVerdict
from synthesis.drafts import AssembledProgram, AssessmentDraft, ScenarioDraft, TaskDraft
from synthesis.errors import InputError
from synthesis.formats.answer_form import form_record
from synthesis.formats.records import TaskRecord
from synthesis.formats.values import clean
from synthesis.formats.verifier_record import verifier_record
from synthesis.runtime import Sandbox, encode_state
from synthesis.runtime.encoding import decode_state
from synthesis.stages import ItemSpec
from synthesis.verifiers.audit_report import AuditedTask
from webapp.batches.engine.stage_runs import MESSAGE_CHARS, EndedStage
from webapp.batches.engine.task_places import find_task_place
from webapp.batches.models import BatchItem, BatchProduct
from webapp.batches.spec import SCRIPTED
from webapp.environments.assessment_services import save_assessment
from webapp.environments.importer import import_environment
from webapp.environments.models import Environment, Version
from webapp.environments.services import program_of
from webapp.scenarios.audits import services
from webapp.scenarios.importer import import_task
from webapp.scenarios.references import offered_program, reference_hash, reference_of
from webapp.scenarios.services import save_scenario
from webapp.scenarios.states import load_state, store_state
from webapp.scenarios.withheld.services import audited_variant
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.finished_attempt import record_whole

SOURCE = "synthesis"
REJECTING, TRIED = "filter", ("rollout",)
"""The stage that rejects an attempt, and the one whose draft is the attempt."""
SCRIPTED_SOURCE = "scripted"
"""Of what the scripted provider had a part in: lists say so, and no model's work becomes a version of it."""
Drafts = Mapping[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """What a saver is given: the item, the drafts it wants by stage, its parent's product, its provenance, and the
    model of each role."""

    sandbox: Sandbox
    item: BatchItem
    drafts: Drafts
    above: BatchProduct | None
    provenance: dict[str, Any]
    models: dict[str, str]

    @property
    def source(self) -> str:
        """By the roles that had a part in the item."""
        return SCRIPTED_SOURCE if SCRIPTED in self.provenance["models"].values() else SOURCE


def save_environment(given: SaveRequest) -> BatchProduct:
    """A new environment, or the version that was there before, with the assessment that the batch made."""
    assembled: AssembledProgram = given.drafts["assemble"]
    assessment: AssessmentDraft | None = given.drafts.get("assess")
    there = ItemSpec.model_validate(given.item.spec).version
    replaced = assessed = None
    if there:
        version = _still_there(there)
    else:
        known = Environment.objects.filter(source=given.source, key=assembled.record.key)
        before = known.values_list("current", flat=True).first()
        states = [decode_state(case.state) for case in assessment.cases[:1]] if assessment else []
        saved, version = import_environment(given.sandbox, assembled.record, given.source, states)
        replaced = before if saved == "updated" else None
    if assessment is not None:
        roles = {role: given.models[role] for role in ("author", "tester", "checker")}
        _, assessed = save_assessment(version, assessment, roles=roles, scripted=SCRIPTED in roles.values())
    return BatchProduct(
        environment_id=version.environment_id, version=version, replaced_version_id=replaced, assessment=assessed
    )


def _still_there(pk: int) -> Version:
    row = Version.objects.select_related("environment").filter(pk=pk).first()
    if row is None:
        raise InputError("The environment that this grows on was deleted meanwhile. Leave it out of the next batch.")
    return row


def save_state(given: SaveRequest) -> BatchProduct:
    draft: ScenarioDraft = given.drafts["state"]
    above = _above(given)
    assert above.version is not None
    scenario = save_scenario(above.version, store_state(encode_state(draft.state)), draft.name)
    return BatchProduct(environment_id=above.environment_id, version=above.version, scenario=scenario)


def save_task(given: SaveRequest) -> BatchProduct:
    """The task with its checks, its reference and the audit that the pipeline made."""
    audited: AuditedTask = given.drafts["audit"]
    state: ScenarioDraft = given.drafts["state"]
    above = _above(given)
    assert above.version is not None
    environment = above.version.environment
    initial = store_state(encode_state(state.state))
    place = find_task_place(given.item, environment, given.source, audited.task.instruction, initial.pk)
    record = task_record(place.key, environment.key, above.version.class_name, state, audited.task)
    program = program_of(above.version)
    saved = import_task(given.sandbox, record, above.version, program, given.source, place.task)
    row, revision = saved.row, saved.revision
    reference = reference_of(revision)
    made_with = reference_hash(audited.task.reference) if audited.task.reference is not None else ""
    if (reference.content_hash if reference is not None else "") == made_with:
        key = services.audit_key(revision, reference, audited.audit.judge[:200])
        services.store(services.Case(revision, reference, key), audited.audit)
    return BatchProduct(
        environment_id=above.environment_id,
        version=above.version,
        scenario=revision.scenario,
        task=row,
        revision=revision,
        replaced_revision_id=saved.replaced,
    )


def task_record(key: str, environment: str, class_name: str, state: ScenarioDraft, draft: TaskDraft) -> TaskRecord:
    """A draft as importers give it, with a record in EnvScaler's shape for an export."""
    listed = [{"check_item": check.label, "check_func": check.source} for check in draft.checks]
    return TaskRecord(
        environment_key=environment,
        key=key,
        title=draft.title,
        scenario_name=state.name,
        instruction=draft.instruction,
        answer_form=draft.answer_form,
        expected_answer=draft.expected_answer,
        initial_state=state.state,
        verifier=draft.verifier,
        reference=draft.reference,
        raw={
            "env_id": environment,
            "env_class_name": class_name,
            "task_id": key,
            "init_config": state.state,
            "task": draft.instruction,
            **form_record(draft.answer_form, draft.expected_answer),
            "checklist": list(draft.checklist),
            "checklist_with_func": listed,
            **({"frame": draft.frame.model_dump(mode="json", exclude_defaults=True)} if draft.frame else {}),
            **verifier_record(draft.verifier),
            **_blueprint_record(draft),
            **_program_record(draft),
        },
    )


def _blueprint_record(draft: TaskDraft) -> dict[str, Any]:
    """What a record says of the blueprint that a task was written from; empty for any other task."""
    if draft.blueprint is None:
        return {}
    return {"blueprint": draft.blueprint.model_dump(mode="json", exclude_defaults=True), "intent": draft.intent}


def _program_record(draft: TaskDraft) -> dict[str, Any]:
    """What a record says of the program that a task was made by; empty for any other task."""
    if not draft.solution:
        return {}
    consistency = draft.consistency.model_dump(mode="json") if draft.consistency is not None else None
    return {"programmatic": {"solution": draft.solution, "consistency": consistency}}


def save_trajectory(given: SaveRequest) -> BatchProduct:
    above = _attempted(given)
    row = store_attempt(given, above, given.drafts["filter"], {})
    if row.rejected:  # by an earlier try, and not by this one
        row.rejected = ""
        row.provenance = {name: part for name, part in row.provenance.items() if name != "rejected"}
        row.save(update_fields=["rejected", "provenance"])
    return BatchProduct(
        environment_id=above.environment_id,
        version=above.version,
        scenario=above.scenario,
        task=above.task,
        revision=above.revision,
        trajectory=row,
    )


def save_rejected(given: SaveRequest, ended: EndedStage) -> Trajectory:
    """Store an attempt that a filter rejected, with the reason, and what a judge found about its user.

    A trajectory that another batch kept stays as it is."""
    attempt: Attempt = given.drafts["rollout"]
    found = ended.output.get("user_verdict") if isinstance(ended.output, dict) else None
    if found is not None:
        attempt = attempt.model_copy(update={"user_verdict": UserVerdict.model_validate(found)})
    told = {"reason": ended.reason, "message": clean(ended.message)[:MESSAGE_CHARS]}
    return store_attempt(given, _attempted(given), attempt, {"rejected": told}, ended.reason)


def store_attempt(
    given: SaveRequest,
    above: BatchProduct,
    attempt: Attempt,
    more: dict[str, Any],
    rejected: str = "",
    *,
    solver: bool = False,
) -> Trajectory:
    """The trajectory of an attempt at the revision that `above` names, with `more` in its provenance. The same attempt
    of the same item is stored once."""
    revision = above.revision
    assert revision is not None
    program = offered_program(revision)
    initial = load_state(revision.scenario.initial_id)
    start: State | None = None
    if attempt.steps:
        with given.sandbox.reset(program, initial, seed=attempt.seed, now=attempt.now) as episode:
            start = episode.state()
    about = (
        given.provenance
        | more
        | {
            "ordinal": attempt.ordinal,
            "ending": attempt.ending,
            "prompt_style": attempt.prompt_style,
            "user": attempt.user,
            "prompts": attempt.prompts,
            "usage": attempt.usage.model_dump(),
            "user_usage": attempt.user_usage.model_dump(),
            "judge_usage": attempt.judge_usage.model_dump(),
        }
    )
    messages = [message.model_dump(mode="json") for message in attempt.messages]
    # Another batch that replays the same calls finds the same trajectory, as it finds the same task.
    identity = [revision.content_hash, revision.pk, given.item.path, attempt.seed, messages, attempt.answer]
    identity += ["solver", attempt.ordinal] if solver else []
    return record_whole(attempt, revision, start, given.source, identity, about, rejected=rejected, solver=solver)


def _above(given: SaveRequest) -> BatchProduct:
    assert given.above is not None, "an item below another has a parent that was kept"
    return given.above


def _attempted(given: SaveRequest) -> BatchProduct:
    """What an attempt is at: the parent's task, or its variant that withholds something, which is stored by that."""
    above = _above(given)
    if not ItemSpec.model_validate(given.item.spec).withheld:
        return above
    assert above.task is not None
    variant = audited_variant(given.sandbox, above.task)
    return BatchProduct(
        environment_id=above.environment_id,
        version=above.version,
        scenario=above.scenario,
        task=variant.task,
        revision=variant,
    )


SAVERS: dict[str, tuple[tuple[str, ...], Callable[[SaveRequest], BatchProduct]]] = {
    "theme": (("assemble", "assess"), save_environment),
    "scenario": (("state",), save_state),
    "task": (("state", "solve", "audit"), save_task),
    "trajectory": (("filter",), save_trajectory),
}
"""By level: the stages whose drafts are wanted, and what saves them."""
ABOVE: dict[str, tuple[str, ...]] = {
    "theme": (),
    "scenario": ("version",),
    "task": ("version__environment",),
    "trajectory": ("version", "scenario", "task", "revision__scenario__version", "revision__task__environment"),
}
"""By level: the rows that its saver reads of the parent's product."""
