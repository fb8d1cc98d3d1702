"""What items of each level ask for where nothing is known of the past: ranges, which are ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from synthesis.stages import Pipeline, StageSettings
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


TaskWay = Literal["checks", "graph", "programs"]
"""How a variant makes its tasks: with checks, from a graph of tools, or by programs."""


@dataclass(frozen=True)
class AssumedUsage:
    """Calls an item, tokens and seconds a call. `late`: an item that is rejected on the way may not come so far."""

    calls: Bounds
    prompt: Bounds = READING
    completion: Bounds = WORDS
    seconds: Bounds = PATIENCE
    late: bool = False


def find_way(pipeline: Pipeline) -> TaskWay:
    """How a pipeline makes its tasks."""
    names = {stage.name for stage in pipeline.stages}
    return "graph" if "blueprints" in names else "programs" if "solution" in names else "checks"


def assumed_share(themes: int) -> Bounds:
    """Of the items of a level, the share that goes on: of one theme perhaps none, of many more surely some."""
    return Bounds(max(0.0, KEPT - KEPT / math.sqrt(max(1, themes))), 1.0)


def assumed(
    settings: StageSettings, level: str, *, text: bool, talk: bool, way: TaskWay = "checks"
) -> dict[tuple[str, str], AssumedUsage]:
    """By role and stage: what one item of a level asks for. `environment` is one that is there and is to be assessed,
    `inversion` what a theme of mere tools asks for besides, `graph` what an environment asks for behind its assessment
    in a variant that draws its tasks from a graph.

    Upper ends of calls hold replies that have to be asked for again.
    """
    if way == "graph" and level in ("graph", "scenario", "task"):
        return _drawing(settings, level)
    if way == "programs" and level == "task":
        return _programming(settings)
    if level == "environment":
        return _assessing(settings, late=False)
    if level == "inversion":
        return {("author", "invert_tools"): AssumedUsage(Bounds(1, 2), LONG_READING)}
    if level == "theme":
        reading_text = {("author", stage): AssumedUsage(Bounds(1, 2)) for stage in ("judge_task", "infer_theme")}
        return (
            (reading_text if text else {})
            | _comparing(settings)
            | _building(settings)
            | _assessing(settings, late=True)
        )
    if level == "scenario":
        return {("author", "initial_state"): AssumedUsage(Bounds(1, 2), STATE_READING, LONG)}
    if level == "task":
        return _task(settings)
    runs = {
        ("teacher", "rollout"): AssumedUsage(Bounds(3, 18), LONG_READING, FEW_WORDS),
        ("judge", "judge_run"): AssumedUsage(Bounds(0, 2), LONG_READING, FEW_WORDS, late=True),
    }
    return runs | ({("user", "user"): AssumedUsage(Bounds(2, 12), SHORT_READING, FEW_WORDS)} if talk else {})


def _drawing(settings: StageSettings, level: str) -> dict[tuple[str, str], AssumedUsage]:
    """Of the variant `autoforge`: a graph with its blueprints, a state for one of them, the task that comes of it."""
    graph = settings.graph
    most = settings.scenarios * settings.tasks
    if level == "graph":
        merges = Bounds(1, 1.3 * (most + graph.spare_merges))
        return {
            ("author", "tool_edges"): AssumedUsage(
                Bounds(settings.least_tools, 1.2 * settings.most_tools), LONG_READING, WORDS, late=True
            ),
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


def _programming(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    """A task of the variant `programmatic`."""
    numbers = settings.programmatic
    runs, rounds = numbers.consistency_runs, numbers.rounds
    turns = Bounds(runs * (numbers.least_calls + 1), runs * numbers.limit_turns(numbers.most_calls))
    return {
        ("author", "query"): AssumedUsage(Bounds(1, 2), LONG_READING, WORDS),
        ("author", "solution"): AssumedUsage(Bounds(1, rounds), STATE_READING, CODE, late=True),
        ("author", "verification"): AssumedUsage(Bounds(1, 2 * rounds), LONG_READING, CODE, late=True),
        ("teacher", "solve"): AssumedUsage(turns, LONG_READING, FEW_WORDS, late=True),
    }


def _comparing(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
    """Of one theme among many; among few there are fewer to compare it with."""
    if not settings.duplicate_pairs:
        return {}
    return {
        ("judge", "like_themes"): AssumedUsage(Bounds(0, 0.1), LONG_READING, FEW_WORDS),  # a list for many themes
        ("judge", "same_theme"): AssumedUsage(Bounds(0, settings.duplicate_pairs), SHORT_READING, FEW_WORDS),
    }


def _building(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
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


def _assessing(settings: StageSettings, *, late: bool) -> dict[tuple[str, str], AssumedUsage]:
    """Stopped early, an assessment ends after a few calls that decide it, or goes on to the last."""
    planned = settings.assessment_calls
    least = min(2 * settings.least_tools, planned) if settings.sequential else planned
    calls = Bounds(least, 1.1 * planned + 2 * settings.tool_repairs)
    again = Bounds(least, (1.1 + 0.1 * settings.tool_repairs) * planned)
    states = Bounds(settings.test_states, 1.5 * settings.test_states)
    return {
        ("author", "test_state"): AssumedUsage(states, STATE_READING, LONG, late=late),
        **_testing(settings, calls, late=late),
        ("checker", "check_call"): AssumedUsage(again, LONG_READING, FEW_WORDS, late=late),
    }


def _testing(settings: StageSettings, calls: Bounds, *, late: bool) -> dict[tuple[str, str], AssumedUsage]:
    """A free tester reads all tools for each call; what follows a repair is planned all the same."""
    if settings.tester == "planned":
        return {("tester", "test_call"): AssumedUsage(calls, LONG_READING, FEW_WORDS, late=late)}
    reading = Bounds(LONG_READING.low, STATE_READING.high)
    free = AssumedUsage(Bounds(calls.low, 1.1 * settings.assessment_calls), reading, FEW_WORDS, late=late)
    if not settings.tool_repairs:
        return {("tester", "choose_call"): free}
    fresh = AssumedUsage(Bounds(0, 2 * settings.tool_repairs), LONG_READING, FEW_WORDS, late=late)
    return {("tester", "choose_call"): free, ("tester", "test_call"): fresh}


def _task(settings: StageSettings) -> dict[tuple[str, str], AssumedUsage]:
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
