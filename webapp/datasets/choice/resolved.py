"""A selection with all that it depends on looked up: the environments that are drawn, and the rules of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from training.dataset import Names, Split
from webapp.datasets.choice.apart import RowRules, build_row_rules, get_frozen_datasets
from webapp.datasets.choice.likeness import compute_similarities, get_comparison_set
from webapp.datasets.row_names import environment_name
from webapp.datasets.selection import DatasetSelection, select_tasks, select_trajectories
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

COMPARED_AT_ONCE = 400
"""Number of environments compared while the user waits; more are compared when the dataset is frozen."""


@dataclass(frozen=True)
class Drawn:
    """An environment that may be drawn."""

    pk: int
    name: str


@dataclass(frozen=True)
class ResolvedSelection:
    """A resolved selection. `environments` are those that were drawn of the `of` that the filter finds; None if none
    are drawn. `later` says why they are not drawn yet."""

    choice: DatasetSelection
    rules: RowRules = field(default_factory=RowRules)
    environments: tuple[int, ...] | None = None
    of: int | None = None
    later: str = ""

    def tasks(self) -> QuerySet[Task]:
        return select_tasks(self.choice, self.environments)

    def trajectories(self) -> QuerySet[Trajectory]:
        return select_trajectories(self.choice, self.environments)

    def rows(self) -> QuerySet[Any]:
        """Return tasks or trajectories."""
        return self.tasks() if self.choice.kind == "tasks" else self.trajectories()


def resolve_selection(
    choice: DatasetSelection,
    split: Split,
    *,
    at_once: bool = False,
    tell: Callable[[int, int, str], None] = lambda done, total, note: None,
) -> ResolvedSelection:
    """Look up all that a selection depends on. With `at_once` a user waits, so many environments are not compared.

    Raises InputError, which names the field: a dataset that is named is not frozen, a set to compare with is empty.
    """
    rules = build_row_rules(choice, split)
    if not choice.samples_environments:
        return ResolvedSelection(choice, rules)
    candidates = _list_candidates(choice, rules)
    number = len(candidates)
    if choice.likeness is not None:
        comparison_set = get_comparison_set(choice.likeness)
        candidates = [candidate for candidate in candidates if candidate.pk not in comparison_set]
        number = len(candidates)
        if choice.likeness.part != "random" and at_once and number > COMPARED_AT_ONCE:
            later = f"Which of {number:,} environments are the {choice.likeness.part} alike is found when it is frozen."
            return ResolvedSelection(choice, rules, of=number, later=later)
        candidates = _select_half(candidates, choice, comparison_set, tell)
    if choice.environment_count is not None:
        candidates = shuffle_by_seed(candidates, choice.environment_seed)[: choice.environment_count]
    return ResolvedSelection(choice, rules, tuple(sorted(candidate.pk for candidate in candidates)), number)


def require_existing_sets(choice: DatasetSelection) -> None:
    """Raise InputError, which names the field, if a dataset or a set that a selection names does not exist."""
    get_frozen_datasets(choice.apart_from, "apart_from")
    if choice.likeness is not None:
        get_comparison_set(choice.likeness)


def shuffle_by_seed(candidates: list[Drawn], seed: int) -> list[Drawn]:
    """Sort candidates by a hash of the seed and their names.

    Of two draws by one seed the smaller is in the larger, at every installation.
    """
    return sorted(candidates, key=lambda one: hashlib.sha256(f"{seed}:{one.name}".encode()).digest())


def _list_candidates(choice: DatasetSelection, rules: RowRules) -> list[Drawn]:
    """Return environments with something that the filter finds and that can be a row, without those of other
    datasets."""
    matching: QuerySet[Any]
    if choice.kind == "tasks":
        is_judged = Q(check_count__gt=0) | Q(verifier_kind="rubric")
        matching = select_tasks(choice).filter(is_judged, environment=OuterRef("pk"), current__isnull=False)
    else:
        matching = select_trajectories(choice).filter(environment=OuterRef("pk"))
    rows = Environment.objects.filter(Exists(matching.order_by())).order_by("pk").values_list("pk", "source", "key")
    named_candidates = (Drawn(pk, environment_name(source, key)) for pk, source, key in rows.iterator(chunk_size=5_000))
    if rules.by != "environment":
        return list(named_candidates)
    return [one for one in named_candidates if not rules.why_not(Names(environment=one.name, behaviour="any"))]


def _select_half(
    candidates: list[Drawn], choice: DatasetSelection, given: set[int], tell: Callable[[int, int, str], None]
) -> list[Drawn]:
    """Return half of the candidates. All halves have one size, whichever is asked for, so that they can be compared."""
    assert choice.likeness is not None
    half = max(1, len(candidates) // 2)
    if choice.likeness.part == "random":
        return shuffle_by_seed(candidates, choice.likeness.seed)[:half]
    total = len(candidates)
    values = compute_similarities(
        [one.pk for one in candidates], given, lambda done: tell(done, total, "Comparing environments")
    )
    sign = -1 if choice.likeness.part == "most" else 1
    # Rounded: of two that are equally alike the name decides, not the last bit.
    order = sorted(zip(candidates, values, strict=True), key=lambda pair: (sign * round(pair[1], 9), pair[0].name))
    return [one for one, _ in order[:half]]
