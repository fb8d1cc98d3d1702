"""Descriptions of a selection for people: on pages, in manifests, and as the default name of a dataset."""

from __future__ import annotations

from webapp.datasets.models import Dataset
from webapp.datasets.selection import DatasetSelection, Likeness
from webapp.environments.models import Environment
from webapp.scenarios.verifiers import VERIFIER_TITLES
from webapp.scenarios.withheld.filters import WORDS
from webapp.taxonomy.former import find_present_node


def describe_selection(choice: DatasetSelection) -> list[tuple[str, str]]:
    """Return the choice in words: (field, value). Names are the current ones."""
    lines: list[tuple[str, str]] = [("Rows", choice.kind)]
    if choice.source:
        lines.append(("Source", choice.source))
    if choice.category is not None:
        lines.append(("Category", describe_category(choice.category)))
    if choice.environments:
        lines.append(("Environments", _list_environment_names(choice.environments)))
    if choice.setting:
        lines.append(("Setting", choice.setting))
    if choice.audit:
        lines.append(("Audit", {"none": "not audited"}.get(choice.audit, choice.audit)))
    if choice.approval:
        lines.append(("Approval", choice.approval.replace("_", " ")))
    if choice.verifier:
        lines.append(("Verifier", VERIFIER_TITLES[choice.verifier]))
    if choice.withheld:
        lines.append(("Withheld", WORDS[choice.withheld]))
    if choice.policy:
        lines.append(("Policy", f"begins with {choice.policy}"))
    if choice.by_attempts:
        band = _format_band(choice.pass_low, choice.pass_high)
        least = max(choice.attempts, 1)
        lines.append(("Solved share of a task", f"{band}, of at least {least} judged attempt{'s' * (least != 1)}"))
    lines += _describe_environments(choice)
    return lines + (_describe_trajectories(choice) if choice.kind == "trajectories" else [])


def describe_category(category: int) -> str:
    node = find_present_node(category)
    return f"{node.name}, with all below" if node else f"label {category}, which no longer exists"


def _describe_environments(choice: DatasetSelection) -> list[tuple[str, str]]:
    lines = []
    if choice.likeness is not None:
        lines.append(("Likeness", describe_likeness(choice.likeness)))
    if choice.environment_count is not None:
        number = choice.environment_count
        description = f"{number:,} environment{'s' * (number != 1)} at most, drawn by seed {choice.environment_seed}"
        lines.append(("Number", description))
    if choice.apart_from:
        dataset_names = dict(Dataset.objects.filter(public_id__in=choice.apart_from).values_list("public_id", "name"))
        description = ", ".join(dataset_names.get(ident, ident) for ident in choice.apart_from)
        lines.append(("Kept apart", f"no {choice.apart_by} of {description}"))
    return lines


def describe_likeness(likeness: Likeness) -> str:
    if likeness.dataset:
        name = Dataset.objects.filter(public_id=likeness.dataset).values_list("name", flat=True).first()
        set_words = f"the dataset {name or likeness.dataset}"
    elif likeness.category is not None:
        set_words = f"the category {describe_category(likeness.category)}"
    elif likeness.source:
        set_words = f"the source {likeness.source}"
    else:
        set_words = _list_environment_names(likeness.environments)
    if likeness.part == "random":
        return f"a random half, drawn by seed {likeness.seed}, of what is not in {set_words}"
    return f"the half {likeness.part} alike to {set_words}, in topic and tools"


def _describe_trajectories(choice: DatasetSelection) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = [("Outcome", choice.outcome)] if choice.outcome else []
    if choice.low is not None or choice.high is not None:
        lines.append(("Reward", _format_band(choice.low, choice.high)))
    lines.append(("Least reward to learn from", f"{choice.least_reward:g}"))
    if choice.actions:
        own = choice.actions if isinstance(choice.actions, str) else "{} to {}".format(*choice.actions)
        lines.append(("Actions", "as released" if own == "released" else own))
    lines.append(("Reasoning", "kept" if choice.reasoning else "stripped"))
    lines.append(("A row is", "one turn, the turns before it masked" if choice.mask_history else "a whole trajectory"))
    return lines


def _format_band(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any"
    if low is None or high is None:
        return f"at most {high:g}" if low is None else f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _list_environment_names(pks: tuple[int, ...], named: int = 5) -> str:
    names = list(Environment.objects.filter(pk__in=pks).order_by("name").values_list("name", flat=True)[:named])
    more = len(pks) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def build_selection_title(choice: DatasetSelection) -> str:
    """Return a name for a dataset that was given none."""
    parts = [
        f"{what.lower()} {which}"
        for what, which in describe_selection(choice)[1:]
        if what in ("Source", "Category", "Audit")
    ]
    if choice.environments:
        parts.append(f"{len(choice.environments)} environment{'s' * (len(choice.environments) != 1)}")
    if choice.by_attempts:
        parts.append(f"solved share {_format_band(choice.pass_low, choice.pass_high)}")
    return f"{choice.kind.capitalize()}: {', '.join(parts) or 'all'}"[:200]
