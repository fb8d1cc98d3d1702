"""Comparison of two batches on the environments that both made tasks of: meant for two variants, usable for any two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from synthesis.pipeline import PIPELINES
from synthesis.variant_settings import VARIANT_TITLES
from webapp.batches.models import Batch, BatchProduct
from webapp.batches.spec import BatchSettings
from webapp.batches.yields.comparison import Difference, Ratio, compare_ratios, sum_columns
from webapp.batches.yields.environment_figures import (
    COLOURS,
    COLUMNS,
    count_other_versions,
    list_shared_versions,
)
from webapp.common.templatetags.show import counted
from webapp.scenarios.measures.difficulty import KNOBS
from webapp.scenarios.measures.shown import KNOB_TITLES, SHARES

UNIT = "environments"
RATIOS: tuple[Ratio, ...] = (
    ("tasks_an_environment", "kept tasks of an environment", "number", "tasks", UNIT),
    ("tasks_kept", "of the tasks that were begun, kept", "share", "tasks", "entered"),
    ("cost_a_task", "cost of one kept task", "money", "cost", "tasks"),
    ("tokens_a_task", "tokens for one kept task", "number", "tokens", "tasks"),
    ("seconds_a_task", "work for one kept task", "seconds", "seconds", "tasks"),
    ("green", "of the kept tasks, with a green audit", "share", "green", "tasks"),
    ("solver_solved", "of the solver's runs, solved", "share", "solver_solved", "solver_tried"),
    ("teacher_solved", "of the teachers' attempts, solved", "share", "teacher_solved", "teacher_tried"),
    *(
        (knob, f"{KNOB_TITLES[knob].lower()}, mean of kept tasks", "share" if knob in SHARES else "number",
         f"{knob}_sum", f"{knob}_count")
        for knob in KNOBS
    ),
)  # fmt: skip


@dataclass(frozen=True)
class CountRow:
    """Counts of an event in both batches, and its shares of the cases in which it was possible."""

    name: str
    first: int
    second: int
    first_share: float | None
    second_share: float | None


@dataclass(frozen=True)
class SharedEnvironments:
    """Comparison of both batches on `names`, their common environments. `reservations` list what cannot be compared."""

    names: list[tuple[int, str]]
    lines: list[Difference]
    ended: list[CountRow]
    audits: list[CountRow]
    reservations: list[str]


def compare_shared_environments(
    first: Batch, second: Batch, figures: Mapping[str, Any], others: Mapping[str, Any]
) -> SharedEnvironments | None:
    """Compare two batches on their common environments; None if they have none."""
    left, right = figures["environments"], others["environments"]
    shared = list_shared_versions(left, right)
    if not shared:
        return None
    first_numbers, second_numbers = ({key: side[key]["numbers"] for key in shared} for side in (left, right))
    lines = compare_ratios(first_numbers, second_numbers, COLUMNS, UNIT, RATIOS)
    known_lines = [line for line in lines if line.first is not None or line.second is not None]
    sums = [sum_columns(one, COLUMNS, UNIT) for one in (first_numbers, second_numbers)]
    return SharedEnvironments(
        names=[(left[key]["environment"], left[key]["name"]) for key in shared],
        lines=known_lines,
        ended=_count_ended([{key: side[key] for key in shared} for side in (left, right)], sums),
        audits=[
            _build_count_row(f"{colour} audit", [one[colour] for one in sums], [one["tasks"] for one in sums])
            for colour in COLOURS
        ],
        reservations=list(_list_reservations(first, second, (left, right), known_lines, sums)),
    )


def _count_ended(sides: list[dict[str, Any]], sums: list[dict[str, float]]) -> list[CountRow]:
    """Count the endings of tasks: kept, failed, and rejected by reason, the most frequent first."""
    whole = [one["entered"] for one in sums]
    rows = [_build_count_row("kept", [one["tasks"] for one in sums], whole)]
    counts: dict[str, list[float]] = {}
    for place, side in enumerate(sides):
        for row in side.values():
            for reason, count in row["reasons"].items():
                counts.setdefault(reason, [0.0, 0.0])[place] += count
    ordered = sorted(counts, key=lambda reason: (-sum(counts[reason]), reason))
    rows += [_build_count_row(f"rejected: {reason.replace('_', ' ')}", counts[reason], whole) for reason in ordered]
    failed = [one["failed"] for one in sums]
    return [*rows, *([_build_count_row("failed", failed, whole)] if any(failed) else [])]


def _build_count_row(name: str, counts: list[float], whole: list[float]) -> CountRow:
    shares = [count / all_of if all_of else None for count, all_of in zip(counts, whole, strict=True)]
    return CountRow(name, int(counts[0]), int(counts[1]), shares[0], shares[1])


def _list_reservations(
    first: Batch,
    second: Batch,
    sides: tuple[Mapping[str, Any], Mapping[str, Any]],
    lines: list[Difference],
    sums: list[dict[str, float]],
) -> Iterator[str]:
    """Yield what is not comparable, and why."""
    shared = len(list_shared_versions(*sides))
    for batch, side in zip((first, second), sides, strict=True):
        if more := len(side) - shared:
            yield f"Left out, as they are not in the other one: {counted(more, 'environment')} of batch {batch.pk}."
    if other := count_other_versions(*sides):
        yield f"Left out, as they are in both in different versions: {counted(other, 'environment')}."
    settings = [BatchSettings.model_validate(batch.settings) for batch in (first, second)]
    roles = sorted({role for one in settings for role in one.models})
    differ = [role for role in roles if settings[0].models.get(role) != settings[1].models.get(role)]
    if differ:
        yield f"Different models played {', '.join(differ)}: a difference may be theirs."
    if any(one["replayed"] for one in sums):
        yield "Replies of earlier batches were used again and cost nothing: tokens, cost and work say too little."
    if any(one["unpriced"] for one in sums):
        yield "Some replies have no known price: their cost is missing."
    if first.variant == second.variant:
        return
    names = [VARIANT_TITLES.get(batch.variant, batch.variant) for batch in (first, second)]
    yield (
        f"Tasks of {names[0]} and {names[1]} are judged by different kinds of verifiers, and their solvers run a "
        "different number of times, in other styles and turn limits: solved shares compare tasks and settings together."
    )
    lonely = [line.words.partition(",")[0] for line in lines if line.key in KNOBS and None in (line.first, line.second)]
    if lonely:
        yield f"Only tasks of one of them have: {', '.join(lonely)}."
    unshared_stages = list_unshared_stages(first.variant, second.variant)
    if unshared_stages:
        stage_names = ", ".join(unshared_stages)
        yield f"Not compared are stages that only one of them has, or that do something else in it: {stage_names}."


def list_unshared_stages(first: str, second: str) -> list[str]:
    """Return the stages that two variants do not share, in the order of the first one's pipeline, then the second's."""
    works = [{stage.name: (stage.run, stage.group) for stage in PIPELINES[name].stages} for name in (first, second)]
    names = dict.fromkeys([*works[0], *works[1]])
    return [name for name in names if works[0].get(name) != works[1].get(name)]


def group_offered_batches(row: Batch, most: int) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return batches to compare with, by group: another variant on the same environments first, then the same variant
    on them, the most environments in common first; then the newest others."""
    own_versions = BatchProduct.objects.filter(item__batch=row, item__level="theme", version__isnull=False).values(
        "version"
    )
    products = BatchProduct.objects.filter(item__level="theme", version__in=own_versions).exclude(item__batch=row)
    shared = (
        products.order_by()
        .values("item__batch")
        .annotate(n=Count("version", distinct=True))
        .order_by("-n", "-item__batch")
    )
    counts = {line["item__batch"]: line["n"] for line in shared[:most]}
    batches_by_pk = {batch.pk: batch for batch in Batch.objects.filter(pk__in=counts).only("name", "variant")}
    alike: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for pk, count in counts.items():
        batch = batches_by_pk[pk]
        title = VARIANT_TITLES.get(batch.variant, batch.variant)
        words = f"{batch.name[:40]} ({title}, {count} in common)"
        alike[batch.variant == row.variant].append((pk, words))
    others = Batch.objects.exclude(pk__in=[row.pk, *counts]).order_by("-pk").values_list("pk", "name")[:most]
    groups = [
        ("Another variant on the same environments", alike[False]),
        ("The same variant on the same environments", alike[True]),
        ("Others", [(pk, name[:60]) for pk, name in others]),
    ]
    return [(title, batches) for title, batches in groups if batches]
