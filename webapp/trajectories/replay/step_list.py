"""The step list. Its lines are written here and not by a template: a run may have thousands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from synthesis.contracts import INJECTED
from webapp.common.templatetags.show import visible
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.replay.queries import ICONS

RAIL_WINDOW = 3_000
ONLY = ("all", "user", "message", "query", "change", "flips", "changes", "errors", "injected", "user calls", "diverged")
ONLY_FOREIGN = ("all", "system", "user", "message", "call")
"""Of a trajectory without an environment."""
CHOICES = tuple(dict.fromkeys((*ONLY, *ONLY_FOREIGN)))
DIVERGED = (
    '<b class="warn" title="The reproduced observation differs from the recorded one">≠'
    '<span class="visually-hidden"> diverged</span></b> '
)


@dataclass(frozen=True)
class RailRow:
    """One line of the step list."""

    index: int
    kind: str
    icon: str
    name: str
    up: int
    down: int
    changes: int
    error: str
    diverged: bool
    hidden: bool
    ran: bool = True
    cut: bool = False
    """The turn was broken off: see `Step.cut`."""
    injected: bool = False
    """A disturbance struck the call: see `Step.injected`."""
    by_user: bool = False
    """The simulated user made the call, with a tool of its own."""
    is_lost: bool = False
    """The agent read an injected error in place of a result."""

    @property
    def marks(self) -> str:
        """Letters that the script uses to filter and to jump."""
        flags = (
            ("f", self.up or self.down), ("c", self.changes), ("e", self.error), ("d", self.diverged),
            ("i", self.injected), ("u", self.by_user),
        )  # fmt: skip
        return "".join(letter for letter, on in flags if on)


def matches_filter(only: str, row: tuple[Any, ...], flipped: bool) -> bool:
    kind, error, matches, changed, injected, by_user = row
    return {
        "flips": flipped,
        "changes": changed,
        "errors": bool(error),
        "injected": injected,
        "user calls": by_user,
        "diverged": matches is False,
    }.get(only, only in ("all", kind))


def build_rail(
    trajectory: Trajectory, flips: dict[int, tuple[int, int]], current: int, only: str, tool: str
) -> tuple[list[RailRow], int, int]:
    """Return the rows of the step list and their window [first, last): the whole list, except for very long runs."""
    first, last = 0, trajectory.step_count
    rows = Step.objects.filter(trajectory=trajectory)
    if trajectory.step_count > RAIL_WINDOW:
        first = max(0, min(current - RAIL_WINDOW // 4, trajectory.step_count - RAIL_WINDOW // 2))
        last = min(first + RAIL_WINDOW // 2, trajectory.step_count)
        rows = rows.filter(index__gte=first, index__lt=last)
    rail_rows = []
    for index, kind, name, ok, error_kind, matches, changed, cut, injection, by in rows.order_by("index").values_list(
        "index", "kind", "tool", "ok", "error_kind", "matches", "change_count", "cut", "injected", "by"
    ):
        up, down = flips.get(index, (0, 0))
        error = (error_kind or "error") if ok is False and error_kind not in INJECTED else ""
        filter_facts = (kind, error, matches, bool(changed), injection is not None, by == CallBy.USER)
        is_shown = matches_filter(only, filter_facts, index in flips) and tool in ("", name)
        rail_rows.append(
            RailRow(
                index=index,
                kind=kind,
                icon=ICONS.get(kind, "○"),  # type: ignore[call-overload]
                name=name or ("task" if index == 0 and kind == StepKind.USER else kind),
                up=up,
                down=down,
                changes=changed,
                error=error,
                diverged=matches is False,
                hidden=not is_shown,
                ran=ok is not None,
                cut=bool(cut),
                injected=injection is not None,
                by_user=by == CallBy.USER,
                is_lost=error_kind in INJECTED,
            )
        )
    return rail_rows, first, last


def list_used_tools(rows: list[RailRow]) -> list[str]:
    return sorted({row.name for row in rows if row.kind in (StepKind.QUERY, StepKind.CHANGE, StepKind.CALL)})[:200]


def format_outcome(row: RailRow) -> str:
    """Return the right end of a line: what the step did."""
    markup = DIVERGED if row.diverged else ""
    if row.by_user:
        markup += '<span class="tag" title="The simulated user made this call">user</span> '
    if row.cut:
        markup += '<span class="warn">cut</span> '
    if row.error:
        markup += '<span class="bad">error</span> '
    if row.injected:
        markup += '<span class="warn">injected</span> '
    if row.up:
        markup += f'<span class="good">▲{row.up}</span> '
    if row.down:
        markup += f'<span class="bad">▼{row.down}</span>'
    if row.up or row.down or row.error or (row.is_lost and not row.changes):
        return markup
    if row.changes:
        return f'{markup}<span class="muted">{row.changes} change{"" if row.changes == 1 else "s"}</span>'
    if row.kind not in (StepKind.QUERY, StepKind.CHANGE):
        return markup
    word = "not run" if not row.ran else "read" if row.kind == StepKind.QUERY else "no change"
    return f'{markup}<span class="muted">{word}</span>'


def render_lines(rows: list[RailRow], current: int, base: str) -> SafeString:
    """Return the list's items; `base` is the query that every link keeps."""
    start = escape(f"?{base}step=")
    names: dict[str, str] = {}
    items = []
    for row in rows:
        name = names.get(row.name) or names.setdefault(row.name, visible(row.name))
        now = ' aria-current="step"' if row.index == current else ""
        hidden = " hidden" if row.hidden and not now else ""
        items.append(
            f'<li{hidden}><a href="{start}{row.index}" data-step="{row.index}" '
            f'data-kind="{row.kind}" data-marks="{row.marks}"{now}><span class="n">{row.index}</span>'
            f'<span class="i" aria-hidden="true">{row.icon}</span><span class="k">'
            f'<span class="visually-hidden">{row.kind}{" by the user" if row.by_user else ""} </span>{name}</span>'
            f'<span class="f">{format_outcome(row)}</span></a></li>'
        )
    return mark_safe("\n".join(items))
