"""Saving of an item's product, through the services that imports use. Saving it twice changes nothing.

The sandbox has finished before any transaction begins; the item itself is ended afterwards, so that after a crash in
between the next try finds its rows unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Attempt, JudgedEdges, State, UserVerdict
from synthesis.drafts import AssembledProgram, AssessmentDraft, ScenarioDraft, StoredProgram, TaskDraft
from synthesis.errors import InputError
from synthesis.formats.answer_form import serialize_form
from synthesis.formats.records import TaskRecord
from synthesis.formats.values import clean_text
from synthesis.formats.verifier_record import serialize_verifier
from synthesis.runtime import Sandbox, encode_state
from synthesis.runtime.encoding import decode_state
from synthesis.stages import ItemSpec, Level, Pipeline, StageSettings
from synthesis.tool_graph.graph import ToolGraph
from synthesis.verifiers.audit_report import AuditedTask
from webapp.batches.engine.stage_runs import MESSAGE_CHARS, EndedStage
from webapp.batches.engine.task_places import find_task_place
from webapp.batches.models import BatchItem, BatchProduct
from webapp.batches.spec import SCRIPTED
from webapp.environments.assessment_services import save_assessment
from webapp.environments.importer import import_environment
from webapp.environments.models import Environment, Version
from webapp.environments.services import build_program, note_variant
from webapp.environments.tool_graph.services import save_edges
from webapp.scenarios.audits import services
from webapp.scenarios.importer import import_task
from webapp.scenarios.references import build_offered_program, compute_reference_hash, find_reference
from webapp.scenarios.services import save_scenario
from webapp.scenarios.states import load_state, store_state
from webapp.scenarios.withheld.services import ensure_audited_variant
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.finished_attempt import store_finished_attempt

SOURCE = "synthesis"
REJECTING, TRIED = "filter", ("rollout",)
"""The stage that rejects an attempt, and the one whose draft is the attempt."""
SCRIPTED_SOURCE = "scripted"
"""Of what the scripted provider had a part in: lists say so, and no model's work becomes a version of it."""
Drafts = Mapping[str, Any]


@dataclass(frozen=True)
class SaveRequest:
    """Input of a saver: the item, its drafts by stage, its parent's product, its provenance, the model of each role,
    and the batch's variant."""

    sandbox: Sandbox
    item: BatchItem
    drafts: Drafts
    above: BatchProduct | None
    provenance: dict[str, Any]
    models: dict[str, str]
    variant: str

    @property
    def source(self) -> str:
        """The source of the product, by the roles that took part in the item."""
        return SCRIPTED_SOURCE if SCRIPTED in self.provenance["models"].values() else SOURCE


def save_environment(given: SaveRequest) -> BatchProduct:
    """Save a new environment, or take the existing version, with the assessment that the batch made."""
    assembled: AssembledProgram = given.drafts["assemble"]
    assessment: AssessmentDraft | None = given.drafts.get("assess")
    existing_version = ItemSpec.model_validate(given.item.spec).version
    replaced = assessed = None
    if existing_version:
        version = _get_existing_version(existing_version)
    else:
        same_key = Environment.objects.filter(source=given.source, key=assembled.record.key)
        before = same_key.values_list("current", flat=True).first()
        states = [decode_state(case.state) for case in assessment.cases[:1]] if assessment else []
        saved, version = import_environment(given.sandbox, assembled.record, given.source, states)
        replaced = before if saved == "updated" else None
        note_variant(version.environment_id, given.variant)
    if assessment is not None:
        roles = {role: given.models[role] for role in ("author", "tester", "checker")}
        _, assessed = save_assessment(version, assessment, roles=roles, scripted=SCRIPTED in roles.values())
    _save_graph(given, version)
    return BatchProduct(
        environment_id=version.environment_id, version=version, replaced_version_id=replaced, assessment=assessed
    )


def _save_graph(given: SaveRequest, version: Version) -> None:
    """Store the edges of the item's last graph of tools, unless it only took stored ones."""
    graphs = [draft for draft in given.drafts.values() if isinstance(draft, ToolGraph)]
    if not graphs:
        return
    judged = JudgedEdges(edges=graphs[-1].edges, graded=graphs[-1].graded)
    stored_edges = ItemSpec.model_validate(given.item.spec).edges
    if (
        stored_edges is not None
        and judged.edges in (stored_edges.edges, stored_edges.strong.edges)
        and stored_edges.graded >= judged.graded
    ):
        return
    save_edges(version, judged, model=given.models["author"], batch=given.item.batch_id)


def _get_existing_version(pk: int) -> Version:
    row = Version.objects.select_related("environment").filter(pk=pk).first()
    if row is None:
        raise InputError("The environment that this grows on was deleted meanwhile. Leave it out of the next batch.")
    return row


def save_state(given: SaveRequest) -> BatchProduct:
    draft: ScenarioDraft = given.drafts["state"]
    above = _require_parent_product(given)
    assert above.version is not None
    scenario = save_scenario(above.version, store_state(encode_state(draft.state)), draft.name)
    return BatchProduct(environment_id=above.environment_id, version=above.version, scenario=scenario)


def save_task(given: SaveRequest) -> BatchProduct:
    """Save the task with its checks, its reference and the pipeline's audit."""
    audited: AuditedTask = given.drafts["audit"]
    state: ScenarioDraft = given.drafts["state"]
    above = _require_parent_product(given)
    assert above.version is not None
    environment = above.version.environment
    initial = store_state(encode_state(state.state))
    place = find_task_place(given.item, environment, given.source, audited.task.instruction, initial.pk)
    record = build_task_record(place.key, environment.key, above.version.class_name, state, audited.task)
    record = record.model_copy(update={"variant": given.variant})
    program = build_program(above.version)
    saved = import_task(given.sandbox, record, above.version, program, given.source, place.task)
    row, revision = saved.row, saved.revision
    reference = find_reference(revision)
    made_with = compute_reference_hash(audited.task.reference) if audited.task.reference is not None else ""
    if (reference.content_hash if reference is not None else "") == made_with:
        key = services.compute_audit_key(revision, reference, audited.audit.judge[:200])
        services.store_audit(services.Case(revision, reference, key), audited.audit)
    return BatchProduct(
        environment_id=above.environment_id,
        version=above.version,
        scenario=revision.scenario,
        task=row,
        revision=revision,
        replaced_revision_id=saved.replaced,
    )


def build_task_record(
    key: str, environment: str, class_name: str, state: ScenarioDraft, draft: TaskDraft
) -> TaskRecord:
    """Return a draft as the record that importers take, with a record in EnvScaler's shape for exports."""
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
        consistency=draft.consistency,
        raw={
            "env_id": environment,
            "env_class_name": class_name,
            "task_id": key,
            "init_config": state.state,
            "task": draft.instruction,
            **serialize_form(draft.answer_form, draft.expected_answer),
            "checklist": list(draft.checklist),
            "checklist_with_func": listed,
            **({"frame": draft.frame.model_dump(mode="json", exclude_defaults=True)} if draft.frame else {}),
            **({"criteria": [one.record for one in draft.verifier.criteria]} if draft.verifier.criteria else {}),
            **serialize_verifier(draft.verifier),
            **_build_blueprint_record(draft),
            **_build_program_record(draft),
        },
    )


def _build_blueprint_record(draft: TaskDraft) -> dict[str, Any]:
    """Return the record's part on the blueprint that a task was written from; empty for any other task."""
    if draft.blueprint is None:
        return {}
    return {"blueprint": draft.blueprint.model_dump(mode="json", exclude_defaults=True), "intent": draft.intent}


def _build_program_record(draft: TaskDraft) -> dict[str, Any]:
    """Return the record's part on the program or the walk that a task was made by; empty for any other task."""
    if draft.solution:
        stored_program = StoredProgram(solution=draft.solution, rounds=draft.rounds, siblings=draft.siblings)
        return {"programmatic": stored_program.model_dump(mode="json")}
    if draft.rubric is None:
        return {}
    return {"walk": {"derivation": draft.derivation}, "criteria": [one.record for one in draft.rubric.criteria]}


def save_trajectory(given: SaveRequest) -> BatchProduct:
    above = _get_attempted_product(given)
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


def save_rejected_attempt(given: SaveRequest, ended: EndedStage) -> Trajectory:
    """Store an attempt that a filter rejected, with the reason and a judge's verdict on its user.

    A trajectory that another batch kept stays as it is.
    """
    attempt: Attempt = given.drafts["rollout"]
    user_verdict = ended.output.get("user_verdict") if isinstance(ended.output, dict) else None
    if user_verdict is not None:
        attempt = attempt.model_copy(update={"user_verdict": UserVerdict.model_validate(user_verdict)})
    rejection = {"reason": ended.reason, "message": clean_text(ended.message)[:MESSAGE_CHARS]}
    return store_attempt(given, _get_attempted_product(given), attempt, {"rejected": rejection}, ended.reason)


def store_attempt(
    given: SaveRequest,
    above: BatchProduct,
    attempt: Attempt,
    more: dict[str, Any],
    rejected: str = "",
    *,
    solver: bool = False,
) -> Trajectory:
    """Store the trajectory of an attempt at the revision that `above` names, with `more` in its provenance. The same
    attempt of the same item is stored once."""
    revision = above.revision
    assert revision is not None
    program = build_offered_program(revision)
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
    return store_finished_attempt(
        attempt, revision, start, given.source, identity, about, rejected=rejected, solver=solver
    )


def _require_parent_product(given: SaveRequest) -> BatchProduct:
    assert given.above is not None, "an item below another has a parent that was kept"
    return given.above


def _get_attempted_product(given: SaveRequest) -> BatchProduct:
    """Return the product that an attempt is made at: the parent's task, or its variant with withheld information, which
    this stores."""
    above = _require_parent_product(given)
    if not ItemSpec.model_validate(given.item.spec).withheld:
        return above
    assert above.task is not None
    variant = ensure_audited_variant(given.sandbox, above.task)
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


def list_saved_stages(pipeline: Pipeline, level: Level, settings: StageSettings, spec: ItemSpec) -> tuple[str, ...]:
    """Return the stages whose drafts the saver of a level takes: those it names, and those that give a graph of
    tools."""
    graphs = [stage.name for stage in pipeline.of(level) if stage.gives is ToolGraph]
    active_stages = {stage.name for stage in pipeline.stages if not stage.skipped(settings, spec)}
    return tuple(name for name in (*SAVERS[level][0], *graphs) if name in active_stages)
