"""plotly.js out of the plotly wheel, as the one static file of it that is served: `vendor/plotly.min.js`."""

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
def bundle() -> Path | None:
    """Where the wheel has its bundle, found without importing it; None where it is not installed."""
    spec = find_spec("plotly")
    places = [Path(place) / "package_data" for place in (spec.submodule_search_locations or [])] if spec else []
    return next((place / "plotly.min.js" for place in places if (place / "plotly.min.js").exists()), None)


@lru_cache
def map_style_id() -> str:
    """The id under which the bundle would add the style sheet of its street maps, unless an element has it.

    The content security policy refuses that sheet, and the browser's console would say so on every page.
    """
    path = bundle()
    match = STYLE_ID.search(path.read_bytes()) if path else None
    return match.group(1).decode() if match else ""


class PlotlyFinder(BaseFinder):
    """Finds the bundle for `{% static %}`, the development server and `collectstatic`."""

    def check(self, **options: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **options: Any) -> Any:
        place = str(bundle()) if path == NAME and bundle() else None
        if find_all:
            return [place] if place else []
        return place or []

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        path = bundle()
        if path is not None:
            storage = FileSystemStorage(location=str(path.parent))
            storage.prefix = "vendor"  # type: ignore[attr-defined]
            yield path.name, storage
