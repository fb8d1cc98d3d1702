"""Rooms and names: no folder is crowded, modules are named by what they are, views are called so."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.architecture.source_files import ROOT, sources, tree_of

HOUSE = ("webapp", "synthesis", "training")
MOST_MODULES = 25
FIELD = {"embedding", "encoding", "matching", "paging", "sampling", "training"}
"""Words of the field that end like an activity and name a thing."""
IMPERATIVES = {"prepare_training"}
"""Commands of `manage.py` say what they do, as Django's own."""


def test_no_folder_is_crowded() -> None:
    counted = Counter(path.parent for path in sources(*HOUSE, "tests") if path.parent.name != "migrations")
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in counted.items() if count > MOST_MODULES}
    assert not crowded, f"give it rooms: {crowded}"


def test_modules_are_named_by_what_they_are() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources(*HOUSE)
        if path.stem.endswith("ing") and path.stem not in FIELD | IMPERATIVES
    ]
    wrong += [str(path.relative_to(ROOT)) for path in sources("webapp") if re.match(r"views(_|$)", path.stem)]
    assert not wrong, f"name the thing, and views <thing>_views.py: {wrong}"


def first_line(path: Path) -> str:
    return (ast.get_docstring(tree_of(path)) or "").partition("\n")[0]


def test_every_package_says_what_it_is() -> None:
    rooms = [path for path in sources(*HOUSE) if path.name == "__init__.py"]
    silent = [
        str(path.relative_to(ROOT))
        for path in rooms
        if not first_line(path) and not {"migrations", "management", "commands"} & set(path.parts)
    ]
    assert not silent
