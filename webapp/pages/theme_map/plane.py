"""Theme map: themes on a plane by the likeness of their words, coloured by label, and which have grown."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from synthesis.themes.layout import MapPosition, compute_layout
from webapp.batches.models import ItemState
from webapp.common.frequencies import rank_by_count
from webapp.pages.models import ThemeLayout
from webapp.pages.statistics.scope import Scope
from webapp.pages.theme_map.placed_themes import PlacedTheme, list_themes

VERSION = 1
"""Raised if `layout` places texts otherwise."""
MOST_KEPT = 50
QUICK_UP_TO = 300
"""Number of texts that are placed in a part of a second."""


def has_quick_layout(texts: Sequence[str]) -> bool:
    """Return whether the texts are placed at once: they are few, or were placed before."""
    return len(texts) <= QUICK_UP_TO or ThemeLayout.objects.filter(pk=_compute_layout_key(texts)).exists()


def load_layout(texts: Sequence[str]) -> list[MapPosition]:
    """Return the places of the texts; the first time this takes as long as `layout`."""
    key = _compute_layout_key(texts)
    row = ThemeLayout.objects.filter(pk=key).first()
    if row is not None:
        return [MapPosition(*place) for place in row.places]
    places = compute_layout(texts)
    if len(texts) > 1:
        _store_layout(key, places)
    return places


def _store_layout(key: str, places: list[MapPosition]) -> None:
    rows = [(round(x, 4), round(y, 4), near, round(likeness, 4)) for x, y, near, likeness in map(astuple, places)]
    ThemeLayout.objects.bulk_create([ThemeLayout(key=key, places=rows)], ignore_conflicts=True)
    newest = ThemeLayout.objects.order_by("-at").values("pk")[:MOST_KEPT]
    ThemeLayout.objects.exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()


def _compute_layout_key(texts: Sequence[str]) -> str:
    digest = hashlib.sha256(str(VERSION).encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


MOST = 5_000
NUMBERED = 60
"""More points would cover each other's numbers."""
MARGIN = 4.0
COLOURED = 8
"""Labels that have a colour of their own, the largest ones; more colours cannot be distinguished."""
NAMED_FROM = 3
"""Labels of fewer themes have no name on the plane."""
NEAR = 0.12
TEXT_WIDTH, TEXT_HEIGHT = 0.2, 0.04
"""Room of a label's name, as shares of the plane."""
NO_LABEL = "no label"


@dataclass(frozen=True)
class MapChoice:
    """Selection of a user: the themes of one first-level label, `alone` or among all, and those whose name or text
    holds `find`."""

    label: str = ""
    alone: bool = False
    find: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.find or (self.label and not self.alone))


@dataclass(frozen=True)
class Point:
    number: int
    theme: PlacedTheme
    place: MapPosition
    nearest: PlacedTheme | None
    label: str
    colour: int
    """From 1 to `COLOURED`; 0 for labels without a colour of their own."""
    chosen: bool = True
    """Whether it is among what the user looks at."""

    @property
    def tab_index(self) -> int:
        """0 for the first point, which is the map's stop of the Tab key, -1 for others."""
        return 0 if self.number == 1 else -1

    @property
    def left(self) -> str:
        """Percent from the left of the drawing."""
        return format_percent(self.place.x)

    @property
    def top(self) -> str:
        return format_percent(self.place.y)


@dataclass(frozen=True)
class MapLabel:
    """An entry of the legend. `left` and `top` are the place of its name on the plane, empty if it has none."""

    name: str
    count: int
    colour: int
    left: str = ""
    top: str = ""


@dataclass(frozen=True)
class ThemeMap:
    points: list[Point]
    labels: list[MapLabel]
    """Those with a colour, the largest first, then the others."""
    more: bool
    """Whether there are more than the `MOST` that are placed: of the taxonomy the newest, of a batch the first."""

    @property
    def numbered(self) -> bool:
        return len(self.points) <= NUMBERED

    @property
    def height(self) -> int:
        """Height of the drawing in pixels."""
        return 420 if self.numbered else 520 if len(self.points) <= 300 else 640

    @property
    def dropped(self) -> bool:
        """True if a theme did not become an environment."""
        return any(point.theme.state != ItemState.KEPT for point in self.points)

    @property
    def coloured(self) -> list[MapLabel]:
        return [label for label in self.labels if label.colour]

    @property
    def uncoloured(self) -> list[MapLabel]:
        return [label for label in self.labels if not label.colour]

    @property
    def uncoloured_count(self) -> int:
        """Themes of labels without a colour of their own."""
        return sum(label.count for label in self.uncoloured)

    @property
    def chosen(self) -> list[Point]:
        return [point for point in self.points if point.chosen]


def list_map_themes(scope: Scope, choice: MapChoice) -> tuple[list[PlacedTheme], bool]:
    """Return the themes that are placed, and whether there are more."""
    themes = list_themes(scope, MOST)
    shown_themes = themes[:MOST]
    if choice.alone:
        shown_themes = [theme for theme in shown_themes if name_label(theme, 0) == choice.label]
    return shown_themes, len(themes) > MOST


def is_quickly_placed(themes: Sequence[PlacedTheme]) -> bool:
    return has_quick_layout([theme.text for theme in themes])


def draw_theme_map(themes: Sequence[PlacedTheme], more: bool, choice: MapChoice) -> ThemeMap:
    """Draw themes; the first time for these texts it takes as long as `layout`."""
    places = load_layout([theme.text for theme in themes])
    depth = 1 if choice.alone else 0
    names = [name_label(theme, depth) for theme in themes]
    counts = rank_by_count(Counter(names))
    colours = {name: at for at, (name, _) in enumerate(counts[:COLOURED], start=1)}
    points = [
        Point(
            at,
            theme,
            place,
            themes[place.nearest] if place.nearest is not None else None,
            name,
            colours.get(name, 0),
            is_chosen(theme, choice),
        )
        for at, (theme, place, name) in enumerate(zip(themes, places, names, strict=True), start=1)
    ]
    return ThemeMap(points, _place_labels(counts, colours, points, choice), more)


def name_label(theme: PlacedTheme, depth: int) -> str:
    """Return the label that colours a theme: the one at `depth`, or else the deepest above it."""
    return theme.labels[min(depth, len(theme.labels) - 1)] if theme.labels else NO_LABEL


def is_chosen(theme: PlacedTheme, choice: MapChoice) -> bool:
    if choice.label and name_label(theme, 0) != choice.label:
        return False
    return choice.find.casefold() in theme.text.casefold()


def _place_labels(
    counts: list[tuple[str, int]], colours: dict[str, int], points: list[Point], choice: MapChoice
) -> list[MapLabel]:
    """Place the name of each coloured label at the densest of its themes, below names that are there already.

    If the user chose a label among all, only its name is shown.
    """
    only = "" if choice.alone else choice.label
    taken: list[tuple[float, float]] = []
    labels = []
    for name, count in counts:
        colour = colours.get(name, 0)
        is_named = name == only if only else colour and count >= NAMED_FROM
        if not is_named or len(points) <= NUMBERED:
            labels.append(MapLabel(name, count, colour))
            continue
        x, y = _find_densest([(one.place.x, one.place.y) for one in points if one.label == name])
        x = min(1 - TEXT_WIDTH / 2, max(TEXT_WIDTH / 2, x))
        while any(abs(x - left) < TEXT_WIDTH and abs(y - top) < TEXT_HEIGHT for left, top in taken):
            y += TEXT_HEIGHT if y < 0.9 else -0.5
        taken.append((x, y))
        labels.append(MapLabel(name, count, colour, format_percent(x), format_percent(y)))
    return labels


def _find_densest(places: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the middle of the places near the one with the most others around it."""
    import numpy

    points_array = numpy.array(places)
    near = numpy.hypot(*(points_array[:, None, :] - points_array[None, :, :]).transpose(2, 0, 1)) < NEAR
    x, y = points_array[near[near.sum(axis=1).argmax()]].mean(axis=0)
    return float(x), float(y)


def format_percent(share: float) -> str:
    """Return the place of a share of the plane inside its margins, for SVG."""
    return f"{MARGIN + share * (100 - 2 * MARGIN):.2f}%"
