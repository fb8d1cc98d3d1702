"""Readiness of a batch before it starts: the items that the scripted provider would refuse, and advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from synthesis.scripted import list_bundled_themes as bundled_themes
from synthesis.stages import ItemSpec
from synthesis.themes.keys import get_theme_key
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings

NAMED = 12
"""Number of refused items that are named; the others are counted."""
NAME_CHARS = 80
BUNDLED = "the bundled themes"


@dataclass(frozen=True)
class Readiness:
    """`refused` of `total` items cannot run, because `roles` are played by the scripted provider, which has `replies`
    for some themes alone. `names` are those of the first refused items."""

    total: int = 0
    refused: int = 0
    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    replies: str = BUNDLED

    @property
    def can_run(self) -> bool:
        """True if at least one item can run, as far as is known."""
        return not self.refused or self.total > self.refused

    @property
    def unnamed(self) -> int:
        return self.refused - len(self.names)

    @property
    def advice(self) -> str:
        """The refused items, the reason and advice; empty if nothing is refused."""
        if not self.refused:
            return ""
        counted = f"{self.refused:,} of {self.total:,} items" if self.can_run else "No item can run; all"
        named = ", ".join(self.names) + (f" and {self.unnamed:,} more" if self.unnamed else "")
        return (
            f"{counted} will be refused: {named}. The scripted provider plays {', '.join(self.roles)} and has "
            f"replies for {self.replies} alone. Give every role a model, or leave these items out."
        )


def check_readiness(specs: Iterable[ItemSpec], settings: BatchSettings) -> Readiness:
    """Find the items that the scripted provider refuses. `settings` name the model of every role."""
    items = list(specs)
    roles = tuple(role for role in ROLES if settings.models.get(role, SCRIPTED) == SCRIPTED)
    if not roles:
        return Readiness(len(items))
    written = bundled_themes(settings.variant)
    written_keys = {draft.key for draft in written}
    refused = [spec for spec in items if get_theme_key(spec.key) not in written_keys]
    names = tuple(name_item(spec) for spec in refused[:NAMED])
    has_all = len(written) == len(bundled_themes())
    replies = BUNDLED if has_all else f"{', '.join(draft.name for draft in written)} in the variant {settings.variant}"
    return Readiness(len(items), len(refused), names, roles if refused else (), replies)


def name_item(spec: ItemSpec) -> str:
    """Return the name of the theme or environment that an item begins with, or the start of its text."""
    named = spec.theme or spec.environment
    name = named.name if named else spec.text
    return " ".join(name.split())[:NAME_CHARS] or spec.key
