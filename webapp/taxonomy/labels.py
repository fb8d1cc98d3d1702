"""From labels and categories to places in the tree."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from webapp.taxonomy.models import LEVELS, SEPARATOR

FIRST_LEVEL = (
    "AI/ML Tools", "API Integration", "Browser Automation", "Cloud Services", "Communication Tools",
    "Content Creation", "Cryptocurrency & Blockchain", "Daily Productivity", "Data Analysis & Processing",
    "Database Operations", "Development Tools", "E-commerce", "Education", "File Management",
    "Financial Services", "Gaming", "Health & Fitness", "Memory Management", "News & Media", "Operating System",
    "Project Management", "Security & Authentication", "Social Media", "Time & Calendar", "Travel & Maps",
    "Weather", "Web Search & Research", "Others",
)  # fmt: skip
"""The first-level labels of MCP servers (TOUCAN). A category of another name stands beside them under its own."""
NO_CATEGORY = "No category"
"""Where that hangs which came without a category: shown last, never left out."""
NAME = 200
Path = tuple[str, ...]


def folded(name: str) -> str:
    """A name as names are compared: composed, one line, without case; never holding the separator."""
    text = unicodedata.normalize("NFKC", " ".join(name.split())).casefold()
    return text.replace(SEPARATOR.strip(), ">")[:NAME]


OTHER_WORDS = {
    "Development Tools": ("software", "software development"),
    "E-commerce": ("ecommerce", "retail", "shopping"),
    "Financial Services": ("finance", "banking"),
    "Gaming": ("games",),
    "Health & Fitness": ("health", "healthcare", "fitness"),
    "News & Media": ("news", "media"),
    "Others": ("other", "miscellaneous"),
    "Travel & Maps": ("travel", "maps"),
}
"""Our choice: plain words for a first-level label, so that environments and servers of one field meet."""
KNOWN = {folded(name): name for name in FIRST_LEVEL}
KNOWN |= {folded(word): name for name, words in OTHER_WORDS.items() for word in words}
LAST = {folded("Others"): 1, folded(NO_CATEGORY): 2}


def path_text(path: Path) -> str:
    return SEPARATOR.join(folded(name) for name in path)


def position(name: str) -> int:
    """0, or more for the names that stand after all others."""
    return LAST.get(folded(name), 0)


def path_of(names: Iterable[str]) -> Path:
    """Labels from general to specific as a path, each once; the first one as the known list calls it."""
    labels: dict[str, str] = {}
    for name in names:
        line = " ".join(name.split())[:NAME]
        if not labels:
            line = KNOWN.get(folded(line), line)
        if folded(line):
            labels.setdefault(folded(line), line)
    return tuple(labels.values())[:LEVELS] or (NO_CATEGORY,)


def path_of_category(category: str) -> Path:
    """An environment's category is a label of the first level."""
    return path_of([category])


def path_of_theme(primary: str, secondary: Iterable[str], custom: str) -> Path:
    """A theme hangs on the labels it has: its primary one, the first secondary one that differs, its own.

    Without a primary label it has no category, whatever else it is called.
    """
    if not folded(primary):
        return path_of([])
    second = next((label for label in secondary if folded(label) not in ("", folded(primary))), "")
    return path_of([primary, second, custom])
