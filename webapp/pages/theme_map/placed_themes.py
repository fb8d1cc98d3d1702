"""Themes that the theme map places: those of the taxonomy or of a batch, with what has grown from each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import TextField
from django.db.models.expressions import RawSQL
from django.urls import reverse

from synthesis.errors import InputError
from synthesis.themes.keys import DIGITS, SLUG, build_slug
from webapp.batches.engine.products import SCRIPTED_SOURCE, SOURCE
from webapp.batches.models import Batch, BatchItem, ItemState
from webapp.pages.statistics.scope import Scope
from webapp.taxonomy.models import SPECIFIED, Theme
from webapp.taxonomy.theme_services import build_theme_draft

READ = 2_000
"""Characters of a description that are compared."""
BATCHES = 50
"""Of so many batches, the newest, themes are drawn that the taxonomy does not keep: bundled and typed ones."""
STEM = SLUG - DIGITS - 1
"""Characters of a theme's name that the key of its environment is sure to begin with."""


@dataclass(frozen=True)
class PlacedTheme:
    """A theme to be placed.

    `state` is that of its item in the batch; of all themes it is `kept` if one has grown an environment, and `waiting`
    if not. `environment` is the address of what has grown. `labels` are those it hangs on, from the first level down;
    of a batch, its category. `pk` is None for a theme that the taxonomy does not keep.
    """

    name: str
    text: str
    url: str
    state: str
    environment: str = ""
    labels: tuple[str, ...] = ()
    pk: int | None = None


def list_themes(scope: Scope, most: int) -> list[PlacedTheme]:
    """Return the themes of a scope, one more than `most` if there are more."""
    return _list_batch(scope, most) if scope.batch else _list_all(scope, most)


def _list_all(scope: Scope, most: int) -> list[PlacedTheme]:
    """Return themes that the taxonomy holds, newest first, then those that only batches have.

    The statistics' filters are of environments: with a filter, only the themes that have grown such environments.
    """
    rows = (
        Theme.objects.filter(folded_into=None)
        .order_by("-id")
        .select_related("node__parent__parent")
        .only(
            "name", "description", "key", "origin", "content_hash", "node__name", "node__parent__name",
            "node__parent__parent__name", "node__parent__parent__parent",
        )
    )  # fmt: skip
    stored_themes = list(rows[: most + 1])
    others = _list_others(most + 1 - len(stored_themes))
    grown = _find_grown(scope)
    keys = _find_keys(stored_themes, grown.keys() | others.keys())
    used_keys = set(keys.values())
    themes = [(keys.get(row.pk, ""), _build_placed_theme(row)) for row in stored_themes]
    themes += [(key, theme) for key, theme in others.items() if key not in used_keys]
    shown_themes = []
    for key, theme in themes:
        if key in grown:
            shown_themes.append(replace(theme, state=ItemState.KEPT, environment=grown[key]))
        elif not scope.narrowed:
            shown_themes.append(replace(theme, state=ItemState.WAITING))
    return shown_themes


def _build_placed_theme(row: Theme) -> PlacedTheme:
    text = f"{row.name}. {row.description}"[:READ]
    url = f"{reverse('taxonomy:themes')}{row.pk}/"
    return PlacedTheme(row.name, text, url, "", labels=tuple(row.node.names), pk=row.pk)


def _list_others(most: int) -> dict[str, PlacedTheme]:
    """Return by key the themes that the newest batches began with."""
    if most <= 0:
        return {}
    newest = list(Batch.objects.order_by("-id").values_list("pk", flat=True)[:BATCHES])
    rows = _read_spec(BatchItem.objects.filter(batch__in=newest, level="theme").order_by("-id"))
    by_key: dict[str, PlacedTheme] = {}
    for pk, path, _, name, description, category in rows.exclude(name=None)[: most * 2]:
        text, url = f"{name}. {description}"[:READ], reverse("batches:item", args=[pk])
        labels = (category,) if category else ()
        by_key.setdefault(build_slug(path), PlacedTheme(name, text, url, "", labels=labels))
    return dict(list(by_key.items())[:most])


def _read_spec(rows: Any) -> Any:
    """Return number, path, state, and the name (None: it is no theme), description and category of an item's
    specification."""
    fields = ("name", "description", "category")
    columns = {field: RawSQL(f"spec #>> '{{theme,{field}}}'", (), output_field=TextField()) for field in fields}
    return rows.annotate(**columns).values_list("pk", "path", "state", *fields)


def _find_grown(scope: Scope) -> dict[str, str]:
    """Return by key of a theme the address of the environment that batches grew from it."""
    rows = scope.environments().filter(source__in=(SOURCE, SCRIPTED_SOURCE)).order_by("pk")
    return {key: reverse("environments:detail", args=[pk]) for key, pk in rows.values_list("key", "pk")}


_KEYS: dict[tuple[int, str], str] = {}
"""By theme and content: a specification's key is a hash of all that it says, which is read once."""
REMEMBERED = 10_000


def _find_keys(rows: list[Theme], wanted: Collection[str]) -> dict[int, str]:
    """Return by theme the key of the environments that grow from it, for those whose key may be among `wanted`.

    A specification's key begins with its name. The rest of the key takes all of its tools to compute, so only those
    whose name fits are read.
    """
    stems = {key[: -DIGITS - 1] for key in wanted} | {key[:STEM] for key in wanted}
    servers = []
    for row in rows:
        name = build_slug(row.name)
        if row.origin in SPECIFIED and (name in stems or name[:STEM] in stems):
            servers.append(row)
    _remember_keys(servers)
    key_by_pk = {row.pk: _KEYS.get((row.pk, row.content_hash), "") for row in servers}
    return key_by_pk | {row.pk: build_slug(row.key) for row in rows if row.origin not in SPECIFIED}


def _remember_keys(servers: Iterable[Theme]) -> None:
    unknown = [row.pk for row in servers if (row.pk, row.content_hash) not in _KEYS]
    if len(_KEYS) > REMEMBERED:
        _KEYS.clear()
    for row in Theme.objects.filter(pk__in=unknown).prefetch_related("tools"):
        try:
            _KEYS[row.pk, row.content_hash] = build_slug(build_theme_draft(row).key)
        except InputError:
            _KEYS[row.pk, row.content_hash] = ""


def _list_batch(scope: Scope, most: int) -> list[PlacedTheme]:
    """Return every theme of the batch, also those without an environment.

    An item that is no theme (a text, an environment) is drawn as the environment that it became.
    """
    assert scope.batch is not None
    items = BatchItem.objects.filter(batch=scope.batch, level="theme").order_by("id")
    version_by_item: dict[int, Any] = {
        row["item"]: row
        for row in scope.products("theme")
        .filter(version__isnull=False)
        .values("item", "environment", "environment__name", "environment__summary", "environment__category")
        .order_by("item")[: most + 1]
    }
    heads = list(_read_spec(items)[: most + 1])
    untold = [pk for pk, _, _, name, *_ in heads if not name and pk not in version_by_item]
    texts = dict(BatchItem.objects.filter(pk__in=untold).values_list("pk", "spec"))
    themes = []
    for pk, path, state, name, description, category in heads:
        row = version_by_item.get(pk)
        address = reverse("environments:detail", args=[row["environment"]]) if row else ""
        if not name:
            name = row["environment__name"] if row else path
            description = row["environment__summary"] if row else (texts.get(pk) or {}).get("text")
        category = category or (row["environment__category"] if row else "")
        text, url = f"{name}. {description or ''}"[:READ], reverse("batches:item", args=[pk])
        themes.append(PlacedTheme(name, text, url, state, address, (category,) if category else ()))
    return themes
