"""The theme map: environments, or a batch's themes, on a plane by how alike they are in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.urls import reverse

from synthesis.themes.layout import Place, layout
from webapp.batches.models import BatchItem, ItemState
from webapp.pages.ecosystem import Scope

MOST = 300
NUMBERED = 60
"""More points would cover each other's numbers."""
READ = 2_000
"""Characters of a description that are compared."""
MARGIN = 6.0


@dataclass(frozen=True)
class Named:
    """A theme to be placed. `state` is that of its item, `kept` where an environment is there."""

    name: str
    text: str
    url: str
    state: str


@dataclass(frozen=True)
class Point:
    number: int
    theme: Named
    place: Place
    nearest: Named | None

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
    """Whether there are more than the `MOST` that are placed: of all the newest, of a batch the first."""

    @property
    def numbered(self) -> bool:
        return len(self.points) <= NUMBERED

    @property
    def dropped(self) -> bool:
        """Whether some theme did not become an environment."""
        return any(point.theme.state != ItemState.KEPT for point in self.points)


def theme_map(scope: Scope) -> ThemeMap:
    """In one or two queries; the first time for these texts it takes what `layout` takes."""
    found = _of_batch(scope) if scope.batch else _of_all(scope)
    shown = found[:MOST]
    places = _placed(tuple(theme.text for theme in shown))
    points = [
        Point(at, theme, place, shown[place.nearest] if place.nearest is not None else None)
        for at, (theme, place) in enumerate(zip(shown, places, strict=True), start=1)
    ]
    return ThemeMap(points, len(found) > MOST)


@lru_cache(maxsize=8)
def _placed(texts: tuple[str, ...]) -> list[Place]:
    return layout(texts)


def _of_all(scope: Scope) -> list[Named]:
    rows = scope.environments().order_by("-id").values_list("pk", "name", "summary", "current__introduction")
    return [
        Named(name, f"{name}. {summary} {about}"[:READ], reverse("environments:detail", args=[pk]), ItemState.KEPT)
        for pk, name, summary, about in rows[: MOST + 1]
    ]


def _of_batch(scope: Scope) -> list[Named]:
    """Every theme of the batch, also those that came to nothing."""
    assert scope.batch is not None
    items = BatchItem.objects.filter(batch=scope.batch, level="theme").order_by("id")
    made: dict[int, Any] = {
        row["item"]: row
        for row in scope.products("theme")
        .filter(version__isnull=False)
        .values("item", "environment", "environment__name", "environment__summary", "version__introduction")
        .order_by("item")[: MOST + 1]
    }
    heads = items.values_list("pk", "path", "state")[: MOST + 1]
    unmade = [pk for pk, _, _ in heads if pk not in made]
    specs = dict(BatchItem.objects.filter(pk__in=unmade).values_list("pk", "spec"))
    return [
        _made(made[pk], state) if pk in made else _unmade(pk, path, specs.get(pk) or {}, state)
        for pk, path, state in heads
    ]


def _made(row: dict[str, Any], state: str) -> Named:
    name = row["environment__name"]
    text = f"{name}. {row['environment__summary']} {row['version__introduction']}"
    return Named(name, text[:READ], reverse("environments:detail", args=[row["environment"]]), state)


def _unmade(pk: int, path: str, spec: dict[str, Any], state: str) -> Named:
    theme = spec.get("theme") or {}
    name = theme.get("name") or path
    text = f"{name}. {theme.get('description') or spec.get('text') or ''}"
    return Named(name, text[:READ], reverse("batches:item", args=[pk]), state)
