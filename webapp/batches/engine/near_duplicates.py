"""Near-duplicates that a batch leaves out, folded in the taxonomy too."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from synthesis.stages import ItemSpec
from webapp.batches.models import Batch, BatchItem
from webapp.taxonomy.models import Theme, Verdict
from webapp.taxonomy.near_duplicates.services import fold_alike, keep_apart
from webapp.taxonomy.theme_services import source_name

logger = logging.getLogger(__name__)


def source_of(spec: ItemSpec) -> str:
    """The source that a text's theme is kept under."""
    return source_name(spec.source or "tasks")


def kept_apart(items: Iterable[BatchItem]) -> set[int]:
    """Items whose theme a person has kept apart from what is like it: none of them is left out as a duplicate."""
    return {pk for pk, row in _themes(items).items() if row.verdict == Verdict.APART}


def tell_duplicates(batch: Batch, pairs: Sequence[tuple[BatchItem, BatchItem]]) -> None:
    """Fold themes that a barrier left out into those that went on, (left out, kept), where both are of one source.

    Within the barrier's transaction. It is one decision a source, which can be undone among the themes.
    """
    rows = _themes({item.pk: item for pair in pairs for item in pair}.values())
    groups: dict[str, dict[str, list[str]]] = {}
    for left_out, kept in pairs:
        theme, into = rows.get(left_out.pk), rows.get(kept.pk)
        if theme is not None and into is not None and theme.source == into.source:
            groups.setdefault(theme.source, {}).setdefault(into.key, []).append(theme.key)
    for source, group in groups.items():
        words = f"Near-duplicates of batch {batch.pk}, “{batch.name[:80]}”, in {source[:80]}"
        try:
            with transaction.atomic():
                fold_alike(source, [[kept, *others] for kept, others in group.items()], words)
        except InputError as error:  # what people decided on these themes since stands
            logger.warning("batch %s: near-duplicates of %s stay as they are: %s", batch.pk, source, error)


def keep_theme_apart(item: BatchItem, user: Any) -> None:
    """A theme that goes on all the same is not folded either. Within a transaction."""
    row = _themes([item]).get(item.pk)
    if row is not None and row.folded_into_id is not None:
        keep_apart(row.pk, user)


def _themes(items: Iterable[BatchItem]) -> dict[int, Theme]:
    """By item: the kept themes of those that came from a task set."""
    places: dict[str, dict[str, int]] = {}
    for item in items:
        spec = ItemSpec.model_validate(item.spec)
        if spec.text:
            places.setdefault(source_of(spec), {})[spec.key] = item.pk
    return {
        keys[row.key]: row
        for source, keys in places.items()
        for row in Theme.objects.filter(source=source, key__in=list(keys)).defer("origin_text")
    }
