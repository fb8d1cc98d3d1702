"""Adapters from a pipeline to the work of its stages: what a stage gets of the item and of earlier drafts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from synthesis.assessment.dual_agent import assess_program
from synthesis.contracts import Attempt, Blueprint, JudgedEdges
from synthesis.drafts import AssembledProgram, AssessmentDraft, CodeDraft, Plan, ScenarioDraft, TaskDraft, ThemeDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.query_stage import write_query
from synthesis.scenarios.states import write_initial_state
from synthesis.skeleton.code import write_code
from synthesis.skeleton.plan import plan_environment
from synthesis.skeleton.repair import assemble_program
from synthesis.stages import ItemSpec, Kit, StageSettings
from synthesis.tasks.consistency import solve_consistently
from synthesis.tasks.instruction import write_task
from synthesis.tasks.teacher import attempt_task
from synthesis.tasks.trajectory_filters import filter_attempt
from synthesis.tasks.withheld_teacher import attempt_withheld_task
from synthesis.themes.inversion import invert_theme, needs_inversion
from synthesis.themes.tasks import discover_theme
from synthesis.tool_graph.blueprint_stage import BlueprintSet, make_blueprints
from synthesis.tool_graph.edge_stage import build_graph, correct_graph, judge_edges
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.task_stages import write_blueprint_state, write_intent
from synthesis.tool_walk.draft_stage import draft_words
from synthesis.tool_walk.review_stage import review_walk
from synthesis.tool_walk.walk_stage import DrawnWalk, draw_calls
from synthesis.tool_walk.weak_edge_stage import judge_weak_edges
from synthesis.verifiers.audit_report import AuditedTask, TaskAudit

RunStage = Callable[..., Awaitable[Any]]


async def find_theme(kit: Kit, spec: ItemSpec) -> ThemeDraft:
    if spec.theme is None:
        return await discover_theme(kit, spec.text, spec.key)
    return await invert_theme(kit, spec.theme) if needs_inversion(spec.theme) else spec.theme  # AW 3.1, M2


def take_environment(spec: ItemSpec) -> AssembledProgram | None:
    """Return an existing environment as if it had just been assembled, or None."""
    return AssembledProgram(record=spec.environment) if spec.environment is not None else None


def is_assessed(settings: StageSettings, spec: ItemSpec) -> bool:
    """Return whether an existing environment need not be assessed again."""
    enough = spec.score is not None and spec.score >= settings.assessment_threshold
    return spec.environment is not None and enough and not settings.reassess


def make_task_run(work: Callable[[Kit, EnvironmentRecord, ScenarioDraft, TaskDraft], Awaitable[TaskDraft]]) -> RunStage:
    """Return the run of a stage that continues a task, in its environment and its initial state."""

    async def run_stage(
        kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
    ) -> TaskDraft:
        return await work(kit, made.record, scenario, task)

    return run_stage


def make_audit_run(
    work: Callable[[Kit, EnvironmentRecord, ScenarioDraft, TaskDraft], Awaitable[tuple[TaskDraft, TaskAudit]]],
) -> RunStage:
    """Return the run of a stage that audits a task."""

    async def run_stage(
        kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
    ) -> AuditedTask:
        task, report = await work(kit, made.record, scenario, task)
        return AuditedTask(task=task, audit=report)

    return run_stage


def find_known_edges(settings: StageSettings, spec: ItemSpec, *, graded: bool = False) -> JudgedEdges | None:
    """Return the edges of an existing environment, if they need not be judged again. Edges that are not graded do not
    replace `graded` ones.
    """
    usable = spec.edges is not None and (spec.edges.graded or not graded)
    return spec.edges if usable and not settings.graph.judge_anew else None


async def plan_theme(kit: Kit, spec: ItemSpec, theme: ThemeDraft) -> Plan:
    return await plan_environment(kit, theme)


async def write_plan_code(kit: Kit, spec: ItemSpec, planned: Plan) -> CodeDraft:
    return await write_code(kit, planned)


async def assemble_code(
    kit: Kit, spec: ItemSpec, theme: ThemeDraft, planned: Plan, code: CodeDraft
) -> AssembledProgram:
    return await assemble_program(kit, theme, planned, code)


async def assess_item_program(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> AssessmentDraft:
    """Assess a program. One that was made here is repaired; one that existed before is not changed."""
    return await assess_program(kit, made, mend=spec.environment is None)


async def make_scenario_state(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ScenarioDraft:
    return await write_initial_state(kit, made.record, spec.ordinal)


async def write_instruction(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    return await write_task(kit, made.record, scenario, spec.ordinal)


async def make_trajectory(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, audited: AuditedTask
) -> Attempt:
    if spec.withheld:
        return await attempt_withheld_task(kit, made.record, scenario, audited.task, spec.ordinal)
    return await attempt_task(kit, made.record, scenario, audited.task, spec.conversational, spec.ordinal)


async def filter_trajectory(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, audited: AuditedTask, attempt: Attempt
) -> Attempt:
    return await filter_attempt(kit, made.record, audited.task, attempt, withheld=spec.withheld)


async def map_tools(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ToolGraph:
    known = find_known_edges(kit.settings, spec)
    if known is not None:
        return build_graph(made.record, known.strong)
    return correct_graph(await judge_edges(kit, made.record), spec.edges)


async def draw_blueprints(kit: Kit, spec: ItemSpec, made: AssembledProgram, graph: ToolGraph) -> BlueprintSet:
    return await make_blueprints(kit, made.record, graph, count_blueprints(kit.settings))


async def make_blueprint_state(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, blueprints: BlueprintSet
) -> ScenarioDraft:
    return await write_blueprint_state(kit, made.record, blueprints, spec.ordinal)


async def write_blueprint_intent(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft
) -> TaskDraft:
    return await write_intent(kit, made.record, scenario)


async def ask_query(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    return await write_query(kit, made.record, scenario, spec.ordinal)


async def solve_often(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await solve_consistently(kit, made.record, scenario, task, kit.settings.programmatic)


async def map_weak_tools(kit: Kit, spec: ItemSpec, made: AssembledProgram, graph: ToolGraph) -> ToolGraph:
    known = find_known_edges(kit.settings, spec, graded=True)
    if known is not None:
        return build_graph(made.record, known)
    return correct_graph(await judge_weak_edges(kit, made.record, graph), spec.edges)


async def walk_graph(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, graph: ToolGraph, scenario: ScenarioDraft
) -> DrawnWalk:
    return await draw_calls(kit, made.record, scenario, graph)


async def review_drawn_walk(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, graph: ToolGraph, scenario: ScenarioDraft, drawn: DrawnWalk
) -> Blueprint:
    return await review_walk(kit, made.record, scenario, graph, drawn)


async def draft_walk_words(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, chain: Blueprint
) -> TaskDraft:
    return await draft_words(kit, made.record, scenario, chain)


async def solve_walk(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await solve_consistently(kit, made.record, scenario, task, kit.settings.walk)


def count_blueprints(settings: StageSettings) -> int:
    """Return the number of blueprints per environment: as many as EnvScaler's variant makes tasks with the same
    settings (ours).
    """
    return settings.scenarios * settings.tasks
