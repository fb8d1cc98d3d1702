"""Labels, meanings and sources of the settings of a batch on pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.prompts.trial import build_trial_prompt
from synthesis.stages import StageSettings
from webapp.batches.models import Batch
from webapp.batches.spec import LOCAL, SCRIPTED, BatchSettings, compare_settings, flatten_settings
from webapp.endpoints.queries import list_model_choices

ROLE_WORDS = {
    "author": "writes environments, initial states, tasks and checks",
    "tester": "tries each tool, as it should and as it should not be used",
    "checker": "judges what each tool call did",
    "teacher": "solves tasks: references, and trajectories to learn from",
    "user": "plays the person in conversations",
    "judge": "says which themes are one, and which trajectories are worth keeping",
}
STAGE_WORDS = {
    "discover": "takes the theme as it is, or finds one in a task of a file and says whether it is worth growing",
    "deduplicate": "waits for all themes, groups those that are nearly the same and keeps one of each group",
    "plan": "what the environment holds, its rules and its operations",
    "code": "a program: the state as attributes, a method for each tool",
    "assemble": "parts become one program, checked without running it; faults are given back to the author to repair",
    "assess": "the tester calls every tool, the checker judges what each call did; tools that fail are repaired or "
    "taken out; too low a score is rejected",
    "state": "an initial state, constructed and checked",
    "edges": "which tool's output another one takes, judged one source at a time",
    "blueprints": "walks on the graph of tools, merged in pairs and pruned; reasoning nodes and edges; no two alike",
    "intent": "what a user says so that the steps of the blueprint are needed",
    "arguments": "each call filled in and executed, up to the golden state",
    "refine": "the fewest words, without names of the system; unnecessary sentences are left out",
    "weak_edges": "which tool's output another one may take as well, in addition to the strong edges",
    "walk": "a random walk by the weights of edges, its values from results and from the state; each call is tried",
    "review": "what is left of the walk: calls taken out or put in order, never added; executed, each value traced",
    "draft": "what a user says whom the chain serves, without technical details",
    "answer": "the chain executed; the final words and what they ask for, the answer worked out by code, and "
    "words that hide tools and order",
    "rubric": "criteria on the answer's fields, and facts for a judge; tried on the end of the reference",
    "query": "what a user wants that takes loops, branches and sums, without names of tools or fields",
    "solution": "a script that calls the tools, debugged in the sandbox; its calls become the reference, what it "
    "returns the answer",
    "verification": "a script with named assertions, debugged until it blocks every wrong answer and end that is tried",
    "instruction": "a task in that state, without names of tools or fields",
    "checklist": "what must be true in the end for the task to be done",
    "checks": "a function for each line of the checklist, run on the initial state",
    "solve": "the teacher tries; the shortest try that earns 1, without unnecessary calls, becomes the reference "
    "(autoforge: the blueprint is it, and some try must reach the golden state; programmatic and walk: the solution or "
    "the chain is it, and enough tries must agree); all tries are kept",
    "audit": "what doing nothing, the reference and spoilt references earn; a red audit is repaired once (autoforge: "
    "left out)",
    "rollout": "the teacher acts in a task that was solved, alone or with a simulated user",
    "filter": "drops broken format, tries of the impossible, too low a reward and too short or long a run",
    "save": "what was kept becomes environments, tasks and trajectories",
}
VARIANT_HINT = (
    "how tasks are made in an environment. EnvScaler: a state, then an instruction with checks. AutoForge: a blueprint "
    "from a graph of tools, executed to a golden state. Agent-World, programs: a query that one script solves and "
    "another verifies. Agent-World, walks: a chain of calls along the graph, with an answer and a rubric"
)
SCRIPTED_LABEL = "scripted: written replies, offline, no LLM"


@dataclass(frozen=True)
class SettingLabel:
    """Label of a setting. `mark` is the source of the initial value: `published` or `released` (EnvScaler's, with a
    `place`) or `ours`."""

    name: str
    label: str
    hint: str = ""
    mark: str = ""
    place: str = ""

    @property
    def default(self) -> Any:
        group, _, name = self.name.rpartition(".")
        settings = StageSettings()
        return getattr(getattr(settings, group) if group else settings, name)


def _build_consistency_labels(group: str) -> tuple[SettingLabel, ...]:
    """Return the settings that decide whether a variant's tasks are kept."""
    return (
        SettingLabel(f"{group}.consistency_runs", "Consistency runs", "of the solver; Agent-World: 5", "ours"),
        SettingLabel(f"{group}.consistency_agree", "Runs that agree", "at least; Agent-World: 2", "ours"),
        SettingLabel(f"{group}.consistency_rule", "Which agree", "of the solver's runs", "ours"),
        SettingLabel(f"{group}.turns_a_call", "Turns a call", "of the reference that a run has", "ours"),
        SettingLabel(f"{group}.least_turns", "Least turns", "that a run has", "ours"),
        SettingLabel(f"{group}.most_turns", "Most turns", "that a run has", "ours"),
    )


COUNTS = (
    SettingLabel("scenarios", "Scenarios", "initial states an environment; 0: only assess it", "ours"),
    SettingLabel("tasks", "Tasks", "in each scenario", "ours"),
    SettingLabel("teacher_runs", "Teacher runs", "trajectories a task and setting; 0 makes none", "ours"),
    SettingLabel("teach_unsolved", "Unsolved tasks too", "teachers also try what no solver run solved", "ours"),
    SettingLabel("solver_runs", "Solver runs", "tries at a reference; the shortest that earns 1 is it", "ours"),
    SettingLabel("conversational", "Conversations too", "teachers also talk with a simulated user", "published"),
    SettingLabel("sent_reasoning", "Earlier reasoning", "what teachers see of their own in earlier turns", "ours"),
    SettingLabel("teacher_user", "User of teachers", "in conversations", "ours"),
    SettingLabel(
        "teacher_user_tools", "Tools of the user", "that it alone may call, in environments that have them", "ours"
    ),
    SettingLabel(
        "withheld_runs", "Withheld variants", "runs at each solved task without a tool it needs; 0: none", "ours"
    ),
)
FINDING = (
    SettingLabel("stateful_only", "Stateful only", "tasks of a file that need no state are left out", "published"),
    SettingLabel("least_usefulness", "Usefulness", "of a theme found in a task: from this mark on, of 10", "published"),
    SettingLabel(
        "least_modelability",
        "Modelability",
        "how well a program can represent it: from this mark on, of 10",
        "published",
    ),
    SettingLabel(
        "duplicate_pairs", "Themes compared", "with each, by the judge, the nearest first; 0: by likeness", "ours"
    ),
    SettingLabel(
        "duplicate_at", "Near-duplicates from", "likeness at which two themes are one without a judge", "ours"
    ),
)
BUILDING = (
    SettingLabel("least_tools", "Least tools", "of an environment", "ours"),
    SettingLabel("most_tools", "Most tools", "of an environment", "ours"),
    SettingLabel("repairs", "Repair rounds", "after the static check; the released code discards", "ours"),
    SettingLabel("state_bytes", "Bytes of a state", "at most, as JSON", "ours"),
)
ASSESSING = (
    SettingLabel("assessment_calls", "Assessment calls", "of one environment, at most; the paper's N", "published"),
    SettingLabel("assessment_threshold", "Least score", "(pass + warning) / calls", "published"),
    SettingLabel("sequential", "Stop early", "as soon as the decision is certain", "ours"),
    SettingLabel("assessment_confidence", "Certain at", "confidence of stopping early", "ours"),
    SettingLabel("tool_repairs", "Repairs of a tool", "that fails, before it is taken out; 0: none of both", "ours"),
    SettingLabel("tester", "Tester", "who chooses tool and case of each call", "ours"),
    SettingLabel("test_states", "States to start from", "of an assessment", "ours"),
    SettingLabel("reassess", "Assess again", "also environments that have passed", "ours"),
)
SCORING = (
    SettingLabel("rule", "Score", "of our own tasks", "ours"),
    SettingLabel("frames", "Frames", "other changes than a right way's earn 0; published: none", "ours"),
    SettingLabel("audit_rejects", "Audit decides", "a task whose audit stays red is left out; published: none", "ours"),
    SettingLabel("kept_runs", "Solver runs kept", "of a task, as trajectories; further ones are counted only", "ours"),
    SettingLabel("filter_by_reward", "Filter by reward", "published: by format and impossibility alone", "ours"),
    SettingLabel("least_reward", "Least reward", "of a trajectory that is kept", "ours"),
    SettingLabel("action_range", "Actions", "of a trajectory that is kept", "ours"),
)
GRAPH = (
    SettingLabel("graph.judge_anew", "Judge edges again", "also of environments whose edges are stored", "ours"),
    SettingLabel("graph.walks", "Walks", "drawn on the graph of an environment's tools; AutoForge: thousands", "ours"),
    SettingLabel("graph.least_steps", "Least steps", "tools of a walk", "ours"),
    SettingLabel("graph.most_steps", "Most steps", "tools of a walk", "ours"),
    SettingLabel("graph.most_tools", "Most tools of a merge", "of two walks, before it is pruned", "ours"),
    SettingLabel("graph.spare_merges", "Spare merges", "tried in place of those that are dropped", "ours"),
    SettingLabel("graph.reasoning_nodes", "Reasoning nodes", "in a blueprint, at most", "ours"),
    SettingLabel("graph.deletions", "Sentences tried", "left out on trial, with a run of the teacher each", "ours"),
)
PROGRAMS = (
    SettingLabel("programmatic.rounds", "Rounds", "in which a script is debugged", "ours"),
    SettingLabel("programmatic.least_calls", "Least calls", "of a solution", "ours"),
    SettingLabel("programmatic.most_calls", "Most calls", "of a solution", "ours"),
    SettingLabel("programmatic.siblings", "Answers from elsewhere", "that a verification script must block", "ours"),
    *_build_consistency_labels("programmatic"),
)
WALKS = (
    SettingLabel("walk.most_steps", "Steps of a walk", "calls as they are drawn; more are more difficult", "ours"),
    SettingLabel("walk.least_steps", "Least steps", "that its review must leave", "ours"),
    SettingLabel(
        "walk.weak_factor",
        "Weak factor",
        "by which the weight 2 of weak edges is multiplied; more is more difficult",
        "ours",
    ),
    SettingLabel(
        "walk.independent_factor", "Independent factor", "likewise of independent ones, whose weight is 1", "ours"
    ),
    SettingLabel("walk.visits", "Visits of a tool", "in one walk, at most", "ours"),
    SettingLabel("walk.draws", "Values drawn", "for a call until one goes through", "ours"),
    SettingLabel("walk.hidden", "Hide the way", "words that say nothing of tools and order; published: yes", "ours"),
    *_build_consistency_labels("walk"),
)
DISTURBED = (
    SettingLabel("teacher_latency", "Latency", "share of calls before which time passes in the environment", "ours"),
    SettingLabel("teacher_latency_s", "Seconds of latency", "by which it then does", "ours"),
    SettingLabel("teacher_failures", "Failures", "share of calls refused before they reach the environment", "ours"),
    SettingLabel("teacher_error_results", "Error results", "share of calls whose result is lost", "ours"),
    SettingLabel("teacher_carried_out", "Carried out", "share of lost results whose call was carried out", "ours"),
)
GROUPS = (
    ("Themes", FINDING),
    ("Environments", BUILDING),
    ("Assessment", ASSESSING),
    ("Tasks and trajectories", SCORING),
    ("Disturbed calls of teachers", DISTURBED),
    ("Graph of tools (AutoForge)", GRAPH),
    ("Programs (Agent-World)", PROGRAMS),
    ("Walks (Agent-World)", WALKS),
)
RUNNING = (
    ("seed", "Seed", "the same seed, settings and replies give the same content"),
    ("lanes", "Lanes", "jobs side by side; each has its share of what an endpoint takes at once"),
    ("at_once", "Items at once", "in each lane"),
)
EMBEDDINGS = SettingLabel("embeddings", "Vectors of themes", "say which themes the judge compares", "ours")
LOCAL_LABEL = "computed here, from words: no LLM"
PROMPTS = "prompts"
STAGE_SETTINGS = (*COUNTS, *(setting for _, group in GROUPS for setting in group))


@dataclass(frozen=True)
class SettingChange:
    """A setting that differs from the origin's, in words."""

    label: str
    before: str
    after: str


def list_setting_changes(before: BatchSettings, after: BatchSettings) -> list[SettingChange]:
    """Return the differences of two settings, as people read them."""
    changes = compare_settings(before, after)
    models = {choice.value: choice.label for choice in list_model_choices()} if changes else {}
    return [
        SettingChange(
            _get_label(row["name"]),
            *(_format_named_value(row["name"], row[side], models) for side in ("before", "after")),
        )
        for row in changes
    ]


def list_origin_changes(batch: Batch) -> list[SettingChange]:
    """Return the differences of a clone's settings from those of the batch it was cloned from; empty for any other
    batch."""
    if batch.cloned_from is None:
        return []
    before, after = (BatchSettings.model_validate(row.settings) for row in (batch.cloned_from, batch))
    return list_setting_changes(before, after)


def get_setting_label(name: str) -> str:
    """Return the label of a setting of `StageSettings` on pages."""
    return _get_label(f"stages.{name}")


def format_setting_value(value: Any) -> str:
    """Return a value of a setting of `StageSettings` as people read it."""
    return _format_value(value, {})


def _get_label(name: str) -> str:
    place, _, rest = name.partition(".")
    if place == "stages":
        return {setting.name: setting.label for setting in STAGE_SETTINGS}.get(rest, rest)
    if place == "models":
        return f"Model of the {rest}"
    if place == "sampling":
        role, _, name = rest.partition(".")
        return f"{name.replace('_', ' ').capitalize()} of the {role}"
    if place == PROMPTS:
        return f"Prompt {rest}"
    if place == "prices":
        return f"Price of {rest}"
    named = {setting: label for setting, label, _ in RUNNING} | {EMBEDDINGS.name: EMBEDDINGS.label, "cap": "Spend cap"}
    named |= {"preset": "Preset", "variant": "Variant"}
    return named.get(name, name)


def _format_named_value(name: str, value: Any, models: dict[str, str]) -> str:
    """Return a value as people read it; a prompt is shown by the hash of its text."""
    prefix, _, rest = name.partition(".")
    if prefix != PROMPTS:
        return _format_value(value, models)
    return "the standing one" if value is None else f"its own, {build_trial_prompt(rest, str(value)).sha256[:12]}"


def _format_value(value: Any, models: dict[str, str]) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return (", " if all(isinstance(part, str) for part in value) else " to ").join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    ours = {SCRIPTED: "the scripted provider", LOCAL: LOCAL_LABEL, "": "the default"}
    return models.get(str(value)) or ours.get(str(value), str(value))


def describe_settings(settings: BatchSettings) -> list[tuple[str, str, str]]:
    """Return every setting as people read it: label, value, meaning."""
    models = {choice.value: choice.label for choice in list_model_choices()}
    hints = {f"stages.{setting.name}": setting.hint for setting in STAGE_SETTINGS} | {
        name: hint for name, _, hint in RUNNING
    }
    hints |= {EMBEDDINGS.name: EMBEDDINGS.hint}
    hints |= {f"models.{role}": words for role, words in ROLE_WORDS.items()}
    values = flatten_settings(settings.model_dump(mode="json"))
    shown_values = {
        name: value for name, value in values.items() if value is not None or not name.startswith("sampling.")
    }
    return [
        (_get_label(name), _format_named_value(name, value, models), hints.get(name, ""))
        for name, value in shown_values.items()
    ]
