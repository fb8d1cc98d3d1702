"""The theme map: the taxonomy's themes, or a batch's, on a plane by how alike they are in words, and which of them have
grown an environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from django.db.models import TextField
from django.db.models.expressions import RawSQL
from django.urls import reverse

from synthesis.errors import InputError
from synthesis.themes.keys import slug
from synthesis.themes.layout import MapPosition, layout
from webapp.batches.engine.products import SCRIPTED_SOURCE, SOURCE
from webapp.batches.models import Batch, BatchItem, ItemState
from webapp.pages.statistics.scope import Scope
from webapp.taxonomy.models import Origin, Theme
from webapp.taxonomy.theme_services import draft_of

MOST = 300
NUMBERED = 60
"""More points would cover each other's numbers."""
READ = 2_000
"""Characters of a description that are compared."""
MARGIN = 6.0
BATCHES = 50
"""Of so many batches, the newest, themes are drawn that the taxonomy does not keep: bundled and typed ones."""


@dataclass(frozen=True)
class PlacedTheme:
    """A theme to be placed. `state` is that of its item in the batch; of all themes it is `kept` where one has grown an
    environment, and `waiting` where it has not. `environment` is the address of what has grown."""

    name: str
    text: str
    url: str
    state: str
    environment: str = ""


@dataclass(frozen=True)
class Point:
    number: int
    theme: PlacedTheme
    place: MapPosition
    nearest: PlacedTheme | None

    @property
    def left(self) -> float:
        """Percent from the left of the drawing."""
        return round(MARGIN + self.place.x * (100 - 2 * MARGIN), 2)

    @property
    def top(self) -> float:
        return round(MARGIN + self.place.y * (100 - 2 * MARGIN), 2)


@dataclass(frozen=True)
class ThemeMap:
    points: list[Point]
    more: bool
    """Whether there are more than the `MOST` that are placed: of the taxonomy the newest, of a batch the first."""

    @property
    def numbered(self) -> bool:
        return len(self.points) <= NUMBERED

    @property
    def dropped(self) -> bool:
        """Whether some theme did not become an environment."""
        return any(point.theme.state != ItemState.KEPT for point in self.points)


def theme_map(scope: Scope) -> ThemeMap:
    """In a few queries; the first time for these texts it takes what `layout` takes."""
    themes = _of_batch(scope) if scope.batch else _of_all(scope)
    shown = themes[:MOST]
    places = _placed(tuple(theme.text for theme in shown))
    points = [
        Point(at, theme, place, shown[place.nearest] if place.nearest is not None else None)
        for at, (theme, place) in enumerate(zip(shown, places, strict=True), start=1)
    ]
    return ThemeMap(points, len(themes) > MOST)


@lru_cache(maxsize=8)
def _placed(texts: tuple[str, ...]) -> list[MapPosition]:
    return layout(texts)


def _of_all(scope: Scope) -> list[PlacedTheme]:
    """Themes that the taxonomy keeps, newest first, then those that only batches know. The statistics' filters are of
    environments: with one, the themes that have grown such."""
    rows = (
        Theme.objects.filter(folded_into=None)
        .order_by("-id")
        .only("name", "description", "key", "origin", "content_hash")
    )
    kept = list(rows[: MOST + 1])
    keys = _keys(kept)
    others = _others(MOST + 1 - len(kept), set(keys.values()))
    environments = _grown(scope, [*keys.values(), *(key for key, _ in others)])
    themes = [(keys.get(row.pk, ""), _named(row)) for row in kept] + others
    shown = []
    for key, theme in themes:
        if key in environments:
            shown.append(replace(theme, state=ItemState.KEPT, environment=environments[key]))
        elif not scope.narrowed:
            shown.append(replace(theme, state=ItemState.WAITING))
    return shown


def _named(row: Theme) -> PlacedTheme:
    return PlacedTheme(row.name, f"{row.name}. {row.description}"[:READ], reverse("taxonomy:theme", args=[row.pk]), "")


def _others(most: int, known: set[str]) -> list[tuple[str, PlacedTheme]]:
    """Key and theme of what the newest batches began with and the taxonomy does not keep."""
    if most <= 0:
        return []
    newest = list(Batch.objects.order_by("-id").values_list("pk", flat=True)[:BATCHES])
    rows = _told(BatchItem.objects.filter(batch__in=newest, level="theme").order_by("-id"))
    by_key: dict[str, PlacedTheme] = {}
    for pk, path, _, name, description in rows.exclude(name=None)[: most * 2]:
        key = slug(path)
        if key not in known:
            by_key.setdefault(
                key, PlacedTheme(name, f"{name}. {description}"[:READ], reverse("batches:item", args=[pk]), "")
            )
    return list(by_key.items())[:most]


def _told(rows: Any) -> Any:
    """Number, path, state, and the name (None: it is no theme) and description of what an item began with."""
    fields = ("name", "description")
    about = {field: RawSQL(f"spec #>> '{{theme,{field}}}'", (), output_field=TextField()) for field in fields}
    return rows.annotate(**about).values_list("pk", "path", "state", "name", "description")


def _grown(scope: Scope, keys: Iterable[str]) -> dict[str, str]:
    """By key of a theme, the address of the environment that batches grew from it."""
    rows = scope.environments().filter(source__in=(SOURCE, SCRIPTED_SOURCE), key__in=list(keys)).order_by("pk")
    return {key: reverse("environments:detail", args=[pk]) for key, pk in rows.values_list("key", "pk")}


_KEYS: dict[tuple[int, str], str] = {}
"""By theme and content: a server's key is a hash of all that it says, which is read once."""
REMEMBERED = 10_000


def _keys(rows: list[Theme]) -> dict[int, str]:
    """By theme, the key of the environments that grow from it; none of a server that says nothing."""
    servers = [row.pk for row in rows if row.origin == Origin.SERVERS and (row.pk, row.content_hash) not in _KEYS]
    if len(_KEYS) > REMEMBERED:
        _KEYS.clear()
    for row in Theme.objects.filter(pk__in=servers).prefetch_related("tools"):
        try:
            _KEYS[row.pk, row.content_hash] = slug(draft_of(row).key)
        except InputError:
            _KEYS[row.pk, row.content_hash] = ""
    known = {row.pk: _KEYS.get((row.pk, row.content_hash), "") for row in rows}
    return known | {row.pk: slug(row.key) for row in rows if row.origin != Origin.SERVERS}


def _of_batch(scope: Scope) -> list[PlacedTheme]:
    """Every theme of the batch, also those that came to nothing. What it began with that is no theme (a text, an
    environment) is drawn as the environment that it became."""
    assert scope.batch is not None
    items = BatchItem.objects.filter(batch=scope.batch, level="theme").order_by("id")
    made: dict[int, Any] = {
        row["item"]: row
        for row in scope.products("theme")
        .filter(version__isnull=False)
        .values("item", "environment", "environment__name", "environment__summary")
        .order_by("item")[: MOST + 1]
    }
    heads = list(_told(items)[: MOST + 1])
    untold = [pk for pk, _, _, name, _ in heads if not name and pk not in made]
    texts = dict(BatchItem.objects.filter(pk__in=untold).values_list("pk", "spec"))
    themes = []
    for pk, path, state, name, description in heads:
        row = made.get(pk)
        address = reverse("environments:detail", args=[row["environment"]]) if row else ""
        if not name:
            name = row["environment__name"] if row else path
            description = row["environment__summary"] if row else (texts.get(pk) or {}).get("text")
        text = f"{name}. {description or ''}"[:READ]
        themes.append(PlacedTheme(name, text, reverse("batches:item", args=[pk]), state, address))
    return themes
