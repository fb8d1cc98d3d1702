"""All themes compared, and near-duplicates folded into one: what the job does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import transaction
from django.db.models import F, Q

from synthesis.errors import InputError
from synthesis.llm.embedding import EndpointVectors
from synthesis.themes import dedupe
from synthesis.themes.vectors import Vectoriser, local
from webapp.endpoints.queries import find_choice
from webapp.endpoints.services import opened
from webapp.taxonomy.models import Decision, Grouping, Theme, Verdict
from webapp.taxonomy.near_duplicates.services import FOLD_LOCK, Fold, current, decide
from webapp.taxonomy.services import lock

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
) -> Grouping:
    """Compare all themes and fold the near-duplicates, as one decision. Done once for a job, however often it runs.

    Of similar themes the one is kept that a person chose, else the most used, else the one with most tools, else the
    oldest. What a person kept apart stays so. Raises InputError and what the vectoriser raises.
    """
    dedupe.require_threshold(threshold)
    start = time.monotonic()
    keys, texts = compared()
    progress(0, len(keys), "Comparing themes")
    pairs = dedupe.similar(texts, vectorise, lambda done, total: progress(done, total, "Comparing themes"))
    with transaction.atomic():
        lock(FOLD_LOCK)
        known = Grouping.objects.filter(job=job).first() if job is not None else None
        if known is not None:
            return known
        return _keep(threshold, vectorise.name, keys, pairs, by, job, start)


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


def _keep(
    threshold: float, name: str, keys: list[int], pairs: list[dedupe.Pair], by: Any, job: int | None, start: float
) -> Grouping:
    """Fold by what people say now: they may have decided while themes were compared."""
    now = current(keys)
    order = sorted((n for n, pk in enumerate(keys) if pk in now), key=lambda n: now[keys[n]].verdict != Verdict.CHOSEN)
    place = {index: rank for rank, index in enumerate(order)}
    turned = [
        (min(place[a], place[b]), max(place[a], place[b]), similarity)
        for a, b, similarity in pairs
        if a in place and b in place
    ]
    pks = [keys[index] for index in order]
    apart = {rank for rank, pk in enumerate(pks) if now[pk].verdict == Verdict.APART}
    groups = dedupe.grouped(len(pks), turned, threshold, apart)
    wanted = {pk: Fold(verdict=now[pk].verdict) for pk in pks}
    for group in groups:
        for member in group.members:
            pk = pks[member.index]
            wanted[pk] = Fold(pks[group.kept], member.similarity, now[pk].verdict)
    sizes = [len(group.members) for group in groups if group.members]
    words = f"Grouped {len(pks):,} themes at {threshold:g}: {len(sizes):,} groups, {sum(sizes):,} folded"
    decision = decide(Decision.Kind.GROUPING, words, wanted, by)
    return Grouping.objects.create(
        job_id=job,
        decision=decision,
        threshold=threshold,
        vectoriser=name[:300],
        themes=len(pks),
        groups=len(sizes),
        folded=sum(sizes),
        counts=[count.model_dump() for count in dedupe.counts(len(pks), turned, apart=apart)],
        seconds=time.monotonic() - start,
    )
