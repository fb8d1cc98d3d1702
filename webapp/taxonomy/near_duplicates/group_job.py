"""Job that compares all themes and folds near-duplicates into one."""

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
from synthesis.formats.values import clean_text
from synthesis.llm.embedding import EndpointVectors
from synthesis.themes import dedupe
from synthesis.themes.judged_groups import build_known_groups
from synthesis.themes.vectors import Vectoriser, local
from webapp.common.templatetags.show import counted
from webapp.endpoints.queries import find_choice
from webapp.endpoints.services import open_endpoint
from webapp.taxonomy.models import Decision, Grouping, Theme, Verdict
from webapp.taxonomy.near_duplicates.services import FOLD_LOCK, Fold, load_current_folds, save_decision
from webapp.taxonomy.near_duplicates.theme_judge import JudgedThemes, ThemeJudge, judge_theme_texts
from webapp.taxonomy.services import take_advisory_lock

DESCRIPTION = dedupe.COMPARED
Progress = Callable[[int, int, str], None]


def get_vectoriser(choice: str) -> Vectoriser:
    """Return a vectoriser by value: "" is the local one, `endpoint id/model` an endpoint's embeddings. Raises
    InputError, LLMError."""
    if not choice:
        return local
    model_choice = find_choice(choice)
    if model_choice is None:
        raise InputError("This model is not listed at its endpoint. Choose another one.")
    return EndpointVectors(open_endpoint(model_choice[0]), model_choice[1])


def regroup_themes(
    threshold: float,
    vectorise: Vectoriser = local,
    progress: Progress = lambda done, total, note: None,
    by: Any = None,
    job: int | None = None,
    judge: ThemeJudge | None = None,
) -> Grouping:
    """Compare all themes and fold the near-duplicates, as one decision. Done once for a job, however often it runs.

    A judge decides on pairs that vectors propose; without one, themes that are similar enough are one. Of themes that
    are one, the kept one is that which a user chose, else the most used, else the one with most tools, else the oldest.
    What a user kept apart stays so. Raises InputError and what the vectoriser and the judge raise.
    """
    dedupe.require_threshold(threshold)
    start = time.monotonic()
    keys, texts = load_compared_texts()
    progress(0, len(keys), "Comparing themes")
    compared_themes = ComparedThemes(keys, vectorise.name)
    if judge is None:
        tell = partial(_report_comparing, progress)
        compared_themes.pairs = dedupe.find_similar_pairs(texts, vectorise, tell)
    else:
        compared_themes.judge = judge.name
        compared_themes.judged = judge_theme_texts(texts, vectorise, judge, _find_kept_apart(keys), progress)
    with transaction.atomic():
        take_advisory_lock(FOLD_LOCK)
        earlier_grouping = Grouping.objects.filter(job=job).first() if job is not None else None
        if earlier_grouping is not None:
            return earlier_grouping
        return _save_grouping(threshold, compared_themes, by, job, start)


@dataclass
class ComparedThemes:
    """Pairs of themes (indices of `keys`) by similarity, or a judge's verdicts on them."""

    keys: list[int]
    vectoriser: str
    pairs: list[dedupe.Pair] = field(default_factory=list)
    judge: str = ""
    judged: JudgedThemes | None = None

    def groups(
        self, threshold: float, place: Mapping[int, int], apart: Collection[int]
    ) -> tuple[list[dedupe.FoldedGroup], list[dedupe.Count]]:
        """Return (groups, what other thresholds would fold) of the themes that still exist, each at its new place."""
        if self.judged is None:
            pairs = [(*pair, value) for early, late, value in self.pairs if (pair := _map_pair(place, early, late))]
            return dedupe.group_pairs(len(place), pairs, threshold, apart), dedupe.count_by_threshold(
                len(place), pairs, apart=apart
            )
        judged_groups = self.judged.found
        same = [pair for ends in judged_groups.same if (pair := _map_pair(place, *ends))]
        different = {pair for ends in judged_groups.different if (pair := _map_pair(place, *ends))}
        likeness = {pair: value for ends, value in judged_groups.likeness.items() if (pair := _map_pair(place, *ends))}
        return build_known_groups(len(place), same, different, likeness, apart), []


def _map_pair(place: Mapping[int, int], early: int, late: int) -> tuple[int, int] | None:
    """Return the pair at its new places; None if one of the themes is gone."""
    if early not in place or late not in place:
        return None
    return min(place[early], place[late]), max(place[early], place[late])


def _report_comparing(progress: Progress, done: int, total: int) -> None:
    progress(done, total, "Comparing themes")


def _find_kept_apart(keys: list[int]) -> set[int]:
    now = load_current_folds(keys)
    return {index for index, pk in enumerate(keys) if pk in now and now[pk].verdict == Verdict.APART}


def load_compared_texts() -> tuple[list[int], list[str]]:
    """Return every theme's id and text, the ones to keep first, in one query."""
    rows = (
        Theme.objects.annotate(names=ArrayAgg("tools__name", order_by="tools__position", filter=Q(tools__isnull=False)))
        .order_by(F("usage").desc(nulls_last=True), "-tool_count", "id")
        .values_list("pk", "name", "description", "names")
    )
    keys, texts = [], []
    for pk, name, description, tools in rows.iterator(chunk_size=2000):
        keys.append(pk)
        texts.append(dedupe.build_theme_text(name, description, tools or ()))
    return keys, texts


def _save_grouping(threshold: float, found: ComparedThemes, by: Any, job: int | None, start: float) -> Grouping:
    """Fold by the current verdicts of users: they may have decided while themes were compared."""
    keys = found.keys
    now = load_current_folds(keys)
    together = {pk: now[pk] for pk in keys if pk in now and now[pk].verdict == Verdict.TOGETHER and now[pk].into}
    free = [n for n, pk in enumerate(keys) if pk in now and pk not in together]
    order = sorted(free, key=lambda n: now[keys[n]].verdict != Verdict.CHOSEN)
    place = {index: rank for rank, index in enumerate(order)}
    pks = [keys[index] for index in order]
    apart = {rank for rank, pk in enumerate(pks) if now[pk].verdict == Verdict.APART}
    groups, counts = found.groups(threshold, place, apart)
    new_folds = {pk: Fold(verdict=now[pk].verdict) for pk in pks}
    for group in groups:
        for member in group.members:
            pk = pks[member.index]
            new_folds[pk] = Fold(pks[group.kept], member.similarity, now[pk].verdict)
    for pk, current_fold in together.items():
        into = new_folds[current_fold.into].into if current_fold.into in new_folds else None
        new_folds[pk] = Fold(into or current_fold.into, current_fold.similarity, current_fold.verdict)
    sizes = [len(group.members) for group in groups if group.members]
    how = f"by {found.judge[:80]}" if found.judged else f"at {threshold:g}"
    words = f"Grouped {counted(len(now), 'theme')} {how}: {counted(len(sizes), 'group')}, {sum(sizes):,} folded"
    decision = save_decision(Decision.Kind.GROUPING, words, new_folds, by)
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
        **_serialize_judgement(found),
    )


def _serialize_judgement(found: ComparedThemes) -> dict[str, Any]:
    if found.judged is None:
        return {}
    judged_groups = found.judged.found
    return {
        "judge": clean_text(found.judge)[:300],
        "asked": judged_groups.asked,
        "undecided": len(judged_groups.undecided),
        "cost": found.judged.cost,
        "unpriced": found.judged.unpriced,
    }
