"""Static file finder for plotly.js out of the plotly wheel; it serves one file of it: `vendor/plotly.min.js`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

NAME = "vendor/plotly.min.js"
STYLE_ID = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


@lru_cache
def find_bundle() -> Path | None:
    """Return the path of the wheel's bundle, found without importing it; None if it is not installed."""
    spec = find_spec("plotly")
    places = [Path(place) / "package_data" for place in (spec.submodule_search_locations or [])] if spec else []
    return next((place / "plotly.min.js" for place in places if (place / "plotly.min.js").exists()), None)


@lru_cache
def find_map_style_id() -> str:
    """Return the id under which the bundle would add the style sheet of its street maps, unless an element has it.

    The content security policy refuses that sheet, and the browser's console would report it on every page.
    """
    path = find_bundle()
    match = STYLE_ID.search(path.read_bytes()) if path else None
    return match.group(1).decode() if match else ""


class PlotlyFinder(BaseFinder):
    """Finder of the bundle for `{% static %}`, the development server and `collectstatic`."""

    def check(self, **options: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **options: Any) -> Any:
        place = str(find_bundle()) if path == NAME and find_bundle() else None
        if find_all:
            return [place] if place else []
        return place or []

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        path = find_bundle()
        if path is not None:
            storage = FileSystemStorage(location=str(path.parent))
            storage.prefix = "vendor"  # type: ignore[attr-defined]
            yield path.name, storage
