"""The stages in order, a pipeline a variant: the table of contents of synthesis.

A new stage is a row here, a module in the room of its step, and its words in `synthesis/prompts`. What the web app
keeps of an item is what its stages gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.assessment.dual_agent import assess
from synthesis.contracts import Attempt
from synthesis.drafts import AssembledProgram, AssessmentDraft, CodeDraft, Plan, ScenarioDraft, TaskDraft, ThemeDraft
from synthesis.programmatic.audit_stage import audit_script
from synthesis.programmatic.consistency import solve_consistently
from synthesis.programmatic.query_stage import write_query
from synthesis.programmatic.solution_stage import write_solution
from synthesis.programmatic.verification_stage import write_verification
from synthesis.scenarios.states import initial_state
from synthesis.skeleton.code import write_code
from synthesis.skeleton.plan import plan
from synthesis.skeleton.repair import assemble
from synthesis.stages import ItemPart, ItemSpec, Kit, Level, Pipeline, Stage, StageSettings
from synthesis.tasks.audit_repair import audit
from synthesis.tasks.checklist import write_checklist
from synthesis.tasks.checks import write_checks
from synthesis.tasks.instruction import write_task
from synthesis.tasks.reference_search import solve
from synthesis.tasks.teacher import teach
from synthesis.tasks.trajectory_filters import filter_attempt
from synthesis.tasks.withheld_teacher import teach_withheld
from synthesis.themes.inversion import invert, needs_inversion
from synthesis.themes.same_themes import same_themes
from synthesis.themes.tasks import discover
from synthesis.tool_graph.argument_stage import fill_arguments
from synthesis.tool_graph.blueprint_stage import BlueprintSet, make_blueprints
from synthesis.tool_graph.edge_stage import judge_edges
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.refinement import refine
from synthesis.tool_graph.solution import audit_golden, solve_golden
from synthesis.tool_graph.task_stages import make_state_for, write_intent
from synthesis.verifiers.audit_report import AuditedTask


async def find_theme(kit: Kit, spec: ItemSpec) -> ThemeDraft:
    if spec.theme is None:
        return await discover(kit, spec.text, spec.key)
    return await invert(kit, spec.theme) if needs_inversion(spec.theme) else spec.theme  # AW 3.1, M2


def taken(spec: ItemSpec) -> AssembledProgram | None:
    """An environment that is there, as if it had just been assembled."""
    return AssembledProgram(record=spec.environment) if spec.environment is not None else None


def assessed(settings: StageSettings, spec: ItemSpec) -> bool:
    """Whether an environment that is there need not be assessed again."""
    enough = spec.score is not None and spec.score >= settings.assessment_threshold
    return spec.environment is not None and enough and not settings.reassess


async def plan_it(kit: Kit, spec: ItemSpec, theme: ThemeDraft) -> Plan:
    return await plan(kit, theme)


async def code_it(kit: Kit, spec: ItemSpec, planned: Plan) -> CodeDraft:
    return await write_code(kit, planned)


async def assemble_it(kit: Kit, spec: ItemSpec, theme: ThemeDraft, planned: Plan, code: CodeDraft) -> AssembledProgram:
    return await assemble(kit, theme, planned, code)


async def assess_it(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> AssessmentDraft:
    """A program that was made here is repaired; one that was there before is not ours to change."""
    return await assess(kit, made, mend=spec.environment is None)


async def make_state(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ScenarioDraft:
    return await initial_state(kit, made.record, spec.ordinal)


async def instruct(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    return await write_task(kit, made.record, scenario, spec.ordinal)


async def list_checks(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await write_checklist(kit, made.record, scenario, task)


async def code_checks(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await write_checks(kit, made.record, scenario, task)


async def solve_it(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await solve(kit, made.record, scenario, task)


async def audit_it(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> AuditedTask:
    task, report = await audit(kit, made.record, scenario, task)
    return AuditedTask(task=task, audit=report)


async def act(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, audited: AuditedTask
) -> Attempt:
    if spec.withheld:
        return await teach_withheld(kit, made.record, scenario, audited.task, spec.ordinal)
    return await teach(kit, made.record, scenario, audited.task, spec.conversational, spec.ordinal)


async def sift(kit: Kit, spec: ItemSpec, made: AssembledProgram, audited: AuditedTask, attempt: Attempt) -> Attempt:
    return await filter_attempt(kit, made.record, audited.task, attempt, withheld=spec.withheld)


async def map_tools(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ToolGraph:
    return await judge_edges(kit, made.record)


async def draw_blueprints(kit: Kit, spec: ItemSpec, made: AssembledProgram, graph: ToolGraph) -> BlueprintSet:
    return await make_blueprints(kit, made.record, graph, count_blueprints(kit.settings))


async def make_blueprint_state(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, blueprints: BlueprintSet
) -> ScenarioDraft:
    return await make_state_for(kit, made.record, blueprints, spec.ordinal)


async def intend(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    return await write_intent(kit, made.record, scenario)


async def execute_it(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await fill_arguments(kit, made.record, scenario, task)


async def refine_it(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await refine(kit, made.record, scenario, task)


async def solve_from_words(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await solve_golden(kit, made.record, scenario, task)


async def audit_end(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> AuditedTask:
    task, report = await audit_golden(kit, made.record, scenario, task)
    return AuditedTask(task=task, audit=report)


async def ask_query(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    return await write_query(kit, made.record, scenario, spec.ordinal)


async def program_solution(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await write_solution(kit, made.record, scenario, task)


async def program_verification(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await write_verification(kit, made.record, scenario, task)


async def solve_often(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    return await solve_consistently(kit, made.record, scenario, task)


async def audit_program(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, task: TaskDraft
) -> AuditedTask:
    task, report = await audit_script(kit, made.record, scenario, task)
    return AuditedTask(task=task, audit=report)


def count_blueprints(settings: StageSettings) -> int:
    """Blueprints an environment: as many as EnvScaler's variant makes tasks of it with the same settings (ours)."""
    return settings.scenarios * settings.tasks


def only_assessed(settings: StageSettings, spec: ItemSpec) -> bool:
    """Whether nothing is made below an environment."""
    return not count_blueprints(settings)


def blueprint_parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """As `parts`, with an initial state of its own for each task: values of a state are made for its task (AF 3.3)."""
    if level == "theme":
        return [
            ItemPart("scenario", f"scenario-{ordinal}", ItemSpec(ordinal=ordinal))
            for ordinal in range(count_blueprints(settings))
        ]
    if level == "scenario":
        return [ItemPart("task", "task-0", ItemSpec())]
    return parts(level, settings)


def parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """What is made below an item that was kept: initial states, tasks in them, trajectories in both settings."""
    if level == "theme":
        return [
            ItemPart("scenario", f"scenario-{ordinal}", ItemSpec(ordinal=ordinal))
            for ordinal in range(settings.scenarios)
        ]
    if level == "scenario":
        return [ItemPart("task", f"task-{ordinal}", ItemSpec(ordinal=ordinal)) for ordinal in range(settings.tasks)]
    if level == "task":
        talks = (False, True) if settings.conversational else (False,)
        return [
            ItemPart(
                "trajectory", f"{'talk' if talk else 'work'}-{ordinal}", ItemSpec(ordinal=ordinal, conversational=talk)
            )
            for talk in talks
            for ordinal in range(settings.teacher_runs)
        ] + [
            ItemPart("trajectory", f"without-{ordinal}", ItemSpec(ordinal=ordinal, withheld=True))
            for ordinal in range(settings.withheld_runs)
        ]
    return []


def unsolved(level: Level, drafts: Mapping[str, Any]) -> bool:
    """Whether nobody solved a task."""
    return level == "task" and drafts["audit"].task.reference is None


def unsolved_parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """What is made of a task that nobody solved: nothing (ours), or teacher runs as of any other (ES)."""
    return [part for part in parts(level, settings) if not part.spec.withheld] if settings.teach_unsolved else []


THEME = (
    Stage("discover", "theme", ("author",), (), ThemeDraft, find_theme),  # ES 3.1
    Stage("deduplicate", "theme", ("judge",), ("discover",), group=same_themes),  # ES 3.1, the judge is ours
    Stage("plan", "theme", ("author",), ("discover",), Plan, plan_it),  # ES 3.2
    Stage("code", "theme", ("author",), ("plan",), CodeDraft, code_it),
    Stage("assemble", "theme", ("author",), ("discover", "plan", "code"), AssembledProgram, assemble_it, given=taken),
    Stage(
        "assess",
        "theme",
        ("author", "tester", "checker"),
        ("assemble",),
        AssessmentDraft,
        assess_it,
        skipped=assessed,
        amends="assemble",
    ),  # ES 3.3
)
SCENARIO = (Stage("state", "scenario", ("author",), ("assemble",), ScenarioDraft, make_state),)  # ES 4
TASK = (
    Stage("instruction", "task", ("author",), ("assemble", "state"), TaskDraft, instruct),
    Stage("checklist", "task", ("author",), ("assemble", "state", "instruction"), TaskDraft, list_checks),
    Stage("checks", "task", ("author",), ("assemble", "state", "checklist"), TaskDraft, code_checks),
    Stage("solve", "task", ("teacher",), ("assemble", "state", "checks"), TaskDraft, solve_it),
    Stage("audit", "task", ("author", "teacher"), ("assemble", "state", "solve"), AuditedTask, audit_it),
)
TRAJECTORY = (
    Stage("rollout", "trajectory", ("teacher", "user"), ("assemble", "state", "audit"), Attempt, act),  # B.2
    Stage("filter", "trajectory", ("judge",), ("assemble", "audit", "rollout"), Attempt, sift),
)
ENVSCALER = Pipeline((*THEME, *SCENARIO, *TASK, *TRAJECTORY), parts, unsolved, unsolved_parts)
AUTOFORGE = Pipeline(
    (
        *THEME,
        Stage("edges", "theme", ("author",), ("assemble",), ToolGraph, map_tools, skipped=only_assessed),  # AF 3.2
        Stage(
            "blueprints",
            "theme",
            ("author",),
            ("assemble", "edges"),
            BlueprintSet,
            draw_blueprints,
            skipped=only_assessed,
        ),
        Stage("state", "scenario", ("author",), ("assemble", "blueprints"), ScenarioDraft, make_blueprint_state),
        Stage("intent", "task", ("author",), ("assemble", "state"), TaskDraft, intend),  # AF 3.3
        Stage("arguments", "task", ("author",), ("assemble", "state", "intent"), TaskDraft, execute_it),
        Stage("refine", "task", ("author", "teacher"), ("assemble", "state", "arguments"), TaskDraft, refine_it),
        Stage("solve", "task", ("teacher",), ("assemble", "state", "refine"), TaskDraft, solve_from_words),
        Stage("audit", "task", (), ("assemble", "state", "solve"), AuditedTask, audit_end),
        *TRAJECTORY,
    ),
    blueprint_parts,
    unsolved,
    unsolved_parts,
)
PROGRAMMATIC = Pipeline(
    (
        *THEME,
        *SCENARIO,
        Stage("query", "task", ("author",), ("assemble", "state"), TaskDraft, ask_query),  # AW 3.1.1 (2)
        Stage("solution", "task", ("author",), ("assemble", "state", "query"), TaskDraft, program_solution),
        Stage("verification", "task", ("author",), ("assemble", "state", "solution"), TaskDraft, program_verification),
        Stage("solve", "task", ("teacher",), ("assemble", "state", "verification"), TaskDraft, solve_often),
        Stage("audit", "task", ("author",), ("assemble", "state", "solve"), AuditedTask, audit_program),
        *TRAJECTORY,
    ),
    parts,
    unsolved,
    unsolved_parts,
)
PIPELINES: dict[str, Pipeline] = {"envscaler": ENVSCALER, "autoforge": AUTOFORGE, "programmatic": PROGRAMMATIC}
"""By `Variant`."""
