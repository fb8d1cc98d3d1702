"""Errands of scripted tasks of the variant `walk`, by theme.

For each call that a walk may reach: the user's words, the answer requested, and the facts that hold afterwards. Walks
lead along a theme's strong edges (`STRONG`), weak ones (`WEAK`) and between any two tools. The author reviews a walk to
the calls that it has an errand for; the teacher recognises errands in words.
"""

from synthesis.scripted.errands import badge_desk, radio_rundown
from synthesis.scripted.errands.errand import Edges, Errand

ERRANDS: dict[str, tuple[Errand, ...]] = {
    "badge-desk": badge_desk.ERRANDS,
    "radio-rundown": radio_rundown.ERRANDS,
}
STRONG: dict[str, Edges] = {"badge-desk": badge_desk.STRONG, "radio-rundown": radio_rundown.STRONG}
"""By source tool, the (tool, parameter) pairs that rely on its outputs."""
WEAK: dict[str, Edges] = {"badge-desk": badge_desk.WEAK, "radio-rundown": radio_rundown.WEAK}
"""By source tool, the (tool, parameter) pairs that its outputs may go into as well."""

__all__ = ["ERRANDS", "STRONG", "WEAK", "Edges", "Errand"]
