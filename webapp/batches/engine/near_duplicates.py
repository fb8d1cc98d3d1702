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
from webapp.taxonomy.near_duplicates.services import fold_alike_themes, separate_theme
from webapp.taxonomy.theme_services import clean_source_name

logger = logging.getLogger(__name__)


def name_theme_source(spec: ItemSpec) -> str:
    """Return the source under which a text's theme is kept."""
    return clean_source_name(spec.source or "tasks")


def find_kept_apart(items: Iterable[BatchItem]) -> set[int]:
    """Return the items whose theme a person has kept apart from similar ones: none of them is left out as a
    duplicate."""
    return {pk for pk, row in _find_task_set_themes(items).items() if row.verdict == Verdict.APART}


def fold_duplicates(batch: Batch, pairs: Sequence[tuple[BatchItem, BatchItem]]) -> None:
    """Fold themes that a barrier left out into those that continue, by pairs (left out, kept) of the same source.

    Within the barrier's transaction. Each source gets one decision, which can be undone on the pages of themes.
    """
    rows = _find_task_set_themes({item.pk: item for pair in pairs for item in pair}.values())
    groups: dict[str, dict[str, list[str]]] = {}
    for left_out, kept_item in pairs:
        theme, into = rows.get(left_out.pk), rows.get(kept_item.pk)
        if theme is not None and into is not None and theme.source == into.source:
            groups.setdefault(theme.source, {}).setdefault(into.key, []).append(theme.key)
    for source, group in groups.items():
        words = f"Near-duplicates of batch {batch.pk}, “{batch.name[:80]}”, in {source[:80]}"
        try:
            with transaction.atomic():
                fold_alike_themes(source, [[kept, *others] for kept, others in group.items()], words)
        except InputError as error:  # decisions of people on these themes take precedence
            logger.warning("batch %s: near-duplicates of %s stay as they are: %s", batch.pk, source, error)


def keep_theme_apart(item: BatchItem, user: Any) -> None:
    """Unfold the theme of an item that continues after all. Within a transaction."""
    row = _find_task_set_themes([item]).get(item.pk)
    if row is not None and row.folded_into_id is not None:
        separate_theme(row.pk, user)


def _find_task_set_themes(items: Iterable[BatchItem]) -> dict[int, Theme]:
    """Return the kept themes by item, for items that came from a task set."""
    places: dict[str, dict[str, int]] = {}
    for item in items:
        spec = ItemSpec.model_validate(item.spec)
        if spec.text:
            places.setdefault(name_theme_source(spec), {})[spec.key] = item.pk
    return {
        keys[row.key]: row
        for source, keys in places.items()
        for row in Theme.objects.filter(source=source, key__in=list(keys)).defer("origin_text")
    }
