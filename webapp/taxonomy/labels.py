"""Conversion of labels and categories to places in the tree."""

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
"""The first-level labels of MCP servers (TOUCAN). A category of another name is next to them under its own name."""
NO_CATEGORY = "No category"
"""Where that hangs which came without a category: shown last, never left out."""
NAME = 200
Path = tuple[str, ...]


def fold_name(name: str) -> str:
    """Return a name as names are compared: composed, one line, without case; never with the separator."""
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
KNOWN = {fold_name(name): name for name in FIRST_LEVEL}
KNOWN |= {fold_name(word): name for name, words in OTHER_WORDS.items() for word in words}
LAST = {fold_name("Others"): 1, fold_name(NO_CATEGORY): 2}


def format_path(path: Path) -> str:
    return SEPARATOR.join(fold_name(name) for name in path)


def rank_name(name: str) -> int:
    """Return 0, or more for the names that come after all others."""
    return LAST.get(fold_name(name), 0)


def build_path(names: Iterable[str]) -> Path:
    """Return labels from general to specific as a path, each once; the first one as the known list calls it."""
    labels: dict[str, str] = {}
    for name in names:
        line = " ".join(name.split())[:NAME]
        if not labels:
            line = KNOWN.get(fold_name(line), line)
        if fold_name(line):
            labels.setdefault(fold_name(line), line)
    return tuple(labels.values())[:LEVELS] or (NO_CATEGORY,)


def build_category_path(category: str) -> Path:
    """Return the path of an environment's category, which is a label of the first level."""
    return build_path([category])


def build_theme_path(primary: str, secondary: Iterable[str], custom: str) -> Path:
    """Return the path of a theme: its primary label, the first secondary one that differs, its own.

    Without a primary label it has no category, whatever else it is called.
    """
    if not fold_name(primary):
        return build_path([])
    second = next((label for label in secondary if fold_name(label) not in ("", fold_name(primary))), "")
    return build_path([primary, second, custom])
