"""All themes compared, and near-duplicates folded into one: what the job does."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import transaction
from django.db.models import F, Q

from synthesis.errors import InputError
from synthesis.formats.values import clean
from synthesis.llm.embedding import EndpointVectors
from synthesis.themes import dedupe
from synthesis.themes.judged_groups import groups_of
from synthesis.themes.vectors import Vectoriser, local
from webapp.endpoints.queries import find_choice
from webapp.endpoints.services import opened
from webapp.taxonomy.models import Decision, Grouping, Theme, Verdict
from webapp.taxonomy.near_duplicates.services import FOLD_LOCK, Fold, current, decide
from webapp.taxonomy.near_duplicates.theme_judge import JudgedThemes, ThemeJudge, judged
from webapp.taxonomy.services import lock
from webapp.templatetags.show import counted

DESCRIPTION = dedupe.COMPARED
Progress = Callable[[int, int, str], None]


def vectoriser(choice: str) -> Vectoriser:
    """By value: "" is the local one, `endpoint id/model` an endpoint's embeddings. Raises InputError, LLMError."""
    if not choice:
        return local
    chosen = find_choice(choice)
    if chosen is None:
        raise InputError("This model is not listed at its endpoint. Choose another one.")
    return EndpointVectors(opened(chosen[0]), chosen[1])


def regroup(
    threshold: float,
    vectorise: Vectoriser = local,
    progress: Progress = lambda done, total, note: None,
    by: Any = None,
    job: int | None = None,
    judge: ThemeJudge | None = None,
) -> Grouping:
    """Compare all themes and fold the near-duplicates, as one decision. Done once for a job, however often it runs.

    A judge decides on pairs that vectors propose; without one those are one theme that are similar enough. Of themes
    that are one that is kept which a person chose, else the most used, else the one with most tools, else the oldest.
    What a person kept apart stays so. Raises InputError and what the vectoriser and the judge raise.
    """
    dedupe.require_threshold(threshold)
    start = time.monotonic()
    keys, texts = compared()
    progress(0, len(keys), "Comparing themes")
    found = ComparedThemes(keys, vectorise.name)
    if judge is None:
        tell = partial(_telling, progress)
        found.pairs = dedupe.similar(texts, vectorise, tell)
    else:
        found.judge = judge.name
        found.judged = judged(texts, vectorise, judge, _kept_apart(keys), progress)
    with transaction.atomic():
        lock(FOLD_LOCK)
        known = Grouping.objects.filter(job=job).first() if job is not None else None
        if known is not None:
            return known
        return _keep(threshold, found, by, job, start)


@dataclass
class ComparedThemes:
    """Pairs of themes (indices of `keys`) by similarity, or what a judge said of them."""

    keys: list[int]
    vectoriser: str
    pairs: list[dedupe.Pair] = field(default_factory=list)
    judge: str = ""
    judged: JudgedThemes | None = None

    def groups(
        self, threshold: float, place: Mapping[int, int], apart: Collection[int]
    ) -> tuple[list[dedupe.FoldedGroup], list[dedupe.Count]]:
        """(groups, what other thresholds would fold) of the themes that are still there, each at its new place."""
        if self.judged is None:
            pairs = [(*pair, value) for early, late, value in self.pairs if (pair := _turned(place, early, late))]
            return dedupe.grouped(len(place), pairs, threshold, apart), dedupe.counts(len(place), pairs, apart=apart)
        found = self.judged.found
        same = [pair for ends in found.same if (pair := _turned(place, *ends))]
        different = {pair for ends in found.different if (pair := _turned(place, *ends))}
        likeness = {pair: value for ends, value in found.likeness.items() if (pair := _turned(place, *ends))}
        return groups_of(len(place), same, different, likeness, apart), []


def _turned(place: Mapping[int, int], early: int, late: int) -> tuple[int, int] | None:
    """The pair at its new places; None where one of the themes is gone."""
    if early not in place or late not in place:
        return None
    return min(place[early], place[late]), max(place[early], place[late])


def _telling(progress: Progress, done: int, total: int) -> None:
    progress(done, total, "Comparing themes")


def _kept_apart(keys: list[int]) -> set[int]:
    now = current(keys)
    return {index for index, pk in enumerate(keys) if pk in now and now[pk].verdict == Verdict.APART}


def compared() -> tuple[list[int], list[str]]:
    """Every theme's id and text, the ones to keep in front, in one query."""
    rows = (
        Theme.objects.annotate(names=ArrayAgg("tools__name", order_by="tools__position", filter=Q(tools__isnull=False)))
        .order_by(F("usage").desc(nulls_last=True), "-tool_count", "id")
        .values_list("pk", "name", "description", "names")
    )
    keys, texts = [], []
    for pk, name, description, tools in rows.iterator(chunk_size=2000):
        keys.append(pk)
        texts.append(dedupe.theme_text(name, description, tools or ()))
    return keys, texts


def _keep(threshold: float, found: ComparedThemes, by: Any, job: int | None, start: float) -> Grouping:
    """Fold by what people say now: they may have decided while themes were compared."""
    keys = found.keys
    now = current(keys)
    together = {pk: now[pk] for pk in keys if pk in now and now[pk].verdict == Verdict.TOGETHER and now[pk].into}
    free = [n for n, pk in enumerate(keys) if pk in now and pk not in together]
    order = sorted(free, key=lambda n: now[keys[n]].verdict != Verdict.CHOSEN)
    place = {index: rank for rank, index in enumerate(order)}
    pks = [keys[index] for index in order]
    apart = {rank for rank, pk in enumerate(pks) if now[pk].verdict == Verdict.APART}
    groups, counts = found.groups(threshold, place, apart)
    wanted = {pk: Fold(verdict=now[pk].verdict) for pk in pks}
    for group in groups:
        for member in group.members:
            pk = pks[member.index]
            wanted[pk] = Fold(pks[group.kept], member.similarity, now[pk].verdict)
    for pk, held in together.items():
        into = wanted[held.into].into if held.into in wanted else None
        wanted[pk] = Fold(into or held.into, held.similarity, held.verdict)
    sizes = [len(group.members) for group in groups if group.members]
    how = f"by {found.judge[:80]}" if found.judged else f"at {threshold:g}"
    words = f"Grouped {counted(len(now), 'theme')} {how}: {counted(len(sizes), 'group')}, {sum(sizes):,} folded"
    decision = decide(Decision.Kind.GROUPING, words, wanted, by)
    return Grouping.objects.create(
        job_id=job,
        decision=decision,
        threshold=threshold,
        vectoriser=found.vectoriser[:300],
        themes=len(now),
        groups=len(sizes),
        folded=sum(sizes),
        counts=[count.model_dump() for count in counts],
        seconds=time.monotonic() - start,
        **_judged(found),
    )


def _judged(found: ComparedThemes) -> dict[str, Any]:
    if found.judged is None:
        return {}
    told = found.judged.found
    return {
        "judge": clean(found.judge)[:300],
        "asked": told.asked,
        "undecided": len(told.undecided),
        "cost": found.judged.cost,
        "unpriced": found.judged.unpriced,
    }
