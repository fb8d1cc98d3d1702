"""Assumed usage of items at each level if there is no history: ranges, which are ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from synthesis.stages import Pipeline, StageSettings
from synthesis.verifiers.rubric_audit import MOST_MUTANTS, MOST_UNASKED
from webapp.batches.launch.bounds import Bounds

SHORT_READING = Bounds(500, 2_500)
READING = Bounds(900, 4_500)
LONG_READING = Bounds(1_500, 8_000)
STATE_READING = Bounds(2_500, 14_000)
FEW_WORDS = Bounds(15, 400)
WORDS = Bounds(40, 1_500)
CODE = Bounds(130, 2_500)
LONG = Bounds(300, 8_000)
PATIENCE = Bounds(1.0, 20.0)
KEPT = 0.8
"""Of the items of a level: the share that goes on."""


EDGE_STAGES = {"edges": "tool_edges", "weak_edges": "weak_edges"}
"""By what is to be made: the stage that judges it."""
TaskWay = Literal["checks", "graph", "programs", "walks"]
"""How a variant makes its tasks: with checks, from a graph of tools, by programs, or from weighted walks."""


@dataclass(frozen=True)
class AssumedUsage:
    """Calls per item, tokens and seconds per call. `late`: an item that is rejected on the way may not reach it."""

    calls: Bounds
    prompt: Bounds = READING
    completion: Bounds = WORDS
    seconds: Bounds = PATIENCE
    late: bool = False


def find_task_way(pipeline: Pipeline) -> TaskWay:
    """Return how a pipeline makes its tasks."""
    names = {stage.name for stage in pipeline.stages}
    marks: dict[str, TaskWay] = {"blueprints": "graph", "solution": "programs", "rubric": "walks"}
    return next((way for stage, way in marks.items() if stage in names), "checks")


def assume_kept_share(themes: int) -> Bounds:
    """Return the assumed share of a level's items that continues: of one theme perhaps none, of many more surely
    some."""
    return Bounds(max(0.0, KEPT - KEPT / math.sqrt(max(1, themes))), 1.0)


def assume_usage(
    settings: StageSettings, level: str, *, text: bool, talk: bool, way: TaskWay = "checks"
) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of one item of a level by role and stage. `environment` is an existing one to be assessed,
    `inversion` the extra usage of a theme that consists of tools only; `edges` and `weak_edges` are the usage of
    unknown edges of a graph of tools, `graph` that of blueprints drawn from one.

    Upper ends of calls include replies that have to be asked for again.
    """
    if level in EDGE_STAGES:
        sources = Bounds(settings.least_tools, 1.2 * settings.most_tools)
        return {("author", EDGE_STAGES[level]): AssumedUsage(sources, LONG_READING, WORDS, late=True)}
    if way == "graph" and level in ("graph", "scenario", "task"):
        return _assume_graph_usage(settings, level)
    if way == "programs" and level == "task":
        return _assume_program_usage(settings)
    if way == "walks" and level == "task":
        return _assume_walk_usage(settings)
    if level == "environment":
        return _assume_assessment_usage(settings, late=False)
    if level == "inversion":
        return {("author", "invert_tools"): AssumedUsage(Bounds(1, 2), LONG_READING)}
    if level == "theme":
        reading_text = {("author", stage): AssumedUsage(Bounds(1, 2)) for stage in ("judge_task", "infer_theme")}
        return (
            (reading_text if text else {})
            | _assume_comparison_usage(settings)
            | _assume_building_usage(settings)
            | _assume_assessment_usage(settings, late=True)
        )
    if level == "scenario":
        return {("author", "initial_state"): AssumedUsage(Bounds(1, 2), STATE_READING, LONG)}
    if level == "task":
        return _assume_checks_usage(settings)
    judged = {("judge", "judge_end"): AssumedUsage(Bounds(0, 1.2), LONG_READING, WORDS)} if way == "walks" else {}
    runs = judged | {
        ("teacher", "rollout"): AssumedUsage(Bounds(3, 18), LONG_READING, FEW_WORDS),
        ("judge", "judge_run"): AssumedUsage(Bounds(0, 2), LONG_READING, FEW_WORDS, late=True),
    }
    return runs | ({("user", "user"): AssumedUsage(Bounds(2, 12), SHORT_READING, FEW_WORDS)} if talk else {})


def _assume_graph_usage(settings: StageSettings, level: str) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of the variant `autoforge`: blueprints, a state for one of them, the resulting task."""
    graph = settings.graph
    most = settings.scenarios * settings.tasks
    if level == "graph":
        merges = Bounds(1, 1.3 * (most + graph.spare_merges))
        return {
            ("author", "prune_merge"): AssumedUsage(merges, LONG_READING, WORDS, late=True),
            ("author", "reasoning_nodes"): AssumedUsage(merges, STATE_READING, WORDS, late=True),
            ("author", "reasoning_edges"): AssumedUsage(merges, READING, WORDS, late=True),
        }
    if level == "scenario":
        return {("author", "blueprint_state"): AssumedUsage(Bounds(1, 2), STATE_READING, LONG)}
    runs = settings.solver_runs
    return {
        ("author", "intent"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS),
        ("author", "arguments"): AssumedUsage(Bounds(2, 1.5 * graph.most_tools), READING, WORDS),
        ("author", "refine"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS, late=True),
        ("teacher", "shorten"): AssumedUsage(Bounds(0, 12 * graph.deletions), LONG_READING, FEW_WORDS, late=True),
        ("teacher", "solve"): AssumedUsage(Bounds(2 * runs, 12 * (runs + 1)), LONG_READING, FEW_WORDS, late=True),
    }


def _assume_walk_usage(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of a task of the variant `walk`."""
    numbers = settings.walk
    runs = numbers.consistency_runs
    turns = Bounds(runs * (numbers.least_steps + 1), runs * numbers.limit_turns(numbers.most_steps))
    hidden = Bounds(1, 2) if numbers.hidden else Bounds(0, 0)
    # A judge is asked on the reference, on each run, and in an audit on its ends; twice if that is mended.
    judged = Bounds(0, 2 * (runs + MOST_MUTANTS + MOST_UNASKED + 6))
    return {
        ("author", "review_walk"): AssumedUsage(Bounds(1, 3), LONG_READING, WORDS),
        ("author", "draft"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS, late=True),
        ("author", "final_query"): AssumedUsage(Bounds(1, 3), LONG_READING, WORDS, late=True),
        ("author", "ground_truth"): AssumedUsage(Bounds(1, 2), READING, WORDS, late=True),
        ("author", "hide"): AssumedUsage(hidden, READING, WORDS, late=True),
        ("author", "rubric"): AssumedUsage(Bounds(1, 4), LONG_READING, WORDS, late=True),
        ("teacher", "solve"): AssumedUsage(turns, LONG_READING, FEW_WORDS, late=True),
        ("judge", "judge_end"): AssumedUsage(judged, LONG_READING, WORDS, late=True),
    }


def _assume_program_usage(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of a task of the variant `programmatic`."""
    numbers = settings.programmatic
    runs, rounds = numbers.consistency_runs, numbers.rounds
    turns = Bounds(runs * (numbers.least_calls + 1), runs * numbers.limit_turns(numbers.most_calls))
    return {
        ("author", "query"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS),
        ("author", "solution"): AssumedUsage(Bounds(1, rounds), STATE_READING, CODE, late=True),
        ("author", "verification"): AssumedUsage(Bounds(1, 2 * rounds), LONG_READING, CODE, late=True),
        ("teacher", "solve"): AssumedUsage(turns, LONG_READING, FEW_WORDS, late=True),
    }


def _assume_comparison_usage(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of comparing one theme among many; among few there are fewer to compare it with."""
    if not settings.duplicate_pairs:
        return {}
    return {
        ("judge", "like_themes"): AssumedUsage(Bounds(0, 0.1), LONG_READING, FEW_WORDS),  # a list for many themes
        ("judge", "same_theme"): AssumedUsage(Bounds(0, settings.duplicate_pairs), SHORT_READING, FEW_WORDS),
    }


def _assume_building_usage(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    tools = Bounds(settings.least_tools, 1.3 * settings.most_tools)
    repaired = settings.tool_repairs * settings.most_tools / 6
    return {
        ("author", "plan_state"): AssumedUsage(Bounds(1, 2)),
        ("author", "plan_operations"): AssumedUsage(Bounds(0, 2)),  # or, if documents fix the tools,
        ("author", "plan_documented"): AssumedUsage(Bounds(0, 2)),
        ("author", "code_attributes"): AssumedUsage(Bounds(1, 2), READING, CODE),
        ("author", "code_method"): AssumedUsage(tools, READING, CODE),
        ("author", "repair"): AssumedUsage(Bounds(0, settings.repairs), STATE_READING, LONG),
        ("author", "repair_tool"): AssumedUsage(Bounds(0, repaired), LONG_READING, CODE),
    }


def _assume_assessment_usage(settings: StageSettings, *, late: bool) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of an assessment. If stopped early, it ends after a few deciding calls, or goes on to the
    last."""
    planned = settings.assessment_calls
    least = min(2 * settings.least_tools, planned) if settings.sequential else planned
    calls = Bounds(least, 1.1 * planned + 2 * settings.tool_repairs)
    again = Bounds(least, (1.1 + 0.1 * settings.tool_repairs) * planned)
    states = Bounds(settings.test_states, 1.5 * settings.test_states)
    return {
        ("author", "test_state"): AssumedUsage(states, STATE_READING, LONG, late=late),
        **_assume_testing_usage(settings, calls, late=late),
        ("checker", "check_call"): AssumedUsage(again, LONG_READING, FEW_WORDS, late=late),
    }


def _assume_testing_usage(settings: StageSettings, calls: Bounds, *, late: bool) -> dict[tuple[str, str], AssumedUsage]:
    """Return the usage of the tester. A free one reads all tools for each call; calls after a repair are planned all
    the same."""
    if settings.tester == "planned":
        return {("tester", "test_call"): AssumedUsage(calls, LONG_READING, FEW_WORDS, late=late)}
    reading = Bounds(LONG_READING.low, STATE_READING.high)
    free = AssumedUsage(Bounds(calls.low, 1.1 * settings.assessment_calls), reading, FEW_WORDS, late=late)
    if not settings.tool_repairs:
        return {("tester", "choose_call"): free}
    fresh = AssumedUsage(Bounds(0, 2 * settings.tool_repairs), LONG_READING, FEW_WORDS, late=late)
    return {("tester", "choose_call"): free, ("tester", "test_call"): fresh}


def _assume_checks_usage(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    runs = settings.solver_runs
    repairs = Bounds(0, 2 if settings.audit_rejects else 0)
    return {
        ("author", "instruction"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS),
        ("author", "checklist"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS, late=True),
        ("author", "check_function"): AssumedUsage(Bounds(2, 22), LONG_READING, WORDS, late=True),
        # An audit that is mended asks the author for other checks, and solvers for runs of their own.
        ("author", "repair_task"): AssumedUsage(repairs, STATE_READING, LONG, late=True),
        ("teacher", "solve"): AssumedUsage(Bounds(3 * runs, 10 * (runs + 1)), LONG_READING, FEW_WORDS, late=True),
    }
