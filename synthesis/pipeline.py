"""Stages in order, one pipeline per variant: the table of contents of synthesis.

A new stage is a row here, a module in the folder of its step, its adapter (`stage_adapters.py`), and its prompts in
`synthesis/prompts`. The web app stores the drafts of an item's stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.contracts import Attempt, Blueprint
from synthesis.drafts import AssembledProgram, AssessmentDraft, CodeDraft, Plan, ScenarioDraft, TaskDraft, ThemeDraft
from synthesis.programmatic.audit_stage import audit_script
from synthesis.programmatic.solution_stage import write_solution
from synthesis.programmatic.verification_stage import write_verification
from synthesis.stage_adapters import (
    ask_query,
    assemble_code,
    assess_item_program,
    count_blueprints,
    draft_walk_words,
    draw_blueprints,
    filter_trajectory,
    find_theme,
    is_assessed,
    make_audit_run,
    make_blueprint_state,
    make_scenario_state,
    make_task_run,
    make_trajectory,
    map_tools,
    map_weak_tools,
    plan_theme,
    review_drawn_walk,
    solve_often,
    solve_walk,
    take_environment,
    walk_graph,
    write_blueprint_intent,
    write_instruction,
    write_plan_code,
)
from synthesis.stages import ItemPart, ItemSpec, Level, Pipeline, Stage, StageSettings
from synthesis.tasks.audit_repair import audit_and_repair_task
from synthesis.tasks.checklist import write_checklist
from synthesis.tasks.checks import write_checks
from synthesis.tasks.reference_search import solve_task
from synthesis.themes.same_themes import group_same_themes
from synthesis.tool_graph.argument_stage import fill_arguments
from synthesis.tool_graph.blueprint_stage import BlueprintSet
from synthesis.tool_graph.graph import ToolGraph
from synthesis.tool_graph.refinement import refine_words
from synthesis.tool_graph.solution import audit_golden, solve_golden
from synthesis.tool_walk.answer_stage import write_answer
from synthesis.tool_walk.audit_stage import audit_walk
from synthesis.tool_walk.rubric_stage import write_rubric
from synthesis.tool_walk.walk_stage import DrawnWalk
from synthesis.verifiers.audit_report import AuditedTask


def is_only_assessed(settings: StageSettings, spec: ItemSpec) -> bool:
    """Return whether no items are made below an environment."""
    return not count_blueprints(settings)


def list_blueprint_parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """Return parts as `list_parts`, with an initial state for each task: values of a state are made for its task (AF
    3.3).
    """
    if level == "theme":
        return [
            ItemPart("scenario", f"scenario-{ordinal}", ItemSpec(ordinal=ordinal))
            for ordinal in range(count_blueprints(settings))
        ]
    if level == "scenario":
        return [ItemPart("task", "task-0", ItemSpec())]
    return list_parts(level, settings)


def list_parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """Return the items below a kept item: initial states, tasks in them, trajectories in both settings."""
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


def is_unsolved(level: Level, drafts: Mapping[str, Any]) -> bool:
    """Return whether no run solved a task."""
    return level == "task" and drafts["audit"].task.reference is None


def list_unsolved_parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    """Return the items below an unsolved task: none (ours), or teacher runs as for any other (ES)."""
    return [part for part in list_parts(level, settings) if not part.spec.withheld] if settings.teach_unsolved else []


THEME = (
    Stage("discover", "theme", ("author",), (), ThemeDraft, find_theme),  # ES 3.1
    Stage("deduplicate", "theme", ("judge",), ("discover",), group=group_same_themes),  # ES 3.1, the judge is ours
    Stage("plan", "theme", ("author",), ("discover",), Plan, plan_theme),  # ES 3.2
    Stage("code", "theme", ("author",), ("plan",), CodeDraft, write_plan_code),
    Stage(
        "assemble",
        "theme",
        ("author",),
        ("discover", "plan", "code"),
        AssembledProgram,
        assemble_code,
        given=take_environment,
    ),
    Stage(
        "assess",
        "theme",
        ("author", "tester", "checker"),
        ("assemble",),
        AssessmentDraft,
        assess_item_program,
        skipped=is_assessed,
        amends="assemble",
    ),  # ES 3.3
)
EDGES = Stage("edges", "theme", ("author",), ("assemble",), ToolGraph, map_tools, skipped=is_only_assessed)  # AF 3.2
SCENARIO = (Stage("state", "scenario", ("author",), ("assemble",), ScenarioDraft, make_scenario_state),)  # ES 4
TASK = (
    Stage("instruction", "task", ("author",), ("assemble", "state"), TaskDraft, write_instruction),
    Stage(
        "checklist",
        "task",
        ("author",),
        ("assemble", "state", "instruction"),
        TaskDraft,
        make_task_run(write_checklist),
    ),
    Stage("checks", "task", ("author",), ("assemble", "state", "checklist"), TaskDraft, make_task_run(write_checks)),
    Stage("solve", "task", ("teacher",), ("assemble", "state", "checks"), TaskDraft, make_task_run(solve_task)),
    Stage(
        "audit",
        "task",
        ("author", "teacher"),
        ("assemble", "state", "solve"),
        AuditedTask,
        make_audit_run(audit_and_repair_task),
    ),
)
TRAJECTORY = (
    Stage(
        "rollout", "trajectory", ("teacher", "user"), ("assemble", "state", "audit"), Attempt, make_trajectory
    ),  # B.2
    Stage("filter", "trajectory", ("judge",), ("assemble", "audit", "rollout"), Attempt, filter_trajectory),
)
ENVSCALER = Pipeline((*THEME, *SCENARIO, *TASK, *TRAJECTORY), list_parts, is_unsolved, list_unsolved_parts)
AUTOFORGE = Pipeline(
    (
        *THEME,
        EDGES,
        Stage(
            "blueprints",
            "theme",
            ("author",),
            ("assemble", "edges"),
            BlueprintSet,
            draw_blueprints,
            skipped=is_only_assessed,
        ),
        Stage("state", "scenario", ("author",), ("assemble", "blueprints"), ScenarioDraft, make_blueprint_state),
        Stage("intent", "task", ("author",), ("assemble", "state"), TaskDraft, write_blueprint_intent),  # AF 3.3
        Stage(
            "arguments", "task", ("author",), ("assemble", "state", "intent"), TaskDraft, make_task_run(fill_arguments)
        ),
        Stage(
            "refine",
            "task",
            ("author", "teacher"),
            ("assemble", "state", "arguments"),
            TaskDraft,
            make_task_run(refine_words),
        ),
        Stage("solve", "task", ("teacher",), ("assemble", "state", "refine"), TaskDraft, make_task_run(solve_golden)),
        Stage("audit", "task", (), ("assemble", "state", "solve"), AuditedTask, make_audit_run(audit_golden)),
        *TRAJECTORY,
    ),
    list_blueprint_parts,
    is_unsolved,
    list_unsolved_parts,
)
PROGRAMMATIC = Pipeline(
    (
        *THEME,
        *SCENARIO,
        Stage("query", "task", ("author",), ("assemble", "state"), TaskDraft, ask_query),  # AW 3.1.1 (2)
        Stage(
            "solution", "task", ("author",), ("assemble", "state", "query"), TaskDraft, make_task_run(write_solution)
        ),
        Stage(
            "verification",
            "task",
            ("author",),
            ("assemble", "state", "solution"),
            TaskDraft,
            make_task_run(write_verification),
        ),
        Stage("solve", "task", ("teacher",), ("assemble", "state", "verification"), TaskDraft, solve_often),
        Stage("audit", "task", ("author",), ("assemble", "state", "solve"), AuditedTask, make_audit_run(audit_script)),
        *TRAJECTORY,
    ),
    list_parts,
    is_unsolved,
    list_unsolved_parts,
)
WALK = Pipeline(
    (
        *THEME,
        EDGES,  # strong ones, AW 3.1.1 (1)
        Stage(
            "weak_edges",
            "theme",
            ("author",),
            ("assemble", "edges"),
            ToolGraph,
            map_weak_tools,
            skipped=is_only_assessed,
        ),
        *SCENARIO,
        Stage("walk", "task", (), ("assemble", "weak_edges", "state"), DrawnWalk, walk_graph),
        Stage("review", "task", ("author",), ("assemble", "weak_edges", "state", "walk"), Blueprint, review_drawn_walk),
        Stage("draft", "task", ("author",), ("assemble", "state", "review"), TaskDraft, draft_walk_words),
        Stage("answer", "task", ("author",), ("assemble", "state", "draft"), TaskDraft, make_task_run(write_answer)),
        Stage(
            "rubric",
            "task",
            ("author", "judge"),
            ("assemble", "state", "answer"),
            TaskDraft,
            make_task_run(write_rubric),
        ),
        Stage("solve", "task", ("teacher", "judge"), ("assemble", "state", "rubric"), TaskDraft, solve_walk),
        Stage(
            "audit",
            "task",
            ("author", "judge"),
            ("assemble", "state", "solve"),
            AuditedTask,
            make_audit_run(audit_walk),
        ),
        Stage(
            "rollout",
            "trajectory",
            ("teacher", "user", "judge"),
            ("assemble", "state", "audit"),
            Attempt,
            make_trajectory,
        ),
        TRAJECTORY[-1],
    ),
    list_parts,
    is_unsolved,
    list_unsolved_parts,
)
PIPELINES: dict[str, Pipeline] = {
    "envscaler": ENVSCALER,
    "autoforge": AUTOFORGE,
    "programmatic": PROGRAMMATIC,
    "walk": WALK,
}
"""By `Variant`."""
